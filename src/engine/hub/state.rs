//! The tables of a hub: envelopes, chunks, links and leases. Flat tables, linked by index. The
//! hub's lock guards all of them; see `hub`.
#![deny(unsafe_code)]

use crate::engine::base::status::Error;
use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::LeaseRecord;
use crate::engine::hub::lockfree::mode::Mode;
use crate::engine::hub::lockfree::queue_pair::QueuePair;
use crate::engine::hub::memory::{Block, MemoryKind};
use crate::engine::hub::records::{Chunk, Envelope, HubStats, Link, Pool, Retain, Stage};
use std::collections::VecDeque;
use std::sync::Arc;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;
/// Length of an envelope before it is known.
pub(crate) const UNSET: u64 = u64::MAX;
/// Most kinds of memory in one hub: a set of them is a word.
pub(crate) const MOST_POOLS: usize = 32;
/// Bit 0 of a set of consumers: all competing ones. Each other bit is one broadcast consumer.
pub(crate) const COMPETING: u64 = 1;

pub(crate) struct State {
    /// Size of an envelope.
    pub(crate) size: u64,
    pub(crate) max_chunks: u64,
    pub(crate) max_bytes: u64,
    pub(crate) retain: Retain,
    /// Most transfers at a time from one pool to another.
    pub(crate) depth: u32,
    pub(crate) pools: Vec<Pool>,
    /// Transfers in progress, by source and target.
    pub(crate) in_flight: Vec<u32>,
    pub(crate) envelopes: Vec<Envelope>,
    pub(crate) chunks: Vec<Chunk>,
    pub(crate) free_chunk: u32,
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) queued: u64,
    pub(crate) queued_bytes: u64,
    /// Productions in progress; each reserves a place in the queue.
    pub(crate) reserved: u64,
    /// Of those, envelopes that a stream has leased for chunks that its peer has not sent yet.
    pub(crate) lent: u64,
    /// Streams that bring chunks.
    pub(crate) sources: u32,
    /// A stream has reported the end of its peer's hub.
    pub(crate) source_ended: bool,
    /// Streams that take chunks away and have not reported the end to their peer.
    pub(crate) drains: u32,
    pub(crate) next_order: u64,
    pub(crate) links: Vec<Link>,
    /// Number of live competing consumers.
    pub(crate) competing: u32,
    /// Bits of live broadcast consumers.
    pub(crate) broadcast: u64,
    /// Bits in use, also by destroyed links that still have leases.
    pub(crate) units: u64,
    /// By bit: the first chunk that this consumer may still get.
    pub(crate) cursors: [u32; 64],
    /// There is a dataflow strategy.
    pub(crate) flow: bool,
    pub(crate) lease_records: Vec<LeaseRecord>,
    pub(crate) free_record: u32,
    pub(crate) leases: u32,
    pub(crate) copies: u32,
    /// Callbacks and descriptor signals in progress outside the lock.
    pub(crate) calls: u32,
    pub(crate) closed: bool,
    pub(crate) destroyed: bool,
    /// Links with a callback, a stream or an armed descriptor.
    pub(crate) watched: u32,
    /// Number of chunks that were added, removed or changed.
    pub(crate) changes: u64,
    /// The link that is checked first for a callback.
    pub(crate) turn: u32,
    /// Sides to wake when the lock is released.
    pub(crate) wake_mask: u8,
    /// Sides on which threads sleep or have slept: see `hub::waiters`.
    pub(crate) asleep: u8,
    /// Threads that also wait for other hubs, or progress the worker while they wait.
    pub(crate) external_waiters: u32,
    /// Callers' handles of leases, by number, in blocks that do not move.
    pub(crate) handles: Vec<Box<[Lease]>>,
    /// Keeps the hub alive until its last lease has ended.
    pub(crate) kept: Option<Arc<Hub>>,
    /// Streams have left marks on envelopes: see `hub::cuda`.
    pub(crate) marked: bool,
    /// The last error of a caller's stream.
    pub(crate) stream_fault: Option<Error>,
    pub(crate) stats: HubStats,
    /// Where the hub's content is: here, or in `queues`.
    pub(crate) mode: Mode,
    /// The queues that the hub runs on, or ran on; threads may still read them.
    pub(crate) queues: Option<Arc<QueuePair<Lease>>>,
    /// Chunks that were given back in lock-free mode: their positions and envelopes.
    pub(crate) returned: VecDeque<(u64, u32)>,
}

/// The bits of a set of pools, one by one.
pub(crate) fn bits(mut set: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros())?;
        set &= set - 1;
        Some(bit)
    })
}

impl State {
    pub(crate) fn new(
        size: u64,
        max_chunks: u64,
        max_bytes: u64,
        retain: Retain,
        depth: u32,
    ) -> Self {
        State {
            size,
            max_chunks,
            max_bytes,
            retain,
            depth,
            pools: Vec::new(),
            in_flight: Vec::new(),
            envelopes: Vec::new(),
            chunks: Vec::new(),
            free_chunk: NONE,
            head: NONE,
            tail: NONE,
            queued: 0,
            queued_bytes: 0,
            reserved: 0,
            lent: 0,
            sources: 0,
            source_ended: false,
            drains: 0,
            next_order: 0,
            links: Vec::new(),
            competing: 0,
            broadcast: 0,
            units: COMPETING,
            cursors: [NONE; 64],
            flow: false,
            lease_records: Vec::new(),
            free_record: NONE,
            leases: 0,
            copies: 0,
            calls: 0,
            closed: false,
            destroyed: false,
            watched: 0,
            changes: 0,
            turn: 0,
            wake_mask: 0,
            asleep: 0,
            external_waiters: 0,
            handles: Vec::new(),
            kept: None,
            marked: false,
            stream_fault: None,
            stats: HubStats::default(),
            mode: Mode::Undecided,
            queues: None,
            returned: VecDeque::new(),
        }
    }

    pub(crate) fn pool_of(&self, kind: MemoryKind) -> Option<u32> {
        self.pools.iter().position(|pool| pool.kind == kind).map(|pool| pool as u32)
    }

    /// The pool of this kind, created if necessary; `None` if there are too many.
    pub(crate) fn pool(&mut self, kind: MemoryKind) -> Option<u32> {
        if let found @ Some(_) = self.pool_of(kind) {
            return found;
        }
        if self.pools.len() == MOST_POOLS {
            return None;
        }
        if self.queues().is_some() {
            self.enter_tables();
        }
        self.pools.push(Pool {
            kind,
            free: NONE,
            free_count: 0,
            total: 0,
            readers: 0,
            lookers: 0,
            demand: 0,
            fault: None,
        });
        let (before, after) = (self.pools.len() - 1, self.pools.len());
        let mut in_flight = vec![0; after * after];
        for source in 0..before {
            in_flight[source * after..][..before]
                .copy_from_slice(&self.in_flight[source * before..][..before]);
        }
        self.in_flight = in_flight;
        Some(before as u32)
    }

    /// Adds envelopes, and one chunk record for each, as a chunk has at least one.
    pub(crate) fn add(&mut self, pool: u32, blocks: Vec<Block>) {
        if self.queues().is_some() {
            self.enter_tables();
        }
        self.envelopes.reserve(blocks.len());
        self.chunks.reserve(blocks.len());
        for block in blocks {
            let number = self.envelopes.len() as u32;
            let (leases, modifiers, copies) = (0, 0, 0);
            let stage = Stage::Producing;
            let (next, chunk, length) = (NONE, NONE, UNSET);
            self.envelopes.push(Envelope {
                stage,
                pool,
                next,
                chunk,
                leases,
                modifiers,
                copies,
                length,
                block,
            });
            self.put_back(number);
            self.pools[pool as usize].total += 1;
            self.chunks.push(Chunk::empty(self.free_chunk));
            self.free_chunk = self.chunks.len() as u32 - 1;
        }
    }

    /// Takes a free envelope.
    #[inline(always)]
    pub(crate) fn take_free(&mut self, pool: u32, stage: Stage) -> Option<u32> {
        let pool = &mut self.pools[pool as usize];
        if pool.free == NONE {
            return None;
        }
        let number = pool.free;
        let envelope = &mut self.envelopes[number as usize];
        pool.free = envelope.next;
        pool.free_count -= 1;
        envelope.stage = stage;
        if envelope.block.fence.is_marked() {
            envelope.block.fence.forget();
        }
        Some(number)
    }

    /// Makes the envelope free.
    #[inline(always)]
    pub(crate) fn put_back(&mut self, number: u32) {
        let envelope = &mut self.envelopes[number as usize];
        debug_assert!(
            envelope.stage != Stage::Free && envelope.leases == 0 && envelope.copies == 0
        );
        if envelope.stage == Stage::Trashed {
            self.stats.trashed_envelopes -= 1;
        }
        envelope.stage = Stage::Free;
        let pool = &mut self.pools[envelope.pool as usize];
        envelope.next = pool.free;
        pool.free = number;
        pool.free_count += 1;
    }

    /// Frees the envelope if it is trashed and nobody uses it.
    #[inline(always)]
    pub(crate) fn free_if_unused(&mut self, number: u32) {
        let envelope = &self.envelopes[number as usize];
        if envelope.stage == Stage::Trashed && envelope.leases == 0 && envelope.copies == 0 {
            self.put_back(number);
        }
    }

    /// The chunk's replica in this pool; it has one.
    #[inline(always)]
    pub(crate) fn replica(&self, chunk: u32, pool: u32) -> u32 {
        let mut number = self.chunks[chunk as usize].first;
        while self.envelopes[number as usize].pool != pool {
            number = self.envelopes[number as usize].next;
        }
        number
    }

    /// Makes the envelope a replica of the chunk.
    #[inline(always)]
    pub(crate) fn attach(&mut self, number: u32, chunk_number: u32) {
        let (envelope, chunk) =
            (&mut self.envelopes[number as usize], &mut self.chunks[chunk_number as usize]);
        envelope.stage = Stage::Ready;
        envelope.chunk = chunk_number;
        envelope.next = chunk.first;
        chunk.first = number;
        chunk.replicas |= 1 << envelope.pool;
    }

    /// Removes the replica from its chunk.
    pub(crate) fn detach(&mut self, number: u32) {
        let (pool, next, chunk) = {
            let envelope = &self.envelopes[number as usize];
            (envelope.pool, envelope.next, envelope.chunk)
        };
        let chunk = &mut self.chunks[chunk as usize];
        chunk.replicas &= !(1 << pool);
        if chunk.first == number {
            chunk.first = next;
        } else {
            let mut before = chunk.first;
            while self.envelopes[before as usize].next != number {
                before = self.envelopes[before as usize].next;
            }
            self.envelopes[before as usize].next = next;
        }
        self.trash(number);
    }

    /// Frees an envelope that is no longer a replica, or marks it until its last reader is done.
    #[inline(always)]
    pub(crate) fn trash(&mut self, number: u32) {
        let envelope = &mut self.envelopes[number as usize];
        if envelope.leases == 0 && envelope.copies == 0 {
            return self.put_back(number);
        }
        envelope.stage = Stage::Trashed;
        self.stats.trashed_envelopes += 1;
    }

    /// Appends a new chunk to the queue.
    #[inline(always)]
    pub(crate) fn append(&mut self, number: u32, length: u64) {
        let place = self.free_chunk;
        let chunk = &mut self.chunks[place as usize];
        self.free_chunk = chunk.next;
        // Field by field: a struct that is composed first and then copied would be read back before
        // its parts have reached the cache.
        chunk.next = NONE;
        chunk.previous = self.tail;
        chunk.first = NONE;
        (chunk.replicas, chunk.filling, chunk.failed) = (0, 0, 0);
        chunk.order = self.next_order;
        chunk.version = 0;
        (chunk.taken, chunk.passed) = (0, 0);
        chunk.holder = NONE;
        (chunk.leases, chunk.consumers, chunk.modifiers) = (0, 0, 0);
        (chunk.changed, chunk.hidden) = (false, false);
        chunk.bytes = length;
        self.next_order += 1;
        if self.tail == NONE {
            self.head = place;
        } else {
            self.chunks[self.tail as usize].next = place;
        }
        self.tail = place;
        self.envelopes[number as usize].length = length;
        self.attach(number, place);
        self.queued += 1;
        self.changes += 1;
        self.queued_bytes += length;
        self.stats.chunks_produced += 1;
        self.stats.queue_high_water = self.stats.queue_high_water.max(self.queued);
        self.move_cursors(NONE, place);
    }

    /// Removes a chunk from the queue.
    #[inline(always)]
    pub(crate) fn remove(&mut self, place: u32) {
        let (mut number, previous, next) = {
            let chunk = &self.chunks[place as usize];
            (chunk.first, chunk.previous, chunk.next)
        };
        while number != NONE {
            let following = self.envelopes[number as usize].next;
            self.trash(number);
            number = following;
        }
        match previous {
            NONE => self.head = next,
            previous => self.chunks[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.chunks[next as usize].previous = previous,
        }
        self.move_cursors(place, next);
        let chunk = &mut self.chunks[place as usize];
        self.queued -= 1;
        self.changes += 1;
        self.queued_bytes -= chunk.bytes;
        self.stats.chunks_consumed += 1;
        chunk.vanish(self.free_chunk);
        self.free_chunk = place;
    }

    #[inline(always)]
    fn move_cursors(&mut self, from: u32, to: u32) {
        let mut units = self.units;
        while units != 0 {
            let cursor = &mut self.cursors[units.trailing_zeros() as usize];
            if *cursor == from {
                *cursor = to;
            }
            units &= units - 1;
        }
    }

    /// Is this chunk, identified by its order, still in the queue?
    #[inline(always)]
    pub(crate) fn is_there(&self, place: u32, order: u64) -> bool {
        self.chunks.get(place as usize).is_some_and(|chunk| chunk.order == order)
    }

    /// Consumers that have to have a chunk before it is removed.
    #[inline(always)]
    pub(crate) fn consumers(&self) -> u64 {
        self.broadcast | if self.competing > 0 { COMPETING } else { 0 }
    }

    /// Have all consumers had it?
    #[inline(always)]
    pub(crate) fn is_done(&self, place: u32) -> bool {
        let passed = self.chunks[place as usize].passed;
        passed != 0 && self.consumers() & !passed == 0
    }

    /// Does the link get chunks?
    #[inline(always)]
    pub(crate) fn is_served(&self, link: u32) -> bool {
        !self.flow || self.links[link as usize].in_flow
    }

    /// Is there room in the queue for one more production of full length?
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        let chunks = self.queued + self.reserved;
        chunks < self.max_chunks
            && self.queued_bytes.saturating_add((self.reserved + 1).saturating_mul(self.size))
                <= self.max_bytes
    }

    /// The queue is empty, nothing is being produced, and after the end no stream still has to
    /// report it.
    pub(crate) fn is_drained(&mut self) -> Option<()> {
        if let Some(queues) = self.queues() {
            return queues.is_idle(self.envelopes.len() as u64).then_some(());
        }
        let no_end_pending = !self.closed || self.destroyed || self.drains == 0;
        (self.queued == 0 && self.reserved == self.lent && no_end_pending).then_some(())
    }

    /// The counters that users see.
    pub(crate) fn stats(&self) -> HubStats {
        self.stats_of_queues().unwrap_or_else(|| HubStats {
            free_envelopes: self.pools.iter().map(|pool| u64::from(pool.free_count)).sum(),
            queued_chunks: self.queued,
            ..self.stats
        })
    }
}
