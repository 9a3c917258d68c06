//! UCP workers that are destroyed later than ours.
//!
//! UCX registers memory once for a context. If a send is cut short, UCX invalidates the
//! registration of its memory, and completes the send only when the last transfer that uses the
//! registration has ended. That transfer may belong to another worker, and then UCX writes to the
//! memory of the send's worker. So if UCP has not completed everything when a worker ends, its UCP
//! worker and its slots are kept until the context has no live worker. No thread makes passes on it
//! any more, so it calls no callbacks and touches no buffers. The same holds if a peer may still
//! open its shared memory, to connect to it.
//!
//! A UCP worker that cannot be destroyed without a failing assertion in UCX is kept until the
//! process ends.

use crate::engine::base::lockdep::Mutex;
use std::any::Any;
use std::sync::Arc;

/// A worker of `core`, whose type this floor does not know.
pub(crate) type Late = Arc<dyn Any + Send + Sync>;

/// Workers that are kept until the process ends, with their contexts.
static LEFT: Mutex<Vec<Late>> = Mutex::new(Vec::new());

/// Keeps a worker until the process ends: destroying its UCP worker would end the process.
pub(crate) fn leave(worker: Late) {
    LEFT.lock().push(worker);
}

/// Counts the live workers of a context, and holds those that are kept. Each of these keeps the
/// context alive; the last live worker that ends releases them.
#[derive(Default)]
pub(crate) struct LateWorkers(Mutex<State>);

#[derive(Default)]
struct State {
    /// Workers whose UCP worker may still end a transfer.
    alive: usize,
    kept: Vec<Late>,
}

impl LateWorkers {
    /// Counts one more live worker.
    pub(crate) fn begin(&self) {
        self.0.lock().alive += 1;
    }

    /// Keeps the worker if others are alive, and returns whether it did. Called before `end`.
    pub(crate) fn keep(&self, worker: Late) -> bool {
        let mut state = self.0.lock();
        let others = state.alive > 1;
        if others {
            state.kept.push(worker);
        }
        others
    }

    /// A counted worker has ended, or is kept. Returns the workers that the caller has to destroy
    /// in UCP now.
    #[must_use]
    pub(crate) fn end(&self) -> Vec<Late> {
        let mut state = self.0.lock();
        state.alive -= 1;
        if state.alive == 0 {
            std::mem::take(&mut state.kept)
        } else {
            Vec::new()
        }
    }
}
