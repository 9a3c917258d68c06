//! Admission of sends that other threads hand to the progress thread.
//!
//! At submission each such send reserves its place in the send window or in the send queue, and its
//! credit. So a send that was accepted is never refused later.
//!
//! # Counters
//!
//! The limits cover the submission ring as well as the sends that the worker has already taken
//! over. Each endpoint counts the sends that are ahead of the next one in two halves (see
//! `base::split_counter`): submitting threads add to `Reserved`, and the worker's thread adds to
//! `Released`. If the ring refuses the send, the reservation is given back. When the worker takes
//! the send over, its permit becomes the worker's `OpenPermit`: operations that start then use it
//! up, and the rest is given back.
//!
//! # Order
//!
//! The limits hold for what threads submit, together with everything that is already in flight.
//! Sends from the worker's own thread (from callbacks of the progress thread, or of active messages
//! that receive credit) are first come, first served. Such a send may take a place that another
//! thread has just reserved; that thread's send then waits. The same happens between threads: a
//! send with a place in the queue may be taken over before a send that reserved the window, and
//! takes its place in the window. A third send may then take its place in the queue.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::split_counter::{look_again, Added, Removed, SplitCounter};
use crate::engine::base::status::Result;
use crate::engine::core::endpoint::credits;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::endpoint::send_window::{WindowLimits, MOST_OWED};
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::credit;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Value of `Reserved::wanted` while no send was refused.
const NOTHING_WANTED: u16 = u16::MAX;

/// Written before any other thread can reach the endpoint, and only read afterwards.
pub(crate) struct Settled<T>(Cell<T>);

// SAFETY: written only before other threads can reach the value, so they only read it.
unsafe impl<T: Send + Sync> Sync for Settled<T> {}

impl<T: Copy> Settled<T> {
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    /// # Safety
    /// No other thread can reach the endpoint yet.
    pub(crate) unsafe fn set(&self, value: T) {
        self.0.set(value);
    }
}

/// What threads outside the gate have reserved. Each submitting thread adds, without a lock. The
/// other half is in `Released` and `Credits`, which the worker's thread writes.
#[repr(C)]
pub(crate) struct Reserved {
    _start: CacheLine,
    /// In the same cache lines, because a submitting thread needs nothing else of the endpoint that
    /// is written often.
    pub(crate) limits: Settled<WindowLimits>,
    ops: Added,
    bytes: Added,
    queued_ops: Added,
    queued_bytes: Added,
    credit: Added,
    /// The smallest cost of an active message that was refused for lack of credit, until there is
    /// credit again. Any thread writes it.
    wanted: AtomicU16,
    /// The progress thread was asked to check for room and has not done it yet. Any thread sets it;
    /// the progress thread clears it.
    looking: AtomicBool,
    _end: CacheLine,
}

impl Reserved {
    pub(crate) fn new(limits: WindowLimits) -> Self {
        Reserved {
            _start: CacheLine,
            limits: Settled(Cell::new(limits)),
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

/// The half that the worker's thread writes.
#[derive(Default)]
pub(crate) struct Released {
    /// Sends ahead of the next one (in UCP, waiting for UCP, or in the ring), and their bytes.
    ops: Removed,
    bytes: Removed,
    /// Sends that wait, for any reason, or are going to wait.
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
    /// Accepted even if the queue is full.
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

    /// `ops` messages with `length` bytes in all.
    pub(crate) fn of_many(ops: usize, length: usize) -> Self {
        Need { ops: u32::try_from(ops).unwrap_or(u32::MAX), ..Need::of(length) }
    }

    #[inline(always)]
    pub(crate) fn of_message(length: usize, charge: u16) -> Self {
        Need { charge, ..Need::of(length) }
    }

    /// Replies are not limited by the queue.
    pub(crate) fn of_answer(length: usize) -> Self {
        Need { unbounded: true, ..Need::of(length) }
    }
}

/// The reservation that is in the ring with a send.
#[derive(Clone, Copy)]
pub(crate) struct SendPermit {
    ops: u32,
    charge: u16,
    /// It includes a place in the queue.
    waits: bool,
    bytes: u64,
}

impl SendPermit {
    pub(crate) const NOTHING: SendPermit = SendPermit { ops: 0, charge: 0, waits: false, bytes: 0 };

    fn is_nothing(&self) -> bool {
        self.ops == 0
    }
}

/// A permit that is given back unless it is kept.
pub(crate) struct Reservation<'a> {
    endpoint: &'a SharedEndpoint,
    permit: SendPermit,
}

impl Reservation<'_> {
    /// For the entry in the ring, which cannot be refused any more.
    #[inline]
    pub(crate) fn keep(self) -> SendPermit {
        let permit = self.permit;
        std::mem::forget(self);
        permit
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let SendPermit { ops, charge, waits, bytes } = self.permit;
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

/// What an endpoint has in flight and in its queue, and the credit in use.
pub(crate) struct Standing {
    pub(crate) operations: u64,
    pub(crate) bytes: u64,
    pub(crate) queued_operations: u64,
    pub(crate) queued_bytes: u64,
    pub(crate) credit: u64,
}

/// For any thread.
impl SharedEndpoint {
    fn ops(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.reserved().ops, gone: &self.released().ops }
    }

    fn bytes(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.reserved().bytes, gone: &self.released().bytes }
    }

    fn queued_ops(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.reserved().queued_ops, gone: &self.released().queued_ops }
    }

    fn queued_bytes(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.reserved().queued_bytes, gone: &self.released().queued_bytes }
    }

    fn credit(&self) -> SplitCounter<'_> {
        SplitCounter { added: &self.reserved().credit, gone: self.credit_gone() }
    }

    /// What counts against the limits now.
    pub(crate) fn standing(&self) -> Standing {
        Standing {
            operations: self.ops().get(),
            bytes: self.bytes().get(),
            queued_operations: self.queued_ops().get(),
            queued_bytes: self.queued_bytes().get(),
            credit: self.credit().get(),
        }
    }

    /// Reserves a place for a send that is about to enter the ring. Refuses it if it would have to
    /// wait but must not, or if the queue has no room.
    pub(crate) fn reserve(&self, params: &OpParams, need: Need) -> Result<Reservation<'_>> {
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
        Ok(Reservation { endpoint: self, permit: SendPermit { ops, charge, waits, bytes } })
    }

    /// Reserves a place for a send that goes straight to UCP when it is taken over, if there is
    /// one.
    #[inline]
    fn add_to_window(&self, need: Need) -> bool {
        if !self.is_open() && !self.has_status(Self::SILENT) {
            return false;
        }
        let limits = self.reserved().limits.get();
        let ops_fit = |before: u64| before < limits.ops.into();
        let bytes_fit = |before: u64| before < limits.bytes;
        // Sends that were already taken over may wait for credit. This is read after the credit
        // that was given back when they were taken over.
        let credit_fits = |before: u64| {
            credits::fits(before, need.charge) && !self.is_short_of_credit(need.charge)
        };
        // Checked first, so that other threads rarely see a reservation that is refused a moment
        // later.
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

    /// Reserves a place for a send that will wait. `most`: this many may wait, if that is more than
    /// the limit of the queue.
    fn add_to_queue(&self, need: Need, most: u64) -> bool {
        let limits = self.reserved().limits.get();
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
        // It is ahead of later sends all the same, and so is its cost: no later send may take that
        // credit first.
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
            self.reserved().wanted.fetch_min(need.charge, Ordering::Relaxed);
        }
        self.no_room(false, credit)
    }

    /// A reservation was counted for a moment and then withdrawn. A thread that waits for room may
    /// have been passed over because of it.
    #[cold]
    fn room_was_given_back(&self) {
        look_again();
        // One job covers everything that is given back before it runs: a thread that finds the
        // submission queue full may retry many times.
        if !self.writable().is_armed() || self.reserved().looking.swap(true, Ordering::AcqRel) {
            return;
        }
        // If this fails the worker is shutting down, which notifies the waiting threads.
        let _ = self.post(|endpoint| {
            // AcqRel: sees what was given back by threads that found the flag set.
            endpoint.reserved.looking.swap(false, Ordering::AcqRel);
            endpoint.tend_later();
        });
    }

    /// The window has a place for one more send, and there is credit for the one refused last.
    pub(crate) fn has_place(&self) -> bool {
        let limits = self.reserved().limits.get();
        if self.ops().get() >= limits.ops.into() || self.bytes().get() >= limits.bytes {
            return false;
        }
        let wanted = self.reserved().wanted.load(Ordering::Relaxed);
        let charge = if wanted == NOTHING_WANTED { credit::LEAST } else { wanted };
        let fits = credits::fits(self.credit().get(), charge);
        if fits && wanted != NOTHING_WANTED {
            // Unless another thread was just refused for less.
            let _ = self.reserved().wanted.compare_exchange(
                wanted,
                NOTHING_WANTED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
        fits
    }

    /// Sends that wait or are going to wait, and their bytes.
    pub(crate) fn waiting(&self) -> (u64, u64) {
        (self.queued_ops().get(), self.queued_bytes().get())
    }
}

/// What the send that is being taken over from the ring has reserved and not used yet.
pub(crate) struct OpenPermit {
    /// Null while there is none.
    endpoint: Cell<*const Endpoint>,
    ops: Cell<u32>,
    queued_ops: Cell<u32>,
    charge: Cell<u16>,
    bytes: Cell<u64>,
    queued_bytes: Cell<u64>,
}

impl OpenPermit {
    pub(crate) const fn new() -> Self {
        OpenPermit {
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

/// Uses up as much of it as there is. Returns what is missing.
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

impl Endpoint {
    /// A send with `bytes` bytes is ahead of later ones from now on.
    #[inline]
    pub(crate) fn stands(&self, bytes: u64) {
        let (released, open_permit) = (&self.released, &self.worker.open_permit);
        let (ops, bytes) = if open_permit.is_for(self) {
            (use_one(&open_permit.ops), use_up(&open_permit.bytes, bytes))
        } else {
            (1, bytes)
        };
        released.ops.subtract(ops);
        released.bytes.subtract(bytes);
    }

    /// The opposite of `stands`.
    #[inline]
    pub(crate) fn stood(&self, bytes: u64) {
        self.released.ops.add(1);
        self.released.bytes.add(bytes);
    }

    /// The send waits from now on.
    pub(crate) fn stands_in_queue(&self, bytes: u64) {
        let (released, open_permit) = (&self.released, &self.worker.open_permit);
        let (ops, bytes) = if open_permit.is_for(self) {
            (use_one(&open_permit.queued_ops), use_up(&open_permit.queued_bytes, bytes))
        } else {
            (1, bytes)
        };
        released.queued_ops.subtract(ops);
        released.queued_bytes.subtract(bytes);
    }

    pub(crate) fn stood_in_queue(&self, bytes: u64) {
        self.released.queued_ops.add(1);
        self.released.queued_bytes.add(bytes);
    }

    /// Takes credit, first from what the send in the ring has reserved.
    pub(crate) fn spend(&self, charge: u16) {
        let open_permit = &self.worker.open_permit;
        if open_permit.is_for(self) && open_permit.charge.get() == charge {
            open_permit.charge.set(0);
            self.credits.spend_reserved(charge);
        } else {
            self.credits.spend(charge);
        }
    }
}

impl Worker {
    /// Moves what an entry of the ring has reserved into `open_permit`, until `end_permit`. Returns
    /// false if it reserved nothing.
    #[inline]
    pub(crate) fn begin_permit(&self, endpoint: *const Endpoint, permit: SendPermit) -> bool {
        if permit.is_nothing() {
            return false;
        }
        let open_permit = &self.open_permit;
        debug_assert!(
            open_permit.endpoint.get().is_null(),
            "nothing that is taken over lets go of the gate"
        );
        let SendPermit { ops, charge, waits, bytes } = permit;
        open_permit.endpoint.set(endpoint);
        open_permit.ops.set(ops);
        open_permit.bytes.set(bytes);
        open_permit.charge.set(charge);
        open_permit.queued_ops.set(if waits { ops } else { 0 });
        open_permit.queued_bytes.set(if waits { bytes } else { 0 });
        true
    }

    #[inline]
    pub(crate) fn end_permit(&self) {
        let endpoint = self.open_permit.endpoint.replace(std::ptr::null());
        // SAFETY: it was alive when the permit was opened (see `Queued`), and an endpoint that ends
        // removes itself with `drop_permit_of`.
        if let Some(endpoint) = unsafe { endpoint.as_ref() } {
            endpoint.give_back_rest(&self.open_permit);
        }
    }

    /// The endpoint ends.
    pub(crate) fn drop_permit_of(&self, endpoint: &Endpoint) {
        if self.open_permit.is_for(endpoint) {
            self.open_permit.endpoint.set(std::ptr::null());
        }
    }
}

impl Endpoint {
    /// Gives back what the send has not used: it was sent already, waits for its credit, or failed.
    #[inline]
    fn give_back_rest(&self, open_permit: &OpenPermit) {
        let released = &self.released;
        let (ops, queued_ops, charge) =
            (open_permit.ops.get(), open_permit.queued_ops.get(), open_permit.charge.get());
        if ops == 0 && queued_ops == 0 && charge == 0 && open_permit.bytes.get() == 0 {
            return;
        }
        released.ops.add(ops.into());
        released.bytes.add(open_permit.bytes.get());
        if queued_ops != 0 || open_permit.queued_bytes.get() != 0 {
            released.queued_ops.add(queued_ops.into());
            released.queued_bytes.add(open_permit.queued_bytes.get());
        }
        if charge != 0 {
            self.credits.drop_reserved(charge);
        }
        if self.writable.is_armed() {
            self.tend_later();
        }
    }
}
