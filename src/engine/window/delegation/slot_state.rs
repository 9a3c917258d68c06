//! Who may do what with a slot in which something is handed over to another process: see
//! `window::delegation::delegation`, and `window::delegation::slot` for what stands there.
//!
//! An origin claims the slot, which gives its turn a number, puts there what it wants, and posts
//! it. One word settles who executes: the target takes what was posted, or the origin takes it
//! back. What was taken is answered, and then the origin gives the slot back, or renews its claim
//! and posts the next. What was posted belongs to the target from its taking to its answer, and to
//! the origin at all other times of its turn.
//!
//! Each of the three words stands on a cache line with what the same side writes, or alone. All of
//! it is zero at the beginning.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::sync::{AtomicU64, Ordering};

/// What the word and the answer say of a turn, beside its number.
mod phase {
    pub(crate) const BITS: u32 = 2;
    /// Of the word.
    pub(crate) const BACK: u64 = 0;
    pub(crate) const POSTED: u64 = 1;
    pub(crate) const TAKEN: u64 = 2;
    /// Of the answer.
    pub(crate) const DONE: u64 = 1;
    pub(crate) const REFUSED: u64 = 2;
}

/// See the module. `Sent` is what the origin writes that little is of, and `Answered` what the
/// target does.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Turns<Sent, Answered> {
    /// Odd while it belongs to an origin; the next number for the next one.
    claims: AtomicU64,
    pub(crate) sent: Sent,
    _origin_alone: CacheLine,
    word: AtomicU64,
    _word_alone: CacheLine,
    answer: AtomicU64,
    pub(crate) answered: Answered,
    _target_alone: CacheLine,
}

/// The number of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim(u64);

impl Claim {
    fn with(self, phase: u64) -> u64 {
        self.0 << phase::BITS | phase
    }
}

/// The origin.
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

    /// The next one of the same origin.
    pub(crate) fn renew(&self, claim: Claim) -> Claim {
        let next = claim.0.wrapping_add(2);
        self.claims.store(next, Ordering::Relaxed);
        Claim(next)
    }

    pub(crate) fn give_back(&self, claim: Claim) {
        self.claims.store(claim.0.wrapping_add(1), Ordering::Release);
    }

    /// What was put there is for the target.
    pub(crate) fn post(&self, claim: Claim) {
        self.word.store(claim.with(phase::POSTED), Ordering::Release);
    }

    /// False where the target has taken it.
    pub(crate) fn take_back(&self, claim: Claim) -> bool {
        self.settle(claim, phase::BACK)
    }

    /// What the target says of this turn, once it has said something: whether it was done.
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

/// The target.
impl<Sent, Answered> Turns<Sent, Answered> {
    /// What was posted, if there is something.
    #[inline]
    pub(crate) fn take(&self) -> Option<Claim> {
        let word = self.word.load(Ordering::Relaxed);
        let claim = Claim(word >> phase::BITS);
        (word == claim.with(phase::POSTED) && self.settle(claim, phase::TAKEN)).then_some(claim)
    }

    /// It was done, or refused with nothing done.
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

    /// Two origins add to a sum, each by the slot or, where it takes that back, by itself. Nothing
    /// is lost, or done twice.
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
