//! The list on which other threads put work for the progress thread that has no place in the ring.
#![deny(unsafe_code)]

use crate::engine::base::sync::{lock, AtomicBool, Mutex, Ordering};

/// Work of type `T` from other threads; empty by default. `pending` is set under the lock, so the
/// owner checks it without the lock.
#[derive(Default)]
pub(crate) struct Control<T> {
    lists: Mutex<Lists<T>>,
    pending: AtomicBool,
}

#[derive(Default)]
struct Lists<T> {
    /// A progress thread will handle what is put here.
    open: bool,
    handed_over: T,
}

impl<T> Control<T> {
    pub(crate) fn open(&self) {
        lock(&self.lists).open = true;
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Moves the contents into `lists`, which must be empty, and whose memory is reused.
    pub(crate) fn take(&self, lists: &mut T, close: bool) {
        let mut mine = lock(&self.lists);
        std::mem::swap(&mut mine.handed_over, lists);
        mine.open &= !close;
        self.pending.store(false, Ordering::Relaxed);
    }

    /// False if there is no progress thread; then nothing has happened.
    pub(crate) fn put(&self, put: impl FnOnce(&mut T)) -> bool {
        let mut lists = lock(&self.lists);
        if lists.open {
            put(&mut lists.handed_over);
            self.pending.store(true, Ordering::Release);
        }
        lists.open
    }
}
