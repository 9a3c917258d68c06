//! Buffers that the caller's allocator, or the library, makes for received data.

use super::guard;
use super::handle::{self, give_box, place, ucxx_buffers_t, ucxx_request_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::tag::ucxx_buffer_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::receive_buffers::{Allocator, Frame};
use crate::engine::core::request::operation::{OpParams, WAITS};
use std::ffi::c_void;

/// Allocates a buffer of `length` bytes, never 0, and stores its address in `*data`.
///
/// - `memory_type` is UCXX_MEMORY_*, and `device_id` the device.
/// - A negative status means that it cannot. The operation then fails with this status.
/// - It must not wait, and must not throw.
///
/// Threads: the thread that makes progress. No lock is held.
pub type ucxx_allocate_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        length: usize,
        memory_type: i32,
        device_id: i32,
        data: *mut *mut c_void,
    ) -> ucxx_status_t,
>;
/// Frees a buffer of the matching `ucxx_allocate_t`.
///
/// Threads: any.
pub type ucxx_deallocate_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        data: *mut c_void,
        length: usize,
        memory_type: i32,
        device_id: i32,
    ),
>;

/// Source and limits of the buffers of an operation that learns their sizes from its peer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_allocator {
    /// Set by UCXX_ALLOCATOR_INIT.
    pub struct_size: usize,
    /// Allocates a buffer. NULL means the library's own memory:
    ///
    /// - Host memory is from malloc. When buffers are destroyed, the worker keeps up to 64 MiB of
    ///   it for later receives. Frames of up to 4,096 bytes of one message share one block.
    /// - Frames that their sender announces as CUDA memory are from cuMemAlloc. The device is that
    ///   of the CUDA context that is current on the thread that makes progress, or device 0 if
    ///   there is none. The sender does not announce a device. The memory is in the device's
    ///   primary context, which the library holds from then on.
    /// - Such frames fail with UCXX_ERR_UNSUPPORTED if UCX cannot receive into CUDA memory (see
    ///   ucxx_context_has_cuda), and with UCXX_ERR_NO_DEVICE without a driver.
    pub allocate: ucxx_allocate_t,
    /// Frees a buffer. Required if `allocate` is set.
    pub deallocate: ucxx_deallocate_t,
    /// Passed to both functions. The caller keeps it until the last of their buffers is freed.
    pub arg: *mut c_void,
    /// Most buffers that a peer may announce. More are refused with UCXX_ERR_EXCEEDS_LIMIT. 0 means
    /// 65536.
    pub max_frames: usize,
    /// Most bytes that a peer may announce, for all buffers together. More are refused with
    /// UCXX_ERR_EXCEEDS_LIMIT. 0 means half of the physical memory.
    pub max_total_bytes: usize,
}
/// Source and limits of the buffers of an operation that learns their sizes from its peer.
pub type ucxx_allocator_t = ucxx_allocator;

sized! { ucxx_allocator, 48; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_allocator_init(value: *mut ucxx_allocator_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

const MOST_FRAMES: usize = 65536;

/// # Safety
/// NULL or a struct whose `struct_size` is set.
pub(crate) unsafe fn allocator(allocator: *const ucxx_allocator_t) -> Result<Allocator> {
    // SAFETY: as for this function.
    unsafe { params::with(allocator, "allocator", convert) }
}

/// Refuses an operation that has no handle to take its buffers from.
pub(crate) fn check_taker(params: &OpParams, request: *mut *mut ucxx_request_t) -> Result<()> {
    if params.flags & WAITS != 0 {
        return Err(Error::invalid(
            "flags: UCXX_FLAG_WAIT is not possible here: it leaves no request from which to take \
            the buffers",
        ));
    }
    if request.is_null() && params.callback.is_none() {
        let text = "request: is NULL, and there is no callback: give one of the two, to take the \
            buffers from the request";
        return Err(Error::invalid(text));
    }
    Ok(())
}

fn convert(allocator: &ucxx_allocator) -> Result<Allocator> {
    if allocator.allocate.is_some() != allocator.deallocate.is_some() {
        return Err(Error::invalid("allocator: set both allocate and deallocate, or neither"));
    }
    let or = |value: usize, default: usize| if value == 0 { default } else { value };
    Ok(Allocator {
        allocate: allocator.allocate,
        deallocate: allocator.deallocate,
        arg: allocator.arg,
        max_frames: or(allocator.max_frames, MOST_FRAMES),
        max_total_bytes: or(allocator.max_total_bytes, half_of_memory()),
    })
}

fn half_of_memory() -> usize {
    // SAFETY: no precondition.
    let (pages, size) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0).saturating_mul(usize::try_from(size).unwrap_or(0)) / 2
}

fn describe(frame: Frame) -> ucxx_buffer_t {
    let Frame { data, length, memory_type, device_id } = frame;
    ucxx_buffer_t { data, length: length as u64, memory_type, device_id, reserved: [0; 2] }
}

/// Takes the buffers out of a request that has completed with UCXX_OK.
///
/// Call it once. Buffers that are not taken are freed with the request.
///
/// Returns:
/// - UCXX_OK: `*buffers` is set.
/// - UCXX_INPROGRESS: the operation has not completed.
/// - UCXX_ERR_NO_ELEM: the request has no buffers, or they were taken.
/// - Any other value: the error of the operation.
///
/// Threads: any.
/// Ownership: the caller owns the buffers.
/// See also: ucxx_buffers_get, ucxx_buffers_take, ucxx_buffers_destroy.
///
/// # Safety
/// A request of this library; `buffers` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_request_take_buffers(
    request: *mut ucxx_request_t,
    buffers: *mut *mut ucxx_buffers_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (request, place) = unsafe { (handle::get(request)?, place(buffers, "buffers")?) };
        place.write(give_box(request.take_buffers()?));
        Ok(Status::OK)
    })
}

/// Returns the number of buffers.
///
/// Returns: the number. 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or buffers of this library that were not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_buffers_count(buffers: *const ucxx_buffers_t) -> usize {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(buffers) }.map_or(0, |buffers| buffers.count()))
}

/// Returns one of the buffers.
///
/// `data` is NULL if the length is 0, or if the buffer was taken.
///
/// Returns:
/// - UCXX_OK: `*buffer` is filled.
/// - UCXX_ERR_OUT_OF_RANGE: `index` is not below ucxx_buffers_count.
///
/// Threads: any.
/// Ownership: the buffer stays with the others.
///
/// # Safety
/// Buffers of this library; `buffer` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_buffers_get(
    buffers: *const ucxx_buffers_t,
    index: usize,
    buffer: *mut ucxx_buffer_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (buffers, place) = unsafe { (handle::get(buffers)?, place(buffer, "buffer")?) };
        place.write(describe(buffers.get(index)?));
        Ok(Status::OK)
    })
}

/// Takes one of the buffers out of the others. A frame that shares a block (see
/// ucxx_allocator_t) is copied, so its address is another one than that of ucxx_buffers_get.
///
/// Returns:
/// - UCXX_OK: `*buffer` is filled.
/// - UCXX_ERR_OUT_OF_RANGE: `index` is not below ucxx_buffers_count.
/// - UCXX_ERR_NO_MEMORY: there is no memory for the copy. The buffer stays with the others.
///
/// Threads: any, while no other thread uses the buffers.
/// Ownership: the caller frees the buffer: with its own `deallocate` if it gave one, otherwise with
/// free(). UCXX_MEMORY_CUDA is freed with cuMemFree, in the primary context of the device
/// `device_id`.
///
/// # Safety
/// Buffers of this library, which no other thread uses; `buffer` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_buffers_take(
    buffers: *mut ucxx_buffers_t,
    index: usize,
    buffer: *mut ucxx_buffer_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (buffers, place) = unsafe { (handle::get_mut(buffers)?, place(buffer, "buffer")?) };
        place.write(describe(buffers.take(index)?));
        Ok(Status::OK)
    })
}

/// Frees the buffers that were not taken, with their allocator. NULL is ignored.
///
/// Threads: any.
///
/// # Safety
/// NULL or buffers of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_buffers_destroy(buffers: *mut ucxx_buffers_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(buffers) });
}
