//! The end of a worker: everything in flight is completed, UCP goes, and what callers still hold
//! keeps only memory.

use crate::engine::base::clock;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::close::FLUSH_PATIENCE_NS;
use crate::engine::core::endpoint::endpoint::{Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{LifeEvent, Peer};
use crate::engine::core::request::request::{mark, Kind, Part, Slot};
use crate::engine::core::worker::deferred::{self, Event};
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::protocol::{OfEndpoint, OfWorker};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::deferred_destroy;
use crate::engine::ucx::runtime::{ucx_release, Release};
use crate::sys;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Messages whose sends have completed may still be on their way out: this long they are given.
const FLUSH_NS: u64 = 200_000_000;
/// UCP hands requests of closed endpoints back within a few passes; this is for the day when it
/// does not.
const PURGE_NS: u64 = 1_000_000_000;
/// See `finish_connections`.
const BREAKS_OFF_SAFELY: Release = Release::new(1, 14);
/// A connection that is being made takes a few passes of both sides.
const CONNECTING_NS: u64 = 200_000_000;
/// UCX's reads of a peer's memory that a forced close has left behind take a few passes.
const SETTLING_NS: u64 = 200_000_000;
/// The end of a forced close is done in a pass of its own, which UCP does not count as something
/// found.
const QUIET: u32 = 3;

impl SharedWorker {
    /// Destroys the worker for the caller. From a callback it takes effect at the end of the pass.
    pub fn destroy(self: Arc<Self>) {
        if self.generation.is_past() || self.closed.load(Ordering::Acquire) {
            return;
        }
        if deferred::in_callback() {
            return crate::engine::core::worker::deferred_end::doom(self);
        }
        self.shut_down();
    }

    /// Ends it now. Bounded: at most about a second of waiting for UCP.
    pub(crate) fn shut_down(self: &Arc<Self>) {
        if self.closed.swap(true, Ordering::SeqCst) {
            return;
        }
        self.fast_thread.set(0);
        self.special.store(true, Ordering::SeqCst);
        // Threads that wait see that it is closed.
        self.tell_others();
        self.join_thread();
        let mut inside = self.enter_any();
        while inside.delivering.get() > 0 {
            // Another thread is in a callback of this worker: it has to come back first.
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
                // SAFETY: the worker keeps the endpoint alive while something in flight names it.
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
        // Others may have connected meanwhile.
        let may_end = may_break_off && inside.finish_connections() && !inside.is_closing_in_ucp();
        // What has come meanwhile.
        inside.take_back_messages();
        inside.all_endpoints().iter().for_each(|endpoint| endpoint.shut_fast_box());
        inside.tell_end(OfWorker::BeforeUcpEnds);
        // What is completed below is not to signal a worker of UCP's that is gone.
        inside.armed.set(false);
        inside.wake_hint.end();
        if !may_end {
            deferred_destroy::leave(self.clone());
        } else if !(inside.ucp_owes_something() && self.context.late_workers.keep(self.clone())) {
            inside.end_in_ucp();
        }
        let late = self.context.late_workers.end();
        late.iter()
            .filter_map(|worker| worker.downcast_ref::<SharedWorker>())
            // SAFETY: closed, and the last of its context.
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
        self.tell_others();
    }
}

impl Worker {
    /// The end of UCP's half. Nothing of UCP's is used afterwards.
    fn end_in_ucp(&self) {
        // SAFETY: closed to everyone, and called once: by the one that closes it, or for one that
        // was kept by the last of its context.
        unsafe { sys::ucp_worker_destroy(self.ucp()) };
    }

    /// Has UCP transfers that it has not given back? Receives that nothing has come for have been
    /// cancelled.
    fn ucp_owes_something(&self) -> bool {
        let mut owes = self.abandoned.get() > 0;
        self.for_each_live(|slot| {
            let kind = slot.kind.get();
            owes |= !slot.has_mark(mark::WAITING) && (kind.is_send() || kind.is_recv());
        });
        owes
    }

    /// Has UCP closes under way? Without error handling nothing forces them, and a UCX that checks
    /// itself asserts when its worker is destroyed meanwhile (`ucp_ep_local_disconnect_progress`).
    fn is_closing_in_ucp(&self) -> bool {
        let mut closing = false;
        self.for_each_live(|slot| {
            closing |= slot.kind.get() == Kind::Internal && matches!(slot.part.get(), Part::Close);
        });
        closing
    }

    /// As they are now: what is done with one may change the list.
    pub(crate) fn all_endpoints(&self) -> Vec<Inward<SharedEndpoint>> {
        self.endpoints.borrow().iter().flatten().cloned().collect()
    }

    /// What is in the ring ends here, and so does what other threads were about to put there.
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

    /// What UCP has not been given ends here.
    fn cancel_queues(&self) {
        self.all_endpoints().iter().for_each(|endpoint| endpoint.end_queue(Status::CANCELED));
    }

    fn progress_while(&self, at_most_ns: u64, wanted: impl Fn(&Worker) -> bool) {
        let deadline = clock::deadline_after(at_most_ns);
        while wanted(self) {
            // SAFETY: a live worker, and we are inside its gate.
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

    /// Until passes of UCP's find nothing to do: every UCX asserts when its worker ends
    /// (`ucs_arbiter_group_cleanup`) while a closed endpoint's reads of a peer's memory, of which
    /// we know nothing, wait for their turn. Over a network nobody reads, and the fewer passes the
    /// better: where a peer's socket closes while data for it is left over, UCX 1.13 goes on to
    /// write it through an endpoint that it has freed in the same event.
    fn settle(&self) {
        if !self.context.shares_memory {
            return;
        }
        let deadline = clock::deadline_after(SETTLING_NS);
        let mut quiet = 0;
        while quiet < QUIET && clock::now_ns() < deadline {
            // SAFETY: a live worker, and we are inside its gate.
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

    /// Waits, for a while, until no connection is half made. May those that still are break off?
    /// Whichever side does that over TCP, UCX 1.13 asserts where the answer to a peer that has just
    /// connected waits to be sent (`ucp_request_send_state_ff`).
    fn finish_connections(&self) -> bool {
        if ucx_release() >= BREAKS_OFF_SAFELY {
            return true;
        }
        let deadline = clock::deadline_after(CONNECTING_NS);
        loop {
            // UCP has such ends for itself, too, and only its flush tells of them: it is done at
            // once if there are none.
            let Ok(flush) = self.flush_in_ucp(Part::Nothing) else { return true };
            let left = deadline.saturating_sub(clock::now_ns());
            self.progress_while(left, |_| flush.current().is_some());
            if flush.current().is_some() || left == 0 {
                return self.context.shares_memory;
            }
        }
    }

    /// Tells the peers, and waits until those have answered that may be reading the memory of
    /// unfinished sends; bounded.
    fn part_from_peers(&self) {
        for endpoint in self.endpoints.borrow().iter().flatten() {
            if endpoint.phase() <= Phase::Flushing {
                // A peer that hears of it lets go, and UCX gives back what is under way to there:
                // this side has cut that short.
                endpoint.on(LifeEvent::Refuses(Status::CLOSED));
                // The time that a caller has given a close ends with the worker.
                endpoint.hurry(FLUSH_PATIENCE_NS);
            }
        }
        let parting = |worker: &Worker| {
            let (endpoints, now) = (worker.endpoints.borrow(), clock::now_ns());
            let parting = |endpoint: &&Inward<SharedEndpoint>| {
                endpoint.phase() <= Phase::Flushing
                    && !(endpoint.has_let_go(now) && endpoint.has_parted(now))
            };
            // Each is asked: that is what has it say Bye.
            endpoints.iter().flatten().filter(parting).count()
        };
        self.progress_while(u64::MAX, |worker| parting(worker) > 0);
    }

    fn end_endpoints(&self, may_break_off: bool) {
        for endpoint in self.all_endpoints() {
            endpoint.tell_protocols(OfEndpoint::LetsGo);
            // One that has no answer yet, and nothing to give back, is left to the end of UCP's
            // worker: UCX 1.13 asserts when it is closed by force in the midst of its wire-up.
            let must_end = endpoint.life().connected || (endpoint.sends.get() > 0 && may_break_off);
            if endpoint.phase() <= Phase::Flushing && must_end {
                endpoint.end_by_force();
            }
        }
    }

    /// UCP is gone, and touches no buffer any more: what it did not hand back ends here.
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
            // Letting go of a request may leave buffers to be freed.
            self.drain_foreign();
            if self.ready.is_empty() && self.events.borrow().is_empty() {
                return;
            }
        }
    }
}
