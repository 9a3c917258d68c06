//! Describes a thread of this process, or another process, as `/proc` shows it.
#![deny(unsafe_code)]

use std::fs;

/// A thread of this process: its number, name and state.
pub(crate) fn describe(thread: u32) -> String {
    let Some(stat) = read(&format!("/proc/self/task/{thread}")) else {
        return format!("thread {thread}, which has ended");
    };
    format!("thread {thread} \"{}\", which {}", stat.name, stat.state())
}

/// What keeps another process of this host from running: it is stopped, or has ended. None if
/// nothing does, or if it is not known.
pub(crate) fn trouble_of_process(pid: u32) -> Option<&'static str> {
    match read(&format!("/proc/{pid}"))?.letter {
        'T' => Some("is stopped (SIGSTOP or the like; kill -CONT lets it go on)"),
        't' => Some("is stopped by a debugger"),
        'Z' | 'X' => Some("has ended"),
        _ => None,
    }
}

/// What another process of this host does, as far as it is known.
pub(crate) fn state_of_process(pid: u32) -> Option<String> {
    Some(match trouble_of_process(pid) {
        Some(trouble) => trouble.to_owned(),
        None => read(&format!("/proc/{pid}"))?.state(),
    })
}

struct Stat {
    name: String,
    letter: char,
    system_call: Option<String>,
}

fn read(folder: &str) -> Option<Stat> {
    let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    // Where it sleeps in the kernel, if the kernel shows it.
    let channel = fs::read_to_string(format!("{folder}/wchan")).ok();
    let system_call = channel.filter(|name| !name.is_empty() && name != "0");
    Some(Stat { name: name.to_owned(), letter: after.trim_start().chars().next()?, system_call })
}

impl Stat {
    fn state(&self) -> String {
        let state = match self.letter {
            'R' => "runs or is ready to run",
            'S' => "sleeps",
            'D' => "waits for a disk or a driver",
            'T' | 't' => "is stopped",
            'Z' | 'X' => "has ended",
            _ => "is in a state that is not known",
        };
        match &self.system_call {
            Some(channel) => format!("{state} ({channel})"),
            None => state.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_and_processes_are_described() {
        let me = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let text = describe(me);
        assert!(text.contains("which runs"), "{text}");
        assert_eq!(describe(u32::MAX), format!("thread {}, which has ended", u32::MAX));
        assert_eq!(trouble_of_process(std::process::id()), None);
    }
}
