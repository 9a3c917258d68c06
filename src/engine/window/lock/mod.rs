//! The lock of a window's member, in shared memory: shared and exclusive, without a serving
//! process.

pub mod lock_memory;
pub mod rw_lock;
