//! Deadlines of requests.
#![deny(unsafe_code)]

use crate::engine::core::request::request::Ticket;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The deadlines that are running, earliest first. A request that ends before its deadline stays in
/// until then: its ticket is out of date by that time, and is passed over.
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
