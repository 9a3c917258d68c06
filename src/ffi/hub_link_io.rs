//! Links and the network: messages and streams; and the descriptor for event loops.

use super::guard::{self, Answer};
use super::handle::{self, place, ucxx_endpoint_t, ucxx_link_t, ucxx_request_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;

/// Receives a tag message directly into an envelope of a producer link, and commits it as a chunk.
/// This is an operation.
///
/// - The hub needs a worker, on which the message is received. Tag matching is as for
///   ucxx_tag_recv.
/// - The envelope is leased before the call returns.
/// - The chunk has the length of the message. It is committed before the callback runs, the
///   notifier reports, or a thread that waits for the request returns.
/// - If the receive fails, the lease is aborted. A message longer than the envelope is such a
///   failure.
/// - Chunks are queued in the order in which their messages complete. A short message may overtake
///   an earlier long one.
/// - `params->memory_type` is ignored. Everything else is as for ucxx_tag_recv.
///
/// Returns:
/// - UCXX_INPROGRESS: without UCXX_FLAG_WAIT it never completes inside the call.
/// - UCXX_ERR_NO_RESOURCE: no envelope is free, or the queue is full.
/// - UCXX_ERR_INVALID_PARAM: the link is no producer, or the hub has no worker.
/// - UCXX_ERR_CLOSED: the hub is closed.
/// - UCXX_ERR_STARVED: as for ucxx_link_lease.
/// - UCXX_ERR_BUSY: the link is connected.
/// - UCXX_ERR_UNSUPPORTED: UCX has no support for the link's memory.
/// - Any status of ucxx_tag_recv.
///
/// Threads: any.
/// See also: ucxx_link_send, ucxx_link_connect, ucxx_tag_recv.
///
/// # Safety
/// A link of this library; the rest as for `ucxx_tag_recv`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_recv(
    produce_link: *mut ucxx_link_t,
    tag: u64,
    tag_mask: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            handle::get(produce_link.cast_const())?.recv(tag, tag_mask, params, out)
        })
    }
}

/// Sends the oldest chunk of a consumer link as a tag message, directly from its envelope, and
/// consumes it. This is an operation.
///
/// - The endpoint must be of the hub's worker.
/// - The chunk is consumed when the buffer is free again. This is before the callback runs, the
///   notifier reports, or a thread that waits for the request returns.
/// - If the send fails, the lease is aborted, and the chunk is available again.
/// - The metadata is not sent.
/// - `params->memory_type` is ignored. Everything else is as for ucxx_tag_send.
///
/// Returns:
/// - UCXX_ERR_NO_RESOURCE: there is no chunk at the moment.
/// - UCXX_ERR_CLOSED: the hub is closed, and there will be no chunk; or the endpoint is closed.
/// - UCXX_ERR_INVALID_PARAM: the link is no consumer, the hub has no worker, or the endpoint is of
///   another worker.
/// - UCXX_ERR_STARVED, UCXX_ERR_IO_ERROR, UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_DEVICE: as for
///   ucxx_link_lease.
/// - UCXX_ERR_BUSY: the link is connected.
/// - UCXX_ERR_UNSUPPORTED: UCX has no support for the link's memory.
/// - Any status of ucxx_tag_send.
///
/// Threads: any.
/// See also: ucxx_link_recv, ucxx_link_connect, ucxx_tag_send.
///
/// # Safety
/// A link and an endpoint of this library; the rest as for `ucxx_tag_send`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_send(
    consume_link: *mut ucxx_link_t,
    endpoint: *mut ucxx_endpoint_t,
    tag: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let link = handle::get(consume_link.cast_const())?;
            link.send(handle::get(endpoint.cast_const())?, tag, params, out)
        })
    }
}

/// Connects a consumer link with a producer link of the peer, as one stream.
///
/// Every chunk here becomes a chunk there, in the same order and with its metadata. Both sides call
/// it, in any order. It returns at once. Until both have called it, the connected side leases
/// nothing.
///
/// - `endpoint`: leads to the worker of the other side's hub, and is of this hub's worker. Both
///   hubs need a worker.
/// - `stream_id`: the same at both sides. Two workers can have one stream of a number in each
///   direction at a time.
/// - `window`: how many chunks may be in transit; 1 to 65536. The smaller value of both sides
///   applies.
///
/// Progress: chunks move while both workers are progressed. The stream does its work in their
/// passes, including the callbacks of the hub.
///
/// Flow:
/// - The receiving side leases up to `window` envelopes in advance. Nothing is sent without one, so
///   a full hub makes the sender wait (`credit_stalls`).
/// - A chunk is consumed at the sender when it has become a chunk at the receiver.
/// - The envelopes of both sides may differ in size. A chunk that is too long for the receiver ends
///   the stream. Only the log reports this; the links at both ends then wait for another one.
///
/// End of the stream:
/// - When the sending hub is closed and empty, the receiving hub is closed. Its readers get
///   UCXX_ERR_CLOSED after the last chunk.
/// - A hub with several incoming streams is closed when all of them have ended so. A destroyed link
///   is not waited for. A link whose stream was interrupted is waited for until it is connected
///   again.
/// - ucxx_hub_drain of the closed sending hub waits until the peer has received the end. Then the
///   endpoint may be closed.
///
/// While a link is connected, leases through it return UCXX_ERR_BUSY, and its on_ready is not
/// called. The connection ends in these cases:
/// - The endpoint ends. Before on_close runs, chunks without acknowledgement are offered again to
///   the consumers of the sending hub, oldest first. The receiving hub then has a first part of
///   what was sent, and perhaps the first of these chunks. Connect again on another endpoint to
///   continue.
/// - The link or its hub is destroyed, or a receiving hub is closed. Then the stream ends in order:
///   no chunk is lost or doubled. The link at the other end waits for another one to be connected.
/// - The stream has ended.
///
/// Returns:
/// - UCXX_OK: the link is connected on this side.
/// - UCXX_ERR_INVALID_PARAM: the link peeks or modifies, the hub has no worker, the endpoint is of
///   another worker, or `window` is 0.
/// - UCXX_ERR_EXCEEDS_LIMIT: `window` is more than 65536.
/// - UCXX_ERR_BUSY: the link is connected already. Or it is called from a callback "on another
///   thread": see "Callbacks" at the top of this file.
/// - UCXX_ERR_ALREADY_EXISTS: a stream of this number and direction to this peer exists. After
///   ucxx_link_destroy it exists until the peer has received its end: progress, and try again.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_AM, or UCX has no support for the link's
///   memory.
/// - UCXX_ERR_CLOSED: the hub was destroyed.
/// - The status of the endpoint, if it has ended.
///
/// Threads: as for ucxx_am_send.
/// See also: ucxx_link_destroy, ucxx_hub_close, ucxx_hub_drain.
///
/// # Safety
/// A link and an endpoint of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_link_connect(
    link: *mut ucxx_link_t,
    endpoint: *mut ucxx_endpoint_t,
    stream_id: u64,
    window: u32,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (link, endpoint) =
            unsafe { (handle::get(link.cast_const())?, handle::share(endpoint)?) };
        link.connect(&endpoint, stream_id, window)?;
        Ok(Status::OK)
    })
}

/// Returns a descriptor of the link for the caller's event loop.
///
/// After ucxx_link_arm it becomes readable when a lease is available, or when none will be
/// available any more.
///
/// Returns:
/// - UCXX_OK: `*fd` is set.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system has no descriptor left.
///
/// Threads: any.
/// Ownership: the library owns the descriptor; do not close it.
/// See also: ucxx_link_arm.
///
/// # Safety
/// A link of this library; `fd` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_event_fd(link: *mut ucxx_link_t, fd: *mut i32) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let link = handle::get(link)?;
            let place = place(fd, "fd")?;
            place.write(link.event_fd()?);
        }
        Ok(Status::OK)
    })
}

/// Arms the link's descriptor: it becomes readable, once, when a lease is available.
///
/// Returns:
/// - UCXX_OK: armed; the caller may sleep.
/// - UCXX_ERR_BUSY: a lease is available now. Lease first, and do not sleep.
/// - UCXX_ERR_CLOSED: no lease will be available any more.
/// - UCXX_ERR_UNSUPPORTED, UCXX_ERR_IO_ERROR: as for ucxx_link_event_fd.
///
/// Threads: any, one at a time for a link.
/// See also: ucxx_link_event_fd, ucxx_link_lease.
///
/// # Safety
/// A link of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_arm(link: *mut ucxx_link_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let armed = unsafe { handle::get(link) }?.arm()?;
        Ok(if armed {
            Answer::OK
        } else {
            Answer(Status::BUSY, c"link: a lease can be had now; lease first, and do not sleep")
        })
    })
}
