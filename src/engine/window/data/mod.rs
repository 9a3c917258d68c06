//! Put, get and accumulate on memory that is mapped here, and their parts: layouts, elements,
//! reductions.

pub(crate) mod atomicity;
pub mod data;
pub mod datatype_layout;
pub mod exclusive_bulk;
pub(crate) mod fast_path;
pub(crate) mod gather;
#[cfg(target_arch = "x86_64")]
pub(crate) mod long_double;
pub mod reduce;
pub(crate) mod simd;
pub(crate) mod single_element;
pub(crate) mod thread_lane;
