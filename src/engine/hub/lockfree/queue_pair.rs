//! What a hub in its plainest form is: a queue of envelopes that are free and one of chunks that
//! are ready, without a lock. It can be closed, and then tells what is in it.
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
//! **Closing.** One thread at a time closes and opens, under the hub's lock. A bit in `head` and in
//! `tail` has every later exchange on them fail, also one that began before. Those that went
//! through before are between their exchange and their turn, a few instructions, for which the
//! closer waits as for a lock. Then nothing moves, and an item is in one of the queues or with who
//! has popped it. Positions are never used twice, also not when the lane is opened again, so an
//! exchange that began before the closing fails afterwards, too.
#![deny(unsafe_code)]

use crate::engine::base::cache_line::{fetch_to_write, CacheLine};
use crate::engine::base::sync::{doze, linger, yield_now, AtomicPtr, AtomicU64, Ordering};
use std::ptr::null_mut;

/// In `head` and `tail`.
const CLOSED: u64 = 1 << 63;
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
    /// The most chunks that there were, and how many had gone when that was last looked at. Written
    /// by those who produce.
    most: AtomicU64,
    seen: AtomicU64,
    /// Where both tails were when it was opened. Under the lock.
    gone_before: AtomicU64,
    come_before: AtomicU64,
}

/// What has happened since the lane was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Traffic {
    pub(crate) produced: u64,
    pub(crate) consumed: u64,
    /// The most chunks that there were at a time.
    pub(crate) most: u64,
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
    fn new(capacity: usize) -> Self {
        let place = |_| Place { turn: AtomicU64::new(0), item: AtomicPtr::new(null_mut()) };
        Ring {
            places: (0..capacity).map(place).collect(),
            _apart: CacheLine,
            head: AtomicU64::new(CLOSED),
            _apart_too: CacheLine,
            tail: AtomicU64::new(CLOSED),
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
            if head & CLOSED != 0 {
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
            if tail == head {
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

    /// False where the item is to be brought under the lock.
    fn push(&self, item: *mut T, mark: impl Fn(u64)) -> bool {
        let mut tail = self.tail.load(Ordering::Acquire);
        loop {
            if tail & CLOSED != 0 {
                return false;
            }
            let Some(other) = self.room(tail) else { return false };
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
            if head & CLOSED != 0 || tail.saturating_sub(head) >= self.places.len() as u64 {
                return None;
            }
            patience.wait();
        }
    }

    fn has_some(&self) -> Result<bool, Missing> {
        let head = self.head.load(Ordering::Relaxed);
        if head & CLOSED != 0 {
            return Err(Missing::Closed);
        }
        Ok(head != self.tail.load(Ordering::Relaxed))
    }

    /// Under the lock. Nothing moves any more when it returns: the positions from head to tail.
    fn close(&self) -> std::ops::Range<u64> {
        let tail = self.tail.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        let head = self.head.fetch_or(CLOSED, Ordering::AcqRel) & !CLOSED;
        for position in head..head + self.places.len() as u64 {
            let settled = position + u64::from(position < tail);
            let mut patience = Patience::new();
            while self.place(position).turn.load(Ordering::Acquire) != settled {
                patience.wait();
            }
        }
        head..tail
    }

    /// The items at these positions, under the lock, of a ring that is closed.
    fn items(&self, positions: std::ops::Range<u64>) -> impl Iterator<Item = *mut T> + '_ {
        positions.map(|position| self.place(position).item.load(Ordering::Relaxed))
    }

    /// Under the lock, of a ring that is closed; the position after the last one.
    fn fill(&self, first: u64, items: impl Iterator<Item = *mut T>) -> u64 {
        let mut end = first;
        for item in items {
            self.place(end).item.store(item, Ordering::Relaxed);
            end += 1;
        }
        for position in first..first + self.places.len() as u64 {
            self.place(position)
                .turn
                .store(position + u64::from(position < end), Ordering::Relaxed);
        }
        end
    }

    /// For who reads it with Acquire, what has been filled in has been before.
    fn open(&self, positions: std::ops::Range<u64>) {
        self.head.store(positions.start, Ordering::Release);
        self.tail.store(positions.end, Ordering::Release);
    }
}

/// A closed lane, under the lock: what is in it.
pub(crate) struct Closed<'a, T> {
    lane: &'a Lane<T>,
    free: std::ops::Range<u64>,
    ready: std::ops::Range<u64>,
}

impl<T> Closed<'_, T> {
    /// Those that are free, the one that has been longest first.
    pub(crate) fn free(&self) -> impl Iterator<Item = *mut T> + '_ {
        self.lane.free.items(self.free.clone())
    }

    /// The chunks that nobody has, the oldest first.
    pub(crate) fn ready(&self) -> impl Iterator<Item = *mut T> + '_ {
        self.lane.ready.items(self.ready.clone())
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            produced: self.ready.end - self.lane.come_before.load(Ordering::Relaxed),
            consumed: self.free.end - self.lane.gone_before.load(Ordering::Relaxed),
            most: self.lane.most.load(Ordering::Relaxed),
        }
    }
}

impl<T> Lane<T> {
    /// A closed one, for so many items.
    pub(crate) fn new(items: usize) -> Self {
        // Twice as many, so that nobody waits for who has just popped a round before.
        let capacity = (2 * items).next_power_of_two();
        let zero = || AtomicU64::new(0);
        Lane {
            free: Ring::new(capacity),
            ready: Ring::new(capacity),
            most: zero(),
            seen: zero(),
            gone_before: zero(),
            come_before: zero(),
        }
    }

    /// How many items there is room for.
    pub(crate) fn room(&self) -> usize {
        self.free.places.len() / 2
    }

    /// A free one, of which `mark` notes whose it is; by one look at it, as the other three.
    #[inline(always)]
    pub(crate) fn try_take_free(&self, mark: impl Fn(*mut T, u64)) -> Option<*mut T> {
        self.free.try_pop(self.free.head.load(Ordering::Acquire), &mark).ok()
    }

    /// The oldest chunk that nobody has, of which `mark` notes whose it is, and its order.
    #[inline(always)]
    pub(crate) fn try_take_ready(&self, mark: impl Fn(*mut T, u64)) -> Option<*mut T> {
        self.ready.try_pop(self.ready.head.load(Ordering::Acquire), &mark).ok()
    }

    /// A new chunk. False where nothing has been done.
    #[inline(always)]
    pub(crate) fn try_push_ready(&self, item: *mut T) -> bool {
        let tail = self.ready.tail.load(Ordering::Acquire);
        if self.may_be_most(tail + 1) {
            self.see_consumed();
            if self.may_be_most(tail + 1) {
                return false;
            }
        }
        self.ready.try_push(tail, item, &|_| {}).is_ok()
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
        self.ready.push(item, |position| {
            if self.may_be_most(position + 1) {
                self.count_most(position + 1);
            }
        })
    }

    /// See `try_push_free`. False where it is to be done under the lock.
    pub(crate) fn push_free(&self, item: *mut T) -> bool {
        self.free.push(item, |_| {})
    }

    /// With so many produced, are there as many chunks as never before, for all that is known? The
    /// tails are counted so that what is between them is in the queue.
    #[inline(always)]
    fn may_be_most(&self, produced: u64) -> bool {
        produced.saturating_sub(self.seen.load(Ordering::Relaxed))
            > self.most.load(Ordering::Relaxed)
    }

    /// No more often than it takes to know that there are not: to look at the other tail disturbs
    /// its owner.
    #[inline(always)]
    fn see_consumed(&self) -> u64 {
        let consumed = self.free.tail.load(Ordering::Relaxed) & !CLOSED;
        self.seen.store(consumed, Ordering::Relaxed);
        consumed
    }

    fn count_most(&self, produced: u64) {
        let there = produced.saturating_sub(self.see_consumed());
        if there > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(there, Ordering::Relaxed);
        }
    }

    /// Is there one to take, a chunk (side 0) or a free one (side 1)? Err: it is closed.
    pub(crate) fn has_some(&self, side: usize) -> Result<bool, Missing> {
        [&self.ready, &self.free][side].has_some()
    }

    /// Under the lock.
    pub(crate) fn close(&self) -> Closed<'_, T> {
        // Those that are free last: what goes from one to the other meanwhile is not to be missed,
        // nor counted as gone before it came.
        let ready = self.ready.close();
        let free = self.free.close();
        Closed { lane: self, free, ready }
    }

    /// Under the lock: those that are free and those that are ready, in the order in which they are
    /// to be taken. Of those that have been taken, and are chunks still, `mark` notes the order, as
    /// of all that are taken later.
    pub(crate) fn open(
        &self,
        free: impl Iterator<Item = *mut T>,
        taken: impl Iterator<Item = *mut T>,
        ready: impl Iterator<Item = *mut T>,
        mark: impl Fn(*mut T, u64),
    ) {
        let rings = [&self.free, &self.ready];
        let positions = |ring: &Ring<T>| {
            ring.head.load(Ordering::Relaxed).max(ring.tail.load(Ordering::Relaxed))
        };
        let begin = rings.map(|ring| positions(ring) & !CLOSED).into_iter().max().unwrap_or(0) + 1;
        let free_end = self.free.fill(begin, free);
        // So that the queue is as long as the one tail is before the other, with those that have
        // been taken.
        let mut ready_begin = free_end;
        for item in taken {
            mark(item, ready_begin);
            ready_begin += 1;
        }
        let ready_end = self.ready.fill(ready_begin, ready);
        self.gone_before.store(free_end, Ordering::Relaxed);
        self.come_before.store(ready_end, Ordering::Relaxed);
        self.most.store(ready_end - free_end, Ordering::Relaxed);
        self.seen.store(free_end, Ordering::Relaxed);
        self.free.open(begin..free_end);
        self.ready.open(ready_begin..ready_end);
    }
}
