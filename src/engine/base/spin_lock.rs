//! A lock that is held for a few instructions, never over a copy, a callback or a system call, and
//! not often wanted by two threads at once.
//!
//! It is taken by one atomic operation and given back by a plain store, where a lock on which
//! threads can sleep needs a second atomic operation to learn whether somebody does: that is half
//! of what a call costs that does nothing else. So who finds it taken looks again, less and less
//! often, which leaves its cache line to the holder; then it lets others run, and in the end it
//! sleeps a moment: the holder may have been taken off its core, and be of a lower priority.

use crate::engine::base::sync::{linger, AtomicBool, Ordering, SpinWait};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

const FIRST_PAUSE: u32 = 8;

/// What it guards is touched by one thread at a time.
#[repr(C)]
pub(crate) struct SpinLock<T> {
    taken: AtomicBool,
    #[cfg(all(debug_assertions, not(loom)))]
    watched: crate::engine::base::lockdep::Watched,
    value: UnsafeCell<T>,
}

// SAFETY: the value goes from thread to thread, and is never with two of them.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// The value, until it is dropped, on the thread that has taken it.
pub(crate) struct SpinLockGuard<'a, T>(&'a SpinLock<T>, PhantomData<*mut T>);

impl<T: Default> Default for SpinLock<T> {
    #[cfg_attr(debug_assertions, track_caller)]
    fn default() -> Self {
        SpinLock::new(T::default())
    }
}

impl<T> SpinLock<T> {
    #[cfg_attr(debug_assertions, track_caller)]
    pub(crate) fn new(value: T) -> Self {
        SpinLock {
            taken: AtomicBool::new(false),
            #[cfg(all(debug_assertions, not(loom)))]
            watched: crate::engine::base::lockdep::Watched::new(),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, T> {
        #[cfg(all(debug_assertions, not(loom)))]
        self.watched.before(std::ptr::from_ref(self).addr());
        if !self.take() {
            self.take_later();
        }
        self.held()
    }

    /// None while it is held.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        // Not made before it is known whether it is: the one that goes gives the lock back.
        self.take().then(|| self.held())
    }

    #[inline(always)]
    fn held(&self) -> SpinLockGuard<'_, T> {
        #[cfg(all(debug_assertions, not(loom)))]
        self.watched.taken(std::ptr::from_ref(self).addr());
        SpinLockGuard(self, PhantomData)
    }

    #[inline(always)]
    fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn take_later(&self) {
        // At first as long as a few calls of the holder take: a lock that changes hands after each
        // takes what it guards along, from core to core, which costs more than the calls.
        linger(FIRST_PAUSE);
        let wait = SpinWait::default();
        while self.taken.load(Ordering::Relaxed) || !self.take() {
            wait.wait();
        }
    }
}

impl<T> Deref for SpinLockGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the lock is held, by this alone.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinLockGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        #[cfg(all(debug_assertions, not(loom)))]
        crate::engine::base::lockdep::given_back(std::ptr::from_ref(self.0).addr());
        self.0.taken.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time() {
        const EACH: u64 = 50_000;
        let lock = SpinLock::new([0u64; 2]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let mut pair = lock.lock();
                        assert_eq!(pair[0], pair[1]);
                        pair[0] += 1;
                        std::hint::spin_loop();
                        pair[1] += 1;
                    }
                });
            }
        });
        assert_eq!(lock.lock()[0], 4 * EACH);
        let held = lock.lock();
        // Twice: the one who was refused has not given it back.
        assert!(lock.try_lock().is_none() && lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
