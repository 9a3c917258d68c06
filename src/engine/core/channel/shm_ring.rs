//! A fast box: short messages from one worker to another one of the same host, through memory that
//! both have mapped (as Open MPI's and MPICH's, from where the name is).
//!
//! A ring of places, each of two cache lines, with one writer and one reader. The writer puts a
//! message's words down, and then its mark, by which the reader knows that it is there: the
//! message's number in the order of the box and its length. The reader tells now and then how many
//! it has taken. A box that is full, or whose reader sleeps, takes nothing: then the message goes
//! another way, and nobody waits for anything here.
//!
//! A longer message takes several places in a row. The reader looks at the mark of the first alone;
//! the others get marks that none looks for, so that none is ever mistaken for a message. Numbers
//! count places.
//!
//! **Sleep.** Who is about to sleep says so, has the kernel make a barrier for everybody (see
//! `base::membarrier`), and looks into its boxes for the last time. A writer looks whether the
//! reader sleeps after it has put its mark down: so either the reader sees the message, or the
//! writer sees that it has to wake it. It costs the writer one load of a line that hardly ever
//! changes.
//!
//! What stands in a box was written by another process, which may change it at any time: it is
//! copied, and the copy alone is looked at, and believed no more than what comes over a network. Of
//! the other side's numbers none is used to find a place in memory.

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
/// Bytes of the longest message: beyond that UCX is faster. The model checker has short ones, and
/// few places.
pub(crate) const LONGEST: usize = if cfg!(loom) { 2 * MOST } else { (1 << 10) + MOST };
/// More than as many messages as a connection has credit for, so that one that needs credit finds
/// room, where longer ones and answers have not taken that.
pub(crate) const PLACES: u32 = if cfg!(loom) { 4 } else { 512 };
/// The reader tells what it has taken each time it has taken so many.
const TOLD_EACH: u32 = if cfg!(loom) { 2 } else { 64 };
const _: () = assert!(places(LONGEST) + TOLD_EACH <= PLACES);

/// How many places a message takes.
const fn places(length: usize) -> u32 {
    length.div_ceil(MOST) as u32
}

/// A number that has two cache lines to itself, as processors fetch them in pairs.
#[derive(Default)]
#[repr(C, align(128))]
struct Alone(AtomicU32);

#[derive(Default)]
#[repr(C, align(128))]
struct Place {
    /// The number of the message's first place, from 1 on, in the upper half, and its bytes.
    mark: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl Place {
    /// # Safety
    /// So many bytes are there to be read, at most `MOST`.
    #[inline(always)]
    unsafe fn fill(&self, from: *const u8, length: usize) {
        // SAFETY: as for this function.
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
            // The last word of the message, less what is in the one before.
            word(length - 8) >> (64 - 8 * rest)
        } else {
            let mut bytes = [0; 8];
            // SAFETY: as for this function.
            unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), rest) };
            u64::from_ne_bytes(bytes)
        };
        self.words[whole].store(last, Ordering::Relaxed);
    }
}

/// Of a long message: in pieces as wide as the processor has them, where the order of the words
/// counts for nothing, and the copy alone is looked at. The model checker knows only words.
impl Place {
    /// # Safety
    /// As for `fill`.
    #[inline(always)]
    unsafe fn copy_in(&self, from: *const u8, length: usize) {
        // SAFETY: as for this function; the place is the writer's until its mark says so.
        #[cfg(not(loom))]
        unsafe {
            copy_inline(from, self.words.as_ptr().cast_mut().cast(), length);
        }
        #[cfg(loom)]
        // SAFETY: as for this function.
        unsafe {
            self.fill(from, length);
        }
    }

    /// # Safety
    /// There is room for so many bytes, at most `MOST`.
    #[inline(always)]
    unsafe fn copy_out(&self, to: *mut u8, length: usize) {
        // SAFETY: as for this function.
        #[cfg(not(loom))]
        unsafe {
            copy_inline(self.words.as_ptr().cast(), to, length);
        }
        #[cfg(loom)]
        for (at, word) in self.words[..length / 8].iter().enumerate() {
            // SAFETY: as for this function; the model's messages are whole words.
            unsafe { to.cast::<u64>().add(at).write_unaligned(word.load(Ordering::Relaxed)) };
        }
    }
}

/// What both sides have mapped. All zero at first.
#[repr(C)]
pub(crate) struct Lines {
    /// Of the reader: nothing is to be put here.
    asleep: Alone,
    /// Of the reader: places taken.
    taken: Alone,
    places: [Place; PLACES as usize],
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

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// It has to go another way.
    Refused,
    Done,
    /// It is there, and whoever is to read it may have gone to sleep before it could be seen.
    DoneAndAsleep,
}

/// The side that puts messages in. Belongs to one thread at a time.
pub(crate) struct Writer {
    lines: *const Lines,
    /// Places filled.
    put: Cell<u32>,
    /// The box is full when there are so many.
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
        // SAFETY: as `new` was promised.
        unsafe { &*self.lines }
    }

    #[inline(always)]
    fn next(&self) -> &Place {
        self.at(self.put.get())
    }

    #[inline(always)]
    fn at(&self, number: u32) -> &Place {
        &self.lines().places[(number % PLACES) as usize]
    }

    /// Puts a message in, of `LEAST` bytes to `MOST`.
    ///
    /// # Safety
    /// So many bytes are there to be read.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, from: *const u8, length: usize) -> Put {
        debug_assert!((LEAST..=MOST).contains(&length));
        let (lines, put) = (self.lines(), self.put.get());
        if lines.asleep.0.load(Ordering::Relaxed) != 0
            || (put == self.full_at.get() && !self.has_room(1))
        {
            return Put::Refused;
        }
        // SAFETY: as for this function.
        unsafe { self.next().fill(from, length) };
        self.put.set(put.wrapping_add(1));
        self.mark(put, length)
    }

    /// Puts a message in that takes several places: `MOST` bytes of it lie at `first`, the others
    /// at `rest`.
    ///
    /// # Safety
    /// So many bytes are there to be read.
    pub(crate) unsafe fn put_long(&self, first: *const u8, rest: *const u8, length: usize) -> Put {
        let (put, count) = (self.put.get(), 1 + places(length));
        debug_assert!(MOST + length <= LONGEST);
        if self.lines().asleep.0.load(Ordering::Relaxed) != 0
            || (self.full_at.get().wrapping_sub(put) < count && !self.has_room(count))
        {
            return Put::Refused;
        }
        // SAFETY: as for this function.
        unsafe { self.next().copy_in(first, MOST) };
        let mut from = 0;
        for number in (1..count).map(|at| put.wrapping_add(at)) {
            let (place, part) = (self.at(number), (length - from).min(MOST));
            // The number before the one that a message would have that begins here.
            place.mark.store(u64::from(number) << 32, Ordering::Relaxed);
            // SAFETY: as for this function.
            unsafe { place.copy_in(rest.add(from), part) };
            from += part;
        }
        self.put.set(put.wrapping_add(count));
        self.mark(put, MOST + length)
    }

    /// What begins at this place is complete.
    #[inline(always)]
    fn mark(&self, first: u32, length: usize) -> Put {
        let (lines, mark) = (self.lines(), &self.at(first).mark);
        let number = u64::from(first.wrapping_add(1));
        let store = || mark.store(number << 32 | length as u64, Ordering::Release);
        if store_then_load(store, || lines.asleep.0.load(Ordering::Relaxed)) != 0 {
            return Put::DoneAndAsleep;
        }
        Put::Done
    }

    /// There were fewer places than so many when this was last asked.
    #[cold]
    fn has_room(&self, count: u32) -> bool {
        // What another process says: a lie harms what it is to read, and nothing else.
        let full_at = self.lines().taken.0.load(Ordering::Acquire).wrapping_add(PLACES);
        self.full_at.set(full_at);
        full_at.wrapping_sub(self.put.get()) >= count
    }

    /// A message is likely to be put in soon: the line that it goes into is fetched meanwhile,
    /// which the reader has in its own cache.
    #[inline(always)]
    pub(crate) fn prepare(&self) {
        let place = std::ptr::from_ref(self.next());
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        // SAFETY: fetches a line, and changes nothing; processors that do not know it do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags));
        }
        #[cfg(all(target_arch = "aarch64", not(loom)))]
        // SAFETY: as above.
        unsafe {
            std::arch::asm!(
                "prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags)
            );
        }
        let _ = place;
    }
}

/// A message of a length that none has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Nonsense;

/// The side that takes them out. Belongs to one thread at a time.
pub(crate) struct Reader {
    lines: *const Lines,
    /// Places emptied.
    taken: Cell<u32>,
}

impl Reader {
    /// The writer is not to put anything in at first.
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
        // SAFETY: as `new` was promised.
        unsafe { &*self.lines }
    }

    /// The length of the next message, if it is there.
    #[inline(always)]
    fn next(&self) -> Option<(&Place, usize)> {
        let place = &self.lines().places[(self.taken.get() % PLACES) as usize];
        let mark = place.mark.load(Ordering::Acquire);
        ((mark >> 32) as u32 == self.taken.get().wrapping_add(1))
            .then_some((place, mark as u32 as usize))
    }

    #[inline(always)]
    pub(crate) fn has_message(&self) -> bool {
        self.next().is_some()
    }

    /// Takes the next message out, if there is one: its bytes, from `LEAST` to `LONGEST`. Of one
    /// with more than `MOST` these are its first, and `take_rest` is to follow.
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

    /// What `take` has left of a message of that length.
    ///
    /// # Safety
    /// There is room for it.
    pub(crate) unsafe fn take_rest(&self, length: usize, to: *mut u8) {
        let (count, length) = (places(length), length - MOST);
        for place in 1..count {
            let at = (place - 1) as usize * MOST;
            let from =
                &self.lines().places[(self.taken.get().wrapping_add(place) % PLACES) as usize];
            // SAFETY: as for this function.
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

    /// Nothing is to be put in from now on. False if that was so before; else it counts from the
    /// next barrier for everybody on.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.lines().asleep.0.swap(1, Ordering::SeqCst) == 0
    }

    /// Messages may be put in again. Where that is so already the line is left alone, which the
    /// writer has in its cache.
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
