//! Detection of requests that can never be served: a call for several links that no sequence of
//! events can serve, and a hub that is stuck.
//!
//! "Never" means with the hub's present links, envelopes and limits, whoever produces, consumes,
//! aborts or changes the dataflow strategy. A wrong answer would make a correct program fail, so
//! uncertain cases wait. This code runs only after a lease has been refused.
#![deny(unsafe_code)]

use crate::engine::base::status::{Error, Status};
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::LeaseRequest;
use crate::engine::hub::lease_many::MOST_LINKS;
use crate::engine::hub::link::{named, starved, Link};
use crate::engine::hub::memory::MemoryKind;
use crate::engine::hub::records::{self, Retain, Role};
use crate::engine::hub::state::{State, NONE};
use std::sync::Arc;

/// Why a call for several links can never be served. Links are given by their place in the call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Starvation {
    /// Both want the top chunk, and exclude each other there.
    Clash { one: usize, other: usize },
    /// One modifies the chunk that the other one consumes.
    Same { one: usize, other: usize },
    /// The link's pool lacks this many envelopes.
    Envelopes { link: usize, missing: u32 },
    /// The queue's limit is below the chunks that the call needs, this link's included.
    Chunks { link: usize, needed: u64, limit: u64 },
    /// The same in bytes. `held` bytes are in the queue and only this call can remove them.
    Bytes { link: usize, held: u64, needed: u64, limit: u64 },
}

impl Starvation {
    /// The error for the caller: which links, and what to do.
    #[cold]
    pub(crate) fn error(self, links: &[&Link]) -> Error {
        let at = |place: usize| {
            let link = links[place];
            let state = link.hub.state.lock();
            (
                link.request.role,
                state.handle_of(&link.request),
                state.pools[link.request.pool as usize].kind,
            )
        };
        let name = |place: usize| {
            let (role, handle, kind) = at(place);
            named(role, handle, kind)
        };
        let (status, text) = match self {
            Starvation::Clash { one, other } => {
                let why = match links[other].request.role {
                    Role::Modify => "a chunk is modified on one device at a time",
                    _ => "nobody peeks at what is being modified there",
                };
                let (one, other) = (name(one), name(other));
                let text = format!(
                    "links: {one} and {other} both get the top chunk, and {why}: lease them one \
                    after the other"
                );
                (Status::INVALID_PARAM, text)
            }
            Starvation::Same { one, other } => {
                let (one, other) = (name(one), name(other));
                let text = format!(
                    "hub: {one} can never be served together with {other} as they get the same \
                     chunk, and there is no other consumer that it waits for: lease them one after \
                     the other"
                );
                (Status::STARVED, text)
            }
            Starvation::Envelopes { link, missing } => {
                let (role, handle, kind) = at(link);
                (Status::STARVED, starved(role, handle, kind, missing))
            }
            Starvation::Chunks { link, needed, limit } => {
                let for_what = "one for each chunk that is produced, and for each that is read \
                    until it is consumed";
                (Status::STARVED, beyond(&name(link), "max_queue_chunks", limit, needed, for_what))
            }
            Starvation::Bytes { link, held, needed, limit } => {
                let for_what = format!(
                    "an envelope's for each chunk that is produced, and {held} for those that are \
                    read until they are consumed"
                );
                (Status::STARVED, beyond(&name(link), "max_queue_bytes", limit, needed, &for_what))
            }
        };
        Error::new(status, text)
    }
}

fn beyond(who: &str, which: &str, limit: u64, needed: u64, for_what: &str) -> String {
    format!(
        "hub: {who} can never be served together with the others of the call: {which} is {limit}, \
         and they need {needed} ({for_what}): make the hub with so many, or lease and end them one \
         after the other"
    )
}

/// Why the call's links of this hub can never be served. None of them holds anything for the call
/// at this time.
#[cold]
pub(crate) fn find_starvation(state: &State, hub: &Hub, links: &[&Link]) -> Option<Starvation> {
    let own = |(_, link): &(usize, &&Link)| std::ptr::eq(Arc::as_ptr(&link.hub), hub);
    let mut call = [None; MOST_LINKS];
    for ((place, link), slot) in links.iter().enumerate().filter(own).zip(&mut call) {
        *slot = Some((place, link.request));
    }
    Call { state, links: &call }.find_starvation()
}

/// The links of a call that belong to one hub.
pub(crate) struct Call<'a> {
    pub(crate) state: &'a State,
    /// With their places in the call, at the front of the slice.
    pub(crate) links: &'a [Option<(usize, LeaseRequest)>],
}

impl Call<'_> {
    pub(crate) fn find_starvation(&self) -> Option<Starvation> {
        self.clash().or_else(|| self.envelopes()).or_else(|| self.chunks()).or_else(|| self.bytes())
    }

    fn iter(&self) -> impl Iterator<Item = (usize, LeaseRequest)> + '_ {
        self.links.iter().map_while(|link| *link)
    }

    fn of(&self, role: Role) -> impl Iterator<Item = (usize, LeaseRequest)> + '_ {
        self.iter().filter(move |(_, request)| request.role == role)
    }

    fn modifies(&self) -> bool {
        self.of(Role::Modify).next().is_some()
    }

    /// The link that an error about the limits names: preferably a producing one.
    fn first(&self) -> Option<usize> {
        self.of(Role::Produce).chain(self.iter()).next().map(|(place, _)| place)
    }

    /// Two links that want the same chunk and exclude each other.
    fn clash(&self) -> Option<Starvation> {
        let (one, modifier) = self.of(Role::Modify).next()?;
        let elsewhere = self.of(Role::Modify).find(|(_, other)| other.pool != modifier.pool);
        let beside = || self.of(Role::Peek).find(|(_, other)| other.pool == modifier.pool);
        if let Some((other, _)) = elsewhere.or_else(beside) {
            return Some(Starvation::Clash { one, other });
        }
        // The top chunk is not consumed while it is modified. So all these consumers would have to
        // have had it, and then it would remain only for another one.
        let units = self.of(Role::Consume).fold(0, |units, (_, consumer)| units | consumer.unit);
        let (other, _) = self.of(Role::Consume).next()?;
        (self.state.consumers() & !units == 0).then_some(Starvation::Same { one, other })
    }

    /// Number of chunks that those of the call's links need at once. A consumer gets a new chunk
    /// with each lease, and competing consumers count as one. Different consumers, and peeking
    /// links, may get the same chunk. A modified chunk is not consumed.
    fn chunks_of(&self, among: impl Fn(&LeaseRequest) -> bool) -> u32 {
        let own = |role| self.of(role).map(|(_, request)| request).filter(&among);
        let (mut units, mut consumed) =
            (own(Role::Consume).fold(0, |units, consumer| units | consumer.unit), 0);
        while units != 0 {
            let unit = units & units.wrapping_neg();
            consumed = consumed
                .max(own(Role::Consume).filter(|consumer| consumer.unit == unit).count() as u32);
            units -= unit;
        }
        let looked = own(Role::Peek).chain(own(Role::Modify)).next().is_some();
        if self.modifies() {
            consumed + u32::from(looked)
        } else {
            consumed.max(u32::from(looked))
        }
    }

    fn envelopes(&self) -> Option<Starvation> {
        let mut pools = 0u32;
        let mut first = |request: &LeaseRequest| {
            let before = pools;
            pools |= 1 << request.pool;
            before != pools
        };
        self.iter().filter(|(_, request)| first(request)).find_map(|(link, request)| {
            let here = |other: &LeaseRequest| other.pool == request.pool;
            let produced = self.of(Role::Produce).filter(|(_, other)| here(other)).count() as u32;
            let total = self.state.pools[request.pool as usize].total;
            let missing = (produced + self.chunks_of(here)).saturating_sub(total);
            (missing > 0).then_some(Starvation::Envelopes { link, missing })
        })
    }

    fn chunks(&self) -> Option<Starvation> {
        let needed = self.of(Role::Produce).count() as u64 + u64::from(self.chunks_of(|_| true));
        let limit = self.state.max_chunks;
        (needed > limit).then_some(Starvation::Chunks { link: self.first()?, needed, limit })
    }

    fn bytes(&self) -> Option<Starvation> {
        let produced = self.of(Role::Produce).count() as u64;
        let limit = self.state.max_bytes;
        if produced == 0 || limit == u64::MAX {
            return None;
        }
        let room = produced.saturating_mul(self.state.size);
        // Chunks may be empty, so only those count that exist and that nobody else can remove.
        let held = if room > limit { 0 } else { self.kept_bytes() };
        let needed = room.saturating_add(held);
        (needed > limit).then_some(Starvation::Bytes { link: self.first()?, held, needed, limit })
    }

    /// Bytes of the existing chunks that the call needs and that stay in the queue until it has had
    /// them.
    fn kept_bytes(&self) -> u64 {
        let state = self.state;
        let takes = |role| matches!(role, Role::Consume | Role::Modify);
        let is_ours = |number: u32| self.iter().any(|(_, request)| request.link == number);
        let mut others = (0u32..).zip(&state.links);
        if others.any(|(number, link)| link.alive && takes(link.role) && !is_ours(number)) {
            return 0;
        }
        let looks = self.of(Role::Peek).chain(self.of(Role::Modify)).next().is_some();
        // The units of the call's consumers, as often as each occurs in the call.
        let mut waiting = [0; MOST_LINKS];
        for ((_, consumer), slot) in self.of(Role::Consume).zip(&mut waiting) {
            *slot = consumer.unit;
        }
        let (mut bytes, mut place) = (0, state.head);
        while place != NONE {
            let chunk = &state.chunks[place as usize];
            let (mut served, mut wanted) = (0, looks && place == state.head);
            for unit in &mut waiting {
                if *unit != 0 && (served | chunk.taken | chunk.passed) & *unit == 0 {
                    served |= std::mem::take(unit);
                    wanted = true;
                }
            }
            if wanted {
                if chunk.consumers > 0 || chunk.modifiers > 0 || chunk.hidden {
                    return 0;
                }
                bytes += chunk.bytes;
            }
            place = chunk.next;
        }
        bytes
    }
}

impl State {
    /// Does this request wait in vain for the top chunk? That is so if all of this holds:
    ///
    /// - The chunk has no replica in the request's pool, and no envelope becomes free there: each
    ///   has the only replica of a younger chunk, which waits behind this one.
    /// - There are no leases and no copies in progress.
    /// - Nobody can consume the top chunk where it is, not with another dataflow strategy either.
    #[cold]
    pub(crate) fn is_stuck(&self, request: &LeaseRequest) -> bool {
        let nobody_at_work = self.leases == 0 && self.copies == 0;
        if self.pools.len() < 2 || self.head == NONE || !nobody_at_work || request.synced {
            return false;
        }
        let top = &self.chunks[self.head as usize];
        let waits = match request.role {
            Role::Produce => false,
            Role::Consume => top.passed & request.unit == 0,
            Role::Peek | Role::Modify => true,
        };
        // Replicas of copied chunks are reclaimed when a strategy no longer wants them. So no chunk
        // may have two replicas, and there must be no free envelope to copy to.
        let is_full = |pool: u32| match self.retain {
            Retain::Always => self.pools[pool as usize].free_count == 0,
            _ => self.queued == self.envelopes.len() as u64,
        };
        let out_of_reach = |pool: u32| top.replicas & (1 << pool) == 0 && is_full(pool);
        if !waits || top.hidden || !out_of_reach(request.pool) {
            return false;
        }
        // A consumer that still has to have both chunks gets this one first. A younger chunk for
        // which no such consumer exists may leave before: consumers with several leases may give
        // back the oldest.
        let everybody = self.consumers();
        let mut place = top.next;
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            if everybody & !(top.passed | chunk.passed) == 0 {
                return false;
            }
            place = chunk.next;
        }
        let needs_it = |link: &&records::Link| {
            link.alive && link.role == Role::Consume && link.unit & top.passed == 0
        };
        let mut consumers = self.links.iter().filter(needs_it).peekable();
        // Without consumers, the caller pops the chunk.
        consumers.peek().is_some() && consumers.all(|link| out_of_reach(link.pool))
    }
}

/// Error text for a link that is stuck.
#[cold]
pub(crate) fn stuck(role: Role, handle: Option<usize>, kind: MemoryKind) -> String {
    let who = named(role, handle, kind);
    format!(
        "hub: {who} can never be served: the oldest chunk is elsewhere, and younger ones have all \
         envelopes on {kind}: 1 more envelope needed there (ucxx_hub_add_envelopes), or a \
         max_queue_chunks of no more than the envelopes there"
    )
}
