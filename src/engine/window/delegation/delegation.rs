//! Short data calls at memory of the target's own, handed to the target itself while one of its
//! threads waits in the library.
//!
//! Such memory is mapped nowhere else, and the kernel takes more than a microsecond to copy 8 bytes
//! into it. A target that waits anyway does it in a tenth of that. Nothing depends on it: whoever
//! finds nobody there, or is not served at once, goes through the kernel as ever.
//!
//! There is one slot for each target, in the control words of its window, with room for one
//! operation, and for what the next one of the same call sends: that is put there while the target
//! is at the one before. An origin claims it, writes what it wants, and posts that. One atomic word
//! settles who executes: a thread of the target takes it, or the origin takes it back (see
//! `window::delegation::slot_state`). What was taken is done, or refused with nothing done; the
//! target says which, and the origin gives the slot back when it has what was fetched. What the
//! origin writes, what both settle, and what the target writes stand on lines of their own, so that
//! neither takes away from the other what it is about to write.
//!
//! Nobody waits for a lock in here. Whoever serves takes the update lock if that is free, and else
//! refuses; an origin that finds the slot taken by another goes its own way. What the origin waits
//! for without end is what was taken already, the copying of some kilobytes: if the target is
//! stopped in the midst of that it waits until the target goes on or has ended.
//!
//! Who dies. A target that has died, or is stopped, takes nothing, and the origin takes back what
//! it has posted. An origin that has died leaves the slot to nobody, so that the others go through
//! the kernel from then on; what it had posted last is not executed later than `FRESH_NS` after
//! that, lest it come after all that its death has led to.
//!
//! What stands in a slot was written by another process: it is copied once, and checked like a
//! message.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::Result;
use crate::engine::os::own_memory::Way;
use crate::engine::rma::put_get;
use crate::engine::window::access::Reach;
use crate::engine::window::control_words::Ended;
use crate::engine::window::data::data::Place;
use crate::engine::window::data::reduce::{self, Update};
use crate::engine::window::delegation::slot::{RemoteOp, Slot, MOST};
use crate::engine::window::delegation::slot_state::Claim;
use crate::engine::window::window::{Target, Window};
use crate::engine::wire::element_type::{Domain, ElementType, Reduce};
use crate::engine::wire::sync_constants::LockType;
use crate::engine::wire::window::What;
use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Looks at what was posted before it is taken back: less than a microsecond.
const LOOKS: u32 = 48;
/// So many times as often where much is to be done: the kernel takes longer for that than a target
/// between two looks.
const PATIENT: usize = 8;
/// Looks of a thread that serves, once it has served, between which it does what it is waiting for.
const SERVING_LOOKS: u32 = 128;
/// Of what it serves at a time.
const MOST_AT_A_TIME: u32 = 1 << 10;
/// Looks that find nothing, after which nothing is expected any more. Not by the clock: whoever
/// shares its processor with others is to have looked.
const PATIENCE: u32 = 2000;
/// The same of a thread that has served before, or could have.
const PATIENCE_SERVING: u32 = 20_000;
/// What was posted longer ago is not executed.
const FRESH_NS: u64 = 20_000_000;
/// Operations that go through the kernel after one that nobody has served: up to so many, and a
/// longer one counts once for each `ONE_OF_PAUSE` bytes.
const LONGEST_PAUSE: u32 = 64;
const ONE_OF_PAUSE: usize = 64 << 10;
/// Looks at what was taken between two that let others run, and of these between two that ask
/// whether the target lives.
const LOOKS_PER_YIELD: u32 = 1 << 10;
const YIELDS_PER_QUESTION: u32 = 1 << 10;

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// When this process tries again at a target where nobody has served it. Of no importance, so that
/// threads may get into each other's way.
#[derive(Default)]
pub(crate) struct Pause {
    left: AtomicU32,
    length: AtomicU32,
}

impl Pause {
    fn is_over(&self, bytes: usize) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            let counts = u32::try_from(1 + bytes / ONE_OF_PAUSE).unwrap_or(u32::MAX);
            self.left.store(left.saturating_sub(counts), Ordering::Relaxed);
        }
        left == 0
    }

    fn was_served(&self) {
        if self.length.load(Ordering::Relaxed) > 0 {
            self.length.store(0, Ordering::Relaxed);
        }
    }

    fn was_not_served(&self) {
        let length = (2 * self.length.load(Ordering::Relaxed)).clamp(1, LONGEST_PAUSE);
        self.length.store(length, Ordering::Relaxed);
        self.left.store(length, Ordering::Relaxed);
    }
}

const NOTHING: (*const u8, usize) = (std::ptr::null(), 0);

/// The origin.
impl Window {
    /// A put or a get of memory in one piece: true if it is done.
    ///
    /// # Safety
    /// Here are as many bytes as are meant, to be read or written.
    pub(crate) unsafe fn delegate_copy(
        &self,
        rank: u32,
        way: Way,
        (here, there): (*mut u8, u64),
        bytes: usize,
    ) -> Result<bool> {
        let what = if way == Way::Write { What::Put } else { What::Get };
        let errand = RemoteOp {
            what,
            op: Reduce::NoOp,
            kind: ElementType::Byte,
            at: there,
            bytes,
            second: false,
        };
        // SAFETY: as for this function.
        unsafe { self.delegate(rank, errand, [(here.cast_const(), errand.sent()), NOTHING], here) }
    }

    /// An accumulate of elements that lie one behind the other, on both sides: the bytes of which
    /// it is done, from the first on.
    ///
    /// # Safety
    /// As for `Update::execute_locked`; its target is not looked at.
    pub(crate) unsafe fn delegate_update(
        &self,
        rank: u32,
        there: u64,
        update: &Update,
    ) -> Result<usize> {
        let Update { kind, op, operand, result, .. } = *update;
        let (size, bytes) = (kind.size(), update.count * kind.size());
        let at_once = MOST - MOST % size;
        if bytes > at_once && self.granularity.load(Ordering::Relaxed) > 0 {
            return Ok(0);
        }
        let what = if result.is_null() { What::Accumulate } else { What::Fetch };
        let piece = |done: usize, second| {
            let (at, bytes) = (there + done as u64, at_once.min(bytes - done));
            RemoteOp { what, op, kind, at, bytes, second }
        };
        let mut errand = piece(0, false);
        let Some(mut turn) = self.take_turn(rank, bytes) else { return Ok(0) };
        // SAFETY: as for this function.
        let store = |turn: &Turn<'_>, errand: &RemoteOp, done: usize| unsafe {
            turn.store(errand, [(operand.wrapping_add(done), errand.sent()), NOTHING]);
        };
        store(&turn, &errand, 0);
        let mut done = 0;
        loop {
            turn.post(&errand);
            let ahead = done + errand.bytes;
            let next = (ahead < bytes).then(|| piece(ahead, !errand.second));
            // While the target is at the one before.
            next.iter().for_each(|next| store(&turn, next, ahead));
            if !self.await_served(rank, &turn)? {
                break;
            }
            if errand.what.is_answered() {
                // SAFETY: as for this function.
                unsafe { turn.fetch(&errand, result.wrapping_add(done)) };
            }
            done = ahead;
            let Some(next) = next else { break };
            errand = next;
            turn.claim = turn.slot.turns.renew(turn.claim);
        }
        if done < bytes {
            turn.slot.bypass(bytes);
        }
        turn.end(done == bytes);
        Ok(done)
    }

    /// Compare-and-swap: true if that is done, whatever came of it.
    ///
    /// # Safety
    /// Each is valid for one element.
    pub(crate) unsafe fn delegate_swap(
        &self,
        rank: u32,
        kind: ElementType,
        there: u64,
        (operand, compare, result): (*const u8, *const u8, *mut u8),
    ) -> Result<bool> {
        let bytes = kind.size();
        let errand =
            RemoteOp { what: What::Swap, op: Reduce::NoOp, kind, at: there, bytes, second: false };
        // SAFETY: as for this function.
        unsafe { self.delegate(rank, errand, [(operand, bytes), (compare, bytes)], result) }
    }

    /// `errand.at` is an address of the target's here.
    ///
    /// # Safety
    /// What is sent is readable; the result is writable for what is fetched.
    unsafe fn delegate(
        &self,
        rank: u32,
        errand: RemoteOp,
        sent: [(*const u8, usize); 2],
        result: *mut u8,
    ) -> Result<bool> {
        if errand.bytes > MOST {
            return Ok(false);
        }
        let Some(turn) = self.take_turn(rank, errand.bytes) else { return Ok(false) };
        // SAFETY: as for this function.
        unsafe { turn.store(&errand, sent) };
        turn.post(&errand);
        let done = self.await_served(rank, &turn)?;
        if done && errand.what.is_answered() {
            // SAFETY: as for this function.
            unsafe { turn.fetch(&errand, result) };
        }
        turn.end(done);
        Ok(done)
    }

    /// The slot of a target where somebody looks, if nobody else has it, to hand over so many bytes
    /// in all.
    fn take_turn(&self, rank: u32, bytes: usize) -> Option<Turn<'_>> {
        let target = &self.targets[rank as usize];
        let Reach::Process(_, base) = &target.reach else { return None };
        let slot = target.control().mail()?;
        if slot.turns.answered.attended.load(Ordering::Relaxed) == 0 || !target.pause.is_over(bytes)
        {
            slot.bypass(bytes);
            return None;
        }
        let looks = LOOKS * (bytes / MOST).clamp(1, PATIENT) as u32;
        Some(Turn { target, base: *base, slot, claim: slot.turns.claim()?, looks })
    }

    /// True if it was done; the slot is the caller's again.
    fn await_served(&self, rank: u32, turn: &Turn<'_>) -> Result<bool> {
        let Turn { slot, claim, looks, .. } = *turn;
        for look in 1_u32.. {
            if let Some(done) = slot.turns.answer(claim) {
                return Ok(done);
            }
            if look == looks && slot.turns.take_back(claim) {
                return Ok(false);
            }
            if look % LOOKS_PER_YIELD == 0 {
                std::thread::yield_now();
                if look / LOOKS_PER_YIELD % YIELDS_PER_QUESTION == 0 && !self.lives(rank) {
                    break;
                }
            }
            spin_loop();
        }
        // The slot stays as it is: there is nobody left to be served by.
        Err(self.failed(Ended {
            status: crate::engine::base::status::Status::PEER_FAILED,
            blamed: rank,
        }))
    }
}

/// An origin that has a slot, until it ends that. One that finds the target dead does not.
struct Turn<'a> {
    target: &'a Target,
    /// Where the target's memory begins there.
    base: u64,
    slot: &'a Slot,
    claim: Claim,
    /// Before what was posted is taken back.
    looks: u32,
}

impl Turn<'_> {
    /// # Safety
    /// What is sent is readable; and no errand is posted that stands in the same half.
    unsafe fn store(&self, errand: &RemoteOp, sent: [(*const u8, usize); 2]) {
        let mut place = self.slot.place_of(errand);
        for (from, bytes) in sent.into_iter().filter(|(_, bytes)| *bytes > 0) {
            // SAFETY: as for this function; the slot is ours, and has room for as much.
            unsafe {
                place.copy_from_nonoverlapping(from, bytes);
                place = place.add(bytes);
            }
        }
    }

    fn post(&self, errand: &RemoteOp) {
        let Turn { base, slot, claim, .. } = *self;
        slot.turns.sent.at.store(errand.at.wrapping_sub(base), Ordering::Relaxed);
        slot.turns.sent.errand.store(errand.encode(), Ordering::Relaxed);
        slot.turns.sent.posted.store(now_ns(), Ordering::Relaxed);
        slot.turns.post(claim);
    }

    /// # Safety
    /// The result is writable for what was fetched.
    unsafe fn fetch(&self, errand: &RemoteOp, result: *mut u8) {
        let fetched = self.slot.place_of_fetched(errand.bytes).cast_const();
        // SAFETY: as for this function.
        unsafe { result.copy_from_nonoverlapping(fetched, errand.bytes) };
    }

    fn end(self, was_served: bool) {
        self.slot.turns.give_back(self.claim);
        if was_served {
            self.target.pause.was_served();
        } else {
            self.target.pause.was_not_served();
        }
    }
}

/// The windows of a service whose members may hand something over, and who looks for it.
#[derive(Default)]
pub(crate) struct Mail {
    /// How many there are.
    windows: AtomicUsize,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    windows: Vec<Known>,
    /// Of the windows' slots, all together.
    about: u64,
    /// Threads that look.
    attendants: u32,
}

struct Known(*const Window);

// SAFETY: what it points to is used while it is in the list, under its lock; a window takes itself
// out before it goes.
unsafe impl Send for Known {}

impl Served {
    /// Has anybody done something without a slot?
    fn is_about(&mut self) -> bool {
        // SAFETY: in the list.
        let slots =
            self.windows.iter().filter_map(|window| unsafe { &*window.0 }.own().control().mail());
        let about = slots.fold(0, |sum, slot| slot.about().wrapping_add(sum));
        std::mem::replace(&mut self.about, about) != about
    }

    fn tell(&self) {
        for window in &self.windows {
            // SAFETY: in the list.
            set_attended(unsafe { &*window.0 }, self.attendants > 0);
        }
    }
}

fn set_attended(window: &Window, attended: bool) {
    if let Some(slot) = window.own().control().mail() {
        slot.turns.answered.attended.store(attended.into(), Ordering::Relaxed);
    }
}

impl Mail {
    pub(crate) fn enter(&self, window: &Window) {
        let own = window.own();
        // What the kernel has to look at it copies at once for whoever asks.
        if own.control().mail().is_none() || own.is_guarded {
            return;
        }
        let mut served = self.served.lock();
        served.windows.push(Known(window));
        set_attended(window, served.attendants > 0);
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// When it returns, nobody is in the midst of something with it.
    pub(crate) fn leave(&self, window: &Window) {
        let mut served = self.served.lock();
        let before = served.windows.len();
        served.windows.retain(|known| !std::ptr::eq(known.0, window));
        if served.windows.len() < before {
            set_attended(window, false);
        }
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// The calling thread looks from now on; none where there is nothing to look for.
    pub(crate) fn attend(&self) -> Option<Attendant<'_>> {
        if self.windows.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut served = self.served.lock();
        served.attendants += 1;
        if served.attendants == 1 {
            served.tell();
        }
        Some(Attendant { mail: self, looks: Cell::new(1), left: Cell::new(PATIENCE) })
    }
}

/// A thread that waits for something else.
pub(crate) struct Attendant<'a> {
    mail: &'a Mail,
    looks: Cell<u32>,
    /// Looks before it gives up.
    left: Cell<u32>,
}

impl Attendant<'_> {
    /// Is more to be expected?
    pub(crate) fn is_patient(&self) -> bool {
        self.left.get() > 0
    }

    /// Serves what there is. Looks longer where there has just been something.
    pub(crate) fn look(&self) {
        self.left.set(self.left.get().saturating_sub(1));
        let Some(mut served) = self.mail.served.try_lock() else { return };
        let (mut left, mut times) = (self.looks.get(), 0);
        while left > 0 && times < MOST_AT_A_TIME {
            left -= 1;
            for window in &served.windows {
                // SAFETY: in the list, whose lock we hold.
                if unsafe { &*window.0 }.serve() {
                    times += 1;
                    left = SERVING_LOOKS;
                }
            }
            spin_loop();
        }
        if times > 0 || served.is_about() {
            self.left.set(PATIENCE_SERVING);
        }
        self.looks.set(if times > 0 { SERVING_LOOKS } else { (self.looks.get() / 2).max(1) });
    }
}

impl Drop for Attendant<'_> {
    fn drop(&mut self) {
        let mut served = self.mail.served.lock();
        served.attendants -= 1;
        if served.attendants == 0 {
            served.tell();
        }
    }
}

/// The target.
impl Window {
    /// Serves whoever is there. False if that was nobody.
    #[inline]
    fn serve(&self) -> bool {
        let Some(slot) = self.own().control().mail() else { return false };
        let Some(claim) = slot.turns.take() else { return false };
        let sent = &slot.turns.sent;
        let age = now_ns().checked_sub(sent.posted.load(Ordering::Relaxed));
        let errand =
            RemoteOp::decode(sent.errand.load(Ordering::Relaxed), sent.at.load(Ordering::Relaxed));
        let done = match errand {
            Some(errand) if age.is_some_and(|age| age < FRESH_NS) => self.execute(slot, &errand),
            _ => false,
        };
        slot.turns.tell(claim, done);
        true
    }

    /// False if nothing was done: the origin finds out why.
    fn execute(&self, slot: &Slot, errand: &RemoteOp) -> bool {
        let RemoteOp { what, op, kind, at, bytes, .. } = *errand;
        let own = self.own();
        let Reach::Mapped(base) = own.reach else { return false };
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        if at.checked_add(bytes as u64).is_none_or(|end| end > own.size) || bytes == 0 {
            return false;
        }
        let place = base.wrapping_add(at as usize);
        let (sent, fetched) = (slot.place_of(errand), slot.place_of_fetched(bytes));
        match what {
            What::Put | What::Get => {
                // SAFETY: inside this process's memory of the window, and as many bytes in the
                // slot.
                unsafe {
                    match what {
                        What::Put => put_get::copy(sent, place, place, bytes),
                        _ => put_get::copy(place, fetched, place, bytes),
                    }
                }
                true
            }
            _ => {
                let defined = match what {
                    What::Swap => kind.check_compare_and_swap(),
                    _ => kind.check_reduce(op, what == What::Fetch),
                };
                let domain = self.domain(Place::Here(place), kind, bytes as u64);
                if defined.is_err() || !matches!(domain, Ok(Domain::Lock)) {
                    return false;
                }
                self.if_lock_is_free(own, || {
                    let operand = sent.cast_const();
                    let result =
                        if what == What::Accumulate { std::ptr::null_mut() } else { fetched };
                    // SAFETY: as above, with the lock held.
                    unsafe {
                        if what == What::Swap {
                            reduce::swap_locked(
                                bytes,
                                place,
                                operand,
                                operand.wrapping_add(bytes),
                                result,
                            );
                        } else {
                            Update {
                                kind,
                                op,
                                target: place,
                                operand,
                                result,
                                count: bytes / kind.size(),
                            }
                            .execute_locked();
                        }
                    }
                })
            }
        }
    }

    /// Does something under the update lock of this process, unless somebody has that.
    fn if_lock_is_free(&self, own: &Target, work: impl FnOnce()) -> bool {
        let Some(_threads) = own.updates.try_lock() else { return false };
        let lock = own.control().updates();
        if !lock.try_lock(self.rank, LockType::Exclusive) {
            return false;
        }
        work();
        // Whoever takes this process for dead has it already.
        let _ = lock.unlock(self.rank, LockType::Exclusive);
        true
    }
}

#[cfg(all(test, not(loom)))]
#[path = "delegation_tests.rs"]
mod tests;
