//! Multi-buffer receive in its tag form: receives a header, makes buffers for the frames that it
//! announces, and receives the frames into them.
//!
//! # Matching
//!
//! Nothing on the wire tells which frame belongs to which header. UCP's order does: receives match
//! messages in order. So if two receives could match the same messages, the later one posts its
//! header only when the earlier one has posted all its frames. From its first header on a receive
//! accepts only messages with exactly that header's tag. Two senders that use one tag at the same
//! time cannot be distinguished: frames of the wrong length show it, and fail the receive.
//!
//! # Buffers
//!
//! A header is handled after UCP's pass, because user code makes the buffers. Frames that cannot be
//! received (too many bytes, no memory) are received and dropped, so that their sender continues
//! and the tag stays usable.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::receive_buffers::Allocator;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part as Of, Slot, Ticket};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::deferred::{Payload, Work};
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::messaging::tag::multi_common::{Incoming, Stage};
use crate::engine::messaging::tag::tag;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::ucxx_multi::{Announced, Announcement, FRAMES, HEADER};
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::Ordering;

/// Dropped messages are received this many at a time.
const DROPS: u64 = 64;
/// A sender that announces this many headers more than allowed will probably never stop: what else
/// it sends is not received.
const MOST_HEADERS_DROPPED: usize = 1024;

/// The result of a message that had already arrived.
type Came = (Status, u64, u64);

/// Which messages a receive matches.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pattern {
    tag: u64,
    tag_mask: u64,
}

impl Pattern {
    fn of(slot: &Slot) -> Self {
        // SAFETY: the cell belongs to the thread inside the gate, and does not change here.
        let queued = unsafe { &*slot.queued.as_ptr() };
        Pattern { tag: queued.tag, tag_mask: queued.tag_mask }
    }

    /// There are messages that both match.
    fn meets(&self, other: &Pattern) -> bool {
        (self.tag ^ other.tag) & self.tag_mask & other.tag_mask == 0
    }
}

fn waits(slot: &Slot) -> bool {
    slot.with_multi(|multi| multi.incoming.stage == Stage::Waiting).unwrap_or(false)
}

/// The header of a multi-buffer receive has arrived.
static ANNOUNCED: Work = Work {
    run: |worker, payload| {
        if let Payload::Request(ticket) = payload {
            worker.announced(ticket);
        }
    },
    too_late: |_, _| {},
    comes_before_bye: true,
};

/// Receives that waited for others may continue.
static NEXT_HEADERS: Work =
    Work { run: |worker, _| worker.post_headers(), too_late: |_, _| {}, comes_before_bye: true };

impl SharedWorker {
    /// Receives the parts that `tag_send_multi`, or UCXX, sends in one call.
    ///
    /// # Safety
    /// `params.recv_info` is valid until the operation has completed; `out` is valid.
    pub unsafe fn tag_recv_multi(
        &self,
        (tag, tag_mask): (u64, u64),
        allocator: Allocator,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.context, "multi-buffer receive", 0)?;
        let describe = |slot: &Slot| {
            slot.making.set(Some(Making::by(allocator)));
            slot.state.set(Some(self.multis().take()));
            Queued { tag, tag_mask, endpoint: params.source, ..Queued::NOTHING }
        };
        if self.must_submit_remotely(params) {
            self.need(feature::TAG)?;
            self.check_from(params)?;
            return self.delay(Kind::TagRecvMulti, 0, params, out, describe);
        }
        let inside = self.enter()?;
        inside.need(feature::TAG)?;
        self.check_from(params)?;
        let slot = inside.take_slot();
        slot.begin(Kind::TagRecvMulti, params, 0, 0, out.is_wanted());
        trace::submitted(slot, None);
        let queued = describe(slot);
        slot.queued.set(queued);
        inside.start(slot, params.source().map(|from| from.of(&inside)), params, out);
        inside.receive_posted(slot);
        Ok(Submitted::Pending)
    }
}

impl Worker {
    /// A started receive that came through the ring.
    pub(crate) fn recv_multi_from_ring(&self, slot: &Slot) {
        self.receive_posted(slot);
    }

    /// It comes last: it starts if it meets none of the others.
    fn receive_posted(&self, slot: &Slot) {
        let mut receives = self.multis().receives.get(self).borrow_mut();
        let pattern = Pattern::of(slot);
        // SAFETY: slots live as long as their worker.
        let free =
            !receives.iter().any(|before| Pattern::of(unsafe { &*before.slot }).meets(&pattern));
        receives.push(slot.ticket());
        drop(receives);
        if free && waits(slot) && !self.closed.load(Ordering::Relaxed) {
            self.begin_receive(slot);
        }
    }

    /// It has posted all its frames, or has completed: others may follow.
    pub(crate) fn forget_receive(&self, slot: &Slot) {
        let mut receives = self.multis().receives.get(self).borrow_mut();
        let before = receives.len();
        receives.retain(|known| !std::ptr::eq(known.slot, slot));
        if receives.len() < before && !receives.is_empty() {
            // Possibly inside UCP's progress, or at its end.
            self.push_event(Event::Work(&NEXT_HEADERS, Payload::Nothing));
        }
    }

    /// Posts the headers of the receives that wait for no other one.
    pub(crate) fn post_headers(&self) {
        while let Some(slot) = self.next_receive().filter(|_| !self.closed.load(Ordering::Relaxed))
        {
            self.begin_receive(slot);
        }
    }

    fn begin_receive(&self, slot: &Slot) {
        let Pattern { tag, tag_mask } = Pattern::of(slot);
        slot.with_multi(|multi| multi.incoming.stage = Stage::Heading);
        if let Some((status, length, tag)) = self.post_header(slot, tag, tag_mask) {
            self.header_came(slot, status, length, tag);
        }
    }

    /// The first one that waits and may start. Of those that wait for the same tag only the first
    /// is checked: the others come after it.
    fn next_receive(&self) -> Option<&Slot> {
        let receives = self.multis().receives.get(self).borrow();
        let mut before = HashSet::new();
        let mut masked = Vec::new();
        for ticket in receives.iter() {
            // SAFETY: slots live as long as their worker.
            let slot = unsafe { &*ticket.slot };
            let pattern = Pattern::of(slot);
            if before.contains(&pattern) {
                continue;
            }
            if waits(slot) {
                // Without a mask it meets only receives of the same tag, and those with a mask.
                let meets = |other: &Pattern| other.meets(&pattern);
                let waits_on = if pattern.tag_mask == u64::MAX {
                    masked.iter().any(meets)
                } else {
                    before.iter().any(meets)
                };
                if !waits_on {
                    return Some(slot);
                }
            }
            if pattern.tag_mask != u64::MAX {
                masked.push(pattern);
            }
            before.insert(pattern);
        }
        None
    }

    /// Posts the receive of a header. Returns its result if it completed at once.
    fn post_header(&self, slot: &Slot, tag: u64, tag_mask: u64) -> Option<Came> {
        let room = slot.with_multi(|multi| {
            multi.headers.resize(HEADER, 0);
            multi.headers.as_mut_ptr()
        })?;
        slot.remaining.set(1);
        self.post_part(
            slot,
            Of::Heading(slot.ticket()),
            (room.cast(), HEADER),
            (tag, tag_mask),
            memory_type::HOST,
        )
    }

    fn post_part(
        &self,
        operation: &Slot,
        what: Of,
        (buffer, length): (*mut c_void, usize),
        (tag, tag_mask): (u64, u64),
        memory_type: i32,
    ) -> Option<Came> {
        let memory_type = match memory_type::to_ucx(&self.context, memory_type) {
            Ok(memory_type) => memory_type,
            Err(error) => return Some((error.status(), 0, 0)),
        };
        let slot = self.take_slot();
        slot.prepare(Kind::TagRecvPart);
        // The operation keeps the memory of header and buffers.
        let queued =
            Queued { buffer, count: length, tag, tag_mask, memory_type, ..Queued::NOTHING };
        let posted = tag::post_receive(self, slot, &queued, None);
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let from = unsafe { operation.endpoint.get().as_ref() };
        let Some(status) = self.part_posted(slot, posted) else {
            self.start_as_part(slot, from, what, 0, 0);
            return None;
        };
        Some((self.status_from_ucx(status, from), slot.length.get(), slot.tag.get()))
    }

    /// A header has arrived, or will not.
    pub(crate) fn header_came(&self, slot: &Slot, status: Status, length: u64, tag: u64) {
        slot.remaining.set(0);
        if status.is_error() && status != Status::MESSAGE_TRUNCATED {
            return self.complete(slot, status);
        }
        if slot.reason.get() != 0 {
            // Cancelled when the header was already arriving. Nothing is posted for it.
            return self.complete(slot, Status(slot.reason.get()));
        }
        let whole = status == Status::OK;
        slot.with_multi(|multi| {
            multi.incoming.stage = Stage::Announced;
            multi.incoming.header_length = if whole { length as usize } else { HEADER + 1 };
        });
        slot.tag.set(tag);
        self.push_event(Event::Work(&ANNOUNCED, Payload::Request(slot.ticket())));
    }

    /// Handles a header. After UCP's pass.
    pub(crate) fn announced(&self, ticket: Ticket) {
        let Some(slot) = ticket.current().filter(|_| !self.closed.load(Ordering::Relaxed)) else {
            return;
        };
        let limits = match slot.making.take() {
            Some(making) => {
                let limits = making.allocator;
                slot.making.set(Some(making));
                limits
            }
            None => return,
        };
        let read = slot.with_multi(|multi| {
            if multi.incoming.stage == Stage::Framing {
                return Ok(false);
            }
            // A message that is too long is not there, and refused like one that is too short.
            let message = multi.headers.get(..multi.incoming.header_length).unwrap_or_default();
            let header = Announcement::decode(message)?;
            multi.incoming.take_header(&header, &limits, &mut multi.announced);
            if header.has_next() {
                let most = limits.max_frames / FRAMES + MOST_HEADERS_DROPPED;
                if multi.incoming.headers > most {
                    return Err("many more headers than max_frames permits");
                }
                return Ok(true);
            }
            multi.incoming.stage = Stage::Framing;
            multi.incoming.to_drop = multi.incoming.refusal.map_or(0, |_| multi.incoming.frames);
            Ok(false)
        });
        match read {
            Some(Ok(true)) => {
                if let Some((status, length, tag)) =
                    self.post_header(slot, slot.tag.get(), u64::MAX)
                {
                    self.header_came(slot, status, length, tag);
                }
            }
            Some(Ok(false)) => self.receive_frames(ticket, limits),
            Some(Err(why)) => {
                slot.with_multi(|multi| multi.trouble = Some(why.to_owned()));
                slot.reason.set(Status::IO_ERROR.0);
                self.complete(slot, Status::IO_ERROR);
            }
            None => {}
        }
    }

    fn receive_frames(&self, ticket: Ticket, allocator: Allocator) {
        let Some(slot) = ticket.current() else { return };
        let Some(frames) = slot.with_multi(|multi| match multi.incoming.refusal {
            Some(_) => Vec::new(),
            None => std::mem::take(&mut multi.announced),
        }) else {
            return;
        };
        if slot.with_multi(|multi| multi.incoming.refusal.is_none()) == Some(true) {
            let wanted =
                |frame: &Announced| (frame.length as usize, memory_type::of_frame(frame.device));
            let made = self.make_buffers(allocator, frames.iter().map(wanted));
            let Some(slot) = ticket.current() else {
                // It has completed while the gate was open.
                return self.outside(|| drop(made));
            };
            slot.with_multi(|multi| multi.announced = frames);
            match made {
                Ok(buffers) => {
                    if let Some(mut making) = slot.making.take() {
                        making.buffers = Some(buffers);
                        slot.making.set(Some(making));
                    }
                }
                Err(error) => {
                    self.refuse_frames(slot, error.status(), Some(error.message().to_owned()))
                }
            }
        }
        let Some(slot) = ticket.current() else { return };
        match slot.with_multi(|multi| multi.incoming) {
            Some(Incoming { refusal: None, .. }) => self.post_frames(slot),
            Some(_) => self.drop_frames(slot),
            None => {}
        }
    }

    /// The frames cannot be received: they are dropped when they arrive.
    fn refuse_frames(&self, slot: &Slot, status: Status, trouble: Option<String>) {
        slot.with_multi(|multi| {
            multi.incoming.refusal = Some(status);
            multi.incoming.to_drop = multi.incoming.frames;
            multi.trouble = trouble;
        });
    }

    fn post_frames(&self, slot: &Slot) {
        let (count, tag) =
            (slot.with_multi(|multi| multi.announced.len()).unwrap_or(0), slot.tag.get());
        slot.length.set(slot.with_multi(|multi| multi.incoming.bytes).unwrap_or(0));
        // A part that completes in this loop does not complete the operation.
        slot.remaining.set(1);
        for index in 0..count {
            let Some(frame) = slot.made_frame(index) else { break };
            // UCX must detect where the allocator has put data that was on a device.
            let kind = if memory_type::is_cuda(frame.memory_type) {
                memory_type::AUTO
            } else {
                frame.memory_type
            };
            slot.remaining.set(slot.remaining.get() + 1);
            let what = Of::Frame(slot.ticket(), index as u32);
            let came =
                self.post_part(slot, what, (frame.data, frame.length), (tag, u64::MAX), kind);
            if let Some((status, length, _)) = came {
                self.frame_came(slot, index as u32, status, length);
            }
        }
        self.forget_receive(slot);
        self.post_headers();
        self.frame_less(slot);
    }

    fn drop_frames(&self, slot: &Slot) {
        slot.remaining.set(1);
        loop {
            let drops = |incoming: &mut Incoming, room: bool| {
                let drops = incoming.to_drop > 0 && room;
                incoming.to_drop -= u64::from(drops);
                drops
            };
            let room = u64::from(slot.remaining.get()) <= DROPS;
            if slot.with_multi(|multi| drops(&mut multi.incoming, room)) != Some(true) {
                break;
            }
            slot.remaining.set(slot.remaining.get() + 1);
            let (what, nowhere) = (Of::Frame(slot.ticket(), u32::MAX), (std::ptr::null_mut(), 0));
            let came =
                self.post_part(slot, what, nowhere, (slot.tag.get(), u64::MAX), memory_type::HOST);
            if let Some((status, length, _)) = came {
                self.frame_came(slot, u32::MAX, status, length);
            }
        }
        if slot.with_multi(|multi| multi.incoming.to_drop) == Some(0) {
            self.forget_receive(slot);
        }
        self.frame_less(slot);
    }

    /// A frame has arrived, or will not.
    pub(crate) fn frame_came(&self, slot: &Slot, index: u32, status: Status, length: u64) {
        let (mut status, mut dropped) = (status, false);
        slot.with_multi(|multi| {
            dropped = multi.incoming.refusal.is_some();
            if dropped {
                return;
            }
            let announced = multi.announced.get(index as usize).map_or(0, |frame| frame.length);
            if status == Status::MESSAGE_TRUNCATED || (status == Status::OK && length != announced)
            {
                status = Status::IO_ERROR;
                multi.trouble.get_or_insert_with(|| {
                    format!(
                        "frame {index} was announced with {announced} bytes and has {length}: \
                        another sender uses the tag"
                    )
                });
            }
        });
        if dropped && status.is_error() && status != Status::MESSAGE_TRUNCATED {
            // Cancelled, or its peer has failed: nothing more will arrive.
            slot.with_multi(|multi| multi.incoming.to_drop = 0);
        } else if !dropped && status.is_error() {
            slot.note_reason(status);
        }
        self.frame_less(slot);
    }

    fn frame_less(&self, slot: &Slot) {
        slot.remaining.set(slot.remaining.get() - 1);
        if slot.remaining.get() > 0 {
            return;
        }
        let Some(incoming) = slot.with_multi(|multi| multi.incoming) else { return };
        if incoming.to_drop > 0 {
            return self.push_event(Event::Work(&ANNOUNCED, Payload::Request(slot.ticket())));
        }
        if let (Some(refusal), 0) = (incoming.refusal, slot.reason.get()) {
            slot.reason.set(refusal.0);
        }
        if slot.reason.get() != 0 {
            slot.length.set(0);
        }
        self.complete(slot, Status(slot.reason.get()));
    }
}

impl Incoming {
    /// Records what the header announces, unless it is too much.
    fn take_header(
        &mut self,
        header: &Announcement<'_>,
        limits: &Allocator,
        announced: &mut Vec<Announced>,
    ) {
        self.headers += 1;
        self.frames += header.count() as u64;
        let bytes = header
            .total()
            .and_then(|total| self.bytes.checked_add(total))
            .filter(|total| *total >> 47 == 0);
        self.bytes = bytes.unwrap_or(u64::MAX);
        if self.frames > limits.max_frames as u64 || self.bytes > limits.max_total_bytes as u64 {
            self.refusal = Some(Status::EXCEEDS_LIMIT);
            announced.clear();
        }
        if self.refusal.is_none() {
            announced.extend(header.frames());
        }
    }
}

impl Slot {
    fn made_frame(
        &self,
        index: usize,
    ) -> Option<crate::engine::core::channel::receive_buffers::Frame> {
        let making = self.making.take()?;
        let frame = making.buffers.as_ref().and_then(|buffers| buffers.get(index).ok());
        self.making.set(Some(making));
        frame
    }
}
