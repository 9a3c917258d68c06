//! Ownership of a slot by which operations are delegated to another process: see
//! `window::delegation::delegation`, and `window::delegation::slot` for its contents.
//!
//! 1. An origin claims the slot, which gives its turn a number. It stores an operation and posts
//!    it.
//! 2. One word decides who executes: the target takes the operation, or the origin takes it back.
//! 3. The target answers what it has taken. Then the origin releases the slot, or renews its claim
//!    and posts the next operation.
//!
//! The contents belong to the target from taking to answering, and to the origin during the rest of
//! its turn. Each of the three words is on a cache line of its own, or with data that the same side
//! writes. All of it is zero at first.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::sync::{AtomicU64, Ordering};

/// State of a turn, in the lower bits of `word` and `answer`; above them is the turn's number.
mod phase {
    pub(crate) const BITS: u32 = 2;
    /// In `word`.
    pub(crate) const BACK: u64 = 0;
    pub(crate) const POSTED: u64 = 1;
    pub(crate) const TAKEN: u64 = 2;
    /// In `answer`.
    pub(crate) const DONE: u64 = 1;
    pub(crate) const REFUSED: u64 = 2;
}

/// See the head of this file. `Sent` is the origin's short data, and `Answered` the target's.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Turns<Sent, Answered> {
    /// Odd while an origin owns the slot; each turn has a new number.
    claims: AtomicU64,
    pub(crate) sent: Sent,
    _origin_alone: CacheLine,
    word: AtomicU64,
    _word_alone: CacheLine,
    answer: AtomicU64,
    pub(crate) answered: Answered,
    _target_alone: CacheLine,
}

/// Number of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim(u64);

impl Claim {
    fn with(self, phase: u64) -> u64 {
        self.0 << phase::BITS | phase
    }
}

/// Called by the origin.
impl<Sent, Answered> Turns<Sent, Answered> {
    pub(crate) fn claim(&self) -> Option<Claim> {
        let before = self.claims.load(Ordering::Relaxed);
        if before % 2 == 1 {
            return None;
        }
        let claim = before.wrapping_add(1);
        let claimed =
            self.claims.compare_exchange(before, claim, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then_some(Claim(claim))
    }

    /// Begins another turn of the same origin.
    pub(crate) fn renew(&self, claim: Claim) -> Claim {
        let next = claim.0.wrapping_add(2);
        self.claims.store(next, Ordering::Relaxed);
        Claim(next)
    }

    pub(crate) fn give_back(&self, claim: Claim) {
        self.claims.store(claim.0.wrapping_add(1), Ordering::Release);
    }

    /// Publishes the stored operation to the target.
    pub(crate) fn post(&self, claim: Claim) {
        self.word.store(claim.with(phase::POSTED), Ordering::Release);
    }

    /// False if the target has taken it.
    pub(crate) fn take_back(&self, claim: Claim) -> bool {
        self.settle(claim, phase::BACK)
    }

    /// The target's answer to this turn: whether the operation was done. `None` before it has
    /// answered.
    pub(crate) fn answer(&self, claim: Claim) -> Option<bool> {
        let answer = self.answer.load(Ordering::Acquire);
        (answer >> phase::BITS == claim.0 << phase::BITS >> phase::BITS)
            .then_some(answer == claim.with(phase::DONE))
    }

    fn settle(&self, claim: Claim, how: u64) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        self.word
            .compare_exchange(claim.with(phase::POSTED), claim.with(how), order.0, order.1)
            .is_ok()
    }
}

/// Called by the target.
impl<Sent, Answered> Turns<Sent, Answered> {
    /// Takes a posted operation.
    #[inline]
    pub(crate) fn take(&self) -> Option<Claim> {
        let word = self.word.load(Ordering::Relaxed);
        let claim = Claim(word >> phase::BITS);
        (word == claim.with(phase::POSTED) && self.settle(claim, phase::TAKEN)).then_some(claim)
    }

    /// Answers: the operation was done, or refused without doing anything.
    pub(crate) fn tell(&self, claim: Claim, done: bool) {
        self.answer
            .store(claim.with(if done { phase::DONE } else { phase::REFUSED }), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize};

    type Slot = Turns<AtomicU64, ()>;

    #[test]
    fn a_claim_is_one_origins() {
        let slot = Slot::default();
        let first = slot.claim().unwrap();
        assert!(slot.claim().is_none() && slot.answer(first).is_none() && slot.take().is_none());
        slot.post(first);
        assert!(slot.take_back(first) && slot.take().is_none());
        let second = slot.renew(first);
        assert!(slot.claim().is_none() && slot.take().is_none());
        slot.post(second);
        assert!(!slot.take_back(first) && slot.take_back(second));
        slot.give_back(second);
        let third = slot.claim().unwrap();
        slot.post(third);
        assert!(!slot.take_back(second) && slot.take() == Some(third) && !slot.take_back(third));
        slot.tell(third, false);
        assert!(slot.answer(second).is_none() && slot.answer(third) == Some(false));
        slot.tell(third, true);
        assert_eq!(slot.answer(third), Some(true));
    }

    /// Two origins add to a sum, by the slot, or directly if they take the operation back. Nothing
    /// is lost or done twice.
    #[test]
    fn what_is_posted_is_done_once() {
        const ROUNDS: u64 = 20_000;
        let (slot, sum, over) = (Slot::default(), AtomicU64::new(0), AtomicUsize::new(0));
        let by_slot = |add: u64, looks: u64| {
            let Some(claim) = slot.claim() else { return false };
            slot.sent.store(add, Ordering::Relaxed);
            slot.post(claim);
            let mut look = 0;
            let done = loop {
                match slot.answer(claim) {
                    Some(done) => break done,
                    None if look == looks && slot.take_back(claim) => break false,
                    None => look += 1,
                }
                std::thread::yield_now();
            };
            slot.give_back(claim);
            done
        };
        let origin = |number: u64| {
            for round in 1..=ROUNDS {
                if !by_slot(round * number, round % 40) {
                    sum.fetch_add(round * number, Ordering::Relaxed);
                }
            }
            over.fetch_add(1, Ordering::Release);
        };
        let serve = || {
            let mut served = 0_u64;
            while over.load(Ordering::Acquire) < 2 {
                let Some(claim) = slot.take() else {
                    std::thread::yield_now();
                    continue;
                };
                served += 1;
                let does = served % 5 > 0;
                if does {
                    sum.fetch_add(slot.sent.load(Ordering::Relaxed), Ordering::Relaxed);
                }
                slot.tell(claim, does);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| origin(1));
            scope.spawn(|| origin(3));
            scope.spawn(serve);
            scope.spawn(serve);
        });
        assert_eq!(sum.into_inner(), 4 * ROUNDS * (ROUNDS + 1) / 2);
    }
}
