//! Buffers in huge pages, where the system provides them.
//!
//! A copy between processes, such as UCX's by CMA, looks up each page of both. With pages of 4 KiB
//! that takes longer than the copying itself if the data is in the cache. So we ask for transparent
//! huge pages, which most systems give on request. Without them everything works as with small
//! pages.

use rustix::mm::{madvise, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::null_mut;

/// The usual size of a huge page.
const LARGE: usize = 2 << 20;
/// Smaller buffers come from the allocator: a huge page is allocated whole when its first byte is
/// touched.
pub(crate) const WORTHWHILE: usize = 2 * LARGE;

/// Memory that only the owner has, zero at first, unmapped on drop.
pub(crate) struct LargePages {
    memory: *mut c_void,
    length: usize,
}

impl LargePages {
    /// Memory for `bytes`; `None` if there is not enough address space.
    pub(crate) fn new(bytes: usize) -> Option<LargePages> {
        let length = bytes.checked_add(LARGE)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new anonymous mapping, at an address that the kernel picks.
        let memory =
            unsafe { mmap_anonymous(null_mut(), length, access, MapFlags::PRIVATE) }.ok()?;
        let pages = LargePages { memory, length };
        // Only whole pages: the rest at the end shall not take up a huge page.
        // SAFETY: the range is inside the mapping, which is longer than `bytes` by the alignment.
        let _ =
            unsafe { madvise(pages.base().cast(), bytes / LARGE * LARGE, Advice::LinuxHugepage) };
        Some(pages)
    }

    /// Its beginning, aligned to a huge page.
    pub(crate) fn base(&self) -> *mut u8 {
        let memory = self.memory.cast::<u8>();
        // Inside the mapping, which is longer by one huge page.
        memory.wrapping_add(memory.align_offset(LARGE))
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that `new` made; drop runs once.
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
            // SAFETY: `bytes` bytes that were asked for, used by this test alone.
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
