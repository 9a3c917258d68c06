//! How a progress thread goes to sleep without missing work from other threads.
//!
//! The thread announces that it is about to sleep, checks everything once more, and then sleeps on
//! a descriptor. Another thread first queues its work, and then checks the flag: the one that takes
//! the flag back wakes the thread through the descriptor. Both sides have a full fence between
//! their two steps, so at least one of them sees the other.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicU32, Ordering};

/// 1 while the thread sleeps or is about to, and was not woken.
pub(crate) struct SleepFlag(AtomicU32);

impl SleepFlag {
    pub(crate) fn new() -> Self {
        SleepFlag(AtomicU32::new(0))
    }

    /// The sleeping thread: before its last check for work.
    pub(crate) fn announce(&self) {
        self.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The sleeping thread: it does not sleep, or no longer.
    pub(crate) fn awake(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Other threads, after queueing work: true for the one that must wake the thread.
    #[inline]
    pub(crate) fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == 1
            && self.0.compare_exchange(1, 0, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::{channel, RecvTimeoutError};
    use std::sync::Mutex;
    use std::time::Duration;

    /// A channel of tokens replaces the descriptor, and a list behind a lock the queue.
    #[test]
    fn whatever_is_put_there_is_found() {
        const EACH: u64 = 200_000;
        const PRODUCERS: u64 = 3;
        let flag = SleepFlag::new();
        let queue = Mutex::new(Vec::new());
        let (kick, kicked) = channel::<()>();
        std::thread::scope(|scope| {
            for producer in 0..PRODUCERS {
                let (flag, queue, kick) = (&flag, &queue, kick.clone());
                scope.spawn(move || {
                    for number in 0..EACH {
                        queue.lock().unwrap().push(number);
                        if flag.must_wake() {
                            kick.send(()).unwrap();
                        }
                        // Irregular pauses, so that all interleavings of submitting and falling
                        // asleep occur.
                        let pause =
                            (number ^ (producer << 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
                        (0..pause).for_each(|_| std::hint::spin_loop());
                    }
                });
            }
            let (mut taken, mut sleeps) = (0, 0);
            while taken < EACH * PRODUCERS {
                taken += queue.lock().unwrap().drain(..).count() as u64;
                flag.announce();
                if !queue.lock().unwrap().is_empty() || taken == EACH * PRODUCERS {
                    flag.awake();
                    continue;
                }
                sleeps += 1;
                match kicked.recv_timeout(Duration::from_secs(60)) {
                    Ok(()) => flag.awake(),
                    Err(RecvTimeoutError::Timeout) => panic!("a wakeup was lost after {taken}"),
                    Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender"),
                }
            }
            assert!(sleeps > 0);
        });
    }
}
