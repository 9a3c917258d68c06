//! The atomics, locks and queues of the files that the model checker runs: `tests/models` puts
//! loom's in their place.

pub(crate) use crate::engine::base::lockdep::{Mutex, MutexGuard};
pub(crate) use crossbeam_queue::ArrayQueue;
pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::{
    fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
pub(crate) use std::thread::yield_now;
use std::time::Duration;

/// Waits for a thread that is in the midst of something, and was perhaps taken off its core: looks
/// away for longer and longer, lets others run, and in the end sleeps between two looks.
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

/// Looks away for so long.
pub(crate) fn linger(pauses: u32) {
    (0..pauses).for_each(|_| spin_loop());
}

/// Sleeps a moment, where nobody will say when it is time.
pub(crate) fn doze() {
    std::thread::sleep(Duration::from_micros(50));
}

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Between two accesses of a thread that are both SeqCst already, where their order counts: nothing
/// is left to do. The model checker, which does less for SeqCst accesses, has a fence here.
#[inline(always)]
pub(crate) fn in_one_order() {}
