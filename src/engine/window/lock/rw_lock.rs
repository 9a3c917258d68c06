//! The lock of a window's target: readers and writers of several processes, in shared memory.
//!
//! A waiter takes the lock itself; nobody hands it over. So nothing has to be taken back from a
//! process that has given up or died. All information about a process is in its own slot, or in the
//! one word by which it holds the lock exclusively. A dead process never leaves a count without an
//! owner.
//!
//! Costs (AMD EPYC, Zen 5, a busy machine, the best of seven rounds; `cargo test --release --lib
//! engine::window::lock::rw_lock -- --ignored --nocapture figures`): lock and unlock without
//! contention 11 ns, for readers and for writers: two atomic operations. If readers and writers
//! alternate, the writer checks all slots and the reader sets a mark: 12 ns more for both with 4
//! ranks, 40 with 60. Two threads that only lock and unlock: 40 ns each time the lock changes
//! hands, as readers and as writers.

use crate::engine::base::clock;
use crate::engine::base::futex::look_in_turns;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::sync::{in_one_order, Ordering};
#[cfg(not(loom))]
use crate::engine::window::describe::Holders;
use crate::engine::window::lock::lock_memory::{
    tag, Head, Slot, ARRIVAL, DRAINING, OWNER, POISONED, READERS, WAITERS,
};
use crate::engine::wire::sync_constants::LockType;
use std::time::Duration;

/// The lock, as a view of its memory.
///
/// **State.** `state` has the exclusive holder and four marks. Readers are only in their slots, so
/// they share no cache line. All accesses to `state` and to the slots' words are SeqCst; the
/// following relies on their total order.
///
/// **A reader** writes to its slot that it reads, then looks at `state`. If there is no owner and
/// no queue, it reads, once it or another reader has set `READERS`. Otherwise it clears its slot.
/// **A writer** makes itself the owner. If it found `READERS` set, it checks all slots and waits
/// (`DRAINING`) until no slot reads. If a reader and a writer meet, one of them sees the other, as
/// both write first and look afterwards. A writer that did not find `READERS` comes before any
/// reader's setting of `READERS`.
///
/// **The queue.** A process that does not get in at once draws a place, writes it to its slot, and
/// adds its arrival and `WAITERS` to `state`. It gets in, as above, when there is no owner and no
/// slot with an earlier place (for a reader: no writer's slot). So the lock passes from process to
/// process in the order of places, and consecutive readers get it together. Only a process that is
/// slow between drawing and writing its place may be overtaken, by each other process at most once.
/// A reader keeps its place while it enters, so that no later writer passes it. A process that
/// leaves the queue or the lock wakes those that can get in (`pass_on`), or clears `WAITERS` if no
/// slot waits. That is a compare-and-swap, which fails if somebody has arrived meanwhile, as each
/// arrival changes the count, after it has filled its slot.
///
/// The order has its price: a waiter that is first and does not run, because it is stopped or polls
/// rarely, holds up those behind it.
///
/// **Sleeping.** A waiter sets its `bell`, looks once more, and sleeps on the bell. A process that
/// changes what it waits for looks at the bell afterwards.
///
/// **Data.** What was written under the lock is visible to the next holder: a leaving process
/// releases `state` or its slot, and an entering one has acquired that value, or one that a chain
/// of read-modify-writes made of it.
///
/// **Death.** A waiter that nobody wakes for a while checks whether the processes that keep it out
/// live, and cleans up after dead ones. A reader's slot or a place in the queue is freed. An owner
/// that was still draining has changed nothing, and is removed. An owner that held the lock makes
/// it poisoned, as its changes are unknown. Each of these is one compare-and-swap, so only one of
/// several waiters does it, and that one may die as well. **Giving up** is the same, done by the
/// process itself.
#[derive(Clone, Copy)]
pub struct WindowLock<'a> {
    head: &'a Head,
    slots: &'a [Slot],
}

/// Parameters of a wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// On the library's clock.
    pub(crate) deadline: u64,
    /// Pause between two checks whether the others live.
    pub(crate) pace: Option<Duration>,
    /// Does this rank live?
    pub(crate) is_alive: &'a dyn Fn(u32) -> bool,
    /// Called between two sleeps.
    pub(crate) meanwhile: &'a dyn Fn(),
}

/// Default pause between these checks: a death is reported within two seconds.
pub const PACE: Duration = Duration::from_millis(50);

/// The lock is poisoned.
struct Poisoned;

fn owner_of(rank: u32) -> u64 {
    u64::from(rank) + 1
}

impl<'a> WindowLock<'a> {
    /// Most ranks.
    pub const MAX_RANKS: u32 = (OWNER - 1) as u32;

    /// Length of a lock for `ranks` ranks: two cache lines, and one for each rank.
    pub const fn bytes(ranks: u32) -> usize {
        size_of::<Head>() + ranks as usize * size_of::<Slot>()
    }

    /// The lock in this memory.
    ///
    /// # Safety
    /// `memory` is aligned to a cache line, and has `bytes(ranks)` bytes while the view is used.
    /// They were zero at first, and are only written by this type.
    #[cfg(not(loom))]
    pub unsafe fn at(memory: *mut u8, ranks: u32) -> Self {
        debug_assert!(memory.cast::<Head>().is_aligned() && ranks <= Self::MAX_RANKS);
        // SAFETY: valid memory by this function's contract; it contains only atomics, for which all
        // bytes are valid.
        unsafe {
            let slots = memory.add(size_of::<Head>()).cast::<Slot>();
            Self::of(&*memory.cast::<Head>(), std::slice::from_raw_parts(slots, ranks as usize))
        }
    }

    /// A lock of these words, with one slot for each rank.
    pub fn of(head: &'a Head, slots: &'a [Slot]) -> Self {
        WindowLock { head, slots }
    }

    fn slot(&self, rank: u32) -> &'a Slot {
        &self.slots[rank as usize]
    }

    #[inline]
    fn state(&self) -> u64 {
        self.head.state.load(Ordering::SeqCst)
    }

    #[inline]
    fn change(&self, from: u64, to: u64) -> bool {
        self.head.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Takes the lock for this rank, which neither has it nor waits for it. Errors: TIMED_OUT at
    /// the deadline, RMA_POISONED if an owner has died.
    #[inline]
    pub fn lock(&self, rank: u32, how: LockType, patience: &Patience) -> Result<()> {
        if self.enter(rank, how) {
            return Ok(());
        }
        self.lock_slow(rank, how, patience)
    }

    /// For people: who holds it now, and who waits. Other processes may have written anything.
    #[cfg(not(loom))]
    pub(crate) fn holders(&self) -> Holders {
        let state = self.head.state.load(Ordering::Relaxed);
        let with = |is: fn(u64) -> bool| {
            let ranks = (0..).zip(self.slots);
            ranks
                .filter(|(_, slot)| is(slot.word.load(Ordering::Relaxed)))
                .map(|(rank, _)| rank)
                .collect()
        };
        Holders {
            exclusive: (state & OWNER).checked_sub(1).map(|rank| rank as u32),
            shared: with(|word| tag::of(word) == tag::READS),
            waiting: with(tag::is_in_line),
            is_poisoned: state & POISONED != 0,
        }
    }

    /// Takes the lock if that needs no waiting.
    #[inline]
    pub fn try_lock(&self, rank: u32, how: LockType) -> bool {
        let entered = self.enter(rank, how);
        if !entered && how == LockType::Shared {
            self.leave_slot(self.slot(rank));
        }
        entered
    }

    /// Tries to enter without the queue. If a reader fails, its slot still says that it reads.
    #[inline]
    fn enter(&self, rank: u32, how: LockType) -> bool {
        match how {
            LockType::Exclusive => {
                let state = self.head.state.load(Ordering::Relaxed);
                state & (OWNER | WAITERS | READERS | POISONED) == 0
                    && self.change(state, state | owner_of(rank))
                    || (state & (OWNER | WAITERS | READERS | POISONED) == READERS
                        && self.enter_after_readers(rank))
            }
            LockType::Shared => {
                self.slot(rank).word.swap(tag::READS, Ordering::SeqCst);
                in_one_order();
                self.admit_reader(OWNER | POISONED | WAITERS)
            }
        }
    }

    /// For a writer that finds `READERS`: enters if there are no readers any more. If there are, it
    /// has to wait in the queue.
    #[cold]
    fn enter_after_readers(&self, rank: u32) -> bool {
        let state = self.state();
        let may = state & (OWNER | WAITERS | POISONED) == 0 && !self.has_readers();
        if !may || !self.become_owner(rank, state) {
            return false;
        }
        in_one_order();
        let granted = state & READERS == 0 || self.finish_draining();
        if !granted {
            self.stop_draining(rank);
        }
        granted
    }

    /// Makes sure that `READERS` is set. False if a bit of `refusing` is set.
    #[inline]
    fn admit_reader(&self, refusing: u64) -> bool {
        loop {
            let state = self.state();
            if state & refusing != 0 {
                return false;
            }
            if state & READERS != 0 || self.change(state, state | READERS) {
                return true;
            }
        }
    }

    fn become_owner(&self, rank: u32, state: u64) -> bool {
        let draining = if state & READERS != 0 { DRAINING } else { 0 };
        self.change(state, state & !READERS | draining | owner_of(rank))
    }

    fn has_readers(&self) -> bool {
        self.slots.iter().any(|slot| tag::is_reader(slot.word.load(Ordering::SeqCst)))
    }

    /// Called by the draining owner: true if it holds the lock now.
    fn finish_draining(&self) -> bool {
        if self.has_readers() {
            return false;
        }
        self.head.state.fetch_and(!DRAINING, Ordering::SeqCst);
        true
    }

    /// Gives up ownership. Sets `READERS`, as not all readers have been seen leaving.
    fn stop_draining(&self, rank: u32) {
        loop {
            let state = self.state();
            if state & (OWNER | DRAINING) != owner_of(rank) | DRAINING {
                break;
            }
            if self.change(state, state & !(OWNER | DRAINING) | READERS) {
                break;
            }
        }
        in_one_order();
        self.pass_on();
    }

    /// Releases the lock. An error if others have treated this process as dead.
    #[inline]
    pub fn unlock(&self, rank: u32, how: LockType) -> Result<()> {
        match how {
            LockType::Exclusive => loop {
                let state = self.head.state.load(Ordering::Relaxed);
                if state & OWNER != owner_of(rank) {
                    return Err(lost(rank));
                }
                if self.change(state, state & !OWNER) {
                    if state & WAITERS != 0 {
                        in_one_order();
                        self.pass_on();
                    }
                    return Ok(());
                }
            },
            LockType::Shared => {
                let before = self.leave_slot(self.slot(rank));
                if before == tag::READS {
                    Ok(())
                } else {
                    Err(lost(rank))
                }
            }
        }
    }

    /// Frees the slot, and returns its old word.
    #[inline]
    fn leave_slot(&self, slot: &Slot) -> u64 {
        let before = slot.word.swap(tag::FREE, Ordering::SeqCst);
        in_one_order();
        self.tell_draining();
        before
    }

    /// Wakes a draining owner, as a reader has left.
    #[inline]
    fn tell_draining(&self) {
        let state = self.state();
        if state & DRAINING != 0 {
            self.ring(state & OWNER);
        }
    }

    #[cold]
    fn ring(&self, owner: u64) {
        // Other processes may have written any value here. At worst this wakes a process in vain.
        if let Some(slot) = (owner as usize).checked_sub(1).and_then(|rank| self.slots.get(rank)) {
            in_one_order();
            if slot.bell.swap(0, Ordering::SeqCst) == 1 {
                slot.bell.wake_all();
            }
        }
    }

    /// Wakes the waiters that can get in now, or clears `WAITERS` if there are none.
    #[cold]
    fn pass_on(&self) {
        loop {
            let state = self.state();
            if state & WAITERS == 0 || state & OWNER != 0 {
                return;
            }
            let line = || {
                (1..).zip(self.slots).map(|(owner, slot)| (owner, slot.word.load(Ordering::SeqCst)))
            };
            let in_line = || line().filter(|(_, word)| tag::is_in_line(*word));
            if state & POISONED != 0 {
                return in_line().for_each(|(owner, _)| self.ring(owner));
            }
            let place = |word: u64| word >> tag::BITS;
            let writer = in_line()
                .filter(|(_, word)| tag::of(*word) == tag::WAITS_TO_WRITE)
                .min_by_key(|(_, word)| place(*word));
            let until = writer.map_or(u64::MAX, |(_, word)| place(word));
            let mut readers = in_line().filter(|(_, word)| place(*word) < until).peekable();
            if readers.peek().is_some() {
                return readers.for_each(|(owner, _)| self.ring(owner));
            }
            match writer {
                Some((owner, _)) => return self.ring(owner),
                None if self.change(state, state & !WAITERS) => return,
                None => {}
            }
        }
    }

    #[cold]
    fn lock_slow(&self, rank: u32, how: LockType, patience: &Patience) -> Result<()> {
        self.begin_waiting(rank, how);
        self.wait_in_line(rank, how, patience)
    }

    /// Like `lock`, for a rank that has a place from `begin_waiting`.
    pub fn wait_in_line(&self, rank: u32, how: LockType, patience: &Patience) -> Result<()> {
        let slot = self.slot(rank);
        let mut seen = Ok(false);
        look_in_turns(&mut || {
            if self.is_worth_a_look(rank) {
                seen = self.look(rank, how);
            }
            !matches!(seen, Ok(false))
        });
        let outcome = loop {
            match seen {
                Ok(false) => {}
                Ok(true) => break Ok(()),
                Err(Poisoned) => break Err(poisoned()),
            }
            // `swap`, not `store`: costs the same, and is ordered after the last ring; loom does
            // not give a store that order.
            slot.bell.swap(1, Ordering::SeqCst);
            in_one_order();
            seen = self.look(rank, how);
            if !matches!(seen, Ok(false)) {
                continue;
            }
            let left = clock::remaining(patience.deadline);
            if left == Some(Duration::ZERO) {
                self.give_up(rank);
                break Err(Error::new(
                    Status::TIMED_OUT,
                    "lock: others held it, or waited for it first, until the deadline",
                ));
            }
            slot.bell.wait(1, [left, patience.pace].into_iter().flatten().min());
            (patience.meanwhile)();
            // Nobody has rung the bell.
            if slot.bell.load(Ordering::Relaxed) == 1 {
                self.undo_the_dead(rank, patience.is_alive);
            }
        };
        slot.bell.store(0, Ordering::Relaxed);
        outcome
    }

    /// Takes a place in the queue, for a caller that cannot sleep here and polls by `look`.
    pub fn begin_waiting(&self, rank: u32, how: LockType) {
        let place = self.head.places.fetch_add(1, Ordering::Relaxed) << tag::BITS;
        let waits = if how == LockType::Shared { tag::WAITS_TO_READ } else { tag::WAITS_TO_WRITE };
        let before = self.slot(rank).word.swap(place | waits, Ordering::SeqCst);
        in_one_order();
        loop {
            let state = self.state();
            if self.change(state, state.wrapping_add(ARRIVAL) | WAITERS) {
                break;
            }
        }
        if before == tag::READS {
            in_one_order();
            self.tell_draining();
        }
    }

    fn is_worth_a_look(&self, rank: u32) -> bool {
        let state = self.state();
        match state & OWNER {
            0 => true,
            owner => owner == owner_of(rank) && !self.has_readers(),
        }
    }

    /// Polls for a waiter: true once it has the lock.
    fn look(&self, rank: u32, how: LockType) -> std::result::Result<bool, Poisoned> {
        let slot = self.slot(rank);
        loop {
            let state = self.state();
            if state & OWNER == owner_of(rank) {
                return Ok(self.finish_draining());
            }
            if state & POISONED != 0 {
                self.leave_slot(slot);
                return Err(Poisoned);
            }
            if state & OWNER != 0 {
                return Ok(false);
            }
            let word = slot.word.load(Ordering::Relaxed);
            if !tag::is_in_line(word) {
                // Others have treated this process as dead.
                self.begin_waiting(rank, how);
                continue;
            }
            if !self.is_first(word) {
                return Ok(false);
            }
            if how == LockType::Exclusive {
                if self.become_owner(rank, state) {
                    slot.word.store(tag::FREE, Ordering::SeqCst);
                    in_one_order();
                    return Ok(state & READERS == 0 || self.finish_draining());
                }
            } else {
                slot.word.swap(tag::set(word, tag::ENTERS), Ordering::SeqCst);
                in_one_order();
                if self.admit_reader(OWNER | POISONED) {
                    slot.word.store(tag::READS, Ordering::SeqCst);
                    in_one_order();
                    self.pass_on();
                    return Ok(true);
                }
                slot.word.swap(word, Ordering::SeqCst);
                in_one_order();
                self.tell_draining();
            }
        }
    }

    /// Is nobody before this one in the queue whom it has to wait for?
    fn is_first(&self, word: u64) -> bool {
        let reads = tag::of(word) == tag::WAITS_TO_READ;
        !self.slots.iter().any(|other| {
            let other = other.word.load(Ordering::SeqCst);
            let keeps_out =
                if reads { tag::of(other) == tag::WAITS_TO_WRITE } else { tag::is_in_line(other) };
            keeps_out && other >> tag::BITS < word >> tag::BITS
        })
    }

    /// Polls for a rank that waits by `begin_waiting`: true once it has the lock. RMA_POISONED ends
    /// the wait.
    pub fn poll(&self, rank: u32, how: LockType) -> Result<bool> {
        self.look(rank, how).map_err(|Poisoned| poisoned())
    }

    /// Sets whether the owner, which is on another host, knows of its grant. Before that, its death
    /// leaves the lock free, like that of a draining owner. It ends by `give_up`.
    pub fn set_known(&self, rank: u32, knows: bool) {
        let draining = if knows { 0 } else { DRAINING };
        loop {
            let state = self.state();
            if state & OWNER != owner_of(rank) || self.change(state, state & !DRAINING | draining) {
                return;
            }
        }
    }

    /// Ends the wait.
    pub fn give_up(&self, rank: u32) {
        let state = self.state();
        if state & OWNER == owner_of(rank) {
            return self.stop_draining(rank);
        }
        self.leave_slot(self.slot(rank));
        in_one_order();
        self.pass_on();
    }

    /// Checks whether the processes that keep this waiter out live, and cleans up after dead ones.
    /// `lock` calls it by itself.
    pub fn undo_the_dead(&self, rank: u32, is_alive: &dyn Fn(u32) -> bool) {
        let state = self.state();
        let owner = state & OWNER;
        if owner != 0 && owner != owner_of(rank) && !is_alive((owner - 1) as u32) {
            let left = if state & DRAINING != 0 { READERS } else { POISONED };
            if self.change(state, state & !(OWNER | DRAINING) | left) {
                in_one_order();
                self.pass_on();
            }
        }
        let place = self.slot(rank).word.load(Ordering::Relaxed) >> tag::BITS;
        let drains = owner == owner_of(rank);
        for (other, slot) in (0..).zip(self.slots).filter(|(other, _)| *other != rank) {
            let word = slot.word.load(Ordering::SeqCst);
            let keeps_out = if drains {
                tag::is_reader(word)
            } else {
                tag::is_in_line(word) && word >> tag::BITS < place
            };
            let free = (Ordering::SeqCst, Ordering::Relaxed);
            if keeps_out
                && !is_alive(other)
                && slot.word.compare_exchange(word, tag::FREE, free.0, free.1).is_ok()
            {
                in_one_order();
                self.tell_draining();
                self.pass_on();
            }
        }
    }

    /// Has an owner died?
    pub fn is_poisoned(&self) -> bool {
        self.state() & POISONED != 0
    }

    /// Makes the lock usable again, after its data has been repaired.
    pub fn recover(&self) {
        self.head.state.fetch_and(!POISONED, Ordering::SeqCst);
        in_one_order();
        self.pass_on();
    }

    /// Nobody holds it or waits. For tests.
    #[cfg(test)]
    pub(crate) fn is_untouched(&self) -> bool {
        self.state() & (OWNER | DRAINING | WAITERS | POISONED) == 0
            && self.slots.iter().all(|slot| slot.word.load(Ordering::SeqCst) == tag::FREE)
    }
}

#[cold]
fn poisoned() -> Error {
    Error::new(Status::RMA_POISONED, "lock: a process has died that held it alone")
}

#[cold]
fn lost(rank: u32) -> Error {
    Error::new(
        Status::RMA_POISONED,
        format!("unlock: rank {rank} was taken for dead, and no longer holds the lock"),
    )
}

#[cfg(not(loom))]
impl<'a> Patience<'a> {
    /// A wait that begins now and lasts `timeout_ns`; `u64::MAX` for no limit.
    pub fn new(timeout_ns: u64, is_alive: &'a dyn Fn(u32) -> bool) -> Self {
        Patience {
            deadline: clock::deadline_after(timeout_ns),
            pace: Some(PACE),
            is_alive,
            meanwhile: &|| (),
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "rw_lock_tests.rs"]
mod tests;
