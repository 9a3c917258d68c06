//! Notices that the process has forked, at the price of one relaxed load.
//!
//! One page is marked MADV_WIPEONFORK: it holds this process's generation, and reads as zero in a forked child. Whatever
//! was made before keeps the generation it was made in, so that a child can go on to make handles of its own.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// Counts generations. An ordinary page: a child inherits the number and moves on from it.
static LAST: AtomicU32 = AtomicU32::new(0);

struct WipedPage(*const AtomicU32);
// SAFETY: the page is never unmapped, and holds an atomic.
unsafe impl Send for WipedPage {}
// SAFETY: as above.
unsafe impl Sync for WipedPage {}

static PAGE: OnceLock<WipedPage> = OnceLock::new();

fn page() -> &'static AtomicU32 {
    let page = PAGE.get_or_init(|| {
        // SAFETY: a fresh anonymous mapping, checked below before use.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert!(memory != libc::MAP_FAILED, "no memory for one page");
        // SAFETY: exactly the mapping made above. Where the kernel is too old (before 4.14) this fails, the page stays
        // as it is in a child, and forks go unnoticed.
        unsafe { libc::madvise(memory, 4096, libc::MADV_WIPEONFORK) };
        WipedPage(memory.cast())
    });
    // SAFETY: mapped above, zeroed by the kernel, aligned to a page, never unmapped.
    unsafe { &*page.0 }
}

/// The moment at which an object was made, as far as fork is concerned.
#[derive(Clone, Copy)]
pub(crate) struct Generation {
    page: &'static AtomicU32,
    value: u32,
}

impl Generation {
    /// The present one; the first call in a process (a forked child included) begins it.
    pub(crate) fn current() -> Self {
        let page = page();
        if page.load(Ordering::Relaxed) == 0 {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Two threads may both get here: the first number stands.
            let _ = page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Generation { page, value: page.load(Ordering::Relaxed) }
    }

    /// Has the process forked since?
    #[inline]
    pub(crate) fn is_past(self) -> bool {
        self.page.load(Ordering::Relaxed) != self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_sees_its_parents_generation_as_past() {
        let before = Generation::current();
        assert!(!before.is_past());
        // SAFETY: the child only reads memory, and leaves by _exit.
        match unsafe { libc::fork() } {
            0 => {
                let past = before.is_past();
                let own = Generation::current();
                let code = if past && !own.is_past() && own.value != before.value { 0 } else { 1 };
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            child => {
                let mut status = -1;
                // SAFETY: waits for the child made above.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0, "the child did not notice that it was forked");
                assert!(!before.is_past());
            }
        }
    }
}
