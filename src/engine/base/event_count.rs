//! An event count: threads sleep until another thread has made their condition true.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::futex::{look_shortly, Word};
use crate::engine::base::sync::{fence, AtomicU32, Ordering};
use std::time::Duration;

/// The notifying thread first makes the condition true, and then calls `notify`.
///
/// A waiter increments `waiting`, reads `epoch`, and checks the condition again before it sleeps on
/// `epoch`. The notifier has a full fence between making the condition true and reading `waiting`.
/// So either the waiter sees the condition, or the notifier sees the waiter and increments `epoch`,
/// and then the waiter does not sleep. The two SeqCst fences are what makes this hold.
pub(crate) struct EventCount {
    epoch: Word,
    waiting: AtomicU32,
}

impl EventCount {
    // Not const under loom, whose atomics are made at run time.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        EventCount { epoch: Word::new(0), waiting: AtomicU32::new(0) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        EventCount { epoch: Word::new(0), waiting: AtomicU32::new(0) }
    }

    /// Call this after the condition has become true.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            self.epoch.wake_all();
        }
    }

    /// Waits until `ready` returned true; the condition may have become false again since. Returns
    /// false if `deadline` passed first.
    pub(crate) fn wait_until(&self, ready: &dyn Fn() -> bool, deadline: u64) -> bool {
        if deadline == 0 {
            return ready();
        }
        look_shortly(ready) || self.sleep_until(ready, deadline)
    }

    /// Like `wait_until`, but does not poll before it sleeps. For a `ready` with side effects, for
    /// example one that makes other threads notify.
    pub(crate) fn sleep_until(&self, ready: &dyn Fn() -> bool, deadline: u64) -> bool {
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let left = clock::remaining(deadline);
            let is_ready = ready();
            let over = is_ready || left == Some(Duration::ZERO);
            if !over {
                self.epoch.wait(epoch, left);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if over {
                return is_ready;
            }
        }
    }

    /// Calls `ready` once. If it returns false, calls `pause` with a function that returns true
    /// once `notify` has been called. `notify` does not wake a thread inside `pause`: the notifier
    /// has to do that itself.
    pub(crate) fn look_or(
        &self,
        ready: &dyn Fn() -> bool,
        pause: impl FnOnce(&dyn Fn() -> bool),
    ) -> bool {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let epoch = self.epoch.load(Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let is_ready = ready();
        if !is_ready {
            pause(&|| self.epoch.load(Ordering::Acquire) != epoch);
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        is_ready
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_waiter_is_woken_and_a_deadline_ends_waiting() {
        let (room, ready) = (EventCount::new(), AtomicBool::new(false));
        assert!(!room.wait_until(&|| ready.load(Ordering::Acquire), clock::deadline_after(1000)));
        std::thread::scope(|scope| {
            let waiter =
                scope.spawn(|| room.wait_until(&|| ready.load(Ordering::Acquire), u64::MAX));
            ready.store(true, Ordering::Release);
            room.notify();
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn no_notification_is_lost() {
        const TURNS: u32 = 20_000;
        let (room, turn) = (EventCount::new(), AtomicU32::new(0));
        let player = |parity: u32| {
            let mut next = parity;
            while next < TURNS {
                assert!(room.wait_until(&|| turn.load(Ordering::Acquire) == next, u64::MAX));
                turn.store(next + 1, Ordering::Release);
                room.notify();
                next += 2;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| player(0));
            scope.spawn(|| player(1));
        });
        assert_eq!(turn.load(Ordering::Acquire), TURNS);
    }
}
