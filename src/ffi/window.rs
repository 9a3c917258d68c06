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

/// What a window is made with; NULL means all defaults. All members give the same, but for
/// `lock_timeout_ns` and `memory`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_window_params {
    /// Set by UCXX_WINDOW_PARAMS_INIT.
    pub struct_size: usize,
    /// 1: lock and lock_all are not used; they return RMA_SYNC.
    pub no_locks: u8,
    /// 1: all members give the same disp_unit. Checked.
    pub same_disp_unit: u8,
    /// 1: all members give the same size. Checked.
    pub same_size: u8,
    /// 1: in ucxx_window_allocate_shared each member's memory begins at a page of its own; else
    /// they follow each other in rank order, byte after byte.
    pub shared_noncontiguous: u8,
    /// UCXX_ORDER_*: of accumulates of one process at one target. They are in order in any case.
    pub accumulate_ordering: i32,
    /// Bytes, counted from the operation's target address, that are updated as one unit against
    /// other accumulates; 0 for each element, UINT64_MAX for the whole operation. Anything but 0
    /// puts all accumulates of the window under a lock of their target.
    pub accumulate_granularity: u64,
    /// How long a lock is waited for; 0 for ever, unless its holder dies.
    pub lock_timeout_ns: u64,
    /// ucxx_window_create: library memory that holds the range, which stays until the window has
    /// ended. Optional. Where ucxx_memory_allocate has made it, members of this host read and write
    /// the range directly, as that of ucxx_window_allocate, where UCX's shared memory is in use and
    /// the context has UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC; otherwise it is reached as without
    /// this. Accumulates are as fast where all members give such memory.
    pub memory: *mut ucxx_memory_t,
}
/// What a window is made with.
pub type ucxx_window_params_t = ucxx_window_params;

sized! { ucxx_window_params, 40; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
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

/// Makes a window together with the others, also where something is wrong with the arguments here:
/// then it fails everywhere.
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
            // SAFETY: NULL or memory of this library; for windows of the caller's memory alone,
            // which it was checked to hold.
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

/// Makes a window of memory of the caller's, which stays that until the window is closed or
/// destroyed. All members of the group call it, each with its own memory, size (0 is one) and
/// disp_unit, the bytes that a displacement at this process counts.
///
/// Others on this host reach the memory without this process: the kernel copies it
/// (process_vm_readv), for which they have to be permitted to trace this process, that is of the
/// same user, where no security module forbids it. Memory that the library allocates
/// (ucxx_window_allocate) is reached faster, and without that. Others, and those on other hosts,
/// send messages, which a thread of the group's executes here (ucxx_window_path tells).
///
/// Memory that may only be read, or not even that, may be part of the window: an operation of
/// another member that may not touch it is INVALID_ADDR there. How the memory may be used is looked
/// at in this call. Memory that was readable and writable stays so until the window is closed, as
/// messages are executed there directly; where some of it was not, the kernel looks each time
/// (mprotect is followed), which costs a system call or two for each operation.
///
/// Collective, as all functions that make windows: called by all members in the same order, one at
/// a time on one group; it fails everywhere if it fails at one of them. Not from a callback (BUSY).
/// Memory of the host alone.
///
/// Errors: UNREACHABLE where a member may not open what another one shares, as it is of another
/// user; INVALID_PARAM for what does not go together, with the rank; NO_MEMORY, NO_RESOURCE; else
/// as ucxx_group_barrier.
///
/// # Safety
/// A group of this library; `base` has `size` bytes, which stay readable and writable until the
/// window has ended, as far as they are so now; `params` is NULL or a struct whose `struct_size` is
/// set; `window` is valid for a write.
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
                        "size: there are no {size} bytes at {base:p}"
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

/// Makes a window of memory of the library's, all zero at first, which ends with the window's
/// handle: `size` bytes at this process, to `*base`, aligned to a page. The other members read and
/// write it directly: no call of this process's is needed, and none of theirs takes a system call.
/// The rest as ucxx_window_create.
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

/// The same for members that also read and write each other's memory by plain loads and stores, at
/// the addresses that ucxx_window_shared_query tells. Unless `shared_noncontiguous` is set the
/// memory of all is in one piece, in rank order, in which a member's begins where that of the one
/// before ends. UNSUPPORTED unless all members are on one host, and in one pid namespace:
/// ucxx_group_subset makes a group of such.
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

/// Makes a window without memory: each member attaches what it offers, when it likes. Displacements
/// are addresses of the target's, as the caller learns them from the target. The memory is reached
/// as that of ucxx_window_create, and the rest is as there.
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

/// Offers `size` bytes of this process's memory in a dynamic window; they stay the caller's. Local,
/// legal in every epoch, effective when it returns. A range that a call names may span regions that
/// follow each other. Up to 1,024 regions at a time. Any thread.
///
/// Errors: RMA_ATTACH where some of it is attached already; RMA_FLAVOR for a window of another
/// kind; NO_RESOURCE for too many.
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

/// Takes back a region that was attached at `base`. The caller sees to it that nobody uses it any
/// more. Local, any thread. Errors: RMA_ATTACH where none begins there; RMA_FLAVOR.
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

/// Other hints, given by all members at the same time, outside epochs (else RMA_SYNC): no_locks,
/// the promises, accumulate_granularity and lock_timeout_ns are as in `params` from then on;
/// `shared_noncontiguous` and `memory` are not looked at. Waits for the others.
///
/// Where members are on several hosts it is a collective of the group's as well: all members call
/// it on one window after the other, and on no two at a time.
///
/// Errors: INVALID_PARAM, everywhere, where they differ or a promise does not hold; BUSY while
/// another collective of the group is under way, between hosts; else as ucxx_window_fence.
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

/// Ends a window together with the others: none touches memory of another one through it
/// afterwards. Outside epochs and exposures (else RMA_SYNC, with nothing done); dynamic ones may
/// have regions attached. Whatever it returns otherwise, ucxx_window_destroy follows, until which
/// the library's memory stays where it is. ucxx_window_query, _path, _sync_type and _group still
/// work; all other calls return CLOSED.
///
/// Errors: PEER_FAILED when a member has died, or left the window; TIMED_OUT after the group's
/// collective_timeout_ns.
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

/// Frees the handle, and the memory that the library has made for this process; members that have
/// not closed it keep their mappings of that as long as they live. Local. Of a window that was not
/// closed it lets go of all locks, and those that wait for this process in a fence, an exposure or
/// a close get PEER_FAILED; the caller sees to it that nobody accesses memory of the caller's any
/// more. NULL is ignored. No call on the window may be under way. A callback of the group's worker
/// that runs on its progress thread, and waits for the caller, makes it wait as long.
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
