//! Requests: slots that hold the engine's state of one operation and the memory UCP asks for in
//! front of it.
//!
//! Who owns what. Everything in a slot that is a `Cell` belongs to the thread inside the worker's
//! gate. Two words are read by any thread: `status`, stored with Release after everything that
//! describes the result and right before the callback runs, and `done`, stored with Release after
//! the callback has returned; with a progress thread it is also what waiters sleep on. A slot is
//! free when neither the caller (USER) nor the engine (ENGINE) holds it. A slot of the pool belongs
//! to the thread that took it until that has pushed it into the ring. A caller lets go from any
//! thread by pushing the slot onto the worker's `foreign` list, which the owner drains.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::message::Inbound;
use crate::engine::core::channel::receive_buffers::Buffers;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::completion_flag::Done;
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
    /// Nobody waits for it.
    Nothing,
    /// Of a flush itself, which is not internal: it waits for sends, and UCP's half begins after
    /// them.
    SendsFirst,
    /// UCP's half of this flush.
    Flush(Ticket),
    /// UCP's flush of an endpoint that is being closed.
    FlushBeforeClose,
    /// UCP's close of the endpoint.
    Close,
    /// UCP's flush of a fresh endpoint to a foreign worker, which ends when that has answered.
    Answer,
    /// The first message on an endpoint; with the number of the attempt to connect.
    Hello(u32),
    /// The last one.
    Bye,
    /// What shows that UCX holds nothing of a connection any more.
    LastWord,
    /// The question for a sign of life.
    Ping,
    /// Tells a peer of another version so; of no endpoint.
    Refusal,
    /// Of a fetch, its question; of that, the fetch.
    Ask(Ticket),
    /// A message of this multi-buffer transfer, and which; for a receive, of its frames.
    Frame(Ticket, u32),
    /// The header that this multi-buffer receive waits for.
    Heading(Ticket),
    /// The pull of its endpoint's multi-buffer message with this number.
    Pull(u64),
    /// No part of anything: what a notifier is to hand out, while the slot is in its queue.
    Event(Happened),
}

/// A slot that changes hands: whoever has it from another thread owns its cells.
pub(crate) struct SlotPointer(pub(crate) *const Slot);
// SAFETY: see the type.
unsafe impl Send for SlotPointer {}

/// Bits of `Slot::hold`.
pub(crate) const USER: u8 = 1;
pub(crate) const ENGINE: u8 = 2;
/// UCP still has it, and its caller has been told the end: see `Worker::abandon`.
pub(crate) const UCP: u8 = 4;

/// Bits of `Slot::marks`.
pub(crate) mod mark {
    /// The submitting call has not returned from UCP: a completion is only noted down.
    pub(crate) const SUBMITTING: u8 = 1;
    /// Completed while SUBMITTING.
    pub(crate) const INLINE: u8 = 2;
    /// The caller was given the request.
    pub(crate) const GIVEN: u8 = 4;
    /// In flight.
    pub(crate) const LIVE: u8 = 8;
    /// At its deadline the endpoint may be closed by force.
    pub(crate) const CLOSES: u8 = 16;
    /// A receive of whose end only its request tells: no callback, notifier, `recv_info`, `source`
    /// or timeout, not cancelled, and its request not let go of.
    pub(crate) const PLAIN: u8 = 32;
    /// A send in its endpoint's queue: UCP knows nothing of it.
    pub(crate) const WAITING: u8 = 64;
    /// An active message there, with the peer's credit for it taken: to be given back if it is not
    /// sent after all.
    pub(crate) const CREDITED: u8 = 128;
}

/// Names one use of a slot: out of date as soon as the slot is used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) slot: *const Slot,
    use_number: u32,
}

// SAFETY: a pointer and a number; what it points to is looked at by whoever is inside the worker's
// gate.
unsafe impl Send for Ticket {}

impl Ticket {
    /// Of no slot.
    #[cfg(test)]
    pub(crate) const NOWHERE: Ticket = Ticket { slot: std::ptr::null(), use_number: 0 };

    /// The slot, if it is still in the use that the ticket was made for, and not complete.
    pub(crate) fn current(&self) -> Option<&Slot> {
        // SAFETY: slots live as long as their worker, and only their worker looks at its tickets.
        let slot = unsafe { &*self.slot };
        (slot.use_number.get() == self.use_number
            && slot.kind.get() != Kind::Free
            && slot.is_pending())
        .then_some(slot)
    }
}

/// One operation. Handed to C as `ucxx_request_t`. UCP's own memory lies right in front of it.
#[repr(C, align(64))]
pub struct Slot {
    /// INPROGRESS until the callback is about to run; stored with Release.
    pub(crate) status: AtomicI32,
    /// Once the callback has returned.
    pub(crate) done: Done,
    pub(crate) stage: Stage,
    /// From the pool for threads that submit through the ring; else of the owner's slab. For good.
    pub(crate) pooled: bool,
    /// INPROGRESS until the operation has ended, which may be a while before the callback runs.
    pub(crate) outcome: Cell<Status>,
    pub(crate) hold: Cell<u8>,
    pub(crate) marks: Cell<u8>,
    pub(crate) kind: Cell<Kind>,
    /// Bits of `notifier::outside`: any thread.
    pub(crate) outside: AtomicU8,
    use_number: Cell<u32>,
    /// The worker that the slot belongs to, for good. It outlives every slot that a caller holds.
    pub(crate) worker: *const SharedWorker,
    /// Free list or ready list.
    pub(crate) next: Cell<*const Slot>,
    pub(crate) callback: Cell<Option<Callback>>,
    pub(crate) callback_arg: Cell<*mut c_void>,
    /// A reference, until the operation has been reported; null without.
    pub(crate) notifier: Cell<*const notifier::Core>,
    pub(crate) recv_info: Cell<*mut RecvInfo>,
    pub(crate) length: Cell<u64>,
    pub(crate) tag: Cell<u64>,
    /// The endpoint it goes to (sends, flush, close), or that it ends with (`source` of a receive).
    /// The worker keeps the endpoint alive as long as anything in flight names it.
    pub(crate) endpoint: Cell<*const Endpoint>,
    /// Position in the order of submissions.
    pub(crate) sequence: Cell<u64>,
    /// About when it was submitted (`Worker::coarse_now`).
    pub(crate) started: Cell<u64>,
    /// Of the pool and in flight: neighbours.
    pub(crate) previous_live: Cell<*const Slot>,
    pub(crate) next_live: Cell<*const Slot>,
    /// The status to report instead of UCX's CANCELED; 0 for none.
    pub(crate) reason: Cell<i32>,
    /// Flush: what must still end before it.
    pub(crate) remaining: Cell<u32>,
    /// Internal: what its end means.
    pub(crate) part: Cell<Part>,
    /// Scattered buffers, in UCP's form; the memory stays with the slot for its next use.
    pub(crate) iov: UnsafeCell<Vec<crate::sys::ucp_dt_iov_t>>,
    /// The header of an active message, which UCX may read until the operation ends; or a message
    /// that came in.
    pub(crate) store: UnsafeCell<Store>,
    /// A message that came in.
    pub(crate) inbound: Cell<Inbound>,
    /// Of a fetch, or of a question that came in: what its answer names it by. 0 when that has
    /// come.
    pub(crate) number: Cell<u64>,
    /// Of a fetch whose answer gets buffers that are made for it.
    pub(crate) making: Cell<Option<Box<Making>>>,
    /// What its protocol keeps beside the slot.
    pub(crate) state: Cell<Option<Box<dyn Any + Send>>>,
    /// What to submit, while the slot is in the ring.
    pub(crate) queued: Cell<Queued>,
    message: Cell<Option<Box<CString>>>,
    /// A notifier's queue, later the list of what was given back from outside; touched by the
    /// thread that pushes, then by the one that takes or drains.
    pub(crate) next_foreign: AtomicPtr<Slot>,
}

// SAFETY: see the rules at the top of this file: cells belong to the thread inside the gate, the
// rest is atomic.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    pub(crate) fn new(worker: *const SharedWorker, pooled: bool) -> Self {
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
            next_foreign: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Readies the slot for UCP, which may call back before the call that starts the operation
    /// returns. What the operation is needs to be noted down only if it is still under way then:
    /// `begin`.
    #[inline(always)]
    pub(crate) fn prepare(&self, kind: Kind) {
        self.kind.set(kind);
        self.marks.set(mark::SUBMITTING);
    }

    /// Begins a use that lasts longer than a call.
    #[inline(always)]
    pub(crate) fn begin(&self, kind: Kind, params: &OpParams, length: u64, tag: u64, given: bool) {
        self.kind.set(kind);
        self.hold.set(if given { ENGINE | USER } else { ENGINE });
        let closes = if params.flags & flag::TIMEOUT_CLOSES != 0 { mark::CLOSES } else { 0 };
        self.marks.set(closes | if given { mark::GIVEN } else { 0 });
        debug_assert!(self.is_clean());
        self.recv_info.set(params.recv_info);
        self.callback.set(params.callback);
        // Not copied in passing: the caller has just written it, in pieces, and reading it as a
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

    /// Begins a use with all that its parameters ask for but the timeout: it is started later,
    /// without them.
    #[inline]
    pub(crate) fn begin_in_full(&self, kind: Kind, params: &OpParams, length: u64, out: Out) {
        self.begin(kind, params, length, 0, out.is_wanted());
        if let Some(notifier) = params.notifier() {
            self.name_notifier(notifier);
        }
        out.store(self);
    }

    /// What most operations have nothing of is as `new` made it in a slot that is not in use: `end`
    /// sees to that.
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

    /// What it is to end with: the first of several reasons.
    pub(crate) fn note_reason(&self, status: Status) {
        if self.reason.get() == 0 {
            self.reason.set(status.0);
        }
    }

    /// Ends a use: every ticket for it is out of date from here on.
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

    /// Room in the slot's own memory, in place of what was there: for a slot that was taken a
    /// moment ago.
    #[inline(always)]
    pub(crate) fn room(&self, length: usize) -> *mut u8 {
        // SAFETY: nobody else has the slot yet, and UCX has given back what it read there.
        unsafe { &mut *self.store.get() }.room(length).as_mut_ptr()
    }

    /// Of a fetch: the processor may not reach where its answer goes.
    pub(crate) fn wants_pull(&self) -> bool {
        // SAFETY: the cell belongs to whoever asks.
        unsafe { &*self.queued.as_ptr() }.outgoing.wants_pull()
    }

    /// UCX is fetching data from the peer's memory for it, or putting some there, which nothing
    /// cuts short.
    pub(crate) fn is_pull(&self) -> bool {
        let kind = self.kind.get();
        matches!(kind, Kind::AmRecv | Kind::MultiPull)
            || (matches!(kind, Kind::Put | Kind::Get) && !self.has_mark(mark::WAITING))
            || (matches!(kind, Kind::Fetch | Kind::AmQueueRecv) && self.number.get() == 0)
    }

    /// What is known of the message in it.
    #[inline(always)]
    pub(crate) fn inbound(&self) -> &Inbound {
        // SAFETY: the cell belongs to whoever asks, who does not change it while looking.
        unsafe { &*self.inbound.as_ptr() }
    }

    /// Buffers are made, or have been, for what it receives.
    pub(crate) fn is_making(&self) -> bool {
        // SAFETY: the cell belongs to whoever asks, who does not change it meanwhile.
        unsafe { &*self.making.as_ptr() }.is_some()
    }

    pub(crate) fn ticket(&self) -> Ticket {
        Ticket { slot: self, use_number: self.use_number.get() }
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

    /// Has no result yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.outcome.get() == Status::INPROGRESS
    }

    /// Fills the caller's `recv_info`, which it has promised to keep until now.
    #[inline]
    pub(crate) fn store_recv_info(&self) {
        let info = self.recv_info.get();
        if !info.is_null() {
            // SAFETY: the caller keeps it valid until the operation completes, which is now.
            unsafe {
                info.write(RecvInfo {
                    length: self.length.get(),
                    sender_tag: self.tag.get(),
                    reserved: [0; 2],
                })
            };
        }
    }

    /// Makes the result visible: at once to the callback that is about to run, to everyone else
    /// when it is `done`.
    #[inline]
    pub(crate) fn publish_status(&self) {
        self.status.store(self.outcome.get().0, Ordering::Release);
    }

    pub(crate) fn set_message(&self, text: String) {
        self.message.set(CString::new(text.replace('\0', " ")).ok().map(Box::new));
    }

    /// INPROGRESS until the operation has ended and its callback has returned; to a callback, the
    /// result already: whoever polls may take down what the callback uses as soon as this says so.
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

    /// It has ended, though its callback may not have returned. Any thread.
    pub(crate) fn has_ended(&self) -> bool {
        self.status.load(Ordering::Acquire) != Status::INPROGRESS.0
    }

    /// The callback, if there is one, has returned, or the report has been made. Any thread.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done.is_set() || self.was_polled()
    }

    /// What a receive that has completed tells of its message.
    pub fn recv_info(&self) -> Result<RecvInfo> {
        self.check_fork()?;
        // The Acquire in status() orders the reads of the two cells after the writes that describe
        // the result.
        if self.status() == Status::INPROGRESS {
            return Err(Error::new(Status::INPROGRESS, "request: still in progress"));
        }
        if !self.kind.get().is_recv() {
            return Err(Error::invalid(format!(
                "request: a {} receives nothing",
                self.kind.get().describe()
            )));
        }
        Ok(RecvInfo { length: self.length.get(), sender_tag: self.tag.get(), reserved: [0; 2] })
    }

    /// The buffers that were made for what it has received; once.
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
            Error::new(Status::NO_ELEM, "request: has no buffers, or they were taken")
        })
    }

    /// The sender's header of what was received from a queue.
    pub fn am_header(&self) -> Result<&[u8]> {
        self.check_fork()?;
        match self.status() {
            Status::INPROGRESS => Err(Error::new(Status::INPROGRESS, "request: still in progress")),
            Status::OK if self.kind.get() == Kind::AmQueueRecv => Ok(self.front()),
            Status::OK => Err(Error::new(
                Status::NO_ELEM,
                "request: is no receive from a queue, which has a header",
            )),
            error => Err(Error::new(error, "request: has failed, and has no header")),
        }
    }

    /// Operation, peer and cause of a failure; empty otherwise. Valid until the request is
    /// destroyed.
    pub fn error_message(&self) -> &CStr {
        if !self.status().is_error() {
            return c"";
        }
        // SAFETY: written before the status was published, and not again until the slot is free,
        // which the caller's hold on the request prevents.
        let message = unsafe { &*self.message.as_ptr() };
        message.as_deref().map_or(c"", CString::as_c_str)
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

    /// Asks for the operation to end; what becomes of it shows in its completion. One that has
    /// completed stays as it is.
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
            // Its end cancels what is left.
            return Ok(());
        }
        worker.tell_others();
        posted
    }
}

/// Lets go of the request. One that is in progress goes on without it.
///
/// # Safety
/// The caller holds the request and does not use it again; its memory may be gone afterwards.
pub unsafe fn destroy(slot: *const Slot) {
    // SAFETY: the caller holds the slot, and a slot that is held keeps its worker's memory.
    let worker = unsafe { (*slot).worker };
    // SAFETY: as above.
    if unsafe { (&*worker).generation.is_past() } {
        return;
    }
    // SAFETY: as for this function.
    if !unsafe { notifier::left_by_user(slot) } {
        return;
    }
    // SAFETY: as above; what a request that has completed was given is its caller's alone.
    if unsafe { (*slot).is_done() && (*slot).is_making() } {
        // SAFETY: as above.
        drop(unsafe { (*slot).making.take() });
    }
    // SAFETY: as above; the worker has not ended, so letting go cannot take its memory away.
    if let Some(worker) = unsafe { (*worker).act_at_once() } {
        // SAFETY: as above.
        worker.release_slot(unsafe { &*slot });
    } else {
        // SAFETY: as this function's own.
        unsafe { inflight::push_foreign(slot) };
    }
}
