//! The C interface: checks arguments, converts, calls the engine, converts back, and lets no panic
//! out.
//!
//! One file for each group of the header. The doc comments of the public items are the header's
//! text. tests/header_sync.rs has the order of the groups.
// Brackets in the header's text are no links.
#![allow(non_camel_case_types, rustdoc::broken_intra_doc_links)]

pub mod address;
pub mod am;
pub mod am_multi;
pub mod am_queue;
pub mod buffers;
pub mod cancel;
pub mod constants;
pub mod context;
pub mod endpoint;
pub mod endpoint_query;
pub mod fetch;
pub mod group;
mod guard;
pub mod handle;
pub mod hub;
pub mod hub_envelope;
pub mod hub_link;
pub mod hub_link_io;
pub mod layout;
pub mod listener;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod multi;
pub mod native;
pub mod notifier;
pub mod operation;
mod params;
pub mod request;
pub mod rma;
pub mod status;
pub mod stream;
pub mod tag;
mod text_out;
pub mod version;
pub mod window;
pub mod window_data;
pub mod window_data_request;
pub mod window_query;
pub mod window_sync;
pub mod worker;
pub mod worker_flush;
pub mod worker_progress;
pub mod worker_query;
