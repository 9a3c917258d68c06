//! Envelopes on lease.

use super::guard;
use super::handle::{self, null, ucxx_envelope_t};
use super::hub::{ucxx_memory_kind, ucxx_memory_kind_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use crate::engine::hub::envelope::Lease;
use crate::engine::wire::hub_stream::METADATA;
use std::ffi::c_void;

/// Result of ucxx_envelope_query.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_envelope_attr {
    /// Set by UCXX_ENVELOPE_ATTR_INIT.
    pub struct_size: usize,
    /// Memory of the envelope. With a lease of a peek link or a consumer it is read-only.
    pub data: *mut c_void,
    /// Length of the chunk in bytes; 0 for one in production.
    pub length: usize,
    /// Size of the envelope in bytes: the hub's `envelope_size`.
    pub capacity: usize,
    /// The memory in which it is.
    pub kind: ucxx_memory_kind_t,
    /// 64 bytes of host memory that travel with the chunk; all zero for one in production.
    pub metadata: *mut u8,
    /// 64.
    pub metadata_length: usize,
    /// A CUevent, valid as long as the lease. Do not read or write the memory before the event has
    /// completed. NULL: no wait is necessary. It is always NULL except on CUDA devices.
    pub ready_event: *mut c_void,
}
/// Result of ucxx_envelope_query.
pub type ucxx_envelope_attr_t = ucxx_envelope_attr;

sized! { ucxx_envelope_attr, 64; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_envelope_attr_init(
    value: *mut ucxx_envelope_attr_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Ends a lease, and makes its result valid.
///
/// - Producer: the envelope becomes a new chunk of `length` bytes at the end of the queue.
/// - Consumer: the chunk is consumed. Its envelopes are free when all consumers that it waits for
///   have consumed it.
/// - Modify link: the chunk has `length` bytes from now on. Its copies on other devices are
///   dropped.
/// - Consumer and peek link: `length` is ignored.
///
/// `stream` is a CUstream of a primary context whose work so far has to finish first, or NULL. In a
/// hub without CUDA memory it must be NULL. The call does not wait for the stream:
/// - An envelope on a GPU is passed on at once, with this work as its `ready_event`.
/// - Any other envelope is passed on when the stream has finished this work.
///
/// Returns:
/// - UCXX_OK: the lease has ended.
/// - UCXX_ERR_INVALID_PARAM: `length` is more than the envelope's size, or `stream` is of a context
///   that is not primary.
/// - UCXX_ERR_NO_DEVICE: `stream` is not NULL in a hub without CUDA memory.
/// - UCXX_ERR_CLOSED: the hub was destroyed. End the lease by ucxx_envelope_abort or
///   ucxx_envelope_release.
///
/// After an error the lease continues.
///
/// Threads: any.
/// Ownership: after UCXX_OK the handle is invalid.
/// See also: ucxx_envelope_abort, ucxx_envelope_release.
///
/// # Safety
/// An envelope of this library, on lease.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_envelope_commit(
    envelope: *mut ucxx_envelope_t,
    length: usize,
    stream: *mut c_void,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    if unsafe { end_at_once(envelope, Some(length as u64), stream) } {
        return Status::OK.0;
    }
    // SAFETY: as above.
    unsafe { commit(envelope, length, stream) }
}

/// Ends a lease of a plain hub at once: `length` is that of a commit, or None for a release. See
/// `lease_at_once`.
///
/// # Safety
/// An envelope of this library, on lease, or NULL.
#[inline(always)]
unsafe fn end_at_once(
    envelope: *const ucxx_envelope_t,
    length: Option<u64>,
    stream: *mut c_void,
) -> bool {
    // SAFETY: as for this function.
    let lease = unsafe { envelope.cast::<Lease>().as_ref() };
    stream.is_null() && lease.is_some_and(|lease| lease.end_at_once(length))
}

/// # Safety
/// As for `ucxx_envelope_commit`.
#[inline(never)]
unsafe fn commit(
    envelope: *mut ucxx_envelope_t,
    length: usize,
    stream: *mut c_void,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let retired = unsafe { handle::get(envelope) }?.commit(length as u64, stream)?;
        drop(retired);
        Ok(Status::OK)
    })
}

/// Ends a lease without a result.
///
/// - Producer: the envelope is free again.
/// - Consumer: the chunk stays at its place in the queue, so it is leased first the next time.
/// - Modify link: if the chunk has a copy on another device, it has its previous contents.
///   Otherwise it keeps what was written.
///
/// `stream` is as for ucxx_envelope_commit.
///
/// Returns:
/// - UCXX_OK: the lease has ended.
/// - UCXX_ERR_NO_DEVICE, UCXX_ERR_INVALID_PARAM: `stream` as for ucxx_envelope_commit.
///
/// After an error the lease continues.
///
/// Threads: any.
/// Ownership: after UCXX_OK the handle is invalid.
/// See also: ucxx_envelope_commit.
///
/// # Safety
/// An envelope of this library, on lease.
#[no_mangle]
pub unsafe extern "C" fn ucxx_envelope_abort(
    envelope: *mut ucxx_envelope_t,
    stream: *mut c_void,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let retired = unsafe { handle::get(envelope) }?.abort(stream)?;
        drop(retired);
        Ok(Status::OK)
    })
}

/// Ends a lease: commits it if the link has `autocommit`, otherwise aborts it.
///
/// With autocommit:
/// - A produced chunk has the length of the envelope, or the length that ucxx_envelope_swap has
///   brought.
/// - A modified chunk keeps its length.
/// - If the hub was destroyed, the lease is aborted.
///
/// Returns:
/// - Any status of ucxx_envelope_commit, except UCXX_ERR_CLOSED.
///
/// Threads: any.
/// Ownership: after UCXX_OK the handle is invalid.
/// See also: ucxx_envelope_commit, ucxx_envelope_abort.
///
/// # Safety
/// An envelope of this library, on lease.
#[no_mangle]
pub unsafe extern "C" fn ucxx_envelope_release(
    envelope: *mut ucxx_envelope_t,
    stream: *mut c_void,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    if unsafe { end_at_once(envelope, None, stream) } {
        return Status::OK.0;
    }
    // SAFETY: as above.
    unsafe { release(envelope, stream) }
}

/// # Safety
/// As for `ucxx_envelope_release`.
#[inline(never)]
unsafe fn release(envelope: *mut ucxx_envelope_t, stream: *mut c_void) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let retired = unsafe { handle::get(envelope) }?.release(stream)?;
        drop(retired);
        Ok(Status::OK)
    })
}

/// Exchanges the memory, length and metadata of two envelopes on lease, without a copy.
///
/// - They may be of one hub or of two. Both must have the same kind of memory and the same
///   `envelope_size`.
/// - Call ucxx_envelope_query for both afterwards.
/// - An envelope in production has a length only if one was set. Otherwise the other side gets the
///   envelope's size as the length.
/// - If a consumer aborts after a swap, the chunk keeps the swapped contents, unless it has a copy
///   on another device.
///
/// Returns:
/// - UCXX_OK: they are exchanged.
/// - UCXX_ERR_INVALID_PARAM: kind or size differ, or a lease is of a peek link or a broadcast
///   consumer, which only read.
/// - UCXX_ERR_BUSY: other leases or copies use the envelope, or broadcast consumers are still to
///   read the chunk of a competing consumer there.
/// - UCXX_ERR_UNSUPPORTED: an envelope is a buffer of ucxx_hub_add_buffer.
///
/// Threads: any. No other call may use either envelope at the same time.
/// See also: ucxx_envelope_query.
///
/// # Safety
/// Envelopes of this library, on lease.
#[no_mangle]
pub unsafe extern "C" fn ucxx_envelope_swap(
    a: *mut ucxx_envelope_t,
    b: *mut ucxx_envelope_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        let named = |envelope: *mut ucxx_envelope_t, name| {
            // SAFETY: as for this function.
            unsafe { handle::get(envelope) }.map_err(|_| null(name))
        };
        let (a, b): (&Lease, &Lease) = (named(a, "a")?, named(b, "b")?);
        a.swap(b)?;
        Ok(Status::OK)
    })
}

/// Returns where an envelope on lease is, and what is in it.
///
/// Returns:
/// - UCXX_OK: `*attr` is set.
///
/// Threads: any.
/// Ownership: the pointers in `*attr` are valid until the lease ends or the envelope is swapped.
///
/// # Safety
/// An envelope of this library, on lease; `attr` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_envelope_query(
    envelope: *const ucxx_envelope_t,
    attr: *mut ucxx_envelope_attr_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let view = unsafe { handle::get(envelope) }?.view()?;
        let kind =
            ucxx_memory_kind { memory_type: view.kind.memory_type, device_id: view.kind.device_id };
        let value = ucxx_envelope_attr {
            struct_size: size_of::<ucxx_envelope_attr>(),
            data: view.data.cast(),
            length: view.length as usize,
            capacity: view.capacity as usize,
            kind,
            metadata: view.metadata,
            metadata_length: METADATA,
            ready_event: view.ready_event,
        };
        // SAFETY: as above.
        unsafe { params::store(attr, "attr", &value) }.map(|()| Status::OK)
    })
}
