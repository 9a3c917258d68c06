//! Operations that have completed and whose callbacks have not returned yet. Flushes, the end of
//! their endpoint and its `on_close` come after these callbacks.
//!
//! Only operations with a callback are counted, inside the gate. The count is incremented when the
//! request is put on the ready list, and decremented when its callback has returned and its waiters
//! are released. In between the endpoint stays registered. The order of work in a pass is not
//! enough for this, because another thread may make progress while a callback runs.
#![deny(unsafe_code)]

use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::request::operation_kind::Kind;
use crate::engine::core::worker::worker::Worker;
use std::cell::Cell;

/// The counts of an endpoint, or of a worker.
#[derive(Default)]
pub(crate) struct Due {
    /// Callbacks of any operation.
    pub(crate) callbacks: Cell<u32>,
    /// Those of sends, which flushes wait for.
    pub(crate) sends: Cell<u32>,
}

impl Due {
    fn add(&self, kind: Kind) {
        self.callbacks.set(self.callbacks.get() + 1);
        self.sends.set(self.sends.get() + u32::from(kind.is_flushed()));
    }

    fn remove(&self, kind: Kind) {
        self.callbacks.set(self.callbacks.get() - 1);
        self.sends.set(self.sends.get() - u32::from(kind.is_flushed()));
    }
}

impl Worker {
    /// Sends that a flush of the worker waits for.
    pub(crate) fn unflushed(&self) -> u32 {
        self.sends_in_flight.get() + self.due.sends.get()
    }

    /// A request of the endpoint has its result, and its callback is due.
    pub(crate) fn callback_is_due(&self, endpoint: &Endpoint, kind: Kind) {
        endpoint.due.add(kind);
        self.due.add(kind);
    }

    /// Its callback has returned. `sequence`: the request's.
    pub(crate) fn callback_has_returned(&self, endpoint: &Endpoint, kind: Kind, sequence: u64) {
        endpoint.due.remove(kind);
        self.due.remove(kind);
        if kind.is_flushed() && self.flushes_active.get() > 0 {
            self.flushes_move_on(Some(endpoint), sequence);
        }
        if endpoint.due.callbacks.get() == 0 && endpoint.phase() > Phase::Flushing {
            endpoint.watch();
            self.wake_sleeper();
        }
    }
}
