//! The operations in flight on a worker: taking slots, starting and completing operations, and
//! releasing requests.
//!
//! All of it runs inside the gate. One exception is `push_foreign`, which releases a request from
//! any thread.

use crate::engine::base::remote_free_list::RemoteFreeList;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::completion::Returned;
use crate::engine::core::request::operation::{deadline_of, flag, OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Part, Slot, ENGINE, UCP, USER};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::{attention, SharedWorker, Worker};
use crate::sys;
use std::any::Any;

impl Worker {
    /// A slot for a new operation.
    #[inline(always)]
    pub(crate) fn take_slot(&self) -> &Slot {
        match self.slab.pop() {
            Some(slot) => slot,
            None => self.take_slot_slow(),
        }
    }

    #[cold]
    fn take_slot_slow(&self) -> &Slot {
        self.drain_foreign();
        loop {
            if let Some(slot) = self.slab.pop() {
                return slot;
            }
            self.slab.grow(&**self, false);
        }
    }

    /// Returns a slot whose operation was never started, or that completed inside its call.
    #[inline(always)]
    pub(crate) fn return_slot(&self, slot: &Slot) {
        slot.hold.set(0);
        slot.end();
        if slot.pooled {
            self.return_to_pool(slot);
        } else {
            self.slab.push(slot);
        }
    }

    #[inline]
    pub(crate) fn next_sequence(&self) -> u64 {
        let sequence = self.sequence.get() + 1;
        self.sequence.set(sequence);
        sequence
    }

    /// Called after a `*_nbx` call with the slot, set up by `prepare`, as its request memory. The
    /// operation is complete, has failed, or is in flight from now on. `out` is written before any
    /// other thread can see the operation.
    #[inline(always)]
    pub(crate) fn submitted(
        &self,
        slot: &Slot,
        pointer: sys::ucs_status_ptr_t,
        submission: Submission<'_>,
        out: Out,
    ) -> Result<Submitted> {
        let Submission { endpoint, params, length, tag } = submission;
        match Returned::of(slot, pointer) {
            Returned::Done if params.flags & flag::ALWAYS_CALLBACK == 0 => {
                self.count_inline(slot.kind.get(), length, endpoint);
                trace::completed_inline(slot, endpoint);
                self.slab.push(slot);
                out.store_null();
                Ok(Submitted::Done)
            }
            Returned::Pending => {
                slot.begin(slot.kind.get(), params, length, tag, out.is_wanted());
                self.start(slot, endpoint, params, out);
                Ok(Submitted::Pending)
            }
            Returned::Refused(status) => Err(self.refused(slot, status, endpoint)),
            Returned::Done => {
                slot.note_done();
                slot.begin(slot.kind.get(), params, length, tag, out.is_wanted());
                self.start(slot, endpoint, params, out);
                self.complete(slot, Status::OK);
                Ok(Submitted::Pending)
            }
            Returned::Ended(status) => self.completed_inline(slot, status, submission, out),
        }
    }

    #[cold]
    fn refused(&self, slot: &Slot, status: Status, endpoint: Option<&Endpoint>) -> Error {
        let status = self.status_from_ucx(status, endpoint);
        let what = slot.kind.get().describe();
        trace::refused(slot, status);
        self.slab.push(slot);
        let message = match endpoint {
            Some(endpoint) => {
                format!("endpoint: UCX refused the {what}, peer {}", endpoint.peer_text())
            }
            None => format!("UCX refused the {what}"),
        };
        Error::new(status, message)
    }

    /// A receive whose callback ran before the call that posted it returned. A failure becomes a
    /// request like any other: a negative return value would mean that nothing was submitted, but
    /// the message was consumed.
    #[inline(never)]
    fn completed_inline(
        &self,
        slot: &Slot,
        status: Status,
        submission: Submission<'_>,
        out: Out,
    ) -> Result<Submitted> {
        let Submission { endpoint, params, mut length, mut tag } = submission;
        if slot.kind.get().is_recv() {
            (length, tag) = (slot.length.get(), slot.tag.get());
        }
        slot.begin(slot.kind.get(), params, length, tag, out.is_wanted());
        if status == Status::OK && params.flags & flag::ALWAYS_CALLBACK == 0 {
            slot.store_recv_info();
            self.count_inline(slot.kind.get(), length, endpoint);
            trace::completed_inline(slot, endpoint);
            slot.outcome.set(status);
            (self.operation(slot).ended)(self, slot);
            self.return_slot(slot);
            out.store_null();
            return Ok(Submitted::Done);
        }
        self.start(slot, endpoint, params, out);
        self.complete(slot, status);
        Ok(Submitted::Pending)
    }

    #[inline(always)]
    pub(crate) fn count_inline(&self, kind: Kind, length: u64, endpoint: Option<&Endpoint>) {
        let counts = self.stats.of(kind);
        counts.inline.add(1);
        if kind.brings_bytes() {
            counts.bytes.add(length);
            if let (Kind::Get, Some(endpoint)) = (kind, endpoint) {
                endpoint.has_read.set(true);
            }
        } else if let Some(endpoint) = endpoint {
            counts.bytes.add(length);
            endpoint.count_sent(length);
        }
    }

    /// Adds the slot to those in flight, and stores it where the caller asked for it.
    #[inline(always)]
    pub(crate) fn start(
        &self,
        slot: &Slot,
        endpoint: Option<&Endpoint>,
        params: &OpParams,
        out: Out,
    ) {
        slot.clear_mark(mark::SUBMITTING);
        debug_assert!(!slot.has_mark(mark::LIVE) && slot.kind.get() != Kind::Free);
        slot.sequence.set(self.next_sequence());
        slot.started.set(self.begins_at());
        slot.add_mark(mark::LIVE);
        if slot.pooled {
            self.link(slot);
        }
        if let Some(endpoint) = endpoint {
            slot.endpoint.set(endpoint);
            endpoint.in_flight_add(slot);
        }
        if slot.kind.get().is_flushed() {
            self.sends_in_flight.set(self.sends_in_flight.get() + 1);
            if let Some(endpoint) = endpoint.filter(|_| slot.kind.get().takes_bytes()) {
                self.stats.of(slot.kind.get()).bytes.add(slot.length.get());
                endpoint.count_sent(slot.length.get());
            }
        }
        if !slot.kind.get().is_internal() {
            self.stats.of(slot.kind.get()).started.add(1);
        }
        if params.timeout_ns != 0 {
            self.start_timer(slot, params);
        }
        if let Some(notifier) = params.notifier() {
            slot.name_notifier(notifier);
        }
        out.store(slot);
        self.wake_sleeper();
    }

    #[cold]
    fn start_timer(&self, slot: &Slot, params: &OpParams) {
        let Some(deadline) = deadline_of(params) else { return };
        self.timers.borrow_mut().add(deadline, slot.ticket());
        self.timers_checked.set(0);
        self.attend(attention::TIMERS);
    }

    /// Completes an operation in flight: everything but the callback, which waits for the end of
    /// the pass.
    #[inline]
    pub(crate) fn complete(&self, slot: &Slot, status: Status) {
        if slot.pooled && slot.has_mark(mark::LIVE) {
            self.unlink(slot);
        }
        slot.clear_mark(mark::LIVE);
        let single = slot.endpoint.get().is_null() && slot.kind.get().is_single_recv();
        if status == Status::OK && single && slot.reason.get() == 0 {
            // The usual receive: only its caller waits for it.
            slot.outcome.set(status);
            self.ended(slot, status);
        } else {
            self.complete_slow(slot, status);
        }
    }

    fn complete_slow(&self, slot: &Slot, status: Status) {
        slot.clear_mark(mark::PLAIN);
        if status.is_error() {
            // A request that its caller released a moment ago counts as unwatched.
            self.drain_foreign();
        }
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        let ucx = status;
        let reason = Status(slot.reason.get());
        let status = match status {
            Status::MESSAGE_TRUNCATED => status,
            // UCX has read to the end, but the memory may have had any contents.
            Status::OK => match endpoint.filter(|endpoint| endpoint.has_torn(slot)) {
                Some(_) if reason.is_error() => reason,
                Some(endpoint) => endpoint.life().cut_short(),
                None => status,
            },
            // UCX's status does not tell what happened to the peer.
            _ if status.is_error() && reason.is_error() => reason,
            _ => self.status_from_ucx(status, endpoint),
        };
        slot.outcome.set(status);
        let operation = self.operation(slot);
        if let Some(part) = operation.part {
            let unreported = if (part.is_unwatched)(slot) { status } else { Status::OK };
            self.release_endpoint(slot, endpoint, unreported);
            (part.ended)(self, slot, endpoint, status);
            return self.finish(slot);
        }
        if slot.kind.get() == Kind::Internal {
            let part = slot.part.get();
            self.release_endpoint(slot, endpoint, status);
            match (part, endpoint) {
                (Part::Flush(flush), endpoint) => {
                    if let Some(endpoint) = endpoint {
                        endpoint.note_answer(status == Status::OK);
                    }
                    self.flush_part_ended(flush, status);
                }
                // A failed attempt to connect has its own reason.
                (Part::Hello(_), Some(endpoint)) if endpoint.is_connecting() => {
                    endpoint.part_ended(part, ucx)
                }
                (Part::Refusal, _) => self.refusals.set(self.refusals.get() - 1),
                (Part::Nothing, Some(endpoint)) => endpoint.part_left(),
                (_, None) => {}
                (_, Some(endpoint)) => {
                    endpoint.part_ended(part, status);
                }
            }
            return self.finish(slot);
        }
        if let (Kind::EndpointClose, Some(endpoint)) = (slot.kind.get(), endpoint) {
            endpoint.forget_request(slot);
        }
        if status.is_error() {
            slot.set_message(slot.describe_failure(status));
        }
        (operation.ended)(self, slot);
        let unwatched = slot.callback.get().is_none() && slot.hold.get() & USER == 0;
        if let (Kind::TagSendMulti, true, true, Some(endpoint)) =
            (slot.kind.get(), unwatched, status.is_error(), endpoint)
        {
            endpoint.note_unreported(slot.sequence.get(), status);
        }
        let (kind, sequence) = (slot.kind.get(), slot.sequence.get());
        // Flushes are notified after the waiters of this operation; with a callback, after the
        // callback.
        let tells = kind.is_flushed() && slot.callback.get().is_none();
        self.let_endpoint_go(slot, endpoint, if unwatched { status } else { Status::OK });
        self.ended(slot, status);
        if tells && self.flushes_active.get() > 0 {
            self.flushes_move_on(endpoint, sequence);
        }
    }

    /// The part of a completion that the caller sees.
    #[inline]
    pub(crate) fn ended(&self, slot: &Slot, status: Status) {
        if self.latency.is_some() {
            return self.ended_measured(slot, status);
        }
        self.ended_unmeasured(slot, status);
    }

    /// As the last call of `ended`, which so needs no frame.
    #[cold]
    #[inline(never)]
    fn ended_measured(&self, slot: &Slot, status: Status) {
        self.note_latency(slot, status);
        self.ended_unmeasured(slot, status);
    }

    #[inline(always)]
    fn ended_unmeasured(&self, slot: &Slot, status: Status) {
        self.count_result(slot, status);
        trace::completed(slot);
        slot.store_recv_info();
        if slot.callback.get().is_some() {
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it,
            // and, from here on, while a callback is due.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                if endpoint.place() == usize::MAX {
                    // The worker does not keep it any more, and its caller may release it before
                    // the callback runs.
                    slot.endpoint.set(std::ptr::null());
                } else {
                    self.callback_is_due(endpoint, slot.kind.get());
                }
            }
            self.ready.push(slot);
            self.attend(attention::READY);
        } else if !slot.notifier.get().is_null() {
            let _ = self.report(slot);
        } else {
            self.finish(slot);
        }
    }

    #[inline]
    fn count_result(&self, slot: &Slot, status: Status) {
        match status {
            Status::OK => {
                let counts = self.stats.of(slot.kind.get());
                counts.completed.add(1);
                if slot.kind.get().brings_bytes() {
                    counts.bytes.add(slot.length.get());
                }
            }
            Status::CANCELED => self.stats.canceled.add(1),
            _ => {
                self.stats.failed.count(status);
                self.log_failure(slot, status);
            }
        }
    }

    /// The last step of a completion: releases waiters, and frees the slot if the caller has
    /// released it as well.
    #[inline]
    pub(crate) fn finish(&self, slot: &Slot) {
        slot.publish_status();
        if !self.thread.is_used() {
            slot.done.publish();
        } else if slot.done.publish_and_wake() {
            crate::engine::core::worker::request_wait::ANY_REQUEST.notify();
        }
        self.tell_event_loop();
        self.give_up(slot, ENGINE);
    }

    /// One holder of the slot gives it up; the last one frees it. False if it was not the last.
    #[inline(always)]
    fn give_up(&self, slot: &Slot, holder: u8) -> bool {
        slot.hold.set(slot.hold.get() & !holder);
        let free = slot.hold.get() == 0;
        if free {
            if let Some(making) = slot.making.take() {
                // Its buffers are freed by user code.
                self.push_event(Event::DropBuffers(making));
            }
            self.return_slot(slot);
        }
        free
    }

    /// Completes an operation for its caller that UCP does not return. The peer is gone for good,
    /// so nothing uses the buffer any more; but the rest of the operation is behind others in a
    /// queue that is not emptied. The slot belongs to UCP until the end of the worker.
    pub(crate) fn abandon(&self, slot: &Slot, status: Status) {
        (self.operation(slot).abandoned)(self, slot);
        if let Some(making) = slot.making.take() {
            self.leave_to_ucp(making);
        }
        slot.hold.set(slot.hold.get() | UCP);
        self.abandoned.set(self.abandoned.get() + 1);
        slot.reason.set(status.0);
        self.complete(slot, status);
    }

    /// Keeps memory that UCP may write to, until its worker is destroyed.
    pub(crate) fn leave_to_ucp(&self, memory: Box<dyn Any>) {
        self.left_to_ucp.borrow_mut().push(memory);
    }

    /// UCP has returned an abandoned operation.
    #[cold]
    pub(crate) fn abandoned_is_back(&self, slot: &Slot) {
        self.abandoned.set(self.abandoned.get() - 1);
        self.give_up(slot, UCP);
    }

    /// The caller releases the slot.
    #[inline]
    pub(crate) fn release_slot(&self, slot: &Slot) {
        if slot.kind.get() == Kind::AmMessage {
            return self.message_gone(slot);
        }
        if !self.give_up(slot, USER) {
            // Its completion has no receiver any more, and must free the slot.
            slot.clear_mark(mark::PLAIN);
        }
    }

    /// Slots of the pool are listed while they are in flight: other ones may be in use by another
    /// thread.
    #[inline]
    fn link(&self, slot: &Slot) {
        slot.previous_live.set(std::ptr::null());
        slot.next_live.set(self.live.get());
        // SAFETY: the list contains live slots of this worker.
        if let Some(next) = unsafe { self.live.get().as_ref() } {
            next.previous_live.set(slot);
        }
        self.live.set(slot);
    }

    #[inline]
    fn unlink(&self, slot: &Slot) {
        let (previous, next) = (slot.previous_live.get(), slot.next_live.get());
        // SAFETY: neighbours in the list are live slots of this worker.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next_live.set(next),
            None => self.live.set(next),
        }
        // SAFETY: neighbours in the list are live slots of this worker.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous_live.set(previous);
        }
    }

    /// The operation no longer needs its endpoint: flushes that waited for it continue.
    /// `unreported`: an error that only a flush can report.
    fn release_endpoint(&self, slot: &Slot, endpoint: Option<&Endpoint>, unreported: Status) {
        let (kind, sequence) = (slot.kind.get(), slot.sequence.get());
        self.let_endpoint_go(slot, endpoint, unreported);
        if kind.is_flushed() && self.flushes_active.get() > 0 {
            self.flushes_move_on(endpoint, sequence);
        }
    }

    /// The same, without the flushes.
    fn let_endpoint_go(&self, slot: &Slot, endpoint: Option<&Endpoint>, unreported: Status) {
        if slot.kind.get().is_flushed() {
            self.sends_in_flight.set(self.sends_in_flight.get() - 1);
            if let (true, Some(endpoint)) = (unreported.is_error(), endpoint) {
                endpoint.note_unreported(slot.sequence.get(), unreported);
            }
        }
        if let Some(endpoint) = endpoint {
            endpoint.in_flight_remove(slot, slot.kind.get());
        }
    }

    /// Calls `visit` for every operation in flight, in no order. `visit` must not complete or start
    /// any.
    pub(crate) fn for_each_live(&self, mut visit: impl FnMut(&Slot)) {
        self.slab.for_each(|slot| {
            if slot.has_mark(mark::LIVE) {
                visit(slot);
            }
        });
        let mut next = self.live.get();
        // SAFETY: the list contains live slots of this worker, and `next` is read before its
        // predecessor is visited.
        while let Some(slot) = unsafe { next.as_ref() } {
            next = slot.next_live.get();
            visit(slot);
        }
    }

    /// Calls `act` for each operation in flight that `wanted` selects, if it is still in flight by
    /// then: `act` may complete it and others. In the order of submission, which is the order of
    /// UCX's list of receives: UCX searches a cancelled one from the start of its list.
    pub(crate) fn for_each_picked(&self, wanted: impl Fn(&Slot) -> bool, act: impl FnMut(&Slot)) {
        let mut picked = Vec::new();
        self.for_each_live(|slot| {
            if wanted(slot) {
                picked.push((slot.sequence.get(), slot.ticket()));
            }
        });
        picked.sort_unstable_by_key(|(sequence, _)| *sequence);
        picked.iter().filter_map(|(_, ticket)| ticket.current()).for_each(act);
    }

    /// Handles the requests that other threads have released.
    #[inline(always)]
    pub(crate) fn drain_foreign(&self) {
        // SAFETY: slots of this worker, which keeps their memory.
        unsafe { self.foreign.drain(|slot| self.release_slot(slot)) };
    }

    /// At the end of the worker: counts the requests that callers still hold, and lets them be
    /// released without the worker. The caller first puts a reference into `keep`.
    pub(crate) fn shut_foreign(&self) {
        let mut held = 0;
        self.for_each_slot(|slot| held += usize::from(slot.hold.get() & USER != 0));
        // SAFETY: slots of this worker, to which the caller holds its own reference.
        if unsafe { self.foreign.shut(held) } {
            drop(self.keep.take());
        }
    }
}

/// Releases a request from outside the gate, on any thread.
///
/// # Safety
/// The caller holds the request, and does not use it again. The worker's memory, and the request's
/// with it, may be freed by this: no reference to either may exist.
pub(crate) unsafe fn push_foreign(slot: *const Slot) {
    // SAFETY: the caller holds the slot, which keeps its worker's memory.
    let worker = unsafe { (*slot).worker };
    // SAFETY: the caller holds the slot, and does not use it again.
    if unsafe { RemoteFreeList::push(SharedWorker::foreign(worker), slot) } {
        // SAFETY: the request has outlived its worker, and was the last one that did: no other
        // thread uses the cell.
        let keep = unsafe { (*worker).inside().keep.take() };
        drop(keep);
    }
}

/// What was submitted, for `Worker::submitted`.
#[derive(Clone, Copy)]
pub(crate) struct Submission<'a> {
    pub(crate) endpoint: Option<&'a Endpoint>,
    pub(crate) params: &'a OpParams,
    /// 0 for a receive, which learns both from the message.
    pub(crate) length: u64,
    pub(crate) tag: u64,
}

/// Where the caller wants its request stored; may be nowhere.
#[derive(Clone, Copy)]
pub struct Out(*mut *mut Slot);

impl Out {
    /// No request wanted.
    pub const NOWHERE: Out = Out(std::ptr::null_mut());

    /// # Safety
    /// `place` is null or valid for a write during the call.
    pub unsafe fn new(place: *mut *mut Slot) -> Self {
        Out(place)
    }

    #[inline]
    pub(crate) fn is_wanted(self) -> bool {
        !self.0.is_null()
    }

    #[inline]
    pub(crate) fn store(self, slot: &Slot) {
        if self.is_wanted() {
            // SAFETY: the caller of `new` guaranteed a valid place.
            unsafe { self.0.write(std::ptr::from_ref(slot).cast_mut()) };
        }
    }

    #[inline]
    pub(crate) fn store_null(self) {
        if self.is_wanted() {
            // SAFETY: the caller of `new` guaranteed a valid place.
            unsafe { self.0.write(std::ptr::null_mut()) };
        }
    }
}
