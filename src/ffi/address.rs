//! Worker addresses.

use super::guard;
use super::handle::{self, null, place, ucxx_address_t, ucxx_worker_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::wire::address::Address;
use std::ffi::c_void;

/// The worker's address, to be sent to whoever wants to connect to it by any means. The caller owns
/// it. Under SINGLE, on the worker's own thread.
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

/// An address from the bytes of `ucxx_address_data` as they arrived. They end in a checked trailer
/// (versions, host, process, checksum): damaged or foreign ones give UCXX_ERR_INVALID_ADDR and are
/// never shown to UCX, which would not survive them. The bytes are copied; the caller owns the
/// address. Any thread.
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

/// As `ucxx_address_from_bytes`, for the bytes of another UCX program's worker
/// (`ucp_worker_get_address`). They cannot be checked: UCX aborts the process on bytes that are not
/// an address, so take them only from where you trust.
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

/// The address's bytes, valid until it is destroyed; NULL for NULL. Any thread.
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

/// The number of the address's bytes; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or an address of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_address_length(address: *const ucxx_address_t) -> usize {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(address) }.map_or(0, |address| address.bytes().len()))
}

/// Frees the address. Endpoints made with it do not need it any more. NULL is ignored. Any thread.
///
/// # Safety
/// NULL or an address of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_address_destroy(address: *mut ucxx_address_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(address) });
}
