//! Is there a progress thread, and do other threads leave UCP to it?
//!
//! `delays` and `running` are cleared inside the gate, before the ring is drained for the last
//! time. So a thread that sees them cleared and enters comes after everything that was put there
//! before; one that saw them set and was late looks again after pushing, and enters then, which
//! drains the ring.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicBool, AtomicU32, Ordering};

/// See the top of this file.
#[derive(Default)]
pub(crate) struct ThreadState {
    delays: AtomicBool,
    running: AtomicBool,
    used: AtomicBool,
    /// How many there have been.
    count: AtomicU32,
}

impl ThreadState {
    /// There has been a progress thread. Stays.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// There is one that progresses, or is about to.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// How many there have been: who was refused something because one was running may look whether
    /// that has gone since.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// There is one, and other threads go through ring and list.
    #[inline(always)]
    pub(crate) fn delays(&self) -> bool {
        self.delays.load(Ordering::Relaxed)
    }

    /// There will be one. Inside the gate: whoever completes an operation there afterwards sees
    /// that others may sleep on it, and nobody sleeps on one that is being completed by a thread
    /// that has not seen it.
    pub(crate) fn announce(&self) {
        self.used.store(true, Ordering::SeqCst);
    }

    /// It is about to start, and the list is open. Do others leave UCP to it?
    pub(crate) fn come(&self, delays: bool) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // First: who has left something in the ring because one runs does not go past the ring with
        // the next operation.
        self.delays.store(delays, Ordering::SeqCst);
        self.running.store(true, Ordering::SeqCst);
    }

    /// It goes, or could not be started. Inside the gate; the ring is drained afterwards, and
    /// waiters are disturbed.
    pub(crate) fn go(&self) {
        self.delays.store(false, Ordering::SeqCst);
        self.running.store(false, Ordering::SeqCst);
        // Either we find what a thread has pushed, or the mark of one that is about to sleep, or it
        // finds us gone.
        fence(Ordering::SeqCst);
    }
}
