//! UCX, set up once in a process: version, configuration, contexts, registered memory, and the CUDA
//! driver.
//!
//! Uses `base` and `os`. Begin with `context`. Nothing here knows workers or protocols.

pub(crate) mod config;
pub mod context;
pub(crate) mod context_dump;
#[cfg_attr(not(feature = "cuda"), path = "no_cuda_driver.rs")]
pub(crate) mod cuda_driver;
#[cfg(all(test, feature = "cuda"))]
pub(crate) mod cuda_driver_tests;
pub(crate) mod deferred_destroy;
pub(crate) mod key_segment;
pub(crate) mod memory_type;
pub mod packed_key;
pub(crate) mod printed;
pub mod registered_memory;
pub mod runtime;
