//! Fast boxes of connections (see `core::channel::shm_ring`): which connections have one, and what
//! goes through it: messages, fetch requests and replies in one short piece, and messages and
//! replies with up to `LONGEST` bytes of data beside the header.
//!
//! UCX takes some hundred instructions and an atomic operation to hand a short message to a process
//! of the same host; a fast box takes a dozen.
//!
//! # Setup
//!
//! A connection gets a box when it is busy, if both sides may use shared memory, their workers do
//! not sleep, and the kernel supports it (see `base::membarrier`). The side that has received
//! `BUSY` messages makes a box for the next ones and offers it; the other side offers one in
//! return. Boxes are optional: if there is none, or it is full, or its reader sleeps, UCX gets the
//! message as usual.
//!
//! # Order
//!
//! A message has a sequence number on its connection (see `core::channel::reorder`), whichever way
//! it goes. A message that has overtaken another one would wait there, which takes longer than the
//! box saves, and has a limit in time. So a message goes through the box only when the peer's
//! credit reports show that all messages sent through UCX were delivered, and destroyed. Replies
//! have no order. What a peer has put into a box is taken out before its Bye or its end is handled.
//!
//! # Memory
//!
//! The memory of a box belongs to its reader's worker. Without the connection it is kept as long as
//! messages that were lent data from it.

use crate::engine::base::log::{self, Component};
use crate::engine::base::membarrier::{everywhere, take_part};
use crate::engine::core::channel::dispatch::on_message;
use crate::engine::core::channel::receive::{Arrived, Keeper};
use crate::engine::core::channel::shm_ring::{
    Came, Lines, Put, Reader, Writer, LONGEST, MOST, PLACES, WORDS,
};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::shared_segment::{Segment, SegmentName};
use crate::engine::wire::compact_header;
use crate::engine::wire::credit;
use crate::engine::wire::header::{self, Kind};
use crate::sys;
use std::cell::{Cell, OnceCell, RefCell};
use std::ptr::NonNull;
use std::sync::OnceLock;

/// Messages received on a connection before it gets a box.
const BUSY: u32 = 256;
/// Most boxes of a worker, which checks each of them in each pass.
const MOST_BOXES: usize = 16;
const _: () = assert!(PLACES >= credit::MESSAGES as u32);
/// Most messages taken out of one box in a pass, before the other boxes have their turn.
const AT_ONCE: u32 = 16;
/// A worker that was armed gets nothing through its boxes for this long: going to sleep disturbs
/// all processes that have boxes.
const AWAKE_AFTER_NS: u64 = 2_000_000;

/// The environment variable that turns them off with 0.
const SWITCH: &str = "UCXX_RS_FAST_BOXES";

fn are_off() -> bool {
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os(SWITCH).is_some_and(|set| set == "0"))
}

/// A box that this side has made and reads.
struct Inbound {
    reader: Reader,
    /// UCX may be sending it for as long as it has the endpoint.
    name: [u8; SegmentName::LENGTH],
    _memory: Segment,
    /// Its connection has ended.
    is_left: Cell<bool>,
}

/// The peer's box, which this side fills.
struct Outbound {
    writer: Writer,
    _memory: Segment,
}

/// The state of an endpoint.
#[derive(Default)]
pub(crate) struct FastBox {
    /// None while no box may be filled.
    open: Cell<Option<NonNull<Outbound>>>,
    /// All messages sent through UCX were delivered to their handlers.
    is_clear: Cell<bool>,
    /// The sequence number after the last one of these.
    behind: Cell<u16>,
    /// A box was offered to the peer, or will not be.
    settled: Cell<bool>,
    /// It belongs to the worker.
    inbound: Cell<Option<NonNull<Inbound>>>,
    outbound: OnceCell<Box<Outbound>>,
}

impl FastBox {
    #[inline(always)]
    fn inbound(&self) -> Option<&Inbound> {
        // SAFETY: the worker keeps it until `shut_fast_box` has set this to None.
        self.inbound.get().map(|inbound| unsafe { inbound.as_ref() })
    }

    /// The peer's box, if it may be filled.
    #[inline(always)]
    fn outbound(&self) -> Option<&Outbound> {
        // SAFETY: `open` is set to None before the box is freed.
        self.open.get().map(|outbound| unsafe { outbound.as_ref() })
    }

    /// The contents of the offer of this side's box.
    pub(crate) fn offer(&self) -> &[u8] {
        self.inbound().map_or(&[], |inbound| &inbound.name)
    }

    /// The peer's box.
    #[cfg(test)]
    pub(crate) fn writer(&self) -> Option<&Writer> {
        self.outbound.get().map(|outbound| &outbound.writer)
    }

    /// For a dump: the directions in use.
    pub(crate) fn text(&self) -> &'static str {
        match (self.outbound().is_some(), self.inbound().is_some()) {
            (true, true) => ", messages through fast boxes",
            (true, false) => ", messages to it through a fast box",
            (false, true) => ", messages from it through a fast box",
            (false, false) => "",
        }
    }

    /// A message is destroyed, which was lent data. False if that was not from this box.
    #[inline(always)]
    pub(crate) fn give_back(&self, data: *const u8, number: u8) -> bool {
        let inbound = self.inbound().filter(|inbound| inbound.reader.has_lent(data));
        inbound.map(|inbound| inbound.reader.give_back(number)).is_some()
    }
}

/// The state of a worker: the endpoints whose boxes it reads.
#[repr(C)]
pub(crate) struct FastBoxes {
    /// First: see `Worker`.
    count: Cell<usize>,
    /// The first `count` are valid. Endpoints remove themselves before they are dropped.
    endpoints: [Cell<*const Endpoint>; MOST_BOXES],
    /// The worker was armed since `tend_fast_boxes` ran last.
    was_armed: Cell<bool>,
    /// When `tend_fast_boxes` last saw that.
    armed_at: Cell<u64>,
    /// All boxes of this side. Endpoints point to them.
    #[allow(clippy::vec_box)]
    made: RefCell<Vec<Box<Inbound>>>,
}

impl Default for FastBoxes {
    fn default() -> Self {
        let endpoints = std::array::from_fn(|_| Cell::new(std::ptr::null()));
        FastBoxes {
            count: Cell::new(0),
            endpoints,
            was_armed: Cell::new(false),
            armed_at: Cell::new(0),
            made: RefCell::default(),
        }
    }
}

impl FastBoxes {
    #[inline(always)]
    fn all(&self) -> impl Iterator<Item = &Endpoint> {
        // SAFETY: endpoints remove themselves before they are dropped.
        self.endpoints[..self.count.get()].iter().map(|endpoint| unsafe { &*endpoint.get() })
    }

    fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.all().filter_map(|endpoint| endpoint.fast_box.inbound()).map(|inbound| &inbound.reader)
    }

    /// Frees the boxes whose connections have ended, unless messages have data from them. Not while
    /// UCX may be sending the name of one.
    pub(crate) fn drop_unused(&self) {
        let is_used = |inbound: &Inbound| !inbound.is_left.get() || inbound.reader.is_lending();
        self.made.borrow_mut().retain(|inbound| is_used(inbound));
    }

    /// Call this only if there are fewer than `MOST_BOXES`.
    fn add(&self, endpoint: &Endpoint) {
        self.endpoints[self.count.get()].set(endpoint);
        self.count.set(self.count.get() + 1);
    }

    fn remove(&self, endpoint: &Endpoint) {
        let known = &self.endpoints[..self.count.get()];
        let Some(place) = known.iter().find(|known| std::ptr::eq(known.get(), endpoint)) else {
            return;
        };
        place.set(known[known.len() - 1].get());
        self.count.set(known.len() - 1);
    }
}

/// Sending.
impl Endpoint {
    /// Puts a piece of `length` bytes into the box, if possible. `ordered`: it has the next
    /// sequence number. True if it was sent.
    ///
    /// # Safety
    /// `length` bytes are readable, and begin with a header that contains the connection.
    #[inline(always)]
    pub(crate) unsafe fn put_into_fast_box(
        &self,
        ordered: bool,
        piece: *const u8,
        length: usize,
    ) -> bool {
        let Some(writer) = self.writer_for(ordered, length) else { return false };
        // SAFETY: the caller guarantees that the piece is readable.
        self.has_left(unsafe { writer.put(piece, length) })
    }

    /// The same for a message with its header beside its data.
    ///
    /// # Safety
    /// Both are readable; the header contains the connection.
    #[inline(always)]
    pub(crate) unsafe fn put_beside_into_fast_box(
        &self,
        ordered: bool,
        front: (*const u8, usize),
        data: (*const u8, usize),
    ) -> bool {
        if !(1..=LONGEST).contains(&data.1) {
            return false;
        }
        let Some(writer) = self.writer_for(ordered, front.1) else { return false };
        // SAFETY: the caller guarantees that both are readable.
        self.has_left(unsafe { writer.put_beside(front, data) })
    }

    /// The peer's box, if a piece of `length` bytes may go into a place of it.
    #[inline(always)]
    fn writer_for(&self, ordered: bool, length: usize) -> Option<&Writer> {
        let outbound = self.fast_box.outbound()?;
        let is_clear = || self.fast_box.is_clear.get() || self.has_become_clear();
        (length <= MOST && (!ordered || is_clear())).then_some(&outbound.writer)
    }

    /// Whether a piece is in the box. Wakes its reader if that may have gone to sleep.
    #[inline(always)]
    fn has_left(&self, put: Put) -> bool {
        match put {
            Put::Refused => false,
            Put::Done => true,
            Put::DoneAndAsleep => {
                self.wake_reader();
                true
            }
        }
    }

    #[cold]
    fn has_become_clear(&self) -> bool {
        // As many messages were delivered, in order, as the peer has reported as consumed.
        let ahead = self.credits.acked_by_peer().messages.wrapping_sub(self.fast_box.behind.get());
        self.fast_box.is_clear.set(ahead as i16 >= 0);
        self.fast_box.is_clear.get()
    }

    /// The next message in order goes through UCX.
    #[inline(always)]
    pub(crate) fn passes_fast_box(&self) {
        self.fast_box.is_clear.set(false);
        self.fast_box.behind.set(self.credits.sequence.get().wrapping_add(1) as u16);
    }

    /// Wakes a peer that may have gone to sleep before it could see the last message.
    #[cold]
    #[inline(never)]
    fn wake_reader(&self) {
        // The caller may be in the middle of an operation with free slots that it has not taken
        // yet, two at most.
        let slab = &self.worker.slab;
        let first = slab.pop();
        let second = slab.pop();
        // If this is refused because too many internal messages are already in flight to the peer,
        // those wake it.
        self.say(Kind::Pong, 0, Part::Nothing);
        second.iter().chain(&first).for_each(|slot| slab.push(slot));
    }
}

/// Offering.
impl Endpoint {
    /// Both sides may share memory, and no box was offered yet.
    fn may_have_fast_box(&self) -> bool {
        let (worker, here) = (&self.worker, &self.worker.identity);
        !self.fast_box.settled.get()
            && worker.fast_boxes.count.get() < MOST_BOXES
            && self.peering.fast_number.get() != 0
            && self.takes_operations()
            && worker.context.shares_memory
            && self.origin().is_some_and(|origin| origin.identity.shares_host_with(here))
            && !are_off()
            && take_part()
    }

    /// Makes a box for the peer's messages, and offers it. After UCP's pass.
    pub(crate) fn offer_fast_box(&self) {
        if !self.may_have_fast_box() {
            return;
        }
        self.fast_box.settled.set(true);
        let made = Segment::create(size_of::<Lines>(), 0).map(|memory| {
            // SAFETY: our own memory, aligned to a page and all zero, which is the initial state of
            // a box. It is unmapped after the reader is dropped, and has no other reader.
            let reader = unsafe { Reader::new(memory.control().cast()) };
            let name = memory.name().encode();
            Box::new(Inbound { reader, name, _memory: memory, is_left: Cell::new(false) })
        });
        match made {
            Ok(inbound) => {
                self.fast_box.inbound.set(Some(NonNull::from(&*inbound)));
                self.worker.fast_boxes.made.borrow_mut().push(inbound);
                self.worker.fast_boxes.add(self);
                self.say(Kind::FastBox, 0, Part::Nothing);
            }
            Err(error) => self.log_no_box(log::INFO, "from", error.message()),
        }
    }

    #[cold]
    fn log_no_box(&self, level: i32, direction: &str, why: &str) {
        log::write(
            level,
            Component::Endpoint,
            self,
            format_args!("no fast box for messages {direction} the peer: {why}"),
        );
    }

    /// The peer has offered a box. After UCP's pass.
    pub(crate) fn fast_box_came(&self, name: &SegmentName) {
        let may = self.takes_operations() && self.worker.context.shares_memory && !are_off();
        if !may || self.fast_box.outbound.get().is_some() {
            return;
        }
        match Segment::open(name) {
            Ok(memory) if memory.control_length() == size_of::<Lines>() => {
                // SAFETY: mapped, aligned to a page, with a length that no process can change, and
                // unmapped after the writer is dropped. Only the peer itself could have made a
                // second writer.
                let writer = unsafe { Writer::new(memory.control().cast()) };
                let outbound = self
                    .fast_box
                    .outbound
                    .get_or_init(|| Box::new(Outbound { writer, _memory: memory }));
                self.fast_box.is_clear.set(false);
                self.fast_box.behind.set(self.credits.sequence.get() as u16);
                self.fast_box.open.set(Some(NonNull::from(&**outbound)));
            }
            Ok(_) => self.log_no_box(log::WARN, "to", "its memory has another size"),
            Err(error) => self.log_no_box(log::INFO, "to", error.message()),
        }
        self.offer_fast_box();
    }

    /// Stops using both boxes. When nothing in flight refers to the endpoint.
    pub(crate) fn shut_fast_box(&self) {
        self.fast_box.open.set(None);
        self.fast_box.settled.set(true);
        self.worker.fast_boxes.remove(self);
        if let Some(inbound) = self.fast_box.inbound() {
            inbound.is_left.set(true);
            self.fast_box.inbound.set(None);
        }
    }
}

/// Receiving.
impl Worker {
    /// Takes in what has arrived. Returns the number of messages. In a pass.
    #[inline(always)]
    pub(crate) fn look_into_fast_boxes(&self) -> u32 {
        let mut came = 0;
        for endpoint in self.fast_boxes.all() {
            came += endpoint.look_into_fast_box();
        }
        came
    }

    /// A message is destroyed, which was lent `data`.
    pub(crate) fn give_back_lent(&self, data: *const u8, number: u8) {
        let made = self.fast_boxes.made.borrow();
        // Not by the connection, whose number may belong to another one by now.
        let Some(inbound) = made.iter().find(|inbound| inbound.reader.has_lent(data)) else {
            return;
        };
        inbound.reader.give_back(number);
        if inbound.is_left.get() {
            drop(made);
            self.fast_boxes.drop_unused();
        }
    }

    /// From time to time in a pass: lets writers in again if the worker has not slept for some
    /// time, and offers a box to a connection that has become busy.
    pub(crate) fn tend_fast_boxes(&self, now: u64) {
        let boxes = &self.fast_boxes;
        if boxes.was_armed.replace(false) {
            boxes.armed_at.set(now);
        } else if !self.armed.get() && now.wrapping_sub(boxes.armed_at.get()) >= AWAKE_AFTER_NS {
            // With several threads on a worker, the thread that armed it may be another one, which
            // still sleeps.
            boxes.readers().for_each(Reader::wake_up);
        }
        // SAFETY: null, or an endpoint that the worker keeps: see `named_last`.
        let Some(endpoint) = (unsafe { self.named.get().as_ref() }) else { return };
        if endpoint.order.passed() >= BUSY && endpoint.may_have_fast_box() {
            if let Some(endpoint) = endpoint.registered() {
                self.push_event(Event::FastBox(endpoint, None));
            }
        }
    }

    /// The worker is about to sleep. True if there is something to do first.
    pub(crate) fn close_fast_boxes(&self) -> bool {
        let boxes = &self.fast_boxes;
        if boxes.count.get() == 0 {
            return false;
        }
        boxes.was_armed.set(true);
        let mut awake = false;
        boxes.readers().for_each(|reader| awake |= reader.fall_asleep());
        // If the kernel refuses the barrier that it had offered, another pass gives any writer
        // enough time.
        let refused = awake && !everywhere();
        refused || boxes.readers().any(Reader::has_message)
    }
}

impl Endpoint {
    #[inline(always)]
    fn look_into_fast_box(&self) -> u32 {
        match self.fast_box.inbound() {
            Some(inbound) if inbound.reader.has_message() => self.empty(&inbound.reader),
            _ => 0,
        }
    }

    /// Takes out everything, before an end that the peer has announced or met. At most one full
    /// box, because the peer may keep writing.
    pub(crate) fn empty_fast_box(&self) {
        for _ in 0..PLACES.div_ceil(AT_ONCE) {
            if self.look_into_fast_box() == 0 {
                break;
            }
        }
    }

    #[inline(never)]
    fn empty(&self, reader: &Reader) -> u32 {
        if let Some(outbound) = self.fast_box.outbound() {
            // The message will probably cause a reply.
            outbound.writer.prepare();
        }
        let (mut words, mut came) = ([0; WORDS], 0);
        while came < AT_ONCE {
            match reader.take(&mut words) {
                Some(Ok(Came { length, data, data_length }))
                    if compact_header::names(&words) == self.peering.number.get()
                        && (data_length == 0 || header::may_have_data(words[0])) =>
                {
                    if data_length == 0 {
                        self.piece_came(words.as_ptr().cast(), length);
                    } else {
                        let bytes = words.map(u64::to_ne_bytes);
                        let arrived = Arrived {
                            data: data.cast_mut().cast(),
                            length: data_length,
                            waits: false,
                            keeper: Keeper::FastBox(reader),
                            from: std::ptr::null_mut(),
                        };
                        self.worker.came_beside(&bytes.as_flattened()[..length], &arrived);
                        reader.settle();
                    }
                }
                None => break,
                _ => {
                    if let Some(endpoint) = self.registered() {
                        self.worker.push_event(Event::ProtocolError(
                            endpoint,
                            "wrote invalid data into its fast box",
                        ));
                    }
                    self.worker.fast_boxes.remove(self);
                    break;
                }
            }
            came += 1;
        }
        came
    }

    #[inline(always)]
    fn piece_came(&self, piece: *const u8, length: usize) {
        let worker = std::ptr::from_ref::<Worker>(&self.worker);
        let piece = piece.cast_mut();
        let param = sys::ucp_am_recv_param_t { recv_attr: 0, reply_ep: std::ptr::null_mut() };
        // SAFETY: called as UCX does: with the worker, inside its gate, and a message that is valid
        // during the call.
        unsafe {
            on_message(worker.cast_mut().cast(), std::ptr::null(), 0, piece.cast(), length, &param)
        };
    }
}
