//! ucxx_rs: communication over UCX for C, C++ and every language that can call C, with a Rust
//! engine underneath.
//!
//! `engine` holds all behaviour. The C interface over it ([`ffi`]) is what programs use; its
//! reference is the comments in `include/ucxx_rs.h`, which is generated from it.

#[cfg(not(target_os = "linux"))]
compile_error!("ucxx_rs supports Linux");

mod engine;
pub mod ffi;
#[doc(hidden)]
pub mod internals;
mod sys;
