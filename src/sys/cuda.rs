//! What this library calls of the CUDA driver, looked up when it is first wanted: neither a toolkit
//! nor a driver is needed to build it, or to run it without a GPU. Decides nothing.
//!
//! Not by cudarc, which binds all of the driver: cudarc panics where a symbol
//! is missing, as in an older driver, and where there is no driver; and the loader that it stands
//! on asks for a newer Rust than this package does.

use crate::sys::loaded::{self, functions};
use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::CStr;

/// A `CUdeviceptr`.
pub(crate) type Address = u64;
/// A `CUcontext`, `CUstream` or `CUevent`.
pub(crate) type Object = *mut c_void;

pub(crate) const SUCCESS: c_int = 0;
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NO_DEVICE: c_int = 100;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_CONTEXT: c_int = 201;
pub(crate) const NOT_READY: c_int = 600;
pub(crate) const STREAM_NON_BLOCKING: c_uint = 1;
pub(crate) const EVENT_DISABLE_TIMING: c_uint = 2;
/// Pinned for the contexts of all devices.
pub(crate) const HOST_ALLOC_PORTABLE: c_uint = 1;
pub(crate) const POINTER_MEMORY_TYPE: c_int = 2;
pub(crate) const POINTER_IS_MANAGED: c_int = 8;
pub(crate) const POINTER_DEVICE: c_int = 9;
pub(crate) const MEMORY_HOST: c_uint = 1;
pub(crate) const MEMORY_DEVICE: c_uint = 2;

functions! {
    /// The driver's functions.
    Driver {
        init = c"cuInit" (c_uint) -> c_int;
        error_name = c"cuGetErrorName" (c_int, *mut *const c_char) -> c_int;
        device_count = c"cuDeviceGetCount" (*mut c_int) -> c_int;
        device = c"cuDeviceGet" (*mut c_int, c_int) -> c_int;
        context_retain = c"cuDevicePrimaryCtxRetain" (*mut Object, c_int) -> c_int;
        context_release = c"cuDevicePrimaryCtxRelease_v2" (c_int) -> c_int;
        context_push = c"cuCtxPushCurrent_v2" (Object) -> c_int;
        context_pop = c"cuCtxPopCurrent_v2" (*mut Object) -> c_int;
        context_device = c"cuCtxGetDevice" (*mut c_int) -> c_int;
        stream_create = c"cuStreamCreate" (*mut Object, c_uint) -> c_int;
        stream_destroy = c"cuStreamDestroy_v2" (Object) -> c_int;
        stream_context = c"cuStreamGetCtx" (Object, *mut Object) -> c_int;
        stream_wait = c"cuStreamWaitEvent" (Object, Object, c_uint) -> c_int;
        stream_synchronize = c"cuStreamSynchronize" (Object) -> c_int;
        event_create = c"cuEventCreate" (*mut Object, c_uint) -> c_int;
        event_destroy = c"cuEventDestroy_v2" (Object) -> c_int;
        event_record = c"cuEventRecord" (Object, Object) -> c_int;
        event_query = c"cuEventQuery" (Object) -> c_int;
        allocate = c"cuMemAlloc_v2" (*mut Address, usize) -> c_int;
        free = c"cuMemFree_v2" (Address) -> c_int;
        host_allocate = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint) -> c_int;
        host_free = c"cuMemFreeHost" (*mut c_void) -> c_int;
        copy_to_device = c"cuMemcpyHtoDAsync_v2" (Address, *const c_void, usize, Object) -> c_int;
        copy_to_host = c"cuMemcpyDtoHAsync_v2" (*mut c_void, Address, usize, Object) -> c_int;
        copy_on_device = c"cuMemcpyDtoDAsync_v2" (Address, Address, usize, Object) -> c_int;
        copy_to_peer = c"cuMemcpyPeerAsync"
            (Address, Object, Address, Object, usize, Object) -> c_int;
        pointer_attribute = c"cuPointerGetAttribute" (*mut c_void, c_int, Address) -> c_int;
    }
}

const LIBRARY: &CStr = c"libcuda.so.1";

impl Driver {
    /// Has anybody in this process loaded it?
    pub(crate) fn is_loaded() -> bool {
        // SAFETY: a terminated name; nothing is loaded.
        let library =
            unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            return false;
        }
        // SAFETY: the reference that was just taken.
        unsafe { libc::dlclose(library) };
        true
    }

    /// Loads it; it stays, as it has threads. Why not, if not.
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: the driver's constructors are those of a system library.
        let library = unsafe { loaded::open(LIBRARY, libc::RTLD_LOCAL) }
            .map_err(|why| format!("there is no CUDA driver: {why}"))?;
        // SAFETY: just loaded, and never unloaded.
        unsafe { Self::find(library) }.map_err(|name| {
            format!("the CUDA driver is too old: it has no {}", name.to_string_lossy())
        })
    }
}
