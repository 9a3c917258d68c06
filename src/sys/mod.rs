//! Declarations of foreign libraries, without any decisions.
//!
//! UCX: generated bindings for what every supported release exports, and a look-up for what only
//! some export. The CUDA driver and PMIx: in `cuda` and `pmix`.

// libc supplies the C types, and the generated code keeps UCX's names.
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    dead_code,
    unused_imports,
    unreachable_pub,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
#[rustfmt::skip]
mod bindings;

pub(crate) use bindings::*;

#[cfg(feature = "cuda")]
pub(crate) mod cuda;
mod loaded;
pub(crate) mod pmix;

pub(crate) use loaded::keep as keep_loaded;

#[cfg(feature = "vendored")]
use ucx1_sys as _;

use std::ffi::CStr;

/// The release that the bindings were made from. UCX gets it, so that it reads our structs
/// correctly.
pub(crate) const API: (libc::c_uint, libc::c_uint) = (UCP_API_MAJOR, UCP_API_MINOR);

/// `ucp_dt_make_iov()`, a macro in the header.
pub(crate) const DATATYPE_IOV: ucp_datatype_t = UCP_DATATYPE_IOV as ucp_datatype_t;

/// Address of an exported symbol of any loaded library, or null.
pub(crate) fn symbol(name: &CStr) -> *mut libc::c_void {
    // SAFETY: a look-up by name with a terminated string; it has no other precondition.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// An operation is in flight: the most frequent check of a `*_nbx` function's result, in one
/// comparison.
#[inline(always)]
pub(crate) fn is_pending(pointer: ucs_status_ptr_t) -> bool {
    // Null wraps around to the largest number, and the statuses are right below it.
    (pointer as usize).wrapping_sub(1) < (UCS_ERR_LAST as isize as usize) - 1
}

/// The result of a `*_nbx` function that fails with this status.
pub(crate) fn status_pointer(status: ucs_status_t) -> ucs_status_ptr_t {
    std::ptr::without_provenance_mut(status as isize as usize)
}

/// The result of a `*_nbx` function: complete, failed, or in flight.
pub(crate) enum Posted {
    Done,
    Failed(ucs_status_t),
    Pending,
}

impl Posted {
    /// UCX returns small negative statuses in the pointer (`UCS_PTR_STATUS`). They are read as
    /// numbers, and the pointer is never followed.
    #[inline]
    pub(crate) fn from_pointer(pointer: ucs_status_ptr_t) -> Self {
        if pointer.is_null() {
            return Posted::Done;
        }
        let value = pointer as isize;
        if value < 0 && value >= UCS_ERR_LAST as isize {
            Posted::Failed(value as ucs_status_t)
        } else {
            Posted::Pending
        }
    }
}
