//! Where a buffer lives: the C interface's numbers and what they mean to UCX.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::ucx::context::Context;
use crate::engine::ucx::cuda_driver;
use crate::sys;
use std::ffi::c_void;

/// Found out from the pointer.
pub(crate) const AUTO: i32 = 0;
/// Ordinary memory.
pub(crate) const HOST: i32 = 1;
pub(crate) const CUDA: i32 = 2;
pub(crate) const CUDA_MANAGED: i32 = 3;
pub(crate) const ROCM: i32 = 4;
/// Host memory pinned for CUDA: to UCX it is host memory.
pub(crate) const CUDA_PINNED: i32 = 16;
/// Host memory that poses as a device, for tests without one.
pub(crate) const DUMMY: i32 = 127;

/// UCX's number for it, or None to let UCX look.
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

/// The number for what UCX has found.
pub(crate) fn from_ucx(found: sys::ucs_memory_type_t) -> i32 {
    match found {
        sys::UCS_MEMORY_TYPE_CUDA => CUDA,
        sys::UCS_MEMORY_TYPE_CUDA_MANAGED => CUDA_MANAGED,
        sys::UCS_MEMORY_TYPE_ROCM | sys::UCS_MEMORY_TYPE_ROCM_MANAGED => ROCM,
        _ => HOST,
    }
}

/// Refuses a number that stands for nothing.
pub(crate) fn check(memory_type: i32) -> Result<()> {
    match memory_type {
        AUTO | HOST | CUDA | CUDA_MANAGED | ROCM | CUDA_PINNED | DUMMY => Ok(()),
        other => Err(Error::invalid(format!("memory_type: {other} is no UCXX_MEMORY_* value"))),
    }
}

/// Can ordinary instructions read and write it? `AUTO` is taken at its word: it is found out by UCX
/// alone.
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

/// A GPU's own, by CUDA.
pub(crate) fn is_cuda(memory_type: i32) -> bool {
    memory_type == CUDA
}

/// Of a frame that UCXX's header announces.
pub(crate) fn of_frame(device: bool) -> i32 {
    if device {
        CUDA
    } else {
        HOST
    }
}

/// It may be memory that the processor cannot read.
pub(crate) fn may_be_device(context: &Context, memory_type: i32) -> bool {
    let there = |ucx| context.has_memory_type(ucx);
    is_device(memory_type)
        || (memory_type == AUTO
            && (there(sys::UCS_MEMORY_TYPE_CUDA) || there(sys::UCS_MEMORY_TYPE_ROCM)))
}

/// The same of memory at this place, for what `AUTO` leaves open.
pub(crate) fn may_be_device_at(context: &Context, memory_type: i32, data: *const c_void) -> bool {
    may_be_device(context, memory_type)
        && (memory_type != AUTO
            || context.has_memory_type(sys::UCS_MEMORY_TYPE_ROCM)
            || cuda_driver::may_be_on_device(data))
}

/// It is memory that the processor cannot write: said to be, or found to be where nothing is said.
pub(crate) fn is_device_at(context: &Context, memory_type: i32, data: *const c_void) -> bool {
    is_device(memory_type)
        || (memory_type == AUTO
            && context.has_memory_type(sys::UCS_MEMORY_TYPE_CUDA)
            && cuda_driver::is_on_device(data))
}

/// The processor cannot read it.
pub(crate) fn is_device(memory_type: i32) -> bool {
    matches!(memory_type, CUDA | ROCM)
}
