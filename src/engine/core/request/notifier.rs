//! The notifier: reports operations in batches to the caller's own threads. Other reports are in
//! `notifier_events`.

use crate::engine::base::clock;
use crate::engine::base::completion_queue::{Found, Node, Pushed, Queue};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::push_foreign;
use crate::engine::core::request::notifier_events::Happened;
use crate::engine::core::request::request::{mark, Part, Slot, ENGINE, USER};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::event_fd::EventFd;
use crate::engine::ucx::context::{self, feature, Context};
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Bits of `Slot::outside`: the holders, other than the engine, of a request with a notifier. All
/// zero for other requests.
pub(crate) mod outside {
    /// It has a notifier.
    pub(crate) const NOTIFIED: u8 = 1;
    /// It was not polled yet.
    pub(crate) const QUEUE: u8 = 2;
    /// The caller has not released its request.
    pub(crate) const USER: u8 = 4;
}

/// A completion queue for the operations of any worker of one context.
///
/// **The slot is the queue's node.** A report allocates nothing and cannot fail for lack of room,
/// because each operation provides the memory of its report. The queue links the slots themselves,
/// through the link that is also used when a caller releases a slot, which cannot happen at the
/// same time.
///
/// **Holders of the slot.** For the engine, a slot with a notifier is held from outside (`hold`,
/// USER) from the start, whether the caller kept a request or not. `Slot::outside` has the actual
/// holders: the queue until the report was polled, and the caller until it destroys its request.
/// Each of them clears its bit on its own thread. The last one returns the slot to the worker
/// through `foreign`, as for any released request. So a report is read from the slot while the
/// queue still holds it, and a polled request is valid until the caller destroys it.
///
/// **If the worker ends first**, it completes what is in flight with `CANCELED`, and reports that.
/// It counts the slots that the queue holds among those that keep its memory, as it does with
/// requests that callers hold. The last one to be polled, or dropped with the notifier, frees the
/// worker's memory.
///
/// **If the notifier is destroyed first**, the queue is emptied and refuses later reports. The
/// operation then completes without a report, and its worker frees the slot. Operations in flight
/// hold a reference to `Core`, which is released right after the report. Reports hold none, so the
/// two never keep each other alive.
pub struct Notifier {
    core: Arc<Core>,
}

/// Outlives the handle as long as operations in flight refer to it.
pub(crate) struct Core {
    context: Arc<Context>,
    queue: Queue<Slot>,
    /// Created on first use. Written after a report that finds the queue armed.
    event: OnceLock<EventFd>,
}

/// One completed operation, or one event.
#[derive(Clone, Copy)]
pub struct Completion {
    /// What is reported.
    pub happened: Happened,
    /// `callback_arg` of its parameters, or the argument that the report was requested with.
    pub user_data: *mut c_void,
    /// Null if the caller kept no request, or has destroyed it.
    pub request: *mut Slot,
    /// Bytes of the message.
    pub length: u64,
    /// Its tag.
    pub sender_tag: u64,
    /// Never INPROGRESS.
    pub status: Status,
}

/// How a wait ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub enum Waited {
    /// There may be something to poll.
    Ready,
    /// The time ran out.
    TimedOut,
}

// SAFETY: only the queue uses the link while the slot is in it, and only `push_foreign` afterwards.
unsafe impl Node for Slot {
    #[inline]
    fn set_next(&self, next: *const Slot) {
        self.next_foreign.store(next.cast_mut(), Ordering::Relaxed);
    }

    #[inline]
    fn next(&self) -> *const Slot {
        self.next_foreign.load(Ordering::Relaxed)
    }
}

impl Notifier {
    /// An empty one.
    pub fn new(context: &Arc<Context>) -> Result<Self> {
        context.check_fork()?;
        Ok(Notifier {
            core: Arc::new(Core {
                context: context.clone(),
                queue: Queue::new(),
                event: OnceLock::new(),
            }),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Checks that an operation of this context may use it.
    pub(crate) fn check(&self, context: &Arc<Context>) -> Result<()> {
        if !Arc::ptr_eq(&self.core.context, context) {
            return Err(Error::invalid("notifier: is of another context"));
        }
        if self.core.queue.is_stopped() {
            return Err(stopped());
        }
        Ok(())
    }

    /// Refuses use in a forked child.
    fn check_fork(&self) -> Result<()> {
        if self.core.context.generation.is_past() {
            return Err(context::forked("notifier"));
        }
        Ok(())
    }

    /// Waits until there is something to poll, or a signal handler has run on this thread. `CLOSED`
    /// if it was stopped and is empty.
    pub fn wait(&self, timeout_ns: u64) -> Result<Waited> {
        self.check_fork()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        let deadline = clock::deadline_after(timeout_ns);
        // An own reference: destroying the notifier ends this wait, and must not free the queue
        // during it.
        let core = self.core.clone();
        match core.queue.wait(|| clock::remaining(deadline)) {
            // The caller polls, finds nothing, and can handle what the signal handler has left.
            Found::Something | Found::Interrupted => Ok(Waited::Ready),
            Found::Nothing => Ok(Waited::TimedOut),
            Found::Stopped => Err(stopped()),
        }
    }

    /// Passes up to `max` completions to `visit`, oldest first, and returns their number. `CLOSED`
    /// if it was stopped and is empty.
    pub fn poll(&self, max: usize, mut visit: impl FnMut(Completion)) -> Result<usize> {
        self.check_fork()?;
        let chain = self.core.queue.take(max).ok_or_else(stopped)?;
        let mut count = 0;
        for slot in chain {
            // SAFETY: just taken from the queue, whose hold this gives up.
            visit(unsafe { take_report(slot) });
            count += 1;
        }
        Ok(count)
    }

    /// The descriptor for the caller's own event loop. It stays the library's.
    pub fn event_fd(&self) -> Result<libc::c_int> {
        self.check_fork()?;
        let core = &self.core;
        if !core.context.has(feature::WAKEUP) {
            return Err(context::missing_feature(feature::WAKEUP));
        }
        if let Some(event) = core.event.get() {
            return Ok(event.as_raw_fd());
        }
        let made = EventFd::new().map_err(|cause| {
            Error::new(Status::IO_ERROR, format!("notifier: no descriptor to wait on: {cause}"))
        })?;
        let fd = core.event.get_or_init(|| made).as_raw_fd();
        if core.queue.is_stopped_in_order() {
            core.ring();
        }
        Ok(fd)
    }

    /// Makes the descriptor readable at the next completion. False if there is something to poll
    /// first; then the descriptor is readable. `CLOSED` if it was stopped and is empty; then it is
    /// readable as well.
    pub fn arm(&self) -> Result<bool> {
        self.event_fd()?;
        let core = &self.core;
        match core.queue.arm(|| core.silence(), || core.ring()) {
            Found::Nothing => Ok(true),
            Found::Something | Found::Interrupted => Ok(false),
            Found::Stopped => Err(stopped()),
        }
    }

    /// Refuses new operations that use it. What it contains and what is in flight can still be
    /// polled.
    pub fn stop(&self) -> Result<()> {
        self.check_fork()?;
        self.core.queue.stop();
        self.core.ring();
        Ok(())
    }

    /// The same, and drops what it contains and what still arrives. Does nothing in a forked child.
    pub fn destroy(self) {
        if self.core.context.generation.is_past() {
            // A thread that does not exist in the child may have held its lock.
            std::mem::forget(self);
        }
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        for slot in self.core.queue.shut() {
            // SAFETY: just taken from the queue; no caller gets what it reports.
            unsafe { take_report(slot).happened.drop_unseen() };
        }
        self.core.ring();
    }
}

impl Core {
    /// Adds the slot's report. False if the notifier was destroyed; the queue then does not hold
    /// the slot.
    ///
    /// # Safety
    /// If this is true the queue holds the slot until it is taken out. The slot is in no other
    /// list.
    pub(crate) unsafe fn add(&self, slot: &Slot) -> bool {
        // SAFETY: the caller guarantees the queue's hold, and that the slot is in no list.
        match unsafe { self.queue.push(slot) } {
            Pushed::Quietly => true,
            Pushed::Ring => {
                self.ring();
                true
            }
            Pushed::Refused => false,
        }
    }

    fn ring(&self) {
        if let Some(event) = self.event.get() {
            event.ring();
        }
    }

    fn silence(&self) {
        if let Some(event) = self.event.get() {
            event.silence();
        }
    }
}

#[cold]
fn stopped() -> Error {
    Error::new(Status::CLOSED, "notifier: has been stopped")
}

/// Copies the slot's report, and gives up the queue's hold on it.
///
/// # Safety
/// The caller has taken the slot from its queue, and afterwards uses it only as the request that
/// this returns.
unsafe fn take_report(slot: *const Slot) -> Completion {
    let (mut completion, left) = {
        // SAFETY: the queue holds the slot. The cells are not written between the push, which the
        // taker has acquired, and the moment when the last outside holder has released the slot.
        let slot = unsafe { &*slot };
        let happened = match slot.part.get() {
            Part::Event(happened) => happened,
            _ => Happened::Operation,
        };
        let completion = Completion {
            happened,
            user_data: slot.callback_arg.get(),
            request: std::ptr::from_ref(slot).cast_mut(),
            length: slot.length.get(),
            sender_tag: slot.tag.get(),
            status: slot.outcome.get(),
        };
        if happened.is_the_slot() {
            slot.part.set(Part::Nothing);
            return Completion { request: null_mut(), sender_tag: 0, ..completion };
        }
        (completion, slot.outside.fetch_and(!outside::QUEUE, Ordering::AcqRel))
    };
    if left & outside::USER == 0 {
        completion.request = null_mut();
        // SAFETY: this was the last outside holder, and does not use the slot again.
        unsafe { push_foreign(slot) };
    }
    completion
}

/// The caller releases a request. True if the slot has no holder left and must return to its
/// worker.
///
/// # Safety
/// The caller holds the request, and does not use it again if this is false.
#[inline]
pub(crate) unsafe fn left_by_user(slot: *const Slot) -> bool {
    // SAFETY: the caller still holds the request.
    let bits = unsafe { &(*slot).outside };
    bits.load(Ordering::Relaxed) == 0
        || bits.fetch_and(!outside::USER, Ordering::AcqRel) & outside::QUEUE == 0
}

impl Slot {
    /// Makes `notifier` report the operation. Called by the owner of the slot before any other
    /// thread sees it.
    pub(crate) fn name_notifier(&self, notifier: &Notifier) {
        self.name_core(&notifier.core);
    }

    pub(crate) fn name_core(&self, core: &Arc<Core>) {
        self.notifier.set(Arc::into_raw(core.clone()));
        self.hold.set(ENGINE | USER);
        let user = if self.has_mark(mark::GIVEN) { outside::USER } else { 0 };
        self.outside.store(outside::NOTIFIED | outside::QUEUE | user, Ordering::Relaxed);
    }

    /// Its report was polled: a thread that knows this need not wait for the engine's last steps.
    #[inline]
    pub(crate) fn was_polled(&self) -> bool {
        self.outside.load(Ordering::Acquire) & (outside::NOTIFIED | outside::QUEUE)
            == outside::NOTIFIED
    }
}

impl Worker {
    /// Completes an operation with a notifier: publishes the result, reports it, and then releases
    /// waiters. False if the notifier was destroyed.
    #[inline(never)]
    pub(crate) fn report(&self, slot: &Slot) -> bool {
        // SAFETY: the reference that `name_notifier` took, given back once.
        let core = unsafe { Arc::from_raw(slot.notifier.replace(std::ptr::null())) };
        slot.publish_status();
        // SAFETY: the queue's bit holds the slot from here until it is taken out, and it is in no
        // list of the worker.
        let added = unsafe { core.add(slot) };
        if !added && slot.outside.fetch_and(!outside::QUEUE, Ordering::AcqRel) & outside::USER == 0
        {
            slot.hold.set(slot.hold.get() & !USER);
        }
        self.finish(slot);
        added
    }
}
