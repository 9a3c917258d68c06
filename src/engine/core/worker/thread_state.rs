//! Whether there is a progress thread, and whether other threads leave UCP to it.
//!
//! `delays` and `running` are cleared inside the gate, before the ring is drained for the last
//! time. A thread that sees them cleared enters the gate, after everything that was put into the
//! ring before. A thread that saw them set and was too late checks again after its push, and enters
//! then, which drains the ring.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicBool, AtomicU32, Ordering};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ThreadState {
    delays: AtomicBool,
    running: AtomicBool,
    used: AtomicBool,
    /// Number of progress threads so far.
    count: AtomicU32,
}

impl ThreadState {
    /// There has been a progress thread. Never cleared.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    /// There is one that makes progress, or is about to.
    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst)
    }

    /// Number of progress threads so far. A caller that was refused because one was running can
    /// check whether it has ended since.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::SeqCst)
    }

    /// There is one, and other threads use the ring and the control list.
    #[inline(always)]
    pub(crate) fn delays(&self) -> bool {
        self.delays.load(Ordering::Relaxed)
    }

    /// A progress thread will start. Called inside the gate. A thread that completes an operation
    /// there afterwards sees that other threads may sleep on it, and no thread sleeps on an
    /// operation that is completed without knowing that.
    pub(crate) fn announce(&self) {
        self.used.store(true, Ordering::SeqCst);
    }

    /// The thread is about to start, and the control list is open. `delays`: other threads leave
    /// UCP to it.
    pub(crate) fn come(&self, delays: bool) {
        self.count.fetch_add(1, Ordering::SeqCst);
        // Stored first: a thread that has put something into the ring, because a progress thread
        // runs, must not bypass the ring with its next operation.
        self.delays.store(delays, Ordering::SeqCst);
        self.running.store(true, Ordering::SeqCst);
    }

    /// The thread ends, or could not be started. Called inside the gate; afterwards the ring is
    /// drained and waiters are woken.
    pub(crate) fn go(&self) {
        self.delays.store(false, Ordering::SeqCst);
        self.running.store(false, Ordering::SeqCst);
        // Either this thread finds what another thread has pushed, or the mark of one that is about
        // to sleep, or that thread sees the flags cleared.
        fence(Ordering::SeqCst);
    }
}
