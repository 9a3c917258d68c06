//! The word that says what a pass has to do in addition to UCP's progress.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

// The bits.
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
/// The monitor asks for a description.
pub(crate) const INQUIRY: u32 = 256;
/// A protocol has something to do: the first of these bits, which are in the order of the list.
pub(crate) const FIRST_OF_PROTOCOLS: u32 = 1 << 16;

/// The bits above. The thread inside the gate reads and writes them like a cell.
///
/// Other threads may raise a bit, without the gate. It is lost if the thread inside is just writing
/// the word, so they do it again until what they want has happened. No bit of the thread inside is
/// ever lost.
#[derive(Default)]
pub(crate) struct Attention(AtomicU32);

impl Attention {
    #[inline(always)]
    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub(crate) fn set(&self, bits: u32) {
        self.0.store(bits, Ordering::Relaxed);
    }

    /// Any thread. See above.
    pub(super) fn raise(&self, bits: u32) {
        self.0.fetch_or(bits, Ordering::SeqCst);
    }
}
