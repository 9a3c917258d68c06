//! Keeps `pthread_cancel` away from a thread while it is inside the library.
//!
//! A thread that is cancelled is unwound from the system call that it is in, through UCX, which
//! does not expect that and would never give back its locks. So calls that wait, make or end
//! something are no cancellation points: the thread is cancelled at the first one after them. Calls
//! that only post an operation or make a pass are not kept: see the header.

use std::ffi::c_int;

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE, in glibc and musl.
const DISABLE: c_int = 1;

/// While it lives the thread that has made it is not cancelled. Stays on it.
#[must_use = "the thread may be cancelled again when it is dropped"]
pub(crate) struct Uncancelled {
    before: c_int,
    _here: std::marker::PhantomData<*const ()>,
}

impl Uncancelled {
    #[inline]
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: a state that there is, and a valid out-pointer.
        unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        Uncancelled { before, _here: std::marker::PhantomData }
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state that was there before.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
