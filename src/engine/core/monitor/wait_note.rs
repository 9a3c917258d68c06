//! What a call waits for, noted for people by the thread that waits.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// What the latest call that waits is waiting for. Calls of several threads may wait at once: then
/// it is that of one of them.
#[derive(Default)]
pub(crate) struct WaitNote {
    /// 0, or a rank, and above its 32 bits what is awaited of it.
    what: AtomicU64,
    /// Calls that have waited so far, about: threads may overwrite each other's count.
    count: AtomicU64,
}

/// A call that waits.
pub(crate) struct Waits<'a>(&'a WaitNote);

impl WaitNote {
    /// A call is about to wait for `what`, which is not 0, of a rank.
    pub(crate) fn begin(&self, what: u32, rank: u32) -> Waits<'_> {
        self.count.store(self.count().wrapping_add(1), Ordering::Relaxed);
        self.what.store(u64::from(what) << 32 | u64::from(rank), Ordering::Relaxed);
        Waits(self)
    }

    /// What a call waits for, and of which rank.
    pub(crate) fn get(&self) -> Option<(u32, u32)> {
        let word = self.what.load(Ordering::Relaxed);
        (word != 0).then_some(((word >> 32) as u32, word as u32))
    }

    /// Changes when a call waits.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.what.store(0, Ordering::Relaxed);
    }
}
