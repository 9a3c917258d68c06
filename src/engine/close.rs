//! Closing an endpoint: flush, then by force; bounded in time.
//!
//! UCP's own flush-and-close has been seen to leak memory and mappings for each connection, a flush followed by a forced close
//! has not, and error handling is what makes force possible: endpoints without it are left to UCP's flush-and-close, and
//! where that does not end in time they stay with UCP until the worker goes.

use super::endpoint::{Endpoint, EndpointPointer, Phase};
use super::events::{self, Event};
use super::flush::posted;
use super::inflight::Out;
use super::operation::{OpParams, Submitted};
use super::param::Param;
use super::parting::Parting;
use super::request::{Kind, Part, Slot};
use super::status::{Result, Status};
use super::timer;
use super::wait;
use super::worker::{attention, Inside, Worker};
use crate::sys::{self, Posted};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// A close that gets no further for this long, with sends under way, goes on by force.
const PATIENCE_NS: u64 = 3_000_000_000;
/// The same with no sends under way: over TCP UCP's flush asks the peer, which may not be progressing.
const FLUSH_PATIENCE_NS: u64 = 1_000_000_000;
/// After force, UCP hands its requests back within a few passes, but for what stands in the full queue of a peer that does not look
/// at it: that is ended without UCP.
const ENDING_NS: u64 = 900_000_000;

/// The same where the peer's process has ended. UCX has been seen to keep what waits for room in the queue of a dead process,
/// which will never have any.
const DEAD_NS: u64 = 500_000_000;

/// How far a close has come.
pub(crate) struct Closing {
    /// What the close, and `on_close`, will report.
    pub(crate) outcome: Cell<Status>,
    /// The caller's request for it, if it is in flight.
    request: Cell<*const Slot>,
    /// The caller has closed it: a second time is an error.
    taken: Cell<bool>,
    /// UCP's flush before the close has ended, or there is none.
    flushed: Cell<bool>,
    /// The peer has answered UCP once: from then on force is safe. UCX 1.13 asserts when it meets its own wire-up.
    connected: Cell<bool>,
    /// Force, as soon as that is safe.
    forced: Cell<bool>,
    /// The peer's process has ended: from then on nobody reads what is still on its way there.
    pub(crate) process_ended: Cell<bool>,
    /// UCP's own close is under way.
    closing_in_ucp: Cell<bool>,
    /// Force at this moment. Moved on while sends complete.
    deadline: Cell<u64>,
    sends_seen: Cell<u32>,
    /// Something was ended that UCP has not given back.
    abandoned: Cell<bool>,
    /// Receives that UCP does not give back by this moment are ended without it.
    receives_deadline: Cell<u64>,
    pub(crate) parting: Parting,
    /// `on_close` has returned. Read by threads that wait in destroy.
    pub(crate) reported: AtomicBool,
    /// Callbacks of the endpoint that are running. Read by threads that wait in destroy.
    pub(crate) running: AtomicU32,
}

impl Default for Closing {
    fn default() -> Self {
        Closing {
            outcome: Cell::new(Status::OK),
            request: Cell::new(std::ptr::null()),
            taken: Cell::new(false),
            flushed: Cell::new(true),
            connected: Cell::new(false),
            forced: Cell::new(false),
            process_ended: Cell::new(false),
            closing_in_ucp: Cell::new(false),
            deadline: Cell::new(0),
            sends_seen: Cell::new(0),
            abandoned: Cell::new(false),
            receives_deadline: Cell::new(0),
            parting: Parting::default(),
            reported: AtomicBool::new(false),
            running: AtomicU32::new(0),
        }
    }
}

impl Endpoint {
    /// Closes it: refuses what comes after, lets finish (or, with `force`, cuts short) what came before.
    pub fn close(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.worker.context, "close", 0)?;
        wait::submit(params, out, |params, out| self.close_now(force, params, out))
    }

    fn close_now(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        self.worker.check_usable()?;
        if self.worker.thread.is_foreign() && self.status() == Status::CLOSED {
            return Err(self.not_open(Status::CLOSED));
        }
        let endpoint = EndpointPointer(self);
        let timeout_ns = params.timeout_ns;
        let later = self.worker.post_operation(Kind::EndpointClose, params, out, move |inside, slot| {
            let endpoint = endpoint;
            // SAFETY: the end of an endpoint comes after what was handed over before it.
            let endpoint = unsafe { &*endpoint.0 };
            if endpoint.closing.taken.replace(true) {
                return inside.never_started(slot, Some(endpoint), Status::CLOSED);
            }
            endpoint.close_inside(inside, slot, force, timeout_ns);
        })?;
        if let Some(submitted) = later {
            // What comes after is refused; what came before goes by the phase.
            self.set_status(Status::CLOSED);
            return Ok(submitted);
        }
        let inside = self.worker.enter()?;
        if self.status() == Status::CLOSED {
            return Err(self.not_open(Status::CLOSED));
        }
        let slot = inside.take_slot();
        slot.begin_in_full(Kind::EndpointClose, params, 0, out);
        self.closing.taken.set(true);
        self.close_inside(&inside, slot, force, params.timeout_ns);
        Ok(Submitted::Pending)
    }

    fn close_inside(&self, inside: &Inside<'_>, slot: &Slot, force: bool, timeout_ns: u64) {
        // Where its peer is gone, what is left of it goes by itself.
        self.set_status(Status::CLOSED);
        let params = &OpParams { timeout_ns, ..OpParams::default() };
        // Started before UCP is asked: the close must not end before there is a request to end.
        inside.start(slot, Some(self), params, Out::NOWHERE);
        self.closing.request.set(slot);
        if self.phase() == Phase::Open {
            self.begin_close(force);
            if params.timeout_ns != 0 {
                // The caller's patience counts, not ours.
                self.closing.deadline.set(u64::MAX);
            }
        } else if self.phase() == Phase::Closed {
            self.complete_request(Status::OK);
        }
    }

    /// Starts closing an open endpoint. Inside the gate.
    pub(crate) fn begin_close(&self, force: bool) {
        debug_assert_eq!(self.phase(), Phase::Open);
        self.set_status(Status::CLOSED);
        self.set_phase(Phase::Flushing);
        self.connect_deadline.set(0);
        self.closing.deadline.set(timer::deadline_after(self.patience()));
        self.closing.sends_seen.set(self.sends.get());
        self.cancel_watchers(Status::CLOSED);
        if self.is_connecting() {
            // What waits for the connection is let out first.
            self.closing.flushed.set(self.sends.get() == 0);
        } else if !self.closing.connected.get() || (!force && self.operations_sent() > 0) {
            self.start_flush_before_close();
        }
        if force {
            self.force_when_safe();
        }
        self.watch();
    }

    fn start_flush_before_close(&self) {
        let ended = self.start_flush(Part::FlushBeforeClose);
        self.closing.flushed.set(ended.is_some());
        self.note_answer(ended == Some(Status::OK));
    }

    /// It was being closed while it connected, and has let out what waited for that.
    pub(crate) fn flush_before_close(&self) {
        if self.phase() == Phase::Flushing && !self.closing.flushed.get() {
            self.start_flush_before_close();
        }
    }

    /// No more patience, but for the wire-up.
    fn force_when_safe(&self) {
        self.closing.forced.set(true);
        if self.may_force() {
            if self.has_parted(timer::now_ns()) {
                self.end_by_force();
            }
            return;
        }
        self.hurry(FLUSH_PATIENCE_NS);
    }

    /// Not longer than so long from now on.
    fn hurry(&self, patience_ns: u64) {
        let soon = timer::deadline_after(patience_ns);
        self.closing.deadline.set(self.closing.deadline.get().min(soon));
    }

    fn may_force(&self) -> bool {
        self.closing.connected.get() || self.closing.flushed.get()
    }

    /// The request of a close was cancelled, or its time has run out: no more patience.
    pub(crate) fn hurry_close(&self, reason: Status) {
        self.closing.outcome.set(reason);
        if self.phase() == Phase::Flushing {
            self.force_when_safe();
        }
    }

    /// Tells UCP to let go, whatever is in flight: requests come back with an error in the passes that follow.
    pub(crate) fn end_by_force(&self) {
        self.set_phase(Phase::Ending);
        let patience = if self.closing.process_ended.get() { DEAD_NS } else { ENDING_NS };
        self.closing.deadline.set(timer::deadline_after(patience));
        self.closing.receives_deadline.set(timer::deadline_after(DEAD_NS));
        if self.peer_failure {
            self.close_in_ucp(sys::UCP_EP_CLOSE_FLAG_FORCE);
        } else if self.closing.parting.heard.get() && self.sends.get() == 0 {
            self.close_in_ucp(0);
        }
        let outcome = self.closing.outcome.get();
        self.end_waiting(if outcome.is_error() { outcome } else { Status::CANCELED });
        self.cancel_watchers(if outcome.is_error() { outcome } else { Status::CLOSED });
        self.watch();
    }

    /// Has UCP let go of an attempt to connect: another one may follow.
    pub(crate) fn abandon_in_ucp(&self) {
        self.let_go_in_ucp(Part::Nothing, if self.peer_failure { sys::UCP_EP_CLOSE_FLAG_FORCE } else { 0 });
    }

    fn close_in_ucp(&self, flags: u32) {
        self.answer_bye();
        if self.let_go_in_ucp(Part::Close, flags).is_none() {
            self.closing.closing_in_ucp.set(true);
        }
    }

    /// UCP's close, once. Its status if it ended inside the call.
    fn let_go_in_ucp(&self, part: Part, flags: u32) -> Option<Status> {
        let ucp = self.ucp.replace(std::ptr::null_mut());
        if ucp.is_null() {
            return Some(Status::OK);
        }
        self.start_part(part, |slot| {
            let mut param = Param::new(slot);
            if flags != 0 {
                param.flags(flags);
            }
            // SAFETY: a live endpoint inside its worker's gate, not used afterwards; as in start_flush.
            unsafe { sys::ucp_ep_close_nbx(ucp, param.as_ptr()) }
        })
    }

    /// UCP's flush, as a part of something. Its status if it ended inside the call.
    pub(crate) fn start_flush(&self, part: Part) -> Option<Status> {
        let ucp = self.ucp.get();
        // SAFETY: a live endpoint inside its worker's gate; `start_part` keeps the slot until UCP calls back.
        self.start_part(part, |slot| unsafe { sys::ucp_ep_flush_nbx(ucp, Param::new(slot).as_ptr()) })
    }

    /// Gives UCP a part of opening or closing. Its status if it ended inside the call.
    pub(crate) fn start_part(&self, part: Part, call: impl FnOnce(&Slot) -> sys::ucs_status_ptr_t) -> Option<Status> {
        let slot = self.worker.take_internal_slot();
        slot.part.set(part);
        let ended = match posted(slot, call(slot)) {
            Posted::Pending => None,
            Posted::Done => Some(Status::OK),
            Posted::Failed(status) => Some(Status(status.into())),
        };
        if ended.is_none() {
            self.worker.start(slot, Some(self), &OpParams::default(), Out::NOWHERE);
        } else {
            self.worker.return_slot(slot);
        }
        ended
    }

    /// The peer has answered UCP once.
    pub(crate) fn is_connected(&self) -> bool {
        self.closing.connected.get()
    }

    /// A flush that ends well has been answered.
    pub(crate) fn note_answer(&self, answered: bool) {
        if answered {
            self.closing.connected.set(true);
        }
    }

    /// UCP has ended its part.
    pub(crate) fn part_ended(&self, part: Part, status: Status) {
        self.note_answer(status == Status::OK && matches!(part, Part::FlushBeforeClose | Part::Answer));
        if self.phase() == Phase::Closed {
            self.watch();
        }
        match part {
            Part::FlushBeforeClose => self.closing.flushed.set(true),
            Part::Close => self.closing.closing_in_ucp.set(false),
            // UCP's connection stands; whether the peer is one of ours may not be known yet.
            Part::Hello(attempt) if self.is_connecting() && status == Status::OK => self.answered(attempt),
            Part::Answer if status == Status::OK => self.answered(0),
            // With error handling UCP reports to the endpoint, and better.
            Part::Hello(attempt) if self.is_connecting() && !self.peer_failure => self.unanswered(attempt, status),
            Part::Bye => self.bye_sent(),
            Part::Ping => self.asked(),
            _ => {}
        }
    }

    /// Ends the receives that were to end with this endpoint.
    fn cancel_watchers(&self, reason: Status) {
        if self.watchers.get() == 0 {
            return;
        }
        let watches = |slot: &Slot| slot.kind.get().is_recv() && std::ptr::eq(slot.endpoint.get(), self);
        self.worker.for_each_picked(watches, |slot| self.worker.cancel_slot(slot, reason));
    }

    /// One look at an endpoint that is changing. True while it has to be looked at again.
    fn advance(&self, now: u64) -> bool {
        if self.connect_deadline.get() != 0 && now >= self.connect_deadline.get() {
            self.connect_deadline.set(0);
            if self.is_connecting() {
                self.attempt_failed(self.attempt(), Status::TIMED_OUT);
            } else {
                self.fail(Status::TIMED_OUT);
            }
            // It has put itself on the list, for the next pass.
            return true;
        }
        match self.phase() {
            Phase::Open => return self.connect_deadline.get() != 0,
            Phase::Flushing => self.advance_flushing(now),
            Phase::Ending => self.advance_ending(now),
            Phase::Closed => {}
        }
        if self.phase() == Phase::Closed && self.is_unused() {
            self.unregister();
            return false;
        }
        // What UCP keeps may come back as late as the end of the worker: `part_ended` looks again.
        self.phase() != Phase::Closed || !(self.closing.abandoned.get() || self.closing.process_ended.get())
    }

    fn patience(&self) -> u64 {
        if self.sends.get() > 0 {
            PATIENCE_NS
        } else {
            FLUSH_PATIENCE_NS
        }
    }

    /// The next look would get it further.
    fn can_advance(&self) -> bool {
        match self.phase() {
            Phase::Open => false,
            Phase::Flushing => {
                let forced = self.closing.forced.get() && self.may_force();
                let alone = self.closing.parting.heard.get() && self.closing.flushed.get();
                self.is_parting().is_none()
                    && (forced || alone || (self.closing.flushed.get() && self.sends.get() == 0))
            }
            Phase::Ending => self.sends.get() + self.watchers.get() == 0 && !self.closing.closing_in_ucp.get(),
            Phase::Closed => self.is_unused(),
        }
    }

    /// Nothing in flight names it.
    fn is_unused(&self) -> bool {
        self.sends.get() + self.watchers.get() + self.controls.get() == 0
    }

    /// The peer has gone: there is nothing to wait for but UCP's flush, as UCX 1.21 has been seen to go on with one on an endpoint that was
    /// closed by force meanwhile.
    pub(crate) fn hurry_alone(&self) {
        self.hurry(FLUSH_PATIENCE_NS);
        self.watch();
    }

    fn advance_flushing(&self, now: u64) {
        if self.closing.parting.heard.get() {
            if self.closing.flushed.get() || now >= self.closing.deadline.get() {
                self.end_by_force();
            }
            return;
        }
        if self.closing.forced.get() {
            let may = self.may_force() || now >= self.closing.deadline.get();
            if may && self.has_parted(now) {
                self.end_by_force();
            }
            return;
        }
        if self.closing.flushed.get() && self.sends.get() == 0 {
            if !self.has_parted(now) {
                return;
            }
            if self.peer_failure {
                return self.end_by_force();
            }
            self.set_phase(Phase::Ending);
            self.closing.deadline.set(timer::deadline_after(ENDING_NS));
            return self.close_in_ucp(0);
        }
        if self.sends.get() != self.closing.sends_seen.get() && self.closing.deadline.get() != u64::MAX {
            self.closing.sends_seen.set(self.sends.get());
            self.closing.deadline.set(now + self.patience());
        }
        if now >= self.closing.deadline.get() {
            // A peer that has taken nothing for so long is not waited for once more.
            self.closing.outcome.set(Status::TIMED_OUT);
            self.has_parted(now);
            self.end_by_force();
        }
    }

    fn advance_ending(&self, now: u64) {
        let sends_back = self.sends.get() == 0 && !self.closing.closing_in_ucp.get();
        if sends_back && self.watchers.get() > 0 && now < self.closing.receives_deadline.get() {
            return;
        }
        let back = sends_back && self.watchers.get() == 0;
        // Without error handling there is no force: what UCP still has stays with it until the worker goes.
        let left_to_ucp = !self.peer_failure && self.closing.outcome.get().is_error();
        if sends_back || left_to_ucp || now >= self.closing.deadline.get() {
            if !back && self.peer_failure {
                self.abandon_requests();
            }
            self.set_phase(Phase::Closed);
            let outcome = self.closing.outcome.get();
            self.complete_request(outcome);
            if let Some(endpoint) = self.registered() {
                self.worker.push_event(Event::Closed(endpoint, outcome));
            }
        }
    }

    /// The peer's process has ended.
    pub(crate) fn process_ended(&self, now: u64) {
        self.closing.process_ended.set(true);
        if self.phase() == Phase::Ending {
            self.closing.deadline.set(self.closing.deadline.get().min(now + DEAD_NS));
        }
        self.lost("its process has ended");
    }

    /// Ends for the caller what UCP has not given back of it: sends that stand in the full queue of a peer that does not look at it,
    /// a receive that has matched a message of which the rest will never come.
    fn abandon_requests(&self) {
        let left = |slot: &Slot| {
            let kind = slot.kind.get();
            std::ptr::eq(slot.endpoint.get(), self) && (kind.is_send() || kind.is_recv() || kind == Kind::EndpointFlush)
        };
        self.closing.abandoned.set(true);
        let status = match self.closing.outcome.get() {
            Status::OK => Status::CANCELED,
            failure => failure,
        };
        self.worker.for_each_picked(left, |slot| match slot.kind.get() {
            Kind::EndpointFlush => self.worker.cancel_slot(slot, status),
            _ => self.worker.abandon(slot, status),
        });
    }

    /// The caller's close request has completed, by whatever way.
    pub(crate) fn forget_request(&self) {
        self.closing.request.set(std::ptr::null());
    }

    /// Completes the caller's close request, if there is one in flight.
    pub(crate) fn complete_request(&self, outcome: Status) {
        // SAFETY: the slot is in flight until it is completed here.
        if let Some(slot) = unsafe { self.closing.request.replace(std::ptr::null()).as_ref() } {
            // A peer that was lost, or never found, is no failure of closing.
            let gone = matches!(
                outcome,
                Status::PEER_FAILED | Status::CONNECTION_RESET | Status::REJECTED | Status::UNREACHABLE
            );
            let status = if gone { Status::OK } else { outcome };
            slot.reason.set(status.0);
            self.worker.complete(slot, status);
        }
    }

    /// Destroys a handle of the caller's. With the last one the endpoint is closed if it is open, and its end waited for; bounded.
    /// From a callback it does not wait, and the end comes after the pass.
    pub fn destroy(self: Arc<Self>) {
        if !self.release() || self.worker.generation.is_past() || self.worker.closed.load(Ordering::Acquire) {
            return;
        }
        if events::in_callback() {
            let worker = self.worker.clone();
            let _ = worker.post(move |inside| inside.push_event(Event::DestroyEndpoint(self)));
            return;
        }
        let begun = self.worker.on_owner(|_inside| {
            self.begin_destroy();
            Ok(())
        });
        if begun.is_err() {
            return;
        }
        let ended = || {
            self.phase() == Phase::Closed
                && self.closing.reported.load(Ordering::Acquire)
                && self.closing.running.load(Ordering::Acquire) == 0
        };
        let patience = timer::deadline_after(2 * PATIENCE_NS);
        if self.worker.drive(&ended, patience).is_ok_and(|ended| !ended) {
            // Sends that trickle, or a close of the caller's with all the time in the world.
            let _ = self.worker.on_owner(|_inside| {
                if self.phase() == Phase::Flushing {
                    self.end_by_force();
                }
                Ok(())
            });
            let _ = self.worker.drive(&ended, timer::deadline_after(2 * ENDING_NS));
        }
    }

    pub(crate) fn begin_destroy(&self) {
        match self.phase() {
            Phase::Open => self.begin_close(false),
            Phase::Flushing => self.hurry(self.patience()),
            Phase::Ending | Phase::Closed => self.set_status(Status::CLOSED),
        }
    }
}

impl Worker {
    /// Looks at the endpoints that are being opened or closed. How many of them got further.
    pub(crate) fn advance_changing(&self, now: u64) -> u32 {
        let mut changed = 0;
        let lingering = self.advance_listeners(now);
        let list = self.changing.take();
        let kept: Vec<_> = list
            .into_iter()
            .filter(|endpoint| {
                let before = endpoint.phase();
                let keep = endpoint.advance(now);
                changed += u32::from(!keep || endpoint.phase() != before);
                keep
            })
            .collect();
        let mut changing = self.changing.borrow_mut();
        // What `advance` itself put on the list.
        for endpoint in kept {
            if !changing.iter().any(|known| Arc::ptr_eq(known, &endpoint)) {
                changing.push(endpoint);
            }
        }
        if changing.is_empty() && !lingering {
            self.attention.set(self.attention.get() & !attention::CHANGING);
        }
        changed
    }

    /// Would a pass get an endpoint further that is being opened or closed?
    pub(crate) fn can_advance(&self) -> bool {
        self.changing.borrow().iter().any(|endpoint| endpoint.can_advance())
    }

    /// The earliest moment at which an endpoint that is changing has to be looked at.
    pub(crate) fn next_change(&self) -> Option<u64> {
        let deadline = |endpoint: &Arc<Endpoint>| match endpoint.phase() {
            Phase::Open => endpoint.connect_deadline.get(),
            Phase::Flushing => endpoint.is_parting().unwrap_or(endpoint.closing.deadline.get()),
            Phase::Ending if endpoint.watchers.get() > 0 => endpoint.closing.receives_deadline.get(),
            Phase::Ending => endpoint.closing.deadline.get(),
            Phase::Closed => 0,
        };
        let endpoints = self.changing.borrow().iter().map(deadline).filter(|at| *at != 0 && *at != u64::MAX).min();
        [endpoints, self.next_listener()].into_iter().flatten().min()
    }
}
