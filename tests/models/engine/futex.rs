//! Replaces the kernel's futex. It guarantees that checking the word and falling asleep are one
//! step for a thread that wakes.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

/// As in the engine.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Slept {
    Woken,
    Interrupted,
    Long,
}

pub(crate) struct Word {
    value: AtomicU32,
    sleepers: Mutex<()>,
    woken: Condvar,
}

impl std::ops::Deref for Word {
    type Target = AtomicU32;
    fn deref(&self) -> &AtomicU32 {
        &self.value
    }
}

impl Word {
    pub(crate) fn new(value: u32) -> Self {
        Word { value: AtomicU32::new(value), sleepers: Mutex::new(()), woken: Condvar::new() }
    }

    /// May return early; it does so if there is a limit.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let sleepers = self.sleepers.lock().unwrap();
        if self.value.load(Ordering::Relaxed) == expected && longest.is_none() {
            drop(self.woken.wait(sleepers).unwrap());
        }
    }

    /// There are no signals here.
    pub(crate) fn sleep(&self, expected: u32, longest: Option<Duration>) -> Slept {
        self.wait(expected, longest);
        Slept::Woken
    }

    pub(crate) fn wake_all(&self) {
        drop(self.sleepers.lock().unwrap());
        self.woken.notify_all();
    }
}

/// The same: the owner of the memory does not matter here. A thread that does not sleep yields to
/// the others.
pub(crate) struct SharedWord(Word);

impl Default for SharedWord {
    fn default() -> Self {
        SharedWord(Word::new(0))
    }
}

impl std::ops::Deref for SharedWord {
    type Target = AtomicU32;
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

impl SharedWord {
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        if longest.is_some() {
            loom::thread::yield_now();
        }
        self.0.wait(expected, longest);
    }

    pub(crate) fn wake_all(&self) {
        self.0.wake_all();
    }
}

/// Polling again and again would only add orders to try.
pub(crate) fn look_less_often(_ready: &dyn Fn() -> bool) -> bool {
    false
}

pub(crate) fn look_shortly(_ready: &dyn Fn() -> bool) -> bool {
    false
}

pub(crate) fn look_in_turns(_ready: &mut dyn FnMut() -> bool) -> bool {
    false
}
