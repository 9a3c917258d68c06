//! Cancelling all operations of a worker or an endpoint.

use super::guard;
use super::handle::{self, ucxx_endpoint_t, ucxx_worker_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Result, Status};

/// Cancels every operation of the worker that is in flight, each as by ucxx_request_cancel.
///
/// This includes receives, operations of all endpoints, those whose request was destroyed, and
/// closes, which continue by force. Operations in the submission queue and in send queues are
/// included, too. The completions follow as usual: callbacks run while the worker makes progress.
///
/// - `count`: optional. The number of operations that were asked to end. Some of them may still
///   complete with UCXX_OK. Transfers of hub links are not cancelled, but those that UCX has are
///   counted. The call then waits for the progress thread, if there is one. With NULL it does not.
///
/// Returns:
/// - UCXX_OK: the end is requested, and `*count` is set.
/// - UCXX_ERR_BUSY: `count` is not NULL, and the call is in a callback on another thread: see
///   "Callbacks" at the top of this file.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// Callbacks: allowed.
/// See also: ucxx_request_cancel, ucxx_endpoint_cancel_all, ucxx_worker_query_stats.
///
/// # Safety
/// A worker of this library; `count` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_cancel_all(
    worker: *mut ucxx_worker_t,
    count: *mut usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker) }?;
        if count.is_null() {
            return worker.post_cancel_all().map(|()| Status::OK);
        }
        // SAFETY: as above.
        unsafe { tell(count, worker.cancel_all()?) }
    })
}

/// Cancels every operation of the endpoint that is in flight, each as by ucxx_request_cancel.
///
/// These are its sends, flushes, fetches, puts, gets and atomic operations, its close, and receives
/// that name it in `source`. In all other respects it is ucxx_worker_cancel_all. An endpoint that
/// has ended has no operations.
///
/// Returns:
/// - UCXX_OK: the end is requested, and `*count` is set.
/// - UCXX_ERR_BUSY: as for ucxx_worker_cancel_all.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// Callbacks: allowed.
/// See also: ucxx_worker_cancel_all, ucxx_endpoint_close.
///
/// # Safety
/// An endpoint of this library; `count` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_cancel_all(
    endpoint: *mut ucxx_endpoint_t,
    count: *mut usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        if count.is_null() {
            return endpoint.post_cancel_all().map(|()| Status::OK);
        }
        // SAFETY: as above.
        unsafe { tell(count, endpoint.cancel_all()?) }
    })
}

/// # Safety
/// `place` is valid for a write.
unsafe fn tell(place: *mut usize, count: usize) -> Result<Status> {
    // SAFETY: as for this function.
    unsafe { place.write(count) };
    Ok(Status::OK)
}
