//! Listeners, and what comes in on them: requests for a connection, each answered once, at any time
//! and from any thread.
//!
//! UCP wants every request answered before its listener goes: what is unanswered then is rejected.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::connect::usable;
use crate::engine::core::endpoint::listener_sockets::{self, Sockets, Unaccepted};
use crate::engine::core::request::notifier::Notifier;
use crate::engine::core::request::notifier_events::Target;
use crate::engine::core::worker::deferred::{self, Event};
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

/// Who gets the requests.
#[derive(Clone)]
pub enum OnConnect {
    /// A callback, with its argument.
    Callback(Callback, *mut c_void),
    /// A notifier.
    Notifier(Target),
}

impl OnConnect {
    /// Requests are to be handed out by a notifier, with this to tell them apart.
    pub fn notifier(
        notifier: &Notifier,
        worker: &SharedWorker,
        user_data: *mut c_void,
    ) -> Result<Self> {
        notifier.check(&worker.context)?;
        Ok(OnConnect::Notifier(Target::new(notifier, user_data)))
    }
}

/// So many requests may wait for an answer where a notifier hands them out: nobody may be polling.
const BACKLOG: usize = 512;

/// A callback of another thread's that destroy waits for takes as long as its user lets it.
const CALLBACK_PATIENCE_NS: u64 = u64::MAX;

/// UCX calls back through a listener that has gone when a client had connected by then, and its
/// request was still under way: nobody is let in any more, and the library's goes on for so long,
/// and refuses what comes from those who are in. Where nobody is in, it goes at the next look.
const LINGER_NS: u64 = 100_000_000;

/// Who has asked for nothing by then is cut off, and UCX looked at again after so long: until
/// nobody was left at two looks, as a connection that UCX is just accepting is to be seen nowhere
/// for a moment.
const LOOK_NS: u64 = 10_000_000;
const QUIET_LOOKS: u32 = 2;
/// What UCX never lets go of is not waited for any longer than that, where all that came on it has
/// been read; and where it has not.
const LOOKS: u32 = 50;
const LOOKS_AT_UNREAD: u32 = 500;

/// So many of those that were refused last are known: the answer may still be on its way to them.
const REFUSED: usize = 1024;

/// An address and port on which a worker takes connections.
///
/// Cells belong to whoever is inside the worker's gate.
pub struct Listener {
    worker: Arc<SharedWorker>,
    /// Null once it has ended.
    ucp: Cell<sys::ucp_listener_h>,
    /// Where it listens, once it does.
    address: OnceLock<SocketAddr>,
    on_connect: OnConnect,
    unanswered: RefCell<Vec<Arc<ConnRequest>>>,
    refused: RefCell<VecDeque<SocketAddr>>,
    /// Set with `address`.
    sockets: OnceLock<Sockets>,
    /// Nobody is let in any more.
    barred: Cell<bool>,
    /// How often who is left has been looked at, and how often of late there was nobody.
    looks: Cell<u32>,
    quiet_looks: Cell<u32>,
    /// It has ended for its user, and UCP's goes at this moment; 0 before.
    lingers_until: Cell<u64>,
    /// UCP's has gone. Read by threads that wait in destroy.
    gone: AtomicBool,
    /// Calls of `on_connect` under way. Read by threads that wait in destroy.
    running: AtomicU32,
}

// SAFETY: see the type; the caller hands callback and argument over for use on the thread that
// progresses.
unsafe impl Send for Listener {}
// SAFETY: as above.
unsafe impl Sync for Listener {}

/// Somebody who wants a connection.
pub struct ConnRequest {
    listener: Arc<Listener>,
    /// Null once UCP has the answer. Belongs to whoever is inside the worker's gate.
    ucp: Cell<sys::ucp_conn_request_h>,
    /// Values of `answer`.
    answer: AtomicU8,
    peer: Option<SocketAddr>,
    /// From a worker of this library.
    ours: bool,
}

// SAFETY: see its fields.
unsafe impl Send for ConnRequest {}
// SAFETY: as above.
unsafe impl Sync for ConnRequest {}

mod answer {
    pub(crate) const NONE: u8 = 0;
    /// By the one who set this.
    pub(crate) const GIVEN: u8 = 1;
    /// Rejected, as its listener went.
    pub(crate) const TOO_LATE: u8 = 2;
}

impl Listener {
    /// Listens on the first address of the host that can be had. Resolving a name may block.
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
        // SAFETY: all-zero is valid: the mask says which fields count.
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
            // SAFETY: a live worker inside its gate; the address is read during the call; the
            // handler's argument is kept by the worker until UCP's listener has gone.
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
                text +=
                    ": the port is taken, by another listener, or for a minute by what is left \
                         of the connections of one that has ended, where UCX_TCP_CM_REUSEADDR was \
                         not y, the library's default, both then and now";
            }
            return Err(Error::new(status, text));
        }
        listener.ucp.set(ucp);
        inside.listeners.borrow_mut().push(listener.clone());
        // SAFETY: as above.
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
                "host: UCX would not tell where its listener listens",
            ));
        };
        listener.address.get_or_init(|| bound);
        listener.sockets.get_or_init(|| Sockets::new(bound, older));
        Ok(listener)
    }

    /// The port it listens on. Any thread.
    pub fn port(&self) -> u16 {
        self.address.get().map_or(0, SocketAddr::port)
    }

    /// Rejects what is unanswered, and what still comes. Inside the gate.
    fn end(&self, worker: &Worker) {
        if self.has_ended() {
            return;
        }
        let idle = self.unanswered.borrow().is_empty() && self.refused.borrow().is_empty();
        self.bar();
        // Where nobody is in, and nobody can come in, one more look is all it takes.
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

    /// From now on nobody is let in. Before anybody is refused: UCX mixes up who was refused with
    /// who is let in right after that, on the same descriptor, and calls through what is not there
    /// yet.
    fn bar(&self) {
        self.barred.set(self.sockets.get().is_some_and(Sockets::bar));
    }

    /// Peers that have asked for a connection, and got an answer.
    fn answered_peers(&self, worker: &Worker) -> HashSet<SocketAddr> {
        self.refused.borrow().iter().copied().chain(worker.accepted_peers()).collect()
    }

    /// Cuts off who has connected and asked for nothing. What there was.
    fn cut_silent(&self, worker: &Worker) -> Unaccepted {
        let asked = self.answered_peers(worker);
        self.sockets.get().map_or(Unaccepted::Nothing, |sockets| sockets.cut(&asked))
    }

    /// No client has connected that has not been answered.
    fn has_nobody(&self, worker: &Worker) -> bool {
        let asked = self.answered_peers(worker);
        self.sockets.get().is_some_and(|sockets| sockets.has_nobody(&asked))
    }

    /// It has been over for a while, and nobody is left who may still ask. Inside the gate.
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
        // Who can still come in may come for ever.
        let at_most =
            if left == Unaccepted::Unread && self.barred.get() { LOOKS_AT_UNREAD } else { LOOKS };
        if self.quiet_looks.get() == QUIET_LOOKS || self.looks.get() > at_most {
            return true;
        }
        self.lingers_until.set(clock::deadline_after(LOOK_NS));
        false
    }

    /// Stops listening. Inside the gate.
    fn end_in_ucp(&self) {
        let ucp = self.ucp.replace(std::ptr::null_mut());
        if ucp.is_null() {
            return;
        }
        // SAFETY: a live listener inside its worker's gate, all of whose requests have been
        // answered.
        unsafe { sys::ucp_listener_destroy(ucp) };
    }

    /// The same; where others could come in to the last, with whoever came in the moment before.
    /// Inside the gate.
    fn finish(&self, worker: &Worker) {
        self.end_in_ucp();
        if !self.barred.get() {
            self.cut_silent(worker);
        }
        // Last: from now on the address may be another listener's.
        self.gone.store(true, Ordering::Release);
    }

    /// Ends it for the caller, and waits until its callback has returned; from a callback it does
    /// not wait.
    pub fn destroy(self: Arc<Self>) {
        let worker = self.worker.clone();
        if worker.generation.is_past() {
            return;
        }
        if deferred::in_callback() {
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

/// Runs inside `ucp_worker_progress`: the user's callback waits for the end of the pass.
unsafe extern "C" fn on_conn_request(ucp: sys::ucp_conn_request_h, arg: *mut c_void) {
    let _ = std::panic::catch_unwind(|| {
        let listener = arg.cast::<Listener>().cast_const();
        // SAFETY: `arg` is the listener, which the worker keeps until UCP's has gone, after which
        // this cannot run.
        let listener = unsafe {
            Arc::increment_strong_count(listener);
            Arc::from_raw(listener)
        };
        // SAFETY: all-zero is valid: the mask says which fields count.
        let mut attr: sys::ucp_conn_request_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(
            sys::UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ADDR
                | sys::UCP_CONN_REQUEST_ATTR_FIELD_CLIENT_ID,
        );
        // SAFETY: a request that UCP has just handed over, and a struct with its mask set.
        let status = unsafe { sys::ucp_conn_request_query(ucp, &mut attr) };
        let peer =
            socket_address::from_storage(&attr.client_address).filter(|_| status == sys::UCS_OK);
        // SAFETY: in UCP's progress.
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
    /// Who asks, where UCX can tell.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    pub(crate) fn worker(&self) -> &SharedWorker {
        &self.listener.worker
    }

    /// From a worker of this library, which will say Hello.
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

    /// Answers it, where UCP may be called; `with` uses it up, whatever comes of that.
    pub(crate) fn answer<R>(
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
            // Nothing has happened, as from a callback that may not wait: it can be answered
            // elsewhere.
            self.answer.store(answer::NONE, Ordering::Release);
        }
        result
    }

    /// Refuses the connection; once. Any thread.
    pub fn reject(self: &Arc<Self>) -> Result<()> {
        self.claim_for_caller()?;
        let request = self.clone();
        let posted = self.listener.worker.post(move |_inside| request.reject_in_ucp());
        if posted.is_err() {
            // Nothing has happened: it can be answered elsewhere.
            self.answer.store(answer::NONE, Ordering::Release);
        }
        posted
    }

    /// The caller has no use for it any more.
    pub fn destroy(self: Arc<Self>) {
        if !self.listener.worker.generation.is_past()
            && self.answer.load(Ordering::Acquire) == answer::NONE
        {
            // Fails where it has been answered meanwhile, or its worker has ended.
            let _ = self.reject();
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

    /// Inside the gate.
    fn reject_in_ucp(&self) {
        let listener = self.listener.ucp.get();
        if let Some(ucp) = self.take_ucp().filter(|_| !listener.is_null()) {
            let mut refused = self.listener.refused.borrow_mut();
            refused.extend(self.peer);
            if refused.len() > REFUSED {
                refused.pop_front();
            }
            // SAFETY: a live listener inside its worker's gate, and a request of its that was not
            // answered.
            let status = Status(unsafe { sys::ucp_listener_reject(listener, ucp) }.into());
            if status != Status::OK {
                crate::engine::base::log::write(
                    crate::engine::base::log::INFO,
                    c"listener",
                    &format!("a rejection could not be sent: {status}"),
                );
            }
        }
    }
}

#[cold]
fn too_late() -> Error {
    Error::new(Status::CLOSED, "conn_request: was rejected when its listener ended")
}

impl Worker {
    /// Somebody asks for a connection: `on_connect` is due, or the notifier's report. Inside the
    /// gate.
    pub(crate) fn hand_out(&self, request: Arc<ConnRequest>) {
        let listener = request.listener.clone();
        if listener.has_ended() {
            return;
        }
        match &listener.on_connect {
            OnConnect::Callback(callback, arg) => {
                listener.running.fetch_add(1, Ordering::AcqRel);
                // SAFETY: a callback and its argument as the user registered them; the reference is
                // the callback's.
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

    /// Has UCP let go of listeners that have ended a while ago. True while there are others of the
    /// kind.
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

    /// Threads that wait in `destroy` look again.
    fn tell_destroyers(&self) {
        if self.thread.is_used() {
            self.thread.room.notify();
        }
        self.tell_others();
    }

    /// When that has to be done next.
    pub(crate) fn next_listener(&self) -> Option<u64> {
        let listeners = self.listeners.borrow();
        listeners
            .iter()
            .filter(|listener| listener.has_ended())
            .map(|listener| listener.lingers_until.get())
            .min()
    }

    /// Has UCP let go of all of them, which its worker does not outlive.
    pub(crate) fn finish_listeners(&self) {
        for listener in self.listeners.take() {
            listener.finish(self);
        }
        self.tell_destroyers();
    }

    /// The worker ends.
    pub(crate) fn end_listeners(&self) {
        for listener in self.listeners.borrow().iter() {
            listener.end(self);
        }
    }
}
