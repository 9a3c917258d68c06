//! Tag transfer: send, synchronous send, receive; contiguous and scattered.
//!
//! Cost in addition to UCP's for short messages: one thread check, one load for fork and one for
//! the endpoint, a slot from the free list, and three counters. No allocation, lock (except MULTI's
//! own), atomic read-modify-write or system call.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::completion::on_received;
use crate::engine::core::request::inflight::{Out, Submission};
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{self, Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::request::submit::Sending;
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context::feature;
use crate::sys::{self, ucp_request_param_t};
use std::ffi::c_void;

/// When a send completes: when the buffer may be reused, or when the message was matched as well.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Complete when the buffer may be reused.
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
}

impl SharedEndpoint {
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
        params.check(&self.worker().context, "tag send", flag::NO_WAIT)?;
        // SAFETY: the caller guarantees buffer and `out`.
        unsafe { self.tag_send_from(buffer, length, tag, mode, params, out) }
    }

    /// The same for internal callers, which have checked the parameters, and may have both a
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
        let part = [Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }];
        self.send_parts(&part, tag, mode, params, out)
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
        params.check(&self.worker().context, "tag send", flag::NO_WAIT)?;
        self.send_parts(parts, tag, Mode::Local, params, out)
    }
}

impl SharedEndpoint {
    #[inline(always)]
    fn send_parts(
        &self,
        parts: &[Part],
        tag: u64,
        mode: Mode,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let need = Need::of(parts.iter().map(|part| part.length).sum());
        let sending = Sending { kind: mode.kind(), need, tag };
        request_wait::submit(params, out, |params, out| {
            let plan = |_: Option<&Endpoint>| {
                let memory_type = memory_type_of(self.worker(), parts, params)?;
                Ok(move |slot: &Slot| {
                    let (buffer, count, scattered) = describe_parts(slot, parts);
                    let endpoint = self;
                    Queued {
                        buffer,
                        count,
                        scattered,
                        tag,
                        memory_type,
                        endpoint,
                        ..Queued::NOTHING
                    }
                })
            };
            self.submit_send(sending, feature::TAG, params, out, plan, |_, slot, queued, to| {
                post_send(mode, slot, queued, to)
            })
        })
    }
}

impl SharedWorker {
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
        // SAFETY: the caller guarantees buffer, `recv_info` and `out`.
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
        let wanted = || Queued { tag, tag_mask, ..Queued::NOTHING };
        self.submit_receive(Kind::TagRecv, parts, params, out, wanted)
    }

    /// Submits a receive of either kind. `wanted` returns the message to receive; called when only
    /// UCP can still refuse it.
    #[inline(always)]
    pub(crate) fn submit_receive(
        &self,
        kind: Kind,
        parts: &[Part],
        params: &OpParams,
        out: Out,
        wanted: impl FnOnce() -> Queued,
    ) -> Result<Submitted> {
        let inside = if self.must_submit_remotely(params) { None } else { Some(self.enter()?) };
        self.need(feature::TAG)?;
        self.check_from(params)?;
        let memory_type = memory_type_of(self, parts, params)?;
        let describe = |slot: &Slot| {
            let (buffer, count, scattered) = describe_parts(slot, parts);
            let endpoint = params.source;
            Queued { buffer, count, scattered, memory_type, endpoint, ..wanted() }
        };
        let Some(inside) = inside else { return self.delay(kind, 0, params, out, describe) };
        let slot = inside.take_slot();
        slot.prepare(kind);
        let queued = describe(slot);
        trace::submitted_and_posts(slot, None);
        let posted = post_receive(&inside, slot, &queued, None);
        trace::posted(slot, None);
        let endpoint = params.source().map(|from| from.of(&inside));
        let submission = Submission { endpoint, params, length: 0, tag: 0 };
        inside.submitted(slot, posted, submission, out)
    }

    #[inline(always)]
    pub(crate) fn check_from(&self, params: &OpParams) -> Result<()> {
        let Some(from) = params.source() else { return Ok(()) };
        if !std::ptr::eq(std::sync::Arc::as_ptr(from.worker()), self) {
            return Err(Error::invalid("source: is an endpoint of another worker"));
        }
        from.check_open()
    }
}

impl Worker {
    /// Receives a probed message into an empty buffer, because UCP has no call that drops it.
    pub(crate) fn drop_message(&self, message: sys::ucp_tag_message_h) {
        self.start_part(None, request::Part::Nothing, |slot| {
            post_receive(self, slot, &Queued { message, ..Queued::NOTHING }, None)
        });
    }
}

// Tag messages given to UCP, from the caller, the queue or the ring.

/// `Operation::post` of sends.
#[inline(always)]
pub(crate) fn post_send(
    mode: Mode,
    slot: &Slot,
    queued: &Queued,
    to: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    param.let_ucx_describe(slot);
    let to = to.map_or(std::ptr::null_mut(), |to| to.ucp.get());
    // SAFETY: inside the gate of a live worker, on an open endpoint; the caller keeps the buffer,
    // and the worker the slot.
    unsafe { send_by_ucp(mode, to, queued.buffer, queued.count, queued.tag, param.as_ptr()) }
}

/// # Safety
/// An open endpoint of a live worker, inside its gate. The caller keeps the buffer, and the worker
/// the slot in `param`.
#[inline(always)]
pub(crate) unsafe fn send_by_ucp(
    mode: Mode,
    to: sys::ucp_ep_h,
    buffer: *const c_void,
    count: usize,
    tag: u64,
    param: *const ucp_request_param_t,
) -> sys::ucs_status_ptr_t {
    // SAFETY: the caller guarantees endpoint, buffer and slot.
    unsafe {
        match mode {
            Mode::Local => sys::ucp_tag_send_nbx(to, buffer, count, tag, param),
            Mode::Synchronous => sys::ucp_tag_send_sync_nbx(to, buffer, count, tag, param),
        }
    }
}

/// `Operation::post` of receives.
#[inline(always)]
pub(crate) fn post_receive(
    worker: &Worker,
    slot: &Slot,
    queued: &Queued,
    _: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    param.receive(Some(on_received));
    param.let_ucx_describe(slot);
    let (buffer, count) = (queued.buffer, queued.count);
    if !queued.message.is_null() {
        // SAFETY: inside the gate of a live worker; the caller keeps the buffer, and the worker the
        // slot; a message that UCP handed out, given back once.
        return unsafe {
            sys::ucp_tag_msg_recv_nbx(worker.ucp(), buffer, count, queued.message, param.as_ptr())
        };
    }
    // SAFETY: inside the gate of a live worker; the caller keeps the buffer, and the worker the
    // slot.
    unsafe { receive_by_ucp(worker, buffer, count, (queued.tag, queued.tag_mask), param.as_ptr()) }
}

/// # Safety
/// A live worker inside its gate. The caller keeps the buffer, and the worker the slot in `param`.
#[inline(always)]
pub(crate) unsafe fn receive_by_ucp(
    worker: &Worker,
    buffer: *mut c_void,
    count: usize,
    (tag, tag_mask): (u64, u64),
    param: *const ucp_request_param_t,
) -> sys::ucs_status_ptr_t {
    // SAFETY: the caller guarantees worker, buffer and slot.
    unsafe { sys::ucp_tag_recv_nbx(worker.ucp(), buffer, count, tag, tag_mask, param) }
}

pub(crate) fn cancel_receive(worker: &Worker, slot: &Slot, reason: Status) {
    slot.reason.set(reason.0);
    // SAFETY: a live worker, and one of its requests that has not completed. UCP ignores the cancel
    // if it has already matched.
    unsafe { sys::ucp_request_cancel(worker.ucp(), slot.ucx_request()) };
}
