//! How a progress thread goes to sleep without missing what others hand to it.
//!
//! The thread says that it is about to sleep, then looks once more at everything that others may
//! have put there, and only then sleeps on a descriptor. Others put something there, and then ask
//! whether the thread sleeps: the one that finds it so, and takes the word back, wakes it by the
//! descriptor. Between the two halves on either side stands a full fence, so at least one of the
//! two sees the other.
#![deny(unsafe_code)]

use crate::engine::base::sync::{fence, AtomicU32, Ordering};

/// 1 while the thread sleeps or is about to, and nobody has woken it.
pub(crate) struct SleepFlag(AtomicU32);

impl SleepFlag {
    pub(crate) fn new() -> Self {
        SleepFlag(AtomicU32::new(0))
    }

    /// The thread: before its last look at what others may have put there.
    pub(crate) fn announce(&self) {
        self.0.store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// The thread: it does not sleep, or no longer.
    pub(crate) fn awake(&self) {
        self.0.store(0, Ordering::SeqCst);
    }

    /// Anyone else, after putting something there: true for the one that has to wake the thread.
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

    /// A channel of tokens stands for the descriptor, a list behind a lock for the queue.
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
                        // asleep come up.
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
