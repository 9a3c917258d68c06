//! `UCXX_RS_STALL_MS`: logs what stands still. An object stands still if operations are in flight
//! and none has ended for so long.
#![deny(unsafe_code)]

use crate::engine::base::log::{self, Component};
use crate::engine::core::monitor::registry::Registry;
use crate::engine::core::monitor::service::{Offer, Service};
use rustix::event::PollFd;
use std::time::Duration;

pub(crate) const OFFER: Offer = Offer {
    variable: "UCXX_RS_STALL_MS",
    make: |value| match value.trim().parse::<u64>() {
        Ok(limit) if limit > 0 => {
            Ok(Box::new(Watchdog { limit_ns: limit.saturating_mul(1_000_000) }))
        }
        _ => Err("no watchdog: a number of milliseconds is needed".to_owned()),
    },
};

/// How long a description may wait for threads of the program.
const PATIENCE: Duration = Duration::from_millis(500);

struct Watchdog {
    limit_ns: u64,
}

impl Service for Watchdog {
    /// The thread looks often enough how far its objects have come.
    fn waits_for<'a>(&'a self, _: &mut Vec<PollFd<'a>>) -> Option<u64> {
        None
    }

    fn turn(&mut self, registry: &Registry, now: u64) {
        let mut lines = Vec::new();
        if registry.note_stalls(now, self.limit_ns) {
            registry.look(PATIENCE, |object, look| {
                let is_new = look.seen.still_ns >= self.limit_ns && look.is_new_stall();
                if let (true, [first, rest @ ..]) = (is_new, &object.describe(look)[..]) {
                    let age = look.seen.still_ns / 1_000_000;
                    lines.push(format!("no operation has ended for {age} ms: {first}"));
                    lines.extend_from_slice(rest);
                }
            });
        }
        lines.extend(registry.ended_stalls());
        // Without a lock: this calls the program.
        lines.iter().for_each(|line| log::write_always(log::WARN, Component::Watchdog, line));
    }
}
