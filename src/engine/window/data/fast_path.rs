//! Fast path of data operations: contiguous elements on both sides, at a target whose memory is
//! mapped here.
//!
//! It checks what the general path in `window::data::data` checks, as far as possible in the same
//! order, and makes no errors. If anything is special or wrong, it does nothing and leaves the
//! operation to the general path.
//!
//! Arguments fit into registers. A layout, or a result with an error in it, would be written in
//! pieces and read back in larger ones. The CPU waits longer for that than the whole operation
//! takes for 8 bytes.

use crate::engine::rma::put_get;
use crate::engine::window::access::Reach;
use crate::engine::window::counts::{DataCall, Way};
use crate::engine::window::data::data::Place;
use crate::engine::window::data::reduce::Update;
use crate::engine::window::store_fence;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::{Domain, Reduce};

impl Window {
    /// Address of `bytes` bytes of a target, if they are mapped and inside its memory.
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

    /// A put of `bytes` bytes, not 0. False if the general path has to do it; then nothing is done.
    ///
    /// # Safety
    /// The bytes are readable at `origin`.
    #[inline(always)]
    pub unsafe fn try_put(&self, origin: *const u8, bytes: u64, rank: u32, disp: i64) -> bool {
        let Some(there) = self.find(rank, disp, bytes) else { return false };
        // The last check, as it may begin an epoch.
        if self.epoch.check_access(rank).is_err() {
            return false;
        }
        store_fence::stored();
        // SAFETY: inside the target's memory, which is mapped, and readable by this function's
        // contract.
        unsafe { put_get::copy(origin, there, there, bytes as usize) };
        self.counts.done(DataCall::Put, Way::Mapped, bytes);
        true
    }

    /// A get; otherwise like `try_put`.
    ///
    /// # Safety
    /// The bytes are writable at `origin`.
    #[inline(always)]
    pub unsafe fn try_get(&self, origin: *mut u8, bytes: u64, rank: u32, disp: i64) -> bool {
        let Some(there) = self.find(rank, disp, bytes) else { return false };
        if self.epoch.check_access(rank).is_err() {
            return false;
        }
        // SAFETY: inside the target's memory, which is mapped, and writable by this function's
        // contract.
        unsafe { put_get::copy(there, origin, there, bytes as usize) };
        self.counts.done(DataCall::Get, Way::Mapped, bytes);
        true
    }

    /// An accumulate of at least one element, which fetches if the update has a result. Sets the
    /// update's target. Otherwise like `try_put`.
    ///
    /// # Safety
    /// The operand is readable for the elements, unless the operation is NO_OP. The result is
    /// writable for them, unless it is null.
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
        self.counts.done(DataCall::Accumulate, Way::Mapped, bytes);
        update.target = place;
        if self.is_in_bulk(target, op, count as u64) {
            // It ends with an instruction that is a full barrier, so `stored` is not needed.
            // SAFETY: inside the target's memory, and operand and result are valid by this
            // function's contract.
            unsafe { self.update_in_bulk(target, &update) };
            return true;
        }
        if op == Reduce::Replace {
            store_fence::stored();
        }
        let _single = self.single(target);
        // SAFETY: inside the target's memory. `domain` says that its elements are updated
        // atomically, and operand and result are valid by this function's contract.
        unsafe {
            match count {
                1 => update.execute_word(),
                _ => update.execute_atomically(),
            }
        }
        true
    }
}
