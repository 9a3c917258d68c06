//! Data calls of windows that make a request.

use super::handle::{ucxx_request_t, ucxx_window_t};
use super::layout::{layout, ucxx_layout_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::window_data::{side, Accumulate};
use super::window_sync::shared;
use crate::engine::window::data::data::Destination;
use std::ffi::c_void;

/// Writes to the memory of a target, with a request (MPI 4.1, 12.3.5). Legal in passive epochs
/// only. This is an operation.
///
/// The arguments are those of ucxx_window_put. Host memory only. The operation completes when
/// `origin` may be reused; on this host inside the call. The request may be waited for after the
/// epoch or the window has ended.
///
/// If the data is long or strided, the call waits until most of it is sent.
///
/// Cancel and timeout:
/// - A request that waits for a reply completes at once. The data of the reply is dropped, but the
///   target still performs the operation.
/// - A request whose buffer UCX still reads completes when UCX has finished.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
/// - UCXX_ERR_RMA_SYNC: there is no passive epoch to the target.
/// - UCXX_ERR_PEER_FAILED: the target has died or left the window.
/// - UCXX_ERR_CANCELED: the window was destroyed in the epoch.
/// - Any status of ucxx_window_put.
/// - Any status of an operation: see "Operations" at the top of this file.
///
/// Threads: any.
/// Ownership: `origin` must stay valid and unchanged until the operation has completed.
/// See also: ucxx_window_put, ucxx_window_flush_nb.
///
/// # Safety
/// As for `ucxx_window_put`; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_rput(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let window = shared(window)?;
            window.with_request(params, out, |access| {
                let origin = side(origin, origin_layout, "origin_layout")?;
                let to = Destination {
                    rank: target,
                    disp,
                    layout: layout(target_layout, "target_layout")?,
                };
                window.put(&origin, &to, access).map(|()| origin.layout.bytes())
            })
        })
    }
}

/// Reads from the memory of a target, with a request (MPI 4.1, 12.3.5). This is an operation.
///
/// The operation completes when the data is in `origin`. Its status includes the errors that the
/// target has found. Everything else is as for ucxx_window_rput.
///
/// Returns:
/// - Any status of ucxx_window_rput.
///
/// Threads: any.
/// Ownership: `origin` must stay valid until the operation has completed.
/// See also: ucxx_window_get, ucxx_window_rput.
///
/// # Safety
/// As for `ucxx_window_get`; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_rget(
    window: *mut ucxx_window_t,
    origin: *mut c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let window = shared(window)?;
            window.with_request(params, out, |access| {
                let origin = side(origin, origin_layout, "origin_layout")?;
                let to = Destination {
                    rank: target,
                    disp,
                    layout: layout(target_layout, "target_layout")?,
                };
                window.get(&origin, &to, access).map(|()| origin.layout.bytes())
            })
        })
    }
}

/// Combines elements of the origin with those of the target, with a request (MPI 4.1, 12.3.5). This
/// is an operation.
///
/// It is ucxx_window_accumulate with the request of ucxx_window_rput.
///
/// Returns:
/// - Any status of ucxx_window_rput or ucxx_window_accumulate.
///
/// Threads: any.
/// Ownership: `origin` must stay valid and unchanged until the operation has completed.
/// See also: ucxx_window_accumulate, ucxx_window_rput.
///
/// # Safety
/// As for `ucxx_window_accumulate`; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_raccumulate(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    op: i32,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    let (result, result_layout, fetches) = (std::ptr::null_mut(), std::ptr::null(), false);
    let call = Accumulate {
        origin,
        origin_layout,
        result,
        result_layout,
        fetches,
        target,
        disp,
        target_layout,
        op,
    };
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let window = shared(window)?;
            window.with_request(params, out, |access| call.execute(&window, access))
        })
    }
}

/// Combines and returns the previous elements in `result`, with a request (MPI 4.1, 12.3.5). This
/// is an operation.
///
/// It is ucxx_window_get_accumulate with the request of ucxx_window_rget. It completes when
/// `result` is filled.
///
/// Returns:
/// - Any status of ucxx_window_rget or ucxx_window_accumulate.
///
/// Threads: any.
/// Ownership: `origin` and `result` must stay valid until the operation has completed.
/// See also: ucxx_window_get_accumulate, ucxx_window_rget.
///
/// # Safety
/// As for `ucxx_window_get_accumulate`; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_rget_accumulate(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    result: *mut c_void,
    result_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    op: i32,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    let fetches = true;
    let call = Accumulate {
        origin,
        origin_layout,
        result,
        result_layout,
        fetches,
        target,
        disp,
        target_layout,
        op,
    };
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let window = shared(window)?;
            window.with_request(params, out, |access| call.execute(&window, access))
        })
    }
}
