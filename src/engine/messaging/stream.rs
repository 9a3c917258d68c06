//! Stream transfer: bytes in the order in which they were sent, regardless of how they were split.
//!
//! UCP cannot cancel a stream receive, so receives stay here, in a queue for each endpoint. After
//! each pass they are filled from the buffers in which UCP keeps the data that has arrived. What a
//! receive leaves of a buffer is held for the next receive.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::request::error_text::describe_bytes;
use crate::engine::core::request::fast_path::FastPath;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, RecvInfo, Submitted};
use crate::engine::core::request::operations::Operation;
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::request::submit::Sending;
use crate::engine::core::trace;
use crate::engine::core::worker::inward::{Gated, Guarded};
use crate::engine::core::worker::protocol::{OfEndpoint, Protocol, Turn};
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::sys::{self, Posted};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

const OPERATIONS: &[Operation] = &[
    Operation { post: post_send, describe: describe_bytes, ..Operation::of(Kind::StreamSend) },
    Operation {
        take_over: Some(|_, slot, _, endpoint, left| {
            if let Some(endpoint) = endpoint {
                endpoint.stream_recv_from_ring(slot, left);
            }
        }),
        outlasts: |endpoint| endpoint.has_stream_left(),
        cancel: |worker, slot, reason| {
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                endpoint.forget_stream_recv(slot);
            }
            slot.reason.set(reason.0);
            worker.complete(slot, reason);
        },
        describe: |slot, _| {
            let (wanted, arrived) = (slot.queued.get().count, slot.length.get());
            Some(format!("stream receive of {wanted} bytes, of which {arrived} have arrived"))
        },
        ..Operation::of(Kind::StreamRecv)
    },
];

/// `Operation::post` of sends.
#[inline(always)]
fn post_send(
    _: &Worker,
    slot: &Slot,
    queued: &Queued,
    to: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let (Some(to), 1..) = (to, queued.count) else {
        // UCP's receiving side does not accept an empty message.
        return std::ptr::null_mut();
    };
    let mut param = Param::of_buffer(slot, queued.memory_type, false);
    param.let_ucx_describe(slot);
    // SAFETY: an open endpoint inside its worker's gate; the caller keeps the buffer, and the
    // worker the slot.
    unsafe { sys::ucp_stream_send_nbx(to.ucp.get(), queued.buffer, queued.count, param.as_ptr()) }
}

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 1,
    operations: OPERATIONS,
    of_worker: || Box::new(Streams::default()),
    of_endpoint: || Box::new(OfStream::default()),
    turn: Turn::First,
    pass: Worker::read_streams,
    at_endpoint: |endpoint, what| match what {
        // Receives may have been posted during an earlier attempt to connect.
        OfEndpoint::Made => endpoint.name_stream(),
        OfEndpoint::PeerCloses => endpoint.keep_stream(),
        OfEndpoint::EndsReceives(status) => endpoint.end_stream_recvs(status),
        OfEndpoint::BreaksOff => endpoint.drain_stream(),
        OfEndpoint::LetsGo => endpoint.release_stream(),
        OfEndpoint::Closed | OfEndpoint::Forgotten | OfEndpoint::WorkerEnded => {}
    },
    ..Protocol::NOTHING
};

impl Worker {
    fn streams(&self) -> &Streams {
        self.state(&PROTOCOL)
    }
}

impl Endpoint {
    fn stream(&self) -> &Stream {
        self.state_for_all::<OfStream>(&PROTOCOL).stream.get(&self.worker)
    }
}

impl SharedEndpoint {
    fn stream_leftover(&self) -> &AtomicBool {
        &self.state_for_all::<OfStream>(&PROTOCOL).leftover
    }
}

/// Most endpoints with new data that are requested from UCP in one call.
const POLLED: usize = 16;

/// The receiving end of an endpoint's stream.
#[derive(Default)]
pub(crate) struct Stream {
    /// Posted and not full, oldest first.
    receives: RefCell<VecDeque<*const Slot>>,
    held: RefCell<Held>,
    /// The address of UCP's endpoint by which `Streams` finds this one; 0 for none.
    known: Cell<usize>,
}

/// The stream state of an endpoint.
#[derive(Default)]
struct OfStream {
    stream: Gated<Stream>,
    /// The peer has closed, and not all earlier data was received. Read by any thread.
    leftover: AtomicBool,
}

/// What was taken from UCP's queue and not received.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// A buffer of UCP.
    OfUcp { data: *const u8, length: usize, taken: usize },
    /// All data that had arrived when the peer closed.
    Kept { bytes: Vec<u8>, taken: usize },
}

/// The streams of a worker.
#[derive(Default)]
pub(crate) struct Streams {
    /// Number of posted receives.
    posted: Cell<u32>,
    /// The places in the worker's list of the endpoints with these UCP addresses. Must be checked:
    /// a place may belong to another endpoint by now.
    places: RefCell<HashMap<usize, usize>>,
    /// The last result of such a look-up, which is usually the next one as well.
    last: Cell<(usize, usize)>,
}

impl Streams {
    fn count(&self, more: i32) {
        self.posted.set(self.posted.get().wrapping_add_signed(more));
    }
}

impl SharedEndpoint {
    /// Sends `length` bytes.
    ///
    /// # Safety
    /// `buffer` is readable for `length` bytes until the operation has completed, and `out` is
    /// valid.
    pub unsafe fn stream_send(
        &self,
        buffer: *const c_void,
        length: usize,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker().context, "stream send", flag::NO_WAIT)?;
        let need = Need::of(length);
        let sending = Sending { kind: Kind::StreamSend, need, tag: 0 };
        request_wait::submit(params, out, |params, out| {
            let plan = |_: Option<&Endpoint>| {
                let memory_type = memory_type::to_ucx(&self.worker().context, params.memory_type)?;
                let (buffer, count, endpoint) = (buffer.cast_mut(), length, self);
                Ok(move |_: &Slot| Queued {
                    buffer,
                    count,
                    memory_type,
                    endpoint,
                    ..Queued::NOTHING
                })
            };
            self.submit_send(sending, feature::STREAM, params, out, plan, post_send)
        })
    }

    /// Receives `length` bytes, or, with `STREAM_PARTIAL`, as many of them as have arrived.
    ///
    /// # Safety
    /// `buffer` is writable for `length` bytes, and `params.recv_info` is valid, until the
    /// operation has completed; `out` is valid.
    pub unsafe fn stream_recv(
        &self,
        buffer: *mut c_void,
        length: usize,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker().context, "stream receive", flag::STREAM_PARTIAL)?;
        let on_device =
            || memory_type::is_device_at(&self.worker().context, params.memory_type, buffer);
        if !memory_type::is_reached_by_cpu(params.memory_type) || (length > 0 && on_device()) {
            let text = "memory_type: a stream is received into host memory only; copy from there";
            return Err(Error::new(Status::UNSUPPORTED, text));
        }
        request_wait::submit(params, out, |params, out| {
            let partial = params.flags & flag::STREAM_PARTIAL != 0;
            let queued =
                Queued { buffer, count: length, partial, endpoint: self, ..Queued::NOTHING };
            if self.worker().must_submit_remotely(params) {
                self.worker().check_usable()?;
                self.check_readable(params)?;
                self.worker().need(feature::STREAM)?;
                return self.worker().delay(Kind::StreamRecv, 0, params, out, |_slot| queued);
            }
            let inside = self.enter()?;
            self.check_readable(params)?;
            inside.worker.need(feature::STREAM)?;
            Ok(inside.stream_recv_now(queued, params, out))
        })
    }
}

impl FastPath<'_> {
    /// `Endpoint::stream_send` for plain parameters. `to` is the endpoint that this was made for,
    /// and `length` is not 0.
    ///
    /// # Safety
    /// As for that function.
    #[inline(always)]
    pub unsafe fn stream_send(
        self,
        to: &SharedEndpoint,
        buffer: *const c_void,
        length: usize,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: `to` is the endpoint that this was made for, whose worker is entered.
        let to = unsafe { to.inside() };
        self.send(Kind::StreamSend, (length as u64, 0), to, params, out, |worker, slot| {
            let param = worker.templates.send(slot, params.plain_index());
            // SAFETY: an open endpoint, its worker entered; the caller keeps the buffer, and the
            // worker the slot.
            unsafe { sys::ucp_stream_send_nbx(to.ucp.get(), buffer, length, param) }
        })
    }
}

impl Endpoint {
    fn stream_recv_now(&self, queued: Queued, params: &OpParams, out: Out) -> Submitted {
        let slot = self.worker.take_slot();
        slot.begin(Kind::StreamRecv, params, 0, 0, out.is_wanted());
        trace::submitted(slot, Some(self));
        slot.queued.set(queued);
        let full = self.stream().receives.borrow().is_empty() && self.fill(slot);
        if full && params.flags & flag::ALWAYS_CALLBACK == 0 {
            self.worker.received_inline(slot);
            out.store_null();
            return Submitted::Done;
        }
        self.post_stream_recv(slot, full, params, out);
        Submitted::Pending
    }

    /// A receive that came through the ring.
    pub(crate) fn stream_recv_from_ring(&self, slot: &Slot, params: &OpParams) {
        let full = self.stream().receives.borrow().is_empty() && self.fill(slot);
        self.post_stream_recv(slot, full, params, Out::NOWHERE);
    }

    fn post_stream_recv(&self, slot: &Slot, full: bool, params: &OpParams, out: Out) {
        self.worker.start(slot, Some(self), params, out);
        if full {
            return self.worker.complete(slot, Status::OK);
        }
        if self.phase() != Phase::Open {
            // It received the rest of a stream that has ended.
            return self.end_stream_recv(slot, self.status());
        }
        self.stream().receives.borrow_mut().push_back(slot);
        self.worker.streams().count(1);
        self.name_stream();
        self.worker.attend(PROTOCOL.bit());
        // It may wait for the peer's close, which is noticed only once the two sides know each
        // other.
        self.break_silence();
    }

    fn end_stream_recv(&self, slot: &Slot, status: Status) {
        slot.reason.set(status.0);
        self.worker.complete(slot, status);
    }
}

impl SharedEndpoint {
    /// Checks that the stream can be received from: it is open, or has data from before the peer's
    /// close. A caller that waits inside the call cannot tell a refusal from the end of the stream,
    /// so `recv_info` is cleared.
    fn check_readable(&self, params: &OpParams) -> Result<()> {
        if self.has_stream_left() {
            return Ok(());
        }
        self.check_open().inspect_err(|_| {
            // SAFETY: null, or valid until the operation has completed.
            if let Some(info) = unsafe { params.recv_info.as_mut() } {
                *info = RecvInfo::default();
            }
        })
    }

    /// Closed by the peer, and not all earlier data was received.
    pub(crate) fn has_stream_left(&self) -> bool {
        self.stream_leftover().load(Ordering::Acquire) && self.status() == Status::CONNECTION_RESET
    }
}

impl Endpoint {
    /// Lets `Streams` find this endpoint by UCP's.
    pub(crate) fn name_stream(&self) {
        let address = self.ucp.get() as usize;
        if self.stream().known.get() != address && !self.stream().receives.borrow().is_empty() {
            self.stream().known.set(address);
            self.worker.streams().places.borrow_mut().insert(address, self.place());
            self.worker.streams().last.set((0, 0));
        }
    }

    /// Moves data that has arrived into the receive. True if it is complete.
    fn fill(&self, slot: &Slot) -> bool {
        let queued = slot.queued.get();
        let mut filled = slot.length.get() as usize;
        while filled < queued.count {
            let room = queued.count - filled;
            // SAFETY: the caller keeps the buffer, of `count` bytes, until the operation has
            // completed.
            let moved = unsafe { self.take_arrived(queued.buffer.cast::<u8>().add(filled), room) };
            if moved == 0 {
                break;
            }
            filled += moved;
        }
        slot.length.set(filled as u64);
        filled == queued.count || (queued.partial && filled > 0)
    }

    /// Moves held data, or UCP's next buffer, as far as there is room. 0 if there is no data.
    ///
    /// # Safety
    /// `to` is writable for `room` bytes.
    unsafe fn take_arrived(&self, to: *mut u8, room: usize) -> usize {
        let mut held = self.stream().held.borrow_mut();
        if matches!(*held, Held::Nothing) {
            *held = self.next_of_ucp();
        }
        let (moved, empty) = match &mut *held {
            Held::Nothing => return 0,
            Held::OfUcp { data, length, taken } => {
                let moved = room.min(*length - *taken);
                // SAFETY: UCP's buffer, held and of that length. Only this endpoint has it, so the
                // two do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(data.add(*taken), to, moved) };
                *taken += moved;
                (moved, taken == length)
            }
            Held::Kept { bytes, taken } => {
                let moved = room.min(bytes.len() - *taken);
                // SAFETY: the vector has that length; it belongs to this endpoint, so the two do
                // not overlap.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().add(*taken), to, moved) };
                *taken += moved;
                (moved, *taken == bytes.len())
            }
        };
        if empty {
            self.give_back(&mut held);
        }
        moved
    }

    /// The oldest buffer in UCP's queue.
    fn next_of_ucp(&self) -> Held {
        let ucp = self.ucp.get();
        if ucp.is_null() {
            return Held::Nothing;
        }
        loop {
            let mut length = 0;
            // SAFETY: a live endpoint inside its worker's gate, and a valid out-pointer.
            let data = unsafe { sys::ucp_stream_recv_data_nb(ucp, &mut length) };
            match Posted::from_pointer(data) {
                Posted::Pending if length > 0 => {
                    return Held::OfUcp { data: data.cast(), length, taken: 0 }
                }
                // An empty buffer, which only a peer of another library can send.
                // SAFETY: UCP has just handed it out.
                Posted::Pending => unsafe { sys::ucp_stream_data_release(ucp, data) },
                Posted::Done | Posted::Failed(_) => return Held::Nothing,
            }
        }
    }

    fn give_back(&self, held: &mut Held) {
        match std::mem::take(held) {
            // SAFETY: a buffer that UCP has handed out, given back once. Its endpoint is alive:
            // held buffers are given back before it ends.
            Held::OfUcp { data, .. } => unsafe {
                sys::ucp_stream_data_release(self.ucp.get(), data.cast_mut().cast());
            },
            Held::Kept { .. } => self.stream_leftover().store(false, Ordering::Release),
            Held::Nothing => {}
        }
    }

    /// Fills the posted receives, oldest first. Returns how many have completed.
    #[inline(always)]
    fn feed_stream(&self) -> u32 {
        let (stream, mut completed) = (self.stream(), 0);
        loop {
            let first = stream.receives.borrow().front().copied();
            // SAFETY: a receive is in the list exactly as long as it is in flight.
            let Some(slot) = (unsafe { first.and_then(|slot| slot.as_ref()) }) else {
                return completed;
            };
            if !self.fill(slot) {
                return completed;
            }
            stream.receives.borrow_mut().pop_front();
            self.worker.streams().count(-1);
            self.worker.complete(slot, Status::OK);
            completed += 1;
        }
    }

    /// Removes a receive from the list of posted ones.
    pub(crate) fn forget_stream_recv(&self, slot: &Slot) {
        let mut receives = self.stream().receives.borrow_mut();
        let Some(place) = receives.iter().position(|known| std::ptr::eq(*known, slot)) else {
            return;
        };
        receives.remove(place);
        self.worker.streams().count(-1);
    }

    /// The endpoint ends: completes its receives, in order, except those that data that has arrived
    /// can still fill.
    pub(crate) fn end_stream_recvs(&self, status: Status) {
        if self.stream().receives.borrow().is_empty() {
            return;
        }
        self.feed_stream();
        loop {
            let first = self.stream().receives.borrow().front().copied();
            // SAFETY: a receive is in the list exactly as long as it is in flight.
            let Some(slot) = (unsafe { first.and_then(|slot| slot.as_ref()) }) else { return };
            self.forget_stream_recv(slot);
            self.end_stream_recv(slot, status);
        }
    }

    /// The peer has closed, and no more data arrives: copies what has arrived, because UCP drops it
    /// with the endpoint. Also called inside UCP's progress.
    pub(crate) fn keep_stream(&self) {
        if self.phase() != Phase::Open || !self.worker.context.has(feature::STREAM) {
            return;
        }
        let mut held = self.stream().held.borrow_mut();
        if let Held::Kept { .. } = *held {
            return;
        }
        let mut kept = Vec::new();
        if let Held::Nothing = *held {
            *held = self.next_of_ucp();
        }
        while let Held::OfUcp { data, length, taken } = *held {
            // SAFETY: UCP's buffer, held and of that length.
            kept.extend_from_slice(unsafe {
                std::slice::from_raw_parts(data.add(taken), length - taken)
            });
            self.give_back(&mut held);
            *held = self.next_of_ucp();
        }
        if !kept.is_empty() {
            *held = Held::Kept { bytes: kept, taken: 0 };
            self.stream_leftover().store(true, Ordering::Release);
        }
    }

    /// UCP's endpoint is about to be closed: data that has arrived fills the posted receives, and
    /// UCP drops the rest.
    pub(crate) fn drain_stream(&self) {
        self.feed_stream();
        self.release_stream();
    }

    /// Gives held buffers back to UCP before its endpoint is closed.
    pub(crate) fn release_stream(&self) {
        let mut held = self.stream().held.borrow_mut();
        if let Held::OfUcp { .. } = *held {
            self.give_back(&mut held);
        }
        let address = self.stream().known.replace(0);
        if address != 0 {
            self.worker.streams().places.borrow_mut().remove(&address);
        }
    }
}

impl Worker {
    /// A receive that completed inside its call.
    fn received_inline(&self, slot: &Slot) {
        slot.store_recv_info();
        self.count_inline(slot.kind.get(), slot.length.get(), None);
        trace::completed_inline(slot, None);
        slot.outcome.set(Status::OK);
        self.return_slot(slot);
    }

    /// Fills the receives of endpoints with new data. After UCP's pass. Returns how many have
    /// completed.
    pub(crate) fn read_streams(&self) -> u32 {
        let (streams, mut completed) = (self.streams(), 0);
        let mut polled = [const { MaybeUninit::<sys::ucp_stream_poll_ep_t>::uninit() }; POLLED];
        while streams.posted.get() > 0 {
            // SAFETY: a live worker inside its gate, and room for this many.
            let count = unsafe {
                sys::ucp_stream_worker_poll(self.ucp(), polled.as_mut_ptr().cast(), POLLED, 0)
            };
            let count = usize::try_from(count).unwrap_or(0);
            for ready in &polled[..count] {
                // Endpoints without a receive are checked again when one is posted.
                // SAFETY: written by UCP.
                completed += self.feed_stream_of(unsafe { ready.assume_init_ref() }.ep);
            }
            if count < POLLED {
                break;
            }
        }
        if streams.posted.get() == 0 {
            self.attention.set(self.attention.get() & !PROTOCOL.bit());
        }
        completed
    }

    #[inline(always)]
    fn feed_stream_of(&self, ucp: sys::ucp_ep_h) -> u32 {
        let streams = self.streams();
        let (address, mut place) = streams.last.get();
        if address != ucp as usize {
            let Some(known) = streams.places.borrow().get(&(ucp as usize)).copied() else {
                return 0;
            };
            place = known;
            streams.last.set((ucp as usize, place));
        }
        let endpoints = self.endpoints.borrow();
        let endpoint = endpoints.get(place).and_then(Option::as_ref);
        endpoint
            .filter(|endpoint| endpoint.ucp.get() == ucp)
            .map_or(0, |endpoint| endpoint.feed_stream())
    }
}
