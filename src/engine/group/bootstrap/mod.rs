//! How the members of a group meet: by a launcher's environment, TCP, PMIx, or the caller's own
//! allgather.
//!
//! Begin with `bootstrap`, whose trait each of them implements.

pub mod bootstrap;
#[cfg(test)]
pub(crate) mod bootstrap_tests;
pub mod launcher_env;
pub(crate) mod pmix;
pub(crate) mod tcp;
pub(crate) mod tcp_connection;
pub(crate) mod tcp_member;
pub(crate) mod tcp_root;
pub(crate) mod tcp_socket;
