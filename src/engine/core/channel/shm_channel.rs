//! Which connections have a fast box (see `core::channel::shm_ring`), and what goes through it:
//! messages, questions and answers that go out as one piece of a few words.
//!
//! UCX takes some hundred instructions and an atomic operation to hand a short message over to a
//! process of the same host; a box takes a dozen. A connection gets one when it has proved busy,
//! where both sides may use shared memory, their workers do not sleep, and the kernel has what that
//! needs (`asymmetric`): the side that has got so many messages makes a box for the next ones and
//! offers it, and the other side offers one in return. Nothing depends on it: where there is none,
//! or it is full, or its reader sleeps, UCX has the message as ever.
//!
//! **Order.** A message has its place in the order of its connection (see
//! `core::channel::reorder`), whichever way it goes; what has overtaken another one would wait
//! there, which takes longer than it gains. So a message goes through the box only when those that
//! went through UCX are known to have been handed to their handlers, by what the peer has told of
//! its credits. Answers have no order. What a peer has put into a box is taken out before its Bye
//! or its end is looked at, and stays in memory that is the reader's own.

use crate::engine::base::log;
use crate::engine::base::membarrier::{everywhere, take_part};
use crate::engine::core::channel::dispatch::on_message;
use crate::engine::core::channel::shm_ring::{
    Lines, Put, Reader, Writer, LONGEST, MOST, PLACES, WORDS,
};
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::Part;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::shared_segment::{Segment, SegmentName};
use crate::engine::wire::compact_header;
use crate::engine::wire::credit;
use crate::engine::wire::header::Kind;
use crate::sys;
use std::cell::{Cell, OnceCell};
use std::sync::OnceLock;

/// Messages that a connection has brought before it gets one.
const BUSY: u32 = 256;
/// Of a worker, which looks into each of them in each pass.
const MOST_BOXES: usize = 16;
const _: () = assert!(cfg!(loom) || PLACES >= credit::MESSAGES as u32);
/// Messages taken out of one in a pass, before the others have their turn.
const AT_ONCE: u32 = 16;
/// A worker that has been armed takes nothing by its boxes for so long: what it takes to go to
/// sleep disturbs all processes that have boxes.
const AWAKE_AFTER_NS: u64 = 2_000_000;

/// Turns them off with 0.
const SWITCH: &str = "UCXX_RS_FAST_BOXES";

fn are_off() -> bool {
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os(SWITCH).is_some_and(|set| set == "0"))
}

/// A box that this side has made, and reads.
struct Inbound {
    reader: Reader,
    /// UCX may be sending it for as long as it has the endpoint.
    name: [u8; SegmentName::LENGTH],
    _memory: Segment,
}

/// The peer's, which this side fills.
struct Outbound {
    writer: Writer,
    _memory: Segment,
}

/// Of an endpoint.
#[derive(Default)]
pub(crate) struct FastBox {
    /// Null while there is none that may be filled.
    open: Cell<*const Outbound>,
    /// All messages that went through UCX have been handed to their handlers.
    is_clear: Cell<bool>,
    /// The place behind the last one of these.
    behind: Cell<u16>,
    /// The peer was offered one, or is not to be.
    settled: Cell<bool>,
    inbound: OnceCell<Box<Inbound>>,
    outbound: OnceCell<Box<Outbound>>,
}

impl FastBox {
    /// What the offer of the box that this side has made says.
    pub(crate) fn offer(&self) -> &[u8] {
        self.inbound.get().map_or(&[], |inbound| &inbound.name)
    }

    /// The peer's box.
    #[cfg(test)]
    pub(crate) fn writer(&self) -> Option<&Writer> {
        self.outbound.get().map(|outbound| &outbound.writer)
    }

    /// For a dump: what it is used for.
    pub(crate) fn text(&self) -> &'static str {
        match (!self.open.get().is_null(), self.inbound.get().is_some()) {
            (true, true) => ", short messages through fast boxes",
            (true, false) => ", short messages to it through a fast box",
            (false, true) => ", short messages from it through a fast box",
            (false, false) => "",
        }
    }
}

/// Of a worker: the endpoints whose boxes it reads.
pub(crate) struct FastBoxes {
    count: Cell<usize>,
    /// As many, which take themselves out before they go.
    endpoints: [Cell<*const Endpoint>; MOST_BOXES],
    /// The worker was armed since `tend_fast_boxes` looked.
    was_armed: Cell<bool>,
    /// When that has seen it last.
    armed_at: Cell<u64>,
}

impl Default for FastBoxes {
    fn default() -> Self {
        let endpoints = std::array::from_fn(|_| Cell::new(std::ptr::null()));
        FastBoxes {
            count: Cell::new(0),
            endpoints,
            was_armed: Cell::new(false),
            armed_at: Cell::new(0),
        }
    }
}

impl FastBoxes {
    #[inline(always)]
    fn all(&self) -> impl Iterator<Item = &Endpoint> {
        // SAFETY: see `endpoints`.
        self.endpoints[..self.count.get()].iter().map(|endpoint| unsafe { &*endpoint.get() })
    }

    fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.all()
            .filter_map(|endpoint| endpoint.fast_box.inbound.get())
            .map(|inbound| &inbound.reader)
    }

    /// There are fewer than there may be.
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
    /// Puts a piece of so many bytes into the box, if it may go there. `ordered`: it has the next
    /// place in the order. True if it has left.
    ///
    /// # Safety
    /// Inside the gate; so many bytes are there to be read, which begin with a header that names
    /// the connection.
    #[inline(always)]
    pub(crate) unsafe fn put_into_fast_box(
        &self,
        ordered: bool,
        piece: *const u8,
        length: usize,
    ) -> bool {
        // SAFETY: taken away before it goes.
        let Some(outbound) = (unsafe { self.fast_box.open.get().as_ref() }) else { return false };
        if length > MOST || (ordered && !self.fast_box.is_clear.get() && !self.has_become_clear()) {
            return false;
        }
        // SAFETY: as for this function.
        match unsafe { outbound.writer.put(piece, length) } {
            Put::Refused => false,
            Put::Done => true,
            Put::DoneAndAsleep => {
                self.wake_reader();
                true
            }
        }
    }

    /// The same of an ordered piece of more than `MOST` bytes, of which so many lie at `first` and
    /// `length` others at `rest`.
    ///
    /// # Safety
    /// As for `put_into_fast_box`.
    pub(crate) unsafe fn put_long_into_fast_box(
        &self,
        first: *const u8,
        rest: *const u8,
        length: usize,
    ) -> bool {
        // SAFETY: as in `put_into_fast_box`.
        let Some(outbound) = (unsafe { self.fast_box.open.get().as_ref() }) else { return false };
        // SAFETY: as for this function.
        let put = unsafe { outbound.writer.put_long(first, rest, length) };
        if put == Put::DoneAndAsleep {
            self.wake_reader();
        }
        put != Put::Refused
    }

    /// A piece of so many bytes that has the next place may go through the box.
    #[inline(always)]
    pub(crate) fn has_clear_fast_box(&self, length: usize) -> bool {
        !self.fast_box.open.get().is_null()
            && length <= LONGEST
            && (self.fast_box.is_clear.get() || self.has_become_clear())
    }

    #[cold]
    fn has_become_clear(&self) -> bool {
        // As many have been handed over, in their order, as are gone again.
        let ahead = self.credits.acked_by_peer().messages.wrapping_sub(self.fast_box.behind.get());
        self.fast_box.is_clear.set(ahead as i16 >= 0);
        self.fast_box.is_clear.get()
    }

    /// The message that has the next place goes through UCX.
    #[inline(always)]
    pub(crate) fn passes_fast_box(&self) {
        self.fast_box.is_clear.set(false);
        self.fast_box.behind.set(self.credits.sequence.get().wrapping_add(1) as u16);
    }

    /// The peer may have gone to sleep before it could see the last message.
    #[cold]
    #[inline(never)]
    fn wake_reader(&self) {
        // The caller may be in the midst of an operation with free slots that it has not taken yet,
        // two at most.
        let slab = &self.worker.slab;
        let first = slab.pop();
        let second = slab.pop();
        // Where so many of the library's own messages are on their way to it that there is no room
        // for one more, those wake it.
        self.say(Kind::Pong, 0, Part::Nothing);
        second.iter().chain(&first).for_each(|slot| slab.push(slot));
    }
}

/// Offering.
impl Endpoint {
    /// Both sides may share memory, and it is not settled yet.
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

    /// Makes a box for what the peer sends, and tells it. After UCP's pass.
    pub(crate) fn offer_fast_box(&self) {
        if !self.may_have_fast_box() {
            return;
        }
        self.fast_box.settled.set(true);
        let made = Segment::create(size_of::<Lines>(), 0).map(|memory| {
            // SAFETY: memory of ours that is aligned to a page and all zero, which is what lines
            // are at first; it goes after the reader, and has no other one.
            let reader = unsafe { Reader::new(memory.control().cast()) };
            Inbound { reader, name: memory.name().encode(), _memory: memory }
        });
        match made {
            Ok(inbound) => {
                let _ = self.fast_box.inbound.set(Box::new(inbound));
                self.worker.fast_boxes.add(self);
                self.say(Kind::FastBox, 0, Part::Nothing);
            }
            Err(error) => {
                log::write(log::INFO, c"endpoint", &format!("no fast box: {}", error.message()))
            }
        }
    }

    /// The peer has made one. After UCP's pass.
    pub(crate) fn fast_box_came(&self, name: &SegmentName) {
        let may = self.takes_operations() && self.worker.context.shares_memory && !are_off();
        if !may || self.fast_box.outbound.get().is_some() {
            return;
        }
        match Segment::open(name) {
            Ok(memory) if memory.control_length() == size_of::<Lines>() => {
                // SAFETY: mapped, aligned to a page, and of that length, which nobody can change;
                // it goes after the writer. Another writer would be the peer's own doing.
                let writer = unsafe { Writer::new(memory.control().cast()) };
                let outbound = self
                    .fast_box
                    .outbound
                    .get_or_init(|| Box::new(Outbound { writer, _memory: memory }));
                self.fast_box.is_clear.set(false);
                self.fast_box.behind.set(self.credits.sequence.get() as u16);
                self.fast_box.open.set(&raw const **outbound);
            }
            Ok(_) => log::write(log::WARN, c"endpoint", "a fast box of another size"),
            Err(error) => {
                log::write(log::INFO, c"endpoint", &format!("no fast box: {}", error.message()))
            }
        }
        self.offer_fast_box();
    }

    /// Nothing goes into the peer's box or out of this side's any more. When nothing in flight
    /// names the endpoint.
    pub(crate) fn shut_fast_box(&self) {
        self.fast_box.open.set(std::ptr::null());
        self.fast_box.settled.set(true);
        self.worker.fast_boxes.remove(self);
    }
}

/// Receiving.
impl Worker {
    /// Takes in what has come: how many messages. In a pass.
    #[inline(always)]
    pub(crate) fn look_into_fast_boxes(&self) -> u32 {
        let mut came = 0;
        for endpoint in self.fast_boxes.all() {
            came += endpoint.look_into_fast_box();
        }
        came
    }

    /// Now and then in a pass: writers are let in again by a worker that has not slept for some
    /// time, and a connection that has become busy is to have a box.
    pub(crate) fn tend_fast_boxes(&self, now: u64) {
        let boxes = &self.fast_boxes;
        if boxes.was_armed.replace(false) {
            boxes.armed_at.set(now);
        } else if !self.armed.get() && now.wrapping_sub(boxes.armed_at.get()) >= AWAKE_AFTER_NS {
            // Who has armed a worker that several threads use may be another one, which still
            // sleeps.
            boxes.readers().for_each(Reader::wake_up);
        }
        // SAFETY: as in `named_last`.
        let Some(endpoint) = (unsafe { self.named.get().as_ref() }) else { return };
        if endpoint.order.passed() >= BUSY && endpoint.may_have_fast_box() {
            if let Some(endpoint) = endpoint.registered() {
                self.push_event(Event::FastBox(endpoint, None));
            }
        }
    }

    /// The worker is about to sleep. True if there is something to be done first.
    pub(crate) fn close_fast_boxes(&self) -> bool {
        let boxes = &self.fast_boxes;
        if boxes.count.get() == 0 {
            return false;
        }
        boxes.was_armed.set(true);
        let mut awake = false;
        boxes.readers().for_each(|reader| awake |= reader.fall_asleep());
        // Where the kernel refuses what it had offered, another pass takes longer than any writer
        // needs.
        let refused = awake && !everywhere();
        refused || boxes.readers().any(Reader::has_message)
    }
}

impl Endpoint {
    #[inline(always)]
    fn look_into_fast_box(&self) -> u32 {
        match self.fast_box.inbound.get() {
            Some(inbound) if inbound.reader.has_message() => self.empty(&inbound.reader),
            _ => 0,
        }
    }

    /// Takes all of it, before an end that the peer has told or met. No more than fits in, as
    /// nobody knows what it goes on to do.
    pub(crate) fn empty_fast_box(&self) {
        for _ in 0..PLACES.div_ceil(AT_ONCE) {
            if self.look_into_fast_box() == 0 {
                break;
            }
        }
    }

    #[inline(never)]
    fn empty(&self, reader: &Reader) -> u32 {
        // SAFETY: taken away before it goes.
        if let Some(outbound) = unsafe { self.fast_box.open.get().as_ref() } {
            // It may well be answered.
            outbound.writer.prepare();
        }
        let (mut words, mut came) = ([0; WORDS], 0);
        while came < AT_ONCE {
            match reader.take(&mut words) {
                Some(Ok(length)) if compact_header::names(&words) == self.peering.number.get() => {
                    if length <= MOST {
                        self.piece_came(words.as_ptr().cast(), length);
                    } else {
                        self.long_piece_came(reader, &words, length);
                    }
                }
                None => break,
                _ => {
                    if let Some(endpoint) = self.registered() {
                        self.worker.push_event(Event::ProtocolError(
                            endpoint,
                            "has put nonsense into its fast box",
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

    /// One whose rest is still in the box.
    fn long_piece_came(&self, reader: &Reader, words: &[u64; WORDS], length: usize) {
        let first = words.map(u64::to_ne_bytes);
        let first = first.as_flattened();
        // SAFETY: room for all of it, as is asked there.
        let rest = |to: *mut u8| unsafe { reader.take_rest(length, to) };
        if !self.receive_long_fast(first, length, &rest) {
            let mut piece = vec![0_u64; length.div_ceil(8)];
            piece[..WORDS].copy_from_slice(words);
            rest(piece[WORDS..].as_mut_ptr().cast());
            self.piece_came(piece.as_ptr().cast(), length);
        }
    }

    #[inline(always)]
    fn piece_came(&self, piece: *const u8, length: usize) {
        let worker = std::ptr::from_ref::<Worker>(&self.worker);
        let piece = piece.cast_mut();
        let param = sys::ucp_am_recv_param_t { recv_attr: 0, reply_ep: std::ptr::null_mut() };
        // SAFETY: as UCX calls it: the worker, inside its gate, and a message that is valid during
        // the call.
        unsafe {
            on_message(worker.cast_mut().cast(), std::ptr::null(), 0, piece.cast(), length, &param)
        };
    }
}
