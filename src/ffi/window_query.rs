//! Queries of windows.

use super::guard;
use super::handle::{self, ucxx_group_t, ucxx_window_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use std::ffi::c_void;
use std::sync::Arc;

/// Result of ucxx_window_query.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_window_attr {
    /// Set by UCXX_WINDOW_ATTR_INIT.
    pub struct_size: usize,
    /// UCXX_WINDOW_FLAVOR_*.
    pub flavor: i32,
    /// Memory of this process; NULL for a dynamic window.
    pub data: *mut c_void,
    /// Its size in bytes.
    pub size: usize,
    /// Bytes of one unit of displacement at this process.
    pub disp_unit: u32,
    /// UCXX_SYNC_*: the epoch of the window as a whole. With several locked targets: that of locks.
    pub sync_type: i32,
}
/// Result of ucxx_window_query.
pub type ucxx_window_attr_t = ucxx_window_attr;

sized! { ucxx_window_attr, 40; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_attr_init(value: *mut ucxx_window_attr_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Returns the size and disp_unit of a member, and the address of its memory in this process (MPI
/// 4.1, 12.2.3).
///
/// The address is NULL in these cases:
/// - the size is 0, as in dynamic windows;
/// - the memory is not mapped here, as the caller's memory of other members.
///
/// Each of `size` (in bytes), `disp_unit` and `base` is optional.
///
/// Returns:
/// - UCXX_OK: the values are set.
/// - UCXX_ERR_RMA_RANK: the window has no such rank.
///
/// Threads: any.
/// Ownership: the address is valid until the window is destroyed.
///
/// # Safety
/// A window of this library; the places are NULL or valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_shared_query(
    window: *mut ucxx_window_t,
    rank: u32,
    size: *mut usize,
    disp_unit: *mut u32,
    base: *mut *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let (bytes, unit, mapped) = handle::get(window)?.shared_query(rank)?;
            if let Some(size) = size.as_mut() {
                *size = bytes as usize;
            }
            if let Some(disp_unit) = disp_unit.as_mut() {
                *disp_unit = unit;
            }
            if let Some(base) = base.as_mut() {
                *base = mapped;
            }
        }
        Ok(Status::OK)
    })
}

/// Returns how a target is accessed: UCXX_WINDOW_PATH_*, or a negative status.
///
/// Returns:
/// - UCXX_WINDOW_PATH_*: the path.
/// - UCXX_ERR_RMA_RANK: the window has no such rank.
///
/// Threads: any.
///
/// # Safety
/// NULL (INVALID_PARAM) or a window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_path(window: *const ucxx_window_t, target: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(window) }?.path(target)? as i32)))
}

/// Returns the group that the window was made with; NULL for NULL.
///
/// Threads: any.
/// Ownership: the window keeps the group. The caller must not destroy the returned handle.
///
/// # Safety
/// NULL or a window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_group(window: *const ucxx_window_t) -> *mut ucxx_group_t {
    // SAFETY: as for this function.
    unsafe {
        handle::look(window, std::ptr::null_mut(), |window| {
            Arc::as_ptr(window.group()).cast_mut().cast()
        })
    }
}

/// Returns the attributes of a window.
///
/// Returns:
/// - UCXX_OK: `*attr` is set.
///
/// Threads: any.
///
/// # Safety
/// A window of this library; `attr` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_query(
    window: *const ucxx_window_t,
    attr: *mut ucxx_window_attr_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let attributes = unsafe { handle::get(window) }?.attributes()?;
        let value = ucxx_window_attr {
            struct_size: size_of::<ucxx_window_attr>(),
            flavor: attributes.flavor as i32,
            data: attributes.base,
            size: attributes.size as usize,
            disp_unit: attributes.unit,
            sync_type: attributes.sync_type as i32,
        };
        // SAFETY: as above.
        unsafe { params::store(attr, "attr", &value) }.map(|()| Status::OK)
    })
}

/// Returns the epoch of the window towards a target: UCXX_SYNC_*, or a negative status.
///
/// Returns:
/// - UCXX_SYNC_*: the kind of epoch.
/// - UCXX_ERR_RMA_RANK: the window has no such rank.
///
/// Threads: any.
///
/// # Safety
/// NULL (INVALID_PARAM) or a window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_sync_type(window: *const ucxx_window_t, target: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(window) }?.sync_type(target)? as i32)))
}
