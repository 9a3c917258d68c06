//! A cache of memory for received buffers.
//!
//! The C library returns pages to the system whenever enough of them are free at once, which
//! happens after each message of many frames. The next message must then fault them in again, which
//! takes several times as long as moving its data (docs/performance.md has figures). The cached
//! memory comes from malloc, so that a caller can free a buffer that it has taken.
//!
//! Lengths are rounded up to one of eight steps between powers of two, and each step has its own
//! list. Memory that was not needed for `REVIEW` messages is returned to the C library, so that a
//! burst does not stay.
//!
//! The cache has a lock: one thread asks for buffers while others destroy theirs.

use crate::engine::base::lockdep::{Mutex, MutexGuard};
use crate::engine::core::channel::receive_buffers::Frame;
use std::ffi::c_void;

/// Most bytes kept for a worker; longer buffers are never kept.
pub(crate) const MOST: usize = 64 << 20;
/// Number of messages after which memory that none of them needed is freed.
const REVIEW: u32 = 64;
/// Shorter ones take little more.
const SHORTEST: usize = 64;
const STEPS: usize = 8;
const CLASSES: usize = STEPS * (MOST.ilog2() - SHORTEST.ilog2()) as usize;
/// Most lists of frames that are kept, and the longest one.
const LISTS: usize = 8;
const LONGEST_LIST: usize = 4096;

/// See the head of this file. Any thread.
#[derive(Default)]
pub(crate) struct FrameStore(Mutex<Kept>);

/// The cached memory.
#[derive(Default)]
pub(crate) struct Kept {
    /// By class. Empty until something is given back.
    blocks: Vec<Vec<Block>>,
    lists: Vec<Vec<Frame>>,
    bytes: usize,
    /// The fewest bytes since the last review.
    least: usize,
    messages: u32,
}

/// Unused memory from malloc.
struct Block(*mut c_void);

// SAFETY: only the store has this pointer.
unsafe impl Send for Block {}

// SAFETY: the lists of frames are empty.
unsafe impl Send for Kept {}

impl FrameStore {
    /// For the buffers of one message.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    /// The same for the rest of a message. None if another thread holds the lock: in a forked child
    /// that thread may not exist.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Kept>> {
        self.0.try_lock()
    }
}

impl Kept {
    /// An empty list of frames.
    pub(crate) fn take_list(&mut self) -> Vec<Frame> {
        self.lists.pop().unwrap_or_default()
    }

    /// Memory for `length` bytes, at least one; null if there is none.
    pub(crate) fn take(&mut self, length: usize) -> *mut c_void {
        let Some((class, size)) = class_of(length) else {
            // SAFETY: no precondition.
            return unsafe { libc::malloc(length) };
        };
        match self.blocks.get_mut(class).and_then(Vec::pop) {
            Some(Block(data)) => {
                self.bytes -= size;
                self.least = self.least.min(self.bytes);
                data
            }
            // SAFETY: no precondition.
            None => unsafe { libc::malloc(size) },
        }
    }

    /// Takes a buffer back.
    ///
    /// # Safety
    /// It comes from `take` with this length, and is not used any more.
    pub(crate) unsafe fn give(&mut self, data: *mut c_void, length: usize) {
        match class_of(length) {
            Some((class, size)) if self.bytes + size <= MOST => {
                if self.blocks.is_empty() {
                    self.blocks.resize_with(CLASSES, Vec::new);
                }
                self.blocks[class].push(Block(data));
                self.bytes += size;
            }
            // SAFETY: from malloc, as the caller guarantees.
            _ => unsafe { libc::free(data) },
        }
    }

    /// The buffers of a message were given back; `list` was the list of them.
    pub(crate) fn end_message(&mut self, mut list: Vec<Frame>) {
        if self.lists.len() < LISTS && list.capacity() <= LONGEST_LIST {
            list.clear();
            self.lists.push(list);
        }
        self.messages += 1;
        if self.messages == REVIEW {
            self.messages = 0;
            self.release(self.least);
            self.least = self.bytes;
        }
    }

    /// Frees at most this much, the longest buffers first.
    fn release(&mut self, most: usize) {
        let mut left = most;
        for (class, blocks) in self.blocks.iter_mut().enumerate().rev() {
            let size = size_of_class(class);
            while left >= size {
                let Some(Block(data)) = blocks.pop() else { break };
                // SAFETY: from malloc, and not used any more.
                unsafe { libc::free(data) };
                left -= size;
                self.bytes -= size;
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.release(self.bytes);
    }
}

/// The class of buffers of this length, and the size that they are allocated with. None if they are
/// not kept.
fn class_of(length: usize) -> Option<(usize, usize)> {
    if length > MOST {
        return None;
    }
    let last = length.max(SHORTEST + 1) - 1;
    let power = last.ilog2();
    let step = last >> (power - STEPS.ilog2());
    let class = (power - SHORTEST.ilog2()) as usize * STEPS + step - STEPS;
    Some((class, size_of_class(class)))
}

/// The largest size in a class.
fn size_of_class(class: usize) -> usize {
    let power = SHORTEST.ilog2() as usize + class / STEPS;
    (STEPS + class % STEPS + 1) << (power - STEPS.ilog2() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_fits_its_class_and_wastes_at_most_an_eighth() {
        for length in (1..5000)
            .chain((5..26).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1]))
        {
            let (class, size) = class_of(length).unwrap();
            assert!(class < CLASSES && size >= length, "{length}: {size}");
            assert!(
                size <= SHORTEST + SHORTEST / 8 || size - length <= length / 8,
                "{length}: {size}"
            );
        }
        assert_eq!(class_of(MOST), Some((CLASSES - 1, MOST)));
        assert_eq!(class_of(MOST + 1), None);
        assert!((1..CLASSES)
            .all(|class| class_of(size_of_class(class - 1) + 1)
                == Some((class, size_of_class(class)))));
    }

    #[test]
    fn what_was_given_back_is_handed_out_again() {
        let mut kept = Kept::default();
        let first: Vec<_> = (0..100).map(|_| kept.take(4096)).collect();
        assert!(first.iter().all(|data| !data.is_null()));
        for data in &first {
            // SAFETY: taken above, with this length.
            unsafe { kept.give(*data, 4096) };
        }
        let mut again: Vec<_> = (0..100).map(|_| kept.take(4001)).collect();
        assert_eq!(kept.bytes, 0);
        let mut first = first;
        first.sort_unstable();
        again.sort_unstable();
        assert_eq!(first, again);
        for data in again {
            // SAFETY: taken above, with this length.
            unsafe { kept.give(data, 4001) };
        }
    }

    #[test]
    fn there_is_a_bound_and_what_is_not_needed_goes() {
        let mut kept = Kept::default();
        let burst: Vec<_> = (0..5).map(|_| kept.take(MOST / 4)).collect();
        for data in burst {
            // SAFETY: taken above, with this length.
            unsafe { kept.give(data, MOST / 4) };
        }
        assert_eq!(kept.bytes, MOST);
        kept.end_message(Vec::new());
        for _ in 0..2 * REVIEW {
            let data = kept.take(100);
            // SAFETY: taken above, with this length.
            unsafe { kept.give(data, 100) };
            kept.end_message(Vec::new());
        }
        assert!(kept.bytes < 200, "{} bytes", kept.bytes);
        assert!(kept.lists.len() <= LISTS);
    }
}
