//! The word of a request that says whether it is done, and on which others sleep until it is.
//!
//! Who is about to sleep marks the word, so that a completion knows whether it has to wake anybody.
//! Marks are of use only while there is somebody who completes operations without the sleeper's
//! help. When the progress thread goes, it takes all marks back and wakes the sleepers, who
//! progress by themselves from then on. Who finds it gone after having marked takes the mark back
//! as well: another one may have taken it for its own, and would sleep where nobody progresses.
#![deny(unsafe_code)]

use crate::engine::base::futex::Word;
use crate::engine::base::sync::{fence, Ordering};
use std::time::Duration;

const NO: u32 = 0;
const YES: u32 = 1;
/// No, and somebody sleeps until it is, or is about to.
const WAITED_FOR: u32 = 2;

/// See the top of this file.
pub(crate) struct Done(Word);

/// How an attempt to mark the word ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Marked {
    /// The completion will wake the sleepers, and so will the progress thread when it goes.
    Yes,
    /// It is done.
    Done,
    /// Nobody progresses but the caller.
    Alone,
}

impl Done {
    /// That of a slot that is not in use.
    pub(crate) fn new() -> Self {
        Done(Word::new(YES))
    }

    /// A new use begins. By the owner of the slot.
    #[inline]
    pub(crate) fn begin(&self) {
        self.0.store(NO, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire) == YES
    }

    /// Done, on a worker on which nobody can sleep here.
    #[inline]
    pub(crate) fn publish(&self) {
        self.0.store(YES, Ordering::Release);
    }

    /// The same where others may sleep on it, who are woken; true if there were any.
    #[inline]
    pub(crate) fn publish_and_wake(&self) -> bool {
        let waited_for = self.0.swap(YES, Ordering::SeqCst) == WAITED_FOR;
        if waited_for {
            self.0.wake_all();
        }
        waited_for
    }

    /// Marks it, to sleep on it afterwards. `others_progress` says whether anybody will complete
    /// the operation.
    pub(crate) fn mark(&self, others_progress: impl FnOnce() -> bool) -> Marked {
        if self.0.compare_exchange(NO, WAITED_FOR, Ordering::SeqCst, Ordering::SeqCst) == Err(YES) {
            return Marked::Done;
        }
        // Either we see that the thread has gone, or it sees the mark and takes it back.
        fence(Ordering::SeqCst);
        if others_progress() {
            return Marked::Yes;
        }
        self.disturb();
        Marked::Alone
    }

    /// Sleeps until it is done, `mark` having said Yes; for `longest` at most, and perhaps less.
    pub(crate) fn sleep(&self, longest: Option<Duration>) {
        self.0.wait(WAITED_FOR, longest);
    }

    /// Takes the mark back and wakes the sleepers, to look around.
    pub(crate) fn disturb(&self) {
        if self.0.compare_exchange(WAITED_FOR, NO, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.0.wake_all();
        }
    }

    /// Sleeps while others progress: true once it is done, false when `left` has said zero before,
    /// none when nobody else progresses any more.
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
