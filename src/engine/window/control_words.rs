//! The control words of a window in one process, in memory that the processes of a host share.
//!
//! Each process has some of its own, and reads and writes those of the others. Everything is a
//! lock's, or a word that one process alone writes and that only grows: so a signal is one store,
//! nothing is ever reset, and a process that dies in between leaves nothing half done. What stands
//! here may have been written by a process that has gone wrong: it is compared and counted, never
//! used as an address.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::futex::SharedWord;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::sync::SpinWait;
use crate::engine::os::shared_segment::Segment;
use crate::engine::window::data::exclusive_bulk::{self, Bulk, Lanes};
use crate::engine::window::delegation::slot::Slot;
use crate::engine::window::lock::rw_lock::WindowLock;
use crate::engine::window::window::Flavor;
use std::sync::atomic::{fence, AtomicU32, AtomicU64, Ordering};

/// Rounds of a barrier of as many processes as there can be.
const ROUNDS: usize = 32;
/// Regions that a dynamic window has at once.
pub const MOST_REGIONS: usize = 1024;
/// Looks at regions that change all the time, before it is asked whether their process lives.
const LOOKS: u32 = 1_000;

/// What there is once.
#[repr(C)]
struct Head {
    /// 1 while the process of these words sleeps on it, or is about to: for a signal of another
    /// one.
    bell: SharedWord,
    _bell_alone: CacheLine,
    /// Why the process takes part in nothing any more; 0 while it does.
    ended: AtomicU64,
    _ended_alone: CacheLine,
    /// What the process says of the hints, while they are being changed.
    hints: [AtomicU64; 2],
    _hints_alone: CacheLine,
    /// Barriers that the process so far behind has reached, by round.
    rounds: [Line; ROUNDS],
}

#[repr(C)]
struct Line {
    word: AtomicU64,
    _alone: CacheLine,
}

/// What another process tells this one.
#[repr(C)]
pub struct Signals {
    /// How often it has posted.
    pub posted: AtomicU64,
    /// How often it has completed.
    pub completed: AtomicU64,
    _alone: CacheLine,
}

/// Regions of memory, sorted, that do not overlap. An odd version says that they are being changed.
#[repr(C)]
struct Regions {
    version: AtomicU64,
    count: AtomicU32,
    _alone: CacheLine,
    list: [[AtomicU64; 2]; MOST_REGIONS],
}

/// A view of them.
pub struct Control {
    segment: Segment,
    ranks: u32,
    has_mail: bool,
}

/// Why a process takes part in nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// What others get.
    pub status: Status,
    /// Whose fault it was.
    pub blamed: u32,
}

impl Ended {
    /// In a word, which is not 0.
    pub(crate) fn encode(self) -> u64 {
        u64::from(self.status.0.unsigned_abs()) << 32 | u64::from(self.blamed)
    }

    pub(crate) fn decode(word: u64) -> Option<Self> {
        let ended =
            Ended { status: Status(-((word >> 32) as i32 & i32::MAX)), blamed: word as u32 };
        (word != 0).then_some(ended)
    }
}

const fn aligned(bytes: usize) -> usize {
    bytes.next_multiple_of(64)
}

impl Control {
    /// Bytes of it.
    pub fn bytes(ranks: u32, flavor: Flavor) -> usize {
        Self::more_at(ranks)
            + match flavor {
                Flavor::Create => size_of::<Slot>(),
                Flavor::Dynamic => size_of::<Regions>(),
                Flavor::Allocate | Flavor::Shared => 0,
            }
    }

    const LOCK_AT: usize = aligned(size_of::<Head>());

    const fn updates_at(ranks: u32) -> usize {
        Self::LOCK_AT + aligned(WindowLock::bytes(ranks))
    }

    const fn bulk_at(ranks: u32) -> usize {
        Self::updates_at(ranks) + aligned(WindowLock::bytes(ranks + 1))
    }

    const fn lanes_at(ranks: u32) -> usize {
        Self::bulk_at(ranks) + size_of::<exclusive_bulk::Head>()
    }

    const fn signals_at(ranks: u32) -> usize {
        Self::lanes_at(ranks) + ranks as usize * size_of::<Lanes>()
    }

    /// What only some windows have.
    const fn more_at(ranks: u32) -> usize {
        Self::signals_at(ranks) + ranks as usize * size_of::<Signals>()
    }

    /// Those in this segment, which was made for as many ranks.
    pub fn new(segment: Segment, ranks: u32, flavor: Flavor) -> Result<Self> {
        if segment.control_length() != Self::bytes(ranks, flavor) {
            return Err(Error::new(
                Status::INVALID_ADDR,
                "window: a member's control words are of another length",
            ));
        }
        Ok(Control { segment, ranks, has_mail: flavor == Flavor::Create })
    }

    /// Where they are.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: a mapping of this length, aligned to a page, that lives as long as `self`; all of
        // it is atomics, for which all bytes are valid.
        unsafe { &*self.segment.control().cast() }
    }

    fn regions(&self) -> &Regions {
        // SAFETY: as above; asked for with dynamic windows alone, which have them.
        unsafe { &*self.segment.control().add(Self::more_at(self.ranks)).cast() }
    }

    /// Where short data calls are handed over to the process, in windows of memory of its own.
    #[inline]
    pub(crate) fn mail(&self) -> Option<&Slot> {
        // SAFETY: as above; what is no atomic in it is not referred to.
        self.has_mail
            .then(|| unsafe { &*self.segment.control().add(Self::more_at(self.ranks)).cast() })
    }

    /// The lock of the window at this process, which lock and unlock are about.
    #[inline]
    pub fn lock(&self) -> WindowLock<'_> {
        // SAFETY: as above; nobody writes there in another way.
        unsafe { WindowLock::at(self.segment.control().add(Self::LOCK_AT), self.ranks) }
    }

    /// That of accumulates which no instruction of the processor does. Behind the ranks there is
    /// the service of the process.
    #[inline]
    pub fn updates(&self) -> WindowLock<'_> {
        // SAFETY: as above.
        unsafe {
            WindowLock::at(self.segment.control().add(Self::updates_at(self.ranks)), self.ranks + 1)
        }
    }

    /// What keeps accumulates of single elements, and those of very many, apart.
    #[inline]
    pub fn bulk(&self) -> Bulk<'_> {
        // SAFETY: as above.
        unsafe {
            let head = self.segment.control().add(Self::bulk_at(self.ranks)).cast();
            let lanes = self.segment.control().add(Self::lanes_at(self.ranks)).cast();
            Bulk::of(&*head, std::slice::from_raw_parts(lanes, self.ranks as usize))
        }
    }

    /// What this rank tells the process.
    #[inline]
    pub fn from(&self, rank: u32) -> &Signals {
        debug_assert!(rank < self.ranks);
        // SAFETY: as above, and there is such a rank.
        unsafe {
            &*self
                .segment
                .control()
                .add(Self::signals_at(self.ranks))
                .cast::<Signals>()
                .add(rank as usize)
        }
    }

    /// Barriers that the process has been told of in this round.
    pub fn round(&self, round: usize) -> &AtomicU64 {
        &self.head().rounds[round].word
    }

    /// The same of a round that a message names, if there is such a one.
    pub(crate) fn round_if(&self, round: u32) -> Option<&AtomicU64> {
        self.head().rounds.get(round as usize).map(|line| &line.word)
    }

    /// For the process itself.
    pub(crate) fn bell(&self) -> &SharedWord {
        &self.head().bell
    }

    /// Wakes the process, if it sleeps, after something was written for it.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        let bell = self.bell();
        if bell.load(Ordering::SeqCst) == 1 && bell.swap(0, Ordering::SeqCst) == 1 {
            bell.wake_all();
        }
    }

    /// The process takes part in nothing any more. The first reason stays.
    pub fn end(&self, why: Ended) {
        let _ = self.head().ended.compare_exchange(
            0,
            why.encode(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
    }

    /// Has it said so?
    pub fn ended(&self) -> Option<Ended> {
        Ended::decode(self.head().ended.load(Ordering::Acquire))
    }

    /// What the process says of the hints, for others to compare.
    pub fn hints(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.head().hints[at].load(Ordering::Acquire))
    }

    /// Of the process itself.
    pub fn set_hints(&self, hints: [u64; 2]) {
        self.head()
            .hints
            .iter()
            .zip(hints)
            .for_each(|(word, hint)| word.store(hint, Ordering::Release));
    }

    /// Writes down the regions of the process itself, which are sorted. One thread at a time.
    pub fn set_regions(&self, list: &[(u64, u64)]) {
        let regions = self.regions();
        let version = regions.version.load(Ordering::Relaxed) | 1;
        regions.version.store(version, Ordering::Relaxed);
        fence(Ordering::Release);
        for (place, (base, size)) in regions.list.iter().zip(list) {
            place[0].store(*base, Ordering::Relaxed);
            place[1].store(*size, Ordering::Relaxed);
        }
        regions.count.store(list.len().min(MOST_REGIONS) as u32, Ordering::Relaxed);
        regions.version.store(version.wrapping_add(1), Ordering::Release);
    }

    /// Does the process have memory attached from `begin` to `end`, in one region or in several
    /// that follow each other?
    pub fn has_attached(&self, begin: u64, end: u64, lives: &dyn Fn() -> bool) -> Result<bool> {
        let regions = self.regions();
        let wait = SpinWait::default();
        for look in 1_u32.. {
            let version = regions.version.load(Ordering::Acquire);
            let found = version & 1 == 0 && covers(regions, begin, end);
            fence(Ordering::Acquire);
            if version & 1 == 0 && regions.version.load(Ordering::Relaxed) == version {
                return Ok(found);
            }
            if look % LOOKS == 0 && !lives() {
                break;
            }
            wait.wait();
        }
        Err(Error::new(
            Status::PEER_FAILED,
            "window: the target has ended while it attached memory",
        ))
    }
}

fn covers(regions: &Regions, mut begin: u64, end: u64) -> bool {
    let count = (regions.count.load(Ordering::Relaxed) as usize).min(MOST_REGIONS);
    let list = &regions.list[..count];
    let region = |place: &[AtomicU64; 2]| {
        (place[0].load(Ordering::Relaxed), place[1].load(Ordering::Relaxed))
    };
    let next = list.partition_point(|place| region(place).0 <= begin);
    for place in &list[next.saturating_sub(1)..] {
        let (base, size) = region(place);
        if begin >= end {
            break;
        }
        if base > begin || begin - base >= size {
            return false;
        }
        begin = base.saturating_add(size);
    }
    begin >= end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(flavor: Flavor) -> Control {
        let segment = Segment::create(Control::bytes(3, flavor), 0).unwrap();
        Control::new(segment, 3, flavor).unwrap()
    }

    #[test]
    fn attached_regions_are_found_whole_or_not() {
        let control = control(Flavor::Dynamic);
        let has = |begin, end| control.has_attached(begin, end, &|| true).unwrap();
        assert!(!has(0, 1));
        control.set_regions(&[(100, 50), (150, 50), (300, 10)]);
        for (begin, end) in [(100, 101), (100, 200), (149, 151), (199, 200), (300, 310)] {
            assert!(has(begin, end), "{begin} to {end}");
        }
        for (begin, end) in
            [(99, 101), (100, 201), (200, 201), (299, 301), (150, 301), (309, 311), (400, 500)]
        {
            assert!(!has(begin, end), "{begin} to {end}");
        }
        control.set_regions(&[(u64::MAX - 10, 10)]);
        assert!(has(u64::MAX - 10, u64::MAX) && !has(100, 101));
        control.set_regions(&[]);
        assert!(!has(u64::MAX - 10, u64::MAX));
    }

    #[test]
    fn a_process_that_died_while_it_changed_its_regions_is_found() {
        let control = control(Flavor::Dynamic);
        control.regions().version.store(7, Ordering::Relaxed);
        assert_eq!(
            control.has_attached(1, 2, &|| false).unwrap_err().status(),
            Status::PEER_FAILED
        );
    }

    #[test]
    fn the_first_reason_to_end_stays() {
        let control = control(Flavor::Allocate);
        assert_eq!(control.ended(), None);
        let first = Ended { status: Status::PEER_FAILED, blamed: 2 };
        control.end(first);
        control.end(Ended { status: Status::TIMED_OUT, blamed: 1 });
        assert_eq!(control.ended(), Some(first));
    }

    #[test]
    fn the_words_do_not_overlap() {
        let control = control(Flavor::Allocate);
        control.lock().try_lock(2, crate::engine::wire::sync_constants::LockType::Exclusive);
        control.from(2).completed.store(5, Ordering::Relaxed);
        assert!(
            control.updates().is_untouched()
                && control.round(ROUNDS - 1).load(Ordering::Relaxed) == 0
        );
        let end = std::ptr::from_ref(control.from(2)) as usize + size_of::<Signals>();
        assert_eq!(end - control.segment().control() as usize, Control::bytes(3, Flavor::Allocate));
    }
}
