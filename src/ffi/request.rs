//! Requests: looking, waiting, cancelling, letting go.

use super::guard::{self, Explained};
use super::handle::{self, null, place, ucxx_request_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::request::{self, Slot};
use crate::engine::core::worker::request_wait;
use std::ffi::c_char;

/// What a receive tells of its message.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_recv_info {
    /// Bytes of the message, also when it did not fit.
    pub length: u64,
    /// The tag it was sent with.
    pub sender_tag: u64,
    /// Zero.
    pub reserved: [u64; 2],
}
/// What a receive tells of its message.
pub type ucxx_recv_info_t = ucxx_recv_info;

/// A list of requests longer than this is not one.
const MOST_REQUESTS: usize = 1 << 28;

/// INPROGRESS until the operation has completed, then its status. Any thread. In a callback of the
/// request it is the final one already.
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

/// A failure that a request reports is the calling thread's last error from then on.
#[inline]
fn explained(slot: Option<&Slot>, status: Status) -> Explained {
    if !status.is_error() {
        return Explained(status);
    }
    guard::explain(status, &slot.map_or(c"", Slot::error_message).to_string_lossy())
}

/// Waits until the operation has completed and its callback has returned: its status. Progresses
/// the worker meanwhile. The request stays the caller's.
///
/// INPROGRESS when `timeout_ns` ran out first (0 polls once, UINT64_MAX waits without end): the
/// operation goes on, and its buffer is in use. INPROGRESS is positive, so `status < 0` does not
/// notice it. Neither a signal handler nor ucxx_worker_signal ends a wait: a program that looks at
/// its signals waits with a timeout, again and again. BUSY from a callback, unless the operation is
/// over already.
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

/// Waits for all of them: the first error in the order of the list, after all have completed, or
/// OK; INPROGRESS when the time ran out first. NULL entries are skipped; NO_ELEM when there are no
/// others, as for a `count` of 0. The requests stay the caller's.
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

/// Waits for one of them: its status, with its position in `*index`; INPROGRESS when the time ran
/// out first. NULL entries are skipped; NO_ELEM when there are no others. Requests of workers in
/// manual progress must be of one worker.
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
        return Err(Error::invalid(format!("count: {count} requests cannot be")));
    }
    // SAFETY: pointers that are NULL or valid, which is what Option<&Slot> is; the caller keeps the
    // list during the call.
    Ok(unsafe { std::slice::from_raw_parts(requests.cast(), count) })
}

/// Asks for the operation to end. At once that does so for what is still in the library's hands:
/// operations in the submission or send queue, tag receives that nothing has matched, stream
/// receives, fetches whose answer has not begun to arrive, flushes. A close goes on by force. What
/// UCX has taken, the pull of an active message included, ends as it will: a large send when the
/// peer has received it, or its endpoint is closed by force. The completion tells what became of
/// it, and that the buffer is free: CANCELED if this did it. OK also when it has completed already.
/// Under SINGLE, on the worker's own thread.
///
/// # Safety
/// NULL (refused) or a request of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_request_cancel(request: *mut ucxx_request_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(request) }?.cancel().map(|()| Status::OK))
}

/// What a receive that has completed tells of its message; INPROGRESS before. INVALID_PARAM for a
/// request that receives nothing. Any thread.
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

/// Operation, peer and cause of a failure; empty for anything but a failure. Never NULL; valid
/// until the request is destroyed. Any thread.
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

/// Lets go of the request. One that is in progress is detached, not cancelled: its buffer stays in
/// use, and its callback still runs, with request NULL. To have the buffer back:
/// ucxx_request_cancel, ucxx_request_wait, and then this. In the request's own callback it is
/// allowed. NULL is ignored. Any thread.
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
