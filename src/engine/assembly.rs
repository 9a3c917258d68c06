//! The one place that names every protocol. To add one: its folder, a line here, and `src/ffi`.

use crate::engine::core::worker::protocol::Protocols;
use crate::engine::group::service::Extension;
use crate::engine::messaging::{am, fetch, stream, tag};
use crate::engine::{hub, rma, window};

/// What every worker of the library can do, in the order of the floors.
pub static PROTOCOLS: Protocols = Protocols::new(&[
    &tag::multi_common::PROTOCOL,
    &stream::PROTOCOL,
    &am::multi::PROTOCOL,
    &fetch::pending_table::PROTOCOL,
    &rma::remote_key::PROTOCOL,
    &window::lock_request::PROTOCOL,
    &hub::stream::registry::PROTOCOL,
]);

/// What stands on a group's service.
pub static EXTENSION: &Extension = &window::remote::target::WINDOWS;
