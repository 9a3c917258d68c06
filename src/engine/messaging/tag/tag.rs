//! Tag transfer: send, synchronous send, receive; contiguous and scattered.
//!
//! Cost of the inline path, beyond UCP's own: one thread check, one load for fork and one for the
//! endpoint, a slot from the free list, and three counters. No allocation, no lock (but MULTI's
//! own), no read-modify-write, no system call.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::{
    common_memory_type, describe_parts, memory_type_of, Part,
};
use crate::engine::core::request::completion::on_received;
use crate::engine::core::request::inflight::{Out, Submission};
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::sys::{self, ucp_request_param_t, ucs_status_ptr_t};
use std::ffi::c_void;

/// Local completion of a send: the buffer is free again. A synchronous send also waits until the
/// message was matched.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Complete when the buffer is free.
    Local,
    /// Complete when a receive has matched the message, too.
    Synchronous,
}

impl Mode {
    #[inline(always)]
    fn kind(self) -> Kind {
        match self {
            Mode::Local => Kind::TagSend,
            Mode::Synchronous => Kind::TagSendSync,
        }
    }

    /// # Safety
    /// An open endpoint of a live worker, inside its gate; the caller keeps the buffer, the worker
    /// the slot that `param` names.
    #[inline(always)]
    unsafe fn give_to_ucp(
        self,
        to: sys::ucp_ep_h,
        buffer: *const c_void,
        count: usize,
        tag: u64,
        param: &Param,
    ) -> sys::ucs_status_ptr_t {
        // SAFETY: as for this function.
        unsafe {
            match self {
                Mode::Local => sys::ucp_tag_send_nbx(to, buffer, count, tag, param.as_ptr()),
                Mode::Synchronous => {
                    sys::ucp_tag_send_sync_nbx(to, buffer, count, tag, param.as_ptr())
                }
            }
        }
    }
}

impl Endpoint {
    /// Sends `length` bytes.
    ///
    /// # Safety
    /// `buffer` is readable for `length` bytes until the operation has completed, and `out` is
    /// valid.
    #[inline(always)]
    pub unsafe fn tag_send(
        &self,
        buffer: *const c_void,
        length: usize,
        tag: u64,
        mode: Mode,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker.context, "tag send", flag::NO_WAIT)?;
        // SAFETY: as for this function.
        unsafe { self.tag_send_from(buffer, length, tag, mode, params, out) }
    }

    /// The same for the library's own, which has checked the parameters, and may have both a
    /// callback and a notifier.
    ///
    /// # Safety
    /// As for `tag_send`.
    #[inline(always)]
    pub(crate) unsafe fn tag_send_from(
        &self,
        buffer: *const c_void,
        length: usize,
        tag: u64,
        mode: Mode,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        request_wait::submit(params, out, |params, out| {
            if self.worker.must_submit_remotely(params) {
                let part =
                    [Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }];
                return self.send_later(mode, &part, tag, params, out);
            }
            // SAFETY: as for this function.
            unsafe { self.send_now(buffer, length, tag, mode, params, out) }
        })
    }

    #[inline(never)]
    fn send_later(
        &self,
        mode: Mode,
        parts: &[Part],
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.check_open_outside()?;
        self.worker.need(feature::TAG)?;
        let memory_type = memory_type_of(&self.worker, parts, params)?;
        let length: usize = parts.iter().map(|part| part.length).sum();
        let promised = self.promise(params, Need::of(length))?;
        self.worker.delay(mode.kind(), length as u64, params, out, |slot| {
            let (buffer, count, scattered) = describe_parts(slot, parts);
            let promise = promised.keep();
            Queued {
                buffer,
                count,
                scattered,
                tag,
                memory_type,
                endpoint: self,
                promise,
                ..Queued::NOTHING
            }
        })
    }

    #[inline(always)]
    unsafe fn send_now(
        &self,
        buffer: *const c_void,
        length: usize,
        tag: u64,
        mode: Mode,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let inside = self.worker.enter()?;
        self.check_open()?;
        inside.need(feature::TAG)?;
        let memory_type = memory_type::to_ucx(&inside.context, params.memory_type)?;
        if self.must_wait() {
            let part = [Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }];
            return self.queue_send(mode.kind(), &part, tag, memory_type, params, out);
        }
        let slot = inside.take_slot();
        slot.prepare(mode.kind());
        let param = Param::of_buffer(slot, memory_type, false);
        // SAFETY: a live endpoint inside its worker's gate; the caller keeps the buffer, the worker
        // the slot.
        let posted = unsafe { mode.give_to_ucp(self.ucp.get(), buffer, length, tag, &param) };
        inside.submitted(
            slot,
            posted,
            Submission { endpoint: Some(self), params, length: length as u64, tag },
            out,
        )
    }

    /// Sends the parts as one message.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed, and `out` is valid.
    pub unsafe fn tag_send_iov(
        &self,
        parts: &[Part],
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker.context, "tag send", flag::NO_WAIT)?;
        let submit = |params: &OpParams, out: Out| {
            if self.worker.must_submit_remotely(params) {
                return self.send_later(Mode::Local, parts, tag, params, out);
            }
            let inside = self.worker.enter()?;
            self.check_open()?;
            inside.need(feature::TAG)?;
            let memory_type = common_memory_type(&inside, parts, params)?;
            if self.must_wait() {
                return self.queue_send(Kind::TagSend, parts, tag, memory_type, params, out);
            }
            let length: usize = parts.iter().map(|part| part.length).sum();
            let slot = inside.take_slot();
            slot.prepare(Kind::TagSend);
            let (buffer, count, scattered) = describe_parts(slot, parts);
            let param = Param::of_buffer(slot, memory_type, scattered);
            // SAFETY: as in send_now; the list of parts lies in the slot.
            let posted = unsafe {
                sys::ucp_tag_send_nbx(self.ucp.get(), buffer, count, tag, param.as_ptr())
            };
            inside.submitted(
                slot,
                posted,
                Submission { endpoint: Some(self), params, length: length as u64, tag },
                out,
            )
        };
        request_wait::submit(params, out, submit)
    }
}

impl Worker {
    /// Receives one message whose tag matches.
    ///
    /// # Safety
    /// `buffer` is writable for `length` bytes, and `params.recv_info` is valid, until the
    /// operation has completed; `out` is valid.
    #[inline(always)]
    pub unsafe fn tag_recv(
        &self,
        buffer: *mut c_void,
        length: usize,
        tag: u64,
        tag_mask: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.context, "tag receive", 0)?;
        // SAFETY: as for this function.
        unsafe { self.tag_recv_into(buffer, length, tag, tag_mask, params, out) }
    }

    /// As `Endpoint::tag_send_from`.
    ///
    /// # Safety
    /// As for `tag_recv`.
    #[inline(always)]
    pub(crate) unsafe fn tag_recv_into(
        &self,
        buffer: *mut c_void,
        length: usize,
        tag: u64,
        tag_mask: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let part = [Part { data: buffer, length, memory_type: params.memory_type }];
        request_wait::submit(params, out, |params, out| {
            self.receive_now(&part, tag, tag_mask, params, out)
        })
    }

    /// Receives one message whose tag matches into the parts, one after the other.
    ///
    /// # Safety
    /// As for `tag_recv`, for each of the parts.
    #[inline(always)]
    pub unsafe fn tag_recv_iov(
        &self,
        parts: &[Part],
        tag: u64,
        tag_mask: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.context, "tag receive", 0)?;
        request_wait::submit(params, out, |params, out| {
            self.receive_now(parts, tag, tag_mask, params, out)
        })
    }

    #[inline(always)]
    fn receive_now(
        &self,
        parts: &[Part],
        tag: u64,
        tag_mask: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        if self.must_submit_remotely(params) {
            return self.receive_later(
                Kind::TagRecv,
                parts,
                (tag, tag_mask),
                std::ptr::null_mut(),
                params,
                out,
            );
        }
        let inside = self.enter()?;
        inside.need(feature::TAG)?;
        let call = |buffer, count, param: *const sys::ucp_request_param_t| {
            // SAFETY: a live worker inside its gate; the caller of the public functions keeps the
            // buffers, the worker the slot.
            unsafe { sys::ucp_tag_recv_nbx(inside.ucp(), buffer, count, tag, tag_mask, param) }
        };
        inside.receive(Kind::TagRecv, parts, params, out, call)
    }

    #[inline(always)]
    pub(crate) fn check_from(&self, params: &OpParams) -> Result<()> {
        let Some(from) = params.source() else { return Ok(()) };
        if !std::ptr::eq(std::sync::Arc::as_ptr(&from.worker), self) {
            return Err(Error::invalid("from: an endpoint of another worker"));
        }
        from.check_open()
    }

    /// Hands a receive of either kind to the progress thread.
    #[inline(never)]
    pub(crate) fn receive_later(
        &self,
        kind: Kind,
        parts: &[Part],
        (tag, tag_mask): (u64, u64),
        message: sys::ucp_tag_message_h,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.need(feature::TAG)?;
        self.check_from(params)?;
        let memory_type = memory_type_of(self, parts, params)?;
        let endpoint = params.source;
        self.delay(kind, 0, params, out, |slot| {
            let (buffer, count, scattered) = describe_parts(slot, parts);
            Queued {
                buffer,
                count,
                scattered,
                tag,
                tag_mask,
                memory_type,
                endpoint,
                message,
                ..Queued::NOTHING
            }
        })
    }

    /// Posts a receive of either kind. Inside the gate.
    #[inline(always)]
    pub(crate) fn receive(
        &self,
        kind: Kind,
        parts: &[Part],
        params: &OpParams,
        out: Out,
        call: impl FnOnce(*mut c_void, usize, *const ucp_request_param_t) -> ucs_status_ptr_t,
    ) -> Result<Submitted> {
        self.check_from(params)?;
        let memory_type = memory_type_of(self, parts, params)?;
        let slot = self.take_slot();
        slot.prepare(kind);
        let (buffer, count, scattered) = describe_parts(slot, parts);
        let mut param = Param::of_buffer(slot, memory_type, scattered);
        param.receive(Some(on_received));
        let posted = call(buffer, count, param.as_ptr());
        self.submitted(
            slot,
            posted,
            Submission { endpoint: params.source(), params, length: 0, tag: 0 },
            out,
        )
    }
}

// What the core calls for tag messages that come out of the ring, or out of a queue: see
// `Operation`.

pub(crate) fn post_send(
    mode: Mode,
    slot: &Slot,
    queued: &Queued,
    to: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    let to = to.map_or(std::ptr::null_mut(), |to| to.ucp.get());
    // SAFETY: inside the gate of a live worker, on an open endpoint; the caller keeps the buffer,
    // the worker the slot.
    unsafe { mode.give_to_ucp(to, queued.buffer, queued.count, queued.tag, &param) }
}

pub(crate) fn post_receive(
    worker: &Worker,
    slot: &Slot,
    queued: &Queued,
    _: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    param.receive(Some(on_received));
    let Queued { buffer, count, tag, tag_mask, .. } = *queued;
    // SAFETY: as in `post_send`.
    unsafe { sys::ucp_tag_recv_nbx(worker.ucp(), buffer, count, tag, tag_mask, param.as_ptr()) }
}

pub(crate) fn post_message_receive(
    worker: &Worker,
    slot: &Slot,
    queued: &Queued,
    _: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    param.receive(Some(on_received));
    // SAFETY: as in `post_send`; a message is handed over once.
    unsafe {
        sys::ucp_tag_msg_recv_nbx(
            worker.ucp(),
            queued.buffer,
            queued.count,
            queued.message,
            param.as_ptr(),
        )
    }
}

pub(crate) fn cancel_receive(worker: &Worker, slot: &Slot, reason: Status) {
    slot.reason.set(reason.0);
    // SAFETY: a live worker and a request of its own that has not completed. One that is matched
    // already is left alone.
    unsafe { sys::ucp_request_cancel(worker.ucp(), std::ptr::from_ref(slot).cast_mut().cast()) };
}
