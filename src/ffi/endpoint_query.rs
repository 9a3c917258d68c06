//! What endpoints are like: properties, and how full their send windows and queues are.

use super::guard;
use super::handle::{self, ucxx_endpoint_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;
use std::ffi::c_char;

/// What `ucxx_endpoint_query` tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_attr {
    /// Set by UCXX_ENDPOINT_ATTR_INIT.
    pub struct_size: usize,
    /// "ip:port" of an endpoint that was connected by address, else "".
    pub local_address: [c_char; 64],
    /// Likewise.
    pub remote_address: [c_char; 64],
    /// Transports in use, such as "posix/memory,cma/memory" or "sysv/memory,cma/memory"; "" before
    /// the endpoint is connected.
    pub transports: [c_char; 256],
    /// A number for the peer's worker, the same wherever it is asked; 0 for a foreign one.
    pub peer_id: u64,
    /// Operations sent so far.
    pub operations_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Sends and flushes under way, sends in the queue included.
    pub in_flight: u64,
    /// Is the peer known to be on this host?
    pub same_host: u8,
}
/// What `ucxx_endpoint_query` tells.
pub type ucxx_endpoint_attr_t = ucxx_endpoint_attr;

/// What `ucxx_endpoint_query_load` tells.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_load {
    /// Set by UCXX_ENDPOINT_LOAD_INIT.
    pub struct_size: usize,
    /// Sends that UCX has and has not completed: at most send_window_ops. What other threads have
    /// handed to a progress thread is here and below when it has been taken over.
    pub window_operations: u64,
    /// Bytes in them.
    pub window_bytes: u64,
    /// Sends in the send queue.
    pub queued_operations: u64,
    /// Bytes in them.
    pub queued_bytes: u64,
}
/// What `ucxx_endpoint_query_load` tells.
pub type ucxx_endpoint_load_t = ucxx_endpoint_load;

sized! { ucxx_endpoint_attr, 432; ucxx_endpoint_load, 40; }

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_attr_init(
    value: *mut ucxx_endpoint_attr_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// What the endpoint is like. Under SINGLE, on the worker's own thread.
///
/// # Safety
/// An endpoint of this library; `attr` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_query(
    endpoint: *const ucxx_endpoint_t,
    attr: *mut ucxx_endpoint_attr_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        // SAFETY: as above.
        unsafe { params::out_size(attr, "attr") }?;
        let traffic = endpoint.traffic()?;
        // Longer than there is room for is cut at a comma, so that no name is half there.
        let mut text = endpoint.transports()?;
        while text.len() >= 256 {
            text.truncate(text.rfind(',').unwrap_or(0));
        }
        let (local, remote) = endpoint.ends();
        let value = ucxx_endpoint_attr {
            struct_size: size_of::<ucxx_endpoint_attr>(),
            local_address: characters(&local),
            remote_address: characters(&remote),
            transports: characters(&text),
            peer_id: endpoint.peer_id(),
            operations_sent: traffic.operations_sent,
            bytes_sent: traffic.bytes_sent,
            in_flight: traffic.in_flight,
            same_host: endpoint.same_host().into(),
        };
        // SAFETY: as above.
        unsafe { params::store(attr, "attr", &value) }.map(|()| Status::OK)
    })
}

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_load_init(
    value: *mut ucxx_endpoint_load_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// How much of its send window and queue the endpoint uses. Under SINGLE, on the worker's own
/// thread.
///
/// # Safety
/// An endpoint of this library; `load` is a struct whose `struct_size` is set.
#[no_mangle]
pub unsafe extern "C" fn ucxx_endpoint_query_load(
    endpoint: *const ucxx_endpoint_t,
    load: *mut ucxx_endpoint_load_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let endpoint = unsafe { handle::get(endpoint) }?;
        // SAFETY: as above.
        unsafe { params::out_size(load, "load") }?;
        let traffic = endpoint.traffic()?;
        let value = ucxx_endpoint_load {
            struct_size: size_of::<ucxx_endpoint_load>(),
            window_operations: traffic.window_operations,
            window_bytes: traffic.window_bytes,
            queued_operations: traffic.queued_operations,
            queued_bytes: traffic.queued_bytes,
        };
        // SAFETY: as above.
        unsafe { params::store(load, "load", &value) }.map(|()| Status::OK)
    })
}

/// A text that is shorter than its place.
fn characters<const N: usize>(text: &str) -> [c_char; N] {
    let mut place = [0; N];
    for (place, byte) in place.iter_mut().take(N - 1).zip(text.bytes()) {
        *place = byte as c_char;
    }
    place
}
