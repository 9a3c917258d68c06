//! Workers.

use super::constants::{ucxx_progress_mode, ucxx_thread_mode};
use super::guard::{self, Answer};
use super::handle::{self, null, place, ucxx_context_t, ucxx_request_t, ucxx_worker_t};
use super::operation::{submit, ucxx_op_params_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::deferred_end::{self, Then};
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::remote_call::When;
use crate::engine::core::worker::submission_ring::LARGEST_DEPTH;
use crate::engine::core::worker::wakeup::Armed;
use crate::engine::core::worker::worker::Worker;
use std::ffi::{c_char, c_int, c_void, CStr, CString};

/// What a worker is made with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_worker_params {
    /// Set by UCXX_WORKER_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_THREAD_*: who may call while progress is manual. SINGLE is the creating thread.
    pub thread_mode: i32,
    /// UCXX_PROGRESS_*. A progress thread needs UCXX_FEATURE_WAKEUP and a thread mode other than
    /// SINGLE.
    pub progress_mode: i32,
    /// While there is a progress thread: 1 others hand operations to it by a queue, -1 they take a
    /// lock and call UCX themselves, 0 as UCXX_RS_DELAYED_SUBMISSION (0 or 1) in the environment
    /// says, on if that is not set.
    pub delayed_submission: i32,
    /// Operations that the queue holds, at most 1,048,576; 0 for 4096. When it is full they get
    /// NO_RESOURCE; flush, close and cancel never do.
    pub submission_queue_depth: u32,
    /// Nanoseconds without work that an adaptive progress thread, or a call which waits under
    /// manual progress, polls before it sleeps; 0 for the default, 50 microseconds. What takes
    /// longer than that, such as a round trip, has a wake-up added to it.
    pub spin_ns: u64,
    /// -1, 0 or 1: may a thread that waits progress in a progress thread's place? Without effect in
    /// this release.
    pub wait_takeover: i32,
    /// Pin the progress thread to this CPU + 1; 0 = do not. One that cannot be used is
    /// INVALID_PARAM.
    pub cpu: i32,
    /// Runs first on the progress thread, on each that is started. It counts as a callback.
    pub thread_start: Option<unsafe extern "C" fn(arg: *mut c_void)>,
    /// Passed to `thread_start`. Has to live as long as the worker.
    pub thread_start_arg: *mut c_void,
    /// Name of the thread (of which the system keeps 15 bytes), and of the worker in dumps;
    /// optional.
    pub name: *const c_char,
}
/// What a worker is made with.
pub type ucxx_worker_params_t = ucxx_worker_params;

/// What `ucxx_worker_query` tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_worker_attr {
    /// Set by UCXX_WORKER_ATTR_INIT.
    pub struct_size: usize,
    /// UCXX_THREAD_*.
    pub thread_mode: i32,
    /// UCXX_PROGRESS_*.
    pub progress_mode: i32,
    /// Are operations submitted by a queue?
    pub delayed_submission: u8,
    /// Is there a progress thread?
    pub progress_thread_running: u8,
    /// Bytes; 0 without UCXX_FEATURE_AM.
    pub max_am_header: usize,
    /// The kernel's number for it (gettid); 0 without one.
    pub progress_thread_id: u64,
}
/// What `ucxx_worker_query` tells.
pub type ucxx_worker_attr_t = ucxx_worker_attr;

/// Monotonic counters of a worker, but for `in_flight` and `endpoints`, which are what is there
/// now.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ucxx_worker_stats {
    /// Set by UCXX_WORKER_STATS_INIT.
    pub struct_size: usize,
    /// Operations taken; those that completed well; badly; cancelled; under way.
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub canceled: u64,
    pub in_flight: u64,
    /// Bytes in operations taken.
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The submission queue: operations that went through it, its greatest length seen, refusals
    /// because it was full.
    pub delayed: u64,
    pub queue_high_water: u64,
    pub queue_full: u64,
    pub progress_calls: u64,
    pub wakeups: u64,
    pub sleeps: u64,
    pub endpoints: u64,
    pub endpoint_failures: u64,
    /// Active messages that came with their data and found no handler.
    pub am_unhandled: u64,
}
/// Monotonic counters of a worker, but for `in_flight` and `endpoints`, which are what is there
/// now.
pub type ucxx_worker_stats_t = ucxx_worker_stats;

sized! {
    ucxx_worker_params, 64;
    ucxx_worker_attr, 40;
    ucxx_worker_stats, 136;
}

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_params_init(
    value: *mut ucxx_worker_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Creates a worker. `params` may be NULL. The caller owns it; it keeps the context's memory alive.
/// Any thread.
///
/// Errors: INVALID_PARAM, also when a configuration variable of the context found no taker, or for
/// a progress thread with UCXX_THREAD_SINGLE or on a CPU that cannot be used; UNSUPPORTED for one
/// without UCXX_FEATURE_WAKEUP; NO_RESOURCE where the system gives no thread.
///
/// # Safety
/// A context of this library; `params` is NULL or a struct whose `struct_size` is set; `worker` is
/// valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_create(
    context: *mut ucxx_context_t,
    params: *const ucxx_worker_params_t,
    worker: *mut *mut ucxx_worker_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (context, place) = unsafe { (handle::share(context)?, place(worker, "worker")?) };
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        place.write(handle::give_arc(Worker::new(
            &context,
            params,
            crate::engine::assembly::PROTOCOLS,
        )?));
        Ok(Status::OK)
    })
}

/// # Safety
/// `name` is NULL or a terminated string.
unsafe fn convert(params: &ucxx_worker_params) -> Result<WorkerParams> {
    let thread_mode = match params.thread_mode {
        mode if mode == ucxx_thread_mode::UCXX_THREAD_MULTI as i32 => ThreadMode::Multi,
        mode if mode == ucxx_thread_mode::UCXX_THREAD_SERIALIZED as i32 => ThreadMode::Serialized,
        mode if mode == ucxx_thread_mode::UCXX_THREAD_SINGLE as i32 => ThreadMode::Single,
        mode => {
            return Err(Error::invalid(format!("thread_mode: {mode} is no UCXX_THREAD_* value")))
        }
    };
    let progress_mode = progress_mode(params.progress_mode)?;
    let delayed = match params.delayed_submission {
        -1 => Some(false),
        0 => None,
        1 => Some(true),
        other => {
            return Err(Error::invalid(format!(
                "delayed_submission: {other} is none of -1, 0 and 1"
            )))
        }
    };
    if params.submission_queue_depth > LARGEST_DEPTH {
        let text = format!(
            "submission_queue_depth: {} is more than {LARGEST_DEPTH}",
            params.submission_queue_depth
        );
        return Err(Error::invalid(text));
    }
    if !(-1..=1).contains(&params.wait_takeover) {
        return Err(Error::invalid(format!(
            "wait_takeover: {} is none of -1, 0 and 1",
            params.wait_takeover
        )));
    }
    if params.cpu < 0 {
        return Err(Error::invalid(format!("cpu: {} is negative", params.cpu)));
    }
    // SAFETY: as for this function.
    let name = (!params.name.is_null()).then(|| unsafe { CStr::from_ptr(params.name) }.to_owned());
    let thread = ThreadParams {
        delayed,
        depth: params.submission_queue_depth,
        cpu: usize::try_from(params.cpu - 1).ok(),
        start: params.thread_start.map(|function| (function, params.thread_start_arg)),
    };
    Ok(WorkerParams { thread_mode, spin_ns: params.spin_ns, name, progress_mode, thread })
}

fn progress_mode(number: i32) -> Result<ProgressMode> {
    match number {
        mode if mode == ucxx_progress_mode::UCXX_PROGRESS_MANUAL as i32 => Ok(ProgressMode::Manual),
        mode if mode == ucxx_progress_mode::UCXX_PROGRESS_THREAD_ADAPTIVE as i32 => {
            Ok(ProgressMode::Adaptive)
        }
        mode if mode == ucxx_progress_mode::UCXX_PROGRESS_THREAD_POLLING as i32 => {
            Ok(ProgressMode::Polling)
        }
        mode if mode == ucxx_progress_mode::UCXX_PROGRESS_THREAD_BLOCKING as i32 => {
            Ok(ProgressMode::Blocking)
        }
        mode => Err(Error::invalid(format!("progress_mode: {mode} is no UCXX_PROGRESS_* value"))),
    }
}

/// Shuts the worker down now: its progress thread ends, what is in flight completes with CANCELED
/// (with its callbacks, in this call), endpoints are closed by force, UCX's worker goes. Bounded:
/// about a second, and the callback that runs. Endpoints and requests of it stay valid, and answer
/// CLOSED. From a callback it takes effect when the call that made the callback returns, with a
/// progress thread on a thread of the library's own. No other thread may be in a call on the
/// worker; calls on its endpoints and requests may be under way where there is a progress thread.
/// Afterwards no callback of it runs, and its buffers are the caller's. NULL is ignored. Destroy
/// (or flush) endpoints before it: messages on their way are given a fifth of a second here, and a
/// large one that is cut short may still reach a peer that had its announcement, with what the
/// buffer holds by then. With UCX 1.13 over TCP alone, UCX's half of a worker that still connects
/// stays until the process ends where its peers do not progress, as UCX would abort the process
/// (docs/connections.md).
///
/// It waits for a callback of the worker's that runs on another thread. A callback that waits for
/// the caller (for an interpreter's lock that the caller holds, for the event loop that the caller
/// is) makes that wait without end: give up the lock for the call, or call ucxx_worker_destroy_nb.
///
/// # Safety
/// NULL or a worker of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_destroy(worker: *mut ucxx_worker_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(worker) }.into_iter().for_each(Worker::destroy);
        Ok(Status::OK)
    });
}

/// ucxx_worker_destroy without waiting: the worker ends on a thread that the library makes for it,
/// where the callbacks of what is cut short run, too. `done(arg)` runs last, once, on that thread,
/// when the worker has ended, no callback of it runs, and its context may be destroyed. It may call
/// every function, also those that wait. `done` is optional.
///
/// The handle is the library's as soon as this returns UCXX_OK. Until `done` runs the library's
/// thread is in a call on the worker: where there is no progress thread, calls on its endpoints,
/// listeners and requests wait until then. From a callback where progress is manual it begins when
/// the call that made the callback returns. A process that leaves by exit() waits for `done` first
/// (see ucxx_context_destroy).
///
/// Errors: INVALID_PARAM for NULL; NO_RESOURCE where the system gives no thread, and FORKED. Then
/// nothing has happened, and the worker stays the caller's.
///
/// # Safety
/// A worker of this library, not used after UCXX_OK; `done` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_destroy_nb(
    worker: *mut ucxx_worker_t,
    done: Option<unsafe extern "C" fn(arg: *mut c_void)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        deferred_end::end_elsewhere(
            // SAFETY: as for this function.
            unsafe { handle::share(worker) }?,
            done.map(|done| Then(done, arg)),
        )?;
        // SAFETY: as for this function.
        drop(unsafe { handle::take_arc(worker) });
        Ok(Status::OK)
    })
}

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
        unsafe { worker.cast::<Worker>().as_ref() }.map_or((0, false), Worker::progress_quickly);
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

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_attr_init(value: *mut ucxx_worker_attr_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// What the worker is like.
///
/// # Safety
/// A worker of this library; `attr` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_query(
    worker: *const ucxx_worker_t,
    attr: *mut ucxx_worker_attr_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker) }?;
        // SAFETY: as above.
        unsafe { params::out_size(attr, "attr") }?;
        let value = ucxx_worker_attr {
            struct_size: size_of::<ucxx_worker_attr>(),
            thread_mode: worker.thread_mode() as i32,
            progress_mode: worker.progress_mode() as i32,
            delayed_submission: worker.delays_submission().into(),
            progress_thread_running: worker.has_progress_thread().into(),
            max_am_header: worker.max_am_header()?,
            progress_thread_id: worker.progress_thread_id(),
        };
        // SAFETY: as above.
        unsafe { params::store(attr, "attr", &value) }.map(|()| Status::OK)
    })
}

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_stats_init(
    value: *mut ucxx_worker_stats_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// The worker's counters, without a lock: two of them may be off by what is going on at the moment,
/// but what was submitted is what has ended and what is in flight, in the queue or out of it. Any
/// thread.
///
/// # Safety
/// A worker of this library; `stats` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_query_stats(
    worker: *const ucxx_worker_t,
    stats: *mut ucxx_worker_stats_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker) }?;
        worker.check_fork()?;
        let now = worker.stats();
        let (high_water, full, waiting) = worker.queue_stats();
        let operations = now.operations(waiting);
        let value = ucxx_worker_stats {
            struct_size: size_of::<ucxx_worker_stats>(),
            submitted: operations.submitted,
            completed: operations.completed,
            failed: operations.failed,
            canceled: operations.canceled,
            in_flight: operations.in_flight,
            bytes_sent: now.bytes_sent.get(),
            bytes_received: now.bytes_received.get(),
            delayed: now.delayed.get(),
            queue_high_water: high_water,
            queue_full: full,
            progress_calls: now.progress_calls.get(),
            wakeups: now.wakeups.get(),
            sleeps: now.sleeps.get(),
            endpoints: now.endpoints.get(),
            endpoint_failures: now.endpoint_failures.get(),
            am_unhandled: now.am_unhandled.get(),
        };
        // SAFETY: as above.
        unsafe { params::store(stats, "stats", &value) }.map(|()| Status::OK)
    })
}

/// A readable account of a worker that seems to hang, one call of `line` for each line: the worker,
/// its endpoints with their transports, and what is in flight with its age. `line` may call any
/// function.
///
/// # Safety
/// A worker of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_dump(
    worker: *mut ucxx_worker_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker) }?;
        let line = line.ok_or_else(|| null("line"))?;
        for text in worker.dump()? {
            let text = CString::new(text).unwrap_or_default();
            // SAFETY: as above; the text outlives the call.
            unsafe { line.call_out((arg, text.as_ptr())) };
        }
        Ok(Status::OK)
    })
}

/// An operation that completes after every send submitted to the worker before it, rendezvous sends
/// included, with the first error of those that kept neither request nor callback. Posted receives
/// are not waited for.
///
/// # Safety
/// A worker of this library; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_flush(
    worker: *mut ucxx_worker_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { submit(params, request, |params, out| handle::get(worker)?.flush(params, out)) }
}

/// Orders the puts, gets and atomic operations that come after behind those that came before, and
/// before messages that come after. Messages of one endpoint are in order by themselves. Where such
/// operations are under way it waits as a flush of the worker does, which waits for sends as well,
/// and reports what that would: so BUSY in a callback; where they are done in the call, or there
/// are none, it waits for nothing.
///
/// # Safety
/// A worker of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_fence(worker: *mut ucxx_worker_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(worker) }?.fence().map(|()| Status::OK))
}
