//! Describes a window for people: who holds its locks, who waits for them, and what calls of this
//! process wait for.
//!
//! The monitor's thread reads words that processes share, or that any thread may read.
#![deny(unsafe_code)]

use crate::engine::base::open_metrics::Report;
use crate::engine::core::monitor::registry::{Look, Pulse, Subject};
use crate::engine::core::worker::dump::milliseconds;
use crate::engine::os::thread_text;
use crate::engine::ucx::context::Context;
use crate::engine::window::window::Window;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a call waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
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

/// Bits of the rank.
const RANK: u64 = (1 << 32) - 1;

/// What the latest call that waits is waiting for. Data calls of several threads may wait at once:
/// then it is that of one of them.
#[derive(Default)]
pub(crate) struct WaitNote {
    /// 0, or the rank, and above it what.
    what: AtomicU64,
    /// Calls that have waited so far, about: threads may overwrite each other's count.
    count: AtomicU64,
}

/// A call that waits.
pub(crate) struct Waits<'a>(&'a WaitNote);

impl WaitNote {
    /// A call is about to sleep.
    pub(crate) fn begin(&self, what: Awaited, rank: u32) -> Waits<'_> {
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.what.store((what as u64) << 32 | u64::from(rank), Ordering::Relaxed);
        Waits(self)
    }

    /// What a call waits for, and of which rank.
    fn get(&self) -> Option<(Awaited, u32)> {
        let word = self.what.load(Ordering::Relaxed);
        let kinds =
            [Awaited::Lock, Awaited::Post, Awaited::Completion, Awaited::Round, Awaited::Replies];
        let what = kinds.into_iter().find(|kind| *kind as u64 == word >> 32)?;
        Some((what, (word & RANK) as u32))
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.what.store(0, Ordering::Relaxed);
    }
}

impl Subject for Window {
    fn describe(&self, look: &Look<'_>) -> Vec<String> {
        let size = self.targets.len();
        let mut lines =
            vec![format!("window {} of {size} ranks, this is rank {}", self.number, self.rank)];
        if let Some((what, rank)) = self.wait_note.get() {
            let age = milliseconds(look.seen.still_ns);
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
            lines.push(format!("  a call waits for {text}, for {age}"));
        }
        for (rank, target) in self.targets.iter().enumerate() {
            if let Some(control) = &target.control {
                self.add_lock(rank as u32, control.lock().holders(), &mut lines);
            }
        }
        lines
    }

    fn title(&self) -> String {
        format!("window {}, rank {}", self.number, self.rank)
    }

    fn pulse(&self) -> Pulse {
        let count = self.wait_note.count.load(Ordering::Relaxed);
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
