//! Describes a hub for people: its envelopes, who holds them, and who waits for one.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::open_metrics::Report;
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::core::monitor::registry::{Look, Pulse, Watched};
use crate::engine::hub::hub::Hub;
use crate::engine::hub::lockfree::mode::LINK;
use crate::engine::hub::records::{Link, Role};
use crate::engine::hub::state::State;
use crate::engine::hub::wait::{DATA, ROOM};
use crate::engine::ucx::context::Context;
use std::sync::atomic::Ordering;

impl Watched for Hub {
    fn describe(&self, _look: &Look<'_>) -> Vec<String> {
        self.lines()
    }

    fn title(&self) -> String {
        format!("hub of {} bytes an envelope", self.size)
    }

    fn pulse(&self) -> Pulse {
        let stats = self.state.lock_either().stats();
        let moved = stats.chunks_produced + stats.chunks_consumed;
        let waiting = (0..2).map(|side| u64::from(self.sleepers.of(side).0));
        Pulse { calls: moved, in_flight: waiting.sum(), ended: moved }
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn measure(&self, report: &mut Report) {
        self.measure_into(report);
    }
}

impl Hub {
    /// A readable description.
    pub(crate) fn lines(&self) -> Vec<String> {
        let state = self.state.lock_either();
        let stats = state.stats();
        let mut lines = vec![format!(
            "hub: {} envelopes of {} bytes, {} free, {} leased, {} chunks queued, {} produced, {} \
            consumed{}",
            state.envelopes.len(),
            self.size,
            stats.free_envelopes,
            stats.leased_envelopes,
            stats.queued_chunks,
            stats.chunks_produced,
            stats.chunks_consumed,
            if state.closed { ", closed" } else { "" }
        )];
        if state.lent > 0 {
            lines.push(format!(
                "  {} envelopes are kept for chunks that peers may send by a stream",
                state.lent
            ));
        }
        let leases: Vec<u32> =
            (0..state.links.len() as u32).map(|link| state.leases_of(link)).collect();
        for (link, held) in
            state.links.iter().zip(&leases).filter(|(link, held)| link.alive || **held > 0)
        {
            lines.push(format!(
                "  a link that {} on {}: holds {held} leases{}{}",
                does(link),
                state.pools[link.pool as usize].kind,
                if *held > 0 { ", which it has to release or commit" } else { "" },
                if link.alive { "" } else { "; the link itself was destroyed" },
            ));
        }
        self.add_waiters(&state, &mut lines);
        lines
    }

    fn add_waiters(&self, state: &SpinLockGuard<'_, State>, lines: &mut Vec<String>) {
        let sides = [(DATA, "a chunk to read"), (ROOM, "a free envelope to produce into")];
        for (side, what) in sides {
            let (count, since) = self.sleepers.of(side.trailing_zeros() as usize);
            if count == 0 {
                continue;
            }
            let age = clock::now_ns().saturating_sub(since) / 1_000_000;
            let why = match side {
                DATA if state.stats().queued_chunks == 0 => "the queue is empty".to_owned(),
                DATA => "consumers hold the chunks, or they are not there yet".to_owned(),
                _ => self.why_no_room(state),
            };
            let plural = if count == 1 { " waits" } else { "s wait" };
            lines.push(format!("  {count} thread{plural} for {what}, for {age} ms: {why}"));
        }
    }

    fn why_no_room(&self, state: &State) -> String {
        let stats = state.stats();
        if stats.queued_chunks >= state.max_chunks {
            return format!("the queue has its limit of {} chunks", state.max_chunks);
        }
        if stats.free_envelopes > 0 {
            return "the queue has its limit of bytes, or the free ones are in other memory"
                .to_owned();
        }
        let (all, leased) = (state.envelopes.len() as u64, stats.leased_envelopes);
        let rest = all.saturating_sub(leased);
        format!("no envelope is free: {leased} are leased, and {rest} hold chunks that wait")
    }
}

impl State {
    /// Leases that a link holds, in either mode.
    fn leases_of(&self, link: u32) -> u32 {
        if self.queues().is_none() {
            return self.links[link as usize].leases;
        }
        let is_held = |number: &u32| {
            let owner = Hub::handle(self, *number).owner.load(Ordering::Relaxed);
            owner != 0 && owner >> LINK == u64::from(link)
        };
        (0..self.envelopes.len() as u32).filter(is_held).count() as u32
    }
}

fn does(link: &Link) -> &'static str {
    match link.role {
        Role::Produce => "produces",
        Role::Consume => "consumes",
        Role::Peek => "peeks",
        Role::Modify => "modifies",
    }
}
