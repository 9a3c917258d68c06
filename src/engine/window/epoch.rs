//! Which calls are legal in a window's present epoch: its state machine in one process.
//!
//! There are two independent axes, except that fence is on both.
//!
//! - **Access**: this process accesses the memory of others, after fence, start or a lock.
//! - **Exposure**: others access this process's memory, from post to wait.
//!
//! `ucxx_window_sync_type` reports these states, as they apply to one target.
//!
//! Costs (AMD EPYC, Zen 5, a busy machine; `cargo test --release --lib engine::window::epoch --
//! --ignored --nocapture figures`): checking a put 0.5 ns, or 0.9 if the target is locked or
//! started; a lock with its unlock 18, a fence 17, most of it for taking `calls` twice.
#![deny(unsafe_code)]

use crate::engine::base::spin_lock::SpinLock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::wire::sync_constants::{Assertions, LockType};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering};
use std::sync::OnceLock;

/// `UCXX_SYNC_*`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum SyncType {
    None = 0,
    Lock = 1,
    LockNoCheck = 2,
    LockAll = 3,
    LockAllNoCheck = 4,
    Pscw = 5,
    Fence = 6,
    FenceEpoch = 7,
}

/// A call, as far as epochs are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Call {
    Lock(u32),
    Unlock(u32),
    LockAll,
    UnlockAll,
    /// Also flush_local.
    Flush(u32),
    /// Also flush_local_all.
    FlushAll,
    Sync,
    Post,
    Start,
    Complete,
    /// Also test.
    Wait,
    Fence,
    Close,
    /// An operation without a request: put, get, accumulate and the like.
    Access(u32),
    /// An operation with a request.
    Request(u32),
}

/// How this process holds a target's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// There is a lock to release.
    Locked(LockType),
    /// Asserted by NOCHECK: there is no lock to release.
    NoCheck,
}

/// The steps of a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FencePlan {
    /// Complete all operations to all targets.
    pub flush: bool,
    /// Run a barrier.
    pub barrier: bool,
}

/// States of the access axis. From `ANYWHERE` on, every target may be accessed.
mod access {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const LOCK: u8 = 1;
    pub(crate) const START: u8 = 2;
    /// After a fence: the first operation begins an epoch.
    pub(crate) const FENCE: u8 = 3;
    pub(crate) const ANYWHERE: u8 = 4;
    pub(crate) const FENCE_EPOCH: u8 = 4;
    pub(crate) const LOCK_ALL: u8 = 5;
    pub(crate) const LOCK_ALL_NO_CHECK: u8 = 6;
}

/// State of a target in this process. From `OPEN` on it may be accessed.
mod target {
    pub(crate) const CLOSED: u8 = 0;
    /// A lock has been requested.
    pub(crate) const PENDING: u8 = 1;
    pub(crate) const OPEN: u8 = 2;
    pub(crate) const STARTED: u8 = 2;
    pub(crate) const SHARED: u8 = 3;
    pub(crate) const EXCLUSIVE: u8 = 4;
    pub(crate) const NO_CHECK: u8 = 5;

    pub(crate) fn of_lock(how: super::LockType) -> u8 {
        match how {
            super::LockType::Shared => SHARED,
            super::LockType::Exclusive => EXCLUSIVE,
        }
    }
}

/// The epoch state of a window in one process.
///
/// Synchronisation calls change it, one at a time: they hold `calls` while they check and change,
/// and only its holder writes the atomics. Data calls and flushes on other threads read the atomics
/// without it: first `access`, and if that does not decide, the target's byte. A data call makes
/// only one change, beginning the epoch that a fence permits. That is a compare-and-swap, so it
/// cannot undo what a synchronisation call has done meanwhile. A granted lock stores the target's
/// byte before `access`, both with Release; readers use Acquire. The caller orders its data calls
/// before the synchronisation call that ends their epoch.
pub struct Epoch {
    access: AtomicU8,
    no_locks: AtomicBool,
    ranks: u32,
    /// Number of granted locks, NOCHECK included.
    held: AtomicU32,
    /// One byte for each rank, allocated at the first lock or start: fence and lock_all do not need
    /// it.
    targets: OnceLock<Box<[AtomicU8]>>,
    calls: SpinLock<Calls>,
}

#[derive(Default)]
struct Calls {
    /// Locks that were requested and are not granted.
    pending: u32,
    /// The state to return to if the lock fails: whether it was `FENCE`.
    came_from_fence: bool,
    /// Ranks named by start.
    started: Vec<u32>,
    exposure: Option<Exposure>,
    /// Reused list for the next exposure.
    spare: Vec<u32>,
    /// Reused buffer for comparing ranks.
    sorted: Vec<u32>,
}

/// An exposure, from post to wait.
struct Exposure {
    ranks: Vec<u32>,
    /// Number of ranks at the front of the list that have completed.
    waited: usize,
}

impl Calls {
    fn end_exposure(&mut self) {
        if let Some(Exposure { mut ranks, .. }) = self.exposure.take() {
            ranks.clear();
            self.spare = ranks;
        }
    }
}

#[cold]
fn illegal(call: Call, sync: SyncType) -> Error {
    Error::new(
        Status::RMA_SYNC,
        format!("{call:?}: not legal in the window's present epoch, {sync:?}"),
    )
}

impl Epoch {
    /// For a window with `ranks` processes.
    pub fn new(ranks: u32, no_locks: bool) -> Self {
        Epoch {
            access: AtomicU8::new(access::NONE),
            no_locks: AtomicBool::new(no_locks),
            ranks,
            held: AtomicU32::new(0),
            targets: OnceLock::new(),
            calls: SpinLock::default(),
        }
    }

    #[inline]
    fn target(&self, rank: u32) -> u8 {
        let byte = self.targets.get().and_then(|targets| targets.get(rank as usize));
        byte.map_or(target::CLOSED, |byte| byte.load(Ordering::Acquire))
    }

    fn set_target(&self, rank: u32, to: u8) {
        let targets = self
            .targets
            .get_or_init(|| (0..self.ranks).map(|_| AtomicU8::new(target::CLOSED)).collect());
        targets[rank as usize].store(to, Ordering::Release);
    }

    #[inline]
    fn now(&self) -> u8 {
        self.access.load(Ordering::Acquire)
    }

    fn set(&self, to: u8) {
        self.access.store(to, Ordering::Release);
    }

    /// RMA_RANK if there is no such rank.
    #[inline]
    pub fn check_rank(&self, rank: u32) -> Result<()> {
        if rank < self.ranks {
            return Ok(());
        }
        Err(Error::new(Status::RMA_RANK, format!("rank {rank}: the window has {}", self.ranks)))
    }

    /// May this process access the target now? Begins the epoch that a fence permits.
    #[inline]
    pub fn check_access(&self, rank: u32) -> Result<()> {
        let now = self.now();
        if rank < self.ranks
            && (now >= access::ANYWHERE
                || (now <= access::START && self.target(rank) >= target::OPEN))
        {
            return Ok(());
        }
        self.check_first_access(rank)
    }

    #[cold]
    fn check_first_access(&self, rank: u32) -> Result<()> {
        self.check_rank(rank)?;
        let order = Ordering::AcqRel;
        match self.access.compare_exchange(
            access::FENCE,
            access::FENCE_EPOCH,
            order,
            Ordering::Acquire,
        ) {
            // Another thread has begun the epoch.
            Ok(_) | Err(access::FENCE_EPOCH) => Ok(()),
            Err(_) => Err(illegal(Call::Access(rank), self.sync_type(rank))),
        }
    }

    /// Is there a passive access epoch to the target? Flushes and operations with a request need
    /// one.
    #[inline]
    pub fn check_passive(&self, call: Call, rank: u32) -> Result<()> {
        self.check_rank(rank)?;
        if self.is_passive(rank) {
            return Ok(());
        }
        Err(illegal(call, self.sync_type(rank)))
    }

    #[inline]
    fn is_passive(&self, rank: u32) -> bool {
        let now = self.now();
        now >= access::LOCK_ALL || (now == access::LOCK && self.target(rank) >= target::OPEN)
    }

    /// RMA_SYNC unless the call is legal now. Changes nothing. For calls that do something before
    /// the state changes.
    pub fn check(&self, call: Call) -> Result<()> {
        self.check_among(&self.calls.lock(), call)
    }

    fn check_among(&self, calls: &Calls, call: Call) -> Result<()> {
        if let Call::Lock(rank)
        | Call::Unlock(rank)
        | Call::Flush(rank)
        | Call::Access(rank)
        | Call::Request(rank) = call
        {
            self.check_rank(rank)?;
        }
        let (now, exposed) = (self.now(), calls.exposure.is_some());
        let may_leave = matches!(now, access::NONE | access::FENCE);
        let locks = !self.no_locks.load(Ordering::Relaxed);
        let legal = match call {
            Call::Lock(rank) => {
                locks && (may_leave || (now == access::LOCK && self.target(rank) == target::CLOSED))
            }
            Call::Unlock(rank) => now == access::LOCK && self.target(rank) >= target::OPEN,
            Call::LockAll => locks && may_leave,
            Call::UnlockAll => now >= access::LOCK_ALL,
            Call::Flush(rank) | Call::Request(rank) => self.is_passive(rank),
            Call::FlushAll => now >= access::LOCK_ALL || self.held.load(Ordering::Relaxed) > 0,
            Call::Sync => true,
            Call::Post => !exposed && now != access::FENCE_EPOCH,
            Call::Start => may_leave,
            Call::Complete => now == access::START,
            Call::Wait => exposed,
            Call::Fence => {
                !exposed && matches!(now, access::NONE | access::FENCE | access::FENCE_EPOCH)
            }
            Call::Close => !exposed && may_leave,
            Call::Access(rank) => {
                matches!(now, access::FENCE | access::ANYWHERE..)
                    || self.target(rank) >= target::OPEN
            }
        };
        if legal {
            Ok(())
        } else {
            Err(illegal(call, self.sync_type_among(calls, None)))
        }
    }

    /// Requests a target's lock. Returns true if it is held at once: by NOCHECK, or because
    /// `at_once` got it without waiting. Otherwise `grant_lock` or `abandon_lock` has to follow,
    /// and until then the target can neither be accessed nor locked.
    pub fn begin_lock(
        &self,
        rank: u32,
        assertions: Assertions,
        at_once: impl FnOnce() -> Option<LockType>,
    ) -> Result<bool> {
        let mut calls = self.calls.lock();
        self.check_among(&calls, Call::Lock(rank))?;
        let held = if assertions.no_check() {
            Some(target::NO_CHECK)
        } else {
            at_once().map(target::of_lock)
        };
        match self.now() {
            access::LOCK => {}
            before => calls.came_from_fence = before == access::FENCE,
        }
        match held {
            Some(how) => self.hold(&mut calls, rank, how),
            None => {
                self.set_target(rank, target::PENDING);
                calls.pending += 1;
            }
        }
        self.set(access::LOCK);
        Ok(held.is_some())
    }

    fn hold(&self, calls: &mut Calls, rank: u32, how: u8) {
        self.set_target(rank, how);
        self.count_held(1);
        calls.came_from_fence = false;
    }

    /// Only the holder of `calls` writes it.
    fn count_held(&self, change: i32) {
        self.held.store(
            self.held.load(Ordering::Relaxed).wrapping_add_signed(change),
            Ordering::Relaxed,
        );
    }

    /// The requested lock is granted.
    pub fn grant_lock(&self, rank: u32, how: LockType) {
        let mut calls = self.calls.lock();
        debug_assert_eq!(self.target(rank), target::PENDING);
        calls.pending -= 1;
        self.hold(&mut calls, rank, target::of_lock(how));
    }

    /// The requested lock fails: restores the state from before the request.
    pub fn abandon_lock(&self, rank: u32) {
        let mut calls = self.calls.lock();
        debug_assert_eq!(self.target(rank), target::PENDING);
        calls.pending -= 1;
        self.set_target(rank, target::CLOSED);
        let back = if calls.came_from_fence { access::FENCE } else { access::NONE };
        self.leave_lock(&calls, back);
    }

    fn leave_lock(&self, calls: &Calls, to: u8) {
        if calls.pending + self.held.load(Ordering::Relaxed) == 0 {
            self.set(to);
        }
    }

    /// Ends the epoch to one target, and returns what the caller has to release after a flush. The
    /// epoch has ended whatever the flush returns: operations of other threads are refused from
    /// here on, so they cannot follow the flush unnoticed.
    pub fn unlock(&self, rank: u32) -> Result<Held> {
        let calls = self.calls.lock();
        self.check_among(&calls, Call::Unlock(rank))?;
        let held = self.held(rank).expect("checked");
        self.set_target(rank, target::CLOSED);
        self.count_held(-1);
        self.leave_lock(&calls, access::NONE);
        Ok(held)
    }

    /// How the target's lock is held, apart from lock_all.
    #[inline]
    pub fn held(&self, rank: u32) -> Option<Held> {
        match self.target(rank) {
            target::SHARED => Some(Held::Locked(LockType::Shared)),
            target::EXCLUSIVE => Some(Held::Locked(LockType::Exclusive)),
            target::NO_CHECK => Some(Held::NoCheck),
            _ => None,
        }
    }

    /// All targets are locked. The caller calls `check` before it takes the locks.
    pub fn lock_all(&self, assertions: Assertions) -> Result<()> {
        let calls = self.calls.lock();
        self.check_among(&calls, Call::LockAll)?;
        self.set(if assertions.no_check() { access::LOCK_ALL_NO_CHECK } else { access::LOCK_ALL });
        Ok(())
    }

    /// Ends that epoch; see `unlock`.
    pub fn unlock_all(&self) -> Result<Held> {
        let calls = self.calls.lock();
        self.check_among(&calls, Call::UnlockAll)?;
        let held = if self.now() == access::LOCK_ALL {
            Held::Locked(LockType::Shared)
        } else {
            Held::NoCheck
        };
        self.set(access::NONE);
        Ok(held)
    }

    /// Errors: RMA_RANK for a rank that does not exist, INVALID_PARAM for one that is named twice.
    pub fn check_group(&self, ranks: &[u32]) -> Result<()> {
        ranks.iter().try_for_each(|rank| self.check_rank(*rank))?;
        let sorted = &mut self.calls.lock().sorted;
        sorted.clear();
        sorted.extend_from_slice(ranks);
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(Error::invalid(format!("ranks: {} is in the list twice", pair[0]))),
        }
    }

    /// Begins an exposure to these ranks, before they are notified.
    pub fn post(&self, ranks: &[u32]) -> Result<()> {
        self.check_group(ranks)?;
        let mut calls = self.calls.lock();
        self.check_among(&calls, Call::Post)?;
        if self.now() == access::FENCE {
            self.set(access::NONE);
        }
        // A failing lock must not restore the fence's permission either.
        calls.came_from_fence = false;
        let mut list = std::mem::take(&mut calls.spare);
        list.extend_from_slice(ranks);
        calls.exposure = Some(Exposure { ranks: list, waited: 0 });
        Ok(())
    }

    /// Checks the ranks in order until one has not completed. Returns true if all have, which ends
    /// the exposure. Ranks that have been found complete are not checked again.
    pub fn test_exposure(&self, mut has_completed: impl FnMut(u32) -> bool) -> Result<bool> {
        let mut calls = self.calls.lock();
        self.check_among(&calls, Call::Wait)?;
        let exposure = calls.exposure.as_mut().expect("checked");
        while let Some(rank) = exposure.ranks.get(exposure.waited) {
            if !has_completed(*rank) {
                return Ok(false);
            }
            exposure.waited += 1;
        }
        calls.end_exposure();
        Ok(true)
    }

    /// Ends the exposure after a failure. Calls `owes` for each rank that was not found complete:
    /// if it lives it completes later, and that must not count for another exposure.
    pub fn abandon_exposure(&self, owes: impl FnMut(u32)) {
        let mut calls = self.calls.lock();
        if let Some(exposure) = &calls.exposure {
            exposure.ranks[exposure.waited..].iter().copied().for_each(owes);
        }
        calls.end_exposure();
    }

    /// Begins an access epoch to these ranks. The caller calls `check` before it waits for their
    /// posts.
    pub fn start(&self, ranks: &[u32]) -> Result<()> {
        self.check_group(ranks)?;
        let mut calls = self.calls.lock();
        self.check_among(&calls, Call::Start)?;
        ranks.iter().for_each(|rank| self.set_target(*rank, target::STARTED));
        calls.started.clear();
        calls.started.extend_from_slice(ranks);
        self.set(access::START);
        Ok(())
    }

    /// Ends that epoch, and returns the ranks to notify after a flush. See `unlock`.
    pub fn complete(&self) -> Result<Vec<u32>> {
        let mut calls = self.calls.lock();
        self.check_among(&calls, Call::Complete)?;
        self.set(access::NONE);
        let started = std::mem::take(&mut calls.started);
        started.iter().for_each(|rank| self.set_target(*rank, target::CLOSED));
        Ok(started)
    }

    /// Takes the list from `complete` back for reuse.
    pub fn keep_list(&self, list: Vec<u32>) {
        let mut calls = self.calls.lock();
        if calls.started.capacity() == 0 {
            calls.started = list;
        }
    }

    /// Ends the epoch of the last fence, and returns the steps to do. `end_fence` has to follow,
    /// also after an error.
    pub fn begin_fence(&self, assertions: Assertions) -> Result<FencePlan> {
        let calls = self.calls.lock();
        self.check_among(&calls, Call::Fence)?;
        let flush = self.access.swap(access::NONE, Ordering::AcqRel) == access::FENCE_EPOCH
            && !assertions.no_precede();
        Ok(FencePlan { flush, barrier: !(assertions.no_precede() && assertions.no_succeed()) })
    }

    /// Permits the next epoch, unless NOSUCCEED is given.
    pub fn end_fence(&self, assertions: Assertions) {
        let _calls = self.calls.lock();
        self.set(if assertions.no_succeed() { access::NONE } else { access::FENCE });
    }

    /// Sets the hint `no_locks`. An error while there are locks.
    pub fn set_no_locks(&self, no_locks: bool) -> Result<()> {
        let _calls = self.calls.lock();
        if no_locks && matches!(self.now(), access::LOCK | access::LOCK_ALL..) {
            return Err(Error::new(Status::RMA_SYNC, "no_locks: this process holds locks"));
        }
        self.no_locks.store(no_locks, Ordering::Relaxed);
        Ok(())
    }

    /// State of the window for this target.
    pub fn sync_type(&self, rank: u32) -> SyncType {
        self.sync_type_among(&self.calls.lock(), Some(rank))
    }

    /// State of the whole window.
    pub fn window_sync_type(&self) -> SyncType {
        self.sync_type_among(&self.calls.lock(), None)
    }

    fn sync_type_among(&self, calls: &Calls, rank: Option<u32>) -> SyncType {
        let exposed = || match (&calls.exposure, rank) {
            (Some(exposure), Some(rank)) if !exposure.ranks.contains(&rank) => SyncType::None,
            (Some(_), _) => SyncType::Pscw,
            (None, _) => SyncType::None,
        };
        match (self.now(), rank.map(|rank| self.target(rank))) {
            (access::LOCK, None | Some(target::SHARED | target::EXCLUSIVE)) => SyncType::Lock,
            (access::LOCK, Some(target::NO_CHECK)) => SyncType::LockNoCheck,
            (access::START, None | Some(target::STARTED)) => SyncType::Pscw,
            (access::FENCE, _) => SyncType::Fence,
            (access::FENCE_EPOCH, _) => SyncType::FenceEpoch,
            (access::LOCK_ALL, _) => SyncType::LockAll,
            (access::LOCK_ALL_NO_CHECK, _) => SyncType::LockAllNoCheck,
            _ => exposed(),
        }
    }
}

#[cfg(test)]
#[path = "epoch_tests.rs"]
mod tests;
