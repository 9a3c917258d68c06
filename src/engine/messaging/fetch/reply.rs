//! Fetch, replying side: a request that belongs to its handler. It is answered once, now or later,
//! from any thread.
//!
//! A request is a message, and is in a slot like one. It keeps the endpoint that it arrived on, for
//! the reply. Replies need no credit, and are not limited by the send queue but by a far larger
//! limit: a peer that keeps sending requests and accepts no replies is given up there. Refusals
//! wait for the send window if there are many.
//!
//! `Slot::outside` is an atomic: the first thread that sets `ANSWERED` there answers.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::AT_ONCE;
use crate::engine::core::channel::handler_table::DestroyArg;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::channel::send::post_message;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::endpoint::send_window::MOST_OWED;
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::notifier::Notifier;
use crate::engine::core::request::notifier_events::{registered, Happened, Target};
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::USER;
use crate::engine::core::request::request::{self, Kind, Slot};
use crate::engine::core::request::submit::Sending;
use crate::engine::core::trace;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::stats::Arrival;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context::feature;
use crate::engine::wire::header::{self, HEADER};
use crate::sys;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// `ucxx_fetch_handler_t`: argument, request.
pub type FetchHandler = unsafe extern "C" fn(*mut c_void, *mut Fetch);

/// Where requests with an id are delivered.
#[derive(Clone, Copy)]
pub struct FetchTo {
    /// Called for each request.
    pub function: FetchHandler,
    /// The credit is returned when a request is destroyed, not when it is delivered: the number of
    /// waiting requests has no other limit.
    pub keeps_credit: bool,
}

/// A received request. Handed to C as `ucxx_fetch_t`.
#[repr(transparent)]
pub struct Fetch(Slot);

impl Fetch {
    pub(crate) fn of(slot: &Slot) -> *mut Fetch {
        std::ptr::from_ref(slot).cast_mut().cast()
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot {
        &self.0
    }

    /// The request as a message, for its header and data.
    pub fn message(&self) -> &Message {
        // SAFETY: both types are only the slot.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Bytes of reply that the requesting side has room for; `u64::MAX` if it allocates the buffer.
    pub fn capacity(&self) -> u64 {
        self.0.inbound().capacity
    }

    /// The endpoint to the requesting side.
    #[inline]
    pub fn endpoint(&self) -> &SharedEndpoint {
        // SAFETY: the request's own reference.
        unsafe { &*self.0.inbound().reply }
    }

    /// Sends the parts as the reply. If it is longer than the room, it is not sent, and the
    /// requesting side gets its length.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed, and `out` is valid.
    pub unsafe fn reply(&self, parts: &[Part], params: &OpParams, out: Out) -> Result<Submitted> {
        self.message().check_fork()?;
        let endpoint = self.endpoint();
        params.check(
            &endpoint.worker().context,
            "reply to a fetch",
            flag::NO_WAIT | flag::EAGER | flag::RNDV,
        )?;
        memory_type_of(endpoint.worker(), parts, params)?;
        let length: usize = parts.iter().map(|part| part.length).sum();
        self.begin_answer()?;
        // A later failure counts as the reply: the requesting side was notified of it.
        let mut given = false;
        let submitted = request_wait::submit(params, out, |params, out| {
            let submitted = self.send_parts(parts, length, params, out);
            given = submitted.is_ok();
            submitted
        });
        if !given {
            self.0.outside.store(0, Ordering::Release);
        }
        submitted
    }

    fn send_parts(
        &self,
        parts: &[Part],
        length: usize,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let endpoint = self.endpoint();
        let number = self.0.number.get();
        if length as u64 > self.capacity() {
            let told = Told { number, status: Status::MESSAGE_TRUNCATED, length: Some(length) };
            return endpoint.send_answer(told, &[], false, params, out);
        }
        let waits = self.0.inbound.get().flags & header::flag::WAITING != 0;
        endpoint.send_answer(
            Told { number, status: Status::OK, length: None },
            parts,
            waits,
            params,
            out,
        )
    }

    /// Replies with a status alone.
    pub fn reject(&self, status: Status) -> Result<()> {
        self.message().check_fork()?;
        let own = [Status::NO_ELEM, Status::REJECTED, Status::BUSY, Status::CANCELED];
        if !own.contains(&status) && status.0 > Status::APPLICATION.0 {
            let text = format!(
                "status: {status} is not possible; give UCXX_ERR_NO_ELEM, _REJECTED, _BUSY or \
                _CANCELED, or a status of the application's: UCXX_ERR_APPLICATION or below"
            );
            return Err(Error::invalid(text));
        }
        self.endpoint().check_open_outside()?;
        self.begin_answer()?;
        let said = self.say_later(status);
        if said.is_err() {
            self.0.outside.store(0, Ordering::Release);
        }
        said
    }

    fn begin_answer(&self) -> Result<()> {
        if self.0.outside.swap(ANSWERED, Ordering::AcqRel) == ANSWERED {
            return Err(Error::new(Status::ALREADY_EXISTS, "fetch: has been answered already"));
        }
        Ok(())
    }

    /// Never fails for lack of room.
    fn say_later(&self, status: Status) -> Result<()> {
        let number = self.0.number.get();
        // An endpoint that has ended has notified the other side as well.
        self.endpoint().post(move |endpoint| endpoint.answer_now(number, status))
    }
}

/// Value of `Slot::outside`.
pub(crate) const ANSWERED: u8 = 1;

/// What a reply contains besides its data.
#[derive(Clone, Copy)]
struct Told {
    number: u64,
    status: Status,
    length: Option<usize>,
}

impl Told {
    fn header(&self) -> ([u8; 8], usize) {
        match self.length {
            Some(length) => ((length as u64).to_le_bytes(), 8),
            None => ([0; 8], 0),
        }
    }
}

impl Worker {
    /// Delivers a request to its handler.
    #[inline(always)]
    pub(crate) fn dispatch_question<const ALONE: bool>(&self, slot: &Slot) {
        let Some(handler) = self.fetch_handlers().find(slot.inbound().id) else {
            return self.answer_unhandled(slot);
        };
        let Some(endpoint) = self.last_endpoint(slot.inbound().connection) else {
            return self.message_gone(slot);
        };
        // Owned by the request from here on, and taken back when the request is destroyed.
        let lent = endpoint.lend();
        let FetchTo { function, keeps_credit } = handler.function;
        // SAFETY: nothing else uses the slot.
        let inbound = unsafe { &mut *slot.inbound.as_ptr() };
        inbound.reply = lent;
        if !keeps_credit {
            // A request holds no credit while it waits for its reply.
            inbound.connection = 0;
            self.give_back_credit(endpoint, inbound.charge);
        }
        self.stats.arrived(Arrival::FetchRequest, slot.length.get());
        slot.outside.store(0, Ordering::Relaxed);
        slot.hold.set(USER);
        let (arg, fetch) = (handler.arg, Fetch::of(slot));
        trace::calls::<ALONE>(slot);
        // SAFETY: a handler and its argument as they were registered; the request belongs to the
        // handler from here on.
        self.outside_as::<ALONE>(|| unsafe { function.call_out((arg, fetch)) });
        trace::called::<ALONE>(self, Kind::AmMessage);
        self.drain_foreign();
        self.drop_handler(handler);
    }

    /// Replies to a request without a user's handler.
    #[inline(never)]
    fn answer_unhandled(&self, slot: &Slot) {
        if let Some(endpoint) = self.endpoint_by_id(slot.inbound().connection) {
            endpoint.answer_now(slot.number.get(), Status::NO_ELEM);
        }
        self.message_gone(slot);
    }

    /// Replies for a user who has destroyed the request without a reply.
    #[cold]
    pub(crate) fn answer_what_was_left(&self, slot: &Slot) {
        // SAFETY: the reference that was made for this request.
        let endpoint = unsafe { Arc::from_raw(slot.inbound().reply) };
        endpoint.of(self).answer_now(slot.number.get(), Status::CANCELED);
    }
}

impl SharedWorker {
    /// Calls a handler for fetches with this id from now on; None refuses them.
    pub fn set_fetch_handler(
        &self,
        id: u16,
        to: Option<FetchTo>,
        arg: *mut c_void,
        destroy: Option<DestroyArg>,
    ) -> Result<()> {
        self.set_handler(|inside| inside.fetch_handlers(), id, to, arg, destroy)
    }
}

impl Endpoint {
    /// A reference for a request.
    #[inline(always)]
    pub(crate) fn lend(&self) -> *const SharedEndpoint {
        if self.spare().replace(false) {
            return &raw const **self;
        }
        self.inward().into_raw()
    }

    /// Takes such a reference back.
    ///
    /// # Safety
    /// The caller owns it, and does not use it again.
    #[inline(always)]
    pub(crate) unsafe fn take_back(lent: *const SharedEndpoint) {
        // SAFETY: a reference that the caller owns, inside the gate.
        let endpoint = unsafe { (*lent).inside() };
        if !endpoint.spare().get() && endpoint.place() != usize::MAX {
            return endpoint.spare().set(true);
        }
        // SAFETY: the caller owns the reference, and does not use it again.
        drop(unsafe { Arc::from_raw(lent) });
    }

    /// The worker drops the endpoint: there is no next request. The caller has its own reference.
    pub(crate) fn drop_spare(&self) {
        if self.spare().replace(false) {
            // SAFETY: the reference that was kept.
            drop(unsafe { Arc::from_raw(&raw const **self) });
        }
    }
}

impl SharedEndpoint {
    fn send_answer(
        &self,
        told: Told,
        parts: &[Part],
        waits: bool,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let worker = self.worker();
        let length: usize = parts.iter().map(|part| part.length).sum();
        let describe = |slot: &Slot| {
            let (header, header_length) = told.header();
            let outgoing = Outgoing::answer(
                told.number,
                told.status.0,
                header_length,
                length,
                waits,
                self.is_remote(),
                params,
            );
            let room = slot.room(HEADER + header_length);
            // SAFETY: room for the header, in a slot that only this operation uses.
            unsafe { room.add(HEADER).copy_from_nonoverlapping(header.as_ptr(), header_length) };
            let memory_type = memory_type_of(worker, parts, params).unwrap_or(None);
            let (buffer, count, scattered) = describe_parts(slot, parts);
            Queued {
                buffer,
                count,
                scattered,
                memory_type,
                outgoing,
                endpoint: self,
                ..Queued::NOTHING
            }
        };
        let sending = Sending { kind: Kind::FetchReply, need: Need::of_answer(length), tag: 0 };
        self.submit_send(sending, feature::AM, params, out, |_| Ok(describe), post_message)
    }
}

impl Endpoint {
    /// Replies to a request without data.
    pub(crate) fn answer_now(&self, number: u64, status: Status) {
        self.answer_with(number, status, &[]);
    }

    /// The same with a few bytes, which are copied.
    pub(crate) fn answer_with(&self, number: u64, status: Status, data: &[u8]) {
        if !self.takes_messages() || self.ucp.get().is_null() || self.worker.is_over.get() {
            return;
        }
        let describe = |slot: &Slot| {
            let room = slot.room(HEADER + data.len());
            // SAFETY: room for the data, in a slot that only this operation uses.
            let copy = unsafe {
                room.add(HEADER).copy_from_nonoverlapping(data.as_ptr(), data.len());
                room.add(HEADER)
            };
            let outgoing =
                Outgoing::answer(number, status.0, 0, data.len(), false, true, &OpParams::DEFAULT);
            let memory_type = Some(sys::UCS_MEMORY_TYPE_HOST);
            let (buffer, count) = (copy.cast(), data.len());
            Queued {
                buffer,
                count,
                memory_type,
                outgoing,
                endpoint: &raw const **self,
                ..Queued::NOTHING
            }
        };
        if self.sayings.get() < AT_ONCE {
            self.start_part(request::Part::Nothing, |slot| {
                self.post_message(slot, &describe(slot))
            });
            return;
        }
        let sending = Sending { kind: Kind::FetchReply, need: Need::of_answer(data.len()), tag: 0 };
        let (params, out) = (&OpParams::DEFAULT, Out::NOWHERE);
        // If UCP refuses it, no caller is notified, because there is none.
        let _ = self.send_inside(sending, params, out, describe, post_message);
    }

    /// So many replies wait that the peer is given up: it keeps sending requests and accepts no
    /// replies.
    pub(crate) fn takes_no_answers(&self) -> bool {
        let given_up = self.window.queued_ops.get() >= MOST_OWED;
        if given_up {
            self.broken("keeps sending fetches, and accepts no replies");
        }
        given_up
    }
}

/// Destroys a request. If it was not answered, it is rejected with CANCELED.
///
/// # Safety
/// The caller owns the request and does not use it again; its memory may be freed by this.
pub unsafe fn destroy(fetch: *const Fetch) {
    // SAFETY: the caller owns it.
    let question = unsafe { &*fetch };
    let unanswered = || question.0.outside.swap(ANSWERED, Ordering::AcqRel) != ANSWERED;
    let unsaid = || {
        question.say_later(Status::CANCELED).is_err_and(|error| error.status() != Status::CLOSED)
    };
    if question.message().check_fork().is_ok() && unanswered() && unsaid() {
        // The worker's own thread replies when it takes the slot back.
        question.0.outside.store(message::LEFT, Ordering::Release);
    }
    // SAFETY: the caller owns it and does not use it again; a request is a message.
    unsafe { message::destroy(fetch.cast()) };
}

/// `FetchHandler` of a target.
unsafe extern "C" fn on_question(target: *mut c_void, question: *mut Fetch) {
    // SAFETY: registered with a target, which lives until its handler has returned.
    let target = unsafe { &*target.cast::<Target>() };
    // SAFETY: the request belongs to the handler.
    unsafe {
        if !target.report_slot(question.cast(), Happened::Question(question.cast(), drop_question))
        {
            // Fails if it has already ended.
            let _ = (*question).reject(Status::NO_ELEM);
            destroy(question);
        }
    }
}

/// # Safety
/// `question` is a request that the caller owns, and does not use again.
unsafe fn drop_question(question: *mut c_void) {
    // SAFETY: the caller owns the request, and does not use it again.
    unsafe { destroy(question.cast()) };
}

impl SharedWorker {
    /// Delivers requests with this id through a notifier from now on, or drops them.
    pub fn set_fetch_notifier(
        &self,
        id: u16,
        notifier: Option<&Notifier>,
        user_data: *mut c_void,
    ) -> Result<()> {
        let Some(notifier) = notifier else {
            return self.set_fetch_handler(id, None, user_data, None);
        };
        notifier.check(&self.context)?;
        let target = Target::new(notifier, user_data);
        let to = FetchTo { function: on_question, keeps_credit: true };
        registered(target, |arg, free| self.set_fetch_handler(id, Some(to), arg, free))
    }
}
