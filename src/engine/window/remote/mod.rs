//! Window operations by messages: the origin requests them (`origin`), the target executes them
//! (`target`, `execute`).
//!
//! `outstanding` has the replies that are awaited, `rendezvous` transfers what is too long for a
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
