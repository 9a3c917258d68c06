//! Lets the progress thread run what is not a plain transfer: creating endpoints, flushing,
//! closing, cancelling, and queries to UCP.
//!
//! With a progress thread and delayed submission no other thread calls UCP. Work that has no place
//! in the ring goes onto an unbounded list, so it is never refused for lack of room. The progress
//! thread takes the list, drains the ring, and then runs the list. So everything that a thread put
//! into the ring before a job is submitted before that job runs.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::event_count::EventCount;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot, SlotPointer};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::{Inside, SharedWorker};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// Something to do inside the gate.
pub(crate) enum Job {
    Owned(Box<dyn FnOnce(&Inside<'_>) + Send>),
    /// On the stack of a thread that waits for it.
    Lent {
        run: unsafe fn(*mut c_void, &Inside<'_>),
        job: *mut c_void,
    },
}

// SAFETY: a lent job belongs to the thread that runs it, until it is marked as done.
unsafe impl Send for Job {}

impl Job {
    fn run(self, inside: &Inside<'_>) {
        match self {
            Job::Owned(job) => job(inside),
            // SAFETY: `run` was made for this `job`, and the lender waits until the job is done.
            Job::Lent { run, job } => unsafe { run(job, inside) },
        }
    }
}

/// Values of `Errand::state`.
mod state {
    pub(crate) const PENDING: u32 = 0;
    /// It runs to its end, however long that takes.
    pub(crate) const RUNNING: u32 = 1;
    pub(crate) const DONE: u32 = 2;
    /// The caller's time ran out: it will not run.
    pub(crate) const ABANDONED: u32 = 3;
}

/// A user's function for the progress thread to run. `state` decides between running and abandoning
/// it.
pub(crate) struct Errand {
    state: AtomicU32,
    function: unsafe extern "C" fn(*mut c_void),
    arg: *mut c_void,
}

// SAFETY: the user hands function and argument over to the other thread.
unsafe impl Send for Errand {}
// SAFETY: the user hands both over; only `state` changes, which is atomic.
unsafe impl Sync for Errand {}

impl Errand {
    fn moved(&self, to: u32) -> bool {
        self.state.compare_exchange(state::PENDING, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn is_done(&self) -> bool {
        self.state.load(Ordering::Acquire) == state::DONE
    }
}

/// When a function runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Before the next progress pass, after what was submitted earlier.
    BeforePass,
    /// After it.
    AfterPass,
}

/// What other threads hand over.
#[derive(Default)]
pub(crate) struct Lists {
    pub(crate) jobs: VecDeque<Job>,
    pub(crate) before: VecDeque<Arc<Errand>>,
    pub(crate) after: VecDeque<Arc<Errand>>,
}

/// A lent job: what to call, and where its result goes. It belongs to the owner until `done` is
/// set, then to the lender again.
struct Question<F, R> {
    ask: UnsafeCell<Option<F>>,
    answer: UnsafeCell<Option<Result<R>>>,
    done: AtomicBool,
}

impl<F: FnOnce(&Inside<'_>) -> Result<R>, R> Question<F, R> {
    /// # Safety
    /// `job` is a `Question` of this type, lent until it is done.
    unsafe fn run(job: *mut c_void, inside: &Inside<'_>) {
        // SAFETY: the caller guarantees that `job` is such a question.
        let question = unsafe { &*job.cast::<Self>() };
        // SAFETY: this thread owns it until `done` is set.
        let ask = unsafe { (*question.ask.get()).take() };
        let answer = match ask {
            Some(_) if inside.closed.load(Ordering::Relaxed) => Some(Err(inside.closed_error())),
            Some(ask) => {
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| ask(inside))).ok()
            }
            None => None,
        };
        // SAFETY: this thread owns it until `done` is set, which the next line does.
        unsafe { *question.answer.get() = answer };
        question.done.store(true, Ordering::Release);
    }
}

impl SharedWorker {
    /// Runs `ask` where UCP may be called: here, inside the gate, or on the progress thread, for
    /// which this waits. Its result may come from another thread, so nothing that belongs to who is
    /// inside may be in it.
    pub(crate) fn on_owner<R: Send>(
        &self,
        ask: impl FnOnce(&Inside<'_>) -> Result<R>,
    ) -> Result<R> {
        if !self.thread.is_remote() {
            return ask(&self.enter()?);
        }
        self.check_usable()?;
        if deferred::in_callback() {
            return Err(Error::new(
                Status::BUSY,
                "worker: this has to wait for its progress thread, which a callback may not do",
            ));
        }
        self.ask_owner(ask)
    }

    fn ask_owner<R, F: FnOnce(&Inside<'_>) -> Result<R>>(&self, ask: F) -> Result<R> {
        let question = Question {
            ask: UnsafeCell::new(Some(ask)),
            answer: UnsafeCell::new(None),
            done: AtomicBool::new(false),
        };
        let run: unsafe fn(*mut c_void, &Inside<'_>) = Question::<F, R>::run;
        let job = std::ptr::from_ref(&question).cast_mut().cast();
        if !self.thread.control.put(|lists| lists.jobs.push_back(Job::Lent { run, job })) {
            // The thread was just stopped.
            let ask = question.ask.into_inner();
            return ask.map_or_else(|| Err(panicked()), |ask| ask(&self.enter()?));
        }
        self.wake_thread();
        self.thread.room.wait_until(&|| question.done.load(Ordering::Acquire), u64::MAX);
        question.answer.into_inner().unwrap_or_else(|| Err(panicked()))
    }

    /// Runs `job` where UCP may be called, now or soon. Does not wait.
    pub(crate) fn post(&self, job: impl FnOnce(&Inside<'_>) + Send + 'static) -> Result<()> {
        if !self.thread.is_remote() {
            job(&self.enter()?);
            return Ok(());
        }
        self.check_usable()?;
        let mut job = Some(Box::new(job));
        let put = |lists: &mut Lists| lists.jobs.extend(job.take().map(|job| Job::Owned(job)));
        if self.thread.control.put(put) {
            self.wake_thread();
        } else if let Some(job) = job {
            job(&self.enter()?);
        }
        Ok(())
    }

    /// Hands over an operation other than a transfer. None if the caller may, or must, do it
    /// directly.
    pub(crate) fn post_operation(
        &self,
        kind: Kind,
        params: &OpParams,
        out: Out,
        operation: impl FnOnce(&Inside<'_>, &Slot) + Send + 'static,
    ) -> Result<Option<Submitted>> {
        self.check_delayed_flag(params)?;
        if !self.thread.is_remote() {
            return Ok(None);
        }
        self.check_usable()?;
        let Some(queue) = self.thread.queue.get() else { return Ok(None) };
        let posted = self.thread.control.put(|lists| {
            // Under the lock: the end of the worker, which counts the requests that callers hold,
            // first closes the list.
            let slot = queue.take_slot(self);
            slot.stage.enqueue();
            slot.begin_in_full(kind, params, 0, out);
            trace::submitted(slot, None);
            let slot = SlotPointer(slot);
            let job = move |inside: &Inside<'_>| {
                let slot = slot;
                // SAFETY: taken above, and in use until the operation has completed.
                let slot = unsafe { &*slot.0 };
                // By a callback that ran before this.
                let canceled = !slot.stage.dequeue();
                if inside.closed.load(Ordering::Relaxed) {
                    return inside.never_started(slot, None, Status::CANCELED);
                }
                let ticket = slot.ticket();
                operation(inside, slot);
                if let (true, Some(slot)) = (canceled, ticket.current()) {
                    inside.cancel_slot(slot, Status::CANCELED);
                }
            };
            lists.jobs.push_back(Job::Owned(Box::new(job)));
        });
        if posted {
            self.wake_thread();
        }
        Ok(posted.then_some(Submitted::Pending))
    }

    /// Runs `function` where progress happens: on the progress thread, for which this waits, or at
    /// once if there is none. It counts as a callback. `TIMED_OUT` means that it has not run and
    /// will not run.
    ///
    /// # Safety
    /// `function` may be called with `arg`.
    pub unsafe fn run(
        &self,
        function: unsafe extern "C" fn(*mut c_void),
        arg: *mut c_void,
        when: When,
        timeout_ns: u64,
    ) -> Result<()> {
        self.check_usable()?;
        if self.thread.is_running() {
            if deferred::in_callback() {
                return Err(from_callback());
            }
            let errand = Arc::new(Errand { state: AtomicU32::new(state::PENDING), function, arg });
            let list = errand.clone();
            let put = |lists: &mut Lists| match when {
                When::BeforePass => lists.before.push_back(list),
                When::AfterPass => lists.after.push_back(list),
            };
            if self.thread.control.put(put) {
                self.wake_thread();
                return wait_for(&errand, &self.thread.room, timeout_ns);
            }
        }
        let inside = self.enter()?;
        // SAFETY: the caller guarantees that `function` may be called with `arg`.
        inside.outside(|| unsafe { function.call_out((arg,)) });
        drop(inside);
        Ok(())
    }
}

/// The same for an endpoint. The job keeps it: a callback may destroy the last handle before the
/// job runs.
impl SharedEndpoint {
    /// As `SharedWorker::post`.
    pub(crate) fn post(&self, job: impl FnOnce(&Endpoint) + Send + 'static) -> Result<()> {
        let endpoint = self.shared();
        self.worker().post(move |inside| job(endpoint.of(inside)))
    }

    /// As `SharedWorker::post_operation`.
    pub(crate) fn post_operation(
        &self,
        kind: Kind,
        params: &OpParams,
        out: Out,
        operation: impl FnOnce(&Endpoint, &Slot) + Send + 'static,
    ) -> Result<Option<Submitted>> {
        let worker = self.worker();
        if !worker.thread.is_remote() {
            return worker.check_delayed_flag(params).map(|()| None);
        }
        let endpoint = self.shared();
        let operation = move |inside: &Inside<'_>, slot: &Slot| {
            operation(endpoint.of(inside), slot);
        };
        worker.post_operation(kind, params, out, operation)
    }
}

fn wait_for(errand: &Errand, room: &EventCount, timeout_ns: u64) -> Result<()> {
    if !room.wait_until(&|| errand.is_done(), clock::deadline_after(timeout_ns)) {
        if errand.moved(state::ABANDONED) {
            return Err(Error::new(
                Status::TIMED_OUT,
                "worker: timeout_ns expired before the function could start",
            ));
        }
        room.wait_until(&|| errand.is_done(), u64::MAX);
    }
    Ok(())
}

#[cold]
fn panicked() -> Error {
    Error::new(Status::PANIC, "a bug in ucxx_rs, please report it: a panic on the progress thread")
}

impl Inside<'_> {
    /// Runs the jobs in order.
    pub(crate) fn run_jobs(&self, jobs: &mut VecDeque<Job>) -> u32 {
        let mut count = 0;
        for job in jobs.drain(..) {
            job.run(self);
            count += 1;
        }
        if count > 0 {
            self.thread.room.notify();
        }
        count
    }

    /// Runs user's functions, outside the gate.
    pub(crate) fn run_errands(&self, errands: &mut VecDeque<Arc<Errand>>) -> u32 {
        let mut count = 0;
        for errand in errands.drain(..) {
            if errand.moved(state::RUNNING) {
                // SAFETY: the user's function and argument.
                self.outside(|| unsafe { errand.function.call_out((errand.arg,)) });
                errand.state.store(state::DONE, Ordering::Release);
                self.thread.room.notify();
                count += 1;
            }
        }
        count
    }
}
