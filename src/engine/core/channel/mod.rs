//! The library's own ordered messages between two endpoints, over UCP's active messages or shared
//! memory.
//!
//! `dispatch` gives each message to what its kind asks for, `receive` takes users' messages in,
//! `reorder` restores their order, `shm_channel` is the short way between processes of one host.

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
