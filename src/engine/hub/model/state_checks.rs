//! Invariants of a hub's tables: what a lease has to find, and what holds after each random step,
//! after close, and when everything in progress has ended.

use crate::engine::hub::lease::{LeaseRequest, Refusal};
use crate::engine::hub::model::state_tests::{word_at, Held, Model, World};
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{COMPETING, NONE};

impl World {
    /// The chunk that the request should get, if it is available.
    pub(super) fn expected(&self, request: &LeaseRequest) -> Option<u64> {
        match request.role {
            Role::Produce => None,
            Role::Peek | Role::Modify => self.queue.first().map(|chunk| chunk.order),
            Role::Consume => {
                let taken = |order: u64| {
                    let same = |held: &&Held| {
                        held.request.role == Role::Consume && held.request.unit == request.unit
                    };
                    self.held.iter().filter(same).any(|held| held.order == Some(order))
                };
                let free = |chunk: &&Model| chunk.passed & request.unit == 0 && !taken(chunk.order);
                self.queue.iter().find(free).map(|chunk| chunk.order)
            }
        }
    }

    /// After close, CLOSED is reported to exactly those links that get nothing more.
    fn check_end(&mut self) {
        let producing = self.held.iter().any(|held| held.order.is_none());
        for number in 0..self.state.links.len() {
            let link = &self.state.links[number];
            let role = link.role;
            if !link.alive {
                continue;
            }
            let request = link.request(number as u32);
            let others = self.held.iter().any(|held| {
                let same = held.request.role == Role::Consume && held.request.unit == COMPETING;
                let there = self
                    .queue
                    .iter()
                    .any(|chunk| Some(chunk.order) == held.order && chunk.passed & COMPETING == 0);
                role == Role::Consume
                    && request.unit == COMPETING
                    && same
                    && there
                    && held.request.link != request.link
            });
            let comes =
                role != Role::Produce && (producing || others || self.expected(&request).is_some());
            let found = self.state.look(&request);
            assert_eq!(
                found == Err(Refusal::Closed),
                !comes,
                "{role:?} of link {number}: {found:?}"
            );
        }
    }

    pub(super) fn check(&self) {
        let state = &self.state;
        if let Some((order, pool)) = self.stuck {
            let top = &state.chunks[state.head as usize];
            assert!(top.order == order && top.replicas & (1 << pool) == 0, "it was to stand still");
        }
        let mut place = state.head;
        let mut held_here = 0;
        for model in &self.queue {
            let chunk = &state.chunks[place as usize];
            assert_eq!(chunk.order, model.order);
            assert!(chunk.replicas != 0);
            let mut number = chunk.first;
            let mut seen = 0;
            while number != NONE {
                let envelope = &state.envelopes[number as usize];
                assert_eq!((envelope.stage, envelope.chunk), (Stage::Ready, place));
                assert_eq!(seen & (1 << envelope.pool), 0, "two replicas in one pool");
                seen |= 1 << envelope.pool;
                if envelope.modifiers == 0 && !chunk.changed {
                    // SAFETY: nobody writes to this envelope.
                    assert_eq!(unsafe { *word_at(state, number) }, model.word);
                    assert_eq!(envelope.length, model.length);
                }
                number = envelope.next;
            }
            assert_eq!(seen, chunk.replicas);
            held_here += chunk.bytes;
            place = chunk.next;
        }
        assert_eq!(place, NONE);
        assert_eq!((state.queued, state.queued_bytes), (self.queue.len() as u64, held_here));
        let count = |stage| {
            state.envelopes.iter().filter(|envelope| envelope.stage == stage).count() as u64
        };
        assert_eq!(
            count(Stage::Free),
            state.pools.iter().map(|pool| u64::from(pool.free_count)).sum()
        );
        assert_eq!(count(Stage::Trashed), state.stats.trashed_envelopes);
        assert_eq!(count(Stage::Filling), self.transfers.len() as u64);
        assert_eq!(count(Stage::Producing), state.reserved);
        let leased = state.envelopes.iter().filter(|envelope| envelope.leases > 0).count() as u64;
        assert_eq!(leased, state.stats.leased_envelopes);
        assert_eq!(self.held.len(), state.leases as usize);
        for trashed in state.envelopes.iter().filter(|envelope| envelope.stage == Stage::Trashed) {
            assert!(trashed.leases + trashed.copies > 0, "trashed, and nobody looks at it");
        }
    }

    /// Ends everything in progress, and removes all chunks.
    pub(super) fn wind_up(&mut self) -> bool {
        self.stuck = None;
        self.state.closed = true;
        while !self.held.is_empty() {
            self.check_end();
            self.end();
            self.check();
        }
        self.check_end();
        while let Some(transfer) = self.transfers.pop() {
            self.state.end_transfer(&transfer, None);
        }
        while self.state.head != NONE {
            self.state.remove(self.state.head);
        }
        assert!(self.state.envelopes.iter().all(|envelope| envelope.stage == Stage::Free));
        assert_eq!((self.state.queued, self.state.queued_bytes, self.state.reserved), (0, 0, 0));
        assert_eq!((self.state.leases, self.state.copies), (0, 0));
        assert!(self.state.in_flight.iter().all(|count| *count == 0));
        self.has_been_stuck
    }
}
