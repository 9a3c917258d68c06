//! The metrics of a group.
#![deny(unsafe_code)]

use crate::engine::base::counters::{Counter, Failures};
use crate::engine::base::open_metrics::{Metric, Report, Samples, Serial};
use crate::engine::base::status::Result;
use crate::engine::core::monitor::registry::{self, Pulse, Watched};
use crate::engine::core::worker::metrics::by_status;
use crate::engine::group::group::Group;
use crate::engine::ucx::context::Context;
use crate::engine::wire::group::What;
use std::sync::{Arc, Weak};

const NAMES: [&str; 3] = ["barrier", "allgather", "broadcast"];

/// Collectives of one sort.
#[derive(Default)]
struct OfSort {
    count: Counter,
    bytes: Counter,
    ns: Counter,
}

/// What a group has counted. Not a part of it, so that the monitor never holds a group.
pub(crate) struct Meter {
    context: Arc<Context>,
    serial: Serial,
    rank: u32,
    members: u32,
    /// The group's lock lets one thread at a time into collectives; it writes these.
    sorts: [OfSort; NAMES.len()],
    pub(crate) failed: Failures,
}

impl Meter {
    pub(crate) fn new(context: &Arc<Context>, rank: u32, members: u32) -> Arc<Self> {
        let meter = Arc::new(Meter {
            context: context.clone(),
            serial: Serial::new(),
            rank,
            members,
            sorts: Default::default(),
            failed: Failures::default(),
        });
        let watched: Weak<Meter> = Arc::downgrade(&meter);
        registry::watch(watched, Pulse::default());
        meter
    }

    /// Before the group ends.
    pub(crate) fn end(&self) {
        registry::forget(self);
    }

    pub(crate) fn done(&self, what: What, bytes: u64, ns: u64) {
        let sort = match what {
            What::Allgather => &self.sorts[1],
            What::Broadcast => &self.sorts[2],
            _ => &self.sorts[0],
        };
        sort.count.add(1);
        sort.bytes.add(bytes);
        sort.ns.add(ns);
    }
}

fn by_sort(
    group: &Meter,
    samples: &mut Samples<'_>,
    mut add: impl FnMut(&mut Samples<'_>, &str, &OfSort),
) {
    for (name, sort) in NAMES.iter().zip(&group.sorts) {
        add(samples, name, sort);
    }
}

pub(crate) static METRICS: &[Metric<Meter>] = &[
    Metric::gauge("ucxx_group_members", "Members of the group.", |group, samples| {
        samples.value(group.members.into());
    }),
    Metric::counter(
        "ucxx_group_collectives",
        "Collective calls that succeeded.",
        |group, samples| {
            by_sort(group, samples, |samples, name, sort| {
                samples.labelled(&[("collective", name)], sort.count.get());
            });
        },
    ),
    Metric::counter(
        "ucxx_group_collective_bytes",
        "Bytes that this member contributed: its block of an allgather, the data of a broadcast.",
        |group, samples| {
            by_sort(group, samples, |samples, name, sort| {
                samples.labelled(&[("collective", name)], sort.bytes.get());
            });
        },
    ),
    Metric::counter(
        "ucxx_group_collective_seconds",
        "Time inside collective calls that succeeded, which is mostly waiting for other members.",
        |group, samples| {
            by_sort(group, samples, |samples, name, sort| {
                samples.seconds(&[("collective", name)], sort.ns.get());
            });
        },
    ),
    Metric::counter(
        "ucxx_group_collectives_failed",
        "Collective calls that failed, by status.",
        |group, samples| by_status(group.failed.each(), samples),
    ),
];

impl Watched for Meter {
    fn title(&self) -> String {
        format!("group of {} members", self.members)
    }

    fn context(&self) -> &Context {
        &self.context
    }

    fn measure(&self, report: &mut Report) {
        let labels = self.serial.labels("group").with("rank", &self.rank.to_string());
        report.add(METRICS, self, &labels);
    }
}

impl Group {
    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.service.user.check_fork()?;
        let mut report = Report::default();
        self.meter.measure(&mut report);
        self.service.worker.measure_into(&mut report);
        Ok(report.text())
    }
}
