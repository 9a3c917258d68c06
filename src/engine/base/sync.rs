//! Atomics, locks and queues for the files that run under loom. `tests/models` replaces this module
//! by one with loom's types.

pub(crate) use crate::engine::base::lockdep::{Mutex, MutexGuard};
pub(crate) use crossbeam_queue::ArrayQueue;
use crossbeam_utils::Backoff;
use std::cell::Cell;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::thread::yield_now;
use std::time::Duration;

/// Yields that take about as long as one `doze` with its wake-up, if nobody else wants the core.
const YIELDS: u32 = 128;

/// Waits for a thread that is in the middle of a short action, and that the kernel may have
/// preempted. Spins for longer and longer, then yields, and finally sleeps between two looks: the
/// other thread may have a lower priority, and then no yield lets it run. It does not sleep sooner,
/// because a thread that is busy may do dozens of such actions before this one gets a turn.
#[derive(Default)]
pub(crate) struct SpinWait {
    backoff: Backoff,
    yields: Cell<u32>,
}

impl SpinWait {
    #[cold]
    pub(crate) fn wait(&self) {
        if !self.backoff.is_completed() {
            self.backoff.snooze();
        } else if self.yields.get() < YIELDS {
            self.yields.set(self.yields.get() + 1);
            yield_now();
        } else {
            doze();
        }
    }
}

/// Spins for `pauses` pause instructions.
pub(crate) fn linger(pauses: u32) {
    (0..pauses).for_each(|_| spin_loop());
}

/// Sleeps a moment, where no thread will wake us.
pub(crate) fn doze() {
    std::thread::sleep(Duration::from_micros(50));
}

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Marks two SeqCst accesses of a thread whose order counts. Nothing to do on hardware. loom treats
/// SeqCst accesses as acquire and release, so its version of this is a fence.
#[inline(always)]
pub(crate) fn in_one_order() {}
