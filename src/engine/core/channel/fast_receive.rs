//! The fast path of received messages and fetch requests: see `core::request::fast_path`. It runs
//! inside UCP's handler.
//!
//! It makes no call on its way, so that no register must be saved across one, which would take
//! about as long as the rest. Work that needs a call is done before, in a second attempt, or at the
//! very end. It writes into the slot that it is about to take while it still checks the message:
//! the contents of a free slot do not matter.

use crate::engine::core::channel::message::{Form, Inbound, Sort};
use crate::engine::core::channel::receive::{behind_data, Arrived};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inline_buffer::{copy_inline, INLINE};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::compact_header::{self, Short, MARK_OF_MESSAGE};
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, flag, Amount, Header, Question, HEADER};
use crate::sys;

impl Worker {
    /// As `receive_arrived`, for a short message in the usual case: known connection, in order, and
    /// within its credit. Returns false if nothing has happened: use the next slower path.
    #[inline(always)]
    pub(crate) fn receive_message_fast(&self, short: Short<'_>) -> bool {
        short.flags() & !flag::USER == 0 && self.receive_short_fast(short, None)
    }

    /// The same for a fetch request.
    #[inline(always)]
    pub(crate) fn receive_question_fast(&self, short: Short<'_>) -> bool {
        short
            .asked()
            .is_some_and(|(question, short)| self.receive_short_fast(short, Some(question)))
    }

    #[inline(always)]
    fn receive_short_fast(&self, short: Short<'_>, question: Option<Question>) -> bool {
        const { assert!(INLINE < credit::UNIT) };
        let (all, header_length) = (short.rest(), usize::from(short.second_byte()));
        let number = short.connection();
        let Some(endpoint) = self.named_last(number) else { return false };
        let Some(slot) = self.slab.first() else { return false };
        let Some((user_header, data)) = short.parts() else { return false };
        slot.length.set(data.len() as u64);
        // SAFETY: a free slot, which nothing else uses.
        let inbound = unsafe { &mut *slot.inbound.as_ptr() };
        inbound.connection = number;
        inbound.user_header = header_length as u16;
        inbound.id = short.id();
        let simple = endpoint.takes_messages()
            && endpoint.order.is_next(short.sequence())
            && all.len() <= INLINE - 16;
        if !simple || !endpoint.credits.receive_fast(credit::LEAST) {
            return false;
        }
        endpoint.heard();
        self.slab.take_first(slot);
        slot.begin_message();
        let room = slot.room(INLINE);
        inbound.data = room.cast();
        inbound.form = Form::Copied;
        inbound.charge = credit::LEAST;
        inbound.received = false;
        inbound.reply = std::ptr::null();
        let told = match question {
            None => {
                inbound.flags = short.flags();
                inbound.sort = Sort::of_message(short.flags());
                slot.number.set(0);
                endpoint.credits.note_acked_word(short.consumed_word())
            }
            Some(Question { number, capacity }) => {
                inbound.flags = 0;
                inbound.sort = Sort::Question;
                inbound.capacity = capacity;
                slot.number.set(number);
                false
            }
        };
        self.enqueue_due(endpoint, slot);
        // SAFETY: room for both; UCX's data is valid during its handler.
        unsafe {
            inbound.header = room;
            copy_inline(data.as_ptr(), room, data.len());
            if header_length != 0 {
                let behind = room.add(behind_data(data.len()));
                inbound.header = behind;
                copy_inline(user_header.as_ptr(), behind, header_length);
            }
        }
        if told && endpoint.awaits_credit() || self.armed.get() {
            self.tell_of(endpoint);
        }
        true
    }

    /// As `receive_arrived`, for a message with its header beside the data, which UCP has here.
    /// Returns None if nothing has happened: use the slow path.
    #[inline(always)]
    pub(crate) fn receive_beside_fast(
        &self,
        message: &[u8],
        arrived: &Arrived,
    ) -> Option<sys::ucs_status_t> {
        let header = Header::decode(message).ok()?;
        let endpoint = self.named_last(header.connection)?;
        let charge = u16::try_from(header.sender).ok()?;
        let simple = header.kind == header::Kind::Message
            && endpoint.takes_messages()
            && endpoint.order.is_due(header.sequence)
            && (credit::charge(arrived.length)..=credit::UNITS).contains(&charge);
        if !simple || !endpoint.credits.receive_fast(charge) {
            return None;
        }
        endpoint.heard();
        let (slot, keeps) = self.keep_arrived(&header, &message[HEADER..], arrived);
        self.admit_fast(endpoint, slot, charge, header.taken);
        Some(keeps)
    }

    /// Queues a message that was taken over, next in the order of this endpoint's connection.
    #[inline(always)]
    fn admit_fast(&self, endpoint: &Endpoint, slot: &Slot, charge: u16, taken: Amount) {
        slot.number.set(0);
        // SAFETY: the slot was just taken: nothing else uses it yet.
        let inbound = unsafe { &mut *slot.inbound.as_ptr() };
        inbound.connection = endpoint.peering.number.get();
        inbound.charge = charge;
        inbound.sort = Sort::of_message(inbound.flags);
        self.enqueue_due(endpoint, slot);
        let told = endpoint.credits.note_acked(taken);
        if told && endpoint.awaits_credit() || self.armed.get() {
            self.tell_of(endpoint);
        }
    }

    /// Wakes a thread that waits for the message.
    #[cold]
    #[inline(never)]
    fn tell_of(&self, endpoint: &Endpoint) {
        endpoint.credits_came();
        self.wake_sleeper();
    }

    /// Looks up a short message's connection, and remembers it as the last one. False if it was the
    /// last one already, or is unknown.
    pub(crate) fn names_another(&self, short: Short<'_>) -> bool {
        let number = short.connection();
        self.named_last(number).is_none() && self.find_endpoint(number).is_some()
    }
}

impl Endpoint {
    /// The same for a long message in its short form, from the peer's fast box. `first` is its
    /// start, and `rest` writes what follows. Returns false if nothing has happened.
    pub(crate) fn receive_long_fast(
        &self,
        first: &[u8],
        length: usize,
        rest: &impl Fn(*mut u8),
    ) -> bool {
        let worker = &self.worker;
        let Some(short) = Short::of(first).filter(|_| first[0] == MARK_OF_MESSAGE) else {
            return false;
        };
        let Some((user_header, begun)) = short.parts() else { return false };
        let data_length = length - compact_header::MESSAGE - user_header.len();
        let charge = credit::charge(data_length);
        let simple = short.flags() & !flag::USER == 0
            && self.takes_messages()
            && self.order.is_next(short.sequence());
        if !simple || !self.credits.receive_fast(charge) {
            return false;
        }
        self.heard();
        let slot = worker.take_message_slot();
        let behind = behind_data(data_length);
        let room = slot.room(behind + user_header.len());
        // SAFETY: room for both.
        let header = unsafe {
            copy_inline(begun.as_ptr(), room, begun.len());
            rest(room.add(begun.len()));
            copy_inline(user_header.as_ptr(), room.add(behind), user_header.len());
            room.add(behind).cast_const()
        };
        slot.length.set(data_length as u64);
        slot.inbound.set(Inbound {
            form: Form::Copied,
            id: short.id(),
            flags: short.flags(),
            user_header: user_header.len() as u16,
            header,
            data: room.cast(),
            ..Inbound::NOTHING
        });
        worker.admit_fast(self, slot, charge, short.taken());
        true
    }
}
