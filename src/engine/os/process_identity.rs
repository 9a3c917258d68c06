//! Who a process is: enough to tell whether two of them share a host, and whether a process is
//! still the same one.
#![deny(unsafe_code)]

use std::io::{Error, Read, Write};
use std::os::unix::fs::MetadataExt;

/// The process that made an address, as its trailer tells.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Identity {
    /// Random for each boot of a host: the same here and there means the same kernel.
    pub(crate) boot_id: [u8; 16],
    /// Inode of the pid namespace: pids are comparable only within one.
    pub(crate) pid_namespace: u64,
    pub(crate) pid: u32,
    /// In clock ticks since boot: tells a process from a later one with the same pid.
    pub(crate) start_time: u64,
    /// Counts the workers of a process.
    pub(crate) worker: u64,
}

impl Identity {
    /// This process. Read anew each time: a forked child is another process.
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

    /// Does the other one run on the same kernel?
    pub(crate) fn same_host(&self, other: &Identity) -> bool {
        self.boot_id == other.boot_id && self.boot_id != [0; 16]
    }

    /// The same, and in the same pid namespace: only there a number stands for the same process.
    pub(crate) fn shares_host_with(&self, other: &Identity) -> bool {
        self.same_host(other) && self.pid_namespace == other.pid_namespace
    }

    /// The same process, whichever worker?
    pub(crate) fn same_process(&self, other: &Identity) -> bool {
        self.shares_host_with(other) && self.pid == other.pid && self.start_time == other.start_time
    }

    /// The same worker of the same process?
    pub(crate) fn same_worker(&self, other: &Identity) -> bool {
        self.same_process(other) && self.worker == other.worker
    }

    /// As one that names no worker tells.
    pub(crate) fn is_process(&self, other: &Identity) -> bool {
        Identity { worker: other.worker, ..*self } == *other
    }

    /// A number for logs and for telling peers apart; the same on both sides.
    pub(crate) fn peer_id(&self) -> u64 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.boot_id);
        hasher.update(&self.pid_namespace.to_le_bytes());
        hasher.update(&self.pid.to_le_bytes());
        hasher.update(&self.start_time.to_le_bytes());
        (u64::from(hasher.finalize()) << 32) | (self.worker & 0xffff_ffff)
    }
}

/// Random for each boot, unless the environment says more: what makes processes of one kernel count
/// as those of several hosts, for tests and for containers that share no memory.
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
    start_time_in("/proc/self/stat")
}

/// The same of another process of this pid namespace; none where it has gone, or where that is not
/// to be known.
pub(crate) fn start_time_of(pid: u32) -> Option<u64> {
    start_time_in(&format!("/proc/{pid}/stat"))
}

/// Field 22 of the file, counted after the command name, which may hold blanks and parentheses.
fn start_time_in(file: &str) -> Option<u64> {
    field(&std::fs::read_to_string(file).ok()?, 19)
}

/// Of `/proc/PID/stat`, counted from behind the name.
fn field(stat: &str, number: usize) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(number)?.parse().ok()
}

/// What is known of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Or nothing says otherwise.
    Lives,
    /// Its main thread ends, or has ended, and others are there: it ends with all of them, or goes
    /// on without that one.
    MainEnded,
    Ended,
}

/// Does this process of ours or of a neighbour live? Dead is who was seen to be: what cannot be
/// found out, as there is no descriptor or no memory for it, counts as alive for now. It is asked
/// again by whoever waits, and one that lives would lose what it holds. The kernel marks a process
/// that is ending before it closes its sockets. Without allocation: whoever waits asks this all the
/// time.
///
/// Taken for dead, though it may live, is still one whose number `/proc` does not show at all:
/// hidden by a `hidepid` mount, or where `/proc` is that of another pid namespace. Nothing there
/// tells it from one that has gone; and who may not look into a process in `/proc` has no memory in
/// common with it (`segment`).
pub(crate) fn lives(process: &Identity) -> bool {
    life(process) != Life::Ended
}

/// As `lives`, for who does not ask again: of a process whose main thread has ended, does another
/// one go on? With allocation.
pub(crate) fn goes_on(process: &Identity) -> bool {
    match life(process) {
        Life::Lives => true,
        // Twice: between taking its SIGKILL and being marked as one that ends a thread looks as if
        // it lived.
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
    let read = path_of(process.pid, "stat", |path| std::fs::File::open(path)?.read(&mut buffer));
    match read {
        Ok(length) => life_in(&buffer[..length], process.start_time)
            .unwrap_or_else(|| life_by_paths(process.pid)),
        Err(error) if says_gone(&error) => Life::Ended,
        Err(_) => life_by_paths(process.pid),
    }
}

/// As the text of `/proc/PID/stat` tells; none if it does not.
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

/// Of one thread: has it ended, reaped or not, or is it about to?
fn is_ending(numbers: &str) -> Option<bool> {
    const FLAGS: usize = 6;
    const EXITING: u64 = 4;
    let mut fields = numbers.split_ascii_whitespace();
    let state = fields.next()?;
    let flags = fields.nth(FLAGS - 1)?.parse::<u64>().ok()?;
    Some(matches!(state, "Z" | "X" | "x") || flags & EXITING != 0)
}

/// Of one thread: is SIGKILL on its way to it? So it is to all threads of a process that ends,
/// until each has got that far.
fn is_killed(numbers: &str) -> bool {
    const PENDING: usize = 28;
    let pending =
        numbers.split_ascii_whitespace().nth(PENDING).and_then(|number| number.parse::<u64>().ok());
    pending.is_some_and(|signals| signals >> (libc::SIGKILL - 1) & 1 != 0)
}

/// What stands in the text behind the name.
fn numbers_in(stat: &[u8]) -> Option<&str> {
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(&stat[name_ends + 1..]).ok()
}

/// What can be told without a descriptor: the main thread's program is not to be seen once it ends,
/// also while nobody has reaped it, and the folder of threads counts them in its links. When the
/// process began is not among that: where its number has gone to another one, this says that it
/// lives, until there is a descriptor again.
fn life_by_paths(pid: u32) -> Life {
    // A folder's own, and one for each thread.
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

/// Does any of its threads neither end nor be one that has ended?
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

/// Of a file in `/proc/PID`: is the process no more?
fn says_gone(error: &Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Does something with the path of a file in `/proc/PID`.
fn path_of<T>(
    pid: u32,
    name: &str,
    work: impl FnOnce(&str) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut path = [0; 32];
    let mut rest = &mut path[..];
    write!(rest, "/proc/{pid}/{name}")?;
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

    /// A text of `/proc/PID/stat` of a process that began at 8983773.
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
        // Bytes of a name are any.
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
        // Nobody has reaped it.
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
