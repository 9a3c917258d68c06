//! Flow control: what a message costs its receiver, computed equally by both sides. See
//! `core::endpoint::credits`.
#![deny(unsafe_code)]

/// Messages of a connection that may be in flight or unreceived.
pub(crate) const MESSAGES: u16 = 256;
/// Bytes that one unit stands for. Each message costs one unit more.
pub(crate) const UNIT: usize = 1024;
/// Cost of a message shorter than one unit.
pub(crate) const LEAST: u16 = 1;
/// Units of a connection: 8 MiB, beside the messages' own cost.
pub(crate) const UNITS: u16 = 8192 + MESSAGES;
/// The receiver sends a credit update when a quarter of the credit has become free.
pub(crate) const ADVERTISE_AFTER: u16 = 4;

/// Cost of an eager message of `length` bytes. At most the credit that is left while the receiver
/// may still hold back an update, so that every such message can be sent once nothing else is in
/// flight.
#[inline]
pub(crate) fn charge(length: usize) -> u16 {
    (1 + length / UNIT).min((UNITS - UNITS / ADVERTISE_AFTER) as usize) as u16
}

/// Longest data that a fetch request carries itself: its receiver would have to hold more.
pub(crate) const LONGEST_QUESTION: usize = 8 << 20;
const _: () = assert!(LONGEST_QUESTION < UNITS as usize * UNIT);
