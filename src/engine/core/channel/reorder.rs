//! The order of messages on one connection. Each has a sequence number; a message that has
//! overtaken others waits for them.

use crate::engine::base::clock;
use crate::engine::core::channel::message::Inbound;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::worker::attention;
use crate::engine::wire::credit;
use crate::engine::wire::header::Amount;
use std::cell::{Cell, RefCell};

/// A message that is missing for this long will not arrive: its sender has failed to send it. Only
/// a sender that stops in the middle of a long message takes longer than any network.
const GAP_NS: u64 = 10_000_000_000;

/// The order of messages received on one connection.
#[derive(Default)]
pub(crate) struct Order {
    /// The next sequence number.
    expected: Cell<u32>,
    /// Messages that have overtaken others.
    early: RefCell<Vec<*const Slot>>,
    /// Since when there are such messages; 0 while there are none.
    gap_since: Cell<u64>,
    /// Messages that were delivered, while a trace is recorded.
    delivered: Cell<u32>,
    /// Earlier ones did not name the connection.
    first_named: Cell<u32>,
}

impl Order {
    /// The lower bits of a sequence number are those of the next one, and none is missing.
    #[inline(always)]
    pub(crate) fn is_next(&self, sequence: u16) -> bool {
        sequence == self.expected.get() as u16 && !self.has_gap()
    }

    /// The same for a whole sequence number.
    #[inline(always)]
    pub(crate) fn is_due(&self, sequence: u32) -> bool {
        sequence == self.expected.get() && !self.has_gap()
    }

    /// The sequence number with these lower bits that is nearest to the next one.
    pub(crate) fn nearest(&self, sequence: u16) -> u32 {
        let expected = self.expected.get();
        expected.wrapping_add_signed(i32::from(sequence.wrapping_sub(expected as u16) as i16))
    }

    /// Messages received since the start.
    pub(crate) fn passed(&self) -> u32 {
        self.expected.get()
    }

    /// The message with this sequence number does not name the connection. A sender that has
    /// learned the number uses it from then on.
    pub(crate) fn note_unnamed(&self, sequence: u32) {
        self.first_named.set(self.first_named.get().max(sequence.saturating_add(1)));
    }

    /// For a trace: the sequence number of the message that is being delivered, which comes in
    /// order, and whether it names the connection.
    pub(crate) fn note_delivered(&self) -> (u32, bool) {
        let sequence = self.delivered.replace(self.delivered.get().wrapping_add(1));
        (sequence, sequence >= self.first_named.get())
    }

    /// The next message in order has arrived.
    #[inline(always)]
    pub(crate) fn advance(&self) {
        self.expected.set(self.expected.get().wrapping_add(1));
    }

    #[inline(always)]
    fn has_gap(&self) -> bool {
        self.gap_since.get() != 0
    }

    /// Records whether there are early messages; the time starts now.
    fn note_gap(&self) {
        let since = if self.early.borrow().is_empty() { 0 } else { clock::now_ns().max(1) };
        self.gap_since.set(since);
    }
}

impl Endpoint {
    /// Puts a message into the order of its connection.
    pub(crate) fn sort_in(&self, slot: &Slot, taken: Amount) {
        self.heard();
        self.note_credit(taken);
        let inbound = slot.inbound();
        let ahead = inbound.sequence.wrapping_sub(self.order.expected.get());
        if !self.credits.receive(inbound.charge) || ahead > credit::MESSAGES.into() {
            if let Some(endpoint) = self.registered() {
                self.worker.push_event(Event::ProtocolError(
                    endpoint,
                    "sends more than its credit allows",
                ));
            }
            // It is not dropped here, inside UCX's handler, but later with the others.
            slot.inbound.set(Inbound { connection: 0, from: std::ptr::null_mut(), ..*inbound });
            self.worker.inbox.add_unaddressed(slot);
            return self.worker.attend(attention::INBOX);
        }
        if ahead != 0 {
            self.order.early.borrow_mut().push(slot);
            if !self.order.has_gap() {
                self.order.note_gap();
                self.watch();
            }
            return;
        }
        self.admit(slot);
        while let Some(next) = self.order.next_early() {
            // SAFETY: a slot of this worker that nothing else uses.
            self.admit(unsafe { &*next });
        }
        if self.order.has_gap() {
            self.order.note_gap();
        }
    }

    fn admit(&self, slot: &Slot) {
        self.worker.enqueue_due(self, slot);
        self.worker.wake_sleeper();
    }

    /// A message is missing. Fails the endpoint if that lasts too long. Checked in each pass until
    /// then.
    pub(crate) fn waits_for_message(&self, now: u64) -> bool {
        if !self.order.has_gap() {
            return false;
        }
        if now >= self.gap_deadline() {
            self.broken("sent a message that did not arrive within 10 s");
        }
        true
    }

    /// When the endpoint fails because of a missing message; 0 while none is missing.
    pub(crate) fn gap_deadline(&self) -> u64 {
        if !self.order.has_gap() {
            return 0;
        }
        self.order.gap_since.get() + GAP_NS
    }

    pub(crate) fn drop_early(&self) {
        for slot in self.order.early.take() {
            // SAFETY: a slot of this worker that nothing else uses.
            self.worker.message_gone(unsafe { &*slot });
        }
        self.order.note_gap();
    }
}

impl Order {
    fn next_early(&self) -> Option<*const Slot> {
        let mut early = self.early.borrow_mut();
        let expected = self.expected.get();
        // SAFETY: slots of this worker that nothing else uses.
        let next =
            early.iter().position(|slot| unsafe { &**slot }.inbound.get().sequence == expected)?;
        Some(early.swap_remove(next))
    }
}
