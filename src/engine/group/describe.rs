//! Describes for people what a collective call of a group waits for.
#![deny(unsafe_code)]

use crate::engine::base::open_metrics::Report;
use crate::engine::core::monitor::registry::{self, Look, Pulse, Watched};
use crate::engine::core::monitor::wait_note::{WaitNote, Waits};
use crate::engine::core::worker::dump::milliseconds;
use crate::engine::group::service::Service;
use crate::engine::os::process_identity::Identity;
use crate::engine::os::thread_text;
use crate::engine::ucx::context::Context;
use std::sync::{Arc, Weak};

/// What the monitor sees of a group's service. It is apart from the service, whose end waits for
/// the members and is nothing for the monitor's thread.
pub(crate) struct GroupWaits {
    context: Arc<Context>,
    rank: u32,
    /// By job rank.
    processes: Box<[Option<Identity>]>,
    note: WaitNote,
}

impl GroupWaits {
    fn new(context: &Arc<Context>, rank: u32, processes: Box<[Option<Identity>]>) -> Arc<Self> {
        let (context, note) = (context.clone(), WaitNote::default());
        let waits = Arc::new(GroupWaits { context, rank, processes, note });
        if registry::is_wanted() {
            let watched: Weak<GroupWaits> = Arc::downgrade(&waits);
            registry::watch(watched, Pulse::default());
        }
        waits
    }

    /// A collective call is about to wait for a message of this member.
    pub(super) fn begin(&self, job_rank: u32) -> Waits<'_> {
        self.note.begin(1, job_rank)
    }

    fn member_text(&self, job_rank: u32) -> String {
        let of = |rank: u32| self.processes.get(rank as usize).copied().flatten();
        let Some(process) = of(job_rank) else { return format!("rank {job_rank}") };
        let is_near = of(self.rank).is_some_and(|own| process.shares_host_with(&own));
        let state = is_near.then(|| thread_text::state_of_process(process.pid)).flatten();
        let state = state.map(|state| format!(", which {state}")).unwrap_or_default();
        let host = if is_near { "" } else { " of another host or container" };
        format!("rank {job_rank} (process {}{host}{state})", process.pid)
    }
}

impl Service {
    /// There are members: lets the monitor see what calls wait for.
    pub(super) fn show_waits(&self) {
        let processes = self.members().iter();
        let processes =
            processes.map(|member| member.service.origin().map(|origin| origin.identity));
        let _ = self.waits.set(GroupWaits::new(&self.user.context, self.rank, processes.collect()));
    }
}

impl Watched for GroupWaits {
    fn describe(&self, look: &Look<'_>) -> Vec<String> {
        let size = self.processes.len();
        let mut lines = vec![format!("group of {size} processes, this is rank {}", self.rank)];
        if let Some((_, job_rank)) = self.note.get() {
            lines.push(format!(
                "  a collective call waits for {} to make the same call, for {}",
                self.member_text(job_rank),
                milliseconds(look.seen.still_ns)
            ));
        }
        lines
    }

    fn title(&self) -> String {
        format!("group, rank {}", self.rank)
    }

    fn pulse(&self) -> Pulse {
        let count = self.note.count();
        Pulse { calls: count, in_flight: self.note.get().is_some().into(), ended: count }
    }

    fn context(&self) -> &Context {
        &self.context
    }

    /// The groups of the service do.
    fn measure(&self, _: &mut Report) {}
}
