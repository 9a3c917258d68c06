//! Wakes a thread that sleeps on a worker when another thread leaves work there without entering
//! the gate.
//!
//! A thread that leaves work sets its own mark and calls `give`. A thread that is about to sleep
//! announces it (`asleep`), and then reads the marks. So either it sees the mark, or `give` sees
//! the sleeper. `give` wakes a thread only if needed, because waking takes system calls.

use crate::engine::base::lockdep::Mutex;
use crate::engine::core::worker::worker::SharedWorker;
use std::sync::atomic::{AtomicBool, Ordering};

/// See the head of this file.
#[derive(Default)]
pub(crate) struct WakeHint {
    /// A thread sleeps on the worker, or is about to.
    asleep: AtomicBool,
    /// Held by a thread that wakes the worker; the worker's end waits for it. True after the end.
    ended: Mutex<bool>,
}

impl WakeHint {
    /// Before the last read of the marks.
    pub(crate) fn about_to_sleep(&self) {
        self.asleep.store(true, Ordering::SeqCst);
    }

    /// After a mark was set, in one total order (SeqCst) with `about_to_sleep`. Any thread.
    pub(crate) fn give(&self, worker: &SharedWorker) {
        if !self.asleep.load(Ordering::SeqCst) || !self.asleep.swap(false, Ordering::SeqCst) {
            return;
        }
        let ended = self.ended.lock();
        if !*ended {
            // Without WAKEUP no thread sleeps.
            let _ = worker.signal();
        }
    }

    /// Wakes no thread from now on: UCP's worker is about to be destroyed.
    pub(crate) fn end(&self) {
        *self.ended.lock() = true;
    }
}
