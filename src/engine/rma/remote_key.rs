//! Keys to a peer's memory, unpacked for one endpoint. UCX's half of a key is used inside the gate
//! of that endpoint's worker.
//!
//! A key is shared by its handle and by UCX's operations that use it. The last of them releases
//! UCX's half, inside the gate. Halves that are left when the worker ends are released then, and
//! calls on those keys return CLOSED.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::process_identity::{self, Identity};
use crate::engine::ucx::context::feature;
use crate::engine::ucx::key_segment::{self, Held};
use crate::engine::ucx::memory_type;
use crate::engine::ucx::packed_key::KeyHeader;
use crate::sys;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Arc;

/// A key to a peer's memory.
pub struct Rkey {
    pub(crate) endpoint: Arc<SharedEndpoint>,
    pub(crate) ucp: sys::ucp_rkey_h,
    pub(crate) header: KeyHeader,
    /// Where this process has the memory mapped; null if it has not. Valid as long as UCX's half.
    pub(crate) local: *mut u8,
}

// SAFETY: its fields never change; UCX's half is used only inside the gate.
unsafe impl Send for Rkey {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for Rkey {}

/// UCX's halves of a worker's keys.
#[derive(Default)]
pub(crate) struct Rkeys(RefCell<HashSet<sys::ucp_rkey_h>>);

impl Rkey {
    /// Unpacks the bytes of a key, for use on this endpoint.
    pub fn unpack(endpoint: &SharedEndpoint, bytes: &[u8]) -> Result<Arc<Rkey>> {
        let worker = endpoint.worker();
        worker.need(feature::RMA | feature::ATOMIC)?;
        let (header, ucx) = KeyHeader::decode(bytes).map_err(|why| {
            Error::new(
                Status::INVALID_PARAM,
                format!("bytes: not a key that ucxx_memory_pack has made: {why}"),
            )
        })?;
        endpoint.on_owner(|endpoint| {
            let inside = &endpoint.worker;
            endpoint.check_open()?;
            if endpoint.ucp.get().is_null() || endpoint.is_connecting() {
                return Err(Error::new(
                    Status::NOT_CONNECTED,
                    "endpoint: is not connected yet; wait \
                    for its on_open",
                ));
            }
            if endpoint.is_plain_ucx_peer() {
                let text = "endpoint: its peer does not use this library, so no key can be for it";
                return Err(Error::new(Status::UNSUPPORTED, text));
            }
            check_owner(endpoint, &header.owner)?;
            if endpoint.to_self
                && !inside.context.exposed.has(header.number, header.base, header.length)
            {
                return Err(Error::new(
                    Status::NO_ELEM,
                    "bytes: the memory of this key is not registered any more",
                ));
            }
            let mut ucx = ucx.to_vec();
            let _held = hold(inside, endpoint, &header, &mut ucx)?;
            let mut ucp = std::ptr::null_mut();
            // SAFETY: a live endpoint inside its worker's gate, bytes from UCX that arrived
            // unchanged, and a valid out-pointer.
            let status = unsafe {
                sys::ucp_ep_rkey_unpack(endpoint.ucp.get(), ucx.as_ptr().cast(), &mut ucp)
            };
            if status != sys::UCS_OK {
                return Err(refused(endpoint, &header, "UCX refused the key"));
            }
            inside.rkeys().0.borrow_mut().insert(ucp);
            let local = if endpoint.to_self {
                std::ptr::with_exposed_provenance_mut(header.base as usize)
            } else {
                see(ucp, &header)
            };
            let local = if memory_type::is_device(header.memory_type) {
                std::ptr::null_mut()
            } else {
                local
            };
            Ok(Arc::new(Rkey { endpoint: endpoint.shared(), ucp, header, local }))
        })
    }

    /// The address of its first byte at the peer.
    pub fn base(&self) -> u64 {
        self.header.base
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.header.length
    }

    /// Its first byte in this process, for loads and stores.
    pub fn local(&self) -> Result<*mut c_void> {
        self.check_usable()?;
        if self.local.is_null() {
            let text = format!(
                "rkey: the memory of {} cannot be reached by loads and stores; use ucxx_rma_put \
                and ucxx_rma_get",
                self.endpoint.peer_text()
            );
            return Err(Error::new(Status::UNREACHABLE, text));
        }
        Ok(self.local.cast())
    }

    /// UCP's handle, for calls that this library does not have. Null in a forked child, and from
    /// the worker's end on.
    pub fn native(&self) -> *mut c_void {
        self.check_usable().map_or(std::ptr::null_mut(), |()| self.ucp.cast())
    }

    /// Checks that UCX's half and its mapping exist.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.endpoint.worker().check_usable()
    }

    /// Releases the handle's own reference.
    pub fn destroy(self: Arc<Self>) {
        let Some(key) = Arc::into_inner(self) else { return };
        if key.endpoint.worker().context.generation.is_past() {
            // It belongs to the parent process, and so does its memory.
            return std::mem::forget(key);
        }
        let worker = key.endpoint.worker().clone();
        // Fails if the worker has ended, and UCX's half with it.
        let _ = worker.post(move |inside| inside.forget_rkey(&key));
    }
}

impl Worker {
    /// An operation has completed, which may have used a key.
    pub(crate) fn release_rkey(&self, slot: &Slot) {
        // SAFETY: the cell belongs to the thread inside the gate. Only one field, because the whole
        // is large.
        let key = std::mem::replace(unsafe { &mut (*slot.queued.as_ptr()).rkey }, std::ptr::null());
        if key.is_null() {
            return;
        }
        // SAFETY: the operation's own reference.
        if let Some(key) = Arc::into_inner(unsafe { Arc::from_raw(key.cast::<Rkey>()) }) {
            self.forget_rkey(&key);
        }
    }

    fn forget_rkey(&self, key: &Rkey) {
        if self.rkeys().0.borrow_mut().remove(&key.ucp) {
            // SAFETY: a key of this worker, inside its gate, which nothing refers to any more.
            unsafe { sys::ucp_rkey_destroy(key.ucp) };
        }
    }

    /// Called before UCP's worker is destroyed.
    pub(crate) fn drop_rkeys(&self) {
        for key in self.rkeys().0.take() {
            // SAFETY: a key of this worker, inside its gate. Operations that may still use it
            // belong to UCP, which is about to drop them.
            unsafe { sys::ucp_rkey_destroy(key) };
        }
    }
}

/// Keys work only with the process that made them: on another connection UCX would write to
/// arbitrary addresses.
fn check_owner(endpoint: &Endpoint, owner: &Identity) -> Result<()> {
    match endpoint.origin() {
        Some(origin) if !origin.identity.is_process(owner) => {
            let text = format!(
                "bytes: this key was made by process {}, and the endpoint is to {}",
                owner.pid,
                endpoint.peer_text()
            );
            Err(Error::new(Status::INVALID_PARAM, text))
        }
        _ => Ok(()),
    }
}

/// Ensures that the memory stays at the address that UCX uses, if it belongs to another process of
/// this host.
fn hold(worker: &Worker, endpoint: &Endpoint, header: &KeyHeader, ucx: &mut [u8]) -> Result<Held> {
    if endpoint.to_self || !header.owner.shares_host_with(&worker.identity) {
        return Ok(Held::Nothing);
    }
    if !process_identity::goes_on(&header.owner) {
        return Err(refused(endpoint, header, ""));
    }
    match key_segment::hold(ucx, header) {
        Ok(Held::Nothing) if !process_identity::goes_on(&header.owner) => {
            Err(refused(endpoint, header, ""))
        }
        held => held.map_err(|cause| refused(endpoint, header, &cause.to_string())),
    }
}

#[cold]
fn refused(endpoint: &Endpoint, header: &KeyHeader, why: &str) -> Error {
    let here = &endpoint.worker.identity;
    if header.owner.shares_host_with(here) && !process_identity::goes_on(&header.owner) {
        let text =
            format!("bytes: the process of this key's memory, {}, has ended", header.owner.pid);
        return Error::new(Status::PEER_FAILED, text);
    }
    Error::new(
        Status::UNREACHABLE,
        format!("bytes: this key's memory of {} cannot be reached: {why}", endpoint.peer_text()),
    )
}

fn see(ucp: sys::ucp_rkey_h, header: &KeyHeader) -> *mut u8 {
    let mut local = std::ptr::null_mut();
    // SAFETY: a key that was just unpacked, inside the gate, and a valid out-pointer.
    let status = unsafe { sys::ucp_rkey_ptr(ucp, header.base, &mut local) };
    if status == sys::UCS_OK {
        local.cast()
    } else {
        std::ptr::null_mut()
    }
}
