//! How an endpoint tells its peer that it closes, as UCX does not: Bye.
//!
//! It goes out behind everything else that was sent. A side that closes by force with sends under
//! way asks for an answer, as the peer may be reading their memory: it gets one when the peer has
//! read its last byte, and waits for it for a bounded time.
//!
//! A side that closes by flush, has said Hello and no more, and has heard nothing, waits as well:
//! where the peer's user closes its own end, unused, before the Hello has come, that end is kept
//! for the next connection (see `core::endpoint::parked_endpoints`), which the Bye would be taken
//! for the end of. That is a courtesy: nothing of this side's hangs on it, so it does not count as
//! running out of time.

use crate::engine::base::clock;
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::Reply;
use crate::engine::core::endpoint::close::NO_DEADLINE;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{
    Bye, Flushing, Heard, LifeEvent, Peer, Said, Sent, Stage,
};
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::header::{flag, Header, Kind};
use std::sync::atomic::Ordering;

/// So long a peer has to say that it touches nothing any more.
pub(crate) const ANSWER_NS: u64 = 1_000_000_000;

/// A Bye lets receives of frames that have come before it go first, not more often than this.
const MOST_POSTPONED: u8 = 64;

impl Endpoint {
    /// Nothing is being pulled from the peer, or was waited for long enough. UCX 1.13 to 1.22
    /// assert at the end of the worker (`ucs_arbiter_group_is_empty`) when an endpoint was closed
    /// by force in the midst of a read by CMA.
    pub(crate) fn has_let_go(&self, now: u64) -> bool {
        let nothing_comes = match self.life().peer {
            Peer::Present => false,
            // Over a socket the data comes by itself, as long as that and the peer are there.
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
            // A peer that has closed is to be heard of soon, whatever it leaves half received.
            let short = !pulls && self.phase() == Phase::Open;
            let patience = if short { ANSWER_NS / 2 } else { ANSWER_NS };
            self.life.pulls_deadline.set(clock::deadline_after(patience));
            self.watch();
        }
        !receives || now >= self.life.pulls_deadline.get()
    }

    /// It fails as soon as pulls from a peer that lives are over: true if there are any.
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

    /// Neither this side nor the socket has anything left of it.
    pub(crate) fn may_go(&self, now: u64) -> bool {
        self.has_let_go(now) && self.has_emptied_socket(now)
    }

    /// True while that is waited for. In each pass.
    pub(crate) fn is_draining(&self, now: u64) -> bool {
        let Stage::Draining { status, .. } = self.life().stage else { return false };
        let over = self.may_go(now);
        if over {
            self.answer_bye();
            self.fail(status);
        }
        !over
    }

    /// When a peer that has left is not waited for any more; 0 for one that is not.
    pub(crate) fn draining_deadline(&self) -> u64 {
        match self.life().stage {
            Stage::Draining { .. } => {
                self.emptying_deadline().unwrap_or(self.life.pulls_deadline.get())
            }
            _ => 0,
        }
    }

    /// Says Bye once, where there is somebody to hear it. False while that keeps the endpoint from
    /// going.
    pub(crate) fn has_parted(&self, now: u64) -> bool {
        if self.life().bye == Bye::Unsaid {
            let Some(deadline) = self.can_part() else {
                self.on(LifeEvent::OmitsBye);
                return true;
            };
            let unheard_until = self.courtesy();
            let unanswered = self.may_cut_short() || self.is_courteous(unheard_until);
            let sent = Sent::UnderWay;
            self.on(LifeEvent::SaysBye(Said { sent, unanswered, deadline, unheard_until }));
            let flags = if unanswered { flag::ANSWER } else { 0 };
            if let Some(status) = self.say(Kind::Bye, flags, Part::Bye) {
                self.bye_sent(status);
            }
        }
        self.is_parting().is_none_or(|deadline| now >= deadline)
    }

    /// The peer may be reading the memory of sends; or the connection was made by host and port,
    /// where UCX's own end of one overtakes what was sent by shared memory.
    fn may_cut_short(&self) -> bool {
        self.sends.get() > 0 || self.connection().is_some()
    }

    /// Bye has not left, or not been answered where it has to be.
    fn awaits_peer(&self, bye: Said) -> bool {
        bye.sent == Sent::UnderWay || (bye.unanswered && self.may_cut_short())
    }

    /// The peer has to answer our goodbye, and has not.
    pub(crate) fn is_deaf(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if self.awaits_peer(bye))
            && !self.life().has_heard_bye()
    }

    /// Up to when the peer has to hear of a Hello that may not have come yet; 0 where more than
    /// that was said, or it has answered. No longer than a close takes.
    fn courtesy(&self) -> u64 {
        if self.peering.theirs.get() != 0 || self.operations_sent() > 0 || self.has_read.get() {
            return 0;
        }
        let deadline = self.life().flushing().map_or(0, |now| now.deadline);
        clock::deadline_after(ANSWER_NS).min(deadline)
    }

    /// It closes by flush, and the peer may not have heard of it at all.
    fn is_courteous(&self, unheard_until: u64) -> bool {
        // A worker that ends waits for nobody's sake.
        let flushes = self.life().flushing().is_some_and(|now| !now.forced)
            && !self.worker.closed.load(Ordering::Relaxed);
        flushes && unheard_until != 0 && self.peering.theirs.get() == 0
    }

    /// Its time has run out, or its close was cancelled, when nothing was left but a courtesy: then
    /// that ends, and it is closed as if the peer had heard.
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

    /// Somebody is there, and has been spoken to before: when to give up on an answer.
    fn can_part(&self) -> Option<u64> {
        // A close that the caller has given a time, and that is still within it, waits for as long.
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

    /// What was sent over a connection made by host and port may be overtaken by its end: the peer
    /// has not said that it has got so far.
    pub(crate) fn may_have_lost(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if bye.unanswered)
            && !self.life().has_heard_bye()
            && self.life().speaks()
            && self.operations_sent() > 0
    }

    /// Its Bye has left.
    pub(crate) fn has_told_end(&self) -> bool {
        matches!(self.life().bye, Bye::Said(bye) if bye.sent == Sent::Left)
    }

    /// It waits for a Bye to leave, or to be answered, and when to give that up.
    pub(crate) fn is_parting(&self) -> Option<u64> {
        let Bye::Said(bye) = self.life().bye else { return None };
        if self.life().has_heard_bye() {
            None
        } else if self.awaits_peer(bye) {
            Some(bye.deadline)
        } else {
            (bye.unanswered && self.is_courteous(bye.unheard_until))
                .then(|| bye.deadline.min(bye.unheard_until))
        }
    }

    /// UCP has lost the connection: where Bye has been said, that is the answer. False where it has
    /// not.
    pub(crate) fn has_taken_leave(&self) -> bool {
        let said = self.life().bye != Bye::Unsaid;
        if said {
            self.on(LifeEvent::TakesLeave);
            self.watch();
        }
        said || self.life().has_heard_bye()
    }

    /// It has left, or never will.
    pub(crate) fn bye_sent(&self, status: Status) {
        self.on(if status == Status::OK { LifeEvent::ByeLeaves } else { LifeEvent::ByeFails });
        self.watch();
    }

    /// The peer has closed its end: what UCX reports of this connection from here on is no failure.
    /// Inside UCP's progress; what follows waits for the end of the pass.
    pub(crate) fn note_bye(&self, header: &Header) {
        if self.peering.theirs.get() == 0 {
            self.learn_number(header.sender);
        }
        self.empty_fast_box();
        self.on(LifeEvent::HearsBye(header.flags & flag::ANSWER != 0));
        self.tell_protocols(OfEndpoint::PeerCloses);
    }

    /// Tells a peer that waits for it that nothing of its memory is read any more: right before UCP
    /// is told to close, so that this is so.
    pub(crate) fn answer_bye(&self) {
        if self.life().heard == Heard::ByeToAnswer {
            self.on(LifeEvent::AnswersBye);
            self.say(Kind::ByeAck, 0, Part::Nothing);
        }
    }

    /// It may stand back behind other events, for a while.
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
            // Right behind its Hello.
            let endpoint = self.endpoint_by_ucp(reply.0)?;
            endpoint.note_bye(header);
            Some(endpoint)
        });
        if let Some(endpoint) = endpoint {
            endpoint.peer_left();
        }
    }
}
