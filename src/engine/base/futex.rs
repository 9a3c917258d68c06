//! Sleeping on a word of memory.

use crate::engine::base::sync::linger;
use std::hint::spin_loop;
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Looks that a waiting thread takes before it sleeps: a microsecond or a few.
const LOOKS: u32 = 64;

/// Looks of who looks less and less often, with one pause after the first.
const DOUBLINGS: u32 = 8;

const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// How a sleep ended.
#[derive(PartialEq, Eq, Clone, Copy, Debug)]
pub(crate) enum Slept {
    /// By others, or the word had another value.
    Woken,
    /// A signal handler has run on this thread.
    Interrupted,
    /// The time has run out.
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

    /// Sleeps while the word has this value; at most this long. May return early.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let _ = wait(&self.0, libc::FUTEX_PRIVATE_FLAG, expected, longest);
    }

    /// The same; a signal handler that runs on this thread meanwhile ends it, whatever flags the
    /// handler was installed with.
    pub(crate) fn sleep(&self, expected: u32, longest: Option<Duration>) -> Slept {
        // The kernel goes on with a sleep that has no end of its own, if the handler's flags ask
        // for that.
        let result = wait(&self.0, libc::FUTEX_PRIVATE_FLAG, expected, longest.or(Some(A_YEAR)));
        match result.err().and_then(|error| error.raw_os_error()) {
            Some(libc::EINTR) => Slept::Interrupted,
            Some(libc::ETIMEDOUT) if longest.is_some() => Slept::Long,
            _ => Slept::Woken,
        }
    }

    /// Wakes whoever sleeps on the word. The address is all that counts: the kernel does not read
    /// it.
    pub(crate) fn wake_all(&self) {
        wake_all(&self.0, libc::FUTEX_PRIVATE_FLAG);
    }
}

/// The same in memory that processes share: the kernel goes by the page, wherever it is mapped.
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
    /// As that of `Word`.
    pub(crate) fn wait(&self, expected: u32, longest: Option<Duration>) {
        let _ = wait(&self.0, 0, expected, longest);
    }

    /// As that of `Word`.
    pub(crate) fn wake_all(&self) {
        wake_all(&self.0, 0);
    }
}

fn wait(word: &AtomicU32, flags: i32, expected: u32, longest: Option<Duration>) -> io::Result<()> {
    let timeout = longest.map(|longest| libc::timespec {
        tv_sec: longest.as_secs().min(i64::MAX as u64 / 4) as libc::time_t,
        tv_nsec: longest.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a live word, and a timeout that is null or outlives the call.
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
    // SAFETY: a live word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | flags, i32::MAX) };
}

/// How long a thread that waits for another process lets others run before it sleeps: less than a
/// sleep and a wake cost both of them.
const YIELDING: Duration = Duration::from_micros(50);

/// Looks for a while, and lets others run in between.
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

/// Looks a few times, where another thread can make it true meanwhile.
pub(crate) fn look_shortly(ready: &dyn Fn() -> bool) -> bool {
    for _ in 0..if is_alone() { 1 } else { LOOKS } {
        if ready() {
            return true;
        }
        spin_loop();
    }
    false
}

/// Looks less and less often: what it looks at stays with the thread that changes it, which may
/// have changed a good deal meanwhile. For some 5 us in all; with more, three busy threads on two
/// cores do worse than by sleeping at once.
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

/// There is no other core on which a thread could make anything true meanwhile. To which ones this
/// thread is bound says nothing of the others.
fn is_alone() -> bool {
    static ALONE: OnceLock<bool> = OnceLock::new();
    // SAFETY: no precondition.
    *ALONE.get_or_init(|| unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } == 1)
}
