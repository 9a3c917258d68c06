//! Leaving lock-free mode: the content of the queues, and the leases, are entered into the tables.
//! Runs under the hub's lock, once in a hub's life. See `mode`.

use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::LeaseRecord;
use crate::engine::hub::lockfree::mode::{Mode, COMMITS, CONSUMES, LINK};
use crate::engine::hub::lockfree::queue_pair::Patience;
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};
use std::sync::atomic::Ordering;

impl State {
    /// Goes over to the tables.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_tables(&mut self) {
        let before = std::mem::replace(&mut self.mode, Mode::Tables);
        let Some(queues) = self.queues.clone().filter(|_| before == Mode::Queues) else { return };
        let [ready, free] = queues.close();
        let traffic = queues.traffic();
        // First, every envelope counts as leased.
        (self.pools[0].free, self.pools[0].free_count) = (NONE, 0);
        self.envelopes.iter_mut().for_each(|envelope| envelope.stage = Stage::Producing);
        self.lease_records = vec![LeaseRecord::NONE; self.envelopes.len()];
        // By an error of the caller an envelope may be there twice; the first occurrence counts.
        for number in free.into_iter().map(number_of) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.put_back(number);
                self.release_record(number);
            }
        }
        let mut ready: Vec<_> = ready.into_iter().map(number_of).collect();
        ready.retain(|number| {
            let envelope = &mut self.envelopes[*number as usize];
            let first = envelope.stage == Stage::Producing;
            envelope.stage = if first { Stage::Filling } else { envelope.stage };
            first
        });
        self.enter_leases();
        for number in ready {
            self.append_chunk(number);
            self.release_record(number);
        }
        self.stats.chunks_produced = traffic.produced;
        self.stats.chunks_consumed = traffic.consumed;
        self.stats.queue_high_water = traffic.most;
    }

    /// Enters a lease for each envelope that is in neither queue; the lease has the envelope's
    /// number. Those that were given back become chunks again.
    fn enter_leases(&mut self) {
        let returned = std::mem::take(&mut self.returned);
        let mut taken: Vec<_> =
            returned.into_iter().map(|(place, number)| (place, number, 0)).collect();
        for (_, number, _) in &taken {
            self.envelopes[*number as usize].stage = Stage::Filling;
        }
        for number in 0..self.envelopes.len() as u32 {
            if self.envelopes[number as usize].stage != Stage::Producing {
                continue;
            }
            let lease = Hub::handle(self, number);
            let owner = holder(lease);
            if owner & CONSUMES != 0 {
                // `owner` is read only once: a thread that is ending this lease now clears it
                // until it finds the queues closed.
                taken.push((lease.taken.load(Ordering::Relaxed), number, owner));
                continue;
            }
            // Not the length in the handle: the holder may be about to commit.
            self.envelopes[number as usize].length = UNSET;
            self.reserved += 1;
            self.enter_lease(number, owner, Role::Produce, (NONE, 0));
        }
        taken.sort_unstable();
        for (_, number, owner) in taken {
            let place = self.free_chunk;
            self.append_chunk(number);
            if owner == 0 {
                self.release_record(number);
                continue;
            }
            // Held by the consumer, so nobody else may have it, and no cursor may point to it.
            let chunk = &mut self.chunks[place as usize];
            chunk.taken = COMPETING;
            (chunk.consumers, chunk.leases, chunk.holder) = (1, 1, (owner >> LINK) as u32);
            let order = chunk.order;
            if self.cursors[0] == place {
                self.cursors[0] = NONE;
            }
            self.enter_lease(number, owner, Role::Consume, (place, order));
        }
    }

    fn append_chunk(&mut self, number: u32) {
        let length = Hub::handle(self, number).length.load(Ordering::Relaxed);
        self.append(number, length);
    }

    fn enter_lease(&mut self, number: u32, owner: u64, role: Role, chunk: (u32, u64)) {
        let link = (owner >> LINK) as u32;
        let (autocommit, unit) = (owner & COMMITS != 0, COMPETING);
        let (role, envelope, (chunk, order)) = (Some(role), number, chunk);
        self.lease_records[number as usize] = LeaseRecord {
            role,
            autocommit,
            envelope,
            chunk,
            order,
            unit,
            link,
            ..LeaseRecord::NONE
        };
        self.envelopes[number as usize].leases = 1;
        self.stats.leased_envelopes += 1;
        self.leases += 1;
        if let Some(link) = self.links.get_mut(link as usize) {
            link.leases += 1;
        }
    }
}

fn number_of(lease: *mut Lease) -> u32 {
    // SAFETY: a handle of the hub; handles live as long as the hub.
    unsafe { &*lease }.number()
}

/// The owner of an envelope that is in neither queue. 0 is temporary: a thread that has found the
/// queues closed while pushing restores the owner.
fn holder(lease: &Lease) -> u64 {
    let mut patience = Patience::new();
    loop {
        let owner = lease.owner.load(Ordering::Relaxed);
        if owner != 0 {
            return owner;
        }
        patience.wait();
    }
}
