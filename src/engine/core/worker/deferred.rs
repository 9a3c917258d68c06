//! Work that a progress pass does after UCP's own progress has returned, and the record of user
//! callbacks on each thread.
//!
//! UCP's callbacks queue an `Event`, because UCP may not be called from them, and because user code
//! must run outside the gate. `handle_events` runs the events in the same pass, on the same thread.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::lasting::lasting;
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::Reply;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::endpoint::endpoint::{Callback, OnClose, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::LifeEvent;
use crate::engine::core::endpoint::listener::ConnRequest;
use crate::engine::core::request::notifier_events::Happened;
use crate::engine::core::request::request::{Part, SlotPointer, Ticket};
use crate::engine::core::worker::callback_depth::OwnCallbacks;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::protocol::OfEndpoint;
use crate::engine::core::worker::takeover::ProgressTakeover;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::shared_segment::SegmentName;
use crate::engine::wire::header::{Header, Hello, Kind};
use std::any::Any;
use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::Arc;

pub(crate) enum Event {
    /// UCP has lost the peer.
    Failed(Inward<SharedEndpoint>, Status),
    /// An attempt to connect, by its number, has failed: the next address is tried.
    Unanswered(Inward<SharedEndpoint>, u32, Status),
    /// An attempt to connect, by its number, was answered: queued sends go out.
    Connected(Inward<SharedEndpoint>, u32),
    /// The peer has answered: `on_open` is due.
    Opened(Inward<SharedEndpoint>),
    /// Released by UCP: `on_close` is due, with this status.
    Closed(Inward<SharedEndpoint>, Status),
    /// `ucxx_endpoint_destroy` was called from a callback.
    DestroyEndpoint(Inward<SharedEndpoint>),
    /// A client asks for a connection: `on_connect` is due.
    ConnectionRequest(Arc<ConnRequest>),
    /// A peer has made an endpoint to this worker. With this side's endpoint, if there is one, and
    /// UCP's reply endpoint.
    Hello(Option<Inward<SharedEndpoint>>, Box<Hello>, Reply),
    /// The peer has answered our Hello.
    Welcome(Inward<SharedEndpoint>, Box<Hello>),
    /// The peer refused us: it uses this protocol version.
    Refused(Inward<SharedEndpoint>, u8),
    /// A Hello must be sent to the peer.
    SendHello(Inward<SharedEndpoint>),
    /// A peer has closed its end of a connection. This side's end may not exist yet.
    Bye(Option<Inward<SharedEndpoint>>, Header, Reply),
    /// The peer asks for a sign of life.
    Ping(Inward<SharedEndpoint>),
    /// The sends that this flush waits for have completed: UCP's half of it starts.
    SendsEnded(Ticket),
    /// Work that a protocol has deferred to the end of the pass.
    Work(&'static Work, Payload),
    /// Receive buffers that were not taken.
    DropBuffers(Box<Making>),
    /// The peer has violated the protocol.
    ProtocolError(Inward<SharedEndpoint>, &'static str),
    /// The peer has offered a fast box, or one must be offered to it (None).
    FastBox(Inward<SharedEndpoint>, Option<SegmentName>),
    /// A report of consumed credit must be sent, which was not possible before.
    SendCredit(Inward<SharedEndpoint>),
}

impl Event {
    /// A message from a peer, or work that needs UCP.
    fn is_of_peer(&self) -> bool {
        use Event::{Bye, FastBox, Hello, Ping, ProtocolError, Refused, SendHello, Welcome};
        matches!(
            self,
            Hello(..)
                | Welcome(..)
                | Refused(..)
                | SendHello(_)
                | Bye(..)
                | Ping(..)
                | ProtocolError(..)
                | FastBox(..)
        )
    }
}

/// Deferred work of a protocol.
pub(crate) struct Work {
    pub(crate) run: fn(&Worker, Payload),
    /// Runs instead of `run` after UCP's worker was destroyed.
    pub(crate) too_late: fn(&Worker, Payload),
    /// It may post a receive for a message that arrived before the peer's Bye, so the Bye waits.
    pub(crate) comes_before_bye: bool,
}

/// The argument of the work.
pub(crate) enum Payload {
    Nothing,
    Request(Ticket),
    Endpoint(Inward<SharedEndpoint>),
    /// A received message that belongs to this work, and the operation that waits for it.
    Message(Ticket, SlotPointer),
    /// The same, with the handler that receives it and UCP's reply endpoint.
    MessageFor(SlotPointer, Option<Rc<dyn Any>>, Reply),
}

/// What a thread is doing at the moment.
struct Here {
    /// User callbacks on its stack, except those that `own` counts.
    callbacks: Cell<u32>,
    /// The count of the SINGLE workers that it has made.
    own: Cell<Option<&'static OwnCallbacks>>,
    /// The takeover that this thread must leave before it enters a user callback; or null.
    assistant: Cell<*const ProgressTakeover<'static>>,
}

lasting! {
    static HERE: Here = const {
        Here {
            callbacks: Cell::new(0),
            own: Cell::new(None),
            assistant: Cell::new(std::ptr::null()),
        }
    };
}

/// This thread is inside a user callback.
pub(crate) fn in_callback() -> bool {
    HERE.with(|here| {
        here.callbacks.get() > 0 || here.own.get().is_some_and(OwnCallbacks::are_running)
    })
}

/// The count for a SINGLE worker that this thread makes.
pub(crate) fn own_callbacks() -> &'static OwnCallbacks {
    let own = OwnCallbacks::take();
    HERE.with(|here| here.own.set(Some(own)));
    own
}

/// While this exists, its thread is inside a user callback. Stays on its thread.
pub(crate) struct CallbackScope(*const Here);

impl CallbackScope {
    /// Not inlined: a caller with a way around it would get the thread's own in any case.
    #[inline(never)]
    pub(crate) fn new() -> Self {
        HERE.with(|here| {
            here.callbacks.set(here.callbacks.get() + 1);
            if !here.assistant.get().is_null() {
                leave_to_its_thread(here);
            }
            CallbackScope(here)
        })
    }
}

impl Drop for CallbackScope {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this thread's own, which exists as long as the thread; the raw pointer keeps the
        // scope on this thread.
        let here = unsafe { &*self.0 };
        here.callbacks.set(here.callbacks.get() - 1);
    }
}

#[cold]
fn leave_to_its_thread(here: &Here) {
    let assistant = here.assistant.replace(std::ptr::null());
    // SAFETY: null, or it points into a call of `until_callback` on this thread's stack.
    if let Some(assistant) = unsafe { assistant.as_ref() } {
        assistant.leave();
    }
}

/// Runs `work`. The assistant leaves before the first user callback in it, if there is one.
pub(crate) fn until_callback(assistant: &ProgressTakeover, work: &dyn Fn()) {
    /// Restores the previous value on return.
    struct Again(*const ProgressTakeover<'static>);
    impl Drop for Again {
        fn drop(&mut self) {
            HERE.with(|here| here.assistant.set(self.0));
        }
    }
    let this = std::ptr::from_ref(assistant).cast();
    let _again = Again(HERE.with(|here| here.assistant.replace(this)));
    work();
}

impl Worker {
    /// Handles the events that are queued now. Leaves the gate around each user callback.
    pub(crate) fn handle_events(&self) -> u32 {
        let mut handled = 0;
        let mut left = self.events.borrow().len();
        while left > 0 {
            left -= 1;
            let Some(event) = self.events.borrow_mut().pop_front() else { break };
            handled += 1;
            if self.is_over.get() && event.is_of_peer() {
                continue;
            }
            match event {
                Event::Failed(endpoint, status) => endpoint.fail(status),
                Event::Unanswered(endpoint, attempt, status) => {
                    endpoint.attempt_failed(attempt, status)
                }
                Event::Connected(endpoint, attempt) => endpoint.connected(attempt),
                Event::ConnectionRequest(request) => self.hand_out(request),
                Event::Hello(endpoint, hello, reply) => self.hello_came(endpoint, &hello, reply),
                Event::SendHello(endpoint) => endpoint.break_silence(),
                Event::Welcome(endpoint, hello) => endpoint.met(&hello),
                Event::Refused(endpoint, version) => endpoint.refused(version),
                Event::Bye(Some(endpoint), header, reply)
                    if endpoint.may_postpone_bye() && self.has_work_before_bye() =>
                {
                    // A receive of frames that is still to be posted may have arrived before it.
                    self.events.borrow_mut().push_back(Event::Bye(Some(endpoint), header, reply));
                }
                bye @ Event::Bye(..) if self.inbox.is_behind() => self.inbox.keep_bye(bye),
                Event::Bye(endpoint, header, reply) => self.bye_came(endpoint, &header, reply),
                Event::Ping(endpoint) => {
                    endpoint.say(Kind::Pong, 0, Part::Nothing);
                }
                Event::ProtocolError(endpoint, why) => endpoint.broken(why),
                Event::SendCredit(endpoint) => endpoint.grant(),
                Event::FastBox(endpoint, None) => endpoint.offer_fast_box(),
                Event::FastBox(endpoint, Some(name)) => endpoint.fast_box_came(&name),
                Event::Work(work, payload) if self.is_over.get() => (work.too_late)(self, payload),
                Event::Work(work, payload) => (work.run)(self, payload),
                Event::SendsEnded(flush) => self.flush_after_sends(flush),
                Event::DropBuffers(making) => self.outside(|| drop(making)),
                Event::Opened(endpoint) => {
                    if endpoint.phase() == Phase::Open {
                        endpoint.log_transports();
                        self.call_endpoint(&endpoint, endpoint.on_open.take(), Status::OK);
                    }
                }
                Event::Closed(endpoint, status) => {
                    endpoint.log_end(status);
                    endpoint.tell_protocols(OfEndpoint::Closed);
                    self.tell_never_writable(&endpoint);
                    match endpoint.on_close.take() {
                        Some(OnClose::Callback(callback, arg)) => {
                            self.call_endpoint(&endpoint, Some((callback, arg)), status);
                        }
                        Some(OnClose::Notifier(target)) => {
                            self.report_event(&target, Happened::EndpointClosed, status);
                        }
                        None => {}
                    }
                    endpoint.on(LifeEvent::Reports);
                    if self.thread.is_used() {
                        self.thread.room.notify();
                    }
                }
                Event::DestroyEndpoint(endpoint) => {
                    endpoint.begin_destroy();
                    if self.thread.is_running() {
                        // The ring may still hold entries of other threads that refer to it.
                        self.graves.borrow_mut().push(endpoint);
                    }
                }
            }
        }
        handled
    }

    fn has_work_before_bye(&self) -> bool {
        self.events
            .borrow()
            .iter()
            .any(|event| matches!(event, Event::Work(work, _) if work.comes_before_bye))
    }

    /// Handles messages from peers, and leaves the other events queued.
    pub(crate) fn listen_to_peers(&self) {
        let count = self.events.borrow().len();
        for _ in 0..count {
            let Some(event) = self.events.borrow_mut().pop_front() else { break };
            match event {
                Event::Hello(endpoint, hello, reply) => self.hello_came(endpoint, &hello, reply),
                other => self.events.borrow_mut().push_back(other),
            }
        }
    }

    pub(crate) fn call_endpoint(
        &self,
        endpoint: &Inward<SharedEndpoint>,
        callback: Option<(Callback, *mut c_void)>,
        status: Status,
    ) {
        let Some((callback, arg)) = callback else { return };
        endpoint.life.running.fetch_add(1, Ordering::AcqRel);
        // SAFETY: a callback and its argument as the user registered them; the endpoint is valid
        // during the call.
        self.outside(|| unsafe {
            callback.call_out((arg, Arc::as_ptr(endpoint.outward()).cast_mut(), status.0))
        });
        endpoint.life.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Leaves the gate, runs user code, and enters again.
    #[inline]
    pub(crate) fn outside(&self, user_code: impl FnOnce()) {
        self.outside_as::<false>(user_code);
    }

    /// The same. `ALONE`: on the thread of a SINGLE worker, in a pass that the caller has made,
    /// where this thread assists no other worker.
    #[inline(always)]
    pub(crate) fn outside_as<const ALONE: bool>(&self, user_code: impl FnOnce()) {
        self.delivering.set(self.delivering.get() + 1);
        if let Some(own) = self.own_callbacks.filter(|_| ALONE) {
            own.begin();
            self.gate.leave_fast();
            user_code();
            self.gate.come_back_fast();
            own.end();
        } else {
            self.leave();
            {
                let _scope = CallbackScope::new();
                user_code();
            }
            self.gate.enter_again();
        }
        self.delivering.set(self.delivering.get() - 1);
    }
}
