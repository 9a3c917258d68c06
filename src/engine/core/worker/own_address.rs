//! A worker's own address.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::runtime;
use crate::engine::wire::address::{Address, Origin};
use crate::sys;

impl SharedWorker {
    /// The worker's address with its trailer.
    pub fn address(&self) -> Result<Address> {
        if let Some(address) = self.address.get() {
            self.check_usable()?;
            return Ok(address.clone());
        }
        self.on_owner(|inside| inside.address_inside().cloned())
    }
}

impl Worker {
    pub(crate) fn address_inside(&self) -> Result<&Address> {
        self.address.get_or_try_init(|| self.make_address())
    }

    fn make_address(&self) -> Result<Address> {
        let (mut ucp, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: a live worker and valid out-pointers.
        let status = unsafe { sys::ucp_worker_get_address(self.ucp(), &mut ucp, &mut length) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "worker: UCX could not report its address",
            ));
        }
        // SAFETY: UCX's buffer of that length, live until it is released below.
        let bytes = unsafe { std::slice::from_raw_parts(ucp.cast::<u8>(), length) };
        let address = Address::with_trailer(
            bytes,
            Origin { identity: self.identity, release: runtime::ucx_release() },
        );
        // SAFETY: the buffer that UCX returned, released once.
        unsafe { sys::ucp_worker_release_address(self.ucp(), ucp) };
        Ok(address)
    }
}
