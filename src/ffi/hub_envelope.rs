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

/// What ucxx_envelope_query tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_envelope_attr {
    /// Set by UCXX_ENVELOPE_ATTR_INIT.
    pub struct_size: usize,
    /// Its memory. Of a link that peeks or consumes only to be read.
    pub data: *mut c_void,
    /// Bytes of the chunk in it; 0 for one that is being produced.
    pub length: usize,
    /// Bytes that there is room for: the hub's envelope_size.
    pub capacity: usize,
    /// Where it is.
    pub kind: ucxx_memory_kind_t,
    /// 64 bytes of host memory that travel with the chunk; all zero for one that is being produced.
    pub metadata: *mut u8,
    /// 64.
    pub metadata_length: usize,
    /// A CUevent, as long as the lease lasts: before it is reached nothing is to be read, and
    /// nothing written. NULL where nothing is to be waited for: everywhere but on CUDA devices.
    pub ready_event: *mut c_void,
}
/// What ucxx_envelope_query tells.
pub type ucxx_envelope_attr_t = ucxx_envelope_attr;

sized! { ucxx_envelope_attr, 64; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// Ends a lease for good. What was produced is a new chunk of `length` bytes; what was consumed has
/// been, and when it has been by all who are to, its envelopes are free; what was modified has
/// `length` bytes now, and is no longer on other devices. For links that consume and peek `length`
/// is not looked at. `stream` is the CUstream whose work so far has to finish first, of a primary
/// context, or NULL; in a hub without CUDA memory only that (NO_DEVICE). The call does not wait for
/// it: envelopes on a GPU go on with it as their ready_event, others when it has done that work.
/// The handle is gone, unless the call fails: then the lease goes on.
///
/// Errors: INVALID_PARAM for a length beyond the envelope; CLOSED when the hub has been destroyed.
/// Any thread.
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

/// See `lease_at_once`: a commit of so many bytes, or a release.
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

/// Ends a lease as if it had not been. What was produced is gone; what was consumed stays where it
/// was in the queue, and so comes first; what was modified is what it was before where the chunk is
/// on another device, too, and else what has been written stays. `stream` and the rest as
/// ucxx_envelope_commit.
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

/// Ends a lease: commits it where the link was made with autocommit, else aborts it. What is
/// produced then has the length of the envelope, or that which a swap has brought; what is modified
/// keeps its length. After the hub's end it aborts. The rest as ucxx_envelope_commit.
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

/// Exchanges memory, length and metadata of two envelopes on lease without a copy: of the same or
/// of two hubs, both of the same kind and envelope_size (INVALID_PARAM). Query them again
/// afterwards: what has come from an envelope that is being filled has its length, if none was said
/// that of the envelope. A consumer that aborts after a swap leaves the chunk with what the swap
/// has brought, unless it is on another device as well.
///
/// Errors: INVALID_PARAM for an envelope of a link that peeks, or of a broadcast consumer, which
/// only read; BUSY for one that others look at, or that a link that competes has while broadcast
/// consumers are still to read the chunk there; UNSUPPORTED for buffers of the caller's. Any
/// thread; nobody else may use either at the time.
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

/// Where an envelope on lease is, and what is in it. Any thread.
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
