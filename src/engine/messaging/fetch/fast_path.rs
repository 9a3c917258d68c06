//! The quick way of a fetch, both sides of it, on a worker of one thread and manual progress: see
//! `core::request::fast_path`. Questions and answers that go out as one piece, and come in as one,
//! between peers that know each other.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::dispatch::{on_message_slow, on_short};
use crate::engine::core::channel::message::Form;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::fast_path::FastPath;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::{copy_inline, INLINE};
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Part as Of, Slot};
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::fetch::answer::{copy_out, Fate};
use crate::engine::messaging::fetch::reply::{Fetch, ANSWERED};
use crate::engine::ucx::memory_type;
use crate::engine::wire::compact_header::{self, Short};
use crate::engine::wire::header::{self, Question};
use crate::sys;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// Of a question's data, and of an answer's header.
const NOTHING: (*const c_void, usize) = (std::ptr::null(), 0);

impl SharedEndpoint {
    /// For plain questions with so long a header and room for an answer; None to go the long way.
    #[inline(always)]
    pub fn fast_for_question(&self, header: usize, capacity: usize) -> Option<FastPath<'_>> {
        if capacity > usize::from(u16::MAX) {
            return None;
        }
        let quick = self.fast_for_message(compact_header::QUESTION + header)?;
        // It takes a second one.
        (!quick.slot.next.get().is_null()).then_some(quick)
    }
}

impl Fetch {
    /// For a plain answer of so many bytes; None to go the long way.
    #[inline(always)]
    pub fn quick(&self, length: usize) -> Option<FastPath<'_>> {
        let inbound = self.slot().inbound();
        let simple = self.slot().outside.load(Ordering::Relaxed) == 0
            && length as u64 <= inbound.capacity
            && inbound.flags & crate::engine::wire::header::flag::WAITING == 0;
        // SAFETY: a reference of the question's own, until it is destroyed; null in a message.
        let endpoint = unsafe { inbound.reply.as_ref() }.filter(|_| simple)?;
        endpoint.fast_for_piece(length)
    }

    /// Lets go of a question that was answered, on the thread of a SINGLE worker. False: nothing
    /// has happened, go the long way.
    ///
    /// # Safety
    /// The caller has the question, and does not use it again when this is true.
    #[inline(always)]
    pub unsafe fn destroy_fast(&self) -> bool {
        let slot = self.slot();
        let inbound = slot.inbound();
        // SAFETY: for the steps below, which call nobody.
        let Some(worker) = (unsafe { slot.worker().act_fast() }) else { return false };
        let simple = slot.outside.load(Ordering::Relaxed) == ANSWERED
            && inbound.form == Form::Copied
            && inbound.connection == 0;
        if !simple {
            return false;
        }
        // SAFETY: the reference that was made for this question, which has given back its credit.
        unsafe { Endpoint::take_back(inbound.reply) };
        worker.question_gone(slot);
        true
    }
}

impl FastPath<'_> {
    /// `Endpoint::fetch` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that; `to` and the header's length are those that this was made for.
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
        // SAFETY: as for this function: its worker is entered.
        let to = unsafe { to.inside() };
        // SAFETY: the one behind it in the free list, as `fast_for_question` has seen.
        let ask = unsafe { &*slot.next.get() };
        let number = worker.fetches().add(slot)?;
        ask.prepare(Kind::FetchAsk);
        let outgoing = Outgoing::short(header::Kind::Ask, id, header_length, &OpParams::DEFAULT);
        let question = Question { number, capacity: capacity as u64 };
        // SAFETY: an open endpoint, its worker entered; as `fast_for_question` has seen, it is
        // short enough; the caller's header is readable.
        let posted = unsafe {
            to.send_short(ask, &outgoing, Some(question), (header, header_length), NOTHING)
        };
        // What follows has time: the answer does not come in before the next pass.
        worker.slab.take(slot);
        slot.begin(Kind::Fetch, params, capacity as u64, 0, out.is_wanted());
        slot.go_into(id, buffer, capacity, params);
        if posted.is_null() {
            to.count_sent(0);
            if params.callback.is_none() && params.recv_info.is_null() && out.is_wanted() {
                // Nothing but its request tells of its end, and no ticket names it.
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
        worker.start(slot, Some(to), params, out);
        drop(worker);
        Ok(Submitted::Pending)
    }

    /// `Fetch::reply` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that; `fetch` and the length are those that this was made for.
    #[inline(always)]
    pub unsafe fn reply(
        self,
        fetch: &Fetch,
        (buffer, length): (*const c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: as for this function: its worker is entered.
        let (to, question) = (unsafe { fetch.endpoint().inside() }, fetch.slot());
        question.outside.store(ANSWERED, Ordering::Relaxed);
        let (id, number) = header::split_number(question.number.get());
        let submitted =
            self.send(Kind::FetchReply, (length as u64, 0), to, params, out, |_, slot| {
                let outgoing = Outgoing::short(header::Kind::Answer, id, 0, params);
                // SAFETY: an open endpoint, its worker entered; as `Fetch::quick` has seen, it is
                // short enough; the caller's buffer is readable.
                unsafe {
                    to.send_short(
                        slot,
                        &Outgoing { number, ..outgoing },
                        None,
                        NOTHING,
                        (buffer, length),
                    )
                }
            });
        submitted.inspect_err(|_| question.outside.store(0, Ordering::Release))
    }
}

impl Slot {
    /// Where a fetch's answer goes: one buffer.
    #[inline(always)]
    fn go_into(&self, id: u16, buffer: *mut c_void, capacity: usize, params: &OpParams) {
        let host = params.memory_type == memory_type::HOST;
        // SAFETY: the slot was taken a moment ago: nobody else has it. Piece by piece, as the whole
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
    /// As `answer_came`, of an answer in its short form that comes as nearly all do; `PLAIN` of a
    /// fetch of whose end only its request tells, which calls nothing. False: nothing has happened,
    /// go the next longer way.
    #[inline(always)]
    pub(crate) fn answer_came_fast<const PLAIN: bool>(&self, short: Short<'_>) -> bool {
        let (number, data) = (short.answers(), short.rest());
        let Some(slot) = self.fetches().find(number) else { return false };
        // SAFETY: the worker keeps the endpoint alive while something in flight names it.
        let Some(endpoint) = (unsafe { slot.endpoint.get().as_ref() }) else { return false };
        // One that has gone out in `FastPath::fetch` and waits for nothing else, as it has that
        // number: that says all that has to be asked of others.
        let plain = slot.is_plain() && slot.kind.get() == Kind::Fetch;
        let usual = plain
            || !PLAIN
                && matches!(slot.part.get(), Of::Nothing)
                && !slot.pooled
                && slot.kind.get() == Kind::Fetch
                && slot.reason.get() == 0;
        let simple = usual
            && endpoint.has_asked_on(short.connection(), std::ptr::null_mut())
            && short.second_byte() & 0x80 == 0
            && matches!(slot.fate_of_answer::<PLAIN>(data.len(), false), Fate::CopiedHere)
            && !(PLAIN && (data.len() > INLINE || endpoint.awaits_credit()));
        if !simple {
            return false;
        }
        endpoint.heard();
        if endpoint.credits.note_acked_word(short.consumed_word()) && !PLAIN {
            endpoint.credits_came();
        }
        self.fetches().remove(number);
        slot.number.set(0);
        slot.length.set(data.len() as u64);
        // SAFETY: UCX's data is valid during its handler, and the processor reaches where it goes,
        // where there is room: a plain fetch has one buffer.
        unsafe {
            if PLAIN {
                copy_inline(data.as_ptr(), (*slot.queued.as_ptr()).buffer.cast(), data.len());
            } else {
                copy_out(slot, data.as_ptr(), data.len());
            }
        }
        endpoint.in_flight_remove(slot, Kind::Fetch);
        if plain {
            slot.endpoint.set(std::ptr::null());
            slot.complete_fast(self);
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
