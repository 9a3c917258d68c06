//! What every exported function runs inside: no panic gets out, and an error leaves its explanation behind.

use super::status::ucxx_status_t;
use crate::engine::events;
use crate::engine::status::{Error, Result, Status};
use std::cell::RefCell;
use std::ffi::{c_char, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};

thread_local! {
    static LAST_ERROR: RefCell<Option<CString>> = const { RefCell::new(None) };
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

/// The same for a call that may have run callbacks, one of which may have destroyed its own worker.
#[inline(always)]
pub(crate) fn progressing(f: impl FnOnce() -> Result<Status>) -> ucxx_status_t {
    let status = status(f);
    if events::may_have_doomed() {
        quietly((), events::reap_doomed);
    }
    status
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
    // A thread that is being torn down has no storage any more: the status has to do.
    let _ = LAST_ERROR.try_with(|last| {
        *last.borrow_mut() = CString::new(message.replace('\0', " ")).ok();
    });
}

/// The calling thread's last explanation; empty if there was none.
pub(crate) fn last_error() -> *const c_char {
    let pointer = LAST_ERROR.try_with(|last| last.borrow().as_deref().map_or(c"".as_ptr(), CStr::as_ptr));
    pointer.unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        let status = status(|| panic!("number {}", 7));
        assert_eq!(status, Status::PANIC.0);
        // SAFETY: a terminated string of this thread's.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.contains("number 7"), "{text}");
        assert_eq!(quietly(5, || panic!("again")), 5);
    }
}
