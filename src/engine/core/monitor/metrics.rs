//! `UCXX_RS_METRICS`: the metrics of the process over HTTP, or in a file.
//!
//! - `:9400`, `0.0.0.0:9400`, `[::1]:9400`: an address; without a host, only this host is served.
//! - what has a slash: a file. It is written every ten seconds, and when the last object of the
//!   process ends or the process exits.
#![deny(unsafe_code)]

use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::core::monitor::registry::Registry;
use crate::engine::core::monitor::service::{Offer, Service};
use crate::engine::core::monitor::text_server::{Answer, TextServer};
use rustix::event::PollFd;
use socket2::{Domain, Socket, Type};
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const VARIABLE: &str = "UCXX_RS_METRICS";

pub(crate) const OFFER: Offer = Offer {
    variable: VARIABLE,
    make: |value| match value.contains('/') {
        true => Ok(Box::new(MetricsFile::new(value))),
        false => match MetricsServer::new(value) {
            Ok(server) => Ok(Box::new(server)),
            Err(error) => Err(format!("no metrics: {error}")),
        },
    },
};

/// Between two times that the file is written.
const INTERVAL_NS: u64 = 10_000_000_000;
/// Clients that the kernel keeps until they are let in.
const BACKLOG: i32 = 16;
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The environment asks for a file: what objects counted is to be kept when they end.
pub(crate) fn are_kept() -> bool {
    static KEPT: OnceLock<bool> = OnceLock::new();
    let kept =
        || std::env::var_os(VARIABLE).is_some_and(|value| value.to_string_lossy().contains('/'));
    *KEPT.get_or_init(kept)
}

struct MetricsServer(TextServer);

impl MetricsServer {
    fn new(value: &str) -> io::Result<Self> {
        let address = address_of(value).ok_or_else(|| {
            let text = "it has to be a path, a port as in :9400, or an address as in 0.0.0.0:9400";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        // A process that has just ended leaves its connections behind.
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        if let Some(bound) = socket.local_addr()?.as_socket() {
            log::at!(INFO, Monitor, &(), "metrics at http://{bound}/metrics");
        }
        Ok(MetricsServer(TextServer::new(socket, true)?))
    }
}

fn address_of(value: &str) -> Option<SocketAddr> {
    let value = value.trim();
    match value.strip_prefix(':') {
        Some(port) => Some(SocketAddr::from(([127, 0, 0, 1], port.parse().ok()?))),
        None => value.parse().ok(),
    }
}

impl Service for MetricsServer {
    fn waits_for<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) -> Option<u64> {
        self.0.waits_for(polled)
    }

    fn turn(&mut self, registry: &Registry, now: u64) {
        // Clients that come at once get the same text.
        let mut text: Option<String> = None;
        let mut body = || text.get_or_insert_with(|| registry.measure_all().text()).clone();
        self.0.turn(now, |_| true, |request| answer(request, &mut body));
    }
}

/// The answer to what has arrived of a request.
fn answer(request: &[u8], body: &mut impl FnMut() -> String) -> Answer {
    let is_complete = request.windows(4).any(|four| four == b"\r\n\r\n")
        || request.windows(2).any(|two| two == b"\n\n");
    if !is_complete {
        return Answer::Later;
    }
    let line = request.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let words: Vec<_> = line.split(|byte| *byte == b' ').collect();
    let [method, target, version] = words[..] else { return refusal("400 Bad Request") };
    if !version.starts_with(b"HTTP/1.") {
        return refusal("400 Bad Request");
    }
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    match (method, path) {
        (b"GET", b"/metrics" | b"/") => response("200 OK", CONTENT_TYPE, &body(), true),
        (b"HEAD", b"/metrics" | b"/") => response("200 OK", CONTENT_TYPE, &body(), false),
        (b"GET" | b"HEAD", _) => refusal("404 Not Found"),
        _ => refusal("405 Method Not Allowed"),
    }
}

fn refusal(status: &str) -> Answer {
    response(status, "text/plain", &format!("{status}: the metrics are at /metrics\n"), true)
}

fn response(status: &str, content_type: &str, body: &str, with_body: bool) -> Answer {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
        Connection: close\r\n\r\n"
    );
    Answer::Text((head + if with_body { body } else { "" }).into_bytes())
}

struct MetricsFile {
    path: PathBuf,
    next: u64,
    /// A failure was logged; the next one would be the same.
    has_complained: bool,
}

impl MetricsFile {
    fn new(value: &str) -> Self {
        let path = PathBuf::from(value.replace("%p", &std::process::id().to_string()));
        MetricsFile { path, next: clock::deadline_after(INTERVAL_NS), has_complained: false }
    }

    fn write(&mut self, registry: &Registry) {
        let result = replace(&self.path, registry.measure_all().text().as_bytes());
        if let (Err(error), false) = (&result, self.has_complained) {
            log::at!(WARN, Monitor, &(), "no metrics in {}: {error}", self.path.display());
        }
        self.has_complained |= result.is_err();
    }
}

/// Readers find the old content or the new one, and nothing in between.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let fresh = PathBuf::from(name);
    // Of a process that had this one's number. Made anew, so that no link of another user in a
    // folder that everybody may write to is followed.
    let _ = fs::remove_file(&fresh);
    let mut file = File::create_new(&fresh)?;
    let result = file.write_all(content).and_then(|()| fs::rename(&fresh, path));
    if result.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    result
}

impl Service for MetricsFile {
    fn waits_for<'a>(&'a self, _: &mut Vec<PollFd<'a>>) -> Option<u64> {
        Some(self.next)
    }

    fn turn(&mut self, registry: &Registry, now: u64) {
        if now >= self.next || registry.stops() {
            self.next = now + INTERVAL_NS;
            self.write(registry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(request: &str) -> Option<String> {
        match answer(request.as_bytes(), &mut || "# EOF\n".to_owned()) {
            Answer::Text(text) => Some(String::from_utf8(text).unwrap()),
            Answer::Later => None,
            Answer::Nothing => unreachable!(),
        }
    }

    #[test]
    fn requests_are_answered_when_they_are_complete() {
        let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        (0..get.len()).for_each(|length| assert!(answered(&get[..length]).is_none(), "{length}"));
        let text = answered(get).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\n# EOF\n"));
        assert!(text.contains("\r\nContent-Length: 6\r\n"));
        let head = answered("HEAD /metrics?x=1 HTTP/1.0\n\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("close\r\n\r\n"));
    }

    #[test]
    fn other_requests_are_refused() {
        let cases = [
            ("GET /secret HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            ("GET /metrics FTP/1.1\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
            ("\0\u{7f}\n\n", "400"),
        ];
        for (request, status) in cases {
            let text = answered(request).unwrap();
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {text}");
        }
    }

    #[test]
    fn addresses_are_of_this_host_unless_told() {
        let address = |value| address_of(value).map(|address| address.to_string());
        assert_eq!(address(":9400").as_deref(), Some("127.0.0.1:9400"));
        assert_eq!(address("0.0.0.0:80").as_deref(), Some("0.0.0.0:80"));
        assert_eq!(address("[::1]:1").as_deref(), Some("[::1]:1"));
        for wrong in ["", ":", ":x", ":65536", "host", "9400"] {
            assert_eq!(address(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("ucxx_metrics_{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let path = folder.join("text");
        for content in ["first", "second"] {
            replace(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(replace(&folder.join("none/text"), b"").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
