//! The caller's event loop on a worker: one thread that arms the descriptor and sleeps on it. It
//! must be woken for what other threads complete.
//!
//! The loop sees what its own passes complete. If another thread's pass, or a call such as cancel,
//! completes something, UCX leaves no event. So the worker records it here. If the loop may be
//! asleep, it also writes to the descriptor, after it has left the gate, because the loop then
//! enters at once. A loop that is awake may have checked its request a moment too early: its next
//! `arm` is refused once, and it checks again.
#![deny(unsafe_code)]

use crate::engine::core::worker::gate::{this_thread, Gate};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use std::cell::Cell;

#[derive(Default)]
pub(crate) struct EventLoop {
    state: Cell<State>,
    /// The thread that armed last.
    thread: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// No thread has ever armed the descriptor.
    #[default]
    Absent,
    Awake,
    /// The loop sleeps, or is about to.
    Armed,
    /// Something was completed by another thread, and the descriptor must still be written to.
    Owed,
    /// Something was completed by another thread since the loop last armed.
    Behind,
}

impl EventLoop {
    /// The calling thread is about to arm. True if another thread has completed something, so that
    /// the loop must check first.
    pub(crate) fn is_behind(&self) -> bool {
        self.thread.set(this_thread());
        matches!(self.state.replace(State::Awake), State::Owed | State::Behind)
    }

    pub(crate) fn fall_asleep(&self) {
        self.state.set(State::Armed);
    }

    /// The calling thread starts a pass.
    pub(crate) fn pass_begins(&self) {
        if self.state.get() == State::Armed && self.thread.get() == this_thread() {
            self.state.set(State::Awake);
        }
    }

    #[inline(always)]
    fn is_absent(&self) -> bool {
        self.state.get() == State::Absent
    }

    fn note_completion(&self) {
        self.state.set(match self.state.get() {
            State::Armed => State::Owed,
            State::Awake if self.thread.get() != this_thread() => State::Behind,
            other => other,
        });
    }

    /// The loop must be woken, and the caller will do it.
    #[inline(always)]
    pub(crate) fn is_owed(&self) -> bool {
        let owed = self.state.get() == State::Owed;
        if owed {
            self.state.set(State::Behind);
        }
        owed
    }
}

impl Worker {
    /// Something was completed, or UCX's events were consumed.
    #[inline(always)]
    pub(crate) fn tell_event_loop(&self) {
        if !self.event_loop.is_absent() {
            self.note_for_event_loop();
        }
    }

    #[inline(never)]
    fn note_for_event_loop(&self) {
        self.event_loop.note_completion();
        // The only thread of a SINGLE worker cannot block on its own gate, and does not always
        // leave through `leave`.
        if !self.gate.is_shared() && self.event_loop.is_owed() {
            self.wake_event_loop();
        }
    }

    /// Leaves the gate.
    #[inline(always)]
    pub(super) fn leave(&self) {
        self.leave_by(Gate::leave);
    }

    /// The same, with one of the gate's ways to leave.
    #[inline(always)]
    pub(super) fn leave_by(&self, leave: impl FnOnce(&Gate)) {
        let owed = self.event_loop.is_owed();
        leave(&self.gate);
        if owed {
            self.wake_event_loop();
        }
    }
}

impl SharedWorker {
    /// Writes to the descriptor, outside the gate. For a caller that found `is_owed`.
    #[cold]
    fn wake_event_loop(&self) {
        if let Some(wakeup) = self.wakeup.get() {
            wakeup.tell();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn armed() -> EventLoop {
        let event_loop = EventLoop::default();
        assert!(!event_loop.is_behind());
        event_loop.fall_asleep();
        event_loop
    }

    #[test]
    fn is_woken_once_by_what_completes_outside_its_passes() {
        let event_loop = armed();
        assert!(!event_loop.is_owed());
        event_loop.note_completion();
        assert!(event_loop.is_owed());
        event_loop.note_completion();
        assert!(!event_loop.is_owed());
        event_loop.pass_begins();
        assert!(event_loop.is_behind());
        assert!(!event_loop.is_behind());
    }

    #[test]
    fn sees_its_own_passes_by_itself() {
        let event_loop = armed();
        event_loop.pass_begins();
        event_loop.note_completion();
        assert!(!event_loop.is_owed());
        assert!(!event_loop.is_behind());
    }

    #[test]
    fn another_thread_s_pass_is_not_its_own() {
        let event_loop = armed();
        event_loop.thread.set(event_loop.thread.get() + 1);
        event_loop.pass_begins();
        event_loop.note_completion();
        assert!(event_loop.is_owed());
        event_loop.state.set(State::Awake);
        event_loop.note_completion();
        assert!(!event_loop.is_owed());
        assert!(event_loop.is_behind());
    }
}
