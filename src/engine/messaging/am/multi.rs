//! Multi-buffer transfer in one active message: a table of the frames comes before the user's
//! header, and the frames are its data.
//!
//! The message is received as any other, in order and for its credit. Then the allocator of its
//! handler makes all buffers for its frames, and they are filled: copied if the data arrived with
//! the message, pulled directly into them if it waits at its sender. The handler runs when they are
//! full, in the order in which the messages of an endpoint arrived. So a short message does not
//! overtake a long one that is still being pulled. Until then a message holds its credit.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::handler_table::Handler;
use crate::engine::core::channel::message::{Form, Inbound, Sort};
use crate::engine::core::channel::receive_buffers::{Allocator, Buffers, Frame};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, Part};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part as Of, Slot, SlotPointer};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::deferred::{Payload, Work};
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::stats::Arrival;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::messaging::am::send::Front;
use crate::engine::ucx::memory_type;
use crate::engine::wire::header;
use crate::engine::wire::multi_table::{self, Described, Prefix};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::Arc;

/// `ucxx_multi_handler_t`: argument, endpoint, header, its length, buffers, status.
pub type MultiFunction = unsafe extern "C" fn(
    *mut c_void,
    *const SharedEndpoint,
    *const c_void,
    usize,
    *mut Buffers,
    i32,
);

/// The registration of an id.
#[derive(Clone, Copy)]
pub struct MultiHandler {
    /// Called for each message.
    pub function: MultiFunction,
    /// Makes its buffers.
    pub allocator: Allocator,
}

/// A message whose handler has not run yet.
struct Arriving {
    /// The message, until the handler has run.
    message: SlotPointer,
    handler: Rc<Handler<MultiHandler>>,
    buffers: Option<Buffers>,
    /// Table and data together, on the way to the frames.
    scratch: Vec<u8>,
    /// INPROGRESS while it is being pulled.
    status: Status,
    number: u64,
}

/// The multi-buffer messages of an endpoint, oldest first.
#[derive(Default)]
pub(crate) struct Arrivals {
    list: RefCell<VecDeque<Arriving>>,
    /// A thread is delivering them: a second one would change their order.
    busy: Cell<bool>,
    numbers: Cell<u64>,
}

/// More bytes than this are not kept for the next message.
const MOST_KEPT: usize = 1 << 16;

thread_local! {
    /// Prefix, table and header of a message that is being described. The memory is reused.
    static FRONT: RefCell<(Vec<u8>, Vec<u8>)> = const { RefCell::new((Vec::new(), Vec::new())) };
}

/// A message of the peer was pulled.
static PULLED: Work = Work {
    run: |_, payload| {
        if let Payload::Endpoint(endpoint) = payload {
            endpoint.deliver_multis();
        }
    },
    too_late: |_, payload| {
        if let Payload::Endpoint(endpoint) = payload {
            endpoint.drop_multis();
        }
    },
    comes_before_bye: false,
};

impl SharedEndpoint {
    /// Sends a header, which is copied, and the parts as one message. The receiver gets each part
    /// in its own buffer.
    ///
    /// # Safety
    /// The parts are readable until the operation has completed, and `out` is valid.
    pub unsafe fn am_send_multi(
        &self,
        id: u16,
        header: &[u8],
        parts: &[Part],
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        const ALLOWED: u64 = flag::NO_WAIT | flag::EAGER | flag::RNDV | flag::AM_REPLY;
        params.check(&self.worker().context, "multi-buffer message", ALLOWED)?;
        let most = self.worker().longest_am_header();
        let prefix = Prefix::new(parts.len(), most.saturating_sub(header.len()));
        if prefix.in_data && parts.iter().any(|part| part.length > 0 && self.may_be_device(part)) {
            let text = format!(
                "count: {} frames are too many for one message from device memory; send fewer, or \
                set UCXX_MEMORY_HOST in memory_type if it is host memory",
                parts.len()
            );
            return Err(Error::new(Status::UNSUPPORTED, text));
        }
        let (mut front, mut table) = FRONT.try_with(RefCell::take).unwrap_or_default();
        front.clear();
        table.clear();
        prefix.encode(&mut front);
        let told = if prefix.in_data { &mut table } else { &mut front };
        for part in parts {
            memory_type::check(part.memory_type)?;
            multi_table::describe(
                Described { length: part.length, memory_type: part.memory_type },
                told,
            );
        }
        front.extend_from_slice(header);
        let message = Front { header: &front, table: &table };
        // SAFETY: the caller guarantees the parts and `out`.
        let sent =
            unsafe { self.send_message(header::Kind::Multi, id, message, parts, params, out) };
        if front.capacity() + table.capacity() <= MOST_KEPT {
            let _ = FRONT.try_with(|kept| kept.replace((front, table)));
        }
        sent
    }
}

impl Endpoint {
    /// Delivers the messages that are complete and have no incomplete one before them.
    pub(crate) fn deliver_multis(&self) {
        if self.arrivals().busy.replace(true) {
            return;
        }
        loop {
            let mut list = self.arrivals().list.borrow_mut();
            if list.front().is_none_or(|first| first.status == Status::INPROGRESS) {
                break;
            }
            let Some(first) = list.pop_front() else { break };
            drop(list);
            self.worker.call_multi(first);
        }
        self.arrivals().busy.set(false);
    }

    /// Takes the memory that the message with this number is being pulled into.
    pub(crate) fn memory_of_multi(&self, number: u64) -> Option<(Vec<u8>, Option<Buffers>)> {
        let take = |arriving: &mut Arriving| {
            (std::mem::take(&mut arriving.scratch), arriving.buffers.take())
        };
        self.arrivals().with(number, take)
    }

    /// Drops the messages that no handler will get: UCP's worker was destroyed.
    pub(crate) fn drop_multis(&self) {
        while let Some(Arriving { message, handler, buffers, .. }) = self.arrivals().take_first() {
            self.worker.outside(|| drop(buffers));
            self.worker.drop_handler(handler);
            // SAFETY: a message of this worker that nothing else uses.
            self.worker.multi_gone(unsafe { &*message.0 });
        }
    }
}

impl Arrivals {
    fn take_first(&self) -> Option<Arriving> {
        self.list.borrow_mut().pop_front()
    }

    fn with<T>(&self, number: u64, change: impl FnOnce(&mut Arriving) -> T) -> Option<T> {
        self.list.borrow_mut().iter_mut().find(|known| known.number == number).map(change)
    }
}

impl SharedWorker {
    /// Calls `function` for multi-buffer messages with this id from now on; None drops them. See
    /// `set_am_handler`.
    pub fn set_multi_handler(
        &self,
        id: u16,
        handler: Option<MultiHandler>,
        arg: *mut c_void,
        destroy: Option<crate::engine::core::channel::handler_table::DestroyArg>,
    ) -> Result<()> {
        self.set_handler(|inside| inside.multi_handlers(), id, handler, arg, destroy)
    }
}

impl Worker {
    /// A message of this kind is due. After UCP's pass.
    pub(crate) fn dispatch_multi(&self, slot: &Slot, endpoint: &Inward<SharedEndpoint>) {
        let inbound = slot.inbound();
        let Some(handler) = self.multi_handlers().find(inbound.id) else {
            self.stats.am_unhandled.add(1);
            log::at!(
                INFO,
                Am,
                &**endpoint,
                "a multi-buffer message has no handler: id {}",
                inbound.id
            );
            return self.message_gone(slot);
        };
        let replies = inbound.flags & header::flag::REPLY != 0;
        self.arrive_with(slot, endpoint, handler, replies);
    }

    /// A message for this handler is due, with an endpoint to reply on. After UCP's pass.
    pub(crate) fn arrive(
        &self,
        slot: &Slot,
        endpoint: &Inward<SharedEndpoint>,
        handler: Rc<Handler<MultiHandler>>,
    ) {
        self.arrive_with(slot, endpoint, handler, true);
    }

    fn arrive_with(
        &self,
        slot: &Slot,
        endpoint: &Inward<SharedEndpoint>,
        handler: Rc<Handler<MultiHandler>>,
        replies: bool,
    ) {
        if replies {
            slot.inbound.set(Inbound { reply: endpoint.clone().into_raw(), ..*slot.inbound() });
        }
        self.stats.arrived(Arrival::MultiMessage, slot.length.get());
        let number = endpoint.arrivals().numbers.get() + 1;
        endpoint.arrivals().numbers.set(number);
        let message = SlotPointer(slot);
        let mut arriving = Arriving {
            message,
            handler,
            buffers: None,
            scratch: Vec::new(),
            status: Status::OK,
            number,
        };
        arriving.status = self.make_ready(slot, &mut arriving).unwrap_or_else(|status| status);
        let pulls = arriving.status == Status::INPROGRESS;
        endpoint.arrivals().list.borrow_mut().push_back(arriving);
        if pulls {
            self.pull_frames(slot, endpoint, number);
        }
        endpoint.deliver_multis();
    }

    /// Makes buffers for the frames of a message, and fills them if its data is here: OK.
    /// INPROGRESS if the data must be pulled: into the buffers, or, together with the table that
    /// describes them, into the library's own memory.
    fn make_ready(
        &self,
        slot: &Slot,
        arriving: &mut Arriving,
    ) -> std::result::Result<Status, Status> {
        let (inbound, length) = (slot.inbound(), slot.length.get() as usize);
        let allocator = arriving.handler.function.allocator;
        let prefix = prefix_of(slot).map_err(|_| Status::IO_ERROR)?;
        if prefix.count > allocator.max_frames || length > allocator.max_total_bytes {
            return Err(Status::EXCEEDS_LIMIT);
        }
        let waits = inbound.form == Form::Waiting;
        if prefix.in_data && waits {
            arriving.scratch.try_reserve_exact(length).map_err(|_| Status::NO_MEMORY)?;
            return Ok(Status::INPROGRESS);
        }
        let only;
        let table = if inbound.sort == Sort::Named {
            // Data that arrived with the message is in host memory.
            let memory_type = if waits { inbound.memory_type() } else { memory_type::HOST };
            only = multi_table::entry(Described { length, memory_type });
            &only[..]
        } else {
            &slot.front()[multi_table::PREFIX..prefix.length]
        };
        if is_mixed(table) {
            return Err(Status::IO_ERROR);
        }
        let made = if waits {
            self.make_frames(allocator, table)
        } else {
            // SAFETY: the message's data, which is here and belongs to it until it is destroyed.
            let data =
                unsafe { crate::engine::core::channel::dispatch::bytes(inbound.data, length) };
            let in_data = if prefix.in_data { prefix.count * multi_table::ENTRY } else { 0 };
            let (table_in_data, data) = data.split_at(in_data);
            self.fill_frames(allocator, if prefix.in_data { table_in_data } else { table }, data)
        };
        arriving.buffers = Some(made.map_err(|error| error.status())?);
        Ok(if waits && length > 0 { Status::INPROGRESS } else { Status::OK })
    }

    fn make_frames(&self, allocator: Allocator, table: &[u8]) -> Result<Buffers> {
        self.make_buffers(
            allocator,
            multi_table::frames(table).map(|frame| (frame.length, frame.memory_type)),
        )
    }

    /// The same, and fills them.
    fn fill_frames(&self, allocator: Allocator, table: &[u8], data: &[u8]) -> Result<Buffers> {
        if multi_table::check_table(table, data.len()).is_err() {
            return Err(Error::new(
                Status::IO_ERROR,
                "a multi-buffer message whose frames are not its data",
            ));
        }
        if multi_table::frames(table).any(|frame| is_on_device(frame.length, frame.memory_type)) {
            // Senders make it wait, so that UCX writes it into device memory.
            return Err(Error::new(Status::UNSUPPORTED, "frames of device memory that came along"));
        }
        let buffers = self.make_frames(allocator, table)?;
        let mut from = data.as_ptr();
        for index in 0..buffers.count() {
            let frame = buffers.get(index)?;
            if frame.length > 0 {
                // SAFETY: together the frames are as long as the data, as was checked; each was
                // allocated for its length.
                unsafe {
                    frame.data.cast::<u8>().copy_from_nonoverlapping(from, frame.length);
                    from = from.add(frame.length);
                }
            }
        }
        Ok(buffers)
    }

    /// Lets UCX pull the data of a message into its buffers.
    fn pull_frames(&self, message: &Slot, endpoint: &Endpoint, number: u64) {
        let inbound = message.inbound.get();
        // The gate was left in the meantime.
        if inbound.form != Form::Waiting || !endpoint.takes_messages() || self.is_over.get() {
            return self.frames_pulled(endpoint, number, Status::CONNECTION_RESET);
        }
        let slot = self.take_slot();
        slot.prepare(Kind::MultiPull);
        slot.number.set(number);
        let mut device = false;
        let described = endpoint.arrivals().with(number, |arriving| match &arriving.buffers {
            Some(buffers) => {
                device = buffers
                    .frames()
                    .iter()
                    .any(|frame| is_on_device(frame.length, frame.memory_type));
                let parts: Vec<_> = buffers.frames().iter().map(part_of).collect();
                describe_parts(slot, &parts)
            }
            None => (arriving.scratch.as_mut_ptr().cast(), message.length.get() as usize, false),
        });
        let Some((buffer, count, scattered)) = described else { return self.slab.push(slot) };
        message.inbound.set(Inbound { form: Form::Gone, ..inbound });
        let memory_type = if device { memory_type::AUTO } else { memory_type::HOST };
        let memory_type = memory_type::to_ucx(&self.context, memory_type).unwrap_or(None);
        let queued = Queued { buffer, count, scattered, memory_type, ..Queued::NOTHING };
        let posted = self.post_pull(
            slot,
            inbound.data,
            &queued,
            crate::engine::core::channel::message::on_pulled,
        );
        let Some(ended) = self.part_posted(slot, posted) else {
            let (part, length) = (Of::Pull(number), message.length.get());
            return self.start_as_part(slot, Some(endpoint), part, length, 0);
        };
        self.frames_pulled(endpoint, number, self.status_from_ucx(ended, Some(endpoint)));
    }

    /// The data of a message was pulled, or will not be. Possibly inside UCP's progress.
    pub(crate) fn frames_pulled(&self, endpoint: &Endpoint, number: u64, status: Status) {
        endpoint.arrivals().with(number, |arriving| arriving.status = status);
        if let Some(endpoint) = endpoint.registered() {
            self.push_event(Event::Work(&PULLED, Payload::Endpoint(endpoint)));
        }
    }

    /// Runs the handler of a message that is complete or has failed.
    fn call_multi(&self, arriving: Arriving) {
        let Arriving { message, handler, mut buffers, scratch, mut status, .. } = arriving;
        // SAFETY: a message of this worker that nothing else uses.
        let slot = unsafe { &*message.0 };
        let length = slot.length.get() as usize;
        let prefix = prefix_of(slot).ok();
        if let (Status::OK, None, Some(prefix)) = (status, &buffers, prefix) {
            // SAFETY: UCX has written this many bytes of it.
            let data = unsafe { std::slice::from_raw_parts(scratch.as_ptr(), length) };
            let (table, data) = data.split_at(prefix.count * multi_table::ENTRY);
            match self.fill_frames(handler.function.allocator, table, data) {
                Ok(made) => buffers = Some(made),
                Err(error) => status = error.status(),
            }
        }
        if status.is_error() {
            let unused = buffers.take();
            self.outside(|| drop(unused));
        }
        let header = slot.front().get(prefix.map_or(0, |prefix| prefix.length)..).unwrap_or(&[]);
        let reply = slot.inbound().reply;
        let buffers =
            buffers.map_or(std::ptr::null_mut(), |buffers| Box::into_raw(Box::new(buffers)));
        let (function, arg) = (handler.function.function, handler.arg);
        // SAFETY: a handler and its argument as they were registered; the header belongs to the
        // message, which exists until after the call.
        self.outside(|| unsafe {
            function.call_out((arg, reply, header.as_ptr().cast(), header.len(), buffers, status.0))
        });
        self.drain_foreign();
        self.drop_handler(handler);
        self.multi_gone(slot);
    }

    /// As `message_gone`, for a message that may have an endpoint to reply on.
    fn multi_gone(&self, slot: &Slot) {
        let inbound = slot.inbound.get();
        slot.inbound.set(Inbound { reply: std::ptr::null(), ..inbound });
        self.message_gone(slot);
        if !inbound.reply.is_null() {
            // SAFETY: the reference that was made for this message.
            drop(unsafe { Arc::from_raw(inbound.reply) });
        }
    }
}

/// What it contains about its frames. A message without a table is one frame.
fn prefix_of(slot: &Slot) -> std::result::Result<Prefix, &'static str> {
    if slot.inbound().sort == Sort::Named {
        return Ok(Prefix { count: 1, in_data: false, length: 0 });
    }
    Prefix::decode(slot.front(), slot.length.get() as usize)
}

fn is_on_device(length: usize, memory_type: i32) -> bool {
    length > 0 && memory_type::is_device(memory_type)
}

/// UCX takes lists of buffers of one memory type, which it detects from the first one.
fn is_mixed(table: &[u8]) -> bool {
    let mut filled = multi_table::frames(table).filter(|frame| frame.length > 0);
    let first = filled.next().map(|frame| memory_type::is_device(frame.memory_type));
    filled.any(|frame| Some(memory_type::is_device(frame.memory_type)) != first)
}

fn part_of(frame: &Frame) -> Part {
    Part { data: frame.data, length: frame.length, memory_type: frame.memory_type }
}
