//! Keeps apart in memory what different threads write.
//!
//! A word that one thread writes all the time costs every other thread that reads its neighbours a
//! trip between cores, which is as much as a whole submission may cost.

/// In a `repr(C)` struct: what follows begins a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine;

/// What is there is going to be written by this thread, and may still be another core's: it is
/// fetched meanwhile. Any address.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(there: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: a hint, which reads and writes nothing, whatever the address; processors that do not
    // know it do nothing.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]", in(reg) there, options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let _ = there;
}

const _: () = assert!(size_of::<CacheLine>() == 0);
