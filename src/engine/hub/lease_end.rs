//! The end of leases: what a commit, an abort and an undo do to the chunk, its replicas and the
//! links. How leases begin is in `lease`. All of it runs under the hub's lock.
#![deny(unsafe_code)]

use crate::engine::hub::lease::LeaseRecord;
use crate::engine::hub::ready::Snapshot;
use crate::engine::hub::records::{Retain, Role};
use crate::engine::hub::state::{bits, State, COMPETING, NONE};
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::os::trace::{self, What};

/// How a lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The chunk has this length.
    Commit(u64),
    Abort,
    /// As if there had been no lease.
    Undo,
}

impl State {
    /// Ends a lease. The caller has checked that `end` is allowed.
    #[inline(always)]
    pub(crate) fn end(&mut self, number: u32, end: End) {
        let record = self.lease_records[number as usize];
        let Some(role) = record.role else { return };
        if trace::is_on() {
            let length = if let End::Commit(length) = end { length } else { 0 };
            self.trace(What::LeaseEnd, role, number, length);
        }
        if role == Role::Produce {
            self.end_production(&record, end);
        } else {
            self.end_reading(role, &record, end);
        }
        self.release_record(number);
        self.leases -= 1;
        if record.link != NONE {
            if end == End::Abort || (end != End::Undo && matches!(role, Role::Peek | Role::Modify))
            {
                // The link knows its own change, but not those that others made meanwhile.
                let changed = u64::from(role == Role::Modify && end != End::Abort);
                self.note_declined(
                    record.link,
                    Snapshot { order: record.order, changes: record.since + changed },
                );
            }
            self.links[record.link as usize].leases -= 1;
            if !self.links[record.link as usize].alive {
                self.forget_link(record.link);
            }
        }
    }

    #[inline(always)]
    fn end_production(&mut self, record: &LeaseRecord, end: End) {
        self.reserved -= 1;
        self.stats.leased_envelopes -= 1;
        self.envelopes[record.envelope as usize].leases = 0;
        match end {
            End::Commit(length) => {
                self.append(record.envelope, length);
                // There may be more room, as it was reserved for a full envelope.
                self.wake_mask |= DATA | if self.max_bytes != u64::MAX { ROOM } else { 0 };
            }
            _ => {
                self.trash(record.envelope);
                // It may be the last production that readers waited for.
                self.wake_mask |= ROOM | if self.closed { DATA } else { 0 };
            }
        }
    }

    #[inline(always)]
    fn end_reading(&mut self, role: Role, record: &LeaseRecord, end: End) {
        let envelope = &mut self.envelopes[record.envelope as usize];
        envelope.leases -= 1;
        self.stats.leased_envelopes -= u64::from(envelope.leases == 0);
        if role == Role::Modify {
            envelope.modifiers -= 1;
        }
        if self.is_there(record.chunk, record.order) {
            let chunk = &mut self.chunks[record.chunk as usize];
            chunk.leases -= 1;
            match role {
                Role::Consume => self.end_consumption(record, end),
                Role::Modify => self.end_change(record.chunk, record.envelope, end),
                _ => {}
            }
        }
        self.free_if_unused(record.envelope);
        self.wake_mask |= DATA | ROOM;
    }

    #[inline(always)]
    fn end_consumption(&mut self, record: &LeaseRecord, end: End) {
        let place = record.chunk;
        let chunk = &mut self.chunks[place as usize];
        chunk.consumers -= 1;
        chunk.taken &= !record.unit;
        let mut was_hidden = false;
        // Only the competing consumer can have swapped it away. Broadcast consumers may have been
        // destroyed meanwhile, and their leases continue.
        if record.unit == COMPETING {
            was_hidden = std::mem::replace(&mut chunk.hidden, false);
            chunk.holder = NONE;
        }
        let order = chunk.order;
        if matches!(end, End::Commit(_)) {
            chunk.passed |= record.unit;
            // Its contents were swapped away, so consumers that were created since have nothing to
            // read.
            if was_hidden || self.is_done(place) {
                self.remove(place);
            } else if self.retain == Retain::UntilCopied {
                self.thin_out(place, 0);
            }
            return;
        }
        let cursor = self.cursors[record.unit.trailing_zeros() as usize];
        if cursor == NONE || order < self.chunks[cursor as usize].order {
            self.cursors[record.unit.trailing_zeros() as usize] = place;
        }
    }

    fn end_change(&mut self, place: u32, replica: u32, end: End) {
        let chunk = &mut self.chunks[place as usize];
        chunk.modifiers -= 1;
        if let End::Commit(length) = end {
            (chunk.changed, chunk.failed) = (true, 0);
            chunk.version = chunk.version.wrapping_add(1);
            self.changes += 1;
            self.envelopes[replica as usize].length = length;
            self.measure(place, length);
            self.keep_only(place, replica);
        }
        let chunk = &mut self.chunks[place as usize];
        if chunk.modifiers > 0 {
            return;
        }
        let changed = std::mem::replace(&mut chunk.changed, false);
        if end != End::Abort {
            return;
        }
        // The lease may have written to the replica. If there are other replicas, they have the old
        // contents. If not, the chunk has the new contents, or what a swap brought.
        if !changed && chunk.replicas.count_ones() > 1 {
            self.detach(replica);
            return;
        }
        chunk.version = chunk.version.wrapping_add(1);
        self.measure(place, self.envelopes[replica as usize].length);
    }

    /// Drops the other replicas, which are out of date.
    fn keep_only(&mut self, place: u32, kept: u32) {
        let others =
            self.chunks[place as usize].replicas & !(1 << self.envelopes[kept as usize].pool);
        for pool in bits(others) {
            self.detach(self.replica(place, pool));
        }
    }

    /// Updates a chunk's length.
    pub(super) fn measure(&mut self, place: u32, length: u64) {
        let before = std::mem::replace(&mut self.chunks[place as usize].bytes, length);
        self.queued_bytes = self.queued_bytes - before + length;
        self.wake_mask |= if length < before { ROOM } else { 0 };
    }
}
