//! Tests of the delegation slot, without a window.

use super::*;
use crate::engine::base::seed::Random;

/// All zero, as in a segment.
fn slot() -> Box<Slot> {
    // SAFETY: it consists of atomics and bytes, for which zero is valid.
    Box::new(unsafe { std::mem::MaybeUninit::<Slot>::zeroed().assume_init() })
}

fn errand(what: What, op: Reduce, kind: ElementType, bytes: usize) -> RemoteOp {
    RemoteOp { what, op, kind, at: 77, bytes, second: bytes == MOST }
}

#[test]
fn an_errand_is_what_was_written_or_none() {
    for errand in [
        errand(What::Put, Reduce::NoOp, ElementType::Byte, MOST),
        errand(What::Fetch, Reduce::Maxloc, ElementType::Int64Int, 32),
        errand(What::Swap, Reduce::NoOp, ElementType::Uint16, 2),
    ] {
        assert_eq!(RemoteOp::decode(errand.encode(), 77), Some(errand));
    }
    for wrong in [
        errand(What::Put, Reduce::NoOp, ElementType::Byte, MOST + 1),
        errand(What::Accumulate, Reduce::Sum, ElementType::Double, 12),
        errand(What::Swap, Reduce::NoOp, ElementType::Uint16, 4),
        errand(What::Lock, Reduce::NoOp, ElementType::Byte, 1),
    ] {
        assert_eq!(RemoteOp::decode(wrong.encode(), 77), None, "{wrong:?}");
    }
    let mut random = Random::announced();
    for _ in 0..100_000 {
        if let Some(errand) = RemoteOp::decode(random.next(), 0) {
            assert!(errand.bytes <= MOST && errand.sent() <= 2 * MOST, "{errand:?}");
        }
    }
}

#[test]
fn whoever_is_not_served_tries_less_often() {
    let pause = Pause::default();
    let tries = |times: u32| {
        (0..times).filter(|_| pause.is_over(8)).inspect(|_| pause.was_not_served()).count()
    };
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
    slot.bypass(MOST);
    assert_eq!(slot.about(), 0);
    slot.bypass(MOST + 1);
    assert_eq!(slot.about(), 1);
}
