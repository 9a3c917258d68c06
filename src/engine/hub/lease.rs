//! Leases: who gets which envelope. What becomes of it is in `lease_end`.
//!
//! A consumer is served with the oldest chunk that it neither holds nor has had; those that compete
//! count as one. Peeking and modifying links are served with the top chunk, the oldest of all. A
//! replica is read by any number at a time, or changed by any number; a chunk that is changed is
//! not consumed meanwhile, and the other way round. What is read elsewhere while a chunk is changed
//! is what it was before.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};

/// Who asks for an envelope: a link, or a call on the hub itself.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRequest {
    pub(crate) role: Role,
    pub(crate) pool: u32,
    pub(crate) unit: u64,
    /// NONE for the hub's own calls, which no dataflow strategy concerns.
    pub(crate) link: u32,
    pub(crate) autocommit: bool,
    /// It cannot wait for what streams do to an envelope.
    pub(crate) settled: bool,
}

/// What it has got, until the lease ends.
#[derive(Clone, Copy)]
pub(crate) struct LeaseRecord {
    /// None when the lease has ended.
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
    /// As the seeker's.
    pub(crate) settled: bool,
    /// The next one that is free.
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
        settled: false,
        next: NONE,
    };
}

/// Why there is no envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// There may be one later.
    NotNow,
    /// There will be none any more.
    Closed,
    /// What goes through the link goes to another one elsewhere.
    Joined,
    /// There could be one only with so many more envelopes in this pool.
    Starved { pool: u32, missing: u32 },
    /// The top chunk cannot come to this pool, as all its envelopes are younger ones'
    /// (`hub::starvation`).
    Stuck { pool: u32 },
    /// The chunk could not be copied to this pool; NONE: the stream that was to write it has
    /// failed.
    Failed { pool: u32, chunk: u32 },
}

impl State {
    /// What the seeker would get: a chunk and the replica of it; nothing yet for producers.
    #[inline(always)]
    pub(crate) fn look(&mut self, seeker: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.destroyed {
            return Err(Refusal::Closed);
        }
        match seeker.role {
            Role::Produce => self.look_for_room(seeker),
            Role::Consume => self.look_for_next(seeker),
            Role::Peek | Role::Modify => self.look_at_top(seeker),
        }
    }

    #[inline(always)]
    fn look_for_room(&mut self, seeker: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        let pool = &self.pools[seeker.pool as usize];
        if pool.total == 0 {
            return Err(Refusal::Starved { pool: seeker.pool, missing: 1 });
        }
        let redundant =
            |state: &Self| state.redundant(seeker.pool, u64::MAX, seeker.settled).is_some();
        if !self.has_room() || (pool.free == NONE && !redundant(self)) {
            return Err(Refusal::NotNow);
        }
        if seeker.settled
            && self.marked
            && self.pools[seeker.pool as usize].free != NONE
            && !self.find_settled(seeker.pool)
            && !redundant(self)
        {
            return Err(Refusal::NotNow);
        }
        Ok((NONE, NONE))
    }

    #[inline(always)]
    fn look_for_next(&mut self, seeker: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        let unit = seeker.unit.trailing_zeros() as usize;
        let mut place = self.cursors[unit];
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            if (chunk.taken | chunk.passed) & seeker.unit == 0 {
                break;
            }
            place = chunk.next;
        }
        self.cursors[unit] = place;
        if place == NONE {
            return Err(self.nothing(seeker));
        }
        let chunk = &self.chunks[place as usize];
        if chunk.modifiers > 0 || chunk.hidden {
            return Err(self.not_here(seeker));
        }
        self.look_there(seeker, place)
    }

    fn look_at_top(&mut self, seeker: &LeaseRequest) -> Result<(u32, u32), Refusal> {
        if self.head == NONE {
            return Err(self.nothing(seeker));
        }
        let chunk = &self.chunks[self.head as usize];
        let in_use = seeker.role == Role::Modify && chunk.consumers > 0;
        if chunk.hidden || in_use {
            return Err(self.not_here(seeker));
        }
        let (place, number) = self.look_there(seeker, self.head)?;
        let (chunk, envelope) = (&self.chunks[place as usize], &self.envelopes[number as usize]);
        let in_use = match seeker.role {
            Role::Peek => envelope.modifiers > 0,
            // Other modifiers, on this replica, are no hindrance.
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

    /// The chunk, where the seeker wants it.
    #[inline(always)]
    fn look_there(&self, seeker: &LeaseRequest, place: u32) -> Result<(u32, u32), Refusal> {
        if self.chunks[place as usize].replicas & (1 << seeker.pool) == 0 || !self.serves(seeker) {
            if self.chunks[place as usize].failed & (1 << seeker.pool) != 0 && self.serves(seeker) {
                return Err(Refusal::Failed { pool: seeker.pool, chunk: place });
            }
            return Err(self.not_copied(seeker));
        }
        let number = self.replica(place, seeker.pool);
        if self.marked {
            self.check_written(seeker, place, number)?;
        }
        Ok((place, number))
    }

    #[inline(always)]
    fn serves(&self, seeker: &LeaseRequest) -> bool {
        seeker.link == NONE || self.is_served(seeker.link)
    }

    /// There is a chunk, but not for this one, now.
    #[cold]
    fn not_here(&self, seeker: &LeaseRequest) -> Refusal {
        match self.pools[seeker.pool as usize].total {
            0 => Refusal::Starved { pool: seeker.pool, missing: 1 },
            _ => Refusal::NotNow,
        }
    }

    /// The chunk is elsewhere.
    #[cold]
    fn not_copied(&self, seeker: &LeaseRequest) -> Refusal {
        if self.serves(seeker) && self.stands_still(seeker) {
            return Refusal::Stuck { pool: seeker.pool };
        }
        self.not_here(seeker)
    }

    /// Whoever was refused so is told: it may be tried again.
    #[cold]
    pub(crate) fn forgive(&mut self, refusal: Refusal) {
        if let Refusal::Failed { pool, chunk } = refusal {
            self.chunks[chunk as usize].failed &= !(1u32.checked_shl(pool).unwrap_or(0));
        }
    }

    /// There is no chunk for this one.
    #[cold]
    fn nothing(&self, seeker: &LeaseRequest) -> Refusal {
        let mut comes = !self.closed || self.reserved > 0;
        // What a broadcast consumer has not had, and is not free, it holds itself, which is its own
        // to know. Of those that compete another one may give back what it holds.
        let mut place =
            if seeker.role == Role::Consume && seeker.unit == COMPETING { self.head } else { NONE };
        while !comes && place != NONE {
            let chunk = &self.chunks[place as usize];
            comes = chunk.passed & seeker.unit == 0 && chunk.holder != seeker.link;
            place = chunk.next;
        }
        if comes {
            return self.not_here(seeker);
        }
        Refusal::Closed
    }

    /// A lease of what `look` has found; its number.
    #[inline(always)]
    pub(crate) fn take(&mut self, seeker: &LeaseRequest, (chunk, replica): (u32, u32)) -> u32 {
        let (envelope, order) = match seeker.role {
            Role::Produce => (self.take_room(seeker), 0),
            _ => self.take_chunk(seeker, chunk, replica),
        };
        if seeker.link != NONE {
            self.links[seeker.link as usize].leases += 1;
        }
        self.leases += 1;
        let number = self.free_number();
        let terms = &mut self.terms[number as usize];
        terms.settled = seeker.settled;
        terms.role = Some(seeker.role);
        terms.autocommit = seeker.autocommit;
        terms.envelope = envelope;
        (terms.chunk, terms.order, terms.since) = (chunk, order, self.changes);
        terms.unit = seeker.unit;
        terms.link = seeker.link;
        number
    }

    #[inline(always)]
    fn free_number(&mut self) -> u32 {
        let number = self.free_terms;
        let Some(terms) = self.terms.get(number as usize) else {
            self.terms.push(LeaseRecord::NONE);
            return self.terms.len() as u32 - 1;
        };
        self.free_terms = terms.next;
        number
    }

    /// It is used no more.
    #[inline(always)]
    pub(super) fn free_terms_of(&mut self, number: u32) {
        let terms = &mut self.terms[number as usize];
        (terms.role, terms.next) = (None, self.free_terms);
        self.free_terms = number;
    }

    #[inline(always)]
    fn take_room(&mut self, seeker: &LeaseRequest) -> u32 {
        let pool = seeker.pool;
        // What has been looked for is in front of the free ones, or is a replica's.
        if self.pools[pool as usize].free == NONE
            || (seeker.settled && self.marked && !self.is_front_settled(pool))
        {
            self.reclaim(pool, u64::MAX, seeker.settled);
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
    fn take_chunk(&mut self, seeker: &LeaseRequest, place: u32, number: u32) -> (u32, u64) {
        let (chunk, envelope) =
            (&mut self.chunks[place as usize], &mut self.envelopes[number as usize]);
        self.stats.leased_envelopes += u64::from(envelope.leases == 0);
        envelope.leases += 1;
        chunk.leases += 1;
        match seeker.role {
            Role::Consume => {
                chunk.taken |= seeker.unit;
                chunk.consumers += 1;
                if seeker.unit == COMPETING {
                    chunk.holder = seeker.link;
                }
                self.cursors[seeker.unit.trailing_zeros() as usize] = chunk.next;
            }
            Role::Modify => {
                chunk.modifiers += 1;
                envelope.modifiers += 1;
            }
            _ => {}
        }
        (number, chunk.order)
    }

    /// To whom a chunk counts that competing consumers get, until the lease ends.
    #[cold]
    pub(crate) fn hold(&mut self, number: u32, link: u32) {
        let terms = &self.terms[number as usize];
        if terms.role == Some(Role::Consume) && terms.unit == COMPETING {
            self.chunks[terms.chunk as usize].holder = link;
        }
    }

    /// The envelope of a lease, if its memory may be exchanged; else why not.
    pub(crate) fn exchanged(&self, number: u32) -> Result<u32, (Status, &'static str)> {
        let terms = &self.terms[number as usize];
        let envelope = &self.envelopes[terms.envelope as usize];
        match terms.role {
            None => return Err((Status::INVALID_PARAM, "its lease has ended")),
            Some(Role::Peek) => return Err((Status::INVALID_PARAM, "a peeking lease only reads")),
            Some(Role::Consume) if terms.unit != COMPETING => {
                return Err((Status::INVALID_PARAM, "a broadcast consumer only reads"));
            }
            Some(Role::Consume) if self.is_there(terms.chunk, terms.order) => {
                let chunk = &self.chunks[terms.chunk as usize];
                let others_come = self.consumers() & !(chunk.passed | terms.unit) != 0;
                // Of what an earlier swap has brought nobody is to read anything.
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
            return Err((Status::BUSY, "others look at it at the moment"));
        }
        Ok(terms.envelope)
    }

    /// Exchanges what two leases of this hub have.
    pub(crate) fn exchange(&mut self, one: u32, other: u32) {
        let [a, b] = [one, other].map(|number| self.terms[number as usize].envelope as usize);
        let (front, back) = self.envelopes.split_at_mut(a.max(b));
        std::mem::swap(&mut front[a.min(b)].block, &mut back[0].block);
        std::mem::swap(&mut front[a.min(b)].length, &mut back[0].length);
        self.hide(one);
        self.hide(other);
    }

    /// A swap has changed what is in the envelope of a lease. A consumer's replica is nobody else's
    /// as long as it holds the chunk.
    pub(crate) fn hide(&mut self, number: u32) {
        let terms = self.terms[number as usize];
        let length = &mut self.envelopes[terms.envelope as usize].length;
        if terms.role != Some(Role::Produce) && *length == UNSET {
            // It was being filled, and is a chunk's now, which may be copied.
            *length = self.size;
        }
        let is_replica = self.envelopes[terms.envelope as usize].stage == Stage::Ready;
        if terms.role != Some(Role::Consume)
            || !is_replica
            || !self.is_there(terms.chunk, terms.order)
        {
            return;
        }
        let chunk = &mut self.chunks[terms.chunk as usize];
        if chunk.replicas.count_ones() > 1 {
            self.detach(terms.envelope);
            return;
        }
        chunk.hidden = true;
        // Copies that are under way are of what it was, and may end when it is shown again.
        chunk.version = chunk.version.wrapping_add(1);
        self.measure(terms.chunk, self.envelopes[terms.envelope as usize].length);
    }
}
