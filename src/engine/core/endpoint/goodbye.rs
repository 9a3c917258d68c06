//! Bye: how an endpoint notifies its peer that it closes, which UCX does not do.
//!
//! - Bye is sent after everything else. A side that closes by force with sends in flight asks for
//!   an answer, because the peer may still be reading their memory. The peer answers when it has
//!   read the last byte; the wait for it is bounded, and longer while UCX transfers something.
//! - A side that closes by flush, has sent only its Hello and has received nothing, waits as well.
//!   If the peer's user closes its own unused end before the Hello arrives, that end is kept for
//!   the next connection (see `core::endpoint::parked_endpoints`), and the Bye would be taken for
//!   the end of that one. This wait is a courtesy: nothing on this side depends on it, so it does
//!   not count as a timeout.
//!
//! All of this runs on the worker's thread. What UCP's callbacks record is handled after its pass.

use crate::engine::base::clock;
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::Reply;
use crate::engine::core::endpoint::close::NO_DEADLINE;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{
    Answer, Bye, Flushing, Heard, LifeEvent, Peer, Said, Sent, Stage,
};
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::header::{flag, Header, Kind};
use std::sync::atomic::Ordering;

/// How long a peer may take to answer that it no longer reads this side's memory.
pub(crate) const ANSWER_NS: u64 = 1_000_000_000;

/// UCX transfers something if a pass in this time has.
const MOVES_NS: u64 = ANSWER_NS / 2;
/// How much longer a Bye may take while UCX transfers something.
const MOVING_NS: u64 = 3_000_000_000;

/// A Bye is queued behind receives of earlier frames at most this many times.
const MOST_POSTPONED: u8 = 64;

impl Endpoint {
    /// Nothing is being pulled from the peer's memory, or the wait has timed out. UCX 1.13 to 1.22
    /// assert at the end of the worker (`ucs_arbiter_group_is_empty`) if an endpoint was closed by
    /// force during a read by CMA.
    pub(crate) fn has_let_go(&self, now: u64) -> bool {
        let nothing_comes = match self.life().peer {
            Peer::Present => self.is_remote() && self.life().is_answered(),
            // Over a socket the data arrives by itself, as long as the socket and the peer exist.
            Peer::Silent | Peer::Lost(_) | Peer::GivenUp(_) => self.is_remote(),
            Peer::Gone => true,
        };
        if self.watchers.get() + self.one_sided.get() == 0 || nothing_comes {
            return true;
        }
        let mut pulls = false;
        self.worker.for_each_live(|slot| {
            pulls |= slot.is_pull() && std::ptr::eq(slot.endpoint.get(), self)
        });
        let receives = pulls || self.life().has_only_matched();
        if receives && self.life.pulls_deadline.get() == 0 {
            // A peer that has closed must be reported soon, even if it leaves something half
            // received.
            let short = !pulls && self.phase() == Phase::Open;
            let patience = if short { ANSWER_NS / 2 } else { ANSWER_NS };
            self.life.pulls_deadline.set(clock::deadline_after(patience));
            self.watch();
        }
        !receives || now >= self.life.pulls_deadline.get()
    }

    /// Delays the failure until nothing is being pulled from a live peer. True if something is.
    pub(crate) fn fails_later(&self, status: Status) -> bool {
        if self.phase() != Phase::Open {
            return false;
        }
        if status == Status::CONNECTION_RESET {
            self.cancel_watchers(status);
        }
        self.on(LifeEvent::Drains(status));
        !self.may_go(clock::now_ns())
    }

    /// Neither this side nor the socket holds anything of it.
    pub(crate) fn may_go(&self, now: u64) -> bool {
        self.has_let_go(now) && self.has_emptied_socket(now)
    }

    /// True while the endpoint waits for that. In each pass.
    pub(crate) fn is_draining(&self, now: u64) -> bool {
        let Stage::Draining { status, .. } = self.life().stage else { return false };
        let over = self.may_go(now);
        if over {
            self.answer_bye();
            self.fail(status);
        }
        !over
    }

    /// When to stop waiting for a peer that has left; 0 if there is none.
    pub(crate) fn draining_deadline(&self) -> u64 {
        match self.life().stage {
            Stage::Draining { .. } => {
                self.emptying_deadline().unwrap_or(self.life.pulls_deadline.get())
            }
            _ => 0,
        }
    }

    /// Sends Bye once, if the peer can receive it. False while the endpoint must wait for that
    /// before it ends.
    pub(crate) fn has_parted(&self, now: u64) -> bool {
        if self.life().bye == Bye::Unsaid {
            let Some(deadline) = self.can_part() else {
                self.on(LifeEvent::OmitsBye);
                return true;
            };
            let unheard_until = self.courtesy();
            let unanswered = self.may_cut_short() || self.is_courteous(unheard_until);
            let sent = Sent::UnderWay;
            let answer = if unanswered { Answer::Missing } else { Answer::NotAsked };
            self.on(LifeEvent::SaysBye(Said { sent, answer, deadline, unheard_until }));
            let flags = if unanswered { flag::ANSWER } else { 0 };
            if let Some(status) = self.say(Kind::Bye, flags, Part::Bye) {
                self.bye_sent(status);
            }
        }
        // The end of the worker closes the socket, and the peer is notified by that.
        if self.worker.ucp_was_busy.get() && !self.worker.closed.load(Ordering::Relaxed) {
            self.life.moved.set(now);
        }
        self.is_parting().is_none_or(|deadline| now >= deadline)
    }

    /// The peer may be reading the memory of sends. Or the connection was made by host and port,
    /// where UCX's own close overtakes messages sent through shared memory.
    fn may_cut_short(&self) -> bool {
        self.sends.get() > 0 || self.connection().is_some()
    }

    /// Bye was not sent yet, or a required answer is missing.
    fn awaits_peer(&self, bye: Said) -> bool {
        bye.sent == Sent::UnderWay || (bye.answer == Answer::Missing && self.may_cut_short())
    }

    /// The peer must answer the Bye and has not.
    pub(crate) fn is_deaf(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if self.awaits_peer(bye))
            && !self.life().has_heard_bye()
    }

    /// Until when to wait for the peer to receive a Hello that may not have arrived yet. 0 if more
    /// than that was sent, or if the peer has answered. Not longer than a close may take.
    fn courtesy(&self) -> u64 {
        if self.peering.theirs.get() != 0 || self.operations_sent() > 0 || self.has_read.get() {
            return 0;
        }
        let deadline = self.life().flushing().map_or(0, |now| now.deadline);
        clock::deadline_after(ANSWER_NS).min(deadline)
    }

    /// It closes by flush, and the peer may not know of it at all.
    fn is_courteous(&self, unheard_until: u64) -> bool {
        // A worker that is shutting down does not wait as a courtesy.
        let flushes = self.life().flushing().is_some_and(|now| !now.forced)
            && !self.worker.closed.load(Ordering::Relaxed);
        flushes && unheard_until != 0 && self.peering.theirs.get() == 0
    }

    /// Its time has run out, or its close was cancelled, while only the courtesy was left: the
    /// courtesy then ends, and the close completes as if the peer had answered.
    pub(crate) fn has_only_courtesy_left(&self) -> bool {
        let done = self.life().flushing().is_some_and(|now| now.has_flushed());
        let only = done
            && self.transfers() == 0
            && match self.life().bye {
                Bye::Unsaid => false,
                Bye::Omitted => true,
                Bye::Said(bye) => !self.awaits_peer(bye),
            };
        if only {
            self.on(LifeEvent::CourtesyEnds);
        }
        only
    }

    /// The peer exists and was sent something before: when to stop waiting for an answer.
    fn can_part(&self) -> Option<u64> {
        // A close with a time limit from the caller, which has not passed yet, waits that long.
        let is_patient = |now: Flushing| now.deadline == NO_DEADLINE && !now.forced;
        let patient = self.life().flushing().is_some_and(is_patient);
        let patience = if patient { NO_DEADLINE } else { clock::deadline_after(ANSWER_NS) };
        let deadline = self.listens_until(ANSWER_NS)?.min(patience);
        let can = clock::now_ns() < deadline
            && !self.life().is_unspoken()
            && self.life().connected
            && !self.is_connecting()
            && !self.life().has_heard_bye()
            && self.life().peer != Peer::Gone
            && self.life().outcome.status() != Status::PEER_FAILED
            && !self.ucp.get().is_null();
        can.then_some(deadline)
    }

    /// What was sent over a connection made by host and port may be lost, because UCX's close may
    /// overtake it: the peer has not confirmed that it received everything.
    pub(crate) fn may_have_lost(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if bye.answer == Answer::Missing)
            && !self.life().has_heard_bye()
            && self.life().speaks()
            && self.operations_sent() > 0
    }

    /// What was sent before its Bye, which the peer has not read, is still in front of it.
    pub(crate) fn is_bye_stuck(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if bye.sent == Sent::UnderWay)
    }

    /// Its Bye was sent.
    pub(crate) fn has_told_end(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if bye.sent == Sent::Left)
    }

    /// It waits for a Bye to be sent or answered. Returns when to give up.
    pub(crate) fn is_parting(&self) -> Option<u64> {
        let Bye::Said(bye) = self.life().bye else { return None };
        if self.life().has_heard_bye() {
            None
        } else if self.awaits_peer(bye) {
            let while_it_moves = self.life.moved.get() + MOVES_NS;
            Some(bye.deadline.max(while_it_moves.min(bye.deadline.saturating_add(MOVING_NS))))
        } else {
            (bye.answer == Answer::Missing && self.is_courteous(bye.unheard_until))
                .then(|| bye.deadline.min(bye.unheard_until))
        }
    }

    /// UCP has lost the connection. If Bye was sent, that counts as the answer; otherwise returns
    /// false.
    pub(crate) fn has_taken_leave(&self) -> bool {
        let said = self.life().bye != Bye::Unsaid;
        if said {
            self.on(LifeEvent::TakesLeave);
            self.watch();
        }
        said || self.life().has_heard_bye()
    }

    /// Bye was sent, or never will be.
    pub(crate) fn bye_sent(&self, status: Status) {
        self.on(if status == Status::OK { LifeEvent::ByeLeaves } else { LifeEvent::ByeFails });
        self.watch();
    }

    /// The peer has closed its end: later errors of UCX on this connection are no failure. Inside
    /// UCP's progress; the rest is handled after the pass.
    pub(crate) fn note_bye(&self, header: &Header) {
        if self.peering.theirs.get() == 0 {
            self.learn_number(header.sender);
        }
        self.empty_fast_box();
        self.on(LifeEvent::HearsBye(header.flags & flag::ANSWER != 0));
        self.tell_protocols(OfEndpoint::PeerCloses);
    }

    /// Answers a Bye that asks for it: this side no longer reads the peer's memory. Called right
    /// before the close in UCP, so that it is true.
    pub(crate) fn answer_bye(&self) {
        if self.life().heard == Heard::ByeToAnswer {
            self.on(LifeEvent::AnswersBye);
            self.say(Kind::ByeAck, 0, Part::Nothing);
        }
    }

    /// True if the Bye may be queued behind other events once more.
    pub(crate) fn may_postpone_bye(&self) -> bool {
        let postponed = &self.life.postponed;
        postponed.set(postponed.get().saturating_add(1));
        postponed.get() <= MOST_POSTPONED
    }

    /// After UCP's pass.
    fn peer_left(&self) {
        if self.fails_later(Status::CONNECTION_RESET) {
            return;
        }
        if self.phase() != Phase::Flushing || self.has_let_go(clock::now_ns()) {
            self.answer_bye();
        }
        match self.phase() {
            Phase::Open => self.fail(Status::CONNECTION_RESET),
            Phase::Flushing => {
                if self.sends.get() > 0 {
                    self.on(LifeEvent::Fails(Status::CONNECTION_RESET));
                }
                self.hurry_alone();
            }
            Phase::Ending | Phase::Closed | Phase::Reported => {}
        }
    }
}

impl Worker {
    /// The peer has closed its end. After UCP's pass.
    pub(crate) fn bye_came(
        &self,
        endpoint: Option<Inward<SharedEndpoint>>,
        header: &Header,
        reply: Reply,
    ) {
        let endpoint = endpoint.or_else(|| {
            // Right after its Hello.
            let endpoint = self.endpoint_by_ucp(reply.0)?;
            endpoint.note_bye(header);
            Some(endpoint)
        });
        if let Some(endpoint) = endpoint {
            endpoint.peer_left();
        }
    }
}
