//! An endpoint: connecting, what is under way on it, closing, and the death of its peer.
//!
//! `life` has the states that one goes through. `connect` and `listener` make one, `handshake`
//! tells both sides who they are, `flush` and `close` end what is under way, `failure` and
//! `process_watch` notice a peer that has died, `send_window` and `credits` hold a fast sender
//! back.

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
pub mod params;
pub(crate) mod parked_endpoints;
pub mod peer;
pub(crate) mod process_watch;
pub mod send_window;
pub(crate) mod socket_empty;
pub(crate) mod status;
pub mod traffic;
pub(crate) mod transitions;
pub(crate) mod writable;
