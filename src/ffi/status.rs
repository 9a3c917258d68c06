//! Status numbers and their texts.

use super::guard;
use crate::engine::base::status::Status;
use std::ffi::c_char;

/// 0 done, 1 in progress, negative an error: one of `enum ucxx_status`, or another of UCS's
/// numbers.
pub type ucxx_status_t = i32;

/// The name of a status, such as "UCXX_ERR_CANCELED". The application's own statuses, -1000 and
/// below, are all called "UCXX_ERR_APPLICATION", and numbers without a meaning "UCXX_ERR_UNKNOWN".
/// Never NULL; static. Any thread.
#[no_mangle]
pub extern "C" fn ucxx_status_name(status: ucxx_status_t) -> *const c_char {
    Status(status).known_name().as_ptr()
}

/// A sentence on what a status means. Never NULL; static. Any thread.
#[no_mangle]
pub extern "C" fn ucxx_status_string(status: ucxx_status_t) -> *const c_char {
    Status(status).sentence().as_ptr()
}

/// What a program prints for a status: its name and an explanation, such as
/// "UCXX_ERR_INVALID_PARAM: port: is 0". The explanation is ucxx_last_error_message where the
/// calling thread's last negative status was this one, and ucxx_status_string otherwise. So it is
/// right for the status that a call has just returned, and for one that a callback was given.
///
/// Never NULL; valid until the thread's next call of this function.
#[no_mangle]
pub extern "C" fn ucxx_error_text(status: ucxx_status_t) -> *const c_char {
    guard::text(Status(status))
}

/// The explanation of the calling thread's last call that returned a negative status: which
/// argument, which peer, which limit, what to do. For an operation whose failure a call has
/// reported, what ucxx_request_error_message says. Empty before the first such call. A call that
/// returns a status of 0 or above leaves it as it is.
///
/// It belongs to the thread. Languages that may go on with another thread between two calls keep to
/// one thread from the call until they have copied the text: docs/errors.md has what that is in
/// each.
///
/// Never NULL; at most 1023 bytes, what is longer is cut; valid until the next call on this thread
/// that returns a negative status.
#[no_mangle]
pub extern "C" fn ucxx_last_error_message() -> *const c_char {
    guard::last_error()
}
