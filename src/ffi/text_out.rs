//! Texts that are copied into a caller's memory.

use super::handle::place;
use crate::engine::base::status::{Error, Result, Status};
use std::ffi::c_char;

/// Writes a terminated text, or nothing if `capacity`, in bytes, is too small.
///
/// # Safety
/// `to` is NULL (refused), or writable for `capacity` bytes.
pub(super) unsafe fn write(text: &str, to: *mut c_char, capacity: usize) -> Result<Status> {
    // SAFETY: as for this function.
    unsafe { place(to, "text") }?;
    if text.len() >= capacity {
        let message =
            format!("capacity: {capacity} is too small, {} bytes are needed", text.len() + 1);
        return Err(Error::new(Status::BUFFER_TOO_SMALL, message));
    }
    // SAFETY: room for the text and its end, as just checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), to, text.len());
        to.add(text.len()).write(0);
    }
    Ok(Status::OK)
}
