//! Opaque handles, and the engine's objects that they represent.
//!
//! - Reference-counted (the handle is one reference): contexts, workers, endpoints, listeners,
//!   connection requests, keys, groups, windows and hubs.
//! - Owned: addresses, notifiers, tag messages and links.
//! - Slots of their worker, to which they return: requests and active messages.
//! - Slots of their hub: leased envelopes.

use super::guard;
use crate::engine;
use crate::engine::base::status::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// An initialised UCX, shared by its workers. Any thread may use it.
pub struct ucxx_context {
    _private: [u8; 0],
}
/// An initialised UCX, shared by its workers. Any thread may use it.
pub type ucxx_context_t = ucxx_context;

/// A UCP worker: makes progress, and runs the operations of its endpoints.
pub struct ucxx_worker {
    _private: [u8; 0],
}
/// A UCP worker: makes progress, and runs the operations of its endpoints.
pub type ucxx_worker_t = ucxx_worker;

/// The address of a worker. Peers need it to connect. Any thread may read it.
pub struct ucxx_address {
    _private: [u8; 0],
}
/// The address of a worker. Peers need it to connect. Any thread may read it.
pub type ucxx_address_t = ucxx_address;

/// A connection from a worker to one peer.
pub struct ucxx_endpoint {
    _private: [u8; 0],
}
/// A connection from a worker to one peer.
pub type ucxx_endpoint_t = ucxx_endpoint;

/// A listening address and port of a worker.
pub struct ucxx_listener {
    _private: [u8; 0],
}
/// A listening address and port of a worker.
pub type ucxx_listener_t = ucxx_listener;

/// A connection request of a client. Accept or reject it.
pub struct ucxx_conn_request {
    _private: [u8; 0],
}
/// A connection request of a client. Accept or reject it.
pub type ucxx_conn_request_t = ucxx_conn_request;

/// An operation that is in progress, or that has completed and was not destroyed.
pub struct ucxx_request {
    _private: [u8; 0],
}
/// An operation that is in progress, or that has completed and was not destroyed.
pub type ucxx_request_t = ucxx_request;

/// A completion queue for operations of all workers of one context. Any thread may use it.
pub struct ucxx_notifier {
    _private: [u8; 0],
}
/// A completion queue for operations of all workers of one context. Any thread may use it.
pub type ucxx_notifier_t = ucxx_notifier;

/// Registered memory. Peers with a key can read and write it. Any thread may use it.
pub struct ucxx_memory {
    _private: [u8; 0],
}
/// Registered memory. Peers with a key can read and write it. Any thread may use it.
pub type ucxx_memory_t = ucxx_memory;

/// A key to registered memory of a peer, for one endpoint.
pub struct ucxx_rkey {
    _private: [u8; 0],
}
/// A key to registered memory of a peer, for one endpoint.
pub type ucxx_rkey_t = ucxx_rkey;

/// A set of processes that know each other by rank. Any thread may use it.
pub struct ucxx_group {
    _private: [u8; 0],
}
/// A set of processes that know each other by rank. Any thread may use it.
pub type ucxx_group_t = ucxx_group;

/// Memory that each member of a group offers to the others. Any thread may make data calls.
pub struct ucxx_window {
    _private: [u8; 0],
}
/// Memory that each member of a group offers to the others. Any thread may make data calls.
pub type ucxx_window_t = ucxx_window;

/// A queue of chunks, with the envelopes that contain them. Any thread may use it.
pub struct ucxx_hub {
    _private: [u8; 0],
}
/// A queue of chunks, with the envelopes that contain them. Any thread may use it.
pub type ucxx_hub_t = ucxx_hub;

/// A producer, consumer or reader of a hub. Any thread may use it, several at a time.
pub struct ucxx_link {
    _private: [u8; 0],
}
/// A producer, consumer or reader of a hub. Any thread may use it, several at a time.
pub type ucxx_link_t = ucxx_link;

/// A leased envelope of a hub. Any thread may use it, one at a time.
pub struct ucxx_envelope {
    _private: [u8; 0],
}
/// A leased envelope of a hub. Any thread may use it, one at a time.
pub type ucxx_envelope_t = ucxx_envelope;

/// A message that a probe removed from matching.
pub struct ucxx_tag_message {
    _private: [u8; 0],
}
/// A message that a probe removed from matching.
pub type ucxx_tag_message_t = ucxx_tag_message;

/// An active message that arrived. Its handler, or the thread that polled it, owns it.
pub struct ucxx_am_message {
    _private: [u8; 0],
}
/// An active message that arrived. Its handler, or the thread that polled it, owns it.
pub type ucxx_am_message_t = ucxx_am_message;

/// A fetch that arrived: a peer expects a reply. Its handler, or the thread that polled it, owns
/// it.
pub struct ucxx_fetch {
    _private: [u8; 0],
}
/// A fetch that arrived: a peer expects a reply. Its handler, or the thread that polled it, owns
/// it.
pub type ucxx_fetch_t = ucxx_fetch;

/// Buffers that were made for received data.
pub struct ucxx_buffers {
    _private: [u8; 0],
}
/// Buffers that were made for received data.
pub type ucxx_buffers_t = ucxx_buffers;

/// A handle type, and the type of the engine's object.
pub(crate) trait Handle: Sized {
    type Object;
    const NAME: &'static str;
}

macro_rules! handles {
    ($($handle:ty => $object:ty, $name:literal;)*) => {$(
        impl Handle for $handle {
            type Object = $object;
            const NAME: &'static str = $name;
        }
    )*};
}

handles! {
    ucxx_context => engine::ucx::context::Context, "context";
    ucxx_worker => engine::core::worker::worker::SharedWorker, "worker";
    ucxx_address => engine::wire::address::Address, "address";
    ucxx_endpoint => engine::core::endpoint::endpoint::SharedEndpoint, "endpoint";
    ucxx_listener => engine::core::endpoint::listener::Listener, "listener";
    ucxx_conn_request => engine::core::endpoint::listener::ConnRequest, "conn_request";
    ucxx_request => engine::core::request::request::Slot, "request";
    ucxx_notifier => engine::core::request::notifier::Notifier, "notifier";
    ucxx_tag_message => engine::messaging::tag::probe::TagMessage, "message";
    ucxx_am_message => engine::core::channel::message::Message, "message";
    ucxx_fetch => engine::messaging::fetch::reply::Fetch, "fetch";
    ucxx_buffers => engine::core::channel::receive_buffers::Buffers, "buffers";
    ucxx_memory => engine::ucx::registered_memory::Memory, "memory";
    ucxx_rkey => engine::rma::remote_key::Rkey, "rkey";
    ucxx_group => engine::group::group::Group, "group";
    ucxx_window => engine::window::window::Window, "window";
    ucxx_hub => engine::hub::hub::Hub, "hub";
    ucxx_link => engine::hub::link::Link, "link";
    ucxx_envelope => engine::hub::envelope::Lease, "envelope";
}

#[cold]
pub(crate) fn null(argument: &str) -> Error {
    Error::invalid(format!("{argument}: is NULL"))
}

/// The error for a NULL handle, with the most likely cause.
#[cold]
fn no_handle(name: &str) -> Error {
    if name == ucxx_request::NAME {
        let text = "request: is NULL; the operation that was to make it has not succeeded, or it \
                    returned UCXX_OK: then it is complete, and makes none";
        return Error::invalid(text);
    }
    Error::invalid(format!("{name}: is NULL; the call that was to make it has not succeeded"))
}

/// The object behind a handle.
///
/// # Safety
/// The handle is NULL, or this library returned it and it was not destroyed.
#[inline]
pub(crate) unsafe fn get<'a, H: Handle>(handle: *const H) -> Result<&'a H::Object> {
    // SAFETY: as for this function.
    unsafe { handle.cast::<H::Object>().as_ref() }.ok_or_else(|| no_handle(H::NAME))
}

/// The same, with mutable access.
///
/// # Safety
/// As for `get`, and no other thread uses the handle during the call.
pub(crate) unsafe fn get_mut<'a, H: Handle>(handle: *mut H) -> Result<&'a mut H::Object> {
    // SAFETY: as for this function.
    unsafe { handle.cast::<H::Object>().as_mut() }.ok_or_else(|| no_handle(H::NAME))
}

/// The result of `look` on the object behind a handle, or `otherwise` for NULL.
///
/// # Safety
/// As for `get`.
pub(crate) unsafe fn look<H: Handle, R>(
    handle: *const H,
    otherwise: R,
    look: impl FnOnce(&H::Object) -> R,
) -> R {
    // SAFETY: as for this function.
    guard::quietly(None, || unsafe { handle.cast::<H::Object>().as_ref() }.map(look))
        .unwrap_or(otherwise)
}

/// Returns memory of the library that a caller may read, and stores its length in `length`. NULL if
/// there is none. `length` is optional.
///
/// # Safety
/// `length` is NULL or valid for a write.
pub(crate) unsafe fn tell(
    (data, count): (*const c_void, usize),
    length: *mut usize,
) -> *const c_void {
    if !length.is_null() {
        // SAFETY: as for this function.
        unsafe { length.write(count) };
    }
    if count == 0 {
        return std::ptr::null();
    }
    data
}

/// Another reference to the object behind a reference-counted handle.
///
/// # Safety
/// As for `get`; `give_arc` made the handle.
pub(crate) unsafe fn share<H: Handle>(handle: *const H) -> Result<Arc<H::Object>> {
    let object = handle.cast::<H::Object>();
    if object.is_null() {
        return Err(no_handle(H::NAME));
    }
    // SAFETY: a live reference count, raised before the reference is made.
    unsafe {
        Arc::increment_strong_count(object);
        Ok(Arc::from_raw(object))
    }
}

/// Takes the handle's reference back. None for NULL.
///
/// # Safety
/// As for `share`; the handle is not used afterwards.
pub(crate) unsafe fn take_arc<H: Handle>(handle: *mut H) -> Option<Arc<H::Object>> {
    let object = handle.cast::<H::Object>();
    // SAFETY: as for this function.
    (!object.is_null()).then(|| unsafe { Arc::from_raw(object) })
}

/// Turns a reference into a handle.
pub(crate) fn give_arc<H: Handle>(object: Arc<H::Object>) -> *mut H {
    Arc::into_raw(object).cast_mut().cast()
}

/// As `give_arc`, for an object that is not shared.
pub(crate) fn give_box<H: Handle>(object: H::Object) -> *mut H {
    Box::into_raw(Box::new(object)).cast()
}

/// Frees the object behind an owned handle. NULL is ignored.
///
/// # Safety
/// The handle is NULL or `give_box` made it; it is not used afterwards.
pub(crate) unsafe fn drop_box<H: Handle>(handle: *mut H) {
    if !handle.is_null() {
        // SAFETY: as for this function.
        drop(unsafe { Box::from_raw(handle.cast::<H::Object>()) });
    }
}

/// Takes the object behind an owned handle back. None for NULL.
///
/// # Safety
/// As for `drop_box`.
pub(crate) unsafe fn take_box<H: Handle>(handle: *mut H) -> Option<H::Object> {
    // SAFETY: as for this function.
    (!handle.is_null()).then(|| *unsafe { Box::from_raw(handle.cast::<H::Object>()) })
}

/// A place for a result. NULL is an error.
///
/// # Safety
/// NULL or valid for a write during the call.
#[inline]
pub(crate) unsafe fn place<'a, T>(pointer: *mut T, argument: &str) -> Result<Place<'a, T>> {
    if pointer.is_null() {
        return Err(null(argument));
    }
    Ok(Place { pointer, call: std::marker::PhantomData })
}

/// See `place`. It is written only on success and never read, so it may be uninitialised.
pub(crate) struct Place<'a, T> {
    pointer: *mut T,
    call: std::marker::PhantomData<&'a mut T>,
}

impl<T> Place<'_, T> {
    pub(crate) fn write(self, value: T) {
        // SAFETY: valid, as promised to `place`.
        unsafe { self.pointer.write(value) };
    }
}
