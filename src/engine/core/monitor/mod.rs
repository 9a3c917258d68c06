//! The monitor: one thread of a process that looks at its workers and hubs from outside, for people
//! who want to know what the process does, or why it does nothing.
//!
//! It exists only if the environment asks for one of its services, and while there is something to
//! look at. Without it, nothing here costs more than a look at a flag when a worker is made.
//!
//! - `registry`: what there is to look at (`Watched`), and the thread's start and end.
//! - `service`: what a service is, the table of services, and the thread's loop.
//! - `text_server`: a listening socket whose clients get a text each; several services have one.
//! - `debug_socket`, `watchdog`: services.
//! - `wait_note`: where a thread that waits says for what.
//!
//! # Who owns what
//!
//! - The thread owns its services, and drops them at its end.
//! - The registry holds objects weakly. While the thread looks at them it holds them strongly, and
//!   `forget` waits for that. So the thread never holds the last reference, and never runs what the
//!   end of an object runs.
//! - The thread calls no user's callback but the log's.
//!
//! # The end
//!
//! The thread ends with the last object, or when the process exits. A forked child has no such
//! thread, and gets a registry of its own, with locks of its own.

pub(crate) mod debug_socket;
pub(crate) mod metrics;
pub mod registry;
pub(crate) mod service;
pub(crate) mod text_server;
pub(crate) mod wait_note;
pub(crate) mod watchdog;
