//! Buffers that are made for what comes, by the caller's allocator or by the library.

use super::guard;
use super::handle::{self, give_box, place, ucxx_buffers_t, ucxx_request_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::tag::ucxx_buffer_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::receive_buffers::{Allocator, Frame};
use crate::engine::core::request::operation::{OpParams, WAITS};
use std::ffi::c_void;

/// Makes a buffer of `length` bytes, never 0, in `*data`; a negative status, which the operation
/// then ends with, if it cannot. Outside every lock, on the thread that drives progress. It must
/// not throw, and may not wait.
pub type ucxx_allocate_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        length: usize,
        memory_type: i32,
        device_id: i32,
        data: *mut *mut c_void,
    ) -> ucxx_status_t,
>;
/// Frees what the other one made, on any thread.
pub type ucxx_deallocate_t = Option<
    unsafe extern "C" fn(
        arg: *mut c_void,
        data: *mut c_void,
        length: usize,
        memory_type: i32,
        device_id: i32,
    ),
>;

/// Who makes the buffers of an operation that learns their sizes from its peer, and how many and
/// how large they may be.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_allocator {
    /// Set by UCXX_ALLOCATOR_INIT.
    pub struct_size: usize,
    /// NULL for malloc, whose memory the worker keeps when buffers are destroyed, up to 64 MiB of
    /// it, for what it receives next; and for frames that their sender has announced as CUDA memory
    /// cuMemAlloc, on the device whose context is current on the thread that drives progress, or
    /// device 0 where none is (the sender does not say which), in its primary context, which is
    /// held from then on. Such frames are UNSUPPORTED where UCX cannot receive into CUDA memory
    /// (ucxx_context_has_cuda), NO_DEVICE without a driver.
    pub allocate: ucxx_allocate_t,
    /// Has to be there if `allocate` is.
    pub deallocate: ucxx_deallocate_t,
    /// Passed to both; kept by the caller until the last of their buffers is gone.
    pub arg: *mut c_void,
    /// A peer that announces more buffers is refused; 0 = 65536.
    pub max_frames: usize,
    /// A peer that announces more bytes is refused: EXCEEDS_LIMIT; 0 = half of physical memory.
    pub max_total_bytes: usize,
}
/// Who makes the buffers of an operation that learns their sizes from its peer, and how many and
/// how large they may be.
pub type ucxx_allocator_t = ucxx_allocator;

sized! { ucxx_allocator, 48; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// Refuses an operation whose buffers nobody could take.
pub(crate) fn check_taker(params: &OpParams, request: *mut *mut ucxx_request_t) -> Result<()> {
    if params.flags & WAITS != 0 {
        return Err(Error::invalid(
            "flags: UCXX_FLAG_WAIT leaves no request, from which the buffers are to be taken",
        ));
    }
    if request.is_null() && params.callback.is_none() {
        let text = "request: is NULL, and there is no callback, which gets one: nothing to take \
            the buffers from";
        return Err(Error::invalid(text));
    }
    Ok(())
}

fn convert(allocator: &ucxx_allocator) -> Result<Allocator> {
    if allocator.allocate.is_some() != allocator.deallocate.is_some() {
        return Err(Error::invalid(
            "allocator: has one of allocate and deallocate without the other",
        ));
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

/// Takes the buffers out of a request that has completed with OK: they belong to the caller from
/// here on. Once; what is not taken goes with the request. NO_ELEM if it has none or they were
/// taken, INPROGRESS before its end, its own error if it failed.
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

/// How many buffers there are; 0 for NULL.
///
/// # Safety
/// NULL or buffers of this library that were not destroyed.
#[no_mangle]
pub unsafe extern "C" fn ucxx_buffers_count(buffers: *const ucxx_buffers_t) -> usize {
    // SAFETY: as for this function.
    guard::quietly(0, || unsafe { handle::get(buffers) }.map_or(0, |buffers| buffers.count()))
}

/// One of the buffers, which stays with the others. Data is NULL where the length is 0, and where
/// it was taken. OUT_OF_RANGE for an index that is not below ucxx_buffers_count.
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

/// As `ucxx_buffers_get`, and from here on the caller frees this one: by its own `deallocate`, or
/// without one by free(), UCXX_MEMORY_CUDA by cuMemFree in the primary context of the device that
/// `device_id` tells.
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

/// Frees the buffers that were not taken, with their allocator. NULL is ignored. Any thread.
///
/// # Safety
/// NULL or buffers of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_buffers_destroy(buffers: *mut ucxx_buffers_t) {
    // SAFETY: as for this function.
    guard::quietly((), || unsafe { handle::drop_box(buffers) });
}
