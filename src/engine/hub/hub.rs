//! Hubs: chunks of data that go from those who produce to those who consume, and lie in envelopes
//! on several devices on their way.
//!
//! **Who owns what.** The hub owns its envelopes: memory of one size, in a pool for each kind of
//! memory. An envelope is free; or leased to a producer; or the target of a transfer; or a replica
//! of a chunk; or trashed, which is what a replica is that has gone from its chunk while somebody
//! still looks at it. Whoever holds a lease may touch the memory, and so may a transfer; nobody
//! else does. A chunk has at least one replica, and at most one of each kind, so there are never
//! more chunks than envelopes: their tables are made when envelopes are added. Handles of leases
//! are slots that are used again. Nothing is allocated but for more of either than there have been
//! so far.
//!
//! **What publishes what.** All of that is tables of numbers (`hub::state`) behind one lock
//! (`base::spin_lock`), which is held for as long as it takes to move some indices, and publishes
//! the memory along with them: what a producer wrote before its commit is what a consumer reads
//! after its lease. Copies and callbacks are done without the lock, by the thread whose call made
//! them possible (`hub::wait`). A hub has a thread of its own only for what GPUs do (`hub::cuda`).
//!
//! A hub that is two queues and nothing else goes by these, without the lock, until it is asked for
//! more: see `hub::lockfree::mode`. Whoever takes the lock for the tables finds everything there,
//! so that nothing else has to know of it.
//!
//! **What happens to a chunk.** A commit appends it. While it is in the queue, it is copied to
//! where it is going to be read (`hub::transfer`): a transfer pins its source and its target, and
//! notes the version of the chunk. A consumer takes it: it stays in the queue, not to be had by its
//! competitors. An abort makes it what it was, the oldest that they can have. A commit lets it go
//! when all have had it who are to, of those that compete one. Its replicas are then free, or
//! trashed until the last that looks at them has done so. A change moves the version on and trashes
//! the other replicas; what a transfer has copied of an older version is dropped. A pop takes the
//! chunk away from all.
//!
//! **Limits.** A producer's lease keeps its place in the queue, in chunks and in bytes, so the
//! limits hold whatever is committed.
//!
//! **The end.** Close refuses producers; readers get what is left, what is being produced, and what
//! is given back, and then CLOSED. A destroyed hub refuses everything at once. What is leased stays
//! where it is until its lease has ended, and so does the hub's memory.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::Worker;
use crate::engine::hub::cuda::Pump;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::link::{starved, too_many_kinds, Link};
use crate::engine::hub::lockfree::mode::Tables;
use crate::engine::hub::lockfree::queue_pair::Lane;
use crate::engine::hub::memory::{Block, Deallocate, MemoryKind};
use crate::engine::hub::records::{HubStats, Retain, Role};
use crate::engine::hub::starvation::stuck;
use crate::engine::hub::state::{State, COMPETING, NONE};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::hub::waiters::Sides;
use crate::engine::os::fork::Generation;
use crate::engine::ucx::context::{forked, Context};
use once_cell::sync::OnceCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Weak};

/// Envelopes in one hub.
const MOST_ENVELOPES: usize = 1 << 24;
/// After the end of the links of a dataflow strategy.
const NOBODY: &str =
    "hub: all links of the dataflow strategy have been destroyed: none that reads can be served";
/// More bytes than any address space holds.
const LARGEST: u64 = 1 << 47;

/// What a hub is made with.
pub struct HubParams {
    /// Bytes of each envelope.
    pub envelope_size: u64,
    /// 0 for no limit.
    pub max_queue_chunks: u64,
    /// 0 for no limit.
    pub max_queue_bytes: u64,
    /// Of the sources of transfers.
    pub retain: Retain,
    /// At a time, in one direction; 0 for the default.
    pub transfers_in_flight: u32,
    /// For transfers from and to the network.
    pub worker: Option<Arc<Worker>>,
}

/// A queue of chunks, and the envelopes that they lie in.
#[repr(C)]
pub struct Hub {
    /// What every call reads is not where every call writes.
    pub(crate) generation: Generation,
    pub(crate) size: u64,
    /// Kept by the tables: see `hub::lockfree::mode`.
    pub(crate) lane: AtomicPtr<Lane<Lease>>,
    pub(crate) context: Arc<Context>,
    pub(crate) worker: Option<Arc<Worker>>,
    pub(crate) me: Weak<Hub>,
    /// From the first CUDA memory on.
    pub(crate) pump: OnceCell<Pump>,
    _apart: CacheLine,
    pub(crate) sides: Sides,
    pub(crate) state: Tables,
}

impl Hub {
    /// One without envelopes.
    pub fn new(context: &Arc<Context>, params: &HubParams) -> Result<Arc<Self>> {
        context.check_fork()?;
        let size = params.envelope_size;
        if size == 0 || size > LARGEST {
            return Err(Error::invalid(format!("envelope_size: {size} bytes are no envelope")));
        }
        let limit = |limit: u64| if limit == 0 { u64::MAX } else { limit };
        if limit(params.max_queue_bytes) < size {
            let text = format!(
                "max_queue_bytes: {} is less than one envelope, {size}: nothing could be produced",
                params.max_queue_bytes
            );
            return Err(Error::invalid(text));
        }
        if let Some(worker) = &params.worker {
            worker.check_usable()?;
            if !Arc::ptr_eq(&worker.context, context) {
                return Err(Error::invalid("worker: is of another context"));
            }
        }
        let depth = if params.transfers_in_flight == 0 { 2 } else { params.transfers_in_flight };
        let state = State::new(
            size,
            limit(params.max_queue_chunks),
            limit(params.max_queue_bytes),
            params.retain,
            depth,
        );
        let hub = Arc::new_cyclic(|me| Hub {
            generation: context.generation,
            size,
            lane: AtomicPtr::new(null_mut()),
            context: context.clone(),
            worker: params.worker.clone(),
            me: me.clone(),
            pump: OnceCell::new(),
            _apart: CacheLine,
            sides: Sides::new(),
            state: Tables::new(state),
        });
        if let Some(worker) = &hub.worker {
            worker.add_hub(&hub);
        }
        Ok(hub)
    }

    /// Refuses use in a forked child.
    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.generation.is_past() {
            return Err(forked("hub"));
        }
        Ok(())
    }

    /// `count` more envelopes of this kind.
    pub fn add_envelopes(&self, kind: MemoryKind, count: usize) -> Result<()> {
        self.check_fork()?;
        kind.check()?;
        if count == 0 {
            return Ok(());
        }
        // Before memory is made that would be refused.
        self.check_room(kind, count)?;
        self.start_pump(kind)?;
        self.add(
            kind,
            Block::make(&self.context, kind, self.size as usize, count, self.worker.is_some())?,
        )
    }

    /// Memory of the caller's as an envelope.
    ///
    /// # Safety
    /// As many bytes as an envelope has, of this kind, which nobody else uses until `deallocate` is
    /// called, or the hub and its leases are gone.
    pub unsafe fn add_buffer(
        &self,
        kind: MemoryKind,
        data: *mut c_void,
        deallocate: Option<Deallocate>,
        arg: *mut c_void,
    ) -> Result<()> {
        self.check_fork()?;
        kind.check()?;
        if (data as u64).checked_add(self.size).is_none() {
            return Err(Error::invalid(format!(
                "data: there are no {} bytes at {data:p}",
                self.size
            )));
        }
        kind.check_buffer(data)?;
        self.start_pump(kind)?;
        // Not before all else has been checked: what is refused is not deallocated.
        self.check_room(kind, 1)?;
        self.add(kind, vec![Block::wrap(data, deallocate, arg)])
    }

    fn check_room(&self, kind: MemoryKind, count: usize) -> Result<()> {
        let mut state = self.state.lock_either();
        let fits = count <= MOST_ENVELOPES.saturating_sub(state.envelopes.len());
        let pool = if fits { state.pool(kind) } else { None };
        drop(state);
        if !fits {
            let text = format!(
                "count: with {count} envelopes more the hub would have over {MOST_ENVELOPES}"
            );
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        if pool.is_none() {
            return Err(Error::new(Status::EXCEEDS_LIMIT, too_many_kinds(kind)));
        }
        Ok(())
    }

    fn add(&self, kind: MemoryKind, blocks: Vec<Block>) -> Result<()> {
        self.check_room(kind, blocks.len())?;
        let mut state = self.state.lock_either();
        if let Some(pool) = state.pool(kind) {
            state.add(pool, blocks);
        }
        state.woken |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// Only these links get chunks from now on; with none of them, all do.
    pub fn set_flow(&self, links: &[&Link]) -> Result<()> {
        self.check_flow(links)?;
        let mut state = self.state.lock();
        state.flow = !links.is_empty();
        for link in &mut state.links {
            link.in_flow = false;
        }
        self.enter_flow(state, links);
        Ok(())
    }

    /// This one, too.
    pub fn add_flow(&self, link: &Link) -> Result<()> {
        self.check_flow(&[link])?;
        let mut state = self.state.lock();
        state.flow = true;
        self.enter_flow(state, &[link]);
        Ok(())
    }

    fn check_flow(&self, links: &[&Link]) -> Result<()> {
        self.check_fork()?;
        for (place, link) in links.iter().enumerate() {
            if !std::ptr::eq(Arc::as_ptr(&link.hub), self) {
                return Err(Error::invalid(format!("links[{place}]: is of another hub")));
            }
            if link.seeker.role == Role::Produce {
                return Err(Error::invalid(format!(
                    "links[{place}]: produces; chunks go to those that read"
                )));
            }
        }
        Ok(())
    }

    fn enter_flow(&self, mut state: SpinLockGuard<'_, State>, links: &[&Link]) {
        for link in links {
            state.links[link.seeker.link as usize].in_flow = true;
        }
        state.count_wants();
        // Where nobody is to read any more an envelope may be given up.
        state.woken |= DATA | ROOM;
        let _ = self.leave(state);
    }

    /// Refuses a hub with a link that can never be served, and names it.
    pub fn validate(&self) -> Result<()> {
        self.check_fork()?;
        let state = self.state.lock_either();
        let served = |number: usize| {
            state.links[number].role == Role::Produce || state.is_served(number as u32)
        };
        let hungry = (0..state.links.len()).find(|number| {
            let link = &state.links[*number];
            link.alive && served(*number) && state.pools[link.pool as usize].total == 0
        });
        let still = (0..state.links.len()).find(|number| {
            let link = &state.links[*number];
            link.alive && served(*number) && state.stands_still(&link.seeker(*number as u32))
        });
        let lost = state.flow && !state.links.iter().any(|link| link.alive && link.in_flow);
        let Some(number) = hungry.or(still) else {
            drop(state);
            return if lost { Err(Error::new(Status::STARVED, NOBODY)) } else { Ok(()) };
        };
        let seeker = state.links[number].seeker(number as u32);
        let (kind, handle) = (state.pools[seeker.pool as usize].kind, state.handle_of(&seeker));
        drop(state);
        let text = match hungry {
            Some(_) => starved(seeker.role, handle, kind, 1),
            None => stuck(seeker.role, handle, kind),
        };
        Err(Error::new(Status::STARVED, text))
    }

    /// For a call of the hub's own. STARVED where it knows no such memory, and so has no envelope
    /// there.
    fn seeker(&self, role: Role, kind: MemoryKind) -> Result<LeaseRequest> {
        self.check_fork()?;
        kind.check()?;
        let pool = self.state.lock_either().pool_of(kind);
        let seeker = |pool| LeaseRequest {
            role,
            pool,
            unit: COMPETING,
            link: NONE,
            autocommit: false,
            settled: false,
        };
        match pool {
            Some(pool) => Ok(seeker(pool)),
            None => Err(Error::new(Status::STARVED, starved(role, None, kind, 1))),
        }
    }

    /// An envelope for a chunk that no link produces; none where there is none.
    pub fn push(&self, kind: MemoryKind) -> Result<Option<*const Lease>> {
        self.lease(&self.seeker(Role::Produce, kind)?, 1, 0)
    }

    /// The top chunk, copied to where it is asked for if need be.
    pub fn peek(&self, kind: MemoryKind, timeout_ns: u64) -> Result<Option<*const Lease>> {
        let seeker = self.seeker(Role::Peek, kind)?;
        let mut state = self.state.lock();
        let there = match state.look(&seeker) {
            Ok(found) => {
                let number = state.take(&seeker, found);
                Some(Ok(self.hand_out(&mut state, number)))
            }
            Err(Refusal::NotNow) => {
                // As long as this is wanted, the hub copies.
                state.pools[seeker.pool as usize].demand += 1;
                None
            }
            Err(refusal) => {
                state.forgive(refusal);
                Some(Err(refusal))
            }
        };
        let _ = self.leave(state);
        match there {
            Some(Ok(lease)) => Ok(Some(lease)),
            Some(Err(refusal)) => Err(self.refused(&seeker, refusal)),
            None => {
                let leased = self.lease(&seeker, 0, timeout_ns);
                let mut state = self.state.lock();
                state.pools[seeker.pool as usize].demand -= 1;
                // The copy may be one that can be given up now.
                state.woken |= ROOM;
                let _ = self.leave(state);
                leased
            }
        }
    }

    /// Takes the top chunk away, also from those who have not had it.
    pub fn pop(&self) -> Result<()> {
        self.check_fork()?;
        let mut state = self.state.lock();
        let top = state.head;
        let leased = top != NONE && state.chunks[top as usize].leases > 0;
        if top == NONE || leased {
            drop(state);
            let answer = if leased {
                Error::new(Status::BUSY, "hub: the top chunk is leased")
            } else {
                Error::new(Status::NO_ELEM, "hub: there is no chunk in the queue")
            };
            return Err(answer);
        }
        state.remove(top);
        state.woken |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// Chunks in the queue.
    pub fn length(&self) -> usize {
        if self.generation.is_past() {
            return 0;
        }
        self.state.lock_either().stats().queued_chunks as usize
    }

    /// No more chunks are produced.
    pub fn close(&self) -> Result<()> {
        self.check_fork()?;
        let mut state = self.state.lock();
        state.closed = true;
        state.woken |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// Waits until the queue is empty, and nothing is being produced. False when the time ran out.
    pub fn drain(&self, timeout_ns: u64) -> Result<bool> {
        self.check_fork()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(from_callback());
        }
        Ok(self.wait_for(1, timeout_ns, State::is_drained).is_some())
    }

    /// What has happened, and what is where.
    pub fn stats(&self) -> Result<HubStats> {
        self.check_fork()?;
        Ok(self.state.lock_either().stats())
    }

    /// Ends the hub, but for what is leased. In a forked child nothing is done.
    pub fn destroy(self: Arc<Self>) {
        if self.generation.is_past() {
            std::mem::forget(self);
            return;
        }
        // What streams have done by now does not keep the hub: then it ends here, and not on its
        // thread, perhaps beside the end of the process.
        if let Some(pump) = self.pump.get() {
            pump.settle();
        }
        let mut state = self.state.lock();
        (state.closed, state.destroyed) = (true, true);
        let streams: Vec<_> =
            state.links.iter().filter_map(|link| link.watch.stream.clone()).collect();
        // Whoever is inside it on behalf of a lease that has ended may have nothing else that keeps
        // it.
        if state.leases > 0 || state.copies > 0 || state.calls > 0 {
            state.kept = Some(self.clone());
        }
        state.woken |= DATA | ROOM;
        let retired = self.leave(state);
        // A callback that this is called from is not to be followed by others.
        self.state.lock().forget_callbacks();
        streams.iter().for_each(|stream| stream.give_up());
        self.await_callbacks(None);
        drop(retired);
    }
}
