//! How long operations take, by kind, if the environment asks for it.
//!
//! Measured workers have no fast path, whose operations would be too short to read the clock for.
//! All others pay one branch when an operation begins, and one when it ends.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::counters::Counter;
use crate::engine::base::open_metrics::Metric;
use crate::engine::base::status::Status;
use crate::engine::core::request::operation_kind::{Kind, NAMES};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use std::sync::OnceLock;

/// The environment variable that asks for it with 1.
const SWITCH: &str = "UCXX_RS_METRICS_LATENCY";

/// Upper bounds of the buckets, in seconds: powers of 4 microseconds.
const BOUNDS: [&str; 12] = [
    "1e-06", "4e-06", "1.6e-05", "6.4e-05", "0.000256", "0.001024", "0.004096", "0.016384",
    "0.065536", "0.262144", "1.048576", "4.194304",
];

/// One place more, for what is longer.
#[derive(Default)]
struct Histogram {
    buckets: [Counter; BOUNDS.len() + 1],
    sum_ns: Counter,
}

/// Written inside the worker's gate.
#[derive(Default)]
pub(crate) struct Latency([Histogram; Kind::COUNT]);

fn bucket_of(ns: u64) -> usize {
    let mut bound = 1000;
    let mut bucket = 0;
    while bucket < BOUNDS.len() && ns > bound {
        bound *= 4;
        bucket += 1;
    }
    bucket
}

impl Latency {
    /// For a new worker.
    pub(crate) fn if_wanted() -> Option<Box<Self>> {
        static WANTED: OnceLock<bool> = OnceLock::new();
        let wanted = || std::env::var_os(SWITCH).is_some_and(|set| set == "1");
        WANTED.get_or_init(wanted).then(Box::default)
    }

    fn note(&self, kind: Kind, ns: u64) {
        let histogram = &self.0[kind as usize];
        histogram.buckets[bucket_of(ns)].add(1);
        histogram.sum_ns.add(ns);
    }
}

impl Worker {
    /// When an operation that begins now has begun. A coarse time is enough for a dump.
    #[inline(always)]
    pub(crate) fn begins_at(&self) -> u64 {
        match self.latency {
            None => self.coarse_now.get(),
            Some(_) => exact_now(),
        }
    }

    /// The operation has completed with this status, on a worker that measures.
    pub(crate) fn note_latency(&self, slot: &Slot, status: Status) {
        if let (Some(latency), Status::OK) = (&self.latency, status) {
            latency.note(slot.kind.get(), clock::now_ns().saturating_sub(slot.started.get()));
        }
    }
}

#[cold]
#[inline(never)]
fn exact_now() -> u64 {
    clock::now_ns()
}

pub(crate) static METRICS: &[Metric<SharedWorker>] = &[Metric::histogram(
    "ucxx_worker_operation_seconds",
    "Time from the submission of an operation to its completion with UCXX_OK, if the environment \
    has UCXX_RS_METRICS_LATENCY=1. Operations that were done inside their call are left out.",
    |worker, samples| {
        let Some(Latency(kinds)) = worker.latency() else { return };
        for (name, of) in NAMES {
            let sum = |count: &dyn Fn(&Histogram) -> u64| -> u64 {
                of.iter().map(|kind| count(&kinds[*kind as usize])).sum()
            };
            let counts: [u64; BOUNDS.len() + 1] =
                std::array::from_fn(|bucket| sum(&|histogram| histogram.buckets[bucket].get()));
            if counts.iter().any(|count| *count > 0) {
                let total = sum(&|histogram| histogram.sum_ns.get());
                samples.buckets(&[("operation", name)], &BOUNDS, &counts, total);
            }
        }
    },
)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_has_its_bucket() {
        for (place, bound) in BOUNDS.iter().enumerate() {
            let ns = (bound.parse::<f64>().unwrap() * 1e9).round() as u64;
            assert_eq!((bucket_of(ns), bucket_of(ns + 1)), (place, place + 1));
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX)), (0, BOUNDS.len()));
    }
}
