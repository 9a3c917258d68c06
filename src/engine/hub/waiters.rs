//! On what threads sleep that wait for a hub, and how they are woken.
//!
//! There are two sides, those who read and those who produce, and a word for each. Who waits marks
//! its side, and notes the word, under the hub's lock, and then sleeps on what it has noted. Who
//! changes something moves the word on under the lock, takes the mark away, and wakes the side
//! afterwards, if it was marked: all who have slept till then. So a change that comes after the
//! last look is noticed; without sleepers there is no system call; and those who are still on their
//! way out of their sleep do not cost one again.
#![deny(unsafe_code)]

use crate::engine::base::futex::{look_in_turns, look_less_often, Word};
use crate::engine::base::sync::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Who reads may find something.
pub(crate) const DATA: u8 = 1;
/// Who produces, or waits for the queue to run dry, may.
pub(crate) const ROOM: u8 = 2;
/// The words of both, which are numbered as their bits.
const SIDES: usize = 2;
/// The most long looks that are left out after one that has not helped.
const LONGEST_PAUSE: u32 = 31;

/// See the top of this file.
pub(crate) struct Sides {
    words: [Word; SIDES],
    /// Somebody of the side looks for a change before it sleeps. Whoever comes later sleeps at
    /// once: more would take cores from those who work.
    looking: [AtomicBool; SIDES],
    /// Long looks that are left out before the next one, and how many that were last time.
    left_out: [AtomicU32; SIDES],
    pauses: [AtomicU32; SIDES],
}

/// How a side's word was.
#[derive(Clone, Copy)]
pub(crate) struct Seen(u32);

impl Sides {
    pub(crate) fn new() -> Self {
        let counts = || [AtomicU32::new(0), AtomicU32::new(0)];
        Sides {
            words: [Word::new(0), Word::new(0)],
            looking: [AtomicBool::new(false), AtomicBool::new(false)],
            left_out: counts(),
            pauses: counts(),
        }
    }

    /// How it is now.
    pub(crate) fn see(&self, side: usize) -> Seen {
        Seen(self.words[side].load(Ordering::Relaxed))
    }

    /// Has there been a change since? What has changed is learnt under the lock.
    pub(crate) fn has_moved(&self, side: usize, seen: Seen) -> bool {
        self.words[side].load(Ordering::Relaxed) != seen.0
    }

    /// Waits a little for something that who is on the other side may do. Where that is done in
    /// less time than it takes to wake a thread (`brisk`), for as long as that takes, lest both
    /// sides sleep by turns: but ever less often where it has not helped.
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

    /// Of one thread at a time, as what it counts.
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

    /// Sleeps, unless there has been a change since, until there is one; may return early. The side
    /// was marked when that was seen.
    pub(crate) fn sleep(&self, side: usize, seen: Seen, longest: Option<Duration>) {
        self.words[side].wait(seen.0, longest);
    }

    /// There has been a change for these sides. Under the lock, with the marks of those that sleep;
    /// the ones that are to be woken after it.
    #[inline(always)]
    pub(crate) fn move_on(&self, changed: u8, asleep: &mut u8) -> u8 {
        for (side, word) in self.words.iter().enumerate() {
            if changed & (1 << side) != 0 {
                // Nobody else writes it without the lock.
                word.store(word.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
            }
        }
        let woken = changed & *asleep;
        *asleep &= !changed;
        woken
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
