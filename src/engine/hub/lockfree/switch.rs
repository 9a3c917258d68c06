//! How a hub goes over to its plainest form, which needs no lock, and back: when that may be, and
//! what is carried between the tables and the lane. What the lane is, is said in `mode`.

use crate::engine::hub::envelope::Lease;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lockfree::mode::{word, COMMITS, CONSUMES, IN_TABLES, LINK, PRODUCES};
use crate::engine::hub::lockfree::queue_pair::Patience;
use crate::engine::hub::records::{Role, Stage};
use crate::engine::hub::state::{State, COMPETING, NONE, UNSET};
use std::sync::atomic::Ordering;

/// Bytes of all envelopes together, and their number.
const WARM: u64 = 1 << 20;
const MOST: usize = 4096;
/// Leases that end before it is opened, beside two for each envelope: at first, and at most.
pub(super) const SOON: u32 = 64;
const LATE: u32 = 1 << 16;
/// And before it is tried again where somebody was asleep, or the like.
const AGAIN: u32 = 16;

impl State {
    /// One kind of memory that no GPU knows, and not too much of it.
    pub(super) fn is_warm(&self) -> bool {
        let count = self.envelopes.len();
        (1..=MOST).contains(&count)
            && self.pools.len() == 1
            && !self.pools[0].kind.needs_cuda()
            && self.size.saturating_mul(count as u64) <= WARM
    }

    /// Is there nothing but producers and consumers that compete, none of whom waits, or is to be
    /// told?
    fn is_plain(&self) -> bool {
        let count = self.envelopes.len() as u64;
        let in_tables = self.copies == 0 && self.calls == 0;
        let waits =
            self.asleep != 0 || self.distant != 0 || self.watched != 0 || self.pools[0].demand != 0;
        let joined = self.sources != 0 || self.drains != 0 || self.lent != 0 || self.source_ended;
        let competes = self.units == COMPETING && self.broadcast == 0 && !self.flow;
        let bounded = count > self.max_chunks || count * self.size > self.max_bytes;
        let has_all = u64::from(self.pools[0].free_count) + self.queued + self.reserved == count;
        in_tables
            && !waits
            && !joined
            && competes
            && !bounded
            && has_all
            && !self.marked
            && !self.closed
    }

    /// Leases that are to end before it is worth it.
    fn needed(&self) -> u32 {
        self.plain.soon * (1 + self.envelopes.len() as u32 / 32)
    }

    /// Somebody goes to sleep, which is what the lane was closed for, if it was: that does not
    /// count against one that was used.
    pub(crate) fn interrupt(&mut self) {
        if self.plain.was_used {
            self.plain.patience = self.plain.patience.min(self.needed());
        }
    }

    /// After the end of a lease, when that has been long enough ago that something stood against
    /// it.
    #[cold]
    #[inline(never)]
    pub(crate) fn open_lane(&mut self) {
        self.plain.calm = 0;
        if self.plain.lanes.is_empty() || !self.is_warm() {
            return;
        }
        if !self.is_plain() {
            // Somebody may sleep just now.
            return self.plain.try_again_after(AGAIN);
        }
        let Some(taken) = self.count_taken() else {
            // Whatever is in the way takes a while longer, and so does the look at everything.
            return self.plain.try_again_after(self.needed());
        };
        for (number, envelope) in self.envelopes.iter().enumerate() {
            let handle = Hub::handle(self, number as u32);
            if envelope.leases == 0 {
                handle.point_to(envelope, self.pools[0].kind);
                handle.tenure.store(0, Ordering::Relaxed);
            } else if handle.tenure.load(Ordering::Relaxed) == IN_TABLES {
                handle.tenure.store(self.tenure_of(number as u32), Ordering::Relaxed);
            }
            // Else it has been in the lane before, and its holder, who may be trying to end it
            // there just now, is the only one to write that.
        }
        let state = &*self;
        let item = |number: u32| std::ptr::from_ref(Hub::handle(state, number)).cast_mut();
        let mut free = state.pools[0].free;
        let free = std::iter::from_fn(|| {
            let number = free;
            free = state.envelopes.get(number as usize)?.next;
            Some(item(number))
        });
        let chunks = || {
            let mut place = state.head;
            std::iter::from_fn(move || {
                let chunk = state.chunks.get(place as usize)?;
                place = chunk.next;
                Some(item(chunk.first))
            })
        };
        if let Some(lane) = state.plain.lanes.last() {
            lane.open(free, chunks().take(taken), chunks().skip(taken), |lease, order| {
                // SAFETY: as in `mode::begin`.
                unsafe { &*lease }.taken.store(order, Ordering::Relaxed);
            });
        }
        self.plain.is_open = true;
        self.forget_leases();
    }

    /// How many chunks are consumed just now, by leases that can go on in the lane, as those of the
    /// producers; None where there is anything else with any chunk or envelope. Those that are
    /// consumed are the oldest: the lane does not know of any that were given back behind them.
    fn count_taken(&self) -> Option<usize> {
        let (mut place, mut taken, mut fresh) = (self.head, 0, false);
        while place != NONE {
            let chunk = &self.chunks[place as usize];
            let envelope = &self.envelopes[chunk.first as usize];
            let apart = chunk.passed == 0
                && chunk.filling | chunk.failed == 0
                && !chunk.hidden
                && !chunk.changed;
            if !apart || chunk.replicas != 1 || envelope.next != NONE {
                return None;
            }
            if chunk.taken != 0 {
                let goes_on = chunk.leases == 1
                    && envelope.leases == 1
                    && self.tenure_of(chunk.first) & CONSUMES != 0;
                if fresh || !goes_on {
                    return None;
                }
                taken += 1;
            }
            fresh = chunk.taken == 0;
            place = chunk.next;
        }
        let produces = |number: &usize| {
            let envelope = &self.envelopes[*number];
            // What a swap has brought it has said how long it is, which the lane does not ask.
            let new = envelope.stage == Stage::Producing
                && envelope.leases == 1
                && envelope.length == UNSET;
            new && self.tenure_of(*number as u32) & PRODUCES != 0
        };
        // Most often it is enough to have looked at the chunks.
        let producing =
            if self.reserved == 0 { 0 } else { (0..self.envelopes.len()).filter(produces).count() };
        (producing as u64 == self.reserved && producing + taken == self.leases as usize)
            .then_some(taken)
    }

    /// Of the lease that has this envelope's number, if it is one of a link that the lane serves;
    /// else 0.
    fn tenure_of(&self, number: u32) -> u64 {
        let Some(terms) = self.terms.get(number as usize) else { return 0 };
        let Some(role) = terms.role else { return 0 };
        let serves = terms.envelope == number && terms.unit == COMPETING && !terms.settled;
        match self.links.get(terms.link as usize) {
            Some(link) if link.alive && serves => word(role, terms.link, terms.autocommit),
            _ => 0,
        }
    }

    /// The lane knows of them from here on. `relink_terms` follows when it is closed.
    fn forget_leases(&mut self) {
        for number in 0..self.envelopes.len() as u32 {
            let envelope = &mut self.envelopes[number as usize];
            if envelope.leases != 0 {
                envelope.leases = 0;
                let terms = &mut self.terms[number as usize];
                terms.role = None;
                self.links[terms.link as usize].leases -= 1;
            }
        }
        (self.leases, self.reserved) = (0, 0);
    }

    /// Enters in the tables what is in the lane, and with whom.
    #[cold]
    #[inline(never)]
    pub(super) fn close_lane(&mut self) {
        self.plain.is_open = false;
        let lanes = std::mem::take(&mut self.plain.lanes);
        let Some(lane) = lanes.last() else { return };
        let closed = lane.close();
        let traffic = closed.traffic();
        let stats = self.stats;
        self.empty_tables();
        // SAFETY: handles of the hub's, which are there as long as it is.
        let number = |lease: *mut Lease| unsafe { &*lease }.number();
        // By a mistake of the caller's an envelope may be there twice: where it is found first
        // counts.
        for number in closed.free().map(number) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.put_back(number);
            }
        }
        for number in closed.ready().map(number) {
            if self.envelopes[number as usize].stage == Stage::Producing {
                self.envelopes[number as usize].stage = Stage::Filling;
            }
        }
        self.enter_leases();
        for number in closed.ready().map(number) {
            if self.envelopes[number as usize].stage == Stage::Filling {
                let length = Hub::handle(self, number).length.load(Ordering::Relaxed);
                self.append(number, length);
            }
        }
        self.relink_terms();
        self.stats.chunks_produced = stats.chunks_produced + traffic.produced;
        self.stats.chunks_consumed = stats.chunks_consumed + traffic.consumed;
        self.stats.queue_high_water = stats.queue_high_water.max(traffic.most);
        self.changes += traffic.produced + traffic.consumed;
        self.plain.lanes = lanes;
        let (used, needed) = (traffic.produced + traffic.consumed, self.needed());
        let later = self.plain.patience.saturating_mul(2).clamp(needed, LATE.max(needed));
        self.plain.patience =
            if used >= u64::from(self.plain.patience) * 2 { needed } else { later };
        self.plain.was_used = used >= self.envelopes.len() as u64;
        self.plain.calm = 0;
    }

    /// As if there were neither chunks nor leases, and every envelope with somebody.
    fn empty_tables(&mut self) {
        (self.head, self.tail, self.queued, self.queued_bytes) = (NONE, NONE, 0, 0);
        self.cursors[0] = NONE;
        self.stats.leased_envelopes = 0;
        (self.pools[0].free, self.pools[0].free_count) = (NONE, 0);
        self.free_chunk = NONE;
        for (number, chunk) in self.chunks.iter_mut().enumerate().rev() {
            chunk.vanish(self.free_chunk);
            self.free_chunk = number as u32;
        }
        for envelope in &mut self.envelopes {
            envelope.stage = Stage::Producing;
        }
    }

    /// Of those envelopes that are in neither queue.
    fn enter_leases(&mut self) {
        let mut consumed = std::mem::take(&mut self.plain.consumed);
        for number in 0..self.envelopes.len() as u32 {
            if self.envelopes[number as usize].stage != Stage::Producing {
                continue;
            }
            let tenure = holder(Hub::handle(self, number));
            let lease = Hub::handle(self, number);
            let (length, taken) =
                (lease.length.load(Ordering::Relaxed), lease.taken.load(Ordering::Relaxed));
            if tenure & CONSUMES != 0 {
                self.envelopes[number as usize].length = length;
                // Not to be read once more: who gives it back just now has nothing there until it
                // finds the lane closed.
                consumed.push((taken, number, tenure));
                continue;
            }
            // Not what the handle says: the holder may be about to commit.
            self.envelopes[number as usize].length = UNSET;
            self.reserved += 1;
            self.enter_lease(number, tenure, Role::Produce, NONE);
        }
        consumed.sort_unstable();
        for (_, number, tenure) in consumed.drain(..) {
            let (length, place) = (self.envelopes[number as usize].length, self.free_chunk);
            self.append(number, length);
            // Nobody else is to have it, and it is not the next one for anybody.
            let chunk = &mut self.chunks[place as usize];
            chunk.taken = COMPETING;
            (chunk.consumers, chunk.leases, chunk.holder) = (1, 1, (tenure >> LINK) as u32);
            self.cursors[0] = NONE;
            self.enter_lease(number, tenure, Role::Consume, place);
        }
        self.plain.consumed = consumed;
    }

    fn enter_lease(&mut self, number: u32, tenure: u64, role: Role, place: u32) {
        let link = (tenure >> LINK) as u32;
        let order = if place == NONE { 0 } else { self.chunks[place as usize].order };
        self.occupy_terms(number, role, tenure & COMMITS != 0, (place, order), link);
        self.envelopes[number as usize].leases = 1;
        self.stats.leased_envelopes += 1;
        self.leases += 1;
        if let Some(link) = self.links.get_mut(link as usize) {
            link.leases += 1;
        }
    }
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
