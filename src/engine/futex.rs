//! Sleeping on a word of memory.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;
use std::time::Duration;

/// Looks that a waiting thread takes before it sleeps: a microsecond or a few.
const LOOKS: u32 = 64;

/// An atomic word on which threads can sleep.
#[repr(transparent)]
pub(crate) struct Word(AtomicU32);

impl std::ops::Deref for Word {
    type Target = AtomicU32;
    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

impl Word {
    pub(crate) const fn new(value: u32) -> Self {
        Word(AtomicU32::new(value))
    }

    /// Sleeps while the word has this value; at most this long. May return early.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let timeout = longest.map(|longest| libc::timespec {
            tv_sec: longest.as_secs().min(i64::MAX as u64 / 4) as libc::time_t,
            tv_nsec: longest.subsec_nanos().into(),
        });
        let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a live word, and a timeout that is null or outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, expected, timeout) };
    }

    /// Wakes whoever sleeps on the word. The address is all that counts: the kernel does not read it.
    pub(crate) fn wake_all(&self) {
        // SAFETY: a live word.
        unsafe {
            libc::syscall(libc::SYS_futex, self.0.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX)
        };
    }
}

/// Looks a few times, where another thread can make it true meanwhile.
pub(crate) fn look_shortly(ready: &dyn Fn() -> bool) -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    let alone = *ALONE.get_or_init(|| std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));
    for _ in 0..if alone { 1 } else { LOOKS } {
        if ready() {
            return true;
        }
        spin_loop();
    }
    false
}
