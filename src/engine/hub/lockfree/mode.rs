//! A hub in its plainest form, and how it goes without the lock.
//!
//! Most hubs are two queues: one kind of host memory, producers, and consumers that compete. There
//! a lease and its end are an exchange on one word each (`hub::lockfree::queue_pair`), where the
//! lock costs two and the tables behind it as much again. Whatever else is asked of a hub asks
//! under the lock, and taking the lock closes the lane: what was in it is entered in the tables,
//! and everything goes on there as if it always had. After some leases that ended under the lock,
//! and nothing else that stands against it, the lane is opened again: with those that have not
//! ended, as two threads that are busy hardly ever have none. Both take a few instructions for each
//! envelope, so they wait the longer the less the lane was used last time.
//!
//! **Who owns what.** While the lane is open the tables are what they were when it was opened, and
//! nobody reads them. An envelope has one handle, of its own number, and is in one of the lane's
//! queues, or is whose who has taken it; that one alone touches it, its memory and its handle.
//! `tenure` and `taken` say of the handle who has it and in which place of the queue it was,
//! written before it is known that it has been taken; so who has closed the lane finds it there.
//!
//! **Nobody sleeps, and nobody is to be told,** while it is open: who wants to says so under the
//! lock. So there is nothing to look for when something has come or gone.
//!
//! **When it is worth it.** The free envelope that is taken is the one that has been free longest,
//! which under the lock is the one that was used last. So it is opened only where all envelopes
//! together stay in a core's cache: with longer ones it is the bytes that cost, and not the calls.

use crate::engine::base::spin_lock::{SpinLock, SpinLockGuard};
use crate::engine::core::worker::deferred;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::LeaseRequest;
use crate::engine::hub::lockfree::queue_pair::{Lane, Missing};
use crate::engine::hub::lockfree::switch::SOON;
use crate::engine::hub::records::Role;
use crate::engine::hub::state::{State, UNSET};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// In `tenure`: what the holder does, and whether its release commits; above, the number of its
/// link.
pub(super) const PRODUCES: u64 = 1;
pub(super) const CONSUMES: u64 = 2;
pub(super) const COMMITS: u64 = 4;
pub(crate) const IN_TABLES: u64 = 8;
pub(super) const LINK: u32 = 8;

/// A hub's tables, behind its lock.
pub(crate) struct Tables(SpinLock<State>);

/// What the tables know of the lane.
pub(crate) struct Plain {
    /// The last one is in use. The others may still be looked at by who found them closed, and have
    /// become too small.
    // They are found by their address, so they do not move when there is another one.
    #[allow(clippy::vec_box)]
    pub(super) lanes: Vec<Box<Lane<Lease>>>,
    pub(crate) is_open: bool,
    /// Leases that have ended since there was last something that stood against it, and how many it
    /// takes.
    pub(crate) calm: u32,
    pub(crate) patience: u32,
    /// `SOON`, but in tests.
    pub(crate) soon: u32,
    /// It was used for all of its envelopes, or more, when it was open.
    pub(super) was_used: bool,
    /// For `enter_leases`: places, numbers, and who has them.
    pub(super) consumed: Vec<(u64, u32, u64)>,
}

impl Plain {
    pub(crate) fn new() -> Self {
        Plain {
            lanes: Vec::new(),
            is_open: false,
            calm: 0,
            patience: SOON,
            soon: SOON,
            was_used: false,
            consumed: Vec::new(),
        }
    }

    /// When so many more leases have ended.
    pub(super) fn try_again_after(&mut self, leases: u32) {
        self.calm = self.patience.saturating_sub(leases);
    }
}

impl Tables {
    pub(crate) fn new(state: State) -> Self {
        Tables(SpinLock::new(state))
    }

    /// With all that there is in them.
    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, State> {
        let mut state = self.0.lock();
        if state.plain.is_open {
            state.close_lane();
        }
        state
    }

    /// The same for what could be done without the lock, where that has failed: it is tried again
    /// if another thread has opened the lane meanwhile, which would be in vain otherwise. Err: what
    /// that has given.
    #[inline(always)]
    pub(crate) fn lock_unless<T>(
        &self,
        plainly: impl FnOnce() -> Option<T>,
    ) -> Result<SpinLockGuard<'_, State>, T> {
        let state = self.0.lock();
        if !state.plain.is_open {
            return Ok(state);
        }
        drop(state);
        self.lock_after(plainly)
    }

    #[cold]
    fn lock_after<T>(
        &self,
        plainly: impl FnOnce() -> Option<T>,
    ) -> Result<SpinLockGuard<'_, State>, T> {
        plainly().map_or_else(|| Ok(self.lock()), Err)
    }
}

/// What a lease of the seeker's has for `tenure`; 0 for one that cannot have one here.
pub(crate) fn tenure(seeker: &LeaseRequest) -> u64 {
    if seeker.settled {
        return 0;
    }
    word(seeker.role, seeker.link, seeker.autocommit)
}

pub(super) fn word(role: Role, link: u32, autocommit: bool) -> u64 {
    let what = match role {
        Role::Produce => PRODUCES,
        Role::Consume => CONSUMES,
        Role::Peek | Role::Modify => return 0,
    };
    u64::from(link) << LINK | if autocommit { COMMITS } else { 0 } | what
}

impl Hub {
    #[inline(always)]
    fn lane(&self) -> Option<&Lane<Lease>> {
        // SAFETY: null, or one that the tables keep as long as the hub is there.
        unsafe { self.lane.load(Ordering::Acquire).as_ref() }
    }

    /// A lease without the lock, at the first look; None says nothing yet.
    #[inline(always)]
    pub(crate) fn try_lease_fast(&self, tenure: u64, timeout_ns: u64) -> Option<*const Lease> {
        let lane = self.lane()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return None;
        }
        if tenure & PRODUCES != 0 {
            let lease = lane.try_take_free(|lease, _| begin(lease, tenure))?;
            // SAFETY: a handle of the hub's, which are there as long as it is.
            unsafe { &*lease }.clear_metadata();
            return Some(lease);
        }
        if tenure & CONSUMES != 0 {
            return Some(lane.try_take_ready(|lease, order| take_over(lease, tenure, order))?);
        }
        None
    }

    /// The same for as long as it takes. Err: it is to be asked for under the lock; Ok(None): there
    /// is none now, and who asks does not wait.
    pub(crate) fn lease_fast(
        &self,
        tenure: u64,
        timeout_ns: u64,
    ) -> Result<Option<*const Lease>, ()> {
        let Some(lane) = self.lane() else { return Err(()) };
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(());
        }
        match take(lane, tenure) {
            Ok(lease) => return Ok(Some(lease)),
            Err(Missing::Closed) => return Err(()),
            Err(Missing::Empty) if timeout_ns == 0 => return Ok(None),
            Err(Missing::Empty) => {}
        }
        // Who is to progress the worker does so instead. To sleep is for under the lock.
        if self.driven().is_some() {
            return Err(());
        }
        let side = usize::from(tenure & PRODUCES != 0);
        self.sides.look_for(side, is_long(timeout_ns), &|| lane.has_some(side) != Ok(false));
        take(lane, tenure).map(Some).map_err(|_| ())
    }

    /// Ends a lease without the lock, at the first look: a commit of so many bytes, or a release.
    /// False says nothing yet.
    #[inline(always)]
    pub(crate) fn try_end_fast(&self, lease: &Lease, length: Option<u64>) -> bool {
        let Some(lane) = self.lane() else { return false };
        self.end_by(
            lease,
            length,
            #[inline(always)]
            |item| lane.try_push_ready(item),
            #[inline(always)]
            |item| lane.try_push_free(item),
        )
    }

    /// The same for as long as it takes. False: it is to be done under the lock, and nothing has
    /// been.
    pub(crate) fn end_fast(&self, lease: &Lease, length: Option<u64>) -> bool {
        self.lane().is_some_and(|lane| {
            self.end_by(lease, length, |item| lane.push_ready(item), |item| lane.push_free(item))
        })
    }

    #[inline(always)]
    fn end_by(
        &self,
        lease: &Lease,
        length: Option<u64>,
        push_ready: impl Fn(*mut Lease) -> bool,
        push_free: impl Fn(*mut Lease) -> bool,
    ) -> bool {
        let tenure = lease.tenure.load(Ordering::Relaxed);
        if length.is_none() && tenure & COMMITS == 0 {
            return false;
        }
        let item = std::ptr::from_ref(lease).cast_mut();
        if tenure & CONSUMES != 0 {
            // Who has it next writes there as well: so this comes before.
            lease.tenure.store(0, Ordering::Relaxed);
            let done = push_free(item);
            if !done {
                lease.tenure.store(tenure, Ordering::Relaxed);
            }
            return done;
        }
        let length = length.unwrap_or(self.size);
        if tenure & PRODUCES == 0 || length > self.size {
            return false;
        }
        let before = lease.length.load(Ordering::Relaxed);
        lease.length.store(length, Ordering::Relaxed);
        lease.tenure.store(0, Ordering::Relaxed);
        let done = push_ready(item);
        if !done {
            lease.length.store(before, Ordering::Relaxed);
            lease.tenure.store(tenure, Ordering::Relaxed);
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.lane().is_some_and(|lane| lane.has_some(0).is_ok())
    }

    /// Is it one with short chunks, for which it pays to look a little longer before going to
    /// sleep, of as long as there is to wait?
    pub(crate) fn is_brisk(&self, timeout_ns: u64) -> bool {
        self.lane().is_some() && is_long(timeout_ns)
    }

    /// Is there something in the lane for this side? A change there moves no word.
    pub(crate) fn is_offered(&self, side: usize) -> bool {
        self.lane().is_some_and(|lane| lane.has_some(side) == Ok(true))
    }

    /// Under the lock, when there are more envelopes: makes all that the lane needs, so that
    /// nothing has to be made when it is opened.
    pub(crate) fn prepare_lane(&self, state: &mut State) {
        let count = state.envelopes.len();
        if !state.is_warm() {
            return;
        }
        self.reserve_handles(state, count);
        state.reserve_terms(count);
        let held = state.plain.consumed.len();
        state.plain.consumed.reserve(count - held);
        if state.plain.lanes.last().is_none_or(|lane| lane.room() < count) {
            let lane = Box::new(Lane::new(count.next_power_of_two()));
            self.lane.store(std::ptr::from_ref(&*lane).cast_mut(), Ordering::Release);
            state.plain.lanes.push(lane);
        }
    }
}

/// Who waits for less than a long look takes is not to wait for more.
fn is_long(timeout_ns: u64) -> bool {
    timeout_ns >= 200_000
}

/// A producer has it.
#[inline(always)]
fn begin(lease: *mut Lease, tenure: u64) {
    // SAFETY: a handle of the hub's, which are there as long as it is.
    let lease = unsafe { &*lease };
    lease.length.store(UNSET, Ordering::Relaxed);
    lease.tenure.store(tenure, Ordering::Relaxed);
}

/// A consumer has it.
#[inline(always)]
fn take_over(lease: *mut Lease, tenure: u64, order: u64) {
    // SAFETY: as above.
    let lease = unsafe { &*lease };
    lease.taken.store(order, Ordering::Relaxed);
    lease.tenure.store(tenure, Ordering::Relaxed);
}

fn take(lane: &Lane<Lease>, tenure: u64) -> Result<*const Lease, Missing> {
    if tenure & PRODUCES != 0 {
        let lease = lane.take_free(|lease, _| begin(lease, tenure))?;
        // SAFETY: as above.
        unsafe { &*lease }.clear_metadata();
        return Ok(lease);
    }
    if tenure & CONSUMES != 0 {
        return Ok(lane.take_ready(|lease, order| take_over(lease, tenure, order))?);
    }
    Err(Missing::Closed)
}

pub(crate) fn no_lane() -> AtomicPtr<Lane<Lease>> {
    AtomicPtr::new(null_mut())
}
