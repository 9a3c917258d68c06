//! Endpoints.

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
use crate::engine::core::endpoint::endpoint::{Callback, Endpoint, EndpointParams};
use crate::engine::core::endpoint::send_window::WindowLimits;
use crate::engine::os::socket_address;
use std::ffi::{c_char, c_void};

/// Runs once for the event it was registered for, on the thread that drives progress, outside every
/// lock. It may call every function; those that wait return BUSY. It must not throw.
pub type ucxx_endpoint_callback_t = Option<
    unsafe extern "C" fn(arg: *mut c_void, endpoint: *mut ucxx_endpoint_t, status: ucxx_status_t),
>;

/// What an endpoint is made with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_params {
    /// Set by UCXX_ENDPOINT_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_ENDPOINT_ERROR_HANDLING_*. PEER, the default, notices a dead peer and keeps shared
    /// memory in use; NONE does not notice, and cannot be closed by force: what does not end by
    /// itself stays with UCX until the worker goes. Endpoints of a worker to itself are always
    /// NONE.
    pub error_handling: i32,
    /// The send window: while UCX has so many sends of the endpoint that it has not completed,
    /// further ones wait in the endpoint's send queue. 0 for 256.
    pub send_window_ops: u32,
    /// The same in bytes: sends wait from when so many are under way. The send that reaches the
    /// limit goes out, too, so one always does that finds nothing under way. 0 for 256 MiB.
    pub send_window_bytes: u64,
    /// The send queue: how many sends may wait behind the window, or for the peer's first answer,
    /// before further ones are refused with NO_RESOURCE. What other threads have handed to a
    /// progress thread counts. Threads that submit to it at the same moment may get in one more
    /// each than these, but for the first. 0 for 16384.
    pub send_queue_ops: u32,
    /// The same in bytes; 0 for no limit.
    pub send_queue_bytes: u64,
    /// Give the endpoint up, with TIMED_OUT, if the peer has not answered by then; 0 for no limit.
    /// Nanoseconds. Where a host has several addresses, each that is left gets an equal share of
    /// the time that is left.
    pub connect_timeout_ns: u64,
    /// Give the peer up, with TIMED_OUT, when it stays silent this long while something of the
    /// endpoint's is under way: a send, a flush, or a receive that names it in `source`; 0 for
    /// never. For stopped processes and cut links; a process that has ended is noticed without it.
    /// Noticed within one and a half times it, and up to five seconds later while the connection is
    /// still being made. Peers answer when they make progress: choose it longer than they may go
    /// without. Time in which this side makes no progress is not counted, but for half of it. Only
    /// workers of this library can be asked. A peer that was only stopped may go on reading the
    /// buffer of a large send after the send has ended here.
    pub liveness_ns: u64,
    /// ucxx_endpoint_connect: the numeric address to connect from, such as "192.0.2.1" or
    /// "192.0.2.1:4711", or NULL for the system's choice. NULL elsewhere: UNSUPPORTED from
    /// ucxx_endpoint_create, INVALID_PARAM from ucxx_endpoint_accept.
    pub local_address: *const c_char,
    /// Once, when the peer has answered; not if the endpoint ended before. Operations need not wait
    /// for it.
    pub on_open: ucxx_endpoint_callback_t,
    /// Passed to `on_open`.
    pub on_open_arg: *mut c_void,
    /// Once, when the endpoint has ended: OK after a close; CONNECTION_RESET when the peer closed
    /// its end, which is no failure (see ucxx_endpoint_close); PEER_FAILED when it died; TIMED_OUT
    /// when a time ran out; REJECTED or UNREACHABLE when ucxx_endpoint_connect led to nothing;
    /// CANCELED when the request of a close was cancelled; IO_ERROR when the peer broke the rules
    /// of the library's messages; UNSUPPORTED when it speaks another version of them.
    pub on_close: ucxx_endpoint_callback_t,
    /// Passed to `on_close`, or the `user_data` of the notifier's report.
    pub on_close_arg: *mut c_void,
    /// Reports the end instead of `on_close`, which is NULL then: UCXX_EVENT_ENDPOINT_CLOSED, with
    /// the same status. Of the worker's context; it may be destroyed before the endpoint.
    pub notifier: *mut ucxx_notifier_t,
}
/// What an endpoint is made with.
pub type ucxx_endpoint_params_t = ucxx_endpoint_params;

sized! { ucxx_endpoint_params, 104; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// An endpoint to the worker that `address` names. The connection is made in the background;
/// operations may be submitted at once. `params` may be NULL. The caller owns the endpoint; it
/// keeps the worker's memory alive.
///
/// Errors: UNREACHABLE when the peer is gone or no transport leads to it; UNSUPPORTED when the
/// releases of UCX here and there are known not to work together.
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
        place.write(handle::give_arc(Endpoint::new(&worker, address, &params)?));
        Ok(Status::OK)
    })
}

/// The same function, whose second argument is the endpoint behind an opaque type.
fn callback(callback: ucxx_endpoint_callback_t) -> Option<Callback> {
    // SAFETY: see above.
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
                "local_address: {text:?} is no numeric address, with or without a port"
            ))
        })?),
    };
    if params.on_close.is_some() && !params.notifier.is_null() {
        return Err(Error::invalid("notifier: excludes on_close"));
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

/// An endpoint to whoever listens on that host and port: a listener of this library, of UCXX or of
/// UCP. The host is a name, which is looked up in the call, or a numeric address, IPv4 or IPv6. A
/// name may stand for several addresses: they are tried in the resolver's order until one answers.
/// Operations may be submitted at once; they wait until then, when `on_open` runs. `params` may be
/// NULL. The caller owns the endpoint.
///
/// When nobody answers, the endpoint and what was submitted to it end with UNREACHABLE (nobody
/// listens, or the listener has gone), REJECTED, or TIMED_OUT (connect_timeout_ns; without it the
/// system's own limit for an address that keeps silent, which may be minutes). Of several addresses
/// the last one decides. Where nothing could even be begun, such as for an unknown name, the call
/// returns UNREACHABLE. Under UCXX_NETWORK_LOCAL a host of another interface is an INVALID_PARAM.
///
/// A context connects over IPv4, or, with TCP_AF_PRIO=inet6 in its config, over IPv6: UCX needs
/// addresses of the family of its TCP devices. Those of the other family are passed over;
/// UNSUPPORTED where none is left.
///
/// UCX makes such connections over TCP or RDMA and goes on over what is fastest: shared memory
/// between processes of one host, if TCP is among its transports (UCX_TLS), without which there is
/// no connection. Both sides need the same error_handling.
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
        place.write(handle::give_arc(Endpoint::connect(&worker, host, port, &params)?));
        Ok(Status::OK)
    })
}

/// Accepts a connection: an endpoint to whoever asked for it, on the listener's worker. Once, from
/// any thread, in `on_connect` or later; the request is used up and stays to be destroyed. `params`
/// may be NULL. The caller owns the endpoint, and may use it at once: what is sent before `on_open`
/// goes out when the connection stands.
///
/// Errors: INVALID_PARAM when the request has been answered already; CLOSED when its listener has
/// been destroyed meanwhile; else what UCX says, such as for a peer that has the other
/// error_handling.
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

/// OK while the endpoint takes operations, else why not: CLOSED, CONNECTION_RESET, PEER_FAILED,
/// TIMED_OUT, REJECTED, UNREACHABLE, UNSUPPORTED (the peer speaks another version), IO_ERROR (it
/// broke the rules of the library's messages). Any thread.
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

/// An operation that completes after every operation submitted to the endpoint before it,
/// rendezvous sends included, with the first error of those that kept neither request nor callback.
///
/// CONNECTION_RESET, also as the call's own status, when the peer has closed its end before. That
/// tells nothing of what was sent before: see ucxx_endpoint_close.
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

/// Closes the endpoint: it takes nothing more. Complete when all of the endpoint's requests are;
/// `on_close` follows. The handle stays to be destroyed.
///
/// UCXX_CLOSE_FLUSH lets finish what came before: sends, and those receives with this endpoint in
/// `source` that have matched a message (the others end with CLOSED). It waits for as long as
/// something does finish every three seconds, or as the timeout allows, and then goes on by force,
/// with TIMED_OUT. UCXX_CLOSE_FORCE cuts short: requests complete with CANCELED. That does not say
/// that the peer got nothing: one that had the announcement of a large message may still read the
/// buffer, and receive what it holds by then. Flush, or agree on the end with the peer, before.
///
/// How two peers part: one closes, and the other goes on progressing until its `on_close`, or
/// UCXX_EVENT_ENDPOINT_CLOSED, tells CONNECTION_RESET. Then that one destroys its endpoint. This is
/// the normal end. Both may close at the same time, too.
/// - What a peer has sent before a close by FLUSH that is OK there arrives before the end is told
///   here, and can be received after it, but not by a receive that names this endpoint in `source`:
///   that has to be posted before.
/// - A send that the peer has received in full before it closed ends with OK. One that it has not
///   received ends with CONNECTION_RESET, or, where it was complete before, is lost.
/// - A close, also of an endpoint that the peer has closed, is OK; any other operation, a flush
///   too, is CONNECTION_RESET from then on.
/// - Over TCP, and on a connection by host and port, a close needs the peer to progress.
///
/// Errors: CLOSED when it was closed here before. Where nothing was sent, UCX's connection stands,
/// and the peer has not answered yet, a close by FLUSH waits until that has heard of it, for a
/// second or as the timeout allows, and is OK either way.
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

/// Would a send go straight out now: to UCX, or from a thread that hands its operations to a
/// progress thread, as soon as that one takes it over? 1 or 0: 0 while sends have to wait in the
/// send queue, or active messages for credit (tags and streams may go out all the same), and when
/// the endpoint takes none. The answer may have changed before the next call where other threads
/// send, too. Any thread.
///
/// # Safety
/// NULL (0) or an endpoint of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_writable(endpoint: *const ucxx_endpoint_t) -> i32 {
    // SAFETY: as for this function.
    unsafe { handle::get(endpoint) }.is_ok_and(Endpoint::is_writable).into()
}

/// Has `callback` called when the endpoint is writable (see ucxx_endpoint_writable), once: what to
/// do after NO_RESOURCE, whatever it was refused for. It runs where progress happens, as every
/// callback; in the next pass when the endpoint is writable already. It may send until it gets
/// NO_RESOURCE again and arm anew: each pass calls each endpoint's once at most, so no endpoint
/// keeps others waiting. With the endpoint's error when it ends first, before `on_close`; CLOSED
/// after a close.
///
/// NULL for `callback` takes back what was armed; one that is running on another thread may still
/// be. Any thread.
///
/// Errors: ALREADY_EXISTS while one is armed; the endpoint's error when it takes no operations any
/// more.
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

/// Another handle for the same endpoint, to be destroyed by itself: what turns an endpoint that a
/// callback was given, which is valid during the call, into one to keep. The endpoint ends with the
/// last of its handles. Any thread.
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

/// Frees the handle. With the last handle of the endpoint (see ucxx_endpoint_retain) it closes the
/// endpoint as by UCXX_CLOSE_FLUSH if it is open, and waits until it has ended and `on_close` has
/// returned. It waits as long as sends go on completing, at most three seconds without any (one
/// when none is under way); what is left then is CANCELED: flush first to learn the outcome. From a
/// callback it does not wait: the end comes after the pass. For how two peers part see
/// ucxx_endpoint_close. NULL is ignored.
///
/// A callback of the worker's that waits for the caller makes that wait without end. To wait for
/// nobody: ucxx_endpoint_close, and the destroy in `on_close`, or when that, or a notifier's report
/// of the close, has told of the end.
///
/// # Safety
/// NULL or an endpoint of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_destroy(endpoint: *mut ucxx_endpoint_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(endpoint) }.into_iter().for_each(Endpoint::destroy);
        Ok(Status::OK)
    });
}
