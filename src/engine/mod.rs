//! The engine: all behaviour, in Rust, on top of UCP. It exports no C symbol.
//!
//! Ten floors, from the ground up. A floor uses those below it, never one above:
//! `tests/layering.rs` refuses an arrow that runs up. Read from the top of this list to follow how
//! a thing is built, from its end to follow a call down.

// Floor 0.
pub mod base;

// Floor 1.
pub mod os;

// Floor 2.
pub mod ucx;

// Floor 3.
pub mod wire;

// Floor 4.
pub mod core;

// Floor 5.
pub mod messaging;

// Floor 6.
pub mod rma;

// Floor 7.
pub mod group;

// Floor 8.
pub mod window;

// Floor 9.
pub mod hub;

// The list of what stands on the core.
pub mod assembly;
