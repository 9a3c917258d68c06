//! The protocol table of windows: requests of windows that wait on a worker.

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::core::request::operations::Operation;
use crate::engine::core::request::request::Kind;
use crate::engine::core::worker::inward::Gated;
use crate::engine::core::worker::protocol::{OfWorker, Protocol, Turn};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::window::lock_request::LockWait;
use crate::engine::window::pending_requests::WindowEnds;
use crate::engine::window::window::Window;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// Locks and other requests that wait on a worker.
pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 5,
    operations: &[
        Operation { cancel: Worker::cancel_lock, ..Operation::of(Kind::WindowLock) },
        Operation { cancel: Worker::cancel_window_request, ..Operation::of(Kind::Window) },
    ],
    of_worker: || Box::new(Waiting::default()),
    turn: Turn::Middle,
    pass: |worker| worker.look_for_window_ends() + worker.look_for_locks(clock::now_ns()),
    is_due: |worker| worker.window_ends().is_due(),
    next_look: Worker::next_look_for_locks,
    describe_objects: SharedWorker::describe_windows,
    at_end: |worker, step| {
        if step == OfWorker::Cancels {
            worker.cancel_locks(|_| true);
            worker.cancel_window_requests();
        }
    },
    ..Protocol::NOTHING
};

#[derive(Default)]
struct Waiting {
    locks: Gated<RefCell<Vec<LockWait>>>,
    requests: WindowEnds,
    /// Windows whose group is on the worker.
    windows: Mutex<Vec<Weak<Window>>>,
}

impl Worker {
    pub(crate) fn lock_waits(&self) -> &RefCell<Vec<LockWait>> {
        self.state::<Waiting>(&PROTOCOL).locks.get(self)
    }
}

impl SharedWorker {
    fn known_windows(&self) -> &Mutex<Vec<Weak<Window>>> {
        &self.state_for_all::<Waiting>(&PROTOCOL).windows
    }

    /// Registers a new window, for descriptions of the worker.
    pub(crate) fn add_window(&self, window: &Arc<Window>) {
        let mut windows = self.known_windows().lock();
        windows.retain(|window| window.strong_count() > 0);
        windows.push(Arc::downgrade(window));
    }

    fn describe_windows(&self, lines: &mut Vec<String>) {
        let windows: Vec<_> =
            self.known_windows().lock().iter().filter_map(Weak::upgrade).collect();
        windows.iter().for_each(|window| lines.extend(window.lines(None)));
    }

    pub(crate) fn window_ends(&self) -> &WindowEnds {
        &self.state_for_all::<Waiting>(&PROTOCOL).requests
    }
}
