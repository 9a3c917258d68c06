//! Unguessable random bytes from the kernel.

use crate::engine::base::status::{Error, Result, Status};
use rustix::io::retry_on_intr;
use rustix::rand::{getrandom, GetRandomFlags};

/// At most 256 bytes: so few are never delivered in part.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    const { assert!(BYTES <= 256) };
    let mut bytes = [0; BYTES];
    retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())).map_err(|cause| {
        Error::new(Status::IO_ERROR, format!("the system returned no random bytes: {cause}"))
    })?;
    Ok(bytes)
}
