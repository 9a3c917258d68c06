//! The one place that names every protocol. To add one: its folder, a line here, and `src/ffi`.

use crate::engine::core::worker::protocol::Protocols;
use crate::engine::group::service::Extension;
use crate::engine::messaging::{am, fetch, stream, tag};
use crate::engine::{hub, rma, window};

/// The protocols of every worker, in the order of the floors.
pub static PROTOCOLS: Protocols = Protocols::new(&[
    &tag::protocol::PROTOCOL,
    &stream::PROTOCOL,
    &am::protocol::PROTOCOL,
    &fetch::protocol::PROTOCOL,
    &rma::protocol::PROTOCOL,
    &window::protocol::PROTOCOL,
    &hub::stream::protocol::PROTOCOL,
]);

/// The extension of a group's service.
pub static EXTENSION: &Extension = &window::remote::target::WINDOWS;
