//! The log callback.

use super::guard;
use super::status::ucxx_status_t;
use crate::engine::base::log;
use crate::engine::base::status::Status;
use std::ffi::{c_char, c_void};

/// Receives one line of the log.
///
/// - `component` is the part of the library, such as "endpoint" or "am"; "ucx" for lines of UCX.
/// - `message` begins with what it is about, in brackets: the worker, the endpoint, and the peer.
///   It is one line, without control characters.
/// - `component` and `message` are valid during the call.
/// - It must not call this library, and must not throw.
///
/// Threads: any thread, UCX's own included, several at once, and also in the middle of another
/// call.
pub type ucxx_log_callback_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        level: i32,
        component: *const c_char,
        message: *const c_char,
    ),
>;

/// Sends the log, UCX's lines included, to `callback`.
///
/// - `level` (UCXX_LOG_*) is the highest level to log. The environment variable UCXX_RS_LOG
///   overrides it: a level (off, error, warn, info, debug or trace), and levels of components, as
///   in "warn,am=debug". UCXX_RS_LOG_LEVEL is its older name.
/// - UCX's own variable UCX_LOG_LEVEL determines how much UCX logs.
/// - NULL for `callback` removes it, which is the default. Then nothing is logged, unless
///   UCXX_RS_LOG is set: in that case lines go to stderr.
/// - Of more than 20 lines a second from one place in the code the others are counted, and a line
///   "repeated N times" follows.
///
/// When this function returns, a call of the previous callback may still be running on another
/// thread.
///
/// Returns:
/// - UCXX_OK: the callback is set.
///
/// Threads: any.
#[no_mangle]
pub extern "C" fn ucxx_log_set_callback(
    callback: ucxx_log_callback_t,
    arg: *mut c_void,
    level: i32,
) -> ucxx_status_t {
    guard::status(|| log::set_callback(callback, arg, level).map(|()| Status::OK))
}
