//! What the core asks of the protocols above it, which it does not know by name: one table of
//! functions each.
//!
//! A worker is made with a list of them (`engine::assembly` has it). For each it keeps what the
//! protocol keeps of a worker, and each endpoint what that keeps of an endpoint: `state` finds it,
//! by the protocol's place in the list.

use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::Handler;
use crate::engine::core::channel::receivers::{Answers, Receiver, Receivers};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::operations::{Operation, Operations};
use crate::engine::core::worker::worker::{attention, SharedWorker, Worker};
use std::any::Any;

/// Protocols that a list may have.
const MOST: usize = 7;

/// When in a pass a protocol has its turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Before timeouts: what has come in time is none.
    First,
    /// After timeouts, before callbacks.
    Middle,
    /// After callbacks.
    Last,
}

/// What happens to an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfEndpoint {
    /// UCP has made its end.
    Made,
    /// The peer has closed. Inside UCP's progress.
    PeerCloses,
    /// Receives that were to end with it end now, with this status.
    EndsReceives(Status),
    /// It is about to end by force.
    BreaksOff,
    /// UCP is about to be told to let go.
    LetsGo,
    /// UCP has let go, and `on_close` comes next.
    Closed,
    /// The worker is about to forget it.
    Forgotten,
    /// The worker has ended, and with it all that UCP had.
    WorkerEnded,
}

/// Steps of a worker's end, in their order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OfWorker {
    /// What waits is cancelled.
    Cancels,
    /// UCP's worker is about to go: nothing of its may be held.
    BeforeUcpEnds,
    /// Every callback has run.
    Delivered,
    /// Handlers go.
    DropsHandlers,
}

/// A protocol, as the core sees it.
pub(crate) struct Protocol {
    /// Its place in the list.
    pub(crate) place: usize,
    /// What it keeps of each worker.
    pub(crate) of_worker: fn() -> Box<dyn Any>,
    /// What it keeps of each endpoint.
    pub(crate) of_endpoint: fn() -> Box<dyn Any>,
    /// Its operations.
    pub(crate) operations: &'static [Operation],
    /// Sorts of messages that it takes, and who takes answers.
    pub(crate) receives: &'static [Receiver],
    pub(crate) answers: Option<Answers>,
    /// A handler of UCP's for messages in another format, and its id, which is below the library's
    /// own.
    pub(crate) foreign: Option<(u32, Handler)>,
    /// When `pass` comes.
    pub(crate) turn: Turn,
    /// Does what there is to do, where its bit of `Worker::attention` asks for that; the number of
    /// events.
    pub(crate) pass: fn(&Worker) -> u32,
    /// Is there something to do before the worker may sleep?
    pub(crate) is_due: fn(&Worker) -> bool,
    /// When it wants to look around, though nothing comes.
    pub(crate) next_look: fn(&Worker) -> Option<u64>,
    /// A progress thread has begun, or has ended.
    pub(crate) thread_changed: fn(&SharedWorker),
    pub(crate) at_endpoint: fn(&Endpoint, OfEndpoint),
    pub(crate) at_end: fn(&Worker, OfWorker),
}

impl Protocol {
    /// Its bit of `Worker::attention`.
    pub(crate) const fn bit(&self) -> u32 {
        attention::FIRST_OF_PROTOCOLS << self.place
    }

    /// One that does nothing.
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
        at_endpoint: |_, _| {},
        at_end: |_, _| {},
    };
}

/// The protocols of a worker.
#[derive(Clone, Copy)]
pub struct Protocols(&'static [&'static Protocol]);

impl Protocols {
    /// Each at its place.
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

    /// What the core does not know of operations.
    pub(crate) fn operations(self) -> Operations {
        Operations::new(self.0.iter().flat_map(|protocol| protocol.operations).copied())
    }

    /// Who takes what the channel brings.
    pub(crate) fn receivers(self) -> Receivers {
        let receives = self.0.iter().flat_map(|protocol| protocol.receives).copied();
        Receivers::new(receives, self.0.iter().find_map(|protocol| protocol.answers))
    }

    /// Handlers of messages in other formats.
    pub(crate) fn foreign(self) -> impl Iterator<Item = (u32, Handler)> {
        self.0.iter().filter_map(|protocol| protocol.foreign)
    }

    /// Whose turn is when.
    pub(crate) fn turns(self) -> Turns {
        let mut turns = [0; 3];
        self.0.iter().for_each(|protocol| turns[protocol.turn as usize] |= protocol.bit());
        Turns(turns)
    }

    /// What they keep of a worker.
    pub(crate) fn of_worker(self) -> States {
        self.states(|protocol| (protocol.of_worker)())
    }

    /// What they keep of an endpoint.
    pub(crate) fn of_endpoint(self) -> States {
        self.states(|protocol| (protocol.of_endpoint)())
    }
}

/// By `Turn`: bits of the attention.
pub(crate) struct Turns([u32; 3]);

/// What each protocol keeps of a worker or an endpoint.
pub(crate) struct States([Box<dyn Any>; MOST]);

// SAFETY: it shows itself to those who are inside the gate, and to others where it is `Sync`.
unsafe impl Send for States {}
// SAFETY: as above.
unsafe impl Sync for States {}

impl States {
    /// `T` is what `of_worker`, or `of_endpoint`, of the protocol at this place makes.
    #[inline(always)]
    fn get<T: Any>(&self, protocol: &Protocol) -> &T {
        let state = &self.0[protocol.place];
        debug_assert!(state.is::<T>());
        // SAFETY: see above: each protocol has one function that asks, with the type that its own
        // table makes; in debug builds, which run every test, the type is looked at.
        unsafe { &*std::ptr::from_ref::<dyn Any>(&**state).cast::<T>() }
    }
}

impl SharedWorker {
    /// What the protocol keeps of the worker, where that is any thread's.
    #[inline(always)]
    pub(crate) fn state_for_all<T: Any + Sync>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }
}

impl Worker {
    /// What the protocol keeps of the worker.
    #[inline(always)]
    pub(crate) fn state<T: Any>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }

    /// The turn of those that have something to do.
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
    pub(crate) fn tell_thread_changed(&self) {
        self.protocols.0.iter().for_each(|protocol| (protocol.thread_changed)(self));
    }
}

impl Worker {
    pub(crate) fn tell_end(&self, step: OfWorker) {
        self.protocols.0.iter().for_each(|protocol| (protocol.at_end)(self, step));
    }
}

impl SharedEndpoint {
    /// What the protocol keeps of the endpoint, where that is any thread's.
    #[inline(always)]
    pub(crate) fn state_for_all<T: Any + Sync>(&self, protocol: &Protocol) -> &T {
        self.states().get(protocol)
    }
}

impl Endpoint {
    /// What the protocol keeps of the endpoint.
    #[inline(always)]
    pub(crate) fn state<T: Any>(&self, protocol: &Protocol) -> &T {
        self.states.get(protocol)
    }

    pub(crate) fn tell_protocols(&self, what: OfEndpoint) {
        self.worker.protocols.0.iter().for_each(|protocol| (protocol.at_endpoint)(self, what));
    }
}
