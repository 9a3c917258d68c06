//! Detects silent peers: a stopped process, or a broken link. Enabled by `liveness_ns`.
//!
//! While an endpoint has something in flight, the worker asks its peer for a sign of life four
//! times within that time, and fails the endpoint if none has arrived. Any message of the library
//! counts. The peer answers when it makes progress, so one that computes without progress counts as
//! silent. Only workers of this library can be asked.
//!
//! Time during which this side did not check itself (it was stopped, or made no progress) is not
//! counted: what arrived in the meantime was not read.
//!
//! Members of a group are asked all the time: waiting for a lock or an answer from another member
//! is not in flight at the endpoint.

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::header::Kind;
use std::cell::Cell;

/// TCP retransmits the first packet of a connection after one second, and after three.
const MEETING_NS: u64 = 3_500_000_000;

/// The state of one endpoint.
#[derive(Default)]
pub(crate) struct Liveness {
    /// 0 for off.
    pub(crate) patience_ns: Cell<u64>,
    /// The peer has been silent since this moment; 0 while nothing is awaited.
    silent_since: Cell<u64>,
    asked_at: Cell<u64>,
    /// A question was not sent completely yet.
    asking: Cell<bool>,
    /// The peer is watched even if nothing is in flight.
    always: Cell<bool>,
    /// Something has arrived from the peer.
    is_met: Cell<bool>,
}

/// The state of a worker.
pub(crate) struct LivenessClock {
    /// When to check the endpoints next; `u64::MAX` if no endpoint is watched.
    due: Cell<u64>,
    /// The same for a sleeping thread; `u64::MAX` while nothing is awaited, because a new operation
    /// wakes it.
    awaited: Cell<u64>,
    /// The last check, and the interval planned after it.
    looked_at: Cell<u64>,
    pace: Cell<u64>,
}

impl Default for LivenessClock {
    fn default() -> Self {
        let never = || Cell::new(u64::MAX);
        LivenessClock { due: never(), awaited: never(), looked_at: Cell::new(0), pace: never() }
    }
}

impl LivenessClock {
    #[inline]
    pub(crate) fn is_due(&self, now: u64) -> bool {
        now >= self.due.get()
    }

    pub(crate) fn is_used(&self) -> bool {
        self.due.get() != u64::MAX
    }

    /// Records a check. Returns by how much the last one is longer ago than usual, allowing for one
    /// missed check.
    fn absence(&self, now: u64) -> u64 {
        let since = now.saturating_sub(self.looked_at.replace(now));
        since.saturating_sub(self.pace.get().saturating_mul(2))
    }

    /// For a thread that is about to sleep and has just checked.
    pub(crate) fn awaited(&self) -> Option<u64> {
        Some(self.awaited.get()).filter(|next| *next != u64::MAX)
    }
}

impl Liveness {
    /// TCP may still be connecting until something has arrived from the peer.
    fn patience(&self) -> u64 {
        let asked = self.patience_ns.get();
        if self.always.get() && !self.is_met.get() {
            asked.max(MEETING_NS)
        } else {
            asked
        }
    }
}

impl Endpoint {
    /// Watches for silence from now on.
    pub(crate) fn watch_for_silence(&self, patience_ns: u64) {
        self.liveness.patience_ns.set(patience_ns);
        // Time that counted for another limit, with fewer questions, does not count for this one.
        self.liveness.silent_since.set(0);
        if patience_ns != 0 {
            self.worker.liveness.due.set(0);
        }
    }

    /// The same, whether something is in flight or not. The endpoint fails as if the peer had died.
    pub(crate) fn watch_for_silence_always(&self, patience_ns: u64) {
        self.liveness.always.set(patience_ns != 0);
        self.watch_for_silence(patience_ns);
    }

    /// A sign of life.
    pub(crate) fn heard(&self) {
        self.liveness.silent_since.set(0);
        self.liveness.is_met.set(true);
    }

    /// A question was sent.
    pub(crate) fn asked(&self) {
        self.liveness.asking.set(false);
    }

    fn awaits_something(&self) -> bool {
        self.liveness.always.get()
            || self.sends.get() + self.watchers.get() > 0
            || !self.flushes.borrow().is_empty()
    }

    /// One check. Returns when to check again; None while nothing is awaited.
    fn listen(&self, now: u64, absence: u64) -> Option<u64> {
        let (liveness, patience) = (&self.liveness, self.liveness.patience());
        if !self.life().speaks() || self.waits_for_peer() || !self.awaits_something() {
            liveness.silent_since.set(0);
            return None;
        }
        if liveness.silent_since.get() == 0 {
            liveness.silent_since.set(now.max(1));
            liveness.asked_at.set(now);
        } else {
            // Not later than now: nothing has arrived since then.
            liveness.silent_since.set(liveness.silent_since.get().saturating_add(absence).min(now));
        }
        let since = liveness.silent_since.get();
        if now.saturating_sub(since) >= patience {
            if liveness.always.get() {
                // Treated as dead. The peer may only have been stopped, so it is sent a Bye first:
                // none is sent to a peer that is marked as dead.
                self.has_parted(0);
                self.fail(Status::PEER_FAILED);
            } else {
                self.fail(Status::TIMED_OUT);
            }
            return None;
        }
        let pace = (patience / 4).max(1);
        if now.saturating_sub(liveness.asked_at.get()) >= pace && !liveness.asking.get() {
            liveness.asked_at.set(now);
            let sent = self.say(Kind::Ping, 0, Part::Ping);
            liveness.asking.set(sent.is_none());
        }
        Some((now + pace).min(since.saturating_add(patience)))
    }
}

impl Worker {
    /// Checks for silent peers. True if one was given up.
    pub(crate) fn look_for_silence(&self, now: u64) -> bool {
        let endpoints = self.endpoints.borrow();
        let absence = self.liveness.absence(now);
        let (mut next, mut lost, mut shortest) = (u64::MAX, false, u64::MAX);
        for endpoint in endpoints.iter().flatten() {
            let patience = endpoint.liveness.patience_ns.get();
            if patience == 0 || endpoint.phase() != Phase::Open {
                continue;
            }
            shortest = shortest.min(patience);
            next = next.min(endpoint.listen(now, absence).unwrap_or(u64::MAX));
            lost |= endpoint.phase() != Phase::Open;
        }
        let pace = if shortest == u64::MAX { u64::MAX } else { (shortest / 4).max(1) };
        self.liveness.pace.set(pace);
        self.liveness.due.set(next.min(now.saturating_add(pace)));
        self.liveness.awaited.set(next);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_no_silence() {
        let clock = LivenessClock::default();
        assert_eq!(clock.absence(1_000), 0, "the first look");
        clock.pace.set(250);
        assert_eq!(clock.absence(1_250), 0);
        assert_eq!(clock.absence(1_750), 0, "a look left out");
        assert_eq!(clock.absence(9_750), 7_500);
        assert_eq!(clock.absence(10_000), 0);
    }
}
