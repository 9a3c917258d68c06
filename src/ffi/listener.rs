//! Listeners and connection requests.

use super::guard;
use super::handle::{
    self, place, ucxx_conn_request_t, ucxx_listener_t, ucxx_notifier_t, ucxx_worker_t,
};
use super::params::{self, sized, text};
use super::status::ucxx_status_t;
use super::text_out;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::listener::{Callback, ConnRequest, Listener, OnConnect};
use crate::engine::core::request::notifier::Notifier;
use std::ffi::{c_char, c_void};

/// Runs for each connection request.
///
/// - The receiver owns `conn_request`. It accepts or rejects the request, in the callback or later,
///   on any thread. It destroys the request in every case.
/// - It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
///
/// Threads: the thread that makes progress. No lock is held.
/// See also: ucxx_endpoint_accept, ucxx_conn_request_reject.
pub type ucxx_listener_callback_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, conn_request: *mut ucxx_conn_request_t)>;

/// Parameters of `ucxx_listener_create`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_listener_params {
    /// Set by UCXX_LISTENER_PARAMS_INIT.
    pub struct_size: usize,
    /// Name or numeric address to listen on, IPv4 or IPv6. NULL means 127.0.0.1. Request every
    /// interface explicitly with "0.0.0.0" or "::". If a name has several addresses, the first
    /// usable one is taken.
    pub host: *const c_char,
    /// Port. 0 means any free port: see ucxx_listener_port.
    pub port: u16,
    /// Runs for each connection request. It is required, unless there is a `notifier`.
    pub on_connect: ucxx_listener_callback_t,
    /// Passed to `on_connect`, or returned as `user_data` by the notifier. It must live until
    /// ucxx_listener_destroy, or ucxx_worker_destroy, has returned.
    pub on_connect_arg: *mut c_void,
    /// Reports requests as UCXX_EVENT_CONN_REQUEST, in place of `on_connect`, which is then NULL.
    /// While 512 requests have no answer, further ones are rejected. It must be of the worker's
    /// context. It may be destroyed before the listener, which then rejects all requests.
    pub notifier: *mut ucxx_notifier_t,
}
/// Parameters of `ucxx_listener_create`.
pub type ucxx_listener_params_t = ucxx_listener_params;

sized! { ucxx_listener_params, 48; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_params_init(
    value: *mut ucxx_listener_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Listens on an address and port for connections of ucxx_endpoint_connect, UCXX or UCP.
///
/// The call resolves a name, and may block for that.
///
/// After the connections of a listener have ended, its port may stay in use for a minute. This
/// happens only if that listener or the new one has TCP_CM_REUSEADDR=n. The default is y.
///
/// Returns:
/// - UCXX_OK: `*listener` is set.
/// - UCXX_ERR_INVALID_PARAM: an argument is invalid, or the host is on another interface under
///   UCXX_NETWORK_LOCAL.
/// - UCXX_ERR_UNREACHABLE: the name is unknown.
/// - UCXX_ERR_UNSUPPORTED: the address is of a family over which the context does not connect: see
///   ucxx_endpoint_connect.
/// - UCXX_ERR_BUSY: the port is in use. Also: called in a callback on another thread, see
///   "Callbacks" at the top of this file.
/// - UCXX_ERR_CLOSED: the notifier was stopped.
/// - Any status of UCX: the message has its reason.
///
/// Threads: any.
/// Ownership: the caller owns the listener. It keeps the worker's memory alive, and ends with the
/// worker.
/// See also: ucxx_endpoint_accept, ucxx_listener_destroy.
///
/// # Safety
/// A worker of this library; `params` is a struct whose `struct_size` is set, its host NULL or a
/// terminated string, its notifier NULL or one of this library; `listener` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_listener_create(
    worker: *mut ucxx_worker_t,
    params: *const ucxx_listener_params_t,
    listener: *mut *mut ucxx_listener_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, place) = unsafe { (handle::share(worker)?, place(listener, "listener")?) };
        // SAFETY: as above.
        let made = unsafe {
            params::with(params, "params", |params| {
                let arg = params.on_connect_arg;
                // SAFETY: as above.
                let notifier = params.notifier.cast::<Notifier>().as_ref();
                let on_connect = match (callback(params.on_connect), notifier) {
                    (Some(callback), None) => OnConnect::Callback(callback, arg),
                    (None, Some(notifier)) => OnConnect::notifier(notifier, &worker, arg)?,
                    (None, None) => {
                        return Err(Error::invalid(
                            "on_connect: is NULL, and there is no notifier; set one of the two",
                        ))
                    }
                    (Some(_), Some(_)) => {
                        return Err(Error::invalid(
                            "notifier: cannot be set together with on_connect",
                        ))
                    }
                };
                // SAFETY: as above.
                let host = text(params.host, "host")?.unwrap_or("127.0.0.1");
                Listener::new(&worker, host, params.port, &on_connect)
            })
        }?;
        place.write(handle::give_arc(made));
        Ok(Status::OK)
    })
}

fn callback(callback: ucxx_listener_callback_t) -> Option<Callback> {
    // SAFETY: the same function, whose second argument is the request behind an opaque type.
    unsafe { std::mem::transmute::<ucxx_listener_callback_t, Option<Callback>>(callback) }
}

/// Returns the port of the listener.
///
/// Returns: the port. 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a listener of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_port(listener: *const ucxx_listener_t) -> u16 {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(listener) }.map_or(0, Listener::port))
}

/// Writes the address that the listener is bound to into `text`: "ip:port", with an IPv6 address in
/// brackets.
///
/// The text is terminated. A listener on every interface has the address "0.0.0.0" or "[::]".
/// `capacity` is in bytes, and 64 are always sufficient.
///
/// Returns:
/// - UCXX_OK: `text` is written.
/// - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
///
/// Threads: any.
/// See also: ucxx_listener_port, ucxx_conn_request_address.
///
/// # Safety
/// A listener of this library; `text` is writable for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_address(
    listener: *const ucxx_listener_t,
    text: *mut c_char,
    capacity: usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let address = unsafe { handle::get(listener) }?.address()?;
        // SAFETY: as above.
        unsafe { text_out::write(&address, text, capacity) }
    })
}

/// Stops listening, and releases the listener.
///
/// - Requests without an answer are rejected. Accepted endpoints continue.
/// - The call waits until `on_connect` no longer runs. NULL is ignored.
/// - It takes about 0.11 s, because UCX would otherwise call a destroyed listener for a connection
///   that is just arriving. If UCX holds such a connection, the call takes 0.5 s more, or 5 s if
///   the connection has data that UCX has not read.
/// - Under manual progress it makes progress.
///
/// Threads: any.
/// Callbacks: in a callback it does not wait. Otherwise it waits for a running `on_connect`, or
/// another running callback of a progress thread. That callback must not wait for the calling
/// thread: see ucxx_worker_destroy.
///
/// # Safety
/// NULL or a listener of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_destroy(listener: *mut ucxx_listener_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        if let Some(listener) = unsafe { handle::take_arc(listener) } {
            listener.destroy(true);
        }
        Ok(Status::OK)
    });
}

/// Writes the address of the requesting peer into `text`: "ip:port", with an IPv6 address in
/// brackets.
///
/// The text is terminated. It is empty if UCX does not know the address. `capacity` is in bytes,
/// and 64 are always sufficient.
///
/// Returns:
/// - UCXX_OK: `text` is written.
/// - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
///
/// Threads: any.
///
/// # Safety
/// A connection request of this library; `text` is writable for `capacity` bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_conn_request_address(
    conn_request: *const ucxx_conn_request_t,
    text: *mut c_char,
    capacity: usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let request = unsafe { handle::get(conn_request) }?;
        request.check_fork()?;
        let address = request.peer().map_or_else(String::new, |peer| peer.to_string());
        // SAFETY: as above.
        unsafe { text_out::write(&address, text, capacity) }
    })
}

/// Rejects the connection: the peer's endpoint ends with UCXX_ERR_REJECTED.
///
/// Returns:
/// - UCXX_OK: the request is answered.
/// - UCXX_ERR_INVALID_PARAM: it was answered before.
/// - UCXX_ERR_CLOSED: its listener was destroyed before.
///
/// Threads: any.
/// Ownership: the caller still destroys the request.
/// See also: ucxx_endpoint_accept, ucxx_conn_request_destroy.
///
/// # Safety
/// A connection request of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_conn_request_reject(
    conn_request: *mut ucxx_conn_request_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let request: Result<_> = unsafe { handle::share(conn_request) };
        request?.reject().map(|()| Status::OK)
    })
}

/// Releases the request, and rejects it if it was not answered. NULL is ignored.
///
/// Threads: any.
/// See also: ucxx_conn_request_reject.
///
/// # Safety
/// NULL or a connection request of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_conn_request_destroy(conn_request: *mut ucxx_conn_request_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(conn_request) }.into_iter().for_each(ConnRequest::destroy);
        Ok(Status::OK)
    });
}
