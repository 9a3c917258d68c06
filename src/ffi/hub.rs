//! Hubs: making them, what they hold, and their end. The links are in `hub_link`.

use super::guard::{self, Answer};
use super::handle::{
    self, null, place, ucxx_context_t, ucxx_envelope_t, ucxx_hub_t, ucxx_link_t, ucxx_worker_t,
};
use super::hub_link::links;
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::{Hub, HubParams};
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::Retain;
use std::ffi::c_void;

/// Where envelopes are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_memory_kind {
    /// UCXX_MEMORY_HOST, _CUDA, _CUDA_PINNED or _DUMMY, which is host memory that poses as a
    /// device.
    pub memory_type: i32,
    /// Which of the devices; 0 for the host.
    pub device_id: i32,
}
/// Where envelopes are.
pub type ucxx_memory_kind_t = ucxx_memory_kind;

/// What a hub is made with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_hub_params {
    /// Set by UCXX_HUB_PARAMS_INIT.
    pub struct_size: usize,
    /// Bytes of every envelope.
    pub envelope_size: usize,
    /// Chunks in the queue and in production, together; 0 for no limit but the envelopes.
    pub max_queue_chunks: usize,
    /// Bytes of the chunks in the queue, and envelope_size for each in production; 0 for no limit,
    /// else at least envelope_size. Producers wait for it; a chunk that is modified may grow beyond
    /// it.
    pub max_queue_bytes: usize,
    /// UCXX_HUB_RETAIN_*: whether a chunk keeps the envelope that a transfer has copied. AUTO:
    /// until it is needed for something else, and no link that is served is to read the chunk
    /// there. ALWAYS: until the chunk is consumed. UNTIL_COPIED: as long as a link that is served
    /// is to read it there.
    pub retain: i32,
    /// Transfers under way at a time from one kind of memory to another; 0 for 2.
    pub transfers_in_flight: u32,
    /// Of the same context. Optional: envelopes are then registered with UCX when they are made.
    pub worker: *mut ucxx_worker_t,
}
/// What a hub is made with.
pub type ucxx_hub_params_t = ucxx_hub_params;

/// What ucxx_hub_query_stats tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_hub_stats {
    /// Set by UCXX_HUB_STATS_INIT.
    pub struct_size: usize,
    /// Chunks that have been committed.
    pub chunks_produced: u64,
    /// Chunks that have left the queue.
    pub chunks_consumed: u64,
    /// Copies that have become replicas.
    pub transfers: u64,
    /// Their bytes.
    pub transfer_bytes: u64,
    /// Copies that were dropped, as their chunk had been changed or consumed meanwhile.
    pub stale_transfers: u64,
    /// Envelopes that hold nothing, now.
    pub free_envelopes: u64,
    /// Envelopes with a lease on them, now.
    pub leased_envelopes: u64,
    /// Chunks in the queue, now.
    pub queued_chunks: u64,
    /// Envelopes of chunks that are gone or have changed, which somebody still looks at, now.
    pub trashed_envelopes: u64,
    /// The most chunks that were in the queue.
    pub queue_high_water: u64,
    /// Times that a connected link had a chunk to send, and no credit.
    pub credit_stalls: u64,
}
/// What ucxx_hub_query_stats tells.
pub type ucxx_hub_stats_t = ucxx_hub_stats;

sized! { ucxx_hub_params, 48; ucxx_hub_stats, 96; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_params_init(value: *mut ucxx_hub_params_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_stats_init(value: *mut ucxx_hub_stats_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

pub(super) fn kind_of(kind: ucxx_memory_kind_t) -> MemoryKind {
    MemoryKind { memory_type: kind.memory_type, device_id: kind.device_id }
}

/// What a call that was to give a lease answers.
#[inline(always)]
pub(super) fn leased(found: bool, timeout_ns: u64) -> Answer {
    match (found, timeout_ns) {
        (true, _) => Answer::OK,
        (false, 0) => Answer(Status::NO_RESOURCE, c"there is nothing to be leased at the moment"),
        (false, _) => {
            Answer(Status::TIMED_OUT, c"there was nothing to be leased in the given time")
        }
    }
}

pub(super) fn to_handle(lease: *const Lease) -> *mut ucxx_envelope_t {
    lease.cast_mut().cast()
}

/// Makes a hub: a queue of chunks, each of which lies in one envelope or in several on different
/// devices. It has no envelopes at first. Nothing of it runs on a thread of its own: copies between
/// envelopes of the host, and on_ready callbacks, are done inside the call that made them possible,
/// whichever that is, outside all locks; but with CUDA memory a hub has a thread, which begins and
/// ends the copies of GPUs, and calls on_ready for what they make possible. The context is kept.
///
/// Errors: INVALID_PARAM without an envelope_size, with a limit below it, with a worker of another
/// context.
///
/// # Safety
/// A context of this library; `params` is a struct whose `struct_size` is set; `hub` is valid for a
/// write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_hub_create(
    context: *mut ucxx_context_t,
    params: *const ucxx_hub_params_t,
    hub: *mut *mut ucxx_hub_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let context = handle::share(context)?;
            let place = place(hub, "hub")?;
            let made = params::with(params, "params", |params| {
                let retain = match params.retain {
                    0 => Retain::Auto,
                    1 => Retain::Always,
                    2 => Retain::UntilCopied,
                    other => {
                        return Err(Error::invalid(format!(
                            "retain: {other} is no UCXX_HUB_RETAIN_* value"
                        )))
                    }
                };
                let worker = if params.worker.is_null() {
                    None
                } else {
                    Some(handle::share(params.worker)?)
                };
                Hub::new(
                    &context,
                    &HubParams {
                        envelope_size: params.envelope_size as u64,
                        max_queue_chunks: params.max_queue_chunks as u64,
                        max_queue_bytes: params.max_queue_bytes as u64,
                        retain,
                        transfers_in_flight: params.transfers_in_flight,
                        worker,
                    },
                )
            })?;
            place.write(handle::give_arc(made));
        }
        Ok(Status::OK)
    })
}

/// Makes `count` more envelopes of this kind, at any time; their memory is one piece. Each begins
/// at a multiple of 64 bytes, of 4096 where it has as many. From 4 MiB on host memory is in large
/// pages where the system gives them. A GPU's is cuMemAlloc's, pinned memory cuMemHostAlloc's, in
/// the device's primary context; the context that is current stays so. Any thread.
///
/// Errors: NO_DEVICE for a device that is not there, as all of CUDA's without its driver;
/// UNSUPPORTED for other types of memory than ucxx_memory_kind_t names; NO_MEMORY; EXCEEDS_LIMIT
/// for over 16 Mi envelopes or 32 kinds in a hub.
///
/// # Safety
/// A hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_add_envelopes(
    hub: *mut ucxx_hub_t,
    kind: ucxx_memory_kind_t,
    count: usize,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(hub) }?.add_envelopes(kind_of(kind), count)?;
        Ok(Status::OK)
    })
}

/// Makes memory of the caller's an envelope: envelope_size bytes of this kind at `data`, used by
/// the hub alone until `deallocate(arg, data)` is called, once, when the hub has been destroyed and
/// its last lease has ended, on the thread that ends it. `deallocate` is optional. It is not called
/// for what is refused. Any thread. Errors: as ucxx_hub_add_envelopes; INVALID_PARAM for CUDA
/// memory that the driver knows to be elsewhere.
///
/// # Safety
/// A hub of this library; the memory is as described.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_add_buffer(
    hub: *mut ucxx_hub_t,
    kind: ucxx_memory_kind_t,
    data: *mut c_void,
    deallocate: Option<unsafe extern "C" fn(arg: *mut c_void, data: *mut c_void)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let hub = handle::get(hub)?;
            if data.is_null() {
                return Err(null("data"));
            }
            hub.add_buffer(kind_of(kind), data, deallocate, arg)?;
        }
        Ok(Status::OK)
    })
}

/// Sets the dataflow strategy: of the links that read only these are given chunks, and chunks are
/// copied ahead of time to where these read. A count of 0 takes it back: all are, then. Leases go
/// on. Without effect on which consumers a chunk waits for: with broadcast consumers it stays until
/// all have had it, whether they are served at the moment or not. When the last of these links is
/// destroyed nobody is served until the strategy is another one. Any thread.
///
/// Errors: INVALID_PARAM for a link of another hub, or one that produces, and for more than 4096
/// links.
///
/// # Safety
/// A hub of this library; `count` links of this library in `links`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_set_flow(
    hub: *mut ucxx_hub_t,
    links: *const *mut ucxx_link_t,
    count: usize,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            let hub = handle::get(hub)?;
            self::links(links, count, |links| hub.set_flow(links))?;
        }
        Ok(Status::OK)
    })
}

/// Adds a link to the dataflow strategy. The first one makes it the only one that is served. The
/// rest as ucxx_hub_set_flow.
///
/// # Safety
/// A hub and a link of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_add_flow(
    hub: *mut ucxx_hub_t,
    link: *mut ucxx_link_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(hub)?.add_flow(handle::get(link)?) }?;
        Ok(Status::OK)
    })
}

/// Looks whether each link that is served can be, with the envelopes that there are: STARVED, and
/// the message names the link, the device and how many envelopes are missing there; also where it
/// waits in vain for the oldest chunk, as younger ones have all envelopes on its device
/// (ucxx_link_lease), and where all links of the dataflow strategy have been destroyed. Any thread.
///
/// # Safety
/// A hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_validate(hub: *const ucxx_hub_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(hub) }?.validate()?;
        Ok(Status::OK)
    })
}

/// Leases an empty envelope without a link. It becomes a chunk at commit; a release aborts. Never
/// waits: NO_RESOURCE when none is free at the moment, or the queue is full; STARVED when the hub
/// has no envelopes of this kind. The rest as ucxx_link_lease of a link that produces. Any thread.
///
/// # Safety
/// A hub of this library; `envelope` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_hub_push(
    hub: *mut ucxx_hub_t,
    kind: ucxx_memory_kind_t,
    envelope: *mut *mut ucxx_envelope_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            let hub = handle::get(hub)?;
            let place = place(envelope, "envelope")?;
            let lease = hub.push(kind_of(kind))?;
            give(place, lease, 0)
        }
    })
}

/// Leases the top chunk for reading, without a link, whatever the dataflow strategy. It is copied
/// to where it is asked for if need be and there is a free envelope. Waits for all of that, up to
/// `timeout_ns`: NO_RESOURCE (for 0) or TIMED_OUT where it has not come to be. The rest as
/// ucxx_link_lease of a link that peeks. Any thread.
///
/// # Safety
/// A hub of this library; `envelope` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_hub_peek(
    hub: *mut ucxx_hub_t,
    kind: ucxx_memory_kind_t,
    timeout_ns: u64,
    envelope: *mut *mut ucxx_envelope_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            let hub = handle::share(hub)?;
            let place = place(envelope, "envelope")?;
            let lease = hub.peek(kind_of(kind), timeout_ns)?;
            give(place, lease, timeout_ns)
        }
    })
}

#[inline(always)]
pub(super) fn give(
    place: handle::Place<'_, *mut ucxx_envelope_t>,
    lease: Option<*const Lease>,
    timeout_ns: u64,
) -> Result<Answer> {
    if let Some(lease) = lease {
        place.write(to_handle(lease));
    }
    Ok(leased(lease.is_some(), timeout_ns))
}

/// Takes the top chunk away, also from consumers that have not had it. NO_ELEM when there is none,
/// BUSY while anyone holds it. Any thread.
///
/// # Safety
/// A hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_pop(hub: *mut ucxx_hub_t) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(hub) }?.pop()?;
        Ok(Status::OK)
    })
}

/// Chunks in the queue, those included that consumers hold; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_length(hub: *const ucxx_hub_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(hub, 0, Hub::length) }
}

/// The end of the stream: nothing is produced any more (CLOSED), but what is being produced may be
/// committed. Consumers get what is left, and what others give back, and then CLOSED; so do links
/// that peek and modify, when the queue is empty. Twice is once. Any thread.
///
/// # Safety
/// A hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_close(hub: *mut ucxx_hub_t) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(hub) }?.close()?;
        Ok(Status::OK)
    })
}

/// Waits until the queue is empty and nothing is being produced; TIMED_OUT otherwise, also where
/// `timeout_ns` is 0. Envelopes that a connected link has leased for what may come do not count;
/// once the hub is closed the streams that begin here do, until the other side has heard of the
/// end. While it waits it progresses as ucxx_link_lease does. It keeps nobody from producing: see
/// ucxx_hub_close. BUSY from a callback, but for 0. Any thread.
///
/// # Safety
/// A hub of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_hub_drain(hub: *mut ucxx_hub_t, timeout_ns: u64) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let empty = unsafe { handle::share(hub) }?.drain(timeout_ns)?;
        Ok(if empty {
            Answer::OK
        } else {
            Answer(
                Status::TIMED_OUT,
                c"hub: not empty within the given time, or chunks were being produced",
            )
        })
    })
}

/// What has happened so far, and what is where now. Any thread.
///
/// # Safety
/// A hub of this library; `stats` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_query_stats(
    hub: *const ucxx_hub_t,
    stats: *mut ucxx_hub_stats_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let told = unsafe { handle::get(hub) }?.stats()?;
        let value = ucxx_hub_stats {
            struct_size: size_of::<ucxx_hub_stats>(),
            chunks_produced: told.chunks_produced,
            chunks_consumed: told.chunks_consumed,
            transfers: told.transfers,
            transfer_bytes: told.transfer_bytes,
            stale_transfers: told.stale_transfers,
            free_envelopes: told.free_envelopes,
            leased_envelopes: told.leased_envelopes,
            queued_chunks: told.queued_chunks,
            trashed_envelopes: told.trashed_envelopes,
            queue_high_water: told.queue_high_water,
            credit_stalls: told.credit_stalls,
        };
        // SAFETY: as above.
        unsafe { params::store(stats, "stats", &value) }.map(|()| Status::OK)
    })
}

/// Ends the hub: its chunks are dropped, its links return CLOSED from then on, and who waits in
/// them gets that. Leases go on: their memory stays until each has ended, by ucxx_envelope_abort or
/// _release, or a commit, which returns CLOSED and leaves that to be done. When it returns, no
/// on_ready runs or will run, but for one that it was called from. NULL is ignored. No call with
/// the hub itself may be under way. So an on_ready that waits for the caller makes it wait without
/// end.
///
/// # Safety
/// NULL or a hub of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_destroy(hub: *mut ucxx_hub_t) {
    guard::ending(|| {
        // SAFETY: as for this function.
        if let Some(hub) = unsafe { handle::take_arc(hub) } {
            hub.destroy();
        }
    });
}
