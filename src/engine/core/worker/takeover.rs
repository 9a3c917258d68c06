//! A thread that waits for a completion makes passes itself instead of waking the progress thread,
//! which saves two context switches. Such a thread is an assistant.
//!
//! # Counting
//!
//! While an assistant is counted, the progress thread naps, because passes on both threads would be
//! in each other's way. So a counted assistant must make passes: otherwise no thread serves the
//! worker, peers that check for signs of life take this process for dead, and an assistant that
//! waits for this worker never returns.
//!
//! An assistant is counted while it runs the library's own code: passes of this worker, whose
//! callbacks all belong to the library, the check whether it is done, and, in between, passes of
//! another worker. None of this waits for another thread, except at gates and locks that are held
//! briefly.
//!
//! # User code
//!
//! The passes of the other worker may run user callbacks, which may block for any time. They are
//! all entered through `CallbackScope`. The assistant leaves once, before the first callback
//! starts, and is counted again after those passes. Inside the callback the thread is like any
//! other, and may become an assistant again.
//!
//! # Leaving
//!
//! Only the thread itself knows whether it is counted, and it removes only what it has added. So
//! the sum is right in any order. The last assistant does not wake the progress thread: that thread
//! either naps and checks again after `ASSISTED_NAP`, or sleeps on the descriptor that it armed
//! before the assistant arrived. In the second case events wake it, and so do threads that leave
//! work for it, assistants included (`Worker::wake_sleeper`).

use crate::engine::base::clock;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress_thread::{ROUNDS_PER_LOOK, ROUNDS_PER_YIELD};
use crate::engine::core::worker::worker::SharedWorker;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// Number of threads that make passes instead of a progress thread.
#[derive(Default)]
pub(crate) struct Assistants(AtomicU32);

impl Assistants {
    /// A thread makes passes. The answer publishes no other data.
    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// While this exists, its thread makes passes, except in user code.
pub(crate) struct ProgressTakeover<'a> {
    all: &'a Assistants,
    is_counted: Cell<bool>,
}

impl<'a> ProgressTakeover<'a> {
    fn new(all: &'a Assistants) -> Self {
        let assistant = ProgressTakeover { all, is_counted: Cell::new(false) };
        assistant.come();
        assistant
    }

    fn come(&self) {
        if !self.is_counted.replace(true) {
            self.all.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Leaves the worker to its progress thread.
    pub(crate) fn leave(&self) {
        if self.is_counted.replace(false) {
            self.all.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Runs `work`, which may include user callbacks.
    fn between(&self, work: &dyn Fn()) {
        deferred::until_callback(self, work);
        self.come();
    }
}

impl Drop for ProgressTakeover<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl SharedWorker {
    /// Makes passes instead of the progress thread until `done`, or until the time is over. Calls
    /// `between` from time to time, which may make passes of another worker. For a worker whose
    /// callbacks all belong to the library, and whose thread does not delay submission.
    pub(crate) fn assist(
        &self,
        done: &dyn Fn() -> bool,
        at_most_ns: u64,
        between: &dyn Fn(),
    ) -> bool {
        let assistant = ProgressTakeover::new(&self.thread.assistants);
        let deadline = clock::deadline_after(at_most_ns);
        let mut idle = 0_u32;
        let mut finished = done();
        while !finished
            && (idle % ROUNDS_PER_LOOK != ROUNDS_PER_LOOK - 1 || clock::now_ns() < deadline)
        {
            idle = if self.pass_if_free() > 0 { 0 } else { idle + 1 };
            if idle % ROUNDS_PER_YIELD == ROUNDS_PER_YIELD - 1 {
                assistant.between(between);
                std::thread::yield_now();
            }
            finished = done();
        }
        finished
    }

    fn pass_if_free(&self) -> u32 {
        let Some(inside) = self.try_enter() else { return 0 };
        if inside.closed.load(Ordering::Relaxed) {
            return 0;
        }
        inside.pass()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::core::worker::deferred::CallbackScope;

    fn count(all: &Assistants) -> u32 {
        all.0.load(Ordering::Relaxed)
    }

    #[test]
    fn is_counted_but_in_user_code() {
        let all = Assistants::default();
        let assistant = ProgressTakeover::new(&all);
        drop(CallbackScope::new());
        assert_eq!(count(&all), 1, "no callback of the passes in between");
        assistant.between(&|| assert!(all.are_there()));
        assistant.between(&|| {
            for _ in 0..2 {
                let _scope = CallbackScope::new();
                assert!(!all.are_there());
                // What it waits for inside the callback.
                let nested = ProgressTakeover::new(&all);
                nested.between(&|| {
                    assert_eq!(count(&all), 1);
                    let _scope = CallbackScope::new();
                    assert!(!all.are_there());
                });
                assert_eq!(count(&all), 1);
            }
            assert!(!all.are_there());
        });
        assert_eq!(count(&all), 1);
        drop(assistant);
        assert_eq!(count(&all), 0);
    }

    #[test]
    fn a_panic_leaves_the_count_as_it_was() {
        let (all, others) = (Assistants::default(), Assistants::default());
        for calls_back in [false, true] {
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ProgressTakeover::new(&all).between(&|| {
                    let _scope = calls_back.then(CallbackScope::new);
                    panic!("on purpose");
                });
            }));
            assert!(failed.is_err());
            assert_eq!(count(&all), 0);
        }
        let assistant = ProgressTakeover::new(&others);
        assistant.between(&|| drop(CallbackScope::new()));
        assert_eq!((count(&all), count(&others)), (0, 1));
    }
}
