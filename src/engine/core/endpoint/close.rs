//! Closing an endpoint: a flush, then a forced close in UCP. Each step has a time limit.
//!
//! UCP's own flush-and-close was seen to leak memory and mappings for each connection; a flush
//! followed by a forced close does not. A forced close needs error handling. Endpoints without it
//! use UCP's flush-and-close; if that does not complete in time, they stay in UCP until the worker
//! ends.

use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{
    CloseRequest, Ending, Flush, Flushing, LifeEvent, Peer, Remains,
};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::{self, Event};
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::request_wait;
use crate::sys;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// A close that makes no progress for this long, with transfers in flight, continues by force.
pub(crate) const PATIENCE_NS: u64 = 3_000_000_000;
/// The same without transfers: over TCP, UCP's flush asks the peer, which may not be making
/// progress.
pub(crate) const FLUSH_PATIENCE_NS: u64 = 1_000_000_000;
/// After a forced close UCP returns its requests within a few passes, except those in the full
/// queue of a peer that does not poll. These are completed without UCP.
pub(crate) const ENDING_NS: u64 = 900_000_000;

/// The same if the peer's process has ended. UCX was seen to keep requests that wait for room in a
/// dead process's queue, where there never will be any.
pub(crate) const DEAD_NS: u64 = 500_000_000;
/// UCX may read the memory of a live peer into receives for this much longer: it copies a piece in
/// each pass, even after the endpoint was closed.
pub(crate) const READING_NS: u64 = 3_000_000_000;

/// The caller has set a time limit for the close: its request is cancelled at that time.
pub(crate) const NO_DEADLINE: u64 = u64::MAX;

impl SharedEndpoint {
    /// Closes the endpoint: refuses later operations, and completes earlier ones (with `force`:
    /// cuts them short).
    pub fn close(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.worker().context, "close", 0)?;
        request_wait::submit(params, out, |params, out| self.close_now(force, params, out))
    }

    pub(crate) fn close_now(&self, force: bool, params: &OpParams, out: Out) -> Result<Submitted> {
        self.worker().check_usable()?;
        if self.worker().thread.is_remote() && self.status() == Status::CLOSED {
            return Err(self.not_open(Status::CLOSED));
        }
        let timeout_ns = params.timeout_ns;
        // `on_close` may destroy the last handle before this thread has set the status.
        let kept = self.shared();
        let later =
            self.post_operation(Kind::EndpointClose, params, out, move |endpoint, slot| {
                if endpoint.is_close_asked() {
                    return endpoint.worker.never_started(slot, Some(endpoint), Status::CLOSED);
                }
                endpoint.close_inside(slot, force, timeout_ns);
            })?;
        if let Some(submitted) = later {
            // Later operations are refused at once; earlier ones are handled by the phase. This
            // thread is outside the gate, so the job changes the life.
            kept.set_status(Status::CLOSED);
            return Ok(submitted);
        }
        let inside = self.enter()?;
        if self.status() == Status::CLOSED {
            return Err(self.not_open(Status::CLOSED));
        }
        let slot = inside.worker.take_slot();
        slot.begin_in_full(Kind::EndpointClose, params, 0, out);
        trace::submitted(slot, Some(&inside));
        inside.close_inside(slot, force, params.timeout_ns);
        Ok(Submitted::Pending)
    }
}

impl Endpoint {
    pub(crate) fn close_inside(&self, slot: &Slot, force: bool, timeout_ns: u64) {
        // If the peer has failed, the rest ends by itself.
        self.on(LifeEvent::Refuses(Status::CLOSED));
        let params = &OpParams { timeout_ns, ..OpParams::default() };
        // Started before UCP is called: the close must not end before there is a request to
        // complete.
        self.worker.start(slot, Some(self), params, Out::NOWHERE);
        self.life.request.set(CloseRequest::InFlight(slot));
        if self.phase() == Phase::Open {
            self.begin_close(force);
            if params.timeout_ns != 0 && !force {
                // The caller's time limit applies instead of `PATIENCE_NS`.
                self.on(LifeEvent::MovesOn(NO_DEADLINE, self.transfers()));
            }
        } else if self.phase() >= Phase::Closed {
            self.complete_request(Status::OK);
        }
    }

    /// Starts closing an open endpoint.
    pub(crate) fn begin_close(&self, force: bool) {
        self.on(LifeEvent::Closes);
        self.connect_deadline.set(0);
        self.cancel_watchers(Status::CLOSED);
        self.on(LifeEvent::MovesOn(clock::deadline_after(self.patience()), self.transfers()));
        if force && !self.is_connecting() {
            self.end_queue(Status::CANCELED);
        }
        if self.is_untouched() {
            // There is nothing to flush.
        } else if self.holds_flushes() {
            // Queued sends go out first.
            if self.sends.get() > 0 || !self.is_connecting() {
                self.on(LifeEvent::FlushQueues);
            }
        } else if !self.life().connected || (!force && self.operations_sent() > 0) {
            self.start_flush_before_close();
        }
        if force {
            self.force_when_safe();
        }
        self.tend_later();
        self.watch();
    }

    /// The caller has closed it. A second close is an error.
    pub(crate) fn is_close_asked(&self) -> bool {
        !matches!(self.life.request.get(), CloseRequest::NotAsked)
    }

    pub(crate) fn start_flush_before_close(&self) {
        let under_way = |now: Flushing| matches!(now.flush, Flush::UnderWay { .. });
        if self.life().flushing().is_some_and(under_way) {
            return;
        }
        self.on(LifeEvent::FlushBegins(self.sends.get() > 0));
        let ended = self.start_flush(Part::FlushBeforeClose);
        if ended.is_some() {
            self.on(LifeEvent::FlushEnds);
        }
        self.note_answer(ended == Some(Status::OK));
    }

    /// Starts the flush of a close that waited for the queue, once the queue is empty.
    pub(crate) fn flush_before_close(&self) {
        if self.life().flushing().is_some_and(|now| now.flush == Flush::Queued) {
            self.start_flush_before_close();
        }
    }

    /// Closes by force, except during wire-up.
    pub(crate) fn force_when_safe(&self) {
        self.on(LifeEvent::Forces);
        self.cut_queue();
        if self.may_force() {
            let now = clock::now_ns();
            if self.may_end(now) {
                self.end_by_force();
            }
            return;
        }
        self.hurry(FLUSH_PATIENCE_NS);
    }

    /// Limits the remaining time to `patience_ns` from now.
    pub(crate) fn hurry(&self, patience_ns: u64) {
        self.on(LifeEvent::Hurries(clock::deadline_after(patience_ns)));
    }

    pub(crate) fn may_force(&self) -> bool {
        let flushed = self.life().flushing().is_some_and(|now| now.has_flushed());
        (self.life().connected || flushed) && self.ucp_flushes.get() == 0
    }

    /// The close request was cancelled, or its time has run out: closes by force. Returns false if
    /// everything was done, so that the close still succeeds.
    pub(crate) fn hurry_close(&self, reason: Status) -> bool {
        // A thread that sleeps until the old deadline must check again.
        self.watch();
        if self.has_only_courtesy_left() {
            return false;
        }
        self.on(LifeEvent::IsCut(reason));
        if self.phase() == Phase::Flushing {
            if self.transfers() == 0 {
                // Nothing is being read from this side: only the caller's time was spent on waiting
                // for an answer.
                self.on(LifeEvent::HurriesBye(0));
            }
            self.force_when_safe();
        }
        true
    }

    /// Closes in UCP by force, whatever is in flight. Requests complete with an error in the next
    /// passes.
    pub(crate) fn end_by_force(&self) {
        if self.ends_unheard() {
            let why = "closed while its peer does not read: the peer may not hear of it";
            log::at!(WARN, Endpoint, self, "{why}");
        }
        self.tell_protocols(OfEndpoint::BreaksOff);
        let gone = self.life().peer == Peer::Gone;
        let torn = !self.is_remote() && !gone && self.watchers.get() > 0;
        self.on(LifeEvent::BreaksOff(Ending {
            in_ucp: false,
            deadline: clock::deadline_after(if gone { DEAD_NS } else { ENDING_NS }),
            receives_deadline: clock::deadline_after(DEAD_NS),
            left: Remains { torn, abandoned: false },
        }));
        if self.sends.get() > 0 {
            let unanswered = |slot: &Slot| {
                slot.kind.get() == Kind::Atomic && std::ptr::eq(slot.endpoint.get(), self)
            };
            self.worker.for_each_picked(unanswered, |slot| {
                self.worker.cancel_slot(slot, self.life().cut_short())
            });
        }
        if self.peer_failure || self.is_untouched() {
            self.close_in_ucp(sys::UCP_EP_CLOSE_FLAG_FORCE);
        } else if self.life().has_heard_bye() && self.sends.get() == 0 {
            self.close_in_ucp(0);
        }
        let outcome = self.life().outcome.status();
        self.end_queue(self.life().cut_short());
        self.cancel_watchers(if outcome.is_error() { outcome } else { Status::CLOSED });
        self.tend_later();
        self.watch();
    }

    /// The contents of this receive's buffer are undefined.
    pub(crate) fn has_torn(&self, slot: &Slot) -> bool {
        // Stream data was copied from UCP's own buffers.
        self.life().left().torn && slot.kind.get().is_recv() && slot.kind.get() != Kind::StreamRecv
    }

    /// Releases a failed attempt to connect in UCP, so that another one can follow.
    pub(crate) fn abandon_in_ucp(&self) {
        self.release_in_ucp(
            Part::Nothing,
            if self.peer_failure { sys::UCP_EP_CLOSE_FLAG_FORCE } else { 0 },
        );
    }

    pub(crate) fn close_in_ucp(&self, flags: u32) {
        self.answer_bye();
        if self.release_in_ucp(Part::Close, flags).is_none() {
            self.on(LifeEvent::UcpCloses);
        }
    }

    /// UCP's close, once. Returns its status if it completed inside the call.
    pub(crate) fn release_in_ucp(&self, part: Part, flags: u32) -> Option<Status> {
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
            // SAFETY: a live endpoint inside its worker's gate, not used afterwards; `start_part`
            // keeps the slot until UCP calls back.
            unsafe { sys::ucp_ep_close_nbx(ucp, param.as_ptr()) }
        })
    }

    /// UCP's flush, as a part of another operation. Returns its status if it completed inside the
    /// call.
    pub(crate) fn start_flush(&self, part: Part) -> Option<Status> {
        let ucp = self.ucp.get();
        // SAFETY: a live endpoint inside its worker's gate; `start_part` keeps the slot until UCP
        // calls back.
        self.start_part(part, |slot| unsafe {
            sys::ucp_ep_flush_nbx(ucp, Param::new(slot).as_ptr())
        })
    }

    /// Gives UCP a part of opening or closing. Returns its status if it completed inside the call.
    pub(crate) fn start_part(
        &self,
        part: Part,
        call: impl FnOnce(&Slot) -> sys::ucs_status_ptr_t,
    ) -> Option<Status> {
        self.worker.start_part(Some(self), part, call)
    }

    /// A flush that succeeds shows that the peer has answered.
    pub(crate) fn note_answer(&self, answered: bool) {
        // Every flush reports it; only the first one counts.
        if answered && !self.life().connected {
            self.on(LifeEvent::UcpAnswers);
        }
    }

    /// UCP has completed a part.
    pub(crate) fn part_ended(&self, part: Part, status: Status) {
        self.note_answer(
            status == Status::OK && matches!(part, Part::FlushBeforeClose | Part::Answer),
        );
        if self.phase() >= Phase::Closed {
            self.watch();
        }
        match part {
            Part::FlushBeforeClose => self.on(LifeEvent::FlushEnds),
            Part::Close => {
                self.on(LifeEvent::UcpClosed);
                self.worker.resting.begin();
            }
            // UCP is connected; whether the peer is a worker of this library may not be known yet.
            Part::Hello(attempt) if self.is_connecting() && status == Status::OK => {
                self.on(LifeEvent::IsReached(clock::now_ns()));
                self.answered(attempt);
            }
            Part::Answer if status == Status::OK => self.answered(0),
            // With error handling UCP reports the failure to the endpoint, with a better reason.
            Part::Hello(attempt) if self.is_connecting() && !self.peer_failure => {
                self.unanswered(attempt, status)
            }
            Part::Bye => self.bye_sent(status),
            Part::LastWord => self.last_word_left(),
            Part::Ping => self.asked(),
            _ => {}
        }
    }

    /// Ends the receives that depend on this endpoint: those of its stream that are not filled, and
    /// tagged receives that have not matched. The rest is being received.
    pub(crate) fn cancel_watchers(&self, reason: Status) {
        self.tell_protocols(OfEndpoint::EndsReceives(reason));
        if self.watchers.get() == 0 {
            return;
        }
        let watches =
            |slot: &Slot| slot.kind.get().is_recv() && std::ptr::eq(slot.endpoint.get(), self);
        self.worker.for_each_picked(watches, |slot| self.worker.cancel_slot(slot, reason));
    }

    /// The peer's process has ended.
    pub(crate) fn process_ended(&self, now: u64) {
        self.on(LifeEvent::ProcessEnds(now + DEAD_NS));
        self.gone(Status::PEER_FAILED, "its process has ended");
    }

    /// Completes for the caller what UCP has not returned: sends in the full queue of a peer that
    /// does not poll, and receives that matched a message whose rest will never arrive.
    pub(crate) fn abandon_requests(&self) {
        let left = |slot: &Slot| {
            let kind = slot.kind.get();
            // A multi-buffer transfer ends with its parts.
            let in_ucp = kind.is_send() || (kind.is_recv() && !kind.is_multi());
            std::ptr::eq(slot.endpoint.get(), self) && (in_ucp || kind == Kind::EndpointFlush)
        };
        self.on(LifeEvent::Abandons);
        let status = self.life().cut_short();
        self.worker.for_each_picked(left, |slot| match slot.kind.get() {
            Kind::EndpointFlush => self.worker.cancel_slot(slot, status),
            Kind::TagRecvPart => {
                // This one was posted after the others were cancelled. It has not matched, so it
                // can be cancelled.
                let part = slot.ticket();
                self.worker.cancel_slot(slot, status);
                if let Some(slot) = part.current() {
                    self.worker.abandon(slot, status);
                }
            }
            _ => self.worker.abandon(slot, status),
        });
    }

    /// The caller's close request has completed.
    pub(crate) fn forget_request(&self, slot: &Slot) {
        // A second close, which was refused, has its own request.
        if matches!(self.life.request.get(), CloseRequest::InFlight(own) if std::ptr::eq(own, slot))
        {
            self.life.request.set(CloseRequest::Completed);
        }
    }

    /// Completes the caller's close request, if one is in flight.
    pub(crate) fn complete_request(&self, outcome: Status) {
        if let CloseRequest::InFlight(slot) = self.life.request.get() {
            self.life.request.set(CloseRequest::Completed);
            // SAFETY: the slot is in flight until it is completed here.
            let slot = unsafe { &*slot };
            // A close does not fail because the peer was lost or never found.
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
}

impl SharedEndpoint {
    /// Destroys one of the caller's handles. With the last one, closes the endpoint if it is open,
    /// and waits for its end and its callbacks. From a callback it does not wait: the endpoint then
    /// ends after the pass.
    pub fn destroy(self: Arc<Self>) {
        if !self.gave_back_the_last() {
            return;
        }
        if deferred::in_callback() {
            return self.end_after_the_pass();
        }
        let begun = self.on_owner(|inside| {
            inside.begin_destroy();
            Ok(())
        });
        if begun.is_err() {
            return;
        }
        let ended = || {
            self.phase() == Phase::Reported && self.callbacks_running().load(Ordering::Acquire) == 0
        };
        let mut before = None;
        // This ends: a step that makes no progress is forced, and a forced step completes. Only
        // callbacks take as long as they take.
        while self
            .worker()
            .drive(&ended, clock::deadline_after(2 * PATIENCE_NS))
            .is_ok_and(|ended| !ended)
        {
            let looked = self.on_owner(|inside| {
                let transfers = Some(inside.transfers());
                if self.phase() == Phase::Flushing
                    && std::mem::replace(&mut before, transfers) == transfers
                {
                    inside.end_by_force();
                }
                Ok(())
            });
            if looked.is_err() {
                return;
            }
        }
    }

    /// The same without waiting, on any thread: for users whose callbacks own what they use.
    pub(crate) fn destroy_later(self: Arc<Self>) {
        if self.gave_back_the_last() {
            self.end_after_the_pass();
        }
    }

    /// Gives a handle back. True if it was the last one of an endpoint that can be used.
    fn gave_back_the_last(&self) -> bool {
        self.release()
            && !self.worker().generation.is_past()
            && !self.worker().closed.load(Ordering::Acquire)
    }

    fn end_after_the_pass(self: Arc<Self>) {
        let worker = self.worker().clone();
        let _ = worker.post(move |inside| {
            inside.push_event(Event::DestroyEndpoint(self.of(inside).inward()));
        });
    }
}

impl Endpoint {
    pub(crate) fn begin_destroy(&self) {
        match self.phase() {
            Phase::Open => self.begin_close(false),
            Phase::Flushing => self.hurry(self.patience()),
            _ => self.on(LifeEvent::Refuses(Status::CLOSED)),
        }
    }
}
