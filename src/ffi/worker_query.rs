//! Queries on workers: properties, counters, and a readable dump.

use super::guard;
use super::handle::{self, ucxx_worker_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::text_out::{self, characters};
use crate::engine::base::status::Status;
use std::ffi::{c_char, c_void};

/// Result of `ucxx_worker_query`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_worker_attr {
    /// Set by UCXX_WORKER_ATTR_INIT.
    pub struct_size: usize,
    /// UCXX_THREAD_*, as given at creation.
    pub thread_mode: i32,
    /// UCXX_PROGRESS_*, at present.
    pub progress_mode: i32,
    /// 1 if other threads submit operations through the queue of the progress thread.
    pub delayed_submission: u8,
    /// 1 if there is a progress thread.
    pub progress_thread_running: u8,
    /// Longest header of an active message, in bytes. 0 without UCXX_FEATURE_AM.
    pub max_am_header: usize,
    /// Kernel thread id (gettid) of the progress thread. 0 without one.
    pub progress_thread_id: u64,
    /// `name` of ucxx_worker_params_t, cut after 63 bytes, in UTF-8. "" without one.
    pub name: [c_char; 64],
}
/// Result of `ucxx_worker_query`.
pub type ucxx_worker_attr_t = ucxx_worker_attr;

/// Result of `ucxx_worker_query_stats`: counters since the creation of the worker. `in_flight` and
/// `endpoints` are present numbers.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub struct ucxx_worker_stats {
    /// Set by UCXX_WORKER_STATS_INIT.
    pub struct_size: usize,
    /// Operations that were submitted.
    pub submitted: u64,
    /// Operations that completed with UCXX_OK.
    pub completed: u64,
    /// Operations that completed with an error other than UCXX_ERR_CANCELED.
    pub failed: u64,
    /// Operations that completed with UCXX_ERR_CANCELED.
    pub canceled: u64,
    /// Operations in flight now.
    pub in_flight: u64,
    /// Bytes in operations that send.
    pub bytes_sent: u64,
    /// Bytes in operations that receive.
    pub bytes_received: u64,
    /// Operations that passed through the submission queue.
    pub delayed: u64,
    /// Greatest length of the submission queue.
    pub queue_high_water: u64,
    /// Operations that were refused because the submission queue was full.
    pub queue_full: u64,
    /// Progress passes.
    pub progress_calls: u64,
    /// Ends of sleeps inside the library.
    pub wakeups: u64,
    /// Sleeps inside the library.
    pub sleeps: u64,
    /// Endpoints that exist now.
    pub endpoints: u64,
    /// Endpoints that failed.
    pub endpoint_failures: u64,
    /// Active messages that arrived with their data and found no handler.
    pub am_unhandled: u64,
}
/// Result of `ucxx_worker_query_stats`.
pub type ucxx_worker_stats_t = ucxx_worker_stats;

sized! { ucxx_worker_attr, 40; ucxx_worker_stats, 136; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_attr_init(value: *mut ucxx_worker_attr_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Queries the properties of the worker.
///
/// Returns:
/// - UCXX_OK: `*attr` is filled.
///
/// Threads: any.
/// See also: ucxx_worker_query_stats.
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
            name: characters(&worker.given_name()),
        };
        // SAFETY: as above.
        unsafe { params::store(attr, "attr", &value) }.map(|()| Status::OK)
    })
}

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// Reads the counters of the worker, without a lock.
///
/// Two counters may differ by the operations of the moment. But `submitted` is always the sum of
/// `completed`, `failed`, `canceled` and `in_flight`. Operations in the submission queue are in
/// flight.
///
/// Returns:
/// - UCXX_OK: `*stats` is filled.
///
/// Threads: any.
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
            bytes_sent: now.bytes_sent(),
            bytes_received: now.bytes_received(),
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

/// Describes the worker in readable lines, for example when it seems to hang.
///
/// Calls `line(arg, text)` once for each line. `line` may call any function. `text` is valid during
/// the call. The lines show, and are meant for people, not for programs:
/// - the worker, and its endpoints with their transports;
/// - what each endpoint waits for: credit, the peer's process, a connection, shared memory;
/// - the operations in flight with their age;
/// - hubs and windows on the worker, and who holds what there.
///
/// `ucxx_rs_info --attach PID` prints the same of another process: see docs/hangs.md.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file.
///
/// Threads: any.
/// See also: ucxx_worker_query_stats.
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
        // SAFETY: as above.
        unsafe { text_out::pass_on(line, arg, || worker.dump()) }
    })
}
