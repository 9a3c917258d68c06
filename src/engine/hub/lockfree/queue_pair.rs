//! What a hub in its plainest form is: a queue of envelopes that are free and one of chunks that
//! are ready, without a lock. It can be closed for good, and then tells what is in it.
//!
//! **Who owns what.** A queue is a ring of places. Each position, counted up for ever, belongs to
//! one place at a time; who moves `head` or `tail` on by one owns that position, and the item with
//! it, until it has turned the place. `turn` says whose the place is: `position`, of who is to push
//! there; `position + 1`, of who is to pop there; `position + capacity`, of the next round's
//! pusher. (D. Vyukov's bounded queue.)
//!
//! **What publishes what.** `turn` is stored with Release and read with Acquire: what a pusher has
//! done to an item is seen by who pops it, and what that has noted of the item by who closes the
//! lane.
//!
//! **Marks.** A bit in `head` or `tail` has every later exchange on it fail, also one that began
//! before: the queue is popped from, or pushed to, under the hub's lock, where alone that bit is
//! set and taken away. Whoever has set it in `tail`, and then finds head and tail alike, has seen
//! all that was pushed without the lock.
//!
//! **Closing.** A bit in `head` and in `tail` does the same for ever. Those exchanges that went
//! through before are between that and their turn, a few instructions, for which the closer waits
//! as for a lock. Then nothing moves, and an item is in one of the queues or with who has popped
//! it.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::{fetch_to_write, CacheLine};
use crate::engine::base::sync::{doze, linger, yield_now, AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// In `head` and `tail`.
const CLOSED: u64 = 1 << 63;
/// In `tail`: somebody waits for what comes. In `head`: there are older ones elsewhere. In all of
/// them: somebody counts.
const MARKED: u64 = 1 << 62;
const BITS: u64 = CLOSED | MARKED;
/// Looks at a place that another thread has not turned yet, before others are let run, and before
/// this thread sleeps between two looks.
const LOOKS: u32 = 64;
const YIELDS: u32 = 64;

/// Why nothing was popped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    /// Nothing is there now.
    Empty,
    /// It is to be asked for under the lock.
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

/// See the top of this file.
#[repr(C)]
pub(crate) struct Lane<T> {
    free: Ring<T>,
    ready: Ring<T>,
    /// The most chunks that there were; written under the lock.
    most: AtomicU64,
    /// How many had gone when that was last looked at, or less. Written by those who produce.
    seen: AtomicU64,
    /// Items that went to those that are free, and had not been chunks: all at first, and those
    /// that were given back. Written under the lock.
    unused: AtomicU64,
}

/// What has happened, and what is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    pub(crate) produced: u64,
    pub(crate) consumed: u64,
    /// The most chunks that there were at a time.
    pub(crate) most: u64,
    pub(crate) free: u64,
    /// Chunks that nobody has.
    pub(crate) ready: u64,
}

/// Lets others go on, more and more.
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
    /// With these in it.
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

    /// `mark` notes whose the item is, before anybody else can learn that it has been popped. Err:
    /// what the head is now.
    #[inline(always)]
    fn try_pop(&self, head: u64, mark: &impl Fn(*mut T, u64)) -> Result<*mut T, u64> {
        // It is always there: this way nothing here can panic.
        let place = self.places.get(self.index(head)).ok_or(head)?;
        // No place has a turn that comes after a closed head.
        if place.turn.load(Ordering::Acquire) != head + 1 {
            return Err(head);
        }
        self.head.compare_exchange(head, head + 1, Ordering::AcqRel, Ordering::Acquire)?;
        let item = place.item.load(Ordering::Relaxed);
        mark(item, head);
        // Of the next one, whoever had it last has written to it.
        if let Some(next) = self.places.get(self.index(head + 1)) {
            fetch_to_write(next.item.load(Ordering::Relaxed));
        }
        place.turn.store(head + self.places.len() as u64, Ordering::Release);
        Ok(item)
    }

    /// The oldest item.
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

    /// Nothing was there to pop: another head to try.
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
            // The head has not moved since the tail was read.
            if tail & !MARKED == head {
                return Err(Missing::Empty);
            }
            // What another thread is pushing has a younger one behind it, perhaps, which has come.
            if self.place(head).turn.load(Ordering::Acquire) == head + 1 {
                return Ok(head);
            }
            patience.wait();
        }
    }

    /// `mark` is told the item's position before anybody else can have it: afterwards the lane may
    /// be gone with its hub. Err: what the tail is now.
    #[inline(always)]
    fn try_push(&self, tail: u64, item: *mut T, mark: &impl Fn(u64)) -> Result<(), u64> {
        let place = self.places.get(self.index(tail)).ok_or(tail)?;
        // As above.
        if place.turn.load(Ordering::Acquire) != tail {
            return Err(tail);
        }
        self.tail.compare_exchange(tail, tail + 1, Ordering::AcqRel, Ordering::Acquire)?;
        place.item.store(item, Ordering::Relaxed);
        mark(tail);
        place.turn.store(tail + 1, Ordering::Release);
        Ok(())
    }

    /// False where the item is to be brought under the lock: also where `fits` is not so of its
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

    /// Another tail to try. There is room for all items, but not for one that a mistake of the
    /// caller's has pushed twice.
    fn room(&self, tail: u64) -> Option<u64> {
        let mut patience = Patience::new();
        loop {
            let now = self.tail.load(Ordering::Acquire);
            if now != tail || self.place(tail).turn.load(Ordering::Acquire) == tail {
                return Some(now);
            }
            let head = self.head.load(Ordering::Acquire);
            // Only while the tail is what it was is the head behind it.
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

    /// The position behind the youngest item.
    fn end(&self) -> u64 {
        self.tail.load(Ordering::Acquire) & !BITS
    }

    /// Under the lock. Nothing moves any more when it returns: what is there, the oldest first.
    fn close(&self) -> Vec<*mut T> {
        let tail = self.tail.fetch_or(CLOSED, Ordering::AcqRel) & !BITS;
        let head = self.head.fetch_or(CLOSED, Ordering::AcqRel) & !BITS;
        for position in head..head + self.places.len() as u64 {
            let settled = position + u64::from(position < tail);
            let mut patience = Patience::new();
            while self.place(position).turn.load(Ordering::Acquire) != settled {
                patience.wait();
            }
        }
        (head..tail).map(|position| self.place(position).item.load(Ordering::Relaxed)).collect()
    }
}

impl<T> Lane<T> {
    /// All of these are free, and the first one is taken first.
    pub(crate) fn new(items: impl Iterator<Item = *mut T>) -> Self {
        let items: Vec<_> = items.collect();
        let count = items.len() as u64;
        // Twice as many, so that nobody waits for who has just popped a round before.
        let capacity = (2 * items.len()).next_power_of_two();
        Lane {
            free: Ring::new(capacity, &items),
            ready: Ring::new(capacity, &[]),
            most: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            unused: AtomicU64::new(count),
        }
    }

    /// A free one, of which `mark` notes whose it is; by one look at it, as the other three.
    #[inline(always)]
    pub(crate) fn try_take_free(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.free.try_pop(self.free.head.load(Ordering::Acquire), &mark).map_err(|_| Missing::Empty)
    }

    /// The oldest chunk that nobody has, of which `mark` notes whose it is, and its order.
    #[inline(always)]
    pub(crate) fn try_take_ready(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.ready
            .try_pop(self.ready.head.load(Ordering::Acquire), &mark)
            .map_err(|_| Missing::Empty)
    }

    /// A new chunk. False where nothing has been done.
    #[inline(always)]
    pub(crate) fn try_push_ready(&self, item: *mut T) -> bool {
        let tail = self.ready.tail.load(Ordering::Acquire);
        self.is_no_more(tail + 1) && self.ready.try_push(tail, item, &|_| {}).is_ok()
    }

    /// A chunk has gone, and its envelope is free. False where nothing has been done.
    #[inline(always)]
    pub(crate) fn try_push_free(&self, item: *mut T) -> bool {
        self.free.try_push(self.free.tail.load(Ordering::Acquire), item, &|_| {}).is_ok()
    }

    /// The same by as many looks as it takes, as the other three.
    pub(crate) fn take_free(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.free.pop(mark)
    }

    /// See `try_take_ready`.
    pub(crate) fn take_ready(&self, mark: impl Fn(*mut T, u64)) -> Result<*mut T, Missing> {
        self.ready.pop(mark)
    }

    /// See `try_push_ready`. False where it is to be done under the lock.
    pub(crate) fn push_ready(&self, item: *mut T) -> bool {
        self.ready.push(item, |tail| self.is_no_more(tail + 1), |_| {})
    }

    /// Under the lock: the same where there may be more chunks than ever before.
    pub(crate) fn push_most(&self, item: *mut T) -> bool {
        let count = |tail: u64| {
            let there = (tail + 1).saturating_sub(self.consumed(self.free.end()));
            self.most.fetch_max(there, Ordering::Relaxed);
        };
        self.ready.push(item, |_| true, count)
    }

    /// See `try_push_free`. False where it is to be done under the lock.
    pub(crate) fn push_free(&self, item: *mut T) -> bool {
        self.free.push(item, |_| true, |_| {})
    }

    /// With so many produced, are there no more chunks than there have been before?
    #[inline(always)]
    fn is_no_more(&self, produced: u64) -> bool {
        let is_known = || {
            produced.saturating_sub(self.seen.load(Ordering::Relaxed))
                <= self.most.load(Ordering::Relaxed)
        };
        is_known() || {
            // No more often than it takes: to look at the other tail disturbs its owner.
            self.seen.store(self.consumed(self.free.end()), Ordering::Relaxed);
            is_known()
        }
    }

    /// With so many that have gone to those that are free; without the lock perhaps less.
    #[inline(always)]
    fn consumed(&self, gone: u64) -> u64 {
        gone.saturating_sub(self.unused.load(Ordering::Relaxed))
    }

    fn side(&self, side: usize) -> &Ring<T> {
        [&self.ready, &self.free][side]
    }

    /// Is there one to take, a chunk (side 0) or a free one (side 1)? Err: it is closed.
    pub(crate) fn has_some(&self, side: usize) -> Result<bool, Missing> {
        self.side(side).has_some()
    }

    /// Under the lock: nothing is pushed to this side without it until `unmark`.
    pub(crate) fn mark(&self, side: usize) {
        self.side(side).tail.fetch_or(MARKED, Ordering::AcqRel);
    }

    /// Under the lock.
    pub(crate) fn unmark(&self, side: usize) {
        self.side(side).tail.fetch_and(!MARKED, Ordering::AcqRel);
    }

    /// Under the lock: no chunk is taken without it, or is again.
    pub(crate) fn mark_taking(&self, marked: bool) {
        match marked {
            true => self.ready.head.fetch_or(MARKED, Ordering::AcqRel),
            false => self.ready.head.fetch_and(!MARKED, Ordering::AcqRel),
        };
    }

    /// Under the lock: as `push_free`, of one that has not become a chunk.
    pub(crate) fn push_unused(&self, item: *mut T) -> bool {
        // Who sees that it has come does not take it for a chunk.
        self.unused.fetch_add(1, Ordering::Relaxed);
        let done = self.push_free(item);
        if !done {
            self.unused.fetch_sub(1, Ordering::Relaxed);
        }
        done
    }

    /// Under the lock, to which all others are sent meanwhile: so it is of one moment.
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

    /// Have so many been free at one moment of this call?
    pub(crate) fn is_idle(&self, count: u64) -> bool {
        let head = self.free.head.load(Ordering::Acquire);
        self.free.end() == head + count && self.free.head.load(Ordering::Acquire) == head
    }

    /// Under the lock: the chunks that nobody has, and those that are free, each the oldest first.
    pub(crate) fn close(&self) -> [Vec<*mut T>; 2] {
        // Those that are free last: what goes from one to the other meanwhile is not to be missed,
        // nor counted as gone before it came.
        [&self.ready, &self.free].map(Ring::close)
    }
}
