//! Closing an endpoint: flush, then by force; bounded in time.
//!
//! UCP's own flush-and-close has been seen to leak memory and mappings for each connection, a flush
//! followed by a forced close has not, and error handling is what makes force possible: endpoints
//! without it are left to UCP's flush-and-close, and where that does not end in time they stay with
//! UCP until the worker goes.

use crate::engine::base::clock;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointPointer, Phase};
use crate::engine::core::endpoint::goodbye::Parting;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::deferred::{self, Event};
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::worker::Inside;
use crate::sys;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::Arc;

/// A close that gets no further for this long, with transfers under way, goes on by force.
pub(crate) const PATIENCE_NS: u64 = 3_000_000_000;
/// The same with none under way: over TCP UCP's flush asks the peer, which may not be progressing.
pub(crate) const FLUSH_PATIENCE_NS: u64 = 1_000_000_000;
/// After force, UCP hands its requests back within a few passes, but for what stands in the full
/// queue of a peer that does not look at it: that is ended without UCP.
pub(crate) const ENDING_NS: u64 = 900_000_000;

/// The same where the peer's process has ended. UCX has been seen to keep what waits for room in
/// the queue of a dead process, which will never have any.
pub(crate) const DEAD_NS: u64 = 500_000_000;
/// And so much longer UCX may go on reading the memory of a peer that lives into receives: it does
/// so by itself, a piece in each pass, whatever has become of the endpoint.
pub(crate) const READING_NS: u64 = 3_000_000_000;

/// The caller has told how long a close may take: its request is cancelled then.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

/// How far a close has come.
pub(crate) struct Closing {
    /// What the close, and `on_close`, will report.
    pub(crate) outcome: Cell<Status>,
    /// UCX has lost the peer, which is looked at when the pass ends. It would keep what it still
    /// gets, for an endpoint that is freed by then.
    pub(crate) given_up: Cell<bool>,
    /// The caller's request for it, if it is in flight.
    pub(crate) request: Cell<*const Slot>,
    /// The caller has closed it: a second time is an error.
    pub(crate) taken: Cell<bool>,
    /// UCP's flush before the close has ended, or there is none.
    pub(crate) flushed: Cell<bool>,
    /// Its last handle was destroyed, and it took too long: nobody has asked for a time, so what is
    /// cut short did not run out of one.
    pub(crate) overdue: Cell<bool>,
    /// It begins when what waits in the queue has gone out.
    pub(crate) flush_due: Cell<bool>,
    /// Sends were under way when it began, of which UCX may still have the last bytes when they
    /// end: there is another one then.
    pub(crate) flush_again: Cell<bool>,
    /// The peer has answered UCP once: from then on force is safe. UCX 1.13 asserts when it meets
    /// its own wire-up.
    pub(crate) connected: Cell<bool>,
    /// Force, as soon as that is safe.
    pub(crate) forced: Cell<bool>,
    /// The peer's process has ended: from then on nobody reads what is still on its way there.
    pub(crate) process_ended: Cell<bool>,
    /// What it meant that UCX lost the peer; OK while it has not.
    pub(crate) loss: Cell<Status>,
    /// UCP's own close is under way.
    pub(crate) closing_in_ucp: Cell<bool>,
    /// Force at this moment. Moved on while sends complete.
    pub(crate) deadline: Cell<u64>,
    pub(crate) transfers_seen: Cell<u32>,
    /// Its receives have been cancelled: those that are still under way have matched.
    pub(crate) only_matched: Cell<bool>,
    /// Messages were still on their way into their buffers when it ended: the peer may have got the
    /// memory back that they come from.
    pub(crate) torn: Cell<bool>,
    /// Something was ended that UCP has not given back.
    pub(crate) abandoned: Cell<bool>,
    /// Receives that UCP does not give back by this moment are ended without it.
    pub(crate) receives_deadline: Cell<u64>,
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
            given_up: Cell::new(false),
            request: Cell::new(std::ptr::null()),
            taken: Cell::new(false),
            flushed: Cell::new(true),
            overdue: Cell::new(false),
            flush_due: Cell::new(false),
            flush_again: Cell::new(false),
            connected: Cell::new(false),
            forced: Cell::new(false),
            process_ended: Cell::new(false),
            loss: Cell::new(Status::OK),
            closing_in_ucp: Cell::new(false),
            deadline: Cell::new(0),
            transfers_seen: Cell::new(0),
            only_matched: Cell::new(false),
            torn: Cell::new(false),
            abandoned: Cell::new(false),
            receives_deadline: Cell::new(0),
            parting: Parting::default(),
            reported: AtomicBool::new(false),
            running: AtomicU32::new(0),
        }
    }
}

impl Endpoint {
    /// Closes it: refuses what comes after, lets finish (or, with `force`, cuts short) what came
    /// before.
    pub fn close(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.worker.context, "close", 0)?;
        request_wait::submit(params, out, |params, out| self.close_now(force, params, out))
    }

    pub(crate) fn close_now(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        self.worker.check_usable()?;
        if self.worker.thread.is_remote() && self.status() == Status::CLOSED {
            return Err(self.not_open(Status::CLOSED));
        }
        let endpoint = EndpointPointer(self);
        let timeout_ns = params.timeout_ns;
        let later =
            self.worker.post_operation(Kind::EndpointClose, params, out, move |inside, slot| {
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

    pub(crate) fn close_inside(
        &self,
        inside: &Inside<'_>,
        slot: &Slot,
        force: bool,
        timeout_ns: u64,
    ) {
        // Where its peer is gone, what is left of it goes by itself.
        self.set_status(Status::CLOSED);
        let params = &OpParams { timeout_ns, ..OpParams::default() };
        // Started before UCP is asked: the close must not end before there is a request to end.
        inside.start(slot, Some(self), params, Out::NOWHERE);
        self.closing.request.set(slot);
        if self.phase() == Phase::Open {
            self.begin_close(force);
            if params.timeout_ns != 0 && !force {
                // The caller's patience counts, not ours.
                self.closing.deadline.set(NO_DEADLINE);
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
        self.cancel_watchers(Status::CLOSED);
        self.closing.deadline.set(clock::deadline_after(self.patience()));
        self.closing.transfers_seen.set(self.transfers());
        if force && !self.is_connecting() {
            self.end_queue(Status::CANCELED);
        }
        if self.is_untouched() {
            // There is nothing to flush.
        } else if self.holds_flushes() {
            // What waits is let out first.
            let due = self.sends.get() > 0 || !self.is_connecting();
            self.closing.flush_due.set(due);
            self.closing.flushed.set(!due);
        } else if !self.closing.connected.get() || (!force && self.operations_sent() > 0) {
            self.start_flush_before_close();
        }
        if force {
            self.force_when_safe();
        }
        self.tend_later();
        self.watch();
    }

    pub(crate) fn start_flush_before_close(&self) {
        self.closing.flush_again.set(self.sends.get() > 0);
        let ended = self.start_flush(Part::FlushBeforeClose);
        self.closing.flushed.set(ended.is_some());
        self.note_answer(ended == Some(Status::OK));
    }

    /// It was being closed while something waited in its queue, and has let that out.
    pub(crate) fn flush_before_close(&self) {
        if self.phase() == Phase::Flushing && self.closing.flush_due.replace(false) {
            self.start_flush_before_close();
        }
    }

    /// No more patience, but for the wire-up.
    pub(crate) fn force_when_safe(&self) {
        self.closing.forced.set(true);
        self.cut_queue();
        if self.may_force() {
            let now = clock::now_ns();
            if self.has_let_go(now) && self.has_parted(now) {
                self.end_by_force();
            }
            return;
        }
        self.hurry(FLUSH_PATIENCE_NS);
    }

    /// Not longer than so long from now on.
    pub(crate) fn hurry(&self, patience_ns: u64) {
        let soon = clock::deadline_after(patience_ns);
        self.closing.deadline.set(self.closing.deadline.get().min(soon));
        self.closing.parting.hurry(soon);
    }

    pub(crate) fn may_force(&self) -> bool {
        (self.closing.connected.get() || self.closing.flushed.get()) && self.ucp_flushes.get() == 0
    }

    /// The request of a close was cancelled, or its time has run out: no more patience. False where
    /// all was done, and the close is none the worse for it.
    pub(crate) fn hurry_close(&self, reason: Status) -> bool {
        // Who sleeps until the old deadline is to look again.
        self.watch();
        if self.has_only_courtesy_left() {
            return false;
        }
        self.closing.outcome.set(reason);
        if self.phase() == Phase::Flushing {
            if self.transfers() == 0 {
                // Nothing of it is being read: it was the caller's time alone that an answer was
                // waited for.
                self.closing.parting.hurry(0);
            }
            self.force_when_safe();
        }
        true
    }

    /// Tells UCP to let go, whatever is in flight: requests come back with an error in the passes
    /// that follow.
    pub(crate) fn end_by_force(&self) {
        self.tell_protocols(OfEndpoint::BreaksOff);
        let lives = !self.is_remote() && !self.closing.process_ended.get();
        self.closing.torn.set(lives && self.watchers.get() > 0);
        self.set_phase(Phase::Ending);
        if self.sends.get() > 0 {
            let unanswered = |slot: &Slot| {
                slot.kind.get() == Kind::Atomic && std::ptr::eq(slot.endpoint.get(), self)
            };
            self.worker.for_each_picked(unanswered, |slot| {
                self.worker.cancel_slot(slot, self.cut_short())
            });
        }
        let patience = if self.closing.process_ended.get() { DEAD_NS } else { ENDING_NS };
        self.closing.deadline.set(clock::deadline_after(patience));
        self.closing.receives_deadline.set(clock::deadline_after(DEAD_NS));
        if self.peer_failure || self.is_untouched() {
            self.close_in_ucp(sys::UCP_EP_CLOSE_FLAG_FORCE);
        } else if self.closing.parting.heard.get() && self.sends.get() == 0 {
            self.close_in_ucp(0);
        }
        let outcome = self.closing.outcome.get();
        self.end_waiting(self.cut_short());
        self.cancel_watchers(if outcome.is_error() { outcome } else { Status::CLOSED });
        self.tend_later();
        self.watch();
    }

    /// What this receive has got may be anything.
    pub(crate) fn has_torn(&self, slot: &Slot) -> bool {
        // A stream's have been copied out of UCP's own buffers.
        self.closing.torn.get() && slot.kind.get().is_recv() && slot.kind.get() != Kind::StreamRecv
    }

    /// What becomes of what UCP has not been given.
    pub(crate) fn cut_short(&self) -> Status {
        match self.closing.outcome.get() {
            Status::OK => Status::CANCELED,
            Status::TIMED_OUT if self.closing.overdue.get() => Status::CANCELED,
            failure => failure,
        }
    }

    /// Has UCP let go of an attempt to connect: another one may follow.
    pub(crate) fn abandon_in_ucp(&self) {
        self.let_go_in_ucp(
            Part::Nothing,
            if self.peer_failure { sys::UCP_EP_CLOSE_FLAG_FORCE } else { 0 },
        );
    }

    pub(crate) fn close_in_ucp(&self, flags: u32) {
        self.answer_bye();
        if self.let_go_in_ucp(Part::Close, flags).is_none() {
            self.closing.closing_in_ucp.set(true);
        }
    }

    /// UCP's close, once. Its status if it ended inside the call.
    pub(crate) fn let_go_in_ucp(&self, part: Part, flags: u32) -> Option<Status> {
        self.tell_protocols(OfEndpoint::LetsGo);
        if self.ucp.get().is_null() || self.leave_untouched() {
            return Some(Status::OK);
        }
        let ucp = self.ucp.replace(std::ptr::null_mut());
        self.worker.resting.begin();
        self.leave_place();
        self.start_part(part, |slot| {
            let mut param = Param::new(slot);
            if flags != 0 {
                param.flags(flags);
            }
            // SAFETY: a live endpoint inside its worker's gate, not used afterwards; as in
            // start_flush.
            unsafe { sys::ucp_ep_close_nbx(ucp, param.as_ptr()) }
        })
    }

    /// UCP's flush, as a part of something. Its status if it ended inside the call.
    pub(crate) fn start_flush(&self, part: Part) -> Option<Status> {
        let ucp = self.ucp.get();
        // SAFETY: a live endpoint inside its worker's gate; `start_part` keeps the slot until UCP
        // calls back.
        self.start_part(part, |slot| unsafe {
            sys::ucp_ep_flush_nbx(ucp, Param::new(slot).as_ptr())
        })
    }

    /// Gives UCP a part of opening or closing. Its status if it ended inside the call.
    pub(crate) fn start_part(
        &self,
        part: Part,
        call: impl FnOnce(&Slot) -> sys::ucs_status_ptr_t,
    ) -> Option<Status> {
        self.worker.start_part(Some(self), part, call)
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
        self.note_answer(
            status == Status::OK && matches!(part, Part::FlushBeforeClose | Part::Answer),
        );
        if self.phase() == Phase::Closed {
            self.watch();
        }
        match part {
            Part::FlushBeforeClose => self.closing.flushed.set(true),
            Part::Close => {
                self.closing.closing_in_ucp.set(false);
                self.worker.resting.begin();
            }
            // UCP's connection stands; whether the peer is one of ours may not be known yet.
            Part::Hello(attempt) if self.is_connecting() && status == Status::OK => {
                self.is_within_hearing();
                self.answered(attempt);
            }
            Part::Answer if status == Status::OK => self.answered(0),
            // With error handling UCP reports to the endpoint, and better.
            Part::Hello(attempt) if self.is_connecting() && !self.peer_failure => {
                self.unanswered(attempt, status)
            }
            Part::Bye => self.bye_sent(status),
            Part::Ping => self.asked(),
            _ => {}
        }
    }

    /// Ends the receives that were to end with this endpoint: of its stream, but for those that
    /// have been filled, and of tagged messages that have not begun to come. What is left after
    /// that is being received.
    pub(crate) fn cancel_watchers(&self, reason: Status) {
        self.tell_protocols(OfEndpoint::EndsReceives(reason));
        self.closing.only_matched.set(true);
        if self.watchers.get() == 0 {
            return;
        }
        let watches =
            |slot: &Slot| slot.kind.get().is_recv() && std::ptr::eq(slot.endpoint.get(), self);
        self.worker.for_each_picked(watches, |slot| self.worker.cancel_slot(slot, reason));
    }

    /// The peer's process has ended.
    pub(crate) fn process_ended(&self, now: u64) {
        self.closing.process_ended.set(true);
        if self.phase() == Phase::Ending {
            self.closing.deadline.set(self.closing.deadline.get().min(now + DEAD_NS));
        }
        self.gone(Status::PEER_FAILED, "its process has ended");
    }

    /// Ends for the caller what UCP has not given back of it: sends that stand in the full queue of
    /// a peer that does not look at it, a receive that has matched a message of which the rest will
    /// never come.
    pub(crate) fn abandon_requests(&self) {
        let left = |slot: &Slot| {
            let kind = slot.kind.get();
            // A multi-buffer transfer ends with its parts.
            let in_ucp = kind.is_send() || (kind.is_recv() && !kind.is_multi());
            std::ptr::eq(slot.endpoint.get(), self) && (in_ucp || kind == Kind::EndpointFlush)
        };
        self.closing.abandoned.set(true);
        let status = self.cut_short();
        self.worker.for_each_picked(left, |slot| match slot.kind.get() {
            Kind::EndpointFlush => self.worker.cancel_slot(slot, status),
            Kind::TagRecvPart => {
                // One that was posted after the others were cancelled has not matched, and is ours
                // to take back.
                let part = slot.ticket();
                self.worker.cancel_slot(slot, status);
                if let Some(slot) = part.current() {
                    self.worker.abandon(slot, status);
                }
            }
            _ => self.worker.abandon(slot, status),
        });
    }

    /// The caller's close request has completed, by whatever way.
    pub(crate) fn forget_request(&self, slot: &Slot) {
        // A second close, which was refused, has a request of its own.
        if std::ptr::eq(self.closing.request.get(), slot) {
            self.closing.request.set(std::ptr::null());
        }
    }

    /// Completes the caller's close request, if there is one in flight.
    pub(crate) fn complete_request(&self, outcome: Status) {
        // SAFETY: the slot is in flight until it is completed here.
        if let Some(slot) = unsafe { self.closing.request.replace(std::ptr::null()).as_ref() } {
            // A peer that was lost, or never found, is no failure of closing.
            let gone = matches!(
                outcome,
                Status::PEER_FAILED
                    | Status::CONNECTION_RESET
                    | Status::REJECTED
                    | Status::UNREACHABLE
            );
            let status = if gone { Status::OK } else { outcome };
            slot.reason.set(status.0);
            self.worker.complete(slot, status);
        }
    }

    /// Destroys a handle of the caller's. With the last one the endpoint is closed if it is open,
    /// and its end waited for, and its callbacks. From a callback it does not wait, and the end
    /// comes after the pass.
    pub fn destroy(self: Arc<Self>) {
        if !self.release()
            || self.worker.generation.is_past()
            || self.worker.closed.load(Ordering::Acquire)
        {
            return;
        }
        if deferred::in_callback() {
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
        let mut before = None;
        // Ends by itself: what gets no further is cut short, and what has been cut short ends.
        // Callbacks take as long as they take.
        while self
            .worker
            .drive(&ended, clock::deadline_after(2 * PATIENCE_NS))
            .is_ok_and(|ended| !ended)
        {
            let looked = self.worker.on_owner(|_inside| {
                let transfers = Some(self.transfers());
                if self.phase() == Phase::Flushing
                    && std::mem::replace(&mut before, transfers) == transfers
                {
                    self.end_by_force();
                }
                Ok(())
            });
            if looked.is_err() {
                return;
            }
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
