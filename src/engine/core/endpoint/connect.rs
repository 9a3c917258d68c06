//! Connecting by host and port, and accepting such a connection.
//!
//! A host may have several addresses. They are tried one after the other, each with its own UCP
//! endpoint, until one has answered. Operations that are submitted meanwhile wait in the endpoint's
//! send queue, and go out over the connection that succeeded.
//!
//! `SharedEndpoint::connect` runs on the caller's thread. All other steps run on the worker's
//! thread, and those that UCP reports run after its pass.

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{Hold, LifeEvent};
use crate::engine::core::endpoint::listener::ConnRequest;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::{Gated, Inward};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::os::socket_address;
use crate::engine::ucx::runtime::{ucx_release, Release};
use crate::sys;
use socket2::SockAddr;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

/// The state of an endpoint that was made by host and port.
pub(crate) struct Connection {
    /// Addresses that were not tried yet.
    candidates: Gated<RefCell<VecDeque<SocketAddr>>>,
    source: Option<SocketAddr>,
    /// For all attempts together; `u64::MAX` for none.
    deadline: u64,
    /// Distinguishes events of the current attempt from those of earlier ones.
    attempt: Gated<Cell<u32>>,
    /// The address that is being tried.
    peer: Mutex<Option<SocketAddr>>,
    /// Local and remote address, once connected.
    ends: OnceLock<(SocketAddr, SocketAddr)>,
}

impl Connection {
    fn new(candidates: Vec<SocketAddr>, params: &EndpointParams) -> Box<Self> {
        let timeout_ns = params.connect_timeout_ns;
        Box::new(Connection {
            candidates: Gated::new(RefCell::new(candidates.into())),
            source: params.local_address,
            deadline: if timeout_ns == 0 { u64::MAX } else { clock::deadline_after(timeout_ns) },
            attempt: Gated::default(),
            peer: Mutex::new(None),
            ends: OnceLock::new(),
        })
    }

    pub(crate) fn peer_text(&self) -> String {
        self.peer.lock().map_or_else(|| "a UCX worker".to_owned(), |peer| peer.to_string())
    }

    /// Both ends have the same address, so they are on the same host.
    pub(crate) fn same_host(&self) -> bool {
        self.ends.get().is_some_and(|(local, remote)| local.ip() == remote.ip())
    }

    /// When this attempt must give way to the next, so that each address gets its share of the
    /// time.
    fn attempt_deadline(&self, inside: &Worker) -> u64 {
        if self.deadline == u64::MAX {
            return 0;
        }
        let now = clock::now_ns();
        let left = self.deadline.saturating_sub(now);
        now + left / (self.candidates.get(inside).borrow().len() as u64 + 1)
    }
}

/// The status of a failed attempt.
fn failure(ucx: Status) -> Status {
    match ucx {
        Status::REJECTED
        | Status::TIMED_OUT
        | Status::NO_MEMORY
        | Status::INVALID_PARAM
        | Status::UNSUPPORTED => ucx,
        _ => Status::UNREACHABLE,
    }
}

/// The addresses of a host that this context can use. If the context is limited to one interface,
/// refuses addresses of others.
pub(crate) fn usable(
    worker: &SharedWorker,
    mut addresses: Vec<SocketAddr>,
    argument: &str,
) -> Result<Vec<SocketAddr>> {
    check_network(worker, &addresses, argument)?;
    let before = addresses.len();
    addresses.retain(|address| worker.context.connects_over(address.is_ipv4()));
    if addresses.is_empty() && before > 0 {
        return Err(Error::new(
            Status::UNSUPPORTED,
            format!(
                "{argument}: has no address of the family that this context uses for TCP; set \
                 TCP_AF_PRIO in the context's config (or UCX_TCP_AF_PRIO) on both sides: inet6 \
                 for IPv6, or a list that begins with inet for IPv4"
            ),
        ));
    }
    Ok(addresses)
}

fn check_network(worker: &SharedWorker, addresses: &[SocketAddr], argument: &str) -> Result<()> {
    match addresses
        .iter()
        .find(|address| worker.context.local_network && !address.ip().is_loopback())
    {
        None => Ok(()),
        Some(address) => Err(Error::invalid(format!(
            "{argument}: {} is not a loopback address, and UCXX_NETWORK_LOCAL allows no others; \
            use 127.0.0.1, or UCXX_NETWORK_ALL",
            address.ip()
        ))),
    }
}

impl SharedEndpoint {
    /// Connects to a listener. Resolving a name may block. The connection is made in the
    /// background, and operations may be submitted at once.
    pub fn connect(
        worker: &Arc<SharedWorker>,
        host: &str,
        port: u16,
        params: &EndpointParams,
    ) -> Result<Arc<Self>> {
        worker.check_usable()?;
        params.check_notifier(worker)?;
        if port == 0 {
            return Err(Error::invalid("port: is 0"));
        }
        let mut candidates = usable(worker, socket_address::resolve(host, port)?, "host")?;
        if let Some(source) = params.local_address {
            check_network(worker, &[source], "local_address")?;
            candidates.retain(|candidate| candidate.is_ipv4() == source.is_ipv4());
            if candidates.is_empty() {
                let text = format!(
                    "local_address: {} and {host:?} have no address family (IPv4, IPv6) in common",
                    source.ip()
                );
                return Err(Error::new(Status::UNREACHABLE, text));
            }
        }
        worker.on_owner(|inside| {
            let endpoint = Endpoint::build(
                inside,
                params,
                None,
                false,
                Some(Connection::new(candidates, params)),
            );
            endpoint.on(LifeEvent::Connects);
            // Unlike an endpoint made by address, this one can be closed by force during wire-up,
            // and must be: UCX 1.13 asserts if its worker ends first.
            endpoint.on(LifeEvent::UcpAnswers);
            endpoint.register();
            endpoint
                .next_attempt()
                .map(|()| endpoint.outward().clone())
                .inspect_err(|_| endpoint.unregister())
        })
    }
}

impl Endpoint {
    /// Creates the endpoint to a client that asked for a connection.
    ///
    /// Sends wait until the peer's Hello has arrived. With UCX 1.13 nothing reaches a peer over
    /// shared memory before something has arrived from it, and a rendezvous that starts in the
    /// meantime ends the process (`packed_rkey_size`, in `ucp_wireup_replay_pending_requests`).
    /// Neither was seen with 1.21 and 1.22.
    pub(crate) fn accept(
        worker: &Worker,
        request: &ConnRequest,
        ucp: sys::ucp_conn_request_h,
        params: &EndpointParams,
    ) -> Result<Inward<SharedEndpoint>> {
        let connection = Connection::new(Vec::new(), params);
        *connection.peer.lock() = request.peer();
        let endpoint = Self::build(worker, params, None, false, Some(connection));
        let mut ucp_params = endpoint.ucp_params();
        ucp_params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_CONN_REQUEST);
        ucp_params.conn_request = ucp;
        endpoint.create_in_ucp(&ucp_params).map_err(|(status, reason)| {
            let text = format!(
                "conn_request: UCX could not accept the connection from {}",
                endpoint.peer_text()
            );
            Error::new(status, crate::engine::base::log::with_reason(text, &reason))
        })?;
        endpoint.on(LifeEvent::UcpAnswers);
        if request.is_ours() && ucx_release() < Release::new(1, 21) {
            endpoint.on(LifeEvent::AwaitsHello);
        }
        endpoint.register();
        endpoint.learn_ends();
        if request.is_ours() {
            endpoint.on(LifeEvent::Greets);
            endpoint.await_answer_if_asked(params);
        } else {
            // It has asked for the connection: a foreign peer sends nothing more that would show
            // it.
            worker.push_event(Event::Opened(endpoint.clone()));
        }
        Ok(endpoint)
    }

    /// No peer has answered yet.
    pub(crate) fn is_connecting(&self) -> bool {
        self.life().hold == Hold::Connecting
    }

    /// Operations wait for the peer.
    pub(crate) fn waits_for_peer(&self) -> bool {
        self.life().hold != Hold::Free
    }

    /// The peer's Hello has arrived. After UCP's pass.
    pub(crate) fn note_met(&self) {
        let held = self.life().hold == Hold::Unheard;
        self.on(LifeEvent::Meets);
        if held {
            self.let_out();
        }
    }

    /// Sends what has waited for the peer.
    fn let_out(&self) {
        self.drain_queue();
        // A thread may wait for this without having sent anything.
        self.tend_later();
    }

    /// The current attempt; 0 where there is only one.
    pub(crate) fn attempt(&self) -> u32 {
        self.connection().map_or(0, |connection| connection.attempt.get(&self.worker).get())
    }
}

impl SharedEndpoint {
    /// Both ends as text, "ip:port". Empty if the endpoint was not made by host and port, or is not
    /// connected yet.
    pub fn ends(&self) -> (String, String) {
        let ends = self.connection().and_then(|connection| connection.ends.get());
        ends.map_or_else(Default::default, |(local, remote)| {
            (local.to_string(), remote.to_string())
        })
    }
}

impl Endpoint {
    /// Tries addresses until UCP accepts one. Returns the last error if there is none left.
    ///
    /// The engine learns of the connection from a Hello that was sent, not from a flush: UCX 1.22
    /// crashes if a flush meets a connection that fails (`ucp_ep_flush_progress`). The listening
    /// side, which knows the client's address, cannot start either: with UCX 1.13 over shared
    /// memory nothing arrives from it before something was sent from here.
    fn next_attempt(&self) -> Result<()> {
        let Some(connection) = self.connection() else { return Ok(()) };
        let mut last = Error::new(Status::UNREACHABLE, "host: no address is left to try");
        loop {
            let Some(peer) = connection.candidates.get(&self.worker).borrow_mut().pop_front()
            else {
                return Err(last);
            };
            *connection.peer.lock() = Some(peer);
            let attempt = connection.attempt.get(&self.worker);
            attempt.set(attempt.get() + 1);
            let to = SockAddr::from(peer);
            let from = connection.source.map(SockAddr::from);
            let mut params = self.ucp_params();
            params.field_mask |=
                u64::from(sys::UCP_EP_PARAM_FIELD_SOCK_ADDR | sys::UCP_EP_PARAM_FIELD_FLAGS);
            params.flags =
                sys::UCP_EP_PARAMS_FLAGS_CLIENT_SERVER | sys::UCP_EP_PARAMS_FLAGS_SEND_CLIENT_ID;
            params.sockaddr = socket_address::as_ucs(&to);
            if let Some(from) = &from {
                params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_LOCAL_SOCK_ADDR);
                params.local_sockaddr = socket_address::as_ucs(from);
            }
            log::at!(DEBUG, Endpoint, self, "attempt {} to connect", attempt.get());
            match self.create_in_ucp(&params) {
                Ok(()) => break,
                Err((status, reason)) => {
                    let text = crate::engine::base::log::with_reason(
                        format!("host: no connection to {peer}"),
                        &reason,
                    );
                    last = Error::new(failure(status), text);
                }
            }
        }
        self.connect_deadline.set(connection.attempt_deadline(&self.worker));
        self.watch();
        self.say_hello();
        Ok(())
    }

    /// An attempt has failed without an answer. After UCP's pass.
    pub(crate) fn attempt_failed(&self, attempt: u32, ucx: Status) {
        if !self.is_connecting() || self.attempt() != attempt || self.phase() > Phase::Flushing {
            return;
        }
        let status = match failure(ucx) {
            // The status comes from the other side, where a different program listens: no argument
            // was wrong.
            Status::INVALID_PARAM => Status::UNREACHABLE,
            status => status,
        };
        log::at!(INFO, Endpoint, self, "no connection: {status} ({ucx})");
        self.connect_deadline.set(0);
        self.abandon_in_ucp();
        if self.next_attempt().is_err() {
            self.fail(status);
        }
    }

    /// The peer has answered. After UCP's pass, because messages sent during the pass lose their
    /// order.
    pub(crate) fn connected(&self, attempt: u32) {
        let Some(connection) = self.connection() else { return };
        if !self.is_connecting()
            || connection.attempt.get(&self.worker).get() != attempt
            || self.phase() > Phase::Flushing
        {
            return;
        }
        self.on(LifeEvent::IsConnected);
        connection.candidates.get(&self.worker).borrow_mut().clear();
        self.connect_deadline.set(0);
        self.learn_ends();
        self.let_out();
    }

    fn learn_ends(&self) {
        // SAFETY: all-zero is valid: the mask tells UCP which fields are set.
        let mut attr: sys::ucp_ep_attr_t = unsafe { std::mem::zeroed() };
        attr.field_mask = u64::from(
            sys::UCP_EP_ATTR_FIELD_LOCAL_SOCKADDR | sys::UCP_EP_ATTR_FIELD_REMOTE_SOCKADDR,
        );
        // SAFETY: a live endpoint inside its worker's gate, and a struct with its mask set.
        let status = unsafe { sys::ucp_ep_query(self.ucp.get(), &mut attr) };
        let ends = (
            socket_address::from_storage(&attr.local_sockaddr),
            socket_address::from_storage(&attr.remote_sockaddr),
        );
        if let (sys::UCS_OK, (Some(local), Some(remote)), Some(connection)) =
            (status, ends, self.connection())
        {
            let _ = connection.ends.set((local, remote));
        }
    }
}

impl ConnRequest {
    /// Makes the endpoint; once. A failure in UCX uses the request up.
    pub fn accept(&self, params: &EndpointParams) -> Result<Arc<SharedEndpoint>> {
        if params.local_address.is_some() {
            return Err(Error::invalid(
                "local_address: must be NULL here, because the listener has set it",
            ));
        }
        params.check_notifier(self.worker())?;
        self.answer(|worker, ucp| {
            worker.check_usable()?;
            Endpoint::accept(worker, self, ucp, params).map(Inward::into_outward)
        })
    }
}

impl Worker {
    /// The peers whose connections were accepted and are still open.
    pub(crate) fn accepted_peers(&self) -> Vec<SocketAddr> {
        let endpoints = self.endpoints.borrow();
        endpoints
            .iter()
            .flatten()
            .filter_map(|endpoint| *endpoint.connection()?.peer.lock())
            .collect()
    }
}
