//! Stream transfer: bytes in the order in which they were sent, whatever pieces they were sent in.
//!
//! UCP cannot take a stream receive back once it has it, so receives stay here, in a queue for each
//! endpoint, and are filled after each pass from the buffers in which UCP keeps what has arrived.
//! What a receive leaves of a buffer is held for the next one.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::request::error_text::describe_bytes;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, RecvInfo, Submitted};
use crate::engine::core::request::operations::Operation;
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::request::submit::Sending;
use crate::engine::core::worker::inward::Gated;
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
            // SAFETY: the worker keeps the endpoint alive while something in flight names it.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                endpoint.forget_stream_recv(slot);
            }
            slot.reason.set(reason.0);
            worker.complete(slot, reason);
        },
        describe: |slot, _| {
            format!(
                "stream receive of {} bytes, {} of them there",
                slot.queued.get().count,
                slot.length.get()
            )
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
        // UCP's receiving side takes no message without a byte in it.
        return std::ptr::null_mut();
    };
    let param = Param::of_buffer(slot, queued.memory_type, false);
    // SAFETY: an open endpoint inside its worker's gate; the caller keeps the buffer, the worker
    // the slot.
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
        // Receives may have been posted while another attempt to connect was under way.
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

/// How many endpoints that something has arrived for are asked of UCP at once.
const POLLED: usize = 16;

/// The receiving end of an endpoint's stream.
#[derive(Default)]
pub(crate) struct Stream {
    /// Posted and not full, oldest first.
    receives: RefCell<VecDeque<*const Slot>>,
    held: RefCell<Held>,
    /// The address of UCP's endpoint that `Streams` knows this one by; 0 for none.
    known: Cell<usize>,
}

/// What is kept of an endpoint.
#[derive(Default)]
struct OfStream {
    stream: Gated<Stream>,
    /// The peer has closed, and not all that came before was received. Read by any thread.
    leftover: AtomicBool,
}

/// What has left UCP's queue and not been received.
#[derive(Default)]
enum Held {
    #[default]
    Nothing,
    /// A buffer of UCP's.
    OfUcp { data: *const u8, length: usize, taken: usize },
    /// All that there was when the peer closed.
    Kept { bytes: Vec<u8>, taken: usize },
}

/// The streams of a worker, whose gate guards them.
#[derive(Default)]
pub(crate) struct Streams {
    /// Receives that are posted.
    posted: Cell<u32>,
    /// Where the endpoints stand in the worker's list that UCP knows by these addresses. To be
    /// checked: they may be another's by now.
    places: RefCell<HashMap<usize, usize>>,
    /// The last that was looked up there: mostly the next one, too.
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
            let text =
                "memory_type: a stream is received into the host's memory alone; copy from there";
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

impl Endpoint {
    fn stream_recv_now(&self, queued: Queued, params: &OpParams, out: Out) -> Submitted {
        let slot = self.worker.take_slot();
        slot.begin(Kind::StreamRecv, params, 0, 0, out.is_wanted());
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

    /// A receive that has come through the ring.
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
            // It took what was left of a stream that has ended.
            return self.end_stream_recv(slot, self.status());
        }
        self.stream().receives.borrow_mut().push_back(slot);
        self.worker.streams().count(1);
        self.name_stream();
        self.worker.attend(PROTOCOL.bit());
        // It may wait for the peer's end: that is noticed once the two know each other.
        self.break_silence();
    }

    fn end_stream_recv(&self, slot: &Slot, status: Status) {
        slot.reason.set(status.0);
        self.worker.complete(slot, status);
    }
}

impl SharedEndpoint {
    /// What can be received from: open, or with something left that came before the peer's close.
    /// Who waits in the call does not see whether it is refused, or has met the end of the stream
    /// with something in hand: so it is told of nothing.
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

    /// Closed by the peer, and not all that came before has been received.
    pub(crate) fn has_stream_left(&self) -> bool {
        self.stream_leftover().load(Ordering::Acquire) && self.status() == Status::CONNECTION_RESET
    }
}

impl Endpoint {
    /// Has `Streams` find this endpoint by UCP's.
    pub(crate) fn name_stream(&self) {
        let address = self.ucp.get() as usize;
        if self.stream().known.get() != address && !self.stream().receives.borrow().is_empty() {
            self.stream().known.set(address);
            self.worker.streams().places.borrow_mut().insert(address, self.place());
            self.worker.streams().last.set((0, 0));
        }
    }

    /// Moves what has arrived into the receive. True if that is all it waits for.
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

    /// Moves what is held, or else UCP's next buffer, as far as there is room; 0 for nothing there.
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
                // SAFETY: UCP's buffer, held and of that length; it is nobody else's, so the two do
                // not overlap.
                unsafe { std::ptr::copy_nonoverlapping(data.add(*taken), to, moved) };
                *taken += moved;
                (moved, taken == length)
            }
            Held::Kept { bytes, taken } => {
                let moved = room.min(bytes.len() - *taken);
                // SAFETY: as above; the vector is ours.
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
                // SAFETY: the buffer that UCP has just handed out; a peer that is not one of ours
                // may send such.
                Posted::Pending => unsafe { sys::ucp_stream_data_release(ucp, data) },
                Posted::Done | Posted::Failed(_) => return Held::Nothing,
            }
        }
    }

    fn give_back(&self, held: &mut Held) {
        match std::mem::take(held) {
            // SAFETY: a buffer that UCP has handed out, given back once. Its endpoint is there:
            // what is held goes before that does.
            Held::OfUcp { data, .. } => unsafe {
                sys::ucp_stream_data_release(self.ucp.get(), data.cast_mut().cast());
            },
            Held::Kept { .. } => self.stream_leftover().store(false, Ordering::Release),
            Held::Nothing => {}
        }
    }

    /// Fills the receives that are posted, oldest first. How many of them have completed.
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

    /// Takes a receive off the list of those that are posted.
    pub(crate) fn forget_stream_recv(&self, slot: &Slot) {
        let mut receives = self.stream().receives.borrow_mut();
        let Some(place) = receives.iter().position(|known| std::ptr::eq(*known, slot)) else {
            return;
        };
        receives.remove(place);
        self.worker.streams().count(-1);
    }

    /// The endpoint ends: so do its receives, in their order, but for those that what has arrived
    /// is enough for.
    pub(crate) fn end_stream_recvs(&self, status: Status) {
        if self.stream().receives.borrow().is_empty() {
            return;
        }
        self.feed_stream();
        loop {
            let first = self.stream().receives.borrow().front().copied();
            // SAFETY: as in `feed_stream`.
            let Some(slot) = (unsafe { first.and_then(|slot| slot.as_ref()) }) else { return };
            self.forget_stream_recv(slot);
            self.end_stream_recv(slot, status);
        }
    }

    /// The peer has closed, and nothing more comes: keeps what has arrived, as UCP drops it with
    /// the endpoint. Also inside UCP's progress.
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

    /// UCP's endpoint is about to go: what has arrived fills the receives that are posted, and the
    /// rest is UCP's to drop.
    pub(crate) fn drain_stream(&self) {
        self.feed_stream();
        self.release_stream();
    }

    /// Gives UCP back what is held of its, before its endpoint goes.
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
    /// A receive that was complete inside its call.
    fn received_inline(&self, slot: &Slot) {
        slot.store_recv_info();
        self.count_inline(slot.kind.get(), slot.length.get(), None);
        slot.outcome.set(Status::OK);
        self.return_slot(slot);
    }

    /// Fills the receives of the endpoints that something has arrived for. After UCP's pass. How
    /// many of them have completed.
    pub(crate) fn read_streams(&self) -> u32 {
        let (streams, mut completed) = (self.streams(), 0);
        let mut polled = [const { MaybeUninit::<sys::ucp_stream_poll_ep_t>::uninit() }; POLLED];
        while streams.posted.get() > 0 {
            // SAFETY: a live worker inside its gate, and room for so many.
            let count = unsafe {
                sys::ucp_stream_worker_poll(self.ucp(), polled.as_mut_ptr().cast(), POLLED, 0)
            };
            let count = usize::try_from(count).unwrap_or(0);
            for ready in &polled[..count] {
                // Those without a receive are asked again when one is posted.
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
