//! What a send is promised when it is handed to the progress thread: its place in the send window,
//! or in the queue, and its credit.
//!
//! What stands in the ring counts as much as what has been taken over: each endpoint has accounts
//! (see `base::split_counter`) of what stands before a next send, to which the thread that submits
//! adds, and which it gives back when the ring refuses it after all. When the send is taken over
//! its promise is in the worker's `Hand`: what begins then uses it up, and what is left over at the
//! end is given back.
//!
//! The limits hold for what threads hand over, together with all that is under way already. What is
//! sent inside the gate, by callbacks of the progress thread, or as active messages get their
//! credit, is first come, first served: it may take a place that another thread has been promised a
//! moment ago, and this one waits then. So it is among threads: who was promised a place in the
//! queue, and is taken over before another one that was promised the window, has that place, and
//! its own in the queue is given to a third before the other one comes to want it.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::split_counter::{look_again, Added, Removed, SplitCounter};
use crate::engine::base::status::Result;
use crate::engine::core::endpoint::credits;
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointPointer};
use crate::engine::core::endpoint::send_window::{WindowLimits, MOST_OWED};
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::credit;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Of `Asked::wanted`: nobody was refused.
const NOTHING_WANTED: u16 = u16::MAX;

/// What threads outside the gate have added to the accounts of an endpoint: each by who submits,
/// none under a lock. The other half of them is in `Accounts` and `Credits`, which whoever is
/// inside the gate writes.
#[repr(C)]
pub(crate) struct Asked {
    _start: CacheLine,
    /// Written before any other thread can know the endpoint. Here, as who submits needs nothing
    /// else of the endpoint that is written all the time.
    pub(crate) limits: Cell<WindowLimits>,
    ops: Added,
    bytes: Added,
    queued_ops: Added,
    queued_bytes: Added,
    credit: Added,
    /// The least that an active message costs that was refused for want of credit, until there is
    /// some. Any thread writes it.
    wanted: AtomicU16,
    /// The progress thread has been asked to look again whether there is room, and has not yet. Set
    /// by any thread, taken back by that one.
    looking: AtomicBool,
    _end: CacheLine,
}

impl Asked {
    pub(crate) fn new(limits: WindowLimits) -> Self {
        Asked {
            _start: CacheLine,
            limits: Cell::new(limits),
            ops: Added::default(),
            bytes: Added::default(),
            queued_ops: Added::default(),
            queued_bytes: Added::default(),
            credit: Added::default(),
            wanted: AtomicU16::new(NOTHING_WANTED),
            looking: AtomicBool::new(false),
            _end: CacheLine,
        }
    }
}

/// The half that is written inside the gate.
#[derive(Default)]
pub(crate) struct Accounts {
    /// Sends that a next one finds before it: in UCP, waiting for that, or in the ring; and bytes
    /// in them.
    ops: Removed,
    bytes: Removed,
    /// Those that wait, for whatever, or are going to.
    queued_ops: Removed,
    queued_bytes: Removed,
}

/// What a send needs.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    ops: u32,
    /// Credit; 0 for none.
    pub(crate) charge: u16,
    bytes: u64,
    /// However full the queue is.
    pub(crate) unbounded: bool,
}

impl Need {
    #[inline(always)]
    pub(crate) fn of(length: usize) -> Self {
        Need { ops: 1, charge: 0, bytes: length as u64, unbounded: false }
    }

    #[inline(always)]
    pub(crate) fn length(&self) -> u64 {
        self.bytes
    }

    /// So many messages with so many bytes.
    pub(crate) fn of_many(ops: usize, length: usize) -> Self {
        Need { ops: u32::try_from(ops).unwrap_or(u32::MAX), ..Need::of(length) }
    }

    #[inline(always)]
    pub(crate) fn of_message(length: usize, charge: u16) -> Self {
        Need { charge, ..Need::of(length) }
    }

    /// The queue does not bound answers.
    pub(crate) fn of_answer(length: usize) -> Self {
        Need { unbounded: true, ..Need::of(length) }
    }
}

/// What stands in the ring with a send.
#[derive(Clone, Copy)]
pub(crate) struct Promise {
    ops: u32,
    charge: u16,
    /// It has a place in the queue, too.
    waits: bool,
    bytes: u64,
}

impl Promise {
    pub(crate) const NOTHING: Promise = Promise { ops: 0, charge: 0, waits: false, bytes: 0 };

    fn is_nothing(&self) -> bool {
        self.ops == 0
    }
}

/// A promise that is given back unless it is kept.
pub(crate) struct Promised<'a> {
    endpoint: &'a Endpoint,
    promise: Promise,
}

impl Promised<'_> {
    /// For the entry in the ring, which nothing can refuse any more.
    #[inline]
    pub(crate) fn keep(self) -> Promise {
        let promise = self.promise;
        std::mem::forget(self);
        promise
    }
}

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        let Promise { ops, charge, waits, bytes } = self.promise;
        let endpoint = self.endpoint;
        endpoint.ops().give_back(ops.into());
        endpoint.bytes().give_back(bytes);
        if charge != 0 {
            endpoint.credit().give_back(credits::cost(charge));
        }
        if waits {
            endpoint.queued_ops().give_back(ops.into());
            endpoint.queued_bytes().give_back(bytes);
        }
        endpoint.room_was_given_back();
    }
}

/// Any thread.
impl Endpoint {
    fn ops(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.asked.ops, gone: &self.accounts.ops }
    }

    fn bytes(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.asked.bytes, gone: &self.accounts.bytes }
    }

    fn queued_ops(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.asked.queued_ops, gone: &self.accounts.queued_ops }
    }

    fn queued_bytes(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.asked.queued_bytes, gone: &self.accounts.queued_bytes }
    }

    fn credit(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.asked.credit, gone: &self.credits.gone }
    }

    /// Promises a send that is about to be put into the ring its place, or refuses it: when it
    /// would have to wait and may not, or there is no room in the queue.
    pub(crate) fn promise(&self, params: &OpParams, need: Need) -> Result<Promised<'_>> {
        let Need { ops, charge, bytes, unbounded } = need;
        let waits = !self.add_to_window(need);
        if waits {
            if params.flags & flag::NO_WAIT != 0 {
                return Err(self.refuse_outside(need));
            }
            let most = match params.flags & flag::OWED {
                _ if unbounded => u64::MAX,
                0 => 0,
                _ => MOST_OWED,
            };
            if !self.add_to_queue(need, most) {
                return Err(self.no_room(true, false));
            }
        }
        Ok(Promised { endpoint: self, promise: Promise { ops, charge, waits, bytes } })
    }

    /// A place for a send that goes straight to UCP when it is taken over, if there is one.
    #[inline]
    fn add_to_window(&self, need: Need) -> bool {
        if !self.is_open() && !self.has_status(Self::SILENT) {
            return false;
        }
        let limits = self.asked.limits.get();
        let ops_fit = |before: u64| before < limits.ops.into();
        let bytes_fit = |before: u64| before < limits.bytes;
        // Others may wait for theirs that have been taken over already: looked at after what was
        // given back when they were.
        let credit_fits = |before: u64| {
            credits::fits(before, need.charge) && !self.credits.is_short_for(need.charge)
        };
        // So that what is refused is hardly ever seen by others to stand here for a moment.
        let (ops, bytes) = (self.ops().look(), self.bytes().look());
        let credit = if need.charge == 0 { 0 } else { self.credit().look() };
        if !self.bytes().fits(bytes, bytes_fit)
            || (need.charge != 0 && !self.credit().fits(credit, credit_fits))
        {
            return false;
        }
        if !self.ops().try_add(ops, need.ops.into(), ops_fit) {
            return false;
        }
        if !self.bytes().try_add(bytes, need.bytes, bytes_fit) {
            self.ops().give_back(need.ops.into());
            self.room_was_given_back();
            return false;
        }
        if need.charge != 0
            && !self.credit().try_add(credit, credits::cost(need.charge), credit_fits)
        {
            self.ops().give_back(need.ops.into());
            self.bytes().give_back(need.bytes);
            self.room_was_given_back();
            return false;
        }
        true
    }

    /// A place for one that will wait. `most`: so many may stand there, if that is more than the
    /// queue is for.
    fn add_to_queue(&self, need: Need, most: u64) -> bool {
        let limits = self.asked.limits.get();
        let owed = self.queued_ops().get() < most;
        let ops_fit = |before: u64| owed || before < limits.queue_ops.into();
        let bytes_fit =
            |before: u64| owed || before.saturating_add(need.bytes) <= limits.queue_bytes;
        let (ops, bytes) = (self.queued_ops().look(), self.queued_bytes().look());
        if !self.queued_bytes().fits(bytes, bytes_fit)
            || !self.queued_ops().try_add(ops, need.ops.into(), ops_fit)
        {
            return false;
        }
        if !self.queued_bytes().try_add(bytes, need.bytes, bytes_fit) {
            self.queued_ops().give_back(need.ops.into());
            self.room_was_given_back();
            return false;
        }
        // It stands before what comes next all the same, and so does what it will cost: nothing is
        // to have that credit before it.
        self.ops().add(need.ops.into());
        self.bytes().add(need.bytes);
        if need.charge != 0 {
            self.credit().add(credits::cost(need.charge));
        }
        true
    }

    #[cold]
    fn refuse_outside(&self, need: Need) -> crate::engine::base::status::Error {
        let credit = need.charge != 0 && !credits::fits(self.credit().get(), need.charge);
        if credit {
            self.asked.wanted.fetch_min(need.charge, Ordering::Relaxed);
        }
        self.no_room(false, credit)
    }

    /// Something stood for a moment before others that has not come. Who waits for room may have
    /// been passed over for that.
    #[cold]
    fn room_was_given_back(&self) {
        look_again();
        // Once is enough for all that is given back before it does: who finds the submission queue
        // full may try on and on.
        if !self.writable.is_armed() || self.asked.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let endpoint = EndpointPointer(self);
        // One that is at its end tells them of that.
        let _ = self.worker.post(move |_inside| {
            let endpoint = endpoint;
            // SAFETY: the end of an endpoint comes after what was handed over before it.
            let endpoint = unsafe { &*endpoint.0 };
            // It sees what those have given back that have found it set.
            endpoint.asked.looking.swap(false, Ordering::AcqRel);
            endpoint.tend_later();
        });
    }

    /// There is a place for one more send in the window, and credit for what was refused last.
    pub(crate) fn has_place(&self) -> bool {
        let limits = self.asked.limits.get();
        if self.ops().get() >= limits.ops.into() || self.bytes().get() >= limits.bytes {
            return false;
        }
        let wanted = self.asked.wanted.load(Ordering::Relaxed);
        let charge = if wanted == NOTHING_WANTED { credit::LEAST } else { wanted };
        let fits = credits::fits(self.credit().get(), charge);
        if fits && wanted != NOTHING_WANTED {
            // Unless somebody has just been refused for less.
            let _ = self.asked.wanted.compare_exchange(
                wanted,
                NOTHING_WANTED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        fits
    }

    /// Sends that wait, or are going to, and bytes in them.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        (self.queued_ops().get(), self.queued_bytes().get())
    }
}

/// What the send that is being taken over from the ring has been promised, and has not used yet.
/// Belongs to whoever is inside the gate.
pub(crate) struct Hand {
    /// Null while there is none.
    endpoint: Cell<*const Endpoint>,
    ops: Cell<u32>,
    queued_ops: Cell<u32>,
    charge: Cell<u16>,
    bytes: Cell<u64>,
    queued_bytes: Cell<u64>,
}

impl Hand {
    pub(crate) const fn new() -> Self {
        Hand {
            endpoint: Cell::new(std::ptr::null()),
            ops: Cell::new(0),
            queued_ops: Cell::new(0),
            charge: Cell::new(0),
            bytes: Cell::new(0),
            queued_bytes: Cell::new(0),
        }
    }

    #[inline(always)]
    fn is_for(&self, endpoint: &Endpoint) -> bool {
        std::ptr::eq(self.endpoint.get(), endpoint)
    }
}

/// Uses up so much of it; what is missing.
fn use_up(there: &Cell<u64>, wanted: u64) -> u64 {
    let used = wanted.min(there.get());
    there.set(there.get() - used);
    wanted - used
}

fn use_one(there: &Cell<u32>) -> u64 {
    let used = there.get().min(1);
    there.set(there.get() - used);
    u64::from(1 - used)
}

/// Inside the gate.
impl Endpoint {
    /// A send of so many bytes stands before the next one from now on.
    #[inline]
    pub(crate) fn stands(&self, bytes: u64) {
        let (accounts, hand) = (&self.accounts, &self.worker.hand);
        let (ops, bytes) = if hand.is_for(self) {
            (use_one(&hand.ops), use_up(&hand.bytes, bytes))
        } else {
            (1, bytes)
        };
        accounts.ops.subtract(ops);
        accounts.bytes.subtract(bytes);
    }

    /// And not any more.
    #[inline]
    pub(crate) fn stood(&self, bytes: u64) {
        self.accounts.ops.add(1);
        self.accounts.bytes.add(bytes);
    }

    /// It waits from now on.
    pub(crate) fn stands_in_queue(&self, bytes: u64) {
        let (accounts, hand) = (&self.accounts, &self.worker.hand);
        let (ops, bytes) = if hand.is_for(self) {
            (use_one(&hand.queued_ops), use_up(&hand.queued_bytes, bytes))
        } else {
            (1, bytes)
        };
        accounts.queued_ops.subtract(ops);
        accounts.queued_bytes.subtract(bytes);
    }

    pub(crate) fn stood_in_queue(&self, bytes: u64) {
        self.accounts.queued_ops.add(1);
        self.accounts.queued_bytes.add(bytes);
    }

    /// Takes credit, which the one that comes from the ring has been promised.
    pub(crate) fn spend(&self, charge: u16) {
        let hand = &self.worker.hand;
        if hand.is_for(self) && hand.charge.get() == charge {
            hand.charge.set(0);
            self.credits.spend_promised(charge);
        } else {
            self.credits.spend(charge);
        }
    }
}

/// Inside the gate.
impl Worker {
    /// Takes what an entry of the ring has been promised into the hand, for `end_promise` when it
    /// has been dealt with. False: that was nothing.
    #[inline]
    pub(crate) fn begin_promise(&self, endpoint: *const Endpoint, promise: Promise) -> bool {
        if promise.is_nothing() {
            return false;
        }
        let hand = &self.hand;
        debug_assert!(
            hand.endpoint.get().is_null(),
            "nothing that is taken over lets go of the gate"
        );
        let Promise { ops, charge, waits, bytes } = promise;
        hand.endpoint.set(endpoint);
        hand.ops.set(ops);
        hand.bytes.set(bytes);
        hand.charge.set(charge);
        hand.queued_ops.set(if waits { ops } else { 0 });
        hand.queued_bytes.set(if waits { bytes } else { 0 });
        true
    }

    #[inline]
    pub(crate) fn end_promise(&self) {
        // SAFETY: it was alive when this began (see `Queued`), and who ends it takes it out.
        if let Some(endpoint) = unsafe { self.hand.endpoint.replace(std::ptr::null()).as_ref() } {
            endpoint.give_back_rest(&self.hand);
        }
    }

    /// The endpoint is at its end.
    pub(crate) fn drop_promises_of(&self, endpoint: &Endpoint) {
        if self.hand.is_for(endpoint) {
            self.hand.endpoint.set(std::ptr::null());
        }
    }
}

impl Endpoint {
    /// What the send has not used, as it has gone already, or waits for its credit, or has not come
    /// to anything.
    #[inline]
    fn give_back_rest(&self, hand: &Hand) {
        let accounts = &self.accounts;
        let (ops, queued_ops, charge) = (hand.ops.get(), hand.queued_ops.get(), hand.charge.get());
        if ops == 0 && queued_ops == 0 && charge == 0 && hand.bytes.get() == 0 {
            return;
        }
        accounts.ops.add(ops.into());
        accounts.bytes.add(hand.bytes.get());
        if queued_ops != 0 || hand.queued_bytes.get() != 0 {
            accounts.queued_ops.add(queued_ops.into());
            accounts.queued_bytes.add(hand.queued_bytes.get());
        }
        if charge != 0 {
            self.credits.drop_promised(charge);
        }
        if self.writable.is_armed() {
            self.tend_later();
        }
    }
}
