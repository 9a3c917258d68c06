//! The states of an endpoint's life; `core::endpoint::life` has the steps from one to another.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Phase;
use crate::engine::core::request::request::Slot;

/// Where an endpoint stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) greeting: Greeting,
    pub(crate) hold: Hold,
    pub(crate) stage: Stage,
    pub(crate) outcome: Outcome,
    pub(crate) peer: Peer,
    pub(crate) bye: Bye,
    pub(crate) heard: Heard,
    /// The peer has answered UCP once: from then on force is safe. UCX 1.13 asserts when it meets
    /// its own wire-up.
    pub(crate) connected: bool,
}

/// How far the two sides know each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Greeting {
    /// Nothing was said, and the peer is not of this library, as far as is known.
    #[default]
    Unknown,
    /// The peer is of this library. Hello is said before the first operation.
    Unspoken,
    /// Hello was said, at this moment, to whoever is behind a host and port.
    Asked(u64),
    /// The peer is of this library, and can be spoken to.
    Known,
    /// The peer speaks another version.
    Refused,
}

/// Why operations wait for the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Hold {
    /// They do not.
    #[default]
    Free,
    /// No peer has answered yet.
    Connecting,
    /// It was accepted, and nothing has come from the peer: see `Endpoint::accept`.
    Unheard,
}

/// How far an endpoint has come on the way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Fails with this status as soon as nothing is read from the peer's memory any more.
    /// `only_matched`: its receives were cancelled, and those that are left have matched.
    Draining {
        status: Status,
        only_matched: bool,
    },
    Flushing(Flushing),
    Ending(Ending),
    Closed(Remains),
    Reported(Remains),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flushing {
    pub(crate) flush: Flush,
    /// Force, as soon as that is safe.
    pub(crate) forced: bool,
    /// Force at this moment. Moved on while transfers complete.
    pub(crate) deadline: u64,
    /// So many were under way when it was moved on.
    pub(crate) transfers: u32,
}

/// UCP's flush before the close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Flush {
    /// It has ended, or there is none.
    #[default]
    Done,
    /// It begins when what waits in the queue has gone out.
    Queued,
    /// The peer's first Hello has come on an endpoint without traffic: the flush begins when that
    /// is handled, after the pass.
    Awaited,
    UnderWay {
        again: bool,
    },
    /// It has ended, but sends were under way when it began, of which UCX may still have the last
    /// bytes when they end: there is another one then.
    Again,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ending {
    /// UCP's own close is under way.
    pub(crate) in_ucp: bool,
    /// Requests that UCP does not give back by this moment are ended without it.
    pub(crate) deadline: u64,
    /// The same of receives.
    pub(crate) receives_deadline: u64,
    pub(crate) left: Remains,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Remains {
    /// Messages were still on their way into their buffers when it ended: the peer may have got the
    /// memory back that they come from.
    pub(crate) torn: bool,
    /// Something was ended that UCP has not given back.
    pub(crate) abandoned: bool,
}

/// What the close, and `on_close`, will report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Outcome {
    #[default]
    Good,
    /// Its last handle was destroyed, and it took too long: nobody has asked for a time, so what is
    /// cut short did not run out of one.
    Overdue,
    Failed(Status),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Peer {
    #[default]
    Present,
    /// It has not given a sign of life in time.
    Silent,
    /// UCX has lost it, which means this.
    Lost(Status),
    /// UCX has reported that, which is handled when the pass ends. It would keep what it still
    /// gets, for an endpoint that is freed by then.
    GivenUp(Status),
    /// Its process has ended: nobody reads what is still on its way there.
    Gone,
}

/// The Bye of this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Bye {
    #[default]
    Unsaid,
    /// There was nobody to hear it.
    Omitted,
    Said(Said),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) sent: Sent,
    /// The peer is to answer, and has not.
    pub(crate) unanswered: bool,
    /// It is not waited for longer than up to this moment.
    pub(crate) deadline: u64,
    /// It was said right behind a Hello that the peer had not answered, and waits up to this moment
    /// for that; else 0.
    pub(crate) unheard_until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    UnderWay,
    Left,
    Lost,
}

/// What the peer has said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Heard {
    #[default]
    Nothing,
    /// It is handled after the pass.
    Hello,
    Bye,
    /// And the peer waits for an answer.
    ByeToAnswer,
}

/// The caller's request for the close.
#[derive(Clone, Copy, Default)]
pub(crate) enum CloseRequest {
    #[default]
    NotAsked,
    InFlight(*const Slot),
    Completed,
}

impl State {
    /// The peer is a worker of this library: it can be spoken to.
    pub(crate) fn speaks(&self) -> bool {
        matches!(self.greeting, Greeting::Unspoken | Greeting::Known)
    }

    /// Hello has not been said yet, and will be.
    pub(crate) fn is_unspoken(&self) -> bool {
        self.greeting == Greeting::Unspoken
    }

    /// The peer has closed its end.
    pub(crate) fn has_heard_bye(&self) -> bool {
        self.heard >= Heard::Bye
    }

    pub(crate) fn flushing(&self) -> Option<Flushing> {
        match self.stage {
            Stage::Flushing(flushing) => Some(flushing),
            _ => None,
        }
    }

    /// What the end has left behind; nothing before it.
    pub(crate) fn left(&self) -> Remains {
        match self.stage {
            Stage::Ending(Ending { left, .. }) | Stage::Closed(left) | Stage::Reported(left) => {
                left
            }
            _ => Remains::default(),
        }
    }

    /// Its receives have been cancelled: those that are still under way have matched.
    pub(crate) fn has_only_matched(&self) -> bool {
        match self.stage {
            Stage::Open => false,
            Stage::Draining { only_matched, .. } => only_matched,
            _ => true,
        }
    }

    /// What becomes of what UCP has not been given.
    pub(crate) fn cut_short(&self) -> Status {
        match self.outcome {
            Outcome::Good | Outcome::Overdue => Status::CANCELED,
            Outcome::Failed(status) => status,
        }
    }
}

impl Outcome {
    pub(crate) fn status(self) -> Status {
        match self {
            Outcome::Good => Status::OK,
            Outcome::Overdue => Status::TIMED_OUT,
            Outcome::Failed(status) => status,
        }
    }
}

impl Flushing {
    /// The flush of the close has ended, or there is none.
    pub(crate) fn has_flushed(&self) -> bool {
        matches!(self.flush, Flush::Done | Flush::Again)
    }
}

impl Stage {
    pub(crate) fn phase(self) -> Phase {
        match self {
            Stage::Open | Stage::Draining { .. } => Phase::Open,
            Stage::Flushing(_) => Phase::Flushing,
            Stage::Ending(_) => Phase::Ending,
            Stage::Closed(_) => Phase::Closed,
            Stage::Reported(_) => Phase::Reported,
        }
    }
}
