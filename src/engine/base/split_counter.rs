//! How much stands before a limit, where any thread may add to it and one takes it off: without a
//! lock, and exact.
//!
//! There are two words. `Added` has what other threads have ever added, and is theirs: a
//! read-modify-write each time. `Removed` has what has gone again, less what was added inside the
//! worker's gate, and is written by whoever is inside that alone, with plain stores, so that who
//! does not hand anything over to another thread pays for nothing more. Their difference is what
//! stands. What passes from the one who handed it over to where it is counted next changes neither,
//! so nobody ever sees it in both places or in none.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicU64, Ordering};

/// See the top of this file. Written by any thread.
#[derive(Default)]
pub(crate) struct Added(AtomicU64);

/// See the top of this file. Written inside the worker's gate; what was written before it is
/// visible to whoever reads it.
#[derive(Default)]
pub(crate) struct Removed(AtomicU64);

impl Removed {
    /// So much has gone.
    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Release);
    }

    /// So much stands from now on that nobody has added.
    #[inline(always)]
    pub(crate) fn subtract(&self, amount: u64) {
        self.add(amount.wrapping_neg());
    }

    /// What stands of all that was not added outside, and of so much that was. Inside the gate.
    #[inline(always)]
    pub(crate) fn left_of(&self, added: u64) -> u64 {
        added.wrapping_sub(self.0.load(Ordering::Relaxed))
    }
}

/// The two together.
#[derive(Clone, Copy)]
pub(crate) struct SplitCounter<'a> {
    pub(crate) added: &'a Added,
    pub(crate) gone: &'a Removed,
}

impl SplitCounter<'_> {
    /// What stood at a moment during the call. Any thread.
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

    /// What has gone up to now, for `fits` and `try_add`: looked at once for both, as the one who
    /// writes it may be at it all the time.
    #[inline(always)]
    pub(crate) fn look(self) -> u64 {
        self.gone.0.load(Ordering::Acquire)
    }

    /// Would it fit behind what stands? False: at a moment since `gone` was looked at it would not
    /// have.
    #[inline]
    pub(crate) fn fits(self, gone: u64, fits: impl Fn(u64) -> bool) -> bool {
        fits(self.added.0.load(Ordering::Acquire).wrapping_sub(gone)) || fits(self.get())
    }

    /// Adds so much if it fits behind what stands. False: at a moment since `gone` was looked at it
    /// did not.
    #[inline]
    pub(crate) fn try_add(self, mut gone: u64, amount: u64, fits: impl Fn(u64) -> bool) -> bool {
        loop {
            // After `gone`: what goes meanwhile makes it look like more than it is, and never like
            // less.
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

    /// Adds so much, whether it fits or not.
    pub(crate) fn add(self, amount: u64) {
        self.added.0.fetch_add(amount, Ordering::AcqRel);
    }

    /// What was added does not come after all. Whoever looks on behalf of others while they are
    /// told of nothing may have seen it: `look_again` says how not to leave them waiting.
    pub(crate) fn give_back(self, amount: u64) {
        self.added.0.fetch_sub(amount, Ordering::AcqRel);
    }
}

/// Between giving back and looking whether somebody waits to be told; and, where those who wait are
/// told, between seeing that somebody does and looking at what stands. So one of the two sees what
/// the other one has done.
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
        // Inside the gate one has been dealt with, and two more are there that came by no other
        // thread.
        gone.add(1);
        gone.subtract(2);
        assert_eq!((standing.get(), gone.left_of(1)), (4, 2));
        standing.add(10);
        standing.give_back(10);
        assert_eq!(standing.get(), 4);
        gone.add(4);
        // What was looked at long ago is looked at again before anybody is refused for it.
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
