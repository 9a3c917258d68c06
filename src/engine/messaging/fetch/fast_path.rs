//! The fast path of a fetch, both sides, on a SINGLE worker with manual progress: see
//! `core::request::fast_path`. For requests and replies in one piece, between peers that know each
//! other.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::dispatch::{on_message_slow, on_short};
use crate::engine::core::channel::message::Form;
use crate::engine::core::channel::receive::Arrived;
use crate::engine::core::channel::send::{Outgoing, LONGEST_UNASKED};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::fast_path::FastPath;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::{copy_inline, INLINE};
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Part as Of, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::fetch::answer::{copy_out, Fate};
use crate::engine::messaging::fetch::reply::{Fetch, ANSWERED};
use crate::engine::ucx::memory_type;
use crate::engine::wire::compact_header::{self, Short};
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, Header, Question, HEADER};
use crate::sys;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// For a request's data, and for a reply's header.
const NOTHING: (*const c_void, usize) = (std::ptr::null(), 0);

impl SharedEndpoint {
    /// For plain requests with this header length and room for a reply. None: use the slow path.
    #[inline(always)]
    pub fn fast_for_question(
        &self,
        header: usize,
        capacity: usize,
        params: &OpParams,
    ) -> Option<FastPath<'_>> {
        if capacity > usize::from(u16::MAX) {
            return None;
        }
        let quick = self.fast_for_message(compact_header::QUESTION + header, params)?;
        // A fetch takes a second slot.
        (!quick.slot.next.get().is_null()).then_some(quick)
    }
}

impl Fetch {
    /// For a plain reply of `length` bytes that is sent as one piece. None: use a slower path.
    #[inline(always)]
    pub fn quick(&self, length: usize, params: &OpParams) -> Option<FastPath<'_>> {
        self.plain_requester(length)?.fast_for_piece(length, params)
    }

    /// For a longer plain reply, whose data is sent beside the header. None: use the slow path.
    #[inline(always)]
    pub fn quick_long(&self, length: usize, params: &OpParams) -> Option<FastPath<'_>> {
        // Over a network the slow path avoids two trips.
        let near = |endpoint: &&SharedEndpoint| {
            (INLINE - HEADER + 1..=LONGEST_UNASKED).contains(&length) && !endpoint.is_remote()
        };
        self.plain_requester(length).filter(near)?.fast_for_peer(params)
    }

    #[inline(always)]
    fn plain_requester(&self, length: usize) -> Option<&SharedEndpoint> {
        let inbound = self.slot().inbound();
        let simple = self.slot().outside.load(Ordering::Relaxed) == 0
            && length as u64 <= inbound.capacity
            && inbound.flags & crate::engine::wire::header::flag::WAITING == 0;
        // SAFETY: the request's own reference, until it is destroyed; null in a message.
        unsafe { inbound.reply.as_ref() }.filter(|_| simple)
    }

    /// Releases a request that was replied to, on the thread of a SINGLE worker. Returns false if
    /// nothing has happened: use the slow path.
    ///
    /// # Safety
    /// The caller owns the request, and does not use it again if this is true.
    #[inline(always)]
    pub unsafe fn destroy_fast(&self) -> bool {
        let slot = self.slot();
        let inbound = slot.inbound();
        // SAFETY: used only in the steps below, which enter no gate.
        let Some(worker) = (unsafe { slot.worker().act_fast() }) else { return false };
        let simple = slot.outside.load(Ordering::Relaxed) == ANSWERED
            && inbound.form == Form::Copied
            && inbound.connection == 0;
        if !simple {
            return false;
        }
        // SAFETY: the reference that was made for this request, which has returned its credit.
        unsafe { Endpoint::take_back(inbound.reply) };
        worker.question_gone(slot);
        true
    }
}

impl FastPath<'_> {
    /// `Endpoint::fetch` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that function. `to` and the header's length are those that this was made for.
    #[inline(always)]
    pub unsafe fn fetch(
        self,
        to: &SharedEndpoint,
        id: u16,
        (header, header_length): (*const c_void, usize),
        (buffer, capacity): (*mut c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let FastPath { worker, slot } = self;
        // SAFETY: `to` is the endpoint that this was made for, whose worker is entered.
        let to = unsafe { to.inside() };
        // SAFETY: the next slot in the free list, as `fast_for_question` has checked.
        let ask = unsafe { &*slot.next.get() };
        let number = worker.fetches().add(slot)?;
        ask.prepare(Kind::FetchAsk);
        let (kind, plain) = (header::Kind::Ask, &OpParams::DEFAULT);
        let outgoing = Outgoing::plain(kind, id, header_length, credit::LEAST, plain);
        let question = Question { number, capacity: capacity as u64 };
        // SAFETY: an open endpoint, its worker entered; `fast_for_question` has checked the length;
        // the caller's header is readable.
        let posted = unsafe {
            to.send_short(ask, &outgoing, Some(question), (header, header_length), NOTHING)
        };
        // This can be done afterwards: the reply does not arrive before the next pass.
        worker.slab.take(slot);
        slot.begin(Kind::Fetch, params, capacity as u64, 0, out.is_wanted());
        slot.go_into(id, buffer, capacity, params);
        if posted.is_null() {
            to.count_sent(0);
            if params.callback.is_none() && params.recv_info.is_null() && out.is_wanted() {
                // Only its request shows its completion, and no ticket refers to it.
                slot.add_mark(mark::PLAIN);
            }
        } else {
            worker.slab.take(ask);
            if let Err(error) = to.question_posted(slot, ask, posted, 0) {
                worker.fetches().remove(number);
                worker.return_slot(slot);
                return Err(error);
            }
        }
        slot.number.set(number);
        trace::submitted_fast(slot, to);
        worker.start(slot, Some(to), params, out);
        drop(worker);
        Ok(Submitted::Pending)
    }

    /// `Fetch::reply` for plain parameters and one buffer. `LONG`: from `quick_long`.
    ///
    /// # Safety
    /// As for that function. `fetch` and the length are those that this was made for.
    #[inline(always)]
    pub unsafe fn reply<const LONG: bool>(
        self,
        fetch: &Fetch,
        data: (*const c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: `fetch` is the one that this was made for, and the worker of its endpoint is
        // entered.
        let (to, question) = (unsafe { fetch.endpoint().inside() }, fetch.slot());
        question.outside.store(ANSWERED, Ordering::Relaxed);
        let (id, number) = header::split_number(question.number.get());
        let submitted =
            self.send(Kind::FetchReply, (data.1 as u64, 0), to, params, out, |_, slot| {
                let outgoing = Outgoing::plain(header::Kind::Answer, id, 0, credit::LEAST, params);
                let outgoing = Outgoing { number, ..outgoing };
                // SAFETY: an open endpoint, its worker entered; the length was checked; the
                // caller's buffer is readable, until the operation has completed.
                unsafe {
                    if LONG {
                        to.send_beside(slot, &outgoing, NOTHING, data, params.plain_index())
                    } else {
                        to.send_short(slot, &outgoing, None, NOTHING, data)
                    }
                }
            });
        submitted.inspect_err(|_| question.outside.store(0, Ordering::Release))
    }
}

impl Slot {
    /// Sets the destination of a fetch's reply: one buffer.
    #[inline(always)]
    fn go_into(&self, id: u16, buffer: *mut c_void, capacity: usize, params: &OpParams) {
        let host = params.memory_type == memory_type::HOST;
        // SAFETY: the slot was just taken: nothing else uses it. Field by field, because the whole
        // is large.
        let queued = unsafe { &mut *self.queued.as_ptr() };
        queued.buffer = buffer;
        queued.count = capacity;
        queued.scattered = false;
        queued.memory_type = host.then_some(sys::UCS_MEMORY_TYPE_HOST);
        queued.outgoing = Outgoing::with_id(id);
    }
}

impl Worker {
    /// As `answer_came`, for a short reply in the usual case. `PLAIN`: a fetch whose completion
    /// only its request shows; then this makes no call. Returns false if nothing has happened: use
    /// the next slower path.
    #[inline(always)]
    pub(crate) fn answer_came_fast<const PLAIN: bool>(&self, short: Short<'_>) -> bool {
        let data = short.rest();
        if PLAIN && data.len() > INLINE {
            return false;
        }
        if short.second_byte() & 0x80 != 0 {
            return false;
        }
        let (sender, taken) = ((short.connection(), std::ptr::null_mut()), short.consumed_word());
        self.take_answer::<PLAIN>(sender, short.answers(), data.len(), taken, |slot| {
            // SAFETY: UCX's data is valid during its handler. The processor can access the
            // destination, which has room: a plain fetch has one buffer.
            unsafe {
                if PLAIN {
                    copy_inline(data.as_ptr(), (*slot.queued.as_ptr()).buffer.cast(), data.len());
                } else {
                    copy_out(slot, data.as_ptr(), data.len());
                }
            }
        })
    }

    /// The same for one with its header beside its data: see `Answers::beside`.
    pub(crate) fn answer_came_beside(&self, header: &Header, arrived: &Arrived) -> bool {
        let (data, length) = (arrived.data.cast_const().cast(), arrived.length);
        let sender = (header.connection, arrived.from);
        let number = header::join_number(header.id, header.sender);
        let is_plain = header.user_header == 0 && header.sequence == Status::OK.0 as u32;
        is_plain
            && self.take_answer::<false>(sender, number, length, header.taken.word(), |slot| {
                // SAFETY: data that is valid during the handler. The processor can access the
                // destination, which has room.
                unsafe { copy_out(slot, data, length) }
            })
    }

    #[inline(always)]
    fn take_answer<const PLAIN: bool>(
        &self,
        (connection, from): (u32, sys::ucp_ep_h),
        number: u64,
        length: usize,
        taken: u32,
        copy: impl FnOnce(&Slot),
    ) -> bool {
        let Some(slot) = self.fetches().find(number) else { return false };
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let Some(endpoint) = (unsafe { slot.endpoint.get().as_ref() }) else { return false };
        // A fetch from `FastPath::fetch` that waits for nothing else, because it has that number.
        // This implies every condition that other fetches are checked for.
        let plain = slot.is_plain() && slot.kind.get() == Kind::Fetch;
        let usual = plain
            || !PLAIN
                && matches!(slot.part.get(), Of::Nothing)
                && !slot.pooled
                && slot.kind.get() == Kind::Fetch
                && slot.reason.get() == 0;
        let simple = usual
            && endpoint.has_asked_on(connection, from)
            && matches!(slot.fate_of_answer::<PLAIN>(length, false), Fate::CopiedHere)
            && !(PLAIN && endpoint.awaits_credit());
        if !simple {
            return false;
        }
        endpoint.heard();
        if endpoint.credits.note_acked_word(taken) && !PLAIN {
            endpoint.credits_came();
        }
        self.fetches().remove(number);
        slot.number.set(0);
        slot.length.set(length as u64);
        copy(slot);
        if !PLAIN {
            trace::replied(self, slot, number);
        }
        endpoint.in_flight_remove(slot, Kind::Fetch);
        if plain {
            slot.endpoint.set(std::ptr::null());
            slot.complete_fast(self, Kind::Fetch);
        } else {
            slot.clear_mark(mark::LIVE | mark::PLAIN);
            slot.outcome.set(Status::OK);
            self.ended(slot, Status::OK);
        }
        true
    }
}

on_short!(on_short_answer, Worker::answer_came_fast::<true>, on_short_answer_slow);
on_short!(on_short_answer_slow, Worker::answer_came_fast::<false>, on_message_slow);
