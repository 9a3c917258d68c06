//! Metrics as text, in the format OpenMetrics 1.0, which Prometheus and others read.
//!
//! Each kind of object has a table of `Metric`s: a family of the format, and how to read it from
//! such an object. Names and units follow the conventions: a counter ends with `_total`, a unit is
//! the end of the family's name. A `Report` collects the samples of any number of objects: the
//! format wants all samples of a family in one place.
#![deny(unsafe_code)]

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the values of a family do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    /// Counts up from 0.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Is 1; its labels are the information.
    Info,
    /// Counts of values by size.
    Histogram,
}

/// A family: the samples with one name.
#[derive(Debug)]
pub(crate) struct Family {
    /// Without the suffix that the type demands.
    pub(crate) name: &'static str,
    pub(crate) of: Type,
    pub(crate) help: &'static str,
}

impl Family {
    /// The unit, which is the end of the name.
    fn unit(&self) -> Option<&'static str> {
        let unit = self.name.rsplit('_').next();
        unit.filter(|unit| matches!(*unit, "bytes" | "seconds"))
    }

    fn suffix(&self) -> &'static str {
        match self.of {
            Type::Counter => "_total",
            Type::Info => "_info",
            Type::Gauge | Type::Histogram => "",
        }
    }

    fn write_head(&self, text: &mut String) {
        let Family { name, of, help } = self;
        let of = match of {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Info => "info",
            Type::Histogram => "histogram",
        };
        let _ = writeln!(text, "# TYPE {name} {of}");
        if let Some(unit) = self.unit() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        let _ = write!(text, "# HELP {name} ");
        escape(help, text);
        text.push('\n');
    }
}

/// A family, and how to read its samples from a `T`.
pub(crate) struct Metric<T: 'static> {
    pub(crate) family: Family,
    pub(crate) read: fn(&T, &mut Samples<'_>),
}

impl<T> Metric<T> {
    pub(crate) const fn counter(
        name: &'static str,
        help: &'static str,
        read: fn(&T, &mut Samples<'_>),
    ) -> Self {
        Metric { family: Family { name, of: Type::Counter, help }, read }
    }

    pub(crate) const fn gauge(
        name: &'static str,
        help: &'static str,
        read: fn(&T, &mut Samples<'_>),
    ) -> Self {
        Metric { family: Family { name, of: Type::Gauge, help }, read }
    }

    pub(crate) const fn info(
        name: &'static str,
        help: &'static str,
        read: fn(&T, &mut Samples<'_>),
    ) -> Self {
        Metric { family: Family { name, of: Type::Info, help }, read }
    }

    pub(crate) const fn histogram(
        name: &'static str,
        help: &'static str,
        read: fn(&T, &mut Samples<'_>),
    ) -> Self {
        Metric { family: Family { name, of: Type::Histogram, help }, read }
    }
}

/// Escapes a label's value or a help text. Control characters would break the lines of others, so
/// they become spaces; a line feed has its own escape.
fn escape(value: &str, text: &mut String) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other if other.is_control() => text.push(' '),
            other => text.push(other),
        }
    }
}

/// Labels, as they stand in a sample: `name="value",...`.
#[derive(Clone, Default)]
pub(crate) struct Labels(String);

impl Labels {
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.push(name, value);
        self
    }

    fn push(&mut self, name: &str, value: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(name);
        self.0.push_str("=\"");
        escape(value, &mut self.0);
        self.0.push('"');
    }
}

/// A number that tells an object from the others of its process, in a label.
pub(crate) struct Serial(u64);

impl Serial {
    pub(crate) fn new() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Serial(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The labels of the object, of this kind.
    pub(crate) fn labels(&self, kind: &str) -> Labels {
        Labels::default().with(kind, &self.0.to_string())
    }
}

/// Where the samples of one family of one object go.
pub(crate) struct Samples<'a> {
    text: &'a mut String,
    family: &'static Family,
    labels: &'a Labels,
}

impl Samples<'_> {
    /// The only sample of the object.
    pub(crate) fn value(&mut self, value: u64) {
        self.labelled(&[], value);
    }

    /// One of several samples, which its labels tell apart.
    pub(crate) fn labelled(&mut self, labels: &[(&str, &str)], value: u64) {
        self.write(self.family.suffix(), labels, &value.to_string());
    }

    /// A time, which has fractions.
    pub(crate) fn seconds(&mut self, labels: &[(&str, &str)], ns: u64) {
        self.write(self.family.suffix(), labels, &seconds(ns));
    }

    /// Writes a histogram: how many values were at most as large as each bound, in seconds, and
    /// the sum of all values in nanoseconds. The last count is of all values.
    pub(crate) fn buckets(
        &mut self,
        labels: &[(&str, &str)],
        bounds: &[&str],
        counts: &[u64],
        sum_ns: u64,
    ) {
        let mut upto = 0;
        for (place, count) in counts.iter().enumerate() {
            upto += count;
            let bound = bounds.get(place).copied().unwrap_or("+Inf");
            let labels = [labels, &[("le", bound)]].concat();
            self.write("_bucket", &labels, &upto.to_string());
        }
        self.write("_count", labels, &upto.to_string());
        self.write("_sum", labels, &seconds(sum_ns));
    }

    fn write(&mut self, suffix: &str, labels: &[(&str, &str)], value: &str) {
        let mut all = self.labels.clone();
        labels.iter().for_each(|(name, value)| all.push(name, value));
        let name = self.family.name;
        let _ = match all.0.as_str() {
            "" => writeln!(self.text, "{name}{suffix} {value}"),
            labels => writeln!(self.text, "{name}{suffix}{{{labels}}} {value}"),
        };
    }
}

fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// The samples of any number of objects, by family.
#[derive(Default)]
pub(crate) struct Report(Vec<(&'static Family, String)>);

impl Report {
    /// Adds all metrics of an object. Its labels tell it from the others of its kind.
    pub(crate) fn add<T>(&mut self, metrics: &'static [Metric<T>], object: &T, labels: &Labels) {
        for Metric { family, read } in metrics {
            read(object, &mut Samples { text: self.text_of(family), family, labels });
        }
    }

    /// Adds the samples of another report.
    pub(crate) fn merge(&mut self, other: &Report) {
        for (family, samples) in &other.0 {
            self.text_of(family).push_str(samples);
        }
    }

    fn text_of(&mut self, family: &'static Family) -> &mut String {
        let known = self.0.iter().position(|(known, _)| known.name == family.name);
        let place = known.unwrap_or_else(|| {
            self.0.push((family, String::new()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }

    /// Bytes of all samples.
    pub(crate) fn length(&self) -> usize {
        self.0.iter().map(|(_, samples)| samples.len()).sum()
    }

    /// The text, with the line that ends it. Families without samples are left out.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for (family, samples) in self.0.iter().filter(|(_, samples)| !samples.is_empty()) {
            family.write_head(&mut text);
            text.push_str(samples);
        }
        text.push_str("# EOF\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static METRICS: &[Metric<u64>] = &[
        Metric::counter("test_sent_bytes", "Bytes \"sent\".", |object, samples| {
            samples.value(*object);
        }),
        Metric::gauge("test_depth", "Depth.\nNow.", |object, samples| {
            samples.labelled(&[("queue", "a\\b\"c\nd\re")], *object);
        }),
        Metric::info("test", "What it is.", |_, samples| samples.labelled(&[("v", "1")], 1)),
        Metric::gauge("test_never", "Has no sample.", |_, _| {}),
        Metric::histogram("test_wait_seconds", "Waits.", |object, samples| {
            samples.buckets(&[], &["0.001", "1.0"], &[*object, 0, 1], 1_000_000_007);
        }),
    ];

    #[test]
    fn the_samples_of_a_family_stand_together() {
        let mut report = Report::default();
        let labels = |name| Labels::default().with("object", name);
        report.add(METRICS, &1, &labels("x"));
        let mut other = Report::default();
        other.add(METRICS, &2, &labels("y"));
        report.merge(&other);
        let expected = r#"# TYPE test_sent_bytes counter
# UNIT test_sent_bytes bytes
# HELP test_sent_bytes Bytes \"sent\".
test_sent_bytes_total{object="x"} 1
test_sent_bytes_total{object="y"} 2
# TYPE test_depth gauge
# HELP test_depth Depth.\nNow.
test_depth{object="x",queue="a\\b\"c\nd e"} 1
test_depth{object="y",queue="a\\b\"c\nd e"} 2
# TYPE test info
# HELP test What it is.
test_info{object="x",v="1"} 1
test_info{object="y",v="1"} 1
# TYPE test_wait_seconds histogram
# UNIT test_wait_seconds seconds
# HELP test_wait_seconds Waits.
test_wait_seconds_bucket{object="x",le="0.001"} 1
test_wait_seconds_bucket{object="x",le="1.0"} 1
test_wait_seconds_bucket{object="x",le="+Inf"} 2
test_wait_seconds_count{object="x"} 2
test_wait_seconds_sum{object="x"} 1.000000007
test_wait_seconds_bucket{object="y",le="0.001"} 2
test_wait_seconds_bucket{object="y",le="1.0"} 2
test_wait_seconds_bucket{object="y",le="+Inf"} 3
test_wait_seconds_count{object="y"} 3
test_wait_seconds_sum{object="y"} 1.000000007
# EOF
"#;
        assert_eq!(report.text(), expected);
    }

    #[test]
    fn no_sample_needs_a_label() {
        let mut report = Report::default();
        report.add(&METRICS[..1], &3, &Labels::default());
        assert!(report.text().contains("\ntest_sent_bytes_total 3\n"));
    }
}
