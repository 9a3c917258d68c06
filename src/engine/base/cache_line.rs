//! Padding against false sharing: fields that different threads write get separate cache lines.
//!
//! If one thread writes a word all the time, every other thread that reads a neighbour in the same
//! line has to fetch the line from that core. That costs as much as a whole submission may cost.

/// In a `repr(C)` struct: the field after this one begins a new cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
pub(crate) struct CacheLine;

/// Fetches a cache line that this thread is about to write, and that another core may still own.
/// The transfer overlaps with what the caller does next. Any address is allowed.
#[inline(always)]
pub(crate) fn fetch_to_write<T>(there: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: the instruction is a hint. It reads and writes nothing and cannot fault, whatever the
    // address is. Processors that do not know it ignore it.
    unsafe {
        std::arch::asm!(
            "prefetchw [{}]", in(reg) there, options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    let _ = there;
}

const _: () = assert!(size_of::<CacheLine>() == 0);
