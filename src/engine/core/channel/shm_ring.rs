//! A fast box: short messages from one worker to another worker of the same host, through memory
//! that both have mapped (as in Open MPI and MPICH, from where the name is).
//!
//! # Layout
//!
//! A ring of places, each of two cache lines, with one writer and one reader. A place has a
//! message's words and a mark: the number of the message's first place, and its length. A longer
//! message takes several places in a row. The reader checks only the mark of the first one. The
//! others get marks that never match a message. Numbers count places.
//!
//! If the box is full, or its reader sleeps, a put is refused, and the message goes another way. No
//! thread waits here.
//!
//! # Publication
//!
//! - `mark`: stored with Release after the words; the reader loads it with Acquire.
//! - `taken`: stored with Release by the reader from time to time; the writer loads it with Acquire
//!   before it reuses places.
//! - `asleep`: a reader that is about to sleep sets it, makes the kernel run a barrier on all
//!   processes (see `base::membarrier`), and checks its boxes once more. A writer reads it after it
//!   has stored a mark. So either the reader sees the message, or the writer sees that it must wake
//!   the reader. This costs the writer one load of a line that rarely changes.
//!
//! # Trust
//!
//! Another process writes the contents of a box, and may change them at any time. So a message is
//! copied, and only the copy is read, with the same checks as a message from a network. No number
//! from the other side is used to find a place in memory.

use crate::engine::base::membarrier::store_then_load;
use crate::engine::base::sync::{AtomicU32, AtomicU64, Ordering};
#[cfg(not(loom))]
use crate::engine::core::request::inline_buffer::copy_inline;
use std::cell::Cell;

/// Words of a place.
pub(crate) const WORDS: usize = 15;
/// Bytes of the shortest message, and of the longest one that takes one place.
pub(crate) const LEAST: usize = 16;
pub(crate) const MOST: usize = WORDS * 8;
/// Bytes of the longest message: beyond that UCX is faster. The loom models have short messages and
/// few places.
pub(crate) const LONGEST: usize = if cfg!(loom) { 2 * MOST } else { (1 << 10) + MOST };
/// More than the number of messages for which a connection has credit, so that a message with
/// credit finds room unless longer ones and replies have taken it.
pub(crate) const PLACES: u32 = if cfg!(loom) { 4 } else { 512 };
/// The reader reports what it has taken whenever it has taken this many places.
const TOLD_EACH: u32 = if cfg!(loom) { 2 } else { 64 };
const _: () = assert!(places(LONGEST) + TOLD_EACH <= PLACES);

/// Number of places that a message takes.
const fn places(length: usize) -> u32 {
    length.div_ceil(MOST) as u32
}

/// A number in its own two cache lines, because processors fetch them in pairs.
#[derive(Default)]
#[repr(C, align(128))]
struct Alone(AtomicU32);

#[derive(Default)]
#[repr(C, align(128))]
struct Place {
    /// Upper half: the number of the message's first place, from 1. Lower half: its bytes.
    mark: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Place {
    /// # Safety
    /// `length` bytes are readable, at most `MOST`.
    #[inline(always)]
    unsafe fn fill(&self, from: *const u8, length: usize) {
        // SAFETY: the caller guarantees that the bytes are readable.
        let word = |at: usize| unsafe { from.add(at).cast::<u64>().read_unaligned() };
        let whole = length / 8;
        for (index, to) in self.words[..whole].iter().enumerate() {
            to.store(word(8 * index), Ordering::Relaxed);
        }
        let rest = length % 8;
        if rest == 0 {
            return;
        }
        let last = if whole > 0 {
            // The last word of the message, without the bytes that are in the one before.
            word(length - 8) >> (64 - 8 * rest)
        } else {
            let mut bytes = [0; 8];
            // SAFETY: the caller guarantees that the bytes are readable.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), rest) };
            u64::from_ne_bytes(bytes)
        };
        self.words[whole].store(last, Ordering::Relaxed);
    }
}

/// A place of a long message: copied in pieces as wide as the processor has. The order of the words
/// does not matter, and only the copy is read. The loom models use words only.
impl Place {
    /// # Safety
    /// As for `fill`.
    #[inline(always)]
    unsafe fn copy_in(&self, from: *const u8, length: usize) {
        // SAFETY: the caller guarantees that the bytes are readable; the place belongs to the
        // writer until the mark is stored.
        #[cfg(not(loom))]
        unsafe {
            copy_inline(from, self.words.as_ptr().cast_mut().cast(), length);
        }
        #[cfg(loom)]
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe {
            self.fill(from, length);
        }
    }

    /// # Safety
    /// There is room for `length` bytes, at most `MOST`.
    #[inline(always)]
    unsafe fn copy_out(&self, to: *mut u8, length: usize) {
        // SAFETY: the caller guarantees the room.
        #[cfg(not(loom))]
        unsafe {
            copy_inline(self.words.as_ptr().cast(), to, length);
        }
        #[cfg(loom)]
        for (at, word) in self.words[..length / 8].iter().enumerate() {
            // SAFETY: the caller guarantees the room; the model's messages are whole words.
            unsafe { to.cast::<u64>().add(at).write_unaligned(word.load(Ordering::Relaxed)) };
        }
    }
}

/// The memory that both sides have mapped. All zero at first.
#[repr(C)]
pub(crate) struct Lines {
    /// Written by the reader: nothing must be put here.
    asleep: Alone,
    /// Written by the reader: places taken.
    taken: Alone,
    places: [Place; PLACES as usize],
}

impl Lines {
    #[inline(always)]
    fn at(&self, number: u32) -> &Place {
        &self.places[(number % PLACES) as usize]
    }
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            asleep: Alone::default(),
            taken: Alone::default(),
            places: std::array::from_fn(|_| Place::default()),
        }
    }
}

/// The result of a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// The message must go another way.
    Refused,
    Done,
    /// The message is there, but the reader may have gone to sleep before it could see it.
    DoneAndAsleep,
}

/// The side that puts messages in. Belongs to one thread at a time.
pub(crate) struct Writer {
    lines: *const Lines,
    /// Places filled.
    put: Cell<u32>,
    /// The box is full at this number of places.
    full_at: Cell<u32>,
}

impl Writer {
    /// # Safety
    /// The lines outlive it, and this is their only writer.
    pub(crate) unsafe fn new(lines: *const Lines) -> Self {
        Writer { lines, put: Cell::new(0), full_at: Cell::new(PLACES) }
    }

    #[inline(always)]
    fn lines(&self) -> &Lines {
        // SAFETY: the caller of `new` guaranteed it.
        unsafe { &*self.lines }
    }

    #[inline(always)]
    fn next(&self) -> &Place {
        self.lines().at(self.put.get())
    }

    /// Puts in a message of `LEAST` to `MOST` bytes.
    ///
    /// # Safety
    /// `length` bytes are readable.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, from: *const u8, length: usize) -> Put {
        debug_assert!((LEAST..=MOST).contains(&length));
        let put = self.put.get();
        if self.refuses(1) {
            return Put::Refused;
        }
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe { self.next().fill(from, length) };
        self.put.set(put.wrapping_add(1));
        self.mark(put, length)
    }

    /// Puts in a message that takes several places: `MOST` bytes at `first`, and `length` more at
    /// `rest`.
    ///
    /// # Safety
    /// Both parts are readable.
    pub(crate) unsafe fn put_long(&self, first: *const u8, rest: *const u8, length: usize) -> Put {
        let (put, count) = (self.put.get(), 1 + places(length));
        debug_assert!(MOST + length <= LONGEST);
        if self.refuses(count) {
            return Put::Refused;
        }
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe { self.next().copy_in(first, MOST) };
        let mut from = 0;
        for number in (1..count).map(|at| put.wrapping_add(at)) {
            let (place, part) = (self.lines().at(number), (length - from).min(MOST));
            // The number before the one that a message starting here would have, so it is never
            // taken for a message.
            place.mark.store(u64::from(number) << 32, Ordering::Relaxed);
            // SAFETY: the caller guarantees that the bytes are readable.
            unsafe { place.copy_in(rest.add(from), part) };
            from += part;
        }
        self.put.set(put.wrapping_add(count));
        self.mark(put, MOST + length)
    }

    /// The message that starts at this place is complete.
    #[inline(always)]
    fn mark(&self, first: u32, length: usize) -> Put {
        let (lines, mark) = (self.lines(), &self.lines().at(first).mark);
        let number = u64::from(first.wrapping_add(1));
        let store = || mark.store(number << 32 | length as u64, Ordering::Release);
        if store_then_load(store, || lines.asleep.0.load(Ordering::Relaxed)) != 0 {
            return Put::DoneAndAsleep;
        }
        Put::Done
    }

    /// The reader sleeps, or there is no room for this many places.
    #[inline(always)]
    fn refuses(&self, count: u32) -> bool {
        self.lines().asleep.0.load(Ordering::Relaxed) != 0
            || (self.full_at.get().wrapping_sub(self.put.get()) < count && !self.has_room(count))
    }

    /// At the last check there was not enough room for `count` places: reads again what the reader
    /// has taken.
    #[cold]
    fn has_room(&self, count: u32) -> bool {
        // Written by another process. A wrong value damages only what that process reads.
        let full_at = self.lines().taken.0.load(Ordering::Acquire).wrapping_add(PLACES);
        self.full_at.set(full_at);
        full_at.wrapping_sub(self.put.get()) >= count
    }

    /// A message will probably be put in soon: fetches the cache line for it, which is in the
    /// reader's cache.
    #[inline(always)]
    pub(crate) fn prepare(&self) {
        let place = std::ptr::from_ref(self.next());
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: fetches a line, and changes nothing; processors that do not know it do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(loom)))]
        // SAFETY: fetches a line, and changes nothing.
        unsafe {
            std::arch::asm!(
                "prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags)
            );
        }
        let _ = place;
    }
}

/// A message with an impossible length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonsense;

/// The side that takes messages out. Belongs to one thread at a time.
pub(crate) struct Reader {
    lines: *const Lines,
    /// Places emptied.
    taken: Cell<u32>,
}

impl Reader {
    /// A new reader, at first asleep, so that the writer puts nothing in.
    ///
    /// # Safety
    /// The lines outlive it, and this is their only reader.
    pub(crate) unsafe fn new(lines: *const Lines) -> Self {
        let reader = Reader { lines, taken: Cell::new(0) };
        reader.lines().asleep.0.store(1, Ordering::Relaxed);
        reader
    }

    #[inline(always)]
    fn lines(&self) -> &Lines {
        // SAFETY: the caller of `new` guaranteed it.
        unsafe { &*self.lines }
    }

    /// The place and length of the next message, if it is there.
    #[inline(always)]
    fn next(&self) -> Option<(&Place, usize)> {
        let place = self.lines().at(self.taken.get());
        let mark = place.mark.load(Ordering::Acquire);
        ((mark >> 32) as u32 == self.taken.get().wrapping_add(1))
            .then_some((place, mark as u32 as usize))
    }

    #[inline(always)]
    pub(crate) fn has_message(&self) -> bool {
        self.next().is_some()
    }

    /// Takes out the next message, if there is one, and returns its bytes, from `LEAST` to
    /// `LONGEST`. If they are more than `MOST`, `into` has the first `MOST`, and `take_rest` must
    /// follow.
    #[inline(always)]
    pub(crate) fn take(&self, into: &mut [u64; WORDS]) -> Option<Result<usize, Nonsense>> {
        let (place, length) = self.next()?;
        if !(LEAST..=LONGEST).contains(&length) {
            return Some(Err(Nonsense));
        }
        for (to, from) in into.iter_mut().zip(&place.words[..length.min(MOST).div_ceil(8)]) {
            *to = from.load(Ordering::Relaxed);
        }
        if length <= MOST {
            self.took(1);
        }
        Some(Ok(length))
    }

    /// Copies what `take` has left of a message of that length.
    ///
    /// # Safety
    /// There is room for it.
    pub(crate) unsafe fn take_rest(&self, length: usize, to: *mut u8) {
        let (count, length) = (places(length), length - MOST);
        for place in 1..count {
            let at = (place - 1) as usize * MOST;
            let from = self.lines().at(self.taken.get().wrapping_add(place));
            // SAFETY: the caller guarantees the room.
            unsafe { from.copy_out(to.add(at), (length - at).min(MOST)) };
        }
        self.took(count);
    }

    #[inline(always)]
    fn took(&self, count: u32) {
        let before = self.taken.get();
        let taken = before.wrapping_add(count);
        self.taken.set(taken);
        if taken / TOLD_EACH != before / TOLD_EACH {
            self.lines().taken.0.store(taken, Ordering::Release);
        }
    }

    /// Nothing must be put in from now on. Takes effect with the next barrier for all processes.
    /// False if this was so already.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.lines().asleep.0.swap(1, Ordering::SeqCst) == 0
    }

    /// Messages may be put in again. If that is so already, the line is not written, because the
    /// writer has it in its cache.
    pub(crate) fn wake_up(&self) {
        let asleep = &self.lines().asleep.0;
        if asleep.load(Ordering::Relaxed) != 0 {
            asleep.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "shm_ring_tests.rs"]
mod tests;
