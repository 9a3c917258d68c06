//! Data calls of windows that make a request.

use super::handle::{ucxx_request_t, ucxx_window_t};
use super::layout::{layout, ucxx_layout_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::window_data::{side, Accumulate};
use super::window_sync::shared;
use crate::engine::window::data::data::Destination;
use std::ffi::c_void;

/// As ucxx_window_put, with a request: legal in passive epochs alone. It completes when `origin`
/// may be used again, which on this host is inside the call. It may be waited for after the epoch,
/// or the window, has ended. Host memory.
///
/// Of what is long, or strided, the call waits until most has left. A request that is cancelled, or
/// out of time, ends at once if it waits for an answer, whose data is dropped (what it asks for is
/// done nevertheless); one that UCX still reads from ends with that. The other errors of a request:
/// PEER_FAILED; CANCELED when the window is destroyed in the epoch.
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

/// As ucxx_window_get, with a request, which completes with the result, and tells by itself what
/// the target found wrong. The rest as ucxx_window_rput.
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

/// As ucxx_window_accumulate, with a request. The rest as ucxx_window_rput.
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

/// As ucxx_window_get_accumulate, with a request, which completes with the result. The rest as
/// ucxx_window_rget.
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
