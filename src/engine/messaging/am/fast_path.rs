//! Short active messages the quick way: see `core::request::fast_path`.

use crate::engine::base::status::Result;
use crate::engine::core::channel::send::told;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::fast_path::Quick;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::{copy_inline, put_pair, INLINE};
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::Kind;
use crate::engine::wire::compact_header;
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, Header};
use std::ffi::c_void;

impl Endpoint {
    /// For plain active messages of so many bytes, header and data, which go out as one piece; None
    /// to go the long way.
    #[inline(always)]
    pub fn fast_for_message(&self, length: usize) -> Option<Quick<'_>> {
        if self.credits.is_short_for(credit::LEAST) {
            return None;
        }
        self.fast_for_piece(length)
    }
}

impl Quick<'_> {
    /// `Endpoint::am_send` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that; `to` and the length are those that this was made for.
    #[inline(always)]
    pub unsafe fn am_send(
        self,
        to: &Endpoint,
        id: u16,
        (header, header_length): (*const c_void, usize),
        (buffer, length): (*const c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        const { assert!(INLINE < credit::UNIT) };
        let Quick { worker, slot } = self;
        slot.prepare(Kind::AmSend);
        slot.length.set(length as u64);
        let words = compact_header::message(&Header {
            id,
            flags: told(params.memory_type),
            user_header: header_length as u16,
            connection: to.peering.quick.get(),
            sequence: to.credits.sequence.get(),
            taken: to.credits.tell(),
            ..Header::of(header::Kind::Message)
        });
        let room = slot.room(INLINE);
        // SAFETY: room for all three, as `fast_for_message` has seen; the caller's are readable.
        unsafe {
            put_pair(room, words);
            copy_inline(header.cast(), room.add(compact_header::MESSAGE), header_length);
            copy_inline(buffer.cast(), room.add(compact_header::MESSAGE + header_length), length);
        }
        let packed = compact_header::MESSAGE + header_length + length;
        // SAFETY: a live endpoint, its worker entered, which keeps the slot, which has all of it.
        let posted = unsafe { to.send_packed(true, slot, packed) };
        // What can wait until the message is on its way comes after it.
        to.credits.spend(credit::LEAST);
        if !posted.is_null() {
            to.sent_message(posted, credit::LEAST);
            slot.tag.set(0);
            return worker.submitted_slow(slot, posted, Some(to), params, out);
        }
        to.message_left();
        Ok(worker.sent_fast(slot, Kind::AmSend, to, out))
    }
}
