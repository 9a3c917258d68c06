//! How a hub that has gone by its queues goes over to the tables: what was in the queues, and with
//! whom, is entered there. What that is, and when, is said in `mode`.

use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lease::LeaseRecord;
use crate::engine::hub::lockfree::mode::{Form, COMMITS, CONSUMES, LINK};
use crate::engine::hub::lockfree::queue_pair::Patience;
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};
use std::sync::atomic::Ordering;

impl State {
    /// It goes by the tables from now on.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_tables(&mut self) {
        let before = std::mem::replace(&mut self.form, Form::Tables);
        let Some(lane) = self.lane.clone().filter(|_| before == Form::Queues) else { return };
        let [ready, free] = lane.close();
        let traffic = lane.traffic();
        // As if every envelope were with somebody.
        (self.pools[0].free, self.pools[0].free_count) = (NONE, 0);
        self.envelopes.iter_mut().for_each(|envelope| envelope.stage = Stage::Producing);
        self.terms = vec![LeaseRecord::NONE; self.envelopes.len()];
        // By a mistake of the caller's an envelope may be there twice: where it is found first
        // counts.
        for number in free.into_iter().map(number_of) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.put_back(number);
                self.free_terms_of(number);
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
            self.free_terms_of(number);
        }
        self.stats.chunks_produced = traffic.produced;
        self.stats.chunks_consumed = traffic.consumed;
        self.stats.queue_high_water = traffic.most;
    }

    /// Of those envelopes that are in neither queue: of each the lease that has its number. Those
    /// that were given back are chunks again.
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
            let tenure = holder(lease);
            if tenure & CONSUMES != 0 {
                // Not to be read once more: who ends it just now has nothing there until it finds
                // the lane closed.
                taken.push((lease.taken.load(Ordering::Relaxed), number, tenure));
                continue;
            }
            // Not what the handle says: the holder may be about to commit.
            self.envelopes[number as usize].length = UNSET;
            self.reserved += 1;
            self.enter_lease(number, tenure, Role::Produce, (NONE, 0));
        }
        taken.sort_unstable();
        for (_, number, tenure) in taken {
            let place = self.free_chunk;
            self.append_chunk(number);
            if tenure == 0 {
                self.free_terms_of(number);
                continue;
            }
            // Nobody else is to have it, and it is not the next one for anybody.
            let chunk = &mut self.chunks[place as usize];
            chunk.taken = COMPETING;
            (chunk.consumers, chunk.leases, chunk.holder) = (1, 1, (tenure >> LINK) as u32);
            let order = chunk.order;
            if self.cursors[0] == place {
                self.cursors[0] = NONE;
            }
            self.enter_lease(number, tenure, Role::Consume, (place, order));
        }
    }

    fn append_chunk(&mut self, number: u32) {
        let length = Hub::handle(self, number).length.load(Ordering::Relaxed);
        self.append(number, length);
    }

    fn enter_lease(&mut self, number: u32, tenure: u64, role: Role, chunk: (u32, u64)) {
        let link = (tenure >> LINK) as u32;
        let (autocommit, unit) = (tenure & COMMITS != 0, COMPETING);
        let (role, envelope, (chunk, order)) = (Some(role), number, chunk);
        self.terms[number as usize] = LeaseRecord {
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
    // SAFETY: a handle of the hub's, which are there as long as it is.
    unsafe { &*lease }.number()
}

/// Who has an envelope that is in neither queue. Whoever has found the lane closed when giving it
/// back is about to say that it has it still.
fn holder(lease: &Lease) -> u64 {
    let mut patience = Patience::new();
    loop {
        let tenure = lease.tenure.load(Ordering::Relaxed);
        if tenure != 0 {
            return tenure;
        }
        patience.wait();
    }
}
