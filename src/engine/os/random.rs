//! Random bytes of the kernel's, which nobody can guess.

use crate::engine::base::status::{Error, Result, Status};
use rustix::io::retry_on_intr;
use rustix::rand::{getrandom, GetRandomFlags};

/// So few that the kernel gives them whole.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES]> {
    const { assert!(BYTES <= 256) };
    let mut bytes = [0; BYTES];
    retry_on_intr(|| getrandom(&mut bytes, GetRandomFlags::empty())).map_err(|cause| {
        Error::new(Status::IO_ERROR, format!("the system gives no random bytes: {cause}"))
    })?;
    Ok(bytes)
}
