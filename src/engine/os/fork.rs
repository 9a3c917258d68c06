//! Detects that the process has forked, for one relaxed load.
//!
//! One page is marked MADV_WIPEONFORK. It holds this process's generation, and the kernel clears it
//! in a forked child. Each object remembers the generation in which it was made, so a child can
//! refuse its parent's handles and still create its own. Any thread may call this.

use rustix::mm::{madvise, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// Last generation. An ordinary variable: a child inherits it and counts on.
static LAST: AtomicU32 = AtomicU32::new(0);

struct WipedPage(*const AtomicU32);
// SAFETY: the page is never unmapped, and only its atomic is used.
unsafe impl Send for WipedPage {}
// SAFETY: the page holds an atomic, which threads may share.
unsafe impl Sync for WipedPage {}

static PAGE: OnceLock<WipedPage> = OnceLock::new();

const PAGE_SIZE: usize = 4096;

/// A page of zeros, which is zero again in a forked child. Kernels before 4.14 do not clear it, so
/// there forks are not detected.
fn new_page() -> Option<*mut c_void> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new anonymous mapping, at an address that the kernel picks.
    let memory =
        unsafe { mmap_anonymous(null_mut(), PAGE_SIZE, access, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: exactly the mapping made above.
    let _ = unsafe { madvise(memory, PAGE_SIZE, Advice::LinuxWipeOnFork) };
    Some(memory)
}

/// A word in its own page, which reads as 0 in a forked child.
pub(crate) struct Token(*const AtomicUsize);
// SAFETY: an atomic in a mapping that lasts as long as the token.
unsafe impl Send for Token {}
// SAFETY: all access is by the atomic, which threads may share.
unsafe impl Sync for Token {}

impl Token {
    /// If there is no memory for the page, the token always reads as 0.
    pub(crate) fn new(value: usize) -> Self {
        let token = Token(new_page().map_or(&raw const NOTHING, |page| page.cast_const().cast()));
        token.set(value);
        token
    }

    pub(crate) fn set(&self, value: usize) {
        if !std::ptr::eq(self.0, &NOTHING) {
            // SAFETY: not `NOTHING`, so `new` mapped it: zeroed by the kernel, page-aligned,
            // unmapped only by drop.
            unsafe { (*self.0).store(value, Ordering::Relaxed) };
        }
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        // SAFETY: the pointer is to the page that `new` mapped, which drop unmaps, or to the static
        // `NOTHING`.
        unsafe { (*self.0).load(Ordering::Relaxed) }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if !std::ptr::eq(self.0, &NOTHING) {
            // SAFETY: not `NOTHING`, so `new` mapped it, and only drop unmaps it.
            let _ = unsafe { munmap(self.0.cast_mut().cast(), PAGE_SIZE) };
        }
    }
}

static NOTHING: AtomicUsize = AtomicUsize::new(0);

fn page() -> &'static AtomicU32 {
    let page = PAGE.get_or_init(|| WipedPage(new_page().expect("memory for one page").cast()));
    // SAFETY: zeroed by the kernel, page-aligned, and never unmapped.
    unsafe { &*page.0 }
}

/// The generation in which an object was made: the process up to its next fork.
#[derive(Clone, Copy)]
pub(crate) struct Generation {
    page: &'static AtomicU32,
    value: u32,
}

impl Generation {
    /// The current generation. The first call in a process, or in a forked child, begins it.
    pub(crate) fn current() -> Self {
        let page = page();
        if page.load(Ordering::Relaxed) == 0 {
            let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
            // Two threads may both get here: the first number wins.
            let _ = page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        Generation { page, value: page.load(Ordering::Relaxed) }
    }

    /// Has the process forked since then?
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
        let (before, token) = (Generation::current(), Token::new(7));
        assert!(!before.is_past());
        // SAFETY: the child only reads memory and leaves by `_exit`.
        match unsafe { libc::fork() } {
            0 => {
                let past = before.is_past();
                let own = Generation::current();
                let past = past && token.get() == 0;
                let code = if past && !own.is_past() && own.value != before.value { 0 } else { 1 };
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(code) }
            }
            child => {
                let mut status = -1;
                // SAFETY: waits for the child made above, with a valid pointer.
                unsafe { libc::waitpid(child, &mut status, 0) };
                assert_eq!(status, 0, "the child did not notice that it was forked");
                assert!(!before.is_past() && token.get() == 7);
            }
        }
    }
}
