//! Delegation: short operations on memory that only the target maps, executed by the target itself
//! while one of its threads waits in the library.
//!
//! The kernel needs more than a microsecond to copy 8 bytes into another process. A polling target
//! does it in a tenth of that. Delegation is best effort: an origin whose target does not poll, or
//! does not answer at once, uses the kernel.
//!
//! **Slot.** The control words of each window have one slot, for one operation. Its buffer also has
//! room for the data of the next operation of the same call, which the origin stores while the
//! target executes the one before. An origin claims the slot, stores its operation, and posts it.
//! One atomic word decides who executes: a thread of the target takes the operation, or the origin
//! takes it back (see `window::delegation::slot_state`). The target answers whether it has done the
//! operation or refused it. Then the origin reads the result and releases the slot. The origin's
//! words, the deciding word and the target's words are on separate cache lines.
//!
//! **Waiting.** No side waits for a lock. The target takes the update lock if it is free, and
//! otherwise refuses. An origin that finds the slot claimed uses the kernel. The origin waits
//! without limit only for an operation that was taken, which copies some kilobytes. If the target
//! is stopped in the middle, the origin waits until it continues or ends.
//!
//! **Failure.** A target that has died or is stopped takes nothing, and the origin takes its
//! operation back. An origin that has died keeps the slot claimed, so the others use the kernel
//! from then on. Its last operation is not executed later than `FRESH_NS` after it was posted, so
//! that it does not follow the consequences of the death.
//!
//! **Trust.** Another process writes the slot. Its contents are copied once and checked like a
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

/// Polls of the answer before the operation is taken back: less than a microsecond.
const LOOKS: u32 = 48;
/// Factor for large operations: the kernel needs longer for them than the target between two polls.
const PATIENT: usize = 8;
/// Polls of a serving thread after it has served, before it looks for what it waits for.
const SERVING_LOOKS: u32 = 128;
/// Most operations served at a time.
const MOST_AT_A_TIME: u32 = 1 << 10;
/// Polls without success after which a waiting thread stops expecting operations. Counted, not
/// timed: a thread that shares its CPU should have polled.
const PATIENCE: u32 = 2000;
/// The same for a thread that has served, or could have.
const PATIENCE_SERVING: u32 = 20_000;
/// Operations posted longer ago are not executed.
const FRESH_NS: u64 = 20_000_000;
/// Most operations that use the kernel after one that was not served. A longer operation counts
/// once for each `ONE_OF_PAUSE` bytes.
const LONGEST_PAUSE: u32 = 64;
const ONE_OF_PAUSE: usize = 64 << 10;
/// Polls of a taken operation between two yields, and yields between two checks whether the target
/// lives.
const LOOKS_PER_YIELD: u32 = 1 << 10;
const YIELDS_PER_QUESTION: u32 = 1 << 10;

fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// When this process tries a target again that has not served it. Only a hint, so races between
/// threads do not matter.
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

/// Called by the origin.
impl Window {
    /// A put or get of contiguous memory. Returns true if it was done.
    ///
    /// # Safety
    /// `bytes` bytes at the local address are readable for a put, or writable for a get.
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
        // SAFETY: the local bytes are valid by this function's contract.
        unsafe { self.delegate(rank, errand, [(here.cast_const(), errand.sent()), NOTHING], here) }
    }

    /// An accumulate of elements that are contiguous on both sides. Returns the number of bytes
    /// done, from the beginning.
    ///
    /// # Safety
    /// As for `Update::execute_locked`; its target is not used.
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
        // SAFETY: the operand is readable by this function's contract, and the half of the buffer
        // is free.
        let store = |turn: &Turn<'_>, errand: &RemoteOp, done: usize| unsafe {
            turn.store(errand, [(operand.wrapping_add(done), errand.sent()), NOTHING]);
        };
        store(&turn, &errand, 0);
        let mut done = 0;
        loop {
            turn.post(&errand);
            let ahead = done + errand.bytes;
            let next = (ahead < bytes).then(|| piece(ahead, !errand.second));
            // While the target executes the one before.
            next.iter().for_each(|next| store(&turn, next, ahead));
            if !self.await_served(rank, &turn)? {
                break;
            }
            if errand.what.is_answered() {
                // SAFETY: the result is writable by this function's contract.
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

    /// Compare-and-swap. Returns true if it was executed, whatever its result is.
    ///
    /// # Safety
    /// Each pointer is valid for one element.
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
        // SAFETY: the pointers are valid by this function's contract.
        unsafe { self.delegate(rank, errand, [(operand, bytes), (compare, bytes)], result) }
    }

    /// Delegates one operation; `errand.at` is an address in the target.
    ///
    /// # Safety
    /// The data sent is readable, and `result` is writable for what is fetched.
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
        // SAFETY: the data is readable by this function's contract, and nothing is posted yet.
        unsafe { turn.store(&errand, sent) };
        turn.post(&errand);
        let done = self.await_served(rank, &turn)?;
        if done && errand.what.is_answered() {
            // SAFETY: the result is writable by this function's contract.
            unsafe { turn.fetch(&errand, result) };
        }
        turn.end(done);
        self.counts.delegated.add(done.into());
        Ok(done)
    }

    /// Claims the slot of a target that polls, for `bytes` bytes in all. `None` if it does not, or
    /// another origin has the slot.
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

    /// Waits for the answer: true if the operation was done. Afterwards the slot belongs to the
    /// caller again.
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
        // The slot stays claimed, as nobody will serve it any more.
        Err(self.failed(Ended {
            status: crate::engine::base::status::Status::PEER_FAILED,
            blamed: rank,
        }))
    }
}

/// An origin's turn, until `end`. Not ended if the target has died.
struct Turn<'a> {
    target: &'a Target,
    /// Address of the window's memory in the target.
    base: u64,
    slot: &'a Slot,
    claim: Claim,
    /// Polls before the operation is taken back.
    looks: u32,
}

impl Turn<'_> {
    /// # Safety
    /// The data is readable, and no posted operation uses the same half of the buffer.
    unsafe fn store(&self, errand: &RemoteOp, sent: [(*const u8, usize); 2]) {
        let mut place = self.slot.place_of(errand);
        for (from, bytes) in sent.into_iter().filter(|(_, bytes)| *bytes > 0) {
            // SAFETY: the data is readable by this function's contract. We have the slot, and its
            // buffer is long enough.
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
    /// `result` is writable for the fetched bytes.
    unsafe fn fetch(&self, errand: &RemoteOp, result: *mut u8) {
        let fetched = self.slot.place_of_fetched(errand.bytes).cast_const();
        // SAFETY: writable by this function's contract; the target has answered, so the slot's
        // buffer is ours.
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

/// The windows of a service that accept delegated operations, and the threads that serve them.
#[derive(Default)]
pub(crate) struct Mail {
    /// Number of windows.
    windows: AtomicUsize,
    served: Mutex<Served>,
}

#[derive(Default)]
struct Served {
    windows: Vec<Known>,
    /// Sum of `about` of all slots at the last check.
    about: u64,
    /// Number of threads that poll.
    attendants: u32,
}

struct Known(*const Window);

// SAFETY: the pointer is only used while it is in the list, under its lock. A window removes itself
// before it is freed.
unsafe impl Send for Known {}

impl Served {
    /// Has an origin done a large operation without a slot since the last check?
    fn is_about(&mut self) -> bool {
        // SAFETY: windows in the list are valid, and `&mut self` means that the lock is held.
        let slots =
            self.windows.iter().filter_map(|window| unsafe { &*window.0 }.own().control().mail());
        let about = slots.fold(0, |sum, slot| slot.about().wrapping_add(sum));
        std::mem::replace(&mut self.about, about) != about
    }

    fn tell(&self) {
        for window in &self.windows {
            // SAFETY: windows in the list are valid, and the caller holds the lock.
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
        // Memory that needs the kernel's checks: the origin uses the kernel at once.
        if own.control().mail().is_none() || own.is_guarded {
            return;
        }
        let mut served = self.served.lock();
        served.windows.push(Known(window));
        set_attended(window, served.attendants > 0);
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// When it returns, no thread is using the window.
    pub(crate) fn leave(&self, window: &Window) {
        let mut served = self.served.lock();
        let before = served.windows.len();
        served.windows.retain(|known| !std::ptr::eq(known.0, window));
        if served.windows.len() < before {
            set_attended(window, false);
        }
        self.windows.store(served.windows.len(), Ordering::Relaxed);
    }

    /// Makes the calling thread poll from now on. `None` if there are no windows.
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

/// A thread that serves operations while it waits for something else.
pub(crate) struct Attendant<'a> {
    mail: &'a Mail,
    looks: Cell<u32>,
    /// Remaining polls before it gives up.
    left: Cell<u32>,
}

impl Attendant<'_> {
    /// Are more operations expected?
    pub(crate) fn is_patient(&self) -> bool {
        self.left.get() > 0
    }

    /// Serves waiting operations. Polls longer if there has just been one.
    pub(crate) fn look(&self) {
        self.left.set(self.left.get().saturating_sub(1));
        let Some(mut served) = self.mail.served.try_lock() else { return };
        let (mut left, mut times) = (self.looks.get(), 0);
        while left > 0 && times < MOST_AT_A_TIME {
            left -= 1;
            for window in &served.windows {
                // SAFETY: windows in the list are valid, and this thread holds the lock.
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

/// Called by the target.
impl Window {
    /// Serves a posted operation. False if there is none.
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

    /// Executes an operation. False if nothing was done; the origin then finds out why.
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
                // SAFETY: the range is inside this process's window memory, and the slot's buffers
                // have this length.
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
                    // SAFETY: inside the window's memory and the slot's buffers, as checked, and
                    // the update lock is held.
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

    /// Calls `work` under this process's update lock, unless somebody has it.
    fn if_lock_is_free(&self, own: &Target, work: impl FnOnce()) -> bool {
        let Some(_threads) = own.updates.try_lock() else { return false };
        let lock = own.control().updates();
        if !lock.try_lock(self.rank, LockType::Exclusive) {
            return false;
        }
        work();
        // An error is ignored: a process that treats this one as dead has the lock already.
        let _ = lock.unlock(self.rank, LockType::Exclusive);
        true
    }
}

#[cfg(test)]
#[path = "delegation_tests.rs"]
mod tests;
