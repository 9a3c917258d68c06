//! Active messages.

use super::guard;
use super::handle::{
    self, look, null, tell, ucxx_am_message_t, ucxx_endpoint_t, ucxx_notifier_t, ucxx_request_t,
    ucxx_worker_t,
};
use super::notifier::hand_out;
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{check_buffer, parts, ucxx_buffer_t};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::handler_table::DestroyArg;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::inflight::Out;
use std::ffi::c_void;

/// Runs for each message of its id, after a progress pass, outside every lock, on the thread that
/// drives progress. The handler owns `message`: it destroys it, receives it and destroys it, or
/// keeps it for either, now or later, on any thread. It may call every function; those that wait
/// return BUSY. It must not throw.
pub type ucxx_am_handler_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, message: *mut ucxx_am_message_t)>;

/// Frees what a handler was registered with; optional. Once: inside the call that replaces or
/// removes the handler or ends its worker, or, if the handler is running then, when it has
/// returned, on its thread. Also when the same `arg` is given again.
pub type ucxx_destroy_arg_t = Option<unsafe extern "C" fn(arg: *mut c_void)>;

/// Has `handler` called for active messages with this id from now on. NULL removes it. Ids of
/// active messages, multi-buffer messages and fetches are separate spaces of 65,536 each.
///
/// Without a handler a message whose data waits at its sender ends there with NO_ELEM; one that
/// came with its data is dropped, and counted in `am_unhandled` of ucxx_worker_query_stats.
///
/// When this returns, the handler that was there before may still be running on another thread:
/// `destroy_arg` tells when its `arg` is free. On an error `destroy_arg` is not called. Errors:
/// UNSUPPORTED without UCXX_FEATURE_AM; BUSY from a callback of another worker where this one has a
/// progress thread that takes operations by its queue.
///
/// # Safety
/// A worker of this library; `handler` and `destroy_arg` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_am_handler(
    worker: *mut ucxx_worker_t,
    id: u16,
    handler: ucxx_am_handler_t,
    arg: *mut c_void,
    destroy_arg: ucxx_destroy_arg_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker)? };
        // SAFETY: a message is a message behind its opaque type.
        let handler = handler.map(|handler| unsafe {
            std::mem::transmute::<
                unsafe extern "C" fn(*mut c_void, *mut ucxx_am_message_t),
                message::MessageHandler,
            >(handler)
        });
        let destroy: Option<DestroyArg> = destroy_arg;
        worker.set_am_handler(id, handler, arg, destroy)?;
        Ok(Status::OK)
    })
}

/// Has `notifier` hand out active messages with this id from now on (UCXX_EVENT_AM_MESSAGE), in the
/// place of a handler; NULL removes what is there. `user_data` is that of its reports. What is
/// handed out belongs to whoever polls, as it would to a handler, and what was in the notifier's
/// queue before stays there. The notifier may be destroyed first: messages that come later are
/// dropped.
///
/// Errors: as ucxx_worker_set_am_handler; INVALID_PARAM for a notifier of another context; CLOSED
/// for one that was stopped.
///
/// # Safety
/// A worker of this library; `notifier` is NULL or one of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_set_am_notifier(
    worker: *mut ucxx_worker_t,
    id: u16,
    notifier: *mut ucxx_notifier_t,
    user_data: *mut c_void,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        hand_out(worker, notifier, |worker, notifier| {
            worker.set_am_notifier(id, notifier, user_data)
        })
    }
}

/// Sends an active message: a header, which is copied, and data, for the handler or notifier that
/// the peer has under this id.
///
/// Either may be empty. A short message is easiest as the header alone: it needs no buffer that is
/// kept, and arrives at once. The header is at most `max_am_header` of ucxx_worker_query bytes.
/// Messages of one thread on one endpoint reach their handlers in the order they were sent,
/// whatever their sizes.
///
/// A short message travels with its data; a longer one leaves it here until the receiver pulls it.
/// UCX draws the line: at 5 to 8 KiB over shared memory and 0.1 to 0.3 MiB over TCP in the releases
/// that this was tried with, or at UCX_RNDV_THRESH; one of more than 1 MiB always waits. So
/// receivers expect both. UCXX_FLAG_EAGER sends the data along at any length, which copies it and
/// takes memory there; UCXX_FLAG_RNDV leaves it here. UCXX_FLAG_AM_REPLY gives the receiver an
/// endpoint to answer on. `memory_type` is told to the receiver, too.
///
/// Completion is local, as of ucxx_tag_send: of data that waits here, when the receiver has pulled
/// it, or has destroyed the message without. A receiver that does not destroy its messages makes
/// senders wait: not more than 256 messages of an endpoint, and 8 MiB of data that came along, are
/// on their way or unreceived. What is sent beyond that waits in the endpoint's queue, or with
/// UCXX_FLAG_NO_WAIT is NO_RESOURCE.
///
/// Errors: UNSUPPORTED without UCXX_FEATURE_AM, or to a peer that is not of this library; NO_ELEM
/// if the peer has no handler for a message whose data waited here; CLOSED, PEER_FAILED and the
/// like on an endpoint that has ended.
///
/// # Safety
/// `header` is readable for `header_length` bytes during the call, `buffer` for `length` bytes
/// until the operation has completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_send(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
    buffer: *const c_void,
    length: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        if let (Some(plain), Some(to)) =
            (plain(params, length | header_length), endpoint.cast::<Endpoint>().as_ref())
        {
            let readable =
                (header_length == 0 || !header.is_null()) && (length == 0 || !buffer.is_null());
            if readable {
                if let Some(quick) = to.fast_for_message(header_length + length) {
                    let (header, data) = ((header, header_length), (buffer, length));
                    return plainly(quick.am_send(
                        to,
                        id,
                        header,
                        data,
                        plain,
                        Out::new(request.cast()),
                    ));
                }
            }
        }
        send(endpoint, id, header, header_length, buffer, length, params, request)
    }
}

/// # Safety
/// As for `ucxx_am_send`.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
unsafe extern "C" fn send(
    endpoint: *mut ucxx_endpoint_t,
    id: u16,
    header: *const c_void,
    header_length: usize,
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
            let part = [Part { data: buffer.cast_mut(), length, memory_type: params.memory_type }];
            endpoint.am_send(id, bytes(header, header_length)?, &part, params, out)
        })
    }
}

/// As `ucxx_am_send`, of scattered buffers. The list is copied, the buffers are not.
///
/// # Safety
/// As for `ucxx_am_send`; `buffers` is readable for `count` entries during the call, and what they
/// name until the operation has completed.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_send_iov(
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
            endpoint.am_send(
                id,
                bytes(header, header_length)?,
                &parts(buffers, count)?,
                params,
                out,
            )
        })
    }
}

/// # Safety
/// `header` is readable for so many bytes while the result is in use.
#[inline(always)]
pub(crate) unsafe fn bytes<'a>(header: *const c_void, length: usize) -> Result<&'a [u8]> {
    if length == 0 {
        return Ok(&[]);
    }
    if header.is_null() {
        return Err(null("header"));
    }
    if length > isize::MAX as usize {
        return Err(Error::invalid(format!(
            "header_length: {length} bytes do not fit into any memory"
        )));
    }
    // SAFETY: as for this function.
    Ok(unsafe { std::slice::from_raw_parts(header.cast(), length) })
}

/// The sender's header and its length; NULL and 0 if there is none. Valid until the message is
/// destroyed. `length` is optional.
///
/// # Safety
/// NULL or a message of this library that was not destroyed; `length` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_header(
    message: *const ucxx_am_message_t,
    length: *mut usize,
) -> *const c_void {
    let header = |message: &Message| (message.header().as_ptr().cast(), message.header().len());
    // SAFETY: as for this function.
    unsafe { tell(look(message, (std::ptr::null(), 0), header), length) }
}

/// Bytes of data.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_length(message: *const ucxx_am_message_t) -> usize {
    // SAFETY: as for this function.
    unsafe { look(message, 0, |message| message.length() as usize) }
}

/// The data of a message that came with it, aligned to 8 bytes where UCX has it so; to be read
/// until the message is destroyed, or its worker. Until then it may be the buffer of a send, too:
/// destroy the message when that is complete.
///
/// NULL while the data waits at its sender: ucxx_am_message_length is not 0 then, and
/// ucxx_am_message_recv fetches it. NULL also where there is no data: the length is 0, and there is
/// nothing to receive.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_data(message: *const ucxx_am_message_t) -> *const c_void {
    // SAFETY: as for this function.
    unsafe { look(message, std::ptr::null(), Message::data) }
}

/// UCXX_MEMORY_*: the `memory_type` that the sender gave, HOST if it gave none. Data that came with
/// its message is in the host's memory in any case.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_memory_type(message: *const ucxx_am_message_t) -> i32 {
    // SAFETY: as for this function.
    unsafe { look(message, 0, Message::memory_type) }
}

/// The endpoint to the sender, to answer on; NULL unless the sender set UCXX_FLAG_AM_REPLY.
/// Borrowed: valid until the message is destroyed, or for as long as one's own that
/// ucxx_endpoint_retain makes of it. An answer that is under way goes on when the message is
/// destroyed. It is the user's own endpoint to that peer where there is one.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_reply(
    message: *const ucxx_am_message_t,
) -> *mut ucxx_endpoint_t {
    // SAFETY: as for this function.
    unsafe { look(message, std::ptr::null_mut(), |message| message.reply().cast_mut().cast()) }
}

/// Puts the data of a message into `buffer`: copies it if it came along, else pulls it from its
/// sender, straight into the buffer; once. In the handler or later, also of a message that a
/// notifier handed out, on any thread. The message is destroyed by the caller afterwards, or
/// meanwhile.
///
/// A buffer that is too short is MESSAGE_TRUNCATED at once, and the message stays as it was. A
/// second receive is INVALID_PARAM, also after one that failed on its way; CONNECTION_RESET where
/// the sender's connection has ended. A pull that UCX has begun is neither cancelled nor ended by
/// its timeout, but for UCXX_FLAG_TIMEOUT_CLOSES. Data that came along is copied into CUDA memory
/// by the driver, and waited for; into ROCm memory it is not: UNSUPPORTED.
///
/// # Safety
/// A message of this library; `buffer` is writable for `length` bytes until the operation has
/// completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_message_recv(
    message: *mut ucxx_am_message_t,
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
            let part = [Part { data: buffer, length, memory_type: params.memory_type }];
            message.receive(&part, params, out)
        })
    }
}

/// As `ucxx_am_message_recv`, into scattered buffers, which are filled one after the other. The
/// list is copied.
///
/// # Safety
/// As for `ucxx_am_message_recv`; `buffers` is readable for `count` entries during the call.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_am_message_recv_iov(
    message: *mut ucxx_am_message_t,
    buffers: *const ucxx_buffer_t,
    count: usize,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let message = handle::get(message)?;
            message.receive(&parts(buffers, count)?, params, out)
        })
    }
}

/// Ends a message. Data that was not received is dropped, and its sender completes as if it had
/// been; what a receive, or an answer on ucxx_am_message_reply, has begun goes on. Any thread. NULL
/// is ignored.
///
/// # Safety
/// NULL or a message of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_destroy(message: *mut ucxx_am_message_t) {
    // SAFETY: as for this function.
    let gone =
        unsafe { message.cast::<Message>().as_ref().is_none_or(|message| message.destroy_fast()) };
    if !gone {
        // SAFETY: as for this function.
        guard::quietly((), || unsafe { message::destroy(message.cast()) });
    }
}
