//! UCP's workers that have to outlast ours.
//!
//! UCX registers memory once for a context. A send that is cut short makes the registration of its
//! memory void, and is handed back when the last transfer that uses it has ended, which may be
//! another worker's: UCX then writes into the worker that the send belonged to. One that ends while
//! UCP has not given everything back is therefore kept, with the slots that UCP knows, until no
//! worker of its context is left. It is not progressed any more, so nobody is called back, and no
//! buffer is touched.
//!
//! One that cannot end at all without an assertion of UCX's is left to the end of the process.

use crate::engine::base::lockdep::Mutex;
use std::any::Any;
use std::sync::Arc;

/// A worker of ours, which this floor does not know.
pub(crate) type Late = Arc<dyn Any + Send + Sync>;

/// Those that are left to the end of the process, with their contexts.
static LEFT: Mutex<Vec<Late>> = Mutex::new(Vec::new());

/// Of one whose half in UCX cannot end: UCX would end the process.
pub(crate) fn leave(worker: Late) {
    LEFT.lock().push(worker);
}

/// Counts the workers of a context. Each that is kept keeps the context: the last one that ends
/// lets all go.
#[derive(Default)]
pub(crate) struct LateWorkers(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whose UCP worker may still end a transfer.
    alive: usize,
    kept: Vec<Late>,
}

impl LateWorkers {
    /// One more.
    pub(crate) fn begin(&self) {
        self.0.lock().alive += 1;
    }

    /// Keeps what is UCP's of it, if others are there. Called before `end`.
    pub(crate) fn keep(&self, worker: Late) -> bool {
        let mut state = self.0.lock();
        let others = state.alive > 1;
        if others {
            state.kept.push(worker);
        }
        others
    }

    /// One that was counted has ended, in UCP or by being kept: those that the caller has to end in
    /// UCP now.
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
