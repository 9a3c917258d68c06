//! Pauses for a thread that finds nothing to do and must not sleep.
//!
//! UCX refuses to be armed while its own sends wait for room at a peer, and no event reports that
//! room. So the thread can only poll. If processors are short, polling keeps the peer from running.
//! So the thread first yields, and after a while naps between polls. `core` calls this from the
//! wait loops of workers.
#![deny(unsafe_code)]

use std::cell::Cell;
use std::time::Duration;

/// Accessed only inside the worker's gate.
#[derive(Default)]
pub(crate) struct BackOff {
    /// Number of refused attempts to arm since a pass last had work, or a thread could sleep.
    refused: Cell<u32>,
}

/// What the thread does, outside the gate, before it polls again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pause {
    Nothing,
    Yield,
    Nap(Duration),
}

impl BackOff {
    /// Together longer than a running peer needs to empty a full queue.
    const YIELDS: u32 = 64;
    const FIRST_NAP: Duration = Duration::from_micros(25);
    const DOUBLINGS: u32 = 3;

    /// A pass had work, or a thread sleeps: starts again with the shortest pause.
    #[inline(always)]
    pub(crate) fn end(&self) {
        self.refused.set(0);
    }

    /// Arming was refused. The first refusal needs no pause: it usually means that the event that
    /// woke the thread is still unread.
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

#[cfg(test)]
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
