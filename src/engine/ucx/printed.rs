//! Captures what a UCX function prints to a stream.

/// Returns what `print` writes to the stream that it receives.
pub(crate) fn printed(print: impl FnOnce(*mut libc::FILE)) -> String {
    let (mut text, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: both variables outlive the stream, which is closed below.
    let stream = unsafe { libc::open_memstream(&mut text, &mut length) };
    if stream.is_null() {
        return String::new();
    }
    print(stream);
    // SAFETY: opened above and closed once. After that, `text` and `length` are final.
    unsafe { libc::fclose(stream) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null; the stream's buffer of that length.
    let copy =
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) })
            .into_owned();
    // SAFETY: open_memstream allocated it for us to free, and the copy is made.
    unsafe { libc::free(text.cast()) };
    copy
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_comes_back() {
        // SAFETY: an open stream and a terminated string.
        let text = printed(|stream| unsafe {
            libc::fputs(c"one\ntwo".as_ptr(), stream);
        });
        assert_eq!(text, "one\ntwo");
    }
}
