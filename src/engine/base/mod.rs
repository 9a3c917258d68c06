//! Ground floor: statuses and errors, locks, atomics that publish something, queues, counters, the
//! clock.
//!
//! It knows neither UCX nor files nor sockets, and uses no other floor of the engine. Begin with
//! `status` (how everything fails) and `sync` (the locks and atomics that the models replace). Each
//! file whose data several threads share without a lock has a model in `tests/models`.

pub(crate) mod backoff;
pub(crate) mod cache_line;
pub(crate) mod callback_frame;
pub(crate) mod clock;
pub(crate) mod completion_queue;
pub(crate) mod condition;
pub mod counters;
pub(crate) mod event_count;
pub(crate) mod futex;
pub(crate) mod lasting;
#[cfg(debug_assertions)]
pub(crate) mod lockdep;
#[cfg(not(debug_assertions))]
pub(crate) mod lockdep {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
}
pub mod log;
pub(crate) mod log_filter;
pub(crate) mod log_repeats;
pub(crate) mod membarrier;
pub(crate) mod open_metrics;
pub(crate) mod permit_queue;
pub(crate) mod probe;
pub(crate) mod remote_free_list;
#[cfg(test)]
pub(crate) mod seed;
pub(crate) mod spin_lock;
pub(crate) mod split_counter;
pub mod status;
pub(crate) mod sync;
pub(crate) mod ticks;
pub(crate) mod uncancelled;
