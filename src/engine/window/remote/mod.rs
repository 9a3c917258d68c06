//! Windows' operations by messages: the origin asks (`origin`), the target executes (`target`,
//! `execute`).
//!
//! `outstanding` counts what has not been answered, `rendezvous` carries what is too long for a
//! message.

pub(crate) mod blocked_queue;
pub(crate) mod execute;
pub(crate) mod orders;
pub(crate) mod origin;
pub mod outstanding;
pub(crate) mod remote;
pub(crate) mod rendezvous;
pub(crate) mod shipment;
pub(crate) mod target;
