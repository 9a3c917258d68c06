//! Operations on one element: fetch-and-op and compare-and-swap. The others are in `data`.

use crate::engine::base::status::{Error, Result};
use crate::engine::window::counts::DataCall;
use crate::engine::window::data::data::{swap_there, Place, Side};
use crate::engine::window::data::datatype_layout::Layout;
use crate::engine::window::data::reduce::Update;
use crate::engine::window::remote::origin::Ask;
use crate::engine::window::remote::outstanding::Call as Asking;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::{Domain, ElementType, Reduce};
use crate::engine::wire::window::{What, WindowHeader};

impl Window {
    /// Fetch-and-op of one element.
    ///
    /// # Safety
    /// For one element, the operand is readable, unless the operation is NO_OP, and the result
    /// writable.
    #[inline]
    pub unsafe fn fetch_and_op(
        &self,
        op: Reduce,
        kind: ElementType,
        (operand, result): (*const u8, *mut u8),
        rank: u32,
        disp: i64,
    ) -> Result<()> {
        // SAFETY: valid by this function's contract.
        let done = unsafe { self.fetch_one(op, kind, (operand, result), rank, disp) };
        let target = self.targets.get(rank as usize);
        self.counts.returned(done, DataCall::Accumulate, target, kind.size() as u64)
    }

    #[inline]
    unsafe fn fetch_one(
        &self,
        op: Reduce,
        kind: ElementType,
        (operand, result): (*const u8, *mut u8),
        rank: u32,
        disp: i64,
    ) -> Result<()> {
        let target = self.target(rank)?;
        kind.check_reduce(op, true)?;
        let layout = Layout::contiguous(kind, 1)?;
        if (operand.is_null() && op != Reduce::NoOp) || result.is_null() {
            let argument = if result.is_null() { "result" } else { "origin" };
            return Err(Error::invalid(format!("{argument}: is NULL")));
        }
        let place = self.locate(target, disp, &layout)?;
        let domain = self.domain(place, kind, layout.bytes())?;
        self.epoch.check_access(rank)?;
        let update = |target| Update { kind, op, target, operand, result, count: 1 };
        match (place, domain) {
            // SAFETY: inside the target's memory, updated atomically as `domain` says; operand and
            // result are valid by this function's contract.
            (Place::Here(at), Domain::Element) => unsafe {
                let _single = self.single(target);
                update(at).execute_word();
            },
            (Place::Here(at), Domain::Lock) => self.under_lock(target, || {
                // SAFETY: inside the target's memory, with the lock held; operand and result are
                // valid by this function's contract.
                unsafe { update(at).execute_locked() };
                Ok(())
            })?,
            (Place::There(process, at), _) => {
                let update = update(std::ptr::null_mut());
                // SAFETY: operand and result are valid by this function's contract.
                if unsafe { self.delegate_update(rank, at, &update) }? == 0 {
                    // SAFETY: operand and result are valid by this function's contract, and the
                    // lock is held.
                    self.under_lock(target, || unsafe {
                        self.combine_there(process, at, &update)
                    })?;
                }
            }
            (Place::Asked(at, _), _) => {
                let header = WindowHeader { at, op, kind, ..self.header(What::Fetch) };
                let (origin, result) =
                    (Side { place: operand.cast_mut(), layout }, Side { place: result, layout });
                let ask = Ask { header, whole: true, call: Asking::NONE };
                // SAFETY: operand and result are valid by this function's contract.
                unsafe {
                    self.operate(
                        rank,
                        &ask,
                        (op != Reduce::NoOp).then_some(&origin),
                        Some(&result),
                        &layout,
                    )
                }?;
            }
        }
        Ok(())
    }

    /// Compare-and-swap of one element.
    ///
    /// # Safety
    /// For one element, `operand` and `compare` are readable, and `result` is writable.
    #[inline]
    pub unsafe fn compare_and_swap(
        &self,
        kind: ElementType,
        (operand, compare, result): (*const u8, *const u8, *mut u8),
        rank: u32,
        disp: i64,
    ) -> Result<()> {
        // SAFETY: valid by this function's contract.
        let done = unsafe { self.swap_one(kind, (operand, compare, result), rank, disp) };
        let target = self.targets.get(rank as usize);
        self.counts.returned(done, DataCall::CompareAndSwap, target, kind.size() as u64)
    }

    #[inline]
    unsafe fn swap_one(
        &self,
        kind: ElementType,
        (operand, compare, result): (*const u8, *const u8, *mut u8),
        rank: u32,
        disp: i64,
    ) -> Result<()> {
        let target = self.target(rank)?;
        kind.check_compare_and_swap()?;
        let layout = Layout::contiguous(kind, 1)?;
        for (place, argument) in
            [(operand, "origin"), (compare, "compare"), (result.cast_const(), "result")]
        {
            if place.is_null() {
                return Err(Error::invalid(format!("{argument}: is NULL")));
            }
        }
        let place = self.locate(target, disp, &layout)?;
        let domain = self.domain(place, kind, layout.bytes())?;
        self.epoch.check_access(rank)?;
        match place {
            Place::Here(at) => {
                // SAFETY: inside the target's memory, with the exclusion that `domain` says; the
                // pointers are valid by this function's contract.
                unsafe { self.swap_at(target, kind, domain, at, (operand, compare, result)) }?
            }
            Place::There(_, at)
                // SAFETY: the pointers are valid by this function's contract.
                if unsafe { self.delegate_swap(rank, kind, at, (operand, compare, result)) }? => {}
            Place::There(process, at) => self.under_lock(target, || {
                // SAFETY: the pointers are valid by this function's contract, and the lock is held.
                unsafe { swap_there(process, at, kind.size(), (operand, compare, result)) }
            })?,
            Place::Asked(at, _) => {
                let size = kind.size();
                let mut both = [0_u8; 32];
                let header = WindowHeader { at, kind, ..self.header(What::Swap) };
                // SAFETY: the pointers are valid for one element by this function's contract, and
                // `both` has room for two of 16 bytes, the largest that compare-and-swap allows.
                unsafe {
                    both.as_mut_ptr().copy_from_nonoverlapping(operand, size);
                    both.as_mut_ptr().add(size).copy_from_nonoverlapping(compare, size);
                    self.swap_far(rank, &header, &both[..2 * size], result)?;
                }
            }
        }
        Ok(())
    }
}
