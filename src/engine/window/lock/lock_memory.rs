//! Layout of a window's lock in shared memory: one word of state, and a slot for each rank. The
//! algorithm is in `rw_lock`.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::futex::SharedWord;
use crate::engine::base::sync::AtomicU64;

/// Bits of `state`: the rank of the exclusive holder plus one, or of the writer that is draining
/// readers.
pub(super) const OWNER: u64 = (1 << 24) - 1;
/// The owner does not hold the lock yet: it waits until the readers have left.
pub(super) const DRAINING: u64 = 1 << 24;
/// Somebody waits in the queue, so nobody may pass.
pub(super) const WAITERS: u64 = 1 << 25;
/// There may be readers in the slots. Stays set after they have left, so that the next readers need
/// not write `state`.
pub(super) const READERS: u64 = 1 << 26;
/// An owner has died.
pub(super) const POISONED: u64 = 1 << 27;
/// Counts arrivals in the queue, in the upper half.
pub(super) const ARRIVAL: u64 = 1 << 32;

/// State of a slot's process, in the lower bits. The upper bits are its place in the queue.
pub(super) mod tag {
    pub(crate) const FREE: u64 = 0;
    /// It reads, or asks whether it may.
    pub(crate) const READS: u64 = 1;
    /// The same from the queue, where it keeps its place meanwhile.
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

    /// A writer has to wait for it.
    pub(crate) fn is_reader(word: u64) -> bool {
        matches!(of(word), READS | ENTERS)
    }

    pub(crate) fn is_in_line(word: u64) -> bool {
        of(word) >= ENTERS
    }
}

/// Words that all processes write. Zero before the first use.
#[derive(Default)]
#[repr(C)]
pub struct Head {
    pub(super) state: AtomicU64,
    _state_alone: CacheLine,
    /// The next place in the queue.
    pub(super) places: AtomicU64,
    _places_alone: CacheLine,
}

/// Words that one process writes, and others after it has died. Zero before the first use.
#[derive(Default)]
#[repr(C)]
pub struct Slot {
    pub(super) word: AtomicU64,
    /// 1 while the process sleeps or is about to.
    pub(super) bell: SharedWord,
    _alone: CacheLine,
}
