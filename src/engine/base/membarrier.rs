//! A barrier of which one side makes both halves: the many have a store and a load after each
//! other, with nothing in between that costs them anything; who seldom comes has the kernel make a
//! barrier on every processor that runs one of them (membarrier(2), 0.4 us where nobody else runs,
//! a few microseconds else). Who does not run then passes one before it goes on.
//!
//! As with the biased locks of Kawachiya, Koseki and Onodera (2002).

use std::sync::atomic::{compiler_fence, fence, Ordering};
use std::sync::OnceLock;

mod command {
    pub(crate) const GLOBAL_EXPEDITED: i32 = 1 << 1;
    pub(crate) const REGISTER_GLOBAL_EXPEDITED: i32 = 1 << 2;
}

fn membarrier(command: i32) -> bool {
    // SAFETY: a system call that takes numbers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

/// Has this process be one of the many. False where the kernel, or what confines the process, does
/// not offer it.
pub(crate) fn take_part() -> bool {
    static TAKES_PART: OnceLock<bool> = OnceLock::new();
    *TAKES_PART.get_or_init(|| membarrier(command::REGISTER_GLOBAL_EXPEDITED))
}

/// The side of the many. By when somebody comes back from `everywhere`, he sees the store, or what
/// is loaded here is what he had stored before, or newer.
#[inline(always)]
pub(crate) fn store_then_load<T>(store: impl FnOnce(), load: impl FnOnce() -> T) -> T {
    store();
    compiler_fence(Ordering::SeqCst);
    load()
}

/// The side of who seldom comes, among processes that all take part. False if the kernel refuses
/// what it had offered.
pub(crate) fn everywhere() -> bool {
    fence(Ordering::SeqCst);
    membarrier(command::GLOBAL_EXPEDITED)
}
