//! The submission ring: transfers that other threads hand to the progress thread, without a lock
//! and without an allocation.
//!
//! A thread takes a place in the ring, then a slot from the pool. It owns the slot until it has
//! pushed it into the ring. From then on the slot belongs to the thread inside the gate, which
//! drains the ring before each pass. A slot returns to the pool when its use ends. Push and pop
//! publish the slot's cells in both directions.

use crate::engine::base::clock;
use crate::engine::base::counters::Counter;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::permit_queue::PermitQueue;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::message::Pulled;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::SendPermit;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::request::completion::Returned;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Slot, SlotPointer};
use crate::engine::core::request::slab::Slab;
use crate::engine::core::trace;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::sys;
use crossbeam_queue::ArrayQueue;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};

/// Places in the ring unless the worker's parameters say otherwise.
pub(crate) const DEFAULT_DEPTH: u32 = 4096;
/// The largest depth that is accepted.
pub const LARGEST_DEPTH: u32 = 1 << 20;

/// A transfer as its caller described it.
#[derive(Clone, Copy)]
pub(crate) struct Queued {
    pub(crate) buffer: *mut c_void,
    /// Bytes, or parts in the slot's own list.
    pub(crate) count: usize,
    pub(crate) scattered: bool,
    /// A stream receive that completes with the data that is there.
    pub(crate) partial: bool,
    pub(crate) tag: u64,
    pub(crate) tag_mask: u64,
    pub(crate) memory_type: Option<sys::ucs_memory_type_t>,
    /// `u64::MAX` for none.
    pub(crate) deadline: u64,
    /// The endpoint that it is sent to, or that it ends with. It is alive, because an endpoint ends
    /// after what was submitted before its close.
    pub(crate) endpoint: *const SharedEndpoint,
    /// For the receive of a probed message.
    pub(crate) message: sys::ucp_tag_message_h,
    /// For an active message.
    pub(crate) outgoing: Outgoing,
    /// For the pull of an active message.
    pub(crate) pulled: Pulled,
    /// The remote key of a put or a get: an own reference, or null.
    pub(crate) rkey: *const c_void,
    /// For a send in the ring.
    pub(crate) permit: SendPermit,
}

impl Queued {
    pub(crate) const NOTHING: Queued = Queued {
        buffer: std::ptr::null_mut(),
        count: 0,
        scattered: false,
        partial: false,
        tag: 0,
        tag_mask: 0,
        memory_type: None,
        deadline: u64::MAX,
        endpoint: std::ptr::null(),
        message: std::ptr::null_mut(),
        outgoing: Outgoing::NOTHING,
        pulled: Pulled::NOTHING,
        rkey: std::ptr::null(),
        permit: SendPermit::NOTHING,
    };
}

/// The ring of a worker, and the slots for its entries.
#[repr(C)]
pub(crate) struct Queue {
    ring: PermitQueue<SlotPointer>,
    /// Free slots. Those that do not fit, and those that were made but not needed yet, are in
    /// `rest`.
    pool: ArrayQueue<SlotPointer>,
    rest: Mutex<Slab>,
    pub(crate) times_full: AtomicU64,
    /// Written inside the gate.
    pub(crate) high_water: Counter,
}

impl Queue {
    pub(crate) fn new(depth: usize, request_size: usize) -> Self {
        Queue {
            ring: PermitQueue::new(depth),
            pool: ArrayQueue::new((2 * depth).max(64)),
            rest: Mutex::new(Slab::new(request_size)),
            times_full: AtomicU64::new(0),
            high_water: Counter::default(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.ring.has_room()
    }

    /// No thread is about to push, and the ring is empty.
    pub(crate) fn is_settled(&self) -> bool {
        self.ring.is_settled()
    }

    /// A free slot, for a thread outside the gate.
    #[inline]
    pub(crate) fn take_slot(&self, worker: &SharedWorker) -> &Slot {
        match self.pool.pop() {
            // SAFETY: a slot of this queue, which lives as long as the queue.
            Some(SlotPointer(slot)) => unsafe { &*slot },
            None => self.take_slot_slow(worker),
        }
    }

    #[cold]
    fn take_slot_slow(&self, worker: &SharedWorker) -> &Slot {
        let rest = self.rest.lock();
        let slot: *const Slot = loop {
            match rest.pop() {
                Some(slot) => break slot,
                None => rest.grow(worker, true),
            }
        };
        while let Some(more) = rest.pop() {
            if self.pool.push(SlotPointer(more)).is_err() {
                rest.push(more);
                break;
            }
        }
        // SAFETY: a slot of this queue, which lives as long as the queue.
        unsafe { &*slot }
    }

    fn return_slot(&self, slot: &Slot) {
        if self.pool.push(SlotPointer(slot)).is_err() {
            self.rest.lock().push(slot);
        }
    }

    /// Takes a place in the ring. It is given back when its entry was taken out.
    #[inline]
    fn take_place(&self) -> Result<()> {
        if self.ring.take() {
            Ok(())
        } else {
            Err(self.full())
        }
    }

    #[cold]
    fn full(&self) -> Error {
        self.times_full.fetch_add(1, Ordering::Relaxed);
        Error::new(
            Status::NO_RESOURCE,
            "worker: its submission queue is full (submission_queue_depth); try again when \
            operations have completed",
        )
    }
}

impl SharedWorker {
    /// The operation must go through the ring.
    #[inline(always)]
    pub(crate) fn must_submit_remotely(&self, params: &OpParams) -> bool {
        (self.special.load(Ordering::Relaxed) | (params.flags & flag::DELAYED != 0))
            && self.goes_slow(params)
    }

    #[cold]
    fn goes_slow(&self, params: &OpParams) -> bool {
        self.thread.is_remote() || params.flags & flag::DELAYED != 0
    }

    #[inline]
    pub(crate) fn check_delayed_flag(&self, params: &OpParams) -> Result<()> {
        if params.flags & flag::DELAYED != 0 && !self.thread.is_running() {
            return Err(Error::new(
                Status::UNSUPPORTED,
                "flags: UCXX_FLAG_DELAYED needs a progress thread",
            ));
        }
        Ok(())
    }

    /// Hands a transfer with checked arguments to the progress thread. `prepare` may fill more of
    /// the slot.
    pub(crate) fn delay(
        &self,
        kind: Kind,
        length: u64,
        params: &OpParams,
        out: Out,
        prepare: impl FnOnce(&Slot) -> Queued,
    ) -> Result<Submitted> {
        self.check_fork()?;
        self.check_delayed_flag(params)?;
        let thread = &self.thread;
        let Some(queue) = thread.queue.get() else {
            return Err(Error::new(Status::UNSUPPORTED, "worker: has no progress thread"));
        };
        queue.take_place()?;
        // After the place was taken: either the end of the worker waits for this thread, or this
        // thread sees that the worker is closed.
        if self.closed.load(Ordering::SeqCst) {
            queue.ring.give_back(1);
            return Err(self.closed_error());
        }
        let slot = queue.take_slot(self);
        slot.begin_in_full(kind, params, length, out);
        let deadline =
            crate::engine::core::request::operation::deadline_of(params).unwrap_or(u64::MAX);
        let queued = Queued { deadline, ..prepare(slot) };
        if kind.is_send() {
            slot.tag.set(queued.tag);
        }
        slot.queued.set(queued);
        trace::submitted(slot, None);
        slot.stage.enqueue();
        queue.ring.push(SlotPointer(slot));
        self.wake_thread();
        if !thread.is_running() {
            // The progress thread was stopped in the meantime. A thread that enters from now on
            // drains the ring first.
            drop(self.enter());
        }
        Ok(Submitted::Pending)
    }
}

impl Worker {
    /// Submits what is in the ring. Returns the number of entries.
    pub(crate) fn drain_ring(&self) -> u32 {
        let Some(queue) = self.thread.queue.get() else { return 0 };
        if queue.is_empty() {
            return 0;
        }
        let waiting = queue.len() as u64;
        if waiting > queue.high_water.get() {
            queue.high_water.add(waiting - queue.high_water.get());
        }
        // Bounded, so that a steady supply does not keep UCP from making progress.
        // SAFETY: the entry handed the slot over to this thread.
        queue.ring.drain(|SlotPointer(slot)| self.dispatch(unsafe { &*slot })) as u32
    }

    fn dispatch(&self, slot: &Slot) {
        let queued = slot.queued.get();
        self.stats.delayed.add(1);
        // After the worker was closed the endpoint may not exist any more.
        let permit =
            if self.closed.load(Ordering::Relaxed) { SendPermit::NOTHING } else { queued.permit };
        let reservation = self.begin_permit(queued.endpoint.cast(), permit);
        self.take_over(slot, &queued);
        if reservation {
            self.end_permit();
        }
    }

    #[inline(always)]
    fn take_over(&self, slot: &Slot, queued: &Queued) {
        // SAFETY: see `Queued`; not used after the worker was closed.
        let endpoint = || unsafe { queued.endpoint.cast::<Endpoint>().as_ref() };
        if !slot.stage.dequeue() {
            return self.drop_queued(slot, queued, Status::CANCELED);
        }
        if self.closed.load(Ordering::Relaxed) {
            return self.drop_queued(slot, queued, Status::CANCELED);
        }
        let now = if queued.deadline == u64::MAX { 0 } else { clock::now_ns() };
        if now >= queued.deadline {
            return self.drop_queued(slot, queued, Status::TIMED_OUT);
        }
        let operation = self.operation(slot);
        let sender;
        let endpoint = if slot.kind.get() == Kind::AmRecv {
            sender = self
                .endpoint_by_id(queued.pulled.connection)
                .filter(|sender| sender.takes_messages());
            if sender.is_none() {
                return self.drop_queued(slot, queued, Status::CONNECTION_RESET);
            }
            sender.as_deref()
        } else {
            endpoint()
        };
        // The phase, not the status: a close that was submitted after this entry has already set
        // the status.
        let over = |endpoint: &&Endpoint| {
            endpoint.phase() != Phase::Open && !(operation.outlasts)(endpoint)
        };
        if let Some(endpoint) = endpoint.filter(over) {
            return self.drop_queued(slot, queued, endpoint.status());
        }
        let left = OpParams {
            timeout_ns: if queued.deadline == u64::MAX { 0 } else { queued.deadline - now },
            ..OpParams::default()
        };
        let speaks = matches!(slot.kind.get(), Kind::AmSend | Kind::Fetch | Kind::Atomic);
        if speaks && endpoint.is_some_and(Endpoint::is_plain_ucx_peer) {
            return self.drop_queued(slot, queued, Status::UNSUPPORTED);
        }
        if let Some(endpoint) =
            endpoint.filter(|to| slot.kind.get().is_send() && to.must_queue(slot))
        {
            if !(operation.may_wait)(endpoint) {
                return self.drop_queued(slot, queued, endpoint.status());
            }
            return endpoint.enqueue(slot, &left, Out::NOWHERE);
        }
        if let Some(take_over) = operation.take_over {
            return take_over(self, slot, queued, endpoint, &left);
        }
        let posted = self.post_queued(slot, queued, endpoint);
        if let (Returned::Done, true) = (&posted, slot.kind.get().is_send()) {
            return self.sent_at_once(slot, endpoint);
        }
        self.start(slot, endpoint, &left, Out::NOWHERE);
        if let Some(status) = posted.ended() {
            self.complete(slot, status);
        }
    }

    /// Gives UCP a queued transfer, through the table of its kind.
    #[inline(always)]
    fn post_queued(&self, slot: &Slot, queued: &Queued, endpoint: Option<&Endpoint>) -> Returned {
        slot.add_mark(mark::SUBMITTING);
        trace::posts(slot, endpoint);
        let pointer = (self.operation(slot).post)(self, slot, queued, endpoint);
        trace::posted(slot, endpoint);
        slot.clear_mark(mark::SUBMITTING);
        let returned = Returned::of(slot, pointer);
        if matches!(returned, Returned::Done) {
            slot.note_done();
        }
        returned
    }

    /// Gives UCP a send that waited in its endpoint's queue.
    pub(crate) fn send_after_waiting(&self, slot: &Slot, endpoint: &Endpoint) {
        endpoint.send_goes_out(slot);
        let posted = self.post_queued(slot, &slot.queued.get(), Some(endpoint));
        if let Some(status) = posted.ended() {
            self.complete(slot, status);
        }
    }

    /// A send that completed inside UCP's call: does what `start` and `complete` together would do.
    fn sent_at_once(&self, slot: &Slot, endpoint: Option<&Endpoint>) {
        if self.latency.is_some() {
            slot.started.set(self.begins_at());
        }
        let counts = self.stats.of(slot.kind.get());
        counts.started.add(1);
        if slot.kind.get().takes_bytes() {
            counts.bytes.add(slot.length.get());
            if let Some(endpoint) = endpoint {
                endpoint.count_sent(slot.length.get());
            }
        }
        (self.operation(slot).ended)(self, slot);
        slot.outcome.set(Status::OK);
        if let (Some(endpoint), true) = (endpoint, slot.callback.get().is_some()) {
            // Flushes after it wait for its callback.
            slot.sequence.set(self.next_sequence());
            slot.endpoint.set(endpoint);
        }
        self.ended(slot, Status::OK);
    }

    /// Completes a transfer that is still in the ring.
    fn drop_queued(&self, slot: &Slot, queued: &Queued, status: Status) {
        let closed = self.closed.load(Ordering::Relaxed);
        self.release_data(queued.pulled.data);
        let endpoint = if closed { std::ptr::null() } else { queued.endpoint.cast::<Endpoint>() };
        // SAFETY: see `Queued`; not used after the worker was closed.
        let endpoint = unsafe { endpoint.as_ref() };
        if !closed {
            (self.operation(slot).dropped)(self, slot, queued, endpoint);
        }
        self.never_started(slot, endpoint, status);
    }

    /// Completes an operation that UCP was never given.
    pub(crate) fn never_started(&self, slot: &Slot, endpoint: Option<&Endpoint>, status: Status) {
        self.start(slot, endpoint, &OpParams::default(), Out::NOWHERE);
        if slot.kind.get().is_question() {
            // It held the room for a reply, until there is one.
            slot.length.set(0);
        }
        slot.reason.set(status.0);
        self.complete(slot, status);
    }
}

impl SharedWorker {
    #[inline(never)]
    pub(crate) fn return_to_pool(&self, slot: &Slot) {
        if let Some(queue) = self.thread.queue.get() {
            queue.return_slot(slot);
        }
    }
}

impl Worker {
    /// All slots, including free ones.
    pub(crate) fn for_each_slot(&self, mut visit: impl FnMut(&Slot)) {
        self.slab.for_each(&mut visit);
        if let Some(queue) = self.thread.queue.get() {
            queue.rest.lock().for_each(visit);
        }
    }
}
