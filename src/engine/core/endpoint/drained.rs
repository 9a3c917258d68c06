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
pub(crate) enum SocketDrain {
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
    pub(crate) fn has_drained(&self, now: u64) -> bool {
        let socket = &self.life.socket;
        let deadline = match socket.get() {
            SocketDrain::Unasked => clock::deadline_after(ANSWER_NS),
            SocketDrain::Waits(deadline) => return now >= deadline || !self.can_drain(),
            SocketDrain::Left(deadline) => deadline,
            SocketDrain::Over => return true,
        };
        if now < deadline && self.can_drain() {
            if self.life().heard == Heard::ByeToAnswer {
                self.on(LifeEvent::AnswersBye);
            }
            socket.set(SocketDrain::Waits(deadline));
            if self.say(Kind::ByeAck, 0, Part::Drain).is_none() {
                self.watch();
                return false;
            }
        }
        socket.set(SocketDrain::Over);
        true
    }

    /// There is a socket, and a peer of this library's that has shown that it reads from it.
    fn can_drain(&self) -> bool {
        self.is_remote()
            && self.peering.theirs.get() != 0
            && !self.life().is_unspoken()
            && self.life().connected
            && !self.is_connecting()
            && !self.awaits_in_vain()
            && self.life().peer == Peer::Present
            && !self.ucp.get().is_null()
    }

    /// The message has left.
    pub(crate) fn drain_left(&self) {
        if let SocketDrain::Waits(deadline) = self.life.socket.get() {
            self.life.socket.set(SocketDrain::Left(deadline));
        }
        self.watch();
    }

    /// Up to when a message is waited for that has not left.
    pub(crate) fn socket_deadline(&self) -> Option<u64> {
        match self.life.socket.get() {
            SocketDrain::Waits(deadline) => Some(deadline),
            _ => None,
        }
    }
}
