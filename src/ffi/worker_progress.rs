//! The progress of workers: passes, waits and wake-ups, the progress thread, and functions that run
//! where progress happens.

use super::guard::{self, Answer};
use super::handle::{self, null, place, ucxx_worker_t};
use super::status::ucxx_status_t;
use super::worker::progress_mode;
use crate::engine::base::status::Status;
use crate::engine::core::worker::remote_call::When;
use crate::engine::core::worker::wakeup::Armed;
use crate::engine::core::worker::worker::Worker;
use std::ffi::{c_int, c_void};

/// One progress pass: UCX's progress, then the callbacks that are due. `*events` is the number of
/// events handled, 0 when there was nothing to do; optional. BUSY from a callback, and with a
/// progress thread. Never sleeps.
///
/// # Safety
/// A worker of this library; `events` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_progress(
    worker: *mut ucxx_worker_t,
    events: *mut u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    let (handled, complete) =
        unsafe { worker.cast::<Worker>().as_ref() }.map_or((0, false), Worker::progress_fast);
    if !complete {
        // SAFETY: as above.
        return unsafe { progress(worker, events, handled) };
    }
    if !events.is_null() {
        // SAFETY: as above.
        unsafe { events.write(handled) };
    }
    Status::OK.0
}

/// # Safety
/// As for `ucxx_worker_progress`.
#[inline(never)]
unsafe extern "C" fn progress(
    worker: *mut ucxx_worker_t,
    events: *mut u32,
    so_far: u32,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let handled = so_far + unsafe { handle::get(worker) }?.progress_and_tell()?;
        if !events.is_null() {
            // SAFETY: as above.
            unsafe { events.write(handled) };
        }
        Ok(Status::OK)
    })
}

/// Waits until there is an event, and handles it: OK. Callbacks and handlers run inside it. Polls
/// for `spin_ns` of ucxx_worker_params_t, and sleeps then. It may return OK without anything that
/// the caller would notice: after ucxx_worker_signal, and when a signal handler has run on this
/// thread while it slept. So it stands in a loop, with a flag that a callback sets:
/// `while (!done) if (ucxx_worker_wait(worker, UINT64_MAX) < 0) break;`
///
/// Where other threads progress the worker, too, and set the flag, give it a limit: what they do
/// between the look at the flag and the sleep does not end it.
///
/// Errors: TIMED_OUT when `timeout_ns` ran out first (0 looks once, UINT64_MAX waits without end);
/// BUSY from a callback, and with a progress thread; UNSUPPORTED without UCXX_FEATURE_WAKEUP.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_wait(
    worker: *mut ucxx_worker_t,
    timeout_ns: u64,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let woken = unsafe { handle::get(worker) }?.wait(timeout_ns)?;
        Ok(if woken {
            Answer::OK
        } else {
            Answer(Status::TIMED_OUT, c"worker: nothing happened in the given time")
        })
    })
}

/// A descriptor for the caller's own event loop (epoll, poll, libuv, asyncio, glib): readable when
/// the worker, armed before, has something to progress, deadlines included. The library keeps and
/// closes it. Needs UCXX_FEATURE_WAKEUP. With a progress thread it is of no use to others:
/// ucxx_worker_arm is BUSY, and completions come by callbacks or a notifier.
///
/// One thread at a time sleeps on it: the one that has armed it. Other threads may use the worker
/// meanwhile, as its thread mode allows. What completes by their calls (a pass, a wait, a cancel, a
/// close) makes the descriptor readable as well. What completes in a pass of the thread that has
/// armed does not: that thread looks by itself.
///
/// Where UCX's own descriptor stays readable without anything to do, as over TCP while a peer has
/// not answered, this one does not: it becomes readable by what is new, and some ten times a
/// second.
///
/// # Safety
/// A worker of this library; `fd` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_event_fd(
    worker: *mut ucxx_worker_t,
    fd: *mut c_int,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, place) = unsafe { (handle::get(worker)?, place(fd, "fd")?) };
        place.write(worker.event_fd()?);
        Ok(Status::OK)
    })
}

/// Before going to sleep on the descriptor: OK when the next event will make it readable, BUSY when
/// there is something to progress first, or when something has completed by a call of another
/// thread since this one has armed last. So: progress until there are no events, look at what is
/// awaited, arm, and only when that is OK sleep; on BUSY look at what is awaited, and begin again.
/// Every sleep needs its own arm. BUSY with a progress thread. Needs UCXX_FEATURE_WAKEUP (else
/// UNSUPPORTED).
///
/// # Safety
/// A worker of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_arm(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let armed = unsafe { handle::get(worker) }?.arm()?;
        Ok(match armed {
            Armed::Ready => Answer::OK,
            Armed::Busy => Answer(
                Status::BUSY,
                c"worker: there is something to do; progress first, and do not sleep",
            ),
        })
    })
}

/// Makes the descriptor readable, and ends the present ucxx_worker_wait, or the next one if there
/// is none: OK. Waits for something in particular, such as ucxx_request_wait and UCXX_FLAG_WAIT,
/// look around and go on. Any thread, in every thread mode. Needs UCXX_FEATURE_WAKEUP.
///
/// Async-signal-safe: a signal handler may call it, on any thread, for a worker that lives as long
/// as the handler is installed. It writes to two descriptors; only a call that fails does more.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_signal(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(worker) }?.signal().map(|()| Status::OK))
}

/// Starts a progress thread (UCXX_PROGRESS_THREAD_*), on a worker made without one or after it was
/// stopped. From then on it is the one that progresses; other threads that wait, wait for it.
/// Operations may be submitted meanwhile.
///
/// Errors: ALREADY_EXISTS when there is one; INVALID_PARAM for UCXX_PROGRESS_MANUAL, with
/// UCXX_THREAD_SINGLE, and for a `cpu` that cannot be used; UNSUPPORTED without
/// UCXX_FEATURE_WAKEUP; BUSY from a callback. Under SERIALIZED it counts as a call on the worker;
/// afterwards any thread may call at any time, also once the thread has been stopped.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_start_progress_thread(
    worker: *mut ucxx_worker_t,
    progress_mode: i32,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::share(worker) }?;
        worker.start_progress_thread(self::progress_mode(progress_mode)?)?;
        Ok(Status::OK)
    })
}

/// Stops the progress thread after a last pass, and waits for its end; progress is manual then.
/// Nothing that was submitted is lost: it goes on with whoever progresses, and threads that wait do
/// so themselves. NO_ELEM when there is none; BUSY from a callback. It waits for the callback that
/// the thread is in: not for a caller whom that waits for, see ucxx_worker_destroy.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_stop_progress_thread(
    worker: *mut ucxx_worker_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::whole(|| unsafe { handle::get(worker) }?.stop_progress_thread().map(|()| Status::OK))
}

/// Runs `function` where progress happens: on the progress thread, after what had been submitted
/// and before its next pass, and waits for it; at once on the calling thread where progress is
/// manual. It counts as a callback: what waits returns BUSY in it. TIMED_OUT when `timeout_ns` ran
/// out before it could start: it has not run and never will. BUSY from a callback with a progress
/// thread.
///
/// # Safety
/// A worker of this library; `function` may be called with `arg`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_run_pre(
    worker: *mut ucxx_worker_t,
    function: Option<unsafe extern "C" fn(arg: *mut c_void)>,
    arg: *mut c_void,
    timeout_ns: u64,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { run(worker, function, arg, When::BeforePass, timeout_ns) }
}

/// As `ucxx_worker_run_pre`, after the next pass instead of before it.
///
/// # Safety
/// As for `ucxx_worker_run_pre`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_run_post(
    worker: *mut ucxx_worker_t,
    function: Option<unsafe extern "C" fn(arg: *mut c_void)>,
    arg: *mut c_void,
    timeout_ns: u64,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { run(worker, function, arg, When::AfterPass, timeout_ns) }
}

unsafe fn run(
    worker: *mut ucxx_worker_t,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    arg: *mut c_void,
    when: When,
    timeout_ns: u64,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for the callers.
        let worker = unsafe { handle::get(worker) }?;
        let function = function.ok_or_else(|| null("function"))?;
        // SAFETY: as for the callers.
        unsafe { worker.run(function, arg, when, timeout_ns) }.map(|()| Status::OK)
    })
}
