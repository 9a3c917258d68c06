//! Tag messages straight into and out of envelopes.
//!
//! The operation holds a lease until it has ended: a commit if that went well, an abort if it did
//! not. Its own callback sees to that, before the caller's runs or a notifier reports, so that
//! whoever learns of the end finds the chunk in the queue, or gone from it.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, Callback, OpParams, RecvInfo, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::Worker;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::link::{closed, Link};
use crate::engine::hub::records::Role;
use crate::engine::hub::wait::Retired;
use crate::engine::messaging::tag::tag::Mode;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a lease knows of the operation that holds it.
#[derive(Clone, Copy)]
pub(crate) struct Message {
    /// The caller's, with its argument, which is also what a notifier reports.
    callback: Option<Callback>,
    arg: *mut c_void,
    notified: bool,
    /// Bytes to send; those that have come are in `info`.
    length: Option<u64>,
    info: RecvInfo,
    /// The caller's.
    told: *mut RecvInfo,
}

impl Message {
    pub(crate) const NONE: Message = Message {
        callback: None,
        arg: null_mut(),
        notified: false,
        length: None,
        info: RecvInfo { length: 0, sender_tag: 0, reserved: [0; 2] },
        told: null_mut(),
    };
}

impl Link {
    /// Receives a message into an envelope, and makes it a chunk.
    ///
    /// # Safety
    /// As for `Worker::tag_recv`, but for the buffer.
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
            // SAFETY: as for this function; the lease keeps the buffer.
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
        // SAFETY: as for this function.
        unsafe { hand_over(lease, None, params, submit) }
    }

    /// Sends the oldest chunk, which is consumed when it has been sent.
    ///
    /// # Safety
    /// As for `Endpoint::tag_send`, but for the buffer.
    pub unsafe fn send(
        &self,
        endpoint: &Endpoint,
        tag: u64,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let worker = self.worker(Role::Consume, "consumes")?;
        if !Arc::ptr_eq(worker, &endpoint.worker) {
            return Err(Error::invalid("endpoint: is of another worker than the hub's"));
        }
        params.check(&worker.context, "tag send", flag::NO_WAIT)?;
        let lease = self.lease_for_message()?;
        let view = lease.view()?;
        let submit = |params: &OpParams| {
            // SAFETY: as for this function; the lease keeps the buffer.
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
        // SAFETY: as for this function.
        unsafe { hand_over(lease, Some(view.length), params, submit) }
    }

    fn worker(&self, role: Role, does: &str) -> Result<&Arc<Worker>> {
        if self.seeker.role != role {
            return Err(Error::invalid(format!("link: is not one that {does}")));
        }
        self.hub
            .worker
            .as_ref()
            .ok_or_else(|| Error::invalid("link: its hub was made without a worker"))
    }

    fn lease_for_message(&self) -> Result<&Lease> {
        self.check_network()?;
        let Some(lease) = self.lease_settled()? else {
            let text = match self.seeker.role {
                Role::Consume => "link: there is no chunk to send at the moment",
                _ => "link: there is no empty envelope at the moment, or the hub's queue is full",
            };
            return Err(Error::new(Status::NO_RESOURCE, text));
        };
        // SAFETY: leased a moment ago; nobody else knows of it, and the hub stays as long as it
        // lasts.
        Ok(unsafe { &*lease })
    }
}

/// Begins the operation, with the lease in its hands.
///
/// # Safety
/// What `params` points to is as its fields say.
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
        told: params.recv_info,
        ..Message::NONE
    };
    let place = lease.message.get();
    // SAFETY: the lease is this operation's alone.
    unsafe { place.write(message) };
    let mut own = *params;
    own.memory_type = lease.view()?.kind.to_network();
    // SAFETY: a field of a slot of the hub's, which stays as long as the lease.
    own.recv_info = if length.is_none() { unsafe { &raw mut (*place).info } } else { null_mut() };
    if params.flags & flag::WAIT == 0 {
        own.callback = Some(on_ended);
        own.callback_arg = std::ptr::from_ref(lease).cast_mut().cast();
        if length.is_none() {
            // One that ends inside its call would become a chunk before those whose messages were
            // complete earlier, and whose callbacks wait.
            own.flags |= flag::ALWAYS_CALLBACK;
        }
    }
    let submitted = submit(&own);
    let status = match &submitted {
        // From here on it is the callback's.
        Ok(Submitted::Pending) => return submitted,
        Ok(Submitted::Done) => Status::OK,
        Err(error) => error.status(),
    };
    // SAFETY: as above: the operation has ended inside its call, or was not begun.
    let retired = unsafe { finish(lease, status) };
    drop(retired);
    submitted
}

/// The lease ends as the operation has. The lease's slot may be another one's when this returns.
///
/// # Safety
/// The operation has the lease, and has ended.
unsafe fn finish(lease: &Lease, status: Status) -> Result<Retired> {
    // SAFETY: as for this function.
    let message = unsafe { lease.message.get().read() };
    let has_come = matches!(status, Status::OK | Status::MESSAGE_TRUNCATED);
    if let (true, Some(told)) =
        // SAFETY: the caller's, valid until the operation has completed, which it has not for the
        // caller.
        (has_come && message.length.is_none(), unsafe { message.told.as_mut() })
    {
        *told = message.info;
    }
    if status != Status::OK {
        return lease.abort(null_mut());
    }
    let length = message.length.unwrap_or(message.info.length);
    match lease.commit(length, null_mut()) {
        // The hub has been destroyed: there is no queue any more.
        Err(error) if error.status() == closed().status() => lease.abort(null_mut()),
        ended => ended,
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, request: *mut Slot, status: i32) {
    let lease: *const Lease = arg.cast_const().cast();
    // SAFETY: the argument of `hand_over`: a lease that is the operation's, which has ended.
    let message = unsafe { (*lease).message.get().read() };
    // SAFETY: as above.
    let retired = unsafe { finish(&*lease, Status(status)) };
    // SAFETY: the request is valid during the call, and the callback the caller's own.
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
