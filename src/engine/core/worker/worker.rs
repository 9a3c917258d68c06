//! The worker: one UCP worker, the requests that run on it, and its endpoints.
//!
//! # Who may touch what
//!
//! - `SharedWorker`: any thread holds it, in an `Arc`. It gives access to `AnyThread`, and to the
//!   ways into the gate.
//! - `Worker`: the view of the thread that is inside the gate (`core::worker::gate`). Its cells are
//!   not `Sync`, so it stays on that thread. The gate publishes the cells to the next thread.
//! - `foreign` and `waiting` are at the end, in their own cache lines, because other threads write
//!   them.
//!
//! # Life
//!
//! `closed` is set once, before UCP's worker is destroyed; every operation checks it. `special`
//! combines it with "has had a progress thread", so that the usual call needs one check only.

use crate::engine::base::backoff::BackOff;
use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::log::{self, Component};
use crate::engine::base::remote_free_list::RemoteFreeList;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::buffer_cache::FrameStore;
use crate::engine::core::channel::handler_table::Handlers;
use crate::engine::core::channel::message::MessageHandler;
use crate::engine::core::channel::receive::Inbox;
use crate::engine::core::channel::receivers::Receivers;
use crate::engine::core::channel::shm_channel::FastBoxes;
use crate::engine::core::endpoint::admission::OpenPermit;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::endpoint::listener::Listener;
use crate::engine::core::endpoint::liveness::LivenessClock;
use crate::engine::core::endpoint::parked_endpoints::{ParkedEndpoints, Places};
use crate::engine::core::endpoint::process_watch::PeerWatch;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{self, OpParams};
use crate::engine::core::request::operations::Operations;
use crate::engine::core::request::pending_callbacks::Due;
use crate::engine::core::request::request::{Slot, Ticket};
use crate::engine::core::request::request_param::Templates;
use crate::engine::core::request::slab::Slab;
use crate::engine::core::request::slot_list::SlotList;
use crate::engine::core::request::timers::Timers;
pub(crate) use crate::engine::core::worker::attention;
use crate::engine::core::worker::callback_depth::OwnCallbacks;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::event_loop::EventLoop;
use crate::engine::core::worker::gate::{this_thread, Gate, ThreadMode};
use crate::engine::core::worker::inquiry::Inquiry;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::latency::Latency;
use crate::engine::core::worker::progress_thread::{has_thread, ProgressThread};
use crate::engine::core::worker::protocol::{Protocols, States, Turns};
use crate::engine::core::worker::stats::Stats;
use crate::engine::core::worker::stuck_descriptor::Stuck;
use crate::engine::core::worker::wait::WaitRoom;
use crate::engine::core::worker::wake_hint::WakeHint;
use crate::engine::core::worker::wakeup::{Resting, Wakeup};
use crate::engine::os::fork::{Generation, Token};
use crate::engine::os::process_identity::Identity;
use crate::engine::ucx::context::{self, Context};
use crate::engine::wire::address::{Address, Origin};
use crate::sys;
use once_cell::sync::OnceCell;
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_void, CStr, CString};
use std::ops::Deref;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// UCP's worker.
pub(super) struct UcpWorker(pub(super) sys::ucp_worker_h);

// SAFETY: a pointer. `Worker::ucp` gives it to the thread inside the gate;
// `SharedWorker::ucp_to_signal` gives it to any thread, for what UCP allows on any thread.
unsafe impl Send for UcpWorker {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for UcpWorker {}

/// What any thread may access; read by all threads, and rarely written.
#[repr(C)]
pub struct AnyThread {
    pub(crate) context: Arc<Context>,
    pub(crate) generation: Generation,
    pub(crate) protocols: Protocols,
    pub(crate) operations: Operations,
    pub(crate) turns: Turns,
    /// The receivers for messages of the channel.
    pub(crate) receivers: Receivers,
    /// The state of each protocol.
    pub(crate) states: States,
    pub(super) ucp: UcpWorker,
    /// New operations are refused. Set before UCP's worker is destroyed.
    pub(crate) closed: AtomicBool,
    /// The thread that may use the fast path: the only thread of a SINGLE worker until it is
    /// closed, and none in a forked child.
    pub(crate) fast_thread: Token,
    /// Features of the context.
    pub(crate) features: u64,
    /// The worker was closed, or has had a progress thread: the one check of every call. Never
    /// cleared.
    pub(crate) special: AtomicBool,
    pub(crate) spin_ns: u64,
    pub(crate) name: Option<CString>,
    /// It keeps UCX's descriptions of its requests: see `request::description`.
    pub(crate) describes_requests: bool,
    pub(crate) identity: Identity,
    pub(crate) wakeup: OnceCell<Wakeup>,
    /// What UCP reports of the worker never changes: it is cached here for every thread.
    pub(crate) address: OnceCell<Address>,
    pub(crate) max_am_header: OnceLock<usize>,

    pub(super) _thread: CacheLine,
    pub(crate) thread: ProgressThread,
}

/// A UCP worker and everything on it, for the thread inside the gate. See the head of this file.
#[repr(C)]
pub struct Worker {
    pub(super) any: AnyThread,

    // Written for each operation. A pass with nothing to do touches what comes first, down to the
    // number of passes in `stats`: few lines, so that many workers may be progressed in turn.
    pub(super) _owned: CacheLine,
    pub(crate) gate: Gate,
    /// Work of a progress pass in addition to UCP's: bits of `attention`.
    pub(crate) attention: Cell<u32>,
    /// Passes that are running callbacks (several threads at once in MULTI).
    pub(crate) delivering: Cell<u32>,
    /// SINGLE: counts the callbacks of its thread.
    pub(crate) own_callbacks: Option<&'static OwnCallbacks>,
    /// Armed, and no pass since: a thread sleeps, or is about to.
    pub(crate) armed: Cell<bool>,
    pub(crate) event_loop: EventLoop,
    pub(crate) fast_boxes: FastBoxes,
    pub(crate) stats: Stats,
    pub(crate) slab: Slab,
    pub(crate) templates: Templates,
    pub(crate) sequence: Cell<u64>,
    pub(crate) back_off: BackOff,
    pub(crate) stuck: Stuck,
    pub(crate) resting: Resting,
    pub(crate) coarse_now: Cell<u64>,
    /// Memory that UCP may write to until its worker is destroyed.
    pub(crate) left_to_ucp: RefCell<Vec<Box<dyn Any>>>,
    /// Requests whose callback is due, oldest first.
    pub(crate) ready: SlotList,
    /// Slots from the ring that are in flight, newest first.
    pub(crate) live: Cell<*const Slot>,
    /// Sends in flight on all endpoints: a flush of the worker waits for them.
    pub(crate) sends_in_flight: Cell<u32>,
    pub(crate) due: Due,
    /// Operations that were completed for their callers and that UCP has not returned.
    pub(crate) abandoned: Cell<usize>,
    /// An endpoint has ended of which the peer may not have read anything yet.
    pub(crate) left_unread: Cell<bool>,
    /// Flushes in flight, of the worker and of all endpoints.
    pub(crate) flushes_active: Cell<u32>,
    pub(crate) latency: Option<Box<Latency>>,
    /// Flushes of the whole worker in flight.
    pub(crate) flushes: RefCell<Vec<*const Slot>>,
    /// First unreported error of endpoints that have ended: its position and status.
    pub(crate) unreported: Cell<Option<(u64, Status)>>,
    /// Number of endpoints with such an error.
    pub(crate) unreported_on: Cell<u32>,
    /// Number of endpoints with sends or flushes in their queues.
    pub(crate) queueing: Cell<u32>,
    /// Flushes that wait for nothing any more and must be completed.
    pub(crate) flushed: RefCell<VecDeque<Ticket>>,
    pub(crate) events: RefCell<VecDeque<Event>>,
    pub(crate) timers: RefCell<Timers>,
    /// `ticks` when they were checked last; 0: since then one was added.
    pub(crate) timers_checked: Cell<u64>,
    pub(crate) endpoints: RefCell<Vec<Option<Inward<SharedEndpoint>>>>,
    /// References that were released while the ring could still refer to them: handles destroyed by
    /// a callback, and the worker's own to endpoints that have ended.
    pub(crate) graves: RefCell<Vec<Inward<SharedEndpoint>>>,
    /// The endpoint that a peer named last; null if it has ended.
    pub(crate) named: Cell<*const Endpoint>,
    /// Endpoints that are being opened or closed, each once. Passes check them in turn.
    pub(crate) changing: RefCell<VecDeque<Inward<SharedEndpoint>>>,
    /// UCP did something in the pass after which they are checked.
    pub(crate) ucp_was_busy: Cell<bool>,
    /// Endpoints whose send windows have changed, each once.
    pub(crate) windows: RefCell<VecDeque<Inward<SharedEndpoint>>>,
    pub(crate) open_permit: OpenPermit,
    pub(crate) peers: PeerWatch,
    pub(crate) listeners: RefCell<Vec<Arc<Listener>>>,
    pub(crate) liveness: LivenessClock,
    /// The count of UCP's ends to each peer. UCP counts them in the same way, and never forgets
    /// one.
    pub(crate) places: RefCell<HashMap<Origin, Places>>,
    pub(crate) parked: ParkedEndpoints,
    /// Refusals to peers of other versions that UCP is sending.
    pub(crate) refusals: Cell<u32>,
    /// Active messages whose handlers are due.
    pub(crate) inbox: Inbox,
    pub(crate) am_handlers: Handlers<MessageHandler>,
    /// Buffers for received messages. The buffers keep it alive as well.
    pub(crate) frames: Arc<FrameStore>,
    pub(crate) wake_hint: WakeHint,
    /// Operations that may overtake each other, counted at submission, and how many of them a fence
    /// has waited for. Any thread.
    pub(crate) unordered: AtomicU64,
    pub(crate) fenced: AtomicU64,
    /// Endpoints made so far.
    pub(crate) endpoints_made: Cell<u64>,
    /// UCP's worker was destroyed.
    pub(crate) is_over: Cell<bool>,
    pub(crate) keep: Cell<Option<Arc<SharedWorker>>>,

    // Written by any thread.
    pub(super) _foreign: CacheLine,
    /// Requests that callers released from outside the gate. After the end, the release of the last
    /// one drops `keep`.
    pub(crate) foreign: RemoteFreeList<Slot>,
    pub(crate) waiting: WaitRoom,
    /// Questions of the monitor.
    pub(super) inquiry: Inquiry,
}

/// Tells a listener that the client is a worker of this library.
pub(crate) const CLIENT_ID: u64 = u64::from_le_bytes(*b"ucxx_rs1");

/// A UCP worker, as any thread holds it. See the head of this file.
#[repr(transparent)]
pub struct SharedWorker(Worker);

// SAFETY: its methods give other threads only the fields that any thread may use, which are checked
// below. All others are reached through `Worker`, inside the gate, which admits one thread at a
// time and publishes to the next one what the last one has written.
unsafe impl Send for SharedWorker {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for SharedWorker {}

const _: () = {
    const fn are_for_all<T: Send + Sync>() {}
    are_for_all::<(AnyThread, Gate, Stats, AtomicU64, RemoteFreeList<Slot>, WaitRoom, WakeHint)>();
    are_for_all::<(Inquiry, Latency)>();
};

impl Deref for SharedWorker {
    type Target = AnyThread;
    #[inline(always)]
    fn deref(&self) -> &AnyThread {
        &self.0.any
    }
}

// SAFETY: `Worker` is neither `Send` nor `Sync`: `core::worker::inward` checks it.
unsafe impl Guarded for SharedWorker {
    type Inside = Worker;
    #[inline(always)]
    unsafe fn inside(&self) -> &Worker {
        &self.0
    }
}

impl Deref for Worker {
    type Target = SharedWorker;
    #[inline(always)]
    fn deref(&self) -> &SharedWorker {
        // SAFETY: `SharedWorker` is a transparent wrapper of `Worker`, and gives access to less.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

/// The entered gate; leaves it when dropped.
pub(crate) struct Inside<'a>(&'a Worker);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Deref for Inside<'_> {
    type Target = Worker;
    #[inline(always)]
    fn deref(&self) -> &Worker {
        self.0
    }
}

/// The same on the only thread of a SINGLE worker, for a short call.
pub struct InsideFast<'a>(&'a Worker);

impl Drop for InsideFast<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.gate.leave_fast();
    }
}

impl Deref for InsideFast<'_> {
    type Target = Worker;
    #[inline(always)]
    fn deref(&self) -> &Worker {
        self.0
    }
}

impl<'a> InsideFast<'a> {
    /// A free slot, which stays in the free list.
    #[inline(always)]
    pub(crate) fn first_slot(&self) -> Option<&'a Slot> {
        self.0.slab.first()
    }
}

/// The ways into the gate.
impl SharedWorker {
    pub(super) fn of(worker: Worker) -> Arc<Self> {
        Arc::new(SharedWorker(worker))
    }

    /// Enters if the caller is the only thread of an open SINGLE worker and not inside, and if this
    /// is not a forked child.
    #[inline(always)]
    pub(crate) fn enter_fast(&self) -> Option<InsideFast<'_>> {
        let enters = self.fast_thread.get() == this_thread() && self.0.gate.enter_fast();
        enters.then(|| InsideFast(&self.0))
    }

    /// The same conditions, for an action without entering.
    ///
    /// # Safety
    /// The reference is used only for a moment, during which nothing is called that may enter.
    #[inline(always)]
    pub(crate) unsafe fn act_fast(&self) -> Option<&Worker> {
        let may = self.fast_thread.get() == this_thread() && self.0.gate.is_free();
        may.then_some(&self.0)
    }

    /// The same for any caller, on any worker that is not closed.
    ///
    /// # Safety
    /// As for `act_fast`.
    pub(crate) unsafe fn act_at_once(&self) -> Option<&Worker> {
        let may = self.0.gate.is_free_owner() && !self.closed.load(Ordering::Relaxed);
        may.then_some(&self.0)
    }

    /// Enters a MULTI worker if no thread is inside.
    pub(crate) fn try_enter(&self) -> Option<Inside<'_>> {
        self.0.gate.try_enter().then(|| Inside(&self.0))
    }

    /// Enters if the gate is a lock, and becomes free in time. None: it is no lock, so only the
    /// worker's own thread may enter.
    pub(super) fn enter_within(&self, time: Duration) -> Option<Option<Inside<'_>>> {
        self.0.gate.enter_within(time).map(|entered| entered.then(|| Inside(&self.0)))
    }

    /// Enters for shutting down, or on the progress thread, without any check.
    pub(crate) fn enter_any(&self) -> Inside<'_> {
        self.0.gate.enter_any();
        Inside(&self.0)
    }

    /// Enters the gate for an operation. Refuses after a fork, after the end, and on the wrong
    /// thread.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        self.enter_for(false)
    }

    /// The same, or for a progress pass of the caller, which a progress thread excludes.
    #[inline(always)]
    pub(crate) fn enter_for(&self, progressing: bool) -> Result<Inside<'_>> {
        if self.generation.is_past() {
            return Err(context::forked("worker"));
        }
        self.0.gate.enter()?;
        // From here on the drop leaves the gate.
        let inside = Inside(&self.0);
        if self.special.load(Ordering::Relaxed) {
            inside.entered_slow(progressing)?;
        }
        Ok(inside)
    }
}

impl Worker {
    #[cold]
    fn entered_slow(&self, progressing: bool) -> Result<()> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(self.closed_error());
        }
        if progressing && self.thread.is_running() {
            return Err(has_thread());
        }
        if !self.thread.is_remote() {
            // What this thread has put into the ring comes before what it does now.
            self.drain_ring();
        }
        Ok(())
    }
}

impl SharedWorker {
    #[cold]
    pub(crate) fn closed_error(&self) -> Error {
        Error::new(Status::CLOSED, "worker: has been destroyed")
    }

    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        if self.generation.is_past() {
            return Err(context::forked("worker"));
        }
        Ok(())
    }

    /// Refuses in a forked child and after the end, without entering.
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.check_fork()?;
        if self.closed.load(Ordering::Acquire) {
            return Err(self.closed_error());
        }
        Ok(())
    }

    pub(crate) fn shared(&self) -> Arc<SharedWorker> {
        // SAFETY: workers are made only in `new`, inside an `Arc`, and the caller holds a
        // reference.
        unsafe {
            Arc::increment_strong_count(std::ptr::from_ref(self));
            Arc::from_raw(self)
        }
    }
}

impl Worker {
    #[inline]
    pub(crate) fn ucp(&self) -> sys::ucp_worker_h {
        self.any.ucp.0
    }

    #[inline]
    pub(crate) fn attend(&self, bits: u32) {
        self.attention.set(self.attention.get() | bits);
        self.wake_sleeper();
    }

    /// What was submitted after arming may need a pass, or an earlier deadline, so a sleeping
    /// thread must wake.
    #[inline]
    pub(crate) fn wake_sleeper(&self) {
        if self.armed.get() {
            self.disarm_and_signal();
        }
    }

    #[cold]
    fn disarm_and_signal(&self) {
        self.armed.set(false);
        self.tell_event_loop();
        self.kick();
    }

    pub(crate) fn push_event(&self, event: Event) {
        self.events.borrow_mut().push_back(event);
        self.attend(attention::EVENTS);
    }
}

impl SharedWorker {
    /// Refuses an operation that the context was not created for.
    #[inline]
    pub(crate) fn need(&self, wanted: u64) -> Result<()> {
        if self.context.has(wanted) {
            Ok(())
        } else {
            Err(context::missing_feature(wanted))
        }
    }

    /// Orders later operations behind earlier ones, on every endpoint.
    ///
    /// Messages of one endpoint are always in order, so nothing is done for them. Put, get and
    /// atomic operations can overtake each other: the fence waits for those that were submitted
    /// since the last fence. UCX's own fence does the same from 1.16 on; before, it orders nothing
    /// across UCX's lanes.
    pub fn fence(&self) -> Result<()> {
        // Operations that completed inside their call were loads and stores.
        fence(Ordering::SeqCst);
        let submitted = self.0.unordered.load(Ordering::Acquire);
        if self.0.fenced.load(Ordering::Acquire) < submitted {
            self.check_usable()?;
            let params = OpParams { flags: operation::WAITS, ..OpParams::DEFAULT };
            self.flush(&params, Out::NOWHERE)?;
            self.0.fenced.fetch_max(submitted, Ordering::Release);
            return Ok(());
        }
        if self.thread.is_remote() {
            return self.check_usable();
        }
        self.enter().map(drop)
    }

    /// An operation was submitted that others may overtake.
    pub(crate) fn note_unordered(&self) {
        self.0.unordered.fetch_add(1, Ordering::Release);
    }

    /// The longest header of an active message, or 0 without that feature.
    pub fn max_am_header(&self) -> Result<usize> {
        self.check_usable()?;
        Ok(self.longest_am_header())
    }
}

impl SharedWorker {
    /// Which threads may call while progress is manual.
    pub fn thread_mode(&self) -> ThreadMode {
        self.0.gate.declared()
    }

    /// Counters, readable from any thread.
    #[inline(always)]
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    pub(crate) fn latency(&self) -> Option<&Latency> {
        self.0.latency.as_deref()
    }

    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// By pointer, because using it may free the worker.
    ///
    /// # Safety
    /// The worker's memory is still valid.
    pub(crate) unsafe fn foreign(this: *const Self) -> *const RemoteFreeList<Slot> {
        // SAFETY: the caller guarantees that the worker's memory is valid.
        unsafe { &raw const (*this).0.foreign }
    }

    /// For `ucp_worker_signal`, which UCP allows on any thread in any thread mode.
    pub(crate) fn ucp_to_signal(&self) -> sys::ucp_worker_h {
        self.ucp.0
    }

    /// UCP's handle, for calls that this library does not have. Null in a forked child, and from
    /// the worker's end on.
    pub fn native(&self) -> *mut c_void {
        self.check_usable().map_or(std::ptr::null_mut(), |()| self.ucp.0.cast())
    }

    pub(crate) fn waiting(&self) -> &WaitRoom {
        &self.0.waiting
    }

    pub(crate) fn wake_hint(&self) -> &WakeHint {
        &self.0.wake_hint
    }

    pub(super) fn inquiry(&self) -> &Inquiry {
        &self.0.inquiry
    }

    /// The name from its parameters, or nothing.
    pub fn given_name(&self) -> Cow<'_, str> {
        self.name.as_deref().unwrap_or_default().to_string_lossy()
    }

    pub(crate) fn display_name(&self) -> &CStr {
        self.name.as_deref().unwrap_or(c"worker")
    }
}

impl Drop for SharedWorker {
    fn drop(&mut self) {
        // A worker that was never shut down: its handle leaked into an exiting program, or it was
        // made before a fork. UCP is left as it is: shutting it down would run callbacks that no
        // code expects any more.
        if !self.closed.load(Ordering::Relaxed) && !self.generation.is_past() {
            let text = format_args!(
                "was not destroyed, and UCX keeps its resources; call ucxx_worker_destroy"
            );
            log::write(log::WARN, Component::Worker, self, text);
        }
    }
}
