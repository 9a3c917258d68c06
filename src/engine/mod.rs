//! The engine: all behaviour, in Rust, on top of UCP. It exports no C symbol.
//!
//! Ten floors, from the bottom up. A floor uses only those below it: `tests/layering.rs` refuses an
//! upward arrow. Read this list from the top to see how things are built, or from the end to follow
//! a call down.

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

// The list of protocols on top of the core.
pub mod assembly;
