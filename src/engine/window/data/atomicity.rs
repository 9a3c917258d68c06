//! How accumulates on mapped memory exclude each other: by atomic operations on single elements, by
//! exclusive access for very many elements, or by the target's update lock. The way is the same for
//! all elements of a kind at a target, whichever process executes the accumulate.

use crate::engine::base::status::Result;
use crate::engine::os::process_identity;
use crate::engine::window::data::data::Place;
use crate::engine::window::data::exclusive_bulk::Single;
use crate::engine::window::data::reduce::{self, Update};
use crate::engine::window::data::thread_lane;
use crate::engine::window::lock::rw_lock::Patience;
use crate::engine::window::store_fence;
use crate::engine::window::window::{Target, Window};
use crate::engine::wire::element_type::{Domain, ElementType, Reduce};
use crate::engine::wire::sync_constants::LockType;
use std::sync::atomic::Ordering;

impl Window {
    /// How accumulates at this place exclude each other.
    #[inline]
    pub(crate) fn domain(&self, place: Place<'_>, kind: ElementType, bytes: u64) -> Result<Domain> {
        if bytes == 0 {
            return Ok(Domain::Element);
        }
        let address = match place {
            Place::Here(at) => at as usize,
            Place::There(_, at) | Place::Asked(_, at) => at as usize,
        };
        let domain = kind.domain(address)?;
        let alone = self.is_mapped && self.granularity.load(Ordering::Relaxed) == 0;
        Ok(if alone { domain } else { Domain::Lock })
    }

    /// Begins atomic operations on elements; they end when the result is dropped.
    #[inline(always)]
    pub(crate) fn single<'a>(&'a self, target: &'a Target) -> Option<Single<'a>> {
        if !self.has_bulk {
            return None;
        }
        Some(
            target.control().bulk().single(self.rank, thread_lane::own(), &|rank| self.lives(rank)),
        )
    }

    /// Is exclusive access worth its cost? Not for plain stores and loads, which are fast anyway.
    #[inline(always)]
    pub(crate) fn is_in_bulk(&self, target: &Target, op: Reduce, elements: u64) -> bool {
        elements > 1
            && self.has_bulk
            && !matches!(op, Reduce::Replace | Reduce::NoOp)
            && target.control().bulk().is_worth(elements)
    }

    /// Calls `work` with exclusive access; or, if the kernel does not allow that after all, for
    /// updates element by element.
    #[inline]
    pub(crate) fn in_bulk(&self, target: &Target, work: impl FnOnce(Domain)) {
        match target.control().bulk().alone(self.rank, &|rank| self.lives(rank)) {
            Some(_alone) => work(Domain::Lock),
            None => {
                let _single = self.single(target);
                work(Domain::Element);
            }
        }
    }

    /// Does this holder of the update lock live? The number after the ranks is the target's
    /// service, which acts for others.
    pub(crate) fn may_update(&self, target: &Target, rank: u32) -> bool {
        match rank as usize == self.targets.len() {
            true => process_identity::lives(&target.process),
            false => self.lives(rank),
        }
    }

    #[inline(never)]
    pub(crate) fn under_lock(
        &self,
        target: &Target,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        store_fence::stored();
        // The lock knows processes, not threads.
        let _threads = target.updates.lock();
        let lock = target.control().updates();
        let is_alive = |rank| self.may_update(target, rank);
        lock.lock(self.rank, LockType::Exclusive, &Patience::new(u64::MAX, &is_alive))?;
        let result = work();
        lock.unlock(self.rank, LockType::Exclusive)?;
        result
    }

    /// A compare-and-swap.
    ///
    /// # Safety
    /// `at` is an element of the target's memory, and `domain` is the window's for it. For one
    /// element, operand and comparand are readable, and the result is writable.
    #[inline]
    pub(crate) unsafe fn swap_at(
        &self,
        target: &Target,
        kind: ElementType,
        domain: Domain,
        at: *mut u8,
        (operand, compare, result): (*const u8, *const u8, *mut u8),
    ) -> Result<()> {
        match domain {
            Domain::Element => {
                let _single = self.single(target);
                // SAFETY: valid by this function's contract, and the element is only changed
                // atomically.
                unsafe { reduce::compare_and_swap(kind, at, operand, compare, result) };
                Ok(())
            }
            Domain::Lock => self.under_lock(target, || {
                // SAFETY: valid by this function's contract, and the lock is held.
                unsafe { reduce::swap_locked(kind.size(), at, operand, compare, result) };
                Ok(())
            }),
        }
    }

    /// Executes updates of this process's memory that a message requests; see
    /// `under_lock_as_service`.
    ///
    /// # Safety
    /// The targets are inside this process's memory, and `domain` is the window's for them.
    /// Operands are readable, and results writable.
    pub(crate) unsafe fn apply(
        &self,
        domain: Domain,
        updates: &[Update],
        granted: bool,
    ) -> Result<()> {
        let own = self.own();
        let elements: usize = updates.iter().map(|update| update.count).sum();
        let execute = |domain| {
            // SAFETY: valid by this function's contract, and the callers below provide the
            // exclusion of `domain`.
            updates.iter().for_each(|update| unsafe { update.execute(domain) });
        };
        match domain {
            Domain::Lock => {
                return self.under_lock_as_service(granted, || {
                    execute(Domain::Lock);
                    Ok(())
                })
            }
            Domain::Element if self.is_in_bulk(own, updates[0].op, elements as u64) => {
                self.in_bulk(own, execute)
            }
            Domain::Element => {
                let _single = self.single(own);
                execute(Domain::Element);
            }
        }
        Ok(())
    }
}
