//! Registered memory, and keys to a peer's memory.

use super::guard;
use super::handle::{
    self, null, place, ucxx_context_t, ucxx_endpoint_t, ucxx_memory_t, ucxx_rkey_t,
};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::rma::remote_key::Rkey;
use crate::engine::ucx::registered_memory::Memory;
use std::ffi::c_void;
use std::sync::Arc;

/// Registers memory of the caller's with UCX.
///
/// - `length`: in bytes, not 0.
/// - `memory_type`: UCXX_MEMORY_*. UCXX_MEMORY_AUTO detects it.
///
/// The call needs no feature of the context. A key for peers does: see ucxx_memory_pack.
///
/// Returns:
/// - UCXX_OK: `*memory` is set.
/// - UCXX_ERR_UNSUPPORTED: the loaded UCX has no support for this memory type.
/// - UCXX_ERR_NO_MEMORY or another status of UCX: UCX could not register the memory.
///
/// Threads: any.
/// Ownership: the memory stays the caller's. It may be freed or unmapped after ucxx_memory_destroy.
/// See also: ucxx_memory_allocate, ucxx_memory_pack, ucxx_memory_destroy.
///
/// # Safety
/// A context of this library; `base` is the beginning of `length` bytes; `memory` is valid for a
/// write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_memory_register(
    context: *mut ucxx_context_t,
    base: *mut c_void,
    length: usize,
    memory_type: i32,
    memory: *mut *mut ucxx_memory_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { make(context, memory, |context| Memory::register(context, base, length, memory_type)) }
}

/// Allocates memory that is registered with UCX.
///
/// - `length`: in bytes, not 0.
/// - `memory_type`: UCXX_MEMORY_*. UCXX_MEMORY_AUTO means HOST.
///
/// The memory is zeroed, except device memory.
///
/// If UCX uses shared memory, other processes of this host can map it for loads and stores
/// (ucxx_rkey_pointer). Put, get and atomic operations on it then need no progress of the owner.
///
/// Returns:
/// - UCXX_OK: `*memory` is set.
/// - UCXX_ERR_NO_MEMORY: `length` is more than the physical memory of this machine, or UCX has no
///   memory.
/// - UCXX_ERR_UNSUPPORTED: the loaded UCX has no support for this memory type.
/// - another status of UCX: UCX could not allocate the memory.
///
/// Threads: any.
/// Ownership: ucxx_memory_destroy frees the memory.
/// See also: ucxx_memory_register, ucxx_memory_base.
///
/// # Safety
/// A context of this library; `memory` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_memory_allocate(
    context: *mut ucxx_context_t,
    length: usize,
    memory_type: i32,
    memory: *mut *mut ucxx_memory_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { make(context, memory, |context| Memory::allocate(context, length, memory_type)) }
}

unsafe fn make(
    context: *mut ucxx_context_t,
    memory: *mut *mut ucxx_memory_t,
    make: impl FnOnce(&Arc<crate::engine::ucx::context::Context>) -> Result<Memory>,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for the callers.
        let (context, place) = unsafe { (handle::share(context)?, place(memory, "memory")?) };
        place.write(handle::give_box(make(&context)?));
        Ok(Status::OK)
    })
}

/// Returns the address of the first byte; NULL for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or memory of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_base(memory: *const ucxx_memory_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { handle::look(memory, std::ptr::null_mut(), Memory::base) }
}

/// Returns the length in bytes that was asked for; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or memory of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_length(memory: *const ucxx_memory_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(memory, 0, Memory::length) }
}

/// Writes a key to the memory, which peers use to access it. Send the key to them by any means.
///
/// - `bytes`: where the key is written. With NULL only the length is returned.
/// - `length`: in: the size of `bytes`. Out: the length of the key in bytes, about a hundred.
///
/// The key is the same each time. It names the process and the memory, and ends with a checksum.
///
/// Security: a peer with the key and a connection to a worker of this context can read and write
/// the memory until ucxx_memory_destroy. UCX does not check puts and gets over a network against
/// the existing keys. A context with UCXX_FEATURE_RMA trusts its peers.
///
/// Read-only memory:
/// - If a part is read-only when this is first called, peers can only read by the key.
/// - If a part becomes read-only later, a put ends this process by SIGSEGV.
///
/// Returns:
/// - UCXX_OK: the key and its length are written, or the length alone.
/// - UCXX_ERR_UNSUPPORTED: the context has neither UCXX_FEATURE_RMA nor UCXX_FEATURE_ATOMIC.
/// - UCXX_ERR_BUFFER_TOO_SMALL: `bytes` is too small. `*length` is the length that is needed.
/// - another status of UCX: UCX could not make a key.
///
/// Threads: any.
/// See also: ucxx_rkey_unpack.
///
/// # Safety
/// Memory of this library; `bytes` is NULL or writable for `*length` bytes; `length` is valid for a
/// read and a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_memory_pack(
    memory: *const ucxx_memory_t,
    bytes: *mut c_void,
    length: *mut usize,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (memory, length) =
            unsafe { (handle::get(memory)?, length.as_mut().ok_or_else(|| null("length"))?) };
        let packed = memory.packed()?;
        let room = std::mem::replace(length, packed.len());
        if bytes.is_null() {
            return Ok(Status::OK);
        }
        if room < packed.len() {
            let text =
                format!("bytes: the key has {} bytes, and there is room for {room}", packed.len());
            return Err(Error::new(Status::BUFFER_TOO_SMALL, text));
        }
        // SAFETY: as for this function.
        unsafe { bytes.cast::<u8>().copy_from_nonoverlapping(packed.as_ptr(), packed.len()) };
        Ok(Status::OK)
    })
}

/// Ends the registration. Memory of ucxx_memory_allocate is freed. NULL is ignored.
///
/// Before this call, all operations by keys to this memory must have completed, and no more may
/// start. UCX cannot check it: agree with the peers first. Only an atomic operation that arrives as
/// a message is checked, and completes with UCXX_ERR_NO_ELEM.
///
/// Threads: any.
///
/// # Safety
/// NULL or memory of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_destroy(memory: *mut ucxx_memory_t) {
    // SAFETY: as for this function.
    guard::ending(|| unsafe { handle::drop_box(memory) });
}

/// Makes a key of received bytes, to be used on this endpoint.
///
/// - `endpoint`: leads to the process that made the key.
/// - `bytes`, `length`: what ucxx_memory_pack wrote. The bytes are copied.
///
/// Returns:
/// - UCXX_OK: `*rkey` is set.
/// - UCXX_ERR_INVALID_PARAM: the bytes are damaged, cut off or no key, or the key is of another
///   process.
/// - UCXX_ERR_UNSUPPORTED: the context has neither UCXX_FEATURE_RMA nor UCXX_FEATURE_ATOMIC, or the
///   peer does not use this library.
/// - UCXX_ERR_NO_ELEM: the memory is this worker's own and was destroyed.
/// - UCXX_ERR_NOT_CONNECTED: the endpoint was made by host and port, and is not open yet.
/// - UCXX_ERR_UNREACHABLE: UCX has no transport to such memory.
/// - UCXX_ERR_PEER_FAILED: the process that made the key has ended. This is checked even if the
///   endpoint has not failed yet.
/// - UCXX_ERR_BUSY: called from a callback "on another thread": see "Callbacks" at the top of this
///   file.
/// - The status of the endpoint, if it has ended.
///
/// Threads: any.
/// Ownership: the caller destroys the key. The key may outlive the endpoint, its worker and the
/// peer; operations then return their status.
/// See also: ucxx_rkey_destroy, ucxx_rma_put, ucxx_rma_get, ucxx_rma_atomic.
///
/// # Safety
/// An endpoint of this library; `bytes` is readable for `length` bytes; `rkey` is valid for a
/// write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_rkey_unpack(
    endpoint: *mut ucxx_endpoint_t,
    bytes: *const c_void,
    length: usize,
    rkey: *mut *mut ucxx_rkey_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (endpoint, place) = unsafe { (handle::get(endpoint)?, place(rkey, "rkey")?) };
        if bytes.is_null() {
            return Err(null("bytes"));
        }
        if isize::try_from(length).is_err() {
            return Err(Error::invalid(format!("length: {length} bytes cannot be a key")));
        }
        // SAFETY: as for this function.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        place.write(handle::give_arc(Rkey::unpack(endpoint, bytes)?));
        Ok(Status::OK)
    })
}

/// Returns the address of the first byte of the memory at the peer; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a key of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_base(rkey: *const ucxx_rkey_t) -> u64 {
    // SAFETY: as for this function.
    unsafe { handle::look(rkey, 0, Rkey::base) }
}

/// Returns the length of the memory in bytes; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a key of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_length(rkey: *const ucxx_rkey_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(rkey, 0, |rkey| rkey.length() as usize) }
}

/// Returns the address at which this process can load and store the peer's memory directly.
///
/// Loads and stores are ordered as the processor orders those of threads.
///
/// Returns:
/// - UCXX_OK: `*local` is set.
/// - UCXX_ERR_UNREACHABLE: the memory is not mapped here. It was registered instead of allocated,
///   it is on another host, or the transports have no shared memory.
///
/// Threads: any.
/// Ownership: the address is valid until the key or the endpoint's worker is destroyed.
/// See also: ucxx_memory_allocate.
///
/// # Safety
/// A key of this library; `local` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_rkey_pointer(
    rkey: *const ucxx_rkey_t,
    local: *mut *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (rkey, place) = unsafe { (handle::get(rkey)?, place(local, "local")?) };
        place.write(rkey.local()?);
        Ok(Status::OK)
    })
}

/// Releases a key. NULL is ignored.
///
/// Operations in progress continue. Calls that use the key, and accesses through its pointer, must
/// have ended before the endpoint's worker is destroyed.
///
/// Threads: any. Under UCXX_THREAD_SINGLE the same threads as for ucxx_endpoint_destroy.
///
/// # Safety
/// NULL or a key of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_destroy(rkey: *mut ucxx_rkey_t) {
    guard::quietly((), || {
        // SAFETY: as for this function.
        if let Some(rkey) = unsafe { handle::take_arc(rkey) } {
            rkey.destroy();
        }
    });
}
