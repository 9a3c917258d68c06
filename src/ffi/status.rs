//! Status numbers and their texts.

use super::guard;
use crate::engine::base::status::Status;
use std::ffi::c_char;

/// 0 done, 1 in progress, negative an error: a value of `enum ucxx_status`, or another number of
/// UCS.
pub type ucxx_status_t = i32;

/// Returns the name of a status, such as "UCXX_ERR_CANCELED".
///
/// All of the application's own statuses, -1000 and below, have the name "UCXX_ERR_APPLICATION".
/// Unknown numbers have the name "UCXX_ERR_UNKNOWN".
///
/// Returns: a static string, never NULL.
///
/// Threads: any.
/// See also: ucxx_status_string, ucxx_error_text.
#[no_mangle]
pub extern "C" fn ucxx_status_name(status: ucxx_status_t) -> *const c_char {
    Status(status).known_name().as_ptr()
}

/// Returns a sentence that explains a status in general.
///
/// Returns: a static string, never NULL.
///
/// Threads: any.
/// See also: ucxx_error_text.
#[no_mangle]
pub extern "C" fn ucxx_status_string(status: ucxx_status_t) -> *const c_char {
    Status(status).sentence().as_ptr()
}

/// Returns the text that a program prints for a status: its name and an explanation.
///
/// Example: "UCXX_ERR_INVALID_PARAM: port: is 0". The explanation comes from
/// ucxx_last_error_message if the calling thread's last negative status was this one. Otherwise it
/// comes from ucxx_status_string. So the text is right for the status that a call has just
/// returned, and for a status that a callback received.
///
/// Returns: a string, never NULL. It is valid until the thread's next call of this function.
///
/// Threads: any.
/// See also: ucxx_request_error_message.
#[no_mangle]
pub extern "C" fn ucxx_error_text(status: ucxx_status_t) -> *const c_char {
    guard::text(Status(status))
}

/// Returns the explanation of the calling thread's last negative status: which argument, peer or
/// limit, and what to do.
///
/// - If that call reported the failure of an operation, this is the text of
///   ucxx_request_error_message.
/// - Before the first negative status the text is empty.
/// - A call that returns 0 or more does not change it.
///
/// The text belongs to the thread. Some languages may change the thread between two calls. They
/// have to stay on one thread until the text is copied: see docs/errors.md.
///
/// Returns: a string of at most 1023 bytes, never NULL. Longer texts are cut. It is valid until the
/// next call on this thread that returns a negative status.
///
/// Threads: any.
/// See also: ucxx_error_text.
#[no_mangle]
pub extern "C" fn ucxx_last_error_message() -> *const c_char {
    guard::last_error()
}
