//! The log.

use super::guard;
use super::status::ucxx_status_t;
use crate::engine::base::log;
use crate::engine::base::status::Status;
use std::ffi::{c_char, c_void};

/// Receives one line of the log: `component` is "ucx" for what UCX logged. Both strings are valid
/// during the call. It may run on any thread, UCX's own among them, several at once, and in the
/// middle of another call: it must not call back into the library, nor throw.
pub type ucxx_log_callback_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        level: i32,
        component: *const c_char,
        message: *const c_char,
    ),
>;

/// Sends the log, UCX's own included, to `callback`, up to `level` (UCXX_LOG_*); NULL silences it,
/// which is how it begins. The environment variable UCXX_RS_LOG_LEVEL (off, error, warn, info,
/// debug, trace) overrules `level`; how much UCX logs is decided by its own UCX_LOG_LEVEL. A call
/// on another thread that has begun may still be running when this returns. Any thread.
#[no_mangle]
pub extern "C" fn ucxx_log_set_callback(
    callback: ucxx_log_callback_t,
    arg: *mut c_void,
    level: i32,
) -> ucxx_status_t {
    guard::status(|| log::set_callback(callback, arg, level).map(|()| Status::OK))
}
