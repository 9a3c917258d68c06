//! Status numbers and their texts.

use super::guard;
use crate::engine::status::Status;
use std::ffi::c_char;

/// 0 done, 1 in progress, negative an error: one of `enum ucxx_status`, or another of UCS's numbers.
pub type ucxx_status_t = i32;

/// The name of a status, such as "UCXX_ERR_CANCELED"; "UCXX_ERR_UNKNOWN" for a number that has none. Never NULL; static. Any
/// thread.
#[no_mangle]
pub extern "C" fn ucxx_status_name(status: ucxx_status_t) -> *const c_char {
    Status(status).name().unwrap_or(c"UCXX_ERR_UNKNOWN").as_ptr()
}

/// A sentence on what a status means. Never NULL; static. Any thread.
#[no_mangle]
pub extern "C" fn ucxx_status_string(status: ucxx_status_t) -> *const c_char {
    Status(status).sentence().as_ptr()
}

/// What was wrong with the last call of the calling thread that failed: which argument, which peer, which limit, what to
/// do; of an operation whose failure a call has reported, what ucxx_request_error_message says. Empty if none has. Never NULL; at most
/// 1023 bytes, what is longer is cut; valid until the next call on this thread that fails.
#[no_mangle]
pub extern "C" fn ucxx_last_error_message() -> *const c_char {
    guard::last_error()
}
