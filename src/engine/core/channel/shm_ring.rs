//! A fast box: messages from one worker to another worker of the same host, through memory
//! that both have mapped (as in Open MPI and MPICH, from where the name is).
//!
//! # Layout
//!
//! A ring of places, each of two cache lines, with one writer and one reader. A place has a
//! message's words and a mark: the number of the place, and the message's lengths. The data of a
//! longer message is in an area beside the places, in one piece. It begins where the data before it
//! ends, or at the beginning of the area if it would not fit: both sides compute that from its
//! length.
//!
//! If the box is full, or its reader sleeps, a put is refused, and the message goes another way. No
//! thread waits here.
//!
//! # Lending
//!
//! A place is free as soon as its words were copied. Data in the area may be lent to whoever gets
//! the message, and is free when it was given back, and so was all data before it. A reader that
//! lends too much at a time copies, so that the box fills up only if the oldest data is kept.
//!
//! # Publication
//!
//! - `mark`: stored with Release after the words; the reader loads it with Acquire.
//! - `taken`, `freed`: stored with Release by the reader from time to time; the writer loads them
//!   with Acquire before it reuses places or the area.
//! - `asleep`: a reader that is about to sleep sets it, makes the kernel run a barrier on all
//!   processes (see `base::membarrier`), and checks its boxes once more. A writer reads it after it
//!   has stored a mark. So either the reader sees the message, or the writer sees that it must wake
//!   the reader. This costs the writer one load of a line that rarely changes.
//!
//! # Trust
//!
//! Another process writes the contents of a box, and may change them at any time. So a message's
//! words are copied, and only the copy is read, with the same checks as a message from a network.
//! Data in the area is passed on unread, as data in UCX's shared memory is. No number from the
//! other side is used to find a place in memory, except a length that was checked.

use crate::engine::base::membarrier::store_then_load;
use crate::engine::base::sync::{AtomicU32, AtomicU64, Ordering};
use std::cell::Cell;

/// Words of a place.
pub(crate) const WORDS: usize = 15;
/// Fewest and most bytes of a message in its place.
pub(crate) const LEAST: usize = 16;
pub(crate) const MOST: usize = WORDS * 8;
/// More than the number of messages for which a connection has credit, so that a message with
/// credit finds room unless replies have taken it. The loom models have few places, and a small
/// area.
pub(crate) const PLACES: u32 = if cfg!(loom) { 4 } else { 512 };
/// The reader reports what it has taken whenever it has taken this many places.
const TOLD_EACH: u32 = if cfg!(loom) { 2 } else { 64 };
/// Bytes of the area.
const AREA: u32 = if cfg!(loom) { 64 } else { 1 << 17 };
/// Most bytes of a message's data in the area.
pub(crate) const LONGEST: usize = if cfg!(loom) { 16 } else { 1 << 14 };
/// Data begins at multiples of this: cache lines.
const LINE: u32 = if cfg!(loom) { 16 } else { 64 };
/// The reader reports what is free in the area whenever this much more is.
const FREED_EACH: u32 = AREA / 8;
/// Most pieces of data that are lent at a time.
const LENDABLE: u32 = u64::BITS;
// Data may leave almost its own length unused before it.
const _: () = assert!(AREA.is_power_of_two() && 2 * LONGEST as u32 + FREED_EACH <= AREA);

/// Where data goes after the first `used` bytes that went through the area: its beginning and its
/// end, which both count from the first byte ever.
fn span(used: u32, length: usize) -> (u32, u32) {
    let (length, left) = ((length as u32).next_multiple_of(LINE), AREA - used % AREA);
    let begin = if left < length { used.wrapping_add(left) } else { used };
    (begin, begin.wrapping_add(length))
}

/// A number in its own two cache lines, because processors fetch them in pairs.
#[derive(Default)]
#[repr(C, align(128))]
struct Alone(AtomicU32);

#[derive(Default)]
#[repr(C, align(128))]
struct Place {
    /// Upper half: the number of the place, from 1. Lower half: the message's bytes here, and from
    /// bit 8 on its bytes in the area.
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

/// The memory that both sides have mapped. All zero at first.
#[repr(C)]
pub(crate) struct Lines {
    /// Written by the reader: nothing must be put here.
    asleep: Alone,
    /// Written by the reader: places taken.
    taken: Alone,
    /// Written by the reader: bytes of the area that are free again.
    freed: Alone,
    places: [Place; PLACES as usize],
    area: [AtomicU64; AREA as usize / 8],
}

impl Lines {
    #[inline(always)]
    fn at(&self, number: u32) -> &Place {
        &self.places[(number % PLACES) as usize]
    }

    /// The area from here on.
    #[inline(always)]
    fn area_at(&self, begin: u32) -> &[AtomicU64] {
        &self.area[(begin % AREA) as usize / 8..]
    }
}

impl Default for Lines {
    fn default() -> Self {
        Lines {
            asleep: Alone::default(),
            taken: Alone::default(),
            freed: Alone::default(),
            places: std::array::from_fn(|_| Place::default()),
            area: std::array::from_fn(|_| AtomicU64::default()),
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
    /// Bytes of the area used.
    used: Cell<u32>,
    /// The area is full at this number of bytes.
    area_full_at: Cell<u32>,
}

impl Writer {
    /// # Safety
    /// The lines outlive it, and this is their only writer.
    pub(crate) unsafe fn new(lines: *const Lines) -> Self {
        let (full_at, area_full_at) = (Cell::new(PLACES), Cell::new(AREA));
        Writer { lines, put: Cell::new(0), full_at, used: Cell::new(0), area_full_at }
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
        if self.refuses() {
            return Put::Refused;
        }
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe { self.fill_next(from, length, 0) }
    }

    /// The same for a message with data that goes into the area: 1 to `LONGEST` bytes.
    ///
    /// # Safety
    /// Both are readable.
    pub(crate) unsafe fn put_beside(
        &self,
        (from, length): (*const u8, usize),
        (data, data_length): (*const u8, usize),
    ) -> Put {
        debug_assert!((1..=LONGEST).contains(&data_length));
        let (begin, end) = span(self.used.get(), data_length);
        if self.refuses() || self.lacks(end) {
            return Put::Refused;
        }
        let to = self.lines().area_at(begin);
        // SAFETY: the caller guarantees that the bytes are readable. `span` leaves room for them,
        // and the reader has freed it: see `lacks`. The order of the bytes does not matter.
        #[cfg(not(loom))]
        unsafe {
            data.copy_to_nonoverlapping(to.as_ptr().cast_mut().cast(), data_length);
        }
        #[cfg(loom)]
        for (at, word) in to[..data_length / 8].iter().enumerate() {
            // SAFETY: the caller guarantees that the bytes are readable.
            word.store(unsafe { data.cast::<u64>().add(at).read() }, Ordering::Relaxed);
        }
        self.used.set(end);
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe { self.fill_next(from, length, data_length) }
    }

    /// Fills the next place, which is free, and publishes the message.
    ///
    /// # Safety
    /// As for `put`.
    #[inline(always)]
    unsafe fn fill_next(&self, from: *const u8, length: usize, data_length: usize) -> Put {
        debug_assert!((LEAST..=MOST).contains(&length));
        let (lines, place) = (self.lines(), self.next());
        // SAFETY: the caller guarantees that the bytes are readable.
        unsafe { place.fill(from, length) };
        let number = self.put.get().wrapping_add(1);
        self.put.set(number);
        let mark = u64::from(number) << 32 | (data_length << 8 | length) as u64;
        let store = || place.mark.store(mark, Ordering::Release);
        if store_then_load(store, || lines.asleep.0.load(Ordering::Relaxed)) != 0 {
            return Put::DoneAndAsleep;
        }
        Put::Done
    }

    /// The reader sleeps, or no place is free.
    #[inline(always)]
    fn refuses(&self) -> bool {
        self.lines().asleep.0.load(Ordering::Relaxed) != 0
            || (self.full_at.get() == self.put.get() && self.is_full())
    }

    /// At the last check no place was free: reads again what the reader has taken.
    #[cold]
    fn is_full(&self) -> bool {
        // Written by another process. A wrong value damages only what that process reads.
        let full_at = self.lines().taken.0.load(Ordering::Acquire).wrapping_add(PLACES);
        self.full_at.set(full_at);
        full_at == self.put.get()
    }

    /// The area is not free up to there.
    #[inline(always)]
    fn lacks(&self, end: u32) -> bool {
        let reaches = || self.area_full_at.get().wrapping_sub(end) as i32 >= 0;
        if reaches() {
            return false;
        }
        // Written by another process, as above.
        let freed = self.lines().freed.0.load(Ordering::Acquire);
        self.area_full_at.set(freed.wrapping_add(AREA));
        !reaches()
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

/// A message that was taken out.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// Bytes that were in its place.
    pub(crate) length: usize,
    /// Its data in the area, until `settle`, and its bytes, which are 0 if there is none.
    pub(crate) data: *const u8,
    pub(crate) data_length: usize,
}

/// The side that takes messages out. Belongs to one thread at a time.
pub(crate) struct Reader {
    lines: *const Lines,
    /// Places emptied.
    taken: Cell<u32>,
    /// Bytes of the area up to the end of the last data that was taken out.
    passed: Cell<u32>,
    /// Bytes of the area that are free again.
    freed: Cell<u32>,
    /// Numbers of the oldest data that is lent, and of the next one.
    lent: Cell<(u32, u32)>,
    /// Bit `number % LENDABLE`: was given back, but older data was not.
    back: Cell<u64>,
    /// For each that is lent: what is free when it and all older ones were given back.
    ends: [Cell<u32>; LENDABLE as usize],
}

impl Reader {
    /// A new reader, at first asleep, so that the writer puts nothing in.
    ///
    /// # Safety
    /// The lines outlive it, and this is their only reader.
    pub(crate) unsafe fn new(lines: *const Lines) -> Self {
        let reader = Reader {
            lines,
            taken: Cell::new(0),
            passed: Cell::new(0),
            freed: Cell::new(0),
            lent: Cell::new((0, 0)),
            back: Cell::new(0),
            ends: std::array::from_fn(|_| Cell::new(0)),
        };
        reader.lines().asleep.0.store(1, Ordering::Relaxed);
        reader
    }

    #[inline(always)]
    fn lines(&self) -> &Lines {
        // SAFETY: the caller of `new` guaranteed it.
        unsafe { &*self.lines }
    }

    /// The place and lengths of the next message, if it is there.
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

    /// Takes out the next message, if there is one: copies what is in its place. If it has data,
    /// `settle` must follow.
    #[inline(always)]
    pub(crate) fn take(&self, into: &mut [u64; WORDS]) -> Option<Result<Came, Nonsense>> {
        let (place, lengths) = self.next()?;
        let (length, data_length) = (lengths & 0xff, lengths >> 8);
        if !(LEAST..=MOST).contains(&length) || data_length > LONGEST {
            return Some(Err(Nonsense));
        }
        for (to, from) in into.iter_mut().zip(&place.words[..length.div_ceil(8)]) {
            *to = from.load(Ordering::Relaxed);
        }
        let taken = self.taken.get().wrapping_add(1);
        self.taken.set(taken);
        if taken % TOLD_EACH == 0 {
            self.lines().taken.0.store(taken, Ordering::Release);
        }
        let mut data = std::ptr::null();
        if data_length != 0 {
            let (begin, end) = span(self.passed.get(), data_length);
            self.passed.set(end);
            data = self.lines().area_at(begin).as_ptr().cast();
        }
        Some(Ok(Came { length, data, data_length }))
    }

    /// Lends the data that was taken out last, unless too much is lent already. The number is for
    /// `give_back`.
    #[inline(always)]
    pub(crate) fn lend(&self) -> Option<u8> {
        let (oldest, next) = self.lent.get();
        let kept = self.passed.get().wrapping_sub(self.freed.get());
        if next.wrapping_sub(oldest) == LENDABLE || kept > AREA / 2 {
            return None;
        }
        self.ends[(next % LENDABLE) as usize].set(self.passed.get());
        self.lent.set((oldest, next.wrapping_add(1)));
        Some((next % LENDABLE) as u8)
    }

    /// The data that was taken out last is free, unless it was lent.
    #[inline(always)]
    pub(crate) fn settle(&self) {
        let (oldest, next) = self.lent.get();
        if oldest == next {
            self.is_free(self.passed.get());
        } else {
            // When the last one that is lent is.
            self.ends[(next.wrapping_sub(1) % LENDABLE) as usize].set(self.passed.get());
        }
    }

    /// What was lent is not used any more.
    #[inline(always)]
    pub(crate) fn give_back(&self, number: u8) {
        self.back.set(self.back.get() | 1 << number);
        let (mut oldest, next) = self.lent.get();
        while oldest != next && self.back.get() & 1 << (oldest % LENDABLE) != 0 {
            self.back.set(self.back.get() & !(1 << (oldest % LENDABLE)));
            self.is_free(self.ends[(oldest % LENDABLE) as usize].get());
            oldest = oldest.wrapping_add(1);
        }
        self.lent.set((oldest, next));
    }

    /// Something is lent.
    pub(crate) fn is_lending(&self) -> bool {
        let (oldest, next) = self.lent.get();
        oldest != next
    }

    /// The data is in this box's area.
    pub(crate) fn has_lent(&self, data: *const u8) -> bool {
        self.lines().area.as_ptr_range().contains(&data.cast())
    }

    #[inline(always)]
    fn is_free(&self, end: u32) {
        if end / FREED_EACH != self.freed.replace(end) / FREED_EACH {
            self.lines().freed.0.store(end, Ordering::Release);
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
