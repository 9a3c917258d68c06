//! Bits of `Worker::attention`.
#![deny(unsafe_code)]

pub(crate) const READY: u32 = 1;
pub(crate) const EVENTS: u32 = 2;
pub(crate) const TIMERS: u32 = 4;
pub(crate) const CHANGING: u32 = 8;
/// It is time to check whether a peer's process has ended.
pub(crate) const PEERS: u32 = 16;
/// It is time to check for silent peers.
pub(crate) const SILENCE: u32 = 32;
/// Send windows have changed.
pub(crate) const WINDOWS: u32 = 64;
/// Active messages have arrived.
pub(crate) const INBOX: u32 = 128;
/// A protocol has something to do: the first of these bits, which are in the order of the list.
pub(crate) const FIRST_OF_PROTOCOLS: u32 = 1 << 16;
