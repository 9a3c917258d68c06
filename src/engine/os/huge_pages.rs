//! Memory in large pages, where the system gives them.
//!
//! Whoever copies between processes, as UCX does by CMA, looks each page of both up: with pages of
//! 4 KiB that takes longer than copying what is in the cache. The system is asked for large ones
//! (Linux: transparent huge pages), which most are set up to give to those who ask; where it gives
//! none all is as without.

use rustix::mm::{madvise, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::null_mut;

/// What most processors call a large page.
const LARGE: usize = 2 << 20;
/// Less than this is left to the allocator: a large page is made as a whole when its first byte is
/// touched.
pub(crate) const WORTHWHILE: usize = 2 * LARGE;

/// Memory that nobody else has, all zero at first. Given back when it is dropped.
pub(crate) struct LargePages {
    memory: *mut c_void,
    length: usize,
}

impl LargePages {
    /// Room for so many bytes; None where there is not as much address space.
    pub(crate) fn new(bytes: usize) -> Option<LargePages> {
        let length = bytes.checked_add(LARGE)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping, wherever there is room.
        let memory =
            unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
        let pages = LargePages { memory, length };
        // Whole pages alone: what is left over at the end is not to take up one of its own.
        // SAFETY: a part of the mapping.
        let _ =
            unsafe { madvise(pages.base().cast(), bytes / LARGE * LARGE, Advice::LinuxHugepage) };
        Some(pages)
    }

    /// Where it begins: at a large page.
    pub(crate) fn base(&self) -> *mut u8 {
        let memory = self.memory.cast::<u8>();
        // Not beyond the mapping, which is by as much longer.
        memory.wrapping_add(memory.align_offset(LARGE))
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        // SAFETY: the mapping as it was made, once.
        let _ = unsafe { munmap(self.memory, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_there_and_of_use() {
        for bytes in [WORTHWHILE, WORTHWHILE + 1, 3 * LARGE - 1] {
            let pages = LargePages::new(bytes).expect("a few MiB");
            assert_eq!(pages.base().addr() % LARGE, 0);
            assert!(pages.base().addr() + bytes <= pages.memory.addr() + pages.length);
            // SAFETY: as many as were asked for.
            let all = unsafe { std::slice::from_raw_parts_mut(pages.base(), bytes) };
            assert!(all.iter().all(|byte| *byte == 0));
            all.fill(7);
        }
    }

    #[test]
    fn what_no_address_space_has_is_refused() {
        assert!(LargePages::new(usize::MAX).is_none());
        assert!(LargePages::new(1 << 62).is_none());
    }
}
