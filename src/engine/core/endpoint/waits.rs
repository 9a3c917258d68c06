//! What an endpoint waits for, in lines for people, and what its peer waits for here.

use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::endpoint::listener::Listener;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::process_identity::Identity;
use crate::engine::os::thread_text;
use crate::engine::wire::credit::{MESSAGES, UNIT, UNITS};
use std::fs;

impl Endpoint {
    /// The lines begin without indentation. `transports` is the text of `transports`.
    pub(crate) fn waits(&self, transports: &str) -> Vec<String> {
        let mut lines = Vec::new();
        let neighbour = self.neighbour();
        if let Some(trouble) = neighbour.and_then(|peer| thread_text::trouble_of_process(peer.pid))
        {
            lines.push(format!("the peer's process {trouble}"));
        }
        if self.phase() == Phase::Open && self.waits_for_peer() {
            lines.push("the connection is not answered yet: sends wait for that".to_owned());
        }
        self.add_credit(&mut lines);
        let (ops, bytes) = self.window.in_ucp();
        if ops > 0 {
            let (what, bytes) = (plural(ops, "send"), plural(bytes, "byte"));
            lines.push(format!(
                "{what} of {bytes} given to UCX: until the peer receives or acknowledges them"
            ));
        }
        if !self.window.has_room() {
            lines.push("the send window is full: further sends wait in the queue".to_owned());
        }
        if self.same_host() && !transports.is_empty() && !shares_memory(transports) {
            lines.push(format!(
                "no shared memory, although the peer is on this host: {}",
                self.why_no_shared_memory(neighbour)
            ));
        }
        lines
    }

    /// The peer, if `/proc` shows it under the same pid.
    fn neighbour(&self) -> Option<Identity> {
        let (peer, own) = (self.origin()?.identity, self.worker.identity);
        (peer.shares_host_with(&own) && !peer.same_process(&own)).then_some(peer)
    }

    fn add_credit(&self, lines: &mut Vec<String>) {
        let credits = &self.credits;
        let waiting = self.window.uncredited_now();
        if waiting > 0 || credits.is_short() {
            let out = credits.outstanding();
            lines.push(format!(
                "{} for credit: the peer has not yet destroyed {} that it was sent ({} of {} KiB, \
                {} of {MESSAGES} messages)",
                match waiting {
                    1 => "1 message waits".to_owned(),
                    more => format!("{more} messages wait"),
                },
                plural(out.messages.into(), "active message"),
                usize::from(out.units) * UNIT / 1024,
                usize::from(UNITS) * UNIT / 1024,
                out.messages,
            ));
        }
        let held = credits.held();
        if held.messages > 0 {
            lines.push(format!(
                "this process keeps {} of the peer, about {} KiB: the peer may send {} more until \
                some are destroyed",
                plural(held.messages.into(), "active message"),
                usize::from(held.units) * UNIT / 1024,
                MESSAGES.saturating_sub(held.messages)
            ));
        }
    }

    /// What differs, as far as it can be seen from here.
    fn why_no_shared_memory(&self, neighbour: Option<Identity>) -> String {
        let mut reasons = Vec::new();
        let here = self.worker.context.what_was_set();
        let restricts = |line: &&String| line.contains("TLS=") || line.contains("SHM_DEVICES=");
        reasons.extend(here.iter().filter(restricts).map(|line| format!("UCX_{line}, here")));
        match neighbour {
            Some(peer) => {
                reasons.extend(tls_of(peer.pid).map(|list| {
                    format!("UCX_TLS={list}, in the environment of process {}", peer.pid)
                }));
                let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/ipc")).ok();
                if space(&peer.pid.to_string()).is_some_and(|there| Some(there) != space("self")) {
                    reasons.push("other IPC namespaces (containers)".to_owned());
                }
            }
            None => reasons.extend(
                (self.origin().is_some_and(|peer| {
                    peer.identity.pid_namespace != self.worker.identity.pid_namespace
                }))
                .then(|| "other pid namespaces (containers)".to_owned()),
            ),
        }
        match reasons.is_empty() {
            true => "nothing here shows why; see `ucxx_rs_info --lanes`".to_owned(),
            false => reasons.join("; "),
        }
    }
}

impl Listener {
    /// For people: clients that the program has neither accepted nor refused.
    pub(crate) fn unanswered_text(&self, _inside: &Worker) -> Option<String> {
        let count = self.unanswered.borrow().len();
        let at = self.address.get().map(|address| format!(" at {address}")).unwrap_or_default();
        (count > 0).then(|| {
            format!("listener{at}: {count} clients wait until the program accepts or refuses them")
        })
    }
}

fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn shares_memory(transports: &str) -> bool {
    let shared = ["posix", "sysv", "xpmem", "self"];
    transports.split(',').any(|lane| shared.contains(&lane.split('/').next().unwrap_or_default()))
}

/// `UCX_TLS` in the environment that a process was started with, if this user may read it.
fn tls_of(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value =
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(b"UCX_TLS="))?;
    // Shown to people: no control characters.
    Some(String::from_utf8_lossy(value).chars().filter(|c| !c.is_control()).take(200).collect())
}
