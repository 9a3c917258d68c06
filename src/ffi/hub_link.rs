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

/// Called when a link has news:
/// - OK: a lease can be had.
/// - CLOSED: none ever will be. Once. A link that consumes is told after it has ended the leases
///   that it holds itself, as it may give those back.
/// - IO_ERROR: a copy to where the link is has failed. The next lease says how, and has it tried
///   again.
///
/// Level-triggered: called again if that is still so, or so again, after a lease has been tried
/// through the link. A link that has given a chunk back, or has changed it, is not told of that
/// chunk again, whoever has had it since, until it tries again or something else changes in the
/// hub: a chunk comes or goes, or another link commits a change of one.
///
/// The call that makes a lease possible calls back, whichever that is, one callback after the other
/// and outside every lock. The links of a hub take turns. What others make possible meanwhile may
/// be told by the same call. While no chunk comes or goes, one call makes at most 64 callbacks for
/// each link of the hub, so links that change the same chunk in turn do not hold it for ever; the
/// next call on the hub goes on.
///
/// One call at a time for a link. It may call every function; those that wait return BUSY. It must
/// not throw.
pub type ucxx_link_callback_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, link: *mut ucxx_link_t, status: ucxx_status_t)>;

/// What a link is made with; NULL means all defaults.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_link_params {
    /// Set by UCXX_LINK_PARAMS_INIT.
    pub struct_size: usize,
    /// 1, for a link that consumes: it sees every chunk that is in the queue, or comes, while it is
    /// there, and a chunk stays until all such links have consumed it. Consumers without it compete
    /// for chunks: each is consumed by one of them. Up to 63 at a time.
    pub broadcast: u8,
    /// 1: ucxx_envelope_release commits. Without effect for a link that peeks.
    pub autocommit: u8,
    /// Optional.
    pub on_ready: ucxx_link_callback_t,
    /// Passed to it.
    pub on_ready_arg: *mut c_void,
}
/// What a link is made with; NULL means all defaults.
pub type ucxx_link_params_t = ucxx_link_params;

sized! { ucxx_link_params, 32; }

/// More links than a caller means.
const MOST: usize = 4096;

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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
/// `count` links of this library, or NULL for one of them, at `pointer`, which is NULL or readable.
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

/// Makes a link of this UCXX_LINK_* type to envelopes of this kind, of which there may be none yet.
/// It keeps the hub's memory, and counts as one that is served unless there is a dataflow strategy.
/// on_ready may run before it returns, after `*link` was written. Any thread.
///
/// Errors: NO_DEVICE for a device that is not there; EXCEEDS_LIMIT for over 32 kinds of memory or
/// 63 broadcast consumers in a hub.
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
    // SAFETY: two pointers to functions that take the same: the engine does not know the handle's
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

/// Ends a link. Leases that it has given go on. Chunks that wait for this consumer alone are done
/// if another one has had them, and stay otherwise. When it returns, its on_ready does not run and
/// will not, but for one that it was called from. NULL is ignored. No other call on the link may be
/// under way. Any thread. So an on_ready that waits for the caller makes it wait without end.
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

/// Leases an envelope: through a link that produces an empty one; through one that consumes the
/// oldest chunk that it, or for links that compete any of them, has not had and nobody of them
/// holds; through one that peeks or modifies the top chunk, the oldest in the queue. A link may
/// have several leases at a time. Waits up to `timeout_ns` for it. Where the progress of the hub's
/// worker is manual it progresses meanwhile, and callbacks may run in it, if the thread may do so
/// at any time: any thread under UCXX_THREAD_MULTI, the worker's own under _SINGLE. Other threads,
/// and all under _SERIALIZED, only sleep: what is to come through the worker then needs somebody
/// else who progresses it.
///
/// A chunk is not consumed while it is changed, nor changed while somebody consumes it, or reads
/// the same envelope. Links that modify share it when they are on the same device. What is read on
/// other devices while it is changed is what it was.
///
/// Errors: NO_RESOURCE, for a timeout of 0, and TIMED_OUT: there is none yet; CLOSED: there will be
/// none; STARVED: the hub has no envelope on the link's device, and the message says how many are
/// missing, or nobody has anything and younger chunks, which are nowhere else, have all of them, so
/// that the oldest cannot come there; IO_ERROR, NO_MEMORY or NO_DEVICE: the chunk could not be
/// copied there, or the stream that was to write it has failed, and the message says which, and
/// what the driver says; BUSY from a callback, but for a timeout of 0. Any thread.
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

/// What a plain hub has is given out before anything is kept for what else may have to be done,
/// which would cost as much again. False says nothing yet. Not guarded: nothing in it can panic.
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

/// Leases through all of the links at once, also of several hubs, or through none of them. Of
/// several workers each has its turn, for a millisecond. Up to 64 links (EXCEEDS_LIMIT;
/// INVALID_PARAM above 4096). The rest as ucxx_link_lease.
///
/// STARVED also where all of them together can never be served with what the hub has, and the
/// message says why, and what to do: it has too few envelopes; or too small a max_queue_chunks for
/// what is produced and, until it is consumed, what is read; or too small a max_queue_bytes, where
/// no other link is there that might consume, or change, the chunks that the call waits for; or one
/// of them modifies the chunk that another one consumes, and it waits for no other consumer.
/// INVALID_PARAM where they exclude each other whatever the hub has: two that modify on different
/// devices, or one that peeks where another one modifies.
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
