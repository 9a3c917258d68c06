//! Synchronisation of windows.

use super::guard;
use super::handle::{self, null, place, ucxx_request_t, ucxx_window_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::{Assertions, LockType};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The reference of the handle, which keeps it.
///
/// # Safety
/// As for `handle::get`.
#[inline]
pub(super) unsafe fn shared(window: *mut ucxx_window_t) -> Result<ManuallyDrop<Arc<Window>>> {
    // SAFETY: as for this function; handles of windows are references.
    unsafe {
        handle::get(window)
            .map(|window| ManuallyDrop::new(Arc::from_raw(std::ptr::from_ref(window))))
    }
}

/// # Safety
/// As for `handle::get`.
#[inline(always)]
unsafe fn call(
    window: *mut ucxx_window_t,
    run: impl FnOnce(&Window) -> Result<()>,
) -> ucxx_status_t {
    // What waits under manual progress runs callbacks.
    guard::progressing(|| {
        // SAFETY: as for this function.
        run(unsafe { handle::get(window) }?)?;
        Ok(Status::OK)
    })
}

/// # Safety
/// NULL, or readable for so many.
unsafe fn list<'a>(ranks: *const u32, count: usize) -> Result<&'a [u32]> {
    if count == 0 {
        return Ok(&[]);
    }
    if ranks.is_null() {
        return Err(null("ranks"));
    }
    if count > u32::MAX as usize {
        return Err(Error::invalid(format!("count: there are no {count} ranks")));
    }
    // SAFETY: as for this function.
    Ok(unsafe { std::slice::from_raw_parts(ranks, count) })
}

/// Begins an access epoch to one target (passive target, MPI-4.1 12.5.3): UCXX_LOCK_SHARED or
/// UCXX_LOCK_EXCLUSIVE. Returns when the lock is held. Several targets may be locked, in an order
/// that all processes keep. First come, first served; readers that follow each other enter
/// together. With UCXX_ASSERT_NOCHECK nothing is locked: the caller knows that nobody else holds a
/// lock that would exclude this one.
///
/// The calls that synchronise one window are serialised by the caller; those of different windows
/// are not. Where they wait under manual progress they progress the group's worker, and callbacks
/// may run in them; from a callback they return BUSY where they would have to wait.
///
/// Errors, with the epoch as it was: RMA_LOCK_TYPE, RMA_RANK, RMA_ASSERT for the arguments;
/// RMA_SYNC in an epoch that it does not go with, and with no_locks; TIMED_OUT after
/// lock_timeout_ns; RMA_POISONED, within 2 s, when a process has died that held the target's lock
/// alone: what it has left there is unknown, and stays locked until the window is made anew. A
/// holder of a shared lock that dies is taken out.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_lock(
    window: *mut ucxx_window_t,
    lock_type: i32,
    target: u32,
    assertions: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        call(window, |window| {
            let how = LockType::from_number(lock_type)?;
            window.lock(how, target, Assertions::of_lock(assertions)?)
        })
    }
}

/// The same without waiting. While it is in progress the target can be neither accessed nor locked
/// again, and the lock is asked for whenever the group's worker makes a pass, which a progress
/// thread does by itself: a caller that does not progress keeps others waiting in line. Cancelled
/// or out of time (timeout_ns, lock_timeout_ns) it leaves the epoch as it was. The window is not
/// destroyed meanwhile.
///
/// # Safety
/// A window of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_lock_nb(
    window: *mut ucxx_window_t,
    lock_type: i32,
    target: u32,
    assertions: u32,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let window = shared(window)?;
            let how = LockType::from_number(lock_type)?;
            window.lock_nb(how, target, Assertions::of_lock(assertions)?, params, out)
        })
    }
}

/// Ends the access epoch to a target: what was done there is done, and seen by whoever locks it
/// next. Errors: RMA_SYNC unless it is locked by ucxx_window_lock; RMA_POISONED when the others
/// have taken this process for dead meanwhile. The rest as ucxx_window_lock.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_unlock(
    window: *mut ucxx_window_t,
    target: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, |window| window.unlock(target)) }
}

/// Begins an access epoch to all targets, this process included, whose locks are shared; returns
/// when they are held, or, after an error at one of them, none. UCXX_ASSERT_NOCHECK as in
/// ucxx_window_lock, and so the rest.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_lock_all(
    window: *mut ucxx_window_t,
    assertions: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, |window| window.lock_all(Assertions::of_lock(assertions)?)) }
}

/// Ends the epoch that ucxx_window_lock_all has begun. The rest as ucxx_window_unlock.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_unlock_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::unlock_all) }
}

/// What this process has done at the target in the present passive epoch is done there, for
/// everybody to see. Any thread. Errors: RMA_RANK; RMA_SYNC unless the target is locked.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_flush(
    window: *mut ucxx_window_t,
    target: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, |window| window.flush(target)) }
}

/// The same as an operation: it completes when all is done that was begun before it, and tells what
/// was wrong with that, as a flush. On this host it completes inside the call.
///
/// # Safety
/// A window of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_flush_nb(
    window: *mut ucxx_window_t,
    target: u32,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { submit(params, request, |params, out| shared(window)?.flush_nb(target, params, out)) }
}

/// As ucxx_window_flush, for all targets: in any passive epoch.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_flush_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::flush_all) }
}

/// The buffers of this process may be used again, and what was read is there; nothing else is said
/// of the target. The rest as ucxx_window_flush.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_flush_local(
    window: *mut ucxx_window_t,
    target: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, |window| window.flush_local(target)) }
}

/// The same for all targets: in any passive epoch.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_flush_local_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::flush_local_all) }
}

/// Orders this process's own loads and stores in the window: those before it come before those
/// after it, for everybody (a full memory fence). Always legal. Any thread.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_sync(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::sync) }
}

/// Begins an exposure epoch (MPI-4.1 12.5.2): the `count` ranks, which may include the caller's,
/// may access this process's memory after their ucxx_window_start, until their
/// ucxx_window_complete. Does not wait. Assertions: NOCHECK (those say it as well), NOSTORE, NOPUT,
/// which are hints.
///
/// Errors: RMA_RANK, INVALID_PARAM for a rank that is named twice, RMA_ASSERT; RMA_SYNC in an
/// exposure, and after the first access that follows a fence.
///
/// # Safety
/// A window of this library; `ranks` is readable for `count`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_post(
    window: *mut ucxx_window_t,
    ranks: *const u32,
    count: usize,
    assertions: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        call(window, |window| window.post(list(ranks, count)?, Assertions::of_post(assertions)?))
    }
}

/// Begins an access epoch to these ranks, once each has posted to this one; with NOCHECK it is
/// known that they have. Errors: as ucxx_window_post; RMA_SYNC in another access epoch;
/// PEER_FAILED, with the rank and with no epoch begun, when one of them has died, or left the
/// window. See ucxx_window_lock for waiting.
///
/// # Safety
/// A window of this library; `ranks` is readable for `count`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_start(
    window: *mut ucxx_window_t,
    ranks: *const u32,
    count: usize,
    assertions: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        call(window, |window| window.start(list(ranks, count)?, Assertions::of_start(assertions)?))
    }
}

/// Ends the access epoch that ucxx_window_start has begun: what was done is done at the targets,
/// which are told. Does not wait. Errors: RMA_SYNC without one.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_complete(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::complete) }
}

/// Ends the exposure epoch, once all that ucxx_window_post has named have completed. Errors:
/// RMA_SYNC without one; PEER_FAILED, with the rank and with the exposure ended, when one has died,
/// or left the window, that has not completed. See ucxx_window_lock for waiting.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_wait(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::wait) }
}

/// The same without waiting: 1 to `*done` if the exposure has ended with this call, 0 if not.
///
/// # Safety
/// A window of this library; `done` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_test(
    window: *mut ucxx_window_t,
    done: *mut i32,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (window, place) = unsafe { (handle::get(window)?, place(done, "done")?) };
        place.write(window.test()?.into());
        Ok(Status::OK)
    })
}

/// Ends the epoch that the last fence has begun, at all members, and begins another (MPI-4.1
/// 12.5.1): called by all, returns when all have called it. What was done before is done,
/// everywhere. Assertions: NOPRECEDE (this process has done nothing since the last one), NOSUCCEED
/// (no epoch follows), given by all or none, and NOSTORE, NOPUT, which are hints. With both it
/// waits for nobody.
///
/// Errors: RMA_ASSERT; RMA_SYNC in an epoch of another kind; PEER_FAILED when a member has died, or
/// left the window, with its rank, at all others, within 2 s, and from then on each time; TIMED_OUT
/// after the group's collective_timeout_ns. See ucxx_window_lock for waiting.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_fence(
    window: *mut ucxx_window_t,
    assertions: u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, |window| window.fence(Assertions::of_fence(assertions)?)) }
}
