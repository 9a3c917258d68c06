//! The states of an endpoint's life. `core::endpoint::life` has the events that change them.
#![deny(unsafe_code)]

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Phase;
use crate::engine::core::request::request::Slot;

/// The state of an endpoint: one state of each machine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct State {
    pub(crate) greeting: Greeting,
    pub(crate) hold: Hold,
    pub(crate) stage: Stage,
    pub(crate) outcome: Outcome,
    pub(crate) peer: Peer,
    pub(crate) bye: Bye,
    pub(crate) heard: Heard,
    /// The peer has answered UCP once, so force is safe. UCX 1.13 asserts if a forced close meets
    /// its own wire-up.
    pub(crate) connected: bool,
}

/// How far the two sides know each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Greeting {
    /// Nothing was sent, and the peer is not a worker of this library, as far as is known.
    #[default]
    Unknown,
    /// The peer is a worker of this library. Hello is sent before the first operation.
    Unspoken,
    /// Hello was sent at this moment to an unknown process behind a host and port.
    Asked(u64),
    /// The peer is a worker of this library and takes messages.
    Known,
    /// The peer uses another protocol version.
    Refused,
}

/// Why operations wait for the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Hold {
    /// They do not wait.
    #[default]
    Free,
    /// No peer has answered yet.
    Connecting,
    /// The connection was accepted, and nothing has arrived from the peer: see `Endpoint::accept`.
    Unheard,
}

/// How far an endpoint is on the way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Fails with this status as soon as nothing is read from the peer's memory any more.
    /// `only_matched`: its receives were cancelled, so those that are left have matched.
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
    /// Force as soon as it is safe.
    pub(crate) forced: bool,
    /// Force at this moment. Moved later while transfers complete.
    pub(crate) deadline: u64,
    /// Transfers in flight when the deadline was last moved.
    pub(crate) transfers: u32,
}

/// UCP's flush before the close.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Flush {
    /// It has completed, or there is none.
    #[default]
    Done,
    /// It starts when the queue is empty.
    Queued,
    /// The peer's first Hello has arrived on an endpoint without traffic: the flush starts when the
    /// Hello is handled, after the pass.
    Awaited,
    UnderWay {
        again: bool,
    },
    /// It has completed, but sends were in flight when it started. When they complete UCX may still
    /// hold their last bytes, so another flush follows.
    Again,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ending {
    /// UCP's own close is in flight.
    pub(crate) in_ucp: bool,
    /// Requests that UCP does not return by this moment are completed without it.
    pub(crate) deadline: u64,
    /// The same for receives.
    pub(crate) receives_deadline: u64,
    pub(crate) left: Remains,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Remains {
    /// Messages were still arriving in their buffers when the endpoint ended. The peer may have
    /// reused the memory that they were read from.
    pub(crate) torn: bool,
    /// A request was completed that UCP has not returned.
    pub(crate) abandoned: bool,
}

/// What the close and `on_close` report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Outcome {
    #[default]
    Good,
    /// Its last handle was destroyed, and the close took too long. No caller has set a time limit,
    /// so operations that were cut short did not time out.
    Overdue,
    Failed(Status),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Peer {
    #[default]
    Present,
    /// No sign of life in time.
    Silent,
    /// UCX has lost it; the status says what that means.
    Lost(Status),
    /// UCX has reported that it lost the peer, which is handled when the pass ends. Nothing more is
    /// given to UCX: it would keep it for an endpoint that is freed by then.
    GivenUp(Status),
    /// Its process has ended: what is in flight to it will not be read.
    Gone,
}

/// The Bye of this side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Bye {
    #[default]
    Unsaid,
    /// No peer could receive it.
    Omitted,
    Said(Said),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) sent: Sent,
    pub(crate) answer: Answer,
    /// When to stop waiting for it.
    pub(crate) deadline: u64,
    /// The Bye was sent right after a Hello that the peer had not answered. It waits for the answer
    /// until this moment; otherwise 0.
    pub(crate) unheard_until: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sent {
    UnderWay,
    Left,
    Lost,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    NotAsked,
    /// The peer must answer, and has not.
    Missing,
    /// The peer has ended its end, and has cut short what it still sent; or the connection is lost.
    Came,
}

/// What the peer has sent.
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
    /// The peer is a worker of this library.
    pub(crate) fn speaks(&self) -> bool {
        matches!(self.greeting, Greeting::Unspoken | Greeting::Known)
    }

    /// Hello was not sent yet, and will be.
    pub(crate) fn is_unspoken(&self) -> bool {
        self.greeting == Greeting::Unspoken
    }

    /// The peer has closed its end.
    pub(crate) fn has_heard_bye(&self) -> bool {
        self.heard >= Heard::Bye
    }

    /// The peer has ended its end because of this side's Bye.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.bye, Bye::Said(Said { answer: Answer::Came, .. }))
    }

    pub(crate) fn flushing(&self) -> Option<Flushing> {
        match self.stage {
            Stage::Flushing(flushing) => Some(flushing),
            _ => None,
        }
    }

    /// What the end has left behind; nothing before the end.
    pub(crate) fn left(&self) -> Remains {
        match self.stage {
            Stage::Ending(Ending { left, .. }) | Stage::Closed(left) | Stage::Reported(left) => {
                left
            }
            _ => Remains::default(),
        }
    }

    /// Its receives were cancelled: those still in flight have matched.
    pub(crate) fn has_only_matched(&self) -> bool {
        match self.stage {
            Stage::Open => false,
            Stage::Draining { only_matched, .. } => only_matched,
            _ => true,
        }
    }

    /// The status of operations that UCP was never given.
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
    /// The flush of the close has completed, or there is none.
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
