//! Active messages. `send` sends them; `fast_path` does it in the usual case.
//!
//! `multi` carries several buffers. `queue` is the receive form, where the receiver posts buffers
//! before messages arrive; `queue_callbacks` are its handlers by name.

pub(crate) mod fast_path;
pub mod multi;
pub(crate) mod protocol;
pub mod queue;
pub(crate) mod queue_callbacks;
pub mod send;
