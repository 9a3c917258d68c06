//! Sending active messages: a short header and data, for the handler that the peer has registered
//! for an id.
//!
//! Cost in addition to UCP's for short messages: as for a tag send, plus the library's header of 24
//! bytes and a copy of the user's header. No allocation, lock, atomic read-modify-write or system
//! call.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::send::post_message;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::inline_buffer::copy_short;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::submit::Sending;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::header::{self, HEADER};
use crate::sys;

/// What comes before the data of a message.
#[derive(Clone, Copy)]
pub(crate) struct Front<'a> {
    /// The user's header, and what the kind of message puts before it.
    pub(crate) header: &'a [u8],
    /// The start of the data; it is copied as well.
    pub(crate) table: &'a [u8],
}

impl Front<'_> {
    fn length_with(&self, parts: &[Part]) -> usize {
        self.table.len() + parts.iter().map(|part| part.length).sum::<usize>()
    }
}

impl SharedEndpoint {
    /// Sends a header, which is copied, and the parts as one message.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed, and `out` is valid.
    #[inline(always)]
    pub unsafe fn am_send(
        &self,
        id: u16,
        header: &[u8],
        parts: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        const ALLOWED: u64 = flag::NO_WAIT | flag::EAGER | flag::RNDV | flag::AM_REPLY;
        params.check(&self.worker().context, "active message", ALLOWED)?;
        // SAFETY: the caller guarantees the parts and `out`.
        unsafe {
            self.send_message(
                header::Kind::Message,
                id,
                Front { header, table: &[] },
                parts,
                params,
                out,
            )
        }
    }

    /// The same for any kind of message with data, with checked parameters.
    ///
    /// # Safety
    /// As for `am_send`.
    #[inline(always)]
    pub(crate) unsafe fn send_message(
        &self,
        kind: header::Kind,
        id: u16,
        front: Front<'_>,
        parts: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        request_wait::submit(params, out, |params, out| {
            let length = front.length_with(parts);
            let number = front.table.len() as u32;
            let mut outgoing =
                Outgoing { kind, number, ..Outgoing::message(id, front.header, length, params) };
            if kind == header::Kind::Multi
                && parts.iter().any(|part| part.length > 0 && self.may_be_device(part))
            {
                outgoing.wait_for_receiver();
            }
            let need = Need::of_message(length, outgoing.charge);
            let sending = Sending { kind: Kind::AmSend, need, tag: 0 };
            let plan = |inside: Option<&Endpoint>| {
                if let Some(inside) = inside {
                    inside.check_am_header(front.header)?;
                } else {
                    self.check_length_of_header(front.header)?;
                }
                let memory_type = memory_type_of(self.worker(), parts, params)?;
                Ok(move |slot: &Slot| self.describe(slot, outgoing, front, parts, memory_type))
            };
            self.submit_send(sending, feature::AM, params, out, plan, post_message)
        })
    }

    pub(crate) fn may_be_device(&self, part: &Part) -> bool {
        memory_type::may_be_device_at(&self.worker().context, part.memory_type, part.data)
    }
}

impl SharedEndpoint {
    #[inline(always)]
    fn describe(
        &self,
        slot: &Slot,
        outgoing: Outgoing,
        Front { header, table }: Front<'_>,
        parts: &[Part],
        memory_type: Option<sys::ucs_memory_type_t>,
    ) -> Queued {
        let behind = HEADER + header.len();
        let room = slot.room(behind + table.len());
        // SAFETY: room for the header, in a slot that only this operation uses.
        unsafe { copy_short(header.as_ptr(), room.add(HEADER), header.len()) };
        let (buffer, count, scattered) = if table.is_empty() {
            describe_parts(slot, parts)
        } else {
            // SAFETY: room for the table, in a slot that only this operation uses.
            unsafe { copy_short(table.as_ptr(), room.add(behind), table.len()) };
            // SAFETY: not beyond the room.
            let data = unsafe { room.add(behind) }.cast();
            let first = Part { data, length: table.len(), memory_type: memory_type::HOST };
            let parts: Vec<_> = std::iter::once(first).chain(parts.iter().copied()).collect();
            describe_parts(slot, &parts)
        };
        if outgoing.protocol != sys::UCP_AM_SEND_FLAG_EAGER {
            // A peer without a handler refuses data that waits, and UCX may make it wait: the error
            // message then needs the id. SAFETY: the slot was just taken: nothing else uses it.
            unsafe { (*slot.queued.as_ptr()).outgoing = outgoing };
        }
        Queued {
            buffer,
            count,
            scattered,
            memory_type,
            outgoing,
            endpoint: self,
            ..Queued::NOTHING
        }
    }
}

impl Endpoint {
    /// Refuses a header that is too long for UCX, which does not check it, or for the peer.
    #[inline(always)]
    pub(crate) fn check_am_header(&self, header: &[u8]) -> Result<()> {
        self.check_length_of_header(header)?;
        if self.is_plain_ucx_peer() {
            return Err(self.speaks_another_language());
        }
        Ok(())
    }
}

impl SharedEndpoint {
    #[inline(always)]
    pub(crate) fn check_length_of_header(&self, header: &[u8]) -> Result<()> {
        if header.len() > self.worker().longest_am_header() {
            return Err(self.header_too_long(header.len()));
        }
        Ok(())
    }

    #[cold]
    fn header_too_long(&self, length: usize) -> Error {
        let most = self.worker().longest_am_header();
        Error::invalid(format!(
            "header_length: {length} bytes are more than the {most} that the transports carry"
        ))
    }
}

impl Endpoint {
    #[cold]
    fn speaks_another_language(&self) -> Error {
        let text = format!(
            "endpoint: to {}: active messages need this library on both sides; with UCXX use \
            ucxx_am_queue_send",
            self.peer_text()
        );
        Error::new(Status::UNSUPPORTED, text)
    }
}
