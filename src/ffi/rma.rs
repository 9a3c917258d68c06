//! Put, get and atomic operations on a peer's registered memory.

use super::handle::{self, null, ucxx_request_t, ucxx_rkey_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use crate::engine::rma::atomic::{Atomic, AtomicOp};
use crate::engine::rma::remote_key::Rkey;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The reference of the handle, which keeps it.
///
/// # Safety
/// As for `handle::get`.
#[inline]
unsafe fn key(
    rkey: *mut ucxx_rkey_t,
) -> crate::engine::base::status::Result<ManuallyDrop<Arc<Rkey>>> {
    // SAFETY: as for this function; handles of keys are references.
    unsafe {
        handle::get(rkey).map(|rkey| ManuallyDrop::new(Arc::from_raw(std::ptr::from_ref(rkey))))
    }
}

/// Writes `length` bytes from `buffer` to the peer's memory, `offset` bytes from its beginning. The
/// peer is told nothing.
///
/// Where this process sees the memory (see ucxx_rkey_pointer) it is done inside the call, whoever
/// progresses; an aligned value of 1, 2, 4 or 8 bytes is written at once, so that nobody sees half
/// of it. Elsewhere completion is local, the buffer may be reused: that the bytes are there tells a
/// later flush of the endpoint. Over TCP, and to memory that was registered rather than allocated,
/// the peer has to progress for that. Puts, gets and atomic operations are not ordered among each
/// other, nor with messages, but by a flush or ucxx_worker_fence.
///
/// Errors, with nothing sent: OUT_OF_RANGE beyond the memory; INVALID_ADDR where the peer may not
/// write all of it, see ucxx_memory_pack; UNSUPPORTED without UCXX_FEATURE_RMA; NO_RESOURCE with
/// UCXX_FLAG_NO_WAIT, as a send; the endpoint's status when it has ended.
///
/// # Safety
/// A key of this library; `buffer` is readable for `length` bytes until the operation has
/// completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_rma_put(
    rkey: *mut ucxx_rkey_t,
    buffer: *const c_void,
    length: usize,
    offset: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let rkey = key(rkey)?;
            check_buffer(buffer, length as u64, "buffer")?;
            rkey.put(buffer, length, offset, params, out)
        })
    }
}

/// Reads `length` bytes into `buffer` from the peer's memory, `offset` bytes from its beginning.
/// Complete when they are there. The rest as ucxx_rma_put.
///
/// # Safety
/// A key of this library; `buffer` is writable for `length` bytes until the operation has
/// completed; see `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_rma_get(
    rkey: *mut ucxx_rkey_t,
    buffer: *mut c_void,
    length: usize,
    offset: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let rkey = key(rkey)?;
            check_buffer(buffer, length as u64, "buffer")?;
            rkey.get(buffer, length, offset, params, out)
        })
    }
}

/// An atomic operation (UCXX_ATOMIC_*) on a number of `size` bytes, 4 or 8, of the peer's memory:
/// the address at the peer, ucxx_rkey_base plus `offset`, is a multiple of that. `operand` is
/// copied, and so is `compare`, which CSWAP alone reads: it puts `operand` there if `compare` is
/// there. What was there before goes to `result`, unless that is NULL. Numbers wrap around.
///
/// Atomic to every other operation of this kind on the same number, from wherever, and to the
/// processor's own of the process that has the memory. Where this process sees the memory it is
/// done inside the call; elsewhere the peer's library does it when it progresses, and the operation
/// completes when it has been done: a failure there is its status, NO_ELEM for memory that has
/// gone. One that was cancelled, or ran out of time, may have been done.
///
/// Errors, with nothing sent: INVALID_PARAM for another operation or size, or what is not aligned;
/// OUT_OF_RANGE; UNSUPPORTED without UCXX_FEATURE_ATOMIC and for memory of a device; else as
/// ucxx_rma_put. It uses credit as a fetch does.
///
/// # Safety
/// A key of this library; `operand`, and for CSWAP `compare`, is readable for `size` bytes;
/// `result` is NULL or writable for as many until the operation has completed; see
/// `ucxx_op_params_t` for the rest.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_rma_atomic(
    rkey: *mut ucxx_rkey_t,
    op: i32,
    size: usize,
    operand: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    offset: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let rkey = key(rkey)?;
            let (op, size) = Atomic::check(op, size)?;
            if operand.is_null() {
                return Err(null("operand"));
            }
            if compare.is_null() && op == AtomicOp::CompareSwap {
                return Err(null("compare"));
            }
            let operand = number(operand, size);
            let compare = if op == AtomicOp::CompareSwap { number(compare, size) } else { 0 };
            let atomic = Atomic { op, size, number: 0, offset, operand, compare };
            rkey.atomic(atomic, result, params, out)
        })
    }
}

/// # Safety
/// `place` is readable for `size` bytes, which are 4 or 8.
unsafe fn number(place: *const c_void, size: u8) -> u64 {
    // SAFETY: as for this function.
    unsafe {
        if size == 4 {
            place.cast::<u32>().read_unaligned().into()
        } else {
            place.cast::<u64>().read_unaligned()
        }
    }
}
