//! The plain path of data calls: elements in one piece on both sides, at a target whose memory is
//! mapped here.
//!
//! It asks what the long way in `window::data::data` asks, in the same order as far as that can be
//! seen, and explains nothing: whatever is not plain, or not right, is left to the long way with
//! nothing done. That is the one place for errors.
//!
//! What is handed on fits into registers. A layout, or a result with an error in it, is written in
//! pieces and read in larger ones, for which the processor waits longer than all else takes that is
//! done for 8 bytes.

use crate::engine::rma::put_get;
use crate::engine::window::access::Reach;
use crate::engine::window::data::data::Place;
use crate::engine::window::data::reduce::Update;
use crate::engine::window::store_fence;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::{Domain, Reduce};

impl Window {
    /// Where so many bytes of a target begin, if they are mapped, and inside its memory.
    #[inline(always)]
    fn find(&self, rank: u32, disp: i64, bytes: u64) -> Option<*mut u8> {
        if self.check_usable().is_err() {
            return None;
        }
        let target = self.targets.get(rank as usize)?;
        let Reach::Mapped(base) = target.reach else { return None };
        let begin = u64::try_from(disp).ok()?.checked_mul(target.unit.into())?;
        let inside = begin.checked_add(bytes).is_some_and(|end| end <= target.size);
        inside.then(|| base.wrapping_add(begin as usize))
    }

    /// A put of so many bytes, which are not 0. False if it takes the long way: nothing is done
    /// then.
    ///
    /// # Safety
    /// They are readable at `origin`.
    #[inline(always)]
    pub unsafe fn try_put(&self, origin: *const u8, bytes: u64, rank: u32, disp: i64) -> bool {
        let Some(there) = self.find(rank, disp, bytes) else { return false };
        // The last question, as it may begin an epoch.
        if self.epoch.check_access(rank).is_err() {
            return false;
        }
        store_fence::stored();
        // SAFETY: inside the target's memory, and as for this function.
        unsafe { put_get::copy(origin, there, there, bytes as usize) };
        true
    }

    /// A get, likewise.
    ///
    /// # Safety
    /// They are writable at `origin`.
    #[inline(always)]
    pub unsafe fn try_get(&self, origin: *mut u8, bytes: u64, rank: u32, disp: i64) -> bool {
        let Some(there) = self.find(rank, disp, bytes) else { return false };
        if self.epoch.check_access(rank).is_err() {
            return false;
        }
        // SAFETY: as for `try_put`.
        unsafe { put_get::copy(there, origin, there, bytes as usize) };
        true
    }

    /// An accumulate of some elements, which fetches if the update has a result; its target is
    /// found here. The rest as for `try_put`.
    ///
    /// # Safety
    /// As many are readable at the operand, unless the operation is NO_OP, and writable at the
    /// result, unless that is null.
    #[inline(always)]
    pub unsafe fn try_accumulate(&self, mut update: Update, rank: u32, disp: i64) -> bool {
        let Update { kind, op, result, count, .. } = update;
        let bytes = (count * kind.size()) as u64;
        let Some(place) = self.find(rank, disp, bytes) else { return false };
        let at_once = kind.check_reduce(op, !result.is_null()).is_ok()
            && matches!(self.domain(Place::Here(place), kind, bytes), Ok(Domain::Element));
        if !at_once || self.epoch.check_access(rank).is_err() {
            return false;
        }
        let target = &self.targets[rank as usize];
        update.target = place;
        if self.is_in_bulk(target, op, count as u64) {
            // It ends with an instruction that is a full barrier.
            // SAFETY: as below.
            unsafe { self.update_in_bulk(target, &update) };
            return true;
        }
        if op == Reduce::Replace {
            store_fence::stored();
        }
        let _single = self.single(target);
        // SAFETY: inside the target's memory, in the way its window has for such elements; and as
        // for this function.
        unsafe {
            match count {
                1 => update.execute_word(),
                _ => update.execute_atomically(),
            }
        }
        true
    }
}
