//! What threads of the library do to each other, under the model checker: every order in which a
//! few threads can take a few steps.
//!
//!     RUSTFLAGS="--cfg loom" cargo test --release --test models
//!
//! The files under test are the engine's own. What they stand on (atomics, locks, the bounded
//! queue, sleeping on a word) is loom's, or a stand-in made of it.
#![cfg(loom)]
#![allow(missing_docs)]

mod engine;

mod bulk;
mod control;
mod fast_box;
mod handover;
mod hub;
mod hub_lane;
mod hub_plain;
mod notifier;
mod request;
mod ring;
mod sleep;
mod standing;
mod waiting;
mod window_lock;
mod window_turns;

use loom::sync::{Condvar, Mutex};

/// Orders with up to three preemptions are tried, which finds what real bugs take: three threads
/// have too many orders to try all of them. LOOM_MAX_PREEMPTIONS overrules.
fn model(check: impl Fn() + Send + Sync + 'static) {
    bounded_model(3, check);
}

/// The same with another bound, where there are more threads or steps.
fn bounded_model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(check);
}

/// Stands in for a descriptor: sleeping on it returns once it is readable.
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
