//! The caller's event loop on a worker: one thread, which arms the descriptor and sleeps on it, and
//! has to be woken by whatever another thread does in its place.
//!
//! What completes in a pass of that thread's own it sees by itself. What completes elsewhere, by a
//! pass of another thread's or inside a call like a cancel, leaves no event of UCX's behind. So the
//! worker notes it here, and writes to the descriptor if the loop may be asleep: once the gate is
//! free, as the loop comes in at once. A loop that is awake may have looked at its request a moment
//! too early: its next `arm` is refused, once, and it looks again.
#![deny(unsafe_code)]

use crate::engine::core::worker::gate::{this_thread, Gate};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use std::cell::Cell;

#[derive(Default)]
pub(crate) struct EventLoop {
    state: Cell<State>,
    /// The thread that has armed last.
    thread: Cell<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Nobody has ever armed the descriptor.
    #[default]
    Absent,
    Awake,
    /// It sleeps, or is about to.
    Armed,
    /// Something has completed elsewhere, and the descriptor is still to be written to.
    Owed,
    /// Something has completed elsewhere since it has armed last.
    Behind,
}

impl EventLoop {
    /// The calling thread is about to arm: true if something has completed elsewhere, for which it
    /// has to look first.
    pub(crate) fn is_behind(&self) -> bool {
        self.thread.set(this_thread());
        matches!(self.state.replace(State::Awake), State::Owed | State::Behind)
    }

    pub(crate) fn fall_asleep(&self) {
        self.state.set(State::Armed);
    }

    /// The calling thread begins a pass.
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

    /// The loop has to be woken, which the caller does.
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
    /// Something has completed, or UCX's events have been taken.
    #[inline(always)]
    pub(crate) fn tell_event_loop(&self) {
        if !self.event_loop.is_absent() {
            self.note_for_event_loop();
        }
    }

    #[inline(never)]
    fn note_for_event_loop(&self) {
        self.event_loop.note_completion();
        // The one thread of a worker does not stand in its own way, nor does it always leave by
        // `leave`.
        if !self.gate.is_shared() && self.event_loop.is_owed() {
            self.wake_event_loop();
        }
    }

    /// Leaves the gate.
    #[inline(always)]
    pub(super) fn leave(&self) {
        self.leave_by(Gate::leave);
    }

    /// The same, by one of the gate's ways.
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
    /// For whoever has found that it is owed. Not inside the gate.
    #[cold]
    fn wake_event_loop(&self) {
        if let Some(wakeup) = self.wakeup.get() {
            wakeup.tell();
        }
    }
}

#[cfg(all(test, not(loom)))]
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
