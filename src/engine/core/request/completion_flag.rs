//! The word of a request that shows whether it is done, and on which other threads sleep.
//!
//! A thread that is about to sleep marks the word, so that a completion knows whether it must wake
//! a thread. A mark helps only while another thread completes operations. When the progress thread
//! ends, it removes all marks and wakes the sleeping threads, which then make progress themselves.
//! A thread that finds the progress thread gone after marking removes the mark as well: otherwise
//! another thread might rely on it, and sleep although no thread makes progress.
//!
//! `publish` stores with Release after the result; `is_set` loads with Acquire.
#![deny(unsafe_code)]

use crate::engine::base::futex::Word;
use crate::engine::base::sync::{fence, Ordering};
use std::time::Duration;

const NO: u32 = 0;
const YES: u32 = 1;
/// Not done, and a thread sleeps on it, or is about to.
const WAITED_FOR: u32 = 2;

/// See the head of this file.
pub(crate) struct Done(Word);

/// The result of an attempt to mark the word.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Marked {
    /// The completion will wake sleeping threads, and so will the progress thread when it ends.
    Yes,
    /// It is done.
    Done,
    /// No thread but the caller makes progress.
    Alone,
}

impl Done {
    /// The state of an unused slot.
    pub(crate) fn new() -> Self {
        Done(Word::new(YES))
    }

    /// A new use starts. Called by the owner of the slot.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(NO, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) == YES
    }

    /// Done, on a worker on which no thread can sleep here.
    #[inline]
    pub(crate) fn publish(&self) {
        self.0.store(YES, Ordering::Release);
    }

    /// The same if other threads may sleep on it: wakes them. True if there were any.
    #[inline]
    pub(crate) fn publish_and_wake(&self) -> bool {
        let waited_for = self.0.swap(YES, Ordering::SeqCst) == WAITED_FOR;
        if waited_for {
            self.0.wake_all();
        }
        waited_for
    }

    /// Marks the word before a sleep. `others_progress`: another thread will complete the
    /// operation.
    pub(crate) fn mark(&self, others_progress: impl FnOnce() -> bool) -> Marked {
        if self.0.compare_exchange(NO, WAITED_FOR, Ordering::SeqCst, Ordering::SeqCst) == Err(YES) {
            return Marked::Done;
        }
        // Either this thread sees that the progress thread has ended, or that thread sees the mark
        // and removes it.
        fence(Ordering::SeqCst);
        if others_progress() {
            return Marked::Yes;
        }
        self.disturb();
        Marked::Alone
    }

    /// Sleeps until it is done, after `mark` returned `Yes`; at most for `longest`, and possibly
    /// less.
    pub(crate) fn sleep(&self, longest: Option<Duration>) {
        self.0.wait(WAITED_FOR, longest);
    }

    /// Removes the mark, and wakes the sleeping threads so that they check again.
    pub(crate) fn disturb(&self) {
        if self.0.compare_exchange(WAITED_FOR, NO, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.0.wake_all();
        }
    }

    /// Sleeps while another thread makes progress. True when it is done; false when `left` has
    /// returned zero before; None when no other thread makes progress any more.
    pub(crate) fn wait(
        &self,
        others_progress: impl Fn() -> bool,
        left: impl Fn() -> Option<Duration>,
    ) -> Option<bool> {
        loop {
            match self.mark(&others_progress) {
                Marked::Done => return Some(true),
                Marked::Alone => return None,
                Marked::Yes => {}
            }
            let left = left();
            if left == Some(Duration::ZERO) {
                return Some(self.is_set());
            }
            self.sleep(left);
        }
    }
}
