//! Passes in the place of a worker's progress thread, by a thread that waits for what they bring,
//! which so has it without two switches of threads: an assistant.
//!
//! While there is an assistant the progress thread naps: both would be in each other's way. So as
//! long as one is counted it has to make passes, or else nobody serves the worker: peers wait, take
//! this process for dead where they look for signs of life, and an assistant that waits for the
//! worker itself waits for ever.
//!
//! It is counted while it runs the library's own code: passes of this worker, whose callbacks are
//! all the library's, the question whether it is done, and in between passes of another worker.
//! None of that waits for anybody, but for gates and locks that are held for moments. User code
//! does as it likes, takes its time, waits for another thread, or calls what waits for this worker.
//! The passes of the other worker may come upon a callback of the user's; all of these are entered
//! through `CallbackScope`. There the assistant leaves, once, before the first one begins, and it
//! is counted again when the passes in between are over. In the callback it is a thread like any
//! other, which may be an assistant anew for what it waits for there.
//!
//! Whether an assistant is counted is known to its own thread alone, which takes back what it has
//! added and nothing else, so that the sum is right in whatever order threads come and go. Nobody
//! has to wake the progress thread when the last one leaves. Either it naps, and looks again after
//! `ASSISTED_NAP`; or it sleeps on the descriptor, armed since before the assistant came, and is
//! woken by what comes, and by whoever leaves it something to do, assistants too
//! (`Worker::wake_sleeper`).

use crate::engine::base::clock;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress_thread::{ROUNDS_PER_LOOK, ROUNDS_PER_YIELD};
use crate::engine::core::worker::worker::SharedWorker;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many threads make passes in the place of a progress thread.
#[derive(Default)]
pub(crate) struct Assistants(AtomicU32);

impl Assistants {
    /// Is there somebody who makes passes? Nothing else is read because of the answer.
    pub(crate) fn are_there(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// A thread that makes passes, for as long as this lives, but in user code.
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

    /// Leaves the worker to its thread.
    pub(crate) fn leave(&self) {
        if self.is_counted.replace(false) {
            self.all.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Does something in which there may be callbacks of the user's.
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
    /// Makes passes in the place of the progress thread until `done`, or for so long, with
    /// `between` from time to time, which may be passes of another worker. For a worker whose
    /// callbacks are all the library's, and whose thread delays nothing.
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

#[cfg(all(test, not(loom)))]
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
                // What it waits for in there.
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
