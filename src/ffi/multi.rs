//! Multi-buffer transfer.

use super::buffers::{self, ucxx_allocator_t};
use super::handle::{self, ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{parts, ucxx_buffer_t};

/// Sends buffers one by one under one tag, behind headers that announce them: what
/// `ucxx_tag_recv_multi` receives as one, and so does UCXX 0.52's tagMultiRecv, as the bytes on the
/// wire are UCXX's. The list is copied, the buffers are not. No buffers at all are sent, too: one
/// header (UCXX does not complete such a receive). Device memory has to say so in `memory_type`:
/// AUTO is announced as the host's.
///
/// Completion is local: all buffers may be reused. A failing frame fails the whole, when all others
/// have ended. Nothing else of this endpoint comes in between; but messages of other endpoints
/// under the same tag can not be told from frames by their receiver: see ucxx_tag_recv_multi. A
/// cancelled send, or one out of time, goes on once its first header has left.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_TAG, NO_RESOURCE where the send queue has no room (for
/// its first message, and the bytes of all).
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

/// Receives what `ucxx_tag_send_multi`, or UCXX 0.52's tagMultiSend, sends: as many buffers as were
/// sent, made by `allocator` (NULL: malloc, and its limits) when their header has come, and taken
/// by ucxx_request_take_buffers. `recv_info` tells the bytes of all, and the tag. Never OK inside
/// the call.
///
/// The wire format does not say which frame belongs to which header. So of receives of one worker
/// that could match the same messages the later one waits until the earlier one has posted its
/// frames; after its header a receive takes only messages with exactly that header's tag. Senders
/// that use the same tag at the same time on different endpoints, and other messages under it, get
/// mixed up: give each sender a tag, and receive with a mask. Lengths that do not fit fail the
/// receive with IO_ERROR, and so does a message that is no header; ucxx_am_send_multi has no such
/// limits.
///
/// More frames or bytes than the allocator's limits, and buffers that cannot be made:
/// EXCEEDS_LIMIT, or the allocator's status. The frames are received and dropped, so that the
/// sender completes and the tag stays usable. A cancelled receive, or one out of time, whose header
/// has come leaves its frames unreceived: they are messages of their own then.
///
/// Errors: INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor callback, as there would
/// be no handle to take the buffers from; UNSUPPORTED without UCXX_FEATURE_TAG.
///
/// # Safety
/// See `ucxx_op_params_t`; `allocator` is NULL or as it says.
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
