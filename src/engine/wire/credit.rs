//! What a message costs its receiver, in the numbers that both sides reckon with. See
//! `core::endpoint::credits`.
#![deny(unsafe_code)]

/// Messages that may be on their way or unreceived, for each connection.
pub(crate) const MESSAGES: u16 = 256;
/// What a message is charged for, in bytes; and one more for itself.
pub(crate) const UNIT: usize = 1024;
/// What a message costs that is shorter than that.
pub(crate) const LEAST: u16 = 1;
/// The same in memory: 8 MiB beside what the messages themselves take.
pub(crate) const UNITS: u16 = 8192 + MESSAGES;
/// The peer is told when it has got back a quarter.
pub(crate) const ADVERTISE_AFTER: u16 = 4;

/// What a message of so many bytes costs that may be sent eagerly: never more than there is when as
/// much is gone as the peer need not have been told, so that each one can be sent when nothing else
/// is under way.
#[inline]
pub(crate) fn charge(length: usize) -> u16 {
    (1 + length / UNIT).min((UNITS - UNITS / ADVERTISE_AFTER) as usize) as u16
}

/// More than this does not come along with a question, as its receiver would have to hold it.
pub(crate) const LONGEST_QUESTION: usize = 8 << 20;
const _: () = assert!(LONGEST_QUESTION < UNITS as usize * UNIT);
