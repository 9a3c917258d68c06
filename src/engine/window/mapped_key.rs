//! Windows of the caller's memory that members of the same host can map, because UCX allocated the
//! memory and maps it for processes that have a key.
//!
//! The key is unpacked for the connection between the service workers, which last as long as the
//! window. Users may destroy their own endpoints at any time, and then UCX destroys its part of the
//! keys.

use crate::engine::group::group::Group;
use crate::engine::rma::remote_key::Rkey;
use std::sync::Arc;

/// Longest key in bytes. UCX's keys have some dozens of bytes for each kind of memory.
pub(crate) const MOST_OF_KEY: usize = 4096;

/// The key, and the address of the window's memory in this process.
pub(crate) struct WindowKey {
    place: *mut u8,
    /// `None` only during drop.
    key: Option<Arc<Rkey>>,
}

impl WindowKey {
    /// Opens a key from a member of this host. The window's memory has `size` bytes from `base`.
    /// `None` if UCX does not map it here, or if the key belongs to other memory.
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

    /// Address of the window's memory in this process.
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
