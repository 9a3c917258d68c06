//! When a data operation's stores are visible to all processes: what a flush still has to do.

use crate::engine::base::lasting::lasting;
use std::cell::Cell;
use std::sync::atomic::{fence, Ordering};

lasting! {
    /// Whether this thread has stored to a window's memory since its last fence here, other than by
    /// an instruction that is a full barrier.
    ///
    /// **Why a fence.** After a flush, loads of this process must not be older than its puts. If
    /// two processes put, flush and get what the other one has put, at least one has to see it.
    /// CPUs let a later load pass an earlier plain store. On x86 (TSO) this is the only such
    /// reordering: loads stay in order, stores stay in order, and nothing passes an instruction
    /// with a lock prefix. So no fence is needed there after gets, and after accumulates by such
    /// instructions. It is needed after puts, after REPLACE without a result, and after operations
    /// under a lock or by the kernel.
    ///
    /// **Other threads.** A flush also covers operations of other threads that its caller knows of.
    /// The caller knows because the other thread stored something after its put. On x86, stores
    /// become visible in order, and to all CPUs at once. So that put is visible to all when the
    /// flush begins. Only this thread's own stores may still be in its store buffer, so the flag is
    /// thread-local. One fence covers all windows.
    ///
    /// The same holds for a thread or process that this one notifies of its puts, by a store or a
    /// message, with or without a flush. (Non-temporal stores, which the C library uses for very
    /// long copies, are not in this order, but it ends such a copy with a fence.)
    ///
    /// Only flush and flush_all use this flag. Unlock, fence and complete always order. The
    /// caller's own loads and stores need ucxx_window_sync.
    ///
    /// Other architectures guarantee less, and get a fence in each flush.
    static STORED: Cell<bool> = const { Cell::new(false) };
}

/// This thread stores to a window, or has just done so, by plain stores.
#[inline(always)]
pub(crate) fn stored() {
    if cfg!(target_arch = "x86_64") {
        STORED.with(|stored| stored.set(true));
    }
}

/// Later loads come after all window operations of this thread, and of threads that it knows of.
#[inline(always)]
pub(crate) fn complete() {
    if !cfg!(target_arch = "x86_64") || STORED.with(|stored| stored.replace(false)) {
        fence(Ordering::SeqCst);
    } else {
        // Only orders the compiler.
        fence(Ordering::Acquire);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, AtomicUsize};

    /// Two threads store, complete, and load what the other has stored. Without the fence both
    /// sometimes miss it.
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
                // Alternates two pairs, as a thread may be one round ahead.
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
