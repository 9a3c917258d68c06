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
use super::tag::{check_buffer, parts, ucxx_buffer_t};
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::messaging::fetch::reply::{self, Fetch, FetchHandler, FetchTo};
use crate::engine::messaging::fetch::request::Room;
use std::ffi::c_void;

/// Runs for each question of its id, as ucxx_am_handler_t does for messages. The handler owns
/// `fetch`: it is answered once, now or later, from any thread, and then destroyed.
pub type ucxx_fetch_handler_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, fetch: *mut ucxx_fetch_t)>;

/// Has `handler` called for questions with this id from now on; NULL removes it. As
/// ucxx_worker_set_am_handler. Without a handler the fetch ends with NO_ELEM.
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
        // SAFETY: a question is a question behind its opaque type.
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

/// Has `notifier` hand out questions with this id from now on (UCXX_EVENT_FETCH), as
/// ucxx_worker_set_am_notifier does messages. Such a question holds its credit until it is
/// destroyed, as a message does: whoever asks waits when 256 have not been. Questions that come
/// when the notifier has been destroyed end with NO_ELEM, those that it had not handed out with
/// CANCELED.
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

/// Asks the peer's handler, or who polls its notifier, for data, and has it delivered into
/// `reply_buffer`.
///
/// The header, which is copied, is the question; it is limited as an active message's. The answer
/// may be as long as `reply_capacity`, which the handler is told; a shorter one leaves the rest of
/// the buffer as it was. A small answer takes one round trip; a large one is pulled straight into
/// the buffer. `memory_type` is that of the buffer.
///
/// Never complete inside the call. The request ends with OK, and the answer's length in recv_info;
/// with the status that the handler rejected it with, CANCELED if the question was destroyed
/// unanswered; NO_ELEM without a handler; MESSAGE_TRUNCATED for an answer that is longer than there
/// is room for, recv_info.length its full length, the buffer as it was. Cancel and timeout end it
/// at once as long as its answer has not begun to arrive: the buffer is the caller's again,
/// whatever the peer sends later.
///
/// Questions use credit as active messages do, and give it back when they are handed to their
/// handler: one that is not answered holds none. Questions and active messages of one thread on one
/// endpoint are handed over in the order they were sent; answers come in any.
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
        if let (Some(plain), Some(to)) = (plain, endpoint.cast::<Endpoint>().as_ref()) {
            let usable = (header_length == 0 || !header.is_null())
                && (reply_capacity == 0 || !reply_buffer.is_null());
            if usable {
                if let Some(quick) = to.fast_for_question(header_length, reply_capacity) {
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

/// As `ucxx_am_fetch`, into scattered buffers, which are filled one after the other. The list is
/// copied.
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

/// As `ucxx_am_fetch`, with data that goes along with the question, of up to 8 MiB (8388608 bytes),
/// and a buffer that is made when the answer has come: one buffer, to be had by
/// ucxx_request_take_buffers. `params.memory_type` is that of `data`; of an answer that is pulled
/// the buffer is asked for in the memory type that the other side gave, of one that came along in
/// the host's. `allocator` may be NULL: malloc, and its limits.
///
/// Errors: EXCEEDS_LIMIT for more data than goes along, and as the request's status for an answer
/// beyond `max_total_bytes`; INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor
/// callback, as there would be no handle to take the buffer from.
///
/// # Safety
/// As for `ucxx_am_fetch`; `data` is readable until the operation has completed; `allocator` is
/// NULL or as it says.
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

/// The question's header and its length; NULL and 0 if there is none. Valid until the question is
/// destroyed. `length` is optional.
///
/// # Safety
/// NULL or a question of this library that was not destroyed; `length` is NULL or valid for a
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

/// The data that came with the question and its length; NULL and 0 if there is none. Valid until
/// the question is destroyed, or its worker. `length` is optional.
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

/// Bytes that there is room for at the side that asks; SIZE_MAX if room is made for what comes.
///
/// # Safety
/// NULL or a question of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_capacity(fetch: *const ucxx_fetch_t) -> usize {
    // SAFETY: as for this function.
    unsafe { look(fetch, 0, |fetch| usize::try_from(fetch.capacity()).unwrap_or(usize::MAX)) }
}

/// The endpoint to the side that asks: the user's own of that connection where there is one, else
/// one that the library has made for it. Borrowed: valid until the question is destroyed, or for as
/// long as one's own that ucxx_endpoint_retain makes of it.
///
/// # Safety
/// NULL or a question of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_endpoint(fetch: *const ucxx_fetch_t) -> *mut ucxx_endpoint_t {
    // SAFETY: as for this function.
    unsafe {
        look(fetch, std::ptr::null_mut(), |fetch| {
            std::ptr::from_ref(fetch.endpoint()).cast_mut().cast()
        })
    }
}

/// Answers a question: once; a second answer is ALREADY_EXISTS. The request is a send's: complete
/// when the buffer may be reused. An answer that is longer than ucxx_fetch_capacity is not sent:
/// the other side is told its length, and the request here ends with OK. UCXX_FLAG_EAGER and
/// UCXX_FLAG_RNDV as for ucxx_am_send. Answers need no credit, and wait, but for UCXX_FLAG_NO_WAIT,
/// whatever the send queue's bound; but with a progress thread that takes operations by its queue
/// they are NO_RESOURCE, with or without that flag, while the queue is full. An answer that this
/// call did not take leaves the question unanswered, so that it may be answered again. An answer
/// that waits and is cancelled, or out of time, tells the other side CANCELED.
///
/// # Safety
/// A question of this library; `buffer` is readable for `length` bytes until the operation has
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
                if let Some(quick) = question.quick(length) {
                    return plainly(quick.reply(
                        question,
                        (buffer, length),
                        plain,
                        Out::new(request.cast()),
                    ));
                }
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
            check_buffer(buffer, length as u64, "buffer")?;
            let part = [Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }];
            fetch.reply(&part, params, out)
        })
    }
}

/// As `ucxx_fetch_reply`, of scattered buffers. The list is copied, the buffers are not.
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

/// Answers a question with a status: NO_ELEM, REJECTED, BUSY, CANCELED, or UCXX_ERR_APPLICATION and
/// below. Once, instead of a reply. Waits for nothing, and never fails for want of room.
///
/// # Safety
/// A question of this library.
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

/// Ends a question; one that was not answered is rejected with CANCELED. What a reply has begun
/// goes on. Any thread. NULL is ignored.
///
/// # Safety
/// NULL or a question of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_fetch_destroy(fetch: *mut ucxx_fetch_t) {
    // SAFETY: as for this function.
    let gone = unsafe { fetch.cast::<Fetch>().as_ref().is_none_or(|fetch| fetch.destroy_fast()) };
    if !gone {
        // SAFETY: as for this function.
        guard::quietly((), || unsafe { reply::destroy(fetch.cast()) });
    }
}
