//! Streams: chunks from a hub to a hub in another process. `send` and `receive` are the two ends,
//! `registry` has the streams of a worker.

pub(crate) mod protocol;
pub(crate) mod receive;
pub(crate) mod registry;
pub(crate) mod send;
#[cfg(test)]
mod several_streams_tests;
pub(crate) mod slot;
pub(crate) mod stream;
#[cfg(test)]
pub(crate) mod stream_tests;
