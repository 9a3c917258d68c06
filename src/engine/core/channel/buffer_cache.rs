//! Memory of received buffers, kept when these are destroyed, for the next ones.
//!
//! The C library gives its pages back to the system whenever enough of them are free at once, as
//! after each message of many frames, and the next message pays for having them made anew: several
//! times what moving its data takes (docs/performance.md has the figures). What is kept here is
//! malloc's all the same, so that a caller can free what it has taken.
//!
//! Lengths are rounded up to one of eight steps between powers of two, and there is a list for
//! each. What nobody has needed for `REVIEW` messages goes back to the C library, so that a burst
//! does not stay.

use crate::engine::base::lockdep::{Mutex, MutexGuard};
use crate::engine::core::channel::receive_buffers::Frame;
use std::ffi::c_void;

/// Bytes that are kept for a worker; longer buffers never are.
pub(crate) const MOST: usize = 64 << 20;
/// After so many messages what was too much for all of them goes.
const REVIEW: u32 = 64;
/// Shorter ones take little more.
const SHORTEST: usize = 64;
const STEPS: usize = 8;
const CLASSES: usize = STEPS * (MOST.ilog2() - SHORTEST.ilog2()) as usize;
/// Lists of frames that are kept, and the longest of them.
const LISTS: usize = 8;
const LONGEST_LIST: usize = 4096;

/// See the module. Any thread: one asks for buffers while others destroy theirs.
#[derive(Default)]
pub(crate) struct FrameStore(Mutex<Kept>);

/// What is there.
#[derive(Default)]
pub(crate) struct Kept {
    /// By class. Empty until something is given back.
    blocks: Vec<Vec<Block>>,
    lists: Vec<Vec<Frame>>,
    bytes: usize,
    /// The fewest bytes there were since the last review.
    least: usize,
    messages: u32,
}

/// Memory of malloc's that nobody uses.
struct Block(*mut c_void);

// SAFETY: it is nobody's but the store's.
unsafe impl Send for Block {}

// SAFETY: the lists of frames are empty.
unsafe impl Send for Kept {}

impl FrameStore {
    /// For the buffers of one message.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock()
    }

    /// The same for what a message has left, unless another thread is there: of a forked child,
    /// perhaps one that the child does not have.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Kept>> {
        self.0.try_lock()
    }
}

impl Kept {
    /// An empty list of frames.
    pub(crate) fn take_list(&mut self) -> Vec<Frame> {
        self.lists.pop().unwrap_or_default()
    }

    /// Memory for so many bytes, more than none; null where there is none.
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

    /// Takes it back.
    ///
    /// # Safety
    /// From `take`, with this length, and not used any more.
    pub(crate) unsafe fn give(&mut self, data: *mut c_void, length: usize) {
        match class_of(length) {
            Some((class, size)) if self.bytes + size <= MOST => {
                if self.blocks.is_empty() {
                    self.blocks.resize_with(CLASSES, Vec::new);
                }
                self.blocks[class].push(Block(data));
                self.bytes += size;
            }
            // SAFETY: malloc's, as for this function.
            _ => unsafe { libc::free(data) },
        }
    }

    /// The buffers of a message have been given back, and this was the list of them.
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

    /// Lets go of this much at most, the longest first.
    fn release(&mut self, most: usize) {
        let mut left = most;
        for (class, blocks) in self.blocks.iter_mut().enumerate().rev() {
            let size = size_of_class(class);
            while left >= size {
                let Some(Block(data)) = blocks.pop() else { break };
                // SAFETY: malloc's, and nobody's.
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

/// The class of buffers of this length, and how long they are made; None for those that are not
/// kept.
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

/// The longest length in a class.
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
            // SAFETY: taken above.
            unsafe { kept.give(*data, 4096) };
        }
        let mut again: Vec<_> = (0..100).map(|_| kept.take(4001)).collect();
        assert_eq!(kept.bytes, 0);
        let mut first = first;
        first.sort_unstable();
        again.sort_unstable();
        assert_eq!(first, again);
        for data in again {
            // SAFETY: as above.
            unsafe { kept.give(data, 4001) };
        }
    }

    #[test]
    fn there_is_a_bound_and_what_is_not_needed_goes() {
        let mut kept = Kept::default();
        let burst: Vec<_> = (0..5).map(|_| kept.take(MOST / 4)).collect();
        for data in burst {
            // SAFETY: taken above.
            unsafe { kept.give(data, MOST / 4) };
        }
        assert_eq!(kept.bytes, MOST);
        kept.end_message(Vec::new());
        for _ in 0..2 * REVIEW {
            let data = kept.take(100);
            // SAFETY: as above.
            unsafe { kept.give(data, 100) };
            kept.end_message(Vec::new());
        }
        assert!(kept.bytes < 200, "{} bytes", kept.bytes);
        assert!(kept.lists.len() <= LISTS);
    }
}
