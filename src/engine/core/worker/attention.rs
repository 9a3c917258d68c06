//! The word that says what a pass has to do in addition to UCP's progress.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of `worker::attention`. The thread inside the gate reads and writes them like a cell.
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
