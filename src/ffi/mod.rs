//! The C interface: checks arguments, converts, calls the engine, converts back, and lets no panic out.
//!
//! One file for each group of the header. What stands in the doc comments here is the header's text.
#![allow(non_camel_case_types)]

pub mod address;
pub mod constants;
pub mod context;
pub mod endpoint;
mod guard;
pub mod handle;
pub mod listener;
pub mod log;
pub mod notifier;
pub mod operation;
mod params;
pub mod request;
pub mod status;
pub mod tag;
pub mod version;
pub mod worker;
