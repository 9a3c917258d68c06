//! Counts the threads that sleep until a hub has something for them, for people who look at the hub
//! meanwhile.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One side of a hub: readers, or producers.
#[derive(Default)]
struct Side {
    count: AtomicU32,
    /// When the first of them began to sleep.
    since: AtomicU64,
}

/// The two sides, with the numbers of `hub::waiters`.
#[derive(Default)]
pub(crate) struct Sleepers([Side; 2]);

/// A thread that sleeps, or wakes from time to time to look.
pub(crate) struct Sleeper<'a>(&'a Side);

impl Sleepers {
    pub(crate) fn enter(&self, side: usize) -> Sleeper<'_> {
        let side = &self.0[side];
        if side.count.fetch_add(1, Ordering::Relaxed) == 0 {
            side.since.store(clock::now_ns(), Ordering::Relaxed);
        }
        Sleeper(side)
    }

    /// How many threads sleep, and since when the first of them does.
    pub(crate) fn of(&self, side: usize) -> (u32, u64) {
        let side = &self.0[side];
        (side.count.load(Ordering::Relaxed), side.since.load(Ordering::Relaxed))
    }
}

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}
