//! The rules of a hub in their simplest form, as its documentation states them: for each call its
//! required result, and the state after it.
//!
//! The model gets one piece of information from the hub, after the hub has come to rest: which
//! envelopes hold the chunks. When to copy, and which of several envelopes to reclaim, is the hub's
//! choice. `see` checks what it must and must not copy or reclaim.

use crate::engine::base::status::Status;
use crate::engine::hub::records::{Retain, Role};

/// The group of all competing consumers. Each broadcast consumer has its own group.
pub(crate) const COMPETE: u32 = 0;

/// A request, by a link or by a call on the hub itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) role: Role,
    pub(crate) pool: usize,
    pub(crate) group: u32,
    pub(crate) link: Option<usize>,
}

#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) alive: bool,
    pub(crate) ask: Ask,
    pub(crate) autocommit: bool,
    pub(crate) in_flow: bool,
}

/// A pool, and an address of memory in it.
pub(crate) type Place = (usize, usize);

#[derive(Clone)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    pub(crate) word: u64,
    pub(crate) length: u64,
    /// Groups that have had it, as bits.
    pub(crate) had: u64,
    pub(crate) places: Vec<Place>,
    /// A modifying lease has committed, and others continue.
    pub(crate) changed: bool,
    /// Its only replica has been swapped away.
    pub(crate) hidden: bool,
}

#[derive(Clone)]
pub(crate) struct Held {
    /// The caller's handle; 0 for a lease that is only simulated.
    pub(crate) handle: usize,
    pub(crate) ask: Ask,
    pub(crate) autocommit: bool,
    /// `None` for a production.
    pub(crate) chunk: Option<u64>,
    /// Contents of its memory.
    pub(crate) word: u64,
    /// `None` until it is known.
    pub(crate) length: Option<u64>,
    pub(crate) data: usize,
}

/// The chunk, for requests that read.
pub(crate) type Answer = Result<Option<u64>, Status>;

#[derive(Clone)]
pub(crate) struct Model {
    pub(crate) size: u64,
    pub(crate) max_chunks: u64,
    pub(crate) max_bytes: u64,
    pub(crate) retain: Retain,
    /// Number of envelopes in each pool.
    pub(crate) totals: Vec<usize>,
    pub(crate) links: Vec<Link>,
    /// Oldest first.
    pub(crate) queue: Vec<Chunk>,
    pub(crate) held: Vec<Held>,
    /// Sources and targets of copies in progress; empty when the hub is at rest.
    pub(crate) copying: Vec<Place>,
    pub(crate) flow: bool,
    pub(crate) closed: bool,
    pub(crate) next_id: u64,
    pub(crate) produced: u64,
    pub(crate) consumed: u64,
    pub(crate) most: usize,
}

impl Model {
    pub(crate) fn chunk(&self, id: Option<u64>) -> Option<&Chunk> {
        self.queue.iter().find(|chunk| Some(chunk.id) == id)
    }

    fn chunk_mut(&mut self, id: Option<u64>) -> Option<&mut Chunk> {
        self.queue.iter_mut().find(|chunk| Some(chunk.id) == id)
    }

    /// Leases of this role on the chunk.
    fn holders(&self, chunk: &Chunk, role: Role) -> impl Iterator<Item = &Held> {
        let id = chunk.id;
        self.held.iter().filter(move |held| held.chunk == Some(id) && held.ask.role == role)
    }

    /// Is the lease's memory still a replica of the chunk?
    pub(crate) fn is_replica(&self, held: &Held) -> bool {
        self.chunk(held.chunk)
            .is_some_and(|chunk| chunk.places.contains(&(held.ask.pool, held.data)))
    }

    pub(crate) fn producing(&self) -> u64 {
        self.held.iter().filter(|held| held.ask.role == Role::Produce).count() as u64
    }

    /// Memory that belongs to no chunk and is still in use, each place once.
    pub(crate) fn trashed(&self) -> Vec<Place> {
        let gone = |held: &&Held| held.ask.role != Role::Produce && !self.is_replica(held);
        let looked_at = self.held.iter().filter(gone).map(|held| (held.ask.pool, held.data));
        let replicas = |place: &Place| self.queue.iter().any(|chunk| chunk.places.contains(place));
        let copied = self.copying.iter().copied().filter(|place| !replicas(place));
        let mut trashed: Vec<_> = looked_at.chain(copied).collect();
        trashed.sort_unstable();
        trashed.dedup();
        trashed
    }

    pub(crate) fn free(&self, pool: usize) -> usize {
        let here = |place: &&Place| place.0 == pool;
        let chunks: usize =
            self.queue.iter().map(|chunk| chunk.places.iter().filter(here).count()).sum();
        let makes = |held: &&Held| held.ask.role == Role::Produce && held.ask.pool == pool;
        let used = chunks
            + self.trashed().iter().filter(here).count()
            + self.held.iter().filter(makes).count();
        self.totals[pool].checked_sub(used).expect("more than there are")
    }

    /// Groups that each have to have a chunk before it is removed.
    pub(crate) fn everybody(&self) -> u64 {
        let consumes = |link: &&Link| link.alive && link.ask.role == Role::Consume;
        self.links.iter().filter(consumes).fold(0, |all, link| all | 1 << link.ask.group)
    }

    fn is_served(&self, link: usize) -> bool {
        !self.flow || self.links[link].in_flow
    }

    fn serves(&self, ask: &Ask) -> bool {
        ask.link.is_none_or(|link| self.is_served(link))
    }

    /// Links that are going to read the chunk in this pool.
    fn readers<'a>(&'a self, chunk: &'a Chunk, pool: usize) -> impl Iterator<Item = &'a Link> {
        self.links.iter().enumerate().filter_map(move |(number, link)| {
            let reads = match link.ask.role {
                Role::Produce => false,
                Role::Consume => chunk.had & (1 << link.ask.group) == 0,
                Role::Peek | Role::Modify => true,
            };
            (reads && link.alive && link.ask.pool == pool && self.is_served(number)).then_some(link)
        })
    }

    pub(crate) fn is_wanted(&self, chunk: &Chunk, pool: usize) -> bool {
        self.readers(chunk, pool).next().is_some()
    }

    /// Does anybody but the competing consumers want the chunk there?
    pub(crate) fn is_wanted_by_others(&self, chunk: &Chunk, pool: usize) -> bool {
        self.readers(chunk, pool)
            .any(|link| link.ask.role != Role::Consume || link.ask.group != COMPETE)
    }

    /// The youngest chunk whose envelope in this pool has to be reclaimed when a producer needs
    /// one, or a copy of the chunk at place `copy_of` in the queue.
    pub(super) fn can_give(&self, pool: usize, copy_of: Option<usize>) -> Option<usize> {
        (0..self.queue.len()).rev().find(|place| {
            let chunk = &self.queue[*place];
            let Some(here) = chunk.places.iter().find(|there| there.0 == pool) else {
                return false;
            };
            let leased = |held: &Held| self.is_replica(held) && (held.ask.pool, held.data) == *here;
            let is_looked_at = self.held.iter().any(leased) || self.copying.contains(here);
            let is_changed = self.holders(chunk, Role::Modify).next().is_some();
            let unwanted =
                !self.is_wanted(chunk, pool) || copy_of.is_some_and(|older| older < *place);
            self.retain != Retain::Always
                && chunk.places.len() > 1
                && unwanted
                && !is_looked_at
                && !is_changed
        })
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.queue.iter().map(|chunk| chunk.length).sum()
    }

    fn has_room(&self) -> bool {
        let producing = self.producing();
        let chunks = self.queue.len() as u64 + producing < self.max_chunks;
        chunks && self.bytes().saturating_add((producing + 1) * self.size) <= self.max_bytes
    }

    /// The chunk that the request gets, if it gets one.
    fn target(&self, ask: &Ask) -> Option<&Chunk> {
        if ask.role != Role::Consume {
            return self.queue.first();
        }
        let holds = |chunk: &Chunk| {
            self.holders(chunk, Role::Consume).any(|held| held.ask.group == ask.group)
        };
        self.queue.iter().find(|chunk| chunk.had & (1 << ask.group) == 0 && !holds(chunk))
    }

    /// May there be a chunk for it later?
    fn may_come(&self, ask: &Ask) -> bool {
        let gives_back = |held: &Held| {
            let competes = held.ask.role == Role::Consume && held.ask.group == COMPETE;
            // A simulated lease belongs to the same call, which gives nothing back to itself.
            let is_anothers = held.handle != 0 && held.ask.link != ask.link;
            let offered =
                self.chunk(held.chunk).is_some_and(|chunk| chunk.had & (1 << COMPETE) == 0);
            competes && is_anothers && offered && ask.role == Role::Consume && ask.group == COMPETE
        };
        !self.closed || self.producing() > 0 || self.held.iter().any(gives_back)
    }

    /// Does it wait in vain for the oldest chunk, because younger ones have all envelopes?
    pub(crate) fn is_stuck(&self, ask: &Ask) -> bool {
        let Some(top) = self.queue.first().filter(|_| {
            self.held.is_empty() && self.copying.is_empty() && ask.role != Role::Produce
        }) else {
            return false;
        };
        let lone = self.queue.iter().all(|chunk| chunk.places.len() == 1);
        let is_full = |pool: usize| match self.retain {
            Retain::Always => self.free(pool) == 0,
            _ => lone && (0..self.totals.len()).all(|pool| self.free(pool) == 0),
        };
        let is_far = |pool: usize| !top.places.iter().any(|place| place.0 == pool) && is_full(pool);
        let waits = |ask: &Ask| ask.role != Role::Consume || top.had & (1 << ask.group) == 0;
        let takes = |link: &&Link| link.alive && link.ask.role == Role::Consume && waits(&link.ask);
        // A chunk that only waits for others may be removed before it.
        let everybody = self.everybody();
        if self.queue.iter().any(|chunk| everybody & !(top.had | chunk.had) == 0) {
            return false;
        }
        let mut takers = self.links.iter().filter(takes).peekable();
        waits(ask)
            && is_far(ask.pool)
            && takers.peek().is_some()
            && takers.all(|link| is_far(link.ask.pool))
    }

    /// The required result of a call that does not wait.
    pub(crate) fn lease(&self, ask: &Ask) -> Answer {
        let later = if self.totals[ask.pool] == 0 {
            Err(Status::STARVED)
        } else {
            Err(Status::NO_RESOURCE)
        };
        if ask.role == Role::Produce {
            if self.closed {
                return Err(Status::CLOSED);
            }
            let is_there = self.free(ask.pool) > 0 || self.can_give(ask.pool, None).is_some();
            return if self.has_room() && is_there { Ok(None) } else { later };
        }
        let Some(chunk) = self.target(ask) else {
            return if self.may_come(ask) { later } else { Err(Status::CLOSED) };
        };
        let in_use = match ask.role {
            Role::Consume => self.holders(chunk, Role::Modify).next().is_some(),
            Role::Modify => self.holders(chunk, Role::Consume).next().is_some(),
            _ => false,
        };
        if chunk.hidden || in_use || !self.serves(ask) {
            return later;
        }
        let Some(here) = chunk.places.iter().find(|place| place.0 == ask.pool) else {
            let by_hand = ask.link.is_none() && self.can_be_copied(0, ask.pool);
            let stuck = self.is_stuck(ask);
            return if by_hand {
                Ok(Some(chunk.id))
            } else {
                later.map_err(|_| if stuck { Status::STARVED } else { later.unwrap_err() })
            };
        };
        let mut same =
            self.held.iter().filter(|held| held.chunk == Some(chunk.id) && self.is_replica(held));
        let in_use = match ask.role {
            Role::Peek => same.any(|held| held.ask.role == Role::Modify && held.data == here.1),
            Role::Modify => {
                let elsewhere = self.holders(chunk, Role::Modify).any(|held| held.data != here.1);
                let read = same.any(|held| held.ask.role != Role::Modify && held.data == here.1);
                elsewhere || read || self.copying.contains(here)
            }
            _ => false,
        };
        if in_use {
            later
        } else {
            Ok(Some(chunk.id))
        }
    }

    /// Does the chunk at this place in the queue have to be copied to the pool if somebody wants it
    /// there?
    pub(crate) fn can_be_copied(&self, place: usize, pool: usize) -> bool {
        let chunk = &self.queue[place];
        let is_changed = self.holders(chunk, Role::Modify).next().is_some();
        let room = self.free(pool) > 0 || self.can_give(pool, Some(place)).is_some();
        room && !chunk.hidden && !is_changed
    }

    /// Leases what was found.
    pub(crate) fn take(&mut self, ask: Ask, chunk: Option<u64>, data: usize) -> &mut Held {
        let there = self.chunk(chunk);
        let (word, length) = there.map_or((0, None), |chunk| (chunk.word, Some(chunk.length)));
        let autocommit =
            ask.link.is_some_and(|link| self.links[link].autocommit) && ask.role != Role::Peek;
        self.held.push(Held { handle: 0, ask, autocommit, chunk, word, length, data });
        self.held.last_mut().expect("just pushed")
    }

    /// Ends a lease; `commit` has the committed length.
    pub(crate) fn end(&mut self, at: usize, commit: Option<u64>) {
        let is_replica = self.is_replica(&self.held[at]);
        let held = self.held.swap_remove(at);
        let own = (held.ask.pool, held.data);
        let everybody = self.everybody();
        if held.ask.role == Role::Produce {
            let Some(length) = commit else { return };
            let (id, word, places) = (self.next_id, held.word, vec![own]);
            self.queue.push(Chunk {
                id,
                word,
                length,
                had: 0,
                places,
                changed: false,
                hidden: false,
            });
            (self.next_id, self.produced) = (id + 1, self.produced + 1);
            self.most = self.most.max(self.queue.len());
            return;
        }
        let shared = self
            .held
            .iter()
            .any(|other| other.chunk == held.chunk && other.ask.role == Role::Modify);
        if let (Role::Modify, Some(length), true) =
            (held.ask.role, commit, self.chunk(held.chunk).is_some())
        {
            let same = self.held.iter_mut().filter(|other| other.data == held.data);
            same.for_each(|other| other.length = Some(length));
        }
        let Some(chunk) = self.chunk_mut(held.chunk) else { return };
        match held.ask.role {
            Role::Consume => {
                let was_hidden = is_replica && std::mem::take(&mut chunk.hidden);
                if commit.is_some() {
                    chunk.had |= 1 << held.ask.group;
                    if was_hidden || everybody & !chunk.had == 0 {
                        self.queue.retain(|chunk| Some(chunk.id) != held.chunk);
                        self.consumed += 1;
                    }
                }
            }
            Role::Modify => {
                if let Some(length) = commit {
                    (chunk.word, chunk.length, chunk.changed) = (held.word, length, true);
                    chunk.places.retain(|place| *place == own);
                }
                if !shared {
                    if !std::mem::take(&mut chunk.changed) && chunk.places.len() > 1 {
                        chunk.places.retain(|place| *place != own);
                    } else {
                        chunk.word = held.word;
                        chunk.length = commit.or(held.length).expect("a chunk has one");
                    }
                }
            }
            _ => {}
        }
    }

    /// Statuses with which a swap may fail; empty if it has to succeed.
    pub(crate) fn swap_refusals(&self, one: usize, other: usize) -> Vec<Status> {
        let mut refusals = Vec::new();
        for held in [one, other].map(|at| &self.held[at]) {
            let consumes = held.ask.role == Role::Consume;
            if held.ask.role == Role::Peek || (consumes && held.ask.group != COMPETE) {
                refusals.push(Status::INVALID_PARAM);
            }
            let looked_at = self.held.iter().filter(|other| other.data == held.data).count() > 1;
            let others = self.everybody() & !(1 << COMPETE);
            let alone = self
                .chunk(held.chunk)
                .is_some_and(|chunk| chunk.places.len() == 1 && others & !chunk.had != 0);
            if looked_at || (consumes && alone && self.is_replica(held)) {
                refusals.push(Status::BUSY);
            }
        }
        if self.held[one].ask.pool != self.held[other].ask.pool {
            refusals.push(Status::INVALID_PARAM);
        }
        refusals
    }

    pub(crate) fn swap(&mut self, one: usize, other: usize) {
        let was_replica = [one, other].map(|at| self.is_replica(&self.held[at]));
        let [a, b] =
            [one, other].map(|at| (self.held[at].word, self.held[at].length, self.held[at].data));
        for (at, new, was_replica) in [(one, b, was_replica[0]), (other, a, was_replica[1])] {
            let size = self.size;
            let held = &mut self.held[at];
            let before = (held.ask.pool, held.data);
            (held.word, held.length, held.data) = new;
            if held.ask.role != Role::Produce {
                held.length = held.length.or(Some(size));
            }
            let held = held.clone();
            let Some(chunk) = self.chunk_mut(held.chunk).filter(|_| was_replica) else { continue };
            let place =
                chunk.places.iter().position(|place| *place == before).expect("it was there");
            if held.ask.role == Role::Consume && chunk.places.len() > 1 {
                chunk.places.remove(place);
                continue;
            }
            chunk.places[place].1 = held.data;
            if held.ask.role == Role::Consume {
                (chunk.hidden, chunk.word) = (true, held.word);
                chunk.length = held.length.expect("a chunk has one");
            }
        }
    }

    /// Removes chunks that all remaining consumers have had.
    pub(crate) fn settle(&mut self) {
        let everybody = self.everybody();
        let before = self.queue.len();
        self.queue.retain(|chunk| chunk.had == 0 || everybody & !chunk.had != 0);
        self.consumed += (before - self.queue.len()) as u64;
    }

    /// Takes over where the chunks are now that the hub is at rest, and checks it. Returns the
    /// number of new replicas.
    pub(crate) fn see(&mut self, places: Vec<Vec<Place>>, step: &Step) -> u64 {
        assert_eq!(places.len(), self.queue.len(), "chunks in the queue");
        let before: Vec<_> = self.queue.iter().map(|chunk| chunk.places.clone()).collect();
        self.queue.iter_mut().zip(places).for_each(|(chunk, places)| chunk.places = places);
        let gained = |number: usize, pool: usize| {
            let now = self.queue[number].places.iter().find(|place| place.0 == pool);
            now.is_some_and(|place| !before[number].contains(place))
        };
        let mut copies = 0;
        for (number, chunk) in self.queue.iter().enumerate() {
            assert!(!chunk.places.is_empty(), "a chunk that is nowhere");
            let is_changed = self.holders(chunk, Role::Modify).next().is_some();
            let mut copied = false;
            for (pool, _) in chunk.places.iter().filter(|place| gained(number, place.0)) {
                let by_hand = number == 0 && step.asked == Some(*pool);
                assert!(
                    self.is_wanted(chunk, *pool) || by_hand,
                    "copied to pool {pool}, where nobody reads it"
                );
                assert!(!chunk.hidden && !is_changed, "copied while it is changed");
                (copied, copies) = (true, copies + 1);
            }
            for (pool, _) in before[number].iter().filter(|place| !chunk.places.contains(place)) {
                assert_ne!(self.retain, Retain::Always, "an envelope of pool {pool} was given up");
                let for_older = (0..number).any(|older| gained(older, *pool));
                assert!(
                    for_older || !self.is_wanted(chunk, *pool),
                    "given up in pool {pool}, where it is to be read"
                );
                let needed = self.free(*pool) == 0 || step.given.contains(pool);
                assert!(
                    needed || self.retain == Retain::UntilCopied,
                    "given up in pool {pool}, and nobody needed it"
                );
            }
            if copied && self.retain == Retain::UntilCopied && !is_changed && !step.flowed {
                let kept =
                    |place: &Place| gained(number, place.0) || self.is_wanted(chunk, place.0);
                assert!(
                    chunk.places.iter().all(kept),
                    "kept after it was copied, and nobody is to read it there"
                );
            }
        }
        for (number, chunk) in self.queue.iter().enumerate() {
            let taker = self.holders(chunk, Role::Consume).find(|held| held.ask.group == COMPETE);
            for pool in (0..self.totals.len())
                .filter(|pool| !chunk.places.iter().any(|place| place.0 == *pool))
            {
                // If its consumer has swapped it away there, only competitors want it, and they
                // cannot have it.
                let is_away = taker.is_some_and(|held| held.ask.pool == pool);
                let is_missed = if is_away {
                    self.is_wanted_by_others(chunk, pool)
                } else {
                    self.is_wanted(chunk, pool)
                };
                assert!(
                    !is_missed || !self.can_be_copied(number, pool),
                    "chunk {} was not copied to {pool}",
                    chunk.id
                );
            }
        }
        copies
    }

    /// Can each served link be served, as far as is known?
    pub(crate) fn is_sound(&self) -> bool {
        let is_lost = self.flow && !self.links.iter().any(|link| link.alive && link.in_flow);
        let is_starved = |link: &Link| self.totals[link.ask.pool] == 0 || self.is_stuck(&link.ask);
        let served = self.links.iter().enumerate().filter(|(number, link)| {
            link.alive && (link.ask.role == Role::Produce || self.is_served(*number))
        });
        !is_lost && !served.into_iter().any(|(_, link)| is_starved(link))
    }
}

/// What a step did.
#[derive(Default)]
pub(crate) struct Step {
    /// The pool to which a call on the hub requested the top chunk.
    pub(crate) asked: Option<usize>,
    /// The set of served links has changed.
    pub(crate) flowed: bool,
    /// Pools where a call for several links reclaimed an envelope for one link, and was then
    /// refused for another.
    pub(crate) given: Vec<usize>,
}
