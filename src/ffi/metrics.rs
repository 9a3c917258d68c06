//! Metrics as OpenMetrics text.

use super::guard;
use super::handle::{
    self, ucxx_context_t, ucxx_endpoint_t, ucxx_group_t, ucxx_hub_t, ucxx_window_t, ucxx_worker_t,
};
use super::status::ucxx_status_t;
use super::text_out::{self, Line};
use crate::engine::base::status::{Result, Status};
use crate::engine::core::monitor::registry::metrics_of;
use std::ffi::{c_char, c_void};

/// As `text_out::pass_on`, for a text of several lines.
///
/// # Safety
/// `line` may be called with `arg`.
unsafe fn pass_on(
    line: Line,
    arg: *mut c_void,
    make: impl FnOnce() -> Result<String>,
) -> Result<Status> {
    let lines = || Ok(make()?.lines().map(str::to_owned).collect());
    // SAFETY: as for this function.
    unsafe { text_out::pass_on(line, arg, lines) }
}

/// Writes the metrics of the context as OpenMetrics text, which Prometheus reads.
///
/// Calls `line(arg, text)` once for each line, in order, without line feeds; the last line is "#
/// EOF". To have the text in a buffer, append each line and a line feed. `line` may call any
/// function. Nothing has to be switched on: the counters are always there. docs/metrics.md has a
/// list of all metrics. The environment variable UCXX_RS_METRICS serves the same text over HTTP, or
/// writes it to a file, without a call.
///
/// The text covers everything that was made with the context and exists: its workers, hubs, groups
/// and windows. Endpoints are summed in their workers.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread of the program, and takes no part in progress.
/// See also: ucxx_context_dump.
///
/// # Safety
/// A context of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_metrics(
    context: *const ucxx_context_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let context = unsafe { handle::get(context) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || metrics_of(context)) }
    })
}

/// Writes the metrics of a worker as OpenMetrics text.
///
/// The text covers the worker. Its endpoints are summed. The lines come as from
/// ucxx_context_metrics.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread, and takes no part in progress.
/// See also: ucxx_worker_query_stats, ucxx_worker_dump, ucxx_context_metrics.
///
/// # Safety
/// A worker of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_worker_metrics(
    worker: *const ucxx_worker_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let worker = unsafe { handle::get(worker) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || worker.metrics()) }
    })
}

/// Writes the metrics of an endpoint as OpenMetrics text.
///
/// The text covers one endpoint: what it has sent, its send window and queue, and the credit of its
/// peer. The lines come as from ucxx_context_metrics.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread, and takes no part in progress.
/// See also: ucxx_endpoint_query_load, ucxx_context_metrics.
///
/// # Safety
/// An endpoint of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_metrics(
    endpoint: *const ucxx_endpoint_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || endpoint.metrics()) }
    })
}

/// Writes the metrics of a hub as OpenMetrics text.
///
/// The text covers the hub: its envelopes, chunks, copies and links. The lines come as from
/// ucxx_context_metrics.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread, and takes no part in progress.
/// See also: ucxx_hub_query_stats, ucxx_context_metrics.
///
/// # Safety
/// A hub of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_metrics(
    hub: *const ucxx_hub_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let hub = unsafe { handle::get(hub) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || hub.metrics()) }
    })
}

/// Writes the metrics of a window as OpenMetrics text.
///
/// The text covers the window: data calls of this process, and how they reached their targets;
/// locks and flushes. The lines come as from ucxx_context_metrics.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread, and takes no part in progress.
/// See also: ucxx_window_query, ucxx_context_metrics.
///
/// # Safety
/// A window of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_metrics(
    window: *const ucxx_window_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let window = unsafe { handle::get(window) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || window.metrics()) }
    })
}

/// Writes the metrics of a group as OpenMetrics text.
///
/// The text covers the group: its collectives, and the worker that carries its messages. The lines
/// come as from ucxx_context_metrics.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any. It waits for no other thread, and takes no part in progress.
/// See also: ucxx_group_create, ucxx_context_metrics.
///
/// # Safety
/// A group of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_metrics(
    group: *const ucxx_group_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let group = unsafe { handle::get(group) }?;
        // SAFETY: as above.
        unsafe { pass_on(line, arg, || group.metrics()) }
    })
}
