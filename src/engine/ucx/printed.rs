//! What UCX prints, as text.

/// What `print` writes to the stream that it is given.
pub(crate) fn printed(print: impl FnOnce(*mut libc::FILE)) -> String {
    let (mut text, mut length) = (std::ptr::null_mut(), 0);
    // SAFETY: both places outlive the stream, which is closed below.
    let stream = unsafe { libc::open_memstream(&mut text, &mut length) };
    if stream.is_null() {
        return String::new();
    }
    print(stream);
    // SAFETY: opened above, closed once; afterwards text and length stand.
    unsafe { libc::fclose(stream) };
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the stream's memory, of that length.
    let copy =
        String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(text.cast::<u8>(), length) })
            .into_owned();
    // SAFETY: allocated by the C library for us to free.
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
