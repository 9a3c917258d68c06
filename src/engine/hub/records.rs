//! The entries of a hub's tables: pools, envelopes, chunks, links, and the statistics. The tables
//! are in `state`.
#![deny(unsafe_code)]

use crate::engine::base::status::Error;
use crate::engine::hub::memory::{Block, MemoryKind};
use crate::engine::hub::ready::Watch;
use crate::engine::hub::state::NONE;

/// Order of a chunk that is not in the queue.
const NOWHERE: u64 = u64::MAX;

/// Role of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Produces chunks.
    Produce = 1,
    /// Consumes chunks.
    Consume = 2,
    /// Reads the top chunk.
    Peek = 3,
    /// Changes the top chunk.
    Modify = 4,
}

/// What happens to the source of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retain {
    /// Kept until its envelope is needed and nobody is going to read the chunk there.
    Auto,
    /// Kept until the chunk is consumed.
    Always,
    /// Released at the end of the transfer, unless somebody is going to read the chunk there.
    UntilCopied,
}

/// The envelopes of one kind of memory.
pub(crate) struct Pool {
    pub(crate) kind: MemoryKind,
    /// Head of the list of free envelopes; the last one that was freed is first.
    pub(crate) free: u32,
    pub(crate) free_count: u32,
    pub(crate) total: u32,
    /// Bits of the consumers that read here.
    pub(crate) readers: u64,
    /// Number of peeking and modifying links that read here and are served.
    pub(crate) lookers: u32,
    /// Calls that wait for the top chunk to be copied here.
    pub(crate) demand: u32,
    /// Error of the last copy to this pool that failed.
    pub(crate) fault: Option<Error>,
}

/// State of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Holds nothing.
    Free,
    /// A producer writes it.
    Producing,
    /// A transfer writes it.
    Filling,
    /// A replica of a chunk.
    Ready,
    /// Was a replica, and somebody still reads it.
    Trashed,
}

/// An envelope: its memory and its state.
pub(crate) struct Envelope {
    pub(crate) stage: Stage,
    pub(crate) pool: u32,
    /// The next free envelope, or the next replica of the chunk.
    pub(crate) next: u32,
    pub(crate) chunk: u32,
    pub(crate) leases: u32,
    /// Leases that may change it.
    pub(crate) modifiers: u32,
    /// Transfers that read it.
    pub(crate) copies: u32,
    pub(crate) length: u64,
    pub(crate) block: Block,
}

/// A chunk in the queue.
pub(crate) struct Chunk {
    /// The next chunk in the queue, or the next free record.
    pub(crate) next: u32,
    pub(crate) previous: u32,
    /// Head of the list of replicas.
    pub(crate) first: u32,
    /// Bits of the pools that have a replica.
    pub(crate) replicas: u32,
    /// Bits of the pools to which a transfer is in progress.
    pub(crate) filling: u32,
    /// Bits of the pools to which a copy has failed, while no lease has reported the error.
    pub(crate) failed: u32,
    /// Its number among all chunks of the queue.
    pub(crate) order: u64,
    /// Incremented with each change of the contents.
    pub(crate) version: u32,
    /// Bits of consumers that hold it.
    pub(crate) taken: u64,
    /// Bits of consumers that have had it.
    pub(crate) passed: u64,
    /// Link of the competing consumer that holds it.
    pub(crate) holder: u32,
    pub(crate) leases: u32,
    pub(crate) consumers: u32,
    pub(crate) modifiers: u32,
    /// One of the modifying leases has committed.
    pub(crate) changed: bool,
    /// The consumer that holds it has swapped its only replica away: nobody may read it.
    pub(crate) hidden: bool,
    pub(crate) bytes: u64,
}

/// A link, as the hub sees it.
pub(crate) struct Link {
    pub(crate) alive: bool,
    pub(crate) role: Role,
    pub(crate) pool: u32,
    /// The consumer's bit.
    pub(crate) unit: u64,
    pub(crate) autocommit: bool,
    pub(crate) in_flow: bool,
    pub(crate) leases: u32,
    pub(crate) watch: Watch,
    /// The caller's handle as a number, for error messages.
    pub(crate) handle: usize,
}

/// Statistics for `ucxx_hub_query_stats`.
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
    /// Marks the record as unused.
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
