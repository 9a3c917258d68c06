//! What the tables of a hub are made of: pools, envelopes, chunks, links, and the numbers that are
//! told of them. The tables themselves are in `state`.
#![deny(unsafe_code)]

use crate::engine::base::status::Error;
use crate::engine::hub::memory::{Block, MemoryKind};
use crate::engine::hub::ready::Watch;
use crate::engine::hub::state::NONE;

/// A chunk that is in no queue.
const NOWHERE: u64 = u64::MAX;

/// What a link does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Makes chunks.
    Produce = 1,
    /// Takes chunks out.
    Consume = 2,
    /// Reads the top chunk.
    Peek = 3,
    /// Changes the top chunk.
    Modify = 4,
}

/// What becomes of the source of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retain {
    /// Kept, until its envelope is needed and nobody waits to read the chunk there.
    Auto,
    /// Kept until the chunk is consumed.
    Always,
    /// Given back with the end of the transfer, unless somebody is to read the chunk there.
    UntilCopied,
}

/// The envelopes of one kind of memory.
pub(crate) struct Pool {
    pub(crate) kind: MemoryKind,
    /// Those that hold nothing, the last one given back first.
    pub(crate) free: u32,
    pub(crate) free_count: u32,
    pub(crate) total: u32,
    /// Consumers that read here.
    pub(crate) readers: u64,
    /// Peeking and modifying links that read here, as long as they are served.
    pub(crate) lookers: u32,
    /// Calls that wait for the top chunk to come here.
    pub(crate) demand: u32,
    /// How the last copy to here ended that failed.
    pub(crate) fault: Option<Error>,
}

/// What an envelope holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Nothing.
    Free,
    /// What a producer writes.
    Producing,
    /// What a transfer writes.
    Filling,
    /// A replica of a chunk.
    Ready,
    /// What was one, and is still looked at.
    Trashed,
}

/// Memory, and what it holds.
pub(crate) struct Envelope {
    pub(crate) stage: Stage,
    pub(crate) pool: u32,
    /// The next one that is free, or the next replica of the chunk.
    pub(crate) next: u32,
    pub(crate) chunk: u32,
    pub(crate) leases: u32,
    /// Those of them that change it.
    pub(crate) modifiers: u32,
    /// Transfers that read it.
    pub(crate) copies: u32,
    pub(crate) length: u64,
    pub(crate) block: Block,
}

/// A piece of data in the queue.
pub(crate) struct Chunk {
    /// The next one in the queue, or the next one that is free.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// Its replicas, linked.
    pub(crate) first: u32,
    /// The pools that they are of.
    pub(crate) replicas: u32,
    /// The pools to which a transfer is on its way.
    pub(crate) filling: u32,
    /// The pools to which a copy has failed, and nobody has been told.
    pub(crate) failed: u32,
    /// Its place in the queue's history.
    pub(crate) order: u64,
    /// Moves on with each change of the contents.
    pub(crate) version: u32,
    /// Consumers that hold it.
    pub(crate) taken: u64,
    /// Consumers that have had it.
    pub(crate) passed: u64,
    /// The link of the competing consumer that holds it.
    pub(crate) holder: u32,
    pub(crate) leases: u32,
    pub(crate) consumers: u32,
    pub(crate) modifiers: u32,
    /// One of those that change it has committed.
    pub(crate) changed: bool,
    /// Its only replica has been swapped away by the consumer that holds it: it is shown to nobody.
    pub(crate) hidden: bool,
    pub(crate) bytes: u64,
}

/// A link as the hub sees it.
pub(crate) struct Link {
    pub(crate) alive: bool,
    pub(crate) role: Role,
    pub(crate) pool: u32,
    /// The bit of a consumer.
    pub(crate) unit: u64,
    pub(crate) autocommit: bool,
    pub(crate) in_flow: bool,
    pub(crate) leases: u32,
    pub(crate) watch: Watch,
    /// The caller's handle, as a number, to name it by.
    pub(crate) handle: usize,
}

/// Numbers for `ucxx_hub_query_stats`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub struct HubStats {
    pub chunks_produced: u64,
    pub chunks_consumed: u64,
    pub transfers: u64,
    pub transfer_bytes: u64,
    pub stale_transfers: u64,
    pub free_envelopes: u64,
    pub leased_envelopes: u64,
    pub queued_chunks: u64,
    pub trashed_envelopes: u64,
    pub queue_high_water: u64,
    pub credit_stalls: u64,
}

impl Chunk {
    /// It is in no queue any more.
    #[inline(always)]
    pub(crate) fn vanish(&mut self, next_free: u32) {
        self.order = NOWHERE;
        self.next = next_free;
    }

    pub(super) fn empty(next: u32) -> Self {
        Chunk {
            next,
            previous: NONE,
            first: NONE,
            replicas: 0,
            filling: 0,
            failed: 0,
            order: NOWHERE,
            version: 0,
            taken: 0,
            passed: 0,
            holder: NONE,
            leases: 0,
            consumers: 0,
            modifiers: 0,
            changed: false,
            hidden: false,
            bytes: 0,
        }
    }
}
