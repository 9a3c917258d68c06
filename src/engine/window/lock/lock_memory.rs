//! What stands in the memory of a window's lock: the one word and a slot for each rank, and what
//! their bits say. What is done with them is in `rw_lock`.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::futex::SharedWord;
use crate::engine::base::sync::AtomicU64;

/// Of `state`: one more than the rank of who holds the lock alone, or is about to.
pub(super) const OWNER: u64 = (1 << 24) - 1;
/// The owner is not that yet: it waits until readers have left.
pub(super) const DRAINING: u64 = 1 << 24;
/// Somebody waits in line, so that nobody goes past it.
pub(super) const WAITERS: u64 = 1 << 25;
/// Slots may say that there are readers. Stays when they have gone, so that the next ones leave
/// `state` alone.
pub(super) const READERS: u64 = 1 << 26;
/// An owner has died.
pub(super) const POISONED: u64 = 1 << 27;
/// Counts arrivals in the line, in the upper half.
pub(super) const ARRIVAL: u64 = 1 << 32;

/// What a slot says of its process, in the lower bits; above them stands its place in the line.
pub(super) mod tag {
    pub(crate) const FREE: u64 = 0;
    /// A reader, or one that asks whether it may be.
    pub(crate) const READS: u64 = 1;
    /// The same, from the line, in which it keeps its place meanwhile.
    pub(crate) const ENTERS: u64 = 2;
    pub(crate) const WAITS_TO_READ: u64 = 3;
    pub(crate) const WAITS_TO_WRITE: u64 = 4;
    pub(crate) const BITS: u32 = 3;
    const MASK: u64 = (1 << BITS) - 1;

    pub(crate) fn of(word: u64) -> u64 {
        word & MASK
    }

    pub(crate) fn set(word: u64, to: u64) -> u64 {
        word & !MASK | to
    }

    /// A writer does not go past it.
    pub(crate) fn is_reader(word: u64) -> bool {
        matches!(of(word), READS | ENTERS)
    }

    pub(crate) fn is_in_line(word: u64) -> bool {
        of(word) >= ENTERS
    }
}

/// What all of them write. All zero where nobody has been.
#[derive(Default)]
#[repr(C)]
pub struct Head {
    pub(super) state: AtomicU64,
    _state_alone: CacheLine,
    /// The next place in the line.
    pub(super) places: AtomicU64,
    _places_alone: CacheLine,
}

/// What one process writes, and others when it has died. All zero where it has not been.
#[derive(Default)]
#[repr(C)]
pub struct Slot {
    pub(super) word: AtomicU64,
    /// 1 while the process sleeps or is about to.
    pub(super) bell: SharedWord,
    _alone: CacheLine,
}
