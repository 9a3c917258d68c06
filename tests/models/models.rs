//! Interactions of the library's threads under the model checker loom: every order in which a few
//! threads can take a few steps.
//!
//!     cd tests/models; RUSTFLAGS="--cfg loom" cargo test --release
//!
//! The files under test are the engine's own. Atomics, locks, the bounded queue and futexes below
//! them are loom's, or replacements built on those.
#![cfg(loom)]

mod engine;

mod bulk;
mod control;
mod fast_box;
mod handover;
mod hub;
mod hub_plain;
mod hub_queue_pair;
mod notifier;
mod request;
mod ring;
mod sleep;
mod standing;
mod waiting;
mod window_lock;
mod window_turns;

use loom::sync::{Condvar, Mutex};

/// Tries orders with up to three preemptions, which is what real bugs need: three threads have too
/// many orders to try all. LOOM_MAX_PREEMPTIONS overrides it.
fn model(check: impl Fn() + Send + Sync + 'static) {
    bounded_model(3, check);
}

/// The same with another bound, for models with more threads or steps.
fn bounded_model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(check);
}

/// Replaces a descriptor: a sleep on it returns once it is readable.
#[derive(Default)]
struct Bell {
    readable: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.readable.lock().unwrap() = true;
        self.changed.notify_all();
    }

    fn silence(&self) {
        *self.readable.lock().unwrap() = false;
    }

    fn is_readable(&self) -> bool {
        *self.readable.lock().unwrap()
    }

    fn sleep(&self) {
        let mut readable = self.readable.lock().unwrap();
        while !*readable {
            readable = self.changed.wait(readable).unwrap();
        }
    }
}
