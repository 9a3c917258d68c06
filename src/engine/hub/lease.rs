//! Leases: which request gets which envelope. How leases end is in `lease_end`. All of it runs
//! under the hub's lock.
//!
//! - A consumer gets the oldest chunk that it neither holds nor has had. Competing consumers count
//!   as one.
//! - Peeking and modifying links get the top chunk, the oldest of all.
//! - Any number of leases may read a replica, or any number may change it, not both.
//! - A chunk that is being changed is not consumed meanwhile, and the other way round. Readers on
//!   other devices see its old contents.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};
use crate::engine::os::trace::{self, Record, What};

/// A request for an envelope, by a link or by a call on the hub itself.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRequest {
    pub(crate) role: Role,
    pub(crate) pool: u32,
    pub(crate) unit: u64,
    /// NONE for a call on the hub itself, which gets chunks whatever the dataflow strategy is.
    pub(crate) link: u32,
    pub(crate) autocommit: bool,
    /// It cannot wait for streams: the envelope must not have work pending.
    pub(crate) synced: bool,
}

/// Record of a lease, until it ends.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRecord {
    /// `None` when the lease has ended.
    pub(crate) role: Option<Role>,
    pub(crate) autocommit: bool,
    pub(crate) envelope: u32,
    /// NONE for a production.
    pub(crate) chunk: u32,
    pub(crate) order: u64,
    /// `State::changes` when it began.
    pub(super) since: u64,
    pub(crate) unit: u64,
    pub(crate) link: u32,
    /// As in the request.
    pub(crate) synced: bool,
    /// The next free record.
    pub(super) next: u32,
}

impl LeaseRecord {
    pub(super) const NONE: LeaseRecord = LeaseRecord {
        role: None,
        autocommit: false,
        envelope: NONE,
        chunk: NONE,
        order: 0,
        since: 0,
        unit: 0,
        link: NONE,
        synced: false,
        next: NONE,
    };
}

/// Why there is no envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There may be one later.
    NotNow,
    /// There will be none.
    Closed,
    /// The link is connected to a stream.
    Joined,
    /// It would need this many more envelopes in this pool.
    Starved { pool: u32, missing: u32 },
    /// The top chunk cannot be copied to this pool, as younger chunks have all its envelopes
    /// (`hub::starvation`).
    Stuck { pool: u32 },
    /// The chunk could not be copied to this pool. NONE: the stream that was to write it has
    /// failed.
    Failed { pool: u32, chunk: u32 },
}

impl State {
    /// The chunk and replica that the request would get; nothing specific for producers.
    #[inline(always)]
    pub(crate) fn look(&mut self, request: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.destroyed {
            return Err(Refusal::Closed);
        }
        match request.role {
            Role::Produce => self.look_for_room(request),
            Role::Consume => self.look_for_next(request),
            Role::Peek | Role::Modify => self.look_at_top(request),
        }
    }

    #[inline(always)]
    fn look_for_room(&mut self, request: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        let pool = &self.pools[request.pool as usize];
        if pool.total == 0 {
            return Err(Refusal::Starved { pool: request.pool, missing: 1 });
        }
        let redundant =
            |state: &Self| state.redundant(request.pool, u64::MAX, request.synced).is_some();
        if !self.has_room() || (pool.free == NONE && !redundant(self)) {
            return Err(Refusal::NotNow);
        }
        if request.synced
            && self.marked
            && self.pools[request.pool as usize].free != NONE
            && !self.find_synced(request.pool)
            && !redundant(self)
        {
            return Err(Refusal::NotNow);
        }
        Ok((NONE, NONE))
    }

    #[inline(always)]
    fn look_for_next(&mut self, request: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        let unit = request.unit.trailing_zeros() as usize;
        let mut place = self.cursors[unit];
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            if (chunk.taken | chunk.passed) & request.unit == 0 {
                break;
            }
            place = chunk.next;
        }
        self.cursors[unit] = place;
        if place == NONE {
            return Err(self.nothing(request));
        }
        let chunk = &self.chunks[place as usize];
        if chunk.modifiers > 0 || chunk.hidden {
            return Err(self.not_here(request));
        }
        self.look_there(request, place)
    }

    fn look_at_top(&mut self, request: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.head == NONE {
            return Err(self.nothing(request));
        }
        let chunk = &self.chunks[self.head as usize];
        let in_use = request.role == Role::Modify && chunk.consumers > 0;
        if chunk.hidden || in_use {
            return Err(self.not_here(request));
        }
        let (place, number) = self.look_there(request, self.head)?;
        let (chunk, envelope) = (&self.chunks[place as usize], &self.envelopes[number as usize]);
        let in_use = match request.role {
            Role::Peek => envelope.modifiers > 0,
            // Other modifying leases on this replica are allowed.
            _ => {
                envelope.modifiers < chunk.modifiers
                    || envelope.leases > envelope.modifiers
                    || envelope.copies > 0
            }
        };
        if in_use {
            return Err(Refusal::NotNow);
        }
        Ok((place, number))
    }

    /// The chunk's replica in the request's pool.
    #[inline(always)]
    fn look_there(&self, request: &LeaseRequest, place: u32) -> Result<(u32, u32), Refusal> {
        if self.chunks[place as usize].replicas & (1 << request.pool) == 0 || !self.serves(request)
        {
            if self.chunks[place as usize].failed & (1 << request.pool) != 0 && self.serves(request)
            {
                return Err(Refusal::Failed { pool: request.pool, chunk: place });
            }
            return Err(self.not_copied(request));
        }
        let number = self.replica(place, request.pool);
        if self.marked {
            self.check_written(request, place, number)?;
        }
        Ok((place, number))
    }

    #[inline(always)]
    fn serves(&self, request: &LeaseRequest) -> bool {
        request.link == NONE || self.is_served(request.link)
    }

    /// There is a chunk, but the request cannot have it now.
    #[cold]
    fn not_here(&self, request: &LeaseRequest) -> Refusal {
        match self.pools[request.pool as usize].total {
            0 => Refusal::Starved { pool: request.pool, missing: 1 },
            _ => Refusal::NotNow,
        }
    }

    /// The chunk has no replica in the request's pool.
    #[cold]
    fn not_copied(&self, request: &LeaseRequest) -> Refusal {
        if self.serves(request) && self.is_stuck(request) {
            return Refusal::Stuck { pool: request.pool };
        }
        self.not_here(request)
    }

    /// Clears a failure that has been reported, so that the copy is tried again.
    #[cold]
    pub(crate) fn clear_failure(&mut self, refusal: Refusal) {
        if let Refusal::Failed { pool, chunk } = refusal {
            self.chunks[chunk as usize].failed &= !(1u32.checked_shl(pool).unwrap_or(0));
        }
    }

    /// There is no chunk for this request.
    #[cold]
    fn nothing(&self, request: &LeaseRequest) -> Refusal {
        let mut comes = !self.closed || self.reserved > 0;
        // A broadcast consumer itself holds every chunk that it has not had and that is not
        // available. A chunk of competing consumers may be given back by another one.
        let mut place = if request.role == Role::Consume && request.unit == COMPETING {
            self.head
        } else {
            NONE
        };
        while !comes && place != NONE {
            let chunk = &self.chunks[place as usize];
            comes = chunk.passed & request.unit == 0 && chunk.holder != request.link;
            place = chunk.next;
        }
        if comes {
            return self.not_here(request);
        }
        Refusal::Closed
    }

    /// Leases what `look` has found; returns the lease's number.
    #[inline(always)]
    pub(crate) fn take(&mut self, request: &LeaseRequest, (chunk, replica): (u32, u32)) -> u32 {
        let (envelope, order) = match request.role {
            Role::Produce => (self.take_room(request), 0),
            _ => self.take_chunk(request, chunk, replica),
        };
        if request.link != NONE {
            self.links[request.link as usize].leases += 1;
        }
        self.leases += 1;
        let number = self.free_number();
        let record = &mut self.lease_records[number as usize];
        record.synced = request.synced;
        record.role = Some(request.role);
        record.autocommit = request.autocommit;
        record.envelope = envelope;
        (record.chunk, record.order, record.since) = (chunk, order, self.changes);
        record.unit = request.unit;
        record.link = request.link;
        if trace::is_on() {
            self.trace(
                What::LeaseBegin,
                request.role,
                number,
                self.envelopes[envelope as usize].length,
            );
        }
        number
    }

    /// Records the begin or the end of a lease.
    #[cold]
    #[inline(never)]
    pub(super) fn trace(&self, what: What, role: Role, number: u32, length: u64) {
        let name = match role {
            Role::Produce => "lease to produce",
            Role::Consume => "lease to consume",
            Role::Peek => "lease to peek",
            Role::Modify => "lease to modify",
        };
        let hub = std::ptr::from_ref(self).addr() as u64;
        let id = trace::flow(hub, number, 0);
        trace::record(Record { id, length, worker: hub, ..Record::now(what, name) });
    }

    #[inline(always)]
    fn free_number(&mut self) -> u32 {
        let number = self.free_record;
        let Some(record) = self.lease_records.get(number as usize) else {
            self.lease_records.push(LeaseRecord::NONE);
            return self.lease_records.len() as u32 - 1;
        };
        self.free_record = record.next;
        number
    }

    /// Frees the record of an ended lease.
    #[inline(always)]
    pub(super) fn release_record(&mut self, number: u32) {
        let record = &mut self.lease_records[number as usize];
        (record.role, record.next) = (None, self.free_record);
        self.free_record = number;
    }

    #[inline(always)]
    fn take_room(&mut self, request: &LeaseRequest) -> u32 {
        let pool = request.pool;
        // What `look` has found is the first free envelope, or a replica that can be reclaimed.
        if self.pools[pool as usize].free == NONE
            || (request.synced && self.marked && !self.is_front_synced(pool))
        {
            self.reclaim(pool, u64::MAX, request.synced);
        }
        let number = self
            .take_free(pool, Stage::Producing)
            .expect("looked for a moment ago, under the same lock");
        self.reserved += 1;
        let envelope = &mut self.envelopes[number as usize];
        envelope.length = UNSET;
        envelope.leases = 1;
        envelope.block.span().clear_metadata();
        self.stats.leased_envelopes += 1;
        number
    }

    #[inline(always)]
    fn take_chunk(&mut self, request: &LeaseRequest, place: u32, number: u32) -> (u32, u64) {
        let (chunk, envelope) =
            (&mut self.chunks[place as usize], &mut self.envelopes[number as usize]);
        self.stats.leased_envelopes += u64::from(envelope.leases == 0);
        envelope.leases += 1;
        chunk.leases += 1;
        match request.role {
            Role::Consume => {
                chunk.taken |= request.unit;
                chunk.consumers += 1;
                if request.unit == COMPETING {
                    chunk.holder = request.link;
                }
                self.cursors[request.unit.trailing_zeros() as usize] = chunk.next;
            }
            Role::Modify => {
                chunk.modifiers += 1;
                envelope.modifiers += 1;
            }
            _ => {}
        }
        (number, chunk.order)
    }

    /// Sets the link that counts as the chunk's holder until the lease ends.
    #[cold]
    pub(crate) fn hold(&mut self, number: u32, link: u32) {
        let record = &self.lease_records[number as usize];
        if record.role == Some(Role::Consume) && record.unit == COMPETING {
            self.chunks[record.chunk as usize].holder = link;
        }
    }

    /// The envelope of a lease, if its memory may be swapped; otherwise the reason.
    pub(crate) fn exchanged(&self, number: u32) -> Result<u32, (Status, &'static str)> {
        let record = &self.lease_records[number as usize];
        let envelope = &self.envelopes[record.envelope as usize];
        match record.role {
            None => return Err((Status::INVALID_PARAM, "its lease has ended")),
            Some(Role::Peek) => return Err((Status::INVALID_PARAM, "a peeking lease only reads")),
            Some(Role::Consume) if record.unit != COMPETING => {
                return Err((Status::INVALID_PARAM, "a broadcast consumer only reads"));
            }
            Some(Role::Consume) if self.is_there(record.chunk, record.order) => {
                let chunk = &self.chunks[record.chunk as usize];
                let others_come = self.consumers() & !(chunk.passed | record.unit) != 0;
                // After an earlier swap the envelope contains nothing that others may read.
                let is_replica = envelope.stage == Stage::Ready;
                if others_come && is_replica && chunk.replicas.count_ones() == 1 {
                    return Err((
                        Status::BUSY,
                        "other consumers are still to read the chunk there",
                    ));
                }
            }
            _ => {}
        }
        if envelope.leases > 1 || envelope.copies > 0 {
            return Err((Status::BUSY, "other links are reading its envelope at the moment"));
        }
        Ok(record.envelope)
    }

    /// Swaps the memory of two leases of this hub.
    pub(crate) fn exchange(&mut self, one: u32, other: u32) {
        let [a, b] =
            [one, other].map(|number| self.lease_records[number as usize].envelope as usize);
        let (front, back) = self.envelopes.split_at_mut(a.max(b));
        std::mem::swap(&mut front[a.min(b)].block, &mut back[0].block);
        std::mem::swap(&mut front[a.min(b)].length, &mut back[0].length);
        self.hide(one);
        self.hide(other);
    }

    /// A swap has changed the memory of this lease. If it is a consumer's, nobody else may read the
    /// replica while the consumer holds the chunk.
    pub(crate) fn hide(&mut self, number: u32) {
        let record = self.lease_records[number as usize];
        let length = &mut self.envelopes[record.envelope as usize].length;
        if record.role != Some(Role::Produce) && *length == UNSET {
            // It came from a producer without a length, and is a chunk's now.
            *length = self.size;
        }
        let is_replica = self.envelopes[record.envelope as usize].stage == Stage::Ready;
        if record.role != Some(Role::Consume)
            || !is_replica
            || !self.is_there(record.chunk, record.order)
        {
            return;
        }
        let chunk = &mut self.chunks[record.chunk as usize];
        if chunk.replicas.count_ones() > 1 {
            self.detach(record.envelope);
            return;
        }
        chunk.hidden = true;
        // Copies in progress have the old contents, and may end after the chunk is available again.
        chunk.version = chunk.version.wrapping_add(1);
        self.measure(record.chunk, self.envelopes[record.envelope as usize].length);
    }
}
