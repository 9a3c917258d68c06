//! The end of a worker. Everything in flight is completed, UCP's worker is destroyed, and requests
//! that callers still hold keep only memory.
//!
//! `shut_down` runs once, on the thread that destroys the worker, or on the threads in
//! `deferred_end`. It first sets `closed`, so that other threads submit nothing more, then stops
//! the progress thread, and then enters the gate.

use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::close::FLUSH_PATIENCE_NS;
use crate::engine::core::endpoint::endpoint::{Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{LifeEvent, Peer};
use crate::engine::core::monitor::registry;
use crate::engine::core::request::request::{mark, Kind, Part, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::{self, Event};
use crate::engine::core::worker::inward::{Guarded, Inward};
use crate::engine::core::worker::protocol::{OfEndpoint, OfWorker};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::deferred_destroy;
use crate::engine::ucx::runtime::{ucx_release, Release};
use crate::sys;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// How long to wait for messages whose sends have completed but may still be in flight.
const FLUSH_NS: u64 = 200_000_000;
/// UCP returns requests of closed endpoints within a few passes; this limit applies if it does not.
const PURGE_NS: u64 = 1_000_000_000;
/// See `finish_connections`.
const BREAKS_OFF_SAFELY: Release = Release::new(1, 14);
/// A connection in progress takes a few passes of both sides.
const CONNECTING_NS: u64 = 200_000_000;
/// UCX's reads of a peer's memory that a forced close has left behind take a few passes.
const SETTLING_NS: u64 = 200_000_000;
/// Passes without work before UCX counts as quiet: a forced close completes in a pass of its own,
/// which UCP does not count as work.
const QUIET: u32 = 3;

impl SharedWorker {
    /// Destroys the worker for the caller. From a callback this takes effect at the end of the
    /// pass.
    pub fn destroy(self: Arc<Self>) {
        if self.generation.is_past() || self.closed.load(Ordering::Acquire) {
            return;
        }
        if deferred::in_callback() {
            return crate::engine::core::worker::deferred_end::doom(self);
        }
        self.shut_down();
    }

    /// Ends it now. Waits for UCP for about a second at most.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        registry::forget(&**self);
        self.fast_thread.set(0);
        self.special.store(true, Ordering::SeqCst);
        // Waiting threads see that it is closed.
        self.tell_others();
        self.join_thread();
        let mut inside = self.enter_any();
        while inside.delivering.get() > 0 {
            // Another thread is in a callback of this worker: it must return first.
            drop(inside);
            std::thread::yield_now();
            inside = self.enter_any();
        }
        inside.drain_foreign();
        inside.cancel_ring();
        inside.end_listeners();
        inside.progress_while(PURGE_NS, |worker| !worker.listeners.borrow().is_empty());
        inside.finish_listeners();
        inside.cancel_receives();
        inside.tell_end(OfWorker::Cancels);
        inside.cancel_queues();
        inside.take_back_messages();
        inside.flush_briefly();
        inside.listen_to_peers();
        inside.part_from_peers();
        let may_break_off = inside.finish_connections();
        inside.end_endpoints(may_break_off);
        inside.progress_while(PURGE_NS, |worker| {
            let mut left = false;
            worker.for_each_live(|slot| {
                // SAFETY: the worker keeps the endpoint alive while something in flight refers to
                // it.
                let endpoint = unsafe { slot.endpoint.get().as_ref() };
                // A flush waits for connections that are left as they are.
                let ends = may_break_off || slot.kind.get() != Kind::Internal;
                left |= slot.kind.get() != Kind::WorkerFlush
                    && endpoint.map_or(ends, |endpoint| {
                        endpoint.phase() > Phase::Flushing && endpoint.life().peer != Peer::Gone
                    });
            });
            left
        });
        inside.settle();
        // Other peers may have connected in the meantime.
        let may_end = may_break_off && inside.finish_connections() && !inside.is_closing_in_ucp();
        // Messages that arrived in the meantime.
        inside.take_back_messages();
        inside.all_endpoints().iter().for_each(|endpoint| endpoint.shut_fast_box());
        inside.tell_end(OfWorker::BeforeUcpEnds);
        // Completions below must not signal UCP's worker, which is destroyed by then.
        inside.armed.set(false);
        inside.wake_hint.end();
        if !may_end {
            log::at!(WARN, Worker, &**self, "UCX's part stays until the process ends");
            deferred_destroy::leave(self.clone());
        } else if inside.is_needed_longer() && self.context.late_workers.keep(self.clone()) {
            log::at!(WARN, Worker, &**self, "UCX's part stays until its context has no worker");
        } else {
            inside.end_in_ucp();
        }
        let late = self.context.late_workers.end();
        late.iter()
            .filter_map(|worker| worker.downcast_ref::<SharedWorker>())
            // SAFETY: closed, and the last worker of its context.
            .for_each(|worker| unsafe { worker.inside() }.end_in_ucp());
        inside.is_over.set(true);
        inside.complete_the_rest();
        let left = inside.left_to_ucp.take();
        inside.outside(|| drop(left));
        inside.deliver_everything();
        inside.tell_end(OfWorker::Delivered);
        inside.drop_inbox();
        for endpoint in inside.all_endpoints() {
            endpoint.tell_protocols(OfEndpoint::WorkerEnded);
        }
        inside.tell_end(OfWorker::DropsHandlers);
        inside.drop_handlers();
        inside.changing.borrow_mut().clear();
        inside.parked.clear();
        inside.windows.borrow_mut().clear();
        inside.named.set(std::ptr::null());
        inside.endpoints.borrow_mut().clear();
        inside.peers.clear();
        inside.keep.set(Some(self.clone()));
        inside.shut_foreign();
        if let Some(own) = inside.own_callbacks {
            own.give_back();
        }
        drop(inside);
        log::at!(DEBUG, Worker, &**self, "destroyed");
        log::flush_repeats();
        self.tell_others();
        trace::worker_has_ended();
    }
}

impl Worker {
    /// Destroys UCP's worker. Nothing of UCP is used afterwards.
    fn end_in_ucp(&self) {
        // SAFETY: closed to all threads, and called once: by the thread that closes it, or for a
        // worker that was kept until the last one of its context.
        unsafe { sys::ucp_worker_destroy(self.ucp()) };
    }

    /// Others in the process may still reach for the memory of UCP's worker.
    fn is_needed_longer(&self) -> bool {
        self.ucp_owes_something() || self.context.shares_memory && self.is_unread()
    }

    /// A peer may not have read what connects it to this worker. When it does, UCX opens this
    /// worker's shared memory, and UCX 1.21 and 1.22 crash if that is gone
    /// (`ucp_ep_set_lanes_failed`, for an endpoint that was not configured).
    fn is_unread(&self) -> bool {
        self.left_unread.get()
            || self.endpoints.borrow().iter().flatten().any(|endpoint| endpoint.may_be_unread())
    }

    /// UCP has transfers that it has not returned. Receives without a message were cancelled.
    fn ucp_owes_something(&self) -> bool {
        let mut owes = self.abandoned.get() > 0;
        self.for_each_live(|slot| {
            let kind = slot.kind.get();
            owes |= !slot.has_mark(mark::WAITING) && (kind.is_send() || kind.is_recv());
        });
        owes
    }

    /// UCP has closes in flight. Without error handling nothing forces them, and a UCX with
    /// assertions fails if its worker is destroyed meanwhile (`ucp_ep_local_disconnect_progress`).
    fn is_closing_in_ucp(&self) -> bool {
        let mut closing = false;
        self.for_each_live(|slot| {
            closing |= slot.kind.get() == Kind::Internal && matches!(slot.part.get(), Part::Close);
        });
        closing
    }

    /// A copy of the list, because work on an endpoint may change the list.
    pub(crate) fn all_endpoints(&self) -> Vec<Inward<SharedEndpoint>> {
        self.endpoints.borrow().iter().flatten().cloned().collect()
    }

    /// Completes what is in the ring, and what other threads were about to put there.
    fn cancel_ring(&self) {
        let Some(queue) = self.thread.queue.get() else { return };
        loop {
            self.drain_ring();
            if queue.is_settled() {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn cancel_receives(&self) {
        self.all_endpoints().iter().for_each(|endpoint| {
            endpoint.tell_protocols(OfEndpoint::EndsReceives(Status::CANCELED))
        });
        let answered = |slot: &Slot| slot.kind.get().is_recv() || slot.kind.get() == Kind::Atomic;
        self.for_each_picked(answered, |slot| self.cancel_slot(slot, Status::CANCELED));
    }

    /// Completes what UCP was never given.
    fn cancel_queues(&self) {
        self.all_endpoints().iter().for_each(|endpoint| endpoint.end_queue(Status::CANCELED));
    }

    fn progress_while(&self, at_most_ns: u64, wanted: impl Fn(&Worker) -> bool) {
        let deadline = clock::deadline_after(at_most_ns);
        while wanted(self) {
            // SAFETY: a live worker, inside its gate.
            let handled = unsafe { sys::ucp_worker_progress(self.ucp()) };
            let now = clock::now_ns();
            self.ucp_was_busy.set(handled > 0);
            self.advance_changing(now);
            if now >= deadline {
                break;
            }
            if handled == 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Makes passes until UCP finds nothing to do. Every UCX asserts (`ucs_arbiter_group_cleanup`)
    /// if its worker ends while reads of a peer's memory by a closed endpoint, of which we know
    /// nothing, wait for their turn. Over a network there are no such reads, and fewer passes are
    /// better: if a peer's socket closes while data for it is left, UCX 1.13 writes the data
    /// through an endpoint that it has freed in the same event.
    fn settle(&self) {
        if !self.context.shares_memory {
            return;
        }
        let deadline = clock::deadline_after(SETTLING_NS);
        let mut quiet = 0;
        while quiet < QUIET && clock::now_ns() < deadline {
            // SAFETY: a live worker, inside its gate.
            let found = unsafe { sys::ucp_worker_progress(self.ucp()) };
            quiet = if found == 0 { quiet + 1 } else { 0 };
        }
    }

    fn flush_briefly(&self) {
        if !self
            .endpoints
            .borrow()
            .iter()
            .flatten()
            .any(|endpoint| endpoint.phase() <= Phase::Flushing)
        {
            return;
        }
        let slot = self.begin_brief_flush();
        self.progress_while(FLUSH_NS, |_| slot.is_pending());
        self.cancel_slot(slot, Status::CANCELED);
        self.release_slot(slot);
    }

    /// Waits, for a limited time, until no connection is half made. Returns whether those that
    /// still are may be broken off. UCX 1.13 over TCP asserts on either side if the answer to a
    /// peer that has just connected waits to be sent (`ucp_request_send_state_ff`).
    fn finish_connections(&self) -> bool {
        if ucx_release() >= BREAKS_OFF_SAFELY {
            return true;
        }
        let deadline = clock::deadline_after(CONNECTING_NS);
        loop {
            // UCP also has such ends of its own, and only its flush reports them. It completes at
            // once if there are none.
            let Ok(flush) = self.flush_in_ucp(Part::Nothing) else { return true };
            let left = deadline.saturating_sub(clock::now_ns());
            self.progress_while(left, |_| flush.current().is_some());
            if flush.current().is_some() || left == 0 {
                return self.context.shares_memory;
            }
        }
    }

    /// Sends Bye to the peers, and waits until those that may be reading the memory of unfinished
    /// sends have answered. The time is limited.
    fn part_from_peers(&self) {
        for endpoint in self.endpoints.borrow().iter().flatten() {
            if endpoint.phase() <= Phase::Flushing {
                // A peer that receives it releases the connection, and UCX returns what is in
                // flight to that peer: this side has cut it short.
                endpoint.on(LifeEvent::Refuses(Status::CLOSED));
                // A caller's time limit for a close ends with the worker.
                endpoint.hurry(FLUSH_PATIENCE_NS);
            }
        }
        let parting = |worker: &Worker| {
            let (endpoints, now) = (worker.endpoints.borrow(), clock::now_ns());
            let parting = |endpoint: &&Inward<SharedEndpoint>| {
                endpoint.phase() <= Phase::Flushing
                    && !(endpoint.has_let_go(now) && endpoint.has_parted(now))
            };
            // Each endpoint is checked, because the check sends its Bye.
            endpoints.iter().flatten().filter(parting).count()
        };
        self.progress_while(u64::MAX, |worker| parting(worker) > 0);
    }

    fn end_endpoints(&self, may_break_off: bool) {
        for endpoint in self.all_endpoints() {
            endpoint.tell_protocols(OfEndpoint::LetsGo);
            // An endpoint without an answer, and with nothing to return, is left to the end of
            // UCP's worker: UCX 1.13 asserts if it is closed by force during its wire-up.
            let must_end = endpoint.life().connected || (endpoint.sends.get() > 0 && may_break_off);
            if endpoint.phase() <= Phase::Flushing && must_end {
                endpoint.end_by_force();
            }
        }
    }

    /// UCP's worker is destroyed and uses no buffer any more: completes what it did not return.
    fn complete_the_rest(&self) {
        let complete = |slot: &Slot| {
            if matches!(slot.kind.get(), Kind::EndpointFlush | Kind::WorkerFlush) {
                self.forget_flush(slot);
            }
            slot.reason.set(Status::CANCELED.0);
            self.complete(slot, Status::CANCELED);
        };
        self.for_each_picked(|_| true, complete);
        for endpoint in self.all_endpoints() {
            if endpoint.phase() < Phase::Closed {
                endpoint.on(LifeEvent::WorkerEnds);
                endpoint.complete_request(Status::OK);
                self.push_event(Event::Closed(endpoint.clone(), endpoint.life().outcome.status()));
            }
        }
    }

    fn deliver_everything(&self) {
        loop {
            while let Some(slot) = self.ready.pop() {
                self.call_back(slot);
            }
            while !self.events.borrow().is_empty() {
                self.handle_events();
            }
            // Dropping a request may leave buffers to be freed.
            self.drain_foreign();
            if self.ready.is_empty() && self.events.borrow().is_empty() {
                return;
            }
        }
    }
}
