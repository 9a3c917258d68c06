//! Accumulates of many blocks at memory that the kernel copies.
//!
//! Blocks are fetched together, combined here, and written back together: two system calls a turn
//! instead of two a block. A block of what has been fetched already is combined where that stands,
//! so an element may be named often. One that overlaps it in part begins the next turn.
//!
//! Cost: two lists for each call, and a search among the blocks of a turn for each of them.

use crate::engine::base::status::Result;
use crate::engine::os::own_memory::Way;
use crate::engine::window::access::{Piece, Process, PIECES};
use crate::engine::window::data::reduce::Update;
use crate::engine::window::window::Window;
use crate::engine::wire::element_type::Reduce;

/// Bytes that are fetched in a turn.
pub(crate) const AT_ONCE: usize = 64 << 10;
/// Blocks of a turn, of which several may be of one piece.
const BLOCKS: usize = 1024;

/// What is fetched together.
struct Turn<'a> {
    room: &'a mut [u64],
    used: usize,
    /// By address there; none overlaps another one.
    pieces: Vec<Piece>,
    /// At the room, in the order of the call.
    updates: Vec<Update>,
}

impl Turn<'_> {
    /// Where the bytes of that address stand here; none if they have no place in this turn.
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

    /// False if it does not go into this turn.
    fn add(&mut self, update: &Update) -> bool {
        let bytes = update.count * update.kind.size();
        let place = (self.updates.len() < BLOCKS)
            .then(|| self.place_for(update.target.addr() as u64, bytes));
        let Some(target) = place.flatten() else { return false };
        self.updates.push(Update { target, ..*update });
        true
    }

    /// Does what there is, and begins the next one.
    ///
    /// # Safety
    /// As for `combine_many`.
    unsafe fn execute(&mut self, process: &Process) -> Result<()> {
        process.copy(Way::Read, &self.pieces)?;
        for update in &self.updates {
            // SAFETY: as many bytes of the room, aligned for every type; and as for this function.
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
    /// Blocks of memory there, whose addresses the updates have as their targets, each of `AT_ONCE`
    /// bytes at most.
    ///
    /// # Safety
    /// As for `Update::execute_locked`, but for the targets, which are not looked at; under the
    /// lock.
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
                    // SAFETY: as for this function.
                    unsafe { turn.execute(process) }?;
                    let fits = turn.add(&update);
                    debug_assert!(fits, "a block of more than the room");
                }
            }
            // SAFETY: as above.
            unsafe { turn.execute(process) }
        })
    }
}

#[cfg(all(test, not(loom)))]
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
        // One behind the other, both again, one before, and one behind it that closes the gap.
        let named = [(100, 2), (116, 1), (108, 1), (116, 1), (50, 1), (58, 2)];
        let places = [0, 16, 8, 16, 24, 32];
        for ((at, count), place) in named.into_iter().zip(places) {
            assert!(turn.add(&update(at, count)), "{at}");
            assert_eq!(turn.updates.last().unwrap().target, begin.wrapping_add(place), "{at}");
        }
        assert_eq!(turn.pieces, [(begin.wrapping_add(24), 50, 24), (begin, 100, 24)]);
        // What overlaps in part, and what does not fit.
        for (at, count) in [(92, 2), (116, 2), (42, 2), (66, 2), (0, 11), (u64::MAX - 3, 1)] {
            assert!(!turn.add(&update(at, count)), "{at}");
        }
        assert!(
            turn.add(&update(200, 10)) && !turn.add(&update(300, 1)) && turn.add(&update(272, 1))
        );
    }
}
