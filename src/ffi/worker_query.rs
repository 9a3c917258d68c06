//! What workers tell of themselves: how they are made, their counters, and a readable account.

use super::guard;
use super::handle::{self, null, ucxx_worker_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::Status;
use std::ffi::{c_char, c_void, CString};

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

sized! { ucxx_worker_attr, 40; ucxx_worker_stats, 136; }

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
