//! Empties the socket of a connection before UCX closes it by force.
//!
//! UCX (1.13 to 1.22) keeps an end that was closed by force while its socket was full: it waits for
//! room, and for the peer to close. If both arrive in one event, the second frees the end, and the
//! first is handled with freed memory (`uct_tcp_iface_handle_events`).
//!
//! So a last message is sent repeatedly until one is sent inside its call, which happens only if no
//! other message waits before it. A peer that has closed keeps reading as long as its worker makes
//! progress. The message is a `ByeAck`, which is true at that point: nothing of the peer's memory
//! is read any more.
//!
//! If the socket stays full, UCX cuts what it is sending, and its own last message follows. The
//! peer takes that one for a part of the data, and waits for the rest: it does not learn of the
//! end. Connections by host and port have a socket of their own, which UCX closes.

use crate::engine::base::clock;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::endpoint::goodbye::ANSWER_NS;
use crate::engine::core::endpoint::life::{Heard, LifeEvent, Peer};
use crate::engine::core::request::request::Part;
use crate::engine::wire::header::Kind;
use std::sync::atomic::Ordering;

/// How far this is.
#[derive(Clone, Copy, Default)]
pub(crate) enum Emptying {
    #[default]
    Unasked,
    /// A message waits for room, at most until this moment.
    Waits(u64),
    /// It was sent: another one must show that nothing is behind it.
    Left(u64),
    Over,
}

impl Endpoint {
    /// UCX holds nothing of this connection, or the wait has timed out. Called right before the
    /// close in UCP, after everything else was sent.
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

    fn can_empty_socket(&self) -> bool {
        self.has_socket() && !self.is_deaf()
    }

    /// There is a socket, and a peer of this library that has shown that it reads from it.
    fn has_socket(&self) -> bool {
        let life = self.life();
        self.is_remote()
            && self.peering.theirs.get() != 0
            && life.peer == Peer::Present
            && life.connected
            && !life.is_unspoken()
            && !self.is_connecting()
            && !self.ucp.get().is_null()
    }

    /// It ends while its socket is full.
    pub(crate) fn ends_unheard(&self) -> bool {
        let full = matches!(self.life.emptying.get(), Emptying::Waits(_)) || self.is_bye_stuck();
        full && self.has_socket()
            && self.connection().is_none()
            && !self.worker.closed.load(Ordering::Relaxed)
    }

    /// The message was sent.
    pub(crate) fn last_word_left(&self) {
        if let Emptying::Waits(deadline) = self.life.emptying.get() {
            self.life.emptying.set(Emptying::Left(deadline));
        }
        self.watch();
    }

    /// When to stop waiting for a message that was not sent.
    pub(crate) fn emptying_deadline(&self) -> Option<u64> {
        match self.life.emptying.get() {
            Emptying::Waits(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// Neither this side, nor its peer, nor the socket holds it any more.
    pub(crate) fn may_end(&self, now: u64) -> bool {
        self.has_let_go(now) && self.has_parted(now) && self.has_emptied_socket(now)
    }
}
