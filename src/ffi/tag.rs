//! Tag transfer and probing.

use super::guard::{self, Answer};
use super::handle::{
    self, null, place, ucxx_endpoint_t, ucxx_request_t, ucxx_tag_message_t, ucxx_worker_t,
};
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::request::{ucxx_recv_info, ucxx_recv_info_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::messaging::tag::tag::Mode;
use crate::engine::ucx::context::feature;
use smallvec::SmallVec;
use std::ffi::c_void;

/// One of several buffers that form a message.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_buffer {
    /// Address. May be NULL if `length` is 0.
    pub data: *mut c_void,
    /// Length in bytes.
    pub length: u64,
    /// UCXX_MEMORY_*. In this release all non-empty buffers of a message must have the same type,
    /// or the call returns UCXX_ERR_UNSUPPORTED. ucxx_tag_send_multi has no such limit.
    /// UCXX_MEMORY_AUTO and UCXX_MEMORY_HOST are two types.
    pub memory_type: i32,
    /// Device of the buffer, for memory types with several devices.
    pub device_id: i32,
    /// Zero.
    pub reserved: [u64; 2],
}
/// One of several buffers that form a message.
pub type ucxx_buffer_t = ucxx_buffer;

/// No address space has more bytes.
const LONGEST: u64 = 1 << 47;
/// A longer list of buffers is refused.
const MOST_BUFFERS: usize = 1 << 20;
/// Longer lists need an allocation.
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

/// The caller's only buffer, checked.
pub(crate) fn one_part(
    buffer: *const c_void,
    length: usize,
    params: &OpParams,
) -> Result<[Part; 1]> {
    check_buffer(buffer, length as u64, "buffer")?;
    Ok([Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }])
}

/// Sends a message with a tag. This is an operation.
///
/// It completes locally: when the buffer may be reused.
///
/// - A short or buffered send completes inside the call: UCXX_OK, no request, no callback. This
///   holds if the call submits to UCX itself. With a progress thread the send passes through its
///   queue (see `delayed_submission`), and completes later.
/// - A zero-copy or rendezvous send completes when UCX no longer needs the buffer.
/// - A send with neither request nor callback reports its error only to a later flush.
/// - Messages that one thread sends on one endpoint match in the order of the sends.
///
/// `length` is in bytes.
///
/// Returns:
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_TAG.
///
/// Threads: any.
/// See also: ucxx_tag_send_sync, ucxx_tag_send_iov, ucxx_tag_recv, ucxx_endpoint_flush.
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
            (plain(params, length), endpoint.cast::<SharedEndpoint>().as_ref())
        {
            if !buffer.is_null() {
                if let Some(quick) = to.fast_for(feature::TAG) {
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

/// As ucxx_tag_send, but completes only after a receive has matched the message.
///
/// See also: ucxx_tag_send.
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

/// As ucxx_tag_send, from several buffers that form one message. Every tag receive can receive it.
///
/// The call copies the list, not the buffers. This and every other list of buffers has at most
/// 1,048,576 entries. A longer one is UCXX_ERR_INVALID_PARAM.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types differ: see ucxx_buffer_t.
/// - Any status of ucxx_tag_send.
///
/// Threads: any.
/// See also: ucxx_tag_recv_iov, ucxx_tag_send_multi.
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

/// Receives one message from any endpoint of the worker. This is an operation.
///
/// It matches a message whose tag equals `tag` in the bits of `tag_mask`. `length` is in bytes. The
/// length and tag of the message are stored in `recv_info`.
///
/// - A receive belongs to no endpoint. Name an endpoint in `source`, or set a timeout, if the death
///   of the sender shall end it.
/// - Messages that no receive matches wait at the receiver, without a limit.
///
/// Returns:
/// - UCXX_ERR_MESSAGE_TRUNCATED: the message is longer than `length`. `recv_info` has its full
///   length. The contents of the buffer are undefined.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_TAG.
///
/// Threads: any.
/// See also: ucxx_tag_probe, ucxx_tag_recv_iov, ucxx_request_cancel.
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
        if let (Some(plain), Some(at)) =
            (plain(params, length), worker.cast::<SharedWorker>().as_ref())
        {
            if !buffer.is_null() {
                if let Some(quick) = at.fast_for(feature::TAG) {
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

/// As ucxx_tag_recv, into several buffers, which are filled one after the other.
///
/// The call copies the list, not the buffers.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types differ: see ucxx_buffer_t.
/// - Any status of ucxx_tag_recv.
///
/// Threads: any.
/// See also: ucxx_tag_send_iov.
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

/// Checks for a message that has arrived and was not received. It makes no progress.
///
/// The tag matches as in ucxx_tag_recv. If `message` is not NULL, the message is removed from
/// matching. Receive it with ucxx_tag_message_recv. `message` is optional.
///
/// Returns:
/// - UCXX_OK: `*info` is filled, and `*message` is set.
/// - UCXX_ERR_NO_MESSAGE: there is no matching message.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_TAG.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file.
///
/// Threads: any.
/// Ownership: the caller owns `*message`.
/// See also: ucxx_tag_message_recv, ucxx_tag_message_destroy.
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

/// Receives a message that a probe removed from matching. This is an operation.
///
/// Call it once for a message. In all other respects it is ucxx_tag_recv.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: it was received before.
/// - Any status of ucxx_tag_recv.
///
/// Threads: any.
/// Ownership: the caller still destroys the message.
/// See also: ucxx_tag_probe.
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

/// Releases the message.
///
/// If it was not received, it is dropped, and its sender completes as if it had been received. NULL
/// is ignored.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
///
/// # Safety
/// NULL or a message of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_tag_message_destroy(message: *mut ucxx_tag_message_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(message) });
}
