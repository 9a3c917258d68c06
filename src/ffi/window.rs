//! Windows: making them, their memory and hints, and their end. Queries are in `window_query`.

use super::guard;
use super::handle::{self, null, place, ucxx_group_t, ucxx_memory_t, ucxx_window_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::group::group::Group;
use crate::engine::ucx::registered_memory::Memory;
use crate::engine::window::create::Wanted;
use crate::engine::window::window::{Flavor, Window, WindowParams};
use std::ffi::c_void;
use std::sync::Arc;

/// Parameters of a window; NULL means all defaults.
///
/// All members give the same values, except `lock_timeout_ns` and `memory`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_window_params {
    /// Set by UCXX_WINDOW_PARAMS_INIT.
    pub struct_size: usize,
    /// 1: the window does not use lock and lock_all. They return UCXX_ERR_RMA_SYNC.
    pub no_locks: u8,
    /// 1: all members give the same disp_unit. This is checked.
    pub same_disp_unit: u8,
    /// 1: all members give the same size. This is checked.
    pub same_size: u8,
    /// 1: in ucxx_window_allocate_shared each member's memory begins at a page of its own. 0: the
    /// memory of the members is contiguous, in rank order.
    pub shared_noncontiguous: u8,
    /// UCXX_ORDER_*: the order of accumulates of one process at one target. The library keeps them
    /// in order in any case.
    pub accumulate_ordering: i32,
    /// Number of bytes, from the target address of the operation, that are updated as one unit
    /// against other accumulates.
    ///
    /// 0: each element. UINT64_MAX: the whole operation. With any value but 0, all accumulates of
    /// the window take a lock of their target.
    pub accumulate_granularity: u64,
    /// Time limit of waiting for a lock, in nanoseconds. 0: no limit, unless the holder dies.
    pub lock_timeout_ns: u64,
    /// ucxx_window_create: memory of this library that holds the range. Optional. It must live
    /// until the window has ended.
    ///
    /// If ucxx_memory_allocate has made it, members of this host access the range directly, as with
    /// ucxx_window_allocate. This needs UCX's shared memory, UCXX_FEATURE_RMA and
    /// UCXX_FEATURE_ATOMIC. Without these the range is accessed as if `memory` were NULL.
    /// Accumulates are only as fast if all members give such memory.
    pub memory: *mut ucxx_memory_t,
}
/// Parameters of a window; NULL means all defaults.
pub type ucxx_window_params_t = ucxx_window_params;

sized! { ucxx_window_params, 40; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_params_init(
    value: *mut ucxx_window_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

fn convert(params: &ucxx_window_params) -> Result<WindowParams> {
    let flag = |value: u8, name: &str| match value {
        0 | 1 => Ok(value == 1),
        _ => Err(Error::invalid(format!("{name}: {value} is neither 0 nor 1"))),
    };
    let unordered = match params.accumulate_ordering {
        0 | 1 => params.accumulate_ordering == 1,
        other => {
            return Err(Error::invalid(format!(
                "accumulate_ordering: {other} is no UCXX_ORDER_* value"
            )))
        }
    };
    Ok(WindowParams {
        no_locks: flag(params.no_locks, "no_locks")?,
        same_unit: flag(params.same_disp_unit, "same_disp_unit")?,
        same_size: flag(params.same_size, "same_size")?,
        noncontiguous: flag(params.shared_noncontiguous, "shared_noncontiguous")?,
        unordered,
        granularity: params.accumulate_granularity,
        lock_timeout_ns: params.lock_timeout_ns,
    })
}

/// Makes a window together with the other members. If the arguments are wrong here, it fails at all
/// members.
///
/// # Safety
/// `params` is NULL or a struct whose `struct_size` is set.
unsafe fn make(
    group: &Arc<Group>,
    params: *const ucxx_window_params_t,
    wanted: impl FnOnce(&ucxx_window_params) -> Result<Wanted>,
) -> Result<Arc<Window>> {
    // SAFETY: as for this function.
    let read = unsafe {
        params::with(params, "params", |params| {
            Ok((convert(params)?, wanted(params)?, params.memory.cast::<Memory>()))
        })
    };
    match read {
        Ok((params, wanted, memory)) => {
            // SAFETY: NULL or memory of this library. It is used only for windows of the
            // caller's memory, and `check_holds` has checked that it holds the range.
            let memory = unsafe { memory.as_ref() }.filter(|_| wanted.flavor == Flavor::Create);
            Window::new(group, Ok(wanted), memory, &params)
        }
        Err(error) => Window::new(group, Err(error), None, &WindowParams::default()),
    }
}

fn check_place<T>(pointer: *mut *mut T, argument: &str) -> Result<()> {
    if pointer.is_null() {
        return Err(null(argument));
    }
    Ok(())
}

fn wanted(flavor: Flavor, base: *mut c_void, size: usize, unit: u32) -> Result<Wanted> {
    if unit == 0 {
        return Err(Error::invalid("disp_unit: is 0"));
    }
    Ok(Wanted { flavor, base: base as u64, size: size as u64, unit })
}

/// Makes a window of the caller's memory (MPI 4.1, 12.2.1). All members of the group call it.
///
/// - `base`, `size`: memory of this process, in bytes. Each member gives its own; a size of 0 is
///   allowed. Host memory only.
/// - `disp_unit`: bytes of one unit of displacement at this process.
///
/// How other members access the memory:
/// - On this host without this process: the kernel copies it (process_vm_readv). Those members need
///   the permission to trace this process: the same user, and no security module that forbids it.
/// - On other hosts, or without that permission: by messages, which a thread of the group executes
///   here.
/// - ucxx_window_path returns which way is used. Memory of ucxx_window_allocate is faster, and
///   needs no permission.
///
/// Memory protection: a part of the range may be read-only or not accessible. An operation of
/// another member that it does not allow completes with UCXX_ERR_INVALID_ADDR. The protection is
/// checked in this call:
/// - If all memory is readable and writable, it must stay so until the window is closed. Messages
///   are executed there directly.
/// - Otherwise the kernel checks each operation, so later mprotect calls are followed. This costs
///   one or two system calls for each operation.
///
/// Rules for all functions that make windows:
/// - They are collective. All members call them in the same order, one at a time on one group.
/// - If the call fails at one member, it fails at all members.
///
/// Returns:
/// - UCXX_OK: `*window` is set.
/// - UCXX_ERR_INVALID_PARAM: the arguments of the members do not match. The message names the rank.
/// - UCXX_ERR_UNREACHABLE: a member may not open the shared memory of another one, which belongs to
///   another user.
/// - UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_RESOURCE: the memory or the descriptors are not sufficient.
/// - UCXX_ERR_EXCEEDS_LIMIT: the group has too many members.
/// - UCXX_ERR_UNSUPPORTED: a member has another version of this library.
/// - UCXX_ERR_BUSY: called from a callback.
/// - Any status of ucxx_group_barrier.
///
/// Threads: any that may use the group's worker.
/// Ownership: the memory stays the caller's, and must stay valid until the window is closed or
/// destroyed.
/// See also: ucxx_window_allocate, ucxx_window_close, ucxx_window_destroy.
///
/// # Safety
/// A group of this library. `base` has `size` bytes; those that are readable and writable now stay
/// so until the window has ended. `params` is NULL or a struct whose `struct_size` is set. `window`
/// is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_create(
    group: *mut ucxx_group_t,
    base: *mut c_void,
    size: usize,
    disp_unit: u32,
    params: *const ucxx_window_params_t,
    window: *mut *mut ucxx_window_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let group = handle::share(group)?;
            let made = make(&group, params, |params| {
                check_place(window, "window")?;
                if base.is_null() && size > 0 {
                    return Err(null("base"));
                }
                if (base as u64).checked_add(size as u64).is_none() {
                    return Err(Error::invalid(format!(
                        "size: {size} bytes at {base:p} go beyond the end of memory"
                    )));
                }
                if let Some(memory) = params.memory.cast::<Memory>().as_ref() {
                    memory.check_holds(base, size)?;
                }
                wanted(Flavor::Create, base, size, disp_unit)
            })?;
            place(window, "window")?.write(handle::give_arc(made));
            Ok(Status::OK)
        }
    })
}

/// Makes a window of memory that the library allocates (MPI 4.1, 12.2.2).
///
/// - `size`: bytes at this process.
/// - `disp_unit`: bytes of one unit of displacement at this process.
/// - `base`: gets the address of this process's memory, which is zeroed and aligned to a page.
///
/// Members of this host access the memory directly, without a system call and without a call of
/// this process.
///
/// Returns:
/// - Any status of ucxx_window_create.
///
/// Threads: any that may use the group's worker.
/// Ownership: ucxx_window_destroy frees the memory.
/// See also: ucxx_window_create, ucxx_window_allocate_shared.
///
/// # Safety
/// A group of this library; `params` is NULL or a struct whose `struct_size` is set; `base` and
/// `window` are valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_allocate(
    group: *mut ucxx_group_t,
    size: usize,
    disp_unit: u32,
    params: *const ucxx_window_params_t,
    base: *mut *mut c_void,
    window: *mut *mut ucxx_window_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { allocate(Flavor::Allocate, group, size, disp_unit, params, base, window) }
}

/// Makes a window whose members can also load and store each other's memory (MPI 4.1, 12.2.3).
///
/// ucxx_window_shared_query returns the addresses. Unless `shared_noncontiguous` is set, the memory
/// of all members is contiguous, in rank order. Arguments and ownership are as for
/// ucxx_window_allocate.
///
/// Returns:
/// - UCXX_ERR_UNSUPPORTED: the members are not all on one host and in one pid namespace.
///   ucxx_group_subset makes a group of such members.
/// - Any status of ucxx_window_create.
///
/// Threads: any that may use the group's worker.
/// See also: ucxx_window_shared_query, ucxx_group_same_host.
///
/// # Safety
/// As for `ucxx_window_allocate`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_allocate_shared(
    group: *mut ucxx_group_t,
    size: usize,
    disp_unit: u32,
    params: *const ucxx_window_params_t,
    base: *mut *mut c_void,
    window: *mut *mut ucxx_window_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe { allocate(Flavor::Shared, group, size, disp_unit, params, base, window) }
}

/// # Safety
/// As for `ucxx_window_allocate`.
unsafe fn allocate(
    flavor: Flavor,
    group: *mut ucxx_group_t,
    size: usize,
    disp_unit: u32,
    params: *const ucxx_window_params_t,
    base: *mut *mut c_void,
    window: *mut *mut ucxx_window_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let group = handle::share(group)?;
            let made = make(&group, params, |_params| {
                check_place(window, "window")?;
                check_place(base, "base")?;
                wanted(flavor, std::ptr::null_mut(), size, disp_unit)
            })?;
            place(base, "base")?.write(made.attributes()?.base);
            place(window, "window")?.write(handle::give_arc(made));
            Ok(Status::OK)
        }
    })
}

/// Makes a window without memory (MPI 4.1, 12.2.4). Each member attaches memory when it wants to.
///
/// Displacements are addresses of the target, which the target has to send to the caller. The
/// memory is accessed as that of ucxx_window_create.
///
/// Returns:
/// - Any status of ucxx_window_create.
///
/// Threads: any that may use the group's worker.
/// See also: ucxx_window_attach, ucxx_window_detach.
///
/// # Safety
/// A group of this library; `params` is NULL or a struct whose `struct_size` is set; `window` is
/// valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_window_create_dynamic(
    group: *mut ucxx_group_t,
    params: *const ucxx_window_params_t,
    window: *mut *mut ucxx_window_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let group = handle::share(group)?;
            let made = make(&group, params, |_params| {
                check_place(window, "window")?;
                wanted(Flavor::Dynamic, std::ptr::null_mut(), 0, 1)
            })?;
            place(window, "window")?.write(handle::give_arc(made));
            Ok(Status::OK)
        }
    })
}

/// Attaches `size` bytes of this process's memory to a dynamic window.
///
/// The call is local, legal in every epoch, and effective when it returns. Up to 1,024 regions can
/// be attached at a time. A range of one data call may span adjacent regions.
///
/// Returns:
/// - UCXX_OK: the region is attached.
/// - UCXX_ERR_RMA_ATTACH: a part of it is already attached.
/// - UCXX_ERR_RMA_FLAVOR: the window is not dynamic.
/// - UCXX_ERR_NO_RESOURCE: 1,024 regions are attached.
///
/// Threads: any.
/// Ownership: the memory stays the caller's, and must stay valid until it is detached or the window
/// has ended.
/// See also: ucxx_window_detach.
///
/// # Safety
/// A window of this library; `base` is readable and writable for `size` bytes until it is detached,
/// or the window has ended.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_attach(
    window: *mut ucxx_window_t,
    base: *mut c_void,
    size: usize,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(window) }?.attach(base, size)?;
        Ok(Status::OK)
    })
}

/// Detaches the region that was attached at `base`.
///
/// The call is local. The caller has to make sure that no member accesses the region any more.
///
/// Returns:
/// - UCXX_OK: the region is detached.
/// - UCXX_ERR_RMA_ATTACH: no attached region begins at `base`.
/// - UCXX_ERR_RMA_FLAVOR: the window is not dynamic.
///
/// Threads: any.
/// See also: ucxx_window_attach.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_detach(
    window: *mut ucxx_window_t,
    base: *mut c_void,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::get(window) }?.detach(base)?;
        Ok(Status::OK)
    })
}

/// Changes the hints of a window. All members call it at the same time, outside epochs.
///
/// From then on these values of `params` apply: `no_locks`, `same_disp_unit`, `same_size`,
/// `accumulate_ordering`, `accumulate_granularity` and `lock_timeout_ns`. `shared_noncontiguous`
/// and `memory` are ignored. The call waits for the other members.
///
/// If the members are on several hosts, it is also a collective of the group. All members then call
/// it on one window after the other, not on two at a time.
///
/// Returns:
/// - UCXX_OK: the hints are changed.
/// - UCXX_ERR_INVALID_PARAM: the hints of the members differ, or a promise does not hold. All
///   members get it.
/// - UCXX_ERR_RMA_SYNC: the window is in an epoch, or `no_locks` is set while a lock is held.
/// - UCXX_ERR_BUSY: the members are on several hosts, and another collective of the group is in
///   progress.
/// - Any status of ucxx_window_fence.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_params_t.
///
/// # Safety
/// A window of this library; `params` is NULL or a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_set_hints(
    window: *mut ucxx_window_t,
    params: *const ucxx_window_params_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe {
            let window = handle::share(window)?;
            params::with(params, "params", |params| window.set_hints(&convert(params)?))?;
        }
        Ok(Status::OK)
    })
}

/// Ends a window together with the other members. Afterwards no member accesses another one's
/// memory through it.
///
/// - The window must be outside epochs and exposures. Dynamic windows may have regions attached.
/// - Call ucxx_window_destroy afterwards, also after an error. Memory of the library stays mapped
///   until then.
/// - ucxx_window_query, ucxx_window_path, ucxx_window_sync_type and ucxx_window_group still work.
///   All other calls on the window return UCXX_ERR_CLOSED.
///
/// Returns:
/// - UCXX_OK: all members have called it.
/// - UCXX_ERR_RMA_SYNC: the window is in an epoch. Nothing was done.
/// - UCXX_ERR_BUSY: called from a callback, or another synchronisation call is in progress. Nothing
///   was done.
/// - UCXX_ERR_PEER_FAILED: a member has died or has left the window.
/// - UCXX_ERR_TIMED_OUT: the group's `collective_timeout_ns` has passed.
///
/// Threads: any, one synchronisation call at a time on a window.
/// See also: ucxx_window_destroy.
///
/// # Safety
/// A window of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_close(window: *mut ucxx_window_t) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        unsafe { handle::share(window) }?.close()?;
        Ok(Status::OK)
    })
}

/// Frees the handle, and the memory that the library has allocated for this process. NULL is
/// ignored.
///
/// The call is local. Members that have not closed the window keep their mappings of that memory as
/// long as they live.
///
/// For a window that was not closed:
/// - It releases all locks of this process.
/// - Members that wait for this process in a fence, an exposure or a close get
///   UCXX_ERR_PEER_FAILED.
/// - The caller has to make sure that no member accesses memory of the caller any more.
///
/// No call on the window may be in progress. The function waits for a running callback of the
/// group's worker on its progress thread. Such a callback must not wait for the caller.
///
/// Threads: any.
/// See also: ucxx_window_close.
///
/// # Safety
/// NULL or a window of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_destroy(window: *mut ucxx_window_t) {
    guard::ending(|| {
        // SAFETY: as for this function.
        if let Some(window) = unsafe { handle::take_arc(window) } {
            window.leave();
        }
    });
}
