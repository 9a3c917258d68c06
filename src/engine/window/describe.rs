//! Describes a window for people: who holds its locks, who waits for them, and what calls of this
//! process wait for.
//!
//! The monitor's thread reads words that processes share, or that any thread may read.
#![deny(unsafe_code)]

use crate::engine::base::open_metrics::Report;
use crate::engine::core::monitor::registry::{Look, Pulse, Watched};
use crate::engine::core::monitor::wait_note::Waits;
use crate::engine::core::worker::dump::milliseconds;
use crate::engine::os::thread_text;
use crate::engine::ucx::context::Context;
use crate::engine::window::window::Window;

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Awaited {
    /// The lock of a rank.
    Lock = 1,
    /// start: that a rank posts.
    Post = 2,
    /// wait: that a rank completes.
    Completion = 3,
    /// A fence, or another collective call: that a rank calls it as well.
    Round = 4,
    /// Operations at a rank of which it has to reply to some.
    Replies = 5,
}

impl Awaited {
    fn of(number: u32) -> Option<Self> {
        let all =
            [Awaited::Lock, Awaited::Post, Awaited::Completion, Awaited::Round, Awaited::Replies];
        all.into_iter().find(|kind| *kind as u32 == number)
    }
}

impl Window {
    /// A call is about to wait.
    pub(crate) fn note_wait(&self, what: Awaited, rank: u32) -> Waits<'_> {
        self.wait_note.begin(what as u32, rank)
    }
}

impl Watched for Window {
    fn describe(&self, look: &Look<'_>) -> Vec<String> {
        self.lines(Some(look.seen.still_ns))
    }

    fn title(&self) -> String {
        format!("window {}, rank {}", self.number, self.rank)
    }

    fn pulse(&self) -> Pulse {
        let count = self.wait_note.count();
        let waits = self.wait_note.get().is_some();
        Pulse { calls: count, in_flight: waits.into(), ended: count }
    }

    fn context(&self) -> &Context {
        &self.group.service.user.context
    }

    fn measure(&self, report: &mut Report) {
        self.measure_into(report);
    }
}

/// Who holds a lock, and who waits for it.
pub(crate) struct Holders {
    pub(crate) exclusive: Option<u32>,
    pub(crate) shared: Vec<u32>,
    pub(crate) waiting: Vec<u32>,
    pub(crate) is_poisoned: bool,
}

impl Window {
    /// A readable description. `still_ns`: how long it has stood still, if that is known.
    pub(super) fn lines(&self, still_ns: Option<u64>) -> Vec<String> {
        let size = self.targets.len();
        let mut lines =
            vec![format!("window {} of {size} ranks, this is rank {}", self.number, self.rank)];
        let waits = self.wait_note.get();
        if let Some((what, rank)) = waits.and_then(|(what, rank)| Some((Awaited::of(what)?, rank)))
        {
            let age = still_ns.map(|ns| format!(", for {}", milliseconds(ns))).unwrap_or_default();
            let who = self.member_text(rank);
            let text = match what {
                Awaited::Lock => format!("the lock of {who}"),
                Awaited::Post => format!("{who} to post its memory (ucxx_window_post)"),
                Awaited::Completion => {
                    format!("{who} to complete its access (ucxx_window_complete)")
                }
                Awaited::Round => format!("{who} to make the same collective call"),
                Awaited::Replies => format!("replies of {who} to operations there"),
            };
            lines.push(format!("  a call waits for {text}{age}"));
        }
        for (rank, target) in self.targets.iter().enumerate() {
            if let Some(control) = &target.control {
                self.add_lock(rank as u32, control.lock().holders(), &mut lines);
            }
        }
        lines
    }

    /// A rank, its process, and what keeps that from running.
    fn member_text(&self, rank: u32) -> String {
        let me = if rank == self.rank { ", this process" } else { "" };
        let Some(target) = self.targets.get(rank as usize) else { return format!("rank {rank}") };
        if target.control.is_none() {
            return format!("rank {rank} (process {} of another host)", target.process.pid);
        }
        let pid = target.process.pid;
        let trouble = match rank == self.rank {
            true => None,
            false => thread_text::state_of_process(pid),
        };
        let trouble = trouble.map(|trouble| format!(", which {trouble}")).unwrap_or_default();
        format!("rank {rank} (process {pid}{me}{trouble})")
    }

    fn add_lock(&self, rank: u32, holders: Holders, lines: &mut Vec<String>) {
        let list = |ranks: &[u32]| {
            ranks.iter().map(|rank| self.member_text(*rank)).collect::<Vec<_>>().join(", ")
        };
        let whose = if rank == self.rank {
            "its own lock".to_owned()
        } else {
            format!("rank {rank}'s lock")
        };
        if holders.is_poisoned {
            lines.push(format!("  {whose} is poisoned: a process that held it has ended"));
        }
        let waiting = match holders.waiting.is_empty() {
            true => String::new(),
            false => format!("; it is waited for by {}", list(&holders.waiting)),
        };
        let held = match (holders.exclusive, &holders.shared[..]) {
            (Some(owner), _) => format!("held exclusively by {}", self.member_text(owner)),
            (None, []) if waiting.is_empty() => return,
            (None, []) => "held by nobody".to_owned(),
            (None, readers) => format!("held, shared, by {}", list(readers)),
        };
        lines.push(format!("  {whose} is {held}{waiting}"));
    }
}
