//! Small numbers for threads, so that each has its own place in a small array of its process.
#![deny(unsafe_code)]

use crate::engine::window::data::exclusive_bulk::SHARED;
use std::sync::{Mutex, PoisonError};

/// Lanes that no thread of this process has.
static FREE: Mutex<[bool; SHARED]> = Mutex::new([true; SHARED]);

/// A thread's lane, released when the thread ends.
struct Lane(usize);

impl Lane {
    fn take() -> Self {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let lane = free.iter().position(|free| *free).unwrap_or(SHARED);
        if lane < SHARED {
            free[lane] = false;
        }
        Lane(lane)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.0 < SHARED {
            FREE.lock().unwrap_or_else(PoisonError::into_inner)[self.0] = true;
        }
    }
}

thread_local! {
    static LANE: Lane = Lane::take();
}

/// The calling thread's lane. No other thread has it, unless it is `SHARED`, which threads get when
/// there is no free lane.
#[inline]
pub(crate) fn own() -> usize {
    // An ending thread no longer has a lane of its own.
    LANE.try_with(|lane| lane.0).unwrap_or(SHARED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_own_while_there_are_some() {
        let all = std::sync::Barrier::new(SHARED + 4);
        let mut lanes: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..SHARED + 4)
                .map(|_| {
                    scope.spawn(|| {
                        let lane = own();
                        assert_eq!(lane, own());
                        all.wait();
                        lane
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        lanes.retain(|lane| *lane != SHARED);
        let taken = lanes.len();
        lanes.sort_unstable();
        lanes.dedup();
        assert!(taken <= SHARED && lanes.len() == taken);
    }
}
