//! A worker: its gate, its passes, its progress thread, and how other threads wait for it or wake
//! it.
//!
//! - `worker`: the two views of a worker. `gate`: which thread is inside.
//! - `progress`, `deferred`: a pass, and what it does after UCP's progress.
//! - `progress_thread`, `thread_state`, `takeover`: the progress thread, and threads that act for
//!   it.
//! - `submission_ring`, `remote_call`, `control_list`: hand work to the thread that may call UCP.
//! - `wait`, `wakeup`, `event_loop`: the three ways to sleep.
//! - `protocol`: the tables of the protocols above the core.
//! - `stats`, `metrics`: its counters, and their text for monitoring.
//! - `shutdown`, `deferred_end`: the end.
//! - `dump`, `inquiry`: what a worker does, for people, asked from inside and from the monitor.

pub(crate) mod attention;
pub(crate) mod callback_depth;
pub(crate) mod control_list;
pub mod create;
pub mod deferred;
pub mod deferred_end;
pub(crate) mod dump;
pub(crate) mod event_loop;
pub mod gate;
pub(crate) mod inquiry;
pub(crate) mod inward;
pub(crate) mod latency;
pub(crate) mod metrics;
pub(crate) mod own_address;
pub(crate) mod progress;
pub mod progress_thread;
pub mod protocol;
pub mod remote_call;
pub mod request_wait;
pub(crate) mod shutdown;
pub(crate) mod sleep_flag;
pub mod stats;
pub(crate) mod stuck_descriptor;
mod subject;
pub mod submission_ring;
pub(crate) mod takeover;
#[cfg(test)]
pub(crate) mod test_workers;
pub(crate) mod thread_state;
pub mod wait;
pub(crate) mod wake_hint;
pub mod wakeup;
pub mod worker;
