//! The queue form of active messages.

use super::am::{bytes, ucxx_destroy_arg_t};
use super::am_multi::{multi_handler, ucxx_multi_handler_t};
use super::buffers::{self, ucxx_allocator_t};
use super::guard::{self, Answer};
use super::handle::{self, place, ucxx_endpoint_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::messaging::am::queue::Cover;
use crate::engine::wire::ucxx_am::CallbackName;
use std::ffi::{c_char, c_void, CStr};

/// Sends a message that waits in a queue of the peer's endpoint until it is received there: by
/// ucxx_am_queue_recv, or by UCXX 0.52's amRecv, whose format it has. Completion is local, as of
/// ucxx_am_send; UCXX_FLAG_EAGER and UCXX_FLAG_RNDV as there. There is no credit: as with UCXX,
/// what nobody receives waits at the receiver without bound. Messages of one thread on one endpoint
/// stay in order as long as all go eagerly or all by rendezvous.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_AM.
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
            check_buffer(buffer, length as u64, "buffer")?;
            endpoint.am_queue_send(
                Cover { callback: None, header: &[] },
                buffer,
                length,
                params,
                out,
            )
        })
    }
}

/// What ucxx_am_queue_send_to sends besides the data.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_am_queue_cover {
    /// Set by UCXX_AM_QUEUE_COVER_INIT.
    pub struct_size: usize,
    /// Owner of the handler that the message is for, up to 63 bytes and a terminating zero; NULL
    /// for the peer's queue.
    pub owner: *const c_char,
    /// The handler's number; 0 without an owner.
    pub id: u64,
    /// A header of the caller's, of which a copy is made during the call.
    pub header: *const c_void,
    /// Its bytes: up to `max_am_header`, 62 less with an owner.
    pub header_length: usize,
}
/// What ucxx_am_queue_send_to sends besides the data.
pub type ucxx_am_queue_cover_t = ucxx_am_queue_cover;

sized! { ucxx_am_queue_cover, 40; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// As ucxx_am_queue_send, with a header, and to the peer's handler of that owner and number instead
/// of its queue, if the cover names one: one set by ucxx_worker_set_am_queue_handler, or a receiver
/// callback of UCXX 0.52's. A peer that has none drops the message; where the data waits at this
/// side, the send ends with NO_ELEM. Nothing bounds what such messages take at the receiver, as
/// with the queue. NULL for `cover` is ucxx_am_queue_send.
///
/// Errors: INVALID_PARAM for an owner of over 63 bytes, an id without an owner, a header that is
/// too long; UNSUPPORTED without UCXX_FEATURE_AM.
///
/// # Safety
/// As for `ucxx_am_queue_send`; `cover` is NULL or as it says.
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
            check_buffer(buffer, length as u64, "buffer")?;
            params::with(cover, "cover", |cover| {
                let header = bytes(cover.header, cover.header_length)?;
                let callback =
                    (!cover.owner.is_null()).then(|| name(cover.owner, cover.id)).transpose()?;
                if callback.is_none() && cover.id != 0 {
                    return Err(Error::invalid("id: without an owner there is no handler"));
                }
                endpoint.am_queue_send(Cover { callback, header }, buffer, length, params, out)
            })
        })
    }
}

/// # Safety
/// Terminated.
unsafe fn name(owner: *const c_char, id: u64) -> Result<CallbackName> {
    // SAFETY: as for this function.
    let owner = unsafe { CStr::from_ptr(owner) }.to_bytes();
    CallbackName::new(owner, id)
        .ok_or_else(|| Error::invalid(format!("owner: has {} bytes, more than 63", owner.len())))
}

/// Has `handler` called for messages that name this owner and id, sent by ucxx_am_queue_send_to or
/// by UCXX 0.52 (`AmReceiverCallbackInfo`), and `allocator` (NULL: malloc, and its limits) make
/// their buffer; a NULL handler removes it. As ucxx_worker_set_multi_handler: the handler is the
/// same, gets one buffer a message, and always the endpoint to answer on. The messages for such
/// handlers of one endpoint come in the order in which they arrived.
///
/// Errors: INVALID_PARAM for an owner of over 63 bytes, or "ucxx", which is UCXX's own.
///
/// # Safety
/// A worker of this library; `owner` is terminated; `handler` and `destroy_arg` may be called with
/// `arg`; `allocator` is NULL or as it says.
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
            return Err(Error::invalid("owner: \"ucxx\" is UCXX's own"));
        }
        // SAFETY: as above.
        let handler = unsafe { multi_handler(handler, allocator) };
        worker.set_queue_handler(name, handler, arg, destroy_arg)?;
        Ok(Status::OK)
    })
}

/// Receives the oldest message in the endpoint's queue, or the next one that comes, into one buffer
/// that `allocator` makes (NULL: malloc, and its limits): taken by ucxx_request_take_buffers.
/// Receives get messages in the order in which they were posted. Never OK inside the call.
/// `recv_info.length` is the message's length.
///
/// The peer is one that uses ucxx_am_queue_send, or UCXX; its header, if it sent one, is had by
/// ucxx_request_am_header. A cancelled receive, or one out of time, takes no message; one whose
/// data has begun to be pulled goes on. It ends with its endpoint, and so does what waits in the
/// queue. Errors: INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor callback. As its
/// status: EXCEEDS_LIMIT for a message beyond `max_total_bytes`, or the allocator's; the message is
/// dropped then.
///
/// # Safety
/// See `ucxx_op_params_t`; `allocator` is NULL or as it says.
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

/// The header that came with what ucxx_am_queue_recv has received, of ucxx_am_queue_send_to or
/// UCXX's: `*header` is NULL where `*length` is 0, and else valid until the request is destroyed.
///
/// Errors: INPROGRESS before the end; the request's own, if it has failed; NO_ELEM for a request of
/// anything else.
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

/// Is a message waiting in the endpoint's queue that nobody has received? OK and its length, or
/// NO_MESSAGE. It makes no progress. Any thread; `length` is optional.
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
