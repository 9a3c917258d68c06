//! Progress of workers: passes, waits, wake-ups, the progress thread, and functions that run where
//! progress happens.

use super::guard::{self, Answer};
use super::handle::{self, null, place, ucxx_worker_t};
use super::status::ucxx_status_t;
use super::worker::progress_mode;
use crate::engine::base::status::Status;
use crate::engine::core::worker::remote_call::When;
use crate::engine::core::worker::wakeup::Armed;
use crate::engine::core::worker::worker::SharedWorker;
use std::ffi::{c_int, c_void};

/// Makes one progress pass: UCX's progress, then the callbacks that are due. It never sleeps.
///
/// `*events` is the number of events that the pass handled. 0 means that there was nothing to do.
/// `events` is optional.
///
/// Returns:
/// - UCXX_OK: the pass is done.
/// - UCXX_ERR_BUSY: called in a callback, or the worker has a progress thread.
///
/// Threads: any.
/// Callbacks: they run inside this call.
/// See also: ucxx_worker_wait, ucxx_worker_start_progress_thread.
///
/// # Safety
/// A worker of this library; `events` is NULL or valid for a write.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_progress(
    worker: *mut ucxx_worker_t,
    events: *mut u32,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    let (handled, complete) = unsafe { worker.cast::<SharedWorker>().as_ref() }
        .map_or((0, false), SharedWorker::progress_fast);
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

/// Waits until there is an event, and handles it.
///
/// The call polls for `spin_ns` of ucxx_worker_params_t, and then sleeps. `timeout_ns` is in
/// nanoseconds: 0 polls once, and UINT64_MAX waits without a limit.
///
/// It may return UCXX_OK without an event that the caller notices. This happens after
/// ucxx_worker_signal, and when a signal handler has run on this thread during the sleep. So call
/// it in a loop, with a flag that a callback sets:
///
/// ```c
/// while (!done) if (ucxx_worker_wait(worker, UINT64_MAX) < 0) break;
/// ```
///
/// Use a limit if other threads also progress the worker and set the flag. What they do between the
/// check of the flag and the sleep does not end the sleep.
///
/// Returns:
/// - UCXX_OK: an event was handled, or the wait was interrupted.
/// - UCXX_ERR_TIMED_OUT: `timeout_ns` expired first.
/// - UCXX_ERR_BUSY: called in a callback, or the worker has a progress thread.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
///
/// Threads: any.
/// Callbacks: they run inside this call, and so do handlers.
/// See also: ucxx_request_wait, ucxx_worker_signal, ucxx_worker_arm.
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

/// Returns a descriptor for the caller's own event loop: epoll, poll, libuv, asyncio or glib.
///
/// Arm it with ucxx_worker_arm before each sleep. It then becomes readable when the worker has
/// something to progress, deadlines included.
///
/// - One thread at a time sleeps on it: the thread that armed it. Meanwhile other threads may use
///   the worker, as its thread mode allows.
/// - Calls of other threads (a pass, a wait, a cancel, a close) may complete operations. This makes
///   the descriptor readable too.
/// - Completions in a pass of the thread that armed it do not make it readable. That thread checks
///   for them itself. After a pass or a wait of its own it arms again before it sleeps: otherwise
///   what other threads complete does not wake it.
/// - UCX's own descriptor may stay readable without work, for example over TCP while a peer has not
///   answered. This one does not. It becomes readable for new events, and about ten times a second.
/// - With a progress thread the descriptor is of no use: ucxx_worker_arm returns UCXX_ERR_BUSY. Use
///   callbacks or a notifier.
///
/// Returns:
/// - UCXX_OK: `*fd` is set.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
///
/// Threads: any.
/// Ownership: the library owns the descriptor and closes it.
/// See also: ucxx_worker_arm, ucxx_notifier_event_fd.
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

/// Arms the worker's descriptor before a sleep on it.
///
/// Every sleep needs its own arm. The event loop:
///
/// 1. Call ucxx_worker_progress until there are no events.
/// 2. Check the conditions that the program waits for.
/// 3. Call ucxx_worker_arm. On UCXX_OK, sleep. On UCXX_ERR_BUSY, begin again at 1.
///
/// Returns:
/// - UCXX_OK: the next event makes the descriptor readable.
/// - UCXX_ERR_BUSY: there is something to progress first, or a call of another thread has completed
///   an operation since this thread armed last. Also: the worker has a progress thread.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
///
/// Threads: any.
/// See also: ucxx_worker_event_fd.
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

/// Makes the worker's descriptor readable, and ends the present ucxx_worker_wait. If no thread
/// waits, the next ucxx_worker_wait ends at once.
///
/// It does not end a call that waits for a particular completion, such as ucxx_request_wait or an
/// operation with UCXX_FLAG_WAIT. Such a call checks for the completion, and continues to wait.
///
/// Returns:
/// - UCXX_OK: the signal is set.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
///
/// Threads: any, in every thread mode, and in signal handlers (async-signal-safe). The worker must
/// exist for as long as the handler is installed. The call writes to two descriptors. Only a call
/// that fails does more.
/// See also: ucxx_worker_wait, ucxx_worker_event_fd.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_signal(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(worker) }?.signal().map(|()| Status::OK))
}

/// Starts a progress thread on a worker that has none.
///
/// `progress_mode` is one of UCXX_PROGRESS_THREAD_*. From then on only this thread makes progress,
/// and other threads that wait depend on it. Other threads may submit operations during this call.
///
/// Returns:
/// - UCXX_OK: the thread runs.
/// - UCXX_ERR_ALREADY_EXISTS: there is one already.
/// - UCXX_ERR_INVALID_PARAM: the mode is UCXX_PROGRESS_MANUAL, the worker is UCXX_THREAD_SINGLE, or
///   its `cpu` cannot be used.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
/// - UCXX_ERR_BUSY: called in a callback.
///
/// Threads: any. Under SERIALIZED this counts as a call on the worker. Afterwards any thread may
/// call at any time, also after the thread was stopped.
/// See also: ucxx_worker_stop_progress_thread.
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

/// Stops the progress thread after a last pass, and waits for its end.
///
/// Progress is manual afterwards. No submitted operation is lost: it continues when a thread makes
/// progress. Threads that wait now make progress themselves.
///
/// Returns:
/// - UCXX_OK: the thread has ended.
/// - UCXX_ERR_NO_ELEM: there is no progress thread.
/// - UCXX_ERR_BUSY: called in a callback.
///
/// Threads: any.
/// Callbacks: the call waits for a callback that the thread is running. That callback must not wait
/// for the calling thread: see ucxx_worker_destroy.
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

/// Runs `function(arg)` where progress happens, before the next pass.
///
/// - With a progress thread: it runs on that thread, after the operations that were submitted
///   before this call. The call waits until it has returned.
/// - Under manual progress: it runs in the call, on the calling thread.
///
/// `function` counts as a callback: calls that wait return UCXX_ERR_BUSY in it. `timeout_ns` is in
/// nanoseconds, and limits the time until `function` starts.
///
/// Returns:
/// - UCXX_OK: `function` has returned.
/// - UCXX_ERR_TIMED_OUT: `timeout_ns` expired before it started. It will not run.
/// - UCXX_ERR_BUSY: called in a callback, and the worker has a progress thread.
///
/// Threads: any.
/// See also: ucxx_worker_run_post.
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

/// Runs `function(arg)` where progress happens, after the next pass. In all other respects it is
/// ucxx_worker_run_pre.
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
