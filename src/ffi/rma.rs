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

/// A reference to the key. The handle keeps the key alive.
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

/// Writes `length` bytes from `buffer` to the peer's memory. This is an operation.
///
/// - `offset`: in bytes from the beginning of the memory.
/// - The peer is not notified.
///
/// If this process maps the memory (see ucxx_rkey_pointer), the put is done inside the call,
/// without progress. An aligned value of 1, 2, 4 or 8 bytes is then written at once, so that no
/// reader sees half of it.
///
/// Otherwise completion is local: the buffer may be reused. A later flush of the endpoint completes
/// when the bytes are in the peer's memory. The peer has to progress for that over TCP, and if the
/// memory was registered instead of allocated.
///
/// Order: puts, gets and atomic operations are not ordered, neither among each other nor with
/// messages. A flush or ucxx_worker_fence orders them.
///
/// Returns:
/// - UCXX_ERR_OUT_OF_RANGE: the range ends beyond the memory.
/// - UCXX_ERR_INVALID_ADDR: the peer may not write all of the memory; see ucxx_memory_pack.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_RMA.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid and unchanged until the operation has completed.
/// See also: ucxx_rma_get, ucxx_endpoint_flush, ucxx_worker_fence.
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

/// Reads `length` bytes from the peer's memory into `buffer`. This is an operation.
///
/// `offset` is in bytes from the beginning of the memory. The operation completes when the bytes
/// are in `buffer`. Mapped memory and order are as for ucxx_rma_put.
///
/// Returns:
/// - Any status of ucxx_rma_put, except UCXX_ERR_INVALID_ADDR.
///
/// Threads: any.
/// Ownership: `buffer` must stay valid until the operation has completed.
/// See also: ucxx_rma_put.
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

/// Performs an atomic operation on an integer of the peer's memory. This is an operation.
///
/// - `op`: UCXX_ATOMIC_*.
/// - `size`: of the integer in bytes, 4 or 8. Integers wrap around.
/// - `operand`: copied during the call.
/// - `compare`: only for UCXX_ATOMIC_CSWAP, which stores `operand` if the integer equals `compare`.
///   It is copied.
/// - `result`: gets the previous value. NULL if it is not needed.
/// - `offset`: in bytes from the beginning of the memory. ucxx_rkey_base plus `offset` must be a
///   multiple of `size`.
///
/// The operation is atomic with respect to all operations of this function on the same integer,
/// from any process. It is also atomic with respect to the atomic instructions of the process that
/// owns the memory.
///
/// If this process maps the memory (see ucxx_rkey_pointer), the operation is done inside the call.
/// Otherwise the peer's library performs it when it progresses, and then the operation completes.
/// Such an operation uses credit as a fetch does. If it was cancelled or timed out, it may have
/// been performed.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: `op` or `size` is unknown, or the address is not aligned.
/// - UCXX_ERR_OUT_OF_RANGE: the integer ends beyond the memory.
/// - UCXX_ERR_INVALID_ADDR: the peer may not write all of the memory; see ucxx_memory_pack.
/// - UCXX_ERR_UNSUPPORTED: `result` or the peer's memory is device memory.
/// - UCXX_ERR_NO_ELEM: the peer has destroyed the memory.
/// - Any status of an operation: see "Operations" at the top of this file. It needs
///   UCXX_FEATURE_ATOMIC.
///
/// Threads: any.
/// Ownership: `result` must stay valid until the operation has completed.
/// See also: ucxx_rma_put, ucxx_am_fetch.
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

/// An unsigned integer of `size` bytes.
///
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
