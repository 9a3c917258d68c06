//! An asymmetric barrier. Many threads store and then load, with no fence in between, at no cost.
//! The rare other side calls membarrier(2), which makes the kernel execute a barrier on every
//! processor that runs a registered process: 0.4 us if none runs, a few microseconds otherwise. A
//! thread that does not run passes a barrier before it runs again.
//!
//! The technique is that of the biased locks of Kawachiya, Koseki and Onodera (2002).

use std::sync::atomic::{compiler_fence, fence, Ordering};
use std::sync::OnceLock;

mod command {
    pub(crate) const GLOBAL_EXPEDITED: i32 = 1 << 1;
    pub(crate) const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
}

fn membarrier(command: i32) -> bool {
    // SAFETY: the system call takes numbers only.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Registers this process for the barriers of others. False if the kernel, or a seccomp filter,
/// does not offer it.
pub(crate) fn take_part() -> bool {
    static TAKES_PART: OnceLock<bool> = OnceLock::new();
    *TAKES_PART.get_or_init(|| membarrier(command::REGISTER_GLOBAL_EXPEDITED))
}

/// The cheap side. When `everywhere` returns on another thread, that thread sees this store; or
/// `load` here sees what the other thread had stored before it called `everywhere`.
#[inline(always)]
pub(crate) fn store_then_load<T>(store: impl FnOnce(), load: impl FnOnce() -> T) -> T {
    store();
    compiler_fence(Ordering::SeqCst);
    load()
}

/// The expensive side; all processes concerned have called `take_part`. False if the kernel refuses
/// nevertheless.
pub(crate) fn everywhere() -> bool {
    fence(Ordering::SeqCst);
    membarrier(command::GLOBAL_EXPEDITED)
}
