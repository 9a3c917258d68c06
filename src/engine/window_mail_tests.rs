//! Tests of `window_mail`: the slot, without a window.

use super::*;
use crate::engine::test_random::Random;
use std::sync::atomic::AtomicU64;

/// All zero, as in a segment.
fn slot() -> Box<Slot> {
    // SAFETY: atomics and bytes, for which zero is a value.
    Box::new(unsafe { std::mem::MaybeUninit::<Slot>::zeroed().assume_init() })
}

fn errand(what: What, op: Reduce, kind: ElementType, bytes: usize) -> Errand {
    Errand { what, op, kind, at: 77, bytes, second: bytes == MOST }
}

#[test]
fn an_errand_is_what_was_written_or_none() {
    for errand in [
        errand(What::Put, Reduce::NoOp, ElementType::Byte, MOST),
        errand(What::Fetch, Reduce::Maxloc, ElementType::Int64Int, 32),
        errand(What::Swap, Reduce::NoOp, ElementType::Uint16, 2),
    ] {
        assert_eq!(Errand::decode(errand.encode(), 77), Some(errand));
    }
    for wrong in [
        errand(What::Put, Reduce::NoOp, ElementType::Byte, MOST + 1),
        errand(What::Accumulate, Reduce::Sum, ElementType::Double, 12),
        errand(What::Swap, Reduce::NoOp, ElementType::Uint16, 4),
        errand(What::Lock, Reduce::NoOp, ElementType::Byte, 1),
    ] {
        assert_eq!(Errand::decode(wrong.encode(), 77), None, "{wrong:?}");
    }
    let mut random = Random::announced();
    for _ in 0..100_000 {
        if let Some(errand) = Errand::decode(random.next(), 0) {
            assert!(errand.bytes <= MOST && errand.sent() <= 2 * MOST, "{errand:?}");
        }
    }
}

#[test]
fn a_claim_is_one_origins() {
    let slot = slot();
    let first = slot.claim().unwrap();
    assert!(slot.claim().is_none());
    assert!(slot.answer(first).is_none() && !slot.take(first, phase::TAKEN));
    slot.word.store(first.with(phase::POSTED), Ordering::Release);
    assert!(slot.take(first, phase::BACK) && !slot.take(first, phase::TAKEN));
    let second = slot.renew(first);
    assert!(slot.claim().is_none() && !slot.take(second, phase::TAKEN));
    slot.word.store(second.with(phase::POSTED), Ordering::Release);
    assert!(!slot.take(first, phase::TAKEN) && slot.take(second, phase::BACK));
    slot.give_back(second);
    let second = slot.claim().unwrap();
    slot.word.store(second.with(phase::POSTED), Ordering::Release);
    assert!(!slot.take(first, phase::TAKEN) && slot.take(second, phase::TAKEN) && !slot.take(second, phase::BACK));
    slot.answer.store(second.with(phase::REFUSED), Ordering::Release);
    assert!(slot.answer(first).is_none() && slot.answer(second) == Some(false));
    slot.answer.store(second.with(phase::DONE), Ordering::Release);
    assert_eq!(slot.answer(second), Some(true));
}

/// Two origins add to a sum, each by the slot or, where it takes that back, by itself. Nothing is lost, or done twice.
#[test]
fn what_is_posted_is_done_once() {
    const ROUNDS: u64 = 20_000;
    let (slot, sum, over) = (Shared(slot()), AtomicU64::new(0), AtomicUsize::new(0));
    let origin = |number: u64| {
        for round in 1..=ROUNDS {
            let add = round * number;
            let claim = match slot.get().claim() {
                Some(claim) => claim,
                None => {
                    sum.fetch_add(add, Ordering::Relaxed);
                    continue;
                }
            };
            slot.get().at.store(add, Ordering::Relaxed);
            slot.get().word.store(claim.with(phase::POSTED), Ordering::Release);
            let looks = round % 40;
            let mut look = 0;
            let done = loop {
                match slot.get().answer(claim) {
                    Some(done) => break done,
                    None if look == looks && slot.get().take(claim, phase::BACK) => break false,
                    None => look += 1,
                }
                std::thread::yield_now();
            };
            if !done {
                sum.fetch_add(add, Ordering::Relaxed);
            }
            slot.get().give_back(claim);
        }
        over.fetch_add(1, Ordering::Release);
    };
    let serve = || {
        let mut served = 0_u64;
        while over.load(Ordering::Acquire) < 2 {
            let word = slot.get().word.load(Ordering::Relaxed);
            let claim = Claim(word >> phase::BITS);
            if word != claim.with(phase::POSTED) || !slot.get().take(claim, phase::TAKEN) {
                std::thread::yield_now();
                continue;
            }
            served += 1;
            let refuses = served % 5 == 0;
            if !refuses {
                sum.fetch_add(slot.get().at.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            let phase = if refuses { phase::REFUSED } else { phase::DONE };
            slot.get().answer.store(claim.with(phase), Ordering::Release);
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

struct Shared(Box<Slot>);

// SAFETY: its atomics alone are used.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(&self) -> &Slot {
        &self.0
    }
}

#[test]
fn whoever_is_not_served_tries_less_often() {
    let pause = Pause::default();
    let tries = |times: u32| (0..times).filter(|_| pause.is_over(8)).inspect(|_| pause.was_not_served()).count();
    assert_eq!(tries(4), 2);
    assert!(tries(10 * LONGEST_PAUSE) < 20);
    while !pause.is_over(8) {}
    pause.was_not_served();
    assert!(!pause.is_over(LONGEST_PAUSE as usize * ONE_OF_PAUSE) && pause.is_over(8));
    pause.was_served();
    assert!(pause.is_over(8) && pause.is_over(8));
}

#[test]
fn a_target_learns_of_what_is_much_and_goes_another_way() {
    let slot = slot();
    slot.goes_another_way(MOST);
    assert_eq!(slot.about(), 0);
    slot.goes_another_way(MOST + 1);
    assert_eq!(slot.about(), 1);
}
