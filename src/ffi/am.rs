//! Active messages.

use super::guard;
use super::handle::{
    self, look, null, tell, ucxx_am_message_t, ucxx_endpoint_t, ucxx_notifier_t, ucxx_request_t,
    ucxx_worker_t,
};
use super::notifier::hand_out;
use super::operation::{plain, plainly, submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::{one_part, parts, ucxx_buffer_t};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::handler_table::DestroyArg;
use crate::engine::core::channel::message::{self, Message};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use std::ffi::c_void;

/// Called for each active message of its id.
///
/// The handler owns `message`. It may:
/// - destroy the message;
/// - receive its data and then destroy it;
/// - keep it and do either later, on any thread.
///
/// Threads: the thread that drives progress, after a progress pass, with no lock held.
/// Callbacks: the handler may call every function. Functions that wait return UCXX_ERR_BUSY. The
/// handler must not throw.
/// Ownership: the handler owns `message`; see ucxx_am_message_destroy.
/// See also: ucxx_worker_set_am_handler.
pub type ucxx_am_handler_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, message: *mut ucxx_am_message_t)>;

/// Frees the `arg` that a handler was registered with. Optional.
///
/// It runs exactly once for each registration, also when the same `arg` is registered again:
/// - inside the call that replaces or removes the handler, or that destroys its worker;
/// - if the handler is running at that moment: after the handler has returned, on the handler's
///   thread.
///
/// See also: ucxx_worker_set_am_handler.
pub type ucxx_destroy_arg_t = Option<unsafe extern "C" fn(arg: *mut c_void)>;

/// Registers `handler` for the active messages that arrive with this `id` from now on.
///
/// - `id`: active messages, multi-buffer messages and fetches have separate id spaces of 65,536 ids
///   each.
/// - `handler`: NULL removes the handler.
/// - `destroy_arg`: optional. It is not called if this function returns an error.
///
/// Messages that arrive without a handler:
/// - Data that waits at the sender: the send completes with UCXX_ERR_NO_ELEM.
/// - Data that arrived with its message: the message is dropped. It is counted in `am_unhandled` of
///   ucxx_worker_query_stats.
///
/// When this function returns, the previous handler may still be running on another thread.
/// `destroy_arg` reports when its `arg` is free.
///
/// Returns:
/// - UCXX_OK: the handler is registered or removed.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_AM.
/// - UCXX_ERR_BUSY: called from a callback "on another thread": see "Callbacks" at the top of this
///   file.
///
/// Threads: any.
/// Ownership: `arg` must stay valid until `destroy_arg` has run.
/// See also: ucxx_am_handler_t, ucxx_worker_set_am_notifier, ucxx_am_send.
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
        // SAFETY: the opaque type is the engine's message.
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

/// Has `notifier` report the active messages that arrive with this `id` from now on.
///
/// The notifier takes the place of a handler. Each message is reported as UCXX_EVENT_AM_MESSAGE.
///
/// - `notifier`: NULL removes what is registered for the id.
/// - `user_data`: the `user_data` of each report.
///
/// Messages that are already in the queue of a notifier stay there when the registration changes.
/// The notifier may be destroyed before the worker: messages that arrive later are dropped.
///
/// Returns:
/// - UCXX_OK: the notifier is registered or removed.
/// - UCXX_ERR_INVALID_PARAM: the notifier belongs to another context.
/// - UCXX_ERR_CLOSED: the notifier was stopped.
/// - UCXX_ERR_UNSUPPORTED, UCXX_ERR_BUSY: as for ucxx_worker_set_am_handler.
///
/// Threads: any.
/// Ownership: the thread that polls a message owns it, as a handler would.
/// See also: ucxx_worker_set_am_handler, ucxx_notifier_poll.
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

/// Sends an active message, that is a header and data, to the peer's handler or notifier for `id`.
/// This is an operation.
///
/// - `header`: copied during the call. At most `max_am_header` bytes (see ucxx_worker_query). May
///   be empty.
/// - `buffer`, `length`: the data, in bytes. May be empty. The buffer is not copied.
/// - `params->memory_type`: where the buffer is. The receiver gets this value, too.
///
/// A short message is easiest as a header alone: it needs no buffer that is kept, and it arrives at
/// once.
///
/// The data of a short message travels with it (eager). The data of a longer message stays at the
/// sender until the receiver pulls it (rendezvous). Receivers must expect both.
/// - UCX chooses the limit. In the UCX releases that were tried it is 5 to 8 KiB over shared memory
///   and 0.1 to 0.3 MiB over TCP. UCX_RNDV_THRESH sets it. Between processes of one host that
///   exchange many messages it may be 16 KiB.
/// - Data of more than 1 MiB always stays at the sender.
/// - UCXX_FLAG_EAGER sends the data along at any length. This copies it and takes memory at the
///   receiver.
/// - UCXX_FLAG_RNDV keeps the data here at any length.
///
/// UCXX_FLAG_AM_REPLY gives the receiver an endpoint to reply on.
///
/// Order: messages of one thread on one endpoint reach their handlers in the order in which they
/// were sent, whatever their sizes.
///
/// Completion is local, as for ucxx_tag_send. Rendezvous data completes when the receiver has
/// pulled it, or has destroyed the message without receiving it.
///
/// Credit: an endpoint has at most 256 messages and 8 MiB of eager data that are in transit or that
/// the receiver has not destroyed. Further messages wait in the endpoint's send queue. So a
/// receiver that does not destroy its messages stops its senders.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the peer does not use this library.
/// - UCXX_ERR_NO_ELEM: the data waited here, and the peer has no handler for `id`.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_AM.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid and unchanged until the operation has completed.
/// See also: ucxx_worker_set_am_handler, ucxx_am_send_iov, ucxx_am_send_multi,
/// ucxx_endpoint_on_writable.
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
        let (front, data) = ((header, header_length), (buffer, length));
        if let Some((params, to)) = plain_send(endpoint, front, data, params) {
            if let Some(fast) = to.fast_for_message(header_length + length, params) {
                let out = Out::new(request.cast());
                return plainly(fast.am_send(to, id, front, data, params, out));
            }
        }
        send_long(endpoint, id, header, header_length, buffer, length, params, request)
    }
}

/// The parameters and the endpoint of a message that the fast path may be able to send. None for
/// the slow path, which says what is wrong.
///
/// # Safety
/// As for `ucxx_am_send`.
#[inline(always)]
unsafe fn plain_send<'a>(
    endpoint: *mut ucxx_endpoint_t,
    (header, header_length): (*const c_void, usize),
    (buffer, length): (*const c_void, usize),
    params: *const ucxx_op_params_t,
) -> Option<(&'a OpParams, &'a SharedEndpoint)> {
    // SAFETY: the caller guarantees what `ucxx_am_send` asks for.
    let params = unsafe { plain(params, length | header_length) }?;
    // SAFETY: null, or a live endpoint.
    let endpoint = unsafe { endpoint.cast::<SharedEndpoint>().as_ref() }?;
    let readable = (header_length == 0 || !header.is_null()) && (length == 0 || !buffer.is_null());
    readable.then_some((params, endpoint))
}

/// Of more than fits into one piece with its header.
///
/// # Safety
/// As for `ucxx_am_send`.
#[allow(clippy::too_many_arguments)]
#[inline(never)]
unsafe extern "C" fn send_long(
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
        let (front, data) = ((header, header_length), (buffer, length));
        if let Some((params, to)) = plain_send(endpoint, front, data, params) {
            if let Some(fast) = to.fast_for_long_message(header_length, length, params) {
                let out = Out::new(request.cast());
                return plainly(fast.am_send_long(to, id, front, data, params, out));
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
            let part = one_part(buffer, length, params)?;
            endpoint.am_send(id, bytes(header, header_length)?, &part, params, out)
        })
    }
}

/// Sends an active message whose data is in scattered buffers.
///
/// The list is copied during the call; the buffers are not. At most 1,048,576 buffers, all of one
/// memory type.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
/// - Any status of ucxx_am_send.
///
/// Threads: any.
/// Ownership: the buffers must stay valid and unchanged until the operation has completed.
/// See also: ucxx_am_send.
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

/// The caller's header as a slice.
///
/// # Safety
/// `header` is readable for `length` bytes while the result is in use.
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

/// Returns the header that the sender gave, and its length in bytes.
///
/// Returns NULL and length 0 if there is no header. `length` is optional.
///
/// Threads: any.
/// Ownership: the header is valid until the message is destroyed.
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

/// Returns the length of the message's data in bytes; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_length(message: *const ucxx_am_message_t) -> usize {
    // SAFETY: as for this function.
    unsafe { look(message, 0, |message| message.length() as usize) }
}

/// Returns the data that arrived with the message.
///
/// It returns NULL in two cases:
/// - The data waits at the sender. ucxx_am_message_length is not 0. Receive it by
///   ucxx_am_message_recv.
/// - The message has no data. ucxx_am_message_length is 0, and there is nothing to receive.
///
/// The data is aligned to 8 bytes if UCX delivered it so.
///
/// Threads: any.
/// Ownership: valid until the message or its worker is destroyed. Until then a send may use it as
/// its buffer: destroy the message after that send has completed.
/// See also: ucxx_am_message_recv.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_data(message: *const ucxx_am_message_t) -> *const c_void {
    // SAFETY: as for this function.
    unsafe { look(message, std::ptr::null(), Message::data) }
}

/// Returns the UCXX_MEMORY_* value that the sender gave, or UCXX_MEMORY_HOST if it gave none.
///
/// Data that arrived with the message is in host memory in any case.
///
/// Threads: any.
///
/// # Safety
/// NULL or a message of this library that was not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_am_message_memory_type(message: *const ucxx_am_message_t) -> i32 {
    // SAFETY: as for this function.
    unsafe { look(message, 0, Message::memory_type) }
}

/// Returns the endpoint to the sender, to reply on.
///
/// Returns NULL unless the sender set UCXX_FLAG_AM_REPLY. If the user has an endpoint to that peer,
/// it is that one.
///
/// Threads: any.
/// Ownership: borrowed, and valid until the message is destroyed. ucxx_endpoint_retain makes a
/// handle of the caller's own. A reply that was sent continues when the message is destroyed.
/// See also: ucxx_endpoint_retain.
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

/// Receives the data of a message into `buffer`, once. This is an operation.
///
/// Data that arrived with the message is copied. Data that waits at the sender is pulled directly
/// into `buffer`. The call is allowed in the handler or later, also for a message that a notifier
/// reported.
///
/// - `length`: the size of `buffer` in bytes; at least ucxx_am_message_length.
/// - Data that arrived with the message is copied into CUDA memory by the driver, and the call
///   waits for that copy.
///
/// A pull that UCX has started cannot be cancelled. Its timeout does not end it either, except with
/// UCXX_FLAG_TIMEOUT_CLOSES.
///
/// Returns:
/// - UCXX_ERR_MESSAGE_TRUNCATED: `buffer` is too short. The message is unchanged and can be
///   received again.
/// - UCXX_ERR_INVALID_PARAM: the message was received before, even if that receive failed later.
/// - UCXX_ERR_CONNECTION_RESET: the data waits at the sender, and the sender's connection has
///   ended.
/// - UCXX_ERR_UNSUPPORTED: the data arrived with the message, and `memory_type` is ROCm.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// Ownership: the caller destroys the message afterwards, or while the receive is in progress.
/// `buffer` must stay valid until the operation has completed.
/// See also: ucxx_am_message_data, ucxx_am_message_destroy.
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
            let part = one_part(buffer, length, params)?;
            message.receive(&part, params, out)
        })
    }
}

/// Receives the data of a message into scattered buffers, which are filled one after the other.
///
/// The list is copied during the call. At most 1,048,576 buffers, all of one memory type.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the data is pulled, and the memory types of the buffers differ.
/// - Any status of ucxx_am_message_recv.
///
/// Threads: any.
/// Ownership: the buffers must stay valid until the operation has completed.
/// See also: ucxx_am_message_recv.
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

/// Releases a message. NULL is ignored.
///
/// Data that was not received is dropped, and its send completes as if it had been received. A
/// receive that was started continues, and so does a reply on ucxx_am_message_reply.
///
/// Threads: any.
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
