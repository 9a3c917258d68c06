//! An active message as its handler receives it: read in place, kept, pulled into the user's
//! memory, destroyed.
//!
//! A message is a slot, as an operation is, so the user releases it in the same way, from any
//! thread. From the call of the handler until it is destroyed it belongs to the user. One
//! exception: the end of the worker takes `data` away.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::buffer::{describe_parts, memory_type_of, Part};
use crate::engine::core::request::inflight::{self, Out, Submission};
use crate::engine::core::request::operation::{flag, OpParams, RecvInfo, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::context;
use crate::engine::ucx::cuda_driver;
use crate::engine::ucx::memory_type;
use crate::engine::wire::header;
use crate::sys;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// `ucxx_am_handler_t`: argument, message.
pub type MessageHandler = unsafe extern "C" fn(*mut c_void, *mut Message);

/// Where a message's data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// In the slot's own memory, or there is none.
    Copied,
    /// In UCX's memory, which must be given back.
    Held,
    /// In the connection's fast box, to which it must be given back by this number.
    Lent(u8),
    /// At its sender; `data` is UCX's handle on it.
    Waiting,
    /// Received, or refused.
    Gone,
}

/// Which receiver a message is for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sort {
    /// A handler of messages.
    Message,
    /// A handler of fetch requests.
    Question,
    /// The library, for an atomic operation of a peer.
    Atomic,
    /// A handler of messages with frames.
    Multi,
    /// The library, for its streams of chunks between hubs.
    Hub,
    /// A handler that the message names by owner and number.
    Named,
}

impl Sort {
    pub(crate) const COUNT: usize = Sort::Named as usize + 1;

    /// Of a plain message with these flags.
    #[inline(always)]
    pub(crate) fn of_message(flags: u16) -> Self {
        if flags & header::flag::HUB == 0 {
            Sort::Message
        } else {
            Sort::Hub
        }
    }
}

/// What a slot contains of a received message.
#[derive(Clone, Copy)]
pub(crate) struct Inbound {
    pub(crate) form: Form,
    pub(crate) id: u16,
    pub(crate) flags: u16,
    pub(crate) charge: u16,
    pub(crate) user_header: u16,
    pub(crate) header: *const u8,
    pub(crate) data: *mut c_void,
    /// This side's number of the connection; 0 while it is not known.
    pub(crate) connection: u32,
    pub(crate) sequence: u32,
    /// UCP's end of it, until the connection is known.
    pub(crate) from: sys::ucp_ep_h,
    pub(crate) sort: Sort,
    /// For a fetch request: how many bytes of reply it has room for.
    pub(crate) capacity: u64,
    /// Its user has received it.
    pub(crate) received: bool,
    /// A reference, if the sender asked for a reply endpoint; otherwise null.
    pub(crate) reply: *const SharedEndpoint,
}

impl Inbound {
    pub(crate) const NOTHING: Inbound = Inbound {
        form: Form::Gone,
        id: 0,
        flags: 0,
        charge: 0,
        user_header: 0,
        header: std::ptr::null(),
        data: std::ptr::null_mut(),
        connection: 0,
        sequence: 0,
        from: std::ptr::null_mut(),
        sort: Sort::Message,
        capacity: 0,
        received: false,
        reply: std::ptr::null(),
    };
}

impl Inbound {
    /// `UCXX_MEMORY_*`: where the sender's buffer is, if the sender has told.
    pub(crate) fn memory_type(&self) -> i32 {
        let told = i32::from(self.flags >> header::flag::MEMORY & 0x7f);
        if told != memory_type::AUTO && memory_type::check(told).is_ok() {
            told
        } else {
            memory_type::HOST
        }
    }
}

/// A message that belongs to its user. Handed to C as `ucxx_am_message_t`.
#[repr(transparent)]
pub struct Message(Slot);

impl Message {
    pub(crate) fn of(slot: &Slot) -> *mut Message {
        std::ptr::from_ref(slot).cast_mut().cast()
    }

    /// The sender's header.
    pub fn header(&self) -> &[u8] {
        self.0.front()
    }

    /// Bytes of data.
    pub fn length(&self) -> u64 {
        self.0.length.get()
    }

    /// The data if it is here. Null if it waits at its sender, was received, or its worker has
    /// ended.
    pub fn data(&self) -> *const c_void {
        let inbound = self.0.inbound.get();
        let here = matches!(inbound.form, Form::Copied | Form::Held | Form::Lent(_));
        let here = here && self.length() > 0;
        if here && !self.worker().closed.load(Ordering::Acquire) {
            inbound.data
        } else {
            std::ptr::null()
        }
    }

    /// `UCXX_MEMORY_*`: where the sender's buffer is, as the sender has told.
    pub fn memory_type(&self) -> i32 {
        self.0.inbound().memory_type()
    }

    /// The endpoint to reply on, if the sender asked for one.
    pub fn reply(&self) -> *const SharedEndpoint {
        self.0.inbound.get().reply
    }

    fn worker(&self) -> &SharedWorker {
        self.0.worker()
    }

    /// Refuses use in a forked child.
    pub fn check_fork(&self) -> Result<()> {
        if self.worker().generation.is_past() {
            return Err(context::forked("message"));
        }
        Ok(())
    }

    /// Receives the data into the parts, one after the other; once.
    ///
    /// # Safety
    /// The parts are writable until the operation has completed, and `out` is valid.
    pub unsafe fn receive(&self, parts: &[Part], params: &OpParams, out: Out) -> Result<Submitted> {
        self.check_fork()?;
        let worker = self.worker();
        params.check(&worker.context, "receive of an active message", 0)?;
        worker.check_usable()?;
        let inbound = self.0.inbound.get();
        let room: u64 = parts.iter().map(|part| part.length as u64).sum();
        if room < self.length() {
            let text =
                format!("length: the message has {} bytes, and the buffer {room}", self.length());
            return Err(Error::new(Status::MESSAGE_TRUNCATED, text));
        }
        if inbound.received || inbound.form == Form::Gone {
            return Err(Error::invalid("message: has been received already"));
        }
        request_wait::submit(params, out, |params, out| {
            if inbound.form == Form::Waiting {
                return self.pull(parts, params, out);
            }
            self.copy(parts, params, out)
        })
    }

    /// Eager data is copied by the calling thread.
    fn copy(&self, parts: &[Part], params: &OpParams, out: Out) -> Result<Submitted> {
        let worker = self.worker();
        for part in parts {
            memory_type::check(part.memory_type)?;
            if part.memory_type == memory_type::ROCM {
                let text =
                    "memory_type: the data arrived with the message, and is not copied into ROCm \
                    memory; receive it into host memory";
                return Err(Error::new(Status::UNSUPPORTED, text));
            }
        }
        let (mut from, mut left) =
            (self.0.inbound.get().data.cast::<u8>().cast_const(), self.length() as usize);
        for part in parts {
            let length = part.length.min(left);
            if length > 0 {
                // SAFETY: the message's data, of which at least this much is left, and the caller's
                // buffer, which is writable.
                unsafe {
                    if memory_type::is_device_at(&worker.context, part.memory_type, part.data) {
                        cuda_driver::put(part.data, from.cast(), length)?;
                    } else {
                        part.data.cast::<u8>().copy_from_nonoverlapping(from, length);
                    }
                }
                // SAFETY: not beyond the end of the data.
                from = unsafe { from.add(length) };
                left -= length;
            }
        }
        self.0.inbound.set(Inbound { received: true, ..self.0.inbound.get() });
        if params.flags & flag::ALWAYS_CALLBACK == 0 {
            if !params.recv_info.is_null() {
                // SAFETY: valid until the operation completes, which is now.
                unsafe { params.recv_info.write(self.info()) };
            }
            out.store_null();
            return Ok(Submitted::Done);
        }
        let length = self.length();
        let begin = move |slot: &Slot| slot.length.set(length);
        let later = worker.post_operation(Kind::AmRecv, params, out, move |inside, slot| {
            begin(slot);
            inside.start(slot, None, &OpParams::default(), Out::NOWHERE);
            inside.complete(slot, Status::OK);
        })?;
        if let Some(submitted) = later {
            return Ok(submitted);
        }
        let inside = worker.enter()?;
        let slot = inside.take_slot();
        slot.begin(Kind::AmRecv, params, length, 0, out.is_wanted());
        trace::submitted(slot, None);
        inside.start(slot, None, params, out);
        inside.complete(slot, Status::OK);
        Ok(Submitted::Pending)
    }

    fn set_form(&self, form: Form) {
        self.0.inbound.set(Inbound { form, ..self.0.inbound.get() });
    }

    /// Data that waits at its sender is pulled directly into the parts.
    fn pull(&self, parts: &[Part], params: &OpParams, out: Out) -> Result<Submitted> {
        let worker = self.worker();
        let inbound = self.0.inbound.get();
        let memory_type = memory_type_of(worker, parts, params)?;
        let length = self.length();
        let describe = |slot: &Slot| {
            let (buffer, count, scattered) = describe_parts(slot, parts);
            let pulled = Pulled { data: inbound.data, connection: inbound.connection };
            Queued { buffer, count, scattered, memory_type, pulled, ..Queued::NOTHING }
        };
        if worker.must_submit_remotely(params) {
            // From here on UCX's handle belongs to the pull, which uses it up.
            self.set_form(Form::Gone);
            let submitted = worker.delay(Kind::AmRecv, length, params, out, describe);
            if submitted.is_err() && !worker.closed.load(Ordering::Acquire) {
                self.set_form(Form::Waiting);
            }
            return submitted;
        }
        let inside = worker.enter()?;
        let endpoint =
            inside.endpoint_by_id(inbound.connection).filter(|endpoint| endpoint.takes_messages());
        let Some(endpoint) = endpoint else {
            return Err(Error::new(
                Status::CONNECTION_RESET,
                "message: its sender's connection has ended",
            ));
        };
        self.set_form(Form::Gone);
        let slot = inside.take_slot();
        slot.prepare(Kind::AmRecv);
        slot.length.set(length);
        slot.tag.set(0);
        let queued = describe(slot);
        trace::submitted_and_posts(slot, Some(&endpoint));
        let posted = inside.post_pull(slot, inbound.data, &queued, on_pulled);
        trace::posted(slot, Some(&endpoint));
        let submission = Submission { endpoint: Some(&endpoint), params, length, tag: 0 };
        let submitted = inside.submitted(slot, posted, submission, out)?;
        if submitted == Submitted::Done && !params.recv_info.is_null() {
            // SAFETY: valid until the operation completes, which is now.
            unsafe { params.recv_info.write(self.info()) };
        }
        Ok(submitted)
    }

    /// Returns the credit while the message is still kept here, so that the sender may send another
    /// one. For internal messages whose number has another limit. Does nothing if the data waits at
    /// its sender.
    pub(crate) fn give_credit_back(&self) {
        let inbound = self.0.inbound.get();
        if inbound.form == Form::Waiting {
            return;
        }
        let Ok(inside) = self.worker().enter() else { return };
        // When it is destroyed, it finds no connection to return the credit to.
        self.0.inbound.set(Inbound { connection: 0, ..inbound });
        let Some(endpoint) = inside.last_endpoint(inbound.connection) else { return };
        inside.give_back_credit(endpoint, inbound.charge);
    }

    fn info(&self) -> RecvInfo {
        RecvInfo { length: self.length(), sender_tag: 0, reserved: [0; 2] }
    }
}

impl Slot {
    /// The part of a received message that its sender put before the data.
    pub(crate) fn front(&self) -> &[u8] {
        let inbound = self.inbound.get();
        if inbound.user_header == 0 {
            return &[];
        }
        // SAFETY: in the slot's own memory, which belongs to the message until it is destroyed.
        unsafe { std::slice::from_raw_parts(inbound.header, inbound.user_header.into()) }
    }
}

impl Slot {
    /// For a receive from a queue, which does not use the slot's own memory otherwise: keeps its
    /// message's header there.
    pub(crate) fn keep_header(&self, header: &[u8]) {
        let room = self.room(header.len());
        // SAFETY: room for the header, in a slot that only this operation uses.
        unsafe { header.as_ptr().copy_to_nonoverlapping(room, header.len()) };
        self.inbound.set(Inbound {
            header: room,
            user_header: header.len() as u16,
            ..Inbound::NOTHING
        });
    }
}

/// What a pull through the ring takes with it.
#[derive(Clone, Copy)]
pub(crate) struct Pulled {
    /// UCX's handle on the data; null in other operations.
    pub(crate) data: *mut c_void,
    pub(crate) connection: u32,
}

impl Pulled {
    pub(crate) const NOTHING: Pulled = Pulled { data: std::ptr::null_mut(), connection: 0 };
}

impl Worker {
    /// UCP owns the handle from here on, even if it fails.
    pub(crate) fn post_pull(
        &self,
        slot: &Slot,
        data: *mut c_void,
        queued: &Queued,
        done: OnPulled,
    ) -> sys::ucs_status_ptr_t {
        let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
        param.pull(Some(done));
        // SAFETY: a live worker inside its gate, and a handle of that worker, used once; the caller
        // keeps the buffers.
        unsafe {
            sys::ucp_am_recv_data_nbx(self.ucp(), data, queued.buffer, queued.count, param.as_ptr())
        }
    }

    /// Gives UCX's memory or handle of a message back that is not received.
    pub(crate) fn release_data(&self, data: *mut c_void) {
        if !self.is_over.get() && !data.is_null() {
            // SAFETY: a live worker inside its gate, and data of that worker, given back once.
            unsafe { sys::ucp_am_data_release(self.ucp(), data) };
            self.wake_sleeper();
        }
    }

    /// The user has released a message, or it has no receiver: frees its slot.
    pub(crate) fn message_gone(&self, slot: &Slot) {
        let &Inbound { form, data, connection, charge, .. } = slot.inbound();
        if slot.outside.load(Ordering::Relaxed) == LEFT {
            (self.receivers.of(slot.inbound().sort).left)(self, slot);
        }
        self.give_data_back(form, data);
        self.question_gone(slot);
        if let Some(endpoint) = self.last_endpoint(connection) {
            self.give_back_credit(endpoint, charge);
        }
    }

    /// Whose memory the data of a message is in gets it back.
    fn give_data_back(&self, form: Form, data: *mut c_void) {
        match form {
            Form::Held | Form::Waiting => self.release_data(data),
            Form::Lent(number) => self.give_back_lent(data.cast_const().cast(), number),
            Form::Copied | Form::Gone => {}
        }
    }

    /// A message of the peer was consumed. Comes last in its callers, so that it can end in a jump.
    #[inline(always)]
    pub(crate) fn give_back_credit(&self, endpoint: &Endpoint, charge: u16) {
        if endpoint.credits.give_back(charge) || endpoint.credits.may_starve() {
            self.tell_what_is_gone(endpoint);
        }
    }

    #[cold]
    fn tell_what_is_gone(&self, endpoint: &Endpoint) {
        if endpoint.credits.has_news() {
            endpoint.inward().grant();
        } else {
            self.feed(endpoint);
        }
    }

    /// The same for one whose credit was returned already.
    #[inline(always)]
    pub(crate) fn question_gone(&self, slot: &Slot) {
        // SAFETY: the slot belongs to the engine again.
        unsafe { &mut *slot.store.get() }.shrink();
        self.slot_of_message_gone(slot);
    }

    #[inline(always)]
    fn slot_of_message_gone(&self, slot: &Slot) {
        // Nothing else in it was used, and no ticket refers to it.
        slot.hold.set(0);
        slot.outside.store(0, Ordering::Relaxed);
        slot.kind.set(Kind::Free);
        self.slab.push(slot);
    }

    /// Takes back the data of messages that users still hold, before UCP's worker is destroyed.
    pub(crate) fn take_back_messages(&self) {
        self.drop_inbox();
        self.for_each_slot(|slot| {
            if slot.kind.get() == Kind::AmMessage {
                let inbound = slot.inbound.get();
                if inbound.form != Form::Copied {
                    slot.inbound.set(Inbound { form: Form::Gone, ..inbound });
                    self.give_data_back(inbound.form, inbound.data);
                }
            }
        });
    }
}

impl Message {
    /// Releases a message that arrived with its data, on the thread of a SINGLE worker, from the
    /// peer that was named last. Returns false if nothing has happened: use the slow path.
    ///
    /// # Safety
    /// The caller owns the message, and does not use it again if this is true.
    #[inline(always)]
    pub unsafe fn destroy_fast(&self) -> bool {
        let (slot, inbound) = (&self.0, self.0.inbound());
        // SAFETY: used only in the steps below, which enter no gate.
        let Some(worker) = (unsafe { self.worker().act_fast() }) else { return false };
        let simple = matches!(inbound.form, Form::Copied | Form::Lent(_))
            && inbound.reply.is_null()
            && slot.outside.load(Ordering::Relaxed) == 0;
        let endpoint = if simple { worker.named_last(inbound.connection) } else { None };
        // SAFETY: the cell belongs to the message's owner, which is the caller.
        let Some(endpoint) = endpoint.filter(|_| !unsafe { &*slot.store.get() }.is_large()) else {
            return false;
        };
        let charge = inbound.charge;
        if let Form::Lent(number) = inbound.form {
            if !endpoint.fast_box.give_back(inbound.data.cast_const().cast(), number) {
                return false;
            }
        }
        worker.slot_of_message_gone(slot);
        worker.give_back_credit(endpoint, charge);
        true
    }
}

/// Releases a message. Data that was not received is dropped.
///
/// # Safety
/// The caller owns the message and does not use it again; its memory may be freed by this.
pub unsafe fn destroy(message: *const Message) {
    let slot: *const Slot = message.cast();
    // SAFETY: the caller owns it, and a slot that is held keeps its worker's memory.
    let (worker, inbound) = unsafe { ((*slot).worker, &(*slot).inbound) };
    // SAFETY: the held slot keeps its worker's memory.
    if unsafe { (&*worker).generation.is_past() } {
        return;
    }
    // Only read: the end of the worker, on another thread, may be taking the data away.
    let reply = inbound.get().reply;
    // SAFETY: the caller still owns the slot.
    let left = unsafe { (*slot).outside.load(Ordering::Acquire) } == LEFT;
    if !reply.is_null() && !left {
        // SAFETY: the reference that was made for this message.
        let endpoint = unsafe { Arc::from_raw(reply) };
        // SAFETY: the held slot keeps its worker's memory.
        if endpoint.status().is_error() && unsafe { (&*worker).thread.is_remote() } {
            // It has ended, and the worker may have dropped it. It is dropped after what this
            // thread has put into the ring for it. Fails if no thread handles jobs any more.
            let worker = endpoint.worker().clone();
            let _ = worker.post(move |_inside| drop(endpoint));
        }
    }
    // SAFETY: the held slot keeps its worker's memory.
    let alive = unsafe { &*worker };
    // SAFETY: used for this call only. The worker has not ended, so the release cannot free its
    // memory.
    if let Some(worker) = unsafe { alive.act_at_once() } {
        // SAFETY: the caller gives the slot up here, and does not use it again.
        return worker.release_slot(unsafe { &*slot });
    }
    // Its sender waits for the credit, so this does not wait for a later pass.
    if !alive.thread.is_remote() {
        if let Ok(inside) = alive.enter() {
            // SAFETY: the caller gives the slot up here, and does not use it again.
            return inside.release_slot(unsafe { &*slot });
        }
    }
    let shared = alive.check_usable().is_ok().then(|| alive.shared());
    // SAFETY: the caller owns the message and does not use it again; no reference to it is left.
    unsafe { inflight::push_foreign(slot) };
    if let Some(worker) = shared {
        worker.wake_thread();
        // The thread of a SINGLE worker may be asleep. Without WAKEUP it cannot be.
        let _ = worker.signal();
    }
}

/// In `Slot::outside`: a fetch request that still has its endpoint. The thread that takes its slot
/// back must reply with CANCELED.
pub(crate) const LEFT: u8 = 2;

/// `ucp_am_recv_data_nbx_callback_t`.
pub(crate) type OnPulled = unsafe extern "C" fn(*mut c_void, sys::ucs_status_t, usize, *mut c_void);

/// UCP has completed a pull, possibly before the call that started it has returned.
pub(crate) unsafe extern "C" fn on_pulled(
    request: *mut c_void,
    status: sys::ucs_status_t,
    _length: usize,
    user_data: *mut c_void,
) {
    // SAFETY: the request is a slot that UCP was given.
    unsafe { crate::engine::core::request::completion::on_sent(request, status, user_data) };
}
