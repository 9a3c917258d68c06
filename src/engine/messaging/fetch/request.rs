//! Fetch, on the side that asks: a question goes out, and its answer comes straight into the
//! buffers that wait for it.
//!
//! The request is the answer's; the question is a send of its own, of which only a failure is told.
//! An answer that came along with its message is copied by the handler of UCX's in which it came,
//! and one that waits at its sender is pulled, with the request as UCX's: two messages and one
//! round trip, and no allocation, but for buffers that are made for an answer, which the user's
//! code does after the pass.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::channel::message::Form;
use crate::engine::core::channel::receive::Arrived;
use crate::engine::core::channel::receive_buffers::Allocator;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::completion::{ended, Left};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::copy_short;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{
    mark, Kind, Part as Of, Slot, SlotPointer, Ticket, UCP,
};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::deferred::{Payload, Work};
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::credit::LONGEST_QUESTION;
use crate::engine::wire::header::{self, Answer, Header, Question, HEADER};
use crate::sys;
use std::ffi::c_void;

/// Where an answer goes.
#[derive(Clone, Copy)]
pub enum Room<'a> {
    /// Into these.
    Parts(&'a [Part]),
    /// Into what is made for it; and this goes along with the question.
    Made(Allocator, Part),
}

impl Room<'_> {
    fn capacity(&self) -> u64 {
        match self {
            Room::Parts(parts) => parts.iter().map(|part| part.length as u64).sum(),
            Room::Made(..) => u64::MAX,
        }
    }

    /// Of the question's data.
    fn data_length(&self) -> usize {
        match self {
            Room::Parts(_) => 0,
            Room::Made(_, data) => data.length,
        }
    }
}

/// What is asked.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) kind: Kind,
    feature: u64,
    /// Of the handler that the user means.
    pub(crate) id: u16,
    /// Of the library's header.
    flags: u16,
}

impl Asked {
    pub(crate) const FETCH: Asked =
        Asked { kind: Kind::Fetch, feature: feature::AM, id: 0, flags: 0 };
    pub(crate) const ATOMIC: Asked =
        Asked { kind: Kind::Atomic, feature: feature::ATOMIC, id: 0, flags: header::flag::ATOMIC };
}

/// The answer to a fetch has come that needs buffers.
static ANSWERED: Work = Work { run: answered, too_late: answered, comes_before_bye: false };

fn answered(worker: &Worker, payload: Payload) {
    if let Payload::Message(fetch, message) = payload {
        // SAFETY: a slot of ours that came with the event.
        let message = unsafe { &*message.0 };
        if !worker.make_room(fetch, message) {
            worker.message_gone(message);
        }
    }
}

impl Endpoint {
    /// Asks the peer's handler for what it has to say.
    ///
    /// # Safety
    /// The room is writable, and the question's data readable, until the operation has completed;
    /// `out` is valid.
    pub unsafe fn fetch(
        &self,
        id: u16,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker.context, "fetch", flag::NO_WAIT)?;
        // SAFETY: as for this function.
        unsafe { self.ask_for(Asked { id, ..Asked::FETCH }, header, room, params, out) }
    }

    /// The same for any question, with parameters that are checked.
    ///
    /// # Safety
    /// As for `fetch`.
    pub(crate) unsafe fn ask_for(
        &self,
        asked: Asked,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        if room.data_length() > LONGEST_QUESTION {
            let text = format!(
                "data_length: {} bytes are more than the {LONGEST_QUESTION} that go along with a \
                question; let the peer fetch them",
                room.data_length()
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        request_wait::submit(params, out, |params, out| {
            if self.worker.must_submit_remotely(params) {
                return self.fetch_later(asked, header, room, params, out);
            }
            let inside = self.worker.enter()?;
            self.check_open()?;
            inside.need(asked.feature)?;
            if asked.kind == Kind::Fetch {
                self.check_am_header(header)?;
            }
            let queued = self.describe_fetch(asked, header, room)?;
            let slot = inside.take_slot();
            slot.begin(asked.kind, params, room.capacity(), 0, out.is_wanted());
            self.put_room(slot, room, queued);
            if let Err(error) = self.ask(slot, header, Some(params)) {
                slot.making.set(None);
                inside.return_slot(slot);
                return Err(error);
            }
            inside.start(slot, Some(self), params, out);
            Ok(Submitted::Pending)
        })
    }

    #[inline(never)]
    fn fetch_later(
        &self,
        asked: Asked,
        header: &[u8],
        room: Room<'_>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.check_open_outside()?;
        self.worker.need(asked.feature)?;
        if asked.kind == Kind::Fetch {
            self.check_length_of_header(header)?;
        }
        let queued = self.describe_fetch(asked, header, room)?;
        let promised =
            self.promise(params, Need::of_message(room.data_length(), queued.outgoing.charge))?;
        self.worker.delay(asked.kind, room.capacity(), params, out, |slot| {
            let place = slot.room(header.len());
            // SAFETY: room for as much, which is nobody's but ours.
            unsafe { place.copy_from_nonoverlapping(header.as_ptr(), header.len()) };
            self.put_room(slot, room, queued);
            Queued { promise: promised.keep(), ..slot.queued.get() }
        })
    }

    /// One that came through the ring.
    pub(crate) fn fetch_from_ring(&self, slot: &Slot, queued: &Queued, left: &OpParams) {
        let length = usize::from(queued.outgoing.user_header) - Question::LENGTH;
        // SAFETY: `fetch_later` has put the header there; nobody else has the slot.
        let header: &[u8] = unsafe { &mut *slot.store.get() }.room(length);
        slot.queued.set(*queued);
        match self.ask(slot, header, None) {
            Ok(()) => self.worker.start(slot, Some(self), left, Out::NOWHERE),
            Err(error) => self.worker.never_started(slot, Some(self), error.status()),
        }
    }

    fn describe_fetch(&self, asked: Asked, header: &[u8], room: Room<'_>) -> Result<Queued> {
        let plain = OpParams::default();
        let (memory_type, flags) = match room {
            Room::Parts(parts) => {
                let memory_type = memory_type_of(&self.worker, parts, &plain)?;
                let on_device =
                    parts.iter().any(|part| part.length > 0 && self.may_be_device(part));
                (memory_type, if on_device { header::flag::WAITING } else { 0 })
            }
            Room::Made(_, data) => (memory_type_of(&self.worker, &[data], &plain)?, 0),
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

    /// Sends the question of a fetch. None: it has been promised its place in the queue.
    fn ask(&self, slot: &Slot, header: &[u8], params: Option<&OpParams>) -> Result<()> {
        let worker = &self.worker;
        let queued = slot.queued.get();
        let made = slot.is_making();
        let number = worker.fetches().add(slot)?;
        let question = Question { number, capacity: slot.length.get() };
        let ask = worker.take_slot();
        let room = ask.room(HEADER + Question::LENGTH + header.len());
        // SAFETY: room for as much, which is nobody's but ours.
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
            endpoint: self,
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
        self.question_posted(slot, ask, self.post_message(ask, message), message.count)
    }

    /// UCP has been given a question with so much data. Once that has ended its slot is free.
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
                // Each of the two knows of the other.
                let fetch = Of::Ask(slot.ticket());
                worker.start_as_part(ask, Some(self), fetch, length as u64, 0);
                slot.part.set(Of::Ask(ask.ticket()));
            }
            Some(status) if status.is_error() => {
                let status = worker.status_from_ucx(status, Some(self));
                return Err(Error::new(
                    status,
                    format!("endpoint: UCX refused a question to {}", self.peer_text()),
                ));
            }
            Some(_) => self.count_sent(length as u64),
        }
        Ok(())
    }
}

impl Worker {
    /// A question has left, or has not. Its fetch waits for that only where its data went along, or
    /// the answer can no longer come.
    pub(crate) fn asked(&self, ask: &Slot, status: Status) {
        let Of::Ask(fetch) = ask.part.get() else { return };
        let Some(fetch) = fetch.current() else { return };
        fetch.part.set(Of::Nothing);
        if fetch.remaining.get() != 0 {
            fetch.remaining.set(0);
            self.complete(fetch, Status(fetch.reason.get()));
        } else if status.is_error() && fetch.number.get() != 0 {
            // Else its answer is being pulled, and UCX has the request.
            self.end_fetch(fetch, status);
        }
    }

    /// No answer to it is taken any more.
    pub(crate) fn end_fetch(&self, slot: &Slot, status: Status) {
        self.fetches().remove(slot.number.replace(0));
        slot.length.set(0);
        if let Of::Ask(ask) = slot.part.get() {
            if let Some(ask) = ask.current().filter(|ask| ask.has_mark(mark::WAITING)) {
                slot.part.set(Of::Nothing);
                // Its end is not to end the fetch once more.
                ask.part.set(Of::Nothing);
                ask.reason.set(status.0);
                self.complete(ask, status);
            }
        }
        slot.reason.set(status.0);
        self.answered(slot, status);
    }

    /// It has its answer. The question's data is the caller's again when UCX is done with it, too.
    fn answered(&self, slot: &Slot, status: Status) {
        if let (Of::Ask(ask), true) = (slot.part.get(), slot.is_making()) {
            if ask.current().is_some_and(|ask| ask.length.get() > 0) {
                slot.reason.set(status.0);
                return slot.remaining.set(1);
            }
        }
        slot.part.set(Of::Nothing);
        self.complete(slot, status);
    }

    /// In UCP's handler, which it answers. What is not taken is dropped, and its sender learns
    /// nothing of it.
    pub(crate) fn answer_came(
        &self,
        header: &Header,
        user_header: &[u8],
        arrived: &Arrived,
    ) -> sys::ucs_status_t {
        let answer = match Answer::decode(header, user_header) {
            Ok(answer) => answer,
            Err(why) => {
                complain(why);
                return sys::UCS_OK;
            }
        };
        // What it says of the credit holds, whoever still waits for it: the peer does not say it
        // again.
        let on = match header.connection {
            0 => self.endpoint_by_ucp(arrived.from),
            number => self.endpoint_by_id(number),
        };
        if let Some(endpoint) = on {
            endpoint.heard();
            endpoint.note_credit(header.taken);
        }
        // Cancelled, or out of time.
        let Some(slot) = self.fetches().find(answer.number) else { return sys::UCS_OK };
        // SAFETY: the worker keeps the endpoint alive while something in flight names it.
        let Some(endpoint) = (unsafe { slot.endpoint.get().as_ref() }) else { return sys::UCS_OK };
        let known = header.connection == endpoint.peering.number.get();
        if !known && (header.connection != 0 || arrived.from != endpoint.ucp.get()) {
            complain("an answer to another's question");
            return sys::UCS_OK;
        }
        self.fetches().remove(slot.number.replace(0));
        let status = Status(answer.status);
        if status.is_error() {
            slot.length.set(answer.length.unwrap_or(0));
            slot.reason.set(status.0);
            self.answered(slot, status);
            return sys::UCS_OK;
        }
        if slot.kind.get() == Kind::Atomic
            && (arrived.waits || arrived.length as u64 != slot.length.get())
        {
            complain("an answer to an atomic operation that is none");
            slot.reason.set(Status::IO_ERROR.0);
            self.answered(slot, Status::IO_ERROR);
            return if arrived.waits { sys::UCS_ERR_INVALID_PARAM } else { sys::UCS_OK };
        }
        if slot.is_making() {
            let (message, keeps) = self.keep_arrived(header, &[], arrived);
            self.push_event(Event::Work(
                &ANSWERED,
                Payload::Message(slot.ticket(), SlotPointer(message)),
            ));
            return keeps;
        }
        let room = slot.length.replace(arrived.length as u64);
        if arrived.length as u64 > room {
            self.answered(slot, Status::MESSAGE_TRUNCATED);
            return sys::UCS_OK;
        }
        if arrived.waits && arrived.length > 0 {
            self.pull_answer(slot, arrived.data, &slot.queued.get());
            return sys::UCS_INPROGRESS;
        }
        if arrived.length > 0 && slot.wants_pull() {
            complain("an answer came along that was to wait");
            self.answered(slot, Status::IO_ERROR);
            return sys::UCS_OK;
        }
        // SAFETY: UCX's data is valid during its handler, and the processor reaches where it goes.
        unsafe { copy_out(slot, arrived.data.cast(), arrived.length) };
        self.answered(slot, Status::OK);
        sys::UCS_OK
    }

    fn pull_answer(&self, slot: &Slot, data: *mut c_void, to: &Queued) {
        slot.add_mark(mark::SUBMITTING);
        let posted = self.post_pull(slot, data, to, on_pulled);
        slot.clear_mark(mark::SUBMITTING);
        if let Some(status) = Left::of(slot, posted).ended() {
            self.answered(slot, status);
        }
    }

    /// A message for which buffers have to be made: an answer, or one that waited in a queue. After
    /// UCP's pass. False: who wanted it has ended meanwhile, and nothing has become of it.
    pub(crate) fn make_room(&self, fetch: Ticket, message: &Slot) -> bool {
        let Some(slot) = fetch.current() else { return false };
        let Some(mut making) = slot.making.take() else { return false };
        slot.number.set(0);
        let (inbound, length) = (message.inbound.get(), message.length.get() as usize);
        let waits = inbound.form == Form::Waiting;
        let wanted = if waits { inbound.memory_type() } else { memory_type::HOST };
        let made = if length > making.allocator.max_total_bytes {
            let text = format!(
                "allocator: the message has {length} bytes, and max_total_bytes is {}",
                making.allocator.max_total_bytes
            );
            Err(Error::new(Status::EXCEEDS_LIMIT, text))
        } else {
            self.make_buffers(making.allocator, [(length, wanted)].into_iter())
        };
        if fetch.current().is_none() {
            // It has ended while the gate was open.
            self.outside(|| drop(made));
            return false;
        }
        let (data, status) = match made {
            Ok(buffers) => {
                let frame = buffers.get(0);
                making.buffers = Some(buffers);
                (frame.map_or(std::ptr::null_mut(), |frame| frame.data), Status::OK)
            }
            Err(error) => {
                let status = error.status();
                making.trouble = Some(error);
                (std::ptr::null_mut(), status)
            }
        };
        slot.making.set(Some(making));
        slot.length.set(length as u64);
        if slot.kind.get() == Kind::AmQueueRecv {
            slot.keep_header(message.front());
        }
        // SAFETY: the worker keeps the endpoint alive while something in flight names it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        let status = match endpoint {
            Some(endpoint) if status == Status::OK && !endpoint.takes_messages() => {
                endpoint.status()
            }
            _ => status,
        };
        if status.is_error() {
            slot.reason.set(status.0);
            self.answered(slot, status);
        } else if waits && length > 0 {
            message.inbound.set(crate::engine::core::channel::message::Inbound {
                form: Form::Gone,
                ..inbound
            });
            let memory_type = memory_type::to_ucx(&self.context, wanted).unwrap_or(None);
            self.pull_answer(
                slot,
                inbound.data,
                &Queued { buffer: data, count: length, memory_type, ..Queued::NOTHING },
            );
        } else {
            if length > 0 {
                // SAFETY: the message has as much, and so have the buffers that were made for it.
                unsafe { data.cast::<u8>().copy_from_nonoverlapping(inbound.data.cast(), length) };
            }
            self.answered(slot, Status::OK);
        }
        self.message_gone(message);
        true
    }
}

/// Copies an answer to where it belongs.
///
/// # Safety
/// `data` is readable for `length` bytes, for which there is room.
#[inline(always)]
pub(crate) unsafe fn copy_out(slot: &Slot, data: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    // SAFETY: the cell belongs to who is inside the gate, and nobody changes it here.
    let queued = unsafe { &*slot.queued.as_ptr() };
    if !queued.scattered {
        // SAFETY: the caller's buffer, and as for this function.
        return unsafe { copy_short(data, queued.buffer.cast(), length) };
    }
    // SAFETY: the slot's own list, which nobody changes while it is in flight.
    let list = unsafe { &*slot.iov.get() };
    let mut done = 0;
    for part in list {
        let count = part.length.min(length - done);
        // SAFETY: as above, and as for this function.
        unsafe { part.buffer.cast::<u8>().copy_from_nonoverlapping(data.add(done), count) };
        done += count;
    }
}

/// UCP is done with the pull of an answer; perhaps before the call that began it has returned.
unsafe extern "C" fn on_pulled(
    request: *mut c_void,
    status: sys::ucs_status_t,
    _length: usize,
    _user_data: *mut c_void,
) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the request memory that UCP was given is a slot, and stays one until it
        // completes, here. UCP calls back inside progress or another call of ours, hence inside the
        // gate.
        let slot = unsafe { &*request.cast::<Slot>() };
        if slot.has_mark(mark::SUBMITTING)
            || slot.hold.get() & UCP != 0
            || slot.worker().is_over.get()
        {
            ended(slot, Status(status.into()));
        } else {
            slot.worker().answered(slot, Status(status.into()));
        }
    });
}
