//! Requests: status, wait, cancel, destroy.

use super::guard::{self, Explained};
use super::handle::{self, null, place, ucxx_request_t};
use super::status::ucxx_status_t;
use super::text_out;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::request::{self, Slot};
use crate::engine::core::worker::request_wait;
use std::ffi::c_char;

/// Information on a received message.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_recv_info {
    /// Bytes of the message, also when it did not fit.
    pub length: u64,
    /// The tag with which the message was sent.
    pub sender_tag: u64,
    /// Zero.
    pub reserved: [u64; 2],
}
/// Information on a received message.
pub type ucxx_recv_info_t = ucxx_recv_info;

/// A longer list of requests is refused.
const MOST_REQUESTS: usize = 1 << 28;

/// Returns the status of the operation, without waiting and without progress.
///
/// Returns:
/// - UCXX_INPROGRESS: the operation is in progress, or its callback has not returned.
/// - Any other value: the final status. The request's own callback already gets this one.
///
/// Threads: any.
/// See also: ucxx_request_wait, ucxx_request_error_message.
///
/// # Safety
/// NULL (INVALID_PARAM) or a request of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_status(request: *const ucxx_request_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    if let Some(status) = unsafe { request.cast::<Slot>().as_ref() }.and_then(Slot::status_fast) {
        return status.0;
    }
    // SAFETY: as above.
    unsafe { status(request) }
}

/// # Safety
/// As for `ucxx_request_status`.
#[inline(never)]
unsafe extern "C" fn status(request: *const ucxx_request_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let slot = unsafe { handle::get(request) }?;
        slot.check_fork()?;
        Ok(explained(Some(slot), slot.status()))
    })
}

/// Makes the failure of a request the calling thread's last error.
#[inline]
fn explained(slot: Option<&Slot>, status: Status) -> Explained {
    if !status.is_error() {
        return Explained(status);
    }
    guard::explain(status, &slot.map_or(c"", Slot::error_message).to_string_lossy())
}

/// Waits until the operation has completed and its callback has returned.
///
/// `timeout_ns` is in nanoseconds: 0 polls once, and UINT64_MAX waits without a limit. Under manual
/// progress the call makes progress. Signal handlers and ucxx_worker_signal do not end the wait. A
/// program that has to react to signals waits with a timeout, in a loop.
///
/// Returns:
/// - UCXX_INPROGRESS: `timeout_ns` expired first. The operation continues, and its buffer is in
///   use. This value is positive, so `status < 0` does not detect it.
/// - UCXX_ERR_BUSY: called in a callback, and the operation has not completed.
/// - Any other value: the final status of the operation.
///
/// Threads: any.
/// Ownership: the request stays the caller's.
/// See also: ucxx_request_wait_all, ucxx_request_wait_any, ucxx_request_cancel.
///
/// # Safety
/// NULL (refused) or a request of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_wait(
    request: *mut ucxx_request_t,
    timeout_ns: u64,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let slot = unsafe { handle::get(request) }?;
        Ok(explained(Some(slot), slot.wait(timeout_ns)?))
    })
}

/// Waits until all requests of the list have completed.
///
/// NULL entries are skipped. `timeout_ns` is as for ucxx_request_wait.
///
/// Returns:
/// - UCXX_OK: all have completed with UCXX_OK.
/// - UCXX_INPROGRESS: `timeout_ns` expired first.
/// - UCXX_ERR_NO_ELEM: `count` is 0, or all entries are NULL.
/// - UCXX_ERR_BUSY: called in a callback, and one has not completed.
/// - Any other value: all have completed, and this is the first error in the order of the list.
///
/// Threads: any.
/// Ownership: the requests stay the caller's.
///
/// # Safety
/// `requests` is readable for `count` entries, each NULL or a request of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_wait_all(
    requests: *const *mut ucxx_request_t,
    count: usize,
    timeout_ns: u64,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let list = unsafe { list(requests, count) }?;
        let status = request_wait::wait_all(list, timeout_ns)?;
        let failed =
            list.iter().flatten().find(|slot| status.is_error() && slot.status() == status);
        Ok(explained(failed.copied(), status))
    })
}

/// Waits until one request of the list has completed, and stores its position in `*index`.
///
/// NULL entries are skipped. `timeout_ns` is as for ucxx_request_wait. Requests of workers with
/// manual progress must be of one worker.
///
/// Returns:
/// - UCXX_INPROGRESS: `timeout_ns` expired first. `*index` is not set.
/// - UCXX_ERR_NO_ELEM: `count` is 0, or all entries are NULL.
/// - UCXX_ERR_INVALID_PARAM: the requests are of several workers, and one of them has manual
///   progress.
/// - UCXX_ERR_BUSY: called in a callback, and none has completed.
/// - Any other value: the status of the request at `*index`.
///
/// Threads: any.
/// Ownership: the requests stay the caller's.
///
/// # Safety
/// As for `ucxx_request_wait_all`; `index` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_wait_any(
    requests: *const *mut ucxx_request_t,
    count: usize,
    timeout_ns: u64,
    index: *mut usize,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (list, place) = unsafe { (list(requests, count)?, place(index, "index")?) };
        let Some((position, status)) = request_wait::wait_any(list, timeout_ns)? else {
            return Ok(Explained(Status::INPROGRESS));
        };
        place.write(position);
        Ok(explained(list[position], status))
    })
}

/// # Safety
/// As for `ucxx_request_wait_all`.
unsafe fn list<'a>(
    requests: *const *mut ucxx_request_t,
    count: usize,
) -> Result<&'a [Option<&'a Slot>]> {
    if count == 0 {
        return Ok(&[]);
    }
    if requests.is_null() {
        return Err(null("requests"));
    }
    if count > MOST_REQUESTS {
        return Err(Error::invalid(format!("count: {count} requests do not fit into any memory")));
    }
    // SAFETY: each entry is NULL or valid, as Option<&Slot> requires. The caller keeps the list
    // during the call.
    Ok(unsafe { std::slice::from_raw_parts(requests.cast(), count) })
}

/// Requests the end of the operation. Its completion reports the result, and that the buffer is
/// free.
///
/// - These end at once with UCXX_ERR_CANCELED: operations in the submission queue or send queue,
///   tag receives without a matching message, stream receives, flushes, and fetches whose reply has
///   not begun to arrive.
/// - A close continues by force.
/// - An operation that UCX already owns ends in its own time, and so does the pull of an active
///   message. A large send, for example, ends when the peer has received it, or when the endpoint
///   is closed by force.
///
/// Returns:
/// - UCXX_OK: the end is requested, or the operation has completed already.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// See also: ucxx_request_wait, ucxx_request_destroy.
///
/// # Safety
/// NULL (refused) or a request of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_request_cancel(request: *mut ucxx_request_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(request) }?.cancel().map(|()| Status::OK))
}

/// Returns the information on the message of a completed receive.
///
/// Returns:
/// - UCXX_OK: `*info` is filled.
/// - UCXX_INPROGRESS: the operation has not completed.
/// - UCXX_ERR_INVALID_PARAM: the request is not a receive.
///
/// Threads: any.
///
/// # Safety
/// NULL (refused) or a request of this library; `info` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_recv_info(
    request: *const ucxx_request_t,
    info: *mut ucxx_recv_info_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (slot, place) = unsafe { (handle::get(request)?, place(info, "info")?) };
        let info = slot.recv_info()?;
        place.write(ucxx_recv_info {
            length: info.length,
            sender_tag: info.sender_tag,
            reserved: info.reserved,
        });
        Ok(Status::OK)
    })
}

/// Returns the explanation of a failed operation: operation, peer and cause.
///
/// Returns: a string, never NULL, valid until the request is destroyed. It is empty if the
/// operation has not failed.
///
/// Threads: any.
/// See also: ucxx_error_text.
///
/// # Safety
/// NULL or a request of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_request_error_message(
    request: *const ucxx_request_t,
) -> *const c_char {
    guard::quietly(c"".as_ptr(), || {
        // SAFETY: as for this function.
        unsafe { handle::get(request) }.map_or(c"".as_ptr(), |slot| slot.error_message().as_ptr())
    })
}

/// Writes what UCX says of the operation into `text`: length, protocol, transports.
///
/// The worker has to be created with `describe_requests`. The text is UCX's own, from the moment at
/// which UCX had begun the operation, so it differs between releases of UCX. It is terminated.
/// `capacity` is in bytes, and 1024 are always sufficient. UCX describes tag messages, and what is
/// sent by streams, active messages, puts and gets. Otherwise the text is one of these:
///
/// - "completed at once": UCX kept no request that it could have described.
/// - "waits in the library: UCX does not have it yet".
/// - "ended before UCX had begun it".
/// - "UCX does not describe this operation": it consists of other operations, such as a fetch or a
///   flush, or this release of UCX has no text. Releases before 1.16 have none of streams, puts and
///   gets.
///
/// Returns:
/// - UCXX_OK: `text` is written.
/// - UCXX_ERR_UNSUPPORTED: the worker was created without `describe_requests`.
/// - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
///
/// Threads: any.
/// See also: ucxx_worker_dump, ucxx_request_error_message.
///
/// # Safety
/// A request of this library; `text` is writable for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_request_describe(
    request: *const ucxx_request_t,
    text: *mut c_char,
    capacity: usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let slot = unsafe { handle::get(request) }?;
        // SAFETY: as above.
        unsafe { handle::place(text, "text") }?;
        let description = slot.description()?;
        // SAFETY: as above.
        unsafe { text_out::write(&description, text, capacity) }
    })
}

/// Releases the request.
///
/// If the operation is in progress, it is detached, not cancelled: its buffer stays in use, and its
/// callback runs later, with a NULL request. To get the buffer back, call ucxx_request_cancel, then
/// ucxx_request_wait, and then this function. NULL is ignored.
///
/// Threads: any.
/// Callbacks: allowed in the request's own callback.
/// See also: ucxx_request_cancel.
///
/// # Safety
/// NULL or a request of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_request_destroy(request: *mut ucxx_request_t) {
    // SAFETY: as for this function.
    let gone = unsafe { request.cast::<Slot>().as_ref().is_none_or(|slot| slot.destroy_fast()) };
    if !gone {
        // SAFETY: as for this function.
        guard::quietly((), || unsafe { request::destroy(request.cast()) });
    }
}
