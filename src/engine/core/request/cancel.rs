//! Ending operations before their time: cancelled, or out of it.

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::core::worker::worker::Worker;
use crate::sys;

/// Inside the gate.
impl Worker {
    /// UCX's status as the caller gets it: what a lost peer looks like depends on the transport, and here it does not.
    pub(crate) fn status_from_ucx(&self, status: Status, endpoint: Option<&Endpoint>) -> Status {
        if !status.is_error() || status == Status::MESSAGE_TRUNCATED || status == Status::NO_RESOURCE {
            return status;
        }
        match endpoint {
            Some(endpoint) => endpoint.status_for(status),
            None => status.or_peer_failed(),
        }
    }

    /// Ends what can be ended at once; `reason` is CANCELED or what the deadline or the endpoint says.
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
                endpoint.answer_is_dropped(slot, &slot.queued.get());
                if ticket.current().is_none() || !slot.is_pending() {
                    // That has ended the endpoint, and with it what waited there.
                    return;
                }
            }
            return self.complete(slot, reason);
        }
        match slot.kind.get() {
            Kind::TagRecv | Kind::TagMessageRecv | Kind::TagRecvPart => {
                slot.reason.set(reason.0);
                // SAFETY: a live worker and a request of its own that has not completed. One that is matched already is left alone.
                unsafe { sys::ucp_request_cancel(self.ucp(), std::ptr::from_ref(slot).cast_mut().cast()) };
            }
            Kind::EndpointFlush | Kind::WorkerFlush => {
                self.forget_flush(slot);
                slot.reason.set(reason.0);
                self.complete(slot, reason);
            }
            Kind::EndpointClose => {
                slot.reason.set(reason.0);
                // SAFETY: the worker keeps the endpoint alive while something in flight names it.
                let endpoint = unsafe { slot.endpoint.get().as_ref() };
                if endpoint.is_some_and(|endpoint| !endpoint.hurry_close(reason)) {
                    return;
                }
            }
            Kind::StreamRecv => {
                // SAFETY: as above.
                if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                    endpoint.forget_stream_recv(slot);
                }
                slot.reason.set(reason.0);
                self.complete(slot, reason);
            }
            // Its answer has not begun to come.
            Kind::Fetch | Kind::Atomic if slot.number.get() != 0 => self.end_fetch(slot, reason),
            Kind::TagSendMulti | Kind::TagRecvMulti => self.cancel_multi(slot, reason),
            Kind::TagSend | Kind::TagSendSync | Kind::TagSendPart | Kind::StreamSend => {}
            Kind::AmQueueRecv => self.cancel_queue_receive(slot, reason),
            Kind::AmSend | Kind::AmQueueSend | Kind::AmRecv | Kind::MultiPull => {}
            Kind::FetchAsk | Kind::Fetch | Kind::FetchReply => {}
            Kind::WindowLock => self.cancel_lock(slot, reason),
            Kind::Window => self.cancel_window_request(slot, reason),
            Kind::Put | Kind::Get | Kind::Atomic => {}
            Kind::AmMessage | Kind::Internal | Kind::Free => {}
        }
        if reason == Status::TIMED_OUT && slot.has_mark(mark::CLOSES) && slot.is_pending() {
            // SAFETY: as above.
            if let Some(endpoint) = unsafe { slot.endpoint.get().as_ref() } {
                slot.reason.set(reason.0);
                endpoint.fail(Status::TIMED_OUT);
            }
        }
    }
}
