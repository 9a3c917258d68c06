//! What every exported function runs inside: no panic gets out, and an error leaves its explanation behind.

use super::status::ucxx_status_t;
use crate::engine::doomed;
use crate::engine::lasting::lasting;
use crate::engine::status::{Error, Result, Status};
use crate::engine::uncancelled::Uncancelled;
use std::cell::Cell;
use std::ffi::c_char;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Room for an explanation with its end.
const LONGEST: usize = 1024;

lasting! {
    static LAST_ERROR: [Cell<u8>; LONGEST] = const { [const { Cell::new(0) }; LONGEST] };
}

/// Runs `f`; its error becomes a status, and its explanation the thread's last error.
#[inline(always)]
pub(crate) fn status(f: impl FnOnce() -> Result<Status>) -> ucxx_status_t {
    // One plain number comes out of the closure: a larger result would travel through memory in pieces.
    let guarded = || match f() {
        Ok(status) => status.0,
        Err(error) => failed(error),
    };
    // Handles are shared references with interior state that a panic leaves consistent enough to answer errors.
    match catch_unwind(AssertUnwindSafe(guarded)) {
        Ok(status) => status,
        Err(panic) => panicked(&*panic),
    }
}

/// The same for a call that makes or ends something, or waits for others: `pthread_cancel` does not end its thread meanwhile.
pub(crate) fn whole(f: impl FnOnce() -> Result<Status>) -> ucxx_status_t {
    let _whole = Uncancelled::new();
    progressing(f)
}

/// The same for a call that may have run callbacks, one of which may have destroyed a worker.
#[inline(always)]
pub(crate) fn progressing(f: impl FnOnce() -> Result<Status>) -> ucxx_status_t {
    let status = status(f);
    end_doomed();
    status
}

/// The same as `whole` where there is no status to return.
pub(crate) fn ending(f: impl FnOnce()) {
    let _whole = Uncancelled::new();
    quietly((), f);
    end_doomed();
}

#[inline(always)]
fn end_doomed() {
    if doomed::may_have_doomed() {
        quietly((), doomed::end_doomed);
    }
}

/// Runs `f` where there is no status to return; `otherwise` is the value after a panic.
pub(crate) fn quietly<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        panicked(&*panic);
        otherwise
    })
}

#[cold]
#[inline(never)]
pub(crate) fn failed(error: Error) -> ucxx_status_t {
    remember(error.message());
    error.status().0
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> ucxx_status_t {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    remember(&format!("a bug in ucxx_rs, please report it: {}", text.unwrap_or("panic")));
    Status::PANIC.0
}

/// Makes a failure that was learnt of, rather than met, the thread's last error.
#[cold]
pub(crate) fn explain(message: &str) {
    remember(message);
}

fn remember(message: &str) {
    let mut length = message.len().min(LONGEST - 1);
    while !message.is_char_boundary(length) {
        length -= 1;
    }
    LAST_ERROR.with(|last| {
        for (place, byte) in last.iter().zip(&message.as_bytes()[..length]) {
            place.set(if *byte == 0 { b' ' } else { *byte });
        }
        last[length].set(0);
    });
}

/// The calling thread's last explanation; empty if there was none.
pub(crate) fn last_error() -> *const c_char {
    LAST_ERROR.with(|last| last.as_ptr().cast())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        let status = status(|| panic!("number {}", 7));
        assert_eq!(status, Status::PANIC.0);
        // SAFETY: a terminated string of this thread's.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.contains("number 7"), "{text}");
        assert_eq!(quietly(5, || panic!("again")), 5);
    }

    #[test]
    fn an_explanation_that_is_too_long_is_cut_between_characters() {
        explain(&format!("a\0bc{}", "é".repeat(LONGEST)));
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.starts_with("a bcé") && text.ends_with('é') && text.len() == LONGEST - 2);
        explain("short");
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(last_error()) }, c"short");
    }
}
