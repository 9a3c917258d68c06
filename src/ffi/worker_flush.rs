//! Flush and fence of a worker.

use super::guard;
use super::handle::{self, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;

/// Flushes the worker: completes after every send that was submitted to the worker before it. This
/// is an operation.
///
/// - Rendezvous sends are included. Posted receives are not.
/// - For the end of the process it promises as little as ucxx_endpoint_flush.
/// - Its status is the first error of those sends that have neither request nor callback.
///
/// Returns:
/// - Any status of an operation: see "Operations" at the top of this file.
/// - The first error of such sends.
///
/// Threads: any.
/// See also: ucxx_endpoint_flush, ucxx_worker_fence.
///
/// # Safety
/// A worker of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_flush(
    worker: *mut ucxx_worker_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { submit(params, request, |params, out| handle::get(worker)?.flush(params, out)) }
}

/// Orders puts, gets and atomic operations: those before the fence complete before those after it
/// start.
///
/// They also complete before messages that are sent after the fence. Messages of one endpoint are
/// in order without a fence.
///
/// - If such operations are in flight, the call waits like a flush of the worker. So it waits for
///   sends too, and returns the status of the flush.
/// - If they completed inside their calls, or if there are none, it does not wait.
///
/// Returns:
/// - UCXX_OK: the order is established.
/// - UCXX_ERR_BUSY: called in a callback, and it would have to wait.
/// - Any status of ucxx_worker_flush.
///
/// Threads: any.
/// See also: ucxx_worker_flush.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_fence(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(worker) }?.fence().map(|()| Status::OK))
}
