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

/// Called for each multi-buffer message of its id, when all its buffers are filled.
///
/// - `reply`: the endpoint to reply on if the sender set UCXX_FLAG_AM_REPLY, else NULL.
/// - `header`, `header_length`: the sender's header, in bytes.
/// - `buffers`: the received buffers; NULL if the message could not be received.
/// - `status`: UCXX_OK, or the reason why the message could not be received.
///
/// `status` can be:
/// - UCXX_OK: the buffers are filled.
/// - UCXX_ERR_EXCEEDS_LIMIT: the message has more frames or bytes than the allocator's limits.
/// - the status that the allocator returned.
/// - the status of the connection, if it was lost before the data arrived.
///
/// Order: the messages of one endpoint are delivered in the order in which they were sent.
///
/// Threads: the thread that drives progress, with no lock held.
/// Callbacks: the handler may call every function. Functions that wait return UCXX_ERR_BUSY. The
/// handler must not throw.
/// Ownership: the handler owns `buffers`, and releases it by ucxx_buffers_destroy, now or later.
/// `reply` and `header` are valid during the call. ucxx_endpoint_retain keeps the endpoint longer.
/// See also: ucxx_worker_set_multi_handler, ucxx_worker_set_am_queue_handler.
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

/// Registers `handler` for the multi-buffer messages that arrive with this `id` from now on.
///
/// - `id`: multi-buffer messages have an id space of their own.
/// - `handler`: NULL removes the handler.
/// - `destroy_arg`: as for ucxx_worker_set_am_handler.
/// - `allocator`: makes the buffers of the messages. NULL means malloc, with its limits.
///
/// Returns:
/// - Any status of ucxx_worker_set_am_handler.
///
/// Threads: any.
/// Ownership: the allocator's functions may be called as long as the handler runs or one of its
/// buffers exists.
/// See also: ucxx_worker_set_am_handler, ucxx_am_send_multi.
///
/// # Safety
/// A worker of this library; `handler` and `destroy_arg` may be called with `arg`; `allocator` is
/// NULL or a struct as described.
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

/// The form in which the engine calls the handler.
///
/// # Safety
/// The handler may be called with the argument that it is registered with.
pub(super) unsafe fn multi_handler(
    handler: ucxx_multi_handler_t,
    allocator: Allocator,
) -> Option<MultiHandler> {
    handler.map(|handler| {
        // SAFETY: the opaque types are the engine's endpoint and buffers.
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

/// Sends several buffers and a header as one active message. The handler gets each buffer
/// separately. This is an operation.
///
/// The number of buffers is free, and any number of senders and receivers may be active at once.
/// Both lists are copied during the call; the buffers are not. All buffers of one message must have
/// the same memory type.
///
/// Local completion, order, credit, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV, UCXX_FLAG_AM_REPLY and
/// UCXX_FLAG_NO_WAIT are as for ucxx_am_send.
///
/// The message carries a table with 8 bytes a buffer. The table precedes the header if the
/// transports have room for both, which is the case for some hundred buffers. A larger table
/// travels with the data. Then large buffers pass through an intermediate copy at the receiver, and
/// they cannot be device memory.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: too many buffers of device memory, or the memory types of the buffers
///   differ.
/// - Any status of ucxx_am_send.
///
/// Threads: any.
/// Ownership: the buffers must stay valid and unchanged until the operation has completed.
/// See also: ucxx_worker_set_multi_handler, ucxx_am_send.
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
