//! Hubs: queues of chunks in envelopes, which are leased and released, across host and GPU memory.
//!
//! Uses `core`, `messaging::tag` and below. Begin with `hub`, `link` (one user's access), `lease`
//! (which request gets what), `state`.

pub(crate) mod cuda;
pub(crate) mod describe;
pub mod envelope;
pub mod hub;
pub(crate) mod lease;
pub(crate) mod lease_end;
pub mod lease_many;
pub mod link;
pub mod lockfree;
pub mod memory;
pub(crate) mod metrics;
#[cfg(test)]
mod model;
pub mod ready;
pub mod records;
pub(crate) mod sleepers;
pub(crate) mod starvation;
pub mod state;
pub mod stream;
pub mod tag_io;
pub(crate) mod transfer;
#[cfg(test)]
pub(crate) mod transfer_tests;
pub mod wait;
pub(crate) mod waiters;
