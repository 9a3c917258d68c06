//! Before UCX lets go by force of a connection over a socket: what it has of it is out.
//!
//! UCX (1.13 to 1.22) keeps an end that was closed by force while its socket was full: it waits
//! there for room, and for the end of the peer's. Where both come in one event, the second one
//! frees the end, and the first one is handled with what was freed (`uct_tcp_iface_handle_events`).
//! So a last message is said until one leaves inside its call, as none does behind another one that
//! waits; a peer that has closed goes on reading as long as its worker makes progress. It says what
//! is true by then, that nothing of the peer's memory is read any more.

use crate::engine::base::clock;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::endpoint::goodbye::ANSWER_NS;
use crate::engine::core::endpoint::life::{Heard, LifeEvent, Peer};
use crate::engine::core::request::request::Part;
use crate::engine::wire::header::Kind;

/// How far it has come.
#[derive(Clone, Copy, Default)]
pub(crate) enum Emptying {
    #[default]
    Unasked,
    /// A message waits for room, not longer than up to this moment.
    Waits(u64),
    /// It has left: another one is to show that nothing is behind it.
    Left(u64),
    Over,
}

impl Endpoint {
    /// UCX holds nothing of this connection, or was waited for long enough. Right before it is told
    /// to let go, and after everything else that is said.
    pub(crate) fn has_emptied_socket(&self, now: u64) -> bool {
        let emptying = &self.life.emptying;
        let deadline = match emptying.get() {
            Emptying::Unasked => clock::deadline_after(ANSWER_NS),
            Emptying::Waits(deadline) => return now >= deadline || !self.can_empty_socket(),
            Emptying::Left(deadline) => deadline,
            Emptying::Over => return true,
        };
        if now < deadline && self.can_empty_socket() {
            if self.life().heard == Heard::ByeToAnswer {
                self.on(LifeEvent::AnswersBye);
            }
            emptying.set(Emptying::Waits(deadline));
            if self.say(Kind::ByeAck, 0, Part::LastWord).is_none() {
                self.watch();
                return false;
            }
        }
        emptying.set(Emptying::Over);
        true
    }

    /// There is a socket, and a peer of this library's that has shown that it reads from it.
    fn can_empty_socket(&self) -> bool {
        let life = self.life();
        self.is_remote()
            && self.peering.theirs.get() != 0
            && life.peer == Peer::Present
            && life.connected
            && !life.is_unspoken()
            && !self.is_connecting()
            && !self.is_deaf()
            && !self.ucp.get().is_null()
    }

    /// The message has left.
    pub(crate) fn last_word_left(&self) {
        if let Emptying::Waits(deadline) = self.life.emptying.get() {
            self.life.emptying.set(Emptying::Left(deadline));
        }
        self.watch();
    }

    /// Up to when a message is waited for that has not left.
    pub(crate) fn emptying_deadline(&self) -> Option<u64> {
        match self.life.emptying.get() {
            Emptying::Waits(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// Nothing holds it: not this side, not its peer, not the socket.
    pub(crate) fn may_end(&self, now: u64) -> bool {
        self.has_let_go(now) && self.has_parted(now) && self.has_emptied_socket(now)
    }
}
