//! The sending side of the channel: builds a message's header, and gives header and data to UCP or
//! shared memory. Runs inside the gate.

use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inline_buffer::{
    copy_inline, copy_short, put_header, put_pair, INLINE,
};
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::core::request::request::Slot;
use crate::engine::core::request::request_param::Param;
use crate::engine::core::trace;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::memory_type;
use crate::engine::wire::compact_header;
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, Header, Question, AM_ID, HEADER};
use crate::sys;
use std::ffi::c_void;

/// Longer data waits at the sender until the receiver pulls it, whatever UCX would choose. So
/// unexpected data is bounded, and long messages cost one credit.
pub(crate) const LONGEST_UNASKED: usize = 1 << 20;

/// Up to this length a reply over a network is sent together with its message, whatever UCX would
/// choose: its buffer is ready, and a round trip costs more than a copy. Measured over TCP, see
/// docs/performance.md.
const LONGEST_AT_ONCE: usize = 1 << 17;

/// A message to send, without its data and its header, which is in the slot.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) kind: header::Kind,
    pub(crate) id: u16,
    pub(crate) user_header: u16,
    /// For the library's header.
    pub(crate) flags: u16,
    /// Credits.
    pub(crate) charge: u16,
    /// UCP's flags.
    pub(crate) protocol: u32,
    /// For a reply: the number of its fetch, except the part in `id`, and its status. For a
    /// multi-buffer message: bytes of the table after the header.
    pub(crate) number: u32,
    pub(crate) status: i32,
}

impl Outgoing {
    pub(crate) const NOTHING: Outgoing = Outgoing {
        kind: header::Kind::Message,
        id: 0,
        user_header: 0,
        flags: 0,
        charge: 0,
        protocol: 0,
        number: 0,
        status: 0,
    };

    /// A message, request or reply with plain parameters.
    #[inline(always)]
    pub(crate) fn plain(
        kind: header::Kind,
        id: u16,
        user_header: usize,
        charge: u16,
        params: &OpParams,
    ) -> Self {
        let flags = told(params.memory_type);
        Outgoing { kind, id, user_header: user_header as u16, flags, charge, ..Self::NOTHING }
    }

    /// For a message whose whole header, with this length, is in its slot.
    pub(crate) fn with_header(length: u16) -> Self {
        Outgoing { user_header: length, ..Self::NOTHING }
    }

    /// For a fetch request that was sent already: what error messages need.
    #[inline(always)]
    pub(crate) fn with_id(id: u16) -> Self {
        Outgoing { id, ..Self::NOTHING }
    }

    #[inline(always)]
    pub(crate) fn message(id: u16, header: &[u8], length: usize, params: &OpParams) -> Self {
        let reply = if params.flags & flag::AM_REPLY != 0 { header::flag::REPLY } else { 0 };
        let hub = if params.flags & flag::HUB != 0 { header::flag::HUB } else { 0 };
        let flags = told(params.memory_type) | reply | hub;
        let protocol = protocol(length, params.flags);
        let charge =
            credit::charge(if protocol == sys::UCP_AM_SEND_FLAG_RNDV { 0 } else { length });
        Outgoing { id, user_header: header.len() as u16, flags, charge, protocol, ..Self::NOTHING }
    }

    pub(crate) fn question(id: u16, user_header: usize, flags: u16, length: usize) -> Self {
        let (kind, protocol) = (header::Kind::Ask, sys::UCP_AM_SEND_FLAG_EAGER);
        let charge = credit::charge(length);
        Outgoing {
            kind,
            id,
            user_header: user_header as u16,
            flags,
            charge,
            protocol,
            ..Self::NOTHING
        }
    }

    /// `waits`: the data must be pulled. `remote`: pulling takes two more trips over a network.
    pub(crate) fn answer(
        number: u64,
        status: i32,
        user_header: usize,
        length: usize,
        waits: bool,
        remote: bool,
        params: &OpParams,
    ) -> Self {
        let protocol = match protocol(length, params.flags) {
            _ if waits && length > 0 => sys::UCP_AM_SEND_FLAG_RNDV,
            0 if remote && length <= LONGEST_AT_ONCE => sys::UCP_AM_SEND_FLAG_EAGER,
            protocol => protocol,
        };
        let (kind, flags) = (header::Kind::Answer, told(params.memory_type));
        let (id, number) = header::split_number(number);
        Outgoing {
            kind,
            id,
            user_header: user_header as u16,
            flags,
            protocol,
            number,
            status,
            ..Self::NOTHING
        }
    }

    /// Makes the data wait at its sender.
    pub(crate) fn wait_for_receiver(&mut self) {
        self.protocol = sys::UCP_AM_SEND_FLAG_RNDV;
        self.charge = credit::charge(0);
    }

    /// The data of the reply to this fetch request must wait at its sender.
    pub(crate) fn wants_pull(&self) -> bool {
        self.flags & header::flag::WAITING != 0
    }

    /// The number of the fetch that it replies to.
    pub(crate) fn answers(&self) -> u64 {
        header::join_number(self.id, self.number)
    }
}

#[inline(always)]
fn told(memory_type: i32) -> u16 {
    (memory_type as u16) << header::flag::MEMORY
}

/// UCP's flags for a message of `length` bytes.
#[inline(always)]
fn protocol(length: usize, flags: u64) -> u32 {
    if flags & flag::RNDV != 0 || (length > LONGEST_UNASKED && flags & flag::EAGER == 0) {
        sys::UCP_AM_SEND_FLAG_RNDV
    } else if flags & flag::EAGER != 0 || length == 0 {
        // UCX 1.16 and later choose by the length of header and data together, and would not leave
        // the data at the sender.
        sys::UCP_AM_SEND_FLAG_EAGER
    } else {
        0
    }
}

impl Endpoint {
    /// Gives UCP a message that its slot describes, and whose credits are spent.
    #[inline(always)]
    pub(crate) fn post_message(&self, slot: &Slot, queued: &Queued) -> sys::ucs_status_ptr_t {
        let Outgoing { kind, user_header, protocol, number, .. } = queued.outgoing;
        let connection = self.peering.theirs.get();
        let header = self.header_of::<false>(&queued.outgoing, connection);
        trace::sends(self, &header);
        let ordered = kind != header::Kind::Answer;
        let length = HEADER + usize::from(user_header);
        // `describe` has put the user's header there.
        let room =
            slot.room(if kind == header::Kind::Multi { length + number as usize } else { length });
        let mut param = Param::new(slot);
        param.let_ucx_describe(slot);
        // Until the peer has sent its number for the connection, UCP must identify the sender.
        let flags = if connection == 0 { protocol | sys::UCP_AM_SEND_FLAG_REPLY } else { protocol };
        let goes_along = !queued.scattered
            && protocol != sys::UCP_AM_SEND_FLAG_RNDV
            && (queued.count == 0 || self.worker.context.is_in_reach(queued.memory_type));
        let posted = if goes_along && length + queued.count <= INLINE {
            // UCX takes much longer for a header beside the data. SAFETY: room for all of it, in a
            // slot that only this message uses; the caller's buffer is readable by the processor.
            let start = unsafe {
                if !std::ptr::eq(queued.buffer.cast(), room.add(length)) {
                    // Unless the data is there already.
                    copy_short(queued.buffer.cast(), room.add(length), queued.count);
                }
                put_in_front(room, &header)
            };
            // SAFETY: not beyond what was put there.
            let (piece, length) = (unsafe { room.add(start) }, length + queued.count - start);
            param.memory_type(Some(sys::UCS_MEMORY_TYPE_HOST));
            // Overrides UCX's settings for when to wait for the receiver.
            param.flags(flags | sys::UCP_AM_SEND_FLAG_EAGER);
            // SAFETY: a live endpoint inside its worker's gate; the worker keeps the slot, which
            // contains the whole piece.
            unsafe { self.send_piece(ordered, piece, length, || param.as_ptr()) }
        } else {
            let param = || {
                param.memory_type(queued.memory_type);
                param.scattered(queued.scattered);
                if flags != 0 {
                    param.flags(flags);
                }
                param.as_ptr()
            };
            let (front, data) =
                ((room.cast_const(), length), (queued.buffer.cast_const(), queued.count));
            let fits_box = goes_along && connection != 0;
            // SAFETY: room for the header, before the user's; a live endpoint inside its worker's
            // gate; the worker keeps the slot, and the caller keeps the buffers. Data that goes
            // along is in one piece, which the processor can read.
            unsafe {
                put_header(room, header.words());
                self.send_parts(ordered, fits_box, front, data, param)
            }
        };
        if ordered {
            self.sent_message(posted, queued.outgoing.charge);
        }
        posted
    }

    /// The library's header for the next message on this connection of the peer. `KNOWN`: the
    /// number is not 0, because the peer has sent it.
    #[inline(always)]
    fn header_of<const KNOWN: bool>(&self, outgoing: &Outgoing, connection: u32) -> Header {
        let Outgoing { kind, id, user_header, flags, charge, number, status, .. } = *outgoing;
        let ordered = kind != header::Kind::Answer;
        // A fetch request may use its short form, which has no credit report. A peer that cannot
        // know yet whose message it is ignores the report.
        let is_told = kind != header::Kind::Ask && (KNOWN || connection != 0);
        Header {
            kind,
            flags,
            id,
            user_header,
            connection,
            sequence: if ordered { self.credits.sequence.get() } else { status as u32 },
            taken: if is_told { self.credits.advertise() } else { self.credits.consumed() },
            sender: if ordered { charge.into() } else { number },
        }
    }

    /// Sends a short message, header and data in one piece, to a peer that has sent its number for
    /// the connection. `asked`: the contents of a fetch request. `number`: the fetch that a reply
    /// is for.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate. The user's header and data are readable, and
    /// together with the library's header not longer than `INLINE`.
    #[inline(always)]
    pub(crate) unsafe fn send_short(
        &self,
        slot: &Slot,
        outgoing: &Outgoing,
        asked: Option<Question>,
        (user_header, header_length): (*const c_void, usize),
        (data, data_length): (*const c_void, usize),
    ) -> sys::ucs_status_ptr_t {
        const { assert!(INLINE < credit::UNIT) };
        let header = self.header_of::<true>(outgoing, self.peering.fast_number.get());
        let ordered = header.kind != header::Kind::Answer;
        let room = slot.room(INLINE);
        // SAFETY: room for all of it, in a slot that only this message uses; the user's header and
        // data are readable.
        let length = unsafe {
            let front = match asked {
                Some(question) => {
                    let (words, last) = compact_header::question(&header, &question);
                    put_pair(room, words);
                    room.add(16).cast::<u32>().write(last.to_le());
                    compact_header::QUESTION
                }
                None if ordered => {
                    put_pair(room, compact_header::message(&header));
                    compact_header::MESSAGE
                }
                None => {
                    put_pair(room, compact_header::answer(&header));
                    compact_header::ANSWER
                }
            };
            copy_inline(user_header.cast(), room.add(front), header_length);
            copy_inline(data.cast(), room.add(front + header_length), data_length);
            front + header_length + data_length
        };
        let param = || self.worker.templates.message(slot);
        // SAFETY: an open endpoint inside its worker's gate; the worker keeps the slot, which
        // contains the whole piece.
        let posted = unsafe { self.send_piece(ordered, room, length, param) };
        // Work that can wait is done after the message was sent.
        if ordered {
            self.credits.spend(credit::LEAST);
            // The usual case, and the first one that the caller checks.
            if posted.is_null() {
                self.message_left();
            } else {
                self.sent_message(posted, credit::LEAST);
            }
        }
        posted
    }

    /// Sends a message or a reply with one buffer of data that is too long for `send_short`, to a
    /// peer that has sent its number for the connection. It goes into shared memory if possible,
    /// otherwise to UCP with the data beside the header. `index`: that of the memory type in
    /// `Templates`.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate. The user's header is readable, and fits into
    /// `INLINE` after the library's. The data is readable until the operation has completed.
    #[inline(always)]
    pub(crate) unsafe fn send_beside(
        &self,
        slot: &Slot,
        outgoing: &Outgoing,
        (user_header, header_length): (*const c_void, usize),
        data: (*const c_void, usize),
        index: usize,
    ) -> sys::ucs_status_ptr_t {
        let header = self.header_of::<true>(outgoing, self.peering.fast_number.get());
        let (room, length) = (slot.room(INLINE), HEADER + header_length);
        let ordered = header.kind != header::Kind::Answer;
        let param = || self.worker.templates.send(slot, index);
        // SAFETY: room for both, in a slot that only this message uses; the user's header is
        // readable. The worker keeps the slot, and the caller the data, which is readable.
        let posted = unsafe {
            put_header(room, header.words());
            copy_inline(user_header.cast(), room.add(HEADER), header_length);
            self.send_parts(ordered, true, (room, length), data, param)
        };
        if !ordered {
            return posted;
        }
        self.credits.spend(outgoing.charge);
        if posted.is_null() {
            self.message_left();
        } else {
            // SAFETY: nothing else uses the slot yet. A peer without a handler may refuse the
            // message; the error message then needs its id.
            unsafe { (*slot.queued.as_ptr()).outgoing = *outgoing };
            self.sent_message(posted, outgoing.charge);
        }
        posted
    }

    /// As `send_piece`, for a message with its header beside its data. `fits_box`: the header
    /// contains the connection, and the processor can read the data, which is in one piece.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate. Both parts are kept until the operation has
    /// completed.
    #[inline(always)]
    unsafe fn send_parts(
        &self,
        ordered: bool,
        fits_box: bool,
        front: (*const u8, usize),
        data: (*const c_void, usize),
        param: impl FnOnce() -> *const sys::ucp_request_param_t,
    ) -> sys::ucs_status_ptr_t {
        // SAFETY: inside the gate; the caller guarantees that both parts are readable.
        let is_in_box =
            || unsafe { self.put_beside_into_fast_box(ordered, front, (data.0.cast(), data.1)) };
        if fits_box && is_in_box() {
            return std::ptr::null_mut();
        }
        if ordered {
            self.passes_fast_box();
        }
        let front = (front.0.cast(), front.1);
        // SAFETY: the caller guarantees the endpoint and both parts.
        unsafe { send_by_ucp(self.ucp.get(), AM_ID, front, data, param()) }
    }

    /// Sends a message whose header and data are in one piece: into shared memory if possible,
    /// otherwise through UCP with these parameters. `ordered`: it has the next sequence number.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate. The slot keeps the piece until the operation has
    /// completed.
    #[inline(always)]
    unsafe fn send_piece(
        &self,
        ordered: bool,
        piece: *const u8,
        length: usize,
        param: impl FnOnce() -> *const sys::ucp_request_param_t,
    ) -> sys::ucs_status_ptr_t {
        // SAFETY: inside the gate; the caller guarantees that the piece is readable.
        if unsafe { self.put_into_fast_box(ordered, piece, length) } {
            return std::ptr::null_mut();
        }
        if ordered {
            self.passes_fast_box();
        }
        let (header, data) = ((std::ptr::null(), 0), (piece.cast(), length));
        // SAFETY: the caller guarantees the endpoint and the piece.
        unsafe { send_by_ucp(self.ucp.get(), AM_ID, header, data, param()) }
    }

    /// A message that UCP has accepted takes its sequence number. For a message that UCP has
    /// refused, the credit is returned.
    #[inline(always)]
    pub(crate) fn sent_message(&self, posted: sys::ucs_status_ptr_t, charge: u16) {
        if posted.is_null() || sys::is_pending(posted) {
            self.message_left();
        } else {
            self.credits.unspend(charge);
        }
    }

    /// Moves on to the next sequence number.
    #[inline(always)]
    pub(crate) fn message_left(&self) {
        self.credits.sequence.set(self.credits.sequence.get().wrapping_add(1));
    }
}

/// Gives UCP an active message.
///
/// # Safety
/// A live endpoint of a worker, inside its gate. Header and data are valid until the operation has
/// completed, and so is the slot in `param`.
#[inline(always)]
pub(crate) unsafe fn send_by_ucp(
    to: sys::ucp_ep_h,
    id: u32,
    (header, header_length): (*const c_void, usize),
    (data, count): (*const c_void, usize),
    param: *const sys::ucp_request_param_t,
) -> sys::ucs_status_ptr_t {
    // SAFETY: the caller guarantees it.
    unsafe { sys::ucp_am_send_nbx(to, id, header, header_length, data, count, param) }
}

/// Puts the header of a piece before the bytes that start 24 bytes after `room`. If there is a
/// short form, the piece starts later. Returns where it starts.
///
/// # Safety
/// The words of a fetch request are there, and nothing else uses the room.
#[inline(always)]
unsafe fn put_in_front(room: *mut u8, header: &Header) -> usize {
    const BEFORE: usize = HEADER - compact_header::MESSAGE;
    const BEFORE_QUESTION: usize = HEADER + Question::LENGTH - compact_header::QUESTION;
    const { assert!(compact_header::MESSAGE == compact_header::ANSWER) };
    // SAFETY: the caller guarantees the room.
    unsafe {
        if let Some(words) = compact_header::of(header) {
            room.add(BEFORE).cast::<[u64; 2]>().write_unaligned(words.map(u64::to_le));
            return BEFORE;
        }
        if header.kind == header::Kind::Ask {
            let place = room.add(HEADER).cast::<[u8; Question::LENGTH]>();
            if let Some((words, last)) = compact_header::of_question(header, &place.read()) {
                let start = room.add(BEFORE_QUESTION);
                start.cast::<[u64; 2]>().write_unaligned(words.map(u64::to_le));
                start.add(16).cast::<u32>().write_unaligned(last.to_le());
                return BEFORE_QUESTION;
            }
        }
        put_header(room, header.words());
        0
    }
}

impl SharedWorker {
    /// The value of `max_am_header`, which was read when the worker was made.
    #[inline(always)]
    pub(crate) fn longest_am_header(&self) -> usize {
        self.max_am_header.get().copied().unwrap_or(0)
    }
}

/// Memory types are smaller than the bits that a header has for them.
const _: () = assert!(
    memory_type::DUMMY < 0x80
        && (memory_type::DUMMY as u16) << header::flag::MEMORY >> header::flag::MEMORY
            == memory_type::DUMMY as u16
);

/// `Operation::post` of operations that are messages of the channel.
#[inline(always)]
pub(crate) fn post_message(
    _: &Worker,
    slot: &Slot,
    queued: &Queued,
    endpoint: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    endpoint.map_or(std::ptr::null_mut(), |endpoint| endpoint.post_message(slot, queued))
}
