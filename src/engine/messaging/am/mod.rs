//! Active messages: sent by `send`, by `fast_path` where nothing is in the way; `fast_receive` is
//! its other end.
//!
//! `multi` carries several buffers; `queue` is the receive form, where the receiver names buffers
//! before messages come.

pub(crate) mod fast_path;
pub mod multi;
pub(crate) mod protocol;
pub mod queue;
pub(crate) mod queue_callbacks;
pub mod send;
