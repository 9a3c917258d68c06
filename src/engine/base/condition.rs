//! A condition variable whose sleepers come back when a signal handler has run on their thread.
#![deny(unsafe_code)]

use crate::engine::base::futex::{Slept, Word};
use crate::engine::base::sync::{lock, AtomicU32, Mutex, MutexGuard, Ordering};
use std::time::Duration;

/// What is waited for is looked at and changed under a mutex.
///
/// A sleeper counts itself and notes the number of changes before it leaves the mutex, and sleeps
/// on that number. One who has changed something has been in the mutex since: either it sees the
/// sleeper and moves the number, or the sleeper has seen the change.
pub(crate) struct Condition {
    changes: Word,
    sleepers: AtomicU32,
}

impl Default for Condition {
    fn default() -> Self {
        Condition { changes: Word::new(0), sleepers: AtomicU32::new(0) }
    }
}

impl Condition {
    /// Wakes whoever sleeps. The mutex has been taken since the change, or for it; it need not be
    /// held any more.
    pub(crate) fn notify_all(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changes.fetch_add(1, Ordering::Release);
            self.changes.wake_all();
        }
    }

    /// Leaves the mutex, sleeps, for `longest` at most, and takes the mutex again. May return
    /// early.
    pub(crate) fn sleep<'a, T>(
        &self,
        mutex: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        longest: Option<Duration>,
    ) -> (MutexGuard<'a, T>, Slept) {
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let seen = self.changes.load(Ordering::Relaxed);
        drop(guard);
        let slept = self.changes.sleep(seen, longest);
        let guard = lock(mutex);
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        (guard, slept)
    }
}
