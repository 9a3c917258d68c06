//! Handles a descriptor of UCX that stays readable although there is nothing to do.
//!
//! Over TCP, a socket whose connection was not answered yet is writable. UCX polls for that,
//! although it has nothing to write, so a thread that sleeps on UCX's descriptor would wake at
//! once, again and again. So arming checks the descriptor from time to time. While it is stuck,
//! only new readiness (edges) wakes threads. A missed edge is not expected, but UCX promises
//! nothing, so a timer makes threads check: after twice the time since it began, and at least ten
//! times a second.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use std::cell::Cell;

#[derive(Default)]
pub(crate) struct Stuck {
    arms: Cell<u32>,
    /// When it was first found stuck; 0 while it is not.
    since: Cell<u64>,
}

impl Stuck {
    /// Calls of arm between two checks.
    const ARMS_PER_LOOK: u32 = 16;
    const FIRST_LOOK_NS: u64 = 1_000_000;
    const LONGEST_NS: u64 = 100_000_000;

    pub(crate) fn is_it(&self) -> bool {
        self.since.get() != 0
    }

    /// Called after arming. `readable` checks the descriptor. Returns when a sleeping thread must
    /// check again.
    pub(crate) fn next_look(&self, readable: impl FnOnce() -> bool) -> Option<u64> {
        self.arms.set(self.arms.get().wrapping_add(1));
        if !self.is_it() && self.arms.get() % Self::ARMS_PER_LOOK != 0 {
            return None;
        }
        if !readable() {
            self.since.set(0);
            return None;
        }
        let now = clock::now_ns();
        if !self.is_it() {
            self.since.set(now);
        }
        Some(now + (now - self.since.get()).clamp(Self::FIRST_LOOK_NS, Self::LONGEST_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_noticed_after_some_arms_and_over_when_it_is() {
        let stuck = Stuck::default();
        for _ in 1..Stuck::ARMS_PER_LOOK {
            assert!(stuck.next_look(|| unreachable!("not yet")).is_none());
        }
        let before = clock::now_ns();
        assert!(stuck.next_look(|| true).is_some_and(|at| at >= before + Stuck::FIRST_LOOK_NS));
        assert!(stuck.is_it());
        let after = before + Stuck::FIRST_LOOK_NS;
        while clock::now_ns() <= after {}
        assert!(stuck.next_look(|| true).is_some_and(|at| at > after + Stuck::FIRST_LOOK_NS));
        assert!(stuck
            .next_look(|| true)
            .is_some_and(|at| at <= clock::now_ns() + Stuck::LONGEST_NS));
        assert!(stuck.next_look(|| false).is_none());
        assert!(!stuck.is_it());
    }
}
