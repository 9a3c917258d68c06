//! A descriptor of UCX's that stays readable though there is nothing to do.
//!
//! Over TCP a socket whose connection is not yet answered can be written to, for which UCX waits,
//! and has nothing to write. Whoever sleeps on UCX's descriptor would be woken at once, again and
//! again. So now and then arming looks at it. While it is found readable then, threads are woken by
//! what becomes ready anew (the edges) alone. That an edge is missed is not expected, but UCX does
//! not promise it: a timer has them look again, each time twice as far from when that began, and at
//! least ten times a second.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use std::cell::Cell;

#[derive(Default)]
pub(crate) struct Stuck {
    arms: Cell<u32>,
    /// When it was first found so; 0 while it is not.
    since: Cell<u64>,
}

impl Stuck {
    /// Arms between two looks.
    const ARMS_PER_LOOK: u32 = 16;
    const FIRST_LOOK_NS: u64 = 1_000_000;
    const LONGEST_NS: u64 = 100_000_000;

    pub(crate) fn is_it(&self) -> bool {
        self.since.get() != 0
    }

    /// After arming; `readable` looks at the descriptor. When a sleeper has to look again.
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

#[cfg(all(test, not(loom)))]
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
