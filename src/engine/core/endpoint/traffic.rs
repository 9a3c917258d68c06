//! Counters of an endpoint: what is in flight, and what was sent. The worker's thread writes them.
#![deny(unsafe_code)]

use crate::engine::base::status::Result;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::request::{Kind, Part, Slot};
use std::cell::Cell;

/// Figures of an endpoint.
#[allow(missing_docs)]
pub struct Traffic {
    pub operations_sent: u64,
    pub bytes_sent: u64,
    pub in_flight: u64,
    pub window_operations: u64,
    pub window_bytes: u64,
    pub queued_operations: u64,
    pub queued_bytes: u64,
}

impl Endpoint {
    #[inline]
    pub(crate) fn in_flight_add(&self, slot: &Slot) {
        let counter = self.counter(slot.kind.get());
        counter.set(counter.get() + 1);
        if let Some(counter) = self.counter_of_part(slot, slot.kind.get()) {
            counter.set(counter.get() + 1);
        }
        if matches!(slot.kind.get(), Kind::Get | Kind::Atomic) {
            self.has_read.set(true);
        }
        if slot.kind.get().is_send() {
            self.one_sided.set(self.one_sided.get() + u32::from(slot.kind.get().is_one_sided()));
            self.send_begun(slot);
        }
    }

    /// `kind`: the slot's kind.
    #[inline(always)]
    pub(crate) fn in_flight_remove(&self, slot: &Slot, kind: Kind) {
        let counter = self.counter(kind);
        counter.set(counter.get() - 1);
        if let Some(counter) = self.counter_of_part(slot, kind) {
            counter.set(counter.get() - 1);
        }
        if kind.is_send() {
            self.one_sided.set(self.one_sided.get() - u32::from(kind.is_one_sided()));
            self.send_ended(slot);
        }
    }

    #[inline(always)]
    fn counter(&self, kind: Kind) -> &Cell<u32> {
        if kind.is_flushed() {
            &self.sends
        } else if kind.is_recv() {
            &self.watchers
        } else {
            &self.controls
        }
    }

    /// The second counter for some of the controls.
    #[inline(always)]
    fn counter_of_part(&self, slot: &Slot, kind: Kind) -> Option<&Cell<u32>> {
        if kind != Kind::Internal {
            return None;
        }
        match slot.part.get() {
            Part::Nothing => Some(&self.sayings),
            Part::Flush(_) | Part::FlushBeforeClose | Part::Answer => Some(&self.ucp_flushes),
            _ => None,
        }
    }

    /// The number of sends so far: the position of the next one.
    pub(crate) fn operations_sent(&self) -> u64 {
        self.operations_sent.get()
    }

    #[inline]
    pub(crate) fn count_sent(&self, bytes: u64) {
        self.operations_sent.add(1);
        self.bytes_sent.add(bytes);
    }
}

impl SharedEndpoint {
    /// What was sent, and what is in flight.
    pub fn traffic(&self) -> Result<Traffic> {
        let inside = self.enter()?;
        let (window_operations, window_bytes) = inside.window.in_ucp();
        // Not in the last expression, whose temporaries are dropped after `inside`: another thread
        // would find it borrowed.
        let flushes = inside.flushes.borrow().len() as u64;
        Ok(Traffic {
            operations_sent: inside.operations_sent.get(),
            bytes_sent: inside.bytes_sent.get(),
            in_flight: u64::from(inside.sends.get()) + flushes,
            window_operations,
            window_bytes,
            queued_operations: inside.window.queued_ops.get(),
            queued_bytes: inside.window.queued_bytes.get(),
        })
    }
}
