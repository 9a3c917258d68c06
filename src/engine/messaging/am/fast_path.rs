//! The fast path of plain active messages: see `core::request::fast_path`.

use crate::engine::base::status::Result;
use crate::engine::core::channel::send::{Outgoing, LONGEST_UNASKED};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::fast_path::FastPath;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::INLINE;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::Kind;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::wire::credit;
use crate::engine::wire::header::{Kind as Of, HEADER};
use std::ffi::c_void;

impl SharedEndpoint {
    /// For plain active messages of `length` bytes, header and data, that are sent as one piece.
    /// None: use the slow path.
    #[inline(always)]
    pub fn fast_for_message(&self, length: usize, params: &OpParams) -> Option<FastPath<'_>> {
        if self.is_short_of_credit(credit::LEAST) {
            return None;
        }
        self.fast_for_piece(length, params)
    }

    /// For longer plain active messages, whose data is sent beside the header.
    #[inline(always)]
    pub fn fast_for_long_message(
        &self,
        header: usize,
        length: usize,
        params: &OpParams,
    ) -> Option<FastPath<'_>> {
        let charge = credit::charge(length);
        let fits = header <= (INLINE - HEADER).min(self.worker().longest_am_header())
            && (1..=LONGEST_UNASKED).contains(&length);
        if !fits || self.is_short_of_credit(charge) {
            return None;
        }
        let fast = self.fast_for_peer(params)?;
        // SAFETY: inside its worker's gate.
        unsafe { self.inside() }.credits.suffice(charge).then_some(fast)
    }
}

impl FastPath<'_> {
    /// `Endpoint::am_send` for plain parameters and one buffer.
    ///
    /// # Safety
    /// As for that function. `to` and the length are those that this was made for.
    #[inline(always)]
    pub unsafe fn am_send(
        self,
        to: &SharedEndpoint,
        id: u16,
        header: (*const c_void, usize),
        data: (*const c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: `to` is the endpoint that this was made for, whose worker is entered.
        let to = unsafe { to.inside() };
        self.send(Kind::AmSend, (data.1 as u64, 0), to, params, out, |_, slot| {
            let outgoing = Outgoing::plain(Of::Message, id, header.1, credit::LEAST, params);
            // SAFETY: an open endpoint, its worker entered; `fast_for_message` has checked the
            // length; the caller's header and data are readable.
            unsafe { to.send_short(slot, &outgoing, None, header, data) }
        })
    }

    /// The same for a longer one.
    ///
    /// # Safety
    /// As for `am_send`, from `fast_for_long_message`.
    #[inline(always)]
    pub unsafe fn am_send_long(
        self,
        to: &SharedEndpoint,
        id: u16,
        header: (*const c_void, usize),
        data: (*const c_void, usize),
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        // SAFETY: `to` is the endpoint that this was made for, whose worker is entered.
        let to = unsafe { to.inside() };
        self.send(Kind::AmSend, (data.1 as u64, 0), to, params, out, |_, slot| {
            let charge = credit::charge(data.1);
            let outgoing = Outgoing::plain(Of::Message, id, header.1, charge, params);
            // SAFETY: an open endpoint, its worker entered; `fast_for_long_message` has checked
            // that the header fits; the caller's header and data are readable.
            unsafe { to.send_beside(slot, &outgoing, header, data, params.plain_index()) }
        })
    }
}
