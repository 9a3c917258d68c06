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

/// Parameters of ucxx_group_create.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_group_params {
    /// Set by UCXX_GROUP_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_BOOTSTRAP_*: how the members find each other. See ucxx_group_create.
    pub bootstrap: i32,
    /// CALLBACKS and TCP: the rank of this process, from 0. PMIX and ENV find rank and size
    /// themselves.
    pub rank: u32,
    /// CALLBACKS and TCP: the number of members. The maximum is 1,048,576 with every bootstrap.
    pub size: u32,
    /// CALLBACKS: gathers `length` bytes of each member at all members.
    ///
    /// - `data`: the `length` bytes of this process.
    /// - `out`: gets the bytes of all members, one after the other in rank order.
    ///
    /// It blocks until `out` is filled. ucxx_group_create calls it a few times, on its own thread,
    /// with the same `length` at all members. It returns UCXX_OK or an error. After an error
    /// ucxx_group_create fails with that status. It must not throw.
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
    /// TCP, and ENV instead of MASTER_ADDR and MASTER_PORT: "host:port", where rank 0 listens while
    /// the group is made. A numeric IPv6 address is written "[host]:port".
    pub root: *const c_char,
    /// TCP and ENV: a secret that only the members know.
    ///
    /// - Each side proves that it knows the secret before any other data is read.
    /// - The secret itself is not sent. Other data on the network is readable, but protected
    ///   against changes.
    /// - It should be random and have at least 16 bytes. A listener on the network can try secrets
    ///   that can be guessed.
    /// - With ENV, NULL means UCXX_RS_GROUP_SECRET of the environment.
    /// - Without a secret, every process that reaches the port can join. This is allowed only if
    ///   `root` is on the loopback interface.
    pub secret: *const c_char,
    /// In nanoseconds; 0 for 60 s, UINT64_MAX for no limit.
    ///
    /// TCP and ENV: ucxx_group_create waits at most this time until all members have connected.
    /// Then it waits at most this time again until all have exchanged their addresses. PMIX: a hint
    /// to the launcher.
    pub timeout_ns: u64,
    /// Time limit of each barrier, allgather and broadcast, in nanoseconds. 0 for none: then only
    /// the death of a member ends a collective that waits.
    pub collective_timeout_ns: u64,
}
/// Parameters of ucxx_group_create.
pub type ucxx_group_params_t = ucxx_group_params;

sized! { ucxx_group_params, 72; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// Makes a group. All members call it at about the same time, and it blocks until all have arrived.
///
/// `params->timeout_ns` limits the wait. `worker` is the worker on which this process starts
/// operations. ucxx_group_endpoint connects it. The group also has a worker of its own with an
/// adaptive progress thread. That worker serves the other members whatever this process does.
///
/// The context of `worker` needs UCXX_FEATURE_AM and UCXX_FEATURE_WAKEUP, and the same transports
/// at all members.
///
/// `params->bootstrap` selects how the members find each other:
/// - UCXX_BOOTSTRAP_CALLBACKS: by `params->allgather`, for example over MPI or a file system.
/// - UCXX_BOOTSTRAP_TCP: rank 0 listens at `params->root`, and the other members send it their
///   addresses.
/// - UCXX_BOOTSTRAP_ENV: as TCP, with rank and size of the environment. It uses RANK and
///   WORLD_SIZE, which torchrun sets. Without them it uses the variables that mpirun, mpiexec or
///   srun set. MASTER_ADDR and MASTER_PORT are the default of `root`. Under torchrun its own store
///   uses MASTER_PORT: set `root` to another port.
/// - UCXX_BOOTSTRAP_PMIX: by the launcher's PMIx. The library libpmix.so.2 is loaded for it. A
///   process can make one such group at a time, in the same order everywhere.
///
/// The connections of TCP and ENV are closed when the group is made.
///
/// Under manual progress the other calls that wait on a group progress `worker`, and callbacks may
/// run in them. They obey its thread mode. From a callback they return UCXX_ERR_BUSY.
///
/// Returns:
/// - UCXX_OK: `*group` is set.
/// - UCXX_ERR_TIMED_OUT: not all members have arrived in time. At every member that reached rank 0
///   the message names the missing ranks.
/// - UCXX_ERR_REJECTED: the other side has another secret, or is no member of such a group.
/// - UCXX_ERR_INVALID_PARAM: the rank is taken, the sizes differ, or the environment lacks a
///   variable, which the message names. The other members continue to wait for the right one.
/// - UCXX_ERR_BUSY: the port of `root` is in use, or the call is made from a callback.
/// - UCXX_ERR_INVALID_ADDR: `root` is no address of the machine of rank 0.
/// - UCXX_ERR_NO_RESOURCE: the limit of open files is too low for this number of members.
/// - UCXX_ERR_UNSUPPORTED: the context lacks a feature, PMIx is not installed, or a member has
///   another version of this library.
/// - UCXX_ERR_UNREACHABLE: no launcher offers PMIx to this process.
/// - UCXX_ERR_PEER_FAILED: a member ended while the group was made.
/// - UCXX_ERR_IO_ERROR: rank 0 cannot listen, PMIx failed, or a member sent an address that cannot
///   be used.
/// - UCXX_ERR_NO_MEMORY, UCXX_ERR_EXCEEDS_LIMIT: what the members exchange is too long.
/// - the status that `allgather` returned.
///
/// Threads: any that may use `worker`.
/// Ownership: the group keeps the memory of `worker` alive. The caller destroys the group.
/// See also: ucxx_group_subset, ucxx_group_destroy.
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

/// Makes a group of some members of `group`. It blocks until all of them have called it.
///
/// - `ranks`: ranks in `group`; the same list at all of them. The position in the list is the rank
///   in the new group.
/// - `count`: number of ranks.
///
/// The new group shares the service of `group`, which may be destroyed first. Other members of
/// `group` do not take part. Different threads may make subsets at the same time, and so may
/// disjoint sets of members.
///
/// Returns:
/// - UCXX_OK: `*subset` is set.
/// - UCXX_ERR_INVALID_PARAM: the list has an unknown rank, has a rank twice, or lacks this process.
/// - UCXX_ERR_TIMED_OUT: not all members have called it with this list equally often. The limit is
///   `collective_timeout_ns`, or 60 s if that is 0. Failed calls count, too.
/// - Any status of ucxx_group_barrier.
///
/// Threads: any that may use the group's worker.
/// Ownership: the caller destroys the subset.
/// See also: ucxx_group_create.
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

/// Checks whether a member runs on this host, that is under the same kernel.
///
/// Processes of one kernel count as processes of different hosts if UCXX_RS_HOST_ID differs in
/// their environments.
///
/// Returns:
/// - 1: the same host.
/// - 0: another host.
/// - a negative status: error.
///
/// Threads: any.
///
/// # Safety
/// NULL (INVALID_PARAM) or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_same_host(group: *const ucxx_group_t, rank: u32) -> i32 {
    // SAFETY: as for this function.
    guard::status(|| Ok(Status(unsafe { handle::get(group) }?.same_host(rank)?.into())))
}

/// Returns the rank of this process; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_rank(group: *const ucxx_group_t) -> u32 {
    // SAFETY: as for this function.
    unsafe { handle::look(group, 0, Group::rank) }
}

/// Returns the number of members; 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a group of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_size(group: *const ucxx_group_t) -> u32 {
    // SAFETY: as for this function.
    unsafe { handle::look(group, 0, Group::size) }
}

/// Returns the endpoint from this process's worker to the worker of a member, itself included.
///
/// The first call makes the endpoint, with peer failure detection. Groups that share a service
/// share their endpoints. The call does not wait for the member.
///
/// Returns:
/// - UCXX_OK: `*endpoint` is set.
/// - UCXX_ERR_INVALID_PARAM: the group has no such rank.
/// - UCXX_ERR_BUSY: the endpoint is not made yet, and the call is made from a callback "on another
///   thread": see "Callbacks" at the top of this file.
/// - Any status of ucxx_endpoint_create.
///
/// Threads: any that may use the group's worker.
/// Ownership: the groups own the endpoint: the caller must not close or destroy it. It is closed
/// with the last group that shares the service.
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
        // The group keeps the endpoint alive.
        place.write(Arc::as_ptr(&shared).cast_mut().cast());
        Ok(Status::OK)
    })
}

/// Sets how long a member on another host may be silent before it counts as failed.
///
/// Without this a lost host or network is noticed only when TCP gives up, after minutes.
///
/// - `liveness_ns`: in nanoseconds. 0, the default, means no limit. It is effective from now on.
/// - It applies to the collectives and windows of all groups that share the service of this group,
///   in this process only. Each member sets its own value.
/// - The service threads contact each other four times in this time, whatever the processes do. A
///   stopped process is silent, too.
/// - A silent member is noticed within 1.5 times `liveness_ns`. While a connection is being made it
///   can take five seconds, if that is longer.
/// - It has no effect on members of this host, whose death the kernel reports. It has no effect on
///   endpoints of ucxx_group_endpoint.
///
/// Returns:
/// - UCXX_OK: the limit is set.
/// - UCXX_ERR_BUSY: called from a callback.
///
/// Threads: any.
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

/// Waits until all members have called it.
///
/// When it returns UCXX_OK, all members have entered it. Afterwards a member may destroy the group
/// at once.
///
/// Rules for collectives (ucxx_group_barrier, ucxx_group_allgather, ucxx_group_broadcast):
/// - All members of a group call them in the same order.
/// - One collective at a time is allowed on a group. Those of different groups may run at the same
///   time.
/// - They do not use the tags, handlers and endpoints of the caller.
/// - Under manual progress they progress the group's worker.
///
/// Returns:
/// - UCXX_OK: all members have called it.
/// - UCXX_ERR_PEER_FAILED: a member that is needed has died, or has destroyed the group too early.
/// - UCXX_ERR_TIMED_OUT: `collective_timeout_ns` has passed.
/// - UCXX_ERR_INVALID_PARAM: members have called different collectives, in this one or the next
///   one.
/// - UCXX_ERR_NO_MEMORY: a member had no memory for it.
/// - UCXX_ERR_BUSY: another thread is in a collective of this group, or the call is made from a
///   callback.
///
/// After a failure:
/// - The message names the rank. Waiting members notify each other, within 2 s of a death.
/// - Every later collective of this group returns the same status. Subsets of this group, and the
///   group that it is a subset of, continue to work.
/// - The buffers belong to the caller again.
/// - A living member may not release data in transfer within a second, because it is stopped or
///   pulls much data. Then the connection between the two is closed. Subsets and the parent group
///   fail then, too, as if that member had left.
///
/// Threads: any that may use the group's worker.
/// See also: ucxx_group_allgather, ucxx_group_broadcast.
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

/// Gathers `length` bytes of each member at all members.
///
/// - `mine`: the bytes of this process, in host memory. NULL: they are already at their place in
///   `all`.
/// - `all`: gets the bytes of all members, one after the other in rank order. Its size is `length`
///   times the number of members.
///
/// A member returns when it has all bytes, so all members have entered the call then.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: the total length is too large.
/// - Any status of ucxx_group_barrier.
///
/// Threads: any that may use the group's worker.
/// See also: ucxx_group_barrier.
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

/// Sends `length` bytes of the member `root` to all other members.
///
/// All members give the same `length`. `data` is in host memory.
///
/// The root may return before other members have entered the call. Do not rely on it: after 64
/// broadcasts in a row, or 2 MiB, all members wait for each other.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: the group has no rank `root`, or `length` is too large.
/// - Any status of ucxx_group_barrier.
///
/// Threads: any that may use the group's worker.
/// See also: ucxx_group_barrier.
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

/// Releases the group and notifies the other members. NULL is ignored.
///
/// - Collectives of other members that still need this process complete with UCXX_ERR_PEER_FAILED.
/// - The last group that shares a service closes the service's endpoints. Data that was sent before
///   is delivered first.
/// - If members do not respond it takes some seconds, also in a callback, which is delayed by that.
/// - No collective of this group may be in progress.
/// - It waits for a running callback of the group's worker on its progress thread. Such a callback
///   must not wait for the caller.
///
/// Threads: any that may use the group's worker.
///
/// # Safety
/// NULL or a group of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_group_destroy(group: *mut ucxx_group_t) {
    // SAFETY: as for this function.
    guard::ending(|| drop(unsafe { handle::take_arc(group) }));
}
