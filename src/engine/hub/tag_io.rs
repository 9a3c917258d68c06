//! Tag messages directly into and out of envelopes.
//!
//! The operation holds a lease until it completes: success commits it, failure aborts it. The
//! operation's own callback does that before the caller's callback runs or a notifier reports. So
//! when the caller learns of the completion, the chunk is in the queue, or gone from it.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, Callback, OpParams, RecvInfo, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::link::{closed, Link};
use crate::engine::hub::records::Role;
use crate::engine::hub::wait::Retired;
use crate::engine::messaging::tag::tag::Mode;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a lease stores of the operation that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The caller's callback and argument; a notifier reports the argument, too.
    callback: Option<Callback>,
    arg: *mut c_void,
    notified: bool,
    /// Bytes to send; `None` for a receive, whose length is in `info`.
    length: Option<u64>,
    info: RecvInfo,
    /// The caller's variable for the result.
    recv_info: *mut RecvInfo,
}

impl Message {
    pub(crate) const NONE: Message = Message {
        callback: None,
        arg: null_mut(),
        notified: false,
        length: None,
        info: RecvInfo { length: 0, sender_tag: 0, reserved: [0; 2] },
        recv_info: null_mut(),
    };
}

impl Link {
    /// Receives a message into an envelope, and commits it as a chunk.
    ///
    /// # Safety
    /// As for `Worker::tag_recv`, except that the buffer is the hub's.
    pub unsafe fn recv(
        &self,
        tag: u64,
        tag_mask: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let worker = self.worker(Role::Produce, "produces")?;
        params.check(&worker.context, "tag receive", 0)?;
        let lease = self.lease_for_message()?;
        let view = lease.view()?;
        let submit = |params: &OpParams| {
            // SAFETY: `params` and `out` are valid by this function's contract, and the lease keeps
            // the buffer.
            unsafe {
                worker.tag_recv_into(
                    view.data.cast(),
                    view.capacity as usize,
                    tag,
                    tag_mask,
                    params,
                    out,
                )
            }
        };
        // SAFETY: `params` is valid by this function's contract.
        unsafe { hand_over(lease, None, params, submit) }
    }

    /// Sends the oldest chunk, which is consumed when the send completes.
    ///
    /// # Safety
    /// As for `Endpoint::tag_send`, except that the buffer is the hub's.
    pub unsafe fn send(
        &self,
        endpoint: &SharedEndpoint,
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let worker = self.worker(Role::Consume, "consumes")?;
        if !Arc::ptr_eq(worker, endpoint.worker()) {
            return Err(Error::invalid("endpoint: is of another worker than the hub's"));
        }
        params.check(&worker.context, "tag send", flag::NO_WAIT)?;
        let lease = self.lease_for_message()?;
        let view = lease.view()?;
        let submit = |params: &OpParams| {
            // SAFETY: `params` and `out` are valid by this function's contract, and the lease keeps
            // the buffer.
            unsafe {
                endpoint.tag_send_from(
                    view.data.cast(),
                    view.length as usize,
                    tag,
                    Mode::Local,
                    params,
                    out,
                )
            }
        };
        // SAFETY: `params` is valid by this function's contract.
        unsafe { hand_over(lease, Some(view.length), params, submit) }
    }

    fn worker(&self, role: Role, does: &str) -> Result<&Arc<SharedWorker>> {
        if self.request.role != role {
            return Err(Error::invalid(format!("link: is not one that {does}")));
        }
        self.hub
            .worker
            .as_ref()
            .ok_or_else(|| Error::invalid("link: its hub was made without a worker"))
    }

    fn lease_for_message(&self) -> Result<&Lease> {
        self.check_network()?;
        let Some(lease) = self.lease_synced()? else {
            let text = match self.request.role {
                Role::Consume => "link: there is no chunk to send at the moment",
                _ => "link: there is no empty envelope at the moment, or the hub's queue is full",
            };
            return Err(Error::new(Status::NO_RESOURCE, text));
        };
        // SAFETY: leased just now, nobody else knows it, and the hub outlives its leases.
        Ok(unsafe { &*lease })
    }
}

/// Starts the operation, which owns the lease from here on.
///
/// # Safety
/// What `params` points to is valid as its fields require.
unsafe fn hand_over(
    lease: &Lease,
    length: Option<u64>,
    params: &OpParams,
    submit: impl FnOnce(&OpParams) -> Result<Submitted>,
) -> Result<Submitted> {
    let notified = !params.notifier.is_null();
    let message = Message {
        callback: params.callback,
        arg: params.callback_arg,
        notified,
        length,
        recv_info: params.recv_info,
        ..Message::NONE
    };
    let place = lease.message.get();
    // SAFETY: only this operation uses the lease.
    unsafe { place.write(message) };
    let mut own = *params;
    own.memory_type = lease.view()?.kind.to_network();
    // SAFETY: the field is part of a slot of the hub, which lasts at least as long as the lease.
    own.recv_info = if length.is_none() { unsafe { &raw mut (*place).info } } else { null_mut() };
    if params.flags & flag::WAIT == 0 {
        own.callback = Some(on_ended);
        own.callback_arg = std::ptr::from_ref(lease).cast_mut().cast();
        if length.is_none() {
            // If it completed inside the call, its chunk would precede those of messages that
            // completed earlier, whose callbacks still wait.
            own.flags |= flag::ALWAYS_CALLBACK;
        }
    }
    let submitted = submit(&own);
    let status = match &submitted {
        // The callback owns the lease from here on.
        Ok(Submitted::Pending) => return submitted,
        Ok(Submitted::Done) => Status::OK,
        Err(error) => error.status(),
    };
    // SAFETY: the operation owns the lease, and has completed inside the call or not begun.
    let retired = unsafe { finish(lease, status) };
    drop(retired);
    submitted
}

/// Ends the lease as the operation has ended. On return another lease may have the slot.
///
/// # Safety
/// The operation owns the lease, and has completed.
unsafe fn finish(lease: &Lease, status: Status) -> Result<Retired> {
    // SAFETY: only the operation uses the lease, by this function's contract.
    let message = unsafe { lease.message.get().read() };
    let has_come = matches!(status, Status::OK | Status::MESSAGE_TRUNCATED);
    if let (true, Some(recv_info)) =
        // SAFETY: null, or the caller's variable, which is valid until the operation is complete
        // for the caller; it is not yet.
        (has_come && message.length.is_none(), unsafe { message.recv_info.as_mut() })
    {
        *recv_info = message.info;
    }
    if status != Status::OK {
        return lease.abort(null_mut());
    }
    let length = message.length.unwrap_or(message.info.length);
    match lease.commit(length, null_mut()) {
        // The hub was destroyed, so there is no queue.
        Err(error) if error.status() == closed().status() => lease.abort(null_mut()),
        ended => ended,
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, request: *mut Slot, status: i32) {
    let lease: *const Lease = arg.cast_const().cast();
    // SAFETY: `hand_over` passed the lease, which the completed operation owns.
    let message = unsafe { (*lease).message.get().read() };
    // SAFETY: the operation owns the lease, and has completed.
    let retired = unsafe { finish(&*lease, Status(status)) };
    // SAFETY: UCX's request is valid during this call, and the callback is the caller's.
    unsafe {
        if let (true, Some(slot)) = (message.notified, request.as_ref()) {
            slot.callback_arg.set(message.arg);
        }
        if let Some(callback) = message.callback {
            callback(message.arg, request, status);
        }
    }
    drop(retired);
}
