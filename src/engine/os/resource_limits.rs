//! What the system still gives, for messages that say what was missing, and for what the kernel
//! ends a process for that asks for more.

use rustix::process::{getrlimit, Resource};
use std::ffi::CStr;

/// Where UCX has the memory by which it reaches other processes of the host, unless UCX_POSIX_DIR
/// says otherwise.
const SHARED: &CStr = c"/dev/shm";
/// A worker of UCX has some 5 MiB there, and takes as much again when many messages wait to be
/// received.
const LITTLE: u64 = 16 << 20;

/// Bytes that can still be had where a file system is mounted.
fn left_on(path: &CStr) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What UCX failed at, and that there is hardly any shared memory, where that may be why: UCX's own
/// words do not name it.
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

/// How long a file may be that this process writes (`ulimit -f`), memory that it shares included.
/// Whoever asks for more gets a signal that ends the process.
pub(crate) fn longest_file() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}
