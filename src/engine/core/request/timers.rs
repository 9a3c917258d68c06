//! Deadlines of requests.
#![deny(unsafe_code)]

use crate::engine::core::request::request::Ticket;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Remove invalid entries at this length, and then whenever there are twice as many as the last
/// sweep has left.
const SWEEP: usize = 1024;

/// The running deadlines, earliest first. A request that ends before its deadline stays in the list
/// until then, or until a sweep: its ticket is invalid by that time, and the entry is skipped. A
/// sweep costs as much as the entries that were added since the last one, so adding one costs the
/// same on average, whatever the length.
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(u64, Ticket)>>,
    sweep_at: usize,
}

impl Default for Timers {
    fn default() -> Self {
        Timers { heap: BinaryHeap::new(), sweep_at: SWEEP }
    }
}

impl Timers {
    pub(crate) fn add(&mut self, deadline: u64, ticket: Ticket) {
        if self.heap.len() >= self.sweep_at {
            self.heap.retain(|Reverse((_, ticket))| ticket.current().is_some());
            self.sweep_at = SWEEP.max(2 * self.heap.len());
        }
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

    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}
