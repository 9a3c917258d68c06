//! Groups of processes that were started together: how they meet, a worker of their own, and
//! collectives.
//!
//! Uses `core` and below. Begin with `group`, then `service` (the worker that carries a group's own
//! messages).

pub mod bootstrap;
pub(crate) mod collective;
pub(crate) mod collective_transfer;
pub(crate) mod describe;
pub mod group;
pub(crate) mod mailbox;
pub(crate) mod metrics;
pub(crate) mod service;
pub(crate) mod service_connection;
pub(crate) mod service_end;
mod subject;
