//! The metrics of a window.
#![deny(unsafe_code)]

use crate::engine::base::counters::Counter;
use crate::engine::base::open_metrics::{Labels, Metric, Report, Samples};
use crate::engine::base::status::Result;
use crate::engine::core::worker::metrics::by_status;
use crate::engine::window::counts::{DataCall, Way};
use crate::engine::window::window::Window;

fn stat(samples: &mut Samples<'_>, counter: &Counter) {
    samples.value(counter.get());
}

pub(crate) static METRICS: &[Metric<Window>] = &[
    Metric::info("ucxx_window", "A window: its kind.", |window, samples| {
        let flavor = format!("{:?}", window.flavor).to_lowercase();
        samples.labelled(&[("flavor", &flavor)], 1);
    }),
    Metric::gauge("ucxx_window_members", "Members of the window.", |window, samples| {
        samples.value(window.targets.len() as u64);
    }),
    Metric::gauge(
        "ucxx_window_size_bytes",
        "Memory that this process offers in the window.",
        |window, samples| samples.value(window.own().size),
    ),
    Metric::counter(
        "ucxx_window_data_calls",
        "Data calls that succeeded, by how they reached the target: mapped (memory that is mapped \
        here), process (by the kernel, or by the target itself while it waits), or message. Calls \
        of several threads at the same moment may be missed.",
        |window, samples| {
            for (call, ways) in DataCall::NAMES.iter().zip(&window.counts.calls) {
                for (way, count) in Way::NAMES.iter().zip(ways).filter(|(_, way)| way.get() > 0) {
                    samples.labelled(&[("call", call), ("path", way)], count.get());
                }
            }
        },
    ),
    Metric::counter("ucxx_window_data_bytes", "Bytes at the target in them.", |window, samples| {
        for (call, bytes) in DataCall::NAMES.iter().zip(&window.counts.bytes) {
            samples.labelled(&[("call", call)], bytes.get());
        }
    }),
    Metric::counter(
        "ucxx_window_delegated",
        "Pieces of data calls by the path \"process\" that the target did itself.",
        |window, samples| stat(samples, &window.counts.delegated),
    ),
    Metric::counter(
        "ucxx_window_failed",
        "Data calls and locks that failed, by status.",
        |window, samples| by_status(window.counts.failed.each(), samples),
    ),
    Metric::counter("ucxx_window_locks", "Calls of ucxx_window_lock.", |window, samples| {
        stat(samples, &window.counts.locks);
    }),
    Metric::counter(
        "ucxx_window_lock_waits",
        "Locks that were not free, or are at a member of another host: the call waited.",
        |window, samples| stat(samples, &window.counts.lock_waits),
    ),
    Metric::counter("ucxx_window_flushes", "Flushes of one or all targets.", |window, samples| {
        stat(samples, &window.counts.flushes);
    }),
];

impl Window {
    /// Labels that tell it from other windows.
    pub(crate) fn labels(&self) -> Labels {
        self.serial.labels("window").with("rank", &self.rank.to_string())
    }

    pub(crate) fn measure_into(&self, report: &mut Report) {
        report.add(METRICS, self, &self.labels());
    }

    /// The metrics as OpenMetrics text.
    pub fn metrics(&self) -> Result<String> {
        self.group.service.user.check_fork()?;
        let mut report = Report::default();
        self.measure_into(&mut report);
        Ok(report.text())
    }
}
