//! Fetch: a question to a peer, whose answer goes straight into the asker's buffer.
//!
//! `request` asks, `reply` answers, `answer` takes that in, `pending_table` knows which questions
//! are open, `fast_path` is the short way.

pub(crate) mod answer;
pub(crate) mod fast_path;
pub(crate) mod pending_table;
pub(crate) mod protocol;
pub mod reply;
pub mod request;
