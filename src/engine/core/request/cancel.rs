//! Ending operations early: cancelled, or timed out.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::wire::header;
use std::ptr::null;

impl Worker {
    /// Translates UCX's status for the caller. How UCX reports a lost peer depends on the
    /// transport; this library's status does not.
    pub(crate) fn status_from_ucx(&self, status: Status, endpoint: Option<&Endpoint>) -> Status {
        if !status.is_error()
            || status == Status::MESSAGE_TRUNCATED
            || status == Status::NO_RESOURCE
        {
            return status;
        }
        match endpoint {
            Some(endpoint) => endpoint.status_for(status),
            None => status.or_peer_failed(),
        }
    }

    /// Ends an operation if it can be ended at once. `reason`: `CANCELED`, or the status of the
    /// deadline or the endpoint.
    pub(crate) fn cancel_slot(&self, slot: &Slot, reason: Status) {
        if !slot.is_pending() {
            return;
        }
        slot.clear_mark(mark::PLAIN);
        if slot.has_mark(mark::WAITING) {
            slot.reason.set(reason.0);
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                let ticket = slot.ticket();
                (self.operation(slot).dropped)(self, slot, &slot.queued.get(), Some(endpoint));
                if ticket.current().is_none() || !slot.is_pending() {
                    // The endpoint was closed, and its queue with it.
                    return;
                }
            }
            return self.complete(slot, reason);
        }
        if slot.kind.get() == Kind::EndpointClose {
            slot.reason.set(reason.0);
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            let endpoint = unsafe { slot.endpoint.get().as_ref() };
            if endpoint.is_some_and(|endpoint| !endpoint.hurry_close(reason)) {
                return;
            }
        }
        (self.operation(slot).cancel)(self, slot, reason);
        if reason == Status::TIMED_OUT && slot.has_mark(mark::CLOSES) && slot.is_pending() {
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                slot.reason.set(reason.0);
                endpoint.fail(Status::TIMED_OUT);
            }
        }
    }
}

/// Cancelling everything that callers have in flight, in the order of submission.
impl SharedWorker {
    /// Cancels every operation of the worker. Returns their number. It waits for the progress
    /// thread.
    pub fn cancel_all(&self) -> Result<usize> {
        let count = self.on_owner(|inside| Ok(inside.cancel_every(null())))?;
        self.tell_others();
        Ok(count)
    }

    /// The same, without waiting for the progress thread.
    pub fn post_cancel_all(&self) -> Result<()> {
        self.post(|inside| {
            inside.cancel_every(null());
        })?;
        self.tell_others();
        Ok(())
    }
}

impl SharedEndpoint {
    /// Cancels every operation of the endpoint. Returns their number. It waits for the progress
    /// thread.
    pub fn cancel_all(&self) -> Result<usize> {
        // A callback may destroy the last handle meanwhile.
        let worker = self.worker().clone();
        let count = self.on_owner(|inside| Ok(inside.worker.cancel_every(inside)))?;
        worker.tell_others();
        Ok(count)
    }

    /// The same, without waiting for the progress thread.
    pub fn post_cancel_all(&self) -> Result<()> {
        // As above.
        let worker = self.worker().clone();
        self.post(|endpoint| {
            endpoint.worker.cancel_every(endpoint);
        })?;
        worker.tell_others();
        Ok(())
    }
}

impl Worker {
    /// Cancels the operations of all endpoints (null), or of one. A receive belongs to the endpoint
    /// that it names as its source. Returns how many there were.
    fn cancel_every(&self, of: *const Endpoint) -> usize {
        let wanted = |slot: &Slot| {
            let kind = slot.kind.get();
            let is_users = !kind.is_internal() && kind != Kind::AmMessage && !is_hubs(slot);
            is_users && (of.is_null() || slot.endpoint.get() == of)
        };
        let mut count = 0;
        self.for_each_picked(wanted, |slot| {
            count += 1;
            self.cancel_slot(slot, Status::CANCELED);
        });
        count
    }
}

/// A message of a hub's stream that waits: without it the stream would break. Messages that UCX has
/// cannot be told apart, and are not affected.
fn is_hubs(slot: &Slot) -> bool {
    slot.kind.get() == Kind::AmSend
        && slot.has_mark(mark::WAITING)
        && slot.queued.get().outgoing.flags & header::flag::HUB != 0
}
