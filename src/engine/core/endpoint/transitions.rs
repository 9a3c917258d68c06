//! Endpoints that are being opened or closed. They are in `Worker::changing`, and each pass checks
//! them until they have reached their state.

use crate::engine::base::clock;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::close::{
    ENDING_NS, FLUSH_PATIENCE_NS, NO_DEADLINE, PATIENCE_NS, READING_NS,
};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{
    Ending, Flush, Flushing, LifeEvent, Outcome, Peer, Stage,
};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::worker::{attention, Worker};

/// Most endpoints that a pass checks, so that it stays short while thousands open or close.
const MOST_LOOKS: usize = 64;

impl Endpoint {
    /// One check of an endpoint that is changing. True if it must be checked again.
    pub(crate) fn advance(&self, now: u64) -> bool {
        if self.connect_deadline.get() != 0 && now >= self.connect_deadline.get() {
            self.connect_deadline.set(0);
            if self.is_connecting() {
                self.attempt_failed(self.attempt(), Status::TIMED_OUT);
            } else {
                self.fail(Status::TIMED_OUT);
            }
            // It has added itself to the list, for the next pass.
            return true;
        }
        match self.life().stage {
            Stage::Open | Stage::Draining { .. } => {
                let waits = self.waits_for_message(now) | self.is_draining(now);
                return self.connect_deadline.get() != 0 || waits;
            }
            Stage::Flushing(flushing) => self.advance_flushing(now, flushing),
            Stage::Ending(ending) => self.advance_ending(now, ending),
            Stage::Closed(_) | Stage::Reported(_) => {}
        }
        if self.phase() < Phase::Closed {
            return true;
        }
        if self.is_unused() {
            self.unregister();
            return false;
        }
        // UCP may return what it keeps as late as the end of the worker: `part_ended` checks again.
        !self.life().left().abandoned && self.life().peer != Peer::Gone
    }

    /// Sends, and, once it is being closed, receives that have matched.
    pub(crate) fn transfers(&self) -> u32 {
        self.sends.get() + self.watchers.get()
    }

    /// The peer has closed its end, or has answered this side's Bye, so that messages that have
    /// crossed the Bye are not received any more: the peer has dropped the rest of them.
    fn peer_has_ended(&self) -> bool {
        let life = self.life();
        life.has_heard_bye() || (life.is_answered() && self.watchers.get() > 0)
    }

    pub(crate) fn patience(&self) -> u64 {
        if self.transfers() > 0 {
            PATIENCE_NS
        } else {
            FLUSH_PATIENCE_NS
        }
    }

    /// The next check would make progress.
    pub(crate) fn can_advance(&self) -> bool {
        match self.life().stage {
            Stage::Open | Stage::Draining { .. } => false,
            Stage::Flushing(flushing) => {
                let forced = flushing.forced && self.may_force();
                let flushed = self.has_flushed(flushing);
                let alone = self.peer_has_ended() && flushed;
                self.is_parting().is_none()
                    && self.emptying_deadline().is_none()
                    && (forced || alone || (flushed && self.transfers() == 0))
            }
            Stage::Ending(ending) => {
                self.transfers() + self.due.callbacks.get() == 0 && !ending.in_ucp
            }
            Stage::Closed(_) | Stage::Reported(_) => self.is_unused(),
        }
    }

    /// 0 for never.
    fn next_look_while_open(&self) -> u64 {
        let all = [self.connect_deadline.get(), self.gap_deadline(), self.draining_deadline()];
        all.into_iter().filter(|at| *at != 0).min().unwrap_or(0)
    }

    /// Nothing in flight and no callback refers to it.
    pub(crate) fn is_unused(&self) -> bool {
        self.transfers() + self.controls.get() + self.due.callbacks.get() == 0
    }

    /// The peer has failed: only UCP's flush is waited for, because UCX 1.21 was seen to continue
    /// one on an endpoint that was closed by force in the meantime.
    pub(crate) fn hurry_alone(&self) {
        self.cut_queue();
        self.hurry(FLUSH_PATIENCE_NS);
        self.watch();
    }

    /// The flush of its close has completed, and so have the caller's flushes, whose second half
    /// may not have started.
    fn has_flushed(&self, now: Flushing) -> bool {
        now.has_flushed() && self.flushes.borrow().is_empty()
    }

    fn advance_flushing(&self, now: u64, flushing: Flushing) {
        let (flushed, deadline) = (self.has_flushed(flushing), flushing.deadline);
        if self.peer_has_ended() {
            if (flushed || now >= deadline) && self.may_go(now) {
                self.end_by_force();
            }
            return;
        }
        if flushing.forced {
            let may = self.may_force() || now >= deadline;
            if may && self.may_end(now) {
                self.end_by_force();
            }
            return;
        }
        if flushed && self.transfers() == 0 {
            if flushing.flush == Flush::Again {
                return self.start_flush_before_close();
            }
            if !self.has_parted(now) || !self.has_emptied_socket(now) {
                return;
            }
            if self.may_have_lost() {
                self.run_out();
            }
            if self.peer_failure {
                return self.end_by_force();
            }
            let deadline = clock::deadline_after(ENDING_NS);
            self.on(LifeEvent::LetsGo(Ending { deadline, ..Ending::default() }));
            return self.close_in_ucp(0);
        }
        if self.transfers() != flushing.transfers && deadline != NO_DEADLINE {
            return self.on(LifeEvent::MovesOn(now + self.patience(), self.transfers()));
        }
        if now >= deadline {
            self.run_out();
            if !self.has_let_go(now) {
                return;
            }
            // A peer that has accepted nothing for so long is not waited for again.
            self.has_parted(now);
            self.end_by_force();
        }
    }

    /// Does not report a timeout if no caller has set a time limit.
    fn run_out(&self) {
        let asked = self.is_close_asked();
        self.on(if asked { LifeEvent::IsCut(Status::TIMED_OUT) } else { LifeEvent::RunsOut });
    }

    fn advance_ending(&self, now: u64, ending: Ending) {
        let sends_back = self.sends.get() == 0 && !ending.in_ucp;
        let receives_wait = self.watchers.get() + self.one_sided.get() > 0
            && self.may_be_reading(now, ending.receives_deadline);
        if sends_back && receives_wait {
            return;
        }
        let back = sends_back && self.watchers.get() == 0;
        // Without error handling there is no forced close: what UCP still has stays with it until
        // the worker ends.
        let left_to_ucp = !self.peer_failure && self.life().outcome != Outcome::Good;
        if sends_back || left_to_ucp || (now >= ending.deadline && !receives_wait) {
            if !back && self.peer_failure {
                self.abandon_requests();
            }
            // Later callbacks may free what the callbacks of its requests use.
            if self.due.callbacks.get() > 0 {
                return;
            }
            self.on(LifeEvent::Ends);
            let outcome = self.life().outcome.status();
            self.complete_request(outcome);
            if let Some(endpoint) = self.registered() {
                self.worker.push_event(Event::Closed(endpoint, outcome));
            }
        }
    }

    /// UCX may still be writing into receives: its last pass did something, or it is too early to
    /// tell.
    fn may_be_reading(&self, now: u64, deadline: u64) -> bool {
        let reads = self.worker.ucp_was_busy.get() && self.life().peer != Peer::Gone;
        now < deadline || (reads && now < deadline + READING_NS)
    }
}

impl Worker {
    /// Checks the endpoints that are being opened or closed, in turn, at most `MOST_LOOKS` in a
    /// pass. Returns how many made progress.
    pub(crate) fn advance_changing(&self, now: u64) -> u32 {
        let mut changed = 0;
        let lingering = self.advance_listeners(now);
        let looks = self.changing.borrow().len().min(MOST_LOOKS);
        for _ in 0..looks {
            let Some(endpoint) = self.changing.borrow_mut().pop_front() else { break };
            endpoint.listed.set(false);
            let before = endpoint.phase();
            let keep = endpoint.advance(now);
            changed += u32::from(!keep || endpoint.phase() != before);
            if keep {
                self.look_later(endpoint);
            }
        }
        if self.changing.borrow().is_empty() && !lingering {
            self.attention.set(self.attention.get() & !attention::CHANGING);
        }
        changed
    }

    /// Checks every changing endpoint once, before a sleep. Passes check some of them in turn, and
    /// may not have reached all since something happened. Returns true if one got further.
    pub(crate) fn advance_before_sleep(&self, now: u64) -> bool {
        let rounds = self.changing.borrow().len().div_ceil(MOST_LOOKS);
        rounds > 1 && (0..rounds).fold(0, |changed, _| changed + self.advance_changing(now)) > 0
    }

    /// Adds an endpoint to the end of the list, once.
    pub(crate) fn look_later(&self, endpoint: Inward<SharedEndpoint>) {
        if !endpoint.listed.replace(true) {
            self.changing.borrow_mut().push_back(endpoint);
        }
    }

    /// A pass would make progress on an endpoint that is being opened or closed.
    pub(crate) fn can_advance(&self) -> bool {
        self.changing.borrow().iter().any(|endpoint| endpoint.can_advance())
    }

    /// The earliest moment at which an endpoint that is changing must be checked.
    pub(crate) fn next_change(&self) -> Option<u64> {
        let deadline = |endpoint: &Inward<SharedEndpoint>| match endpoint.life().stage {
            Stage::Open | Stage::Draining { .. } => endpoint.next_look_while_open(),
            Stage::Flushing(flushing) => {
                let last = endpoint.emptying_deadline().or_else(|| endpoint.is_parting());
                // 0: its turn has come, and something else keeps it: at most until the deadline.
                last.filter(|at| *at != 0).unwrap_or(flushing.deadline)
            }
            Stage::Ending(ending) if endpoint.watchers.get() > 0 => ending.receives_deadline,
            Stage::Ending(ending) => ending.deadline,
            Stage::Closed(_) | Stage::Reported(_) => 0,
        };
        let endpoints = self
            .changing
            .borrow()
            .iter()
            .map(deadline)
            .filter(|at| *at != 0 && *at != u64::MAX)
            .min();
        [endpoints, self.next_listener()].into_iter().flatten().min()
    }
}
