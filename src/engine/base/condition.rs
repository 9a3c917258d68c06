//! A condition variable whose sleepers return when a signal handler has run on their thread.
#![deny(unsafe_code)]

use crate::engine::base::futex::{Slept, Word};
use crate::engine::base::sync::{lock, AtomicU32, Mutex, MutexGuard, Ordering};
use std::time::Duration;

/// The condition itself is read and changed under a mutex.
///
/// A sleeper, still holding the mutex, adds itself to `sleepers` and reads `changes`. Then it
/// unlocks and sleeps on that value of `changes`. A thread that changes the condition locks the
/// mutex for it. If it locked the mutex after the sleeper, it sees `sleepers > 0` and increments
/// `changes`, so the sleep ends or never begins. If it locked first, the sleeper has seen the
/// change.
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
    /// Wakes all sleepers. The caller has held the mutex during or after the change. It need not
    /// hold it now.
    pub(crate) fn notify_all(&self) {
        if self.sleepers.load(Ordering::Relaxed) > 0 {
            self.changes.fetch_add(1, Ordering::Release);
            self.changes.wake_all();
        }
    }

    /// Unlocks the mutex, sleeps for at most `longest`, and locks the mutex again. May return
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
