//! Stream transfer.

use super::handle::{self, ucxx_endpoint_t, ucxx_request_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use std::ffi::c_void;

/// Sends bytes behind those that this endpoint has sent before. The peer receives them from its end
/// of the connection, in whatever pieces it likes.
///
/// Completion is local, as of `ucxx_tag_send`. One that fails may have sent a part: what follows it
/// would not be in its place, and there is nothing left to do with the endpoint but to close it. No
/// bytes: nothing is sent; complete inside the call, but where it goes through the queue of a
/// progress thread.
///
/// What the peer has not received waits there without bound.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_STREAM, which both sides need; CLOSED, PEER_FAILED and
/// the like on an endpoint that has ended.
///
/// # Safety
/// `buffer` is readable for `length` bytes until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_stream_send(
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
            endpoint.stream_send(buffer, length, params, out)
        })
    }
}

/// Receives the next `length` bytes of what the peer sends on its end; with
/// UCXX_FLAG_STREAM_PARTIAL as many of them as have arrived, at least one, but for a `length` of 0.
/// `recv_info.length` tells how many, also where it did not end well.
///
/// Receives of one endpoint are filled in the order in which they were posted, and end with it.
/// Cancelled or timed out, one ends at once, and what it has taken already is gone from the stream:
/// `recv_info.length` bytes, in its buffer. What was sent before the peer closed can be received
/// after that; then it is CONNECTION_RESET. What was not received when the peer failed is lost.
///
/// The library copies: `buffer` is memory of the host (AUTO is taken for that), else UNSUPPORTED.
///
/// # Safety
/// `buffer` is writable for `length` bytes until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_stream_recv(
    endpoint: *mut ucxx_endpoint_t,
    buffer: *mut c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(buffer, length as u64, "buffer")?;
            endpoint.stream_recv(buffer, length, params, out)
        })
    }
}
