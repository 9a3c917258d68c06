//! A spin lock, for locks that are held for a few instructions and that two threads seldom want at
//! once. It is never held over a copy, a callback or a system call.
//!
//! It costs one atomic operation to lock, and a plain store to unlock. A lock that threads can
//! sleep on needs a second atomic operation to see whether a thread sleeps, and that is half the
//! cost of a call that does little. A waiter polls with growing pauses, which leaves the cache line
//! to the holder. Then it yields, and finally it sleeps: the holder may have been preempted and may
//! have a lower priority.

use crate::engine::base::sync::{linger, AtomicBool, Ordering, SpinWait};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

const FIRST_PAUSE: u32 = 8;

/// Only the thread that set `taken` touches the value.
#[repr(C)]
pub(crate) struct SpinLock<T> {
    taken: AtomicBool,
    #[cfg(all(debug_assertions, not(loom)))]
    watched: crate::engine::base::lockdep::Watched,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves between threads, and one thread at a time has access.
unsafe impl<T: Send> Send for SpinLock<T> {}
// SAFETY: a shared lock gives access to one thread at a time, so the value need only be Send.
unsafe impl<T: Send> Sync for SpinLock<T> {}

/// Access to the value until it is dropped, on the thread that locked.
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

    /// `None` if the lock is held.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> Option<SpinLockGuard<'_, T>> {
        // `then`, not `then_some`: a guard that is made and dropped would unlock.
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
        // The first pause is as long as a few calls of the holder. A lock that changes hands after
        // each call moves its data from core to core, which costs more than the calls.
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
        // SAFETY: this guard holds the lock, so no other thread has access.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinLockGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard holds the lock, and `&mut self` makes this its only reference.
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
        // Twice: a refused attempt must not unlock.
        assert!(lock.try_lock().is_none() && lock.try_lock().is_none());
        drop(held);
        assert!(lock.try_lock().is_some());
    }
}
