//! Queries on endpoints: properties, and the load of send window and send queue.

use super::guard;
use super::handle::{self, ucxx_endpoint_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::text_out::characters;
use crate::engine::base::status::Status;
use std::ffi::c_char;

/// Result of `ucxx_endpoint_query`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_attr {
    /// Set by UCXX_ENDPOINT_ATTR_INIT.
    pub struct_size: usize,
    /// Local "ip:port" if the endpoint was connected by host and port. Otherwise "".
    pub local_address: [c_char; 64],
    /// Remote "ip:port", under the same condition.
    pub remote_address: [c_char; 64],
    /// Transports in use, such as "posix/memory,cma/memory" or "sysv/memory,cma/memory". It is ""
    /// before the endpoint is connected.
    pub transports: [c_char; 256],
    /// Number of the peer's worker, the same on every endpoint to it and in every process. 0 for a
    /// peer that does not use this library.
    pub peer_id: u64,
    /// Operations that were sent so far.
    pub operations_sent: u64,
    /// Bytes in these operations.
    pub bytes_sent: u64,
    /// Sends and flushes in flight, including sends in the send queue.
    pub in_flight: u64,
    /// 1 if the peer is known to be on this host.
    pub same_host: u8,
}
/// Result of `ucxx_endpoint_query`.
pub type ucxx_endpoint_attr_t = ucxx_endpoint_attr;

/// Result of `ucxx_endpoint_query_load`.
///
/// Sends that other threads have handed to a progress thread count only after that thread has taken
/// them over.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_endpoint_load {
    /// Set by UCXX_ENDPOINT_LOAD_INIT.
    pub struct_size: usize,
    /// Uncompleted sends that UCX has: at most `send_window_ops`.
    pub window_operations: u64,
    /// Bytes in these sends.
    pub window_bytes: u64,
    /// Sends in the send queue.
    pub queued_operations: u64,
    /// Bytes in these sends.
    pub queued_bytes: u64,
}
/// Result of `ucxx_endpoint_query_load`.
pub type ucxx_endpoint_load_t = ucxx_endpoint_load;

sized! { ucxx_endpoint_attr, 432; ucxx_endpoint_load, 40; }

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// Queries the properties of the endpoint.
///
/// Returns:
/// - UCXX_OK: `*attr` is filled.
/// - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
///   file.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// See also: ucxx_endpoint_query_load.
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
        // A text that is too long is cut at a comma, so that no name is incomplete.
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

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
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

/// Queries how much of its send window and send queue the endpoint uses.
///
/// Returns:
/// - UCXX_OK: `*load` is filled.
///
/// Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
/// See also: ucxx_endpoint_params_t, docs/flow-control.md.
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
