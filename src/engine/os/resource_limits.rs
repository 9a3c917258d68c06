//! Limits of the system: how much is left, for messages that say what was missing, and so that we
//! do not ask for an amount for which the kernel would kill the process.

use rustix::process::{getrlimit, Resource};
use std::ffi::CStr;

/// UCX keeps the memory that it shares with other processes here, unless UCX_POSIX_DIR is set.
const SHARED: &CStr = c"/dev/shm";
/// A UCX worker uses some 5 MiB there, and as much again if many received messages wait.
const LITTLE: u64 = 16 << 20;

/// Free bytes of the file system at `path`.
fn left_on(path: &CStr) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Adds to a message that /dev/shm is almost full, if that may be the reason: UCX's own messages do
/// not say so.
pub(crate) fn with_shared_memory(text: String) -> String {
    match left_on(SHARED) {
        Some(left) if left < LITTLE => {
            format!(
                "{text}; /dev/shm, where UCX has the memory that it shares with other processes, \
                has {} KiB left",
                left >> 10
            )
        }
        _ => text,
    }
}

/// Longest file that this process may write (`ulimit -f`). It also limits shared memory. The kernel
/// sends a process that exceeds it a signal that ends it.
pub(crate) fn longest_file() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}
