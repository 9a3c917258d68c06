//! Data calls of windows. Those with a request are in `window_data_request`.

use super::guard;
use super::handle::{self, ucxx_window_t};
use super::layout::{layout, plain, ucxx_layout_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::{Result, Status};
use crate::engine::window::data::data::{Access, Destination, Side};
use crate::engine::window::data::reduce::Update;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::{ElementType, Reduce};
use std::ffi::c_void;

/// The caller's memory with its layout.
///
/// # Safety
/// `of` is as for `layout`.
#[inline]
pub(super) unsafe fn side<'a>(
    place: *const c_void,
    of: *const ucxx_layout_t,
    argument: &str,
) -> Result<Side<'a>> {
    // SAFETY: as for this function.
    Ok(Side { place: place.cast_mut().cast(), layout: unsafe { layout(of, argument) }? })
}

/// Number of bytes of a put or a get that may use the fast path.
///
/// # Safety
/// The layouts as for `layout`.
#[inline(always)]
unsafe fn plain_bytes(
    place: *const c_void,
    origin_layout: *const ucxx_layout_t,
    target_layout: *const ucxx_layout_t,
) -> Option<u64> {
    // SAFETY: as for this function.
    let ((_, here), (_, there)) = unsafe { (plain(origin_layout)?, plain(target_layout)?) };
    (here == there && !place.is_null()).then_some(here)
}

/// The arguments of an accumulate.
pub(super) struct Accumulate {
    pub(super) origin: *const c_void,
    pub(super) origin_layout: *const ucxx_layout_t,
    /// NULL, with a NULL layout, if nothing is fetched.
    pub(super) result: *mut c_void,
    pub(super) result_layout: *const ucxx_layout_t,
    pub(super) fetches: bool,
    pub(super) target: u32,
    pub(super) disp: i64,
    pub(super) target_layout: *const ucxx_layout_t,
    pub(super) op: i32,
}

impl Accumulate {
    /// The update, without the target's address, if the fast path may be used.
    ///
    /// # Safety
    /// The layouts as for `layout`.
    #[inline(always)]
    unsafe fn plain(&self) -> Option<Update> {
        let op = *Reduce::ALL.get(usize::try_from(self.op).ok()?)?;
        // SAFETY: as for this function.
        let plain = |layout| unsafe { plain(layout) };
        let (kind, bytes) = plain(self.target_layout)?;
        let fits =
            |place: *const c_void, layout| !place.is_null() && plain(layout) == Some((kind, bytes));
        let reads_only = op == Reduce::NoOp && self.fetches;
        let fit = (reads_only || fits(self.origin, self.origin_layout))
            && (!self.fetches || fits(self.result, self.result_layout));
        fit.then(|| Update {
            kind,
            op,
            target: std::ptr::null_mut(),
            operand: self.origin.cast(),
            result: self.result.cast(),
            count: bytes as usize / kind.size(),
        })
    }

    /// Runs it without a request: by the fast path if possible, otherwise by `execute`.
    ///
    /// # Safety
    /// As for `execute`.
    #[inline(always)]
    unsafe fn run(&self, window: &Window) -> Result<Status> {
        // SAFETY: as for this function.
        unsafe {
            match self.plain() {
                Some(update) if window.try_accumulate(update, self.target, self.disp) => {
                    Ok(Status::OK)
                }
                _ => self.execute(window, Access::Plain).map(|_bytes| Status::OK),
            }
        }
    }

    /// Runs it, with or without a request. Returns the number of bytes at the target.
    ///
    /// # Safety
    /// The layouts are as for `layout`. The origin is readable and the result writable as their
    /// layouts say.
    #[inline(never)]
    pub(super) unsafe fn execute(&self, window: &Window, access: Access) -> Result<u64> {
        // SAFETY: as for this function.
        unsafe {
            let layout = layout(self.target_layout, "target_layout")?;
            let to = Destination { rank: self.target, disp: self.disp, layout };
            let op = Reduce::from_number(self.op)?;
            let result = match self.fetches {
                true => Some(side(self.result, self.result_layout, "result_layout")?),
                false => None,
            };
            let origin = match &result {
                // NO_OP does not read the origin.
                Some(result) if op == Reduce::NoOp => {
                    Side { place: std::ptr::null_mut(), layout: result.layout }
                }
                _ => side(self.origin, self.origin_layout, "origin_layout")?,
            };
            window.accumulate(op, &origin, result.as_ref(), &to, access)?;
            Ok(to.layout.bytes())
        }
    }
}

/// Writes to the memory of a target (MPI 4.1, 12.3.1).
///
/// - `origin`, `origin_layout`: what is read here.
/// - `disp`: where the target range begins, in units of the target's disp_unit. For dynamic windows
///   it is an address of the target.
/// - `target_layout`: what is written there. Both layouts have the same number of bytes; their
///   types may differ.
///
/// When it returns, `origin` may be reused. On this host the put is complete. By messages
/// (UCXX_WINDOW_PATH_MESSAGE) it completes with the next flush or other synchronisation call. That
/// call also returns the errors that the target has found.
///
/// - An aligned value of 1, 2, 4 or 8 bytes is written at once at the target, so that no reader
///   sees half of it.
/// - Between synchronisation calls, puts and gets are not ordered among each other.
/// - If puts overlap, each byte is that of one of them.
///
/// Returns:
/// - UCXX_OK: the put is complete or posted.
/// - UCXX_ERR_RMA_TYPE: a type is unknown.
/// - UCXX_ERR_RMA_RANK: the window has no rank `target`.
/// - UCXX_ERR_INVALID_PARAM: the layouts do not match, or `origin` is NULL. A layout that is NULL
///   or wrong by itself is checked before the rank.
/// - UCXX_ERR_RMA_RANGE: the range ends beyond the target's memory.
/// - UCXX_ERR_RMA_ATTACH: the range is not attached (dynamic windows).
/// - UCXX_ERR_RMA_SYNC: there is no access epoch to the target.
/// - UCXX_ERR_PEER_FAILED: the target has died, and its memory is not mapped here.
/// - UCXX_ERR_INVALID_ADDR: the target's memory is unmapped or may not be written. If this is true
///   of a part, the rest may be written.
///
/// The errors are checked in this order. Nothing is done after one of the first six.
///
/// Threads: any, as for all data calls.
/// See also: ucxx_window_get, ucxx_window_rput, ucxx_window_flush, ucxx_window_path.
///
/// # Safety
/// A window of this library; the layouts are NULL (INVALID_PARAM) or were initialised, with lists
/// that are readable; `origin` is readable as its layout says.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_put(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let window = handle::get(window)?;
            match plain_bytes(origin, origin_layout, target_layout) {
                Some(bytes) if window.try_put(origin.cast(), bytes, target, disp) => {
                    return Ok(Status::OK)
                }
                _ => {}
            }
            let origin = side(origin, origin_layout, "origin_layout")?;
            let to =
                Destination { rank: target, disp, layout: layout(target_layout, "target_layout")? };
            window.put(&origin, &to, Access::Plain)?;
        }
        Ok(Status::OK)
    })
}

/// Reads from the memory of a target into `origin` (MPI 4.1, 12.3.2).
///
/// The arguments are those of ucxx_window_put. On this host the data is in `origin` when the call
/// returns.
///
/// By messages (UCXX_WINDOW_PATH_MESSAGE) the data arrives with the next flush, flush_local,
/// unlock, complete or fence. That call also returns the errors that the target has found.
///
/// Returns:
/// - Any status of ucxx_window_put.
///
/// Threads: any.
/// Ownership: by messages, `origin` must stay valid and must not be accessed until that
/// synchronisation call.
/// See also: ucxx_window_put, ucxx_window_rget.
///
/// # Safety
/// As for `ucxx_window_put`; `origin` is writable as its layout says.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_get(
    window: *mut ucxx_window_t,
    origin: *mut c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let window = handle::get(window)?;
            match plain_bytes(origin, origin_layout, target_layout) {
                Some(bytes) if window.try_get(origin.cast(), bytes, target, disp) => {
                    return Ok(Status::OK)
                }
                _ => {}
            }
            let origin = side(origin, origin_layout, "origin_layout")?;
            let to =
                Destination { rank: target, disp, layout: layout(target_layout, "target_layout")? };
            window.get(&origin, &to, Access::Plain)?;
        }
        Ok(Status::OK)
    })
}

/// Combines elements of the origin with those of the target by `op` (MPI 4.1, 12.3.4).
///
/// - `op`: UCXX_REDUCE_*, except NO_OP. REPLACE is an atomic put.
/// - The layouts have the same type and the same number of elements.
/// - The elements of the target are aligned as C aligns the type.
///
/// Atomicity:
/// - It is atomic for each element, or for more with `accumulate_granularity`.
/// - It is atomic with respect to all accumulates of the same type, by any process and with any
///   operation. These are accumulate, get_accumulate, fetch_and_op and compare_and_swap.
/// - It is not atomic with respect to put, get, loads and stores.
///
/// Order: accumulates of one thread at one target are performed in order.
///
/// Values: integers wrap around. MIN and MAX of a NaN and a number are the number. MINLOC and
/// MAXLOC take the lower index of equal values.
///
/// Returns:
/// - UCXX_ERR_INVALID_PARAM: the target is not aligned.
/// - UCXX_ERR_RMA_OP: `op` is unknown, or not defined for the type.
/// - UCXX_ERR_RMA_TYPE: the types of the layouts differ.
/// - UCXX_ERR_UNSUPPORTED: this architecture cannot calculate with the type (long double).
/// - UCXX_ERR_EXCEEDS_LIMIT: `accumulate_granularity` makes one message of the operation
///   (UCXX_WINDOW_PATH_MESSAGE), and it is longer than 2 GiB and than the target's memory.
/// - UCXX_ERR_RMA_POISONED: a process has died during an accumulate under the lock of the target.
///   This lock is used for elements over 8 bytes, and for memory that is not mapped.
/// - Any status of ucxx_window_put.
///
/// Nothing is done after one of the first six errors.
///
/// Threads: any.
/// See also: ucxx_window_get_accumulate, ucxx_window_fetch_and_op, ucxx_window_raccumulate.
///
/// # Safety
/// As for `ucxx_window_put`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_accumulate(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    op: i32,
) -> ucxx_status_t {
    let (result, result_layout, fetches) = (std::ptr::null_mut(), std::ptr::null(), false);
    let call = Accumulate {
        origin,
        origin_layout,
        result,
        result_layout,
        fetches,
        target,
        disp,
        target_layout,
        op,
    };
    // SAFETY: as for this function.
    guard::status(|| unsafe { call.run(handle::get(window)?) })
}

/// Combines as ucxx_window_accumulate, and returns the previous elements in `result` (MPI 4.1,
/// 12.3.4).
///
/// - `result`, `result_layout`: get the previous elements. They arrive when the data of
///   ucxx_window_get would arrive.
/// - `op`: UCXX_REDUCE_*. NO_OP reads atomically; `origin` and its layout are ignored then.
///
/// Returns:
/// - Any status of ucxx_window_accumulate.
///
/// Threads: any.
/// Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
/// See also: ucxx_window_fetch_and_op, ucxx_window_rget_accumulate.
///
/// # Safety
/// As for `ucxx_window_put`; `result` is writable as its layout says.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_get_accumulate(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    origin_layout: *const ucxx_layout_t,
    result: *mut c_void,
    result_layout: *const ucxx_layout_t,
    target: u32,
    disp: i64,
    target_layout: *const ucxx_layout_t,
    op: i32,
) -> ucxx_status_t {
    let fetches = true;
    let call = Accumulate {
        origin,
        origin_layout,
        result,
        result_layout,
        fetches,
        target,
        disp,
        target_layout,
        op,
    };
    // SAFETY: as for this function.
    guard::status(|| unsafe { call.run(handle::get(window)?) })
}

/// Combines one element, and returns its previous value in `result` (MPI 4.1, 12.3.4).
///
/// It is ucxx_window_get_accumulate for one element of `element_type` (UCXX_TYPE_*), without
/// layouts, and faster. `origin` may be NULL for NO_OP.
///
/// Returns:
/// - Any status of ucxx_window_accumulate.
///
/// Threads: any.
/// Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
/// See also: ucxx_window_get_accumulate, ucxx_window_compare_and_swap.
///
/// # Safety
/// A window of this library; `origin` is NULL or readable, `result` NULL (INVALID_PARAM) or
/// writable, for one element.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_fetch_and_op(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    result: *mut c_void,
    element_type: i32,
    target: u32,
    disp: i64,
    op: i32,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let window = handle::get(window)?;
            let (kind, op) = (ElementType::from_number(element_type)?, Reduce::from_number(op)?);
            window.fetch_and_op(op, kind, (origin.cast(), result.cast()), target, disp)?;
        }
        Ok(Status::OK)
    })
}

/// Stores `origin` in one element of the target if that element equals `compare` (MPI 4.1, 12.3.4).
///
/// The comparison is byte for byte. `result` gets the previous value in either case. `element_type`
/// is an integer type, UCXX_TYPE_BYTE or UCXX_TYPE_BOOL.
///
/// Returns:
/// - UCXX_ERR_RMA_TYPE: another `element_type`.
/// - Any status of ucxx_window_accumulate.
///
/// Threads: any.
/// Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
/// See also: ucxx_window_fetch_and_op.
///
/// # Safety
/// A window of this library; `origin` and `compare` are NULL (INVALID_PARAM) or readable, `result`
/// NULL (INVALID_PARAM) or writable, for one element.
#[no_mangle]
pub unsafe extern "C" fn ucxx_window_compare_and_swap(
    window: *mut ucxx_window_t,
    origin: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    element_type: i32,
    target: u32,
    disp: i64,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let window = handle::get(window)?;
            let kind = ElementType::from_number(element_type)?;
            window.compare_and_swap(
                kind,
                (origin.cast(), compare.cast(), result.cast()),
                target,
                disp,
            )?;
        }
        Ok(Status::OK)
    })
}
