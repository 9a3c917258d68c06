//! Registered memory, and keys to a peer's.

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

/// Registers memory of the caller's, which stays the caller's: it may be freed, or unmapped, after
/// ucxx_memory_destroy. `length` in bytes, not 0. `memory_type` is UCXX_MEMORY_*, AUTO to find it
/// out. Needs no feature; keys for peers do (see ucxx_memory_pack).
///
/// Errors: UNSUPPORTED for memory that the UCX that is loaded does not know; NO_MEMORY and the like
/// as UCX says. Any thread.
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

/// Allocates memory that is registered; `memory_type` AUTO is HOST. Other processes of this host
/// can be given it for loads and stores (ucxx_rkey_pointer), where UCX's shared memory is in use,
/// and put, get and atomic operations on it then need nothing of the process that has it. Zeroed,
/// but that of a device. Freed by ucxx_memory_destroy. The rest as ucxx_memory_register.
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

/// Its first byte; NULL for NULL. Any thread.
///
/// # Safety
/// NULL or memory of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_base(memory: *const ucxx_memory_t) -> *mut c_void {
    // SAFETY: as for this function.
    unsafe { handle::look(memory, std::ptr::null_mut(), Memory::base) }
}

/// Its bytes, as many as were asked for; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or memory of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_length(memory: *const ucxx_memory_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(memory, 0, Memory::length) }
}

/// Writes a key to the memory to `bytes`, to be sent to peers by any means, and its length to
/// `length`, which holds the room there is before. With NULL for `bytes` the length alone. The key
/// says what memory of which process it is to, and ends in a checksum. A hundred bytes or so; the
/// same each time.
///
/// Who has the key, and a connection to a worker of this context, can read and write the memory
/// from then on, until ucxx_memory_destroy. UCX does not check what peers put and get over a
/// network against the keys that there are: a context with UCXX_FEATURE_RMA trusts its peers.
/// Memory of which a part may only be read, when this is first called, can only be read by its key.
/// Made so afterwards, a put ends this process by SIGSEGV.
///
/// Errors: UNSUPPORTED without either of UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC;
/// BUFFER_TOO_SMALL, with the length that is needed. Any thread.
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

/// Ends the registration; what was allocated is freed. Nothing may be done by a key to it from then
/// on, and what is under way must have ended: agree with the peers first, as UCX has no way to
/// know. (An atomic operation that comes as a message is refused with NO_ELEM; where a peer sees
/// the memory, or UCX writes it for one, nobody looks.) NULL is ignored. Any thread.
///
/// # Safety
/// NULL or memory of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_memory_destroy(memory: *mut ucxx_memory_t) {
    // SAFETY: as for this function.
    guard::ending(|| unsafe { handle::drop_box(memory) });
}

/// A key of the bytes of ucxx_memory_pack as they arrived, to be used on this endpoint, which leads
/// to the process that made it. The bytes are copied. The handle stays to be destroyed, and may
/// outlive the endpoint, its worker and the peer: it answers their status then.
///
/// Errors: INVALID_PARAM for bytes that are damaged, cut off, or foreign, and for the key of
/// another process; UNSUPPORTED without either of UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC, and for
/// a peer that is not of this library; NO_ELEM for the worker's own memory that has gone;
/// NOT_CONNECTED before an endpoint that was made by host and port is open; UNREACHABLE where UCX
/// has no way to such memory; PEER_FAILED where the process that made it has ended, whether the
/// endpoint knows of that or not. It may wait for the progress thread, so in a callback on another
/// thread: BUSY.
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

/// The address of the first byte of the memory at the peer; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a key of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_base(rkey: *const ucxx_rkey_t) -> u64 {
    // SAFETY: as for this function.
    unsafe { handle::look(rkey, 0, Rkey::base) }
}

/// The bytes of the memory; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a key of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_rkey_length(rkey: *const ucxx_rkey_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(rkey, 0, |rkey| rkey.length() as usize) }
}

/// Where this process sees the memory: loads and stores from there go straight to it, and are
/// ordered as the processor orders those of threads. Valid until the key is destroyed or the
/// endpoint's worker is.
///
/// Errors: UNREACHABLE where it cannot be seen: memory that was registered rather than allocated,
/// of another host, or without shared memory among the transports. Any thread.
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

/// Lets go of the key. Operations under way go on. What is done by a key in the call, and through
/// its pointer, must have returned before the endpoint's worker is destroyed. NULL is ignored. Any
/// thread, but as destroying an endpoint under SINGLE.
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
