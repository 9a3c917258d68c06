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
use crate::engine::core::endpoint::close::{Closing, NO_DEADLINE};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::header::{flag, Header, Kind};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// So long a peer has to say that it touches nothing any more.
const ANSWER_NS: u64 = 1_000_000_000;

/// A Bye lets receives of frames that have come before it go first, not more often than this.
const MOST_POSTPONED: u8 = 64;

/// How far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Bye {
    #[default]
    Unsaid,
    /// There was nobody to hear it, or it did not get out.
    Omitted,
    UnderWay,
    Left,
}

/// What has become of a Bye. Cells belong to whoever is inside the worker's gate.
#[derive(Default)]
pub(crate) struct Parting {
    bye: Cell<Bye>,
    /// The peer is to answer, and has not.
    unanswered: Cell<bool>,
    /// Not longer than up to this moment.
    deadline: Cell<u64>,
    /// It was said right behind a Hello that the peer had not answered, and waits up to this moment
    /// for that; else 0.
    unheard_until: Cell<u64>,
    /// The peer has said it.
    pub(crate) heard: Cell<bool>,
    /// So often it has been put behind what came before it.
    postponed: Cell<u8>,
    /// And waits for an answer.
    owed: Cell<bool>,
    /// Pulls from the peer are waited for up to this moment; 0 before that has begun.
    pulls_deadline: Cell<u64>,
    /// The endpoint is to fail with this as soon as pulls from the peer are over.
    leaving: Cell<Option<Status>>,
}

impl Parting {
    /// Not waited for longer than up to then.
    pub(crate) fn hurry(&self, at: u64) {
        self.deadline.set(self.deadline.get().min(at));
    }
}

impl Closing {
    /// The first failure counts.
    pub(crate) fn note_outcome(&self, status: Status) {
        if !self.outcome.get().is_error() {
            self.outcome.set(status);
        }
    }

    /// No caller is told that it ran out of a time which none has asked for.
    pub(crate) fn note_timeout(&self) {
        self.outcome.set(Status::TIMED_OUT);
        self.overdue.set(!self.taken.get());
    }

    /// The peer touches nothing any more.
    pub(crate) fn bye_answered(&self) {
        self.parting.unanswered.set(false);
    }
}

impl Endpoint {
    /// Nothing is being pulled from the peer, or was waited for long enough. UCX 1.13 to 1.22
    /// assert at the end of the worker (`ucs_arbiter_group_is_empty`) when an endpoint was closed
    /// by force in the midst of a read by CMA.
    pub(crate) fn has_let_go(&self, now: u64) -> bool {
        let (parting, mut pulls) = (&self.closing.parting, false);
        // Over a socket the data comes by itself, as long as that is there.
        let cannot_come = self.is_remote() && self.closing.loss.get().is_error();
        if self.watchers.get() + self.one_sided.get() == 0
            || self.closing.process_ended.get()
            || cannot_come
        {
            return true;
        }
        self.worker.for_each_live(|slot| {
            pulls |= slot.is_pull() && std::ptr::eq(slot.endpoint.get(), self)
        });
        let receives = pulls || self.closing.only_matched.get();
        if receives && parting.pulls_deadline.get() == 0 {
            // A peer that has closed is to be heard of soon, whatever it leaves half received.
            let short = !pulls && self.phase() == Phase::Open;
            parting.pulls_deadline.set(clock::deadline_after(if short {
                ANSWER_NS / 2
            } else {
                ANSWER_NS
            }));
            self.watch();
        }
        !receives || now >= parting.pulls_deadline.get()
    }

    /// It fails as soon as pulls from a peer that lives are over: true if there are any.
    pub(crate) fn fails_later(&self, status: Status) -> bool {
        if self.phase() == Phase::Open && status == Status::CONNECTION_RESET {
            self.cancel_watchers(status);
        }
        // Over a socket nothing that has begun comes on from a peer that has gone silent.
        let is_cut_off = status == Status::TIMED_OUT && self.is_remote();
        let later = self.phase() == Phase::Open && !is_cut_off && !self.has_let_go(clock::now_ns());
        if later && self.closing.parting.leaving.get().is_none() {
            self.closing.parting.leaving.set(Some(status));
        }
        later
    }

    /// True while pulls from the peer are waited for. In each pass.
    pub(crate) fn is_leaving(&self, now: u64) -> bool {
        let Some(status) = self.closing.parting.leaving.get() else { return false };
        let over = self.has_let_go(now);
        if over {
            self.closing.parting.leaving.set(None);
            self.answer_bye();
            self.fail(status);
        }
        !over
    }

    /// When a peer that has left is not waited for any more; 0 for one that is not.
    pub(crate) fn leaving_deadline(&self) -> u64 {
        let parting = &self.closing.parting;
        parting.leaving.get().map_or(0, |_| parting.pulls_deadline.get())
    }

    /// Says Bye once, where there is somebody to hear it. False while that keeps the endpoint from
    /// going.
    pub(crate) fn has_parted(&self, now: u64) -> bool {
        let parting = &self.closing.parting;
        if parting.bye.get() == Bye::Unsaid {
            parting.bye.set(Bye::Omitted);
            let Some(deadline) = self.can_part() else { return true };
            parting.unheard_until.set(self.courtesy());
            let waits = self.may_cut_short() || self.is_courteous();
            parting.unanswered.set(waits);
            parting.bye.set(Bye::UnderWay);
            parting.deadline.set(deadline);
            if let Some(status) =
                self.say(Kind::Bye, if waits { flag::ANSWER } else { 0 }, Part::Bye)
            {
                self.bye_sent(status);
            }
        }
        self.is_parting().is_none_or(|deadline| now >= deadline)
    }

    /// The peer may be reading the memory of sends; or the connection was made by host and port,
    /// where UCX's own end of one overtakes what was sent by shared memory.
    fn may_cut_short(&self) -> bool {
        self.sends.get() > 0 || self.connection.is_some()
    }

    /// Bye has not left, or not been answered where it has to be.
    fn awaits_peer(&self) -> bool {
        let parting = &self.closing.parting;
        parting.bye.get() == Bye::UnderWay || (parting.unanswered.get() && self.may_cut_short())
    }

    /// Up to when the peer has to hear of a Hello that may not have come yet; 0 where more than
    /// that was said, or it has answered. No longer than a close takes.
    fn courtesy(&self) -> u64 {
        if self.peering.theirs.get() != 0 || self.operations_sent() > 0 || self.has_read.get() {
            return 0;
        }
        clock::deadline_after(ANSWER_NS).min(self.closing.deadline.get())
    }

    /// It closes by flush, and the peer may not have heard of it at all.
    fn is_courteous(&self) -> bool {
        // A worker that ends waits for nobody's sake.
        let flushes = self.phase() == Phase::Flushing
            && !self.closing.forced.get()
            && !self.worker.closed.load(Ordering::Relaxed);
        flushes && self.closing.parting.unheard_until.get() != 0 && self.peering.theirs.get() == 0
    }

    /// Its time has run out, or its close was cancelled, when nothing was left but a courtesy: then
    /// that ends, and it is closed as if the peer had heard.
    pub(crate) fn has_only_courtesy_left(&self) -> bool {
        let parting = &self.closing.parting;
        let done =
            self.phase() == Phase::Flushing && self.closing.flushed.get() && self.transfers() == 0;
        let only = done && parting.bye.get() != Bye::Unsaid && !self.awaits_peer();
        if only {
            parting.unheard_until.set(0);
        }
        only
    }

    /// Somebody is there, and has been spoken to before: when to give up on an answer.
    fn can_part(&self) -> Option<u64> {
        // A close that the caller has given a time, and that is still within it, waits for as long.
        let patient = self.closing.deadline.get() == NO_DEADLINE && !self.closing.forced.get();
        let patience = if patient { NO_DEADLINE } else { clock::deadline_after(ANSWER_NS) };
        let deadline = self.listens_until(ANSWER_NS)?.min(patience);
        let can = clock::now_ns() < deadline
            && !self.peering.silent.get()
            && self.is_connected()
            && !self.is_connecting()
            && !self.closing.parting.heard.get()
            && !self.closing.process_ended.get()
            && self.closing.outcome.get() != Status::PEER_FAILED
            && !self.ucp.get().is_null();
        can.then_some(deadline)
    }

    /// What was sent over a connection made by host and port may be overtaken by its end: the peer
    /// has not said that it has got so far.
    pub(crate) fn may_have_lost(&self) -> bool {
        let parting = &self.closing.parting;
        parting.unanswered.get()
            && !parting.heard.get()
            && self.peering.speaks.get()
            && self.operations_sent() > 0
    }

    /// Its Bye has left.
    pub(crate) fn has_told_end(&self) -> bool {
        self.closing.parting.bye.get() == Bye::Left
    }

    /// It waits for a Bye to leave, or to be answered, and when to give that up.
    pub(crate) fn is_parting(&self) -> Option<u64> {
        let parting = &self.closing.parting;
        if parting.bye.get() == Bye::Unsaid || parting.heard.get() {
            return None;
        }
        if self.awaits_peer() {
            return Some(parting.deadline.get());
        }
        (parting.unanswered.get() && self.is_courteous())
            .then(|| parting.deadline.get().min(parting.unheard_until.get()))
    }

    /// UCP has lost the connection: where Bye has been said, that is the answer. False where it has
    /// not.
    pub(crate) fn has_taken_leave(&self) -> bool {
        let parting = &self.closing.parting;
        let said = parting.bye.get() != Bye::Unsaid;
        if said {
            parting.unanswered.set(false);
            if parting.bye.get() == Bye::UnderWay {
                parting.bye.set(Bye::Omitted);
            }
            self.watch();
        }
        said || parting.heard.get()
    }

    /// It has left, or never will.
    pub(crate) fn bye_sent(&self, status: Status) {
        self.closing.parting.bye.set(if status == Status::OK { Bye::Left } else { Bye::Omitted });
        self.watch();
    }

    /// The peer has closed its end: what UCX reports of this connection from here on is no failure.
    /// Inside UCP's progress; what follows waits for the end of the pass.
    pub(crate) fn note_bye(&self, header: &Header) {
        if self.peering.theirs.get() == 0 {
            self.learn_number(header.sender);
        }
        self.empty_fast_box();
        self.closing.parting.heard.set(true);
        self.closing.parting.owed.set(header.flags & flag::ANSWER != 0);
        self.tell_protocols(OfEndpoint::PeerCloses);
        if self.takes_operations() {
            self.set_status(Status::CONNECTION_RESET);
        }
    }

    /// Tells a peer that waits for it that nothing of its memory is read any more: right before UCP
    /// is told to close, so that this is so.
    pub(crate) fn answer_bye(&self) {
        if self.closing.parting.owed.replace(false) {
            self.say(Kind::ByeAck, 0, Part::Nothing);
        }
    }

    /// It may stand back behind other events, for a while.
    pub(crate) fn may_postpone_bye(&self) -> bool {
        let postponed = &self.closing.parting.postponed;
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
                    self.closing.note_outcome(Status::CONNECTION_RESET);
                }
                self.hurry_alone();
            }
            Phase::Ending | Phase::Closed => {}
        }
    }
}

impl Worker {
    /// The peer has closed its end. After UCP's pass.
    pub(crate) fn bye_came(&self, endpoint: Option<Arc<Endpoint>>, header: &Header, reply: Reply) {
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
