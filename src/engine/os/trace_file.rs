//! The file of a trace, in the JSON form that Perfetto and Chrome read.
//!
//! It is complete after each write: the end of the text is written again with what is appended, in
//! one call. A process that crashes loses what it has recorded since.
#![deny(unsafe_code)]

use crate::engine::os::trace::{now, Queue, Record, What};
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

/// A longer file is not continued: no viewer opens it.
const LONGEST: u64 = 1 << 30;
const END: &str = "\n]}\n";
/// Shown for what happens in an instant.
const INSTANT_NS: u64 = 1;

/// The process that writes.
static WRITER: AtomicU32 = AtomicU32::new(0);

pub(crate) struct TraceFile {
    file: File,
    process: u32,
    /// Where `END` is.
    length: u64,
    /// To be written there.
    text: String,
}

impl TraceFile {
    pub(crate) fn create(path: &str) -> std::io::Result<Self> {
        let process = std::process::id();
        let mut text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n".to_owned();
        let _ = write!(
            text,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{process},\"tid\":{process},\
            \"args\":{{\"name\":{}}}}}",
            quoted(std::fs::read_to_string("/proc/self/comm").unwrap_or_default().trim())
        );
        let mut file = TraceFile { file: File::create(path)?, process, length: 0, text };
        let _ = file.write();
        WRITER.store(process, Ordering::Relaxed);
        Ok(file)
    }

    /// This process has created the file: it is not a forked child.
    pub(crate) fn is_own() -> bool {
        WRITER.load(Ordering::Relaxed) == std::process::id()
    }

    /// Appends what was added. False if the file is not continued: it has got too long, or there is
    /// no room.
    pub(crate) fn write(&mut self) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let added = self.text.len() as u64;
        self.text.push_str(END);
        let written = self.file.write_all_at(self.text.as_bytes(), self.length);
        self.text.clear();
        self.length += added;
        written.is_ok() && self.length < LONGEST
    }

    pub(crate) fn note_dropped(&mut self, queue: &Queue, dropped: u64) {
        if dropped > 0 {
            self.event("i", "trace", "dropped", queue, now());
            let _ = write!(self.text, ",\"s\":\"t\",\"args\":{{\"events\":{dropped}}}}}");
        }
    }

    pub(crate) fn add(&mut self, queue: &Queue, record: &Record) {
        if !queue.named.swap(true, Ordering::Relaxed) {
            self.name_thread(queue);
        }
        let Record { name, begin, end, flow, .. } = *record;
        match record.what {
            What::Submit => self.part("b", "operation", name, queue, record),
            What::Complete => {
                self.slice("complete", name, queue, record, begin + INSTANT_NS);
                self.part("e", "operation", name, queue, record);
            }
            What::CreditBegin => self.part("b", "credit", name, queue, record),
            What::CreditEnd => self.part("e", "credit", name, queue, record),
            What::LeaseBegin => self.part("b", "lease", name, queue, record),
            What::LeaseEnd => self.part("e", "lease", name, queue, record),
            What::Post => {
                self.slice("post", name, queue, record, end);
                self.arrow("s", flow, queue, begin);
            }
            What::Deliver | What::Reply => {
                self.slice("receive", name, queue, record, end.max(begin + INSTANT_NS));
                self.arrow("f", flow, queue, begin);
            }
            What::Callback => self.slice("callback", name, queue, record, end),
            What::Sleep => self.slice("sleep", name, queue, record, end),
            What::Worker | What::Endpoint => {
                let category = if record.what == What::Worker { "worker" } else { "endpoint" };
                self.event("i", category, name, queue, begin);
                self.text.push_str(",\"s\":\"t\"");
                self.arguments(record);
            }
        }
    }

    fn name_thread(&mut self, queue: &Queue) {
        let thread = queue.thread.load(Ordering::Relaxed);
        let name = std::fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
        let process = self.process;
        let _ = write!(
            self.text,
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{thread},\
            \"args\":{{\"name\":{}}}}}",
            quoted(name.unwrap_or_default().trim())
        );
    }

    /// The begin of an event, without the end of its object.
    fn event(&mut self, phase: &str, category: &str, name: &str, queue: &Queue, at: u64) {
        let (process, thread) = (self.process, queue.thread.load(Ordering::Relaxed));
        let (micros, nanos) = (at / 1000, at % 1000);
        let _ = write!(
            self.text,
            ",\n{{\"ph\":\"{phase}\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{process},\
            \"tid\":{thread},\"ts\":{micros}.{nanos:03}"
        );
    }

    fn slice(&mut self, category: &str, name: &str, queue: &Queue, record: &Record, end: u64) {
        self.event("X", category, name, queue, record.begin);
        let length = end - record.begin;
        let _ = write!(self.text, ",\"dur\":{}.{:03}", length / 1000, length % 1000);
        self.arguments(record);
    }

    /// The begin or end of what lasts beyond a call.
    fn part(&mut self, phase: &str, category: &str, name: &str, queue: &Queue, record: &Record) {
        self.event(phase, category, name, queue, record.begin);
        let _ = write!(self.text, ",\"id2\":{{\"local\":\"{:#x}\"}}", record.id);
        self.arguments(record);
    }

    /// One end of a message's way, in the slice that begins then.
    fn arrow(&mut self, phase: &str, flow: u64, queue: &Queue, at: u64) {
        if flow != 0 {
            self.event(phase, "message", "message", queue, at);
            let bound = if phase == "f" { ",\"bp\":\"e\"" } else { "" };
            let _ = write!(self.text, ",\"id\":\"{flow:#x}\"{bound}}}");
        }
    }

    fn arguments(&mut self, record: &Record) {
        let Record { status, worker, peer, length, tag, .. } = *record;
        let _ = write!(self.text, ",\"args\":{{\"status\":{status},\"length\":{length}");
        let is_lease = matches!(record.what, What::LeaseBegin | What::LeaseEnd);
        let owner = if is_lease { "hub" } else { "worker" };
        for (name, value) in [(owner, worker), ("peer", peer), ("tag", tag)] {
            if value != 0 || name == "tag" {
                let _ = write!(self.text, ",\"{name}\":\"{value:#x}\"");
            }
        }
        self.text.push_str("}}");
    }
}

/// As a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if (c as u32) < 0x20 => drop(write!(quoted, "\\u{:04x}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted() {
        assert_eq!(quoted("a\"b\\c\nd\u{1}é"), "\"a\\\"b\\\\c\\u000ad\\u0001é\"");
    }
}
