//! Memory of the caller's in a window that others of its host reach by a mapping all the same: UCX
//! has allocated it, and maps it for who has a key.
//!
//! The key is unpacked for the connection between the service workers, which last as long as the
//! window; those of the users may be destroyed at any time, and UCX's half of their keys with them.

use crate::engine::group::group::Group;
use crate::engine::rma::remote_key::Rkey;
use std::sync::Arc;

/// Bytes of a key at most. Those of UCX have some dozens for each of its kinds of memory.
pub(crate) const MOST_OF_KEY: usize = 4096;

/// The key, and where the window's memory is by it.
pub(crate) struct WindowKey {
    place: *mut u8,
    /// None once it is being dropped.
    key: Option<Arc<Rkey>>,
}

impl WindowKey {
    /// Opens the key that a member of this host has given to memory that `size` bytes from `base`
    /// on are in. None where UCX does not map it here, or the key is to something else.
    pub(crate) fn open(
        group: &Group,
        rank: u32,
        bytes: &[u8],
        base: u64,
        size: u64,
    ) -> Option<Self> {
        if bytes.is_empty() || size == 0 {
            return None;
        }
        let link = group.service.link(group.ranks[rank as usize]).ok()?;
        let mut opened =
            WindowKey { place: std::ptr::null_mut(), key: Some(Rkey::unpack(&link, bytes).ok()?) };
        let key = opened.key.as_ref()?;
        let offset = base.checked_sub(key.base())?;
        if offset.checked_add(size)? > key.length() {
            return None;
        }
        let begin: *mut u8 = key.local().ok()?.cast();
        opened.place = begin.wrapping_add(offset as usize);
        Some(opened)
    }

    /// Where the window's memory begins in this process.
    pub(crate) fn place(&self) -> *mut u8 {
        self.place
    }
}

impl Drop for WindowKey {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            key.destroy();
        }
    }
}
