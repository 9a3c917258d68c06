//! The lock of a hub: held for some tens of nanoseconds, never over a copy, a callback or a system call.
//!
//! A cycle of a chunk through a hub takes it four times. Giving it back is a plain store, which a lock that keeps count of its sleepers cannot
//! do, and which halves the price. So who finds it taken looks again, lets others run, and in the end sleeps a moment: the holder may have been
//! taken off its core.

use super::cache_line::CacheLine;
use std::cell::UnsafeCell;
use std::hint::spin_loop;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks before the core is given to others.
const LOOKS: u32 = 128;
/// How often it is given to others before this thread sleeps between two looks.
const YIELDS: u32 = 64;
const MOMENT: Duration = Duration::from_micros(50);

/// What it guards is touched by one thread at a time.
#[repr(C)]
pub(super) struct Lock<T> {
    _apart: CacheLine,
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread, and is never with two of them.
unsafe impl<T: Send> Send for Lock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The value, until it is dropped.
pub(super) struct Held<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(super) fn new(value: T) -> Self {
        Lock { _apart: CacheLine, taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Held<'_, T> {
        if !self.try_take() {
            self.wait();
        }
        Held(self)
    }

    #[inline(always)]
    fn try_take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let mut rounds = 0;
        loop {
            for _ in 0..LOOKS {
                if !self.taken.load(Ordering::Relaxed) && self.try_take() {
                    return;
                }
                spin_loop();
            }
            rounds += 1;
            if rounds < YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(MOMENT);
            }
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, by this alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        const EACH: u64 = 50_000;
        let lock = Lock::new([0u64; 2]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let mut pair = lock.lock();
                        assert_eq!(pair[0], pair[1]);
                        pair[0] += 1;
                        spin_loop();
                        pair[1] += 1;
                    }
                });
            }
        });
        assert_eq!(lock.lock()[0], 4 * EACH);
    }
}
