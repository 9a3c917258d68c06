//! Links. The envelopes that they lease are in `hub_envelope`.

use super::guard;
use super::handle::{self, null, place, ucxx_envelope_t, ucxx_hub_t, ucxx_link_t};
use super::hub::{give, kind_of, leased, to_handle, ucxx_memory_kind_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::hub::lease_many::{lease_many, MOST_LINKS};
use crate::engine::hub::link::{Link, LinkParams};
use crate::engine::hub::records::Role;
use std::ffi::c_void;

/// Called when a link becomes ready, or can never become ready any more.
///
/// `status` is one of:
/// - UCXX_OK: a lease is available.
/// - UCXX_ERR_CLOSED: no lease will be available any more. Reported once. A consumer gets it after
///   its own leases have ended, because it may return those chunks to the queue.
/// - UCXX_ERR_IO_ERROR: copying a chunk to the link's device has failed. The next lease returns the
///   error, and the copy is tried again.
///
/// The callback is level-triggered: it is called again after each lease attempt through the link,
/// if the condition still holds or holds again.
///
/// Exception: a link that has returned or changed a chunk is not notified of that chunk again,
/// whichever link has held it since. This lasts until it tries a lease, or something else changes
/// in the hub: a chunk is added or removed, or another link commits a change of one.
///
/// Which call runs the callback:
/// - The call that makes the lease possible runs it. The callbacks run one after the other, with no
///   lock held.
/// - The links of a hub are notified in turn. The same call may also run the callbacks for what
///   other threads make possible in the meantime.
/// - While no chunk is added or removed, one call runs at most 64 callbacks for each link of the
///   hub. The next call on the hub continues. So links that change the same chunk in turn do not
///   block a call without end.
///
/// Threads: any thread that uses the hub; in hubs with CUDA memory also the hub's own thread. One
/// call at a time for each link.
/// Callbacks: it may call every function. Functions that wait return UCXX_ERR_BUSY. It must not
/// throw.
/// See also: ucxx_link_create, ucxx_link_lease.
pub type ucxx_link_callback_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, link: *mut ucxx_link_t, status: ucxx_status_t)>;

/// Parameters of ucxx_link_create; NULL means all defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_link_params {
    /// Set by UCXX_LINK_PARAMS_INIT.
    pub struct_size: usize,
    /// 1, for a consumer only: a broadcast consumer gets every chunk that is in the queue or is
    /// added while the link exists. A chunk stays until all broadcast consumers have consumed it. A
    /// hub can have up to 63 of them at a time.
    ///
    /// 0: the consumers compete. Each chunk is consumed by one of them.
    pub broadcast: u8,
    /// 1: ucxx_envelope_release commits. It has no effect for a peek link.
    pub autocommit: u8,
    /// Called when the link becomes ready. Optional.
    pub on_ready: ucxx_link_callback_t,
    /// Passed to `on_ready`.
    pub on_ready_arg: *mut c_void,
}
/// Parameters of ucxx_link_create; NULL means all defaults.
pub type ucxx_link_params_t = ucxx_link_params;

sized! { ucxx_link_params, 32; }

/// Limit of a list of links; a larger count is a mistake of the caller.
const MOST: usize = 4096;

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_link_params_init(value: *mut ucxx_link_params_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// The caller's list of links.
///
/// # Safety
/// `pointer` is NULL or readable for `count` entries, each of which is NULL or a link of this
/// library.
pub(super) unsafe fn links<R>(
    pointer: *const *mut ucxx_link_t,
    count: usize,
    f: impl FnOnce(&[&Link]) -> Result<R>,
) -> Result<R> {
    if count == 0 {
        return f(&[]);
    }
    if pointer.is_null() {
        return Err(null("links"));
    }
    if count > MOST {
        return Err(Error::invalid(format!("count: {count} links are more than {MOST}")));
    }
    // SAFETY: as for this function.
    let handles = unsafe { std::slice::from_raw_parts(pointer, count) };
    let link = |place: usize| -> Result<&Link> {
        // SAFETY: as for this function.
        unsafe { handle::get(handles[place].cast_const()) }
            .map_err(|_| null(&format!("links[{place}]")))
    };
    if count > MOST_LINKS {
        return f(&(0..count).map(link).collect::<Result<Vec<_>>>()?);
    }
    let mut few = [link(0)?; MOST_LINKS];
    for (place, few) in few[..count].iter_mut().enumerate() {
        *few = link(place)?;
    }
    f(&few[..count])
}

/// Makes a link of a hub.
///
/// - `link_type`: UCXX_LINK_PRODUCE (leases empty envelopes), _CONSUME (takes chunks from the
///   queue), _PEEK (reads the top chunk) or _MODIFY (changes the top chunk).
/// - `kind`: the memory of the envelopes that it leases. The hub need not have such envelopes yet.
/// - `params`: optional. `on_ready` may run before this function returns, after `*link` was
///   written.
///
/// The link is served, unless the hub has a dataflow strategy (ucxx_hub_set_flow).
///
/// Returns:
/// - UCXX_OK: `*link` is set.
/// - UCXX_ERR_NO_DEVICE: the device or the CUDA driver is missing.
/// - UCXX_ERR_UNSUPPORTED: another memory type than ucxx_memory_kind_t lists.
/// - UCXX_ERR_EXCEEDS_LIMIT: the hub would have more than 32 kinds of memory or 63 broadcast
///   consumers.
/// - UCXX_ERR_INVALID_PARAM: `broadcast` is set for a link that is no consumer.
///
/// Threads: any.
/// Ownership: the link keeps the memory of the hub alive. The caller destroys the link.
/// See also: ucxx_link_lease, ucxx_link_destroy.
///
/// # Safety
/// A hub of this library; `params` is NULL or a struct whose `struct_size` is set; `link` is valid
/// for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_create(
    hub: *mut ucxx_hub_t,
    link_type: i32,
    kind: ucxx_memory_kind_t,
    params: *const ucxx_link_params_t,
    link: *mut *mut ucxx_link_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let hub = handle::share(hub)?;
            let place = place(link, "link")?;
            let role = match link_type {
                1 => Role::Produce,
                2 => Role::Consume,
                3 => Role::Peek,
                4 => Role::Modify,
                other => {
                    return Err(Error::invalid(format!(
                        "link_type: {other} is no UCXX_LINK_* value"
                    )))
                }
            };
            let params = params::with(params, "params", convert)?;
            Link::make(&hub, role, kind_of(kind), &params, |made| place.write(made.cast()))?;
        }
        Ok(Status::OK)
    })
}

fn convert(params: &ucxx_link_params) -> Result<LinkParams> {
    let flag = |value: u8, name: &str| match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Error::invalid(format!("{name}: {value} is neither 0 nor 1"))),
    };
    // SAFETY: both function types have the same arguments. The engine does not know the handle's
    // type.
    let on_ready =
        unsafe { std::mem::transmute::<ucxx_link_callback_t, Option<_>>(params.on_ready) };
    Ok(LinkParams {
        broadcast: flag(params.broadcast, "broadcast")?,
        autocommit: flag(params.autocommit, "autocommit")?,
        on_ready,
        on_ready_arg: params.on_ready_arg,
    })
}

/// Destroys a link. NULL is ignored.
///
/// - Its leases continue.
/// - Chunks that wait only for this consumer are removed if another consumer has consumed them.
///   Otherwise they stay in the queue.
/// - When it returns, its on_ready does not run and will not run, except one that has called it.
/// - It waits for a running on_ready. That on_ready must not wait for the caller.
///
/// No other call on the link may be in progress.
///
/// Threads: any.
///
/// # Safety
/// NULL or a link of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_link_destroy(link: *mut ucxx_link_t) {
    guard::ending(|| {
        if !link.is_null() {
            // SAFETY: as for this function.
            unsafe { Link::destroy(link.cast()) };
        }
    });
}

/// Leases an envelope. A link may have several leases at a time.
///
/// What is leased depends on the link:
/// - Producer: an empty envelope.
/// - Consumer: the oldest chunk that no consumer holds, of those that this consumer has not
///   consumed. Competing consumers count as one.
/// - Peek and modify links: the top chunk, that is the oldest in the queue.
///
/// It waits at most `timeout_ns` (nanoseconds). If the progress of the hub's worker is manual, it
/// progresses the worker in the meantime, and callbacks may run in it. It does so only in threads
/// that may progress the worker at any time:
/// - UCXX_THREAD_MULTI: any thread.
/// - UCXX_THREAD_SINGLE: the worker's thread.
/// - Other threads, and all threads under UCXX_THREAD_SERIALIZED, only sleep. If chunks arrive
///   through the worker, another thread has to progress it.
///
/// Exclusion:
/// - A chunk is not consumed while it is modified.
/// - A chunk is not modified while a link consumes it, or reads the same envelope.
/// - Modify links on the same device share the chunk.
/// - Links that read on other devices during a modification see the previous contents.
///
/// Returns:
/// - UCXX_OK: `*envelope` is set.
/// - UCXX_ERR_NO_RESOURCE: nothing is available, with a `timeout_ns` of 0.
/// - UCXX_ERR_TIMED_OUT: nothing became available within `timeout_ns`.
/// - UCXX_ERR_CLOSED: the hub is closed, and nothing will be available for this link.
/// - UCXX_ERR_STARVED: the lease can never succeed, for one of two reasons:
///   - The hub has too few envelopes on the link's device. The message says how many are missing.
///   - No envelope is on lease, and newer chunks, which have no other copy, hold all envelopes on
///     the link's device. So the oldest chunk cannot be copied there.
/// - UCXX_ERR_IO_ERROR, UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_DEVICE: copying the chunk has failed, or
///   the CUDA stream that was to write it. The message has the driver's error.
/// - UCXX_ERR_BUSY: the link is connected (ucxx_link_connect), or the call is made from a callback
///   with a `timeout_ns` other than 0.
///
/// Threads: any.
/// Ownership: the caller ends the lease by ucxx_envelope_commit, ucxx_envelope_abort or
/// ucxx_envelope_release.
/// See also: ucxx_link_lease_many, ucxx_envelope_query, ucxx_hub_validate.
///
/// # Safety
/// A link of this library; `envelope` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_lease(
    link: *mut ucxx_link_t,
    timeout_ns: u64,
    envelope: *mut *mut ucxx_envelope_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    if unsafe { lease_at_once(link, timeout_ns, envelope) } {
        return Status::OK.0;
    }
    // SAFETY: as above.
    unsafe { lease(link, timeout_ns, envelope) }
}

/// Leases from a plain hub at once, without the cost of the guard. False: not decided, use `lease`.
///
/// It needs no guard, because nothing in it can panic.
///
/// # Safety
/// As for `ucxx_link_lease`.
#[inline(always)]
unsafe fn lease_at_once(
    link: *const ucxx_link_t,
    timeout_ns: u64,
    envelope: *mut *mut ucxx_envelope_t,
) -> bool {
    // SAFETY: as for this function.
    let (Some(link), false) = (unsafe { link.cast::<Link>().as_ref() }, envelope.is_null()) else {
        return false;
    };
    let Some(lease) = link.lease_at_once(timeout_ns) else { return false };
    // SAFETY: as for this function.
    unsafe { envelope.write(to_handle(lease)) };
    true
}

/// # Safety
/// As for `ucxx_link_lease`.
#[inline(never)]
unsafe fn lease(
    link: *mut ucxx_link_t,
    timeout_ns: u64,
    envelope: *mut *mut ucxx_envelope_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            let link = handle::get(link)?;
            let place = place(envelope, "envelope")?;
            let lease = link.lease(timeout_ns)?;
            give(place, lease, timeout_ns)
        }
    })
}

/// Leases through several links at once, or through none of them. The links may be of several hubs.
///
/// - `count`: up to 64 links.
/// - `envelopes`: gets one envelope for each link, in the same order.
/// - If the hubs have several workers, it progresses each in turn, for a millisecond.
///
/// Returns:
/// - UCXX_ERR_EXCEEDS_LIMIT: more than 64 links.
/// - UCXX_ERR_INVALID_PARAM: more than 4096 links. Or the links exclude each other in any hub: two
///   that modify on different devices, or one that peeks and one that modifies.
/// - UCXX_ERR_STARVED: all links together can never be served. The message says why and what to do:
///   - The hub has too few envelopes.
///   - `max_queue_chunks` is too small for the chunks that are produced and those that are read.
///   - `max_queue_bytes` is too small, and no other link can consume or change the chunks that the
///     call waits for.
///   - One link modifies the chunk that another link of the list consumes, and the chunk waits for
///     no other consumer.
/// - Any status of ucxx_link_lease.
///
/// Threads: any.
/// Ownership: the caller ends each lease.
/// See also: ucxx_link_lease.
///
/// # Safety
/// `count` links of this library in `links`; `envelopes` is valid for as many writes.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_lease_many(
    links: *const *mut ucxx_link_t,
    count: usize,
    timeout_ns: u64,
    envelopes: *mut *mut ucxx_envelope_t,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let done = unsafe {
            self::links(links, count, |links| {
                if count > 0 && envelopes.is_null() {
                    return Err(null("envelopes"));
                }
                let mut leases = [std::ptr::null(); MOST_LINKS];
                let done = lease_many(links, timeout_ns, &mut leases)?;
                if done {
                    for (place, lease) in leases[..links.len()].iter().enumerate() {
                        // SAFETY: as for this function.
                        envelopes.add(place).write(to_handle(*lease));
                    }
                }
                Ok(done)
            })
        }?;
        Ok(leased(done, timeout_ns))
    })
}
