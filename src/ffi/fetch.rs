//! Fetch: asking a peer for data.

use super::am::{bytes, ucxx_destroy_arg_t};
use super::buffers::{self, ucxx_allocator_t};
use super::guard;
use super::handle::{
    self, look, tell, ucxx_endpoint_t, ucxx_fetch_t, ucxx_notifier_t, ucxx_request_t, ucxx_worker_t,
};
use super::notifier::hand_out;
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{check_buffer, one_part, parts, ucxx_buffer_t};
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::messaging::fetch::reply::{self, Fetch, FetchHandler, FetchTo};
use crate::engine::messaging::fetch::request::Room;
use std::ffi::c_void;

/// Called for each fetch of its id that arrives from a peer.
///
/// The peer (the requester) has sent it by ucxx_am_fetch. The handler owns `fetch`. It replies once
/// by ucxx_fetch_reply or ucxx_fetch_reject, then or later, from any thread. Then it destroys
/// `fetch`.
///
/// Threads and callbacks: as for ucxx_am_handler_t.
/// Ownership: the handler owns `fetch`; see ucxx_fetch_destroy.
/// See also: ucxx_worker_set_fetch_handler.
pub type ucxx_fetch_handler_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, fetch: *mut ucxx_fetch_t)>;

/// Registers `handler` for the fetches that arrive with this `id` from now on.
///
/// - `handler`: NULL removes the handler. A fetch that arrives without a handler completes with
///   UCXX_ERR_NO_ELEM at its requester.
/// - `destroy_arg`: as for ucxx_worker_set_am_handler.
///
/// Returns:
/// - Any status of ucxx_worker_set_am_handler.
///
/// Threads: any.
/// Ownership: `arg` must stay valid until `destroy_arg` has run.
/// See also: ucxx_worker_set_am_handler, ucxx_worker_set_fetch_notifier, ucxx_am_fetch.
///
/// # Safety
/// A worker of this library; `handler` and `destroy_arg` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_fetch_handler(
    worker: *mut ucxx_worker_t,
    id: u16,
    handler: ucxx_fetch_handler_t,
    arg: *mut c_void,
    destroy_arg: ucxx_destroy_arg_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker)? };
        // SAFETY: the opaque type is the engine's fetch.
        let handler =
            handler.map(|handler| unsafe {
                std::mem::transmute::<
                    unsafe extern "C" fn(*mut c_void, *mut ucxx_fetch_t),
                    FetchHandler,
                >(handler)
            });
        let to = handler.map(|function| FetchTo { function, keeps_credit: false });
        worker.set_fetch_handler(id, to, arg, destroy_arg)?;
        Ok(Status::OK)
    })
}

/// Has `notifier` report the fetches that arrive with this `id` from now on.
///
/// The notifier takes the place of a handler. Each fetch is reported as UCXX_EVENT_FETCH. NULL,
/// `user_data` and a change of the registration work as for ucxx_worker_set_am_notifier.
///
/// Credit: a fetch that a notifier reports holds its credit until it is destroyed, as a message
/// does. A requester waits while 256 of its fetches have not been destroyed.
///
/// If the notifier is destroyed:
/// - Fetches that it had not reported complete with UCXX_ERR_CANCELED at their requester.
/// - Fetches that arrive later complete with UCXX_ERR_NO_ELEM.
///
/// Returns:
/// - Any status of ucxx_worker_set_am_notifier.
///
/// Threads: any.
/// Ownership: the thread that polls a fetch owns it, as a handler would.
/// See also: ucxx_worker_set_fetch_handler, ucxx_notifier_poll.
///
/// # Safety
/// A worker of this library; `notifier` is NULL or one of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_fetch_notifier(
    worker: *mut ucxx_worker_t,
    id: u16,
    notifier: *mut ucxx_notifier_t,
    user_data: *mut c_void,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        hand_out(worker, notifier, |worker, notifier| {
            worker.set_fetch_notifier(id, notifier, user_data)
        })
    }
}

/// Asks the peer's handler or notifier for data, and receives the reply into `reply_buffer`. This
/// is an operation.
///
/// - `header`: the request for the handler. It is copied, and limited in length as for
///   ucxx_am_send.
/// - `reply_capacity`: the size of `reply_buffer` in bytes. The handler can read it. A shorter
///   reply leaves the rest of the buffer unchanged.
/// - `params->memory_type`: where `reply_buffer` is.
/// - `recv_info.length`: the length of the reply in bytes, also if it did not fit.
///
/// A small reply takes one round trip. A large reply is pulled directly into the buffer.
///
/// Order: fetches and active messages of one thread on one endpoint are delivered in the order in
/// which they were sent. Replies arrive in any order.
///
/// Credit: fetches use credit as active messages do. A fetch returns its credit when it is
/// delivered to its handler, so a fetch without a reply holds none.
///
/// Cancel and timeout complete the fetch at once if its reply has not begun to arrive. The buffer
/// then belongs to the caller again, whatever the peer sends later.
///
/// Returns:
/// - UCXX_INPROGRESS: it never completes inside the call.
/// - UCXX_ERR_MESSAGE_TRUNCATED: the reply is longer than `reply_capacity`. The buffer is
///   unchanged.
/// - UCXX_ERR_NO_ELEM: the peer has no handler for `id`, or has rejected the fetch with this
///   status.
/// - UCXX_ERR_CANCELED: the peer has destroyed the fetch without a reply, or the fetch was
///   cancelled.
/// - The status that the peer gave to ucxx_fetch_reject.
/// - UCXX_ERR_UNSUPPORTED: the peer does not use this library.
/// - UCXX_ERR_NO_RESOURCE: 1,048,575 fetches of the worker wait for replies.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_AM.
///
/// Threads: any.
/// Ownership: `reply_buffer` must stay valid until the operation has completed.
/// See also: ucxx_worker_set_fetch_handler, ucxx_fetch_reply, ucxx_am_fetch_iov,
/// ucxx_am_fetch_alloc.
///
/// # Safety
/// `header` is readable during the call; `reply_buffer` is writable for `reply_capacity` bytes
/// until the operation has completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_fetch(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    reply_buffer: *mut c_void,
    reply_capacity: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        let plain = plain(params, reply_capacity | header_length);
        if let (Some(plain), Some(to)) = (plain, endpoint.cast::<SharedEndpoint>().as_ref()) {
            let usable = (header_length == 0 || !header.is_null())
                && (reply_capacity == 0 || !reply_buffer.is_null());
            if usable {
                if let Some(quick) = to.fast_for_question(header_length, reply_capacity, plain) {
                    let (header, room) = ((header, header_length), (reply_buffer, reply_capacity));
                    return plainly(quick.fetch(
                        to,
                        id,
                        header,
                        room,
                        plain,
                        Out::new(request.cast()),
                    ));
                }
            }
        }
        fetch(endpoint, id, header, header_length, reply_buffer, reply_capacity, params, request)
    }
}

/// # Safety
/// As for `ucxx_am_fetch`.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
unsafe fn fetch(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    reply_buffer: *mut c_void,
    reply_capacity: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(reply_buffer, reply_capacity as u64, "reply_buffer")?;
            let part = [Part {
                data: reply_buffer,
                length: reply_capacity,
                memory_type: params.memory_type,
            }];
            endpoint.fetch(id, bytes(header, header_length)?, Room::Parts(&part), params, out)
        })
    }
}

/// Fetches into scattered buffers, which are filled one after the other.
///
/// The list is copied during the call. At most 1,048,576 buffers, all of one memory type.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
/// - Any status of ucxx_am_fetch.
///
/// Threads: any.
/// Ownership: the buffers must stay valid until the operation has completed.
/// See also: ucxx_am_fetch.
///
/// # Safety
/// As for `ucxx_am_fetch`; `reply_buffers` is readable for `count` entries during the call.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_fetch_iov(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    reply_buffers: *const ucxx_buffer_t,
    count: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            let parts = parts(reply_buffers, count)?;
            endpoint.fetch(id, bytes(header, header_length)?, Room::Parts(&parts), params, out)
        })
    }
}

/// Fetches with data in the request, and receives the reply into one new buffer of the reply's
/// length. This is an operation.
///
/// - `data`, `data_length`: sent along with the request; up to 8 MiB (8388608 bytes).
/// - `params->memory_type`: where `data` is.
/// - `allocator`: makes the buffer for the reply. NULL means malloc, with its limits. Take the
///   buffer by ucxx_request_take_buffers.
///
/// The memory type that the allocator is asked for:
/// - for a reply that is pulled: the memory type that the peer gave;
/// - for a reply that arrives with its data: host memory.
///
/// Returns:
/// - UCXX_ERR_EXCEEDS_LIMIT: `data_length` is more than 8 MiB, or the reply is longer than
///   `max_total_bytes`.
/// - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither a request nor a callback to
///   take the buffer from.
/// - The status that the allocator returned.
/// - Any status of ucxx_am_fetch.
///
/// Threads: any.
/// Ownership: `data` must stay valid and unchanged until the operation has completed. The caller
/// owns the buffer that ucxx_request_take_buffers returns.
/// See also: ucxx_am_fetch, ucxx_fetch_data, ucxx_request_take_buffers.
///
/// # Safety
/// As for `ucxx_am_fetch`; `data` is readable until the operation has completed; `allocator` is
/// NULL or a struct as described.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_fetch_alloc(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    data: *const c_void,
    data_length: usize,
    allocator: *const ucxx_allocator_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(data, data_length as u64, "data")?;
            buffers::check_taker(params, request)?;
            let part = Part {
                data: data.cast_mut(),
                length: data_length,
                memory_type: params.memory_type,
            };
            let room = Room::Made(buffers::allocator(allocator)?, part);
            endpoint.fetch(id, bytes(header, header_length)?, room, params, out)
        })
    }
}

/// Returns the header of a received fetch, and its length in bytes.
///
/// Returns NULL and length 0 if there is no header. `length` is optional.
///
/// Threads: any.
/// Ownership: the header is valid until the fetch is destroyed.
///
/// # Safety
/// NULL or a fetch of this library that was not destroyed; `length` is NULL or valid for a
/// write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_header(
    fetch: *const ucxx_fetch_t,
    length: *mut usize,
) -> *const c_void {
    let header =
        |fetch: &Fetch| (fetch.message().header().as_ptr().cast(), fetch.message().header().len());
    // SAFETY: as for this function.
    unsafe { tell(look(fetch, (std::ptr::null(), 0), header), length) }
}

/// Returns the data that arrived with a fetch, and its length in bytes.
///
/// Returns NULL and length 0 if there is no data. `length` is optional.
///
/// Threads: any.
/// Ownership: the data is valid until the fetch or its worker is destroyed.
/// See also: ucxx_am_fetch_alloc.
///
/// # Safety
/// As for `ucxx_fetch_header`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_data(
    fetch: *const ucxx_fetch_t,
    length: *mut usize,
) -> *const c_void {
    let data = |fetch: &Fetch| match fetch.message().data() {
        data if data.is_null() => (data, 0),
        data => (data, fetch.message().length() as usize),
    };
    // SAFETY: as for this function.
    unsafe { tell(look(fetch, (std::ptr::null(), 0), data), length) }
}

/// Returns how many bytes of reply the requester has room for.
///
/// SIZE_MAX means that the requester allocates a buffer for the reply (ucxx_am_fetch_alloc).
///
/// Threads: any.
///
/// # Safety
/// NULL or a fetch of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_capacity(fetch: *const ucxx_fetch_t) -> usize {
    // SAFETY: as for this function.
    unsafe { look(fetch, 0, |fetch| usize::try_from(fetch.capacity()).unwrap_or(usize::MAX)) }
}

/// Returns the endpoint to the requester.
///
/// If the user has an endpoint of that connection, it is that one. Otherwise the library has made
/// one.
///
/// Threads: any.
/// Ownership: borrowed, and valid until the fetch is destroyed. ucxx_endpoint_retain makes a handle
/// of the caller's own.
/// See also: ucxx_endpoint_retain.
///
/// # Safety
/// NULL or a fetch of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_endpoint(fetch: *const ucxx_fetch_t) -> *mut ucxx_endpoint_t {
    // SAFETY: as for this function.
    unsafe {
        look(fetch, std::ptr::null_mut(), |fetch| {
            std::ptr::from_ref(fetch.endpoint()).cast_mut().cast()
        })
    }
}

/// Sends the reply to a fetch, once. This is an operation.
///
/// The request is that of a send: it completes when `buffer` may be reused.
///
/// - A reply longer than ucxx_fetch_capacity is not sent. The requester gets its length and
///   UCXX_ERR_MESSAGE_TRUNCATED. The reply completes with UCXX_OK here.
/// - UCXX_FLAG_EAGER and UCXX_FLAG_RNDV work as for ucxx_am_send.
/// - Replies need no credit. They may wait whatever the limit of the send queue, except with
///   UCXX_FLAG_NO_WAIT.
/// - If this call returns an error, the fetch has no reply yet, and the caller may reply again.
/// - A waiting reply that is cancelled or times out completes the fetch with UCXX_ERR_CANCELED at
///   the requester.
///
/// Returns:
/// - UCXX_ERR_ALREADY_EXISTS: the fetch already has a reply or was rejected.
/// - UCXX_ERR_NO_RESOURCE: the reply would have to wait, with UCXX_FLAG_NO_WAIT. With a progress
///   thread that takes operations by its queue: that queue is full, with or without the flag.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid and unchanged until the operation has completed. The caller
/// still destroys `fetch`.
/// See also: ucxx_fetch_reject, ucxx_fetch_destroy, ucxx_am_fetch.
///
/// # Safety
/// A fetch of this library; `buffer` is readable for `length` bytes until the operation has
/// completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_reply(
    fetch: *mut ucxx_fetch_t,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        if let (Some(plain), Some(question)) =
            (plain(params, length), fetch.cast::<Fetch>().as_ref())
        {
            if length == 0 || !buffer.is_null() {
                if let Some(quick) = question.quick(length, plain) {
                    let out = Out::new(request.cast());
                    return plainly(quick.reply::<false>(question, (buffer, length), plain, out));
                }
            }
        }
        reply_long(fetch, buffer, length, params, request)
    }
}

/// Of more than fits into one piece with its header.
///
/// # Safety
/// As for `ucxx_fetch_reply`.
#[inline(never)]
unsafe extern "C" fn reply_long(
    fetch: *mut ucxx_fetch_t,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        if let (Some(plain), Some(question), false) =
            (plain(params, length), fetch.cast::<Fetch>().as_ref(), buffer.is_null())
        {
            if let Some(quick) = question.quick_long(length, plain) {
                let out = Out::new(request.cast());
                return plainly(quick.reply::<true>(question, (buffer, length), plain, out));
            }
        }
        reply(fetch, buffer, length, params, request)
    }
}

/// # Safety
/// As for `ucxx_fetch_reply`.
#[inline(never)]
unsafe fn reply(
    fetch: *mut ucxx_fetch_t,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let fetch = handle::get(fetch)?;
            let part = one_part(buffer, length, params)?;
            fetch.reply(&part, params, out)
        })
    }
}

/// Sends the reply to a fetch from scattered buffers.
///
/// The list is copied during the call; the buffers are not. At most 1,048,576 buffers, all of one
/// memory type.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
/// - Any status of ucxx_fetch_reply.
///
/// Threads: any.
/// Ownership: the buffers must stay valid and unchanged until the operation has completed.
/// See also: ucxx_fetch_reply.
///
/// # Safety
/// As for `ucxx_fetch_reply`; `buffers` is readable for `count` entries during the call.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_reply_iov(
    fetch: *mut ucxx_fetch_t,
    buffers: *const ucxx_buffer_t,
    count: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let fetch = handle::get(fetch)?;
            fetch.reply(&parts(buffers, count)?, params, out)
        })
    }
}

/// Replies to a fetch with a status instead of data, once.
///
/// The call does not wait, and never fails for lack of queue space.
///
/// `status` is one of:
/// - UCXX_ERR_NO_ELEM, UCXX_ERR_REJECTED, UCXX_ERR_BUSY, UCXX_ERR_CANCELED;
/// - UCXX_ERR_APPLICATION and any lower number.
///
/// Returns:
/// - UCXX_OK: the status is sent to the requester.
/// - UCXX_ERR_ALREADY_EXISTS: the fetch already has a reply or was rejected.
/// - UCXX_ERR_INVALID_PARAM: `status` is none of these.
/// - The status of the endpoint, if it has ended.
///
/// Threads: any.
/// See also: ucxx_fetch_reply.
///
/// # Safety
/// A fetch of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_reject(
    fetch: *mut ucxx_fetch_t,
    status: ucxx_status_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(fetch)? }.reject(Status(status))?;
        Ok(Status::OK)
    })
}

/// Releases a fetch. NULL is ignored.
///
/// A fetch without a reply is rejected with UCXX_ERR_CANCELED. A reply that was started continues.
///
/// Threads: any.
///
/// # Safety
/// NULL or a fetch of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_destroy(fetch: *mut ucxx_fetch_t) {
    // SAFETY: as for this function.
    let gone = unsafe { fetch.cast::<Fetch>().as_ref().is_none_or(|fetch| fetch.destroy_fast()) };
    if !gone {
        // SAFETY: as for this function.
        guard::quietly((), || unsafe { reply::destroy(fetch.cast()) });
    }
}
