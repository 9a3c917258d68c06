//! A hub that goes by two queues, without its lock, and how long it does.
//!
//! Most hubs are two queues: one kind of host memory, producers, and consumers that compete. There
//! a lease and its end are an exchange on one word each (`hub::lockfree::queue_pair`), where the
//! lock costs two and the tables behind it as much again.
//!
//! **The form.** The first lease chooses it, by the envelopes, limits and links that there are then
//! (`Form`). A hub that goes by its queues goes over to the tables when something is asked of it
//! that only they can do, and stays there: a link that is told or that sees every chunk, another
//! kind of memory or more envelopes, a dataflow strategy, messages and streams to other processes,
//! a lease of the top chunk, or of several at once, a swap, the end. Whoever takes the lock by
//! `Tables::lock` wants the tables; `lock_either` is for what is the same in both.
//!
//! **Who owns what.** As long as it goes by its queues the tables know the envelopes, all free, the
//! links, and who sleeps; nothing of chunks and leases. An envelope has one handle, of its own
//! number, and is in one of the queues, or is whose who has taken it; that one alone touches it,
//! its memory and its handle. `tenure` and `taken` say of the handle who has it and in which place
//! of the queue it was, written before it is known that it has been taken; so who closes the queues
//! finds it there (`switch`).
//!
//! **What is given back** is the oldest chunk again, and so lies beside the queue, behind the lock
//! (`State::returned`); as long as there is any, chunks are taken under the lock.
//!
//! **Who sleeps** has marked the queue to which something is to come, under the lock, before it has
//! looked for the last time. Nobody pushes to a marked queue but under the lock, where he takes the
//! mark away and wakes the side. So there is nothing to look for when nobody sleeps, and whoever
//! ends a lease that another thread waits for is out of the hub before that can end it.

use crate::engine::base::spin_lock::{SpinLock, SpinLockGuard};
use crate::engine::core::worker::deferred;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::lockfree::queue_pair::{Lane, Missing};
use crate::engine::hub::records::{HubStats, Role};
use crate::engine::hub::state::{State, UNSET};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// In `tenure`: what the holder does, and whether its release commits; above, the number of its
/// link.
pub(crate) const PRODUCES: u64 = 1;
pub(super) const CONSUMES: u64 = 2;
pub(super) const COMMITS: u64 = 4;
pub(crate) const IN_TABLES: u64 = 8;
pub(super) const LINK: u32 = 8;

/// The most envelopes: all have their handles, and to go over takes a look at each.
pub(super) const MOST: usize = 1 << 16;

/// A hub's tables, behind its lock.
pub(crate) struct Tables(SpinLock<State>);

/// What a hub goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// There has been no lease so far.
    Undecided,
    Queues,
    /// For good.
    Tables,
}

impl Tables {
    pub(crate) fn new(state: State) -> Self {
        Tables(SpinLock::new(state))
    }

    /// The hub goes by its tables from now on.
    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, State> {
        let mut state = self.0.lock();
        if !state.is_in_tables() {
            state.enter_tables();
        }
        state
    }

    /// Whatever it goes by.
    #[inline(always)]
    pub(crate) fn lock_either(&self) -> SpinLockGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    #[inline(always)]
    pub(crate) fn is_in_tables(&self) -> bool {
        self.form == Form::Tables
    }

    /// The queues that it goes by.
    pub(crate) fn lane(&self) -> Option<&Lane<Lease>> {
        self.lane.as_deref().filter(|_| self.form == Form::Queues)
    }

    /// One kind of memory that no GPU knows, and no limit that could be reached? Whatever else
    /// stands against it has taken the lock for the tables.
    fn is_plain(&self) -> bool {
        let count = self.envelopes.len() as u64;
        let [pool] = &self.pools[..] else { return false };
        !pool.kind.needs_cuda()
            && count <= MOST as u64
            && count <= self.max_chunks
            && count.saturating_mul(self.size) <= self.max_bytes
    }

    /// Somebody of this side is about to look for the last time before it sleeps.
    pub(crate) fn expect(&self, side: usize) {
        if let Some(lane) = self.lane() {
            lane.mark(side);
        }
    }

    /// Has somebody something through this link that the tables do not know of?
    pub(crate) fn is_in_queues(&self, link: u32) -> bool {
        let is_held = |number| {
            let tenure = Hub::handle(self, number).tenure.load(Ordering::Relaxed);
            tenure != 0 && tenure >> LINK == u64::from(link)
        };
        self.lane().is_some() && (0..self.envelopes.len() as u32).any(is_held)
    }

    /// What the queues tell; None where the tables do.
    pub(crate) fn stats_of_queues(&self) -> Option<HubStats> {
        let traffic = self.lane()?.traffic();
        let rest = (self.envelopes.len() as u64).saturating_sub(traffic.free);
        Some(HubStats {
            chunks_produced: traffic.produced,
            chunks_consumed: traffic.consumed,
            free_envelopes: traffic.free,
            leased_envelopes: rest.saturating_sub(traffic.ready + self.returned.len() as u64),
            queued_chunks: traffic.produced.saturating_sub(traffic.consumed),
            queue_high_water: traffic.most,
            ..self.stats
        })
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

    /// The first lease.
    #[cold]
    fn decide(&self, state: &mut State) {
        let count = state.envelopes.len();
        if count == 0 {
            return;
        }
        if !state.is_plain() {
            return state.form = Form::Tables;
        }
        self.reserve_handles(state, count);
        for (number, envelope) in state.envelopes.iter().enumerate() {
            Hub::handle(state, number as u32).point_to(envelope, state.pools[0].kind);
        }
        // In the order in which the tables would give them.
        let handle = |number| std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        let lane = Arc::new(Lane::new((0..count as u32).rev().map(handle)));
        self.lane.store(Arc::as_ptr(&lane).cast_mut(), Ordering::Release);
        (state.form, state.lane) = (Form::Queues, Some(lane));
    }

    /// Under the lock: an envelope out of the queues. None of a hub that goes by its tables, as it
    /// does from now on where only they can serve the seeker.
    #[cold]
    #[inline(never)]
    pub(crate) fn lease_from_queues(
        &self,
        state: &mut State,
        seeker: &LeaseRequest,
    ) -> Option<Result<*const Lease, Refusal>> {
        let tenure = tenure(seeker);
        if tenure == 0 {
            state.enter_tables();
        }
        if state.form == Form::Undecided {
            self.decide(state);
        }
        if tenure & CONSUMES != 0 {
            if let Some(lease) = self.take_returned(state, tenure) {
                return Some(Ok(lease));
            }
        }
        match take::<false>(state.lane()?, tenure) {
            Ok(lease) => Some(Ok(lease)),
            Err(_) => Some(Err(Refusal::NotNow)),
        }
    }

    fn take_returned(&self, state: &mut State, tenure: u64) -> Option<*const Lease> {
        let (order, number) = state.returned.pop_front()?;
        if let (Some(lane), true) = (state.lane(), state.returned.is_empty()) {
            lane.mark_taking(false);
        }
        let lease = std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        take_over(lease, tenure, order);
        Some(lease)
    }

    /// Under the lock: ends a lease where somebody sleeps, or that is given back. The lock, where
    /// it is to be ended in the tables.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_in_queues<'a>(
        &self,
        mut state: SpinLockGuard<'a, State>,
        lease: &Lease,
        (length, aborts): (Option<u64>, bool),
    ) -> Option<SpinLockGuard<'a, State>> {
        let (Some(lane), Form::Queues) = (self.lane(), state.form) else { return Some(state) };
        let tenure = lease.tenure.load(Ordering::Relaxed);
        let aborts = aborts || (length.is_none() && tenure & COMMITS == 0);
        let side = usize::from(aborts == (tenure & PRODUCES != 0));
        lane.unmark(side);
        let done = match tenure & (PRODUCES | CONSUMES) {
            PRODUCES if aborts => hand_on(lease, tenure, |item| lane.push_unused(item)),
            PRODUCES => self.hand_on_chunk(lease, tenure, length, |item| lane.push_most(item)),
            CONSUMES if aborts => hand_on(lease, tenure, |_| {
                let place = (lease.taken.load(Ordering::Relaxed), lease.number());
                let after = state.returned.partition_point(|other| *other < place);
                state.returned.insert(after, place);
                lane.mark_taking(true);
                true
            }),
            CONSUMES => hand_on(lease, tenure, |item| lane.push_free(item)),
            _ => false,
        };
        if !done {
            state.enter_tables();
            return Some(state);
        }
        state.woken |= 1 << side;
        self.unlock(state);
        None
    }

    /// A lease without the lock, at the first look; None says nothing yet.
    #[inline(always)]
    pub(crate) fn try_lease_fast(&self, tenure: u64, timeout_ns: u64) -> Option<*const Lease> {
        let lane = self.lane()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return None;
        }
        take::<true>(lane, tenure).ok()
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
        match take::<false>(lane, tenure) {
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
        take::<false>(lane, tenure).map(Some).map_err(|_| ())
    }

    /// Ends a lease without the lock, at the first look (`QUICK`) or for as long as it takes: a
    /// commit of so many bytes, or a release. False: it is to be done under the lock, or says
    /// nothing yet, and nothing has been.
    #[inline(always)]
    pub(crate) fn end_fast<const QUICK: bool>(&self, lease: &Lease, length: Option<u64>) -> bool {
        let Some(lane) = self.lane() else { return false };
        let tenure = lease.tenure.load(Ordering::Relaxed);
        if length.is_none() && tenure & COMMITS == 0 {
            return false;
        }
        if tenure & CONSUMES != 0 {
            return hand_on(
                lease,
                tenure,
                #[inline(always)]
                |item| if QUICK { lane.try_push_free(item) } else { lane.push_free(item) },
            );
        }
        tenure & PRODUCES != 0
            && self.hand_on_chunk(
                lease,
                tenure,
                length,
                #[inline(always)]
                |item| if QUICK { lane.try_push_ready(item) } else { lane.push_ready(item) },
            )
    }

    /// A new chunk of so many bytes.
    #[inline(always)]
    fn hand_on_chunk(
        &self,
        lease: &Lease,
        tenure: u64,
        length: Option<u64>,
        push: impl FnOnce(*mut Lease) -> bool,
    ) -> bool {
        let length = length.unwrap_or(self.size);
        if length > self.size {
            return false;
        }
        let before = lease.length.load(Ordering::Relaxed);
        lease.length.store(length, Ordering::Relaxed);
        let done = hand_on(lease, tenure, push);
        if !done {
            lease.length.store(before, Ordering::Relaxed);
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.state.lock_either().form == Form::Queues
    }

    /// Does it pay to look a little longer before going to sleep, of as long as there is to wait?
    /// Not for what a GPU does.
    pub(crate) fn is_brisk(&self, timeout_ns: u64) -> bool {
        self.pump.get().is_none() && is_long(timeout_ns)
    }

    /// Is there something in the lane for this side? A change there moves no word.
    pub(crate) fn is_offered(&self, side: usize) -> bool {
        self.lane().is_some_and(|lane| lane.has_some(side) == Ok(true))
    }
}

/// Who waits for less than a long look takes is not to wait for more.
fn is_long(timeout_ns: u64) -> bool {
    timeout_ns >= 200_000
}

/// Nobody has it, once it is pushed.
#[inline(always)]
fn hand_on(lease: &Lease, tenure: u64, push: impl FnOnce(*mut Lease) -> bool) -> bool {
    // Before the push: the next holder writes there as well.
    lease.tenure.store(0, Ordering::Relaxed);
    let done = push(std::ptr::from_ref(lease).cast_mut());
    if !done {
        lease.tenure.store(tenure, Ordering::Relaxed);
    }
    done
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

/// At the first look (`QUICK`), which says nothing yet if it fails, or for as long as it takes.
#[inline(always)]
fn take<const QUICK: bool>(lane: &Lane<Lease>, tenure: u64) -> Result<*const Lease, Missing> {
    if tenure & PRODUCES != 0 {
        let mark = |lease, _| begin(lease, tenure);
        let lease = if QUICK { lane.try_take_free(mark)? } else { lane.take_free(mark)? };
        // SAFETY: as above.
        unsafe { &*lease }.clear_metadata();
        return Ok(lease);
    }
    if tenure & CONSUMES != 0 {
        let mark = |lease, order| take_over(lease, tenure, order);
        return Ok(if QUICK { lane.try_take_ready(mark)? } else { lane.take_ready(mark)? });
    }
    Err(Missing::Closed)
}
