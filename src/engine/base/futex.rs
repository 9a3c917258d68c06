//! Sleeping on a word of memory (futex), and polling before sleeping.

use crate::engine::base::sync::linger;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Polls of a waiting thread before it sleeps: a microsecond or a few.
const LOOKS: u32 = 64;

/// Polls of `look_less_often`. The pause before each is twice as long as the one before.
const DOUBLINGS: u32 = 8;

const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How a sleep ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Slept {
    /// Woken by another thread, or the word had another value.
    Woken,
    /// A signal handler has run on this thread.
    Interrupted,
    /// The time ran out.
    Long,
}

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

    /// Sleeps while the word has the value `expected`, for at most `longest`. May return early.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let _ = wait(&self.0, libc::FUTEX_PRIVATE_FLAG, expected, longest);
    }

    /// Like `wait`, and also returns when a signal handler has run on this thread, whatever flags
    /// the handler was installed with.
    pub(crate) fn sleep(&self, expected: u32, longest: Option<Duration>) -> Slept {
        // With SA_RESTART the kernel restarts a sleep without a timeout, so there is always one.
        let result = wait(&self.0, libc::FUTEX_PRIVATE_FLAG, expected, longest.or(Some(A_YEAR)));
        match result.err().and_then(|error| error.raw_os_error()) {
            Some(libc::EINTR) => Slept::Interrupted,
            Some(libc::ETIMEDOUT) if longest.is_some() => Slept::Long,
            _ => Slept::Woken,
        }
    }

    /// Wakes all threads that sleep on the word. The kernel uses only the address and does not read
    /// the word.
    pub(crate) fn wake_all(&self) {
        wake_all(&self.0, libc::FUTEX_PRIVATE_FLAG);
    }
}

/// The same for memory that processes share: the kernel identifies the word by its page, wherever
/// it is mapped.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct SharedWord(AtomicU32);

impl std::ops::Deref for SharedWord {
    type Target = AtomicU32;
    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

impl SharedWord {
    /// See `Word::wait`.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let _ = wait(&self.0, 0, expected, longest);
    }

    /// See `Word::wake_all`.
    pub(crate) fn wake_all(&self) {
        wake_all(&self.0, 0);
    }
}

fn wait(word: &AtomicU32, flags: i32, expected: u32, longest: Option<Duration>) -> io::Result<()> {
    let timeout = longest.map(|longest| libc::timespec {
        tv_sec: longest.as_secs().min(i64::MAX as u64 / 4) as _,
        tv_nsec: longest.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is borrowed, and the timeout is null or outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | flags, expected, timeout)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn wake_all(word: &AtomicU32, flags: i32) {
    // SAFETY: the word is borrowed; FUTEX_WAKE uses only its address.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flags, i32::MAX) };
}

/// How long a thread that waits for another process yields before it sleeps: less than a sleep and
/// a wake-up cost both of them.
const YIELDING: Duration = Duration::from_micros(50);

/// Polls for up to `YIELDING`, and yields in between.
pub(crate) fn look_in_turns(ready: &mut dyn FnMut() -> bool) -> bool {
    let start = Instant::now();
    loop {
        for _ in 0..LOOKS {
            if ready() {
                return true;
            }
            spin_loop();
        }
        if start.elapsed() > YIELDING {
            return false;
        }
        std::thread::yield_now();
    }
}

/// Polls a few times; once if the machine has one core, where nobody could change the condition
/// meanwhile.
pub(crate) fn look_shortly(ready: &dyn Fn() -> bool) -> bool {
    for _ in 0..if is_alone() { 1 } else { LOOKS } {
        if ready() {
            return true;
        }
        spin_loop();
    }
    false
}

/// Polls with growing pauses, for some 5 us in all, so that the cache line stays with the thread
/// that changes it. With a longer total, three busy threads on two cores are slower than if they
/// slept at once.
pub(crate) fn look_less_often(ready: &dyn Fn() -> bool) -> bool {
    if !is_alone() {
        for doubled in 0..DOUBLINGS {
            if ready() {
                return true;
            }
            linger(1 << doubled);
        }
    }
    ready()
}

/// The machine has one core. The calling thread's own affinity does not count: other threads may
/// run elsewhere.
fn is_alone() -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    // SAFETY: sysconf takes a number and has no precondition.
    *ALONE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } == 1)
}
