//! The queue form of active messages, in UCXX's format: messages wait at their endpoint until they
//! are received.
//!
//! UCP's handler takes a message over. After the pass, when its sender is known, it is put into its
//! endpoint's queue. Then messages are given to receives, both in order; user code makes the
//! buffers. If a receive is cancelled meanwhile, the message stays where it was. A message that
//! names a handler goes to that handler instead, like a multi-buffer message of one frame (see
//! `messaging::am::multi`). There is no credit: like UCXX's, the queue is unbounded.
//!
//! `Front` is an atomic with the length of the oldest message, for probes by any thread.

use crate::engine::base::log::{self, Component};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch::bytes;
use crate::engine::core::channel::dispatch::{complain, Reply};
use crate::engine::core::channel::handler_table::Handler;
use crate::engine::core::channel::message::{Form, Inbound, Sort};
use crate::engine::core::channel::receive::Arrived;
use crate::engine::core::channel::receive_buffers::Allocator;
use crate::engine::core::channel::receive_buffers::Making;
use crate::engine::core::channel::send::send_by_ucp;
use crate::engine::core::channel::send::Outgoing;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot, SlotPointer, Ticket};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::request::submit::Sending;
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::deferred::{Payload, Work};
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::am::multi::MultiHandler;
use crate::engine::ucx::context::feature;
use crate::engine::ucx::memory_type;
use crate::engine::wire::header;
use crate::engine::wire::ucxx_am::{CallbackName, Envelope, UCXX_ID};
use crate::sys;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Value of `Front` while no message waits.
const NONE: u64 = u64::MAX;
/// The types of memory, in UCX's numbers, of which receives make buffers. For all others they make
/// host memory.
const MADE: [i32; 2] = [sys::UCS_MEMORY_TYPE_HOST as i32, sys::UCS_MEMORY_TYPE_CUDA as i32];
const NOBODY: &str = "this worker has no open endpoint to its sender";

/// A message for a handler, and the handler.
type Named = (*const Slot, Rc<Handler<MultiHandler>>);

/// The queue of one endpoint.
#[derive(Default)]
pub(crate) struct MessageQueue {
    messages: RefCell<VecDeque<*const Slot>>,
    receives: RefCell<VecDeque<Ticket>>,
    /// Messages for handlers.
    named: RefCell<VecDeque<Named>>,
    /// A thread is passing them to their handlers.
    naming: Cell<bool>,
}

impl MessageQueue {
    fn pop_named(&self) -> Option<Named> {
        self.named.borrow_mut().pop_front()
    }
}

/// Length of the oldest message, for any thread.
pub(crate) struct Front(AtomicU64);

impl Default for Front {
    fn default() -> Self {
        Front(AtomicU64::new(NONE))
    }
}

impl Endpoint {
    /// For people: messages that no receive has taken.
    pub(super) fn describe_queue(&self, lines: &mut Vec<String>) {
        let messages = self.message_queue().messages.borrow();
        if messages.is_empty() {
            return;
        }
        // SAFETY: messages of this worker that nothing else uses.
        let bytes: u64 = messages.iter().map(|slot| unsafe { &**slot }.length.get()).sum();
        lines.push(format!(
            "its queue has {} messages of {bytes} bytes that the program has not received \
            (ucxx_am_queue_recv)",
            messages.len()
        ));
    }

    fn show_front(&self) {
        let messages = self.message_queue().messages.borrow();
        // SAFETY: a message of this worker that nothing else uses.
        let length = messages.front().map_or(NONE, |slot| unsafe { &**slot }.length.get());
        self.queue_front().0.store(length, Ordering::Relaxed);
    }

    fn pop_message(&self) -> Option<*const Slot> {
        let message = self.message_queue().messages.borrow_mut().pop_front();
        self.show_front();
        message
    }
}

/// What is sent in addition to the data.
#[derive(Clone, Copy)]
pub struct Cover<'a> {
    /// The handler; None for the peer's queue.
    pub callback: Option<CallbackName>,
    /// The receiver fails rather than use another type of memory.
    pub exact_memory: bool,
    /// Copied.
    pub header: &'a [u8],
}

/// A message has arrived for an endpoint's queue, or for a handler that it names.
static CAME: Work = Work { run: came, too_late: came, comes_before_bye: false };

fn came(worker: &Worker, payload: Payload) {
    if let Payload::MessageFor(message, handler, from) = payload {
        let handler = handler.and_then(|handler| handler.downcast::<Handler<MultiHandler>>().ok());
        worker.queue_message_came(message, handler, from);
    }
}

/// There are messages in the queue, and receives that wait for some.
static WAITS: Work = Work {
    run: |_, payload| {
        if let Payload::Endpoint(endpoint) = payload {
            endpoint.match_queue();
        }
    },
    too_late: |_, _| {},
    comes_before_bye: false,
};

/// `Operation::post` of such a message, whose slot contains its header.
pub(crate) fn post_to_queue(
    _: &Worker,
    slot: &Slot,
    queued: &Queued,
    to: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let length = queued.outgoing.user_header.into();
    let header = (slot.room(length).cast_const().cast(), length);
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    // UCXX finds its endpoint by this flag.
    param.flags(sys::UCP_AM_SEND_FLAG_REPLY | queued.tag as u32);
    param.let_ucx_describe(slot);
    let ucp = to.map_or(std::ptr::null_mut(), |to| to.ucp.get());
    let data = (queued.buffer.cast_const(), queued.count);
    // SAFETY: an open endpoint inside its worker's gate; the caller keeps the buffer, and the
    // worker the slot.
    unsafe { send_by_ucp(ucp, UCXX_ID, header, data, param.as_ptr()) }
}

impl SharedEndpoint {
    /// Sends the parts as one message for its peer's queue, or for a handler.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed; `out` is valid.
    pub unsafe fn am_queue_send(
        &self,
        cover: Cover<'_>,
        parts: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        const ALLOWED: u64 = flag::NO_WAIT | flag::EAGER | flag::RNDV;
        params.check(&self.worker().context, "message to a queue", ALLOWED)?;
        let protocol = match params.flags & (flag::EAGER | flag::RNDV) {
            0 => 0,
            flag::EAGER => sys::UCP_AM_SEND_FLAG_EAGER,
            _ => sys::UCP_AM_SEND_FLAG_RNDV,
        };
        request_wait::submit(params, out, |params, out| {
            let worker = self.worker();
            let memory_type = memory_type_of(worker, parts, params)?;
            let length = parts.iter().map(|part| part.length).sum();
            let told = memory_type.unwrap_or(sys::UCS_MEMORY_TYPE_HOST) as i32;
            let envelope = Envelope {
                memory_type: told,
                callback: cover.callback,
                exact_memory: cover.exact_memory,
                user_header: cover.header,
            };
            self.check_envelope(&envelope)?;
            // The field of the tag contains the protocol flags.
            let tag = u64::from(protocol);
            let describe = |slot: &Slot| {
                let outgoing = Outgoing::with_header(envelope.length() as u16);
                // SAFETY: room for the envelope, in a slot that only this operation uses.
                let room = unsafe {
                    std::slice::from_raw_parts_mut(slot.room(envelope.length()), envelope.length())
                };
                envelope.encode(room);
                let (buffer, count, scattered) = describe_parts(slot, parts);
                Queued {
                    buffer,
                    count,
                    scattered,
                    tag,
                    memory_type,
                    outgoing,
                    endpoint: self,
                    ..Queued::NOTHING
                }
            };
            let sending = Sending { kind: Kind::AmQueueSend, need: Need::of(length), tag: 0 };
            self.submit_send(sending, feature::AM, params, out, |_| Ok(describe), post_to_queue)
        })
    }

    /// Refuses a header that is too long for UCX, which does not check it.
    fn check_envelope(&self, envelope: &Envelope<'_>) -> Result<()> {
        let most = (self.worker().longest_am_header() + header::HEADER).min(u16::MAX.into());
        if envelope.length() <= most {
            return Ok(());
        }
        let most = most.saturating_sub(envelope.length() - envelope.user_header.len());
        let length = envelope.user_header.len();
        Err(Error::invalid(format!(
            "header_length: {length} bytes are more than the {most} that the transports carry"
        )))
    }

    /// Receives the oldest unreceived message, now or when it arrives, into a buffer that is
    /// allocated for it.
    ///
    /// # Safety
    /// `params.recv_info` is valid until the operation has completed; `out` is valid.
    pub unsafe fn am_queue_recv(
        &self,
        allocator: Allocator,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        params.check(&self.worker().context, "receive from a queue", 0)?;
        let making = || Some(Making::by(allocator));
        if self.worker().must_submit_remotely(params) {
            self.check_open_outside()?;
            self.worker().need(feature::AM)?;
            return self.worker().delay(Kind::AmQueueRecv, 0, params, out, |slot| {
                slot.making.set(making());
                slot.inbound.set(Inbound::NOTHING);
                Queued { endpoint: self, ..Queued::NOTHING }
            });
        }
        let inside = self.enter()?;
        self.check_open()?;
        inside.worker.need(feature::AM)?;
        let slot = inside.worker.take_slot();
        slot.begin(Kind::AmQueueRecv, params, 0, 0, out.is_wanted());
        trace::submitted(slot, Some(&inside));
        slot.making.set(making());
        slot.inbound.set(Inbound::NOTHING);
        inside.worker.start(slot, Some(&inside), params, out);
        inside.await_message(slot);
        Ok(Submitted::Pending)
    }
}

impl Endpoint {
    /// Queues a started receive until its turn.
    pub(crate) fn await_message(&self, slot: &Slot) {
        // Until it has a message.
        slot.number.set(1);
        self.message_queue().receives.borrow_mut().push_back(slot.ticket());
        self.match_later();
    }

    fn match_later(&self) {
        if let (false, Some(endpoint)) =
            (self.message_queue().messages.borrow().is_empty(), self.registered())
        {
            self.worker.push_event(Event::Work(&WAITS, Payload::Endpoint(endpoint)));
        }
    }
}

impl SharedEndpoint {
    /// The length of the oldest unreceived message; None if there is none. Any thread.
    pub fn am_queue_probe(&self) -> Option<u64> {
        Some(self.queue_front().0.load(Ordering::Relaxed)).filter(|length| *length != NONE)
    }
}

impl Endpoint {
    /// Gives messages to handlers and receives. After UCP's pass.
    pub(crate) fn match_queue(&self) {
        // One thread at a time, which also handles what arrives meanwhile: a second thread would
        // change the order while this one makes buffers.
        if !self.message_queue().naming.replace(true) {
            self.match_named();
            self.message_queue().naming.set(false);
        }
        loop {
            let Some(receive) = self.next_queue_receive() else { return };
            let Some(message) = self.pop_message() else { return };
            self.message_queue().receives.borrow_mut().pop_front();
            // SAFETY: a message of this worker that nothing else uses.
            if !self.worker.make_room(receive, unsafe { &*message }) {
                self.message_queue().messages.borrow_mut().push_front(message);
                self.show_front();
            }
        }
    }

    fn match_named(&self) {
        while let Some((message, handler)) = self.message_queue().pop_named() {
            // SAFETY: a message of this worker that nothing else uses.
            let message = unsafe { &*message };
            match self.registered().filter(|_| self.takes_messages()) {
                Some(endpoint) => self.worker.arrive(message, &endpoint, handler),
                None => {
                    self.worker.message_gone(message);
                    self.worker.drop_handler(handler);
                }
            }
        }
    }

    fn next_queue_receive(&self) -> Option<Ticket> {
        let mut receives = self.message_queue().receives.borrow_mut();
        while let Some(ticket) = receives.front() {
            if ticket.current().is_some() {
                return Some(*ticket);
            }
            receives.pop_front();
        }
        None
    }

    /// If this receive has no message yet, removes it, so that it gets none.
    pub(crate) fn forget_queue_receive(&self, slot: &Slot) -> bool {
        let mut receives = self.message_queue().receives.borrow_mut();
        let before = receives.len();
        receives.retain(|ticket| !std::ptr::eq(ticket.slot, slot));
        receives.len() < before
    }

    /// Drops all messages: no receive can get them any more.
    pub(crate) fn drop_queue(&self) {
        while let Some(message) = self.pop_message() {
            // SAFETY: a message of this worker that nothing else uses.
            self.worker.message_gone(unsafe { &*message });
        }
        while let Some((message, handler)) = self.message_queue().pop_named() {
            // SAFETY: a message of this worker that nothing else uses.
            self.worker.message_gone(unsafe { &*message });
            self.worker.drop_handler(handler);
        }
    }
}

impl Worker {
    /// Inside UCP's handler: takes a message in UCXX's format over, or drops it. Returns the
    /// handler's result.
    pub(crate) fn queued_came(&self, header: &[u8], arrived: &Arrived) -> sys::ucs_status_t {
        let dropped = |status| if arrived.waits { status } else { sys::UCS_OK };
        let envelope = match Envelope::decode(header) {
            Ok(envelope) => envelope,
            Err(why) => {
                complain(Component::Am, self, why);
                return dropped(sys::UCS_ERR_INVALID_PARAM);
            }
        };
        let handler = envelope.callback.map(|name| self.queue_handlers().find(&name));
        if let (Some(name), Some(None)) = (envelope.callback, &handler) {
            self.stats.am_unhandled.add(1);
            log::at!(INFO, Am, self, "a message has no handler: {name}");
            return dropped(sys::UCS_ERR_NO_ELEM);
        }
        if envelope.user_header.len() > u16::MAX.into() {
            complain(
                Component::Am,
                self,
                "a message in UCXX's format whose header has more than 65,535 bytes",
            );
            return dropped(sys::UCS_ERR_INVALID_PARAM);
        }
        // As in UCXX, data that has arrived may be in host memory.
        if arrived.waits && envelope.is_refused(&MADE) {
            complain(
                Component::Am,
                self,
                "a message in UCXX's format for a type of memory that is not made here",
            );
            return sys::UCS_ERR_UNSUPPORTED;
        }
        let gone = self
            .endpoint_by_ucp(arrived.from)
            .is_some_and(|endpoint| endpoint.phase() != Phase::Open);
        if gone || arrived.from.is_null() {
            complain(Component::Am, self, NOBODY);
            return dropped(sys::UCS_ERR_CANCELED);
        }
        let cuda = envelope.memory_type == sys::UCS_MEMORY_TYPE_CUDA as i32;
        let flags = (memory_type::of_frame(cuda) as u16) << header::flag::MEMORY;
        let described = header::Header { flags, ..header::Header::of(header::Kind::Message) };
        let (slot, keeps) = self.keep_arrived(&described, envelope.user_header, arrived);
        slot.number.set(0);
        debug_assert!(slot.inbound().form != Form::Gone);
        let handler = handler.flatten();
        if handler.is_some() {
            slot.inbound.set(Inbound { sort: Sort::Named, ..slot.inbound.get() });
        }
        let handler = handler.map(|handler| handler as Rc<dyn Any>);
        self.push_event(Event::Work(
            &CAME,
            Payload::MessageFor(SlotPointer(slot), handler, Reply(arrived.from)),
        ));
        keeps
    }

    /// After UCP's pass, and after its sender's Hello, which may have arrived in the same pass.
    pub(crate) fn queue_message_came(
        &self,
        message: SlotPointer,
        handler: Option<Rc<Handler<MultiHandler>>>,
        from: Reply,
    ) {
        let endpoint = self.endpoint_by_ucp(from.0);
        let Some(endpoint) =
            endpoint.filter(|endpoint| endpoint.phase() == Phase::Open && !self.is_over.get())
        else {
            complain(Component::Am, self, NOBODY);
            // SAFETY: a message of this worker that nothing else uses.
            self.message_gone(unsafe { &*message.0 });
            return handler.into_iter().for_each(|handler| self.drop_handler(handler));
        };
        endpoint.heard();
        match handler {
            Some(handler) => {
                endpoint.message_queue().named.borrow_mut().push_back((message.0, handler))
            }
            None => {
                endpoint.message_queue().messages.borrow_mut().push_back(message.0);
                endpoint.show_front();
            }
        }
        endpoint.match_queue();
    }

    /// Ends a receive that has no message.
    pub(crate) fn cancel_queue_receive(&self, slot: &Slot, reason: Status) {
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let waits = unsafe { slot.endpoint.get().as_ref() }
            .is_some_and(|endpoint| endpoint.forget_queue_receive(slot));
        if waits {
            slot.reason.set(reason.0);
            self.complete(slot, reason);
        }
    }
}

/// UCP's handler of messages in UCXX's format.
pub(crate) unsafe extern "C" fn on_foreign(
    arg: *mut c_void,
    header: *const c_void,
    header_length: usize,
    data: *mut c_void,
    length: usize,
    param: *const sys::ucp_am_recv_param_t,
) -> sys::ucs_status_t {
    let answer = std::panic::catch_unwind(|| {
        // SAFETY: `arg` is the worker, which outlives UCP's worker, inside its gate; the message is
        // valid during the call.
        let (worker, param, header) =
            unsafe { (&*arg.cast::<Worker>(), &*param, bytes(header, header_length)) };
        worker.queued_came(header, &Arrived::new(data, length, param))
    });
    answer.unwrap_or(sys::UCS_OK)
}
