//! What the system still gives, for messages that say what was missing, and for what the kernel
//! ends a process for that asks for more.

use std::ffi::CStr;

/// Where UCX has the memory by which it reaches other processes of the host, unless UCX_POSIX_DIR
/// says otherwise.
const SHARED: &CStr = c"/dev/shm";
/// A worker of UCX has some 5 MiB there, and takes as much again when many messages wait to be
/// received.
const LITTLE: u64 = 16 << 20;

/// Bytes that can still be had where a file system is mounted.
fn left_on(path: &CStr) -> Option<u64> {
    // SAFETY: all-zero is valid, and overwritten.
    let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: a terminated path and a valid out-pointer.
    let told = unsafe { libc::statvfs(path.as_ptr(), &mut found) } == 0;
    told.then(|| (found.f_bavail as u64).saturating_mul(found.f_frsize as u64))
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
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid out-pointer.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}
