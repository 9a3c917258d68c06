//! How the accumulates of a window are kept apart, at memory that is here: each element by an
//! instruction of the processor's, very many of them alone, or all under the target's update lock.
//! One way for all elements of a kind at a target, whoever executes it.

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
    /// What keeps accumulates apart there.
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

    /// Begins atomic operations on elements.
    #[inline(always)]
    pub(crate) fn single<'a>(&'a self, target: &'a Target) -> Option<Single<'a>> {
        if !self.has_bulk {
            return None;
        }
        Some(
            target.control().bulk().single(self.rank, thread_lane::own(), &|rank| self.lives(rank)),
        )
    }

    /// Is it worth being alone? What is only stored, or read, takes no time as it is.
    #[inline(always)]
    pub(crate) fn is_in_bulk(&self, target: &Target, op: Reduce, elements: u64) -> bool {
        elements > 1
            && self.has_bulk
            && !matches!(op, Reduce::Replace | Reduce::NoOp)
            && target.control().bulk().is_worth(elements)
    }

    /// Does some of such work, which is told how: alone, or where the kernel does not allow that
    /// after all, element by element.
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

    /// Does this one of its update lock live? Behind the ranks that is the target, on behalf of
    /// others.
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
        // The other processes know this one as a whole.
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
    /// One element of the target's memory, in the way that the window has for it; operand and
    /// comparand are readable, and the result writable, for one.
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
                // SAFETY: as for this function.
                unsafe { reduce::compare_and_swap(kind, at, operand, compare, result) };
                Ok(())
            }
            Domain::Lock => self.under_lock(target, || {
                // SAFETY: as above, with the lock held.
                unsafe { reduce::swap_locked(kind.size(), at, operand, compare, result) };
                Ok(())
            }),
        }
    }

    /// Updates of this process's memory that a message asks for; see `under_lock_as_service`.
    ///
    /// # Safety
    /// Elements inside it, in the way that the window has for them; operands are readable, and
    /// results writable.
    pub(crate) unsafe fn apply(
        &self,
        domain: Domain,
        updates: &[Update],
        granted: bool,
    ) -> Result<()> {
        let own = self.own();
        let elements: usize = updates.iter().map(|update| update.count).sum();
        let execute = |domain| {
            // SAFETY: as for this function, in the way that is asked for.
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
