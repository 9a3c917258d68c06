//! Fetch, requesting side: sends a request, whose reply goes directly into the waiting buffers.
//!
//! The caller's operation completes with the reply. The request message is an internal send, of
//! which only a failure is reported. A reply that arrived with its message is copied inside UCX's
//! handler. A reply that waits at its sender is pulled, with the caller's operation as UCX's
//! request. So a fetch takes two messages, one round trip, and no allocation, except buffers that
//! are allocated for a reply; user code does that after the pass.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::receive_buffers::Allocator;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::copy_short;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part as Of, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::ucx::context::feature;
use crate::engine::wire::credit::LONGEST_QUESTION;
use crate::engine::wire::header::{self, Question, HEADER};
use crate::sys;

/// Where a reply goes.
#[derive(Clone, Copy)]
pub enum Room<'a> {
    /// Into these buffers.
    Parts(&'a [Part]),
    /// Into buffers that are allocated for it; the part is sent with the request.
    Made(Allocator, Part),
}

impl Room<'_> {
    fn capacity(&self) -> u64 {
        match self {
            Room::Parts(parts) => parts.iter().map(|part| part.length as u64).sum(),
            Room::Made(..) => u64::MAX,
        }
    }

    /// Length of the request's data.
    fn data_length(&self) -> usize {
        match self {
            Room::Parts(_) => 0,
            Room::Made(_, data) => data.length,
        }
    }
}

/// The type of a request.
#[derive(Clone, Copy)]
pub(crate) struct RequestType {
    pub(crate) kind: Kind,
    feature: u64,
    /// The id of the user's handler.
    pub(crate) id: u16,
    /// Flags of the library's header.
    flags: u16,
}

impl RequestType {
    pub(crate) const FETCH: RequestType =
        RequestType { kind: Kind::Fetch, feature: feature::AM, id: 0, flags: 0 };
    pub(crate) const ATOMIC: RequestType = RequestType {
        kind: Kind::Atomic,
        feature: feature::ATOMIC,
        id: 0,
        flags: header::flag::ATOMIC,
    };
}

impl SharedEndpoint {
    /// Sends a request to the peer's handler, and receives the reply.
    ///
    /// # Safety
    /// The room is writable, and the request's data readable, until the operation has completed;
    /// `out` is valid.
    pub unsafe fn fetch(
        &self,
        id: u16,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker().context, "fetch", flag::NO_WAIT)?;
        // SAFETY: the caller guarantees room, data and `out`.
        unsafe { self.ask_for(RequestType { id, ..RequestType::FETCH }, header, room, params, out) }
    }
}

impl SharedEndpoint {
    /// The same for any request, with checked parameters.
    ///
    /// # Safety
    /// As for `fetch`.
    pub(crate) unsafe fn ask_for(
        &self,
        asked: RequestType,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        if room.data_length() > LONGEST_QUESTION {
            let text = format!(
                "data_length: {} bytes are more than the {LONGEST_QUESTION} that a fetch can send; \
                let the peer fetch them",
                room.data_length()
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        request_wait::submit(params, out, |params, out| {
            if self.worker().must_submit_remotely(params) {
                return self.fetch_later(asked, header, room, params, out);
            }
            let inside = self.enter()?;
            let worker = &inside.worker;
            self.check_open()?;
            worker.need(asked.feature)?;
            if asked.kind == Kind::Fetch {
                inside.check_am_header(header)?;
            }
            let queued = self.describe_fetch(asked, header, room)?;
            let slot = worker.take_slot();
            slot.begin(asked.kind, params, room.capacity(), 0, out.is_wanted());
            self.put_room(slot, room, queued);
            if let Err(error) = inside.ask(slot, header, Some(params)) {
                slot.making.set(None);
                worker.return_slot(slot);
                return Err(error);
            }
            trace::submitted(slot, Some(&inside));
            worker.start(slot, Some(&inside), params, out);
            Ok(Submitted::Pending)
        })
    }

    #[inline(never)]
    fn fetch_later(
        &self,
        asked: RequestType,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.check_open_outside()?;
        self.worker().need(asked.feature)?;
        if asked.kind == Kind::Fetch {
            self.check_length_of_header(header)?;
        }
        let queued = self.describe_fetch(asked, header, room)?;
        let reservation =
            self.reserve(params, Need::of_message(room.data_length(), queued.outgoing.charge))?;
        self.worker().delay(asked.kind, room.capacity(), params, out, |slot| {
            let place = slot.room(header.len());
            // SAFETY: room for the header, in a slot that only this operation uses.
            unsafe { place.copy_from_nonoverlapping(header.as_ptr(), header.len()) };
            self.put_room(slot, room, queued);
            Queued { permit: reservation.keep(), ..slot.queued.get() }
        })
    }
}

impl Endpoint {
    /// A fetch that came through the ring.
    pub(crate) fn fetch_from_ring(&self, slot: &Slot, queued: &Queued, left: &OpParams) {
        let length = usize::from(queued.outgoing.user_header) - Question::LENGTH;
        // SAFETY: `fetch_later` has put the header there; nothing else uses the slot.
        let header: &[u8] = unsafe { &mut *slot.store.get() }.room(length);
        slot.queued.set(*queued);
        match self.ask(slot, header, None) {
            Ok(()) => self.worker.start(slot, Some(self), left, Out::NOWHERE),
            Err(error) => self.worker.never_started(slot, Some(self), error.status()),
        }
    }
}

impl SharedEndpoint {
    fn describe_fetch(&self, asked: RequestType, header: &[u8], room: Room<'_>) -> Result<Queued> {
        let plain = OpParams::default();
        let (memory_type, flags) = match room {
            Room::Parts(parts) => {
                let memory_type = memory_type_of(self.worker(), parts, &plain)?;
                let on_device =
                    parts.iter().any(|part| part.length > 0 && self.may_be_device(part));
                (memory_type, if on_device { header::flag::WAITING } else { 0 })
            }
            Room::Made(_, data) => (memory_type_of(self.worker(), &[data], &plain)?, 0),
        };
        let header_length = header.len() + Question::LENGTH;
        let outgoing =
            Outgoing::question(asked.id, header_length, flags | asked.flags, room.data_length());
        Ok(Queued { memory_type, outgoing, endpoint: self, ..Queued::NOTHING })
    }

    fn put_room(&self, slot: &Slot, room: Room<'_>, queued: Queued) {
        let (buffer, count, scattered) = match room {
            Room::Parts(parts) => describe_parts(slot, parts),
            Room::Made(allocator, data) => {
                slot.making.set(Some(Making::by(allocator)));
                (data.data, data.length, false)
            }
        };
        slot.queued.set(Queued { buffer, count, scattered, ..queued });
    }
}

impl Endpoint {
    /// Sends the request message of a fetch. `params` is None if it has reserved its place in the
    /// queue.
    fn ask(&self, slot: &Slot, header: &[u8], params: Option<&OpParams>) -> Result<()> {
        let worker = &self.worker;
        let queued = slot.queued.get();
        let made = slot.is_making();
        let number = worker.fetches().add(slot)?;
        let question = Question { number, capacity: slot.length.get() };
        let ask = worker.take_slot();
        let room = ask.room(HEADER + Question::LENGTH + header.len());
        // SAFETY: room for the header, in a slot that only this operation uses.
        unsafe {
            room.add(HEADER).cast::<[u8; Question::LENGTH]>().write(question.encode());
            copy_short(header.as_ptr(), room.add(HEADER + Question::LENGTH), header.len());
        }
        let length = if made { queued.count } else { 0 };
        let (buffer, memory_type) =
            if made { (queued.buffer, queued.memory_type) } else { (std::ptr::null_mut(), None) };
        let outgoing = queued.outgoing;
        let message = Queued {
            buffer,
            count: length,
            memory_type,
            outgoing,
            endpoint: &raw const **self,
            ..Queued::NOTHING
        };
        let sent = self.send_question(slot, ask, &message, params);
        if sent.is_err() {
            worker.fetches().remove(number);
        } else {
            slot.number.set(number);
        }
        sent
    }

    fn send_question(
        &self,
        slot: &Slot,
        ask: &Slot,
        message: &Queued,
        params: Option<&OpParams>,
    ) -> Result<()> {
        if self.must_wait() || !self.pay_from_ring(message.outgoing.charge) {
            let checked = params.map_or(Ok(()), |params| self.check_queue(params, message.count));
            checked.inspect_err(|_| self.worker.slab.push(ask))?;
            ask.begin(Kind::FetchAsk, &OpParams::DEFAULT, message.count as u64, 0, false);
            ask.part.set(Of::Ask(slot.ticket()));
            slot.part.set(Of::Ask(ask.ticket()));
            ask.queued.set(*message);
            self.enqueue(ask, &OpParams::DEFAULT, Out::NOWHERE);
            return Ok(());
        }
        ask.prepare(Kind::FetchAsk);
        ask.length.set(message.count as u64);
        ask.tag.set(0);
        trace::posts(ask, Some(self));
        let posted = self.post_message(ask, message);
        trace::posted(ask, Some(self));
        self.question_posted(slot, ask, posted, message.count)
    }

    /// UCP was given a request message with this much data. When it completes, its slot is free.
    pub(crate) fn question_posted(
        &self,
        slot: &Slot,
        ask: &Slot,
        posted: sys::ucs_status_ptr_t,
        length: usize,
    ) -> Result<()> {
        let worker = &self.worker;
        match worker.part_posted(ask, posted) {
            None => {
                // Each of the two refers to the other.
                let fetch = Of::Ask(slot.ticket());
                worker.start_as_part(ask, Some(self), fetch, length as u64, 0);
                slot.part.set(Of::Ask(ask.ticket()));
            }
            Some(status) if status.is_error() => {
                let status = worker.status_from_ucx(status, Some(self));
                return Err(Error::new(
                    status,
                    format!("endpoint: UCX refused a fetch from {}", self.peer_text()),
                ));
            }
            Some(_) => self.count_sent(length as u64),
        }
        Ok(())
    }
}
