//! Queries of windows.

use super::guard;
use super::handle::{self, ucxx_group_t, ucxx_window_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use std::ffi::c_void;
use std::sync::Arc;

/// What ucxx_window_query tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_window_attr {
    /// Set by UCXX_WINDOW_ATTR_INIT.
    pub struct_size: usize,
    /// UCXX_WINDOW_FLAVOR_*.
    pub flavor: i32,
    /// This process's memory; NULL for a dynamic window.
    pub data: *mut c_void,
    /// Its bytes.
    pub size: usize,
    /// Bytes of a displacement in it.
    pub disp_unit: u32,
    /// UCXX_SYNC_*: of the window as a whole. With several targets locked, that of locks.
    pub sync_type: i32,
}
/// What ucxx_window_query tells.
pub type ucxx_window_attr_t = ucxx_window_attr;

sized! { ucxx_window_attr, 40; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_attr_init(value: *mut ucxx_window_attr_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Size and disp_unit of a member, and where its memory is in this process. The address is NULL in
/// these cases:
/// - the size is 0, as in dynamic windows;
/// - the memory is not mapped here, as that of other members in windows of memory of the caller's.
///
/// Each place is optional. Any thread.
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

/// UCXX_WINDOW_PATH_*: how a target is reached; a negative status on error. Any thread.
///
/// # Safety
/// NULL (INVALID_PARAM) or a window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_path(window: *const ucxx_window_t, target: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(window) }?.path(target)? as i32)))
}

/// The group that it was made with, which it keeps; NULL for NULL. The window's: not to be
/// destroyed. Any thread.
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

/// What the window is. Any thread.
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

/// UCXX_SYNC_*: which epoch the window is in towards a target; a negative status on error. Any
/// thread.
///
/// # Safety
/// NULL (INVALID_PARAM) or a window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_sync_type(window: *const ucxx_window_t, target: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(window) }?.sync_type(target)? as i32)))
}
