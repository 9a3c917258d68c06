//! The life of an endpoint: its states, and the events that change them.
//!
//! Only `Endpoint::on` changes a state, on the worker's thread. It also publishes what other
//! threads read: the phase and the status (see `core::endpoint::status`).
//!
//! A life consists of small independent state machines. Each has a table below, and a test compares
//! it with the code. A cell names the next state; `=` means no change, and `!` cannot happen. An
//! event without a row changes nothing.
//!
//! How far the two sides know each other, and why operations wait for the peer:
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
//! The way to the end. A peer that has closed or was lost may have sent messages that are still
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
//! UCP's flush before the close, while the endpoint is flushing:
//!
//! | Flush | Done | Queued | Awaited | UnderWay | Again |
//! |---|---|---|---|---|---|
//! | FlushQueues | Queued | ! | ! | ! | ! |
//! | FlushBegins | UnderWay | UnderWay | UnderWay | ! | UnderWay |
//! | FlushEnds | ! | ! | ! | Done | ! |
//! | FlushAwaits | Awaited | = | = | = | Awaited |
//!
//! What the close and `on_close` report; the first failure counts:
//!
//! | Outcome | Good | Overdue | Failed |
//! |---|---|---|---|
//! | Fails | Failed | = | = |
//! | RunsOut | Overdue | Overdue | Overdue |
//! | IsCut | Failed | Failed | Failed |
//!
//! Whether the peer is there:
//!
//! | Peer | Present | Silent | Lost | GivenUp | Gone |
//! |---|---|---|---|---|---|
//! | FallsSilent | Silent | = | = | = | = |
//! | LosesPeer | Lost | Lost | = | = | = |
//! | GivesUp | ! | ! | GivenUp | = | = |
//! | ProcessEnds | Gone | Gone | Gone | Gone | = |
//!
//! The Bye of this side, and what the peer has sent:
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
//! | HearsBye | ByeToAnswer | ByeToAnswer | ByeToAnswer | ByeToAnswer |
//! | AnswersBye | ! | ! | ! | Bye |

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
pub(crate) use crate::engine::core::endpoint::life_states::*;
use crate::engine::core::endpoint::socket_empty::Emptying;
use crate::engine::core::trace::{self, Happens};
use std::cell::Cell;
use std::sync::atomic::AtomicU32;
use LifeEvent::*;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LifeEvent {
    GreetsLater,
    /// The peer is a worker of this library.
    Greets,
    /// A Hello was sent at this time to an unknown process behind a host and port.
    Asks(u64),
    /// UCX is connected. The Hello could not be received before: its time limit starts now.
    IsReached(u64),
    /// The peer has sent its identity.
    Meets,
    IsRefused,
    Connects,
    AwaitsHello,
    IsConnected,
    /// The peer has answered UCP.
    UcpAnswers,

    /// The peer has left: refuses new operations, and fails with this status when nothing is read
    /// from the peer's memory any more.
    Drains(Status),
    Closes,
    /// Transfers have completed or a time limit was set. Force at this moment; this many transfers
    /// are left.
    MovesOn(u64, u32),
    FlushQueues,
    FlushAwaits,
    /// Whether sends are in flight.
    FlushBegins(bool),
    FlushEnds,
    /// At the latest at this moment.
    Hurries(u64),
    /// The same for the Bye alone.
    HurriesBye(u64),
    Forces,
    /// Ends by force.
    BreaksOff(Ending),
    /// Ends without force.
    LetsGo(Ending),
    UcpCloses,
    UcpClosed,
    Abandons,
    Ends,
    /// UCP's worker was destroyed.
    WorkerEnds,
    /// `on_close` has returned.
    Reports,

    Fails(Status),
    /// A time limit passed that no caller has set.
    RunsOut,
    /// By the caller, or by a time limit that it set.
    IsCut(Status),
    /// Takes no more operations; they get this status.
    Refuses(Status),

    FallsSilent,
    LosesPeer(Status),
    GivesUp,
    /// Everything in flight must complete by this moment.
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
    /// Whether the peer waits for an answer.
    HearsBye(bool),
    AnswersBye,
}

/// One table: the state after an event, or None if the event cannot happen.
trait Machine: Copy + std::fmt::Debug {
    fn after(self, event: LifeEvent) -> Option<Self>;
}

impl Machine for Greeting {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Greeting::{Asked, Known, Refused, Unknown, Unspoken};
        Some(match (event, self) {
            (GreetsLater, Unknown) => Unspoken,
            (GreetsLater, _) => return None,
            (Greets | Meets, _) | (Asks(_), Known) => Known,
            (Asks(now), _) | (IsReached(now), Asked(_)) => Asked(now),
            (IsRefused, _) => Refused,
            _ => self,
        })
    }
}

impl Machine for Hold {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Hold::{Connecting, Free, Unheard};
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
        use Stage::{Closed, Draining, Ending as E, Flushing as F, Open, Reported};
        let reset = event == Drains(Status::CONNECTION_RESET);
        Some(match (event, self) {
            (Drains(status), Open) => Draining { status, only_matched: reset },
            (Drains(_), Draining { status, only_matched }) => {
                Draining { status, only_matched: only_matched || reset }
            }
            (Closes, Open | Draining { .. }) => F(Flushing::default()),
            (MovesOn(deadline, transfers), F(now)) => F(Flushing { deadline, transfers, ..now }),
            (FlushQueues | FlushAwaits | FlushBegins(_) | FlushEnds, F(now)) => {
                F(Flushing { flush: now.flush.after(event)?, ..now })
            }
            (Hurries(at), F(now)) => F(Flushing { deadline: now.deadline.min(at), ..now }),
            (Forces, F(now)) => F(Flushing { forced: true, ..now }),
            (BreaksOff(ending), Open | Draining { .. } | F(_)) | (LetsGo(ending), F(_)) => {
                E(ending)
            }
            (UcpCloses, E(now)) => E(Ending { in_ucp: true, ..now }),
            (UcpClosed, E(now)) => E(Ending { in_ucp: false, ..now }),
            (ProcessEnds(at), E(now)) => E(Ending { deadline: now.deadline.min(at), ..now }),
            (Abandons, E(now)) => {
                E(Ending { left: Remains { abandoned: true, ..now.left }, ..now })
            }
            (Ends | WorkerEnds, E(Ending { left, .. })) => Closed(left),
            (WorkerEnds, Open | Draining { .. } | F(_)) => Closed(Remains::default()),
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
            (FlushQueues, Done) => Queued,
            (FlushBegins(again), Done | Queued | Awaited | Again) => UnderWay { again },
            (FlushEnds, UnderWay { again: false }) => Done,
            (FlushEnds, UnderWay { again: true }) => Again,
            (FlushAwaits, Done | Again) => Awaited,
            (FlushQueues | FlushBegins(_) | FlushEnds, _) => return None,
            _ => self,
        })
    }
}

impl Machine for Outcome {
    fn after(self, event: LifeEvent) -> Option<Self> {
        Some(match (event, self) {
            (Fails(status), Outcome::Good) | (IsCut(status), _) => Outcome::Failed(status),
            (RunsOut, _) => Outcome::Overdue,
            _ => self,
        })
    }
}

impl Machine for Peer {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Peer::{GivenUp, Gone, Lost, Present, Silent};
        Some(match (event, self) {
            (FallsSilent, Present) => Silent,
            (LosesPeer(status), Present | Silent) => Lost(status),
            (GivesUp, Lost(status)) => GivenUp(status),
            (GivesUp, Present | Silent) => return None,
            (ProcessEnds(_), _) => Gone,
            _ => self,
        })
    }
}

impl Machine for Bye {
    fn after(self, event: LifeEvent) -> Option<Self> {
        use Bye::{Omitted, Said as S, Unsaid};
        Some(match (event, self) {
            (OmitsBye, Unsaid) => Omitted,
            (SaysBye(said), Unsaid) => S(said),
            (ByeLeaves, S(said)) => S(Said { sent: Sent::Left, ..said }),
            (ByeFails, S(said)) => S(Said { sent: Sent::Lost, ..said }),
            (ByeIsAnswered | TakesLeave, S(said @ Said { sent: Sent::Left, .. }))
            | (ByeIsAnswered, S(said)) => S(Said { answer: Answer::Came, ..said }),
            (TakesLeave, S(said)) => S(Said { sent: Sent::Lost, answer: Answer::Came, ..said }),
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
            (HearsHello, Heard::Nothing) => Heard::Hello,
            (HearsBye(true), _) => Heard::ByeToAnswer,
            (HearsBye(false), _) | (AnswersBye, Heard::ByeToAnswer) => Heard::Bye,
            (AnswersBye, _) => return None,
            _ => self,
        })
    }
}

/// The state of an endpoint's life, and what belongs to it.
#[derive(Default)]
pub(crate) struct Life {
    state: Cell<State>,
    pub(crate) request: Cell<CloseRequest>,
    /// How often a Bye was queued behind earlier messages.
    pub(crate) postponed: Cell<u8>,
    /// When to stop waiting for pulls from the peer; 0 before the wait has started.
    pub(crate) pulls_deadline: Cell<u64>,
    /// When UCX has last transferred something while a Bye waited.
    pub(crate) moved: Cell<u64>,
    /// See `core::endpoint::socket_empty`.
    pub(crate) emptying: Cell<Emptying>,
    /// Running callbacks of the endpoint. Read by threads that wait in destroy.
    pub(crate) running: AtomicU32,
}

fn step<M: Machine>(before: M, event: LifeEvent) -> M {
    let after = before.after(event);
    debug_assert!(after.is_some(), "{event:?} of an endpoint that is {before:?}");
    after.unwrap_or(before)
}

impl Endpoint {
    #[inline]
    pub(crate) fn life(&self) -> State {
        self.life.state.get()
    }

    /// Applies an event, and publishes the new phase and status.
    pub(crate) fn on(&self, event: LifeEvent) {
        let now = self.life();
        let next = State {
            greeting: step(now.greeting, event),
            hold: step(now.hold, event),
            stage: step(now.stage, event),
            outcome: step(now.outcome, event),
            peer: step(now.peer, event),
            bye: step(now.bye, event),
            heard: step(now.heard, event),
            connected: now.connected || event == UcpAnswers,
        };
        self.life.state.set(next);
        match event {
            GreetsLater => self.set_status(SharedEndpoint::SILENT),
            Greets | Meets if now.is_unspoken() => self.open_status(SharedEndpoint::SILENT),
            Connects | AwaitsHello => self.set_status(SharedEndpoint::HELD),
            Closes => self.set_status(Status::CLOSED),
            Fails(status) if now.stage.phase() == Phase::Open => self.set_status(status),
            Refuses(status) => self.set_status(status),
            HearsBye(_) if self.takes_operations() => self.set_status(Status::CONNECTION_RESET),
            _ => {}
        }
        self.phase.set(next.stage.phase());
        let has_closed = next.stage.phase() == Phase::Closed && now.stage.phase() != Phase::Closed;
        if has_closed {
            trace::happens(self, Happens::Closed(next.outcome.status()));
        }
    }
}

#[cfg(test)]
#[path = "life_tests.rs"]
mod tests;
