//! A fast box: short messages from one worker to another one of the same host, through memory that
//! both have mapped (as Open MPI's and MPICH's, from where the name is).
//!
//! A ring of places, each of two cache lines, with one writer and one reader. The writer puts a
//! message's words down, and then its mark, by which the reader knows that it is there: the
//! message's number in the order of the box and its length. The reader tells now and then how many
//! it has taken. A box that is full, or whose reader sleeps, takes nothing: then the message goes
//! another way, and nobody waits for anything here.
//!
//! **Sleep.** Who is about to sleep says so, has the kernel make a barrier for everybody (see
//! `base::membarrier`), and looks into its boxes for the last time. A writer looks whether the
//! reader sleeps after it has put its mark down: so either the reader sees the message, or the
//! writer sees that it has to wake it. It costs the writer one load of a line that hardly ever
//! changes.
//!
//! What stands in a box was written by another process, which may change it at any time: each word
//! is read once, and believed no more than what comes over a network. Of the other side's numbers
//! none is used to find a place in memory.

use crate::engine::base::membarrier::store_then_load;
use crate::engine::base::sync::{AtomicU32, AtomicU64, Ordering};
use std::cell::Cell;

/// Words of a message at most.
pub(crate) const WORDS: usize = 15;
/// Bytes of the shortest and of the longest one.
pub(crate) const LEAST: usize = 16;
pub(crate) const MOST: usize = WORDS * 8;
/// As many messages as a connection has credit for, so that one that needs credit finds room, where
/// answers have not taken that. The model checker has few.
pub(crate) const PLACES: u32 = if cfg!(loom) { 2 } else { 256 };
/// The reader tells what it has taken each time it has taken so many.
const TOLD_EACH: u32 = if cfg!(loom) { 2 } else { PLACES / 4 };

/// A number that has two cache lines to itself, as processors fetch them in pairs.
#[derive(Default)]
#[repr(C, align(128))]
struct Alone(AtomicU32);

#[derive(Default)]
#[repr(C, align(128))]
struct Place {
    /// The message's number, from 1 on, in the upper half, and its bytes.
    mark: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// What both sides have mapped. All zero at first.
#[repr(C)]
pub(crate) struct Lines {
    /// Of the reader: nothing is to be put here.
    asleep: Alone,
    /// Of the reader: messages taken.
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
    /// Messages put in.
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
        &self.lines().places[(self.put.get() % PLACES) as usize]
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
            || (put == self.full_at.get() && !self.has_room())
        {
            return Put::Refused;
        }
        let place = self.next();
        // SAFETY: as for this function.
        let word = |at: usize| unsafe { from.add(at).cast::<u64>().read_unaligned() };
        let whole = length / 8;
        for (index, to) in place.words[..whole].iter().enumerate() {
            to.store(word(8 * index), Ordering::Relaxed);
        }
        let rest = length % 8;
        if rest > 0 {
            // The last word of the message, less what is in the one before.
            place.words[whole].store(word(length - 8) >> (64 - 8 * rest), Ordering::Relaxed);
        }
        let put = put.wrapping_add(1);
        self.put.set(put);
        let store = || place.mark.store(u64::from(put) << 32 | length as u64, Ordering::Release);
        if store_then_load(store, || lines.asleep.0.load(Ordering::Relaxed)) != 0 {
            return Put::DoneAndAsleep;
        }
        Put::Done
    }

    /// It was full when this was last asked.
    #[cold]
    fn has_room(&self) -> bool {
        // What another process says: a lie harms what it is to read, and nothing else.
        let full_at = self.lines().taken.0.load(Ordering::Acquire).wrapping_add(PLACES);
        self.full_at.set(full_at);
        full_at != self.put.get()
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
    /// Messages taken out.
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

    /// Takes the next message out, if there is one: its bytes, from `LEAST` to `MOST`.
    #[inline(always)]
    pub(crate) fn take(&self, into: &mut [u64; WORDS]) -> Option<Result<usize, Nonsense>> {
        let (place, length) = self.next()?;
        if !(LEAST..=MOST).contains(&length) {
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
        Some(Ok(length))
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
mod tests {
    use super::*;
    use crate::engine::base::seed::Random;

    struct Ends {
        lines: Box<Lines>,
        writer: Writer,
        reader: Reader,
    }

    fn ends() -> Ends {
        let lines = Box::<Lines>::default();
        // SAFETY: they go before the lines, and are the only ones.
        let (writer, reader) =
            unsafe { (Writer::new(&raw const *lines), Reader::new(&raw const *lines)) };
        Ends { lines, writer, reader }
    }

    fn put(writer: &Writer, message: &[u8]) -> Put {
        // SAFETY: as long as it is.
        unsafe { writer.put(message.as_ptr(), message.len()) }
    }

    fn message(number: u32, length: usize) -> Vec<u8> {
        (0..length).map(|at| (number as usize * 31 + at) as u8).collect()
    }

    fn take(reader: &Reader) -> Option<Result<Vec<u8>, Nonsense>> {
        let mut words = [0; WORDS];
        let taken = reader.take(&mut words)?;
        Some(
            taken.map(|length| {
                words.iter().flat_map(|word| word.to_ne_bytes()).take(length).collect()
            }),
        )
    }

    #[test]
    fn what_goes_in_comes_out_at_every_length() {
        let Ends { writer, reader, lines: _lines } = ends();
        reader.wake_up();
        for round in 0..10 {
            for length in LEAST..=MOST {
                let sent = message(round * 1000 + length as u32, length);
                assert_eq!(put(&writer, &sent), Put::Done);
                assert!(reader.has_message());
                assert_eq!(take(&reader), Some(Ok(sent)));
                assert_eq!(take(&reader), None);
            }
        }
    }

    #[test]
    fn a_full_box_refuses_and_goes_on_when_it_was_told() {
        let Ends { writer, reader, lines: _lines } = ends();
        reader.wake_up();
        let mut number = 0;
        for _ in 0..3 {
            (0..PLACES)
                .for_each(|at| assert_eq!(put(&writer, &message(number + at, 24)), Put::Done));
            assert_eq!(put(&writer, &message(7, 24)), Put::Refused);
            for at in 0..PLACES {
                assert_eq!(take(&reader), Some(Ok(message(number + at, 24))));
            }
            assert_eq!(take(&reader), None);
            number += PLACES;
            // What has not been told yet.
            let untold = number % TOLD_EACH;
            (untold..PLACES)
                .for_each(|_| assert_eq!(put(&writer, &message(number, 16)), Put::Done));
            while take(&reader).is_some() {
                number += 1;
            }
            while number % TOLD_EACH != 0 {
                assert_eq!(put(&writer, &message(number, 16)), Put::Done);
                assert!(take(&reader).is_some());
                number += 1;
            }
        }
    }

    #[test]
    fn one_that_sleeps_gets_nothing() {
        let Ends { writer, reader, lines: _lines } = ends();
        assert_eq!(put(&writer, &message(1, 16)), Put::Refused, "as it is at first");
        assert!(!reader.fall_asleep(), "it was asleep");
        reader.wake_up();
        assert_eq!(put(&writer, &message(1, 16)), Put::Done);
        assert!(reader.fall_asleep() && reader.has_message());
        assert_eq!(put(&writer, &message(2, 16)), Put::Refused);
        assert_eq!(take(&reader), Some(Ok(message(1, 16))));
        assert!(!reader.has_message());
    }

    #[test]
    fn numbers_wrap_around() {
        let Ends { writer, reader, lines } = ends();
        reader.wake_up();
        let start = 0u32.wrapping_sub(PLACES);
        writer.put.set(start);
        writer.full_at.set(start);
        reader.taken.set(start);
        lines.taken.0.store(start, Ordering::Relaxed);
        for number in 0..3 * PLACES {
            assert_eq!(put(&writer, &message(number, 40)), Put::Done);
            assert_eq!(take(&reader), Some(Ok(message(number, 40))));
        }
    }

    #[test]
    fn what_a_liar_writes_is_nonsense_or_a_message_of_its_own() {
        let random = &mut Random::announced();
        let Ends { writer: _, reader, lines } = ends();
        for _ in 0..100_000 {
            let expected = reader.taken.get().wrapping_add(1);
            let number = [expected, expected, random.next() as u32][random.below(3)];
            let length =
                [random.below(MOST + 9) as u64, random.next() & 0xffff_ffff][random.below(2)];
            let place = &lines.places[(reader.taken.get() % PLACES) as usize];
            place.mark.store(u64::from(number) << 32 | length, Ordering::Relaxed);
            let taken = take(&reader);
            let sane = (LEAST as u64..=MOST as u64).contains(&length);
            match (number == expected, sane) {
                (false, _) => assert_eq!(taken, None),
                (true, false) => assert_eq!(taken, Some(Err(Nonsense))),
                (true, true) => assert_eq!(taken.unwrap().unwrap().len(), length as usize),
            }
        }
        // And of what the reader has taken.
        let Ends { writer, reader, lines } = ends();
        reader.wake_up();
        for _ in 0..10_000 {
            lines.taken.0.store(random.next() as u32, Ordering::Relaxed);
            put(&writer, &message(1, 16 + random.below(100)));
        }
    }

    #[test]
    fn two_threads_lose_nothing_and_keep_the_order() {
        struct Shared<T>(T);
        // SAFETY: each side is used by one thread.
        unsafe impl<T> Send for Shared<T> {}
        const MESSAGES: u32 = 200_000;
        let Ends { writer, reader, lines } = ends();
        reader.wake_up();
        let writer = Shared(writer);
        let sender = std::thread::spawn(move || {
            let writer = writer;
            for number in 0..MESSAGES {
                while put(&writer.0, &message(number, LEAST + number as usize % (MOST - LEAST)))
                    != Put::Done
                {
                    std::thread::yield_now();
                }
            }
        });
        for number in 0..MESSAGES {
            let taken = loop {
                match take(&reader) {
                    Some(taken) => break taken.unwrap(),
                    None => std::thread::yield_now(),
                }
            };
            assert_eq!(taken, message(number, LEAST + number as usize % (MOST - LEAST)));
        }
        sender.join().unwrap();
        drop(lines);
    }
}
