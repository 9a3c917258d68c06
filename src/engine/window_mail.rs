//! Short data calls at memory of the target's own, handed to the target itself while one of its threads waits in the library.
//!
//! Such memory is mapped nowhere else, and the kernel takes more than a microsecond to copy 8 bytes into it. A target that waits anyway does it in a tenth of that. Nothing
//! depends on it: whoever finds nobody there, or is not served at once, goes through the kernel as ever.
//!
//! There is one slot for each target, in the control words of its window, with room for one operation. An origin claims it, writes what it wants, and posts that (`POSTED`). One
//! atomic word settles who executes: a thread of the target takes it (`TAKEN`), or the origin takes it back (`BACK`). What was taken is done, or refused with nothing done; the
//! target says which (`DONE`, `REFUSED`), and the origin gives the slot back when it has what was fetched. What the origin writes, what both settle, and what the target
//! writes stand on lines of their own, so that neither takes away from the other what it is about to write.
//!
//! Nobody waits for a lock in here. Whoever serves takes the update lock if that is free, and else refuses; an origin that finds the slot taken by another goes its own way. What the
//! origin waits for without end is what was taken already, the copying of some kilobytes: if the target is stopped in the midst of that it waits until the target goes on or has ended.
//!
//! Who dies. A target that has died, or is stopped, takes nothing, and the origin takes back what it has posted. An origin that has died leaves the slot to nobody, so that
//! the others go through the kernel from then on; what it had posted last is not executed later than `FRESH_NS` after that, lest it come after all that its death has led to.
//!
//! What stands in a slot was written by another process: it is copied once, and checked like a message.

use super::cache_line::CacheLine;
use super::element::{Domain, ElementType, Reduce};
use super::reduce::{self, Update};
use super::rma;
use super::status::Result;
use super::sync_call::LockType;
use super::window::{Target, Window};
use super::window_control::Ended;
use super::window_data::Place;
use super::window_reach::{Reach, Way};
use super::window_wire::What;
use parking_lot::Mutex;
use std::cell::{Cell, UnsafeCell};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Bytes of an operation.
pub(super) const MOST: usize = 8 << 10;
/// Of those that stand beside the word that tells of them.
const FEW: usize = 24;
/// Looks at what was posted before it is taken back: less than a microsecond.
const LOOKS: u32 = 48;
/// Looks of a thread that serves, once it has served, between which it does what it is waiting for.
const SERVING_LOOKS: u32 = 128;
/// Of what it serves at a time.
const MOST_AT_A_TIME: u32 = 1 << 10;
/// Looks that find nothing, after which nothing is expected any more. Not by the clock: whoever shares its processor with others is to have looked.
const PATIENCE: u32 = 2000;
/// The same of a thread that has served before.
const PATIENCE_SERVING: u32 = 20_000;
/// What was posted longer ago is not executed.
const FRESH_NS: u64 = 20_000_000;
/// Operations that go through the kernel after one that nobody has served: up to so many.
const LONGEST_PAUSE: u32 = 64;
/// Looks at what was taken between two that let others run, and of these between two that ask whether the target lives.
const LOOKS_PER_YIELD: u32 = 1 << 10;
const YIELDS_PER_QUESTION: u32 = 1 << 10;

/// Beside the number of a claim.
mod phase {
    pub(super) const BITS: u32 = 2;
    /// Of the word.
    pub(super) const BACK: u64 = 0;
    pub(super) const POSTED: u64 = 1;
    pub(super) const TAKEN: u64 = 2;
    /// Of the answer.
    pub(super) const DONE: u64 = 1;
    pub(super) const REFUSED: u64 = 2;
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Errand {
    pub(super) what: What,
    pub(super) op: Reduce,
    pub(super) kind: ElementType,
    /// From the beginning of the target's memory on.
    pub(super) at: u64,
    pub(super) bytes: usize,
}

impl Errand {
    fn encode(&self) -> u64 {
        (self.what as u64) << 48 | (self.op as u64) << 40 | (self.kind as u64) << 32 | self.bytes as u64
    }

    fn decode(word: u64, at: u64) -> Option<Self> {
        let byte = |shift: u32| (word >> shift & 0xff) as u8;
        let all = [What::Put, What::Get, What::Accumulate, What::Fetch, What::Swap];
        let what = all.into_iter().find(|what| *what as u8 == byte(48))?;
        let op = Reduce::from_number(byte(40).into()).ok()?;
        let kind = ElementType::from_number(byte(32).into()).ok()?;
        let bytes = word as u32 as usize;
        let errand = Errand { what, op, kind, at, bytes };
        let whole = bytes <= MOST && bytes % kind.size() == 0 && (what != What::Swap || bytes == kind.size());
        whole.then_some(errand)
    }

    /// Bytes that go there.
    fn sent(&self) -> usize {
        match self.what {
            What::Get => 0,
            What::Fetch if self.op == Reduce::NoOp => 0,
            What::Swap => 2 * self.bytes,
            _ => self.bytes,
        }
    }
}

/// See the module.
#[repr(C)]
pub(super) struct Slot {
    /// Odd while it belongs to an origin; the next number for the next one.
    claims: AtomicU64,
    /// When it was posted: nanoseconds of the kernel's clock.
    posted: AtomicU64,
    at: AtomicU64,
    errand: AtomicU64,
    few: UnsafeCell<[u8; FEW]>,
    _origin_alone: CacheLine,
    /// Number of a claim, and phase.
    word: AtomicU64,
    _word_alone: CacheLine,
    /// Likewise.
    answer: AtomicU64,
    /// The target looks here.
    attended: AtomicU32,
    _unused: u32,
    few_fetched: UnsafeCell<[u8; FEW]>,
    _target_alone: CacheLine,
    sent: UnsafeCell<[u8; 2 * MOST]>,
    fetched: UnsafeCell<[u8; MOST]>,
}

/// The number of one.
#[derive(Clone, Copy)]
struct Claim(u64);

impl Claim {
    fn with(self, phase: u64) -> u64 {
        self.0 << phase::BITS | phase
    }
}

impl Slot {
    fn claim(&self) -> Option<Claim> {
        let before = self.claims.load(Ordering::Relaxed);
        if before % 2 == 1 {
            return None;
        }
        let claim = before.wrapping_add(1);
        let claimed = self.claims.compare_exchange(before, claim, Ordering::Acquire, Ordering::Relaxed);
        claimed.is_ok().then_some(Claim(claim))
    }

    fn give_back(&self, claim: Claim) {
        self.claims.store(claim.0.wrapping_add(1), Ordering::Release);
    }

    /// What was posted, by the one (`TAKEN`) or by the other (`BACK`).
    fn take(&self, claim: Claim, how: u64) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        self.word.compare_exchange(claim.with(phase::POSTED), claim.with(how), order.0, order.1).is_ok()
    }

    /// What the target says of this claim, once it has said something.
    fn answer(&self, claim: Claim) -> Option<bool> {
        let answer = self.answer.load(Ordering::Acquire);
        (answer >> phase::BITS == claim.0 << phase::BITS >> phase::BITS).then_some(answer == claim.with(phase::DONE))
    }

    /// Where what is sent stands.
    fn place_of(&self, sent: usize) -> *mut u8 {
        if sent <= FEW {
            self.few.get().cast()
        } else {
            self.sent.get().cast()
        }
    }

    /// And what is fetched.
    fn place_of_fetched(&self, bytes: usize) -> *mut u8 {
        if bytes <= FEW {
            self.few_fetched.get().cast()
        } else {
            self.fetched.get().cast()
        }
    }
}

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// When this process tries again at a target where nobody has served it. Of no importance, so that threads may get into each other's way.
#[derive(Default)]
pub(super) struct Pause {
    left: AtomicU32,
    length: AtomicU32,
}

impl Pause {
    fn is_over(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
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
    pub(super) unsafe fn hand_over_copy(
        &self,
        rank: u32,
        way: Way,
        (here, there): (*mut u8, u64),
        bytes: usize,
    ) -> Result<bool> {
        let what = if way == Way::Write { What::Put } else { What::Get };
        let errand = Errand { what, op: Reduce::NoOp, kind: ElementType::Byte, at: there, bytes };
        // SAFETY: as for this function.
        unsafe { self.hand_over(rank, errand, [(here.cast_const(), errand.sent()), NOTHING], here) }
    }

    /// An accumulate of elements that lie one behind the other, on both sides: the bytes of which it is done, from the first on.
    ///
    /// # Safety
    /// As for `Update::execute_locked`; its target is not looked at.
    pub(super) unsafe fn hand_over_update(&self, rank: u32, there: u64, update: &Update) -> Result<usize> {
        let Update { kind, op, operand, result, .. } = *update;
        let (size, bytes) = (kind.size(), update.count * kind.size());
        let at_once = MOST - MOST % size;
        if bytes > at_once && self.granularity.load(Ordering::Relaxed) > 0 {
            return Ok(0);
        }
        let what = if result.is_null() { What::Accumulate } else { What::Fetch };
        for done in (0..bytes).step_by(at_once) {
            let errand = Errand { what, op, kind, at: there + done as u64, bytes: at_once.min(bytes - done) };
            let sent = (operand.wrapping_add(done), errand.sent());
            let result = if result.is_null() { result } else { result.wrapping_add(done) };
            // SAFETY: as for this function.
            if !unsafe { self.hand_over(rank, errand, [sent, NOTHING], result) }? {
                return Ok(done);
            }
        }
        Ok(bytes)
    }

    /// Compare-and-swap: true if that is done, whatever came of it.
    ///
    /// # Safety
    /// Each is valid for one element.
    pub(super) unsafe fn hand_over_swap(
        &self,
        rank: u32,
        kind: ElementType,
        there: u64,
        (operand, compare, result): (*const u8, *const u8, *mut u8),
    ) -> Result<bool> {
        let bytes = kind.size();
        let errand = Errand { what: What::Swap, op: Reduce::NoOp, kind, at: there, bytes };
        // SAFETY: as for this function.
        unsafe { self.hand_over(rank, errand, [(operand, bytes), (compare, bytes)], result) }
    }

    /// `errand.at` is an address of the target's here.
    ///
    /// # Safety
    /// What is sent is readable; the result is writable for what is fetched.
    unsafe fn hand_over(
        &self,
        rank: u32,
        errand: Errand,
        sent: [(*const u8, usize); 2],
        result: *mut u8,
    ) -> Result<bool> {
        let target = &self.targets[rank as usize];
        let (Reach::Process(_, base), true) = (&target.reach, errand.bytes <= MOST) else { return Ok(false) };
        let Some(slot) = target.control().mail() else { return Ok(false) };
        if slot.attended.load(Ordering::Relaxed) == 0 || !target.pause.is_over() {
            return Ok(false);
        }
        let Some(claim) = slot.claim() else { return Ok(false) };
        slot.at.store(errand.at.wrapping_sub(*base), Ordering::Relaxed);
        slot.errand.store(errand.encode(), Ordering::Relaxed);
        let mut place = slot.place_of(errand.sent());
        for (from, bytes) in sent.into_iter().filter(|(_, bytes)| *bytes > 0) {
            // SAFETY: as for this function; the slot is ours, and has room for twice as much as is sent of each.
            unsafe {
                place.copy_from_nonoverlapping(from, bytes);
                place = place.add(bytes);
            }
        }
        slot.posted.store(now_ns(), Ordering::Relaxed);
        slot.word.store(claim.with(phase::POSTED), Ordering::Release);
        let done = self.await_served(rank, slot, claim)?;
        if done && errand.what.is_answered() {
            let fetched = slot.place_of_fetched(errand.bytes).cast_const();
            // SAFETY: as for this function.
            unsafe { result.copy_from_nonoverlapping(fetched, errand.bytes) };
        }
        slot.give_back(claim);
        if done {
            target.pause.was_served();
        } else {
            target.pause.was_not_served();
        }
        Ok(done)
    }

    /// True if it was done; the slot is the caller's again.
    fn await_served(&self, rank: u32, slot: &Slot, claim: Claim) -> Result<bool> {
        for look in 1_u32.. {
            if let Some(done) = slot.answer(claim) {
                return Ok(done);
            }
            if look == LOOKS && slot.take(claim, phase::BACK) {
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
        Err(self.failed(Ended { status: super::status::Status::PEER_FAILED, blamed: rank }))
    }
}

/// The windows of a service whose members may hand something over, and who looks for it.
#[derive(Default)]
pub(super) struct Mail {
    /// How many there are.
    windows: AtomicUsize,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    windows: Vec<Known>,
    /// Threads that look.
    attendants: u32,
}

struct Known(*const Window);

// SAFETY: what it points to is used while it is in the list, under its lock; a window takes itself out before it goes.
unsafe impl Send for Known {}

impl Served {
    fn tell(&self) {
        for window in &self.windows {
            // SAFETY: in the list.
            set_attended(unsafe { &*window.0 }, self.attendants > 0);
        }
    }
}

fn set_attended(window: &Window, attended: bool) {
    if let Some(slot) = window.own().control().mail() {
        slot.attended.store(attended.into(), Ordering::Relaxed);
    }
}

impl Mail {
    pub(super) fn enter(&self, window: &Window) {
        if window.own().control().mail().is_none() {
            return;
        }
        let mut served = self.served.lock();
        served.windows.push(Known(window));
        set_attended(window, served.attendants > 0);
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// When it returns, nobody is in the midst of something with it.
    pub(super) fn leave(&self, window: &Window) {
        let mut served = self.served.lock();
        let before = served.windows.len();
        served.windows.retain(|known| !std::ptr::eq(known.0, window));
        if served.windows.len() < before {
            set_attended(window, false);
        }
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// The calling thread looks from now on; none where there is nothing to look for.
    pub(super) fn attend(&self) -> Option<Attendant<'_>> {
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
pub(super) struct Attendant<'a> {
    mail: &'a Mail,
    looks: Cell<u32>,
    /// Looks before it gives up.
    left: Cell<u32>,
}

impl Attendant<'_> {
    /// Is more to be expected?
    pub(super) fn is_patient(&self) -> bool {
        self.left.get() > 0
    }

    /// Serves what there is. Looks longer where there has just been something.
    pub(super) fn look(&self) {
        self.left.set(self.left.get().saturating_sub(1));
        let Some(served) = self.mail.served.try_lock() else { return };
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
        if times > 0 {
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
        let word = slot.word.load(Ordering::Relaxed);
        let claim = Claim(word >> phase::BITS);
        if word != claim.with(phase::POSTED) || !slot.take(claim, phase::TAKEN) {
            return false;
        }
        let age = now_ns().checked_sub(slot.posted.load(Ordering::Relaxed));
        let errand = Errand::decode(slot.errand.load(Ordering::Relaxed), slot.at.load(Ordering::Relaxed));
        let done = match errand {
            Some(errand) if age.is_some_and(|age| age < FRESH_NS) => self.execute(slot, &errand),
            _ => false,
        };
        slot.answer.store(claim.with(if done { phase::DONE } else { phase::REFUSED }), Ordering::Release);
        true
    }

    /// False if nothing was done: the origin finds out why.
    fn execute(&self, slot: &Slot, errand: &Errand) -> bool {
        let Errand { what, op, kind, at, bytes } = *errand;
        let own = self.own();
        let Reach::Mapped(base) = own.reach else { return false };
        if self.closed.load(Ordering::Relaxed) {
            return false;
        }
        if at.checked_add(bytes as u64).is_none_or(|end| end > own.size) || bytes == 0 {
            return false;
        }
        let place = base.wrapping_add(at as usize);
        let (sent, fetched) = (slot.place_of(errand.sent()), slot.place_of_fetched(bytes));
        match what {
            What::Put | What::Get => {
                // SAFETY: inside this process's memory of the window, and as many bytes in the slot.
                unsafe {
                    match what {
                        What::Put => rma::copy(sent, place, place, bytes),
                        _ => rma::copy(place, fetched, place, bytes),
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
                    let result = if what == What::Accumulate { std::ptr::null_mut() } else { fetched };
                    // SAFETY: as above, with the lock held.
                    unsafe {
                        if what == What::Swap {
                            reduce::swap_locked(bytes, place, operand, operand.wrapping_add(bytes), result);
                        } else {
                            Update { kind, op, target: place, operand, result, count: bytes / kind.size() }
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
#[path = "window_mail_tests.rs"]
mod tests;
