//! Deadlines of requests, and the clock.
#![deny(unsafe_code)]

use crate::engine::core::request::request::Ticket;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds of CLOCK_MONOTONIC since the first call in this process. Starts at 1, so that 0 can mean none.
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1 + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The moment `timeout_ns` from now; `u64::MAX`, for ever, stays what it is.
pub(crate) fn deadline_after(timeout_ns: u64) -> u64 {
    now_ns().saturating_add(timeout_ns)
}

/// The same for those to which 0 is no limit.
pub(crate) fn deadline_if_any(timeout_ns: u64) -> u64 {
    deadline_after(if timeout_ns == 0 { u64::MAX } else { timeout_ns })
}

/// What is left until `deadline`, none for ever.
pub(crate) fn remaining(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now_ns())))
}

/// The deadlines that are running, earliest first. A request that ends before its deadline stays in until then: its
/// ticket is out of date by that time, and is passed over.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Ticket)>>,
}

impl Timers {
    pub(crate) fn add(&mut self, deadline: u64, ticket: Ticket) {
        self.heap.push(Reverse((deadline, ticket)));
    }

    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((deadline, _))| *deadline)
    }

    pub(crate) fn pop_expired(&mut self, now: u64) -> Option<Ticket> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, ticket))| ticket)
    }

    /// Drops what `keep` no longer wants; called when stale entries could have piled up.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Ticket) -> bool) {
        self.heap.retain(|Reverse((_, ticket))| keep(ticket));
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
