//! Listeners, and the requests for connections that come in on them.

use super::guard;
use super::handle::{
    self, place, ucxx_conn_request_t, ucxx_listener_t, ucxx_notifier_t, ucxx_worker_t,
};
use super::params::{self, sized, text};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::listener::{Callback, ConnRequest, Listener, OnConnect};
use crate::engine::core::request::notifier::Notifier;
use std::ffi::{c_char, c_void};

/// Runs for each request for a connection, on the thread that drives progress, outside every lock.
/// The request belongs to the caller from then on: to be accepted or rejected, in the callback or
/// later, from any thread, and destroyed in any case. It may call every function; those that wait
/// return BUSY. It must not throw.
pub type ucxx_listener_callback_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, conn_request: *mut ucxx_conn_request_t)>;

/// What a listener is made with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_listener_params {
    /// Set by UCXX_LISTENER_PARAMS_INIT.
    pub struct_size: usize,
    /// Name or numeric address to listen on, IPv4 or IPv6; NULL for 127.0.0.1. "0.0.0.0" or "::"
    /// for every interface has to be asked for. Of several addresses the first that can be had.
    pub host: *const c_char,
    /// 0 for any free port: see ucxx_listener_port.
    pub port: u16,
    /// For each request for a connection. Not NULL, unless there is a `notifier`.
    pub on_connect: ucxx_listener_callback_t,
    /// Passed to `on_connect`, or the `user_data` of the notifier's reports. Has to live until
    /// ucxx_listener_destroy, or ucxx_worker_destroy, has returned.
    pub on_connect_arg: *mut c_void,
    /// Hands requests out instead of `on_connect`, which is NULL then: UCXX_EVENT_CONN_REQUEST.
    /// When 512 requests have not been answered further ones are rejected. Of the worker's context;
    /// it may be destroyed before the listener, which rejects from then on.
    pub notifier: *mut ucxx_notifier_t,
}
/// What a listener is made with.
pub type ucxx_listener_params_t = ucxx_listener_params;

sized! { ucxx_listener_params, 48; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// Takes connections on an address and port, from ucxx_endpoint_connect, UCXX or UCP. A name is
/// looked up in the call. The caller owns the listener; it keeps the worker's memory alive, and
/// ends with the worker.
///
/// Errors: UNREACHABLE for an unknown name; UNSUPPORTED for an address of the family that the
/// context does not connect over, see ucxx_endpoint_connect; BUSY where the port is taken, by
/// another listener, or for a minute by the connections of one that had been made with
/// TCP_CM_REUSEADDR=n (the library's default is y); what else UCX says; INVALID_PARAM for a host of
/// another interface under UCXX_NETWORK_LOCAL.
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
                        return Err(Error::invalid("on_connect: is NULL; nobody would answer"))
                    }
                    (Some(_), Some(_)) => {
                        return Err(Error::invalid("notifier: excludes on_connect"))
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

/// The port that the listener listens on; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a listener of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_port(listener: *const ucxx_listener_t) -> u16 {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(listener) }.map_or(0, Listener::port))
}

/// Stops listening, rejects the requests that nobody has answered, waits until `on_connect` does
/// not run any more, and frees the handle. Endpoints that were accepted stay. NULL is ignored.
///
/// It progresses where progress is manual, and takes about 0.11 s: UCX calls back through a
/// listener that has gone when a connection is still coming in. Where UCX keeps such a connection
/// it takes half a second more, and five where something has come on it that UCX has not read. From
/// a callback it does not wait. An `on_connect`, or another callback of a progress thread, that
/// waits for the caller makes that wait without end.
///
/// # Safety
/// NULL or a listener of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_listener_destroy(listener: *mut ucxx_listener_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(listener) }.into_iter().for_each(Listener::destroy);
        Ok(Status::OK)
    });
}

/// Who asks: "ip:port", an IPv6 address in brackets, as a terminated string; "" where UCX cannot
/// tell. BUFFER_TOO_SMALL, with nothing written and the needed capacity in the message, where it
/// does not fit; 64 are always enough. Any thread.
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
        // SAFETY: as above.
        unsafe { place(text, "text") }?;
        request.check_fork()?;
        let address = request.peer().map_or_else(String::new, |peer| peer.to_string());
        if address.len() >= capacity {
            let message = format!(
                "capacity: {capacity} is too small, {} bytes are needed",
                address.len() + 1
            );
            return Err(Error::new(Status::BUFFER_TOO_SMALL, message));
        }
        // SAFETY: room for the text and its end, as just checked.
        unsafe {
            std::ptr::copy_nonoverlapping(address.as_ptr().cast(), text, address.len());
            text.add(address.len()).write(0);
        }
        Ok(Status::OK)
    })
}

/// Refuses the connection: the peer's endpoint ends with REJECTED. Once, from any thread; the
/// request stays to be destroyed.
///
/// Errors: INVALID_PARAM when the request has been answered already; CLOSED when its listener has
/// been destroyed meanwhile.
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

/// Frees the handle, and rejects the request if it was not answered. NULL is ignored.
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
