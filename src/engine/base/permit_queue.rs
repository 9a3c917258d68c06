//! A bounded queue whose places are given out before they are filled.
//!
//! A thread takes a place, may then do what must happen only if there is room, and pushes. Pushing
//! cannot fail: the places that are out are never more than the queue holds. Their number says that
//! the queue is full, and, once the threads that take places look at something that has been closed
//! meanwhile, that nobody is on the way in.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::sync::{ArrayQueue, AtomicUsize, Ordering, SpinWait};

/// Entries after which the places of those that are done are given out again.
const BATCH: usize = 32;

/// See the top of this file.
#[repr(C)]
pub(crate) struct PermitQueue<T> {
    entries: ArrayQueue<T>,
    depth: usize,
    // Written by whoever comes and whoever goes.
    _taken: CacheLine,
    taken: AtomicUsize,
    _end: CacheLine,
}

impl<T> PermitQueue<T> {
    pub(crate) fn new(depth: usize) -> Self {
        PermitQueue {
            entries: ArrayQueue::new(depth),
            depth,
            _taken: CacheLine,
            taken: AtomicUsize::new(0),
            _end: CacheLine,
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A place was left a moment ago.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.depth
    }

    /// Takes a place, for one `push` or `give_back`. False when none is left.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        let free = self.taken.fetch_add(1, Ordering::SeqCst) < self.depth;
        if !free {
            self.give_back(1);
        }
        free
    }

    /// Gives places back: those of entries that have been dealt with, or one that was taken and not
    /// filled.
    #[inline]
    pub(crate) fn give_back(&self, places: usize) {
        self.taken.fetch_sub(places, Ordering::SeqCst);
    }

    /// Fills a place that was taken.
    #[inline]
    pub(crate) fn push(&self, mut entry: T) {
        let wait = SpinWait::default();
        while let Err(back) = self.entries.push(entry) {
            // There is room. A consumer that has been interrupted may still hold it.
            entry = back;
            wait.wait();
        }
    }

    /// Hands over what is there, oldest first, and what comes meanwhile: not more than there are
    /// places. How many there were.
    #[inline]
    pub(crate) fn drain(&self, mut deal_with: impl FnMut(T)) -> usize {
        let (mut count, mut returned) = (0, 0);
        // Bounded: what keeps coming must not keep the caller.
        while count < self.depth {
            let Some(entry) = self.entries.pop() else { break };
            deal_with(entry);
            count += 1;
            if count - returned == BATCH {
                self.give_back(BATCH);
                returned = count;
            }
        }
        if count > returned {
            self.give_back(count - returned);
        }
        count
    }

    /// Nobody is on the way in, and nothing is in it. For one who has first closed what those who
    /// take places look at: who takes one after this was true finds it closed.
    pub(crate) fn is_settled(&self) -> bool {
        // Not a load: whoever takes a place afterwards reads what is written here, and with it what
        // came before.
        self.taken.fetch_add(0, Ordering::SeqCst) == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_exactly() {
        let places = PermitQueue::new(2);
        assert!(places.is_settled());
        assert!(places.take() && places.take());
        for _ in 0..3 {
            assert!(!places.take());
        }
        assert!(!places.is_settled());
        places.give_back(1);
        assert!(places.take());
        assert!(!places.take());
        places.push(1);
        places.push(2);
        let mut seen = Vec::new();
        assert_eq!(places.drain(|entry| seen.push(entry)), 2);
        assert_eq!(seen, [1, 2]);
        assert!(places.is_settled() && places.is_empty());
    }
}
