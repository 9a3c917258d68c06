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

/// # Safety
/// The layout as for `layout`.
#[inline]
pub(super) unsafe fn side<'a>(
    place: *const c_void,
    of: *const ucxx_layout_t,
    argument: &str,
) -> Result<Side<'a>> {
    // SAFETY: as for this function.
    Ok(Side { place: place.cast_mut().cast(), layout: unsafe { layout(of, argument) }? })
}

/// Bytes of a put or a get that may go the plain path.
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

/// What an accumulate was called with.
pub(super) struct Accumulate {
    pub(super) origin: *const c_void,
    pub(super) origin_layout: *const ucxx_layout_t,
    /// NULL layout where nothing is fetched.
    pub(super) result: *mut c_void,
    pub(super) result_layout: *const ucxx_layout_t,
    pub(super) fetches: bool,
    pub(super) target: u32,
    pub(super) disp: i64,
    pub(super) target_layout: *const ucxx_layout_t,
    pub(super) op: i32,
}

impl Accumulate {
    /// What it is about, if it may go the plain path: all but the target's place.
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

    /// Without a request: by the plain path, or the long way.
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

    /// Does it. Bytes of the target.
    ///
    /// # Safety
    /// The layouts as for `layout`; what they say of the origin is readable, and of the result
    /// writable.
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
                // It reads nothing here.
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

/// Writes to the target's memory, from `disp` of its displacement units on (an address for dynamic
/// windows). The origin's layout says what is read here, the target's what is written there; they
/// have the same number of bytes. The types may differ.
///
/// Done when it returns, on this host, and with the next flush where it goes by messages
/// (UCXX_WINDOW_PATH_MESSAGE): `origin` may be used again in either case. An aligned value of 1, 2,
/// 4 or 8 bytes is written at once there, so that nobody sees half of it. Puts and gets are not
/// ordered among each other between synchronisation calls. Overlapping puts leave either's bytes.
/// Any thread, as all data calls.
///
/// Errors, in this order, with nothing done: RMA_RANK; RMA_TYPE; INVALID_PARAM for layouts that do
/// not go together, or a NULL origin; RMA_RANGE beyond the target's memory (RMA_ATTACH where it is
/// not attached); RMA_SYNC outside an access epoch to the target. PEER_FAILED for a target whose
/// memory is not mapped here, and that has died; INVALID_ADDR where its memory may not be written,
/// or has been unmapped, with some of it written where that is true of a part.
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

/// Reads from the target's memory into `origin`: there when it returns, on this host; by messages
/// (UCXX_WINDOW_PATH_MESSAGE) with the next flush, flush_local, unlock, complete or fence, which
/// also tells what the target found wrong. Until then `origin` is not to be touched, nor freed. The
/// rest as ucxx_window_put.
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

/// Combines elements of the origin into those of the target by `op`, a UCXX_REDUCE_* but NO_OP;
/// REPLACE is an atomic put. Both have the same type and number of elements, those of the target
/// aligned as C aligns the type (else INVALID_PARAM).
///
/// Atomic for each element (for more with accumulate_granularity) to all accumulates (this,
/// get_accumulate, fetch_and_op, compare_and_swap) of the same type from wherever, also with other
/// operations; not to put, get, loads and stores. Those of one thread at one target are done in
/// order. Integers wrap around. MIN and MAX of a NaN and a number are the number; MINLOC and MAXLOC
/// take the lower index of equal values.
///
/// Errors, with nothing done: RMA_OP where the operation does not exist for the type; UNSUPPORTED
/// where this architecture cannot calculate with it (long double); RMA_TYPE where the types differ;
/// EXCEEDS_LIMIT for more than 2 GiB that accumulate_granularity makes one message
/// (ucxx_window_path), in a window that has less; RMA_POISONED where a process has died in the
/// midst of one under the lock of the target (elements over 8 bytes, memory that is not mapped);
/// else as ucxx_window_put.
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

/// The same, and what was there before goes to `result`, where it is as soon as for
/// ucxx_window_get. NO_OP reads atomically; `origin` and its layout are not looked at then. The
/// rest as ucxx_window_accumulate.
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

/// One element of `type`: ucxx_window_get_accumulate without layouts, and faster. `origin` may be
/// NULL for NO_OP.
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

/// One element: `origin` is put there if `compare` is there, byte for byte; what was there goes to
/// `result`, in either case. Types: integers, bytes, UCXX_TYPE_BOOL (else RMA_TYPE). The rest as
/// ucxx_window_accumulate.
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
