//! The metrics of a worker. Any thread reads them, without the worker's gate.
#![deny(unsafe_code)]

use crate::engine::base::counters::Counter;
use crate::engine::base::open_metrics::{Labels, Metric, Report, Samples};
use crate::engine::base::status::{Result, Status};
use crate::engine::core::request::operation_kind::{Kind, NAMES};
use crate::engine::core::worker::latency;
use crate::engine::core::worker::stats::{Arrival, OfKind};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::runtime::ucx_release;
use std::sync::atomic::Ordering;

/// For messages that handlers got.
const ARRIVALS: [(&str, Arrival); Arrival::COUNT] = [
    ("active_message", Arrival::Message),
    ("multi_buffer_message", Arrival::MultiMessage),
    ("fetch_request", Arrival::FetchRequest),
    ("hub_message", Arrival::HubMessage),
];

/// One sample for each sort of operation that was used.
fn by_operation(worker: &SharedWorker, samples: &mut Samples<'_>, count: fn(&OfKind) -> u64) {
    for (name, kinds) in NAMES {
        let is_used = |kind: &&Kind| {
            let OfKind { inline, started, .. } = worker.stats().of(**kind);
            inline.get() + started.get() > 0
        };
        let used: Vec<_> = kinds.iter().filter(is_used).collect();
        if !used.is_empty() {
            let sum = used.iter().map(|kind| count(worker.stats().of(**kind))).sum();
            samples.labelled(&[("operation", name)], sum);
        }
    }
}

/// One sample for each sort of operation that sends, or receives, and was used.
fn bytes_by_operation(worker: &SharedWorker, samples: &mut Samples<'_>, receives: bool) {
    for (name, kinds) in NAMES {
        let these = kinds.iter().filter(|kind| kind.brings_bytes() == receives);
        let sum: u64 = these.map(|kind| worker.stats().of(*kind).bytes.get()).sum();
        if sum > 0 {
            samples.labelled(&[("operation", name)], sum);
        }
    }
}

fn arrivals(
    worker: &SharedWorker,
    samples: &mut Samples<'_>,
    label: &str,
    of: impl Fn(Arrival) -> u64,
) {
    for (name, what) in ARRIVALS {
        if worker.stats().arrivals(what).count.get() > 0 {
            samples.labelled(&[(label, name)], of(what));
        }
    }
}

/// One sample for each status.
pub(crate) fn by_status(failures: impl Iterator<Item = (Status, u64)>, samples: &mut Samples<'_>) {
    for (status, count) in failures {
        samples.labelled(&[("status", &status.known_name().to_string_lossy())], count);
    }
}

fn stat(samples: &mut Samples<'_>, counter: &Counter) {
    samples.value(counter.get());
}

pub(crate) static METRICS: &[Metric<SharedWorker>] = &[
    Metric::info(
        "ucxx_worker",
        "A worker: who calls it, what progresses it, and the UCX that it runs on.",
        |worker, samples| {
            let thread_mode = format!("{:?}", worker.thread_mode()).to_lowercase();
            let progress = format!("{:?}", worker.progress_mode()).to_lowercase();
            let labels = [
                ("thread_mode", thread_mode.as_str()),
                ("progress_mode", &progress),
                ("ucx", &ucx_release().to_string()),
            ];
            samples.labelled(&labels, 1);
        },
    ),
    Metric::counter(
        "ucxx_worker_operations_submitted",
        "Operations that were submitted. Sorts of operations that were never used are left out.",
        |worker, samples| {
            by_operation(worker, samples, |of| of.inline.get() + of.started.get());
        },
    ),
    Metric::counter(
        "ucxx_worker_operations_completed",
        "Operations that completed with UCXX_OK.",
        |worker, samples| {
            by_operation(worker, samples, |of| of.inline.get() + of.completed.get());
        },
    ),
    Metric::counter(
        "ucxx_worker_operations_immediate",
        "Of the completed operations, those that were done inside the call that submitted them.",
        |worker, samples| by_operation(worker, samples, |of| of.inline.get()),
    ),
    Metric::counter(
        "ucxx_worker_operations_failed",
        "Operations that completed with an error, by status.",
        |worker, samples| {
            let canceled = worker.stats().canceled.get();
            let canceled = (canceled > 0).then_some((Status::CANCELED, canceled));
            by_status(canceled.into_iter().chain(worker.stats().failed.each()), samples);
        },
    ),
    Metric::gauge(
        "ucxx_worker_operations_in_flight",
        "Operations that were submitted and have not completed.",
        |worker, samples| {
            let (_, _, waiting) = worker.queue_stats();
            samples.value(worker.stats().operations(waiting).in_flight);
        },
    ),
    Metric::counter(
        "ucxx_worker_sent_bytes",
        "Bytes in operations that send.",
        |worker, samples| {
            bytes_by_operation(worker, samples, false);
        },
    ),
    Metric::counter(
        "ucxx_worker_received_bytes",
        "Bytes in operations that receive, and in what handlers got.",
        |worker, samples| {
            bytes_by_operation(worker, samples, true);
            let bytes = |what| worker.stats().arrivals(what).bytes.get();
            arrivals(worker, samples, "operation", bytes);
        },
    ),
    Metric::counter(
        "ucxx_worker_messages_received",
        "Messages that handlers got.",
        |worker, samples| {
            let count = |what| worker.stats().arrivals(what).count.get();
            arrivals(worker, samples, "message", count);
        },
    ),
    Metric::counter(
        "ucxx_worker_messages_unhandled",
        "Active messages that found no handler.",
        |worker, samples| stat(samples, &worker.stats().am_unhandled),
    ),
    Metric::counter(
        "ucxx_worker_sends_waited",
        "Sends that waited in their endpoint's queue: for room in the send window, for credit, or \
        for the peer's first answer.",
        |worker, samples| stat(samples, &worker.stats().sends_waited),
    ),
    Metric::gauge(
        "ucxx_worker_sends_waiting",
        "Sends that wait in their endpoint's queue.",
        |worker, samples| stat(samples, &worker.stats().sends_waiting),
    ),
    Metric::counter(
        "ucxx_worker_credit_waits",
        "Messages that waited, because the peer kept 256 messages, or 8 MiB.",
        |worker, samples| stat(samples, &worker.stats().credit_waits),
    ),
    Metric::counter(
        "ucxx_worker_sends_refused",
        "Sends that were refused with UCXX_ERR_NO_RESOURCE, for want of room or credit.",
        |worker, samples| samples.value(worker.stats().sends_refused.load(Ordering::Relaxed)),
    ),
    Metric::counter(
        "ucxx_worker_submissions_queued",
        "Operations that went through the submission queue of the progress thread.",
        |worker, samples| stat(samples, &worker.stats().delayed),
    ),
    Metric::gauge(
        "ucxx_worker_submission_queue_length",
        "Operations in the submission queue.",
        |worker, samples| samples.value(worker.queue_stats().2),
    ),
    Metric::gauge(
        "ucxx_worker_submission_queue_length_max",
        "Greatest length of the submission queue so far.",
        |worker, samples| samples.value(worker.queue_stats().0),
    ),
    Metric::counter(
        "ucxx_worker_submission_queue_full",
        "Operations that were refused because the submission queue was full.",
        |worker, samples| samples.value(worker.queue_stats().1),
    ),
    Metric::counter("ucxx_worker_progress_passes", "Progress passes.", |worker, samples| {
        stat(samples, &worker.stats().progress_calls);
    }),
    Metric::counter("ucxx_worker_sleeps", "Sleeps inside the library.", |worker, samples| {
        stat(samples, &worker.stats().sleeps);
    }),
    Metric::counter("ucxx_worker_wakeups", "Ends of these sleeps.", |worker, samples| {
        stat(samples, &worker.stats().wakeups);
    }),
    Metric::gauge("ucxx_worker_endpoints", "Endpoints that exist.", |worker, samples| {
        stat(samples, &worker.stats().endpoints);
    }),
    Metric::counter(
        "ucxx_worker_endpoint_failures",
        "Endpoints that failed.",
        |worker, samples| {
            stat(samples, &worker.stats().endpoint_failures);
        },
    ),
];

impl SharedWorker {
    /// Labels that tell it from other workers.
    pub(crate) fn labels(&self) -> Labels {
        // As in descriptions of peers.
        let number = self.identity.worker & 0xffff_ffff;
        let labels = Labels::default().with("worker", &number.to_string());
        match &*self.given_name() {
            "" => labels,
            name => labels.with("name", name),
        }
    }

    /// Adds the metrics of the worker and of its protocols.
    pub(crate) fn measure_into(&self, report: &mut Report) {
        let labels = self.labels();
        report.add(METRICS, self, &labels);
        report.add(latency::METRICS, self, &labels);
        self.protocols.metrics().for_each(|metrics| report.add(metrics, self, &labels));
    }
}

impl SharedWorker {
    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.check_fork()?;
        let mut report = Report::default();
        self.measure_into(&mut report);
        Ok(report.text())
    }
}
