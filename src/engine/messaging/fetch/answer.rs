//! Fetch, requesting side, from the reply on: it is copied, pulled, given buffers, or refused.

use crate::engine::base::log::Component;
use crate::engine::base::status::{Error, Status};
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::channel::message::{Form, Inbound};
use crate::engine::core::channel::receive::Arrived;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::completion::{ended, inside, Returned};
use crate::engine::core::request::inline_buffer::copy_short;
use crate::engine::core::request::request::{
    mark, Kind, Part as Of, Slot, SlotPointer, Ticket, UCP,
};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::{Event, Payload, Work};
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::memory_type;
use crate::engine::wire::header::{Answer, Header};
use crate::sys;
use std::ffi::c_void;

/// The reply to a fetch that needs buffers has arrived.
static ANSWERED: Work = Work { run: answered, too_late: answered, comes_before_bye: false };

fn answered(worker: &Worker, payload: Payload) {
    if let Payload::Message(fetch, message) = payload {
        // SAFETY: a slot of this worker that came with the event.
        let message = unsafe { &*message.0 };
        if !worker.make_room(fetch, message) {
            worker.message_gone(message);
        }
    }
}

/// What happens to a reply.
pub(crate) enum Fate {
    CopiedHere,
    Pulled,
    /// When user code has made them.
    GetsBuffers,
    /// The fetch completes with this status, and the length of the full reply.
    Ends(Status, u64),
    Nonsense,
}

impl Slot {
    /// What happens to a reply of `length` bytes with status OK. `PLAIN`: the fetch is known to be
    /// `is_plain`, with one buffer in host memory.
    #[inline(always)]
    pub(crate) fn fate_of_answer<const PLAIN: bool>(&self, length: usize, waits: bool) -> Fate {
        let atomic = !PLAIN && self.kind.get() == Kind::Atomic;
        if atomic && (waits || length as u64 != self.length.get()) {
            return Fate::Nonsense;
        }
        if !PLAIN && self.is_making() {
            return Fate::GetsBuffers;
        }
        match length as u64 {
            longer if longer > self.length.get() => Fate::Ends(Status::MESSAGE_TRUNCATED, longer),
            1.. if waits => Fate::Pulled,
            // It arrived with its message although it had to wait at its sender.
            1.. if !PLAIN && self.wants_pull() => Fate::Nonsense,
            _ => Fate::CopiedHere,
        }
    }
}

impl Endpoint {
    /// The reply comes from the peer that was asked on this endpoint. The peer names the
    /// connection; if it does not, UCP's endpoint identifies it.
    #[inline(always)]
    pub(crate) fn has_asked_on(&self, connection: u32, from: sys::ucp_ep_h) -> bool {
        match connection {
            0 => !from.is_null() && from == self.ucp.get(),
            number => number == self.peering.number.get(),
        }
    }
}

impl Worker {
    /// A request message was sent, or has failed. Its fetch waits for this only if the message had
    /// data, or if no reply can arrive any more.
    pub(crate) fn asked(&self, ask: &Slot, status: Status) {
        let Of::Ask(fetch) = ask.part.get() else { return };
        let Some(fetch) = fetch.current() else { return };
        fetch.part.set(Of::Nothing);
        if fetch.remaining.get() != 0 {
            fetch.remaining.set(0);
            self.complete(fetch, Status(fetch.reason.get()));
        } else if status.is_error() && fetch.number.get() != 0 {
            // Otherwise its reply is being pulled, and UCX has the request.
            self.end_fetch(fetch, status);
        }
    }

    /// Completes the fetch: no reply to it is accepted any more.
    pub(crate) fn end_fetch(&self, slot: &Slot, status: Status) {
        self.fetches().remove(slot.number.replace(0));
        slot.length.set(0);
        if let Of::Ask(ask) = slot.part.get() {
            if let Some(ask) = ask.current().filter(|ask| ask.has_mark(mark::WAITING)) {
                slot.part.set(Of::Nothing);
                // Its completion must not complete the fetch again.
                ask.part.set(Of::Nothing);
                ask.reason.set(status.0);
                self.complete(ask, status);
            }
        }
        slot.reason.set(status.0);
        self.answered(slot, status);
    }

    /// The fetch has its reply. The request's data belongs to the caller again only when UCX has
    /// completed the request message as well.
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

    /// Inside UCP's handler; returns the handler's result. A reply that is not accepted is dropped,
    /// and its sender is not notified.
    pub(crate) fn answer_came(
        &self,
        header: &Header,
        user_header: &[u8],
        arrived: &Arrived,
    ) -> sys::ucs_status_t {
        let answer = match Answer::decode(header, user_header) {
            Ok(answer) => answer,
            Err(why) => {
                complain(Component::Fetch, self, why);
                return sys::UCS_OK;
            }
        };
        // Its credit report counts even if no fetch waits for it: the peer does not send it again.
        let on = match header.connection {
            0 => self.endpoint_by_ucp(arrived.from),
            number => self.endpoint_by_id(number),
        };
        if let Some(endpoint) = on {
            endpoint.heard();
            endpoint.note_credit(header.taken);
        }
        // Cancelled, or timed out.
        let Some(slot) = self.fetches().find(answer.number) else { return sys::UCS_OK };
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let Some(endpoint) = (unsafe { slot.endpoint.get().as_ref() }) else { return sys::UCS_OK };
        if !endpoint.has_asked_on(header.connection, arrived.from) {
            complain(
                Component::Fetch,
                endpoint,
                "a reply from another peer than the one that was asked",
            );
            return sys::UCS_OK;
        }
        self.fetches().remove(slot.number.replace(0));
        trace::replied(self, slot, answer.number);
        let Arrived { length, waits, .. } = *arrived;
        let fate = match Status(answer.status) {
            status if status.is_error() => Fate::Ends(status, answer.length.unwrap_or(0)),
            _ => slot.fate_of_answer::<false>(length, waits),
        };
        match fate {
            Fate::CopiedHere => {
                slot.length.set(length as u64);
                // SAFETY: UCX's data is valid during its handler. The processor can access the
                // destination, which has room.
                unsafe { copy_out(slot, arrived.data.cast(), length) };
                self.answered(slot, Status::OK);
            }
            Fate::Pulled => {
                slot.length.set(length as u64);
                self.pull_answer(slot, arrived.data, &slot.queued.get());
                return sys::UCS_INPROGRESS;
            }
            Fate::GetsBuffers => {
                let (message, keeps) = self.keep_arrived(header, &[], arrived);
                let payload = Payload::Message(slot.ticket(), SlotPointer(message));
                self.push_event(Event::Work(&ANSWERED, payload));
                return keeps;
            }
            Fate::Ends(status, length) => {
                slot.length.set(length);
                slot.reason.set(status.0);
                self.answered(slot, status);
            }
            Fate::Nonsense => {
                complain(Component::Fetch, endpoint, "a reply that does not fit its fetch");
                slot.reason.set(Status::IO_ERROR.0);
                self.answered(slot, Status::IO_ERROR);
                if waits {
                    return sys::UCS_ERR_INVALID_PARAM;
                }
            }
        }
        sys::UCS_OK
    }

    fn pull_answer(&self, slot: &Slot, data: *mut c_void, to: &Queued) {
        slot.add_mark(mark::SUBMITTING);
        let posted = self.post_pull(slot, data, to, on_pulled);
        slot.clear_mark(mark::SUBMITTING);
        if let Some(status) = Returned::of(slot, posted).ended() {
            self.answered(slot, status);
        }
    }

    /// Allocates buffers for a message: a reply, or a message from a queue. After UCP's pass.
    /// Returns false if the operation has ended meanwhile; the message is then unchanged.
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
            // The operation has ended while the gate was open.
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
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
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
            message.inbound.set(Inbound { form: Form::Gone, ..inbound });
            let memory_type = memory_type::to_ucx(&self.context, wanted).unwrap_or(None);
            self.pull_answer(
                slot,
                inbound.data,
                &Queued { buffer: data, count: length, memory_type, ..Queued::NOTHING },
            );
        } else {
            if length > 0 {
                // SAFETY: the message has this many bytes, and the buffers were allocated for them.
                unsafe { data.cast::<u8>().copy_from_nonoverlapping(inbound.data.cast(), length) };
            }
            self.answered(slot, Status::OK);
        }
        self.message_gone(message);
        true
    }
}

/// Copies a reply to its destination.
///
/// # Safety
/// `data` is readable for `length` bytes, and the destination has room for them.
#[inline(always)]
pub(crate) unsafe fn copy_out(slot: &Slot, data: *const u8, length: usize) {
    if length == 0 {
        return;
    }
    // SAFETY: the cell belongs to the thread inside the gate, and does not change here.
    let queued = unsafe { &*slot.queued.as_ptr() };
    if !queued.scattered {
        // SAFETY: the caller guarantees data and room.
        return unsafe { copy_short(data, queued.buffer.cast(), length) };
    }
    // SAFETY: the slot's own list, which does not change while it is in flight.
    let list = unsafe { &*slot.iov.get() };
    let mut done = 0;
    for part in list {
        let count = part.length.min(length - done);
        // SAFETY: the caller guarantees data and room; `done + count` is at most `length`.
        unsafe { part.buffer.cast::<u8>().copy_from_nonoverlapping(data.add(done), count) };
        done += count;
    }
}

/// UCP has completed the pull of a reply, possibly before the call that started it has returned.
unsafe extern "C" fn on_pulled(
    request: *mut c_void,
    status: sys::ucs_status_t,
    _length: usize,
    _user_data: *mut c_void,
) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the request memory that UCP was given is a slot, and stays one until it
        // completes, here. UCP calls back inside progress or another call of the library, hence
        // inside the gate.
        let (worker, slot) = unsafe { inside(request) };
        if slot.has_mark(mark::SUBMITTING) || slot.hold.get() & UCP != 0 || worker.is_over.get() {
            ended(worker, slot, Status(status.into()));
        } else {
            worker.answered(slot, Status(status.into()));
        }
    });
}
