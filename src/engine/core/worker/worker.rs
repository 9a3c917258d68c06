//! The worker: one UCP worker, the requests that run on it, and the endpoints that belong to it.

use crate::engine::base::backoff::BackOff;
use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::counters::Stats;
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
use crate::engine::core::worker::callback_depth::OwnCallbacks;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::event_loop::EventLoop;
use crate::engine::core::worker::gate::{this_thread, Gate, ThreadMode};
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::progress_thread::{has_thread, ProgressThread};
use crate::engine::core::worker::protocol::{Protocols, States, Turns};
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
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::ops::Deref;
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// UCP's worker.
pub(super) struct UcpWorker(pub(super) sys::ucp_worker_h);

// SAFETY: a pointer. `Worker::ucp` gives it to the one who is inside, `SharedWorker::ucp_to_signal`
// to anyone for what UCP allows on any thread.
unsafe impl Send for UcpWorker {}
// SAFETY: as above.
unsafe impl Sync for UcpWorker {}

/// What any thread may touch of a worker; read by all, and hardly ever written.
#[repr(C)]
pub struct AnyThread {
    pub(crate) context: Arc<Context>,
    pub(crate) generation: Generation,
    pub(crate) protocols: Protocols,
    pub(crate) operations: Operations,
    pub(crate) turns: Turns,
    /// Who takes what the channel brings.
    pub(crate) receivers: Receivers,
    /// What each protocol keeps.
    pub(crate) states: States,
    pub(super) ucp: UcpWorker,
    /// No new operation is taken. Set before UCP goes away.
    pub(crate) closed: AtomicBool,
    /// Who may go the quick way: the one thread of a SINGLE worker until that is closed, and nobody
    /// in a forked child.
    pub(crate) fast_thread: Token,
    /// Features of the context.
    pub(crate) features: u64,
    /// The worker has been closed, or has had a progress thread: the one look that every call
    /// takes. Never cleared.
    pub(crate) special: AtomicBool,
    pub(crate) spin_ns: u64,
    pub(crate) name: Option<CString>,
    pub(crate) identity: Identity,
    pub(crate) wakeup: OnceCell<Wakeup>,
    /// What UCP tells of the worker never changes: once asked for, it is here for every thread.
    pub(crate) address: OnceCell<Address>,
    pub(crate) max_am_header: OnceLock<usize>,

    pub(super) _thread: CacheLine,
    pub(crate) thread: ProgressThread,
}

/// A UCP worker and all that happens on it, as the one sees it who is inside its gate.
///
/// A reference is the proof of that: see `SharedWorker`. It stays on its thread, as the cells are
/// not `Sync`.
#[repr(C)]
pub struct Worker {
    pub(super) any: AnyThread,

    // Written for each operation.
    pub(super) _owned: CacheLine,
    pub(crate) gate: Gate,
    pub(crate) slab: Slab,
    pub(crate) templates: Templates,
    pub(crate) sequence: Cell<u64>,
    /// Work that a progress pass has beyond UCP's: bits of `attention`.
    pub(crate) attention: Cell<u32>,
    /// A pass is handing out callbacks (several threads at once in MULTI).
    pub(crate) delivering: Cell<u32>,
    /// SINGLE: where it counts them for its thread.
    pub(crate) own_callbacks: Option<&'static OwnCallbacks>,
    /// Armed, and not progressed since: somebody sleeps, or is about to.
    pub(crate) armed: Cell<bool>,
    pub(crate) event_loop: EventLoop,
    pub(crate) back_off: BackOff,
    pub(crate) stuck: Stuck,
    pub(crate) resting: Resting,
    pub(crate) coarse_now: Cell<u64>,
    /// Memory that UCP may go on writing to until its worker is gone.
    pub(crate) left_to_ucp: RefCell<Vec<Box<dyn Any>>>,
    /// Requests whose callback is due, oldest first.
    pub(crate) ready: SlotList,
    /// What is in flight of the slots that went through the ring, newest first.
    pub(crate) live: Cell<*const Slot>,
    /// Sends in flight, on all endpoints: a flush of the worker waits for them.
    pub(crate) sends_in_flight: Cell<u32>,
    pub(crate) due: Due,
    /// Operations that have ended for their callers, and that UCP has not given back.
    pub(crate) abandoned: Cell<usize>,
    /// Flushes under way, of the worker and of all endpoints.
    pub(crate) flushes_active: Cell<u32>,
    pub(crate) stats: Stats,
    /// Flushes of the whole worker that are under way.
    pub(crate) flushes: RefCell<Vec<*const Slot>>,
    /// First error that nobody was told of, of the endpoints that are gone: its position, and the
    /// status.
    pub(crate) unreported: Cell<Option<(u64, Status)>>,
    /// How many endpoints have such an error.
    pub(crate) unreported_on: Cell<u32>,
    /// How many endpoints have sends or flushes that wait in their queues.
    pub(crate) queueing: Cell<u32>,
    /// Flushes that wait for nothing any more, to be completed.
    pub(crate) flushed: RefCell<VecDeque<Ticket>>,
    pub(crate) events: RefCell<VecDeque<Event>>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) endpoints: RefCell<Vec<Option<Inward<SharedEndpoint>>>>,
    /// References that were given back while the ring could still name them: of handles, by a
    /// callback, and the worker's own to what has ended.
    pub(crate) graves: RefCell<Vec<Inward<SharedEndpoint>>>,
    /// The one that a peer has named last; null if that has gone.
    pub(crate) named: Cell<*const Endpoint>,
    /// Endpoints that are being opened or closed, each once: passes look at them in turn.
    pub(crate) changing: RefCell<VecDeque<Inward<SharedEndpoint>>>,
    /// UCP found something to do in the pass after which they are looked at.
    pub(crate) ucp_was_busy: Cell<bool>,
    /// Endpoints whose send windows have changed, each once.
    pub(crate) windows: RefCell<VecDeque<Inward<SharedEndpoint>>>,
    pub(crate) open_permit: OpenPermit,
    pub(crate) peers: PeerWatch,
    pub(crate) listeners: RefCell<Vec<Arc<Listener>>>,
    pub(crate) liveness: LivenessClock,
    /// Of UCP's ends for each peer: it counts them so, too, and forgets none.
    pub(crate) places: RefCell<HashMap<Origin, Places>>,
    pub(crate) parked: ParkedEndpoints,
    /// Refusals for peers of other versions that UCP has.
    pub(crate) refusals: Cell<u32>,
    /// Active messages whose handlers are due.
    pub(crate) inbox: Inbox,
    pub(crate) fast_boxes: FastBoxes,
    pub(crate) am_handlers: Handlers<MessageHandler>,
    /// For buffers of what is received. These keep it, too.
    pub(crate) frames: Arc<FrameStore>,
    pub(crate) wake_hint: WakeHint,
    /// Operations that may overtake each other, counted when they have been submitted, and how many
    /// of them a fence has waited for. Any thread.
    pub(crate) unordered: AtomicU64,
    pub(crate) fenced: AtomicU64,
    /// Endpoints made so far.
    pub(crate) endpoints_made: Cell<u64>,
    /// UCP's worker is gone.
    pub(crate) is_over: Cell<bool>,
    pub(crate) keep: Cell<Option<Arc<SharedWorker>>>,

    // Written by any thread.
    pub(super) _foreign: CacheLine,
    /// Requests that callers let go of from outside the gate. After the end the last one to go
    /// drops `keep`.
    pub(crate) foreign: RemoteFreeList<Slot>,
    pub(crate) waiting: WaitRoom,
}

/// Tells a listener that a worker of this library asks for the connection.
pub(crate) const CLIENT_ID: u64 = u64::from_le_bytes(*b"ucxx_rs1");

/// Bits of `Worker::attention`.
pub(crate) mod attention {
    pub(crate) const READY: u32 = 1;
    pub(crate) const EVENTS: u32 = 2;
    pub(crate) const TIMERS: u32 = 4;
    pub(crate) const CHANGING: u32 = 8;
    /// It is time to look whether a peer's process has ended.
    pub(crate) const PEERS: u32 = 16;
    /// It is time to look whether a peer has gone silent.
    pub(crate) const SILENCE: u32 = 32;
    /// Send windows have changed.
    pub(crate) const WINDOWS: u32 = 64;
    /// Active messages have come in.
    pub(crate) const INBOX: u32 = 128;
    /// A protocol has something to do: its bit, from this one on, at its place.
    pub(crate) const FIRST_OF_PROTOCOLS: u32 = 1 << 16;
}

/// A UCP worker, as everybody has it: what any thread may touch, and the way in.
#[repr(transparent)]
pub struct SharedWorker(Worker);

// SAFETY: of its fields the methods here show those that are any thread's, which is checked below.
// The others belong to whoever is inside the gate, which admits one thread at a time and publishes
// to the next one what the last one has written.
unsafe impl Send for SharedWorker {}
// SAFETY: as above.
unsafe impl Sync for SharedWorker {}

const _: () = {
    const fn are_for_all<T: Send + Sync>() {}
    are_for_all::<(AnyThread, Gate, Stats, AtomicU64, RemoteFreeList<Slot>, WaitRoom, WakeHint)>();
};

impl Deref for SharedWorker {
    type Target = AnyThread;
    #[inline(always)]
    fn deref(&self) -> &AnyThread {
        &self.0.any
    }
}

// SAFETY: `Worker` is neither: `core::worker::inward` checks it.
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
        // SAFETY: `SharedWorker` is transparent, and shows less.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

/// Is inside the worker's gate; leaves it when dropped.
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

/// The same on the one thread of a SINGLE worker, in a short call.
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
    /// A free slot, left where it is.
    #[inline(always)]
    pub(crate) fn first_slot(&self) -> Option<&'a Slot> {
        self.0.slab.first()
    }
}

/// The ways in.
impl SharedWorker {
    /// What the one sees who is inside.
    ///
    /// # Safety
    /// The calling thread is inside the gate, and uses it no longer than that. UCP's callbacks are,
    /// as UCP is called from inside alone.
    #[inline(always)]
    pub(crate) unsafe fn inside(&self) -> &Worker {
        &self.0
    }

    pub(super) fn of(worker: Worker) -> Arc<Self> {
        Arc::new(SharedWorker(worker))
    }

    /// Enters, if the caller is the one thread of a SINGLE worker that is open, and not inside; and
    /// if this is not a forked child.
    #[inline(always)]
    pub(crate) fn enter_fast(&self) -> Option<InsideFast<'_>> {
        let enters = self.fast_thread.get() == this_thread() && self.0.gate.enter_fast();
        enters.then(|| InsideFast(&self.0))
    }

    /// The same conditions, for what is done without entering.
    ///
    /// # Safety
    /// It is used for a moment, in which nothing is called that may enter.
    #[inline(always)]
    pub(crate) unsafe fn act_fast(&self) -> Option<&Worker> {
        let may = self.fast_thread.get() == this_thread() && self.0.gate.is_free();
        may.then_some(&self.0)
    }

    /// The same for anyone, on whatever worker, until that is closed.
    ///
    /// # Safety
    /// As for `act_fast`.
    pub(crate) unsafe fn act_at_once(&self) -> Option<&Worker> {
        let may = self.0.gate.is_free_owner() && !self.closed.load(Ordering::Relaxed);
        may.then_some(&self.0)
    }

    /// Enters a MULTI worker, unless somebody is inside.
    pub(crate) fn try_enter(&self) -> Option<Inside<'_>> {
        self.0.gate.try_enter().then(|| Inside(&self.0))
    }

    /// Enters for shutting down, or on the progress thread: nothing is asked.
    pub(crate) fn enter_any(&self) -> Inside<'_> {
        self.0.gate.enter_any();
        Inside(&self.0)
    }

    /// Enters the gate for an operation: refuses after a fork, after the end, and on the wrong
    /// thread.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Inside<'_>> {
        self.enter_for(false)
    }

    /// The same, or for a progress pass of the caller's, which a progress thread excludes.
    #[inline(always)]
    pub(crate) fn enter_for(&self, progressing: bool) -> Result<Inside<'_>> {
        if self.generation.is_past() {
            return Err(context::forked("worker"));
        }
        self.0.gate.enter()?;
        // From here on leaving is seen to.
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
            // What this thread has put there comes before what it does now.
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

    /// Another reference to it.
    pub(crate) fn shared(&self) -> Arc<SharedWorker> {
        // SAFETY: workers are made in `new` only, inside an `Arc`, and somebody holds it who has
        // called us.
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

    /// What was submitted after arming may need a pass, or another deadline: nobody may sleep on
    /// it.
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
    /// Refuses an operation that the context was not made for.
    #[inline]
    pub(crate) fn need(&self, wanted: u64) -> Result<()> {
        if self.context.has(wanted) {
            Ok(())
        } else {
            Err(context::missing_feature(wanted))
        }
    }

    /// Orders what comes after behind what came before, on every endpoint.
    ///
    /// Messages of one endpoint are in order as they are, so there is nothing to do for them. Put,
    /// get and atomic operations can overtake each other: those that went out since the last fence
    /// are waited for. UCX's own fence does the same from 1.16 on, and orders nothing across its
    /// lanes before.
    pub fn fence(&self) -> Result<()> {
        // What was done in the call is loads and stores.
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
    /// Who may call while progress is manual.
    pub fn thread_mode(&self) -> ThreadMode {
        self.0.gate.declared()
    }

    /// Counters, readable from any thread.
    #[inline(always)]
    pub fn stats(&self) -> &Stats {
        &self.0.stats
    }

    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate {
        &self.0.gate
    }

    /// By a pointer, as it may take the worker with it.
    ///
    /// # Safety
    /// The worker's memory is there.
    pub(crate) unsafe fn foreign(this: *const Self) -> *const RemoteFreeList<Slot> {
        // SAFETY: as for this function.
        unsafe { &raw const (*this).0.foreign }
    }

    /// For `ucp_worker_signal`, which UCP allows on any thread in any thread mode.
    pub(crate) fn ucp_to_signal(&self) -> sys::ucp_worker_h {
        self.ucp.0
    }

    pub(crate) fn waiting(&self) -> &WaitRoom {
        &self.0.waiting
    }

    pub(crate) fn wake_hint(&self) -> &WakeHint {
        &self.0.wake_hint
    }

    pub(crate) fn display_name(&self) -> &CStr {
        self.name.as_deref().unwrap_or(c"worker")
    }
}

impl Drop for SharedWorker {
    fn drop(&mut self) {
        // A worker that was never shut down: its handle leaked into an exiting program, or it was
        // made before a fork. UCP is left as it is: shutting it down runs callbacks, and there is
        // nobody left to expect them.
        if !self.closed.load(Ordering::Relaxed) && !self.generation.is_past() {
            crate::engine::base::log::write(
                crate::engine::base::log::WARN,
                c"worker",
                "dropped without having been destroyed",
            );
        }
    }
}
