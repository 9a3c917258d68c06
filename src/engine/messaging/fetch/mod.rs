//! Fetch: a request to a peer, whose reply goes directly into the caller's buffer.
//!
//! The code calls a received request a question, and a reply an answer. `request` sends requests,
//! `reply` answers them, `answer` receives the replies, `pending_table` has the fetches in flight,
//! and `fast_path` handles the usual case.

pub(crate) mod answer;
pub(crate) mod fast_path;
pub(crate) mod pending_table;
pub(crate) mod protocol;
pub mod reply;
pub mod request;
