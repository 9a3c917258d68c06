//! Stream transfer.

use super::handle::{self, ucxx_endpoint_t, ucxx_request_t};
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::inflight::Out;
use crate::engine::ucx::context::feature;
use std::ffi::c_void;

/// Sends bytes after those that this endpoint has sent before. This is an operation.
///
/// The peer receives them from its endpoint, in pieces of any size. `length` is in bytes.
///
/// - It completes locally, as ucxx_tag_send does.
/// - A send that fails may have sent a part of its bytes. Later bytes would be out of place, so
///   close the endpoint.
/// - With length 0 nothing is sent. The operation completes inside the call, unless it passes
///   through the queue of a progress thread.
/// - Bytes that the peer has not received wait there, without a limit.
///
/// Returns:
/// - Any status of an operation: see "Operations" at the top of this file. Both sides need
///   UCXX_FEATURE_STREAM.
///
/// Threads: any.
/// See also: ucxx_stream_recv.
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
        if let (Some(plain), Some(to), 1.., false) = (
            plain(params, length),
            endpoint.cast::<SharedEndpoint>().as_ref(),
            length,
            buffer.is_null(),
        ) {
            if let Some(quick) = to.fast_for(feature::STREAM) {
                let out = Out::new(request.cast());
                return plainly(quick.stream_send(to, buffer, length, plain, out));
            }
        }
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(buffer, length as u64, "buffer")?;
            endpoint.stream_send(buffer, length, params, out)
        })
    }
}

/// Receives the next `length` bytes that the peer sends on its endpoint. This is an operation.
///
/// With UCXX_FLAG_STREAM_PARTIAL it receives the bytes that have arrived: at least one, unless
/// `length` is 0. `recv_info.length` has the number of bytes, also after an error.
///
/// - Receives of one endpoint are filled in the order in which they were posted. They end with the
///   endpoint.
/// - A receive that is cancelled or times out ends at once. The bytes that it has taken are no
///   longer in the stream: they are the first `recv_info.length` bytes of its buffer.
/// - Bytes that were sent before the peer closed can be received after the close. Then receives
///   return UCXX_ERR_CONNECTION_RESET.
/// - If the peer fails, bytes that were not received are lost.
/// - The library copies, so the CPU must be able to write to `buffer`: HOST, CUDA_PINNED or
///   CUDA_MANAGED. With UCXX_MEMORY_AUTO, memory of a CUDA device is detected and refused. All
///   other memory is taken as host memory.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the CPU cannot write to `buffer`.
/// - Any status of an operation: see "Operations" at the top of this file. Both sides need
///   UCXX_FEATURE_STREAM.
///
/// Threads: any.
/// See also: ucxx_stream_send.
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
