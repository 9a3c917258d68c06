//! The life of an endpoint: the states that it goes through, and the events that move it on.
//!
//! `Endpoint::on` is the only place that changes a state, and with it what other threads read: the
//! phase and the public status. A life is made of small machines that do not depend on each other.
//! Each has a table, and a test holds the code to it. A cell names the next state; `=` changes
//! nothing, `!` cannot happen. An event that has no row changes nothing.
//!
//! The way to the peer's answer: how far the two sides know each other, and why operations wait
//! for the peer, if they do.
//!
//! | Greeting | Unknown | Unspoken | Asked | Known | Refused |
//! |---|---|---|---|---|---|
//! | GreetsLater | Unspoken | ! | ! | ! | ! |
//! | Greets | Known | Known | Known | = | Known |
//! | Asks | Asked | Asked | Asked | = | Asked |
//! | IsReached | = | = | Asked | = | = |
//! | Meets | Known | Known | Known | = | Known |
//! | IsRefused | Refused | Refused | Refused | Refused | = |
//!
//! | Hold | Free | Connecting | Unheard |
//! |---|---|---|---|
//! | Connects | Connecting | ! | ! |
//! | AwaitsHello | Unheard | ! | ! |
//! | IsConnected | ! | Free | ! |
//! | Meets | = | = | Free |
//! | BreaksOff | = | Free | Free |
//! | LetsGo | = | Free | Free |
//!
//! The way to the end. A peer that has closed, or was lost, may have sent messages that are still
//! read from its memory: the endpoint drains them before it fails.
//!
//! | Stage | Open | Draining | Flushing | Ending | Closed | Reported |
//! |---|---|---|---|---|---|---|
//! | Drains | Draining | Draining | ! | ! | ! | ! |
//! | Closes | Flushing | Flushing | ! | ! | ! | ! |
//! | MovesOn | ! | ! | Flushing | ! | ! | ! |
//! | FlushQueues | ! | ! | Flushing | ! | ! | ! |
//! | FlushBegins | ! | ! | Flushing | ! | ! | ! |
//! | FlushEnds | ! | ! | Flushing | = | = | = |
//! | FlushAwaits | ! | ! | Flushing | ! | ! | ! |
//! | Hurries | = | = | Flushing | = | = | = |
//! | Forces | ! | ! | Flushing | ! | ! | ! |
//! | BreaksOff | Ending | Ending | Ending | ! | ! | ! |
//! | LetsGo | ! | ! | Ending | ! | ! | ! |
//! | UcpCloses | ! | ! | ! | Ending | ! | ! |
//! | UcpClosed | ! | ! | ! | Ending | = | = |
//! | ProcessEnds | = | = | = | Ending | = | = |
//! | Abandons | ! | ! | ! | Ending | ! | ! |
//! | Ends | ! | ! | ! | Closed | ! | ! |
//! | WorkerEnds | Closed | Closed | Closed | Closed | ! | ! |
//! | Reports | ! | ! | ! | ! | Reported | ! |
//!
//! UCP's flush before the close, of an endpoint that is flushing.
//!
//! | Flush | Done | Queued | Awaited | UnderWay | Again |
//! |---|---|---|---|---|---|
//! | FlushQueues | Queued | ! | ! | ! | ! |
//! | FlushBegins | UnderWay | UnderWay | UnderWay | ! | UnderWay |
//! | FlushEnds | ! | ! | ! | Done | ! |
//! | FlushAwaits | Awaited | = | = | = | Awaited |
//!
//! What the close and `on_close` report: the first failure counts.
//!
//! | Outcome | Good | Overdue | Failed |
//! |---|---|---|---|
//! | Fails | Failed | = | = |
//! | RunsOut | Overdue | Overdue | Overdue |
//! | IsCut | Failed | Failed | Failed |
//!
//! Whether the peer is there.
//!
//! | Peer | Present | Silent | Lost | GivenUp | Gone |
//! |---|---|---|---|---|---|
//! | FallsSilent | Silent | = | = | = | = |
//! | LosesPeer | Lost | Lost | = | = | = |
//! | GivesUp | ! | ! | GivenUp | = | = |
//! | ProcessEnds | Gone | Gone | Gone | Gone | = |
//!
//! The Bye of this side, and what the peer has said.
//!
//! | Bye | Unsaid | Omitted | Said |
//! |---|---|---|---|
//! | OmitsBye | Omitted | ! | ! |
//! | SaysBye | Said | ! | ! |
//! | ByeLeaves | ! | ! | Said |
//! | ByeFails | ! | ! | Said |
//! | ByeIsAnswered | = | = | Said |
//! | TakesLeave | = | = | Said |
//! | Hurries | = | = | Said |
//! | HurriesBye | = | = | Said |
//! | CourtesyEnds | = | = | Said |
//!
//! | Heard | Nothing | Hello | Bye | ByeToAnswer |
//! |---|---|---|---|---|
//! | HearsHello | Hello | = | = | = |
//! | HearsBye | Bye | Bye | Bye | Bye |
//! | HearsByeToAnswer | ByeToAnswer | ByeToAnswer | ByeToAnswer | ByeToAnswer |
//! | AnswersBye | ! | ! | ! | Bye |

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::endpoint::life_states::{
    By, Bye, CloseRequest, Ending, Flush, Flushing, Greeting, Heard, Hold, Left, Outcome, Peer,
    Said, Sent, Stage,
};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LifeEvent {
    GreetsLater,
    /// A peer of this library.
    Greets,
    /// Whoever is behind a host and port, at this moment.
    Asks(u64),
    /// UCX's connection stands. What was asked could not be heard yet: its time begins now.
    IsReached(u64),
    /// The peer has said who it is.
    Meets,
    IsRefused,
    Connects,
    AwaitsHello,
    IsConnected,
    /// The peer has answered UCP.
    UcpAnswers,

    /// The peer has left: nothing new, and a failure with this status when nothing is read from its
    /// memory any more.
    Drains(Status),
    Closes,
    /// Transfers have completed, of which so many are left, or a time was set: force at this
    /// moment.
    MovesOn(u64, u32),
    FlushQueues,
    FlushAwaits,
    /// Whether sends are under way.
    FlushBegins(bool),
    FlushEnds,
    /// Not longer than up to this moment.
    Hurries(u64),
    /// The same, of the Bye alone.
    HurriesBye(u64),
    Forces,
    /// The end by force.
    BreaksOff(Ending),
    /// The end without force.
    LetsGo(Ending),
    UcpCloses,
    UcpClosed,
    Abandons,
    Ends,
    /// UCP's worker is gone.
    WorkerEnds,
    /// `on_close` has returned.
    Reports,

    Fails(Status),
    /// A time that nobody has asked for.
    RunsOut,
    /// By the caller, or by a time that it has asked for.
    IsCut(Status),
    /// Takes no more operations, which get this.
    Refuses(Status),

    FallsSilent,
    LosesPeer(Status),
    GivesUp,
    /// Whatever is still under way has to end by this moment.
    ProcessEnds(u64),

    OmitsBye,
    SaysBye(Said),
    ByeLeaves,
    ByeFails,
    ByeIsAnswered,
    /// UCP has lost the connection: there will be no answer.
    TakesLeave,
    CourtesyEnds,
    HearsHello,
    HearsBye,
    HearsByeToAnswer,
    AnswersBye,
}

/// One table: the state after an event; None where that cannot happen.
trait Machine: Copy + std::fmt::Debug {
    fn after(self, event: LifeEvent) -> Option<Self>;
}

impl Machine for Greeting {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Greeting::{Asked, Known, Refused, Unknown, Unspoken};
        Some(match (event, self) {
            (LifeEvent::GreetsLater, Unknown) => Unspoken,
            (LifeEvent::GreetsLater, _) => return None,
            (LifeEvent::Greets | LifeEvent::Meets, _) | (LifeEvent::Asks(_), Known) => Known,
            (LifeEvent::Asks(now), _) | (LifeEvent::IsReached(now), Asked(_)) => Asked(now),
            (LifeEvent::IsRefused, _) => Refused,
            _ => self,
        })
    }
}

impl Machine for Hold {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Hold::{Connecting, Free, Unheard};
        use LifeEvent::{AwaitsHello, BreaksOff, Connects, IsConnected, LetsGo, Meets};
        Some(match (event, self) {
            (Connects, Free) => Connecting,
            (AwaitsHello, Free) => Unheard,
            (IsConnected, Connecting) | (Meets, Unheard) | (BreaksOff(_) | LetsGo(_), _) => Free,
            (Connects | AwaitsHello | IsConnected, _) => return None,
            _ => self,
        })
    }
}

impl Machine for Stage {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use LifeEvent::*;
        use Stage::{Closed, Draining, Ending as E, Flushing as F, Open, Reported};
        let reset = event == Drains(Status::CONNECTION_RESET);
        Some(match (event, self) {
            (Drains(status), Open) => Draining { status, only_matched: reset },
            (Drains(_), Draining { status, only_matched }) => {
                Draining { status, only_matched: only_matched || reset }
            }
            (Closes, Open | Draining { .. }) => F(Flushing::BEGUN),
            (MovesOn(deadline, transfers), F(now)) => F(Flushing { deadline, transfers, ..now }),
            (FlushQueues | FlushAwaits | FlushBegins(_) | FlushEnds, F(now)) => {
                F(Flushing { flush: now.flush.after(event)?, ..now })
            }
            (Hurries(at), F(now)) => F(Flushing { deadline: now.deadline.min(at), ..now }),
            (Forces, F(now)) => F(Flushing { by: By::Force, ..now }),
            (BreaksOff(ending), Open | Draining { .. } | F(_)) | (LetsGo(ending), F(_)) => {
                E(ending)
            }
            (UcpCloses, E(now)) => E(Ending { in_ucp: true, ..now }),
            (UcpClosed, E(now)) => E(Ending { in_ucp: false, ..now }),
            (ProcessEnds(at), E(now)) => E(Ending { deadline: now.deadline.min(at), ..now }),
            (Abandons, E(now)) => E(Ending { left: Left { abandoned: true, ..now.left }, ..now }),
            (Ends | WorkerEnds, E(Ending { left, .. })) => Closed(left),
            (WorkerEnds, Open | Draining { .. } | F(_)) => Closed(Left::NOTHING),
            (Reports, Closed(left)) => Reported(left),
            (FlushEnds | UcpClosed, E(_) | Closed(_) | Reported(_)) => self,
            (Drains(_) | Closes | MovesOn(..) | FlushQueues | FlushAwaits | FlushBegins(_), _)
            | (FlushEnds | Forces | BreaksOff(_) | LetsGo(_) | UcpCloses | UcpClosed, _)
            | (Abandons | Ends | WorkerEnds | Reports, _) => return None,
            _ => self,
        })
    }
}

impl Machine for Flush {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Flush::{Again, Awaited, Done, Queued, UnderWay};
        Some(match (event, self) {
            (LifeEvent::FlushQueues, Done) => Queued,
            (LifeEvent::FlushBegins(again), Done | Queued | Awaited | Again) => UnderWay { again },
            (LifeEvent::FlushEnds, UnderWay { again: false }) => Done,
            (LifeEvent::FlushEnds, UnderWay { again: true }) => Again,
            (LifeEvent::FlushAwaits, Done | Again) => Awaited,
            (LifeEvent::FlushQueues | LifeEvent::FlushBegins(_) | LifeEvent::FlushEnds, _) => {
                return None
            }
            _ => self,
        })
    }
}

impl Machine for Outcome {
    fn after(self, event: LifeEvent) -> Option<Self> {
        Some(match (event, self) {
            (LifeEvent::Fails(status), Outcome::Good) | (LifeEvent::IsCut(status), _) => {
                Outcome::Failed(status)
            }
            (LifeEvent::RunsOut, _) => Outcome::Overdue,
            _ => self,
        })
    }
}

impl Machine for Peer {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Peer::{GivenUp, Gone, Lost, Present, Silent};
        Some(match (event, self) {
            (LifeEvent::FallsSilent, Present) => Silent,
            (LifeEvent::LosesPeer(status), Present | Silent) => Lost(status),
            (LifeEvent::GivesUp, Lost(status)) => GivenUp(status),
            (LifeEvent::GivesUp, Present | Silent) => return None,
            (LifeEvent::ProcessEnds(_), _) => Gone,
            _ => self,
        })
    }
}

impl Machine for Bye {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Bye::{Omitted, Said as S, Unsaid};
        use LifeEvent::*;
        Some(match (event, self) {
            (OmitsBye, Unsaid) => Omitted,
            (SaysBye(said), Unsaid) => S(said),
            (ByeLeaves, S(said)) => S(Said { sent: Sent::Left, ..said }),
            (ByeFails, S(said)) => S(Said { sent: Sent::Lost, ..said }),
            (ByeIsAnswered, S(said)) => S(Said { unanswered: false, ..said }),
            (TakesLeave, S(said @ Said { sent: Sent::Left, .. })) => {
                S(Said { unanswered: false, ..said })
            }
            (TakesLeave, S(said)) => S(Said { sent: Sent::Lost, unanswered: false, ..said }),
            (Hurries(at) | HurriesBye(at), S(said)) => {
                S(Said { deadline: said.deadline.min(at), ..said })
            }
            (CourtesyEnds, S(said)) => S(Said { unheard_until: 0, ..said }),
            (OmitsBye | SaysBye(_) | ByeLeaves | ByeFails, _) => return None,
            _ => self,
        })
    }
}

impl Machine for Heard {
    fn after(self, event: LifeEvent) -> Option<Self> {
        Some(match (event, self) {
            (LifeEvent::HearsHello, Heard::Nothing) => Heard::Hello,
            (LifeEvent::HearsBye, _) | (LifeEvent::AnswersBye, Heard::ByeToAnswer) => Heard::Bye,
            (LifeEvent::HearsByeToAnswer, _) => Heard::ByeToAnswer,
            (LifeEvent::AnswersBye, _) => return None,
            _ => self,
        })
    }
}

/// Where an endpoint stands. Cells belong to whoever is inside the worker's gate.
pub(crate) struct Life {
    greeting: Cell<Greeting>,
    hold: Cell<Hold>,
    stage: Cell<Stage>,
    outcome: Cell<Outcome>,
    peer: Cell<Peer>,
    bye: Cell<Bye>,
    heard: Cell<Heard>,
    pub(crate) request: Cell<CloseRequest>,
    /// The peer has answered UCP once: from then on force is safe. UCX 1.13 asserts when it meets
    /// its own wire-up.
    connected: Cell<bool>,
    /// A Bye has been put so often behind what came before it.
    pub(crate) postponed: Cell<u8>,
    /// Pulls from the peer are waited for up to this moment; 0 before that has begun.
    pub(crate) pulls_deadline: Cell<u64>,
    /// Callbacks of the endpoint that are running. Read by threads that wait in destroy.
    pub(crate) running: AtomicU32,
}

impl Default for Life {
    fn default() -> Self {
        Life {
            greeting: Cell::new(Greeting::Unknown),
            hold: Cell::new(Hold::Free),
            stage: Cell::new(Stage::Open),
            outcome: Cell::new(Outcome::Good),
            peer: Cell::new(Peer::Present),
            bye: Cell::new(Bye::Unsaid),
            heard: Cell::new(Heard::Nothing),
            request: Cell::new(CloseRequest::NotAsked),
            connected: Cell::new(false),
            postponed: Cell::new(0),
            pulls_deadline: Cell::new(0),
            running: AtomicU32::new(0),
        }
    }
}

fn step<M: Machine>(state: &Cell<M>, event: LifeEvent) {
    let (before, after) = (state.get(), state.get().after(event));
    debug_assert!(after.is_some(), "{event:?} of an endpoint that is {before:?}");
    state.set(after.unwrap_or(before));
}

impl Life {
    pub(crate) fn greeting(&self) -> Greeting {
        self.greeting.get()
    }

    /// The peer is a worker of this library: it can be spoken to.
    pub(crate) fn speaks(&self) -> bool {
        matches!(self.greeting.get(), Greeting::Unspoken | Greeting::Known)
    }

    /// Hello has not been said yet, and will be.
    pub(crate) fn is_unspoken(&self) -> bool {
        self.greeting.get() == Greeting::Unspoken
    }

    pub(crate) fn hold(&self) -> Hold {
        self.hold.get()
    }

    /// The peer has answered UCP once.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.get()
    }

    pub(crate) fn stage(&self) -> Stage {
        self.stage.get()
    }

    pub(crate) fn flushing(&self) -> Option<Flushing> {
        match self.stage.get() {
            Stage::Flushing(flushing) => Some(flushing),
            _ => None,
        }
    }

    /// What the end has left behind; nothing before it.
    pub(crate) fn left(&self) -> Left {
        match self.stage.get() {
            Stage::Ending(Ending { left, .. }) | Stage::Closed(left) | Stage::Reported(left) => {
                left
            }
            _ => Left::NOTHING,
        }
    }

    /// Its receives have been cancelled: those that are still under way have matched.
    pub(crate) fn has_only_matched(&self) -> bool {
        match self.stage.get() {
            Stage::Open => false,
            Stage::Draining { only_matched, .. } => only_matched,
            _ => true,
        }
    }

    pub(crate) fn outcome(&self) -> Status {
        self.outcome.get().status()
    }

    /// What becomes of what UCP has not been given.
    pub(crate) fn cut_short(&self) -> Status {
        match self.outcome.get() {
            Outcome::Good | Outcome::Overdue => Status::CANCELED,
            Outcome::Failed(status) => status,
        }
    }

    /// The caller has closed it: a second time is an error.
    pub(crate) fn is_close_asked(&self) -> bool {
        !matches!(self.request.get(), CloseRequest::NotAsked)
    }

    pub(crate) fn peer(&self) -> Peer {
        self.peer.get()
    }

    pub(crate) fn bye(&self) -> Bye {
        self.bye.get()
    }

    pub(crate) fn heard(&self) -> Heard {
        self.heard.get()
    }

    /// The peer has closed its end.
    pub(crate) fn has_heard_bye(&self) -> bool {
        self.heard.get() >= Heard::Bye
    }
}

impl Endpoint {
    /// Something has happened. Inside the gate.
    pub(crate) fn on(&self, event: LifeEvent) {
        let life = &self.life;
        let (unspoken, open) = (life.is_unspoken(), life.stage.get().phase() == Phase::Open);
        step(&life.greeting, event);
        step(&life.hold, event);
        step(&life.stage, event);
        step(&life.outcome, event);
        step(&life.peer, event);
        step(&life.bye, event);
        step(&life.heard, event);
        match event {
            LifeEvent::GreetsLater => self.set_status(Self::SILENT),
            LifeEvent::Greets | LifeEvent::Meets if unspoken => self.open_status(Self::SILENT),
            LifeEvent::Connects | LifeEvent::AwaitsHello => self.set_status(Self::HELD),
            LifeEvent::UcpAnswers => life.connected.set(true),
            LifeEvent::Closes => self.set_status(Status::CLOSED),
            LifeEvent::Refuses(status) => self.set_status(status),
            LifeEvent::Fails(status) if open => self.set_status(status),
            LifeEvent::HearsBye | LifeEvent::HearsByeToAnswer if self.takes_operations() => {
                self.set_status(Status::CONNECTION_RESET)
            }
            _ => {}
        }
        self.phase.set(life.stage.get().phase());
    }
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
