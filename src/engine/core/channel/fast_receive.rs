//! The quick way of messages and questions that come in: see `core::request::fast_path`. In UCP's
//! handler, and taken over from there.
//!
//! It has two lanes. The first one is for 8 bytes from the peer that was named last: it calls
//! nothing, so nothing has to be kept across a call, which would take as long as much of what is
//! done. It writes into the slot that it will take while it still looks at the message: a free
//! slot's memory is of no interest. The other lane is for any short message.

use crate::engine::core::channel::message::{Form, Sort};
use crate::engine::core::channel::receive::put_down;
use crate::engine::core::request::inline_buffer::{copy_short, INLINE};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::compact_header::Short;
use crate::engine::wire::credit;
use crate::engine::wire::header::{flag, Question};

impl Worker {
    /// As `take_in`, of a message in its short form that comes as nearly all do: on a connection
    /// that is known, in its order, and within its credit. False: nothing has happened, go the next
    /// longer way.
    #[inline(always)]
    pub(crate) fn take_message_in_quickly<const EIGHT: bool>(&self, short: Short<'_>) -> bool {
        let allowed = if EIGHT { flag::USER & !flag::HUB } else { flag::USER };
        short.flags() & !allowed == 0 && self.take_in_quickly::<EIGHT>(short, None)
    }

    /// The same of a question.
    #[inline(always)]
    pub(crate) fn take_question_in_quickly<const EIGHT: bool>(&self, short: Short<'_>) -> bool {
        short
            .asked()
            .is_some_and(|(question, short)| self.take_in_quickly::<EIGHT>(short, Some(question)))
    }

    #[inline(always)]
    fn take_in_quickly<const EIGHT: bool>(
        &self,
        short: Short<'_>,
        question: Option<Question>,
    ) -> bool {
        const { assert!(INLINE < credit::UNIT) };
        let (all, header_length) = (short.rest(), usize::from(short.second_byte()));
        // Either the header or the data.
        if EIGHT && (all.len() != 8 || header_length & !8 != 0) {
            return false;
        }
        let number = short.connection();
        let named = if EIGHT { self.named_last(number) } else { self.endpoint_named(number) };
        let Some(endpoint) = named else { return false };
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
            && all.len() <= INLINE - 16
            && !(EIGHT && (self.armed.get() || endpoint.awaits_credit()));
        if !simple || !endpoint.credits.receive_quickly(credit::LEAST) {
            return false;
        }
        endpoint.heard();
        self.slab.take_first(slot);
        slot.begin_message();
        let room = slot.room(INLINE);
        // SAFETY: room for both; UCX's data is valid during its handler.
        inbound.header = unsafe {
            if EIGHT {
                copy_short(all.as_ptr(), room, 8);
                room
            } else {
                put_down(room, data.as_ptr(), data.len(), user_header)
            }
        };
        inbound.data = room.cast();
        inbound.form = Form::Copied;
        inbound.charge = credit::LEAST;
        inbound.received = false;
        inbound.reply = std::ptr::null();
        let told = match question {
            None => {
                inbound.flags = short.flags();
                inbound.sort =
                    if EIGHT || short.flags() & flag::HUB == 0 { Sort::Message } else { Sort::Hub };
                slot.number.set(0);
                endpoint.credits.note_told_word(short.taken_word())
            }
            Some(Question { number, capacity }) => {
                inbound.flags = 0;
                inbound.sort = Sort::Question;
                inbound.capacity = capacity;
                slot.number.set(number);
                false
            }
        };
        self.put_among_due(endpoint, slot);
        if !EIGHT {
            if told {
                endpoint.credits_came();
            }
            self.wake_sleeper();
        }
        true
    }
}
