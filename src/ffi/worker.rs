//! Creating and destroying workers.

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
use crate::engine::core::worker::worker::SharedWorker;
use std::ffi::{c_char, c_void, CStr};

/// Parameters of `ucxx_worker_create`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_worker_params {
    /// Set by UCXX_WORKER_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_THREAD_*: which threads may call while progress is manual. The thread of SINGLE is the
    /// one that creates the worker.
    pub thread_mode: i32,
    /// UCXX_PROGRESS_*. A progress thread needs UCXX_FEATURE_WAKEUP, and a thread mode other than
    /// SINGLE.
    pub progress_mode: i32,
    /// How other threads submit operations while there is a progress thread:
    ///
    /// - 1: through a queue to the progress thread.
    /// - -1: they take a lock and call UCX themselves.
    /// - 0: as UCXX_RS_DELAYED_SUBMISSION (0 or 1) in the environment. If it is not set: 1.
    pub delayed_submission: i32,
    /// Capacity of that queue in operations, at most 1,048,576. 0 means 4096. When the queue is
    /// full, operations return UCXX_ERR_NO_RESOURCE. Flush, close and cancel never do.
    pub submission_queue_depth: u32,
    /// Polling time in nanoseconds. 0 means the default, 50 microseconds. An adaptive progress
    /// thread, or a call that waits under manual progress, polls for this long without work before
    /// it sleeps. An event after that, such as the end of a longer round trip, also costs a
    /// wake-up.
    pub spin_ns: u64,
    /// -1, 0 or 1: whether a thread that waits may progress in place of the progress thread. It has
    /// no effect in this release.
    pub wait_takeover: i32,
    /// CPU of the progress thread, plus 1. 0 means no pinning. A CPU that cannot be used is
    /// UCXX_ERR_INVALID_PARAM.
    pub cpu: i32,
    /// Runs first on each progress thread that is started. It counts as a callback. Optional.
    pub thread_start: Option<unsafe extern "C" fn(arg: *mut c_void)>,
    /// Passed to `thread_start`. It must live as long as the worker.
    pub thread_start_arg: *mut c_void,
    /// Name of the progress thread, of which the system keeps 15 bytes, and of the worker in dumps.
    /// Optional.
    pub name: *const c_char,
    /// 1: the worker keeps UCX's descriptions of requests for ucxx_request_describe, to examine a
    /// program. Each operation then takes longer: by about 0.1 microseconds if it completes inside
    /// its call, and by 0.5 to 2 microseconds if it does not. 0, the default: it keeps none.
    pub describe_requests: u8,
    /// Zero.
    pub reserved: [u8; 7],
}
/// Parameters of `ucxx_worker_create`.
pub type ucxx_worker_params_t = ucxx_worker_params;

sized! { ucxx_worker_params, 64; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// Creates a worker.
///
/// `params` may be NULL.
///
/// Returns:
/// - UCXX_OK: `*worker` is set.
/// - UCXX_ERR_INVALID_PARAM: an argument is invalid, or no transport takes a configuration variable
///   of the context. Also: a progress thread with UCXX_THREAD_SINGLE, or on a CPU that cannot be
///   used.
/// - UCXX_ERR_UNSUPPORTED: a progress thread needs UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
/// - UCXX_ERR_IO_ERROR: the system cannot create the descriptors of a progress thread.
/// - Any status of UCX: the message and the log have its reason.
///
/// Threads: any.
/// Ownership: the caller owns the worker. It keeps the context's memory alive.
/// See also: ucxx_worker_destroy, ucxx_worker_wait, ucxx_worker_address.
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
        place.write(handle::give_arc(SharedWorker::new(
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
    if params.describe_requests > 1 {
        let text = format!("describe_requests: {} is neither 0 nor 1", params.describe_requests);
        return Err(Error::invalid(text));
    }
    if params.reserved != [0; 7] {
        return Err(Error::invalid("reserved: is not zero"));
    }
    // SAFETY: as for this function.
    let name = (!params.name.is_null()).then(|| unsafe { CStr::from_ptr(params.name) }.to_owned());
    let thread = ThreadParams {
        delayed,
        depth: params.submission_queue_depth,
        cpu: usize::try_from(params.cpu - 1).ok(),
        start: params.thread_start.map(|function| (function, params.thread_start_arg)),
    };
    Ok(WorkerParams {
        thread_mode,
        spin_ns: params.spin_ns,
        name,
        describe_requests: params.describe_requests == 1,
        progress_mode,
        thread,
    })
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

/// Shuts the worker down now, and waits until this is done.
///
/// - The progress thread ends.
/// - Operations in flight complete with UCXX_ERR_CANCELED. Their callbacks run in this call.
/// - Endpoints are closed by force, and UCX's worker is destroyed.
/// - Endpoints and requests of the worker stay valid handles. Calls on them return UCXX_ERR_CLOSED.
///
/// The call takes about a second at most, plus the time of the callback that is running. Afterwards
/// no callback of the worker runs, and its buffers are the caller's again. NULL is ignored.
///
/// Flush or destroy the endpoints first. This call gives messages in flight only 0.2 s. A large
/// message that is interrupted may still reach a peer that has its announcement. That peer then
/// receives what the buffer contains at that time.
///
/// With UCX 1.13 over TCP alone, a worker that is still connecting may leave UCX's part behind.
/// This happens where its peers make no progress, because UCX would abort the process. UCX's part
/// then exists until the process ends: see docs/known-issues.md.
///
/// Threads: any, but no other thread may be in a call on the worker. If there is a progress thread,
/// calls on its endpoints and requests may be in progress: these handles must outlive the calls.
/// Callbacks: in a callback, the worker is destroyed when the call that runs the callback returns.
/// With a progress thread, a thread of the library destroys it. The call waits for a callback that
/// runs on another thread. If that callback waits for the calling thread, the call never returns.
/// Examples: the callback needs the interpreter lock that the caller holds, or the event loop that
/// the caller runs. Release the lock first, or call ucxx_worker_destroy_nb.
/// See also: ucxx_endpoint_flush, ucxx_worker_destroy_nb.
///
/// # Safety
/// NULL or a worker of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_destroy(worker: *mut ucxx_worker_t) {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::take_arc(worker) }.into_iter().for_each(SharedWorker::destroy);
        Ok(Status::OK)
    });
}

/// Destroys the worker on a thread that the library creates, without waiting.
///
/// Callbacks of cancelled operations run on that thread too. `done(arg)` runs on it once, as the
/// last one. When `done` runs, the worker no longer exists, no callback of it runs, and its context
/// may be destroyed. `done` may call every function, also functions that wait. It is optional.
///
/// - While the library's thread shuts the worker down, it is in a call on the worker. Without a
///   progress thread, calls on the worker's endpoints, listeners and requests wait until `done`
///   runs.
/// - In a callback under manual progress, the shutdown begins when the call that runs the callback
///   returns.
/// - exit() waits for the shutdown, not for `done`, and for three seconds at most.
///
/// Returns:
/// - UCXX_OK: the handle is no longer the caller's.
/// - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
///
/// After an error nothing has happened, and the worker is still the caller's. A NULL worker is
/// UCXX_ERR_INVALID_PARAM.
///
/// Threads: as ucxx_worker_destroy.
/// See also: ucxx_worker_destroy.
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
