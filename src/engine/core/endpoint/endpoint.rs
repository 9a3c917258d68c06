//! Endpoints: a connection from a worker to one peer.
//!
//! # Who may touch what
//!
//! - `SharedEndpoint`: any thread holds it, in an `Arc`. It gives access to `AnyThread`, to the
//!   counters that submitting threads use, and to the ways into the gate.
//! - `Endpoint`: the view of the thread that is inside the worker's gate. It stays on that thread.
//!
//! # Life
//!
//! `Endpoint::build` makes it, and `register` puts it into the worker's list, so that UCP's
//! callbacks and requests in flight find it. `unregister` takes it out when nothing in flight
//! refers to it. The caller's handles are counted: the endpoint ends with the last one.

use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::clock;
use crate::engine::base::counters::Counter;
use crate::engine::base::log;
use crate::engine::base::split_counter::Removed;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::channel::reorder::Order;
use crate::engine::core::channel::shm_channel::FastBox;
use crate::engine::core::endpoint::admission::{Released, Reserved};
use crate::engine::core::endpoint::connect::Connection;
use crate::engine::core::endpoint::credits::Credits;
use crate::engine::core::endpoint::failure::Reports;
use crate::engine::core::endpoint::handshake::Peering;
use crate::engine::core::endpoint::life::Life;
use crate::engine::core::endpoint::liveness::Liveness;
use crate::engine::core::endpoint::params::check_releases;
pub(crate) use crate::engine::core::endpoint::params::OnClose;
pub use crate::engine::core::endpoint::params::{Callback, EndpointParams};
use crate::engine::core::endpoint::send_window::SendWindow;
pub(crate) use crate::engine::core::endpoint::status::Phase;
use crate::engine::core::endpoint::status::SharedPhase;
use crate::engine::core::endpoint::writable::Writable;
use crate::engine::core::request::pending_callbacks::Due;
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::inward::{Guarded, Inward};
use crate::engine::core::worker::protocol::{OfEndpoint, States};
use crate::engine::core::worker::worker::{Inside, SharedWorker, Worker};
use crate::engine::wire::address::{Address, Origin};
use crate::sys;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::ops::Deref;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// What any thread may access; rarely written.
#[repr(C)]
pub struct AnyThread {
    /// OK while the endpoint takes operations; otherwise the status that they get.
    pub(crate) status: AtomicI32,
    pub(crate) phase: SharedPhase,
    pub(crate) peer_failure: bool,
    /// The peer is this worker itself.
    pub(crate) to_self: bool,
    /// The worker's endpoints are counted from 1, in the order in which they are made.
    pub(crate) serial: u64,
    /// The identity of the peer, once it is known.
    origin: OnceLock<Origin>,
}

/// A connection to one peer, for the thread inside the gate. See the head of this file.
#[repr(C)]
pub struct Endpoint {
    pub(crate) worker: Inward<SharedWorker>,
    /// Null after UCP has released it.
    pub(crate) ucp: Cell<sys::ucp_ep_h>,
    /// Before `any`, so that what decides about a short send is in the first cache line.
    pub(crate) peering: Peering,
    any: AnyThread,
    pub(crate) liveness: Liveness,
    pub(crate) credits: Credits,
    pub(crate) order: Order,
    pub(crate) fast_box: FastBox,
    /// The state that each protocol keeps for the endpoint.
    pub(crate) states: States,
    /// The end of the peer's process is watched for.
    pub(super) watched: Cell<bool>,
    /// Set if the endpoint was made by host and port.
    connection: Option<Box<Connection>>,
    /// Where UCP's end reports failures. Moves with that end from one endpoint to another.
    pub(crate) reports: RefCell<Rc<Reports>>,
    key: Cell<usize>,
    /// The caller's handles. The endpoint ends with the last one.
    handles: AtomicU32,

    // Written by the thread inside the gate.
    _owned: CacheLine,
    /// Read by threads that submit sends, so it shares a cache line with fields that are written as
    /// often.
    pub(crate) released: Released,
    pub(crate) operations_sent: Counter,
    pub(crate) bytes_sent: Counter,
    /// Value of `operations_sent` when a flush found everything done; `u64::MAX` before the first
    /// one.
    pub(crate) flushed_at: Cell<u64>,
    /// Puts and gets among the sends.
    pub(crate) one_sided: Cell<u32>,
    /// A get or an atomic operation was submitted. These are not counted as sent.
    pub(crate) has_read: Cell<bool>,
    /// Sends in flight, including those that wait.
    pub(crate) sends: Cell<u32>,
    pub(crate) window: SendWindow,
    pub(crate) writable: Writable,
    pub(crate) due: Due,
    /// Receives that end with this endpoint.
    pub(crate) watchers: Cell<u32>,
    /// Flushes, closes, and UCP's parts of them.
    pub(crate) controls: Cell<u32>,
    /// Of these, the library's own messages that nothing waits for. Their number is bounded.
    pub(crate) sayings: Cell<u32>,
    /// Of these, UCP's flushes: UCX 1.21 and 1.22 crash if the endpoint is closed by force during
    /// one (`ucp_ep_flush_progress`).
    pub(crate) ucp_flushes: Cell<u32>,
    /// Flushes in flight.
    pub(crate) flushes: RefCell<Vec<*const Slot>>,
    /// First error of an operation without request and callback: its position and status.
    pub(crate) unreported: Cell<Option<(u64, Status)>>,

    pub(crate) on_open: Cell<Option<(Callback, *mut c_void)>>,
    pub(crate) on_close: Cell<Option<OnClose>>,
    /// When to give up waiting for the peer's first answer; 0 for never, or after it has arrived.
    pub(crate) connect_deadline: Cell<u64>,
    pub(crate) life: Life,
    /// The endpoint is in `Worker::changing`.
    pub(crate) listed: Cell<bool>,
    /// The log says that it is connected.
    pub(crate) log_has_it: Cell<bool>,
    /// Written by every thread that submits a send.
    pub(crate) reserved: Reserved,
}

const _: () = assert!(std::mem::offset_of!(Endpoint, any) + size_of::<AtomicI32>() <= 64);

/// A connection to one peer, as any thread holds it. See the head of this file.
#[repr(transparent)]
pub struct SharedEndpoint(Endpoint);

// SAFETY: its methods give other threads only the fields that any thread may use, which are checked
// below. All other fields are reached through `Endpoint`, inside the gate.
unsafe impl Send for SharedEndpoint {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for SharedEndpoint {}

const _: () = {
    const fn are_for_all<T: Send + Sync>() {}
    are_for_all::<(
        AnyThread,
        SharedWorker,
        Counter,
        Reserved,
        Released,
        Removed,
        Writable,
        Connection,
        States,
    )>();
};

// SAFETY: `Endpoint` is neither `Send` nor `Sync`: `core::worker::inward` checks it.
unsafe impl Guarded for SharedEndpoint {
    type Inside = Endpoint;
    #[inline(always)]
    unsafe fn inside(&self) -> &Endpoint {
        &self.0
    }
}

impl Deref for SharedEndpoint {
    type Target = AnyThread;
    #[inline(always)]
    fn deref(&self) -> &AnyThread {
        &self.0.any
    }
}

impl Deref for Endpoint {
    type Target = SharedEndpoint;
    #[inline(always)]
    fn deref(&self) -> &SharedEndpoint {
        // SAFETY: `SharedEndpoint` is a transparent wrapper of `Endpoint`, and gives access to
        // less.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

/// An endpoint and the entered gate of its worker; leaves the gate when dropped.
pub(crate) struct InsideEndpoint<'a> {
    _inside: Inside<'a>,
    endpoint: &'a Endpoint,
}

impl Deref for InsideEndpoint<'_> {
    type Target = Endpoint;
    #[inline(always)]
    fn deref(&self) -> &Endpoint {
        self.endpoint
    }
}

/// The ways into the gate.
impl SharedEndpoint {
    /// Enters the worker's gate.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<InsideEndpoint<'_>> {
        Ok(InsideEndpoint { _inside: self.worker().enter()?, endpoint: &self.0 })
    }

    /// For a thread that is already inside the worker's gate.
    pub(crate) fn of<'a>(&'a self, worker: &'a Worker) -> &'a Endpoint {
        assert!(std::ptr::eq(Arc::as_ptr(self.worker()), &raw const **worker));
        &self.0
    }

    /// As `SharedWorker::on_owner`.
    pub(crate) fn on_owner<R: Send>(&self, ask: impl FnOnce(&Endpoint) -> Result<R>) -> Result<R> {
        self.worker().on_owner(|inside| ask(self.of(inside)))
    }

    /// Set if the endpoint was made by host and port.
    pub(crate) fn connection(&self) -> Option<&Connection> {
        self.0.connection.as_deref()
    }

    pub(crate) fn states(&self) -> &States {
        &self.0.states
    }

    #[inline(always)]
    pub(crate) fn reserved(&self) -> &Reserved {
        &self.0.reserved
    }

    #[inline(always)]
    pub(crate) fn released(&self) -> &Released {
        &self.0.released
    }

    /// Number of running callbacks of its life (`on_open`, `on_close`).
    pub(crate) fn callbacks_running(&self) -> &AtomicU32 {
        &self.0.life.running
    }

    pub(crate) fn writable(&self) -> &Writable {
        &self.0.writable
    }

    /// The worker's half of the credit counter.
    #[inline(always)]
    pub(crate) fn credit_gone(&self) -> &Removed {
        &self.0.credits.gone
    }

    /// See `Credits::is_short_for`.
    #[inline(always)]
    pub(crate) fn is_short_of_credit(&self, charge: u16) -> bool {
        self.0.credits.is_short_for(charge)
    }

    /// Operations and bytes that were sent.
    pub(crate) fn sent(&self) -> (u64, u64) {
        (self.0.operations_sent.get(), self.0.bytes_sent.get())
    }

    /// Sends that wait.
    pub(crate) fn queued_now(&self) -> u64 {
        self.0.window.queued_ops.get()
    }

    pub(crate) fn shared(&self) -> Arc<SharedEndpoint> {
        // SAFETY: endpoints are made only in `build`, inside an `Arc`, and the caller holds a
        // reference.
        unsafe {
            Arc::increment_strong_count(self);
            Arc::from_raw(self)
        }
    }

    /// Why the peer refused the connection, if it did: it uses another protocol version.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.0.peering.refusal()
    }

    /// The worker of the endpoint.
    #[inline(always)]
    pub fn worker(&self) -> &Arc<SharedWorker> {
        self.0.worker.outward()
    }
}

impl SharedEndpoint {
    /// Connects to the worker with this address. The connection is made in the background, and
    /// operations may be submitted at once.
    pub fn new(
        worker: &Arc<SharedWorker>,
        address: &Address,
        params: &EndpointParams,
    ) -> Result<Arc<Self>> {
        params.check_notifier(worker)?;
        worker.on_owner(|inside| {
            Endpoint::new_inside(inside, address, params).map(Inward::into_outward)
        })
    }
}

impl Endpoint {
    /// As `SharedEndpoint::new`.
    pub(crate) fn new_inside(
        worker: &Worker,
        address: &Address,
        params: &EndpointParams,
    ) -> Result<Inward<SharedEndpoint>> {
        if let Some(endpoint) =
            address.origin().and_then(|origin| Self::claim(worker, &origin, params))
        {
            return Ok(endpoint);
        }
        let endpoint = Self::create_for(worker, address, params, None)?;
        endpoint.await_answer_if_asked(params);
        Ok(endpoint)
    }

    /// Makes an endpoint for `address`. `back`: the place that its UCP end must have, because a
    /// peer's Hello arrived for that place; none for the user's own endpoints.
    pub(crate) fn create_for(
        worker: &Worker,
        address: &Address,
        params: &EndpointParams,
        back: Option<u32>,
    ) -> Result<Inward<SharedEndpoint>> {
        let origin = address.origin();
        let to_self = origin.is_some_and(|origin| origin.identity.same_worker(&worker.identity));
        if let Some(origin) = &origin {
            check_releases(worker, origin, params.peer_failure && !to_self)?;
        }
        let endpoint = Self::build(worker, params, origin, to_self, None);
        endpoint.peering.unclaimed.set(back.is_some());
        endpoint.watch_process()?;
        let kept = match back {
            Some(place) => origin.and_then(|origin| worker.parked.take_this(&origin, place)),
            None => origin.and_then(|origin| worker.parked.take(&origin, endpoint.peer_failure)),
        };
        match kept {
            Some(end) => endpoint.take_over(end),
            None => endpoint.create_from_address(address, back)?,
        }
        endpoint.register();
        if to_self {
            endpoint.learn_number(endpoint.peering.number.get());
        }
        if back.is_none() && origin.is_some() && !to_self {
            endpoint.say_hello_in_time(params);
        }
        Ok(endpoint)
    }

    /// Makes an endpoint without a UCP end.
    pub(crate) fn build(
        worker: &Worker,
        params: &EndpointParams,
        origin: Option<Origin>,
        to_self: bool,
        connection: Option<Box<Connection>>,
    ) -> Inward<SharedEndpoint> {
        let endpoint = Arc::new(SharedEndpoint(Endpoint {
            _owned: CacheLine,
            // SAFETY: stored in an endpoint, whose fields are reached only inside the gate.
            worker: unsafe { Inward::new(worker.shared()) },
            ucp: Cell::new(std::ptr::null_mut()),
            any: AnyThread {
                status: AtomicI32::new(Status::OK.0),
                phase: SharedPhase::default(),
                // UCP has no failure detection within one worker, and would use TCP instead of
                // shared memory to provide it.
                peer_failure: params.peer_failure && !to_self,
                to_self,
                serial: worker.endpoints_made.get() + 1,
                origin: origin.map_or_else(OnceLock::new, OnceLock::from),
            },
            peering: Peering::default(),
            liveness: Liveness::default(),
            credits: Credits::default(),
            order: Order::default(),
            fast_box: FastBox::default(),
            states: worker.protocols.of_endpoint(),
            watched: Cell::new(false),
            connection,
            reports: RefCell::default(),
            key: Cell::new(usize::MAX),
            handles: AtomicU32::new(1),
            sends: Cell::new(0),
            window: SendWindow::new(params.window),
            writable: Writable::default(),
            due: Due::default(),
            watchers: Cell::new(0),
            controls: Cell::new(0),
            sayings: Cell::new(0),
            ucp_flushes: Cell::new(0),
            flushes: RefCell::default(),
            unreported: Cell::new(None),
            on_open: Cell::new(params.on_open.map(|callback| (callback, params.on_open_arg))),
            on_close: Cell::new(params.told_of_end()),
            connect_deadline: Cell::new(0),
            life: Life::default(),
            listed: Cell::new(false),
            log_has_it: Cell::new(false),
            operations_sent: Counter::default(),
            one_sided: Cell::new(0),
            has_read: Cell::new(false),
            flushed_at: Cell::new(u64::MAX),
            bytes_sent: Counter::default(),
            reserved: Reserved::new(params.window),
            released: Released::default(),
        }));
        // SAFETY: the caller has a `Worker`, so this thread is inside the gate.
        let endpoint = unsafe { Inward::new(endpoint) };
        endpoint.watch_for_silence(params.liveness_ns);
        endpoint
    }

    /// Makes UCP's endpoint. On failure, the error has UCX's status and log text.
    pub(crate) fn create_in_ucp(
        &self,
        params: &sys::ucp_ep_params_t,
    ) -> std::result::Result<(), (Status, Vec<(i32, String)>)> {
        let mut ucp = std::ptr::null_mut();
        let (status, logged) = crate::engine::base::log::capture(|| {
            // SAFETY: a live worker inside its gate. Addresses were checked or come from a trusted
            // source, and are read during the call. The callback's argument outlives UCP's
            // endpoint, because the worker keeps it registered until then.
            unsafe { sys::ucp_ep_create(self.worker.ucp(), params, &mut ucp) }
        });
        crate::engine::base::log::hand_on(&logged);
        if status != sys::UCS_OK {
            // A missing peer looks different on each transport.
            let status = match Status(status.into()) {
                Status::SHMEM_SEGMENT | Status::NO_DEVICE | Status::IO_ERROR => Status::UNREACHABLE,
                other => other,
            };
            return Err((status, logged));
        }
        self.ucp.set(ucp);
        // Receives may have been posted during an earlier attempt to connect.
        self.tell_protocols(OfEndpoint::Made);
        Ok(())
    }

    pub(crate) fn await_answer_if_asked(&self, params: &EndpointParams) {
        if params.on_open.is_some() || params.connect_timeout_ns != 0 {
            if params.connect_timeout_ns != 0 && params.connect_timeout_ns != u64::MAX {
                self.connect_deadline.set(clock::deadline_after(params.connect_timeout_ns));
            }
            self.await_answer();
        }
    }

    pub(crate) fn ucp_params(&self) -> sys::ucp_ep_params_t {
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut params: sys::ucp_ep_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(sys::UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE);
        if self.peer_failure {
            params.err_mode = sys::UCP_ERR_HANDLING_MODE_PEER;
            params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_ERR_HANDLER);
            params.err_handler.cb = Some(crate::engine::core::endpoint::failure::on_ucp_error);
            params.err_handler.arg = self.reports_pointer();
        } else {
            params.err_mode = sys::UCP_ERR_HANDLING_MODE_NONE;
        }
        params
    }

    /// Adds the endpoint to the worker's list, so that UCP's callbacks and requests in flight find
    /// it.
    pub(crate) fn register(&self) {
        let mut endpoints = self.worker.endpoints.borrow_mut();
        let key = endpoints.iter().position(Option::is_none).unwrap_or(endpoints.len());
        if key == endpoints.len() {
            endpoints.push(None);
        }
        endpoints[key] = Some(self.inward());
        drop(endpoints);
        self.key.set(key);
        let made = self.worker.endpoints_made.get();
        self.worker.endpoints_made.set(made + 1);
        self.peering.number(key, made);
        if !self.peering.unclaimed.get() {
            self.worker.stats.endpoints.add(1);
        }
        log::at!(DEBUG, Endpoint, self, "created");
    }

    /// The opposite of `register`, when nothing in flight refers to the endpoint any more.
    pub(crate) fn unregister(&self) {
        // A flush of the worker may still report what no flush of the endpoint has reported.
        if let Some(unreported) = self.take_unreported(|_| true) {
            if self.worker.unreported.get().is_none() {
                self.worker.unreported.set(Some(unreported));
            }
        }
        self.forget_queue();
        self.worker.drop_permit_of(self);
        self.unwatch_process();
        self.shut_fast_box();
        self.drop_early();
        if self.may_be_unread() {
            self.worker.left_unread.set(true);
        }
        self.tell_protocols(OfEndpoint::Forgotten);
        self.worker.fast_boxes.drop_unused();
        // Only once: the place may belong to another endpoint later.
        let key = self.key.replace(usize::MAX);
        self.worker.named.set(std::ptr::null());
        let entry = self.worker.endpoints.borrow_mut().get_mut(key).and_then(Option::take);
        if entry.is_some() && !self.peering.unclaimed.get() {
            self.worker.stats.endpoints.subtract(1);
        }
        if self.worker.thread.is_running() {
            // Dropped after the pass, as a destroyed handle is.
            self.worker.graves.borrow_mut().extend(entry);
        }
    }

    /// Its index in the worker's list.
    pub(crate) fn place(&self) -> usize {
        self.key.get()
    }

    /// The reference that the worker keeps.
    pub(crate) fn registered(&self) -> Option<Inward<SharedEndpoint>> {
        self.worker.endpoints.borrow().get(self.key.get()).cloned().flatten()
    }

    pub(crate) fn inward(&self) -> Inward<SharedEndpoint> {
        // SAFETY: the caller has an `Endpoint`, so this thread is inside the gate.
        unsafe { Inward::new(self.shared()) }
    }
}

impl SharedEndpoint {
    /// Another handle for the caller, which it must destroy as well. Any thread.
    pub fn retain(self: Arc<Self>) -> Arc<Self> {
        self.0.handles.fetch_add(1, Ordering::Relaxed);
        self
    }

    /// Gives a handle back. True if it was the last one.
    pub(crate) fn release(&self) -> bool {
        self.0.handles.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Endpoint {
    pub(crate) fn note_unreported(&self, sequence: u64, status: Status) {
        if self.unreported.get().is_none() {
            self.unreported.set(Some((sequence, status)));
            let count = &self.worker.unreported_on;
            count.set(count.get() + 1);
        }
    }
}

impl SharedEndpoint {
    pub(crate) fn origin(&self) -> Option<&Origin> {
        self.origin.get()
    }
}

impl Endpoint {
    /// Sets the identity of a peer of which only the host and port were known.
    pub(crate) fn learn_origin(&self, origin: Origin) {
        if self.origin.set(origin).is_ok() && self.watch_process().is_err() {
            self.process_ended(clock::now_ns());
        }
    }
}

impl SharedEndpoint {
    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        if self.worker().generation.is_past() {
            return Err(crate::engine::ucx::context::forked("endpoint"));
        }
        Ok(())
    }
}
