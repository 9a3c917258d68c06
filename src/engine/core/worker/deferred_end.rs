//! Workers that end later, or elsewhere: those that a callback has destroyed, and those that nobody
//! waits for.
//!
//! A worker that a callback has destroyed ends when the callback, and the pass that made it, have
//! returned. A thread that may wait ends its own when its call into the library returns. What a
//! progress thread runs into is ended by a thread that is made for it, as the end of a worker may
//! wait for that very progress thread; so is what nobody waits for. Where no thread can be made the
//! next call ends it that can, on any thread.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::gate::this_thread;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::runtime;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The thread that may end a worker.
#[derive(PartialEq, Eq)]
enum By {
    /// The one on whose stack frames of the worker's may be left.
    Thread(usize),
    /// One that is made for it, once that one's stack is free of them.
    After(usize),
    Anyone,
}

/// What a user has called when the worker has ended: function and argument.
pub struct Then(pub unsafe extern "C" fn(*mut c_void), pub *mut c_void);

// SAFETY: the user hands function and argument over to the thread that ends the worker.
unsafe impl Send for Then {}

/// A worker that is to end.
struct Doomed {
    worker: Arc<SharedWorker>,
    then: Option<Then>,
}

impl Doomed {
    fn end(self) {
        self.worker.shut_down();
        // The user may take what the worker has kept as its end.
        drop(self.worker);
        if let Some(Then(function, arg)) = self.then {
            // SAFETY: as the user gave it; once.
            unsafe { function.call_out((arg,)) };
        }
    }
}

static DOOMED: Mutex<Vec<(By, Doomed)>> = Mutex::new(Vec::new());
/// How many there are: to see that there are none costs a load.
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

/// Ends the worker on a thread of the library's, which calls `then` afterwards. NO_RESOURCE, with
/// nothing done, where the system gives no thread.
pub fn end_elsewhere(worker: Arc<SharedWorker>, then: Option<Then>) -> Result<()> {
    worker.check_fork()?;
    let waits = deferred::in_callback() && !worker.has_progress_thread();
    let doomed = Doomed { worker, then };
    if waits {
        // The callback may be one of the worker's own.
        leave_to(By::After(this_thread()), doomed);
        return Ok(());
    }
    spawn(doomed).map_err(|_| {
        Error::new(Status::NO_RESOURCE, "worker: the system gives no thread to end it on")
    })
}

/// Could there be something for `end_doomed` to do?
#[inline]
pub fn may_have_doomed() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Ends what this thread may end. No call on a worker is under way on it, unless it is one that
/// waits, outside of every gate, for what keeps the worker's memory.
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
            doomed.end();
        }
    }
}

/// The same for a progress thread, which ends none itself.
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

/// Ends a worker on a thread that is made for it.
fn reap(doomed: Doomed) {
    if let Err(doomed) = spawn(doomed) {
        leave_to(By::Anyone, doomed);
    }
}

/// The same; gives it back where no thread can be made.
fn spawn(doomed: Doomed) -> std::result::Result<(), Doomed> {
    let name = std::thread::Builder::new().name("ucxx_reaper".to_owned());
    // Here if there is no thread, else taken by that.
    let place = Arc::new(Mutex::new(Some(doomed)));
    let its = place.clone();
    let ending = move || {
        crate::engine::core::worker::progress_thread::guarded(|| {
            let doomed = its.lock().take();
            doomed.into_iter().for_each(Doomed::end);
            // Its last callbacks may have destroyed others.
            end_doomed();
        });
    };
    if runtime::with_signals_blocked(|| name.spawn(ending)).is_ok() {
        return Ok(());
    }
    let left = place.lock().take();
    left.map_or(Ok(()), Err)
}
