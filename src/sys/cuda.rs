//! The functions of the CUDA driver that this library calls, as cudarc declares them. The driver is
//! loaded at first use: neither a toolkit nor a driver is needed to build the library, or to run it
//! without a GPU. Decides nothing.
//!
//! cudarc looks a function up at its first call, and panics if the driver does not have it. So
//! `load` checks for all of them, and the engine calls none that is not in the list.

use crate::sys::loaded;
use cudarc::driver::sys::culib;
pub(crate) use cudarc::driver::sys::CUevent_flags_enum::CU_EVENT_DISABLE_TIMING;
pub(crate) use cudarc::driver::sys::CUmemorytype_enum as CUmemorytype;
pub(crate) use cudarc::driver::sys::CUpointer_attribute_enum::*;
pub(crate) use cudarc::driver::sys::CUresult::{self, *};
pub(crate) use cudarc::driver::sys::CUstream_flags_enum::CU_STREAM_NON_BLOCKING;
pub(crate) use cudarc::driver::sys::{
    CUcontext, CUdeviceptr, CUevent, CUstream, CU_MEMHOSTALLOC_PORTABLE,
};
use std::ffi::CStr;

macro_rules! wanted {
    ($($function:ident)*) => {
        pub(crate) use cudarc::driver::sys::{$($function),*};
        const WANTED: &[&str] = &[$(stringify!($function)),*];
    };
}

wanted! {
    cuInit cuGetErrorName cuDeviceGetCount cuDeviceGet cuDevicePrimaryCtxRetain
    cuDevicePrimaryCtxRelease_v2 cuCtxPushCurrent_v2 cuCtxPopCurrent_v2 cuCtxGetDevice
    cuStreamCreate cuStreamDestroy_v2 cuStreamGetCtx cuStreamWaitEvent cuStreamSynchronize
    cuEventCreate cuEventDestroy_v2 cuEventRecord cuEventQuery cuMemAlloc_v2 cuMemFree_v2
    cuMemHostAlloc cuMemFreeHost cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemcpyDtoDAsync_v2
    cuMemcpyPeerAsync cuPointerGetAttribute
}

const LIBRARY: &CStr = c"libcuda.so.1";

/// The driver is loaded in this process.
pub(crate) fn is_loaded() -> bool {
    // SAFETY: a terminated name; nothing is loaded.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return false;
    }
    // SAFETY: the reference that was just taken.
    unsafe { libc::dlclose(library) };
    true
}

/// Loads it. It stays loaded, because it has threads. Returns the reason if it cannot be loaded.
pub(crate) fn load() -> Result<(), String> {
    // cudarc's own loader does not report why there is none.
    // SAFETY: the driver's constructors are those of a system library.
    unsafe { loaded::open(LIBRARY, libc::RTLD_LOCAL) }
        .map_err(|why| format!("there is no CUDA driver: {why}"))?;
    for name in WANTED {
        // SAFETY: the driver is loaded, as was just checked; the function is looked up, not called.
        if unsafe { culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_err() {
            return Err(format!("the CUDA driver is too old: it has no {name}"));
        }
    }
    Ok(())
}
