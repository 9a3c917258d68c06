//! How threads sleep that wait for a hub, and how they are woken.
//!
//! There are two sides, readers and producers, with a futex word each. Under the hub's lock a
//! waiter marks its side as asleep and reads the side's word; then it sleeps on that value. A
//! thread that changes something increments the word under the lock and clears the mark, and wakes
//! the side after it has released the lock, if the side was marked. So no change after the last
//! check is missed, there is no system call if nobody sleeps, and threads that are already waking
//! up are not woken again.
#![deny(unsafe_code)]

use crate::engine::base::futex::{look_in_turns, look_less_often, Word};
use crate::engine::base::sync::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Side of readers: there may be a chunk for them.
pub(crate) const DATA: u8 = 1;
/// Side of producers, and of threads that wait for an empty queue: there may be room.
pub(crate) const ROOM: u8 = 2;
/// Number of sides; side `n` has bit `n`.
const SIDES: usize = 2;
/// After a long poll without success, at most this many long polls are skipped.
const LONGEST_PAUSE: u32 = 31;

/// See the head of this file.
pub(crate) struct Waiters {
    words: [Word; SIDES],
    /// A thread of the side polls. Other threads sleep at once: more pollers would take cores from
    /// working threads.
    looking: [AtomicBool; SIDES],
    /// Long polls to skip before the next one, and how many were skipped last time.
    left_out: [AtomicU32; SIDES],
    pauses: [AtomicU32; SIDES],
}

/// A value of a side's word.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u32);

impl Waiters {
    pub(crate) fn new() -> Self {
        let counts = || [AtomicU32::new(0), AtomicU32::new(0)];
        Waiters {
            words: [Word::new(0), Word::new(0)],
            looking: [AtomicBool::new(false), AtomicBool::new(false)],
            left_out: counts(),
            pauses: counts(),
        }
    }

    /// The current value.
    pub(crate) fn see(&self, side: usize) -> Seen {
        Seen(self.words[side].load(Ordering::Relaxed))
    }

    /// Has the word changed since? What has changed is read under the lock.
    pub(crate) fn has_moved(&self, side: usize, seen: Seen) -> bool {
        self.words[side].load(Ordering::Relaxed) != seen.0
    }

    /// Polls a little for an action of the other side. If such actions take less time than waking a
    /// thread (`brisk`), it polls as long as a wake-up takes, so that the two sides do not sleep by
    /// turns. It does so less and less often if that did not help.
    pub(crate) fn look_for(&self, side: usize, brisk: bool, ready: &dyn Fn() -> bool) {
        let looking = &self.looking[side];
        if !looking.swap(true, Ordering::Relaxed) {
            if !look_less_often(ready) && brisk && self.is_long_look(side) {
                let helped = look_in_turns(&mut || ready());
                self.note_long_look(side, helped);
            }
            looking.store(false, Ordering::Relaxed);
        }
    }

    /// Only the polling thread calls this, so loads and stores are enough.
    fn is_long_look(&self, side: usize) -> bool {
        let left = self.left_out[side].load(Ordering::Relaxed);
        self.left_out[side].store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }

    fn note_long_look(&self, side: usize, helped: bool) {
        let pause = if helped {
            0
        } else {
            (2 * self.pauses[side].load(Ordering::Relaxed) + 1).min(LONGEST_PAUSE)
        };
        self.pauses[side].store(pause, Ordering::Relaxed);
        self.left_out[side].store(pause, Ordering::Relaxed);
    }

    /// Sleeps until the word changes; returns at once if it has changed. May return early. The side
    /// was marked when `seen` was read.
    pub(crate) fn sleep(&self, side: usize, seen: Seen, longest: Option<Duration>) {
        self.words[side].wait(seen.0, longest);
    }

    /// Records a change for these sides, under the lock. `asleep` has the marked sides. Returns the
    /// sides to wake after the lock is released.
    #[inline(always)]
    pub(crate) fn move_on(&self, changed: u8, asleep: &mut u8) -> u8 {
        for (side, word) in self.words.iter().enumerate() {
            if changed & (1 << side) != 0 {
                // Only written under the lock.
                word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
            }
        }
        let wake_mask = changed & *asleep;
        *asleep &= !changed;
        wake_mask
    }

    #[cold]
    pub(crate) fn wake(&self, sides: u8) {
        for (side, word) in self.words.iter().enumerate() {
            if sides & (1 << side) != 0 {
                word.wake_all();
            }
        }
    }
}
