//! The trace of `UCXX_RS_TRACE`: what threads record, and the thread that writes it.
//!
//! - **Off**, which is the usual case, `is_on` is a relaxed load, and nothing else exists.
//! - **Recording.** Each thread has a queue of its own, with room for `MOST` records, and never
//!   waits. A record that finds it full is dropped and counted.
//! - **Writing.** A thread of the library empties the queues every `INTERVAL` and appends to the
//!   file (`trace_file`). So do the end of a worker and the exit of the process.
//! - **Fork.** A child has no such thread, and writes nothing.

use crate::engine::base::lasting::lasting;
use crate::engine::base::lockdep::Mutex;
use crate::engine::os::trace_file::TraceFile;
use crate::sys;
use crossbeam_queue::ArrayQueue;
use rustix::time::{clock_gettime, ClockId};
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::thread::Thread;
use std::time::Duration;

/// Records that a thread's queue has room for: 1.5 MiB.
const MOST: usize = 1 << 14;
const INTERVAL: Duration = Duration::from_millis(50);
/// Threads after which the queues of threads that have ended are used again.
const MANY: usize = 64;

static ON: AtomicBool = AtomicBool::new(false);
static EXITING: AtomicBool = AtomicBool::new(false);
static QUEUES: Mutex<Vec<&'static Queue>> = Mutex::new(Vec::new());
static FILE: Mutex<Option<TraceFile>> = Mutex::new(None);
static WRITER: OnceLock<Thread> = OnceLock::new();

lasting! {
    /// This thread's queue, once it has recorded something.
    static OWN: Cell<Option<&'static Queue>> = const { Cell::new(None) };
}

/// What a record is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Worker,
    Submit,
    Complete,
    Post,
    Callback,
    Deliver,
    Reply,
    Sleep,
    Endpoint,
    CreditBegin,
    CreditEnd,
    LeaseBegin,
    LeaseEnd,
}

/// One event.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub(crate) what: What,
    pub(crate) name: &'static str,
    pub(crate) status: i32,
    /// Of CLOCK_MONOTONIC; equal for an instant.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The request, lease or endpoint.
    pub(crate) id: u64,
    /// `Identity::peer_id` of the worker, and of its peer.
    pub(crate) worker: u64,
    pub(crate) peer: u64,
    pub(crate) length: u64,
    pub(crate) tag: u64,
    /// The message that is sent or received: see `flow`; 0 for none.
    pub(crate) flow: u64,
}

impl Record {
    /// An instant, now, that nothing else is known about.
    pub(crate) fn now(what: What, name: &'static str) -> Self {
        let now = now();
        let (status, id, worker, peer, length, tag, flow) = (0, 0, 0, 0, 0, 0, 0);
        Record { what, name, status, begin: now, end: now, id, worker, peer, length, tag, flow }
    }
}

/// The records of one thread, which writes; the thread that holds `FILE` takes.
pub(crate) struct Queue {
    pub(crate) thread: AtomicU64,
    /// The file has the thread's name.
    pub(crate) named: AtomicBool,
    records: ArrayQueue<Record>,
    dropped: AtomicU64,
}

#[inline(always)]
pub(crate) fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Nanoseconds of CLOCK_MONOTONIC, which all processes of a host share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The number of a message, for both of its ends: of the worker that has given it its `number`.
pub(crate) fn flow(worker: u64, connection: u32, number: u64) -> u64 {
    fn mix(mut value: u64) -> u64 {
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
    mix(mix(mix(worker) ^ u64::from(connection)) ^ number).max(1)
}

/// Records an event of the calling thread.
pub(crate) fn record(record: Record) {
    let queue = OWN.with(|own| {
        if own.get().is_none() {
            own.set(Some(new_queue()));
        }
        own.get()
    });
    let Some(queue) = queue else { return };
    if queue.records.push(record).is_err() {
        queue.dropped.fetch_add(1, Ordering::Relaxed);
    } else if queue.records.len() == MOST / 2 {
        if let Some(writer) = WRITER.get() {
            writer.unpark();
        }
    }
}

#[cold]
fn new_queue() -> &'static Queue {
    // SAFETY: no precondition.
    let thread = unsafe { libc::gettid() } as u64;
    let mut queues = QUEUES.lock();
    let is_left = |queue: &&&Queue| {
        let thread = queue.thread.load(Ordering::Relaxed);
        queue.records.is_empty()
            && !std::path::Path::new(&format!("/proc/self/task/{thread}")).exists()
    };
    if queues.len() >= MANY {
        if let Some(queue) = queues.iter().find(is_left) {
            queue.thread.store(thread, Ordering::Relaxed);
            queue.named.store(false, Ordering::Relaxed);
            return queue;
        }
    }
    let queue = Box::leak(Box::new(Queue {
        thread: AtomicU64::new(thread),
        named: AtomicBool::new(false),
        records: ArrayQueue::new(MOST),
        dropped: AtomicU64::new(0),
    }));
    queues.push(queue);
    queue
}

/// Begins to record into the file that `UCXX_RS_TRACE` names, if it names one. Returns what to log
/// if that is not possible. Only the first call does anything.
pub(crate) fn start_from_environment() -> Option<String> {
    static STARTED: Once = Once::new();
    let mut failed = None;
    STARTED.call_once(|| failed = start());
    failed
}

fn start() -> Option<String> {
    let path = std::env::var("UCXX_RS_TRACE").ok().filter(|path| !path.is_empty())?;
    // SAFETY: no precondition.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return Some("UCXX_RS_TRACE is ignored in a program with raised privileges".to_owned());
    }
    let path = path.replace("%p", &std::process::id().to_string());
    match TraceFile::create(&path) {
        Ok(file) => *FILE.lock() = Some(file),
        Err(cause) => return Some(format!("UCXX_RS_TRACE: {path} cannot be written: {cause}")),
    }
    // The thread and the exit function need the library's code to the end.
    sys::keep_loaded(at_exit as *const c_void);
    let writer = std::thread::Builder::new().name("ucxx_trace".to_owned()).spawn(|| loop {
        std::thread::park_timeout(INTERVAL);
        if EXITING.load(Ordering::Acquire) {
            break;
        }
        flush();
    });
    match writer {
        Ok(writer) => drop(WRITER.set(writer.thread().clone())),
        Err(cause) => return Some(format!("UCXX_RS_TRACE: no thread can be made: {cause}")),
    }
    // SAFETY: a static function, in a library that stays.
    unsafe { libc::atexit(at_exit) };
    ON.store(true, Ordering::Relaxed);
    None
}

/// From here on only threads that end a worker write: the process may end in the middle of others.
extern "C" fn at_exit() {
    EXITING.store(true, Ordering::Release);
    let _ = std::panic::catch_unwind(flush);
}

/// Writes what has been recorded.
pub(crate) fn flush() {
    // In a forked child, a thread of the parent may hold the lock.
    if !is_on() || !TraceFile::is_own() {
        return;
    }
    let mut file = FILE.lock();
    let Some(open) = file.as_mut() else { return };
    let queues: Vec<_> = QUEUES.lock().clone();
    for queue in queues {
        // Bounded: its thread may go on.
        for _ in 0..MOST {
            let Some(record) = queue.records.pop() else { break };
            open.add(queue, &record);
        }
        open.note_dropped(queue, queue.dropped.swap(0, Ordering::Relaxed));
    }
    if !open.write() {
        ON.store(false, Ordering::Relaxed);
        *file = None;
    }
}
