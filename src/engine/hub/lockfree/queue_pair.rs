//! The two queues of a hub in lock-free mode: free envelopes, and ready chunks. They can be closed
//! for good, and then return their content.
//!
//! **Ownership.** A queue is a ring of places (D. Vyukov's bounded queue). Positions count up
//! without limit, and each belongs to one place at a time. A thread that increments `head` or
//! `tail` owns that position, and its item, until it changes the place's `turn`. The value of
//! `turn` says whom the place waits for:
//!
//! - `position`: the thread that pushes there
//! - `position + 1`: the thread that pops there
//! - `position + capacity`: the thread that pushes there in the next round
//!
//! **Publication.** `turn` is stored with Release and loaded with Acquire. So a popping thread sees
//! what the pushing thread did to the item, and a closing thread sees what the popping thread noted
//! in it.
//!
//! **Marks.** The bit `MARKED` in `head` or `tail` makes every later compare-and-swap on the word
//! fail, also one that has begun before. Then the queue is popped from, or pushed to, under the
//! hub's lock. Only under the lock the bit is set and cleared. A thread that has set it in `tail`
//! and finds head and tail equal has seen everything that was pushed without the lock.
//!
//! **Closing.** The bit `CLOSED` in `head` and `tail` does the same for good. Threads whose
//! compare-and-swap succeeded before are a few instructions away from changing `turn`; the closing
//! thread waits for them. After that nothing moves, and each item is in one of the queues or
//! belongs to the thread that popped it.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::{fetch_to_write, CacheLine};
use crate::engine::base::sync::{doze, linger, yield_now, AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// Bit of `head` and `tail`.
const CLOSED: u64 = 1 << 63;
/// In `tail`: a thread waits for items. In the ready queue's `head`: older chunks are elsewhere. In
/// all words: a thread reads all counts.
const MARKED: u64 = 1 << 62;
const BITS: u64 = CLOSED | MARKED;
/// Polls of a place that another thread has not turned yet, before this thread yields; and yields,
/// before it sleeps between two polls.
const LOOKS: u32 = 64;
const YIELDS: u32 = 64;

/// Why nothing was popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    /// The queue is empty.
    Empty,
    /// The caller has to use the lock.
    Closed,
}

struct Place<T> {
    turn: AtomicU64,
    item: AtomicPtr<T>,
}

#[repr(C)]
struct Ring<T> {
    places: Box<[Place<T>]>,
    _apart: CacheLine,
    head: AtomicU64,
    _apart_too: CacheLine,
    tail: AtomicU64,
}

/// See the head of this file.
#[repr(C)]
pub(crate) struct QueuePair<T> {
    free: Ring<T>,
    ready: Ring<T>,
    /// The highest number of chunks so far; written under the lock.
    most: AtomicU64,
    /// Consumed chunks when a producer last counted them, or fewer.
    seen: AtomicU64,
    /// Items pushed to `free` that had not been chunks: all initial ones, and aborted productions.
    /// Written under the lock.
    unused: AtomicU64,
}

/// Counters and contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    pub(crate) produced: u64,
    pub(crate) consumed: u64,
    /// The highest number of chunks at a time.
    pub(crate) most: u64,
    pub(crate) free: u64,
    /// Chunks that nobody has.
    pub(crate) ready: u64,
}

/// Waits for another thread with growing pauses.
pub(crate) struct Patience(u32);

impl Patience {
    pub(crate) fn new() -> Self {
        Patience(0)
    }

    #[cold]
    pub(crate) fn wait(&mut self) {
        self.0 += 1;
        match self.0 {
            ..=LOOKS => linger(1),
            looks if looks <= LOOKS + YIELDS => yield_now(),
            _ => doze(),
        }
    }
}

impl<T> Ring<T> {
    /// A ring that contains `items`.
    fn new(capacity: usize, items: &[*mut T]) -> Self {
        let place = |position: usize| {
            let item = items.get(position).copied();
            Place {
                turn: AtomicU64::new(position as u64 + u64::from(item.is_some())),
                item: AtomicPtr::new(item.unwrap_or(null_mut())),
            }
        };
        Ring {
            places: (0..capacity).map(place).collect(),
            _apart: CacheLine,
            head: AtomicU64::new(0),
            _apart_too: CacheLine,
            tail: AtomicU64::new(items.len() as u64),
        }
    }

    /// The number of places is a power of two.
    #[inline(always)]
    fn index(&self, position: u64) -> usize {
        position as usize & (self.places.len() - 1)
    }

    fn place(&self, position: u64) -> &Place<T> {
        &self.places[self.index(position)]
    }

    /// `mark` notes the new owner in the item, before another thread can know that it was popped.
    /// Err: the current head.
    #[inline(always)]
    fn try_pop(&self, head: u64, mark: &impl Fn(*mut T, u64)) -> Result<*mut T, u64> {
        // The index is always valid; `get` avoids code that panics.
        let place = self.places.get(self.index(head)).ok_or(head)?;
        // With a bit set in `head`, no turn equals `head + 1`.
        if place.turn.load(Ordering::Acquire) != head + 1 {
            return Err(head);
        }
        self.head.compare_exchange(head, head + 1, Ordering::AcqRel, Ordering::Acquire)?;
        let item = place.item.load(Ordering::Relaxed);
        mark(item, head);
        // The last owner of the next item has written to it on another core: fetch it.
        if let Some(next) = self.places.get(self.index(head + 1)) {
            fetch_to_write(next.item.load(Ordering::Relaxed));
        }
        place.turn.store(head + self.places.len() as u64, Ordering::Release);
        Ok(item)
    }

    /// Pops the oldest item.
    fn pop(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        let mut head = self.head.load(Ordering::Acquire);
        loop {
            if head & BITS != 0 {
                return Err(Missing::Closed);
            }
            head = self.later(head)?;
            match self.try_pop(head, &mark) {
                Ok(item) => return Ok(item),
                Err(now) => head = now,
            }
        }
    }

    /// After a failed attempt: the head to try next.
    fn later(&self, head: u64) -> Result<u64, Missing> {
        let mut patience = Patience::new();
        loop {
            let tail = self.tail.load(Ordering::Acquire);
            let now = self.head.load(Ordering::Acquire);
            if now != head {
                return Ok(now);
            }
            if tail & CLOSED != 0 {
                return Err(Missing::Closed);
            }
            // The head did not change since the tail was read, so the queue was empty.
            if tail & !MARKED == head {
                return Err(Missing::Empty);
            }
            // Another thread is pushing this item; or it has just finished.
            if self.place(head).turn.load(Ordering::Acquire) == head + 1 {
                return Ok(head);
            }
            patience.wait();
        }
    }

    /// `mark` receives the item's position before anybody else can have the item: afterwards the
    /// hub, and the queue with it, may be gone. Err: the current tail.
    #[inline(always)]
    fn try_push(&self, tail: u64, item: *mut T, mark: &impl Fn(u64)) -> Result<(), u64> {
        let place = self.places.get(self.index(tail)).ok_or(tail)?;
        // With a bit set in `tail`, no turn equals `tail`.
        if place.turn.load(Ordering::Acquire) != tail {
            return Err(tail);
        }
        self.tail.compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Acquire)?;
        place.item.store(item, Ordering::Relaxed);
        mark(tail);
        place.turn.store(tail + 1, Ordering::Release);
        Ok(())
    }

    /// Returns false if the item has to be pushed under the lock, also if `fits` is false of its
    /// position.
    fn push(&self, item: *mut T, fits: impl Fn(u64) -> bool, mark: impl Fn(u64)) -> bool {
        let mut tail = self.tail.load(Ordering::Acquire);
        loop {
            if tail & BITS != 0 {
                return false;
            }
            let Some(other) = self.room(tail).filter(|tail| fits(*tail)) else { return false };
            match self.try_push(other, item, &mark) {
                Ok(()) => return true,
                Err(now) => tail = now,
            }
        }
    }

    /// After a failed attempt: the tail to try next. There is room for all items, but not for one
    /// that the caller pushes twice by mistake.
    fn room(&self, tail: u64) -> Option<u64> {
        let mut patience = Patience::new();
        loop {
            let now = self.tail.load(Ordering::Acquire);
            if now != tail || self.place(tail).turn.load(Ordering::Acquire) == tail {
                return Some(now);
            }
            let head = self.head.load(Ordering::Acquire);
            // The head is valid for this tail only if the tail has not changed.
            let now = self.tail.load(Ordering::Acquire);
            if now != tail {
                return Some(now);
            }
            if head & CLOSED != 0 || tail.saturating_sub(head & !MARKED) >= self.places.len() as u64
            {
                return None;
            }
            patience.wait();
        }
    }

    fn has_some(&self) -> Result<bool, Missing> {
        let head = self.head.load(Ordering::Relaxed);
        if head & BITS != 0 {
            return Err(Missing::Closed);
        }
        Ok(head != self.end())
    }

    /// The position after the newest item.
    fn end(&self) -> u64 {
        self.tail.load(Ordering::Acquire) & !BITS
    }

    /// Under the lock. When it returns nothing moves any more. Returns the items, oldest first.
    fn close(&self) -> Vec<*mut T> {
        let tail = self.tail.fetch_or(CLOSED, Ordering::AcqRel) & !BITS;
        let head = self.head.fetch_or(CLOSED, Ordering::AcqRel) & !BITS;
        for position in head..head + self.places.len() as u64 {
            let final_turn = position + u64::from(position < tail);
            let mut patience = Patience::new();
            while self.place(position).turn.load(Ordering::Acquire) != final_turn {
                patience.wait();
            }
        }
        (head..tail).map(|position| self.place(position).item.load(Ordering::Relaxed)).collect()
    }
}

impl<T> QueuePair<T> {
    /// All items are free; the first one is taken first.
    pub(crate) fn new(items: impl Iterator<Item = *mut T>) -> Self {
        let items: Vec<_> = items.collect();
        let count = items.len() as u64;
        // Twice as many places, so that a push need not wait for a thread that is popping a round
        // earlier.
        let capacity = (2 * items.len()).next_power_of_two();
        QueuePair {
            free: Ring::new(capacity, &items),
            ready: Ring::new(capacity, &[]),
            most: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            unused: AtomicU64::new(count),
        }
    }

    /// Takes a free item; `mark` notes its owner. This and the next three functions look once.
    #[inline(always)]
    pub(crate) fn try_take_free(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.free.try_pop(self.free.head.load(Ordering::Acquire), &mark).map_err(|_| Missing::Empty)
    }

    /// Takes the oldest ready chunk; `mark` notes its owner and its order.
    #[inline(always)]
    pub(crate) fn try_take_ready(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.ready
            .try_pop(self.ready.head.load(Ordering::Acquire), &mark)
            .map_err(|_| Missing::Empty)
    }

    /// Pushes a new chunk. False if nothing was done.
    #[inline(always)]
    pub(crate) fn try_push_ready(&self, item: *mut T) -> bool {
        let tail = self.ready.tail.load(Ordering::Acquire);
        self.is_no_more(tail + 1) && self.ready.try_push(tail, item, &|_| {}).is_ok()
    }

    /// Pushes a consumed chunk's envelope to the free ones. False if nothing was done.
    #[inline(always)]
    pub(crate) fn try_push_free(&self, item: *mut T) -> bool {
        self.free.try_push(self.free.tail.load(Ordering::Acquire), item, &|_| {}).is_ok()
    }

    /// Like `try_take_free`. This and the next functions repeat until the answer is certain.
    pub(crate) fn take_free(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.free.pop(mark)
    }

    /// See `try_take_ready`.
    pub(crate) fn take_ready(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.ready.pop(mark)
    }

    /// See `try_push_ready`. False if it has to be done under the lock.
    pub(crate) fn push_ready(&self, item: *mut T) -> bool {
        self.ready.push(item, |tail| self.is_no_more(tail + 1), |_| {})
    }

    /// Like `push_ready`, under the lock, when there may be more chunks than ever before.
    pub(crate) fn push_most(&self, item: *mut T) -> bool {
        let count = |tail: u64| {
            let there = (tail + 1).saturating_sub(self.consumed(self.free.end()));
            self.most.fetch_max(there, Ordering::Relaxed);
        };
        self.ready.push(item, |_| true, count)
    }

    /// See `try_push_free`. False if it has to be done under the lock.
    pub(crate) fn push_free(&self, item: *mut T) -> bool {
        self.free.push(item, |_| true, |_| {})
    }

    /// If `produced` chunks were pushed, are there no more chunks than ever before?
    #[inline(always)]
    fn is_no_more(&self, produced: u64) -> bool {
        let is_known = || {
            produced.saturating_sub(self.seen.load(Ordering::Relaxed))
                <= self.most.load(Ordering::Relaxed)
        };
        is_known() || {
            // Only when necessary: reading the other tail slows down its owner.
            self.seen.store(self.consumed(self.free.end()), Ordering::Relaxed);
            is_known()
        }
    }

    /// Consumed chunks, if `gone` items were pushed to `free`; without the lock perhaps fewer.
    #[inline(always)]
    fn consumed(&self, gone: u64) -> u64 {
        gone.saturating_sub(self.unused.load(Ordering::Relaxed))
    }

    fn side(&self, side: usize) -> &Ring<T> {
        [&self.ready, &self.free][side]
    }

    /// Is there a ready chunk (side 0) or a free item (side 1)? Err: use the lock.
    pub(crate) fn has_some(&self, side: usize) -> Result<bool, Missing> {
        self.side(side).has_some()
    }

    /// Under the lock: pushing to this side needs the lock until `unmark`.
    pub(crate) fn mark(&self, side: usize) {
        self.side(side).tail.fetch_or(MARKED, Ordering::AcqRel);
    }

    /// Under the lock.
    pub(crate) fn unmark(&self, side: usize) {
        self.side(side).tail.fetch_and(!MARKED, Ordering::AcqRel);
    }

    /// Under the lock: taking chunks needs the lock, or no longer does.
    pub(crate) fn mark_taking(&self, marked: bool) {
        match marked {
            true => self.ready.head.fetch_or(MARKED, Ordering::AcqRel),
            false => self.ready.head.fetch_and(!MARKED, Ordering::AcqRel),
        };
    }

    /// Like `push_free`, under the lock, for an item that has not become a chunk.
    pub(crate) fn push_unused(&self, item: *mut T) -> bool {
        // First, so that a reader who sees the item does not count it as a consumed chunk.
        self.unused.fetch_add(1, Ordering::Relaxed);
        let done = self.push_free(item);
        if !done {
            self.unused.fetch_sub(1, Ordering::Relaxed);
        }
        done
    }

    /// Under the lock. The marks stop all other threads for a moment, so the counts are consistent.
    pub(crate) fn traffic(&self) -> Traffic {
        let words = [&self.free.tail, &self.ready.tail, &self.free.head, &self.ready.head];
        let before = words.map(|word| word.fetch_or(MARKED, Ordering::AcqRel));
        for (word, _) in words.iter().zip(before).filter(|(_, before)| before & MARKED == 0) {
            word.fetch_and(!MARKED, Ordering::AcqRel);
        }
        let [gone, come, free, ready] = before.map(|word| word & !BITS);
        Traffic {
            produced: come,
            consumed: self.consumed(gone),
            most: self.most.load(Ordering::Relaxed),
            free: gone - free,
            ready: come - ready,
        }
    }

    /// Were `count` items free at one moment of this call?
    pub(crate) fn is_idle(&self, count: u64) -> bool {
        let head = self.free.head.load(Ordering::Acquire);
        self.free.end() == head + count && self.free.head.load(Ordering::Acquire) == head
    }

    /// Under the lock: closes both queues; returns ready chunks and free items, each oldest first.
    pub(crate) fn close(&self) -> [Vec<*mut T>; 2] {
        // `free` last: an item that moves from `ready` to `free` meanwhile must not be missed, nor
        // count as consumed before it was produced.
        [&self.ready, &self.free].map(Ring::close)
    }
}
