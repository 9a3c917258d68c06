//! Multi-buffer transfer in one active message.

use super::am::{bytes, ucxx_destroy_arg_t};
use super::buffers::{self, ucxx_allocator_t};
use super::guard;
use super::handle::{self, ucxx_buffers_t, ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{parts, ucxx_buffer_t};
use crate::engine::base::status::Status;
use crate::engine::core::channel::receive_buffers::Allocator;
use crate::engine::messaging::am::multi::{MultiFunction, MultiHandler};
use std::ffi::c_void;

/// Runs for each multi-buffer message of its id, when its buffers are full; for the messages of one
/// endpoint in the order they were sent. Outside every lock, on the thread that drives progress; it
/// must not throw, and what waits returns BUSY in it.
///
/// `reply` is the endpoint to answer on if the sender set UCXX_FLAG_AM_REPLY, else NULL; it and
/// `header` are valid during the call (ucxx_endpoint_retain makes an endpoint one's own). `buffers`
/// belongs to the handler, now or later: ucxx_buffers_destroy. It is NULL, and `status` says why,
/// for a message that could not be received: EXCEEDS_LIMIT for more frames or bytes than the
/// allocator's limits, the allocator's own status, or that of the connection where it was lost
/// meanwhile.
pub type ucxx_multi_handler_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        reply: *mut ucxx_endpoint_t,
        header: *const c_void,
        header_length: usize,
        buffers: *mut ucxx_buffers_t,
        status: ucxx_status_t,
    ),
>;

/// Has `handler` called for multi-buffer messages with this id from now on, and `allocator` (NULL:
/// malloc, and its limits) make their buffers; a NULL handler removes it. As
/// ucxx_worker_set_am_handler; ids of multi-buffer messages are a space of their own. The
/// allocator's functions may be called for as long as the handler runs, or buffers of its are left.
///
/// # Safety
/// A worker of this library; `handler` and `destroy_arg` may be called with `arg`; `allocator` is
/// NULL or as it says.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_multi_handler(
    worker: *mut ucxx_worker_t,
    id: u16,
    handler: ucxx_multi_handler_t,
    arg: *mut c_void,
    destroy_arg: ucxx_destroy_arg_t,
    allocator: *const ucxx_allocator_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (worker, allocator) = unsafe { (handle::get(worker)?, buffers::allocator(allocator)?) };
        // SAFETY: as above.
        let handler = unsafe { multi_handler(handler, allocator) };
        worker.set_multi_handler(id, handler, arg, destroy_arg)?;
        Ok(Status::OK)
    })
}

/// What the engine calls.
///
/// # Safety
/// The handler may be called with the argument that it is registered with.
pub(super) unsafe fn multi_handler(
    handler: ucxx_multi_handler_t,
    allocator: Allocator,
) -> Option<MultiHandler> {
    handler.map(|handler| {
        // SAFETY: endpoints and buffers are what they are behind their opaque types.
        let function = unsafe {
            std::mem::transmute::<
                unsafe extern "C" fn(
                    *mut c_void,
                    *mut ucxx_endpoint_t,
                    *const c_void,
                    usize,
                    *mut ucxx_buffers_t,
                    ucxx_status_t,
                ),
                MultiFunction,
            >(handler)
        };
        MultiHandler { function, allocator }
    })
}

/// Sends buffers, and a header, as one active message, whose handler gets each in a buffer of its
/// own: whatever their number, with any number of senders and receivers at once. Both lists are
/// copied, the buffers are not.
///
/// As ucxx_am_send in everything else: local completion, order, credit, UCXX_FLAG_EAGER, RNDV,
/// AM_REPLY and NO_WAIT. A table of the buffers, of 8 bytes each, travels in front of the header as
/// far as there is room in what the transports carry (some hundred buffers), and else with the
/// data: then large ones take a detour through the receiver's memory, and cannot be device memory.
/// Buffers of one message must be of one memory type in this release.
///
/// Errors: as ucxx_am_send; UNSUPPORTED for too many buffers of device memory.
///
/// # Safety
/// `header` is readable for `header_length` bytes and `buffers` for `count` entries during the
/// call, and what the latter name until the operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_send_multi(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    buffers: *const ucxx_buffer_t,
    count: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            endpoint.am_send_multi(
                id,
                bytes(header, header_length)?,
                &parts(buffers, count)?,
                params,
                out,
            )
        })
    }
}
