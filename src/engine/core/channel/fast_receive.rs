//! The fast path of received messages and fetch requests: see `core::request::fast_path`. It runs
//! inside UCP's handler.
//!
//! It makes no call on its way, so that no register must be saved across one, which would take
//! about as long as the rest. Work that needs a call is done before, in a second attempt, or at the
//! very end. It writes into the slot that it is about to take while it still checks the message:
//! the contents of a free slot do not matter.

use crate::engine::core::channel::message::{Form, Sort};
use crate::engine::core::channel::receive::{behind_data, Arrived};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inline_buffer::{copy_inline, INLINE};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::compact_header::Short;
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, flag, Header, Question, HEADER};
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

    /// As `came`, for a message or reply with its header beside the data, in the usual case.
    /// Returns None if nothing has happened: use the slow path. Cannot panic.
    #[inline(always)]
    pub(crate) fn receive_beside_fast(
        &self,
        message: &[u8],
        arrived: &Arrived,
    ) -> Option<sys::ucs_status_t> {
        if arrived.waits {
            return None;
        }
        let header = Header::decode(message).ok()?;
        if header.kind == header::Kind::Answer {
            let taken = (self.receivers.answers.beside)(self, &header, arrived);
            return taken.then_some(sys::UCS_OK);
        }
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
        slot.number.set(0);
        // SAFETY: the slot was just taken: nothing else uses it yet.
        let inbound = unsafe { &mut *slot.inbound.as_ptr() };
        inbound.connection = endpoint.peering.number.get();
        inbound.charge = charge;
        inbound.sort = Sort::of_message(inbound.flags);
        self.enqueue_due(endpoint, slot);
        let told = endpoint.credits.note_acked(header.taken);
        if told && endpoint.awaits_credit() || self.armed.get() {
            self.tell_of(endpoint);
        }
        Some(keeps)
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
