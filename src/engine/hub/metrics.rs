//! The metrics of a hub.
#![deny(unsafe_code)]

use crate::engine::base::open_metrics::{Labels, Metric, Report};
use crate::engine::base::status::Result;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::records::{HubStats, Role};

/// A hub at one moment: its lock is taken once.
pub(crate) struct Snapshot {
    stats: HubStats,
    envelopes: u64,
    envelope_bytes: u64,
    links: [u64; ROLES.len()],
    runs_on_queues: bool,
    closed: bool,
}

const ROLES: [(&str, Role); 4] = [
    ("produce", Role::Produce),
    ("consume", Role::Consume),
    ("peek", Role::Peek),
    ("modify", Role::Modify),
];

pub(crate) static METRICS: &[Metric<Snapshot>] = &[
    Metric::gauge("ucxx_hub_envelopes", "Envelopes of the hub.", |hub, samples| {
        samples.value(hub.envelopes);
    }),
    Metric::gauge("ucxx_hub_envelopes_free", "Envelopes that hold nothing.", |hub, samples| {
        samples.value(hub.stats.free_envelopes);
    }),
    Metric::gauge("ucxx_hub_envelopes_leased", "Envelopes that are leased.", |hub, samples| {
        samples.value(hub.stats.leased_envelopes);
    }),
    Metric::gauge(
        "ucxx_hub_envelopes_trashed",
        "Envelopes of consumed or changed chunks that somebody still reads.",
        |hub, samples| samples.value(hub.stats.trashed_envelopes),
    ),
    Metric::gauge("ucxx_hub_envelope_bytes", "Size of an envelope.", |hub, samples| {
        samples.value(hub.envelope_bytes);
    }),
    Metric::counter("ucxx_hub_chunks_produced", "Chunks that were produced.", |hub, samples| {
        samples.value(hub.stats.chunks_produced);
    }),
    Metric::counter("ucxx_hub_chunks_consumed", "Chunks that were consumed.", |hub, samples| {
        samples.value(hub.stats.chunks_consumed);
    }),
    Metric::gauge("ucxx_hub_queue_chunks", "Chunks in the queue.", |hub, samples| {
        samples.value(hub.stats.queued_chunks);
    }),
    Metric::gauge(
        "ucxx_hub_queue_chunks_max",
        "Most chunks that were in the queue so far.",
        |hub, samples| samples.value(hub.stats.queue_high_water),
    ),
    Metric::counter(
        "ucxx_hub_transfers",
        "Copies of chunks from one kind of memory to another.",
        |hub, samples| samples.value(hub.stats.transfers),
    ),
    Metric::counter("ucxx_hub_transfer_bytes", "Bytes in them.", |hub, samples| {
        samples.value(hub.stats.transfer_bytes);
    }),
    Metric::counter(
        "ucxx_hub_transfers_stale",
        "Copies that were dropped, because the chunk had changed meanwhile.",
        |hub, samples| samples.value(hub.stats.stale_transfers),
    ),
    Metric::counter(
        "ucxx_hub_credit_stalls",
        "How often a stream to another process had a chunk and no credit to send it.",
        |hub, samples| samples.value(hub.stats.credit_stalls),
    ),
    Metric::gauge("ucxx_hub_links", "Links that exist.", |hub, samples| {
        for ((role, _), count) in ROLES.iter().zip(hub.links) {
            samples.labelled(&[("role", role)], count);
        }
    }),
    Metric::gauge(
        "ucxx_hub_lock_free",
        "1 while the hub runs on its two queues, without its lock.",
        |hub, samples| samples.value(hub.runs_on_queues.into()),
    ),
    Metric::gauge("ucxx_hub_closed", "1 after production has ended.", |hub, samples| {
        samples.value(hub.closed.into());
    }),
];

impl Hub {
    fn snapshot(&self) -> Snapshot {
        let state = self.state.lock_either();
        let links = ROLES.map(|(_, role)| {
            state.links.iter().filter(|link| link.alive && link.role == role).count() as u64
        });
        Snapshot {
            stats: state.stats(),
            envelopes: state.envelopes.len() as u64,
            envelope_bytes: self.size,
            links,
            runs_on_queues: state.queues().is_some(),
            closed: state.closed,
        }
    }

    /// Labels that tell it from other hubs.
    pub(crate) fn labels(&self) -> Labels {
        self.serial.labels("hub")
    }

    pub(crate) fn measure_into(&self, report: &mut Report) {
        report.add(METRICS, &self.snapshot(), &self.labels());
    }

    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.check_fork()?;
        let mut report = Report::default();
        self.measure_into(&mut report);
        Ok(report.text())
    }
}
