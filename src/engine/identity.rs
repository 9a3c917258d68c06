//! Who a process is: enough to tell whether two of them share a host, and whether a process is still the same one.
#![deny(unsafe_code)]

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

/// The process that made an address, as its trailer tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()),
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

/// Random for each boot, unless the environment says more: what makes processes of one kernel count as those of several hosts, for tests and for
/// containers that share no memory.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
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

/// The same of another process of this pid namespace; none where it has gone, or where that is not to be known.
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

/// Does this process of ours or of a neighbour live, beyond doubt? The kernel marks one that is ending before it closes its
/// sockets. Without allocation: whoever waits asks this all the time.
pub(crate) fn lives(process: &Identity) -> bool {
    const FLAGS: usize = 6;
    const STARTED: usize = 19;
    const EXITING: u64 = 4;
    let mut buffer = [0; 1024];
    let Some(numbers) = numbers_of(process.pid, &mut buffer) else { return false };
    let number = |at: usize| numbers.split_ascii_whitespace().nth(at)?.parse::<u64>().ok();
    number(STARTED) == Some(process.start_time) && number(FLAGS).is_some_and(|flags| flags & EXITING == 0)
}

/// What stands in `/proc/PID/stat` behind the name, as much of it as there is room for.
fn numbers_of(pid: u32, buffer: &mut [u8; 1024]) -> Option<&str> {
    let mut path = [0; 32];
    let mut rest = &mut path[..];
    write!(rest, "/proc/{pid}/stat").ok()?;
    let left = rest.len();
    let path = std::str::from_utf8(&path[..path.len() - left]).ok()?;
    let length = std::fs::File::open(path).ok()?.read(buffer).ok()?;
    let stat = &buffer[..length];
    let name_ends = stat.iter().rposition(|byte| *byte == b')')?;
    std::str::from_utf8(&stat[name_ends + 1..]).ok()
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
}
