//! Ending operations early: cancelled, or timed out.

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::core::worker::worker::Worker;

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
