//! The control words of a window in one process, in memory that the processes of a host share.
//!
//! Each process has its own and accesses those of the others. Every word either belongs to a lock,
//! or is written by one process only and only grows. So a signal is one store, nothing is ever
//! reset, and a process that dies leaves nothing half done. A faulty process may have written
//! anything here: values are compared and counted, never used as addresses.

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

/// Most rounds of a barrier, for as many processes as possible.
const ROUNDS: usize = 32;
/// Most regions of a dynamic window at a time.
pub const MOST_REGIONS: usize = 1024;
/// Number of polls of regions that keep changing before checking whether their process lives.
const LOOKS: u32 = 1_000;

/// Words that exist once.
#[repr(C)]
struct Head {
    /// 1 while the owner sleeps on it or is about to. Other processes clear it to wake the owner.
    bell: SharedWord,
    _bell_alone: CacheLine,
    /// Why the owner no longer takes part; 0 while it does.
    ended: AtomicU64,
    _ended_alone: CacheLine,
    /// The owner's values while hints are being changed.
    hints: [AtomicU64; 2],
    _hints_alone: CacheLine,
    /// By round: number of barriers reached by the process that signals in this round.
    rounds: [Line; ROUNDS],
}

#[repr(C)]
struct Line {
    word: AtomicU64,
    _alone: CacheLine,
}

/// Signals of one process to the owner.
#[repr(C)]
pub struct Signals {
    /// Number of its posts.
    pub posted: AtomicU64,
    /// Number of its completions.
    pub completed: AtomicU64,
    _alone: CacheLine,
}

/// The owner's attached regions, sorted, without overlap: a seqlock. `version` is odd during a
/// change.
#[repr(C)]
struct Regions {
    version: AtomicU64,
    count: AtomicU32,
    _alone: CacheLine,
    list: [[AtomicU64; 2]; MOST_REGIONS],
}

/// A process's control words.
pub struct Control {
    segment: Segment,
    ranks: u32,
    has_mail: bool,
}

/// Why a process no longer takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The status that others get.
    pub status: Status,
    /// The rank that caused it.
    pub blamed: u32,
}

impl Ended {
    /// Encoded in a word, which is never 0.
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
    /// Length of the control words.
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

    /// Offset of the words that only some kinds of windows have.
    const fn more_at(ranks: u32) -> usize {
        Self::signals_at(ranks) + ranks as usize * size_of::<Signals>()
    }

    /// The control words in this segment, which was made for `ranks` ranks.
    pub fn new(segment: Segment, ranks: u32, flavor: Flavor) -> Result<Self> {
        if segment.control_length() != Self::bytes(ranks, flavor) {
            return Err(Error::new(
                Status::INVALID_ADDR,
                "window: a member's control words have the wrong length",
            ));
        }
        Ok(Control { segment, ranks, has_mail: flavor == Flavor::Create })
    }

    /// The segment that contains them.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the mapping is page-aligned, has this length and lives as long as `self`. It
        // contains only atomics, for which all bytes are valid.
        unsafe { &*self.segment.control().cast() }
    }

    fn regions(&self) -> &Regions {
        // SAFETY: inside the mapping, and only atomics; dynamic windows have this part, and only
        // they ask for it.
        unsafe { &*self.segment.control().add(Self::more_at(self.ranks)).cast() }
    }

    /// The slot for delegated operations, in windows of the caller's memory.
    #[inline]
    pub(crate) fn mail(&self) -> Option<&Slot> {
        // SAFETY: inside the mapping, in windows that have the slot. Its non-atomic parts are never
        // referenced.
        self.has_mail
            .then(|| unsafe { &*self.segment.control().add(Self::more_at(self.ranks)).cast() })
    }

    /// The lock of the window at this process, for lock and unlock.
    #[inline]
    pub fn lock(&self) -> WindowLock<'_> {
        // SAFETY: inside the mapping, for this many ranks; nothing else writes there.
        unsafe { WindowLock::at(self.segment.control().add(Self::LOCK_AT), self.ranks) }
    }

    /// The update lock, for accumulates that the CPU cannot do atomically. Besides the ranks, the
    /// process's service has a place in it.
    #[inline]
    pub fn updates(&self) -> WindowLock<'_> {
        // SAFETY: inside the mapping, for this many ranks; nothing else writes there.
        unsafe {
            WindowLock::at(self.segment.control().add(Self::updates_at(self.ranks)), self.ranks + 1)
        }
    }

    /// Excludes accumulates of single elements and exclusive ones of very many elements from each
    /// other.
    #[inline]
    pub fn bulk(&self) -> Bulk<'_> {
        // SAFETY: inside the mapping, for this many ranks, and only atomics.
        unsafe {
            let head = self.segment.control().add(Self::bulk_at(self.ranks)).cast();
            let lanes = self.segment.control().add(Self::lanes_at(self.ranks)).cast();
            Bulk::of(&*head, std::slice::from_raw_parts(lanes, self.ranks as usize))
        }
    }

    /// Signals from this rank to the owner.
    #[inline]
    pub fn from(&self, rank: u32) -> &Signals {
        debug_assert!(rank < self.ranks);
        // SAFETY: inside the mapping, as the rank exists, and only atomics.
        unsafe {
            &*self
                .segment
                .control()
                .add(Self::signals_at(self.ranks))
                .cast::<Signals>()
                .add(rank as usize)
        }
    }

    /// Number of barriers signalled to the owner in this round.
    pub fn round(&self, round: usize) -> &AtomicU64 {
        &self.head().rounds[round].word
    }

    /// The same for a round from a message; `None` if it is invalid.
    pub(crate) fn round_if(&self, round: u32) -> Option<&AtomicU64> {
        self.head().rounds.get(round as usize).map(|line| &line.word)
    }

    /// The owner sleeps on this word.
    pub(crate) fn bell(&self) -> &SharedWord {
        &self.head().bell
    }

    /// Wakes the owner if it sleeps; called after writing something for it.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        let bell = self.bell();
        if bell.load(Ordering::SeqCst) == 1 && bell.swap(0, Ordering::SeqCst) == 1 {
            bell.wake_all();
        }
    }

    /// The owner no longer takes part. The first reason is kept.
    pub fn end(&self, why: Ended) {
        let _ = self.head().ended.compare_exchange(
            0,
            why.encode(),
            Ordering::SeqCst,
            Ordering::Relaxed,
        );
    }

    /// Has the owner stopped taking part?
    pub fn ended(&self) -> Option<Ended> {
        Ended::decode(self.head().ended.load(Ordering::Acquire))
    }

    /// The owner's hints, for comparison.
    pub fn hints(&self) -> [u64; 2] {
        [0, 1].map(|at: usize| self.head().hints[at].load(Ordering::Acquire))
    }

    /// Called by the owner.
    pub fn set_hints(&self, hints: [u64; 2]) {
        self.head()
            .hints
            .iter()
            .zip(hints)
            .for_each(|(word, hint)| word.store(hint, Ordering::Release));
    }

    /// Publishes the owner's regions, which are sorted. One thread at a time.
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

    /// Has the owner attached the memory from `begin` to `end`, in one region or several adjacent
    /// ones?
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
