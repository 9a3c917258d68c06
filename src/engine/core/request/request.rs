//! Requests: slots that contain the engine's state of one operation, with UCP's request memory
//! before each slot.
//!
//! # Ownership
//!
//! - A `Cell` in a slot belongs to the thread inside the worker's gate.
//! - `status` is read by any thread. It is stored with Release after the cells that describe the
//!   result, right before the callback runs.
//! - `done` is read by any thread. It is stored with Release after the callback has returned. With
//!   a progress thread, waiting threads sleep on it.
//! - A slot of the pool belongs to the thread that took it, until that thread has pushed it into
//!   the ring.
//! - A slot is free when neither the caller (USER) nor the engine (ENGINE) holds it. A caller
//!   releases it from any thread by pushing it onto the worker's `foreign` list, which the worker's
//!   thread drains.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::message::Inbound;
use crate::engine::core::channel::receive_buffers::Buffers;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::completion_flag::Done;
use crate::engine::core::request::description::Description;
use crate::engine::core::request::error_text;
use crate::engine::core::request::inflight;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::Store;
use crate::engine::core::request::notifier;
use crate::engine::core::request::notifier_events::Happened;
use crate::engine::core::request::operation::{flag, Callback, OpParams, RecvInfo};
pub(crate) use crate::engine::core::request::operation_kind::Kind;
use crate::engine::core::request::queue_state::Stage;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::SharedWorker;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_void, CStr, CString};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, Ordering};

/// What an internal operation is part of.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// No operation waits for it.
    Nothing,
    /// For a flush itself, which is not internal: it waits for sends, and UCP's half starts after
    /// them.
    SendsFirst,
    /// UCP's half of this flush.
    Flush(Ticket),
    /// UCP's flush of an endpoint that is being closed.
    FlushBeforeClose,
    /// UCP's close of the endpoint.
    Close,
    /// UCP's flush of a new endpoint to a foreign worker, which completes when that worker has
    /// answered.
    Answer,
    /// The first message on an endpoint, with the number of the attempt to connect.
    Hello(u32),
    /// The last message on an endpoint.
    Bye,
    /// A message that shows that UCX holds nothing of a connection any more.
    LastWord,
    /// A request for a sign of life.
    Ping,
    /// Tells a peer that its protocol version is refused; without an endpoint.
    Refusal,
    /// For the request message of a fetch: the fetch. For the fetch: its request message.
    Ask(Ticket),
    /// A message of this multi-buffer transfer, and which one; for a receive, of its frames.
    Frame(Ticket, u32),
    /// The header that this multi-buffer receive waits for.
    Heading(Ticket),
    /// The pull of its endpoint's multi-buffer message with this number.
    Pull(u64),
    /// Not a part: the report of a notifier, while the slot is in its queue.
    Event(Happened),
}

/// A slot that changes its owner: a thread that gets it from another thread owns its cells.
pub(crate) struct SlotPointer(pub(crate) *const Slot);
// SAFETY: the receiving thread owns the slot's cells: see the type.
unsafe impl Send for SlotPointer {}

/// Bits of `Slot::hold`.
pub(crate) const USER: u8 = 1;
pub(crate) const ENGINE: u8 = 2;
/// UCP still has it, and its caller has a status: see `Worker::abandon`.
pub(crate) const UCP: u8 = 4;

/// Bits of `Slot::marks`.
pub(crate) mod mark {
    /// The submitting call has not returned from UCP: a completion is only recorded.
    pub(crate) const SUBMITTING: u8 = 1;
    /// Completed while SUBMITTING.
    pub(crate) const INLINE: u8 = 2;
    /// The caller was given the request.
    pub(crate) const GIVEN: u8 = 4;
    /// In flight.
    pub(crate) const LIVE: u8 = 8;
    /// At its deadline the endpoint may be closed by force.
    pub(crate) const CLOSES: u8 = 16;
    /// A receive whose completion only its request shows: no callback, notifier, `recv_info`,
    /// `source` or timeout, not cancelled, and its request not released.
    pub(crate) const PLAIN: u8 = 32;
    /// A send in its endpoint's queue, not known to UCP.
    pub(crate) const WAITING: u8 = 64;
    /// An active message in the queue that has taken the peer's credit. The credit is returned if
    /// it is not sent.
    pub(crate) const CREDITED: u8 = 128;
}

/// Refers to one use of a slot; invalid as soon as the slot is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) slot: *const Slot,
    use_number: u32,
}

// SAFETY: a pointer and a number; only the thread inside the worker's gate uses the pointer.
unsafe impl Send for Ticket {}

impl Ticket {
    /// Refers to no slot.
    #[cfg(test)]
    pub(crate) const NOWHERE: Ticket = Ticket { slot: std::ptr::null(), use_number: 0 };

    /// The slot, if it is still in the use that the ticket was made for, and not complete.
    pub(crate) fn current(&self) -> Option<&Slot> {
        // SAFETY: slots live as long as their worker, and only their worker uses its tickets.
        let slot = unsafe { &*self.slot };
        (slot.use_number.get() == self.use_number
            && slot.kind.get() != Kind::Free
            && slot.is_pending())
        .then_some(slot)
    }
}

/// One operation. Handed to C as `ucxx_request_t`. UCP's own memory is right before it.
#[repr(C, align(64))]
pub struct Slot {
    /// INPROGRESS until the callback is about to run; stored with Release.
    pub(crate) status: AtomicI32,
    /// Set after the callback has returned.
    pub(crate) done: Done,
    pub(crate) stage: Stage,
    /// From the pool for threads that submit through the ring; otherwise from the owner's slab.
    /// Never changes.
    pub(crate) pooled: bool,
    /// INPROGRESS until the operation has completed, which may be long before the callback runs.
    pub(crate) outcome: Cell<Status>,
    pub(crate) hold: Cell<u8>,
    pub(crate) marks: Cell<u8>,
    pub(crate) kind: Cell<Kind>,
    /// Bits of `notifier::outside`: any thread.
    pub(crate) outside: AtomicU8,
    use_number: Cell<u32>,
    /// The worker of the slot; never changes. It outlives every slot that a caller holds.
    pub(crate) worker: *const SharedWorker,
    /// Free list or ready list.
    pub(crate) next: Cell<*const Slot>,
    pub(crate) callback: Cell<Option<Callback>>,
    pub(crate) callback_arg: Cell<*mut c_void>,
    /// A reference, until the operation was reported; null without a notifier.
    pub(crate) notifier: Cell<*const notifier::Core>,
    pub(crate) recv_info: Cell<*mut RecvInfo>,
    pub(crate) length: Cell<u64>,
    pub(crate) tag: Cell<u64>,
    /// The endpoint that it is sent to (sends, flush, close), or that it ends with (`source` of a
    /// receive). The worker keeps the endpoint alive while something in flight refers to it.
    pub(crate) endpoint: Cell<*const Endpoint>,
    /// Position in the order of submissions.
    pub(crate) sequence: Cell<u64>,
    /// Approximate time of submission (`Worker::coarse_now`).
    pub(crate) started: Cell<u64>,
    /// Neighbours in the list, for a slot of the pool in flight.
    pub(crate) previous_live: Cell<*const Slot>,
    pub(crate) next_live: Cell<*const Slot>,
    /// The status to report instead of UCX's CANCELED; 0 for none.
    pub(crate) reason: Cell<i32>,
    /// Flush: number of completions that it waits for.
    pub(crate) remaining: Cell<u32>,
    /// Internal: what its completion means.
    pub(crate) part: Cell<Part>,
    /// Scattered buffers, in UCP's form; the memory stays with the slot for its next use.
    pub(crate) iov: UnsafeCell<Vec<crate::sys::ucp_dt_iov_t>>,
    /// The header of an active message, which UCX may read until the operation completes; or a
    /// received message.
    pub(crate) store: UnsafeCell<Store>,
    /// A received message.
    pub(crate) inbound: Cell<Inbound>,
    /// For a fetch, or a received fetch request: the number that its reply has. 0 after the reply
    /// has arrived.
    pub(crate) number: Cell<u64>,
    /// For a fetch whose reply gets newly allocated buffers.
    pub(crate) making: Cell<Option<Box<Making>>>,
    /// State of its protocol besides the slot.
    pub(crate) state: Cell<Option<Box<dyn Any + Send>>>,
    /// What to submit, while the slot is in the ring.
    pub(crate) queued: Cell<Queued>,
    /// Of a failure of which its kind and status do not say it all.
    message: Cell<Option<Box<CString>>>,
    /// If its worker describes requests. Never changes.
    pub(crate) description: Option<Box<Description>>,
    /// Link of a notifier's queue, later of the list of released slots. Used by the thread that
    /// pushes, then by the one that takes or drains.
    pub(crate) next_foreign: AtomicPtr<Slot>,
}

// SAFETY: see the head of this file: cells belong to the thread inside the gate, the other fields
// are atomic.
unsafe impl Send for Slot {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn new(worker: *const SharedWorker, pooled: bool, describes: bool) -> Self {
        Slot {
            status: AtomicI32::new(0),
            done: Done::new(),
            stage: Stage::new(),
            pooled,
            outcome: Cell::new(Status::OK),
            hold: Cell::new(0),
            marks: Cell::new(0),
            kind: Cell::new(Kind::Free),
            outside: AtomicU8::new(0),
            use_number: Cell::new(0),
            worker,
            next: Cell::new(std::ptr::null()),
            callback: Cell::new(None),
            callback_arg: Cell::new(std::ptr::null_mut()),
            notifier: Cell::new(std::ptr::null()),
            recv_info: Cell::new(std::ptr::null_mut()),
            length: Cell::new(0),
            tag: Cell::new(0),
            endpoint: Cell::new(std::ptr::null()),
            sequence: Cell::new(0),
            started: Cell::new(0),
            previous_live: Cell::new(std::ptr::null()),
            next_live: Cell::new(std::ptr::null()),
            reason: Cell::new(0),
            remaining: Cell::new(0),
            part: Cell::new(Part::Nothing),
            iov: UnsafeCell::new(Vec::new()),
            store: UnsafeCell::new(Store::new()),
            inbound: Cell::new(Inbound::NOTHING),
            number: Cell::new(0),
            making: Cell::new(None),
            state: Cell::new(None),
            queued: Cell::new(Queued::NOTHING),
            message: Cell::new(None),
            description: describes.then(|| Box::new(Description::new())),
            next_foreign: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Prepares the slot for UCP, which may call back before the call that starts the operation
    /// returns. The other fields are needed only if the operation is still in flight after the
    /// call: see `begin`.
    #[inline(always)]
    pub(crate) fn prepare(&self, kind: Kind) {
        self.kind.set(kind);
        self.marks.set(mark::SUBMITTING);
    }

    /// Starts a use that lasts longer than a call.
    #[inline(always)]
    pub(crate) fn begin(&self, kind: Kind, params: &OpParams, length: u64, tag: u64, given: bool) {
        self.kind.set(kind);
        self.hold.set(if given { ENGINE | USER } else { ENGINE });
        let closes = if params.flags & flag::TIMEOUT_CLOSES != 0 { mark::CLOSES } else { 0 };
        self.marks.set(closes | if given { mark::GIVEN } else { 0 });
        debug_assert!(self.is_clean());
        self.recv_info.set(params.recv_info);
        self.callback.set(params.callback);
        // Not copied unconditionally: the caller has just written it in pieces, and reading it as a
        // whole would stall.
        if params.callback.is_some() || !params.notifier.is_null() {
            self.callback_arg.set(params.callback_arg);
        }
        self.length.set(length);
        self.tag.set(tag);
        self.outcome.set(Status::INPROGRESS);
        self.done.begin();
        self.status.store(Status::INPROGRESS.0, Ordering::Relaxed);
    }

    /// Starts a use with all that its parameters ask for except the timeout. It is started later,
    /// without the parameters.
    #[inline]
    pub(crate) fn begin_in_full(&self, kind: Kind, params: &OpParams, length: u64, out: Out) {
        self.begin(kind, params, length, 0, out.is_wanted());
        if let Some(notifier) = params.notifier() {
            self.name_notifier(notifier);
        }
        out.store(self);
    }

    /// In an unused slot, the fields that most operations do not use are as `new` made them: `end`
    /// ensures that.
    fn is_clean(&self) -> bool {
        self.callback.get().is_none()
            && self.notifier.get().is_null()
            && self.recv_info.get().is_null()
            && self.endpoint.get().is_null()
            && self.reason.get() == 0
            && self.remaining.get() == 0
            && matches!(self.part.get(), Part::Nothing)
            && self.outside.load(Ordering::Relaxed) == 0
    }

    /// Sets the status that it will have; the first of several reasons counts.
    pub(crate) fn note_reason(&self, status: Status) {
        if self.reason.get() == 0 {
            self.reason.set(status.0);
        }
    }

    /// Ends a use: every ticket for it is invalid from here on.
    #[inline]
    pub(crate) fn end(&self) {
        self.callback.set(None);
        self.recv_info.set(std::ptr::null_mut());
        self.endpoint.set(std::ptr::null());
        self.reason.set(0);
        self.remaining.set(0);
        self.part.set(Part::Nothing);
        self.outside.store(0, Ordering::Relaxed);
        self.kind.set(Kind::Free);
        self.use_number.set(self.use_number.get().wrapping_add(1));
        if self.outcome.get().is_error() {
            self.message.set(None);
        }
    }

    /// Room in the slot's own memory, which replaces its contents. For a slot that was just taken.
    #[inline(always)]
    pub(crate) fn room(&self, length: usize) -> *mut u8 {
        // SAFETY: nothing else uses the slot yet, and UCX has returned what it read there.
        unsafe { &mut *self.store.get() }.room(length).as_mut_ptr()
    }

    /// For a fetch: the processor may be unable to access the buffer for its reply.
    pub(crate) fn wants_pull(&self) -> bool {
        // SAFETY: the cell belongs to the caller.
        unsafe { &*self.queued.as_ptr() }.outgoing.wants_pull()
    }

    /// UCX is reading from or writing to the peer's memory for it, which cannot be cut short.
    pub(crate) fn is_pull(&self) -> bool {
        let kind = self.kind.get();
        matches!(kind, Kind::AmRecv | Kind::MultiPull)
            || (matches!(kind, Kind::Put | Kind::Get) && !self.has_mark(mark::WAITING))
            || (matches!(kind, Kind::Fetch | Kind::AmQueueRecv) && self.number.get() == 0)
    }

    /// The received message in the slot.
    #[inline(always)]
    pub(crate) fn inbound(&self) -> &Inbound {
        // SAFETY: the cell belongs to the caller, which does not change it while it uses the
        // reference.
        unsafe { &*self.inbound.as_ptr() }
    }

    /// Buffers are being allocated, or were allocated, for what it receives.
    pub(crate) fn is_making(&self) -> bool {
        // SAFETY: the cell belongs to the caller, which does not change it meanwhile.
        unsafe { &*self.making.as_ptr() }.is_some()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { slot: self, use_number: self.use_number() }
    }

    /// Of the present use; it does not change while the caller or the engine holds the slot.
    pub(crate) fn use_number(&self) -> u32 {
        self.use_number.get()
    }

    #[inline]
    pub(crate) fn has_mark(&self, bits: u8) -> bool {
        self.marks.get() & bits != 0
    }

    #[inline]
    pub(crate) fn add_mark(&self, bits: u8) {
        self.marks.set(self.marks.get() | bits);
    }

    #[inline]
    pub(crate) fn clear_mark(&self, bits: u8) {
        self.marks.set(self.marks.get() & !bits);
    }

    /// It has no result yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.outcome.get() == Status::INPROGRESS
    }

    /// Fills the caller's `recv_info`, which the caller must keep until now.
    #[inline]
    pub(crate) fn store_recv_info(&self) {
        self.tell_received(self.recv_info.get());
    }

    /// The same for an operation whose parameters the slot does not have.
    #[inline(always)]
    pub(crate) fn tell_received(&self, info: *mut RecvInfo) {
        let (length, sender_tag) = (self.length.get(), self.tag.get());
        if !info.is_null() {
            // SAFETY: the caller keeps it valid until the operation completes, which is now.
            unsafe { info.write(RecvInfo { length, sender_tag, reserved: [0; 2] }) };
        }
    }

    /// Makes the result visible: at once to the callback that is about to run, and to other threads
    /// when `done` is set.
    #[inline]
    pub(crate) fn publish_status(&self) {
        self.status.store(self.outcome.get().0, Ordering::Release);
    }

    pub(crate) fn set_message(&self, text: Option<String>) {
        let text = text.and_then(|text| CString::new(text.replace('\0', " ")).ok());
        self.message.set(text.map(Box::new));
    }

    /// INPROGRESS until the operation has completed and its callback has returned: a thread that
    /// polls may then free what the callback uses. Inside the callback it is the result already.
    /// Any thread.
    #[inline]
    pub fn status(&self) -> Status {
        let status = Status(self.status.load(Ordering::Acquire));
        if status == Status::INPROGRESS
            || self.is_done()
            || crate::engine::core::worker::deferred::in_callback()
        {
            status
        } else {
            Status::INPROGRESS
        }
    }

    /// It has completed, but its callback may not have returned. Any thread.
    pub(crate) fn has_ended(&self) -> bool {
        self.status.load(Ordering::Acquire) != Status::INPROGRESS.0
    }

    /// The callback, if there is one, has returned, or the report was made. Any thread.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.is_set() || self.was_polled()
    }

    /// What a completed receive reports of its message.
    pub fn recv_info(&self) -> Result<RecvInfo> {
        self.check_fork()?;
        // The Acquire in `status()` orders the reads of the two cells after the writes that
        // describe the result.
        if self.status() == Status::INPROGRESS {
            return Err(Error::new(Status::INPROGRESS, "request: still in progress"));
        }
        if !self.kind.get().is_recv() {
            return Err(Error::invalid(format!(
                "request: is of a call that receives nothing: {}",
                self.kind.get().describe()
            )));
        }
        Ok(RecvInfo { length: self.length.get(), sender_tag: self.tag.get(), reserved: [0; 2] })
    }

    /// The buffers that were allocated for what it has received; once.
    pub fn take_buffers(&self) -> Result<Buffers> {
        self.check_fork()?;
        match self.status() {
            Status::INPROGRESS => {
                return Err(Error::new(Status::INPROGRESS, "request: still in progress"))
            }
            Status::OK => {}
            error => return Err(Error::new(error, "request: has failed, and has no buffers")),
        }
        let making = self.making.take();
        let buffers = making.and_then(|making| making.buffers);
        buffers.ok_or_else(|| {
            Error::new(Status::NO_ELEM, "request: has no buffers, or they were taken already")
        })
    }

    /// The sender's header of a message received from a queue.
    pub fn am_header(&self) -> Result<&[u8]> {
        self.check_fork()?;
        match self.status() {
            Status::INPROGRESS => Err(Error::new(Status::INPROGRESS, "request: still in progress")),
            Status::OK if self.kind.get() == Kind::AmQueueRecv => Ok(self.front()),
            Status::OK => Err(Error::new(
                Status::NO_ELEM,
                "request: has no header; only a receive from a queue has one",
            )),
            error => Err(Error::new(error, "request: has failed, and has no header")),
        }
    }

    /// Operation, peer and cause of a failure; empty otherwise. Valid until the request is
    /// destroyed.
    pub fn error_message(&self) -> &CStr {
        let status = self.status();
        if !status.is_error() {
            return c"";
        }
        // SAFETY: written before the status was published, and not again until the slot is free,
        // which the caller's hold on the request prevents.
        let message = unsafe { &*self.message.as_ptr() };
        match message.as_deref() {
            Some(message) => message,
            None => error_text::of_kind(self.kind.get(), status),
        }
    }

    /// The worker of the request.
    pub fn worker(&self) -> &SharedWorker {
        // SAFETY: the worker's memory outlives every request that a caller holds.
        unsafe { &*self.worker }
    }

    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        if self.worker().generation.is_past() {
            return Err(crate::engine::ucx::context::forked("request"));
        }
        Ok(())
    }

    /// Requests the end of the operation; its completion shows the result. A completed operation
    /// does not change.
    pub fn cancel(&self) -> Result<()> {
        self.check_fork()?;
        if self.status() != Status::INPROGRESS {
            return Ok(());
        }
        if self.stage.cancel() {
            return Ok(());
        }
        // The caller holds the request, so this use of the slot lasts at least until here.
        let ticket = self.ticket();
        let worker = self.worker();
        let posted = worker.post(move |inside| {
            if let Some(slot) = ticket.current() {
                inside.cancel_slot(slot, Status::CANCELED);
            }
        });
        if posted.is_err() && worker.closed.load(Ordering::Acquire) {
            // The end of the worker cancels what is left.
            return Ok(());
        }
        worker.tell_others();
        posted
    }
}

/// Releases the request. An operation in flight continues without it.
///
/// # Safety
/// The caller holds the request and does not use it again; its memory may be freed by this.
pub unsafe fn destroy(slot: *const Slot) {
    // SAFETY: the caller holds the slot, and a slot that is held keeps its worker's memory.
    let worker = unsafe { (*slot).worker };
    // SAFETY: the held slot keeps its worker's memory.
    if unsafe { (&*worker).generation.is_past() } {
        return;
    }
    // SAFETY: the caller holds the request, and does not use it again.
    if !unsafe { notifier::left_by_user(slot) } {
        return;
    }
    // SAFETY: the caller still holds the slot; the buffers of a completed request belong only to
    // its caller.
    if unsafe { (*slot).is_done() && (*slot).is_making() } {
        // SAFETY: the caller still holds the slot; the buffers of a completed request belong only
        // to its caller.
        drop(unsafe { (*slot).making.take() });
    }
    // SAFETY: used for this call only. The worker has not ended, so the release cannot free its
    // memory.
    if let Some(worker) = unsafe { (*worker).act_at_once() } {
        // SAFETY: the caller gives the slot up here, and does not use it again.
        worker.release_slot(unsafe { &*slot });
    } else {
        // SAFETY: the caller gives the slot up here, and does not use it again.
        unsafe { inflight::push_foreign(slot) };
    }
}
