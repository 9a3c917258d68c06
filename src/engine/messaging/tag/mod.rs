//! Tag messages: plain and scattered (`tag`, `fast_path`), probed (`probe`), and several buffers in
//! one call (`multi_*`).

pub mod fast_path;
pub(crate) mod multi_common;
pub(crate) mod multi_recv;
pub(crate) mod multi_send;
pub mod probe;
pub(crate) mod protocol;
pub mod tag;
