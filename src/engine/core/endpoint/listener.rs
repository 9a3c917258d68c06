//! Listeners, and the requests for a connection that arrive on them. Each request is answered once,
//! at any time and from any thread.
//!
//! UCP requires that every request is answered before its listener is destroyed, so the remaining
//! ones are rejected then.
//!
//! # Destruction
//!
//! UCX calls back through a destroyed listener if a client was connected and its request was still
//! in flight. So a listener that the user has destroyed lives on for a while: it accepts no more
//! connections (`bar`), rejects requests that still arrive, cuts off clients that have sent nothing
//! (`cut_silent`), and only then destroys UCP's listener. If no client is connected, one more check
//! after `LOOK_NS` is enough.
//!
//! # Threads
//!
//! `on_conn_request` runs inside UCP's progress; the user's callback runs after the pass. Cells are
//! used inside the gate. `gone` and `running` are atomics for threads that wait in `destroy`.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::connect::usable;
use crate::engine::core::endpoint::listener_sockets::{self, Sockets, Unaccepted};
use crate::engine::core::request::notifier::Notifier;
use crate::engine::core::request::notifier_events::Target;
use crate::engine::core::worker::deferred::{self, Event};
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::{attention, Inside, SharedWorker, Worker, CLIENT_ID};
use crate::engine::os::socket_address;
use crate::sys;
use socket2::SockAddr;
use std::cell::{Cell, RefCell};
use std::collections::{HashSet, VecDeque};
use std::ffi::c_void;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

/// `ucxx_listener_callback_t`: argument, request. The request is a reference, which the callback
/// takes over.
pub type Callback = unsafe extern "C" fn(*mut c_void, *const ConnRequest);

/// Where requests are delivered.
#[derive(Clone)]
pub enum OnConnect {
    /// A callback, with its argument.
    Callback(Callback, *mut c_void),
    /// A notifier.
    Notifier(Target),
}

impl OnConnect {
    /// Delivers requests through a notifier, with `arg` to identify them.
    pub fn notifier(
        notifier: &Notifier,
        worker: &SharedWorker,
        user_data: *mut c_void,
    ) -> Result<Self> {
        notifier.check(&worker.context)?;
        Ok(OnConnect::Notifier(Target::new(notifier, user_data)))
    }
}

/// Most requests that may wait for an answer if a notifier delivers them: there may be no thread
/// that polls.
const BACKLOG: usize = 512;

/// A running callback takes as long as the user lets it, so `destroy` waits without a limit.
const CALLBACK_PATIENCE_NS: u64 = u64::MAX;

/// How long a listener lives on after its user has destroyed it, and rejects requests of clients
/// that were already connected. See *Destruction* in the head of this file.
const LINGER_NS: u64 = 100_000_000;

/// After that, clients that have sent nothing are cut off, and the sockets are checked at this
/// interval. UCP's listener is destroyed after this many checks in a row without a client: a
/// connection that UCX is just accepting may be invisible for a moment.
const LOOK_NS: u64 = 10_000_000;
const QUIET_LOOKS: u32 = 2;
/// Most checks, if UCX never releases a connection: where everything that arrived was read, and
/// where it was not.
const LOOKS: u32 = 50;
const LOOKS_AT_UNREAD: u32 = 500;

/// Number of recently rejected clients that are remembered: the answer may still be in flight.
const REFUSED: usize = 1024;

/// An address and port on which a worker accepts connections.
///
/// Its cells are used only inside the worker's gate.
pub struct Listener {
    pub(crate) worker: Arc<SharedWorker>,
    /// Null once it has ended.
    ucp: Cell<sys::ucp_listener_h>,
    /// The bound address, set when it listens.
    pub(super) address: OnceLock<SocketAddr>,
    on_connect: OnConnect,
    pub(super) unanswered: RefCell<Vec<Arc<ConnRequest>>>,
    refused: RefCell<VecDeque<SocketAddr>>,
    /// Set with `address`.
    sockets: OnceLock<Sockets>,
    /// No more connections are accepted.
    barred: Cell<bool>,
    /// Number of checks for remaining clients, and how many of the latest found none.
    looks: Cell<u32>,
    quiet_looks: Cell<u32>,
    /// The user has destroyed it; UCP's listener is destroyed after this moment. 0 before.
    lingers_until: Cell<u64>,
    /// UCP's listener was destroyed. Read by threads that wait in destroy.
    gone: AtomicBool,
    /// Running calls of `on_connect`. Read by threads that wait in destroy.
    running: AtomicU32,
}

// SAFETY: cells are used only inside the gate; the user hands over callback and argument for use on
// the thread that makes progress.
unsafe impl Send for Listener {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for Listener {}

/// A client's request for a connection.
pub struct ConnRequest {
    pub(crate) listener: Arc<Listener>,
    /// Null once UCP has the answer. Used only inside the worker's gate.
    ucp: Cell<sys::ucp_conn_request_h>,
    /// One of the values in `answer`.
    answer: AtomicU8,
    peer: Option<SocketAddr>,
    /// From a worker of this library.
    ours: bool,
}

// SAFETY: `ucp` is used only inside the gate; the other fields are atomic or never change.
unsafe impl Send for ConnRequest {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for ConnRequest {}

mod answer {
    pub(crate) const NONE: u8 = 0;
    /// By the thread that set this value.
    pub(crate) const GIVEN: u8 = 1;
    /// Rejected because its listener ended.
    pub(crate) const TOO_LATE: u8 = 2;
}

impl Listener {
    /// Listens on the first usable address of the host. Resolving a name may block.
    pub fn new(
        worker: &Arc<SharedWorker>,
        host: &str,
        port: u16,
        on_connect: &OnConnect,
    ) -> Result<Arc<Self>> {
        worker.check_usable()?;
        let candidates = usable(worker, socket_address::resolve(host, port)?, "host")?;
        worker.on_owner(|inside| {
            let mut last = None;
            for candidate in &candidates {
                match Self::create(worker, inside, candidate, on_connect) {
                    Ok(listener) => return Ok(listener),
                    Err(error) => last = last.or(Some(error)),
                }
            }
            Err(last.unwrap_or_else(|| Error::new(Status::UNREACHABLE, "host: has no address")))
        })
    }

    fn create(
        worker: &Arc<SharedWorker>,
        inside: &Inside<'_>,
        address: &SocketAddr,
        on_connect: &OnConnect,
    ) -> Result<Arc<Self>> {
        let listener = Arc::new(Listener {
            worker: worker.clone(),
            ucp: Cell::new(std::ptr::null_mut()),
            address: OnceLock::new(),
            on_connect: on_connect.clone(),
            unanswered: RefCell::default(),
            refused: RefCell::default(),
            sockets: OnceLock::new(),
            barred: Cell::new(false),
            looks: Cell::new(0),
            quiet_looks: Cell::new(0),
            lingers_until: Cell::new(0),
            gone: AtomicBool::new(false),
            running: AtomicU32::new(0),
        });
        let raw = SockAddr::from(*address);
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut params: sys::ucp_listener_params_t = unsafe { std::mem::zeroed() };
        params.field_mask = u64::from(
            sys::UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | sys::UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        );
        params.sockaddr = socket_address::as_ucs(&raw);
        params.conn_handler.cb = Some(on_conn_request);
        params.conn_handler.arg = Arc::as_ptr(&listener).cast_mut().cast();
        let mut ucp = std::ptr::null_mut();
        let older = listener_sockets::all();
        let (status, logged) = crate::engine::base::log::capture(|| {
            // SAFETY: a live worker inside its gate. The address is read during the call. The
            // worker keeps the handler's argument until UCP's listener is destroyed.
            unsafe { sys::ucp_listener_create(inside.ucp(), &params, &mut ucp) }
        });
        crate::engine::base::log::hand_on(&logged);
        if status != sys::UCS_OK {
            let status = Status(status.into());
            let mut text = crate::engine::base::log::with_reason(
                format!("host: no listener on {address}"),
                &logged,
            );
            if status == Status::BUSY {
                text += ": the port is taken by another listener, or for about a minute by old \
                        connections of one, if UCX_TCP_CM_REUSEADDR=n was set for it or is set \
                        now; choose another port, or 0 for any free one";
            }
            return Err(Error::new(status, text));
        }
        listener.ucp.set(ucp);
        inside.listeners.borrow_mut().push(listener.clone());
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut attr: sys::ucp_listener_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(sys::UCP_LISTENER_ATTR_FIELD_SOCKADDR);
        // SAFETY: a live listener, and a struct with its mask set.
        let status = unsafe { sys::ucp_listener_query(ucp, &mut attr) };
        let Some(bound) =
            socket_address::from_storage(&attr.sockaddr).filter(|_| status == sys::UCS_OK)
        else {
            listener.end_in_ucp();
            inside.listeners.borrow_mut().retain(|known| !Arc::ptr_eq(known, &listener));
            return Err(Error::new(
                Status::IO_ERROR,
                "host: UCX could not report the address of its listener",
            ));
        };
        listener.address.get_or_init(|| bound);
        listener.sockets.get_or_init(|| Sockets::new(bound, older));
        log::at!(DEBUG, Listener, &*listener, "created");
        Ok(listener)
    }

    /// The port that it listens on. Any thread.
    pub fn port(&self) -> u16 {
        self.address.get().map_or(0, SocketAddr::port)
    }

    /// The address that it is bound to, as text. Any thread.
    pub fn address(&self) -> Result<String> {
        self.worker.check_fork()?;
        Ok(self.address.get().map_or_else(String::new, SocketAddr::to_string))
    }

    /// Rejects unanswered requests, and those that still arrive.
    fn end(&self, worker: &Worker) {
        if self.has_ended() {
            return;
        }
        log::at!(DEBUG, Listener, self, "destroyed");
        let idle = self.unanswered.borrow().is_empty() && self.refused.borrow().is_empty();
        self.bar();
        // No client is connected and none can connect: this is the first quiet check, and one more
        // is enough.
        let is_alone = idle && self.barred.get() && self.has_nobody(worker);
        self.quiet_looks.set(u32::from(is_alone));
        let linger = if is_alone { LOOK_NS } else { LINGER_NS };
        self.lingers_until.set(clock::deadline_after(linger));
        for request in self.unanswered.take() {
            let _ = request.claim(answer::TOO_LATE);
            request.reject_in_ucp();
        }
        worker.attend(attention::CHANGING);
    }

    fn has_ended(&self) -> bool {
        self.lingers_until.get() != 0
    }

    /// Accepts no connections from now on. This comes before any rejection: UCX confuses a rejected
    /// client with one that is accepted right after it on the same descriptor, and calls through an
    /// object that does not exist yet.
    fn bar(&self) {
        self.barred.set(self.sockets.get().is_some_and(Sockets::bar));
    }

    /// Peers that have asked for a connection and got an answer.
    fn answered_peers(&self, worker: &Worker) -> HashSet<SocketAddr> {
        self.refused.borrow().iter().copied().chain(worker.accepted_peers()).collect()
    }

    /// Cuts off clients that have connected and not asked for anything. Returns what there was.
    fn cut_silent(&self, worker: &Worker) -> Unaccepted {
        let asked = self.answered_peers(worker);
        self.sockets.get().map_or(Unaccepted::Nothing, |sockets| sockets.cut(&asked))
    }

    /// Every client that has connected was answered.
    fn has_nobody(&self, worker: &Worker) -> bool {
        let asked = self.answered_peers(worker);
        self.sockets.get().is_some_and(|sockets| sockets.has_nobody(&asked))
    }

    /// The grace period has passed, and no client is left that may still send a request.
    fn may_go(&self, worker: &Worker, now: u64) -> bool {
        if !self.has_ended() || now < self.lingers_until.get() {
            return false;
        }
        let left = self.cut_silent(worker);
        self.quiet_looks.set(if left == Unaccepted::Nothing {
            self.quiet_looks.get() + 1
        } else {
            0
        });
        self.looks.set(self.looks.get() + 1);
        // If connections are still accepted, new ones may arrive without end.
        let at_most =
            if left == Unaccepted::Unread && self.barred.get() { LOOKS_AT_UNREAD } else { LOOKS };
        if self.quiet_looks.get() == QUIET_LOOKS || self.looks.get() > at_most {
            return true;
        }
        self.lingers_until.set(clock::deadline_after(LOOK_NS));
        false
    }

    /// Destroys UCP's listener.
    fn end_in_ucp(&self) {
        let ucp = self.ucp.replace(std::ptr::null_mut());
        if ucp.is_null() {
            return;
        }
        // SAFETY: a live listener inside its worker's gate, all of whose requests have been
        // answered.
        unsafe { sys::ucp_listener_destroy(ucp) };
    }

    /// The same. If connections were accepted until the end, also cuts off clients that arrived
    /// just before.
    fn finish(&self, worker: &Worker) {
        self.end_in_ucp();
        if !self.barred.get() {
            self.cut_silent(worker);
        }
        // Last: from now on another listener may use the address.
        self.gone.store(true, Ordering::Release);
    }

    /// Ends it for the user. `waits`: until its callback has returned. From a callback it does not
    /// wait.
    pub fn destroy(self: Arc<Self>, waits: bool) {
        let worker = self.worker.clone();
        if worker.generation.is_past() {
            return;
        }
        if !waits || deferred::in_callback() {
            let _ = worker.post(move |inside| self.end(inside));
            return;
        }
        let ended = worker.on_owner(|inside| {
            self.end(inside);
            Ok(())
        });
        if ended.is_ok() {
            let quiet =
                || self.running.load(Ordering::Acquire) == 0 && self.gone.load(Ordering::Acquire);
            let _ = worker.drive(&quiet, clock::deadline_after(CALLBACK_PATIENCE_NS));
        }
    }
}

/// Runs inside `ucp_worker_progress`: the user's callback runs after the pass.
unsafe extern "C" fn on_conn_request(ucp: sys::ucp_conn_request_h, arg: *mut c_void) {
    let _ = std::panic::catch_unwind(|| {
        let listener = arg.cast::<Listener>().cast_const();
        // SAFETY: `arg` is the listener. The worker keeps it until UCP's listener is destroyed,
        // after which this callback cannot run.
        let listener = unsafe {
            Arc::increment_strong_count(listener);
            Arc::from_raw(listener)
        };
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut attr: sys::ucp_conn_request_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(
            sys::UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR
                | sys::UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID,
        );
        // SAFETY: a request that UCP has just handed over, and a struct with its mask set.
        let status = unsafe { sys::ucp_conn_request_query(ucp, &mut attr) };
        let peer =
            socket_address::from_storage(&attr.client_address).filter(|_| status == sys::UCS_OK);
        // SAFETY: UCP's progress runs inside the gate.
        let worker = unsafe { listener.worker.inside() };
        let request = Arc::new(ConnRequest {
            listener: listener.clone(),
            ucp: Cell::new(ucp),
            answer: AtomicU8::new(answer::NONE),
            peer,
            ours: status == sys::UCS_OK && attr.client_id == CLIENT_ID,
        });
        if listener.has_ended() {
            return request.reject_in_ucp();
        }
        listener.unanswered.borrow_mut().push(request.clone());
        worker.push_event(Event::ConnectionRequest(request));
    });
}

impl ConnRequest {
    /// The client's address, if UCX knows it.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    pub(crate) fn worker(&self) -> &SharedWorker {
        &self.listener.worker
    }

    /// From a worker of this library, which will send Hello.
    pub(crate) fn is_ours(&self) -> bool {
        self.ours
    }

    fn claim(&self, answer: u8) -> std::result::Result<u8, u8> {
        self.answer.compare_exchange(answer::NONE, answer, Ordering::AcqRel, Ordering::Acquire)
    }

    fn claim_for_caller(&self) -> Result<()> {
        self.listener.worker.check_usable()?;
        match self.claim(answer::GIVEN) {
            Ok(_) => Ok(()),
            Err(answer::TOO_LATE) => Err(too_late()),
            Err(_) => Err(Error::invalid("conn_request: has been accepted or rejected already")),
        }
    }

    /// Answers the request on a thread that may call UCP. `with` uses it up, even if it fails.
    pub(crate) fn answer<R: Send>(
        &self,
        with: impl FnOnce(&Worker, sys::ucp_conn_request_h) -> Result<R>,
    ) -> Result<R> {
        self.claim_for_caller()?;
        let mut asked = false;
        let result = self.listener.worker.on_owner(|inside| {
            asked = true;
            let ucp = self.take_ucp().ok_or_else(too_late)?;
            with(inside, ucp)
        });
        if !asked {
            // Nothing has happened, because a callback may not wait: the request can be answered
            // elsewhere.
            self.answer.store(answer::NONE, Ordering::Release);
        }
        result
    }

    /// Rejects the connection; once. Any thread.
    pub fn reject(self: &Arc<Self>) -> Result<()> {
        self.claim_for_caller()?;
        let request = self.clone();
        let posted = self.listener.worker.post(move |_inside| request.reject_in_ucp());
        if posted.is_err() {
            // Nothing has happened: the request can be answered elsewhere.
            self.answer.store(answer::NONE, Ordering::Release);
        }
        posted
    }

    /// The caller releases the request.
    pub fn destroy(self: Arc<Self>) {
        if !self.listener.worker.generation.is_past()
            && self.answer.load(Ordering::Acquire) == answer::NONE
        {
            // Fails if it was answered in the meantime, or its worker has ended.
            let _ = self.reject();
        }
    }

    /// UCP's handle, for a thread inside the gate. Null once the request was answered.
    pub(super) fn ucp(&self, _: &Inside<'_>) -> sys::ucp_conn_request_h {
        match self.answer.load(Ordering::Acquire) {
            answer::NONE => self.ucp.get(),
            _ => std::ptr::null_mut(),
        }
    }

    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        self.listener.worker.check_fork()
    }

    fn take_ucp(&self) -> Option<sys::ucp_conn_request_h> {
        let ucp = self.ucp.replace(std::ptr::null_mut());
        self.listener
            .unanswered
            .borrow_mut()
            .retain(|known| !std::ptr::eq(Arc::as_ptr(known), self));
        (!ucp.is_null()).then_some(ucp)
    }

    fn reject_in_ucp(&self) {
        let listener = self.listener.ucp.get();
        if let Some(ucp) = self.take_ucp().filter(|_| !listener.is_null()) {
            let mut refused = self.listener.refused.borrow_mut();
            refused.extend(self.peer);
            if refused.len() > REFUSED {
                refused.pop_front();
            }
            // SAFETY: a live listener inside its worker's gate, and one of its requests, which was
            // not answered.
            let status = Status(unsafe { sys::ucp_listener_reject(listener, ucp) }.into());
            if status != Status::OK {
                log::at!(INFO, Listener, &*self.listener, "a rejection was not sent: {status}");
            }
        }
    }
}

#[cold]
fn too_late() -> Error {
    Error::new(Status::CLOSED, "conn_request: was rejected when its listener ended")
}

impl Worker {
    /// Delivers a request: calls `on_connect`, or reports it to the notifier.
    pub(crate) fn hand_out(&self, request: Arc<ConnRequest>) {
        let listener = request.listener.clone();
        if listener.has_ended() {
            return;
        }
        log::at!(DEBUG, Listener, &*request, "wants to connect");
        match &listener.on_connect {
            OnConnect::Callback(callback, arg) => {
                listener.running.fetch_add(1, Ordering::AcqRel);
                // SAFETY: a callback and its argument as the user registered them; the callback
                // takes over the reference.
                self.outside(|| unsafe { callback.call_out((*arg, Arc::into_raw(request))) });
                listener.running.fetch_sub(1, Ordering::AcqRel);
                self.tell_destroyers();
            }
            OnConnect::Notifier(target) => {
                let fits = listener.unanswered.borrow().len() <= BACKLOG;
                if !(fits && self.report_request(target, &request))
                    && request.claim(answer::GIVEN).is_ok()
                {
                    request.reject_in_ucp();
                }
            }
        }
    }

    /// Destroys UCP's listeners whose grace period has passed. True while there are others.
    pub(crate) fn advance_listeners(&self, now: u64) -> bool {
        let (gone, kept): (Vec<_>, Vec<_>) =
            self.listeners.take().into_iter().partition(|listener| listener.may_go(self, now));
        let waits = kept.iter().any(|listener| listener.has_ended());
        *self.listeners.borrow_mut() = kept;
        let some = !gone.is_empty();
        for listener in gone {
            listener.finish(self);
        }
        if some {
            self.tell_destroyers();
        }
        waits
    }

    /// Wakes threads that wait in `destroy`.
    fn tell_destroyers(&self) {
        if self.thread.is_used() {
            self.thread.room.notify();
        }
        self.tell_others();
    }

    /// When that must be done next.
    pub(crate) fn next_listener(&self) -> Option<u64> {
        let listeners = self.listeners.borrow();
        listeners
            .iter()
            .filter(|listener| listener.has_ended())
            .map(|listener| listener.lingers_until.get())
            .min()
    }

    /// Destroys all of UCP's listeners, because UCP's worker is about to be destroyed.
    pub(crate) fn finish_listeners(&self) {
        for listener in self.listeners.take() {
            listener.finish(self);
        }
        self.tell_destroyers();
    }

    /// The worker is shutting down.
    pub(crate) fn end_listeners(&self) {
        for listener in self.listeners.borrow().iter() {
            listener.end(self);
        }
    }
}
