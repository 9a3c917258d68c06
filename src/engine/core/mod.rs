//! What all kinds of communication share: requests, workers, endpoints, and the library's own
//! message channel; and the monitor, which looks at them from outside.
//!
//! Uses the floors below. Its folders are one subsystem, and use each other. Start with
//! `request::request` (what an operation is), `worker::gate` (which thread may use a worker), and
//! `worker::progress` (what a pass does).

pub mod channel;
pub mod endpoint;
pub mod monitor;
pub mod request;
pub(crate) mod trace;
pub mod worker;
