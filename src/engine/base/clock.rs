//! The clock, and deadlines by it.
#![deny(unsafe_code)]

use rustix::event::Timespec;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds of CLOCK_MONOTONIC since the first call in this process. Starts at 1, so that 0 can
/// mean none.
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1 + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The moment `timeout_ns` from now; `u64::MAX`, for ever, stays what it is.
pub(crate) fn deadline_after(timeout_ns: u64) -> u64 {
    now_ns().saturating_add(timeout_ns)
}

/// The same for those to which 0 is no limit.
pub(crate) fn deadline_if_any(timeout_ns: u64) -> u64 {
    deadline_after(if timeout_ns == 0 { u64::MAX } else { timeout_ns })
}

/// What is left until `deadline`, none for ever.
pub(crate) fn remaining(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now_ns())))
}

/// For calls of the kernel.
pub(crate) fn timespec(time: Duration) -> Timespec {
    let seconds = time.as_secs().min(i64::MAX as u64 / 4) as i64;
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}
