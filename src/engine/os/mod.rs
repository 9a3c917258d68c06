//! Linux: huge pages, fork, process identity, shared segments, limits of the system.
//!
//! Uses `base`. Begin with `process_identity`: how one process identifies another, and checks
//! whether it still lives.

pub(crate) mod event_fd;
pub(crate) mod fork;
pub(crate) mod huge_pages;
pub(crate) mod own_memory;
pub(crate) mod process_identity;
pub(crate) mod random;
pub(crate) mod readable;
pub(crate) mod resource_limits;
pub(crate) mod scheduling;
pub mod shared_segment;
pub mod socket_address;
pub(crate) mod thread_text;
pub(crate) mod trace;
mod trace_file;
