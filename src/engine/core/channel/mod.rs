//! The library's own ordered messages between two endpoints, over UCP's active messages or shared
//! memory.
//!
//! - `send`: writes the header, and gives a message to shared memory or UCP.
//! - `dispatch`, `receivers`: UCP's handlers, and which protocol gets which message.
//! - `receive`, `fast_receive`, `reorder`, `handler_table`: users' messages, in order, to their
//!   handlers.
//! - `message`, `receive_buffers`, `buffer_cache`: a received message, and memory for its data.
//! - `shm_channel`, `shm_ring`: the fast path between processes of one host.

pub(crate) mod buffer_cache;
pub(crate) mod dispatch;
pub(crate) mod fast_receive;
pub mod handler_table;
pub mod message;
pub(crate) mod receive;
pub mod receive_buffers;
pub(crate) mod receivers;
pub(crate) mod reorder;
pub(crate) mod send;
pub(crate) mod shm_channel;
#[cfg(test)]
pub(crate) mod shm_channel_tests;
pub(crate) mod shm_ring;
