//! Lock-free mode: a hub that runs on two queues without its lock, and when it leaves that mode.
//!
//! Most hubs are simple: one kind of host memory, producers, and competing consumers. Then a lease
//! and its end are one exchange on one word each (`hub::lockfree::queue_pair`). With the lock they
//! would be two, and the tables cost as much again.
//!
//! **Mode.** The first lease chooses it, by the envelopes, limits and links that exist then
//! (`Mode`). A hub in lock-free mode goes over to its tables, for good, when a call needs something
//! that only they can do:
//!
//! - a link with a callback, or a broadcast consumer
//! - another kind of memory, or more envelopes
//! - a dataflow strategy
//! - messages and streams to other processes
//! - a lease of the top chunk, or of several links at once
//! - a swap, close and destroy
//!
//! `Tables::lock` locks and goes over to the tables; `lock_either` is for code that works in both
//! modes.
//!
//! **Ownership.** In lock-free mode the tables know the envelopes (all as free), the links and the
//! sleepers, but no chunks and leases. Each envelope has one handle, of its own number. It is
//! either in one of the queues, or belongs to the thread that has popped it. Only that thread
//! accesses its memory and its handle. It writes the fields `owner` (who holds it) and `taken`
//! (its position in the queue) before it turns the queue's place, so a thread that closes the
//! queues finds them there (`switch`).
//!
//! **Chunks that are given back** are the oldest again. So they are kept beside the queue, under
//! the lock (`State::returned`). While there are any, chunks are taken under the lock.
//!
//! **Sleeping.** A waiter marks the queue that it waits for, under the lock, before it looks for
//! the last time. Pushing to a marked queue needs the lock; the pusher then clears the mark and
//! wakes the side. So nothing has to be checked when nobody sleeps, and a thread that ends a lease
//! for a waiter has left the hub before the waiter can destroy it.

use crate::engine::base::spin_lock::{SpinLock, SpinLockGuard};
use crate::engine::core::worker::deferred;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::lockfree::queue_pair::{Missing, QueuePair};
use crate::engine::hub::records::{HubStats, Role};
use crate::engine::hub::state::{State, UNSET};
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Bits of `owner`: the holder's role, whether its release commits, and whether the tables have
/// the lease. Above them, the number of its link.
pub(crate) const PRODUCES: u64 = 1;
pub(super) const CONSUMES: u64 = 2;
pub(super) const COMMITS: u64 = 4;
pub(crate) const IN_TABLES: u64 = 8;
pub(crate) const LINK: u32 = 8;

/// Most envelopes in this mode: all have handles, and going over visits each.
pub(super) const MOST: usize = 1 << 16;

/// A hub's tables, behind its lock.
pub(crate) struct Tables(SpinLock<State>);

/// Where a hub keeps its chunks and leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// No lease so far.
    Undecided,
    Queues,
    /// Final.
    Tables,
}

impl Tables {
    pub(crate) fn new(state: State) -> Self {
        Tables(SpinLock::new(state))
    }

    /// Locks, and goes over to the tables.
    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinLockGuard<'_, State> {
        let mut state = self.0.lock();
        if !state.is_in_tables() {
            state.enter_tables();
        }
        state
    }

    /// Locks, in whatever mode.
    #[inline(always)]
    pub(crate) fn lock_either(&self) -> SpinLockGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    #[inline(always)]
    pub(crate) fn is_in_tables(&self) -> bool {
        self.mode == Mode::Tables
    }

    /// The queues, in lock-free mode.
    pub(crate) fn queues(&self) -> Option<&QueuePair<Lease>> {
        self.queues.as_deref().filter(|_| self.mode == Mode::Queues)
    }

    /// Does the hub have one kind of host memory, and no limit that could be reached? Everything
    /// else that excludes this mode has called `lock` already.
    fn is_plain(&self) -> bool {
        let count = self.envelopes.len() as u64;
        let [pool] = &self.pools[..] else { return false };
        !pool.kind.needs_cuda()
            && count <= MOST as u64
            && count <= self.max_chunks
            && count.saturating_mul(self.size) <= self.max_bytes
    }

    /// A waiter of this side is about to look for the last time before it sleeps.
    pub(crate) fn expect(&self, side: usize) {
        if let Some(queues) = self.queues() {
            queues.mark(side);
        }
    }

    /// Does this link hold leases that the tables do not know?
    pub(crate) fn is_in_queues(&self, link: u32) -> bool {
        let is_held = |number| {
            let owner = Hub::handle(self, number).owner.load(Ordering::Relaxed);
            owner != 0 && owner >> LINK == u64::from(link)
        };
        self.queues().is_some() && (0..self.envelopes.len() as u32).any(is_held)
    }

    /// Statistics in lock-free mode; `None` in the other.
    pub(crate) fn stats_of_queues(&self) -> Option<HubStats> {
        let traffic = self.queues()?.traffic();
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

/// The value of `owner` for leases of this request; 0 if it needs the tables.
pub(crate) fn owner(request: &LeaseRequest) -> u64 {
    if request.synced {
        return 0;
    }
    word(request.role, request.link, request.autocommit)
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
    fn queues(&self) -> Option<&QueuePair<Lease>> {
        // SAFETY: null, or the queues that the tables keep as long as the hub lives.
        unsafe { self.queues.load(Ordering::Acquire).as_ref() }
    }

    /// Chooses the mode, at the first lease.
    #[cold]
    fn decide(&self, state: &mut State) {
        let count = state.envelopes.len();
        if count == 0 {
            return;
        }
        if !state.is_plain() {
            return state.mode = Mode::Tables;
        }
        self.reserve_handles(state, count);
        for (number, envelope) in state.envelopes.iter().enumerate() {
            Hub::handle(state, number as u32).point_to(envelope, state.pools[0].kind);
        }
        // In the order in which the tables would give them.
        let handle = |number| std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        let queues = Arc::new(QueuePair::new((0..count as u32).rev().map(handle)));
        self.queues.store(Arc::as_ptr(&queues).cast_mut(), Ordering::Release);
        (state.mode, state.queues) = (Mode::Queues, Some(queues));
    }

    /// Takes an envelope from the queues, under the lock. `None` if the hub uses its tables, or
    /// goes over to them here because the request needs them.
    #[cold]
    #[inline(never)]
    pub(crate) fn lease_from_queues(
        &self,
        state: &mut State,
        request: &LeaseRequest,
    ) -> Option<Result<*const Lease, Refusal>> {
        let owner = owner(request);
        if owner == 0 {
            state.enter_tables();
        }
        if state.mode == Mode::Undecided {
            self.decide(state);
        }
        if owner & CONSUMES != 0 {
            if let Some(lease) = self.take_returned(state, owner) {
                return Some(Ok(lease));
            }
        }
        match take::<false>(state.queues()?, owner) {
            Ok(lease) => Some(Ok(lease)),
            Err(_) => Some(Err(Refusal::NotNow)),
        }
    }

    fn take_returned(&self, state: &mut State, owner: u64) -> Option<*const Lease> {
        let (order, number) = state.returned.pop_front()?;
        if let (Some(queues), true) = (state.queues(), state.returned.is_empty()) {
            queues.mark_taking(false);
        }
        let lease = std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        take_over(lease, owner, order);
        Some(lease)
    }

    /// Ends a lease under the lock, if somebody sleeps or the chunk is given back. Returns the lock
    /// if the lease has to be ended in the tables.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_in_queues<'a>(
        &self,
        mut state: SpinLockGuard<'a, State>,
        lease: &Lease,
        (length, aborts): (Option<u64>, bool),
    ) -> Option<SpinLockGuard<'a, State>> {
        let (Some(queues), Mode::Queues) = (self.queues(), state.mode) else { return Some(state) };
        let owner = lease.owner.load(Ordering::Relaxed);
        let aborts = aborts || (length.is_none() && owner & COMMITS == 0);
        let side = usize::from(aborts == (owner & PRODUCES != 0));
        queues.unmark(side);
        let done = match owner & (PRODUCES | CONSUMES) {
            PRODUCES if aborts => hand_on(lease, owner, |item| queues.push_unused(item)),
            PRODUCES => self.hand_on_chunk(lease, owner, length, |item| queues.push_most(item)),
            CONSUMES if aborts => hand_on(lease, owner, |_| {
                let place = (lease.taken.load(Ordering::Relaxed), lease.number());
                let after = state.returned.partition_point(|other| *other < place);
                state.returned.insert(after, place);
                queues.mark_taking(true);
                true
            }),
            CONSUMES => hand_on(lease, owner, |item| queues.push_free(item)),
            _ => false,
        };
        if !done {
            state.enter_tables();
            return Some(state);
        }
        state.wake_mask |= 1 << side;
        self.unlock(state);
        None
    }

    /// Leases without the lock, at the first look. `None` says nothing: call `lease_fast`.
    #[inline(always)]
    pub(crate) fn try_lease_fast(&self, owner: u64, timeout_ns: u64) -> Option<*const Lease> {
        let queues = self.queues()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return None;
        }
        take::<true>(queues, owner).ok()
    }

    /// Leases without the lock, with a short wait. Err: try under the lock. Ok(None): none is
    /// available, and the caller does not wait.
    pub(crate) fn lease_fast(
        &self,
        owner: u64,
        timeout_ns: u64,
    ) -> Result<Option<*const Lease>, ()> {
        let Some(queues) = self.queues() else { return Err(()) };
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(());
        }
        match take::<false>(queues, owner) {
            Ok(lease) => return Ok(Some(lease)),
            Err(Missing::Closed) => return Err(()),
            Err(Missing::Empty) if timeout_ns == 0 => return Ok(None),
            Err(Missing::Empty) => {}
        }
        // A thread that has to progress the worker does that instead. Sleeping needs the lock.
        if self.driven().is_some() {
            return Err(());
        }
        let side = usize::from(owner & PRODUCES != 0);
        self.waiters.look_for(side, is_long(timeout_ns), &|| queues.has_some(side) != Ok(false));
        take::<false>(queues, owner).map(Some).map_err(|_| ())
    }

    /// Ends a lease without the lock, by a commit of `length` bytes or a release. `QUICK` looks
    /// once only. Returns false if nothing was done: it needs the lock, or `QUICK` failed.
    #[inline(always)]
    pub(crate) fn end_fast<const QUICK: bool>(&self, lease: &Lease, length: Option<u64>) -> bool {
        let Some(queues) = self.queues() else { return false };
        let owner = lease.owner.load(Ordering::Relaxed);
        if length.is_none() && owner & COMMITS == 0 {
            return false;
        }
        if owner & CONSUMES != 0 {
            return hand_on(
                lease,
                owner,
                #[inline(always)]
                |item| if QUICK { queues.try_push_free(item) } else { queues.push_free(item) },
            );
        }
        owner & PRODUCES != 0
            && self.hand_on_chunk(
                lease,
                owner,
                length,
                #[inline(always)]
                |item| if QUICK { queues.try_push_ready(item) } else { queues.push_ready(item) },
            )
    }

    /// Pushes a new chunk.
    #[inline(always)]
    fn hand_on_chunk(
        &self,
        lease: &Lease,
        owner: u64,
        length: Option<u64>,
        push: impl FnOnce(*mut Lease) -> bool,
    ) -> bool {
        let length = length.unwrap_or(self.size);
        if length > self.size {
            return false;
        }
        let before = lease.length.load(Ordering::Relaxed);
        lease.length.store(length, Ordering::Relaxed);
        let done = hand_on(lease, owner, push);
        if !done {
            lease.length.store(before, Ordering::Relaxed);
        }
        done
    }

    #[cfg(test)]
    pub(crate) fn is_plain_now(&self) -> bool {
        self.state.lock_either().mode == Mode::Queues
    }

    /// Is it worth polling a little longer before sleeping? Not if a GPU's work is awaited.
    pub(crate) fn is_brisk(&self, timeout_ns: u64) -> bool {
        self.gpu_thread.get().is_none() && is_long(timeout_ns)
    }

    /// Is there something in the queues for this side? Without sleepers a push changes no word.
    pub(crate) fn is_offered(&self, side: usize) -> bool {
        self.queues().is_some_and(|queues| queues.has_some(side) == Ok(true))
    }
}

/// A thread whose timeout is shorter than a long poll does not start one.
fn is_long(timeout_ns: u64) -> bool {
    timeout_ns >= 200_000
}

/// Clears the owner and pushes the item.
#[inline(always)]
fn hand_on(lease: &Lease, owner: u64, push: impl FnOnce(*mut Lease) -> bool) -> bool {
    // Before the push, as the next owner writes this word, too.
    lease.owner.store(0, Ordering::Relaxed);
    let done = push(std::ptr::from_ref(lease).cast_mut());
    if !done {
        lease.owner.store(owner, Ordering::Relaxed);
    }
    done
}

/// Notes a producer as the owner.
#[inline(always)]
fn begin(lease: *mut Lease, owner: u64) {
    // SAFETY: a handle of the hub; handles live as long as the hub.
    let lease = unsafe { &*lease };
    lease.length.store(UNSET, Ordering::Relaxed);
    lease.owner.store(owner, Ordering::Relaxed);
}

/// Notes a consumer as the owner.
#[inline(always)]
fn take_over(lease: *mut Lease, owner: u64, order: u64) {
    // SAFETY: a handle of the hub; handles live as long as the hub.
    let lease = unsafe { &*lease };
    lease.taken.store(order, Ordering::Relaxed);
    lease.owner.store(owner, Ordering::Relaxed);
}

/// Pops an item. `QUICK` looks once only, and its failure says nothing.
#[inline(always)]
fn take<const QUICK: bool>(queues: &QueuePair<Lease>, owner: u64) -> Result<*const Lease, Missing> {
    if owner & PRODUCES != 0 {
        let mark = |lease, _| begin(lease, owner);
        let lease = if QUICK { queues.try_take_free(mark)? } else { queues.take_free(mark)? };
        // SAFETY: a handle of the hub; handles live as long as the hub.
        unsafe { &*lease }.clear_metadata();
        return Ok(lease);
    }
    if owner & CONSUMES != 0 {
        let mark = |lease, order| take_over(lease, owner, order);
        return Ok(if QUICK { queues.try_take_ready(mark)? } else { queues.take_ready(mark)? });
    }
    Err(Missing::Closed)
}
