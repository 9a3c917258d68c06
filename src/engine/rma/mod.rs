//! Put, get and atomic operations on a peer's registered memory. Uses `core` and the floors below;
//! start with `put_get`.

pub mod atomic;
pub(crate) mod protocol;
pub mod put_get;
pub mod remote_key;
