//! Ending operations before their time: cancelled, or out of it.

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::core::worker::worker::Worker;

impl Worker {
    /// UCX's status as the caller gets it: what a lost peer looks like depends on the transport,
    /// and here it does not.
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

    /// Ends what can be ended at once; `reason` is CANCELED or what the deadline or the endpoint
    /// says.
    pub(crate) fn cancel_slot(&self, slot: &Slot, reason: Status) {
        if !slot.is_pending() {
            return;
        }
        slot.clear_mark(mark::PLAIN);
        if slot.has_mark(mark::WAITING) {
            slot.reason.set(reason.0);
            // SAFETY: the worker keeps the endpoint alive while something in flight names it.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                let ticket = slot.ticket();
                (self.operation(slot).dropped)(self, slot, &slot.queued.get(), Some(endpoint));
                if ticket.current().is_none() || !slot.is_pending() {
                    // That has ended the endpoint, and with it what waited there.
                    return;
                }
            }
            return self.complete(slot, reason);
        }
        if slot.kind.get() == Kind::EndpointClose {
            slot.reason.set(reason.0);
            // SAFETY: the worker keeps the endpoint alive while something in flight names it.
            let endpoint = unsafe { slot.endpoint.get().as_ref() };
            if endpoint.is_some_and(|endpoint| !endpoint.hurry_close(reason)) {
                return;
            }
        }
        (self.operation(slot).cancel)(self, slot, reason);
        if reason == Status::TIMED_OUT && slot.has_mark(mark::CLOSES) && slot.is_pending() {
            // SAFETY: as above.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                slot.reason.set(reason.0);
                endpoint.fail(Status::TIMED_OUT);
            }
        }
    }
}
