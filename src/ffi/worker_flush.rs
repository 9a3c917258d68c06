//! The order of a worker's operations: flush and fence.

use super::guard;
use super::handle::{self, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;

/// An operation that completes after every send submitted to the worker before it, rendezvous sends
/// included, with the first error of those that kept neither request nor callback. Posted receives
/// are not waited for.
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

/// Orders the puts, gets and atomic operations that come after behind those that came before, and
/// before messages that come after. Messages of one endpoint are in order by themselves. Where such
/// operations are under way it waits as a flush of the worker does, which waits for sends as well,
/// and reports what that would: so BUSY in a callback; where they are done in the call, or there
/// are none, it waits for nothing.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_fence(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(worker) }?.fence().map(|()| Status::OK))
}
