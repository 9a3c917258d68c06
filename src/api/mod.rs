//! The Rust interface: safe handles over the engine, and operations as futures.
//!
//! - `request.rs` has what all operations share: where a buffer lives while UCX uses it.
//! - `mailbox.rs` has how tasks and threads wait for what arrives by callbacks.
//! - The other files have one kind of object each.
//!
//! It knows nothing of the C surface. Where it calls the engine's `unsafe` functions, the promise
//! is always the same one: see `request.rs`.

pub(crate) mod context;
pub(crate) mod endpoint;
pub(crate) mod fetch;
pub(crate) mod hub;
pub(crate) mod listener;
mod mailbox;
pub(crate) mod memory;
pub(crate) mod message;
pub(crate) mod request;
pub(crate) mod stream;
pub(crate) mod tag;
pub(crate) mod worker;

use crate::engine::base::status::{Error, Status};
use crate::engine::core::worker::deferred_end;
use std::io;
use std::time::Duration;

/// Calls what may run callbacks. Then ends the workers that callbacks on this thread have dropped.
pub(crate) fn calling<T>(f: impl FnOnce() -> T) -> T {
    let result = f();
    if deferred_end::may_have_doomed() {
        deferred_end::end_doomed();
    }
    result
}

/// A time limit of the engine: what is too long for it has no end.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// `Debug` for handles: the name of the type.
macro_rules! opaque {
    ($($type:ident $(<$($parameter:ident),+>)?)+) => {$(
        impl$(<$($parameter),+>)? std::fmt::Debug for $type$(<$($parameter),+>)? {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).finish_non_exhaustive()
            }
        }
    )+};
}
pub(crate) use opaque;

impl From<Error> for io::Error {
    /// The kind that is nearest to the status. The error itself is the source.
    fn from(error: Error) -> Self {
        let kind = match error.status() {
            Status::CANCELED => io::ErrorKind::Interrupted,
            Status::TIMED_OUT | Status::ENDPOINT_TIMEOUT => io::ErrorKind::TimedOut,
            Status::CONNECTION_RESET | Status::PEER_FAILED => io::ErrorKind::ConnectionReset,
            Status::NOT_CONNECTED | Status::CLOSED => io::ErrorKind::NotConnected,
            Status::REJECTED | Status::UNREACHABLE => io::ErrorKind::ConnectionRefused,
            Status::INVALID_PARAM | Status::INVALID_ADDR => io::ErrorKind::InvalidInput,
            Status::NO_MEMORY => io::ErrorKind::OutOfMemory,
            Status::NO_RESOURCE | Status::BUSY => io::ErrorKind::WouldBlock,
            Status::UNSUPPORTED | Status::NOT_IMPLEMENTED => io::ErrorKind::Unsupported,
            Status::MESSAGE_TRUNCATED => io::ErrorKind::InvalidData,
            Status::NO_ELEM => io::ErrorKind::NotFound,
            Status::ALREADY_EXISTS => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
