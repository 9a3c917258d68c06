//! A stream's places, each with the lease and the transfer of one chunk, and messages that have
//! arrived and were not read yet.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::stream::stream::HubStream;
use crate::engine::messaging::am::send::Front;
use crate::engine::wire::header;
use crate::engine::wire::hub_stream::{StreamHeader, Tells};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;

/// A received message, released on drop.
pub(crate) struct Mail {
    message: *mut Message,
    pub(crate) header: StreamHeader,
}

// SAFETY: any thread may use and destroy a message.
unsafe impl Send for Mail {}

impl Mail {
    pub(crate) fn new(message: *mut Message) -> Self {
        Mail { message, header: StreamHeader::new(Tells::Close, 0, 0) }
    }

    pub(crate) fn with(mut self, header: StreamHeader) -> Self {
        self.header = header;
        self
    }

    pub(crate) fn message(&self) -> &Message {
        // SAFETY: we own the message; only drop destroys it.
        unsafe { &*self.message }
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // SAFETY: we own the message, and it is destroyed once.
        unsafe { message::destroy(self.message) };
    }
}

/// A chunk in transfer: the lease on its envelope, and the transfer's status.
pub(crate) struct Place {
    stream: Cell<*const HubStream>,
    pub(crate) lease: Cell<*const Lease>,
    pub(crate) length: Cell<u64>,
    /// INPROGRESS while UCX uses the envelope.
    status: AtomicI32,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place {
            stream: Cell::new(null()),
            lease: Cell::new(null()),
            length: Cell::new(0),
            status: AtomicI32::new(Status::OK.0),
        }
    }

    pub(crate) fn belongs_to(&self, stream: &Arc<HubStream>) {
        self.stream.set(Arc::as_ptr(stream));
    }

    /// Stores a lease.
    pub(crate) fn hold(&self, lease: *const Lease) {
        self.lease.set(lease);
        self.status.store(Status::OK.0, Ordering::Relaxed);
    }

    /// Status of the transfer; `None` while it is in progress.
    pub(crate) fn outcome(&self) -> Option<Status> {
        let status = Status(self.status.load(Ordering::Acquire));
        (status != Status::INPROGRESS).then_some(status)
    }

    /// Ends the lease, if there is one. Returns true if it was committed; a destroyed hub accepts
    /// no commit.
    pub(crate) fn end(&self, commit: bool) -> bool {
        // SAFETY: null, or a lease of this stream, which only the stream ends; the hub outlives it.
        let Some(lease) = (unsafe { self.lease.replace(null()).as_ref() }) else { return false };
        let committed = commit && lease.commit(self.length.get(), null_mut()).map(drop).is_ok();
        if !committed {
            drop(lease.abort(null_mut()));
        }
        committed
    }
}

impl HubStream {
    /// Starts the place's transfer, which keeps the stream alive until it has ended.
    pub(crate) fn begin(
        &self,
        place: &Place,
        submit: impl FnOnce(&OpParams) -> Result<Submitted>,
    ) -> Result<()> {
        place.status.store(Status::INPROGRESS.0, Ordering::Relaxed);
        let arg = std::ptr::from_ref(place).cast_mut().cast();
        let params = OpParams { callback: Some(on_ended), callback_arg: arg, ..OpParams::DEFAULT };
        // SAFETY: streams are created only in `connect`, inside an `Arc`, and the caller has a
        // reference.
        unsafe { Arc::increment_strong_count(std::ptr::from_ref(self)) };
        let submitted = submit(&params);
        if matches!(submitted, Ok(Submitted::Pending)) {
            return Ok(());
        }
        // SAFETY: takes back the increment above; the caller still has a reference.
        unsafe { Arc::decrement_strong_count(std::ptr::from_ref(self)) };
        let status = submitted.as_ref().map_or_else(Error::status, |_| Status::OK);
        place.status.store(status.0, Ordering::Release);
        submitted.map(drop)
    }
}

impl SharedEndpoint {
    /// Sends a message without a chunk.
    pub(crate) fn send_hub_header(&self, header: &StreamHeader) -> Result<Submitted> {
        // SAFETY: there is no data.
        unsafe { self.send_hub_message(&header.encode(), &[], &OpParams::DEFAULT) }
    }

    /// Sends a message of a stream, ahead of messages that wait for credit (`OWED`). That is safe:
    /// the other end has given credit for the chunks, and without the other messages it would wait
    /// without end. Fails only if the endpoint accepts nothing, and so is about to end.
    ///
    /// # Safety
    /// The data stays readable until the operation has completed.
    pub(crate) unsafe fn send_hub_message(
        &self,
        header: &[u8],
        data: &[Part],
        params: &OpParams,
    ) -> Result<Submitted> {
        let params = OpParams { flags: params.flags | flag::HUB | flag::OWED, ..*params };
        let front = Front { header, table: &[] };
        // SAFETY: the data stays readable by this function's contract; nothing is stored in `out`.
        unsafe { self.send_message(header::Kind::Message, 0, front, data, &params, Out::NOWHERE) }
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, status: i32) {
    // SAFETY: `begin` passed a place of a stream, whose reference count it incremented for this.
    let stream = unsafe {
        let place = &*arg.cast_const().cast::<Place>();
        let stream = Arc::from_raw(place.stream.get());
        place.status.store(status, Ordering::Release);
        stream
    };
    stream.schedule();
}
