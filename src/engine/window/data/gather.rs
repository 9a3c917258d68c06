//! Accumulates of many blocks on memory that the kernel copies.
//!
//! Blocks are fetched together, combined here, and written back together: two system calls a turn
//! instead of two for each block. A block whose memory has been fetched already is combined in
//! place, so an element may occur several times. A block that overlaps a fetched one partly begins
//! the next turn.
//!
//! Costs: two lists for each call, and for each block a binary search among the blocks of its turn.

use crate::engine::base::status::Result;
use crate::engine::os::own_memory::Way;
use crate::engine::window::access::{Piece, Process, PIECES};
use crate::engine::window::data::reduce::Update;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::Reduce;

/// Most bytes of a turn.
pub(crate) const AT_ONCE: usize = 64 << 10;
/// Most blocks of a turn; adjacent ones are fetched as one piece.
const BLOCKS: usize = 1024;

/// The blocks that are fetched together.
struct Turn<'a> {
    room: &'a mut [u64],
    used: usize,
    /// Sorted by remote address, without overlap.
    pieces: Vec<Piece>,
    /// With their targets in `room`, in the order of the call.
    updates: Vec<Update>,
}

impl Turn<'_> {
    /// Where the bytes at this address are in `room`; `None` if they do not fit into this turn.
    fn place_for(&mut self, at: u64, bytes: usize) -> Option<*mut u8> {
        let next = self.pieces.partition_point(|(_, begin, _)| *begin <= at);
        let end = at.checked_add(bytes as u64)?;
        if self.pieces.get(next).is_some_and(|(_, begin, _)| *begin < end) {
            return None;
        }
        let place = self.room.as_mut_ptr().cast::<u8>().wrapping_add(self.used);
        let has_room = self.used + bytes <= size_of_val(self.room);
        if let Some((here, begin, length)) = next.checked_sub(1).map(|last| &mut self.pieces[last])
        {
            let after = *begin + *length as u64;
            if end <= after {
                return Some(here.wrapping_add((at - *begin) as usize));
            }
            if at < after {
                return None;
            }
            if at == after && here.wrapping_add(*length) == place && has_room {
                *length += bytes;
                self.used += bytes;
                return Some(place);
            }
        }
        if !has_room || self.pieces.len() == PIECES {
            return None;
        }
        self.pieces.insert(next, (place, at, bytes));
        self.used += bytes;
        Some(place)
    }

    /// False if the block does not fit into this turn.
    fn add(&mut self, update: &Update) -> bool {
        let bytes = update.count * update.kind.size();
        let place = (self.updates.len() < BLOCKS)
            .then(|| self.place_for(update.target.addr() as u64, bytes));
        let Some(target) = place.flatten() else { return false };
        self.updates.push(Update { target, ..*update });
        true
    }

    /// Executes the turn, and begins the next one.
    ///
    /// # Safety
    /// As for `combine_many`.
    unsafe fn execute(&mut self, process: &Process) -> Result<()> {
        process.copy(Way::Read, &self.pieces)?;
        for update in &self.updates {
            // SAFETY: the targets are in `room`, aligned for every type; operands and results are
            // valid by the contract of `combine_many`.
            unsafe { update.execute_locked() };
        }
        if self.updates.iter().any(|update| update.op != Reduce::NoOp) {
            process.copy(Way::Write, &self.pieces)?;
        }
        self.pieces.clear();
        self.updates.clear();
        self.used = 0;
        Ok(())
    }
}

impl Window {
    /// Combines blocks of another process, whose addresses the updates have as their targets. Each
    /// has at most `AT_ONCE` bytes.
    ///
    /// # Safety
    /// As for `Update::execute_locked`, except for the targets, which are only used as addresses.
    /// The lock is held.
    pub(crate) unsafe fn combine_many(
        &self,
        process: &Process,
        updates: impl Iterator<Item = Update>,
    ) -> Result<()> {
        self.group.service.windows().rooms.with(AT_ONCE, |room| {
            let (pieces, blocks) = (Vec::with_capacity(PIECES), Vec::with_capacity(PIECES));
            let mut turn = Turn { room, used: 0, pieces, updates: blocks };
            for update in updates {
                if !turn.add(&update) {
                    // SAFETY: operands and results are valid, and the lock is held, by this
                    // function's contract.
                    unsafe { turn.execute(process) }?;
                    let fits = turn.add(&update);
                    debug_assert!(fits, "a block of more than the room");
                }
            }
            // SAFETY: operands and results are valid, and the lock is held, by this function's
            // contract.
            unsafe { turn.execute(process) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::wire::element_type::ElementType;

    fn turn(room: &mut [u64]) -> Turn<'_> {
        Turn { room, used: 0, pieces: Vec::new(), updates: Vec::new() }
    }

    fn update(at: u64, count: usize) -> Update {
        let target = std::ptr::without_provenance_mut(at as usize);
        let (operand, result) = (std::ptr::null(), std::ptr::null_mut());
        Update { kind: ElementType::Uint64, op: Reduce::NoOp, target, operand, result, count }
    }

    #[test]
    fn what_is_fetched_has_one_place() {
        let mut room = [0; 16];
        let begin: *mut u8 = room.as_mut_ptr().cast();
        let mut turn = turn(&mut room);
        // One after the other, both again, one before, and one that closes the gap.
        let named = [(100, 2), (116, 1), (108, 1), (116, 1), (50, 1), (58, 2)];
        let places = [0, 16, 8, 16, 24, 32];
        for ((at, count), place) in named.into_iter().zip(places) {
            assert!(turn.add(&update(at, count)), "{at}");
            assert_eq!(turn.updates.last().unwrap().target, begin.wrapping_add(place), "{at}");
        }
        assert_eq!(turn.pieces, [(begin.wrapping_add(24), 50, 24), (begin, 100, 24)]);
        // Blocks that overlap partly, and blocks that do not fit.
        for (at, count) in [(92, 2), (116, 2), (42, 2), (66, 2), (0, 11), (u64::MAX - 3, 1)] {
            assert!(!turn.add(&update(at, count)), "{at}");
        }
        assert!(
            turn.add(&update(200, 10)) && !turn.add(&update(300, 1)) && turn.add(&update(272, 1))
        );
    }
}
