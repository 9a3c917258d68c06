//! Counters of a worker: the thread inside its gate writes them, any thread reads them.
#![deny(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

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

#[derive(Default)]
#[allow(missing_docs)]
pub struct Stats {
    pub submitted: Counter,
    pub completed: Counter,
    pub failed: Counter,
    pub canceled: Counter,
    pub bytes_sent: Counter,
    pub bytes_received: Counter,
    pub progress_calls: Counter,
    pub wakeups: Counter,
    pub sleeps: Counter,
    pub endpoints: Counter,
    pub endpoint_failures: Counter,
    pub delayed: Counter,
    pub am_unhandled: Counter,
}

/// How many operations there were and what became of them: `submitted` is the sum of the others.
#[allow(missing_docs)]
pub struct Operations {
    pub submitted: u64,
    pub completed: u64,
    pub failed: u64,
    pub canceled: u64,
    pub in_flight: u64,
}

impl Stats {
    /// The operations. `waiting` more were submitted and are not in `submitted` yet.
    pub fn operations(&self, waiting: u64) -> Operations {
        // Reads the ends before the beginnings: an operation that ends meanwhile counts as in
        // flight, and the difference is never negative.
        let (completed, failed, canceled) =
            (self.completed.get(), self.failed.get(), self.canceled.get());
        let submitted = waiting + self.submitted.get();
        let in_flight = submitted.saturating_sub(completed + failed + canceled);
        Operations { submitted, completed, failed, canceled, in_flight }
    }
}
