//! Multi-buffer transfer.

use super::buffers::{self, ucxx_allocator_t};
use super::handle::{self, ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{parts, ucxx_buffer_t};

/// Sends several buffers (frames) as one transfer under one tag. This is an operation.
///
/// ucxx_tag_recv_multi receives them as one, and so does tagMultiRecv of UCXX 0.52: the bytes on
/// the wire are UCXX's. Headers announce the frames, which follow one by one. The call copies the
/// list, not the buffers.
///
/// - It completes locally: when all buffers may be reused. If a frame fails, the operation fails
///   when all others have ended.
/// - With `count` 0 it sends one header. UCXX does not complete the receive of it.
/// - Device memory needs its `memory_type`: UCXX_MEMORY_AUTO is announced as host memory.
/// - The endpoint sends nothing else in between. But a receiver cannot distinguish the frames from
///   messages of other endpoints under the same tag: see ucxx_tag_recv_multi.
/// - A send that is cancelled or times out continues if its first header has left.
///
/// Returns:
/// - UCXX_ERR_NO_RESOURCE: the send queue has no room for the first message and the bytes of all.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_TAG.
///
/// Threads: any.
/// See also: ucxx_tag_recv_multi, ucxx_am_send_multi.
///
/// # Safety
/// `buffers` is readable for `count` entries during the call, and what they name until the
/// operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_send_multi(
    endpoint: *mut ucxx_endpoint_t,
    buffers: *const ucxx_buffer_t,
    count: usize,
    tag: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            endpoint.tag_send_multi(&parts(buffers, count)?, tag, params, out)
        })
    }
}

/// Receives what ucxx_tag_send_multi, or tagMultiSend of UCXX 0.52, sends. This is an operation.
///
/// It receives as many buffers as were sent, and never completes inside the call. When the header
/// arrives, `allocator` makes the buffers. A NULL `allocator` means the library's own memory and
/// the default limits. Take the buffers with ucxx_request_take_buffers. `recv_info` has the bytes
/// of all buffers and the tag.
///
/// The wire format does not connect a frame with its header. Consequences:
///
/// - If two receives of a worker could match the same messages, the later one waits until the
///   earlier one has posted its frames.
/// - After its header, a receive accepts only messages with exactly the tag of that header.
/// - Senders on different endpoints that use the same tag at the same time mix up their frames. So
///   do other messages under the tag. Give each sender its own tag, and receive with a mask.
///
/// ucxx_am_send_multi has no such limits.
///
/// If the receive is refused (EXCEEDS_LIMIT, or the status of the allocator), the frames are
/// received and dropped. So the sender completes, and the tag stays usable. If a receive is
/// cancelled or times out after its header arrived, its frames stay as separate messages.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither request nor callback. No
///   handle would exist to take the buffers from.
/// - UCXX_ERR_IO_ERROR: a length does not fit its announcement, or a message is not a header.
/// - UCXX_ERR_EXCEEDS_LIMIT: more frames or bytes than the allocator allows.
/// - The status of `allocate`: a buffer could not be made. If the library makes the buffers:
///   UCXX_ERR_NO_MEMORY, or for CUDA memory see ucxx_allocator_t.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_TAG.
///
/// Threads: any.
/// Ownership: the caller keeps `arg` of the allocator until the last buffer is freed.
/// See also: ucxx_request_take_buffers, ucxx_tag_send_multi.
///
/// # Safety
/// See `ucxx_op_params_t`; `allocator` is NULL or a struct whose `struct_size` is set.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_recv_multi(
    worker: *mut ucxx_worker_t,
    tag: u64,
    tag_mask: u64,
    allocator: *const ucxx_allocator_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let worker = handle::get(worker)?;
            buffers::check_taker(params, request)?;
            worker.tag_recv_multi((tag, tag_mask), buffers::allocator(allocator)?, params, out)
        })
    }
}
