//! A bounded counter split into two words, so that the thread inside the worker's gate never needs
//! an atomic read-modify-write.
//!
//! - `Added`: total that other threads added, by read-modify-write.
//! - `Removed`: total that was removed again, minus what was added inside the gate. Only the thread
//!   inside the gate writes it, with plain stores. It may wrap below zero.
//!
//! Value = `Added - Removed`. An item that moves from one queue to another changes neither word, so
//! every reader counts it exactly once. Without a lock, and exact.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicU64, Ordering};

/// Written by any thread. See the head of this file.
#[derive(Default)]
pub(crate) struct Added(AtomicU64);

/// Written inside the worker's gate. The Release store publishes what its writer wrote before.
#[derive(Default)]
pub(crate) struct Removed(AtomicU64);

impl Removed {
    /// Counts `amount` as removed.
    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Release);
    }

    /// Adds `amount` to the counter from inside the gate.
    #[inline(always)]
    pub(crate) fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// The value, if of all that other threads added only `added` counts. Inside the gate.
    #[inline(always)]
    pub(crate) fn left_of(&self, added: u64) -> u64 {
        added.wrapping_sub(self.0.load(Ordering::Relaxed))
    }
}

#[derive(Clone, Copy)]
pub(crate) struct SplitCounter<'a> {
    pub(crate) added: &'a Added,
    pub(crate) gone: &'a Removed,
}

impl SplitCounter<'_> {
    /// The value at some moment during the call. Any thread.
    pub(crate) fn get(self) -> u64 {
        let mut gone = self.look();
        loop {
            let added = self.added.0.load(Ordering::Acquire);
            let now = self.look();
            if now == gone {
                return added.wrapping_sub(gone);
            }
            gone = now;
        }
    }

    /// The removed total, for `fits` and `try_add`. The caller reads it once for both, as its
    /// writer may write it all the time.
    #[inline(always)]
    pub(crate) fn look(self) -> u64 {
        self.gone.0.load(Ordering::Acquire)
    }

    /// Is `fits` true of the value? False means that it was false at some moment since `gone` was
    /// read.
    #[inline]
    pub(crate) fn fits(self, gone: u64, fits: impl Fn(u64) -> bool) -> bool {
        fits(self.added.0.load(Ordering::Acquire).wrapping_sub(gone)) || fits(self.get())
    }

    /// Adds `amount` if `fits` is true of the value. False means that it was false at some moment
    /// since `gone` was read.
    #[inline]
    pub(crate) fn try_add(self, mut gone: u64, amount: u64, fits: impl Fn(u64) -> bool) -> bool {
        loop {
            // Read after `gone`: removals in between can only make the value look larger, never
            // smaller.
            let added = self.added.0.load(Ordering::Acquire);
            if fits(added.wrapping_sub(gone)) {
                let sum = added.wrapping_add(amount);
                if self
                    .added
                    .0
                    .compare_exchange_weak(added, sum, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
                {
                    return true;
                }
            } else {
                let now = self.look();
                if now == gone {
                    return false;
                }
                gone = now;
            }
        }
    }

    /// Adds `amount` without a check.
    pub(crate) fn add(self, amount: u64) {
        self.added.0.fetch_add(amount, Ordering::AcqRel);
    }

    /// Takes back what was added. A thread that checked the limit for waiters may have seen the
    /// larger value; `look_again` says how to avoid a lost wake-up.
    pub(crate) fn give_back(self, amount: u64) {
        self.added.0.fetch_sub(amount, Ordering::AcqRel);
    }
}

/// A full fence, in two places: between `give_back` and checking whether a thread waits; and, on
/// the side that wakes waiters, between seeing a waiter and reading the value. So one side sees
/// what the other did.
#[inline]
pub(crate) fn look_again() {
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_stands_is_added_and_gone() {
        let (added, gone) = (Added::default(), Removed::default());
        let standing = SplitCounter { added: &added, gone: &gone };
        let before = standing.look();
        assert!(standing.try_add(before, 3, |before| before == 0));
        assert!(!standing.try_add(before, 1, |before| before < 3));
        assert!(
            standing.fits(before, |before| before == 3)
                && !standing.fits(before, |before| before < 3)
        );
        assert_eq!(standing.get(), 3);
        // Inside the gate: one item is removed, and two are added.
        gone.add(1);
        gone.subtract(2);
        assert_eq!((standing.get(), gone.left_of(1)), (4, 2));
        standing.add(10);
        standing.give_back(10);
        assert_eq!(standing.get(), 4);
        gone.add(4);
        // An old reading is refreshed before anything is refused.
        assert!(
            standing.fits(before, |before| before == 0)
                && standing.try_add(before, 1, |before| before == 0)
        );
    }

    #[test]
    fn threads_that_add_at_once_never_exceed_the_limit() {
        const LIMIT: u64 = 5;
        const EACH: u64 = 20_000;
        let (added, gone, refused) = (Added::default(), Removed::default(), AtomicU64::new(0));
        let standing = SplitCounter { added: &added, gone: &gone };
        let taken = crossbeam_queue::ArrayQueue::new(LIMIT as usize);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        while !standing.try_add(standing.look(), 1, |before| before < LIMIT) {
                            refused.fetch_add(1, Ordering::Relaxed);
                            std::thread::yield_now();
                        }
                        assert!(taken.push(()).is_ok(), "there is room for as many as may stand");
                    }
                });
            }
            let mut seen = 0;
            while seen < 4 * EACH {
                match taken.pop() {
                    Some(()) => {
                        seen += 1;
                        gone.add(1);
                    }
                    None => std::thread::yield_now(),
                }
            }
        });
        assert_eq!(standing.get(), 0);
    }
}
