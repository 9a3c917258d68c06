//! Describes a worker that seems to hang: its endpoints, and its operations in flight.

use crate::engine::base::clock;
use crate::engine::base::log::{self, Component};
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::printed::printed;
use crate::engine::ucx::runtime::ucx_release;
use crate::sys;

/// The transports in UCP's description of an endpoint, each once, in the order of UCX's lanes. The
/// lines have the same form in every release: `lane[0]:  3:posix/memory.0 md[2] -> ...`.
fn transports_in(description: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in description.lines() {
        let Some((_, lane)) = line.split_once("lane[") else { continue };
        let Some((_, resource)) = lane.split_once("]:") else { continue };
        let Some(resource) = resource.split_whitespace().next() else { continue };
        let name = resource.split_once(':').map_or(resource, |(_, name)| name);
        // The device's number follows the last dot.
        let name = name.rsplit_once('.').map_or(name, |(name, _)| name);
        if name.contains('/') && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

impl SharedEndpoint {
    /// The transports in use, such as "posix/memory,cma/memory". Empty before the endpoint is
    /// connected and after its end.
    pub fn transports(&self) -> Result<String> {
        self.on_owner(|inside| Ok(inside.transports_inside()))
    }
}

impl Endpoint {
    fn transports_inside(&self) -> String {
        let ucp = self.ucp.get();
        // UCX 1.22 crashes on an endpoint that was made by host and port and is not connected yet:
        // its lanes lead nowhere.
        if ucp.is_null() || self.is_connecting() {
            return String::new();
        }
        // SAFETY: a live endpoint inside its worker's gate, and an open stream.
        let text = printed(|stream| unsafe { sys::ucp_ep_print_info(ucp, stream.cast()) });
        transports_in(&text).join(",")
    }

    /// For the log: the peer has answered.
    pub(crate) fn log_transports(&self) {
        // The peer may answer several times.
        if log::enabled(log::DEBUG, Component::Endpoint) && !self.log_has_it.replace(true) {
            log::at!(DEBUG, Endpoint, self, "connected over {}", self.transports_inside());
        }
    }

    pub(crate) fn log_end(&self, status: Status) {
        if status == Status::OK {
            return log::at!(DEBUG, Endpoint, self, "closed");
        }
        let level = if self.life().has_heard_bye() { log::DEBUG } else { log::INFO };
        log::write(level, Component::Endpoint, self, format_args!("ended: {status}"));
    }
}

/// Operations that a description names.
const MOST_OPERATIONS: usize = 100;

/// A time, for people.
pub(crate) fn milliseconds(ns: u64) -> String {
    format!("{} ms", ns / 1_000_000)
}

impl SharedWorker {
    /// What any thread may read.
    pub(super) fn dump_from_outside(&self) -> Vec<String> {
        self.header_lines()
    }

    fn progress_text(&self) -> String {
        if !self.has_progress_thread() {
            return "manual progress".to_owned();
        }
        let delayed = if self.delays_submission() { "delayed" } else { "direct" };
        format!(
            "{:?} progress thread {}, {delayed} submission",
            self.progress_mode(),
            self.progress_thread_id()
        )
    }

    /// A readable description: the worker, its endpoints, and the operations in flight, oldest
    /// first; then the hubs and windows on it.
    pub fn dump(&self) -> Result<Vec<String>> {
        let mut lines = self.on_owner(|inside| Ok(inside.dump_inside()))?;
        self.describe_objects(&mut lines);
        Ok(lines)
    }
}

impl SharedWorker {
    fn header_lines(&self) -> Vec<String> {
        let stats = self.stats();
        let operations = stats.operations(0);
        let mut lines = vec![
            format!(
                "worker \"{}\": UCX {}, {:?}, {}, {} passes, {} submitted, {} in flight",
                self.display_name().to_string_lossy(),
                ucx_release(),
                self.thread_mode(),
                self.progress_text(),
                stats.progress_calls.get(),
                operations.submitted,
                operations.in_flight
            ),
            format!(
                "  completed {}, failed {}, cancelled {}, sent {} bytes, received {} bytes, slept \
                {} times",
                operations.completed,
                operations.failed,
                operations.canceled,
                stats.bytes_sent(),
                stats.bytes_received(),
                stats.sleeps.get()
            ),
        ];
        if self.thread.is_used() {
            let (high_water, full, waiting) = self.queue_stats();
            lines.push(format!(
                "  submission queue: {waiting} waiting, at most {high_water} so far, full {full} \
                times, {} operations in all",
                stats.delayed.get()
            ));
        }
        lines
    }
}

impl Worker {
    pub(super) fn dump_inside(&self) -> Vec<String> {
        let inside = self;
        let mut lines = self.header_lines();
        for endpoint in inside.endpoints.borrow().iter().flatten() {
            endpoint.describe(&mut lines);
        }
        for listener in inside.listeners.borrow().iter() {
            lines.extend(listener.unanswered_text(inside).map(|text| format!("  {text}")));
        }
        let from = lines.len();
        self.describe_protocols(&mut lines);
        lines[from..].iter_mut().for_each(|line| line.insert_str(0, "  "));
        self.describe_operations(&mut lines);
        lines
    }

    fn describe_operations(&self, lines: &mut Vec<String>) {
        let now = clock::now_ns();
        let mut in_flight = Vec::new();
        self.for_each_live(|slot| {
            if slot.kind.get() == Kind::Internal {
                return;
            }
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            let endpoint = unsafe { slot.endpoint.get().as_ref() };
            // A receive learns both of these from its message.
            let what = match slot.kind.get().is_recv() {
                true => String::new(),
                false => format!("{} bytes, tag 0x{:x}, ", slot.length.get(), slot.tag.get()),
            };
            let text = format!(
                "  {} {}: {what}for about {}{}{}",
                slot.sequence.get(),
                slot.kind.get().describe(),
                milliseconds(now.saturating_sub(slot.started.get())),
                endpoint.map(|endpoint| format!(", {}", endpoint.peer_text())).unwrap_or_default(),
                slot.wait_text(),
            );
            in_flight.push((slot.sequence.get(), text));
        });
        in_flight.sort_unstable();
        let more = in_flight.len().saturating_sub(MOST_OPERATIONS);
        lines.extend(in_flight.into_iter().take(MOST_OPERATIONS).map(|(_, text)| text));
        if more > 0 {
            lines.push(format!("  and {more} younger operations"));
        }
    }
}

impl Endpoint {
    fn describe(&self, lines: &mut Vec<String>) {
        let transports = self.transports_inside();
        lines.push(format!(
            "  endpoint to {}: {}, {:?}{}, {} sends in flight, {} of them queued, over {}{}",
            self.peer_text(),
            self.status(),
            self.phase(),
            if self.peering.unclaimed.get() {
                ", unclaimed, as the program has made no endpoint for it"
            } else {
                ""
            },
            self.sends.get(),
            self.window.queued_ops.get(),
            if transports.is_empty() { "nothing yet" } else { &transports },
            self.fast_box.text()
        ));
        let mut waits = self.waits(&transports);
        self.describe_protocols(&mut waits);
        lines.extend(waits.into_iter().map(|line| format!("    {line}")));
    }
}

impl Slot {
    /// What an operation in flight waits for.
    fn wait_text(&self) -> &'static str {
        let kind = self.kind.get();
        match kind {
            _ if self.has_mark(mark::WAITING) => ": queued here, see its endpoint",
            Kind::TagRecv | Kind::TagRecvMulti => ": no message with its tag has come completely",
            Kind::StreamRecv => ": not enough data has come",
            Kind::AmQueueRecv => ": no message for it has come completely",
            Kind::Fetch => ": no reply has come",
            Kind::EndpointFlush | Kind::WorkerFlush => ": sends before it are not complete",
            Kind::EndpointClose => ": earlier operations, or the peer's answer, are missing",
            _ if kind.is_send() => ": the peer has not received or acknowledged it",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_found_in_the_output_of_every_release() {
        let text = "# lane[0]:  3:sysv/memory.0 md[2]     -> md[2]/sysv/sysdev[255] am am_bw#0\n\
                    # lane[1]:  5:cma/memory.0 md[4] -> x\n#  lane[2]:  1:tcp/eth0.12.0 md[0] -> \
                    y\n# lane[3]:  5:cma/memory.0 md[4] -> x\n";
        assert_eq!(transports_in(text), ["sysv/memory", "cma/memory", "tcp/eth0.12"]);
        assert!(transports_in("# UCP endpoint\n").is_empty());
    }
}
