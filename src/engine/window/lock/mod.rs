//! The lock of a window's member, in shared memory: shared and exclusive, without a process that
//! serves it.

pub mod rw_lock;
