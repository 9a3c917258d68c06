//! Admission of sends that go through the progress thread: at submission each reserves its place in
//! the send window, or in the queue, and its credit.
//!
//! The submission ring counts as much as what has been taken over. Each endpoint counts what a next
//! send finds before it in two halves (see `base::split_counter`): the submitting thread adds to
//! `Reserved`, the owner of the worker to `Released`. A reservation is given back when the ring
//! refuses the send. When the send is taken over, its permit is in the worker's `OpenPermit`: what
//! begins then uses it up, and the rest is given back.
//!
//! The limits hold for what threads submit, together with all that is under way already. Sends
//! inside the gate (by callbacks of the progress thread, or of active messages that get their
//! credit) are first come, first served. Such a send may take a place that another thread has
//! reserved a moment ago; that one waits then. The same holds among threads: a send with a place in
//! the queue, taken over before one that has reserved the window, takes the window's place. Its
//! place in the queue goes to a third send before the other one comes to want it.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::split_counter::{look_again, Added, Removed, SplitCounter};
use crate::engine::base::status::Result;
use crate::engine::core::endpoint::credits;
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointPointer, SharedEndpoint};
use crate::engine::core::endpoint::send_window::{WindowLimits, MOST_OWED};
use crate::engine::core::request::operation::{flag, OpParams};
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::credit;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

/// Of `Reserved::wanted`: nobody was refused.
const NOTHING_WANTED: u16 = u16::MAX;

/// Written before any other thread can know the endpoint.
pub(crate) struct Settled<T>(Cell<T>);

// SAFETY: see the type.
unsafe impl<T: Send + Sync> Sync for Settled<T> {}

impl<T: Copy> Settled<T> {
    #[inline(always)]
    pub(crate) fn get(&self) -> T {
        self.0.get()
    }

    /// # Safety
    /// No other thread knows the endpoint.
    pub(crate) unsafe fn set(&self, value: T) {
        self.0.set(value);
    }
}

/// What threads outside the gate have reserved of an endpoint: each submitting thread adds, without
/// a lock. The other half is in `Released` and `Credits`, which the owner of the gate writes.
#[repr(C)]
pub(crate) struct Reserved {
    _start: CacheLine,
    /// Here, as who submits needs nothing else of the endpoint that is written all the time.
    pub(crate) limits: Settled<WindowLimits>,
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

/// The half that is written inside the gate.
#[derive(Default)]
pub(crate) struct Released {
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
pub(crate) struct SendPermit {
    ops: u32,
    charge: u16,
    /// It has a place in the queue, too.
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
    /// For the entry in the ring, which nothing can refuse any more.
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

/// Any thread.
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

    /// Promises a send that is about to be put into the ring its place, or refuses it: when it
    /// would have to wait and may not, or there is no room in the queue.
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

    /// A place for a send that goes straight to UCP when it is taken over, if there is one.
    #[inline]
    fn add_to_window(&self, need: Need) -> bool {
        if !self.is_open() && !self.has_status(Self::SILENT) {
            return false;
        }
        let limits = self.reserved().limits.get();
        let ops_fit = |before: u64| before < limits.ops.into();
        let bytes_fit = |before: u64| before < limits.bytes;
        // Others may wait for theirs that have been taken over already: looked at after what was
        // given back when they were.
        let credit_fits = |before: u64| {
            credits::fits(before, need.charge) && !self.is_short_of_credit(need.charge)
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
            self.reserved().wanted.fetch_min(need.charge, Ordering::Relaxed);
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
        if !self.writable().is_armed() || self.reserved().looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let endpoint = EndpointPointer(self);
        // One that is at its end tells them of that.
        let _ = self.worker().post(move |_inside| {
            let endpoint = endpoint;
            // SAFETY: the end of an endpoint comes after what was handed over before it.
            let endpoint = unsafe { (*endpoint.0).inside() };
            // It sees what those have given back that have found it set.
            endpoint.reserved.looking.swap(false, Ordering::AcqRel);
            endpoint.tend_later();
        });
    }

    /// There is a place for one more send in the window, and credit for what was refused last.
    pub(crate) fn has_place(&self) -> bool {
        let limits = self.reserved().limits.get();
        if self.ops().get() >= limits.ops.into() || self.bytes().get() >= limits.bytes {
            return false;
        }
        let wanted = self.reserved().wanted.load(Ordering::Relaxed);
        let charge = if wanted == NOTHING_WANTED { credit::LEAST } else { wanted };
        let fits = credits::fits(self.credit().get(), charge);
        if fits && wanted != NOTHING_WANTED {
            // Unless somebody has just been refused for less.
            let _ = self.reserved().wanted.compare_exchange(
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

/// What the send that is being taken over from the ring has reserved, and has not used yet.
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

impl Endpoint {
    /// A send of so many bytes stands before the next one from now on.
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

    /// And not any more.
    #[inline]
    pub(crate) fn stood(&self, bytes: u64) {
        self.released.ops.add(1);
        self.released.bytes.add(bytes);
    }

    /// It waits from now on.
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

    /// Takes credit, which a send from the ring has reserved.
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
    /// Takes what an entry of the ring has reserved into `open_permit`, until `end_permit`. False:
    /// that was nothing.
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
        // SAFETY: it was alive when this began (see `Queued`), and who ends it takes it out.
        if let Some(endpoint) = unsafe { endpoint.as_ref() } {
            endpoint.give_back_rest(&self.open_permit);
        }
    }

    /// The endpoint is at its end.
    pub(crate) fn drop_permit_of(&self, endpoint: &Endpoint) {
        if self.open_permit.is_for(endpoint) {
            self.open_permit.endpoint.set(std::ptr::null());
        }
    }
}

impl Endpoint {
    /// What the send has not used, as it has gone already, or waits for its credit, or has not come
    /// to anything.
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
