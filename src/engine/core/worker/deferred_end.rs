//! Workers that end later, or on another thread: those destroyed from a callback, and those whose
//! end no thread waits for.
//!
//! - A worker destroyed from a callback ends when the callback, and the pass that made it, have
//!   returned.
//! - A thread that may wait ends its workers when its call into the library returns.
//! - A progress thread never ends a worker, because the end may wait for that progress thread. A
//!   new thread does it. It also ends workers whose end no thread waits for.
//! - If no thread can be created, the next call that can end the worker does so, on any thread.
//! - The process's exit waits for ends that have begun, for a limited time: UCX's own exit handlers
//!   free what its calls use.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::lasting::lasting;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::gate::this_thread;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::os::fork::Token;
use crate::engine::ucx::runtime;
use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{fence, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Which thread may end a worker.
#[derive(PartialEq, Eq)]
enum By {
    /// The thread whose stack may still have frames of the worker.
    Thread(usize),
    /// A new thread, after that thread's stack has no such frames any more.
    After(usize),
    Anyone,
}

/// The user's function, with its argument, that is called when the worker has ended.
pub struct Then(pub unsafe extern "C" fn(*mut c_void), pub *mut c_void);

// SAFETY: the user hands function and argument over to the thread that ends the worker.
unsafe impl Send for Then {}

/// A worker that will be ended.
struct Doomed {
    worker: Arc<SharedWorker>,
    then: Option<Then>,
}

impl Doomed {
    fn end(self, ending: Ending) {
        ENDS_HERE.with(|ends| ends.set(ends.get() + 1));
        self.worker.shut_down();
        ENDS_HERE.with(|ends| ends.set(ends.get() - 1));
        drop(ending);
        // The user may take the release of what the worker holds as its end.
        drop(self.worker);
        if let Some(Then(function, arg)) = self.then {
            // SAFETY: the user's function and argument, called once.
            unsafe { function.call_out((arg,)) };
        }
    }
}

static DOOMED: Mutex<Vec<(By, Doomed)>> = Mutex::new(Vec::new());
/// Number of entries: checking for none costs one load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn leave_to(by: By, one: Doomed) {
    let mut doomed = DOOMED.lock();
    doomed.push((by, one));
    COUNT.store(doomed.len(), Ordering::Relaxed);
}

fn take(may_end: impl Fn(&By) -> bool) -> Option<(By, Doomed)> {
    let mut doomed = DOOMED.lock();
    let at = doomed.iter().position(|(by, _)| may_end(by))?;
    let taken = doomed.remove(at);
    COUNT.store(doomed.len(), Ordering::Relaxed);
    Some(taken)
}

/// A callback on this thread has destroyed the worker.
pub(crate) fn doom(worker: Arc<SharedWorker>) {
    let has_thread = worker.has_progress_thread();
    let doomed = Doomed { worker, then: None };
    if has_thread {
        return reap(doomed);
    }
    leave_to(By::Thread(this_thread()), doomed);
}

/// Ends the worker on a thread of the library, which calls `then` afterwards. Returns
/// `NO_RESOURCE`, with nothing done, if the system cannot create a thread.
pub fn end_elsewhere(worker: Arc<SharedWorker>, then: Option<Then>) -> Result<()> {
    worker.check_fork()?;
    let waits = deferred::in_callback() && !worker.has_progress_thread();
    let doomed = Doomed { worker, then };
    if waits {
        // The callback may belong to this worker.
        leave_to(By::After(this_thread()), doomed);
        return Ok(());
    }
    spawn(doomed).map_err(|_| {
        Error::new(
            Status::NO_RESOURCE,
            "worker: the system could not create a thread that ends it; raise the limit (ulimit \
            -u), or call ucxx_worker_destroy",
        )
    })
}

/// There may be workers for `end_doomed` to end.
#[inline]
pub fn may_have_doomed() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Ends the workers that this thread may end. Call this only while this thread has no other call on
/// a worker in progress. One exception: a call that waits, outside every gate, and keeps the
/// worker's memory alive.
#[inline]
pub fn end_doomed() {
    if may_have_doomed() {
        end_those_of_this_thread();
    }
}

#[cold]
fn end_those_of_this_thread() {
    if deferred::in_callback() {
        return;
    }
    let here = this_thread();
    while let Some((by, doomed)) =
        take(|by| [By::Thread(here), By::After(here), By::Anyone].contains(by))
    {
        if by == By::After(here) {
            reap(doomed);
        } else {
            doomed.end(Ending::begin());
        }
    }
}

/// The same for a progress thread, which does not end workers itself.
#[inline]
pub(crate) fn hand_over_doomed() {
    if may_have_doomed() {
        hand_over_those_of_this_thread();
    }
}

#[cold]
fn hand_over_those_of_this_thread() {
    let here = this_thread();
    while let Some((_, doomed)) = take(|by| [By::Thread(here), By::After(here)].contains(by)) {
        reap(doomed);
    }
}

/// Ends a worker on a new thread.
fn reap(doomed: Doomed) {
    if let Err(doomed) = spawn(doomed) {
        leave_to(By::Anyone, doomed);
    }
}

/// The same. Returns the worker if no thread can be created.
fn spawn(doomed: Doomed) -> std::result::Result<(), Doomed> {
    let name = std::thread::Builder::new().name("ucxx_reaper".to_owned());
    // Stays here if there is no thread; otherwise the thread takes it.
    let place = Arc::new(Mutex::new(Some(doomed)));
    let its = place.clone();
    // Before the thread starts: the process may exit in between.
    let ending = Ending::begin();
    let end = move || {
        crate::engine::core::worker::progress_thread::guarded(|| {
            let doomed = its.lock().take();
            if let Some(doomed) = doomed {
                doomed.end(ending);
            }
            // Its last callbacks may have destroyed other workers.
            end_doomed();
        });
    };
    if runtime::with_signals_blocked(|| name.spawn(end)).is_ok() {
        return Ok(());
    }
    let left = place.lock().take();
    left.map_or(Ok(()), Err)
}

lasting! {
    /// Workers that this thread ends at this moment.
    static ENDS_HERE: Cell<usize> = const { Cell::new(0) };
}

/// Workers whose end has begun. Zero again in a forked child, which does not have the threads.
static BEGUN: OnceLock<Token> = OnceLock::new();
/// Held while the number changes. The process's exit only reads it.
static CHANGES: Mutex<()> = Mutex::new(());

/// The end of a worker.
struct Ending;

impl Ending {
    fn begin() -> Self {
        BEGUN.get_or_init(|| {
            // SAFETY: a function that does not unwind. UCX is loaded, so it runs before UCX's own
            // exit handlers.
            unsafe { libc::atexit(process_ends) };
            Token::new(0)
        });
        Self::count(1);
        Ending
    }

    /// Publishes to the process's exit what this thread has done in UCX.
    fn count(change: isize) {
        let _changes = CHANGES.lock();
        if let Some(begun) = BEGUN.get() {
            fence(Ordering::Release);
            begun.set(begun.get().saturating_add_signed(change));
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        Self::count(-1);
    }
}

/// How long the process's exit waits. The end of a worker takes about two seconds at most.
const EXIT_PATIENCE_NS: u64 = 3_000_000_000;

extern "C" fn process_ends() {
    // A callback that such an end runs may be what exits.
    let own = ENDS_HERE.with(Cell::get);
    let deadline = clock::deadline_after(EXIT_PATIENCE_NS);
    while BEGUN.get().is_some_and(|begun| begun.get() > own) && clock::now_ns() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    fence(Ordering::Acquire);
}
