//! Worker addresses.

use super::guard;
use super::handle::{self, null, place, ucxx_address_t, ucxx_worker_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::wire::address::Address;
use std::ffi::c_void;

/// Returns the address of the worker.
///
/// Send its bytes (ucxx_address_data) to the peers that shall connect, by any means.
///
/// Returns:
/// - UCXX_OK: `*address` is set.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// Ownership: the caller owns the address.
/// See also: ucxx_address_from_bytes, ucxx_endpoint_create.
///
/// # Safety
/// A worker of this library; `address` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_worker_address(
    worker: *mut ucxx_worker_t,
    address: *mut *mut ucxx_address_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, place) = unsafe { (handle::get(worker)?, place(address, "address")?) };
        place.write(handle::give_box(worker.address()?));
        Ok(Status::OK)
    })
}

/// Creates an address from the bytes of `ucxx_address_data`.
///
/// The bytes end with a checked trailer: versions, host, process and checksum. Damaged or foreign
/// bytes are refused, because UCX does not survive them. The bytes are copied. `length` is in
/// bytes. NULL for `data` is invalid, also with length 0.
///
/// Returns:
/// - UCXX_OK: `*address` is set.
/// - UCXX_ERR_INVALID_ADDR: the bytes are damaged, incomplete, or not from this library.
///
/// Threads: any.
/// Ownership: the caller owns the address.
/// See also: ucxx_worker_address, ucxx_endpoint_create.
///
/// # Safety
/// `data` is readable for `length` bytes; `address` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_address_from_bytes(
    data: *const c_void,
    length: usize,
    address: *mut *mut ucxx_address_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { from(data, length, address, Address::from_bytes) })
}

/// Creates an address from the bytes of another UCX program (`ucp_worker_get_address`).
///
/// Such bytes cannot be checked. UCX aborts the process on bytes that are not an address, so accept
/// them only from a source that you trust. The bytes are copied. `length` is in bytes.
///
/// Returns:
/// - UCXX_OK: `*address` is set.
///
/// Threads: any.
/// Ownership: the caller owns the address.
/// See also: ucxx_address_from_bytes.
///
/// # Safety
/// As for `ucxx_address_from_bytes`; the bytes are a UCP worker address.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_address_from_ucp_bytes(
    data: *const c_void,
    length: usize,
    address: *mut *mut ucxx_address_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { from(data, length, address, Address::from_ucp_bytes) })
}

unsafe fn from(
    data: *const c_void,
    length: usize,
    address: *mut *mut ucxx_address_t,
    parse: impl FnOnce(&[u8]) -> Result<Address>,
) -> Result<Status> {
    // SAFETY: as for the callers.
    let place = unsafe { place(address, "address") }?;
    if data.is_null() {
        return Err(null("data"));
    }
    if isize::try_from(length).is_err() {
        return Err(Error::invalid(format!("length: {length} bytes cannot be an address")));
    }
    // SAFETY: as for the callers.
    let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), length) };
    place.write(handle::give_box(parse(bytes)?));
    Ok(Status::OK)
}

/// Returns the bytes of the address, to be sent to peers.
///
/// Returns: a pointer that is valid until the address is destroyed. NULL for NULL.
///
/// Threads: any.
/// See also: ucxx_address_length.
///
/// # Safety
/// NULL or an address of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_address_data(address: *const ucxx_address_t) -> *const c_void {
    let data = || {
        // SAFETY: as for this function.
        unsafe { handle::get(address) }
            .map_or(std::ptr::null(), |address| address.bytes().as_ptr().cast())
    };
    guard::quietly(std::ptr::null(), data)
}

/// Returns the number of bytes of the address.
///
/// Returns: bytes. 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or an address of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_address_length(address: *const ucxx_address_t) -> usize {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(address) }.map_or(0, |address| address.bytes().len()))
}

/// Frees the address.
///
/// Endpoints that were created with it do not need it any more. NULL is ignored.
///
/// Threads: any.
///
/// # Safety
/// NULL or an address of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_address_destroy(address: *mut ucxx_address_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(address) });
}
