//! The metrics of an endpoint. Any thread reads them, without the worker's gate.
#![deny(unsafe_code)]

use crate::engine::base::open_metrics::{Metric, Report};
use crate::engine::base::status::Result;
use crate::engine::core::endpoint::credits;
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::endpoint::status::Phase;
use crate::engine::wire::credit::{MESSAGES, UNIT};

pub(crate) static METRICS: &[Metric<SharedEndpoint>] = &[
    Metric::info(
        "ucxx_endpoint",
        "An endpoint: its peer, and its status: UCXX_OK, or why it takes no operations.",
        |endpoint, samples| {
            let status = endpoint.status().known_name().to_string_lossy();
            samples.labelled(&[("peer", &endpoint.peer_text()), ("status", &status)], 1);
        },
    ),
    Metric::gauge(
        "ucxx_endpoint_open",
        "1 while the endpoint takes operations.",
        |endpoint, samples| {
            let open = endpoint.phase() == Phase::Open && !endpoint.status().is_error();
            samples.value(open.into());
        },
    ),
    Metric::counter(
        "ucxx_endpoint_operations_sent",
        "Operations that sent to the peer.",
        |endpoint, samples| samples.value(endpoint.sent().0),
    ),
    Metric::counter("ucxx_endpoint_sent_bytes", "Bytes in them.", |endpoint, samples| {
        samples.value(endpoint.sent().1);
    }),
    Metric::gauge(
        "ucxx_endpoint_window_operations",
        "Sends that UCX has and has not completed.",
        |endpoint, samples| samples.value(endpoint.standing().operations),
    ),
    Metric::gauge("ucxx_endpoint_window_bytes", "Bytes in them.", |endpoint, samples| {
        samples.value(endpoint.standing().bytes);
    }),
    Metric::gauge(
        "ucxx_endpoint_queued_operations",
        "Sends that wait behind the send window, for credit, or for the peer's first answer.",
        |endpoint, samples| samples.value(endpoint.standing().queued_operations),
    ),
    Metric::gauge("ucxx_endpoint_queued_bytes", "Bytes in them.", |endpoint, samples| {
        samples.value(endpoint.standing().queued_bytes);
    }),
    Metric::gauge(
        "ucxx_endpoint_credit_used_messages",
        "Active messages and fetches that the peer has not released, of 256.",
        |endpoint, samples| samples.value(credits::parts(endpoint.standing().credit).0),
    ),
    Metric::gauge(
        "ucxx_endpoint_credit_used_bytes",
        "Their memory at the peer, of 8 MiB, in steps of 1 KiB.",
        |endpoint, samples| {
            let (messages, units) = credits::parts(endpoint.standing().credit);
            samples.value(units.saturating_sub(messages) * UNIT as u64);
        },
    ),
    Metric::gauge(
        "ucxx_endpoint_credit_short",
        "1 while a message waits for credit, or the next one would.",
        |endpoint, samples| {
            let (messages, _) = credits::parts(endpoint.standing().credit);
            let short = endpoint.is_short_of_credit(u16::MAX) || messages >= MESSAGES.into();
            samples.value(short.into());
        },
    ),
];

impl SharedEndpoint {
    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.check_fork()?;
        let mut report = Report::default();
        report.add(METRICS, self, &self.worker().labels());
        Ok(report.text())
    }
}
