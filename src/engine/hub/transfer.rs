//! Transfers: which chunk is copied where, and which replica is reclaimed for it. The tables' part;
//! `hub::wait` and `hub::cuda` do the copying.
//!
//! The oldest chunk comes first. The links that are served decide where a chunk is wanted: a
//! consumer wants each chunk that it has not had; a peeking or modifying link wants all, as each
//! will be the top chunk. A transfer holds its source and target envelope, but not the chunk. If
//! the chunk is consumed or changed meanwhile, the copy is dropped.
#![deny(unsafe_code)]

use crate::engine::base::status::Error;
use crate::engine::hub::cuda::Mark;
use crate::engine::hub::memory::{MemoryKind, Span};
use crate::engine::hub::records::{Retain, Role, Stage};
use crate::engine::hub::state::{bits, State, COMPETING, NONE};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::ucx::memory_type::CUDA;
use std::sync::Arc;

/// A copy to be made, or in progress.
pub(crate) struct Transfer {
    chunk: u32,
    order: u64,
    version: u32,
    source: u32,
    target: u32,
    pub(crate) from: Span,
    pub(crate) to: Span,
    pub(crate) length: u64,
    pub(crate) from_kind: MemoryKind,
    pub(crate) to_kind: MemoryKind,
    /// Marks that a GPU has to wait for before it copies.
    pub(crate) after: [Option<Arc<Mark>>; 2],
}

impl Transfer {
    pub(crate) fn is_by_gpu(&self) -> bool {
        self.from_kind.memory_type == CUDA || self.to_kind.memory_type == CUDA
    }
}

impl State {
    /// Counts again what the served links want, after a change of links.
    pub(crate) fn count_wants(&mut self) {
        for pool in &mut self.pools {
            (pool.readers, pool.lookers) = (0, 0);
        }
        for number in 0..self.links.len() {
            let link = &self.links[number];
            if !link.alive || link.role == Role::Produce || !self.is_served(number as u32) {
                continue;
            }
            let pool = &mut self.pools[link.pool as usize];
            match link.role {
                Role::Consume => pool.readers |= link.unit,
                _ => pool.lookers += 1,
            }
        }
    }

    /// The pools in which the chunk is going to be read.
    fn wanted(&self, place: u32) -> u32 {
        self.wanted_by_all_but(self.chunks[place as usize].passed, place)
    }

    /// The same without these consumers.
    fn wanted_by_all_but(&self, had: u64, place: u32) -> u32 {
        let top = self.head == place;
        let mut wanted = 0;
        for (number, pool) in self.pools.iter().enumerate() {
            let here = pool.lookers > 0 || pool.readers & !had != 0 || (top && pool.demand > 0);
            wanted |= u32::from(here) << number;
        }
        wanted
    }

    /// The pool where the consumer that holds the chunk may have swapped its replica away. A new
    /// copy there would only serve its competitors. They get the chunk only if it is given back,
    /// and then the held envelope is there. Empty if others read it there, too.
    fn swapped_away(&self, place: u32) -> u32 {
        let chunk = &self.chunks[place as usize];
        if chunk.taken & COMPETING == 0 || chunk.holder == NONE {
            return 0;
        }
        let pool = 1 << self.links[chunk.holder as usize].pool;
        pool & !self.wanted_by_all_but(chunk.passed | COMPETING, place)
    }

    /// Starts the next possible transfer, as far as the tables are concerned.
    pub(crate) fn begin_transfer(&mut self) -> Option<Transfer> {
        if self.pools.len() < 2 || self.destroyed {
            return None;
        }
        let mut exhausted = 0;
        for (number, pool) in self.pools.iter().enumerate() {
            exhausted |= u32::from(pool.total == 0) << number;
        }
        let mut place = self.head;
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            if chunk.modifiers == 0 && !chunk.hidden {
                let mut missing = self.wanted(place)
                    & !(chunk.replicas | chunk.filling | chunk.failed | exhausted);
                if missing != 0 {
                    missing &= !self.swapped_away(place);
                }
                for pool in bits(missing) {
                    let Some(source) = self.source(place, pool) else { continue };
                    if self.marked && !self.is_copied_from(source, pool, place) {
                        continue;
                    }
                    if self.pools[pool as usize].free == NONE
                        && !self.reclaim(pool, self.chunks[place as usize].order, false)
                    {
                        exhausted |= 1 << pool;
                        continue;
                    }
                    return self.begin(place, source, pool);
                }
            }
            place = self.chunks[place as usize].next;
        }
        None
    }

    /// The replica to copy from, preferably on the host. `None` while there are too many transfers
    /// in this direction.
    fn source(&self, place: u32, target: u32) -> Option<u32> {
        let replicas = self.chunks[place as usize].replicas;
        let host = |pool: &u32| self.pools[*pool as usize].kind.is_host();
        let free = |pool: &u32| {
            self.in_flight[*pool as usize * self.pools.len() + target as usize] < self.depth
        };
        let pool = bits(replicas).filter(free).max_by_key(host)?;
        Some(self.replica(place, pool))
    }

    /// Can a transfer from this replica begin, in view of streams that write it? If such a stream
    /// has failed it never can, and the copy counts as failed.
    fn is_copied_from(&mut self, source: u32, target: u32, place: u32) -> bool {
        if self.is_written(source) {
            return true;
        }
        let envelope = &self.envelopes[source as usize];
        if envelope.block.fence.written.as_ref().is_some_and(|mark| mark.is_pending()) {
            let on_gpu = |pool: u32| self.pools[pool as usize].kind.memory_type == CUDA;
            return on_gpu(envelope.pool) || on_gpu(target);
        }
        self.chunks[place as usize].failed |= 1 << target;
        self.pools[target as usize].fault = self.stream_fault.clone();
        self.wake_mask |= DATA;
        false
    }

    fn begin(&mut self, place: u32, source: u32, pool: u32) -> Option<Transfer> {
        let target = self.take_free(pool, Stage::Filling)?;
        let (from, length, source_pool) = {
            let envelope = &mut self.envelopes[source as usize];
            envelope.copies += 1;
            (envelope.block.span(), envelope.length, envelope.pool)
        };
        let pools = self.pools.len();
        self.in_flight[source_pool as usize * pools + pool as usize] += 1;
        self.copies += 1;
        let chunk = &mut self.chunks[place as usize];
        chunk.filling |= 1 << pool;
        let (order, version) = (chunk.order, chunk.version);
        let to = self.envelopes[target as usize].block.span();
        let after = if self.marked {
            let written = &self.envelopes[source as usize].block.fence.written;
            let used = self.envelopes[target as usize].block.fence.before_writing();
            [written.clone().filter(|mark| mark.is_pending()), used.cloned()]
        } else {
            [None, None]
        };
        let (from_kind, to_kind) =
            (self.pools[source_pool as usize].kind, self.pools[pool as usize].kind);
        Some(Transfer {
            chunk: place,
            order,
            version,
            source,
            target,
            from,
            to,
            length,
            from_kind,
            to_kind,
            after,
        })
    }

    /// Ends a transfer: the copy is done, or has failed.
    pub(crate) fn end_transfer(&mut self, transfer: &Transfer, error: Option<Error>) {
        let (source, target) = (transfer.source, transfer.target);
        let pool = self.envelopes[target as usize].pool;
        let pools = self.pools.len();
        self.in_flight[self.envelopes[source as usize].pool as usize * pools + pool as usize] -= 1;
        self.copies -= 1;
        self.envelopes[source as usize].copies -= 1;
        self.free_if_unused(source);
        let mut is_stale = true;
        if self.is_there(transfer.chunk, transfer.order) {
            let chunk = &mut self.chunks[transfer.chunk as usize];
            chunk.filling &= !(1 << pool);
            is_stale = chunk.version != transfer.version || chunk.hidden;
            chunk.failed |= u32::from(error.is_some() && !is_stale) << pool;
        }
        if let Some(error) = error {
            self.pools[pool as usize].fault = Some(error);
            self.put_back(target);
        } else if is_stale {
            self.stats.stale_transfers += 1;
            self.put_back(target);
        } else {
            self.stats.transfers += 1;
            self.stats.transfer_bytes += transfer.length;
            self.envelopes[target as usize].length = transfer.length;
            self.attach(target, transfer.chunk);
            if self.retain == Retain::UntilCopied {
                // A caller that has asked for this copy, and did not wait, should find it.
                self.thin_out(transfer.chunk, 1 << pool);
            }
        }
        self.wake_mask |= DATA | ROOM;
    }

    /// Releases the replicas that nobody is going to read, except one and those in the pools
    /// `kept`. None while one is being changed: that may be the only valid one.
    pub(crate) fn thin_out(&mut self, place: u32, kept: u32) {
        if self.chunks[place as usize].modifiers > 0 {
            return;
        }
        let unwanted = self.chunks[place as usize].replicas & !(self.wanted(place) | kept);
        for pool in bits(unwanted) {
            if self.chunks[place as usize].replicas.count_ones() > 1 {
                self.detach(self.replica(place, pool));
            }
        }
    }

    /// A replica in this pool that can be reclaimed. Its chunk has other replicas, and either
    /// nobody is going to read it there, or its chunk is younger than `order`, for which the
    /// envelope is needed. `synced`: only one that no stream is still using.
    pub(crate) fn redundant(&self, pool: u32, order: u64, synced: bool) -> Option<u32> {
        if self.retain == Retain::Always || self.pools.len() < 2 {
            return None;
        }
        let mut place = self.tail;
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            let has_others =
                chunk.replicas & (1 << pool) != 0 && chunk.replicas & !(1 << pool) != 0;
            if has_others && chunk.order != order && chunk.modifiers == 0 {
                let number = self.replica(place, pool);
                let envelope = &self.envelopes[number as usize];
                let unwanted = chunk.order > order || self.wanted(place) & (1 << pool) == 0;
                let may_be = !synced || envelope.block.fence.is_synced();
                if unwanted && may_be && envelope.leases == 0 && envelope.copies == 0 {
                    return Some(number);
                }
            }
            place = chunk.previous;
        }
        None
    }

    /// Reclaims such a replica. False if there is none.
    pub(crate) fn reclaim(&mut self, pool: u32, order: u64, synced: bool) -> bool {
        let Some(number) = self.redundant(pool, order, synced) else { return false };
        self.detach(number);
        true
    }

    /// Frees the bit of a destroyed link that has no leases left.
    pub(crate) fn forget_link(&mut self, number: u32) {
        let link = &self.links[number as usize];
        if link.leases == 0 && link.role == Role::Consume && link.unit != COMPETING {
            self.units &= !link.unit;
        }
    }

    /// After consumers have been destroyed: removes the chunks that all others have had.
    pub(crate) fn settle(&mut self) {
        let mut place = self.head;
        while place != NONE {
            let next = self.chunks[place as usize].next;
            if self.is_done(place) {
                self.remove(place);
            }
            place = next;
        }
    }
}
