//! Workers: how they are made, and how they end.

use super::constants::{ucxx_progress_mode, ucxx_thread_mode};
use super::guard;
use super::handle::{self, place, ucxx_context_t, ucxx_worker_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::deferred_end::{self, Then};
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::submission_ring::LARGEST_DEPTH;
use crate::engine::core::worker::worker::Worker;
use std::ffi::{c_char, c_void, CStr};

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

sized! { ucxx_worker_params, 64; }

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

pub(super) fn progress_mode(number: i32) -> Result<ProgressMode> {
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
