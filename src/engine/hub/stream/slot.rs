//! What a stream has on its way: a place for each chunk, with the lease on its envelope; and what
//! it has been sent and has not read yet.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::Endpoint;
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

/// A message of the other end, which is given back when it has been read.
pub(crate) struct Mail {
    message: *mut Message,
    pub(crate) header: StreamHeader,
}

// SAFETY: a message may be used and destroyed on any thread.
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
        // SAFETY: ours until it is dropped.
        unsafe { &*self.message }
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // SAFETY: ours, once.
        unsafe { message::destroy(self.message) };
    }
}

/// A chunk on its way: the lease on its envelope, and what has become of the transfer.
pub(crate) struct Place {
    stream: Cell<*const HubStream>,
    pub(crate) lease: Cell<*const Lease>,
    pub(crate) length: Cell<u64>,
    /// INPROGRESS while UCX has the envelope.
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

    /// Takes a lease in.
    pub(crate) fn hold(&self, lease: *const Lease) {
        self.lease.set(lease);
        self.status.store(Status::OK.0, Ordering::Relaxed);
    }

    /// What the transfer has come to; none while it is under way.
    pub(crate) fn outcome(&self) -> Option<Status> {
        let status = Status(self.status.load(Ordering::Acquire));
        (status != Status::INPROGRESS).then_some(status)
    }

    /// Ends the lease, if there is one. Whether it has been committed: a hub that has been
    /// destroyed takes nothing in.
    pub(crate) fn end(&self, commit: bool) -> bool {
        // SAFETY: a lease of the stream's own, which nobody else ends; the hub outlives it.
        let Some(lease) = (unsafe { self.lease.replace(null()).as_ref() }) else { return false };
        let committed = commit && lease.commit(self.length.get(), null_mut()).map(drop).is_ok();
        if !committed {
            drop(lease.abort(null_mut()));
        }
        committed
    }
}

impl HubStream {
    /// Begins a transfer of the place's, which keeps the stream until it has ended.
    pub(crate) fn begin(
        &self,
        place: &Place,
        submit: impl FnOnce(&OpParams) -> Result<Submitted>,
    ) -> Result<()> {
        place.status.store(Status::INPROGRESS.0, Ordering::Relaxed);
        let arg = std::ptr::from_ref(place).cast_mut().cast();
        let params = OpParams { callback: Some(on_ended), callback_arg: arg, ..OpParams::DEFAULT };
        // SAFETY: streams are made in `connect` only, inside an `Arc`, which the caller has.
        unsafe { Arc::increment_strong_count(std::ptr::from_ref(self)) };
        let submitted = submit(&params);
        if matches!(submitted, Ok(Submitted::Pending)) {
            return Ok(());
        }
        // SAFETY: of a moment ago. The caller has another one.
        unsafe { Arc::decrement_strong_count(std::ptr::from_ref(self)) };
        let status = submitted.as_ref().map_or_else(Error::status, |_| Status::OK);
        place.status.store(status.0, Ordering::Release);
        submitted.map(drop)
    }
}

impl Endpoint {
    /// Sends what has no chunk with it.
    pub(crate) fn say_for_hub(&self, header: &StreamHeader) -> Result<Submitted> {
        // SAFETY: there is no data.
        unsafe { self.send_for_hub(&header.encode(), &[], &OpParams::DEFAULT) }
    }

    /// Sends a message about a stream. It is owed to the other end, whatever the user has waiting
    /// in the queue: chunks are no more than that has given credit for, and an end that missed any
    /// of the others would wait for ever. Refused only by an endpoint that takes nothing, and so
    /// will end.
    ///
    /// # Safety
    /// The data is readable until the operation has completed.
    pub(crate) unsafe fn send_for_hub(
        &self,
        header: &[u8],
        data: &[Part],
        params: &OpParams,
    ) -> Result<Submitted> {
        let params = OpParams { flags: params.flags | flag::HUB | flag::OWED, ..*params };
        let front = Front { header, table: &[] };
        // SAFETY: as for this function.
        unsafe { self.send_message(header::Kind::Message, 0, front, data, &params, Out::NOWHERE) }
    }
}

unsafe extern "C" fn on_ended(arg: *mut c_void, _request: *mut Slot, status: i32) {
    // SAFETY: the argument of `begin`: a place of a stream that was kept for this.
    let stream = unsafe {
        let place = &*arg.cast_const().cast::<Place>();
        let stream = Arc::from_raw(place.stream.get());
        place.status.store(status, Ordering::Release);
        stream
    };
    stream.stir();
}
