//! Sleeping on a word of memory, and the event count that is built on it.

use super::timer;
use std::hint::spin_loop;
use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Looks that a waiting thread takes before it sleeps: a microsecond or a few.
const LOOKS: u32 = 64;

/// Sleeps while the word has this value; at most this long. May return early.
pub(crate) fn wait(word: &AtomicU32, expected: u32, longest: Option<Duration>) {
    let timeout = longest.map(|longest| libc::timespec {
        tv_sec: longest.as_secs().min(i64::MAX as u64 / 4) as libc::time_t,
        tv_nsec: longest.subsec_nanos().into(),
    });
    let timeout = timeout.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: a live word, and a timeout that is null or outlives the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, timeout)
    };
}

/// Wakes whoever sleeps on the word. The address is all that counts: the kernel does not read it.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: a live word.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
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

/// Threads that wait for a condition which some other thread makes true: it does so, and then calls `notify`.
///
/// A waiter counts itself in `waiting`, notes the epoch, and looks once more before it sleeps on the epoch; whoever notifies
/// has a full fence between making the condition true and looking at `waiting`. So either the waiter sees the condition,
/// or the notifier sees the waiter and moves the epoch, on which the waiter then does not sleep.
pub(crate) struct EventCount {
    epoch: AtomicU32,
    waiting: AtomicU32,
}

impl EventCount {
    pub(crate) const fn new() -> Self {
        EventCount { epoch: AtomicU32::new(0), waiting: AtomicU32::new(0) }
    }

    /// To be called after something has become true.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            wake_all(&self.epoch);
        }
    }

    /// Waits until `ready` is true; false when `deadline` came first.
    pub(crate) fn wait_until(&self, ready: &dyn Fn() -> bool, deadline: u64) -> bool {
        if deadline == 0 || look_shortly(ready) {
            return ready();
        }
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let epoch = self.epoch.load(Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let left = timer::remaining(deadline);
            let over = ready() || left == Some(Duration::ZERO);
            if !over {
                wait(&self.epoch, epoch, left);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            if over || ready() {
                return ready();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_waiter_is_woken_and_a_deadline_ends_waiting() {
        let (room, ready) = (EventCount::new(), AtomicBool::new(false));
        assert!(!room.wait_until(&|| ready.load(Ordering::Acquire), timer::deadline_after(1000)));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| room.wait_until(&|| ready.load(Ordering::Acquire), u64::MAX));
            ready.store(true, Ordering::Release);
            room.notify();
            assert!(waiter.join().unwrap());
        });
    }

    #[test]
    fn no_notification_is_lost() {
        const TURNS: u32 = 20_000;
        let (room, turn) = (EventCount::new(), AtomicU32::new(0));
        let player = |parity: u32| {
            let mut next = parity;
            while next < TURNS {
                assert!(room.wait_until(&|| turn.load(Ordering::Acquire) == next, u64::MAX));
                turn.store(next + 1, Ordering::Release);
                room.notify();
                next += 2;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| player(0));
            scope.spawn(|| player(1));
        });
        assert_eq!(turn.load(Ordering::Acquire), TURNS);
    }
}
