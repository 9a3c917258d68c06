//! How two endpoints find each other: Hello, Welcome, or a refusal.
//!
//! A Hello is the first message on each endpoint to a worker of this library. It contains the place
//! of the sender's end: its index among the ends that the sender has made to this receiver. UCP
//! joins the two ends with the same place. The receiver handles a Hello in one of three ways:
//! - It has an end with that place: the two endpoints belong together.
//! - It has made fewer ends: it makes one, which the next `ucxx_endpoint_create` to that worker
//!   claims.
//! - It had an end with that place, which has ended: the Hello is too late, and the sender is
//!   notified.
//!
//! A connection by host and port has two ends from the start. The receiver's end is the one that
//! UCP names as the message's reply endpoint.
//!
//! Welcome tells the sender the number by which the receiver knows the connection.

use crate::engine::base::clock;
use crate::engine::base::log::{self, Component};
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::{complain, other_version, Reply};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::{Greeting, Hold, LifeEvent, Peer};
use crate::engine::core::request::request::Part;
use crate::engine::core::trace::{self, Happens};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::worker::Worker;
use crate::engine::ucx::context::feature;
use crate::engine::wire::address::Origin;
use crate::engine::wire::header::{flag, Hello, Kind};
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// Most endpoints that a worker can number. The rest of a number distinguishes the uses of one
/// place.
const PLACES: u32 = 1 << 20;

/// What the two ends of a connection know of each other.
#[derive(Default)]
pub(crate) struct Peering {
    /// The number that the peer puts into messages to this end; 0 while there is none.
    pub(crate) number: Cell<u32>,
    /// The number that this end puts into messages to the peer; 0 until the peer has sent it.
    pub(crate) theirs: Cell<u32>,
    /// The same number if messages and fetches may use the fast path; see `Endpoint::learn_number`.
    pub(crate) fast_number: Cell<u32>,
    /// The peer is this worker itself.
    pub(crate) own: Cell<bool>,
    /// Counts endpoints in the order in which they were made.
    made: Cell<u64>,
    /// The place of UCP's end among those made here for the peer, from 1; 0 for a connection by
    /// host and port.
    pub(crate) place: Cell<u32>,
    /// The UCP end on which the peer's Hello arrived, if it is not the one that UCP gave this
    /// endpoint; otherwise null.
    pub(crate) heard_on: Cell<Reply>,
    /// Made for a peer that sent a Hello; not known to the user yet.
    pub(crate) unclaimed: Cell<bool>,
    /// The peer's protocol version if it differs from ours; otherwise 0. Read by any thread.
    other_version: AtomicU8,
}

impl Peering {
    /// Why the peer cannot be used, if so.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self.other_version.load(Ordering::Relaxed) {
            0 => None,
            theirs => Some(other_version(theirs)),
        }
    }

    /// Gives the endpoint at this place of the worker's list its number.
    pub(crate) fn number(&self, place: usize, made: u64) {
        self.made.set(made);
        if let Some(place) = u32::try_from(place + 1).ok().filter(|place| *place < PLACES) {
            self.number.set(place | (made as u32).wrapping_mul(PLACES));
        }
    }
}

impl Worker {
    /// The endpoint with this number. The reference is valid as long as no endpoint can end.
    #[inline(always)]
    pub(crate) fn last_endpoint(&self, number: u32) -> Option<&Endpoint> {
        match self.named_last(number) {
            None => self.find_endpoint(number),
            named => named,
        }
    }

    /// The same, if it was also the one found last time.
    #[inline(always)]
    pub(crate) fn named_last(&self, number: u32) -> Option<&Endpoint> {
        // SAFETY: the worker keeps this endpoint; `unregister` clears the pointer before the
        // endpoint is dropped.
        match unsafe { self.named.get().as_ref() } {
            Some(endpoint) if endpoint.peering.number.get() == number => Some(endpoint),
            _ => None,
        }
    }

    /// The same, if it is not the one found last time.
    #[inline(never)]
    pub(crate) fn find_endpoint(&self, number: u32) -> Option<&Endpoint> {
        let place = (number % PLACES).checked_sub(1)? as usize;
        let endpoints = self.endpoints.borrow();
        let endpoint: *const Endpoint = &raw const **endpoints.get(place)?.as_ref()?;
        // SAFETY: the worker keeps it as long as `last_endpoint` says.
        let endpoint = unsafe { &*endpoint };
        if endpoint.peering.number.get() != number {
            return None;
        }
        self.named.set(endpoint);
        Some(endpoint)
    }

    /// The same, as a reference to keep.
    pub(crate) fn endpoint_by_id(&self, number: u32) -> Option<Inward<SharedEndpoint>> {
        self.last_endpoint(number).map(Endpoint::inward)
    }

    /// A peer has made an endpoint to this worker. After UCP's pass.
    pub(crate) fn hello_came(
        &self,
        named: Option<Inward<SharedEndpoint>>,
        hello: &Hello,
        reply: Reply,
    ) {
        let peer =
            hello.address.origin().filter(|origin| !origin.identity.same_worker(&self.identity));
        let end = match (hello.place, peer) {
            (0, _) => named.or_else(|| self.endpoint_by_ucp(reply.0)),
            (_, None) => None,
            (_, Some(peer)) => self.end_at(&peer, hello.place),
        };
        let end = match (end.filter(|end| end.is_end_for(hello, reply)), peer) {
            (Some(end), _) => end,
            (None, Some(peer)) if hello.place != 0 => {
                match Endpoint::create_back(self, &peer, hello) {
                    Ok(Some(end)) => end,
                    // The endpoint existed and has ended.
                    Ok(None) => return,
                    Err(error) => {
                        return log::at!(
                            INFO,
                            Worker,
                            self,
                            "no endpoint for process {}, which has connected: {}",
                            peer.identity.pid,
                            error.message()
                        );
                    }
                }
            }
            _ => return complain(Component::Worker, self, "a Hello without a known sender"),
        };
        if hello.place != 0 {
            self.hear_on(&end, reply);
        }
        end.welcome(hello);
    }

    /// This side's end with that place for the peer, if it is an endpoint.
    fn end_at(&self, peer: &Origin, place: u32) -> Option<Inward<SharedEndpoint>> {
        let is_there = |end: &&Inward<SharedEndpoint>| {
            end.peering.place.get() == place && end.origin() == Some(peer)
        };
        self.endpoints.borrow().iter().flatten().find(is_there).cloned()
    }

    /// Messages on this UCP end come from that endpoint's peer from now on: UCP may have reused the
    /// memory of an earlier end.
    fn hear_on(&self, endpoint: &Inward<SharedEndpoint>, reply: Reply) {
        for other in self
            .endpoints
            .borrow()
            .iter()
            .flatten()
            .filter(|other| other.peering.heard_on.get() == reply)
        {
            other.peering.heard_on.set(Reply::default());
        }
        if endpoint.ucp.get() != reply.0 {
            endpoint.peering.heard_on.set(reply);
        }
    }
}

impl Endpoint {
    /// UCP may have reused the memory of its end for another peer.
    fn is_end_for(&self, hello: &Hello, reply: Reply) -> bool {
        let of_peer = self
            .origin()
            .is_none_or(|known| hello.address.origin().is_some_and(|origin| *known == origin));
        let theirs = self.peering.theirs.get();
        // An end found by its place must not have met a peer yet.
        let fits = if hello.place == 0 { self.ucp.get() == reply.0 } else { theirs == 0 };
        of_peer && (fits || theirs == hello.sender)
    }

    fn welcome(&self, hello: &Hello) {
        match self.phase() {
            Phase::Open => {
                self.met(hello);
                self.say(Kind::Welcome, 0, Part::Nothing);
            }
            Phase::Flushing if self.life().hold == Hold::Unheard => self.note_met(),
            // Nothing was to be flushed before, and UCP connects now.
            Phase::Flushing if self.life().is_unspoken() => {
                self.note_met();
                self.start_flush_before_close();
            }
            _ => {}
        }
    }

    /// A Hello has arrived. Inside UCP's handler: the rest is handled after the pass.
    pub(crate) fn note_hello(&self) {
        self.on(LifeEvent::HearsHello);
        if self.phase() == Phase::Flushing && self.life().is_unspoken() {
            self.on(LifeEvent::FlushAwaits);
        }
    }

    /// Arranges the call of `on_open` for when the peer has answered. A worker of this library
    /// sends an answer; for a foreign one, UCP's flush of a new endpoint completes.
    pub(crate) fn await_answer(&self) {
        if self.life().speaks() {
            return self.watch();
        }
        match self.start_flush(Part::Answer) {
            None => self.watch(),
            Some(status) => self.part_ended(Part::Answer, status),
        }
    }

    pub(crate) fn answered(&self, attempt: u32) {
        let Some(endpoint) = self.registered() else { return };
        if self.attempt() != attempt {
            return;
        }
        self.connect_deadline.set(0);
        if self.is_connecting() {
            self.worker.push_event(Event::Connected(endpoint.clone(), attempt));
        }
        self.worker.push_event(Event::Opened(endpoint));
    }

    /// An attempt to connect has failed.
    pub(crate) fn unanswered(&self, attempt: u32, status: Status) {
        if let (true, Some(endpoint)) = (self.is_connecting(), self.registered()) {
            self.worker.push_event(Event::Unanswered(endpoint, attempt, status));
        }
    }

    /// Sends Hello in the next pass if the user wants to be notified; otherwise before the first
    /// operation. A Hello makes UCX connect, and an end during that is dangerous. UCX 1.13 was seen
    /// to abort if a worker ends while TCP connects to it. 1.21 and 1.22 crash if a process has
    /// ended before its connection by shared memory is processed (`ucp_ep_set_lanes_failed`, for an
    /// endpoint that was not configured).
    pub(crate) fn say_hello_in_time(&self, params: &EndpointParams) {
        let asked =
            params.on_open.is_some() || params.on_close.is_some() || !params.notifier.is_null();
        self.on(LifeEvent::GreetsLater);
        if asked || params.connect_timeout_ns != 0 || params.liveness_ns != 0 {
            self.worker.push_event(Event::SendHello(self.inward()));
        }
    }

    /// Called before a send: it must wait in the queue, or it goes to UCP after the Hello, which
    /// this sends if needed.
    #[inline]
    pub(crate) fn must_wait(&self) -> bool {
        if self.is_open() {
            return false;
        }
        self.break_silence();
        self.is_held()
    }

    /// The first operation is about to be sent.
    #[cold]
    pub(crate) fn break_silence(&self) {
        if self.life().is_unspoken() && self.phase() == Phase::Open {
            self.say_hello();
        }
    }

    /// Sends Hello, before anything else.
    pub(crate) fn say_hello(&self) {
        self.on(match self.connection() {
            None => LifeEvent::Greets,
            Some(_) => LifeEvent::Asks(clock::now_ns()),
        });
        let flags = if self.peer_failure { flag::PEER_FAILURE } else { 0 };
        let part = Part::Hello(self.attempt());
        if let Some(status) = self.say(Kind::Hello, flags, part) {
            self.part_ended(part, status);
        }
    }

    /// As far as is known, the peer is not a worker of this library.
    pub(crate) fn is_plain_ucx_peer(&self) -> bool {
        self.peering.theirs.get() == 0
            && !self.to_self
            && matches!(self.life().greeting, Greeting::Unknown | Greeting::Refused)
    }

    /// Hello was sent, and the peer, which is there, may not have read it: nothing has come from
    /// it. UCP's own word (`connected`) is no answer through shared memory.
    pub(crate) fn may_be_unread(&self) -> bool {
        let life = self.life();
        matches!(life.greeting, Greeting::Known | Greeting::Asked(_))
            && self.peering.theirs.get() == 0
            && matches!(life.peer, Peer::Present | Peer::Silent)
    }

    /// Until when this peer may accept messages although it has not answered a Hello; a foreign one
    /// never answers. None for a peer that does not accept them, as far as is known.
    pub(crate) fn listens_until(&self, patience: u64) -> Option<u64> {
        match self.life().greeting {
            Greeting::Unspoken | Greeting::Known => Some(u64::MAX),
            Greeting::Unknown | Greeting::Refused => None,
            Greeting::Asked(at) => Some(at.saturating_add(patience)),
        }
    }

    /// The peer is this worker itself, possibly through its own listener. A message to it may
    /// arrive before UCP's call has returned.
    fn is_own(&self) -> bool {
        let own = &self.worker.identity;
        let is_own = |origin: &Origin| origin.identity.same_worker(own);
        self.to_self || self.origin().is_some_and(is_own)
    }

    /// The peer has sent the number by which it knows the connection.
    pub(crate) fn learn_number(&self, theirs: u32) {
        self.peering.theirs.set(theirs);
        // The conditions of the fast path that never change.
        let worker = &self.worker;
        self.peering.own.set(self.is_own());
        let quick = worker.features & feature::AM != 0
            && !self.peering.own.get()
            && worker.context.is_in_reach(None);
        self.peering.fast_number.set(if quick { theirs } else { 0 });
    }

    /// The peer has sent its identity. After UCP's pass.
    pub(crate) fn met(&self, hello: &Hello) {
        if self.phase() >= Phase::Ending {
            return;
        }
        if let Some(origin) = hello.address.origin() {
            self.learn_origin(origin);
        }
        let is_first = self.peering.theirs.get() == 0;
        self.learn_number(hello.sender);
        if is_first {
            trace::happens(self, Happens::Connected);
        }
        self.note_met();
        self.note_answer(true);
        self.answered(self.attempt());
    }

    /// The peer uses another protocol version, so it cannot be used. After UCP's pass.
    pub(crate) fn refused(&self, theirs: u8) {
        self.peering.other_version.store(theirs, Ordering::Relaxed);
        self.on(LifeEvent::IsRefused);
        log::at!(WARN, Endpoint, self, "the peer {}", other_version(theirs));
        self.fail(Status::UNSUPPORTED);
    }

    /// Finds the oldest unclaimed end of a connection from this peer, for the user's endpoint to
    /// it.
    pub(crate) fn claim(
        worker: &Worker,
        origin: &Origin,
        params: &EndpointParams,
    ) -> Option<Inward<SharedEndpoint>> {
        let fits = |endpoint: &&Inward<SharedEndpoint>| {
            endpoint.peering.unclaimed.get()
                && endpoint.takes_operations()
                && endpoint.peer_failure == params.peer_failure
                && endpoint.origin() == Some(origin)
        };
        let found = {
            let endpoints = worker.endpoints.borrow();
            endpoints
                .iter()
                .flatten()
                .filter(fits)
                .min_by_key(|endpoint| endpoint.peering.made.get())
                .cloned()?
        };
        found.peering.unclaimed.set(false);
        if !found.peer_failure {
            found.unwatch_process();
        }
        worker.stats.endpoints.add(1);
        found.set_limits(params.window);
        found.watch_for_silence(params.liveness_ns);
        found.on_open.set(params.on_open.map(|callback| (callback, params.on_open_arg)));
        found.on_close.set(params.told_of_end());
        if params.on_open.is_some() {
            worker.push_event(Event::Opened(found.clone()));
        }
        Some(found)
    }
}
