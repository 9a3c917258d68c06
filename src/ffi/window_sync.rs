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

/// A reference to the window. The handle keeps the window alive.
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

/// Runs a synchronisation call.
///
/// # Safety
/// As for `handle::get`.
#[inline(always)]
unsafe fn call(
    window: *mut ucxx_window_t,
    run: impl FnOnce(&Window) -> Result<()>,
) -> ucxx_status_t {
    // Under manual progress a call that waits runs callbacks.
    guard::progressing(|| {
        // SAFETY: as for this function.
        run(unsafe { handle::get(window) }?)?;
        Ok(Status::OK)
    })
}

/// The caller's list of ranks.
///
/// # Safety
/// `ranks` is NULL or readable for `count` entries.
unsafe fn list<'a>(ranks: *const u32, count: usize) -> Result<&'a [u32]> {
    if count == 0 {
        return Ok(&[]);
    }
    if ranks.is_null() {
        return Err(null("ranks"));
    }
    if count > u32::MAX as usize {
        return Err(Error::invalid(format!("count: {count} is more than a group has members")));
    }
    // SAFETY: as for this function.
    Ok(unsafe { std::slice::from_raw_parts(ranks, count) })
}

/// Begins a passive target access epoch at one target (MPI 4.1, 12.5.3). It returns when the lock
/// is held.
///
/// - `lock_type`: UCXX_LOCK_SHARED or UCXX_LOCK_EXCLUSIVE.
/// - `target`: a rank of the window's group. Several targets may be locked; all processes must lock
///   them in the same order.
/// - `assertions`: 0 or UCXX_ASSERT_NOCHECK. With NOCHECK nothing is locked: the caller guarantees
///   that no other process holds a conflicting lock.
///
/// Locks are granted in the order of the requests. Consecutive shared requests are granted
/// together. A holder of a shared lock that dies is removed.
///
/// Rules for all synchronisation calls:
/// - The caller serialises the calls on one window. Those on different windows may run at the same
///   time.
/// - Under manual progress a call that waits progresses the group's worker, and callbacks may run
///   in it.
/// - From a callback they return UCXX_ERR_BUSY if they would have to wait.
///
/// Returns:
/// - UCXX_OK: the epoch has begun.
/// - UCXX_ERR_RMA_LOCK_TYPE: `lock_type` is unknown.
/// - UCXX_ERR_RMA_RANK: the window has no rank `target`.
/// - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
/// - UCXX_ERR_RMA_SYNC: the present epoch does not allow it, or the window has `no_locks`.
/// - UCXX_ERR_TIMED_OUT: `lock_timeout_ns` has passed.
/// - UCXX_ERR_RMA_POISONED: a process has died that held an exclusive lock of the target. This is
///   noticed within 2 s. The contents of the memory are unknown. The target stays locked until the
///   window is made anew.
/// - UCXX_ERR_PEER_FAILED: the target is on another host, and has died or left the window.
/// - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
///
/// After an error the epoch is unchanged.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_lock_nb, ucxx_window_unlock, ucxx_window_lock_all.
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

/// Begins a passive target access epoch without waiting. The operation completes when the lock is
/// held. This is an operation.
///
/// The arguments are those of ucxx_window_lock. While the operation is in progress:
/// - The target cannot be accessed or locked again, and the window must not be destroyed.
/// - The lock is requested again in each pass of the group's worker. A progress thread makes these
///   passes by itself. A caller that does not progress delays the other processes in the queue.
///
/// If it is cancelled or times out (`timeout_ns`, `lock_timeout_ns`), the epoch is unchanged.
///
/// Returns:
/// - UCXX_ERR_RMA_LOCK_TYPE, UCXX_ERR_RMA_RANK, UCXX_ERR_RMA_ASSERT, UCXX_ERR_RMA_SYNC: as for
///   ucxx_window_lock.
/// - UCXX_ERR_TIMED_OUT: `timeout_ns` or `lock_timeout_ns` has passed.
/// - UCXX_ERR_RMA_POISONED, UCXX_ERR_PEER_FAILED: as for ucxx_window_lock.
/// - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_lock.
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

/// Ends the access epoch at a target that ucxx_window_lock has begun (MPI 4.1, 12.5.3).
///
/// All operations at the target are complete there. The next process that locks the target sees
/// them.
///
/// Returns:
/// - UCXX_OK: the epoch has ended.
/// - UCXX_ERR_RMA_RANK: the window has no rank `target`.
/// - UCXX_ERR_RMA_SYNC: the target is not locked by ucxx_window_lock.
/// - UCXX_ERR_RMA_POISONED: other processes have treated this process as dead in the meantime.
/// - UCXX_ERR_PEER_FAILED: the target has died or left the window.
/// - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
/// - The status of an operation of this epoch that the target has reported as failed.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_lock, ucxx_window_flush.
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

/// Begins a passive target access epoch at all targets, this process included (MPI 4.1, 12.5.3).
///
/// The locks are shared. It returns when all are held. After an error at one target none is held.
/// `assertions` are as for ucxx_window_lock.
///
/// Returns:
/// - Any status of ucxx_window_lock, except UCXX_ERR_RMA_LOCK_TYPE and UCXX_ERR_RMA_RANK.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_unlock_all.
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

/// Ends the epoch that ucxx_window_lock_all has begun (MPI 4.1, 12.5.3).
///
/// Returns:
/// - UCXX_ERR_RMA_SYNC: there is no such epoch.
/// - Any status of ucxx_window_unlock, except UCXX_ERR_RMA_RANK.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_lock_all.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_unlock_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::unlock_all) }
}

/// Completes the operations of this process at a target in the present passive epoch (MPI 4.1,
/// 12.5.4).
///
/// When it returns, they are complete at the origin and at the target, and visible to all
/// processes.
///
/// Returns:
/// - UCXX_OK: all operations are complete.
/// - UCXX_ERR_RMA_RANK: the window has no rank `target`.
/// - UCXX_ERR_RMA_SYNC: the target is not locked.
/// - UCXX_ERR_PEER_FAILED: the target has died or left the window.
/// - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
/// - The status of an operation that the target has reported as failed.
///
/// Threads: any.
/// See also: ucxx_window_flush_local, ucxx_window_flush_nb, ucxx_window_flush_all.
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

/// Flushes a target without waiting. This is an operation.
///
/// The operation completes when all operations that were posted before it are complete. On this
/// host it completes inside the call.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
/// - Any status of ucxx_window_flush.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// See also: ucxx_window_flush.
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

/// Completes the operations of this process at all targets (MPI 4.1, 12.5.4). Legal in any passive
/// epoch.
///
/// Returns:
/// - Any status of ucxx_window_flush, except UCXX_ERR_RMA_RANK.
///
/// Threads: any.
/// See also: ucxx_window_flush.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_flush_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::flush_all) }
}

/// Completes the operations of this process at a target locally (MPI 4.1, 12.5.4).
///
/// When it returns, the caller may reuse its buffers, and data that was read has arrived. It does
/// not wait for completion at the target.
///
/// Returns:
/// - Any status of ucxx_window_flush.
///
/// Threads: any.
/// See also: ucxx_window_flush.
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

/// Completes the operations of this process at all targets locally (MPI 4.1, 12.5.4). Legal in any
/// passive epoch.
///
/// Returns:
/// - Any status of ucxx_window_flush_all.
///
/// Threads: any.
/// See also: ucxx_window_flush_local.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_flush_local_all(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::flush_local_all) }
}

/// Orders the loads and stores of this process in the window, by a full memory fence (MPI 4.1,
/// 12.5.4).
///
/// All processes see those before the call before those after it. It is legal in every epoch.
///
/// Returns:
/// - UCXX_OK: always, on a window that is not closed.
///
/// Threads: any.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_sync(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::sync) }
}

/// Begins an exposure epoch for some origins (MPI 4.1, 12.5.2). It does not wait.
///
/// - `ranks`, `count`: the origins. They may access the memory of this process from their
///   ucxx_window_start until their ucxx_window_complete. This process may be one of them.
/// - `assertions`: UCXX_ASSERT_NOCHECK (the origins must give it, too), and the hints
///   UCXX_ASSERT_NOSTORE and UCXX_ASSERT_NOPUT.
///
/// Returns:
/// - UCXX_OK: the epoch has begun.
/// - UCXX_ERR_RMA_RANK: the window has no such rank.
/// - UCXX_ERR_INVALID_PARAM: a rank is in the list twice.
/// - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
/// - UCXX_ERR_RMA_SYNC: the window is in an exposure epoch already, or it was accessed after a
///   fence.
/// - UCXX_ERR_PEER_FAILED: an origin on another host has died or left the window.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_wait, ucxx_window_test, ucxx_window_start.
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

/// Begins an access epoch at some targets (MPI 4.1, 12.5.2). It returns when each target has posted
/// to this process.
///
/// - `ranks`, `count`: the targets.
/// - `assertions`: 0 or UCXX_ASSERT_NOCHECK. With NOCHECK it does not wait: the caller guarantees
///   that the targets have posted.
///
/// Returns:
/// - UCXX_OK: the epoch has begun.
/// - UCXX_ERR_RMA_RANK, UCXX_ERR_INVALID_PARAM, UCXX_ERR_RMA_ASSERT: as for ucxx_window_post.
/// - UCXX_ERR_RMA_SYNC: the window is in another access epoch.
/// - UCXX_ERR_PEER_FAILED: a target has died or left the window. The message names its rank, and no
///   epoch has begun.
/// - UCXX_ERR_BUSY: another thread is in a synchronisation call. Or it is called from a callback,
///   and would have to wait.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_complete, ucxx_window_post.
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

/// Ends the access epoch that ucxx_window_start has begun (MPI 4.1, 12.5.2).
///
/// The operations are complete at the targets, which are notified. It does not wait for the targets
/// to end their exposure.
///
/// Returns:
/// - UCXX_OK: the epoch has ended.
/// - UCXX_ERR_RMA_SYNC: there is no such epoch.
/// - UCXX_ERR_PEER_FAILED: a target has died or left the window.
/// - UCXX_ERR_BUSY: called from a callback, and operations at another host are not complete.
/// - The status of an operation that a target has reported as failed.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_start.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_complete(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::complete) }
}

/// Ends the exposure epoch (MPI 4.1, 12.5.2). It returns when all origins of ucxx_window_post have
/// called ucxx_window_complete.
///
/// Returns:
/// - UCXX_OK: the epoch has ended.
/// - UCXX_ERR_RMA_SYNC: there is no exposure epoch.
/// - UCXX_ERR_PEER_FAILED: an origin that has not completed has died or left the window. The
///   message names its rank, and the epoch has ended.
/// - UCXX_ERR_BUSY: another thread is in a synchronisation call. Or it is called from a callback,
///   and would have to wait.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_post, ucxx_window_test.
///
/// # Safety
/// A window of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_wait(window: *mut ucxx_window_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { call(window, Window::wait) }
}

/// Checks whether the exposure epoch can end, without waiting (MPI 4.1, 12.5.2).
///
/// `*done` is 1 if the epoch has ended with this call, 0 if not.
///
/// Returns:
/// - UCXX_OK: `*done` is set.
/// - UCXX_ERR_RMA_SYNC, UCXX_ERR_PEER_FAILED: as for ucxx_window_wait.
/// - UCXX_ERR_BUSY: another thread is in a synchronisation call.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_wait.
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

/// Ends the epoch of the last fence at all members, and begins the next one (MPI 4.1, 12.5.1).
///
/// All members call it, and it returns when all have called it. All operations before it are then
/// complete at all members.
///
/// `assertions`:
/// - UCXX_ASSERT_NOPRECEDE: this process has made no operation since the last fence. Given by all
///   members or none.
/// - UCXX_ASSERT_NOSUCCEED: no epoch follows. Given by all members or none.
/// - UCXX_ASSERT_NOSTORE, UCXX_ASSERT_NOPUT: hints.
/// - With NOPRECEDE and NOSUCCEED together it does not wait.
///
/// Returns:
/// - UCXX_OK: the fence is complete.
/// - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
/// - UCXX_ERR_RMA_SYNC: the window is in an epoch of another kind.
/// - UCXX_ERR_PEER_FAILED: a member has died or left the window. The message names its rank. All
///   other members get it within 2 s, and from then on in each fence.
/// - UCXX_ERR_TIMED_OUT: the group's `collective_timeout_ns` has passed.
/// - UCXX_ERR_BUSY: called from a callback, or another thread is in a synchronisation call.
/// - The status of an operation that a target has reported as failed.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_lock for the rules of all synchronisation calls.
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
