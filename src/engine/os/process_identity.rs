//! Identity of a process: enough to know whether two processes share a host, and whether a process
//! still lives and is not a later one with the same pid.
//!
//! Addresses carry an `Identity`. Threads that wait for a peer call `lives` again and again, so it
//! does not allocate. It reads `/proc`, and needs no permission that shared segments do not need.
#![deny(unsafe_code)]

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Error, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Identifies the process, and the worker in it, that made an address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Identity {
    /// Random for each boot of a host: two processes with the same value run on the same kernel.
    pub(crate) boot_id: [u8; 16],
    /// Inode of the pid namespace: pids are comparable only within one.
    pub(crate) pid_namespace: u64,
    pub(crate) pid: u32,
    /// In clock ticks since boot: differs from that of a later process with the same pid.
    pub(crate) start_time: u64,
    /// Number of the worker in its process, counted from `first_number`.
    pub(crate) worker: u64,
}

impl Identity {
    /// Identity of this process. Read anew each time, as a forked child is another process.
    pub(crate) fn of_this_process(worker: u64) -> Self {
        Identity {
            boot_id: boot_id(),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid")
                .map_or(0, |namespace| namespace.ino()),
            pid: std::process::id(),
            start_time: start_time().unwrap_or(0),
            worker,
        }
    }

    /// Does the other process run on the same kernel?
    pub(crate) fn same_host(&self, other: &Identity) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0; 16]
    }

    /// Same kernel and same pid namespace: only then do equal pids mean the same process.
    pub(crate) fn shares_host_with(&self, other: &Identity) -> bool {
        self.same_host(other) && self.pid_namespace == other.pid_namespace
    }

    /// Same process, any worker?
    pub(crate) fn same_process(&self, other: &Identity) -> bool {
        self.shares_host_with(other) && self.pid == other.pid && self.start_time == other.start_time
    }

    /// Same worker of the same process?
    pub(crate) fn same_worker(&self, other: &Identity) -> bool {
        self.same_process(other) && self.worker == other.worker
    }

    /// Like `same_process`, for an identity that names no worker: every field but `worker` is
    /// equal.
    pub(crate) fn is_process(&self, other: &Identity) -> bool {
        Identity { worker: other.worker, ..*self } == *other
    }

    /// A number for logs that identifies the peer; both sides compute the same.
    pub(crate) fn peer_id(&self) -> u64 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.boot_id);
        hasher.update(&self.pid_namespace.to_le_bytes());
        hasher.update(&self.pid.to_le_bytes());
        hasher.update(&self.start_time.to_le_bytes());
        hasher.update(&(self.worker >> 32).to_le_bytes());
        (u64::from(hasher.finalize()) << 32) | (self.worker & 0xffff_ffff)
    }
}

/// Workers and registered memory are numbered from here: 32 random bits, then zeros. A process may
/// contain this library several times, as libraries that it loads may each be linked to the
/// archive. They must not take each other's workers and memory for their own.
pub(crate) fn first_number() -> u64 {
    static FIRST: OnceLock<u64> = OnceLock::new();
    *FIRST.get_or_init(|| RandomState::new().build_hasher().finish() << 32)
}

/// The kernel's boot id, changed by UCXX_RS_HOST_ID if that is set. With different values,
/// processes of one kernel count as those of several hosts: for tests, and for containers that
/// share no memory.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (pair[0] << 4) | pair[1];
    }
    if let Some(host) = std::env::var_os("UCXX_RS_HOST_ID") {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(host.as_encoded_bytes());
        let hash = hasher.finalize().to_le_bytes();
        id.iter_mut().zip(hash).for_each(|(byte, other)| *byte ^= other);
    }
    id
}

fn start_time() -> Option<u64> {
    start_time_of(std::process::id())
}

/// Start time of another process of this pid namespace. `None` if the process has ended or `/proc`
/// does not show it.
pub(crate) fn start_time_of(pid: u32) -> Option<u64> {
    let text = with_stat_path(pid, |path| std::fs::read_to_string(path));
    field(&text.ok()?, 19)
}

/// A field of the text of a `stat`, counted from after the name.
fn field(stat: &str, number: usize) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number)?.parse().ok()
}

/// State of a process, as far as `/proc` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// It lives, or nothing shows that it has ended.
    Lives,
    /// The main thread has ended or is ending, and there are other threads. Either they are ending
    /// too, or the process continues without its main thread.
    MainEnded,
    Ended,
}

/// Does this process of the host live?
///
/// It counts as dead only if `/proc` shows that it has ended. If that cannot be found out, for lack
/// of a descriptor or of memory, it counts as alive for now: waiting threads ask again, and a
/// living process that is taken for dead would lose what it holds. The kernel marks a process as
/// ending before it closes its sockets. Does not allocate, as waiting threads call it all the time.
///
/// Known gap: a living process counts as dead if `/proc` does not show its pid at all, because of a
/// `hidepid` mount or a `/proc` of another pid namespace. Nothing distinguishes that from an ended
/// process. Processes that may not look into each other by `/proc` share no memory either
/// (`shared_segment`).
pub(crate) fn lives(process: &Identity) -> bool {
    life(process) != Life::Ended
}

/// Like `lives`, for callers that do not ask again: if the main thread has ended, it checks whether
/// another thread continues. Allocates.
pub(crate) fn goes_on(process: &Identity) -> bool {
    match life(process) {
        Life::Lives => true,
        // Twice: between receiving SIGKILL and being marked as exiting, a thread looks alive.
        Life::MainEnded => {
            has_living_thread(process.pid) && {
                std::thread::yield_now();
                has_living_thread(process.pid)
            }
        }
        Life::Ended => false,
    }
}

fn life(process: &Identity) -> Life {
    let mut buffer = [0; 1024];
    let read = with_stat_path(process.pid, |path| std::fs::File::open(path)?.read(&mut buffer));
    match read {
        Ok(length) => life_in(&buffer[..length], process.start_time)
            .unwrap_or_else(|| life_by_paths(process.pid)),
        Err(error) if says_gone(&error) => Life::Ended,
        Err(_) => life_by_paths(process.pid),
    }
}

/// State from the text of `/proc/PID/stat`; `None` if the text is not understood.
fn life_in(stat: &[u8], start_time: u64) -> Option<Life> {
    const THREADS: usize = 17;
    const STARTED: usize = 19;
    let numbers = numbers_in(stat)?;
    let number = |at: usize| numbers.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
    Some(if number(STARTED)? != start_time {
        Life::Ended
    } else if !is_ending(numbers)? {
        Life::Lives
    } else if number(THREADS)? > 1 {
        Life::MainEnded
    } else {
        Life::Ended
    })
}

/// Has this thread ended, reaped or not, or is it exiting?
fn is_ending(numbers: &str) -> Option<bool> {
    const FLAGS: usize = 6;
    const EXITING: u64 = 4;
    let mut fields = numbers.split_ascii_whitespace();
    let state = fields.next()?;
    let flags = fields.nth(FLAGS - 1)?.parse::<u64>().ok()?;
    Some(matches!(state, "Z" | "X" | "x") || flags & EXITING != 0)
}

/// Is SIGKILL pending for this thread? When a process is killed, it is pending for each thread
/// until that thread handles it.
fn is_killed(numbers: &str) -> bool {
    const PENDING: usize = 28;
    let pending =
        numbers.split_ascii_whitespace().nth(PENDING).and_then(|number| number.parse::<u64>().ok());
    pending.is_some_and(|signals| signals >> (libc::SIGKILL - 1) & 1 != 0)
}

/// The part of the text after the name.
fn numbers_in(stat: &[u8]) -> Option<&str> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(&stat[name_ends + 1..]).ok()
}

/// State without opening a file, for a process that has run out of descriptors. The link `exe` of
/// an ended process is not readable, even before it is reaped, and the link count of `task` gives
/// the number of threads. The start time is not visible this way. So if another process has taken
/// the pid, this returns `Lives` until a descriptor is free again.
fn life_by_paths(pid: u32) -> Life {
    // Two for the folder itself, and one for each thread.
    const LINKS_OF_ONE_THREAD: u64 = 3;
    let program = path_of(pid, "exe", |path| std::fs::metadata(path));
    let is_seen = !program.is_err_and(|error| says_gone(&error));
    if is_seen || std::fs::metadata("/proc/thread-self/exe").is_err() {
        return Life::Lives;
    }
    match path_of(pid, "task", |path| std::fs::metadata(path)) {
        Ok(threads) if threads.nlink() == LINKS_OF_ONE_THREAD => Life::Ended,
        Err(error) if says_gone(&error) => Life::Ended,
        _ => Life::MainEnded,
    }
}

/// Is there a thread that neither has ended nor is exiting?
fn has_living_thread(pid: u32) -> bool {
    let lives = |thread: std::io::Result<std::fs::DirEntry>| match thread
        .and_then(|entry| std::fs::read(entry.path().join("stat")))
    {
        Ok(stat) => !numbers_in(&stat)
            .is_some_and(|numbers| is_ending(numbers) == Some(true) || is_killed(numbers)),
        Err(error) => !says_gone(&error),
    };
    match std::fs::read_dir(format!("/proc/{pid}/task")) {
        Ok(mut threads) => threads.any(lives),
        Err(error) => !says_gone(&error),
    }
}

/// Does the error of a file in `/proc/PID` mean that the process has ended?
fn says_gone(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Calls `work` with the path of the main thread's `stat`. Its fields that are used here are those
/// of the process, but the kernel does not add up the times of all threads for it. qemu-user also
/// leaves it alone, while it gives a process another start time of its own in `/proc/PID/stat`.
fn with_stat_path<T>(pid: u32, work: impl FnOnce(&str) -> Result<T, Error>) -> Result<T, Error> {
    with_path(format_args!("/proc/{pid}/task/{pid}/stat"), work)
}

/// Calls `work` with the path of a file in `/proc/PID`.
fn path_of<T>(
    pid: u32,
    name: &str,
    work: impl FnOnce(&str) -> Result<T, Error>,
) -> Result<T, Error> {
    with_path(format_args!("/proc/{pid}/{name}"), work)
}

fn with_path<T>(
    text: std::fmt::Arguments<'_>,
    work: impl FnOnce(&str) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut path = [0; 48];
    let mut rest = &mut path[..];
    rest.write_fmt(text)?;
    let left = rest.len();
    work(std::str::from_utf8(&path[..path.len() - left]).expect("written as text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_knows_itself() {
        let (first, second) = (Identity::of_this_process(1), Identity::of_this_process(2));
        assert_ne!(first.boot_id, [0; 16]);
        assert!(first.start_time > 0 && first.pid_namespace > 0);
        assert!(first.same_process(&second));
        assert_ne!(first.peer_id(), second.peer_id());
        let earlier = Identity { start_time: first.start_time - 1, ..first };
        assert!(lives(&first) && !lives(&earlier));
        assert!(first.shares_host_with(&earlier) && !first.same_process(&earlier));
    }

    /// A line as in `/proc/PID/stat`, of a process whose start time is 8983773.
    fn stat(state: &str, flags: u64, threads: u64) -> Vec<u8> {
        format!(
            "1305 (a ) (b) {state} 1289 15065 1 0 -1 {flags} 15 0 0 0 0 0 0 0 20 0 {threads} 0 \
            8983773 2400 17"
        )
        .into_bytes()
    }

    #[test]
    fn what_its_stat_tells_of_a_process() {
        let life = |stat: &[u8]| life_in(stat, 8_983_773);
        const FORKED: u64 = 0x40_0040;
        for state in ["R", "S", "D", "T", "t", "I"] {
            assert_eq!(life(&stat(state, FORKED, 1)), Some(Life::Lives), "{state}");
            assert_eq!(life(&stat(state, FORKED, 7)), Some(Life::Lives), "{state}");
            assert_eq!(life(&stat(state, FORKED | 4, 1)), Some(Life::Ended), "{state}");
            assert_eq!(life(&stat(state, FORKED | 4, 2)), Some(Life::MainEnded), "{state}");
        }
        for state in ["Z", "X", "x"] {
            assert_eq!(life(&stat(state, FORKED, 1)), Some(Life::Ended), "{state}");
            assert_eq!(life(&stat(state, FORKED | 4, 0)), Some(Life::Ended), "{state}");
            assert_eq!(life(&stat(state, FORKED | 4, 2)), Some(Life::MainEnded), "{state}");
        }
        assert_eq!(
            life_in(&stat("R", FORKED, 1), 8_983_774),
            Some(Life::Ended),
            "another one of that number"
        );
        // A name may contain any bytes.
        let strange = [b"1 (\xff\xfe) Z 9) ", &stat("S", FORKED, 1)[..]].concat();
        assert_eq!(life(&strange), Some(Life::Lives));
        for nothing in [
            &b""[..],
            b"1305 (a",
            b"1305 (a) ",
            b"1305 (a) S 1289 15065 1 0 -1",
            b"1305 (a) S 1 2 3 4 5 x 7 8 9 10",
        ] {
            assert_eq!(life(nothing), None);
        }
    }

    #[test]
    fn of_a_process_that_ends_both_ways_tell_so() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let mut process = Identity::of_this_process(1);
        assert_eq!((life(&process), life_by_paths(process.pid)), (Life::Lives, Life::Lives));
        process.pid = child.id();
        process.start_time = start_time_of(child.id()).unwrap();
        assert_eq!((life(&process), life_by_paths(process.pid)), (Life::Lives, Life::Lives));
        assert!(goes_on(&process));
        child.kill().unwrap();
        // Not reaped yet.
        while life(&process) != Life::Ended || life_by_paths(process.pid) != Life::Ended {
            std::thread::yield_now();
        }
        assert!(!lives(&process) && !goes_on(&process) && !has_living_thread(process.pid));
        assert!(std::fs::exists(format!("/proc/{}", process.pid)).unwrap());
        child.wait().unwrap();
        assert_eq!((life(&process), life_by_paths(process.pid)), (Life::Ended, Life::Ended));
        assert!(!has_living_thread(process.pid) && has_living_thread(std::process::id()));
    }
}
