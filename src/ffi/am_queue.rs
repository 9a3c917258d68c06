//! The queue form of active messages.

use super::buffers::{self, ucxx_allocator_t};
use super::guard;
use super::handle::{self, place, ucxx_endpoint_t, ucxx_request_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use crate::engine::status::Status;
use std::ffi::c_void;

/// Sends a message that waits in a queue of the peer's endpoint until it is received there: by ucxx_am_queue_recv, or by UCXX 0.52's amRecv, whose
/// format it has. Completion is local, as of ucxx_am_send; UCXX_FLAG_EAGER and UCXX_FLAG_RNDV as there. There is no credit: as with UCXX, what nobody receives waits at
/// the receiver without bound. Messages of one thread on one endpoint stay in order as long as all go eagerly or all by rendezvous.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_AM.
///
/// # Safety
/// `buffer` is readable for `length` bytes until the operation has completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_queue_send(
    endpoint: *mut ucxx_endpoint_t,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(buffer, length as u64, "buffer")?;
            endpoint.am_queue_send(buffer, length, params, out)
        })
    }
}

/// Receives the oldest message in the endpoint's queue, or the next one that comes, into one buffer that `allocator` makes (NULL: malloc, and its limits): taken by
/// ucxx_request_take_buffers. Receives get messages in the order in which they were posted. Never OK inside the call. `recv_info.length` is the message's length.
///
/// The peer is one that uses ucxx_am_queue_send, or UCXX: its messages for receiver callbacks are dropped, and counted in `am_unhandled`. A cancelled receive, or one
/// out of time, takes no message; one whose data has begun to be pulled goes on. It ends with its endpoint, and so does what waits in the queue.
/// Errors: INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor callback. As its status: EXCEEDS_LIMIT for a message beyond
/// `max_total_bytes`, or the allocator's; the message is dropped then.
///
/// # Safety
/// See `ucxx_op_params_t`; `allocator` is NULL or as it says.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_queue_recv(
    endpoint: *mut ucxx_endpoint_t,
    allocator: *const ucxx_allocator_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            buffers::check_taker(params, request)?;
            endpoint.am_queue_recv(buffers::allocator(allocator)?, params, out)
        })
    }
}

/// Is a message waiting in the endpoint's queue that nobody has received? OK and its length, or NO_MESSAGE. It makes no progress. Any thread; `length` is optional.
///
/// # Safety
/// An endpoint of this library; `length` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_queue_probe(endpoint: *const ucxx_endpoint_t, length: *mut usize) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint.cast_mut())? };
        endpoint.check_fork()?;
        let Some(waiting) = endpoint.am_queue_probe() else {
            return Ok(Status::NO_MESSAGE);
        };
        if !length.is_null() {
            // SAFETY: as for this function.
            unsafe { place(length, "length")?.write(waiting as usize) };
        }
        Ok(Status::OK)
    })
}
