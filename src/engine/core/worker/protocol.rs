//! The interface between the core and the protocols above it: one table of functions for each
//! protocol. The core does not know them by name.
//!
//! A worker is created with a list of protocols (`engine::assembly` has it). For each protocol, the
//! worker and each endpoint hold one state object of the protocol's own type. `state` finds it by
//! the protocol's place in the list.

use crate::engine::base::open_metrics::Metric;
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::Handler;
use crate::engine::core::channel::receivers::{Answers, Receiver, Receivers};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::operations::{Operation, Operations};
use crate::engine::core::worker::worker::{attention, SharedWorker, Worker};
use std::any::Any;

/// Most protocols in a list.
const MOST: usize = 7;

/// When in a pass the protocol's `pass` runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Before timeouts: an operation that completed in time has not timed out.
    First,
    /// After timeouts, before callbacks.
    Middle,
    /// After callbacks.
    Last,
}

/// Events of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfEndpoint {
    /// UCP has made its end.
    Made,
    /// The peer has closed. Inside UCP's progress.
    PeerCloses,
    /// Receives that depend on it end now, with this status.
    EndsReceives(Status),
    /// It is about to be closed by force.
    BreaksOff,
    /// UCP is about to be told to close.
    LetsGo,
    /// Released by UCP; `on_close` follows.
    Closed,
    /// The worker is about to drop it.
    Forgotten,
    /// The worker has ended, and with it everything in UCP.
    WorkerEnded,
}

/// Steps of a worker's end, in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfWorker {
    /// Waiting operations are cancelled.
    Cancels,
    /// UCP's worker is about to be destroyed: release everything that belongs to it.
    BeforeUcpEnds,
    /// Every callback has run.
    Delivered,
    /// Handlers are dropped.
    DropsHandlers,
}

/// A protocol, as the core sees it.
pub(crate) struct Protocol {
    /// Its place in the list.
    pub(crate) place: usize,
    /// Makes its state for a worker.
    pub(crate) of_worker: fn() -> Box<dyn Any>,
    /// Makes its state for an endpoint.
    pub(crate) of_endpoint: fn() -> Box<dyn Any>,
    /// Its operations.
    pub(crate) operations: &'static [Operation],
    /// The sorts of messages that it receives, and its receiver of replies.
    pub(crate) receives: &'static [Receiver],
    pub(crate) answers: Option<Answers>,
    /// A UCP handler for messages in another format, with its id, which is below the library's own.
    pub(crate) foreign: Option<(u32, Handler)>,
    /// When `pass` runs.
    pub(crate) turn: Turn,
    /// Does the available work. Called if its bit of `Worker::attention` is set. Returns the number
    /// of events.
    pub(crate) pass: fn(&Worker) -> u32,
    /// There is work to do before the worker may sleep.
    pub(crate) is_due: fn(&Worker) -> bool,
    /// When it must run again even if nothing arrives.
    pub(crate) next_look: fn(&Worker) -> Option<u64>,
    /// A progress thread has started or ended.
    pub(crate) thread_changed: fn(&SharedWorker),
    /// Its metrics of a worker.
    pub(crate) metrics: &'static [Metric<SharedWorker>],
    pub(crate) at_endpoint: fn(&Endpoint, OfEndpoint),
    pub(crate) at_end: fn(&Worker, OfWorker),
    /// Adds lines for people to a worker's description: what waits there, and for what.
    pub(crate) describe: fn(&Worker, &mut Vec<String>),
    /// The same for objects on the worker that the monitor also watches by themselves. Outside the
    /// gate.
    pub(crate) describe_objects: fn(&SharedWorker, &mut Vec<String>),
    /// The same for an endpoint.
    pub(crate) describe_endpoint: fn(&Endpoint, &mut Vec<String>),
}

impl Protocol {
    /// Its bit of `Worker::attention`.
    pub(crate) const fn bit(&self) -> u32 {
        attention::FIRST_OF_PROTOCOLS << self.place
    }

    /// A protocol that does nothing.
    pub(crate) const NOTHING: Protocol = Protocol {
        place: 0,
        of_worker: || Box::new(()),
        of_endpoint: || Box::new(()),
        operations: &[],
        receives: &[],
        answers: None,
        foreign: None,
        turn: Turn::First,
        pass: |_| 0,
        is_due: |_| false,
        next_look: |_| None,
        thread_changed: |_| {},
        metrics: &[],
        at_endpoint: |_, _| {},
        at_end: |_, _| {},
        describe: |_, _| {},
        describe_objects: |_, _| {},
        describe_endpoint: |_, _| {},
    };
}

/// The protocols of a worker.
#[derive(Clone, Copy)]
pub struct Protocols(&'static [&'static Protocol]);

impl Protocols {
    /// Each protocol must be at its own place.
    pub(crate) const fn new(list: &'static [&'static Protocol]) -> Self {
        assert!(list.len() <= MOST);
        let mut place = 0;
        while place < list.len() {
            assert!(list[place].place == place);
            place += 1;
        }
        Protocols(list)
    }

    fn states(self, of: impl Fn(&Protocol) -> Box<dyn Any>) -> States {
        States(std::array::from_fn(|place| match self.0.get(place) {
            Some(protocol) => of(protocol),
            None => Box::new(()),
        }))
    }

    /// The operations of all protocols.
    pub(crate) fn operations(self) -> Operations {
        Operations::new(self.0.iter().flat_map(|protocol| protocol.operations).copied())
    }

    /// The receivers for messages of the channel.
    pub(crate) fn receivers(self) -> Receivers {
        let receives = self.0.iter().flat_map(|protocol| protocol.receives).copied();
        Receivers::new(receives, self.0.iter().find_map(|protocol| protocol.answers))
    }

    /// Handlers of messages in other formats.
    pub(crate) fn foreign(self) -> impl Iterator<Item = (u32, Handler)> {
        self.0.iter().filter_map(|protocol| protocol.foreign)
    }

    /// Which protocols run when.
    pub(crate) fn turns(self) -> Turns {
        let mut turns = [0; 3];
        self.0.iter().for_each(|protocol| turns[protocol.turn as usize] |= protocol.bit());
        Turns(turns)
    }

    /// Their metrics of a worker.
    pub(crate) fn metrics(self) -> impl Iterator<Item = &'static [Metric<SharedWorker>]> {
        self.0.iter().map(|protocol| protocol.metrics)
    }

    /// Makes their states for a worker.
    pub(crate) fn of_worker(self) -> States {
        self.states(|protocol| (protocol.of_worker)())
    }

    /// Makes their states for an endpoint.
    pub(crate) fn of_endpoint(self) -> States {
        self.states(|protocol| (protocol.of_endpoint)())
    }
}

/// For each `Turn`, the bits of its protocols.
pub(crate) struct Turns([u32; 3]);

/// The state of each protocol for a worker or an endpoint.
pub(crate) struct States([Box<dyn Any>; MOST]);

// SAFETY: a state is accessible to the thread inside the gate, and to other threads only if it is
// `Sync`.
unsafe impl Send for States {}
// SAFETY: for the reason given at `Send`.
unsafe impl Sync for States {}

impl States {
    /// `T` is the type that `of_worker` or `of_endpoint` of the protocol at this place makes.
    #[inline(always)]
    fn get<T: Any>(&self, protocol: &Protocol) -> &T {
        let state = &self.0[protocol.place];
        debug_assert!(state.is::<T>());
        // SAFETY: each protocol has one function that asks, with the type that its own table makes.
        // Debug builds, which run every test, check the type.
        unsafe { &*std::ptr::from_ref::<dyn Any>(&**state).cast::<T>() }
    }
}

impl SharedWorker {
    /// The protocol's state for the worker, if any thread may use it.
    #[inline(always)]
    pub(crate) fn state_for_all<T: Any + Sync>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }
}

impl Worker {
    /// The protocol's state for the worker.
    #[inline(always)]
    pub(crate) fn state<T: Any>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }

    /// Runs `pass` of those protocols that have something to do.
    #[inline(always)]
    pub(crate) fn take_turn(&self, turn: Turn) -> u32 {
        let due = self.attention.get() & self.turns.0[turn as usize];
        if due == 0 {
            return 0;
        }
        self.take_turns(due)
    }

    #[inline(never)]
    fn take_turns(&self, mut due: u32) -> u32 {
        let mut handled = 0;
        while due != 0 {
            let place = due.trailing_zeros() - attention::FIRST_OF_PROTOCOLS.trailing_zeros();
            handled += (self.protocols.0[place as usize].pass)(self);
            due &= due - 1;
        }
        handled
    }

    pub(crate) fn is_protocol_due(&self) -> bool {
        self.protocols.0.iter().any(|protocol| (protocol.is_due)(self))
    }

    pub(crate) fn next_look_of_protocols(&self) -> Option<u64> {
        self.protocols.0.iter().filter_map(|protocol| (protocol.next_look)(self)).min()
    }
}

impl SharedWorker {
    pub(crate) fn describe_objects(&self, lines: &mut Vec<String>) {
        self.protocols.0.iter().for_each(|protocol| (protocol.describe_objects)(self, lines));
    }

    pub(crate) fn tell_thread_changed(&self) {
        self.protocols.0.iter().for_each(|protocol| (protocol.thread_changed)(self));
    }
}

impl Worker {
    pub(crate) fn describe_protocols(&self, lines: &mut Vec<String>) {
        self.protocols.0.iter().for_each(|protocol| (protocol.describe)(self, lines));
    }

    pub(crate) fn tell_end(&self, step: OfWorker) {
        self.protocols.0.iter().for_each(|protocol| (protocol.at_end)(self, step));
    }
}

impl SharedEndpoint {
    /// The protocol's state for the endpoint, if any thread may use it.
    #[inline(always)]
    pub(crate) fn state_for_all<T: Any + Sync>(&self, protocol: &Protocol) -> &T {
        self.states().get(protocol)
    }
}

impl Endpoint {
    /// The protocol's state for the endpoint.
    #[inline(always)]
    pub(crate) fn state<T: Any>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }

    pub(crate) fn describe_protocols(&self, lines: &mut Vec<String>) {
        self.worker
            .protocols
            .0
            .iter()
            .for_each(|protocol| (protocol.describe_endpoint)(self, lines));
    }

    pub(crate) fn tell_protocols(&self, what: OfEndpoint) {
        self.worker.protocols.0.iter().for_each(|protocol| (protocol.at_endpoint)(self, what));
    }
}
