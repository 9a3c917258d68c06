//! The library's log: lines go to the user's callback, or nowhere. UCX's own log is routed into it.
//!
//! Nothing is written to stdout or stderr, and no logger of the process is touched. Any thread may
//! log.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::lasting::{lasting, Frames};
use crate::engine::base::status::{Error, Result};
use crate::sys;
use parking_lot::RwLock;
use std::cell::RefCell;
use std::ffi::{c_void, CStr, CString};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Once;

/// Log levels. The numbers are those of the C header.
pub(crate) const OFF: i32 = 0;
pub(crate) const ERROR: i32 = 1;
pub(crate) const WARN: i32 = 2;
pub(crate) const INFO: i32 = 3;
pub(crate) const DEBUG: i32 = 4;
pub(crate) const TRACE: i32 = 5;

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

static SINK: RwLock<Option<Sink>> = RwLock::new(None);
/// The current level; OFF without a sink. Relaxed: a line more or less at a change does not matter.
static LEVEL: AtomicI32 = AtomicI32::new(OFF);

lasting! {
    /// While this thread has a capture, UCX's messages on it are stored in the innermost one
    /// instead of going to the callback.
    static CAPTURES: Frames<RefCell<Vec<(i32, String)>>> = const { Frames::new() };
}

/// Sets the callback, or removes it if it is `None`. The variable UCXX_RS_LOG_LEVEL overrides
/// `level`.
pub fn set_callback(callback: Option<Callback>, arg: *mut c_void, level: i32) -> Result<()> {
    if !(OFF..=TRACE).contains(&level) {
        return Err(Error::invalid(format!("level: {level} is no UCXX_LOG_* value (0 to 5)")));
    }
    let level = level_from_environment().unwrap_or(level);
    let mut sink = SINK.write();
    *sink = callback.map(|callback| Sink { callback, arg });
    LEVEL.store(if sink.is_some() { level } else { OFF }, Ordering::Relaxed);
    Ok(())
}

fn level_from_environment() -> Option<i32> {
    let value = std::env::var("UCXX_RS_LOG_LEVEL").ok()?;
    let names = ["off", "error", "warn", "info", "debug", "trace"];
    let value = value.trim().to_ascii_lowercase();
    names.iter().position(|name| *name == value).map(|found| found as i32).or_else(|| {
        let number = value.parse().ok()?;
        (OFF..=TRACE).contains(&number).then_some(number)
    })
}

pub(crate) fn enabled(level: i32) -> bool {
    level <= LEVEL.load(Ordering::Relaxed)
}

/// Writes one line to the log.
pub(crate) fn write(level: i32, component: &CStr, message: &str) {
    if !enabled(level) {
        return;
    }
    // Copied, so the lock is released before the callback runs.
    let Some(sink) = *SINK.read() else { return };
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the user registered this callback with this argument for any thread; both strings
    // outlive the call.
    unsafe { sink.callback.call_out((sink.arg, level, component.as_ptr(), message.as_ptr())) };
}

/// Runs `f` and returns what UCX logged on this thread meanwhile, at all levels: level and text.
/// The callback has received none of it; `write_ucx` passes on what users should see.
pub(crate) fn capture<T>(f: impl FnOnce() -> T) -> (T, Vec<(i32, String)>) {
    let (value, captured) = CAPTURES.during(RefCell::default(), f);
    (value, captured.into_inner())
}

/// Writes a line from UCX to the log.
pub(crate) fn write_ucx(level: i32, message: &str) {
    write(level, c"ucx", message);
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
    line: libc::c_uint,
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
        if !capturing && !enabled(level) {
            return;
        }
        let mut buffer = [0u8; 2048];
        // SAFETY: format and arguments are from UCX's call of this handler and are used once; the
        // size is the buffer's.
        unsafe { vsnprintf(buffer.as_mut_ptr().cast(), buffer.len(), format, arguments) };
        let message =
            CStr::from_bytes_until_nul(&buffer).map(CStr::to_string_lossy).unwrap_or_default();
        let file = if file.is_null() {
            "".into()
        } else {
            // SAFETY: not null; UCX passes __FILE__, a static string.
            unsafe { CStr::from_ptr(file) }.to_string_lossy()
        };
        let line = format!("{message} ({}:{line})", file.rsplit('/').next().unwrap_or_default());
        if !capturing {
            return write_ucx(level, &line);
        }
        CAPTURES.with(|captures| {
            captures.each().next().map(|capture| capture.borrow_mut().push((level, line)))
        });
    });
    STOP
}
