//! Endpoints that are being opened or closed: looked at in each pass until they have got where they
//! go.

use crate::engine::base::clock;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::close::{
    ENDING_NS, FLUSH_PATIENCE_NS, NO_DEADLINE, PATIENCE_NS, READING_NS,
};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::worker::{attention, Worker};
use std::sync::Arc;

impl Endpoint {
    /// One look at an endpoint that is changing. True while it has to be looked at again.
    pub(crate) fn advance(&self, now: u64) -> bool {
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
            Phase::Open => {
                let waits = self.waits_for_message(now) | self.is_leaving(now);
                return self.connect_deadline.get() != 0 || waits;
            }
            Phase::Flushing => self.advance_flushing(now),
            Phase::Ending => self.advance_ending(now),
            Phase::Closed => {}
        }
        if self.phase() == Phase::Closed && self.is_unused() {
            self.unregister();
            return false;
        }
        // What UCP keeps may come back as late as the end of the worker: `part_ended` looks again.
        self.phase() != Phase::Closed
            || !(self.closing.abandoned.get() || self.closing.process_ended.get())
    }

    /// Sends, and, once it is being closed, messages that are on their way into their buffers.
    pub(crate) fn transfers(&self) -> u32 {
        self.sends.get() + self.watchers.get()
    }

    pub(crate) fn patience(&self) -> u64 {
        if self.transfers() > 0 {
            PATIENCE_NS
        } else {
            FLUSH_PATIENCE_NS
        }
    }

    /// The next look would get it further.
    pub(crate) fn can_advance(&self) -> bool {
        match self.phase() {
            Phase::Open => false,
            Phase::Flushing => {
                let forced = self.closing.forced.get() && self.may_force();
                let alone = self.closing.parting.heard.get() && self.has_flushed();
                self.is_parting().is_none()
                    && (forced || alone || (self.has_flushed() && self.transfers() == 0))
            }
            Phase::Ending => {
                self.transfers() + self.due.callbacks.get() == 0
                    && !self.closing.closing_in_ucp.get()
            }
            Phase::Closed => self.is_unused(),
        }
    }

    /// 0 for never.
    fn next_look_while_open(&self) -> u64 {
        let all = [self.connect_deadline.get(), self.gap_deadline(), self.leaving_deadline()];
        all.into_iter().filter(|at| *at != 0).min().unwrap_or(0)
    }

    /// Nothing in flight names it, and no callback.
    pub(crate) fn is_unused(&self) -> bool {
        self.transfers() + self.controls.get() + self.due.callbacks.get() == 0
    }

    /// The peer has gone: there is nothing to wait for but UCP's flush, as UCX 1.21 has been seen
    /// to go on with one on an endpoint that was closed by force meanwhile.
    pub(crate) fn hurry_alone(&self) {
        self.cut_queue();
        self.hurry(FLUSH_PATIENCE_NS);
        self.watch();
    }

    /// The flush of its close has ended, and those that the caller asked for, of which the second
    /// half may be still to begin.
    fn has_flushed(&self) -> bool {
        self.closing.flushed.get() && self.flushes.borrow().is_empty()
    }

    pub(crate) fn advance_flushing(&self, now: u64) {
        if self.closing.parting.heard.get() {
            if (self.has_flushed() || now >= self.closing.deadline.get()) && self.has_let_go(now) {
                self.end_by_force();
            }
            return;
        }
        if self.closing.forced.get() {
            let may = self.may_force() || now >= self.closing.deadline.get();
            if may && self.has_let_go(now) && self.has_parted(now) {
                self.end_by_force();
            }
            return;
        }
        if self.has_flushed() && self.transfers() == 0 {
            if self.closing.flush_again.get() {
                return self.start_flush_before_close();
            }
            if !self.has_parted(now) {
                return;
            }
            if self.may_have_lost() {
                self.closing.note_timeout();
            }
            if self.peer_failure {
                return self.end_by_force();
            }
            self.set_phase(Phase::Ending);
            self.closing.deadline.set(clock::deadline_after(ENDING_NS));
            return self.close_in_ucp(0);
        }
        if self.transfers() != self.closing.transfers_seen.get()
            && self.closing.deadline.get() != NO_DEADLINE
        {
            self.closing.transfers_seen.set(self.transfers());
            self.closing.deadline.set(now + self.patience());
        }
        if now >= self.closing.deadline.get() {
            self.closing.note_timeout();
            if !self.has_let_go(now) {
                return;
            }
            // A peer that has taken nothing for so long is not waited for once more.
            self.has_parted(now);
            self.end_by_force();
        }
    }

    pub(crate) fn advance_ending(&self, now: u64) {
        let sends_back = self.sends.get() == 0 && !self.closing.closing_in_ucp.get();
        let receives_wait =
            self.watchers.get() + self.one_sided.get() > 0 && self.may_be_reading(now);
        if sends_back && receives_wait {
            return;
        }
        let back = sends_back && self.watchers.get() == 0;
        // Without error handling there is no force: what UCP still has stays with it until the
        // worker goes.
        let left_to_ucp = !self.peer_failure && self.closing.outcome.get().is_error();
        if sends_back || left_to_ucp || (now >= self.closing.deadline.get() && !receives_wait) {
            if !back && self.peer_failure {
                self.abandon_requests();
            }
            // What comes with its end may let go of what its requests' callbacks use.
            if self.due.callbacks.get() > 0 {
                return;
            }
            self.set_phase(Phase::Closed);
            let outcome = self.closing.outcome.get();
            self.complete_request(outcome);
            if let Some(endpoint) = self.registered() {
                self.worker.push_event(Event::Closed(endpoint, outcome));
            }
        }
    }

    /// Receives may still be written to: UCP's last pass found something to do, or it is too early
    /// to tell.
    pub(crate) fn may_be_reading(&self, now: u64) -> bool {
        let deadline = self.closing.receives_deadline.get();
        let reads = self.worker.ucp_was_busy.get() && !self.closing.process_ended.get();
        now < deadline || (reads && now < deadline + READING_NS)
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
            Phase::Open => endpoint.next_look_while_open(),
            Phase::Flushing => endpoint.is_parting().unwrap_or(endpoint.closing.deadline.get()),
            Phase::Ending if endpoint.watchers.get() > 0 => {
                endpoint.closing.receives_deadline.get()
            }
            Phase::Ending => endpoint.closing.deadline.get(),
            Phase::Closed => 0,
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
