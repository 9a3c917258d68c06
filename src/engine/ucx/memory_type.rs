//! Memory types: the C interface's numbers, UCX's numbers, and where each can be accessed.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::ucx::context::Context;
use crate::engine::ucx::cuda_driver;
use crate::sys;
use std::ffi::c_void;

/// Found out from the pointer, by UCX.
pub(crate) const AUTO: i32 = 0;
/// Ordinary memory.
pub(crate) const HOST: i32 = 1;
pub(crate) const CUDA: i32 = 2;
pub(crate) const CUDA_MANAGED: i32 = 3;
pub(crate) const ROCM: i32 = 4;
/// Host memory pinned for CUDA. UCX treats it as host memory.
pub(crate) const CUDA_PINNED: i32 = 16;
/// Host memory that counts as a device, for tests without one.
pub(crate) const DUMMY: i32 = 127;

/// UCX's number; `None` lets UCX find out.
#[inline]
pub(crate) fn to_ucx(
    context: &Context,
    memory_type: i32,
) -> Result<Option<sys::ucs_memory_type_t>> {
    match memory_type {
        AUTO => Ok(None),
        HOST => Ok(Some(sys::UCS_MEMORY_TYPE_HOST)),
        other => device(context, other),
    }
}

/// Our number for a type that UCX found.
pub(crate) fn from_ucx(found: sys::ucs_memory_type_t) -> i32 {
    match found {
        sys::UCS_MEMORY_TYPE_CUDA => CUDA,
        sys::UCS_MEMORY_TYPE_CUDA_MANAGED => CUDA_MANAGED,
        sys::UCS_MEMORY_TYPE_ROCM | sys::UCS_MEMORY_TYPE_ROCM_MANAGED => ROCM,
        _ => HOST,
    }
}

/// Refuses a number that is no memory type.
pub(crate) fn check(memory_type: i32) -> Result<()> {
    match memory_type {
        AUTO | HOST | CUDA | CUDA_MANAGED | ROCM | CUDA_PINNED | DUMMY => Ok(()),
        other => Err(Error::invalid(format!("memory_type: {other} is no UCXX_MEMORY_* value"))),
    }
}

/// Can the CPU access it? `AUTO` counts as yes: only UCX could find out.
pub(crate) fn is_reached_by_cpu(memory_type: i32) -> bool {
    matches!(memory_type, AUTO | HOST | CUDA_MANAGED | CUDA_PINNED)
}

#[cold]
fn device(context: &Context, memory_type: i32) -> Result<Option<sys::ucs_memory_type_t>> {
    check(memory_type)?;
    let (ucx, name) = match memory_type {
        CUDA => (sys::UCS_MEMORY_TYPE_CUDA, "CUDA"),
        CUDA_MANAGED => (sys::UCS_MEMORY_TYPE_CUDA_MANAGED, "CUDA managed"),
        ROCM => (sys::UCS_MEMORY_TYPE_ROCM, "ROCm"),
        _ => return Ok(Some(sys::UCS_MEMORY_TYPE_HOST)),
    };
    if !context.has_memory_type(ucx) {
        let message =
            format!("memory_type: the UCX that is loaded has no support for {name} memory here");
        return Err(Error::new(Status::UNSUPPORTED, message));
    }
    Ok(Some(ucx))
}

/// Memory of a CUDA device.
pub(crate) fn is_cuda(memory_type: i32) -> bool {
    memory_type == CUDA
}

/// Memory type of a frame in UCXX's format, whose header says only whether it is on a device.
pub(crate) fn of_frame(device: bool) -> i32 {
    if device {
        CUDA
    } else {
        HOST
    }
}

/// Might the CPU be unable to read memory of this type?
pub(crate) fn may_be_device(context: &Context, memory_type: i32) -> bool {
    let there = |ucx| context.has_memory_type(ucx);
    is_device(memory_type)
        || (memory_type == AUTO
            && (there(sys::UCS_MEMORY_TYPE_CUDA) || there(sys::UCS_MEMORY_TYPE_ROCM)))
}

/// Like `may_be_device`; for `AUTO` it looks at the address.
pub(crate) fn may_be_device_at(context: &Context, memory_type: i32, data: *const c_void) -> bool {
    may_be_device(context, memory_type)
        && (memory_type != AUTO
            || context.has_memory_type(sys::UCS_MEMORY_TYPE_ROCM)
            || cuda_driver::may_be_on_device(data))
}

/// Is it memory that the CPU cannot write: by its type, or for `AUTO` by its address?
pub(crate) fn is_device_at(context: &Context, memory_type: i32, data: *const c_void) -> bool {
    is_device(memory_type)
        || (memory_type == AUTO
            && context.has_memory_type(sys::UCS_MEMORY_TYPE_CUDA)
            && cuda_driver::is_on_device(data))
}

/// The CPU cannot access it.
pub(crate) fn is_device(memory_type: i32) -> bool {
    matches!(memory_type, CUDA | ROCM)
}
