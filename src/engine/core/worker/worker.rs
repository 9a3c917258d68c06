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
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::endpoint::listener::Listener;
use crate::engine::core::endpoint::liveness::LivenessClock;
use crate::engine::core::endpoint::parked_endpoints::{ParkedEndpoints, Places};
use crate::engine::core::endpoint::process_watch::PeerWatch;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{self, OpParams};
use crate::engine::core::request::operations::Operations;
use crate::engine::core::request::pending_callbacks::Due;
use crate::engine::core::request::request::Slot;
use crate::engine::core::request::request_param::Templates;
use crate::engine::core::request::slab::Slab;
use crate::engine::core::request::slot_list::SlotList;
use crate::engine::core::request::timers::Timers;
use crate::engine::core::worker::callback_depth::OwnCallbacks;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::event_loop::EventLoop;
use crate::engine::core::worker::gate::{Gate, ThreadMode};
use crate::engine::core::worker::progress_thread::{has_thread, ProgressThread};
use crate::engine::core::worker::protocol::{Protocols, States, Turns};
use crate::engine::core::worker::stuck_descriptor::Stuck;
use crate::engine::core::worker::wait::WaitRoom;
use crate::engine::core::worker::wake_hint::WakeHint;
use crate::engine::core::worker::wakeup::{Resting, Wakeup};
use crate::engine::os::fork::{Generation, Token};
use crate::engine::os::process_identity::Identity;
use crate::engine::ucx::context::{self, feature, Context};
use crate::engine::ucx::runtime;
use crate::engine::wire::address::{Address, Origin};
use crate::engine::wire::header::{Question, HEADER};
use crate::sys;
use once_cell::sync::OnceCell;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{CStr, CString};
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A UCP worker and all that happens on it.
///
/// Whoever is inside the gate owns every `Cell` and `RefCell` here. `closed` is set inside the gate
/// and read anywhere; `foreign` is pushed to by anyone and drained inside; `stats` are written
/// inside and read anywhere. `thread` has rules of its own.
#[repr(C)]
pub struct Worker {
    // Read by every thread, and hardly ever written.
    pub(crate) context: Arc<Context>,
    pub(crate) generation: Generation,
    pub(crate) protocols: Protocols,
    pub(crate) operations: Operations,
    pub(crate) turns: Turns,
    /// Who takes what the channel brings.
    pub(crate) receivers: Receivers,
    /// What each protocol keeps.
    pub(crate) states: States,
    pub(crate) ucp: sys::ucp_worker_h,
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

    pub(crate) _thread: CacheLine,
    pub(crate) thread: ProgressThread,

    // Written by whoever is inside the gate, for each operation.
    pub(crate) _owned: CacheLine,
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
    pub(crate) events: RefCell<VecDeque<Event>>,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) endpoints: RefCell<Vec<Option<Arc<Endpoint>>>>,
    /// The one that a peer has named last; null if that has gone.
    pub(crate) named: Cell<*const Endpoint>,
    /// Endpoints that are being opened or closed, looked at in each pass.
    pub(crate) changing: RefCell<Vec<Arc<Endpoint>>>,
    /// UCP found something to do in the pass after which they are looked at.
    pub(crate) ucp_was_busy: Cell<bool>,
    /// Endpoints whose send windows have changed, each once.
    pub(crate) windows: RefCell<VecDeque<Arc<Endpoint>>>,
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
    pub(crate) keep: Cell<Option<Arc<Worker>>>,

    // Written by any thread.
    pub(crate) _foreign: CacheLine,
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

// SAFETY: see the type: cells belong to whoever is inside the gate, which admits one thread at a
// time.
unsafe impl Send for Worker {}
// SAFETY: as above.
unsafe impl Sync for Worker {}

/// Proof of being inside the worker's gate; leaves it when dropped.
pub(crate) struct Inside<'a> {
    pub(crate) worker: &'a Worker,
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.worker.leave();
    }
}

impl std::ops::Deref for Inside<'_> {
    type Target = Worker;
    #[inline]
    fn deref(&self) -> &Worker {
        self.worker
    }
}

impl Worker {
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
        self.gate.enter()?;
        // From here on leaving is seen to.
        let inside = Inside { worker: self };
        if self.special.load(Ordering::Relaxed) {
            self.entered_slow(progressing)?;
        }
        Ok(inside)
    }

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
    pub(crate) fn shared(&self) -> Arc<Worker> {
        // SAFETY: workers are made in `new` only, inside an `Arc`, and somebody holds it who has
        // called us.
        unsafe {
            Arc::increment_strong_count(std::ptr::from_ref(self));
            Arc::from_raw(self)
        }
    }

    #[inline]
    pub(crate) fn ucp(&self) -> sys::ucp_worker_h {
        self.ucp
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

    /// Refuses an operation that the context was not made for.
    #[inline]
    pub(crate) fn need(&self, wanted: u64) -> Result<()> {
        if self.context.has(wanted) {
            Ok(())
        } else {
            Err(context::missing_feature(wanted))
        }
    }

    /// The worker's address with its trailer.
    pub fn address(&self) -> Result<Address> {
        if let Some(address) = self.address.get() {
            self.check_usable()?;
            return Ok(address.clone());
        }
        self.on_owner(|inside| inside.address_inside().cloned())
    }

    pub(crate) fn address_inside(&self) -> Result<&Address> {
        self.address.get_or_try_init(|| self.make_address())
    }

    fn make_address(&self) -> Result<Address> {
        let (mut ucp, mut length) = (std::ptr::null_mut(), 0);
        // SAFETY: a live worker and valid out-pointers.
        let status = unsafe { sys::ucp_worker_get_address(self.ucp, &mut ucp, &mut length) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "UCX would not give the worker's address",
            ));
        }
        // SAFETY: UCX's buffer of that length, live until released below.
        let bytes = unsafe { std::slice::from_raw_parts(ucp.cast::<u8>(), length) };
        let address = Address::with_trailer(
            bytes,
            Origin { identity: self.identity, release: runtime::ucx_release() },
        );
        // SAFETY: the buffer from above, released once.
        unsafe { sys::ucp_worker_release_address(self.ucp, ucp) };
        Ok(address)
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
        let submitted = self.unordered.load(Ordering::Acquire);
        if self.fenced.load(Ordering::Acquire) < submitted {
            self.check_usable()?;
            let params = OpParams { flags: operation::WAITS, ..OpParams::DEFAULT };
            self.flush(&params, Out::NOWHERE)?;
            self.fenced.fetch_max(submitted, Ordering::Release);
            return Ok(());
        }
        if self.thread.is_remote() {
            return self.check_usable();
        }
        self.enter().map(drop)
    }

    /// An operation was submitted that others may overtake.
    pub(crate) fn note_unordered(&self) {
        self.unordered.fetch_add(1, Ordering::Release);
    }

    /// The longest header of an active message, or 0 without that feature.
    pub fn max_am_header(&self) -> Result<usize> {
        self.check_usable()?;
        Ok(self.longest_am_header())
    }

    /// Asks UCX for it, when the worker is made.
    pub(crate) fn learn_max_am_header(&self) -> Result<()> {
        if !self.context.has(feature::AM) {
            return Ok(());
        }
        // SAFETY: all-zero is valid: the mask says which fields count.
        let mut attr: sys::ucp_worker_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(sys::UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER);
        // SAFETY: a live worker, and a struct with its mask set.
        let status = unsafe { sys::ucp_worker_query(self.ucp, &mut attr) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "UCX would not tell the worker's attributes",
            ));
        }
        self.max_am_header.get_or_init(|| {
            attr.max_am_header
                .saturating_sub(HEADER + Question::LENGTH)
                .min(usize::from(u16::MAX) - Question::LENGTH)
        });
        Ok(())
    }

    /// Who may call while progress is manual.
    pub fn thread_mode(&self) -> ThreadMode {
        self.gate.declared()
    }

    /// Counters, readable from any thread.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    pub(crate) fn display_name(&self) -> &CStr {
        self.name.as_deref().unwrap_or(c"worker")
    }
}

impl Drop for Worker {
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
