//! How the monitor's thread gets a worker described.
//!
//! - If the gate is a lock, the monitor's thread enters for a moment, as any thread may. So it can
//!   describe a worker whose progress thread is in a user's callback.
//! - Otherwise only the worker's own thread may look. The monitor wakes it, and it answers before
//!   it sleeps again, or when its passes look at the clock. If it does not call in time, the
//!   description has only what any thread may read.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::open_metrics::Report;
use crate::engine::core::monitor::registry::{Look, Pulse, Watched};
use crate::engine::core::worker::dump::milliseconds;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::os::thread_text;
use crate::engine::ucx::context::Context;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// A question to the thread that may look into the worker. At most one thread asks.
#[derive(Default)]
pub(crate) struct Inquiry {
    state: Mutex<State>,
    /// Set while a question waits: the owner looks at it now and then, without the lock.
    is_asked: AtomicBool,
    /// The kernel's number of the thread that made the worker; 0 if unknown.
    maker: AtomicU32,
}

#[derive(Default)]
enum State {
    #[default]
    Nothing,
    Asked,
    Answered(Vec<String>),
}

impl Inquiry {
    /// The calling thread has made the worker.
    pub(super) fn note_maker(&self) {
        self.maker.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Ordering::Relaxed);
    }

    fn begin(&self) {
        *self.state.lock() = State::Asked;
        self.is_asked.store(true, Ordering::SeqCst);
    }

    fn answer(&self, lines: Vec<String>) {
        let mut state = self.state.lock();
        if matches!(*state, State::Asked) {
            *state = State::Answered(lines);
        }
    }

    /// The owner has seen the question.
    fn is_taken(&self) -> bool {
        !self.is_asked.load(Ordering::Relaxed)
    }

    fn is_answered(&self) -> bool {
        matches!(*self.state.lock(), State::Answered(_))
    }

    /// The answer, if there is one. A later one is dropped.
    fn end(&self) -> Option<Vec<String>> {
        self.is_asked.store(false, Ordering::Relaxed);
        match std::mem::take(&mut *self.state.lock()) {
            State::Answered(lines) => Some(lines),
            State::Nothing | State::Asked => None,
        }
    }
}

/// Between two times that a thread is asked.
const PAUSE: Duration = Duration::from_millis(2);

impl Watched for SharedWorker {
    fn describe(&self, look: &Look<'_>) -> Vec<String> {
        let silent = look.seen.silent_ns;
        let lines = match self.enter_within(look.rest()) {
            None => self.ask_its_thread(look),
            Some(entered) => entered.map(|inside| {
                let mut lines = inside.dump_inside();
                if silent > LONG_NS
                    && !self.has_progress_thread()
                    && !self.waiting().anyone_asleep()
                {
                    let text = format!("  no thread has called for {}", milliseconds(silent));
                    lines.insert(1, text);
                }
                lines
            }),
        };
        lines.unwrap_or_else(|| {
            let mut lines = self.dump_from_outside();
            lines.push(self.absence_text(silent));
            lines
        })
    }

    fn title(&self) -> String {
        format!("worker \"{}\"", self.display_name().to_string_lossy())
    }

    fn pulse(&self) -> Pulse {
        let (stats, waiting) = (self.stats(), self.queue_stats().2);
        let operations = stats.operations(waiting);
        Pulse {
            calls: stats.progress_calls.get().wrapping_add(operations.submitted),
            in_flight: operations.in_flight,
            ended: operations.completed + operations.failed + operations.canceled,
        }
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn measure(&self, report: &mut Report) {
        self.measure_into(report);
    }
}

/// A thread that polls or sleeps in the library comes by more often.
const LONG_NS: u64 = 1_000_000_000;

impl SharedWorker {
    fn ask_its_thread(&self, look: &Look<'_>) -> Option<Vec<String>> {
        let inquiry = self.inquiry();
        inquiry.begin();
        // The answer of a worker with thousands of endpoints takes long on a busy machine.
        while !inquiry.is_answered()
            && !look.is_awaited()
            && (inquiry.is_taken() || !look.rest().is_zero())
        {
            // Again, as it may not have been asleep before.
            self.wake_hint().give(self);
            std::thread::sleep(PAUSE);
        }
        inquiry.end()
    }

    fn absence_text(&self, silent_ns: u64) -> String {
        let maker = self.inquiry().maker.load(Ordering::Relaxed);
        let who = if self.gate().is_lock() { "a thread is inside it and" } else { "its thread" };
        format!(
            "  {who} has not called the library for {}, so nothing more can be read; \
            the worker was made by {}",
            milliseconds(silent_ns),
            thread_text::describe(maker)
        )
    }
}

impl Worker {
    /// Answers the monitor's question, if there still is one.
    pub(crate) fn answer_inquiry(&self) {
        let is_asked = &self.inquiry().is_asked;
        if is_asked.load(Ordering::Relaxed) && is_asked.swap(false, Ordering::Acquire) {
            self.inquiry().answer(self.dump_inside());
        }
    }
}
