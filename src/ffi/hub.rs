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

/// The memory in which envelopes are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_memory_kind {
    /// UCXX_MEMORY_HOST, UCXX_MEMORY_CUDA, UCXX_MEMORY_CUDA_PINNED or UCXX_MEMORY_DUMMY. DUMMY is
    /// host memory that simulates a device.
    pub memory_type: i32,
    /// Number of the device; 0 for the host.
    pub device_id: i32,
}
/// The memory in which envelopes are.
pub type ucxx_memory_kind_t = ucxx_memory_kind;

/// Parameters of ucxx_hub_create.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_hub_params {
    /// Set by UCXX_HUB_PARAMS_INIT.
    pub struct_size: usize,
    /// Size of each envelope in bytes.
    pub envelope_size: usize,
    /// Limit of the number of chunks that are in the queue or in production. 0: only the envelopes
    /// limit it.
    pub max_queue_chunks: usize,
    /// Limit of the bytes of the chunks in the queue, plus `envelope_size` for each chunk in
    /// production. 0: no limit. Otherwise at least `envelope_size`. Producers wait for it. A chunk
    /// that is modified may grow beyond it.
    pub max_queue_bytes: usize,
    /// UCXX_HUB_RETAIN_*: how long a chunk keeps the envelope that a transfer has copied.
    /// - AUTO: until the envelope is needed, and no link that is served is to read the chunk there.
    /// - ALWAYS: until the chunk is consumed.
    /// - UNTIL_COPIED: as long as a link that is served is to read the chunk there.
    pub retain: i32,
    /// Limit of transfers in progress from one kind of memory to another; 0 for 2.
    pub transfers_in_flight: u32,
    /// A worker of the same context. Optional. With it, envelopes are registered with UCX when they
    /// are made. ucxx_link_recv, ucxx_link_send and ucxx_link_connect need it.
    pub worker: *mut ucxx_worker_t,
}
/// Parameters of ucxx_hub_create.
pub type ucxx_hub_params_t = ucxx_hub_params;

/// Result of ucxx_hub_query_stats.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_hub_stats {
    /// Set by UCXX_HUB_STATS_INIT.
    pub struct_size: usize,
    /// Chunks that were committed.
    pub chunks_produced: u64,
    /// Chunks that have left the queue.
    pub chunks_consumed: u64,
    /// Copies that became replicas.
    pub transfers: u64,
    /// Their bytes.
    pub transfer_bytes: u64,
    /// Copies that were dropped, because their chunk was changed or consumed before they finished.
    pub stale_transfers: u64,
    /// Envelopes that hold nothing, now.
    pub free_envelopes: u64,
    /// Envelopes on lease, now.
    pub leased_envelopes: u64,
    /// Chunks in the queue, now.
    pub queued_chunks: u64,
    /// Envelopes that are still on lease although their chunk was removed or changed, now.
    pub trashed_envelopes: u64,
    /// The highest number of chunks that were in the queue.
    pub queue_high_water: u64,
    /// How often a connected link had a chunk to send, but no credit.
    pub credit_stalls: u64,
}
/// Result of ucxx_hub_query_stats.
pub type ucxx_hub_stats_t = ucxx_hub_stats;

sized! { ucxx_hub_params, 48; ucxx_hub_stats, 96; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_params_init(value: *mut ucxx_hub_params_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// The status of a call that leases.
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

/// Makes a hub: a queue of chunks. A chunk is in one envelope, or in several on different devices.
///
/// The hub has no envelopes at first.
///
/// - Without CUDA memory a hub has no thread. Copies between host envelopes, and on_ready
///   callbacks, run inside the call that made them possible, with no lock held.
/// - With CUDA memory a hub has a thread. It starts and completes the copies of GPUs, and calls
///   on_ready for what they make possible.
///
/// Returns:
/// - UCXX_OK: `*hub` is set.
/// - UCXX_ERR_INVALID_PARAM: `envelope_size` is 0 or too large, `max_queue_bytes` is below it,
///   `retain` is unknown, or `worker` belongs to another context.
///
/// Threads: any.
/// Ownership: the hub keeps the context, and the memory of the worker, alive. The caller destroys
/// the hub.
/// See also: ucxx_hub_add_envelopes, ucxx_link_create, ucxx_hub_destroy.
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

/// Allocates `count` more envelopes in this kind of memory. Allowed at any time.
///
/// - The memory of the envelopes is one piece. Each envelope begins at a multiple of 64 bytes, or
///   of 4096 if it has that size or more.
/// - Host memory of 4 MiB and more uses large pages if the system has them.
/// - GPU memory comes from cuMemAlloc, pinned memory from cuMemHostAlloc, in the primary context of
///   the device. The current context is not changed.
///
/// Returns:
/// - UCXX_OK: the envelopes are added.
/// - UCXX_ERR_NO_DEVICE: the device or the CUDA driver is missing.
/// - UCXX_ERR_UNSUPPORTED: another memory type than ucxx_memory_kind_t lists.
/// - UCXX_ERR_NO_MEMORY: there is no memory.
/// - UCXX_ERR_NO_RESOURCE: the thread for CUDA memory cannot be started.
/// - UCXX_ERR_EXCEEDS_LIMIT: the hub would have more than 16 Mi envelopes or 32 kinds of memory.
///
/// Threads: any.
/// See also: ucxx_hub_add_buffer.
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

/// Adds memory of the caller's as one envelope: `envelope_size` bytes of this kind at `data`.
///
/// - `deallocate`: optional. It is called once as `deallocate(arg, data)`, when the hub was
///   destroyed and its last lease has ended. It runs on the thread that ends it. It is not called
///   if this function fails.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: the CUDA driver knows the memory as another kind or of another device.
/// - Any status of ucxx_hub_add_envelopes.
///
/// Threads: any.
/// Ownership: only the hub uses the memory until `deallocate` is called.
/// See also: ucxx_hub_add_envelopes.
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

/// Sets the dataflow strategy: only the listed reading links are served.
///
/// Only these links get chunks, and chunks are copied ahead of time to their devices. A count of 0
/// removes the strategy: then all links are served. Leases continue.
///
/// - The strategy does not change for which consumers a chunk waits. With broadcast consumers it
///   stays until all of them have consumed it, served or not.
/// - When the last of these links is destroyed, no link is served until the strategy is changed.
///
/// Returns:
/// - UCXX_OK: the strategy is set.
/// - UCXX_ERR_INVALID_PARAM: a link is of another hub, or a producer; or there are more than 4096
///   links.
///
/// Threads: any.
/// See also: ucxx_hub_add_flow, ucxx_hub_validate.
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

/// Adds a link to the dataflow strategy. After the first one, only this link is served.
///
/// Returns:
/// - Any status of ucxx_hub_set_flow.
///
/// Threads: any.
/// See also: ucxx_hub_set_flow.
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

/// Checks that every link that is served can be served with the existing envelopes.
///
/// Returns:
/// - UCXX_OK: each can be served.
/// - UCXX_ERR_STARVED, in one of these cases:
///   - A link's device has too few envelopes. The message names the link, the device and the number
///     of missing envelopes.
///   - A link waits in vain for the oldest chunk, because newer chunks hold all envelopes on its
///     device.
///   - All links of the dataflow strategy are destroyed.
///
/// Threads: any.
/// See also: ucxx_link_lease.
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

/// Leases an empty envelope without a link. It never waits.
///
/// The envelope becomes a chunk at ucxx_envelope_commit. ucxx_envelope_release aborts the lease.
/// Everything else is as for ucxx_link_lease of a producer link.
///
/// Returns:
/// - UCXX_OK: `*envelope` is set.
/// - UCXX_ERR_NO_RESOURCE: no envelope is free at the moment, or the queue is full.
/// - UCXX_ERR_STARVED: the hub has no envelopes of this kind.
/// - Any status of ucxx_link_lease.
///
/// Threads: any.
/// Ownership: the caller ends the lease.
/// See also: ucxx_link_lease, ucxx_hub_peek.
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

/// Leases the top chunk for reading, without a link and whatever the dataflow strategy.
///
/// If necessary the chunk is copied to this kind of memory. It waits at most `timeout_ns`
/// (nanoseconds) for the chunk, a free envelope and the copy. Everything else is as for
/// ucxx_link_lease of a peek link.
///
/// Returns:
/// - UCXX_OK: `*envelope` is set.
/// - UCXX_ERR_NO_RESOURCE: not available, with a `timeout_ns` of 0.
/// - UCXX_ERR_TIMED_OUT: not available within `timeout_ns`.
/// - Any status of ucxx_link_lease.
///
/// Threads: any.
/// Ownership: the caller ends the lease.
/// See also: ucxx_link_lease, ucxx_hub_pop.
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

/// Removes the top chunk from the queue, also for consumers that have not consumed it.
///
/// Returns:
/// - UCXX_OK: the chunk is removed.
/// - UCXX_ERR_NO_ELEM: the queue is empty.
/// - UCXX_ERR_BUSY: the chunk is on lease.
///
/// Threads: any.
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

/// Returns the number of chunks in the queue, including those that consumers hold; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a hub of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_hub_length(hub: *const ucxx_hub_t) -> usize {
    // SAFETY: as for this function.
    unsafe { handle::look(hub, 0, Hub::length) }
}

/// Marks the end of the stream of chunks. A second call has no effect.
///
/// - Producers get UCXX_ERR_CLOSED. Leases for production may still be committed.
/// - Consumers get the remaining chunks, including those that other consumers abort, and then
///   UCXX_ERR_CLOSED.
/// - Peek and modify links get UCXX_ERR_CLOSED when the queue is empty.
///
/// Returns:
/// - UCXX_OK: the hub is closed.
///
/// Threads: any.
/// See also: ucxx_hub_drain, ucxx_hub_destroy.
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

/// Waits until the queue is empty and no chunk is in production.
///
/// - It does not stop producers: call ucxx_hub_close first.
/// - Envelopes that a connected link has leased in advance do not count.
/// - If the hub is closed, it also waits for the streams that begin here, until the peers have
///   received the end.
/// - It progresses as ucxx_link_lease does.
///
/// Returns:
/// - UCXX_OK: the queue is empty.
/// - UCXX_ERR_TIMED_OUT: it is not empty within `timeout_ns` (nanoseconds), also if that is 0.
/// - UCXX_ERR_BUSY: called from a callback with a `timeout_ns` other than 0.
///
/// Threads: any.
/// See also: ucxx_hub_close.
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

/// Returns counters of the hub, and its present state.
///
/// Returns:
/// - UCXX_OK: `*stats` is set.
///
/// Threads: any.
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

/// Destroys the hub. NULL is ignored.
///
/// - Its chunks are dropped. Its links return UCXX_ERR_CLOSED from then on, also to callers that
///   wait in them.
/// - Leases continue: their memory stays until each has ended, by ucxx_envelope_abort or
///   ucxx_envelope_release. ucxx_envelope_commit returns UCXX_ERR_CLOSED then, and does not end the
///   lease.
/// - When it returns, no on_ready runs or will run, except one that has called it.
/// - It waits for a running on_ready. That on_ready must not wait for the caller.
///
/// No call on the hub handle may be in progress.
///
/// Threads: any.
/// See also: ucxx_hub_close.
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
