//! Atomics, locks and queues for the files that run under loom. `tests/models` replaces this module
//! by one with loom's types.

pub(crate) use crate::engine::base::lockdep::{Mutex, MutexGuard};
pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::thread::yield_now;
use std::time::Duration;

/// Waits for a thread that is in the middle of a short action, and that the kernel may have
/// preempted. Spins for longer and longer, then yields, and finally sleeps between two looks.
#[derive(Default)]
pub(crate) struct SpinWait(crossbeam_utils::Backoff);

impl SpinWait {
    #[cold]
    pub(crate) fn wait(&self) {
        match self.0.is_completed() {
            false => self.0.snooze(),
            true => doze(),
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
