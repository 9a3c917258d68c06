//! The list on which other threads hand the progress thread what has no place in the ring.
#![deny(unsafe_code)]

use crate::engine::base::sync::{lock, AtomicBool, Mutex, Ordering};

/// What other threads have handed over, of type `T`, which is empty by default. `pending` is set
/// under the lock, so that a look at it costs the owner no lock.
#[derive(Default)]
pub(crate) struct Control<T> {
    lists: Mutex<Lists<T>>,
    pending: AtomicBool,
}

#[derive(Default)]
struct Lists<T> {
    /// A progress thread will work off what is put here.
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

    /// Moves what is there into `lists`, which are empty, and whose memory is used again.
    pub(crate) fn take(&self, lists: &mut T, close: bool) {
        let mut mine = lock(&self.lists);
        std::mem::swap(&mut mine.handed_over, lists);
        mine.open &= !close;
        self.pending.store(false, Ordering::Relaxed);
    }

    /// False when there is no thread to do it; then nothing has happened.
    pub(crate) fn put(&self, put: impl FnOnce(&mut T)) -> bool {
        let mut lists = lock(&self.lists);
        if lists.open {
            put(&mut lists.handed_over);
            self.pending.store(true, Ordering::Release);
        }
        lists.open
    }
}
