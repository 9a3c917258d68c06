//! Where a buffer lives: the C interface's numbers and what they mean to UCX.
#![deny(unsafe_code)]

use super::context::Context;
use super::status::{Error, Result, Status};
use crate::sys;

/// Found out from the pointer.
pub(crate) const AUTO: i32 = 0;
/// Ordinary memory.
pub(crate) const HOST: i32 = 1;
const CUDA: i32 = 2;
const CUDA_MANAGED: i32 = 3;
const ROCM: i32 = 4;
/// Host memory pinned for CUDA: to UCX it is host memory.
const CUDA_PINNED: i32 = 16;
/// Host memory that poses as a device, for tests without one.
const DUMMY: i32 = 127;

/// UCX's number for it, or None to let UCX look.
#[inline]
pub(crate) fn to_ucx(context: &Context, memory_type: i32) -> Result<Option<sys::ucs_memory_type_t>> {
    match memory_type {
        AUTO => Ok(None),
        HOST => Ok(Some(sys::UCS_MEMORY_TYPE_HOST)),
        other => device(context, other),
    }
}

/// Refuses a number that stands for nothing.
pub(crate) fn check(memory_type: i32) -> Result<()> {
    match memory_type {
        AUTO | HOST | CUDA | CUDA_MANAGED | ROCM | CUDA_PINNED | DUMMY => Ok(()),
        other => Err(Error::invalid(format!("memory_type: {other} is no UCXX_MEMORY_* value"))),
    }
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
        let message = format!("memory_type: the UCX that is loaded has no support for {name} memory here");
        return Err(Error::new(Status::UNSUPPORTED, message));
    }
    Ok(Some(ucx))
}
