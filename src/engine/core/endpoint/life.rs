//! The life of an endpoint: the states that it goes through, and the events that move it on.
//!
//! `Endpoint::on` is the only place that changes a state, and with it what other threads read: the
//! phase and the public status. A life is made of small machines that do not depend on each other.
//! Each has a table, and a test holds the code to it. A cell names the next state; `=` changes
//! nothing, `!` cannot happen. An event that has no row changes nothing.
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
use crate::engine::core::request::request::Slot;
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

/// How far an endpoint has come on the way to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Open,
    /// Fails with this status as soon as nothing is read from the peer's memory any more.
    /// `only_matched`: its receives were cancelled, and those that are left have matched.
    Draining {
        status: Status,
        only_matched: bool,
    },
    Flushing(Flushing),
    Ending(Ending),
    Closed(Left),
    Reported(Left),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flushing {
    pub(crate) flush: Flush,
    pub(crate) by: By,
    /// Force at this moment. Moved on while transfers complete.
    pub(crate) deadline: u64,
    /// So many were under way when it was moved on.
    pub(crate) transfers: u32,
}

/// UCP's flush before the close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flush {
    /// It has ended, or there is none.
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

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    Flush,
    /// Force, as soon as that is safe.
    Force,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ending {
    /// UCP's own close is under way.
    pub(crate) in_ucp: bool,
    /// Requests that UCP does not give back by this moment are ended without it.
    pub(crate) deadline: u64,
    /// The same of receives.
    pub(crate) receives_deadline: u64,
    pub(crate) left: Left,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Left {
    /// Messages were still on their way into their buffers when it ended: the peer may have got the
    /// memory back that they come from.
    pub(crate) torn: bool,
    /// Something was ended that UCP has not given back.
    pub(crate) abandoned: bool,
}

/// What the close, and `on_close`, will report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Good,
    /// Its last handle was destroyed, and it took too long: nobody has asked for a time, so what is
    /// cut short did not run out of one.
    Overdue,
    Failed(Status),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
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
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bye {
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
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Heard {
    Nothing,
    /// It is handled after the pass.
    Hello,
    Bye,
    /// And the peer waits for an answer.
    ByeToAnswer,
}

/// The caller's request for the close.
#[derive(Clone, Copy)]
pub(crate) enum CloseRequest {
    NotAsked,
    InFlight(*const Slot),
    Completed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LifeEvent {
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
trait Machine: Copy {
    fn after(self, event: LifeEvent) -> Option<Self>;
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

impl Outcome {
    fn status(self) -> Status {
        match self {
            Outcome::Good => Status::OK,
            Outcome::Overdue => Status::TIMED_OUT,
            Outcome::Failed(status) => status,
        }
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
    stage: Cell<Stage>,
    outcome: Cell<Outcome>,
    peer: Cell<Peer>,
    bye: Cell<Bye>,
    heard: Cell<Heard>,
    pub(crate) request: Cell<CloseRequest>,
    /// The peer has answered UCP once: from then on force is safe. UCX 1.13 asserts when it meets
    /// its own wire-up.
    pub(crate) connected: Cell<bool>,
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

fn step<M: Machine + std::fmt::Debug>(state: &Cell<M>, event: LifeEvent) {
    let (before, after) = (state.get(), state.get().after(event));
    debug_assert!(after.is_some(), "{event:?} of an endpoint that is {before:?}");
    state.set(after.unwrap_or(before));
}

impl Life {
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

impl Left {
    const NOTHING: Left = Left { torn: false, abandoned: false };
}

impl Ending {
    pub(crate) fn new(deadline: u64) -> Self {
        Ending { in_ucp: false, deadline, receives_deadline: 0, left: Left::NOTHING }
    }
}

impl Flushing {
    const BEGUN: Flushing =
        Flushing { flush: Flush::Done, by: By::Flush, deadline: 0, transfers: 0 };

    /// The flush of the close has ended, or there is none.
    pub(crate) fn has_flushed(&self) -> bool {
        matches!(self.flush, Flush::Done | Flush::Again)
    }

    pub(crate) fn is_forced(&self) -> bool {
        self.by == By::Force
    }
}

impl Stage {
    fn phase(self) -> Phase {
        match self {
            Stage::Open | Stage::Draining { .. } => Phase::Open,
            Stage::Flushing(_) => Phase::Flushing,
            Stage::Ending(_) => Phase::Ending,
            Stage::Closed(_) => Phase::Closed,
            Stage::Reported(_) => Phase::Reported,
        }
    }
}

impl Endpoint {
    /// Something has happened. Inside the gate.
    pub(crate) fn on(&self, event: LifeEvent) {
        let life = &self.life;
        let open = self.phase() == Phase::Open;
        step(&life.stage, event);
        step(&life.outcome, event);
        step(&life.peer, event);
        step(&life.bye, event);
        step(&life.heard, event);
        match event {
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
