//! The queue form of active messages.

use super::am::{bytes, ucxx_destroy_arg_t};
use super::am_multi::{multi_handler, ucxx_multi_handler_t};
use super::buffers::{self, ucxx_allocator_t};
use super::constants::ucxx_am_memory;
use super::guard::{self, Answer};
use super::handle::{self, place, ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::tag::{one_part, parts, ucxx_buffer_t};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::messaging::am::queue::Cover;
use crate::engine::wire::ucxx_am::CallbackName;
use std::ffi::{c_char, c_void, CStr};

/// Sends a message into a queue of the peer's endpoint, where it waits until the peer receives it.
/// This is an operation.
///
/// The peer receives it by ucxx_am_queue_recv, or by amRecv of UCXX 0.52, whose wire format it has.
///
/// - Completion is local, as for ucxx_am_send. UCXX_FLAG_EAGER and UCXX_FLAG_RNDV work as there.
/// - There is no credit, as with UCXX: messages that are not received accumulate at the receiver
///   without bound.
/// - Order: messages of one thread on one endpoint stay in order if all are eager or all are
///   rendezvous.
///
/// Returns:
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_AM.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid and unchanged until the operation has completed.
/// See also: ucxx_am_queue_send_to, ucxx_am_queue_recv, ucxx_am_send.
///
/// # Safety
/// `buffer` is readable for `length` bytes until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
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
            let part = one_part(buffer, length, params)?;
            endpoint.am_queue_send(
                Cover { callback: None, exact_memory: false, header: &[] },
                &part,
                params,
                out,
            )
        })
    }
}

/// What ucxx_am_queue_send_to sends in addition to the data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_am_queue_cover {
    /// Set by UCXX_AM_QUEUE_COVER_INIT.
    pub struct_size: usize,
    /// Owner name of the handler that gets the message: up to 63 bytes and a terminating zero. NULL
    /// sends the message to the peer's queue.
    pub owner: *const c_char,
    /// Number of the handler; 0 without an owner.
    pub id: u64,
    /// A header of the caller's. It is copied during the call.
    pub header: *const c_void,
    /// Length of the header in bytes: at most `max_am_header`, and 62 less with an owner.
    pub header_length: usize,
    /// UCXX_AM_MEMORY_*: what a receiver does that makes no memory of the type of the buffer. It
    /// has an effect on data that waits at this side.
    pub memory_policy: i32,
    /// Zero.
    pub reserved: u32,
}
/// What ucxx_am_queue_send_to sends in addition to the data.
pub type ucxx_am_queue_cover_t = ucxx_am_queue_cover;

sized! { ucxx_am_queue_cover, 40; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_queue_cover_init(
    value: *mut ucxx_am_queue_cover_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Sends a message with a header to the peer's queue, or to the peer's handler that `cover` names.
/// This is an operation.
///
/// Such a handler is one of ucxx_worker_set_am_queue_handler, or a receiver callback of UCXX 0.52.
/// NULL for `cover` is ucxx_am_queue_send.
///
/// A peer without that handler drops the message. If the data waits at this side, the send then
/// completes with UCXX_ERR_NO_ELEM. There is no credit, as for the queue: such messages take memory
/// at the receiver without bound.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: an owner of more than 63 bytes, an id without an owner, or a header
///   that is too long.
/// - UCXX_ERR_NO_ELEM: the data waited here, and the peer has no such handler.
/// - UCXX_ERR_UNSUPPORTED: the data waited here with UCXX_AM_MEMORY_EXACT, and the peer makes no
///   such memory.
/// - Any status of ucxx_am_queue_send.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid and unchanged until the operation has completed. Owner name
/// and header are copied.
/// See also: ucxx_am_queue_send, ucxx_worker_set_am_queue_handler.
///
/// # Safety
/// As for `ucxx_am_queue_send`; `cover` is NULL or a struct as described.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_queue_send_to(
    endpoint: *mut ucxx_endpoint_t,
    cover: *const ucxx_am_queue_cover_t,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            let part = one_part(buffer, length, params)?;
            params::with(cover, "cover", |cover| {
                endpoint.am_queue_send(convert(cover)?, &part, params, out)
            })
        })
    }
}

/// Sends a message whose data is in scattered buffers. In all other respects it is
/// ucxx_am_queue_send_to.
///
/// - `cover`: as for ucxx_am_queue_send_to. NULL sends to the peer's queue, without a header.
/// - `buffers`, `count`: at most 1,048,576 buffers, all of one memory type. The list is copied
///   during the call; the buffers are not.
///
/// The peer receives one buffer, with the data of all of them in the order of the list.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
/// - Any status of ucxx_am_queue_send_to.
///
/// Threads: any.
/// Ownership: the buffers must stay valid and unchanged until the operation has completed. Owner
/// name and header are copied.
/// See also: ucxx_am_queue_send_to, ucxx_am_send_iov.
///
/// # Safety
/// As for `ucxx_am_queue_send_to`; `buffers` is readable for `count` entries during the call, and
/// what they name until the operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_queue_send_iov(
    endpoint: *mut ucxx_endpoint_t,
    cover: *const ucxx_am_queue_cover_t,
    buffers: *const ucxx_buffer_t,
    count: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            let parts = parts(buffers, count)?;
            params::with(cover, "cover", |cover| {
                endpoint.am_queue_send(convert(cover)?, &parts, params, out)
            })
        })
    }
}

/// # Safety
/// `owner` is NULL or terminated; `header` is readable while the result is in use.
unsafe fn convert<'a>(cover: &ucxx_am_queue_cover) -> Result<Cover<'a>> {
    // SAFETY: as for this function.
    let header = unsafe { bytes(cover.header, cover.header_length) }?;
    let callback = (!cover.owner.is_null())
        // SAFETY: as for this function.
        .then(|| unsafe { name(cover.owner, cover.id) })
        .transpose()?;
    if callback.is_none() && cover.id != 0 {
        return Err(Error::invalid("id: must be 0 without an owner"));
    }
    if cover.reserved != 0 {
        return Err(Error::invalid("reserved: is not zero"));
    }
    let exact_memory = match cover.memory_policy {
        value if value == ucxx_am_memory::UCXX_AM_MEMORY_ANY as i32 => false,
        value if value == ucxx_am_memory::UCXX_AM_MEMORY_EXACT as i32 => true,
        value => {
            let text = format!("memory_policy: {value} is no UCXX_AM_MEMORY_* value");
            return Err(Error::invalid(text));
        }
    };
    Ok(Cover { callback, exact_memory, header })
}

/// The name of a handler.
///
/// # Safety
/// `owner` is terminated.
unsafe fn name(owner: *const c_char, id: u64) -> Result<CallbackName> {
    // SAFETY: as for this function.
    let owner = unsafe { CStr::from_ptr(owner) }.to_bytes();
    CallbackName::new(owner, id)
        .ok_or_else(|| Error::invalid(format!("owner: has {} bytes, more than 63", owner.len())))
}

/// Registers `handler` for messages that name this `owner` and `id`.
///
/// They are sent by ucxx_am_queue_send_to, or by UCXX 0.52 (`AmReceiverCallbackInfo`). The handler
/// has the same type as for ucxx_worker_set_multi_handler. It gets one buffer a message, and always
/// an endpoint to reply on.
///
/// - `owner`: at most 63 bytes and a terminating zero.
/// - `handler`: NULL removes the handler.
/// - `destroy_arg`: as for ucxx_worker_set_am_handler.
/// - `allocator`: makes the buffers. NULL means malloc, with its limits.
///
/// Order: the messages of one endpoint for such handlers are delivered in the order in which they
/// arrived.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: an owner of more than 63 bytes, or "ucxx", which UCXX reserves.
/// - Any status of ucxx_worker_set_am_handler.
///
/// Threads: any.
/// Ownership: the allocator's functions may be called as long as the handler runs or one of its
/// buffers exists.
/// See also: ucxx_am_queue_send_to, ucxx_worker_set_multi_handler.
///
/// # Safety
/// A worker of this library; `owner` is terminated; `handler` and `destroy_arg` may be called with
/// `arg`; `allocator` is NULL or a struct as described.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_am_queue_handler(
    worker: *mut ucxx_worker_t,
    owner: *const c_char,
    id: u64,
    handler: ucxx_multi_handler_t,
    arg: *mut c_void,
    destroy_arg: ucxx_destroy_arg_t,
    allocator: *const ucxx_allocator_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (worker, allocator) = unsafe { (handle::get(worker)?, buffers::allocator(allocator)?) };
        if owner.is_null() {
            return Err(handle::null("owner"));
        }
        // SAFETY: as for this function.
        let name = unsafe { name(owner, id)? };
        // SAFETY: as above.
        if unsafe { CStr::from_ptr(owner) } == c"ucxx" {
            return Err(Error::invalid("owner: \"ucxx\" is reserved for UCXX"));
        }
        // SAFETY: as above.
        let handler = unsafe { multi_handler(handler, allocator) };
        worker.set_queue_handler(name, handler, arg, destroy_arg)?;
        Ok(Status::OK)
    })
}

/// Receives the oldest message of the endpoint's queue, or the next one that arrives, into a new
/// buffer. This is an operation.
///
/// - `allocator`: makes the buffer. NULL means malloc, with its limits. Take the buffer by
///   ucxx_request_take_buffers.
/// - The peer uses ucxx_am_queue_send, ucxx_am_queue_send_to, or UCXX. ucxx_request_am_header
///   returns its header.
/// - `recv_info.length` is the length of the message in bytes.
/// - Order: receives get messages in the order in which they were posted.
///
/// Cancel and timeout:
/// - A receive that is cancelled or times out takes no message.
/// - A receive whose data is already being pulled continues.
/// - The receive ends with its endpoint. Messages that wait in the queue are dropped then.
///
/// Returns:
/// - UCXX_INPROGRESS: it never completes inside the call.
/// - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither a request nor a callback to
///   take the buffer from.
/// - UCXX_ERR_EXCEEDS_LIMIT: the message is longer than `max_total_bytes`. It is dropped.
/// - The status that the allocator returned. The message is dropped.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_AM.
///
/// Threads: any.
/// Ownership: the caller owns the buffer that ucxx_request_take_buffers returns.
/// See also: ucxx_request_take_buffers, ucxx_request_am_header, ucxx_am_queue_probe.
///
/// # Safety
/// See `ucxx_op_params_t`; `allocator` is NULL or a struct as described.
#[no_mangle]
#[must_use]
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

/// Returns the header of the message that ucxx_am_queue_recv has received.
///
/// `*header` is NULL if `*length` is 0. The sender is ucxx_am_queue_send_to or UCXX.
///
/// Returns:
/// - UCXX_OK: `*header` and `*length` are set.
/// - UCXX_INPROGRESS: the receive has not completed.
/// - UCXX_ERR_NO_ELEM: the request is of another operation.
/// - The status of the request, if the receive has failed.
///
/// Threads: any.
/// Ownership: the header is valid until the request is destroyed.
///
/// # Safety
/// A request of this library; `header` and `length` are valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_am_header(
    request: *const ucxx_request_t,
    header: *mut *const c_void,
    length: *mut usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (request, header, length) = unsafe {
            (handle::get(request.cast_mut())?, place(header, "header")?, place(length, "length")?)
        };
        let found = request.am_header()?;
        header.write(if found.is_empty() { std::ptr::null() } else { found.as_ptr().cast() });
        length.write(found.len());
        Ok(Status::OK)
    })
}

/// Checks whether a message that has not been received waits in the endpoint's queue.
///
/// It does not progress the worker. `length` is optional, and gets the length of the oldest message
/// in bytes.
///
/// Returns:
/// - UCXX_OK: a message waits, and `*length` is set.
/// - UCXX_ERR_NO_MESSAGE: no message waits.
///
/// Threads: any.
///
/// # Safety
/// An endpoint of this library; `length` is NULL or valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_queue_probe(
    endpoint: *const ucxx_endpoint_t,
    length: *mut usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint.cast_mut())? };
        endpoint.check_fork()?;
        let Some(waiting) = endpoint.am_queue_probe() else {
            return Ok(Answer(
                Status::NO_MESSAGE,
                c"no message is waiting in the endpoint's queue",
            ));
        };
        if !length.is_null() {
            // SAFETY: as for this function.
            unsafe { place(length, "length")?.write(waiting as usize) };
        }
        Ok(Answer::OK)
    })
}
