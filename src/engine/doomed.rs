//! Workers that a callback has destroyed. They end when the callback, and the pass that made it, have returned.
//!
//! A thread that may wait ends its own when its call into the library returns. What a progress thread runs into is ended by a thread that is
//! made for it, as the end of a worker may wait for that very progress thread. Where no thread can be made the next call ends it that
//! can, on any thread.

use super::events;
use super::gate::this_thread;
use super::library;
use super::lock_order::Mutex;
use super::worker::Worker;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The thread that may end a worker.
#[derive(PartialEq, Eq)]
enum By {
    /// The one on whose stack frames of the worker's may be left.
    Thread(usize),
    Anyone,
}

static DOOMED: Mutex<Vec<(By, Arc<Worker>)>> = Mutex::new(Vec::new());
/// How many there are: to see that there are none costs a load.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn leave_to(by: By, worker: Arc<Worker>) {
    let mut doomed = DOOMED.lock();
    doomed.push((by, worker));
    COUNT.store(doomed.len(), Ordering::Relaxed);
}

fn take(may_end: impl Fn(&By) -> bool) -> Option<Arc<Worker>> {
    let mut doomed = DOOMED.lock();
    let at = doomed.iter().position(|(by, _)| may_end(by))?;
    let (_, worker) = doomed.remove(at);
    COUNT.store(doomed.len(), Ordering::Relaxed);
    Some(worker)
}

/// A callback on this thread has destroyed the worker.
pub(crate) fn doom(worker: Arc<Worker>) {
    if worker.has_progress_thread() {
        return reap(worker);
    }
    leave_to(By::Thread(this_thread()), worker);
}

/// Could there be something for `end_doomed` to do?
#[inline]
pub fn may_have_doomed() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Ends what this thread may end. No call on a worker is under way on it, unless it is one that waits, outside of every gate, for what keeps the worker's memory.
#[inline]
pub fn end_doomed() {
    if may_have_doomed() {
        end_those_of_this_thread();
    }
}

#[cold]
fn end_those_of_this_thread() {
    if events::in_callback() {
        return;
    }
    let here = By::Thread(this_thread());
    while let Some(worker) = take(|by| *by == here || *by == By::Anyone) {
        worker.shut_down();
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
    let here = By::Thread(this_thread());
    while let Some(worker) = take(|by| *by == here) {
        reap(worker);
    }
}

/// Ends a worker on a thread that is made for it.
fn reap(worker: Arc<Worker>) {
    let name = std::thread::Builder::new().name("ucxx_reaper".to_owned());
    let its = worker.clone();
    let ending = move || {
        super::thread::guarded(|| {
            its.shut_down();
            // Its last callbacks may have destroyed others.
            end_doomed();
        });
    };
    if library::with_signals_blocked(|| name.spawn(ending)).is_err() {
        leave_to(By::Anyone, worker);
    }
}
