//! Stands in for the kernel's futex: what it promises is that looking at the word and falling
//! asleep are one step for those who wake.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

/// As the engine's.
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

    /// May return early, which it does when there is a limit.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let sleepers = self.sleepers.lock().unwrap();
        if self.value.load(Ordering::Relaxed) == expected && longest.is_none() {
            drop(self.woken.wait(sleepers).unwrap());
        }
    }

    /// No signals come here.
    pub(crate) fn sleep(&self, expected: u32, longest: Option<Duration>) -> Slept {
        self.wait(expected, longest);
        Slept::Woken
    }

    pub(crate) fn wake_all(&self) {
        drop(self.sleepers.lock().unwrap());
        self.woken.notify_all();
    }
}

/// The same: whose memory it is does not matter here. Who does not sleep lets others go on first.
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

/// Looking again and again only adds orders to try.
pub(crate) fn look_less_often(_ready: &dyn Fn() -> bool) -> bool {
    false
}

/// The same.
pub(crate) fn look_shortly(_ready: &dyn Fn() -> bool) -> bool {
    false
}

/// As above.
pub(crate) fn look_in_turns(_ready: &mut dyn FnMut() -> bool) -> bool {
    false
}
