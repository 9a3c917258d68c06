//! What a thread does that finds nothing to do and may not sleep.
//!
//! UCX cannot be armed while sends of its own wait for room at a peer that does not take them in,
//! and no event tells of that room. So a thread can only look again and again. Where processors are
//! short that keeps the peer from running, so it lets others run, and after a while looks less and
//! less often.
#![deny(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

/// Belongs to whoever is inside the worker's gate.
#[derive(Default)]
pub(crate) struct BackOff {
    /// How often arming was refused since there was something to do, or a thread could sleep.
    refused: Cell<u32>,
}

/// For a thread to do before it looks again, outside the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    Nothing,
    Yield,
    Nap(Duration),
}

impl BackOff {
    /// Longer than a peer that runs takes for a queue's length.
    const YIELDS: u32 = 64;
    const FIRST_NAP: Duration = Duration::from_micros(25);
    const DOUBLINGS: u32 = 3;

    /// There was something to do, or a thread sleeps.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.refused.set(0);
    }

    /// Arming was refused. The first time tells nothing: that takes in the event for which a thread
    /// is awake.
    pub(crate) fn pause(&self) -> Pause {
        let refused = self.refused.get();
        self.refused.set(refused.saturating_add(1));
        match refused {
            0 => Pause::Nothing,
            1..=Self::YIELDS => Pause::Yield,
            _ => Pause::Nap(
                Self::FIRST_NAP * (1 << (refused - Self::YIELDS - 1).min(Self::DOUBLINGS)),
            ),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn yields_and_naps_longer_and_longer_until_there_is_something_to_do() {
        let back_off = BackOff::default();
        for _ in 0..2 {
            assert_eq!(back_off.pause(), Pause::Nothing);
            for _ in 0..BackOff::YIELDS {
                assert_eq!(back_off.pause(), Pause::Yield);
            }
            let naps = [25, 50, 100, 200, 200, 200]
                .map(|micros| Pause::Nap(Duration::from_micros(micros)));
            assert_eq!([(); 6].map(|()| back_off.pause()), naps);
            back_off.end();
        }
    }
}
