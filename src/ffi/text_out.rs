//! Texts for the caller: copied into its memory, or passed on line by line.

use super::handle::{null, place};
use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use std::ffi::{c_char, c_void, CString};

/// The caller's function that gets each line.
pub(super) type Line = Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>;

/// Passes the lines that `make` returns on. Without a function, `make` is not called.
///
/// # Safety
/// `line` may be called with `arg`.
pub(super) unsafe fn pass_on(
    line: Line,
    arg: *mut c_void,
    make: impl FnOnce() -> Result<Vec<String>>,
) -> Result<Status> {
    let line = line.ok_or_else(|| null("line"))?;
    for text in make()? {
        let text = CString::new(text).unwrap_or_default();
        // SAFETY: as for this function; the text outlives the call.
        unsafe { line.call_out((arg, text.as_ptr())) };
    }
    Ok(Status::OK)
}

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

/// Copies a text into a terminated array, and cuts it between characters if it is too long.
pub(super) fn characters<const N: usize>(text: &str) -> [c_char; N] {
    let mut length = text.len().min(N - 1);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    let mut place = [0; N];
    for (place, byte) in place.iter_mut().zip(&text.as_bytes()[..length]) {
        *place = *byte as c_char;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_between_characters() {
        let of = |text| characters::<6>(text).map(|byte| byte as u8);
        assert_eq!(&of("abc"), b"abc\0\0\0");
        assert_eq!(&of("abcdef"), b"abcde\0");
        assert_eq!(&of("abcdé"), b"abcd\0\0");
        assert_eq!(&of(""), b"\0\0\0\0\0\0");
    }
}
