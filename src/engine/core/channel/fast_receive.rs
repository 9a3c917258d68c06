//! The quick way of messages and questions that come in: see `core::request::fast_path`. In UCP's
//! handler, and taken over from there.
//!
//! It calls nothing on its way, so nothing has to be kept across a call, which would take as long
//! as much of what is done: what needs a call comes before, in a second attempt, or at the very
//! end. It writes into the slot that it will take while it still looks at the message: a free
//! slot's memory is of no interest.

use crate::engine::core::channel::message::{Form, Sort};
use crate::engine::core::channel::receive::behind_data;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inline_buffer::{copy_inline, INLINE};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::compact_header::Short;
use crate::engine::wire::credit;
use crate::engine::wire::header::{flag, Question};

impl Worker {
    /// As `receive_arrived`, of a message in its short form that comes as nearly all do: on a
    /// connection that is known, in its order, and within its credit. False: nothing has happened,
    /// go the next longer way.
    #[inline(always)]
    pub(crate) fn receive_message_fast(&self, short: Short<'_>) -> bool {
        short.flags() & !flag::USER == 0 && self.receive_short_fast(short, None)
    }

    /// The same of a question.
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
        // SAFETY: a slot that nobody has.
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
                inbound.sort =
                    if short.flags() & flag::HUB == 0 { Sort::Message } else { Sort::Hub };
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

    /// Whoever waits for what has just come.
    #[cold]
    #[inline(never)]
    fn tell_of(&self, endpoint: &Endpoint) {
        endpoint.credits_came();
        self.wake_sleeper();
    }

    /// Has a short message's connection be the one named last; false where it was, or is not known.
    pub(crate) fn names_another(&self, short: Short<'_>) -> bool {
        let number = short.connection();
        self.named_last(number).is_none() && self.find_endpoint(number).is_some()
    }
}
