//! Hubs: queues of chunks, from producers to consumers. Chunks lie in envelopes, which may be on
//! several devices.
//!
//! **Ownership.** The hub owns its envelopes: memory of one size, in a pool for each kind of
//! memory. An envelope is in one of these states:
//!
//! - free
//! - leased to a producer
//! - the target of a transfer
//! - a replica of a chunk
//! - trashed: it was a replica, no longer is one, and somebody still reads it
//!
//! Only the holder of a lease and a transfer access the memory. A chunk has at least one replica,
//! and at most one in each pool. So there are never more chunks than envelopes, and their tables
//! are made when envelopes are added. Handles of leases are slots that are reused. Memory is
//! allocated only when there are more chunks or leases than ever before.
//!
//! **Publication.** All of this is tables of numbers (`hub::state`) behind one lock
//! (`base::spin_lock`). It is held while a call moves some indices, and it also publishes the
//! envelopes' memory: what a producer wrote before its commit is visible to a consumer after its
//! lease. Copies and callbacks run without the lock, on the thread whose call made them possible
//! (`hub::wait`). A hub has a thread of its own only for the work of GPUs (`hub::cuda`).
//!
//! A hub that needs no more than two queues runs on them without the lock, until a call needs more:
//! see `hub::lockfree::mode`. A thread that locks the tables finds everything in them, so other
//! code does not know about this.
//!
//! **Life of a chunk.**
//!
//! - A commit appends it to the queue. While it is there, it is copied to the pools where it is
//!   going to be read (`hub::transfer`). A transfer pins its source and target, and notes the
//!   chunk's version.
//! - A consumer leases it. It stays in the queue, but competing consumers cannot get it.
//! - An abort makes it available again, as the oldest chunk.
//! - A commit by the last consumer that has to have it removes it. Of competing consumers one is
//!   enough. Its replicas become free, or trashed until their last reader is done.
//! - A change increments the version and trashes the other replicas. Copies of older versions are
//!   dropped.
//! - A pop removes it for all consumers.
//!
//! **Limits.** A producer's lease reserves its place in the queue, in chunks and in bytes, so
//! commits never exceed the limits.
//!
//! **End.** After close, producers get CLOSED. Readers get the chunks that are left, are being
//! produced or are given back, and then CLOSED. After destroy every call fails at once. Leased
//! envelopes stay until their lease ends, and so does the hub's memory.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::log::{self, Subject};
use crate::engine::base::open_metrics::Serial;
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::monitor::registry::{self, Pulse};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::hub::cuda::GpuThread;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::link::{starved, too_many_kinds, Link};
use crate::engine::hub::lockfree::mode::Tables;
use crate::engine::hub::lockfree::queue_pair::QueuePair;
use crate::engine::hub::memory::{Block, Deallocate, MemoryKind};
use crate::engine::hub::records::{HubStats, Retain, Role};
use crate::engine::hub::sleepers::Sleepers;
use crate::engine::hub::starvation::stuck;
use crate::engine::hub::state::{State, COMPETING, NONE};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::hub::waiters::Waiters;
use crate::engine::os::fork::Generation;
use crate::engine::ucx::context::{forked, Context};
use once_cell::sync::OnceCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::{Arc, Weak};

/// Most envelopes in one hub.
const MOST_ENVELOPES: usize = 1 << 24;
/// Error text after all links of the dataflow strategy are destroyed.
const NOBODY: &str =
    "hub: all links of the dataflow strategy have been destroyed: none that reads can be served";
/// Larger than any address space.
const LARGEST: u64 = 1 << 47;

/// Parameters of a hub.
pub struct HubParams {
    /// Size of each envelope in bytes.
    pub envelope_size: u64,
    /// Most chunks in the queue; 0 for no limit.
    pub max_queue_chunks: u64,
    /// Most bytes in the queue; 0 for no limit.
    pub max_queue_bytes: u64,
    /// What happens to the sources of transfers.
    pub retain: Retain,
    /// Transfers at a time in one direction; 0 for the default.
    pub transfers_in_flight: u32,
    /// For transfers over the network.
    pub worker: Option<Arc<SharedWorker>>,
}

/// A queue of chunks, and the envelopes that they lie in.
#[repr(C)]
pub struct Hub {
    /// Every call reads these fields, so they are apart from those that every call writes.
    pub(crate) generation: Generation,
    pub(crate) size: u64,
    /// The queues that `state` owns, or null: see `hub::lockfree::mode`.
    pub(crate) queues: AtomicPtr<QueuePair<Lease>>,
    pub(crate) context: Arc<Context>,
    pub(crate) worker: Option<Arc<SharedWorker>>,
    pub(crate) me: Weak<Hub>,
    pub(crate) serial: Serial,
    /// Started with the first CUDA memory.
    pub(crate) gpu_thread: OnceCell<GpuThread>,
    _apart: CacheLine,
    pub(crate) waiters: Waiters,
    pub(crate) sleepers: Sleepers,
    pub(crate) state: Tables,
}

/// Such as `worker 1 "rx", hub 0x7f12e4001b80`, with the address that is its handle.
impl Subject for Hub {
    fn subject(&self) -> String {
        match &self.worker {
            Some(worker) => format!("{}, hub {self:p}", worker.subject()),
            None => format!("hub {self:p}"),
        }
    }
}

impl Hub {
    /// Creates a hub without envelopes.
    pub fn new(context: &Arc<Context>, params: &HubParams) -> Result<Arc<Self>> {
        context.check_fork()?;
        let size = params.envelope_size;
        if size == 0 || size > LARGEST {
            return Err(Error::invalid(format!(
                "envelope_size: {size} bytes are not a valid size"
            )));
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
            queues: AtomicPtr::new(null_mut()),
            context: context.clone(),
            worker: params.worker.clone(),
            me: me.clone(),
            serial: Serial::new(),
            gpu_thread: OnceCell::new(),
            _apart: CacheLine,
            waiters: Waiters::new(),
            sleepers: Sleepers::default(),
            state: Tables::new(state),
        });
        trace::start();
        if trace::is_on() {
            // Without a trace, the lock-free mode has nothing to check.
            drop(hub.state.lock());
        }
        if let Some(worker) = &hub.worker {
            worker.add_hub(&hub);
        }
        log::at!(DEBUG, Hub, &*hub, "created, envelopes of {size} bytes");
        let watched: Weak<Hub> = Arc::downgrade(&hub);
        registry::watch(watched, Pulse::default());
        Ok(hub)
    }

    /// Returns an error in a forked child.
    pub(crate) fn check_fork(&self) -> Result<()> {
        if self.generation.is_past() {
            return Err(forked("hub"));
        }
        Ok(())
    }

    /// Adds `count` envelopes of this kind.
    pub fn add_envelopes(&self, kind: MemoryKind, count: usize) -> Result<()> {
        self.check_fork()?;
        kind.check()?;
        if count == 0 {
            return Ok(());
        }
        // Checked before memory is allocated.
        self.check_room(kind, count)?;
        self.start_gpu_thread(kind)?;
        self.add(
            kind,
            Block::make(&self.context, kind, self.size as usize, count, self.worker.is_some())?,
        )
    }

    /// Adds memory of the caller as an envelope.
    ///
    /// # Safety
    /// `data` has the size of an envelope and is of this kind. Nobody else uses it until
    /// `deallocate` is called, or until the hub and its leases are gone.
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
        self.start_gpu_thread(kind)?;
        // The last check: a refused buffer is not deallocated.
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
        state.wake_mask |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// From now on only these links get chunks; with an empty list, all do.
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

    /// Adds one link to those that get chunks.
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
            if link.request.role == Role::Produce {
                return Err(Error::invalid(format!(
                    "links[{place}]: produces; chunks go to those that read"
                )));
            }
        }
        Ok(())
    }

    fn enter_flow(&self, mut state: SpinLockGuard<'_, State>, links: &[&Link]) {
        for link in links {
            state.links[link.request.link as usize].in_flow = true;
        }
        state.count_wants();
        // An envelope where no link reads any more can be reclaimed.
        state.wake_mask |= DATA | ROOM;
        let _ = self.leave(state);
    }

    /// Returns an error that names a link which can never be served.
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
            link.alive && served(*number) && state.is_stuck(&link.request(*number as u32))
        });
        let lost = state.flow && !state.links.iter().any(|link| link.alive && link.in_flow);
        let Some(number) = hungry.or(still) else {
            drop(state);
            return if lost { Err(Error::new(Status::STARVED, NOBODY)) } else { Ok(()) };
        };
        let request = state.links[number].request(number as u32);
        let (kind, handle) = (state.pools[request.pool as usize].kind, state.handle_of(&request));
        drop(state);
        let text = match hungry {
            Some(_) => starved(request.role, handle, kind, 1),
            None => stuck(request.role, handle, kind),
        };
        Err(Error::new(Status::STARVED, text))
    }

    /// The request of a call on the hub itself. Error: STARVED if the hub has no memory of this
    /// kind.
    fn request(&self, role: Role, kind: MemoryKind) -> Result<LeaseRequest> {
        self.check_fork()?;
        kind.check()?;
        let pool = self.state.lock_either().pool_of(kind);
        let request = |pool| LeaseRequest {
            role,
            pool,
            unit: COMPETING,
            link: NONE,
            autocommit: false,
            synced: false,
        };
        match pool {
            Some(pool) => Ok(request(pool)),
            None => Err(Error::new(Status::STARVED, starved(role, None, kind, 1))),
        }
    }

    /// Leases an envelope for a chunk that no link produces. `None` if none is free.
    pub fn push(&self, kind: MemoryKind) -> Result<Option<*const Lease>> {
        self.lease(&self.request(Role::Produce, kind)?, 1, 0)
    }

    /// Leases the top chunk. The hub copies it to this kind of memory if necessary.
    pub fn peek(&self, kind: MemoryKind, timeout_ns: u64) -> Result<Option<*const Lease>> {
        let request = self.request(Role::Peek, kind)?;
        let mut state = self.state.lock();
        let there = match state.look(&request) {
            Ok(found) => {
                let number = state.take(&request, found);
                Some(Ok(self.hand_out(&mut state, number)))
            }
            Err(Refusal::NotNow) => {
                // While this counts, the hub copies the top chunk.
                state.pools[request.pool as usize].demand += 1;
                None
            }
            Err(refusal) => {
                state.clear_failure(refusal);
                Some(Err(refusal))
            }
        };
        let _ = self.leave(state);
        match there {
            Some(Ok(lease)) => Ok(Some(lease)),
            Some(Err(refusal)) => Err(self.refused(&request, refusal)),
            None => {
                let leased = self.lease(&request, 0, timeout_ns);
                let mut state = self.state.lock();
                state.pools[request.pool as usize].demand -= 1;
                // The copy may be one that can be reclaimed now.
                state.wake_mask |= ROOM;
                let _ = self.leave(state);
                leased
            }
        }
    }

    /// Removes the top chunk, also for consumers that have not had it.
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
        state.wake_mask |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// Number of chunks in the queue.
    pub fn length(&self) -> usize {
        if self.generation.is_past() {
            return 0;
        }
        self.state.lock_either().stats().queued_chunks as usize
    }

    /// Ends production: later requests of producers fail.
    pub fn close(&self) -> Result<()> {
        self.check_fork()?;
        let mut state = self.state.lock();
        state.closed = true;
        state.wake_mask |= DATA | ROOM;
        let _ = self.leave(state);
        Ok(())
    }

    /// Waits until the queue is empty and nothing is being produced. Returns false when the time is
    /// over.
    pub fn drain(&self, timeout_ns: u64) -> Result<bool> {
        self.check_fork()?;
        if timeout_ns != 0 && deferred::in_callback() {
            return Err(from_callback());
        }
        Ok(self.wait_for(1, timeout_ns, State::is_drained).is_some())
    }

    /// Counters and current state.
    pub fn stats(&self) -> Result<HubStats> {
        self.check_fork()?;
        Ok(self.state.lock_either().stats())
    }

    /// Destroys the hub; leases continue. Does nothing in a forked child.
    pub fn destroy(self: Arc<Self>) {
        if self.generation.is_past() {
            std::mem::forget(self);
            return;
        }
        log::at!(DEBUG, Hub, &*self, "destroyed");
        registry::forget(&*self);
        // Handles work that streams have finished by now, so that it does not keep the hub. Then
        // the hub ends here, and not on its own thread, perhaps during process exit.
        if let Some(gpu_thread) = self.gpu_thread.get() {
            gpu_thread.settle();
        }
        let mut state = self.state.lock();
        (state.closed, state.destroyed) = (true, true);
        let streams: Vec<_> =
            state.links.iter().filter_map(|link| link.watch.stream.clone()).collect();
        // A thread that is inside the hub for a lease that has ended may have no other reference
        // that keeps it.
        if state.leases > 0 || state.copies > 0 || state.calls > 0 {
            state.kept = Some(self.clone());
        }
        state.wake_mask |= DATA | ROOM;
        let retired = self.leave(state);
        // If this is called from a callback, no other callback may follow.
        self.state.lock().forget_callbacks();
        streams.iter().for_each(|stream| stream.give_up());
        self.await_callbacks(None);
        drop(retired);
    }
}
