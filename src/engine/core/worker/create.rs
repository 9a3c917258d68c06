//! Creating a worker.

use crate::engine::base::backoff::BackOff;
use crate::engine::base::cache_line::CacheLine;
use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::base::remote_free_list::RemoteFreeList;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::handler_table::Handlers;
use crate::engine::core::channel::receive::Inbox;
use crate::engine::core::channel::shm_channel::FastBoxes;
use crate::engine::core::endpoint::admission::OpenPermit;
use crate::engine::core::endpoint::liveness::LivenessClock;
use crate::engine::core::endpoint::parked_endpoints::ParkedEndpoints;
use crate::engine::core::endpoint::process_watch::PeerWatch;
use crate::engine::core::monitor::registry::{self, Pulse};
use crate::engine::core::request::pending_callbacks::Due;
use crate::engine::core::request::request_param::Templates;
use crate::engine::core::request::slab::Slab;
use crate::engine::core::request::slot_list::SlotList;
use crate::engine::core::trace;
use crate::engine::core::worker::event_loop::EventLoop;
use crate::engine::core::worker::gate::{this_thread, Gate, ThreadMode};
use crate::engine::core::worker::inquiry::Inquiry;
use crate::engine::core::worker::latency::Latency;
use crate::engine::core::worker::progress_thread::{ProgressMode, ProgressThread, ThreadParams};
use crate::engine::core::worker::protocol::Protocols;
use crate::engine::core::worker::stats::Stats;
use crate::engine::core::worker::stuck_descriptor::Stuck;
use crate::engine::core::worker::wait::WaitRoom;
use crate::engine::core::worker::wake_hint::WakeHint;
use crate::engine::core::worker::wakeup::Resting;
use crate::engine::core::worker::worker::{AnyThread, SharedWorker, UcpWorker, Worker, CLIENT_ID};
use crate::engine::os::fork::Token;
use crate::engine::os::process_identity::{first_number, Identity};
use crate::engine::ucx::context::{feature, Context};
use crate::engine::ucx::runtime;
use crate::engine::wire::header::{Question, HEADER};
use crate::sys;
use once_cell::sync::OnceCell;
use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// How long a waiting call polls before it sleeps, unless the worker's parameters say otherwise.
const DEFAULT_SPIN_NS: u64 = 50_000;

/// The parameters of a worker, checked.
pub struct WorkerParams {
    /// Which threads may call.
    pub thread_mode: ThreadMode,
    /// How long waiting calls poll before they sleep; 0 for the default.
    pub spin_ns: u64,
    /// Shown in dumps, and the name of the progress thread.
    pub name: Option<CString>,
    /// Keeps UCX's descriptions of requests.
    pub describe_requests: bool,
    /// The progress mode from the start.
    pub progress_mode: ProgressMode,
    /// For progress threads, now or later.
    pub thread: ThreadParams,
}

impl SharedWorker {
    /// Creates the worker and its UCP worker.
    pub fn new(
        context: &Arc<Context>,
        params: WorkerParams,
        protocols: Protocols,
    ) -> Result<Arc<Self>> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        context.check_fork()?;
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut ucp_params: sys::ucp_worker_params_t = unsafe { std::mem::zeroed() };
        ucp_params.field_mask = u64::from(
            sys::UCP_WORKER_PARAM_FIELD_THREAD_MODE | sys::UCP_WORKER_PARAM_FIELD_CLIENT_ID,
        );
        ucp_params.client_id = CLIENT_ID;
        // SERIALIZED takes no lock in data calls either, and lets the worker move between threads.
        ucp_params.thread_mode = match params.thread_mode {
            ThreadMode::Single => sys::UCS_THREAD_MODE_SINGLE,
            _ => sys::UCS_THREAD_MODE_SERIALIZED,
        };
        if params.describe_requests {
            // Requests that a peer's death has left in UCX would be reported when it ends.
            ucp_params.field_mask |= u64::from(sys::UCP_WORKER_PARAM_FIELD_FLAGS);
            ucp_params.flags = u64::from(sys::UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK);
        }
        trace::start();
        runtime::check_thread_can_be_made()?;
        let mut ucp = std::ptr::null_mut();
        // SAFETY: a live context, params with their mask, a valid out-pointer.
        let create = || unsafe { sys::ucp_worker_create(context.handle(), &ucp_params, &mut ucp) };
        let (status, logged) = crate::engine::base::log::capture(|| {
            runtime::with_signals_blocked(|| runtime::with_decimal_point(create))
        });
        if status != sys::UCS_OK {
            crate::engine::base::log::hand_on(&logged);
            let text = crate::engine::base::log::with_reason(
                "UCX could not create a worker".to_owned(),
                &logged,
            );
            let text = crate::engine::os::resource_limits::with_shared_memory(text);
            return Err(Error::new(Status(status.into()), text));
        }
        if let Err(error) = context.check_config_applied(&logged) {
            // SAFETY: just created, nothing uses it.
            unsafe { sys::ucp_worker_destroy(ucp) };
            return Err(error);
        }
        let number = first_number() + NUMBER.fetch_add(1, Ordering::Relaxed);
        let identity = Identity::of_this_process(number);
        let progress_mode = params.progress_mode;
        let latency = Latency::if_wanted();
        let has_fast_path = params.thread_mode == ThreadMode::Single
            && !params.describe_requests
            && !trace::is_on()
            && latency.is_none();
        let worker = SharedWorker::of(Worker {
            any: AnyThread {
                _thread: CacheLine,
                context: context.clone(),
                generation: context.generation,
                protocols,
                operations: protocols.operations(),
                turns: protocols.turns(),
                receivers: protocols.receivers(),
                states: protocols.of_worker(),
                ucp: UcpWorker(ucp),
                name: params.name,
                describes_requests: params.describe_requests,
                identity,
                spin_ns: if params.spin_ns == 0 { DEFAULT_SPIN_NS } else { params.spin_ns },
                closed: AtomicBool::new(false),
                fast_thread: Token::new(if has_fast_path { this_thread() } else { 0 }),
                features: context.features,
                special: AtomicBool::new(false),
                wakeup: OnceCell::new(),
                thread: ProgressThread::new(params.thread),
                address: OnceCell::new(),
                max_am_header: OnceLock::new(),
            },
            _owned: CacheLine,
            _foreign: CacheLine,
            left_to_ucp: RefCell::default(),
            gate: Gate::new(params.thread_mode),
            templates: Templates::new(),
            stats: Stats::default(),
            latency,
            waiting: WaitRoom::default(),
            inquiry: Inquiry::default(),
            slab: Slab::new(context.request_size),
            foreign: RemoteFreeList::new(),
            is_over: Cell::new(false),
            keep: Cell::new(None),
            ready: SlotList::default(),
            live: Cell::new(std::ptr::null()),
            sends_in_flight: Cell::new(0),
            due: Due::default(),
            abandoned: Cell::new(0),
            left_unread: Cell::new(false),
            flushes: RefCell::default(),
            unreported: Cell::new(None),
            unreported_on: Cell::new(0),
            queueing: Cell::new(0),
            flushed: RefCell::default(),
            flushes_active: Cell::new(0),
            sequence: Cell::new(0),
            attention: Cell::new(0),
            events: RefCell::default(),
            timers: RefCell::default(),
            timers_checked: Cell::new(0),
            endpoints: RefCell::default(),
            named: Cell::new(std::ptr::null()),
            changing: RefCell::default(),
            ucp_was_busy: Cell::new(false),
            windows: RefCell::default(),
            open_permit: OpenPermit::new(),
            peers: PeerWatch::default(),
            listeners: RefCell::default(),
            liveness: LivenessClock::default(),
            places: RefCell::default(),
            parked: ParkedEndpoints::default(),
            refusals: Cell::new(0),
            inbox: Inbox::default(),
            fast_boxes: FastBoxes::default(),
            am_handlers: Handlers::default(),
            frames: Arc::default(),
            wake_hint: WakeHint::default(),
            unordered: AtomicU64::new(0),
            fenced: AtomicU64::new(0),
            endpoints_made: Cell::new(0),
            armed: Cell::new(false),
            event_loop: EventLoop::default(),
            back_off: BackOff::default(),
            stuck: Stuck::default(),
            resting: Resting::default(),
            delivering: Cell::new(0),
            own_callbacks: (params.thread_mode == ThreadMode::Single)
                .then(crate::engine::core::worker::deferred::own_callbacks),
            coarse_now: Cell::new(clock::now_ns()),
            graves: RefCell::default(),
        });
        trace::worker_is_made(&worker);
        context.late_workers.begin();
        let inside = worker.enter_any();
        let ready = inside.register_handlers().and_then(|()| inside.learn_max_am_header());
        drop(inside);
        log::at!(
            DEBUG,
            Worker,
            &*worker,
            "created, UCX {}, thread mode {:?}",
            runtime::ucx_release(),
            params.thread_mode
        );
        if let Err(error) = ready {
            worker.shut_down();
            return Err(error);
        }
        if progress_mode != ProgressMode::Manual {
            if let Err(error) = worker.start_progress_thread(progress_mode) {
                worker.shut_down();
                return Err(error);
            }
        }
        if registry::is_wanted() {
            worker.inquiry().note_maker();
        }
        let watched: Weak<SharedWorker> = Arc::downgrade(&worker);
        registry::watch(watched, Pulse::default());
        Ok(worker)
    }
}

impl Worker {
    /// Asks UCX for the limit when the worker is created.
    pub(crate) fn learn_max_am_header(&self) -> Result<()> {
        if !self.context.has(feature::AM) {
            return Ok(());
        }
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut attr: sys::ucp_worker_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(sys::UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER);
        // SAFETY: a live worker, and a struct with its mask set.
        let status = unsafe { sys::ucp_worker_query(self.ucp(), &mut attr) };
        if status != sys::UCS_OK {
            return Err(Error::new(
                Status(status.into()),
                "worker: UCX could not report the longest header of active messages",
            ));
        }
        self.max_am_header.get_or_init(|| {
            attr.max_am_header
                .saturating_sub(HEADER + Question::LENGTH)
                .min(usize::from(u16::MAX) - Question::LENGTH)
        });
        Ok(())
    }
}
