//! UCP's own handles, for calls that this library does not have.

use super::handle::{
    look, ucxx_conn_request_t, ucxx_context_t, ucxx_endpoint_t, ucxx_memory_t, ucxx_rkey_t,
    ucxx_tag_message_t, ucxx_worker_t,
};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::endpoint::listener::ConnRequest;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::messaging::tag::probe::TagMessage;
use crate::engine::rma::remote_key::Rkey;
use crate::engine::ucx::context::Context;
use crate::engine::ucx::registered_memory::Memory;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Returns UCP's handle of the context, a ucp_context_h.
///
/// "UCP's handles" at the top of this file says what may be done with it. It is valid until the
/// context and all its workers are destroyed. Examples are ucp_context_query, ucp_mem_map and
/// ucp_context_print_info.
///
/// Returns: the handle. NULL for NULL, and in a forked child.
///
/// Threads: any. UCP's calls on the context itself may be made on any thread, too.
/// Ownership: the library's. Do not call ucp_cleanup.
/// See also: ucxx_worker_native.
///
/// # Safety
/// NULL or a context of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_native(context: *const ucxx_context_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(context, null_mut(), Context::native) }
}

/// Returns UCP's handle of the worker, a ucp_worker_h.
///
/// "UCP's handles" at the top of this file says where UCP may be called with it, and what may not
/// be done. It is valid until ucxx_worker_destroy or ucxx_worker_destroy_nb is called.
///
/// Returns: the handle. NULL for NULL, in a forked child, and from the worker's end on.
///
/// Threads: any. ucp_worker_signal may be called on any thread, too. All other calls of UCP may
/// not.
/// Ownership: the library's. Do not call ucp_worker_destroy.
/// See also: ucxx_worker_run_pre, ucxx_endpoint_native.
///
/// # Safety
/// NULL or a worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_native(worker: *const ucxx_worker_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(worker, null_mut(), SharedWorker::native) }
}

/// Returns UCP's handle of the endpoint, a ucp_ep_h, as it is now.
///
/// - Use it before the function that got it returns, and do not keep it. The library destroys it
///   when the endpoint closes or fails.
/// - The call counts as a send: the endpoint sends its greeting to the peer, if it has not done so.
/// - An endpoint has one UCP endpoint at a time. An endpoint by host and port, and an accepted one,
///   have it once the peer has answered: see `on_open`.
/// - The library does not count what is sent by UCP. ucxx_endpoint_flush and the closes do not
///   wait for it, and send windows do not limit it.
/// - Do not send active messages: UCP's handlers belong to the library, at both ends.
///
/// Returns: the handle. NULL for NULL, before the peer has answered, once the endpoint is closed or
/// has failed, in a forked child, after the worker's end, and where UCP must not be called: see
/// "UCP's handles" at the top of this file.
///
/// Threads: any, but it is NULL on every thread other than the progress thread if that thread takes
/// operations by its queue (see `delayed_submission`).
/// Ownership: the library's. Do not close it, and do not set its error handler.
/// See also: ucxx_worker_run_pre, ucxx_rkey_native.
///
/// # Safety
/// NULL or an endpoint of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_native(endpoint: *const ucxx_endpoint_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(endpoint, null_mut(), SharedEndpoint::native) }
}

/// Returns UCP's handle of a connection request, a ucp_conn_request_h, for ucp_conn_request_query.
///
/// Answer the request by ucxx_endpoint_accept or ucxx_conn_request_reject, never by UCP. The handle
/// is valid until then, and until the listener is destroyed.
///
/// Returns: the handle. NULL for NULL, once the request was answered, in a forked child, after the
/// worker's end, and where UCP must not be called: see "UCP's handles" at the top of this file.
///
/// Threads: as ucxx_endpoint_native.
/// Ownership: the library's.
/// See also: ucxx_conn_request_address.
///
/// # Safety
/// NULL or a connection request of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_conn_request_native(
    conn_request: *const ucxx_conn_request_t,
) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(conn_request, null_mut(), ConnRequest::native) }
}

/// Takes UCP's handle, a ucp_tag_message_h, out of a probed message. The caller then receives the
/// message by ucp_tag_msg_recv_nbx.
///
/// The caller has to receive it, because UCP cannot drop a message. Without the receive, the sender
/// of a long message waits until the worker is destroyed. Afterwards `message` counts as received:
/// ucxx_tag_message_recv returns UCXX_ERR_INVALID_PARAM. It still has to be destroyed.
///
/// Returns: the handle. NULL for NULL, if the message was received or taken before, in a forked
/// child, and after the worker's end.
///
/// Threads: any. "UCP's handles" at the top of this file says where UCP may be called with it.
/// Ownership: the caller's, until it receives the message.
/// See also: ucxx_tag_probe.
///
/// # Safety
/// NULL or a message of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_tag_message_native(message: *mut ucxx_tag_message_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(message.cast_const(), null_mut(), TagMessage::take_native) }
}

/// Returns UCP's handle of registered memory, a ucp_mem_h, valid until ucxx_memory_destroy.
///
/// Examples are ucp_mem_query, and UCP_OP_ATTR_FIELD_MEMH of an operation. Such an operation has to
/// complete before ucxx_memory_destroy.
///
/// Returns: the handle. NULL for NULL, and in a forked child.
///
/// Threads: any. UCP's calls on the memory itself may be made on any thread, too.
/// Ownership: the library's. Do not call ucp_mem_unmap.
/// See also: ucxx_memory_base.
///
/// # Safety
/// NULL or memory of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_native(memory: *const ucxx_memory_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(memory, null_mut(), Memory::native) }
}

/// Returns UCP's handle of a key, a ucp_rkey_h. An example is ucp_put_nbx on the key's endpoint.
///
/// It is valid until ucxx_rkey_destroy is called and until the worker's end. UCP's operations that
/// use it have to complete before. The remote address is ucxx_rkey_base plus an offset. UCP does
/// not check it, so check it against ucxx_rkey_length.
///
/// Returns: the handle. NULL for NULL, in a forked child, and after the worker's end.
///
/// Threads: any. "UCP's handles" at the top of this file says where UCP may be called with it.
/// Ownership: the library's. Do not call ucp_rkey_destroy.
/// See also: ucxx_endpoint_native.
///
/// # Safety
/// NULL or a key of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_native(rkey: *const ucxx_rkey_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { look(rkey, null_mut(), Rkey::native) }
}
