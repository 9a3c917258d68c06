//! The monotonic clock, deadlines on it, and a thread's time on a processor. Any thread may call
//! this.
#![deny(unsafe_code)]

use rustix::event::Timespec;
use rustix::time::{clock_gettime, ClockId};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds of CLOCK_MONOTONIC since the first call in this process. Starts at 1, so callers can
/// use 0 for "no time".
pub(crate) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1 + START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Nanoseconds that this thread has had a processor. Costs a system call.
pub(crate) fn worked_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The deadline `timeout_ns` from now. `u64::MAX` means no deadline, and stays `u64::MAX`.
pub(crate) fn deadline_after(timeout_ns: u64) -> u64 {
    now_ns().saturating_add(timeout_ns)
}

/// Like `deadline_after`, for callers whose timeout of 0 means no limit.
pub(crate) fn deadline_if_any(timeout_ns: u64) -> u64 {
    deadline_after(if timeout_ns == 0 { u64::MAX } else { timeout_ns })
}

/// Time left until `deadline`; `None` if there is no deadline.
pub(crate) fn remaining(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now_ns())))
}

/// For system calls.
pub(crate) fn timespec(time: Duration) -> Timespec {
    let seconds = time.as_secs().min(i64::MAX as u64 / 4) as i64;
    Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() }
}
