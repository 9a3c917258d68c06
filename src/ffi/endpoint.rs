//! Endpoints: connecting, closing and flow control.

use super::constants::{ucxx_close, ucxx_error_handling};
use super::guard::{self, Explained};
use super::handle::{
    self, null, place, ucxx_address_t, ucxx_conn_request_t, ucxx_endpoint_t, ucxx_notifier_t,
    ucxx_request_t, ucxx_worker_t,
};
use super::operation::{submit, ucxx_op_params_t};
use super::params::{self, sized, text};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Callback, EndpointParams, SharedEndpoint};
use crate::engine::core::endpoint::send_window::WindowLimits;
use crate::engine::os::socket_address;
use std::ffi::{c_char, c_void};

/// Runs once for the event it is registered for.
///
/// It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
///
/// Threads: the thread that makes progress. No lock is held.
pub type ucxx_endpoint_callback_t = Option<
    unsafe extern "C" fn(arg: *mut c_void, endpoint: *mut ucxx_endpoint_t, status: ucxx_status_t),
>;

/// Parameters of an endpoint. All zero means all defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_params {
    /// Set by UCXX_ENDPOINT_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_ENDPOINT_ERROR_HANDLING_*. Both sides need the same value.
    ///
    /// - PEER, the default: detects the death of the peer, and still uses shared memory.
    /// - NONE: detects nothing, and cannot be closed by force. Operations that do not end by
    ///   themselves stay with UCX until the worker is destroyed.
    ///
    /// Endpoints of a worker to itself are always NONE.
    pub error_handling: i32,
    /// Send window in operations. While UCX has this many uncompleted sends of the endpoint,
    /// further sends wait in the send queue. 0 means 256.
    pub send_window_ops: u32,
    /// Send window in bytes. Sends wait while this many bytes are in flight. The send that reaches
    /// the limit is still submitted, so a send never waits while nothing is in flight. 0 means
    /// 256 MiB.
    pub send_window_bytes: u64,
    /// Capacity of the send queue in sends. Sends wait there for the send window, or for the peer's
    /// first answer. When it is full, sends return UCXX_ERR_NO_RESOURCE. Sends that other threads
    /// have handed to a progress thread count. 0 means 16384.
    ///
    /// When several threads submit at the same moment, each of them but the first may exceed these
    /// limits by one send.
    pub send_queue_ops: u32,
    /// Capacity of the send queue in bytes. 0 means no limit.
    pub send_queue_bytes: u64,
    /// Time in nanoseconds for the peer's first answer. When it expires, the endpoint ends with
    /// UCXX_ERR_TIMED_OUT. 0 means no limit. If a host has several addresses, each one gets an
    /// equal share of the time that is left.
    pub connect_timeout_ns: u64,
    /// Time in nanoseconds that the peer may be silent. The endpoint then ends with
    /// UCXX_ERR_TIMED_OUT. 0 means no limit. Use it for stopped processes and broken links. The end
    /// of a process is detected without it.
    ///
    /// - The time counts only while the endpoint has something in flight. That is a send, a flush,
    ///   or a receive that names the endpoint in `source`.
    /// - The endpoint ends after at most one and a half times this value. While the connection is
    ///   still being made, it may take five seconds longer.
    /// - Peers answer when they make progress. Choose a longer time than they may spend without
    ///   progress.
    /// - Time in which this side makes no progress counts by half at most.
    /// - It works only with workers of this library.
    /// - A peer that was only stopped may continue to read the buffer of a large send after the
    ///   send has ended here.
    pub liveness_ns: u64,
    /// ucxx_endpoint_connect: the numeric address to connect from, such as "192.0.2.1" or
    /// "192.0.2.1:4711". NULL means the system's choice. Elsewhere it must be NULL:
    /// ucxx_endpoint_create returns UCXX_ERR_UNSUPPORTED, and ucxx_endpoint_accept
    /// UCXX_ERR_INVALID_PARAM.
    pub local_address: *const c_char,
    /// Runs once, when the peer has answered. It does not run if the endpoint ends before.
    /// Operations need not wait for it. Optional.
    pub on_open: ucxx_endpoint_callback_t,
    /// Passed to `on_open`.
    pub on_open_arg: *mut c_void,
    /// Runs once, when the endpoint has ended. Optional. Its status:
    ///
    /// - UCXX_OK: closed by this side.
    /// - UCXX_ERR_CONNECTION_RESET: the peer closed its end. This is not a failure: see
    ///   ucxx_endpoint_close.
    /// - UCXX_ERR_PEER_FAILED: the peer died.
    /// - UCXX_ERR_TIMED_OUT: a time limit expired.
    /// - UCXX_ERR_REJECTED, UCXX_ERR_UNREACHABLE: ucxx_endpoint_connect made no connection.
    /// - UCXX_ERR_CANCELED: the request of the close was cancelled.
    /// - UCXX_ERR_IO_ERROR: the peer violated this library's protocol.
    /// - UCXX_ERR_UNSUPPORTED: the peer uses another version of this library's protocol.
    pub on_close: ucxx_endpoint_callback_t,
    /// Passed to `on_close`, or returned as `user_data` by the notifier.
    pub on_close_arg: *mut c_void,
    /// Reports the end as UCXX_EVENT_ENDPOINT_CLOSED, with the same status. It replaces `on_close`,
    /// which is then NULL. It must be of the worker's context. It may be destroyed before the
    /// endpoint. Optional.
    pub notifier: *mut ucxx_notifier_t,
}
/// Parameters of an endpoint. All zero means all defaults.
pub type ucxx_endpoint_params_t = ucxx_endpoint_params;

sized! { ucxx_endpoint_params, 104; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_params_init(
    value: *mut ucxx_endpoint_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Creates an endpoint to the worker with this address.
///
/// The connection is made in the background. Operations may be submitted at once. `params` may be
/// NULL.
///
/// Returns:
/// - UCXX_OK: `*endpoint` is set.
/// - UCXX_ERR_UNREACHABLE: the peer has ended, or no transport connects the two.
/// - UCXX_ERR_UNSUPPORTED: the two releases of UCX are known not to work together. Also:
///   `local_address` is set.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file.
/// - UCXX_ERR_CLOSED: the notifier was stopped.
/// - Any status of UCX: the message has its reason.
///
/// Threads: any.
/// Ownership: the caller owns the endpoint. It keeps the worker's memory alive.
/// See also: ucxx_worker_address, ucxx_address_from_bytes, ucxx_endpoint_close.
///
/// # Safety
/// Worker and address of this library; `params` is NULL or a struct whose `struct_size` is set;
/// `endpoint` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_create(
    worker: *mut ucxx_worker_t,
    address: *const ucxx_address_t,
    params: *const ucxx_endpoint_params_t,
    endpoint: *mut *mut ucxx_endpoint_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, address, place) = unsafe {
            (handle::share(worker)?, handle::get(address)?, place(endpoint, "endpoint")?)
        };
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        if params.local_address.is_some() {
            return Err(Error::new(
                Status::UNSUPPORTED,
                "local_address: is for ucxx_endpoint_connect alone",
            ));
        }
        place.write(handle::give_arc(SharedEndpoint::new(&worker, address, &params)?));
        Ok(Status::OK)
    })
}

/// Converts a callback from the type of the header to the type of the engine.
fn callback(callback: ucxx_endpoint_callback_t) -> Option<Callback> {
    // SAFETY: both types have the same arguments; the opaque endpoint is the engine's endpoint.
    unsafe { std::mem::transmute::<ucxx_endpoint_callback_t, Option<Callback>>(callback) }
}

fn window(params: &ucxx_endpoint_params) -> WindowLimits {
    let WindowLimits { ops, bytes, queue_ops, queue_bytes } = WindowLimits::DEFAULT;
    WindowLimits {
        ops: if params.send_window_ops == 0 { ops } else { params.send_window_ops },
        bytes: if params.send_window_bytes == 0 { bytes } else { params.send_window_bytes },
        queue_ops: if params.send_queue_ops == 0 { queue_ops } else { params.send_queue_ops },
        queue_bytes: if params.send_queue_bytes == 0 {
            queue_bytes
        } else {
            params.send_queue_bytes
        },
    }
}

/// # Safety
/// `local_address` is NULL or a terminated string.
unsafe fn convert(params: &ucxx_endpoint_params) -> Result<EndpointParams> {
    let peer_failure = match params.error_handling {
        mode if mode == ucxx_error_handling::UCXX_ENDPOINT_ERROR_HANDLING_PEER as i32 => true,
        mode if mode == ucxx_error_handling::UCXX_ENDPOINT_ERROR_HANDLING_NONE as i32 => false,
        mode => {
            return Err(Error::invalid(format!(
                "error_handling: {mode} is no UCXX_ENDPOINT_ERROR_HANDLING_* value"
            )))
        }
    };
    // SAFETY: as for this function.
    let local_address = match unsafe { text(params.local_address, "local_address") }? {
        None => None,
        Some(text) => Some(socket_address::parse(text).ok_or_else(|| {
            Error::invalid(format!(
                "local_address: {text:?} is not a numeric address, such as 192.0.2.1 or \
                192.0.2.1:4711"
            ))
        })?),
    };
    if params.on_close.is_some() && !params.notifier.is_null() {
        return Err(Error::invalid("notifier: cannot be set together with on_close"));
    }
    Ok(EndpointParams {
        peer_failure,
        local_address,
        connect_timeout_ns: params.connect_timeout_ns,
        liveness_ns: params.liveness_ns,
        window: window(params),
        on_open: callback(params.on_open),
        on_open_arg: params.on_open_arg,
        on_close: callback(params.on_close),
        on_close_arg: params.on_close_arg,
        notifier: params.notifier.cast_const().cast(),
    })
}

/// Creates an endpoint to a listener of this library, of UCXX or of UCP, by host and port.
///
/// - `host` is a name, which the call resolves, or a numeric IPv4 or IPv6 address.
/// - If a name has several addresses, they are tried in the resolver's order until one answers.
/// - Operations may be submitted at once. They wait until the listener's side answers, when
///   `on_open` runs.
/// - `params` may be NULL.
///
/// If no connection is made, the endpoint and its operations end with one of these. If there are
/// several addresses, the last one decides.
///
/// - UCXX_ERR_UNREACHABLE: no listener is there, or it was destroyed.
/// - UCXX_ERR_REJECTED: the listener's side rejected the connection.
/// - UCXX_ERR_TIMED_OUT: `connect_timeout_ns` expired. Without it, the system's own limit applies
///   to an address that does not answer. That may be minutes.
///
/// A context connects over one address family, because UCX needs addresses of the family of its TCP
/// devices. The default is IPv4. TCP_AF_PRIO=inet6 in the context's `config` selects IPv6.
/// Addresses of the other family are skipped.
///
/// UCX makes such connections over TCP or RDMA, and then changes to the fastest transport. Between
/// processes of one host that is shared memory. TCP has to be in UCX_TLS for this: without it,
/// there is no connection. Both sides need the same `error_handling`.
///
/// Returns:
/// - UCXX_OK: `*endpoint` is set.
/// - UCXX_ERR_INVALID_PARAM: an argument is invalid, or the host is on another interface under
///   UCXX_NETWORK_LOCAL.
/// - UCXX_ERR_UNREACHABLE: no attempt could be started, for example for an unknown name. Also:
///   `local_address` is of another family than the host.
/// - UCXX_ERR_UNSUPPORTED: no address is of the context's family.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file.
/// - UCXX_ERR_CLOSED: the notifier was stopped.
/// - Any status of UCX: the message has its reason.
///
/// Threads: any.
/// Ownership: the caller owns the endpoint.
/// See also: ucxx_listener_create, ucxx_endpoint_create, ucxx_endpoint_close.
///
/// # Safety
/// A worker of this library; `host` is a terminated string; `params` is NULL or a struct whose
/// `struct_size` is set; `endpoint` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_connect(
    worker: *mut ucxx_worker_t,
    host: *const c_char,
    port: u16,
    params: *const ucxx_endpoint_params_t,
    endpoint: *mut *mut ucxx_endpoint_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, host, place) =
            unsafe { (handle::share(worker)?, text(host, "host")?, place(endpoint, "endpoint")?) };
        let host = host.ok_or_else(|| null("host"))?;
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        place.write(handle::give_arc(SharedEndpoint::connect(&worker, host, port, &params)?));
        Ok(Status::OK)
    })
}

/// Accepts a connection: creates an endpoint to the requesting peer, on the listener's worker.
///
/// Call it once for a request, in `on_connect` or later. The endpoint may be used at once: sends
/// before `on_open` wait until the connection is made. `params` may be NULL.
///
/// Returns:
/// - UCXX_OK: `*endpoint` is set.
/// - UCXX_ERR_INVALID_PARAM: the request was answered before, or `local_address` is set.
/// - UCXX_ERR_CLOSED: the listener was destroyed before, or the notifier was stopped.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file. The request can still be answered elsewhere.
/// - Any status of UCX, for example if the peer has another `error_handling`. The message has its
///   reason.
///
/// Threads: any.
/// Ownership: the caller owns the endpoint, and still destroys the request.
/// See also: ucxx_conn_request_reject, ucxx_conn_request_destroy.
///
/// # Safety
/// A connection request of this library; `params` is NULL or a struct whose `struct_size` is set;
/// `endpoint` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_accept(
    conn_request: *mut ucxx_conn_request_t,
    params: *const ucxx_endpoint_params_t,
    endpoint: *mut *mut ucxx_endpoint_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (request, place) =
            unsafe { (handle::get(conn_request)?, place(endpoint, "endpoint")?) };
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        place.write(handle::give_arc(request.accept(&params)?));
        Ok(Status::OK)
    })
}

/// Returns whether the endpoint accepts operations, or why not.
///
/// Returns:
/// - UCXX_OK: it accepts operations.
/// - UCXX_ERR_CLOSED: this side closed it, or destroyed its worker.
/// - UCXX_ERR_CONNECTION_RESET: the peer closed its end.
/// - UCXX_ERR_PEER_FAILED: the peer died, or is no longer reachable.
/// - UCXX_ERR_TIMED_OUT: `connect_timeout_ns` or `liveness_ns` expired, or an operation with
///   UCXX_FLAG_TIMEOUT_CLOSES.
/// - UCXX_ERR_REJECTED: the listener's side rejected the connection.
/// - UCXX_ERR_UNREACHABLE: no listener is there, or no transport connects the two.
/// - UCXX_ERR_UNSUPPORTED: the peer uses another version of this library's protocol.
/// - UCXX_ERR_IO_ERROR: the peer violated this library's protocol.
///
/// Threads: any.
/// See also: ucxx_endpoint_params_t (on_close).
///
/// # Safety
/// NULL (INVALID_PARAM) or an endpoint of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_status(endpoint: *const ucxx_endpoint_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        endpoint.check_fork()?;
        let status = endpoint.status();
        if !status.is_error() {
            return Ok(Explained(status));
        }
        Ok(guard::explain(status, endpoint.not_open(status).message()))
    })
}

/// Flushes the endpoint: completes after every operation that was submitted to it before. This is
/// an operation.
///
/// - Rendezvous sends are included.
/// - Over TCP it does not make it safe to end the process: the kernel may still drop data. Close
///   with UCXX_CLOSE_FLUSH before.
/// - Its status is the first error of those sends that have neither request nor callback.
///
/// Returns:
/// - UCXX_ERR_CONNECTION_RESET: the peer closed its end before. This does not show whether earlier
///   sends arrived: see ucxx_endpoint_close.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// See also: ucxx_worker_flush, ucxx_endpoint_close.
///
/// # Safety
/// An endpoint of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_flush(
    endpoint: *mut ucxx_endpoint_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { submit(params, request, |params, out| handle::get(endpoint)?.flush(params, out)) }
}

/// Closes the endpoint: it accepts no more operations. This is an operation.
///
/// It completes when all requests of the endpoint have completed. `on_close` follows. `how` is one
/// of:
///
/// - UCXX_CLOSE_FLUSH completes what was submitted before: sends, and receives with this endpoint
///   in `source` that have matched a message. Other receives with `source` end with
///   UCXX_ERR_CLOSED. It waits as long as something completes every three seconds, or for one
///   second if nothing is in transfer. Then it continues by force, with UCXX_ERR_TIMED_OUT.
///   `timeout_ns` replaces both limits: set it if the peer may compute for longer.
/// - UCXX_CLOSE_FORCE cancels: requests complete with UCXX_ERR_CANCELED. The peer may still receive
///   data. If it has the announcement of a large message, it may read the buffer later, and receive
///   what the buffer contains then. Flush before, or agree on the end with the peer. The close
///   waits for its peer to read: for a second, or for up to four while UCX transfers something.
///   Over TCP a peer that does not read may not learn of the close: see docs/known-issues.md.
///
/// How two peers part: one side closes. The other side continues to make progress until its
/// `on_close`, or UCXX_EVENT_ENDPOINT_CLOSED, reports UCXX_ERR_CONNECTION_RESET. Then it destroys
/// its endpoint. This is the normal end. Both sides may also close at the same time.
///
/// - If a peer closes by FLUSH with UCXX_OK, all its sends arrive here before the end is reported
///   here. They can still be received afterwards, but not by a receive with this endpoint in
///   `source`. Post that one before.
/// - A send that the peer received in full before it closed completes with UCXX_OK. A send that it
///   did not receive completes with UCXX_ERR_CONNECTION_RESET, or is lost if it had completed
///   before.
/// - After the peer has closed, a close returns UCXX_OK. Any other operation, a flush too, ends
///   with UCXX_ERR_CONNECTION_RESET.
/// - Over TCP, and on connections by host and port, a close needs progress at the peer.
///
/// A close by FLUSH may also wait for the peer's first answer. This happens if the endpoint sent
/// nothing, UCX's connection exists, and the peer has not answered. The close waits one second, or
/// as `timeout_ns` allows, and then completes with UCXX_OK.
///
/// Returns:
/// - UCXX_OK: the endpoint is closed. This includes a peer that failed, or was never found.
/// - UCXX_ERR_TIMED_OUT: the time for FLUSH (see above), or `timeout_ns`, expired. The close
///   continued by force.
/// - UCXX_ERR_CANCELED: its request was cancelled. The close continued by force.
/// - UCXX_ERR_CLOSED: this side closed it before.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// Ownership: the caller still destroys the endpoint.
/// See also: ucxx_endpoint_destroy, ucxx_endpoint_flush, docs/connections.md.
///
/// # Safety
/// An endpoint of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_close(
    endpoint: *mut ucxx_endpoint_t,
    how: i32,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let endpoint = handle::get(endpoint)?;
            let force = match how {
                how if how == ucxx_close::UCXX_CLOSE_FLUSH as i32 => false,
                how if how == ucxx_close::UCXX_CLOSE_FORCE as i32 => true,
                how => return Err(Error::invalid(format!("how: {how} is no UCXX_CLOSE_* value"))),
            };
            endpoint.close(force, params, out)
        })
    }
}

/// Checks whether a send would be submitted at once: to UCX, or to a progress thread that takes it
/// over.
///
/// Other threads may send in between, so the next send may still have to wait.
///
/// Returns:
/// - 1: a send would not wait.
/// - 0: sends have to wait in the send queue, or active messages for credit, or the endpoint
///   accepts none. Missing credit delays active messages only. Also 0 for NULL.
///
/// Threads: any.
/// See also: ucxx_endpoint_on_writable, UCXX_FLAG_NO_WAIT.
///
/// # Safety
/// NULL (0) or an endpoint of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_writable(endpoint: *const ucxx_endpoint_t) -> i32 {
    // SAFETY: as for this function.
    unsafe { handle::get(endpoint) }.is_ok_and(SharedEndpoint::is_writable).into()
}

/// Registers a callback for the time when the endpoint is writable (see ucxx_endpoint_writable).
/// Use it after UCXX_ERR_NO_RESOURCE, whatever the reason was.
///
/// - The callback runs once, with UCXX_OK. If the endpoint is writable already, it runs in the next
///   pass.
/// - If the endpoint ends first, the callback runs with the endpoint's error, before `on_close`.
///   After a close that is UCXX_ERR_CLOSED.
/// - In the callback, send until UCXX_ERR_NO_RESOURCE, and register again. A pass runs each
///   endpoint's callback at most once, so no endpoint delays the others.
/// - NULL for `callback` removes the registration. A callback that is running on another thread may
///   still be running.
///
/// Returns:
/// - UCXX_OK: the callback is registered, or removed.
/// - UCXX_ERR_ALREADY_EXISTS: one is registered.
/// - The status of ucxx_endpoint_status: the endpoint accepts no operations any more.
///
/// Threads: any.
/// Callbacks: on the thread that makes progress, as all callbacks.
///
/// # Safety
/// NULL (INVALID_PARAM) or an endpoint of this library; `callback` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_on_writable(
    endpoint: *mut ucxx_endpoint_t,
    callback: ucxx_endpoint_callback_t,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        endpoint.on_writable(self::callback(callback), arg).map(|()| Status::OK)
    })
}

/// Creates another handle for the same endpoint.
///
/// A callback gets an endpoint that is valid only during the call. With this function it can keep
/// the endpoint. The endpoint ends when its last handle is destroyed.
///
/// Returns:
/// - UCXX_OK: `*own` is set.
///
/// Threads: any.
/// Ownership: the caller owns `*own`, and destroys it with ucxx_endpoint_destroy.
///
/// # Safety
/// An endpoint of this library; `own` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_endpoint_retain(
    endpoint: *mut ucxx_endpoint_t,
    own: *mut *mut ucxx_endpoint_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (endpoint, place) = unsafe { (handle::share(endpoint)?, place(own, "own")?) };
        endpoint.check_fork()?;
        place.write(handle::give_arc(endpoint.retain()));
        Ok(Status::OK)
    })
}

/// Releases the handle. With the last handle, it closes the endpoint and waits for its end.
///
/// - An open endpoint is closed as by UCXX_CLOSE_FLUSH.
/// - The call waits until the endpoint has ended and `on_close` has returned. It waits as long as
///   sends complete. It continues by force after three seconds without a completion, or after one
///   second if no send is in flight. What is left then completes with UCXX_ERR_CANCELED.
/// - It does not report the outcome: flush first to learn it.
///
/// NULL is ignored. For the order in which two peers close, see ucxx_endpoint_close.
///
/// Threads: any.
/// Callbacks: in a callback it does not wait, and the endpoint ends after the pass. Otherwise, a
/// callback of the worker must not wait for the calling thread, or the call never returns. To avoid
/// the wait: call ucxx_endpoint_close, and destroy the endpoint in `on_close`, or after `on_close`
/// or the notifier has reported the end.
/// See also: ucxx_endpoint_close, ucxx_endpoint_retain.
///
/// # Safety
/// NULL or an endpoint of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_destroy(endpoint: *mut ucxx_endpoint_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(endpoint) }.into_iter().for_each(SharedEndpoint::destroy);
        Ok(Status::OK)
    });
}
