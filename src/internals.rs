//! What fuzzing, the benches in Rust and the tests of several processes reach of the engine.
//! No program may: it changes whenever the engine does.

/// The engine's own words for how something ended.
pub use crate::engine::base::status::{Error, Status};

/// Decoders of what another process has written: `fuzz/` feeds each.
pub mod decoders {
    pub use crate::engine::os::shared_segment::SegmentName;
    pub use crate::engine::rma::atomic::Atomic;
    pub use crate::engine::ucx::packed_key::KeyHeader;
    pub use crate::engine::window::create::Call;
    pub use crate::engine::wire::address::Address;
    pub use crate::engine::wire::bootstrap;
    pub use crate::engine::wire::compact_header::Piece;
    pub use crate::engine::wire::group;
    pub use crate::engine::wire::header;
    pub use crate::engine::wire::hub_stream::StreamHeader;
    pub use crate::engine::wire::multi_table;
    pub use crate::engine::wire::ucxx_am::Envelope;
    pub use crate::engine::wire::ucxx_multi;
    pub use crate::engine::wire::window;
}

/// The calls below the C surface: `benches/rust` counts what the surface adds to them.
pub mod calls {
    pub use crate::engine::assembly::PROTOCOLS;
    pub use crate::engine::core::endpoint::endpoint::{EndpointParams, SharedEndpoint};
    pub use crate::engine::core::endpoint::send_window::WindowLimits;
    pub use crate::engine::core::request::inflight::Out;
    pub use crate::engine::core::request::operation::{OpParams, Submitted};
    pub use crate::engine::core::request::request::{self, Slot};
    pub use crate::engine::core::worker::create::WorkerParams;
    pub use crate::engine::core::worker::gate::ThreadMode;
    pub use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
    pub use crate::engine::core::worker::worker::SharedWorker;
    pub use crate::engine::hub::hub::{Hub, HubParams};
    pub use crate::engine::hub::memory::MemoryKind;
    pub use crate::engine::hub::records::Retain;
    pub use crate::engine::messaging::tag::tag::Mode;
    pub use crate::engine::ucx::context::{Context, ContextParams};
    pub use crate::engine::wire::address::Address;
}

/// Windows' shared words: `tests/window_processes.rs` takes them from several processes.
pub mod window_words {
    pub use crate::engine::os::shared_segment::{Segment, SegmentName};
    pub use crate::engine::window::data::reduce::Update;
    pub use crate::engine::window::lock::rw_lock::{Patience, WindowLock};
    pub use crate::engine::wire::element_type::{ElementType, Reduce};
    pub use crate::engine::wire::sync_constants::LockType;
}
