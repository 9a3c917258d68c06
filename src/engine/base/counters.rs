//! Counters: of one thread at a time, and of failures. Any thread reads them.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// A counter with one writer at a time: adding is a load and a store, not a read-modify-write.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Adds one and returns the new value.
    #[inline]
    pub(crate) fn count(&self) -> u64 {
        let count = self.0.load(Ordering::Relaxed).wrapping_add(1);
        self.0.store(count, Ordering::Relaxed);
        count
    }

    pub(crate) fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(amount), Ordering::Relaxed);
    }

    /// The current value. Two counters are not read at the same instant, so their sum may be off by
    /// what changes meanwhile.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Different statuses that are counted separately. An object meets fewer.
const STATUSES: usize = 24;

/// Failures by status, counted by any thread. Each status takes the first free place; what finds
/// none is counted as what has the last place.
#[derive(Default)]
pub struct Failures([(AtomicI32, AtomicU64); STATUSES]);

impl Failures {
    #[cold]
    pub(crate) fn count(&self, status: Status) {
        // Applications' statuses count as one: there may be any number of them.
        let status = status.0.max(Status::APPLICATION.0);
        let order = Ordering::Relaxed;
        let place = self.0.iter().find(|(known, _)| {
            known
                .compare_exchange(0, status, order, order)
                .map_or_else(|now| now == status, |_| true)
        });
        place.unwrap_or(&self.0[STATUSES - 1]).1.fetch_add(1, order);
    }

    /// Each status that was met, and how often.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Status, u64)> + '_ {
        let order = Ordering::Relaxed;
        let counts =
            self.0.iter().map(move |(known, count)| (known.load(order), count.load(order)));
        counts.take_while(|(known, _)| *known != 0).map(|(known, count)| (Status(known), count))
    }

    pub(crate) fn sum(&self) -> u64 {
        self.each().map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_status() {
        let failures = Failures::default();
        let met = [-3, -20, -3, -1000, -1001, -3];
        met.into_iter().for_each(|status| failures.count(Status(status)));
        let counts: Vec<_> = failures.each().map(|(status, count)| (status.0, count)).collect();
        assert_eq!(counts, [(-3, 3), (-20, 1), (-1000, 2)]);
        // More than there are places for: the last place has the rest.
        (-90..=-50).for_each(|status| failures.count(Status(status)));
        assert_eq!((failures.each().count(), failures.sum()), (STATUSES, 6 + 41));
    }
}
