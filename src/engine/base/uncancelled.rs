//! Disables `pthread_cancel` for a thread while it is inside the library.
//!
//! A cancelled thread is unwound from the system call that it is in, through UCX, whose locks would
//! stay locked. So calls that wait, create or destroy something are no cancellation points: the
//! thread is cancelled at the first one after the call. Calls that only post an operation or make a
//! pass are not protected: see the header.

use std::ffi::c_int;

extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE in glibc and musl.
const DISABLE: c_int = 1;

/// While this lives, the thread that made it is not cancelled. It cannot move to another thread.
#[must_use = "the thread may be cancelled again when it is dropped"]
pub(crate) struct Uncancelled {
    before: c_int,
    _here: std::marker::PhantomData<*const ()>,
}

impl Uncancelled {
    #[inline]
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: a valid state, and a valid pointer for the old one.
        unsafe { pthread_setcancelstate(DISABLE, &mut before) };
        Uncancelled { before, _here: std::marker::PhantomData }
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the state is the one that `new` received from this function; null is allowed for
        // the old one.
        unsafe { pthread_setcancelstate(self.before, std::ptr::null_mut()) };
    }
}
