//! The lock of a window's member, in shared memory: shared and exclusive, without a process that
//! serves it.

pub mod lock_memory;
pub mod rw_lock;
