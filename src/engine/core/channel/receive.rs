//! Receiving active messages: takes them over from UCX, puts them in order, and calls their
//! handlers after the pass.
//!
//! Everything that a message contains is untrusted until it is checked here: its connection, its
//! sequence number, and its cost.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::log::{self, Component, Subject};
use crate::engine::base::status::Status;
use crate::engine::core::channel::dispatch::complain;
use crate::engine::core::channel::message::{Form, Inbound, Message, Sort};
use crate::engine::core::channel::receivers::Receiver;
use crate::engine::core::channel::shm_ring::Reader;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::request::inline_buffer::copy_short;
use crate::engine::core::request::request::{Kind, Part, Slot, USER};
use crate::engine::core::request::slot_list::SlotList;
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::stats::Arrival;
use crate::engine::core::worker::worker::{attention, Worker};
use crate::engine::wire::compact_header::Piece;
use crate::engine::wire::credit;
use crate::engine::wire::credit::LONGEST_QUESTION;
use crate::engine::wire::header::{self, flag, Amount, Header, Question};
use crate::engine::wire::multi_table::Prefix;
use crate::sys;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;

/// Who can keep the data of a message after UCP's handler has returned.
pub(crate) enum Keeper<'a> {
    Nobody,
    Ucx,
    /// The fast box that it is in.
    FastBox(&'a Reader),
}

/// A message as UCP or a fast box delivers it.
pub(crate) struct Arrived<'a> {
    pub(crate) data: *mut c_void,
    pub(crate) length: usize,
    /// The data is at its sender, and `data` is UCP's handle on it.
    pub(crate) waits: bool,
    pub(crate) keeper: Keeper<'a>,
    /// UCP's end of the connection; null if UCP did not name it.
    pub(crate) from: sys::ucp_ep_h,
}

impl<'a> Arrived<'a> {
    /// From the arguments of UCP's handler.
    pub(crate) fn new(data: *mut c_void, length: usize, param: &sys::ucp_am_recv_param_t) -> Self {
        let has = |attribute: sys::ucp_am_recv_attr_t| param.recv_attr & u64::from(attribute) != 0;
        let named = has(sys::UCP_AM_RECV_ATTR_FIELD_REPLY_EP);
        Arrived {
            data,
            length,
            waits: has(sys::UCP_AM_RECV_ATTR_FLAG_RNDV),
            keeper: match has(sys::UCP_AM_RECV_ATTR_FLAG_DATA) {
                true => Keeper::Ucx,
                false => Keeper::Nobody,
            },
            from: if named { param.reply_ep } else { std::ptr::null_mut() },
        }
    }
}

/// Messages whose handlers are due.
#[derive(Default)]
pub(crate) struct Inbox {
    due: SlotList,
    /// Bits of `state`.
    state: Cell<u8>,
    /// Messages on connections whose other end is not known yet, oldest first.
    unaddressed: RefCell<Vec<*const Slot>>,
    /// Peers that have closed, whose earlier messages are still to be delivered by a thread that is
    /// in the middle of doing so.
    byes: RefCell<Vec<Event>>,
}

/// Bits of `Inbox::state`, so that one comparison tells whether there is only due messages.
mod state {
    /// A thread is delivering messages: a second one would change their order.
    pub(crate) const BUSY: u8 = 1;
    /// There are unaddressed messages.
    pub(crate) const UNADDRESSED: u8 = 2;
    /// There are byes.
    pub(crate) const BYES: u8 = 4;
}

impl Inbox {
    fn has(&self, bit: u8) -> bool {
        self.state.get() & bit != 0
    }

    fn add(&self, bit: u8) {
        self.state.set(self.state.get() | bit);
    }

    fn remove(&self, bit: u8) {
        self.state.set(self.state.get() & !bit);
    }

    /// A close must not overtake messages that were sent before it: `deliver_messages` must handle
    /// them first.
    pub(crate) fn is_behind(&self) -> bool {
        self.has(state::BUSY) || !self.due.is_empty()
    }

    /// Keeps a Bye until all messages were delivered.
    pub(crate) fn keep_bye(&self, bye: Event) {
        self.byes.borrow_mut().push(bye);
        self.add(state::BYES);
    }

    pub(crate) fn add_unaddressed(&self, slot: &Slot) {
        self.unaddressed.borrow_mut().push(slot);
        self.add(state::UNADDRESSED);
    }

    fn take_unaddressed(&self) -> Vec<*const Slot> {
        self.remove(state::UNADDRESSED);
        self.unaddressed.take()
    }

    fn take_byes(&self) -> Vec<Event> {
        self.remove(state::BYES);
        self.byes.take()
    }
}

const WRONG_PRICE: &str = "a header with a wrong price in credit";

/// The receiver of messages for handlers by id.
pub(crate) const MESSAGES: Receiver = Receiver {
    sort: Sort::Message,
    wants: |worker, id| worker.am_handlers.has(id),
    dispatch: |worker, slot, _| worker.dispatch_message::<false>(slot),
    ..Receiver::NOBODY
};

impl Worker {
    /// Inside UCP's handler: takes a message or a fetch request over, or drops it. Returns the
    /// handler's result.
    pub(crate) fn receive_arrived(
        &self,
        header: &Header,
        question: Option<Question>,
        user_header: &[u8],
        arrived: &Arrived,
    ) -> sys::ucs_status_t {
        // UCX answers the sender of data that waits. Other senders do not learn what happens to
        // their data.
        let dropped = |status| if arrived.waits { status } else { sys::UCS_OK };
        let refused = |why| {
            complain(Component::Worker, self, why);
            dropped(sys::UCS_ERR_INVALID_PARAM)
        };
        let Ok(charge) = u16::try_from(header.sender) else {
            return refused(WRONG_PRICE);
        };
        let cost = if arrived.waits { credit::charge(0) } else { credit::charge(arrived.length) };
        if charge < cost || charge > credit::UNITS {
            return refused(WRONG_PRICE);
        }
        let (question, user_header) = match header.kind {
            header::Kind::Ask if arrived.waits => {
                return refused("a fetch that was sent as a rendezvous")
            }
            header::Kind::Ask if arrived.length > LONGEST_QUESTION => {
                return refused("a fetch with more than 8 MiB of data")
            }
            header::Kind::Ask if question.is_none() => match Question::decode(user_header) {
                Ok((question, user_header)) => (Some(question), user_header),
                Err(why) => return refused(why),
            },
            _ => (question, user_header),
        };
        let multi = header.kind == header::Kind::Multi;
        if let (true, Err(why)) = (multi, Prefix::decode(user_header, arrived.length)) {
            return refused(why);
        }
        let known = header.connection != 0;
        if known && !self.last_endpoint(header.connection).is_some_and(Endpoint::takes_messages) {
            // For an endpoint that has ended: out of date.
            return dropped(sys::UCS_ERR_CANCELED);
        }
        if !known && arrived.from.is_null() {
            return refused("a message without a sender");
        }
        let sort = match header.kind {
            header::Kind::Ask if header.flags & flag::ATOMIC != 0 => Sort::Atomic,
            header::Kind::Ask => Sort::Question,
            header::Kind::Multi => Sort::Multi,
            _ => Sort::of_message(header.flags),
        };
        let unwanted = arrived.waits && !(self.receivers.of(sort).wants)(self, header.id);
        let (slot, keeps) = self.keep_arrived(header, user_header, arrived);
        slot.number.set(question.map_or(0, |question| question.number));
        // SAFETY: the slot was just taken: nothing else uses it yet.
        let inbound = unsafe { &mut *slot.inbound.as_ptr() };
        if unwanted {
            inbound.form = Form::Gone;
        }
        inbound.charge = charge;
        inbound.connection = header.connection;
        inbound.sequence = header.sequence;
        inbound.from = arrived.from;
        inbound.sort = sort;
        inbound.capacity = question.map_or(0, |question| question.capacity);
        if let Some(endpoint) = self.last_endpoint(header.connection) {
            endpoint.sort_in(slot, header.taken);
        } else {
            self.inbox.add_unaddressed(slot);
            self.attend(attention::INBOX);
        }
        if unwanted {
            sys::UCS_ERR_NO_ELEM
        } else {
            keeps
        }
    }

    /// Completes a short header for the slow path.
    pub(crate) fn complete_header(&self, piece: &mut Piece<'_>) {
        let (header, missing) = (&mut piece.header, !piece.sequence);
        if missing == 0 || header.kind == header::Kind::Answer {
            return;
        }
        let Some(endpoint) = self.last_endpoint(header.connection) else { return };
        header.sequence = endpoint.order.nearest(header.sequence as u16);
        if piece.question.is_some() {
            header.taken = endpoint.credits.acked_by_peer();
        }
    }

    /// Inside UCP's handler: takes over the data that has arrived. Returns the handler's result.
    pub(crate) fn keep_arrived(
        &self,
        header: &Header,
        user_header: &[u8],
        arrived: &Arrived,
    ) -> (&Slot, sys::ucs_status_t) {
        let (form, keeps) = match arrived.keeper {
            _ if arrived.waits => (Form::Waiting, sys::UCS_INPROGRESS),
            Keeper::Ucx if arrived.length > 0 => (Form::Held, sys::UCS_INPROGRESS),
            // Not a table of frames, which is read more than once: the peer could change it.
            Keeper::FastBox(reader) if header.kind != header::Kind::Multi => {
                (reader.lend().map_or(Form::Copied, Form::Lent), sys::UCS_OK)
            }
            _ => (Form::Copied, sys::UCS_OK),
        };
        let slot = self.take_message_slot();
        let copied = if form == Form::Copied { arrived.length } else { 0 };
        let room = slot.room(behind_data(copied) + user_header.len());
        // SAFETY: room for both, in a slot that only this message uses; UCX's data is valid during
        // its handler.
        let behind = unsafe { copy_with_header(room, arrived.data.cast(), copied, user_header) };
        slot.length.set(arrived.length as u64);
        slot.inbound.set(Inbound {
            form,
            id: header.id,
            flags: header.flags,
            user_header: user_header.len() as u16,
            header: behind,
            data: if form == Form::Copied { room.cast() } else { arrived.data },
            ..Inbound::NOTHING
        });
        (slot, keeps)
    }

    /// Does not drain released slots, because that may call UCX, and this is inside UCX's handler.
    #[inline(always)]
    pub(crate) fn take_message_slot(&self) -> &Slot {
        let slot = loop {
            match self.slab.pop() {
                Some(slot) => break slot,
                None => self.slab.grow(&**self, false),
            }
        };
        slot.begin_message();
        slot
    }

    /// The endpoint's next message in order: it is delivered after the pass. A thread that is about
    /// to sleep must be woken.
    #[inline(always)]
    pub(crate) fn enqueue_due(&self, endpoint: &Endpoint, slot: &Slot) {
        endpoint.order.advance();
        self.inbox.due.push(slot);
        self.attention.set(self.attention.get() | attention::INBOX);
    }

    /// Delivers the messages that are due now. After UCP's pass.
    pub(crate) fn deliver_messages(&self) -> u32 {
        self.deliver_due::<false>()
    }

    /// The same on the thread of a SINGLE worker, in a pass that the caller has made. Not inlined:
    /// passes without messages would pay for the saved registers.
    #[inline(never)]
    pub(crate) fn deliver_messages_alone(&self) -> u32 {
        self.deliver_due::<true>()
    }

    #[inline(always)]
    fn deliver_due<const ALONE: bool>(&self) -> u32 {
        if self.inbox.state.get() != 0 && !self.may_hand_out() {
            return 0;
        }
        self.inbox.add(state::BUSY);
        let delivered = self.inbox.due.drain_present(|slot| self.dispatch_arrived::<ALONE>(slot));
        self.inbox.remove(state::BUSY);
        if self.inbox.state.get() != 0 || !self.inbox.due.is_empty() {
            self.deliver_later();
        }
        delivered
    }

    /// There is more than due messages. False if another thread is delivering.
    #[cold]
    fn may_hand_out(&self) -> bool {
        if self.inbox.has(state::BUSY) {
            return false;
        }
        if self.inbox.has(state::UNADDRESSED) {
            self.inbox.add(state::BUSY);
            self.address_messages();
        }
        true
    }

    /// There is more than the messages that were due.
    #[cold]
    fn deliver_later(&self) {
        if !self.inbox.due.is_empty() || self.inbox.has(state::UNADDRESSED) {
            self.attend(attention::INBOX);
        }
        if self.inbox.due.is_empty() {
            self.inbox.take_byes().into_iter().for_each(|bye| self.push_event(bye));
        }
    }

    /// Finds the connections of messages that arrived right after their Hello.
    #[cold]
    fn address_messages(&self) {
        self.listen_to_peers();
        for slot in self.inbox.take_unaddressed() {
            // SAFETY: a slot of this worker, which no other owner has until it is delivered.
            let slot = unsafe { &*slot };
            let inbound = slot.inbound.get();
            match self.endpoint_by_ucp(inbound.from).filter(|endpoint| endpoint.takes_messages()) {
                Some(endpoint) => {
                    slot.inbound
                        .set(Inbound { connection: endpoint.peering.number.get(), ..inbound });
                    endpoint.order.note_unnamed(inbound.sequence);
                    endpoint.sort_in(slot, Amount::default());
                }
                None => {
                    complain(Component::Worker, self, "its sender has not identified itself");
                    self.message_gone(slot);
                }
            }
        }
    }

    #[inline(always)]
    fn dispatch_arrived<const ALONE: bool>(&self, slot: &Slot) {
        if !ALONE && trace::is_on() {
            let from = self.last_endpoint(slot.inbound().connection);
            return trace::delivers(from, slot, || self.dispatch_untraced::<false>(slot));
        }
        self.dispatch_untraced::<ALONE>(slot);
    }

    #[inline(always)]
    fn dispatch_untraced<const ALONE: bool>(&self, slot: &Slot) {
        let inbound = slot.inbound();
        match self.last_endpoint(inbound.connection).filter(|endpoint| endpoint.takes_messages()) {
            Some(endpoint) if inbound.form != Form::Gone => self.feed(endpoint),
            _ => return self.message_gone(slot),
        }
        // Not with a jump table.
        if inbound.sort == Sort::Message {
            self.dispatch_message::<ALONE>(slot);
        } else {
            (self.receivers.of(inbound.sort).dispatch)(self, slot, ALONE);
        }
    }

    /// Reports consumed credit to a peer that may wait for it, unless the next message to be
    /// delivered is its own, which reports again.
    #[inline(always)]
    pub(crate) fn feed(&self, endpoint: &Endpoint) {
        let next = self.inbox.due.first();
        let is_its_own =
            || next.is_some_and(|next| next.inbound().connection == endpoint.peering.number.get());
        if endpoint.credits.may_starve() && !is_its_own() {
            endpoint.grant();
        }
    }

    #[inline(always)]
    fn dispatch_message<const ALONE: bool>(&self, slot: &Slot) {
        let inbound = slot.inbound();
        let Some(handler) = self.am_handlers.find(inbound.id) else { return self.unhandled(slot) };
        if inbound.flags & flag::REPLY != 0 {
            self.add_reply(slot);
        }
        self.stats.arrived(Arrival::Message, slot.length.get());
        slot.hold.set(USER);
        let (function, arg, message) = (handler.function, handler.arg, Message::of(slot));
        trace::calls::<ALONE>(slot);
        // SAFETY: a handler and its argument as they were registered; the message belongs to the
        // handler from here on.
        self.outside_as::<ALONE>(|| unsafe { function.call_out((arg, message)) });
        trace::called::<ALONE>(self, Kind::AmMessage);
        self.drain_foreign();
        self.drop_handler(handler);
    }

    #[cold]
    fn unhandled(&self, slot: &Slot) {
        self.stats.am_unhandled.add(1);
        let id = slot.inbound().id;
        let endpoint = self.last_endpoint(slot.inbound().connection);
        let subject: &dyn Subject = endpoint.map_or(self, |endpoint| endpoint);
        log::at!(INFO, Am, subject, "an active message has no handler: id {id}");
        self.message_gone(slot);
    }

    #[inline(never)]
    fn add_reply(&self, slot: &Slot) {
        if let Some(endpoint) = self.endpoint_by_id(slot.inbound().connection) {
            slot.inbound.set(Inbound { reply: endpoint.into_raw(), ..*slot.inbound() });
        }
    }

    /// Drops messages that were not delivered yet.
    pub(crate) fn drop_inbox(&self) {
        while let Some(slot) = self.inbox.due.pop() {
            self.message_gone(slot);
        }
        for slot in self.inbox.take_unaddressed() {
            // SAFETY: a slot of this worker, which no other owner has until it is delivered.
            self.message_gone(unsafe { &*slot });
        }
        self.inbox.take_byes();
        self.all_endpoints().iter().for_each(|endpoint| endpoint.drop_early());
    }
}

impl Endpoint {
    /// Messages that arrive are still delivered.
    #[inline]
    pub(crate) fn takes_messages(&self) -> bool {
        self.phase() < Phase::Ending
    }

    /// The peer has reported consumed credit. Inside UCP's handler.
    #[inline(always)]
    pub(crate) fn note_credit(&self, taken: Amount) {
        if self.credits.note_acked(taken) {
            self.credits_came();
        }
    }

    /// Reports consumed credit to the peer.
    #[cold]
    pub(crate) fn grant(&self) {
        if self.takes_messages() && !self.ucp.get().is_null() && !self.worker.is_over.get() {
            self.say(header::Kind::Grant, 0, Part::Nothing);
        }
    }

    /// An internal message was sent. What could not be reported while it was queued is reported
    /// after UCP's pass.
    pub(crate) fn part_left(&self) {
        if self.credits.has_news() || self.credits.may_starve() {
            if let Some(endpoint) = self.registered() {
                self.worker.push_event(Event::SendCredit(endpoint));
            }
        }
    }

    /// The peer has violated the protocol. After UCP's pass.
    pub(crate) fn broken(&self, why: &str) {
        if !self.takes_operations() {
            return;
        }
        log::at!(ERROR, Endpoint, self, "the peer {why}: the connection is closed");
        self.fail(Status::IO_ERROR);
    }
}

/// Offset of the user's header: after the data, with the same alignment.
#[inline(always)]
pub(crate) fn behind_data(length: usize) -> usize {
    length.next_multiple_of(16)
}

/// Copies data and the user's header into a slot's memory. Returns where the header is.
///
/// # Safety
/// Both are readable, and there is room for them.
unsafe fn copy_with_header(
    room: *mut u8,
    data: *const u8,
    length: usize,
    user_header: &[u8],
) -> *const u8 {
    // SAFETY: the caller guarantees both.
    unsafe {
        let behind = room.add(behind_data(length));
        copy_short(data, room, length);
        copy_short(user_header.as_ptr(), behind, user_header.len());
        behind
    }
}

impl Slot {
    /// Starts a slot's use for a received message, without what only operations need.
    #[inline(always)]
    pub(crate) fn begin_message(&self) {
        self.kind.set(Kind::AmMessage);
        self.marks.set(0);
        self.hold.set(0);
        self.outcome.set(Status::OK);
    }
}
