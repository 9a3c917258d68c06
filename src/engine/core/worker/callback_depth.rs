//! Counts the running callbacks of SINGLE workers on the thread that made the workers.
//!
//! A worker reaches the count through its own pointer, because finding thread-local storage takes
//! longer than the rest of the work for a message. Neither the thread nor the worker owns the
//! count: the thread may end before its workers, and a worker may end first, on another thread. So
//! counts are never freed. A count whose workers have all ended is reused for the next thread that
//! needs one.

use crate::engine::base::lockdep::Mutex;
use crate::engine::core::worker::gate::this_thread;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// In its own cache line, because its thread writes it for each message.
#[repr(align(64))]
#[derive(Default)]
pub(crate) struct OwnCallbacks {
    /// `this_thread()` of the thread that made the workers.
    thread: AtomicUsize,
    /// Number of its workers. Changes under the lock of `ALL`.
    workers: AtomicUsize,
    /// Written only by that thread.
    running: AtomicU32,
}

static ALL: Mutex<Vec<&'static OwnCallbacks>> = Mutex::new(Vec::new());

impl OwnCallbacks {
    /// Returns the count for one more worker of the calling thread.
    pub(crate) fn take() -> &'static Self {
        let mut all = ALL.lock();
        let here = this_thread();
        let is_mine = |own: &&&Self| own.thread.load(Ordering::Relaxed) == here && own.is_used();
        let found =
            all.iter().find(is_mine).or_else(|| all.iter().find(|own| !own.is_used())).copied();
        let own = found.unwrap_or_else(|| {
            let own = Box::leak(Box::<Self>::default());
            all.push(own);
            own
        });
        if !own.is_used() {
            own.running.store(0, Ordering::Relaxed);
            own.thread.store(here, Ordering::Relaxed);
        }
        own.workers.fetch_add(1, Ordering::Relaxed);
        own
    }

    /// A worker has ended, on any thread.
    pub(crate) fn give_back(&self) {
        let _all = ALL.lock();
        self.workers.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_used(&self) -> bool {
        self.workers.load(Ordering::Relaxed) > 0
    }

    #[inline(always)]
    pub(crate) fn begin(&self) {
        self.running.store(self.running.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn end(&self) {
        self.running.store(self.running.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }

    /// The calling thread is in one of its callbacks. False if the count now belongs to another
    /// thread.
    pub(crate) fn are_running(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
            && self.running.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_one_threads_while_it_has_workers() {
        let first = OwnCallbacks::take();
        assert!(std::ptr::eq(first, OwnCallbacks::take()));
        first.begin();
        first.begin();
        first.end();
        assert!(first.are_running());
        let others = std::thread::spawn(move || {
            let others = OwnCallbacks::take();
            assert!(!std::ptr::eq(first, others) && !first.are_running() && !others.are_running());
            others.begin();
            others
        });
        // Its thread has ended inside a callback.
        let others = others.join().unwrap();
        assert!(!others.are_running());
        first.end();
        assert!(!first.are_running());
        first.give_back();
        others.give_back();
        assert!(first.is_used());
        first.give_back();
    }
}
