//! A lock that is held for a few instructions, and hardly ever wanted by two threads at once.
//!
//! It is taken by one atomic operation and given back by a plain store, where a lock on which threads can sleep needs a second atomic operation to
//! learn whether somebody does: that is half of what a call costs that does nothing else. Who finds it taken lets others run.

use parking_lot::lock_api::{GuardNoSend, Mutex, RawMutex};
use std::sync::atomic::{AtomicBool, Ordering};

/// See the module.
pub(crate) type Brief<T> = Mutex<RawBrief, T>;

/// True while it is held.
pub(crate) struct RawBrief(AtomicBool);

// SAFETY: it excludes: the one who has changed the word from false to true has it until the word is false again.
unsafe impl RawMutex for RawBrief {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: Self = RawBrief(AtomicBool::new(false));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        if !self.try_lock() {
            self.lock_slowly();
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}

impl RawBrief {
    #[cold]
    fn lock_slowly(&self) {
        while !self.try_lock() {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let count = Brief::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| *count.lock() += 1));
            }
        });
        assert_eq!(*count.lock(), 80_000);
        let held = count.lock();
        assert!(count.try_lock().is_none());
        drop(held);
        assert!(count.try_lock().is_some());
    }
}
