//! The slot by which operations are delegated to the target of a window: its layout in shared
//! memory. See `window::delegation::delegation`, and `window::delegation::slot_state` for who may
//! access it when.

use crate::engine::window::delegation::slot_state::Turns;
use crate::engine::wire::element_type::{ElementType, Reduce};
use crate::engine::wire::window::What;
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Longest operation in bytes.
pub(crate) const MOST: usize = 8 << 10;
/// Up to this many bytes are stored in the cache line of the word that announces them.
const FEW: usize = 24;

/// A delegated operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemoteOp {
    pub(crate) what: What,
    pub(crate) op: Reduce,
    pub(crate) kind: ElementType,
    /// Offset in the target's memory.
    pub(crate) at: u64,
    pub(crate) bytes: usize,
    /// The data sent is in the second half of its buffer.
    pub(crate) second: bool,
}

impl RemoteOp {
    pub(crate) fn encode(&self) -> u64 {
        let half = u64::from(self.second) << 56;
        half | (self.what as u64) << 48
            | (self.op as u64) << 40
            | (self.kind as u64) << 32
            | self.bytes as u64
    }

    pub(crate) fn decode(word: u64, at: u64) -> Option<Self> {
        let byte = |shift: u32| (word >> shift & 0xff) as u8;
        let all = [What::Put, What::Get, What::Accumulate, What::Fetch, What::Swap];
        let what = all.into_iter().find(|what| *what as u8 == byte(48))?;
        let op = Reduce::from_number(byte(40).into()).ok()?;
        let kind = ElementType::from_number(byte(32).into()).ok()?;
        let (bytes, second) = (word as u32 as usize, word >> 56 & 1 == 1);
        let errand = RemoteOp { what, op, kind, at, bytes, second };
        let whole = bytes <= MOST
            && bytes % kind.size() == 0
            && (what != What::Swap || bytes == kind.size());
        whole.then_some(errand)
    }

    /// Number of bytes sent to the target.
    pub(crate) fn sent(&self) -> usize {
        match self.what {
            What::Get => 0,
            What::Fetch if self.op == Reduce::NoOp => 0,
            What::Swap => 2 * self.bytes,
            _ => self.bytes,
        }
    }
}

/// The origin's part of the slot.
#[repr(C)]
pub(crate) struct Sent {
    /// When the operation was posted, by CLOCK_MONOTONIC_COARSE.
    pub(crate) posted: AtomicU64,
    pub(crate) at: AtomicU64,
    pub(crate) errand: AtomicU64,
    few: UnsafeCell<[u8; FEW]>,
    /// Incremented by an origin that does a large operation without the slot.
    about: AtomicU64,
}

/// The target's part of the slot.
#[repr(C)]
pub(crate) struct Answered {
    /// A thread of the target polls the slot.
    pub(crate) attended: AtomicU32,
    _unused: u32,
    few_fetched: UnsafeCell<[u8; FEW]>,
}

/// See the head of this file.
#[repr(C)]
pub(crate) struct Slot {
    pub(crate) turns: Turns<Sent, Answered>,
    sent: UnsafeCell<[u8; 2 * MOST]>,
    fetched: UnsafeCell<[u8; MOST]>,
}

impl Slot {
    pub(crate) fn about(&self) -> u64 {
        self.turns.sent.about.load(Ordering::Relaxed)
    }

    /// Announces a large operation without the slot. It may take longer than the target would poll,
    /// so this makes the target poll on for the next operation.
    pub(crate) fn bypass(&self, bytes: usize) {
        if bytes > MOST {
            self.turns.sent.about.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Where the data sent is.
    pub(crate) fn place_of(&self, errand: &RemoteOp) -> *mut u8 {
        if errand.sent() <= FEW {
            return self.turns.sent.few.get().cast();
        }
        let sent: *mut u8 = self.sent.get().cast();
        sent.wrapping_add(if errand.second { MOST } else { 0 })
    }

    /// Where the fetched data is.
    pub(crate) fn place_of_fetched(&self, bytes: usize) -> *mut u8 {
        if bytes <= FEW {
            self.turns.answered.few_fetched.get().cast()
        } else {
            self.fetched.get().cast()
        }
    }
}
