//! Wakes a thread that sleeps on a worker, for what other threads leave there without entering its
//! gate.
//!
//! A thread that leaves something sets a mark of its own and calls `give`. A thread that is about
//! to sleep announces it, and then reads the marks. So it either sees the mark, or `give` sees the
//! sleeper. `give` wakes nobody without need, as that takes system calls.

use crate::engine::base::lockdep::Mutex;
use crate::engine::core::worker::worker::SharedWorker;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct WakeHint {
    /// Somebody sleeps on the worker, or is about to.
    asleep: AtomicBool,
    /// Held by who wakes the worker, whose end waits for that. True after the end.
    ended: Mutex<bool>,
}

impl WakeHint {
    /// Before the marks are looked at for the last time.
    pub(crate) fn about_to_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// After a mark was set, in one order with the above. Any thread.
    pub(crate) fn give(&self, worker: &SharedWorker) {
        if !self.asleep.load(Ordering::SeqCst) || !self.asleep.swap(false, Ordering::SeqCst) {
            return;
        }
        let ended = self.ended.lock();
        if !*ended {
            // Without WAKEUP nobody sleeps.
            let _ = worker.signal();
        }
    }

    /// Nobody is woken any more: UCP's worker is about to go.
    pub(crate) fn end(&self) {
        *self.ended.lock() = true;
    }
}
