//! Tag transfer and probing.

use super::guard::{self, Answer};
use super::handle::{
    self, null, place, ucxx_endpoint_t, ucxx_request_t, ucxx_tag_message_t, ucxx_worker_t,
};
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::request::{ucxx_recv_info, ucxx_recv_info_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::tag::tag::Mode;
use smallvec::SmallVec;
use std::ffi::c_void;

/// One of several buffers that make up a message.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_buffer {
    /// May be NULL when `length` is 0.
    pub data: *mut c_void,
    /// Bytes.
    pub length: u64,
    /// UCXX_MEMORY_*. Buffers of one message that are not empty must be of one type in this
    /// release, but for ucxx_tag_send_multi: else UNSUPPORTED. UCXX_MEMORY_AUTO and _HOST count as
    /// two types.
    pub memory_type: i32,
    /// Device of the buffer, for memory types that have several.
    pub device_id: i32,
    /// Zero.
    pub reserved: [u64; 2],
}
/// One of several buffers that make up a message.
pub type ucxx_buffer_t = ucxx_buffer;

/// More than any address space holds.
const LONGEST: u64 = 1 << 47;
/// UCP takes lists of buffers; a count above this is not one.
const MOST_BUFFERS: usize = 1 << 20;
/// Lists that are longer than that are allocated.
const FEW_BUFFERS: usize = 16;

/// A list of buffers, checked.
pub(crate) type Parts = SmallVec<[Part; FEW_BUFFERS]>;

#[inline(always)]
pub(crate) fn check_buffer(buffer: *const c_void, length: u64, argument: &str) -> Result<()> {
    if buffer.is_null() && length > 0 {
        return Err(null(argument));
    }
    if length > LONGEST {
        return Err(Error::invalid(format!("length: {length} bytes do not fit into any memory")));
    }
    Ok(())
}

/// Sends a message with this tag.
///
/// Completion is local: the buffer may be reused. A short or buffered send completes inside the
/// call (OK, no request, no callback) where that gives it to UCX itself: beside a progress thread
/// it goes through its queue (see delayed_submission), and completes later. A zero-copy or
/// rendezvous send completes when UCX is done with the buffer. With neither request nor callback
/// only a later flush tells. Messages of one thread on one endpoint match in the order they were
/// sent.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_TAG; CLOSED, PEER_FAILED and the like on an endpoint
/// that has ended.
///
/// # Safety
/// `buffer` is readable for `length` bytes until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_send(
    endpoint: *mut ucxx_endpoint_t,
    buffer: *const c_void,
    length: usize,
    tag: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        if let (Some(plain), Some(to)) =
            (plain(params, length), endpoint.cast::<Endpoint>().as_ref())
        {
            if !buffer.is_null() {
                if let Some(quick) = to.fast_for_tag() {
                    return plainly(quick.tag_send(
                        to,
                        buffer,
                        length,
                        tag,
                        plain,
                        Out::new(request.cast()),
                    ));
                }
            }
        }
        send(endpoint, buffer, length, tag, Mode::Local, params, request)
    }
}

/// As `ucxx_tag_send`, but complete only when a receive has matched the message, too.
///
/// # Safety
/// As for `ucxx_tag_send`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_send_sync(
    endpoint: *mut ucxx_endpoint_t,
    buffer: *const c_void,
    length: usize,
    tag: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { send(endpoint, buffer, length, tag, Mode::Synchronous, params, request) }
}

#[inline(never)]
unsafe extern "C" fn send(
    endpoint: *mut ucxx_endpoint_t,
    buffer: *const c_void,
    length: usize,
    tag: u64,
    mode: Mode,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for the callers.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            check_buffer(buffer, length as u64, "buffer")?;
            endpoint.tag_send(buffer, length, tag, mode, params, out)
        })
    }
}

/// Sends scattered buffers as one message, which any kind of tag receive takes. The list is copied,
/// the buffers are not. This and every other list of buffers has at most 1,048,576 (else
/// INVALID_PARAM).
///
/// # Safety
/// `buffers` is readable for `count` entries during the call, and what they name until the
/// operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_send_iov(
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
            endpoint.tag_send_iov(&parts(buffers, count)?, tag, params, out)
        })
    }
}

/// Receives one message whose tag equals `tag` in the bits of `tag_mask`, from any endpoint of the
/// worker.
///
/// It belongs to no endpoint: name one in `source`, or give a timeout, if the sender's death shall
/// end it.
///
/// A longer message gives MESSAGE_TRUNCATED, with its full length in recv_info and the buffer
/// undefined. Messages that nobody receives wait at the receiver without bound.
///
/// # Safety
/// `buffer` is writable for `length` bytes until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_recv(
    worker: *mut ucxx_worker_t,
    buffer: *mut c_void,
    length: usize,
    tag: u64,
    tag_mask: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        if let (Some(plain), Some(at)) = (plain(params, length), worker.cast::<Worker>().as_ref()) {
            if !buffer.is_null() {
                if let Some(quick) = at.fast_for_tag() {
                    let out = Out::new(request.cast());
                    return plainly(quick.tag_recv(buffer, length, (tag, tag_mask), plain, out));
                }
            }
        }
        receive(worker, buffer, length, tag, tag_mask, params, request)
    }
}

/// # Safety
/// As for `ucxx_tag_recv`.
#[inline(never)]
unsafe extern "C" fn receive(
    worker: *mut ucxx_worker_t,
    buffer: *mut c_void,
    length: usize,
    tag: u64,
    tag_mask: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let worker = handle::get(worker)?;
            check_buffer(buffer, length as u64, "buffer")?;
            worker.tag_recv(buffer, length, tag, tag_mask, params, out)
        })
    }
}

/// As `ucxx_tag_recv`, into scattered buffers, which are filled one after the other. The list is
/// copied.
///
/// # Safety
/// `buffers` is readable for `count` entries during the call, and what they name writable until the
/// operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_recv_iov(
    worker: *mut ucxx_worker_t,
    buffers: *const ucxx_buffer_t,
    count: usize,
    tag: u64,
    tag_mask: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let worker = handle::get(worker)?;
            worker.tag_recv_iov(&parts(buffers, count)?, tag, tag_mask, params, out)
        })
    }
}

/// # Safety
/// `buffers` is readable for `count` entries.
pub(crate) unsafe fn parts(buffers: *const ucxx_buffer_t, count: usize) -> Result<Parts> {
    if buffers.is_null() && count > 0 {
        return Err(null("buffers"));
    }
    if count > MOST_BUFFERS {
        return Err(Error::invalid(format!("count: {count} is more than {MOST_BUFFERS} buffers")));
    }
    let mut parts = Parts::with_capacity(count);
    let mut total = 0u64;
    for index in 0..count {
        // SAFETY: as for this function.
        let buffer = unsafe { &*buffers.add(index) };
        if buffer.data.is_null() && buffer.length > 0 {
            return Err(null(&format!("buffers: data of number {index}")));
        }
        check_buffer(std::ptr::dangling(), buffer.length, "buffers")?;
        if buffer.reserved != [0; 2] {
            return Err(Error::invalid(format!("buffers: reserved of number {index} is not zero")));
        }
        total += buffer.length;
        check_buffer(std::ptr::dangling(), total, "buffers")?;
        parts.push(Part {
            data: buffer.data,
            length: buffer.length as usize,
            memory_type: buffer.memory_type,
        });
    }
    Ok(parts)
}

/// Looks for a message that has arrived, was not received, and whose tag matches: OK and `*info`,
/// or NO_MESSAGE. With `message` it is taken out of matching, and stays with the handle, which the
/// caller owns. `message` is optional. Progresses nothing.
///
/// # Safety
/// A worker of this library; `info` is valid for a write, `message` is NULL or so.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_probe(
    worker: *mut ucxx_worker_t,
    tag: u64,
    tag_mask: u64,
    info: *mut ucxx_recv_info_t,
    message: *mut *mut ucxx_tag_message_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (worker, place) = unsafe { (handle::share(worker)?, place(info, "info")?) };
        let Some((found, taken)) = worker.tag_probe(tag, tag_mask, !message.is_null())? else {
            return Ok(Answer(Status::NO_MESSAGE, c"no message with such a tag is waiting"));
        };
        place.write(ucxx_recv_info {
            length: found.length,
            sender_tag: found.sender_tag,
            reserved: [0; 2],
        });
        if let Some(taken) = taken {
            // SAFETY: as above; it was taken because there is a place for it.
            unsafe { message.write(handle::give_box(taken)) };
        }
        Ok(Answer::OK)
    })
}

/// Receives a message that a probe took out of matching; once. The handle stays to be destroyed.
///
/// # Safety
/// A message of this library; the rest as for `ucxx_tag_recv`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_tag_message_recv(
    message: *mut ucxx_tag_message_t,
    buffer: *mut c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let message = handle::get(message)?;
            check_buffer(buffer, length as u64, "buffer")?;
            message.receive(buffer, length, params, out)
        })
    }
}

/// Frees the handle. A message that was not received is dropped: its sender completes as if it had
/// been. NULL is ignored. Under SINGLE, on the worker's own thread.
///
/// # Safety
/// NULL or a message of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_tag_message_destroy(message: *mut ucxx_tag_message_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(message) });
}
