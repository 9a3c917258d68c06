//! Endpoints: connecting, operations in flight, closing, and the failure of the peer.
//!
//! - `endpoint`: the two views of an endpoint. `life` and `life_states`: its state machines.
//! - `connect`, `listener`: by host and port. `handshake`: the first messages between two
//!   endpoints.
//! - `send_window`, `credits`, `admission`: limit how much a sender may have in flight.
//! - `flush`, `close`, `goodbye`, `transitions`: the way to the end.
//! - `failure`, `process_watch`, `liveness`: detect a peer that has failed.
//! - `waits`: what an endpoint waits for, for people.
//! - `native`: UCP's handles, for the caller.

pub(crate) mod admission;
pub(crate) mod close;
pub(crate) mod connect;
pub(crate) mod credits;
pub mod endpoint;
pub(crate) mod failure;
pub(crate) mod flush;
pub(crate) mod goodbye;
pub(crate) mod handshake;
pub(crate) mod life;
pub(crate) mod life_states;
pub mod listener;
pub(crate) mod listener_sockets;
pub(crate) mod liveness;
pub(crate) mod metrics;
pub(crate) mod native;
pub mod params;
pub(crate) mod parked_endpoints;
pub mod peer;
pub(crate) mod process_watch;
pub mod send_window;
pub(crate) mod socket_empty;
pub(crate) mod status;
pub mod traffic;
pub(crate) mod transitions;
pub(crate) mod waits;
pub(crate) mod writable;
