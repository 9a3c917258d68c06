//! Groups of processes.

use super::constants::ucxx_bootstrap;
use super::guard;
use super::handle::{self, null, place, ucxx_endpoint_t, ucxx_group_t, ucxx_worker_t};
use super::params::{self, sized, text};
use super::status::ucxx_status_t;
use super::tag::check_buffer;
use crate::engine::assembly::EXTENSION;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::bootstrap::bootstrap::{Allgather, BootstrapKind, BootstrapParams};
use crate::engine::group::group::{Group, GroupParams};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// What a group is made with.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_group_params {
    /// Set by UCXX_GROUP_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_BOOTSTRAP_*: how the members find each other.
    pub bootstrap: i32,
    /// CALLBACKS and TCP: this process, from 0. PMIX and ENV find rank and size themselves.
    pub rank: u32,
    /// CALLBACKS and TCP: how many members there are. At most 1,048,576, whatever the bootstrap.
    pub size: u32,
    /// CALLBACKS: gives each member's `length` bytes at `in` to all, one after the other in rank
    /// order to `out`; blocks until it has. Called in ucxx_group_create alone, on its thread, a few
    /// times, with the same `length` by all. It returns UCXX_OK or an error, with which
    /// ucxx_group_create then fails. It must not throw.
    pub allgather: Option<
        unsafe extern "C" fn(
            arg: *mut c_void,
            data: *const c_void,
            length: usize,
            out: *mut c_void,
        ) -> ucxx_status_t,
    >,
    /// Passed to `allgather`.
    pub allgather_arg: *mut c_void,
    /// TCP, and ENV in the place of MASTER_ADDR and MASTER_PORT: "host:port" where rank 0 listens
    /// while the group is made, "[host]:port" for a numeric IPv6 address.
    pub root: *const c_char,
    /// TCP and ENV: what the members know and others do not. Each side proves to the other that it
    /// does before anything else is read; it does not cross the network, on which the rest is
    /// readable, but not to be changed. ENV takes UCXX_RS_GROUP_SECRET of the environment where
    /// this is NULL. Random, and 16 bytes or more: what can be guessed can be tried by whoever
    /// listens in. Without one, everybody who reaches the port can join: allowed where `root` is of
    /// the loopback interface only.
    pub secret: *const c_char,
    /// TCP and ENV: how long ucxx_group_create waits until all have come, and then once more until
    /// all have told where they are; in nanoseconds, 0 for 60 s, UINT64_MAX for ever. PMIX: a hint
    /// to the launcher.
    pub timeout_ns: u64,
    /// For each barrier, allgather and broadcast, in nanoseconds; 0 for none: then only the death
    /// of a member ends one.
    pub collective_timeout_ns: u64,
}
/// What a group is made with.
pub type ucxx_group_params_t = ucxx_group_params;

sized! { ucxx_group_params, 72; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_params_init(
    value: *mut ucxx_group_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Makes a group: all its members call it, at about the same time. Blocks until all have come;
/// `timeout_ns` says how long. `worker` is what this process initiates on, and what
/// ucxx_group_endpoint connects; the group keeps its memory alive. Beside it the group has a worker
/// of its own with an adaptive progress thread, which serves the other members, whatever this
/// process does meanwhile. Its context needs UCXX_FEATURE_AM and UCXX_FEATURE_WAKEUP, and the same
/// transports at all members.
///
/// How the members find each other is `bootstrap`. CALLBACKS: by a function of the caller's, of MPI
/// or a file system. TCP: rank 0 listens at `root`, and the others tell it where they are. ENV: the
/// same, with rank and size as RANK and WORLD_SIZE say (torchrun sets them; its own store has
/// MASTER_PORT, so give `root` with another port), or else as mpirun, mpiexec or srun have set
/// them, and MASTER_ADDR and MASTER_PORT for `root`. PMIX: by the launcher's PMIx, whose library,
/// libpmix.so.2, is loaded for it; one such group at a time in a process, in the same order
/// everywhere. The connections of TCP and ENV end when the group is made.
///
/// Under manual progress the calls that wait on a group (this one does not) progress `worker`, and
/// come under its thread mode; callbacks may run in them. From a callback they return BUSY.
///
/// Errors: TIMED_OUT, with the ranks that have not come in the message, at every member that
/// reached rank 0; REJECTED for another secret; INVALID_PARAM for a rank that is taken, sizes that
/// differ, an environment that lacks something, which the message names (the other members go on
/// waiting for the right one); BUSY where the port of `root` is taken, and from a callback;
/// INVALID_ADDR where `root` is not of rank 0's machine; NO_RESOURCE where the limit of descriptors
/// is too low for as many members; UNSUPPORTED without a feature or without PMIx, UNREACHABLE
/// without a launcher that offers it; PEER_FAILED when a member went in the midst; what `allgather`
/// returned.
///
/// # Safety
/// A worker of this library; `params` is NULL or a struct whose `struct_size` is set, with
/// terminated strings; `group` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_create(
    worker: *mut ucxx_worker_t,
    params: *const ucxx_group_params_t,
    group: *mut *mut ucxx_group_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (worker, place) = unsafe { (handle::share(worker)?, place(group, "group")?) };
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        place.write(handle::give_arc(Group::new(&worker, &params, EXTENSION)?));
        Ok(Status::OK)
    })
}

/// # Safety
/// The strings are NULL or terminated.
unsafe fn convert(params: &ucxx_group_params) -> Result<GroupParams> {
    let kind = match params.bootstrap {
        kind if kind == ucxx_bootstrap::UCXX_BOOTSTRAP_CALLBACKS as i32 => BootstrapKind::Callbacks,
        kind if kind == ucxx_bootstrap::UCXX_BOOTSTRAP_TCP as i32 => BootstrapKind::Tcp,
        kind if kind == ucxx_bootstrap::UCXX_BOOTSTRAP_PMIX as i32 => BootstrapKind::Pmix,
        kind if kind == ucxx_bootstrap::UCXX_BOOTSTRAP_ENV as i32 => BootstrapKind::Env,
        kind => {
            return Err(Error::invalid(format!("bootstrap: {kind} is no UCXX_BOOTSTRAP_* value")))
        }
    };
    // SAFETY: as for this function.
    let (root, secret) = unsafe { (text(params.root, "root")?, text(params.secret, "secret")?) };
    let bootstrap = BootstrapParams {
        kind,
        rank: params.rank,
        size: params.size,
        allgather: params.allgather.map(|function: Allgather| (function, params.allgather_arg)),
        root: root.map(str::to_owned),
        secret: secret.map(|secret| secret.as_bytes().to_vec()),
        timeout_ns: params.timeout_ns,
    };
    Ok(GroupParams { bootstrap, collective_timeout_ns: params.collective_timeout_ns })
}

/// A group of some of the members, each of which calls this with the same list, of ranks in
/// `group`; in the new group they have the ranks of their places in the list. Blocks until all have
/// called it. It shares the service of `group`, which may be destroyed before it. Disjoint subsets,
/// and others from other threads, may be made at the same time, without the rest of the members.
///
/// Errors: INVALID_PARAM for a list without this process, or with a rank twice; TIMED_OUT after
/// collective_timeout_ns, or 60 s where that is 0, when not all have called it with this list as
/// often (a call that failed counts, too); else as ucxx_group_barrier.
///
/// # Safety
/// A group of this library; `ranks` has `count` elements; `subset` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_subset(
    group: *mut ucxx_group_t,
    ranks: *const u32,
    count: usize,
    subset: *mut *mut ucxx_group_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (group, place) = unsafe { (handle::share(group)?, place(subset, "subset")?) };
        if count == 0 || count > group.size() as usize {
            let text =
                format!("count: {count} members cannot be taken from a group of {}", group.size());
            return Err(Error::invalid(text));
        }
        if ranks.is_null() {
            return Err(null("ranks"));
        }
        // SAFETY: as above.
        let ranks = unsafe { std::slice::from_raw_parts(ranks, count) };
        place.write(handle::give_arc(group.subset(ranks)?));
        Ok(Status::OK)
    })
}

/// 1 for a member on this host, that is under the same kernel, as this process is; 0 for another; a
/// negative status. Processes of one kernel whose UCXX_RS_HOST_ID in the environment differs count
/// as those of several hosts. Any thread.
///
/// # Safety
/// NULL (INVALID_PARAM) or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_same_host(group: *const ucxx_group_t, rank: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(group) }?.same_host(rank)?.into())))
}

/// This process's rank; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_rank(group: *const ucxx_group_t) -> u32 {
    // SAFETY: as for this function.
    unsafe { handle::look(group, 0, Group::rank) }
}

/// How many members the group has; 0 for NULL. Any thread.
///
/// # Safety
/// NULL or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_size(group: *const ucxx_group_t) -> u32 {
    // SAFETY: as for this function.
    unsafe { handle::look(group, 0, Group::size) }
}

/// The endpoint from this process's worker to that of a member, itself included: made by the first
/// call, with peer failure noticed, the same in the groups that share a service, and theirs:
/// neither closed nor destroyed by the caller, and gone with the last of them. It does not wait for
/// the member.
///
/// Errors: INVALID_PARAM for a rank that there is not; as ucxx_endpoint_create. From a callback on
/// another thread than the worker's progress thread, if it has one: BUSY, where it is not made yet.
///
/// # Safety
/// A group of this library; `endpoint` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_endpoint(
    group: *mut ucxx_group_t,
    rank: u32,
    endpoint: *mut *mut ucxx_endpoint_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (group, place) = unsafe { (handle::get(group)?, place(endpoint, "endpoint")?) };
        let shared = group.endpoint(rank)?;
        // The group keeps it.
        place.write(Arc::as_ptr(&shared).cast_mut().cast());
        Ok(Status::OK)
    })
}

/// How long, from now on, a member on another host may give no sign of life before it counts as
/// failed, as if it had died: that a host has gone, or the way to it is cut, nobody tells before
/// TCP gives up, after minutes. In nanoseconds; 0, as it is at first, for as long as it likes. It
/// is for the collectives and windows of all groups that share this one's service, here; each
/// member says for itself. The threads of the groups ask each other four times in that time,
/// whatever the processes do meanwhile; a process that is stopped is silent, too. Noticed within
/// one and a half times it; while a connection is being made, within five seconds where that is
/// more. Members of this host, of whom the kernel tells, and the endpoints of ucxx_group_endpoint
/// are as without it. Local; any thread.
///
/// Errors: FORKED; from a callback: BUSY.
///
/// # Safety
/// NULL (INVALID_PARAM) or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_set_liveness(
    group: *mut ucxx_group_t,
    liveness_ns: u64,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(group) }?.set_liveness(liveness_ns)?;
        Ok(Status::OK)
    })
}

/// Returns when all members have called it: whoever has come out knows that all others have come
/// in. Afterwards a member may destroy the group at once.
///
/// Collectives (this, ucxx_group_allgather and ucxx_group_broadcast) are called by all members of a
/// group in the same order. One at a time on one group: BUSY for a second thread; those of
/// different groups may run at the same time. They use nothing of the caller's tags, handlers and
/// endpoints. See ucxx_group_create for `worker`.
///
/// Errors: PEER_FAILED when a member that is needed has died, or destroyed the group before its
/// time; TIMED_OUT after collective_timeout_ns; INVALID_PARAM when members have called different
/// things, in that collective or the next one. The message names the rank. Members that wait learn
/// of it from each other, within 2 s of a death. From then on every collective of this group
/// returns the same; those of its subsets, and of the group it was taken from, go on. Buffers are
/// the caller's again. Only where a member that lives does not let go of data that was under way
/// within a second (it is stopped, or pulls that much) is the connection between the two cut, and
/// those fail as well, as if it had left.
///
/// # Safety
/// A group of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_barrier(group: *mut ucxx_group_t) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::share(group) }?.barrier()?;
        Ok(Status::OK)
    })
}

/// Gives `length` bytes of each member to all: `all` has them one after the other, in rank order.
/// With NULL for `mine` the caller's are in their place in `all` already. Host memory. Who comes
/// out has everything, so all have come in. The rest as ucxx_group_barrier.
///
/// # Safety
/// A group of this library; `mine` is NULL or readable for `length` bytes, and no part of `all` but
/// its own place there; `all` is writable for `length` bytes for each member.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_allgather(
    group: *mut ucxx_group_t,
    mine: *const c_void,
    length: usize,
    all: *mut c_void,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let group = unsafe { handle::share(group) }?;
        check_buffer(all, length as u64, "all")?;
        // SAFETY: as above.
        unsafe { group.allgather(mine, length, all) }?;
        Ok(Status::OK)
    })
}

/// Gives the `length` bytes of the member `root` to all others, which say the same `length`. Host
/// memory. The root may come out before others have come in, but does not count on it: after 64
/// broadcasts in a row, or 2 MiB, all wait for each other. The rest as ucxx_group_barrier.
///
/// # Safety
/// A group of this library; `data` is readable for `length` bytes at the root, writable elsewhere.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_group_broadcast(
    group: *mut ucxx_group_t,
    data: *mut c_void,
    length: usize,
    root: u32,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let group = unsafe { handle::share(group) }?;
        check_buffer(data, length as u64, "data")?;
        // SAFETY: as above.
        unsafe { group.broadcast(data, length, root) }?;
        Ok(Status::OK)
    })
}

/// Lets go of the group, and tells the other members; collectives of theirs that still need this
/// process end with PEER_FAILED. With the last group that shares its service its endpoints are
/// closed. What was sent before is let arrive. Bounded: some seconds where members do not answer,
/// also in a callback, which it holds up. No collective of the group's may be under way. NULL is
/// ignored. Any thread that may use `worker`. A callback of the group's worker that runs on its
/// progress thread, and waits for the caller, makes it wait as long.
///
/// # Safety
/// NULL or a group of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_destroy(group: *mut ucxx_group_t) {
    // SAFETY: as for this function.
    guard::ending(|| drop(unsafe { handle::take_arc(group) }));
}
