//! When what a data call of a window has stored is there for everybody: what a flush has left to
//! do.

use crate::engine::base::lasting::lasting;
use std::cell::Cell;
use std::sync::atomic::{fence, Ordering};

lasting! {
    /// Whether this thread has stored into the memory of a window, other than by an instruction
    /// that is a full barrier, since its last fence here.
    ///
    /// After a flush, what this process reads must not be older than its puts: of two that put,
    /// flush and get what the other has put, one sees it. A processor lets a later load pass an
    /// earlier plain store, x86 (TSO) this pair alone: loads stay in the order of loads, stores in
    /// that of stores, and nothing passes an instruction with a lock prefix. So nothing is left to
    /// do there after gets, and after accumulates that were such instructions; puts, REPLACE where
    /// nothing is fetched, and what is done under a lock or by the kernel, need the fence.
    ///
    /// A flush is also about operations of other threads, which its caller has to know of: it was
    /// told by something that the other thread has stored after its put. x86 makes stores seen in
    /// their order, and by all at once, so that the put is there for everybody when the flush
    /// begins. What may still be on its way is this thread's own, and the flag is this thread's:
    /// whichever window it has stored to, the fence is for all of it.
    ///
    /// The same holds for whoever this thread tells of its puts, by a store or a message, flush or
    /// not. (Stores around the cache, as the C library makes in very long copies, are not in that
    /// order; it ends such a copy with a fence of its own.)
    ///
    /// Only flush and flush_all look here: unlock, fence and complete are as they would be without.
    /// Nor is it about the caller's own loads and stores, for which there is ucxx_window_sync.
    ///
    /// Other processors promise less, and have a fence in each flush.
    static STORED: Cell<bool> = const { Cell::new(false) };
}

/// This thread stores into a window, or has just done so, by plain stores.
#[inline(always)]
pub(crate) fn stored() {
    if cfg!(target_arch = "x86_64") {
        STORED.with(|stored| stored.set(true));
    }
}

/// Loads from here on are after what this thread, and those it knows of, have done at windows.
#[inline(always)]
pub(crate) fn complete() {
    if !cfg!(target_arch = "x86_64") || STORED.with(|stored| stored.replace(false)) {
        fence(Ordering::SeqCst);
    } else {
        // For the compiler.
        fence(Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicUsize};

    /// Two threads store, complete, and load what the other has stored. Without the fence both find
    /// nothing, now and then.
    #[test]
    fn of_two_that_store_one_sees_the_other() {
        const ROUNDS: usize = 200_000;
        let words: [[AtomicU32; 2]; 2] = Default::default();
        let arrived = AtomicUsize::new(0);
        let run = |own: usize| {
            let mut seen = Vec::with_capacity(ROUNDS);
            for round in 1..=ROUNDS as u32 {
                arrived.fetch_add(1, Ordering::AcqRel);
                let mut looks = 0;
                while arrived.load(Ordering::Acquire) < 2 * round as usize {
                    looks += 1;
                    if looks % 256 == 0 {
                        std::thread::yield_now();
                    }
                }
                // Two pairs in turn: a thread may be one round ahead.
                let pair = &words[round as usize % 2];
                pair[own].store(round, Ordering::Relaxed);
                stored();
                complete();
                seen.push(pair[1 - own].load(Ordering::Relaxed) == round);
            }
            seen
        };
        let (one, other) = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(1));
            (run(0), other.join().unwrap())
        });
        assert_eq!(one.iter().zip(&other).position(|(one, other)| !one && !other), None);
    }

    #[test]
    fn one_fence_is_for_all_that_was_stored() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stored();
                stored();
                assert_eq!(STORED.with(Cell::get), cfg!(target_arch = "x86_64"));
                complete();
                assert!(!STORED.with(Cell::get));
            });
        });
    }
}
