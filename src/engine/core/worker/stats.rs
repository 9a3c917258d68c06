//! Counters of a worker: the thread inside its gate writes them, any thread reads them.
#![deny(unsafe_code)]

use crate::engine::base::counters::{Counter, Failures};
use crate::engine::core::request::operation_kind::{Kind, NAMES};
use std::sync::atomic::AtomicU64;

/// Operations of one kind.
#[derive(Default)]
pub(crate) struct OfKind {
    /// They completed inside the call that submitted them.
    pub(crate) inline: Counter,
    /// All others that were submitted.
    pub(crate) started: Counter,
    /// Of those, how many completed with OK.
    pub(crate) completed: Counter,
    /// The bytes that they sent or received.
    pub(crate) bytes: Counter,
}

/// What arrives without an operation of this side.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Arrival {
    Message,
    MultiMessage,
    FetchRequest,
    HubMessage,
}

impl Arrival {
    pub(crate) const COUNT: usize = Arrival::HubMessage as usize + 1;
}

/// Arrivals of one sort.
#[derive(Default)]
pub(crate) struct Arrived {
    pub(crate) count: Counter,
    pub(crate) bytes: Counter,
}

#[derive(Default)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Stats {
    /// First: see `Worker`.
    pub progress_calls: Counter,
    kinds: [OfKind; Kind::COUNT],
    arrived: [Arrived; Arrival::COUNT],
    pub failed: Failures,
    pub canceled: Counter,
    pub wakeups: Counter,
    pub sleeps: Counter,
    pub endpoints: Counter,
    pub endpoint_failures: Counter,
    pub delayed: Counter,
    pub am_unhandled: Counter,
    /// Sends that had to wait in their endpoint's queue, and those that wait now.
    pub sends_waited: Counter,
    pub sends_waiting: Counter,
    /// Messages that had to wait for credit.
    pub credit_waits: Counter,
    /// Sends that were refused for want of room or credit. By any thread.
    pub sends_refused: AtomicU64,
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
    #[inline(always)]
    pub(crate) fn of(&self, kind: Kind) -> &OfKind {
        &self.kinds[kind as usize]
    }

    #[inline(always)]
    pub(crate) fn arrived(&self, what: Arrival, bytes: u64) {
        let arrived = &self.arrived[what as usize];
        arrived.count.add(1);
        arrived.bytes.add(bytes);
    }

    pub(crate) fn arrivals(&self, what: Arrival) -> &Arrived {
        &self.arrived[what as usize]
    }

    /// The operations. `waiting` more were submitted and are not counted yet.
    pub fn operations(&self, waiting: u64) -> Operations {
        // Reads the ends before the beginnings: an operation that ends meanwhile counts as in
        // flight, and the difference is never negative.
        let (failed, canceled) = (self.failed.sum(), self.canceled.get());
        let inline: u64 = self.kinds.iter().map(|kind| kind.inline.get()).sum();
        let completed = inline + self.kinds.iter().map(|kind| kind.completed.get()).sum::<u64>();
        let submitted =
            waiting + inline + self.kinds.iter().map(|kind| kind.started.get()).sum::<u64>();
        let in_flight = submitted.saturating_sub(completed + failed + canceled);
        Operations { submitted, completed, failed, canceled, in_flight }
    }

    /// Bytes in operations that send.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes(|kind| !kind.brings_bytes())
    }

    /// Bytes in operations that receive, and in what has arrived without one.
    pub fn bytes_received(&self) -> u64 {
        let arrived: u64 = self.arrived.iter().map(|arrived| arrived.bytes.get()).sum();
        arrived + self.bytes(Kind::brings_bytes)
    }

    fn bytes(&self, wanted: impl Fn(Kind) -> bool) -> u64 {
        let kinds = NAMES.iter().flat_map(|(_, kinds)| *kinds).filter(|kind| wanted(**kind));
        kinds.map(|kind| self.of(*kind).bytes.get()).sum()
    }
}
