//! The library's log: lines go to the user's callback, to stderr if the environment asks for it, or
//! nowhere. UCX's own log is routed into it.
//!
//! Without a callback and without the variable UCXX_RS_LOG nothing is written, and a call costs one
//! relaxed load and a compare. No logger of the process is touched. Any thread may log.
//!
//! `log_filter` reads the variable, `log_repeats` holds back what repeats.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::lasting::{lasting, Frames};
use crate::engine::base::log_filter::Filter;
use crate::engine::base::log_repeats::{Place, Repeats, Report, Verdict};
use crate::engine::base::status::{Error, Result};
use crate::sys;
use parking_lot::{Mutex, RwLock};
use std::cell::RefCell;
use std::ffi::{c_void, CStr, CString};
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::Once;
use std::time::{Duration, SystemTime};

/// Log levels. The numbers are those of the C header.
pub(crate) const OFF: i32 = 0;
pub(crate) const ERROR: i32 = 1;
pub(crate) const WARN: i32 = 2;
pub(crate) const INFO: i32 = 3;
pub(crate) const DEBUG: i32 = 4;
pub(crate) const TRACE: i32 = 5;

/// Their names, in the order of the numbers.
pub(crate) const LEVEL_NAMES: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

macro_rules! components {
    ($($component:ident $name:literal $what:literal,)+) => {
        /// The part of the library that a line comes from.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Component {
            $(#[doc = $what] $component,)+
        }

        impl Component {
            pub(crate) const ALL: &[Component] = &[$(Component::$component,)+];

            pub(crate) fn name(self) -> &'static CStr {
                match self {
                    $(Component::$component => $name,)+
                }
            }

            /// What its lines are about. docs/logs.md has the same text.
            #[cfg(test)]
            pub(crate) fn what(self) -> &'static str {
                match self {
                    $(Component::$component => $what,)+
                }
            }
        }
    };
}

components! {
    Worker c"worker" "workers, their progress threads, and messages that a worker drops",
    Endpoint c"endpoint" "connections: made, closed, lost, and what sends wait for",
    Listener c"listener" "listeners, and connection requests",
    Tag c"tag" "tag messages, multi-buffer ones included",
    Am c"am" "active messages, multi-buffer ones and queues included",
    Fetch c"fetch" "fetches",
    Stream c"stream" "streams",
    Rma c"rma" "put, get and atomic operations",
    Group c"group" "groups: how the members meet, and collectives",
    Window c"window" "one-sided windows",
    Hub c"hub" "hubs, and their streams between processes",
    Memory c"memory" "registered memory",
    Cuda c"cuda" "the CUDA driver",
    Callback c"callback" "callbacks that do not return",
    Monitor c"monitor" "the thread that looks at the process: its sockets",
    Watchdog c"watchdog" "what stands still: UCXX_RS_STALL_MS",
    Trace c"trace" "the file of UCXX_RS_TRACE",
    Log c"log" "the log itself: what is wrong in UCXX_RS_LOG",
    Ucx c"ucx" "lines of UCX",
}

/// What a line is about: a worker or an endpoint, or something that belongs to one.
pub(crate) trait Subject {
    /// Such as `worker 1 "rx", endpoint 3, peer process 4711 on this host (worker 1)`; empty for
    /// nothing.
    fn subject(&self) -> String;
}

/// A line that concerns neither a worker nor an endpoint.
impl Subject for () {
    fn subject(&self) -> String {
        String::new()
    }
}

/// Receives one line: argument, level, component, message. It may run on any thread, also one of
/// UCX's, and in the middle of any library call. So it must not call the library.
pub type Callback =
    unsafe extern "C" fn(*mut c_void, i32, *const libc::c_char, *const libc::c_char);

#[derive(Clone, Copy)]
struct Sink {
    callback: Callback,
    arg: *mut c_void,
}
// SAFETY: the caller of `set_callback` promises that any thread may use the callback and its
// argument.
unsafe impl Send for Sink {}
// SAFETY: the caller of `set_callback` promises that several threads may do so at once.
unsafe impl Sync for Sink {}

/// Where lines go.
#[derive(Clone, Copy)]
enum Output {
    Nowhere,
    Callback(Sink),
    Stderr,
}

static OUTPUT: RwLock<Output> = RwLock::new(Output::Nowhere);
/// The current level of each component; OFF without an output. Relaxed: a line more or less at a
/// change does not matter.
static LEVELS: [AtomicI32; Component::ALL.len()] =
    [const { AtomicI32::new(OFF) }; Component::ALL.len()];
/// Lines of one place in the code that are written in a second; later ones are only counted.
static MOST_IN_A_SECOND: AtomicU32 = AtomicU32::new(Filter::MOST_IN_A_SECOND);
static REPEATS: Mutex<Repeats> = Mutex::new(Repeats::new());
/// A thread waits for `REPEATS` no longer: after a fork, its holder may not exist any more.
const PATIENCE: Duration = Duration::from_millis(1);
/// The first use has found its output.
static BEGUN: Once = Once::new();

lasting! {
    /// While this thread has a capture, UCX's messages on it are stored in the innermost one
    /// instead of going to the callback.
    static CAPTURES: Frames<RefCell<Vec<(i32, String)>>> = const { Frames::new() };
}

/// Sets the callback, or removes it if it is `None`. The environment overrides `level`.
pub fn set_callback(callback: Option<Callback>, arg: *mut c_void, level: i32) -> Result<()> {
    if !(OFF..=TRACE).contains(&level) {
        return Err(Error::invalid(format!("level: {level} is no UCXX_LOG_* value (0 to 5)")));
    }
    BEGUN.call_once(|| {});
    send_to(callback.map(|callback| Sink { callback, arg }), level);
    Ok(())
}

/// The library is about to be used: if the program has not chosen, the environment does.
pub(crate) fn begin() {
    BEGUN.call_once(|| send_to(None, OFF));
}

fn send_to(sink: Option<Sink>, level: i32) {
    let filter = Filter::from_environment();
    let mut output = OUTPUT.write();
    let level = match sink {
        Some(sink) => {
            *output = Output::Callback(sink);
            level
        }
        None if filter.asks_for_output => {
            *output = Output::Stderr;
            WARN
        }
        None => {
            *output = Output::Nowhere;
            return LEVELS.iter().for_each(|level| level.store(OFF, Ordering::Relaxed));
        }
    };
    for component in Component::ALL {
        LEVELS[*component as usize].store(filter.level(*component, level), Ordering::Relaxed);
    }
    MOST_IN_A_SECOND.store(filter.most_in_a_second, Ordering::Relaxed);
    drop(output);
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !filter.mistakes.is_empty() && !TOLD.swap(true, Ordering::Relaxed) {
        // At any level: what was meant by the entries is not known.
        filter.mistakes.iter().for_each(|mistake| deliver(WARN, Component::Log, mistake));
    }
}

#[inline(always)]
pub(crate) fn enabled(level: i32, component: Component) -> bool {
    level <= LEVELS[component as usize].load(Ordering::Relaxed)
}

/// Writes one line to the log: level, component, subject, and the text with its arguments, which is
/// formatted only if the line is written. It is a macro because a `format_args!` with arguments
/// cannot be kept in a variable before Rust 1.89.
macro_rules! at {
    ($level:ident, $component:ident, $subject:expr, $($text:tt)+) => {{
        use $crate::engine::base::log;
        log::write(log::$level, log::Component::$component, $subject, format_args!($($text)+))
    }};
}
pub(crate) use at;

/// The same, where level or component is a value.
#[inline]
#[track_caller]
pub(crate) fn write(
    level: i32,
    component: Component,
    subject: &dyn Subject,
    text: fmt::Arguments<'_>,
) {
    if enabled(level, component) {
        let caller = Location::caller();
        let place = Place { file: caller.file().as_ptr() as usize, line: caller.line() };
        write_from(Some(place), level, component, subject, text);
    }
}

/// Writes a line of an enabled level. Lines of level TRACE, and those without a place, are never
/// held back.
#[cold]
fn write_from(
    place: Option<Place>,
    level: i32,
    component: Component,
    subject: &dyn Subject,
    text: fmt::Arguments<'_>,
) {
    let line = || match subject.subject() {
        subject if subject.is_empty() => text.to_string(),
        subject => format!("[{subject}] {text}"),
    };
    let Some(place) = place.filter(|_| level < TRACE) else {
        return deliver(level, component, &line());
    };
    let most = MOST_IN_A_SECOND.load(Ordering::Relaxed);
    let mut reports = Vec::new();
    let verdict = match REPEATS.try_lock_for(PATIENCE) {
        Some(mut repeats) => {
            repeats.judge(place, level, component, clock::now_ns(), most, &mut reports)
        }
        None => Verdict::Write,
    };
    reports.into_iter().for_each(tell_repeats);
    match verdict {
        Verdict::Write => deliver(level, component, &line()),
        Verdict::HoldFirst => {
            // Formatted without the lock: a subject may take locks of its own.
            let line = line();
            if let Some(mut repeats) = REPEATS.try_lock_for(PATIENCE) {
                repeats.note_text(place, line);
            }
        }
        Verdict::Hold => {}
    }
}

fn tell_repeats(report: Report) {
    if report.count == 1 && !report.text.is_empty() {
        return deliver(report.level, report.component, &report.text);
    }
    let text = format!("repeated {} times: {}", report.count, report.text);
    deliver(report.level, report.component, &text);
}

/// Tells now of all lines that were held back.
pub(crate) fn flush_repeats() {
    if LEVELS.iter().all(|level| level.load(Ordering::Relaxed) == OFF) {
        return;
    }
    let held = REPEATS.try_lock_for(PATIENCE).map(|mut repeats| repeats.take_all());
    held.into_iter().flatten().for_each(tell_repeats);
}

/// Gives a line to the output. Names and texts of peers may be in it, so it stays one line.
fn deliver(level: i32, component: Component, line: &str) {
    let mut text = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_control() {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    // Copied, so the lock is released before the callback runs.
    let output = *OUTPUT.read();
    match output {
        Output::Nowhere => {}
        Output::Stderr => write_to_stderr(level, component, &text),
        Output::Callback(Sink { callback, arg }) => {
            let text = CString::new(text).unwrap_or_default();
            // SAFETY: the user registered this callback with this argument for any thread; both
            // strings outlive the call.
            unsafe { callback.call_out((arg, level, component.name().as_ptr(), text.as_ptr())) };
        }
    }
}

/// Time, process, level, component and text, in one call of the kernel.
fn write_to_stderr(level: i32, component: Component, text: &str) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut line = String::with_capacity(text.len() + 64);
    let _ = writeln!(
        line,
        "{} {} {:<5} {:<8} {text}",
        utc(now),
        std::process::id(),
        LEVEL_NAMES[level as usize],
        component.name().to_string_lossy()
    );
    // SAFETY: the buffer is valid for its length. A line that cannot be written is lost.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
}

/// Such as `2026-11-28T17:20:01.123456Z`.
fn utc(since_epoch: Duration) -> String {
    // Days since 1 March of the year 0, with which leap years are regular ("civil_from_days").
    let seconds = since_epoch.as_secs();
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let micros = since_epoch.subsec_micros();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Runs `f` and returns what UCX logged on this thread meanwhile, at all levels: level and text.
/// The callback has received none of it; `write_ucx` passes on what users should see.
pub(crate) fn capture<T>(f: impl FnOnce() -> T) -> (T, Vec<(i32, String)>) {
    let (value, captured) = CAPTURES.during(RefCell::default(), f);
    (value, captured.into_inner())
}

/// Writes one of several lines that belong together, so that none of them is held back.
pub(crate) fn write_always(level: i32, component: Component, message: &str) {
    if enabled(level, component) {
        write_from(None, level, component, &(), format_args!("{message}"));
    }
}

/// Writes a line from UCX that was captured to the log.
pub(crate) fn write_ucx(level: i32, message: &str) {
    write_always(level, Component::Ucx, message);
}

/// Writes the lines that `capture` stored to the log.
pub(crate) fn hand_on(logged: &[(i32, String)]) {
    for (level, line) in logged {
        write_ucx(*level, line);
    }
}

/// `text`, followed by the last warning or error that UCX logged during the failed call.
pub(crate) fn with_reason(text: String, logged: &[(i32, String)]) -> String {
    match logged.iter().rev().find(|(level, _)| *level <= WARN).or(logged.last()) {
        Some((_, line)) => format!("{text} (UCX: {line})"),
        None => text,
    }
}

/// Puts our handler before UCX's own, which writes to stdout.
pub(crate) fn take_over_ucx() {
    static TAKEN: Once = Once::new();
    TAKEN.call_once(|| {
        // UCX calls the handler as long as the process lives. The shared library stays by itself,
        // but the archive may be in a library that is closed.
        sys::keep_loaded(from_ucx as *const c_void);
        let push = sys::symbol(c"ucs_log_push_handler");
        if push.is_null() {
            return;
        }
        // SAFETY: UCX's exported function of that name; its signature is the same from 1.5 to 1.22.
        let push: unsafe extern "C" fn(UcxHandler) = unsafe { std::mem::transmute(push) };
        // SAFETY: the handler is a static function with the signature of `ucs_log_func_t`.
        unsafe { push(from_ucx) };
    });
}

/// `ucs_log_func_t`. The last argument is a va_list. x86_64 (an array) and aarch64 (a struct of 32
/// bytes) both pass it by reference, so a pointer is right on both.
type UcxHandler = unsafe extern "C" fn(
    *const libc::c_char,
    libc::c_uint,
    *const libc::c_char,
    libc::c_uint,
    *const c_void,
    *const libc::c_char,
    *mut c_void,
) -> libc::c_uint;

const STOP: libc::c_uint = 0;

extern "C" {
    fn vsnprintf(
        buffer: *mut libc::c_char,
        size: usize,
        format: *const libc::c_char,
        arguments: *mut c_void,
    ) -> libc::c_int;
}

unsafe extern "C" fn from_ucx(
    file: *const libc::c_char,
    number: libc::c_uint,
    _function: *const libc::c_char,
    level: libc::c_uint,
    _component: *const c_void,
    format: *const libc::c_char,
    arguments: *mut c_void,
) -> libc::c_uint {
    let _ = std::panic::catch_unwind(|| {
        // UCX's levels: fatal, error, warn, diag, info, debug, then finer traces.
        let level = match level {
            0 | 1 => ERROR,
            2 => WARN,
            3 | 4 => INFO,
            5 => DEBUG,
            _ => TRACE,
        };
        let capturing = CAPTURES.with(|captures| captures.each().next().is_some());
        if !capturing && !enabled(level, Component::Ucx) {
            return;
        }
        let mut buffer = [0u8; 2048];
        // SAFETY: format and arguments are from UCX's call of this handler and are used once; the
        // size is the buffer's.
        unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
        let message =
            CStr::from_bytes_until_nul(&buffer).map(CStr::to_string_lossy).unwrap_or_default();
        let place = file as usize;
        let file = if file.is_null() {
            "".into()
        } else {
            // SAFETY: not null; UCX passes __FILE__, a static string.
            unsafe { CStr::from_ptr(file) }.to_string_lossy()
        };
        let line = format!("{message} ({}:{number})", file.rsplit('/').next().unwrap_or_default());
        if !capturing {
            // Whoever lets UCX be as verbose as that wants to see all of it.
            let place = (level < DEBUG).then_some(Place { file: place, line: number });
            return write_from(place, level, Component::Ucx, &(), format_args!("{line}"));
        }
        CAPTURES.with(|captures| {
            captures.each().next().map(|capture| capture.borrow_mut().push((level, line)))
        });
    });
    STOP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds, micros: u32| utc(Duration::new(seconds, micros * 1000));
        assert_eq!(at(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399, 999_999), "2000-02-28T23:59:59.999999Z");
        assert_eq!(at(951_782_400, 7), "2000-02-29T00:00:00.000007Z");
        assert_eq!(at(1_709_251_199, 0), "2024-02-29T23:59:59.000000Z");
        assert_eq!(at(1_709_251_200, 0), "2024-03-01T00:00:00.000000Z");
        assert_eq!(at(1_735_689_599, 0), "2024-12-31T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }

    /// docs/logs.md has a row for each component and level, in the order of the code.
    #[test]
    fn the_page_lists_what_there_is() {
        let page = include_str!("../../../docs/logs.md");
        let rows = |head: &str| {
            let table = page.split(head).nth(1).expect(head).lines().skip(2);
            let rows = table.take_while(|line| line.starts_with('|'));
            rows.map(|row| row.trim_matches(['|', ' ']).to_owned()).collect::<Vec<_>>()
        };
        let expected: Vec<_> = Component::ALL
            .iter()
            .map(|component| {
                format!("`{}` | {}", component.name().to_str().unwrap(), component.what())
            })
            .collect();
        assert_eq!(rows("| component | lines about |"), expected);
        let levels: Vec<_> = rows("| level | what is logged |")
            .iter()
            .map(|row| row.split('`').nth(1).expect("a name").to_owned())
            .collect();
        assert_eq!(levels, LEVEL_NAMES);
    }
}
