//! A bounded queue with reservation: a thread reserves a place before it fills it.
//!
//! A thread takes a place, may then do what must happen only if there is room, and pushes. Pushing
//! cannot fail, as `taken` never exceeds the capacity. `taken` counts places that are reserved or
//! filled: at `depth` the queue is full; at 0 no thread is between `take` and `push`. Any thread
//! may take and push. One thread at a time drains.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::sync::{ArrayQueue, AtomicUsize, Ordering, SpinWait};

/// `drain` returns the places of handled entries after this many.
const BATCH: usize = 32;

/// See the head of this file.
#[repr(C)]
pub(crate) struct PermitQueue<T> {
    entries: ArrayQueue<T>,
    depth: usize,
    // Producers and the consumer write it: a cache line of its own.
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

    /// There was a free place a moment ago.
    pub(crate) fn has_room(&self) -> bool {
        self.taken.load(Ordering::Relaxed) < self.depth
    }

    /// Reserves a place, for one `push` or `give_back`. False if none is free.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        let free = self.taken.fetch_add(1, Ordering::SeqCst) < self.depth;
        if !free {
            self.give_back(1);
        }
        free
    }

    /// Frees places: those of handled entries, or one that was reserved and not filled.
    #[inline]
    pub(crate) fn give_back(&self, places: usize) {
        self.taken.fetch_sub(places, Ordering::SeqCst);
    }

    /// Fills a reserved place.
    #[inline]
    pub(crate) fn push(&self, mut entry: T) {
        let wait = SpinWait::default();
        while let Err(back) = self.entries.push(entry) {
            // There is room. A preempted consumer may still be reading its slot.
            entry = back;
            wait.wait();
        }
    }

    /// Calls `deal_with` for the entries, oldest first, at most `depth` of them, those that arrive
    /// meanwhile included. Returns their number.
    #[inline]
    pub(crate) fn drain(&self, mut deal_with: impl FnMut(T)) -> usize {
        let (mut count, mut returned) = (0, 0);
        // Bounded, so that steady traffic cannot keep the caller here.
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

    /// No place is reserved or filled. For a caller that has first closed the flag that producers
    /// check after `take`: a producer that takes a place after this returned true sees it closed.
    pub(crate) fn is_settled(&self) -> bool {
        // A read-modify-write, not a load: a thread that takes a place later reads the value
        // written here, and so sees what the caller wrote before.
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
