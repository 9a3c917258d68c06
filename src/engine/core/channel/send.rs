//! The sending side of the channel: a message with its header, and where its data lies, on its way
//! to UCP or into shared memory.

use crate::engine::core::channel::shm_ring::MOST;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inline_buffer::{
    copy_inline, copy_short, put_header, put_pair, INLINE,
};
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::core::request::request::Slot;
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::memory_type;
use crate::engine::wire::compact_header;
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, Header, Question, AM_ID, HEADER};
use crate::sys;
use std::ffi::c_void;

/// Longer than this the data waits at the sender until the receiver pulls it, whatever UCX would
/// choose: so that what may come in unasked has a bound, and long messages cost one credit.
pub(crate) const LONGEST_UNASKED: usize = 1 << 20;

/// Up to here an answer that goes over a network comes along with its message, whatever UCX would
/// choose: its buffer waits, and a round trip costs more than a copy. Measured over TCP, see
/// docs/performance.md.
const LONGEST_AT_ONCE: usize = 1 << 17;

/// A message on its way out, beside its data and its header, which lies in the slot.
#[derive(Clone, Copy)]
pub(crate) struct Outgoing {
    pub(crate) kind: header::Kind,
    pub(crate) id: u16,
    pub(crate) user_header: u16,
    /// Of the library's header.
    pub(crate) flags: u16,
    /// Credits.
    pub(crate) charge: u16,
    /// For UCP.
    pub(crate) protocol: u32,
    /// Of an answer: whose, but for what stands in `id`, and what it says. Of a multi-buffer
    /// message: bytes of a table behind the header.
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

    /// Of a short one with plain parameters.
    #[inline(always)]
    pub(crate) fn short(
        kind: header::Kind,
        id: u16,
        user_header: usize,
        params: &OpParams,
    ) -> Self {
        let (flags, charge) = (told(params.memory_type), credit::LEAST);
        Outgoing { kind, id, user_header: user_header as u16, flags, charge, ..Self::NOTHING }
    }

    /// Of a longer one.
    #[inline(always)]
    pub(crate) fn plain(id: u16, user_header: usize, length: usize, params: &OpParams) -> Self {
        let (flags, charge) = (told(params.memory_type), credit::charge(length));
        Outgoing { id, user_header: user_header as u16, flags, charge, ..Self::NOTHING }
    }

    /// Of a message that has its whole header, of so many bytes, in its slot.
    pub(crate) fn with_header(length: u16) -> Self {
        Outgoing { user_header: length, ..Self::NOTHING }
    }

    /// Of a question that has gone out already: what is left to tell of it.
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

    /// `waits`: the data is to be pulled. `remote`: it costs two more journeys over a network to do
    /// so.
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

    /// The data is to wait at its sender.
    pub(crate) fn wait_for_receiver(&mut self) {
        self.protocol = sys::UCP_AM_SEND_FLAG_RNDV;
        self.charge = credit::charge(0);
    }

    /// The data of the answer to this question is to wait at its sender.
    pub(crate) fn wants_pull(&self) -> bool {
        self.flags & header::flag::WAITING != 0
    }

    /// The number of the question that it answers.
    pub(crate) fn answers(&self) -> u64 {
        header::join_number(self.id, self.number)
    }
}

#[inline(always)]
fn told(memory_type: i32) -> u16 {
    (memory_type as u16) << header::flag::MEMORY
}

/// What UCP is told of a message of so many bytes.
#[inline(always)]
fn protocol(length: usize, flags: u64) -> u32 {
    if flags & flag::RNDV != 0 || (length > LONGEST_UNASKED && flags & flag::EAGER == 0) {
        sys::UCP_AM_SEND_FLAG_RNDV
    } else if flags & flag::EAGER != 0 || length == 0 {
        // UCX 1.16 and later choose by the length of header and data together, and would leave
        // nothing at the sender.
        sys::UCP_AM_SEND_FLAG_EAGER
    } else {
        0
    }
}

impl Endpoint {
    /// Gives UCP a message that its slot describes, whose credits are spent.
    #[inline(always)]
    pub(crate) fn post_message(&self, slot: &Slot, queued: &Queued) -> sys::ucs_status_ptr_t {
        let Outgoing { kind, user_header, protocol, number, .. } = queued.outgoing;
        let connection = self.peering.theirs.get();
        let header = self.header_of::<false>(&queued.outgoing, connection);
        let ordered = kind != header::Kind::Answer;
        let length = HEADER + usize::from(user_header);
        // `describe` has put the user's header there.
        let room =
            slot.room(if kind == header::Kind::Multi { length + number as usize } else { length });
        let mut param = Param::new(slot);
        // Until the peer has told its number for the connection it has to know it by UCP's.
        let flags = if connection == 0 { protocol | sys::UCP_AM_SEND_FLAG_REPLY } else { protocol };
        let packs = !queued.scattered
            && length + queued.count <= INLINE
            && protocol != sys::UCP_AM_SEND_FLAG_RNDV
            && (queued.count == 0 || self.worker.context.is_in_reach(queued.memory_type));
        let posted = if packs {
            // UCX takes much longer for a header beside the data. SAFETY: room for all of it, which
            // is nobody's but ours; the caller's buffer is readable and in the processor's reach.
            let start = unsafe {
                if !std::ptr::eq(queued.buffer.cast(), room.add(length)) {
                    // Not where it belongs already.
                    copy_short(queued.buffer.cast(), room.add(length), queued.count);
                }
                put_in_front(room, &header)
            };
            // SAFETY: not beyond what was put there.
            let (piece, length) = (unsafe { room.add(start) }, length + queued.count - start);
            param.memory_type(Some(sys::UCS_MEMORY_TYPE_HOST));
            // Whatever the environment says about when UCX is to wait for the receiver.
            param.flags(flags | sys::UCP_AM_SEND_FLAG_EAGER);
            // SAFETY: a live endpoint inside its worker's gate; the worker keeps the slot, which
            // has all of it.
            unsafe { self.send_piece(ordered, piece, length, || param.as_ptr()) }
        } else {
            if ordered {
                self.passes_fast_box();
            }
            // SAFETY: room for the header, in front of the user's.
            unsafe { put_header(room, header.words()) };
            param.memory_type(queued.memory_type);
            param.scattered(queued.scattered);
            if flags != 0 {
                param.flags(flags);
            }
            let header = (room.cast_const().cast(), length);
            let data = (queued.buffer.cast_const(), queued.count);
            // SAFETY: as above, and the caller keeps the buffers.
            unsafe { send_by_ucp(self.ucp.get(), AM_ID, header, data, param.as_ptr()) }
        };
        if ordered {
            self.sent_message(posted, queued.outgoing.charge);
        }
        posted
    }

    /// The library's header of a message that is about to go out on this connection of the peer's.
    /// `KNOWN`: it is not 0, that is the peer has told it.
    #[inline(always)]
    fn header_of<const KNOWN: bool>(&self, outgoing: &Outgoing, connection: u32) -> Header {
        let Outgoing { kind, id, user_header, flags, charge, number, status, .. } = *outgoing;
        let ordered = kind != header::Kind::Answer;
        // A question may go out in its short form, which does not say it; and a peer that cannot
        // know yet whose it is looks at no credit.
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

    /// Sends a short message, header and data in one piece, to a peer that has told its number for
    /// the connection. A question says what it asks; an answer, whose `number` it is to.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate; user's header and data are readable, and short
    /// enough for INLINE with the library's header.
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
        // SAFETY: room for all of it, which is nobody's but ours; the user's are readable.
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
        // SAFETY: as for this function; the worker keeps the slot, which has all of it.
        let posted = unsafe { self.send_piece(ordered, room, length, param) };
        // What can wait until the message is on its way comes after it.
        if ordered {
            self.credits.spend(credit::LEAST);
            // As nearly always, and as the caller asks next.
            if posted.is_null() {
                self.message_left();
            } else {
                self.sent_message(posted, credit::LEAST);
            }
        }
        posted
    }

    /// Sends a message with one buffer of data that is too long for `send_short`, to a peer that
    /// has told its number for the connection. It goes into shared memory if it may go there, else
    /// to UCP with the data beside the header. `index` is that of the memory type among
    /// `Templates`.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate; the user's header is readable, and fits into
    /// INLINE behind the library's; the data is readable until the operation has completed.
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
        let room = slot.room(INLINE);
        if self.has_clear_fast_box(compact_header::MESSAGE + header_length + data.1) {
            let front = compact_header::MESSAGE + header_length;
            let begun = MOST - front;
            // SAFETY: room for as much, which is nobody's but ours; with the header there are more
            // than MOST bytes of them, and the caller's are readable.
            let put = unsafe {
                put_pair(room, compact_header::message(&header));
                copy_inline(user_header.cast(), room.add(compact_header::MESSAGE), header_length);
                copy_inline(data.0.cast(), room.add(front), begun);
                self.put_long_into_fast_box(room, data.0.cast::<u8>().add(begun), data.1 - begun)
            };
            if put {
                self.credits.spend(outgoing.charge);
                self.message_left();
                return std::ptr::null_mut();
            }
        }
        self.passes_fast_box();
        // SAFETY: room for both, which is nobody's but ours; the worker keeps the slot, and the
        // caller the data.
        let posted = unsafe {
            put_header(room, header.words());
            copy_inline(user_header.cast(), room.add(HEADER), header_length);
            let all = (room.cast_const().cast(), HEADER + header_length);
            let param = self.worker.templates.send(slot, index);
            send_by_ucp(self.ucp.get(), AM_ID, all, data, param)
        };
        self.credits.spend(outgoing.charge);
        if posted.is_null() {
            self.message_left();
        } else {
            // SAFETY: nobody else has the slot yet. A peer without a handler may refuse the
            // message: then its id is told.
            unsafe { (*slot.queued.as_ptr()).outgoing = *outgoing };
            self.sent_message(posted, outgoing.charge);
        }
        posted
    }

    /// Sends a message whose header and data are in one piece, into shared memory if it may go
    /// there, else by UCP with these parameters. `ordered`: it has the next place in the order.
    ///
    /// # Safety
    /// An open endpoint inside its worker's gate; the slot keeps the piece until the operation has
    /// completed.
    #[inline(always)]
    unsafe fn send_piece(
        &self,
        ordered: bool,
        piece: *const u8,
        length: usize,
        param: impl FnOnce() -> *const sys::ucp_request_param_t,
    ) -> sys::ucs_status_ptr_t {
        // SAFETY: as for this function.
        if unsafe { self.put_into_fast_box(ordered, piece, length) } {
            return std::ptr::null_mut();
        }
        if ordered {
            self.passes_fast_box();
        }
        let (header, data) = ((std::ptr::null(), 0), (piece.cast(), length));
        // SAFETY: as for this function.
        unsafe { send_by_ucp(self.ucp.get(), AM_ID, header, data, param()) }
    }

    /// A message that UCP has taken has its place in the order; of one that it has not the credit
    /// comes back.
    #[inline(always)]
    pub(crate) fn sent_message(&self, posted: sys::ucs_status_ptr_t, charge: u16) {
        if posted.is_null() || sys::is_pending(posted) {
            self.message_left();
        } else {
            self.credits.unspend(charge);
        }
    }

    /// The next message has the next place.
    #[inline(always)]
    pub(crate) fn message_left(&self) {
        self.credits.sequence.set(self.credits.sequence.get().wrapping_add(1));
    }
}

/// Gives UCP an active message.
///
/// # Safety
/// A live endpoint of a worker, inside its gate; header and data stay until the operation has
/// completed, and so does the slot that `param` names.
#[inline(always)]
pub(crate) unsafe fn send_by_ucp(
    to: sys::ucp_ep_h,
    id: u32,
    (header, header_length): (*const c_void, usize),
    (data, count): (*const c_void, usize),
    param: *const sys::ucp_request_param_t,
) -> sys::ucs_status_ptr_t {
    // SAFETY: as for this function.
    unsafe { sys::ucp_am_send_nbx(to, id, header, header_length, data, count, param) }
}

/// Puts the header of a piece in front of what is there, which begins 24 bytes from `room`: in its
/// short form where there is one, which then begins later. Where it begins.
///
/// # Safety
/// A question has its words there; and nobody else has the room.
#[inline(always)]
unsafe fn put_in_front(room: *mut u8, header: &Header) -> usize {
    const BEFORE: usize = HEADER - compact_header::MESSAGE;
    const BEFORE_QUESTION: usize = HEADER + Question::LENGTH - compact_header::QUESTION;
    const { assert!(compact_header::MESSAGE == compact_header::ANSWER) };
    // SAFETY: as for this function.
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
    /// What `max_am_header` says, which was asked for when the worker was made.
    #[inline(always)]
    pub(crate) fn longest_am_header(&self) -> usize {
        self.max_am_header.get().copied().unwrap_or(0)
    }
}

/// Memory types are numbers below the bits that a header has for them.
const _: () = assert!(
    memory_type::DUMMY < 0x80
        && (memory_type::DUMMY as u16) << header::flag::MEMORY >> header::flag::MEMORY
            == memory_type::DUMMY as u16
);

/// `Operation::post` of what goes as a message of the channel's.
#[inline(always)]
pub(crate) fn post_message(
    _: &Worker,
    slot: &Slot,
    queued: &Queued,
    endpoint: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    endpoint.map_or(std::ptr::null_mut(), |endpoint| endpoint.post_message(slot, queued))
}
