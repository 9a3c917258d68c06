//! The lock of a window's target: for readers and writers in several processes, in memory that they
//! share.
//!
//! Whoever waits serves himself: nobody is handed the lock, so nobody has to take back what was
//! handed to one that has given up or died. All there is to know of a process stands in its own
//! slot, or in the one word, by which it holds the lock alone: what a dead one leaves behind is
//! never a number without an owner.
//!
//! What it costs (AMD EPYC, Zen 5, a busy machine, the best of seven rounds; `cargo test --release
//! --lib engine::window::lock::rw_lock -- --ignored --nocapture figures`): lock and unlock, with
//! nobody else there, 11 ns, for writers as for readers: two atomic operations. Where one follows
//! the other the writer looks at all slots, and the reader marks that there are some: 12 ns more
//! for both with 4 ranks, 40 with 60. Two threads that do nothing else: 40 ns each time that one of
//! them gets it, as readers and as writers.

use crate::engine::base::clock;
use crate::engine::base::futex::look_in_turns;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::sync::{in_one_order, Ordering};
use crate::engine::window::lock::lock_memory::{
    tag, Head, Slot, ARRIVAL, DRAINING, OWNER, POISONED, READERS, WAITERS,
};
use crate::engine::wire::sync_constants::LockType;
use std::time::Duration;

/// A view of the lock.
///
/// **State.** `state` names who holds the lock alone, and has four marks. A reader is known by its
/// slot alone, so that readers share no cache line. Each access to `state` and to the slots' words
/// is SeqCst: what follows speaks of their one order.
///
/// **A reader** says in its slot that it reads, then looks at `state`: without an owner, and with
/// nobody in line, it reads, once `READERS` is set there by it or another; else it takes back what
/// it said. **A writer** makes itself the owner, then, if it found `READERS`, looks at every slot,
/// and waits (`DRAINING`) until none says that its process reads. Of a reader and a writer that
/// meet, one sees the other, as either writes first and looks afterwards; and who writes without
/// having found `READERS` comes before the `READERS` that any reader needs.
///
/// **The line.** Who does not get in at once draws a place, writes it to its slot, and counts its
/// arrival in `state` together with `WAITERS`. It gets in, as above, when there is no owner, and no
/// slot with an earlier place (for a reader: no writer's). So the lock goes from one to the next in
/// the order of places, readers that follow each other together. Only who had drawn a place and was
/// slow to write it down may find that it has been overtaken, by each of the others once at most. A
/// reader keeps its place while it enters, lest a later writer go past it. Who leaves the line, or
/// the lock, wakes whom that lets in (`pass_on`), or takes `WAITERS` away if its slots show nobody;
/// the count of arrivals makes that fail when somebody has come meanwhile, who had filled the slot
/// before.
///
/// The order has its price: a waiter whose turn has come and who does not run, as it is stopped or
/// rarely polls, holds up those behind it.
///
/// **Sleeping.** A waiter says in its `bell` that it sleeps, looks once more, and sleeps on it. Who
/// changes what it waits for looks at the bell afterwards.
///
/// **Data.** What was written under the lock is seen by the next holder: whoever leaves releases
/// `state`, or its slot, and who gets in has read that (or what a chain of read-modify-writes has
/// made of it) by acquire.
///
/// **Death.** A waiter that nobody wakes for a while asks whether those are alive that keep it out,
/// and undoes what a dead one has left: a reader's slot or a place in line is freed; an owner that
/// was still draining had touched nothing, and is taken out; one that held the lock makes it
/// poisoned, as nobody knows what it had changed. All of that is one compare-and-swap, so that only
/// one of several waiters does it, and it does not matter if that one dies as well. **Giving up**
/// is the same, done by oneself.
#[derive(Clone, Copy)]
pub struct WindowLock<'a> {
    head: &'a Head,
    slots: &'a [Slot],
}

/// How long somebody waits.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    /// By the library's clock.
    pub(crate) deadline: u64,
    /// Between questions whether the others are alive.
    pub(crate) pace: Option<Duration>,
    /// Of a rank.
    pub(crate) is_alive: &'a dyn Fn(u32) -> bool,
    /// Done between sleeps.
    pub(crate) meanwhile: &'a dyn Fn(),
}

/// How often it is asked by default: a death is told within two seconds.
pub const PACE: Duration = Duration::from_millis(50);

/// The lock cannot be had any more.
struct Poisoned;

fn owner_of(rank: u32) -> u64 {
    u64::from(rank) + 1
}

impl<'a> WindowLock<'a> {
    /// The most ranks that there can be.
    pub const MAX_RANKS: u32 = (OWNER - 1) as u32;

    /// Bytes of the lock of so many ranks: two cache lines, and one for each.
    pub const fn bytes(ranks: u32) -> usize {
        size_of::<Head>() + ranks as usize * size_of::<Slot>()
    }

    /// The lock in this memory.
    ///
    /// # Safety
    /// `memory` is aligned to a cache line, has `bytes(ranks)` bytes as long as the view is used,
    /// all zero at first, and is written in this way alone.
    #[cfg(not(all(test, loom)))]
    pub unsafe fn at(memory: *mut u8, ranks: u32) -> Self {
        debug_assert!(memory.cast::<Head>().is_aligned() && ranks <= Self::MAX_RANKS);
        // SAFETY: as for this function; both consist of atomics, for which all bytes are valid.
        unsafe {
            let slots = memory.add(size_of::<Head>()).cast::<Slot>();
            Self::of(&*memory.cast::<Head>(), std::slice::from_raw_parts(slots, ranks as usize))
        }
    }

    /// The lock that these are, one slot for each rank.
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

    /// Gets the lock for that rank, which does not have it, nor waits for it. Waits until the
    /// deadline: TIMED_OUT. RMA_POISONED where an owner has died.
    #[inline]
    pub fn lock(&self, rank: u32, how: LockType, patience: &Patience) -> Result<()> {
        if self.enter(rank, how) {
            return Ok(());
        }
        self.lock_slow(rank, how, patience)
    }

    /// The same if it takes no waiting.
    #[inline]
    pub fn try_lock(&self, rank: u32, how: LockType) -> bool {
        let entered = self.enter(rank, how);
        if !entered && how == LockType::Shared {
            self.leave_slot(self.slot(rank));
        }
        entered
    }

    /// The way past the line. A reader that is not let in has its slot say that it reads.
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

    /// A writer that finds that there have been readers: if there are some still, they are waited
    /// for in line.
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

    /// Afterwards `READERS` is set, unless something of `refusing` was.
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

    /// Of the owner that drains: true if it holds the lock now.
    fn finish_draining(&self) -> bool {
        if self.has_readers() {
            return false;
        }
        self.head.state.fetch_and(!DRAINING, Ordering::SeqCst);
        true
    }

    /// No owner any more. There may be readers, as it has not seen the last of them go.
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

    /// Gives the lock back. An error if the others have taken this process for dead.
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

    /// What it said is returned.
    #[inline]
    fn leave_slot(&self, slot: &Slot) -> u64 {
        let before = slot.word.swap(tag::FREE, Ordering::SeqCst);
        in_one_order();
        self.tell_draining();
        before
    }

    /// A reader has gone.
    #[inline]
    fn tell_draining(&self) {
        let state = self.state();
        if state & DRAINING != 0 {
            self.ring(state & OWNER);
        }
    }

    #[cold]
    fn ring(&self, owner: u64) {
        // Other processes write what is read here: whatever it is, nothing worse than a wake comes
        // of it.
        if let Some(slot) = (owner as usize).checked_sub(1).and_then(|rank| self.slots.get(rank)) {
            in_one_order();
            if slot.bell.swap(0, Ordering::SeqCst) == 1 {
                slot.bell.wake_all();
            }
        }
    }

    /// Wakes those in line who can get in now, or takes the mark away if there is nobody.
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

    /// As `lock`, for one that has its place by `begin_waiting`.
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
            // Costs what a store costs, and comes after the last ring, which the model checker does
            // not take from a store.
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
                    "lock: others have held it, or waited before, until the deadline",
                ));
            }
            slot.bell.wait(1, [left, patience.pace].into_iter().flatten().min());
            (patience.meanwhile)();
            // Nobody has rung.
            if slot.bell.load(Ordering::Relaxed) == 1 {
                self.undo_the_dead(rank, patience.is_alive);
            }
        };
        slot.bell.store(0, Ordering::Relaxed);
        outcome
    }

    /// Takes a place in line, for a caller that cannot sleep here: `look` tells when it has come to
    /// the lock.
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

    /// One look of one that waits: true once it has the lock.
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
                // The others have taken this process for dead.
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

    /// Is nobody before the one whose word this is, in whose company it could not get in?
    fn is_first(&self, word: u64) -> bool {
        let reads = tag::of(word) == tag::WAITS_TO_READ;
        !self.slots.iter().any(|other| {
            let other = other.word.load(Ordering::SeqCst);
            let keeps_out =
                if reads { tag::of(other) == tag::WAITS_TO_WRITE } else { tag::is_in_line(other) };
            keeps_out && other >> tag::BITS < word >> tag::BITS
        })
    }

    /// One look of one that waits by `begin_waiting`: true once it has the lock. RMA_POISONED ends
    /// the waiting.
    pub fn poll(&self, rank: u32, how: LockType) -> Result<bool> {
        self.look(rank, how).map_err(|Poisoned| poisoned())
    }

    /// Whether the owner, which is elsewhere, knows of its grant. As long as it does not its death
    /// leaves the lock free, as that of one who drains does; it ends by `give_up`.
    pub fn set_known(&self, rank: u32, knows: bool) {
        let draining = if knows { 0 } else { DRAINING };
        loop {
            let state = self.state();
            if state & OWNER != owner_of(rank) || self.change(state, state & !DRAINING | draining) {
                return;
            }
        }
    }

    /// Ends waiting.
    pub fn give_up(&self, rank: u32) {
        let state = self.state();
        if state & OWNER == owner_of(rank) {
            return self.stop_draining(rank);
        }
        self.leave_slot(self.slot(rank));
        in_one_order();
        self.pass_on();
    }

    /// Asks whether those are alive that keep this one out, and undoes what the dead have left. For
    /// one that waits; `lock` does it by itself.
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

    /// The lock may be had again: somebody has seen to what it protects.
    pub fn recover(&self) {
        self.head.state.fetch_and(!POISONED, Ordering::SeqCst);
        in_one_order();
        self.pass_on();
    }

    /// Nobody holds it, or waits. For tests.
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
        format!("unlock: rank {rank} has been taken for dead, and does not hold it any more"),
    )
}

#[cfg(not(all(test, loom)))]
impl<'a> Patience<'a> {
    /// From now on, for so long; `u64::MAX` for ever.
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
