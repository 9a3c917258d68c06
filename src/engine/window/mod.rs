//! One-sided windows after MPI: creation, epochs, locks and synchronisation.
//!
//! Uses `group`, `rma` and below. Begin with `window`, then `access`: how this process reaches a
//! member's memory.

pub(crate) mod access;
pub mod control_words;
pub(crate) mod counts;
pub mod create;
pub mod data;
pub mod delegation;
pub(crate) mod describe;
pub mod epoch;
pub mod lock;
pub(crate) mod lock_request;
pub(crate) mod mapped_key;
pub(crate) mod metrics;
pub(crate) mod pending_requests;
pub(crate) mod protocol;
pub mod remote;
pub(crate) mod store_fence;
pub(crate) mod sync;
pub mod window;
