//! Stands in for the kernel's futex: what it promises is that looking at the word and falling asleep are one step for those who
//! wake.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

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

    pub(crate) fn wake_all(&self) {
        drop(self.sleepers.lock().unwrap());
        self.woken.notify_all();
    }
}

/// Looking again and again only adds orders to try.
pub(crate) fn look_shortly(_ready: &dyn Fn() -> bool) -> bool {
    false
}
