//! The processor's own counter, which is read in a fraction of the time that the clock takes.

/// So many ticks are a microsecond or less: too short for a timeout to be missed.
pub(crate) const MOMENT: u64 = 1000;

/// Only the difference of two values means something, and only whether it is as small as `MOMENT`:
/// the rate is the processor's, and a thread that moves to another one may see the value jump.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the instruction reads a counter, and every processor of this architecture has it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    crate::engine::base::clock::now_ns()
}
