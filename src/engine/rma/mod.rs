//! Put, get and atomic operations at a peer's registered memory. Uses `core` and below; begin with
//! `put_get`.

pub mod atomic;
pub(crate) mod protocol;
pub mod put_get;
pub mod remote_key;
