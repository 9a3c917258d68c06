//! The send window of an endpoint, and the queue behind it.
//!
//! UCP accepts any number of sends, and buffers what its transport has no room for. So UCP gets
//! only a limited number at a time. Further sends wait here, in order; while no peer has answered,
//! all of them do. A waiting send is in flight for everything else: it is counted, its timer runs,
//! and it can be cancelled at once. The queue is drained after a pass, never inside UCP's progress,
//! where messages lose their order.
//!
//! A send that UCP completes inside its call takes no place and does not check the window. The
//! status word, which every send reads, tells when the next one must use the slow path (see
//! `core::endpoint::status`).

use crate::engine::base::counters::Counter;
use crate::engine::base::log::{self, Component};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::endpoint::life::Peer;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Part, Slot, Ticket};
use crate::engine::core::trace;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{attention, Worker};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;

/// How much an endpoint may have in flight.
#[derive(Clone, Copy)]
pub struct WindowLimits {
    /// Sends that UCP has and has not completed.
    pub ops: u32,
    /// Bytes in them. The send that reaches this limit is sent as well, so a send always proceeds
    /// if nothing is in flight.
    pub bytes: u64,
    /// Sends that wait behind those.
    pub queue_ops: u32,
    /// Bytes in them.
    pub queue_bytes: u64,
}

impl WindowLimits {
    /// The limits if the user sets none.
    pub const DEFAULT: WindowLimits =
        WindowLimits { ops: 256, bytes: 256 << 20, queue_ops: 16384, queue_bytes: u64::MAX };
}

/// Queue length at which even replies and other owed sends are refused. Members of groups that
/// respect their own limits never reach it.
pub(crate) const MOST_OWED: u64 = 1 << 18;

/// Queue length from which completed entries are looked for and removed.
const SWEEP: usize = 64;

enum Waiting {
    Send(Ticket),
    /// A flush, which waits for UCP's half of it.
    Flush(Ticket),
}

impl Waiting {
    fn slot(&self) -> Option<&Slot> {
        let (Waiting::Send(ticket) | Waiting::Flush(ticket)) = self;
        ticket.current()
    }
}

/// What waits, oldest first.
struct Lane {
    entries: RefCell<VecDeque<Waiting>>,
    /// Look for completed entries at this length.
    sweep_at: Cell<usize>,
}

impl Lane {
    fn new() -> Self {
        Lane { entries: RefCell::default(), sweep_at: Cell::new(SWEEP) }
    }

    fn is_empty(&self) -> bool {
        self.entries.borrow().is_empty()
    }

    fn push(&self, entry: Waiting) {
        let mut entries = self.entries.borrow_mut();
        if entries.len() >= self.sweep_at.get() {
            entries.retain(|known| known.slot().is_some());
            self.sweep_at.set(SWEEP.max(2 * entries.len()));
        }
        entries.push_back(entry);
    }

    /// Takes out the oldest entry if `may` allows it. A flush is always allowed, because everything
    /// before it was sent.
    fn next(&self, may: impl Fn(&Slot) -> bool) -> Option<Waiting> {
        let mut entries = self.entries.borrow_mut();
        loop {
            let front = entries.front()?;
            match (front.slot(), front) {
                (None, _) => entries.pop_front(),
                (Some(slot), Waiting::Send(_)) if !may(slot) => return None,
                _ => return entries.pop_front(),
            };
        }
    }
}

/// See the head of this file.
pub(crate) struct SendWindow {
    limits: Cell<WindowLimits>,
    /// Sends that UCP has.
    ops: Cell<u32>,
    bytes: Cell<u64>,
    /// Sends that wait; read by any thread.
    pub(crate) queued_ops: Counter,
    pub(crate) queued_bytes: Counter,
    waiting: Lane,
    /// Active messages that wait for credit, and the flushes behind them. Sends without credit do
    /// not wait for them.
    uncredited: Lane,
    /// Counted in `Worker::queueing`.
    counted: Cell<bool>,
    /// In `Worker::windows`.
    listed: Cell<bool>,
}

impl SendWindow {
    pub(crate) fn new(limits: WindowLimits) -> Self {
        SendWindow {
            limits: Cell::new(limits),
            ops: Cell::new(0),
            bytes: Cell::new(0),
            queued_ops: Counter::default(),
            queued_bytes: Counter::default(),
            waiting: Lane::new(),
            uncredited: Lane::new(),
            counted: Cell::new(false),
            listed: Cell::new(false),
        }
    }

    /// Sends that UCP has, and their bytes.
    pub(crate) fn in_ucp(&self) -> (u64, u64) {
        (self.ops.get().into(), self.bytes.get())
    }

    /// Active messages that wait for credit.
    pub(crate) fn uncredited_now(&self) -> usize {
        let entries = self.uncredited.entries.borrow();
        entries
            .iter()
            .filter(|entry| matches!(entry, Waiting::Send(_)) && entry.slot().is_some())
            .count()
    }

    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        let limits = self.limits.get();
        self.ops.get() < limits.ops && self.bytes.get() < limits.bytes
    }

    /// Something waits.
    pub(crate) fn is_queueing(&self) -> bool {
        !self.waiting.is_empty() || !self.uncredited.is_empty()
    }

    /// There is a place for one more send, and nothing that must be sent before it.
    pub(crate) fn is_free(&self) -> bool {
        self.has_room() && self.waiting.is_empty()
    }
}

impl Endpoint {
    /// Call this before any other thread can reach the endpoint.
    pub(crate) fn set_limits(&self, limits: WindowLimits) {
        self.window.limits.set(limits);
        // SAFETY: no other thread can reach the endpoint yet, as this function requires.
        unsafe { self.reserved.limits.set(limits) };
    }

    /// A send is in flight from now on, in UCP or in the queue.
    #[inline]
    pub(crate) fn send_begun(&self, slot: &Slot) {
        if !stands_before_others(slot) {
            return self.send_begins_to_wait(slot);
        }
        self.stands(slot.length.get());
        if slot.has_mark(mark::WAITING) {
            self.send_begins_to_wait(slot);
        } else {
            self.given_to_ucp(slot);
        }
    }

    fn send_begins_to_wait(&self, slot: &Slot) {
        self.window.queued_ops.add(1);
        self.window.queued_bytes.add(slot.length.get());
        self.worker.stats.sends_waiting.add(1);
        self.stands_in_queue(slot.length.get());
    }

    #[inline]
    fn given_to_ucp(&self, slot: &Slot) {
        let window = &self.window;
        window.ops.set(window.ops.get() + 1);
        window.bytes.set(window.bytes.get() + slot.length.get());
        if !window.has_room() {
            self.hold();
        }
    }

    /// A send has completed, possibly inside UCP's progress: the queue is drained after the pass.
    #[inline]
    pub(crate) fn send_ended(&self, slot: &Slot) {
        let window = &self.window;
        let waited = slot.has_mark(mark::WAITING);
        if stands_before_others(slot) {
            self.stood(slot.length.get());
        }
        if waited {
            self.send_left_queue(slot);
            if slot.has_mark(mark::CREDITED) {
                self.credits.unspend(slot.queued.get().outgoing.charge);
            }
        } else {
            window.ops.set(window.ops.get() - 1);
            window.bytes.set(window.bytes.get() - slot.length.get());
        }
        if waited || window.is_queueing() || self.writable.is_armed() {
            self.tend_later();
        }
        self.reopen();
    }

    fn send_left_queue(&self, slot: &Slot) {
        self.worker.stats.sends_waiting.subtract(1);
        self.window.queued_ops.subtract(1);
        self.window.queued_bytes.subtract(slot.length.get());
        self.stood_in_queue(slot.length.get());
    }

    /// UCP is about to get a send that waited.
    pub(crate) fn send_goes_out(&self, slot: &Slot) {
        self.send_left_queue(slot);
        slot.clear_mark(mark::WAITING | mark::CREDITED);
        self.given_to_ucp(slot);
    }

    /// No send may go straight to UCP.
    pub(crate) fn is_held(&self) -> bool {
        self.waits_for_peer() || !self.window.is_free()
    }

    /// Lets sends go straight to UCP again, if nothing prevents it.
    fn reopen(&self) {
        if self.has_status(SharedEndpoint::HELD) && !self.is_held() {
            self.open_status(SharedEndpoint::HELD);
        }
    }

    /// Refuses a send that would have to wait but must not, or for which the queue has no room.
    /// Sends from the ring have reserved their place instead (see `core::endpoint::admission`).
    pub(crate) fn check_queue(&self, params: &OpParams, length: usize) -> Result<()> {
        let limits = self.window.limits.get();
        let (ops, bytes) = self.waiting();
        let full = ops >= limits.queue_ops.into()
            || bytes.saturating_add(length as u64) > limits.queue_bytes;
        let owed = params.flags & flag::OWED != 0 && ops < MOST_OWED;
        if params.flags & flag::NO_WAIT == 0 && (!full || owed) {
            return Ok(());
        }
        Err(self.no_room(full, false))
    }
}

impl SharedEndpoint {
    /// `full`: the queue is full. `credit`: there was no credit, even if the worker has some by
    /// now.
    #[cold]
    pub(crate) fn no_room(&self, full: bool, credit: bool) -> Error {
        const WINDOW: &str =
            "its send window is full (send_window_ops, send_window_bytes), or the peer has not \
            answered yet";
        const CREDIT: &str =
            "there is no credit: the peer holds active messages and fetches up to \
            the limit of 256 or 8 MiB, and has to destroy some";
        self.worker().stats().sends_refused.fetch_add(1, Ordering::Relaxed);
        let text = match (credit || self.is_short_of_credit(u16::MAX), self.is_open()) {
            _ if full => "its send queue is full (send_queue_ops, send_queue_bytes)".to_owned(),
            (true, true) => CREDIT.to_owned(),
            (true, false) => format!("{WINDOW}; and {CREDIT}"),
            (false, _) => WINDOW.to_owned(),
        };
        let text = format!("endpoint: {text}; ucxx_endpoint_on_writable tells when to try again");
        Error::new(Status::NO_RESOURCE, text)
    }
}

impl Endpoint {
    /// Queues a send that cannot go to UCP yet, and for which there is a place.
    pub(crate) fn queue_described(
        &self,
        kind: Kind,
        length: u64,
        params: &OpParams,
        out: Out,
        describe: impl FnOnce(&Slot) -> Queued,
    ) -> Submitted {
        let slot = self.worker.take_slot();
        let queued = describe(slot);
        slot.begin(kind, params, length, queued.tag, out.is_wanted());
        trace::submitted(slot, Some(self));
        slot.queued.set(queued);
        self.enqueue(slot, params, out);
        Submitted::Pending
    }

    /// The same for a send that is described in its slot and has reserved its place.
    pub(crate) fn enqueue(&self, slot: &Slot, params: &OpParams, out: Out) {
        slot.add_mark(mark::WAITING);
        self.worker.start(slot, Some(self), params, out);
        self.worker.stats.sends_waited.add(1);
        if !slot.kind.get().needs_credit() {
            self.window.waiting.push(Waiting::Send(slot.ticket()));
            return self.count_queue();
        }
        self.window.uncredited.push(Waiting::Send(slot.ticket()));
        self.credit_messages();
        if !slot.has_mark(mark::CREDITED) {
            trace::credit_is_missing(slot, self);
            self.worker.stats.credit_waits.add(1);
        }
        self.count_queue();
        if !self.window.waiting.is_empty() {
            // A later send would overtake those that have just received the credit that they waited
            // for.
            self.hold();
            self.tend_later();
        }
    }

    /// As `must_wait`, for a send from the ring that is described in its slot. For a message, also
    /// takes the credit.
    pub(crate) fn must_queue(&self, slot: &Slot) -> bool {
        self.must_wait()
            || (slot.kind.get().needs_credit()
                && !self.pay_from_ring(slot.queued.get().outgoing.charge))
    }

    /// Takes the credit for a message that is about to be sent. False if there is none, or if other
    /// messages wait for theirs.
    #[inline]
    pub(crate) fn pay(&self, charge: u16) -> bool {
        let pays = self.may_pay(charge);
        if pays {
            self.credits.spend(charge);
        }
        pays
    }

    /// The same for a message that may have reserved it.
    pub(crate) fn pay_from_ring(&self, charge: u16) -> bool {
        let pays = self.may_pay(charge);
        if pays {
            self.spend(charge);
        }
        pays
    }

    #[inline(always)]
    fn may_pay(&self, charge: u16) -> bool {
        let may = self.credits.suffice(charge) && self.window.uncredited.is_empty();
        if !may {
            self.credits.refused(charge);
        }
        may
    }

    #[cold]
    fn log_queueing(&self) {
        let why = match (self.waits_for_peer(), self.window.uncredited.is_empty()) {
            (true, _) => "the peer has not answered yet",
            (false, true) => "the send window is full",
            (false, false) => "no credit, the peer keeps active messages or fetches",
        };
        log::at!(DEBUG, Endpoint, self, "sends wait: {why}");
    }

    /// Moves messages on for which there is credit now.
    fn credit_messages(&self) {
        let may = |slot: &Slot| {
            let charge = slot.queued.get().outgoing.charge;
            let may = self.credits.suffice(charge);
            if may {
                self.spend(charge);
                slot.add_mark(mark::CREDITED);
                trace::credit_is_there(slot, self);
                self.stands(slot.length.get());
            }
            may
        };
        while let Some(next) = self.window.uncredited.next(may) {
            self.window.waiting.push(next);
        }
        self.credits.look_again(!self.window.uncredited.is_empty());
    }

    /// The peer has returned credit, possibly inside UCP's progress.
    pub(crate) fn credits_came(&self) {
        if self.awaits_credit() {
            self.tend_later();
        }
    }

    /// A send waits for credit, or may.
    #[inline(always)]
    pub(crate) fn awaits_credit(&self) -> bool {
        // A send that was refused to another thread is not counted in `credits`.
        self.credits.is_short() || self.writable.is_armed()
    }

    /// Flushes must wait as well.
    pub(crate) fn holds_flushes(&self) -> bool {
        self.is_connecting() || self.window.is_queueing()
    }

    /// Queues a flush that was started without UCP's half.
    pub(crate) fn queue_flush(&self, flush: &Slot) {
        let lane = if self.window.uncredited.is_empty() {
            &self.window.waiting
        } else {
            &self.window.uncredited
        };
        lane.push(Waiting::Flush(flush.ticket()));
        self.count_queue();
    }

    /// The queue has changed.
    fn count_queue(&self) {
        self.note_queueing(self.window.is_queueing());
    }

    /// The endpoint is about to be forgotten, with what is out of date in its queue.
    pub(crate) fn forget_queue(&self) {
        self.note_queueing(false);
    }

    fn note_queueing(&self, queues: bool) {
        let count = &self.worker.queueing;
        match (self.window.counted.replace(queues), queues) {
            (false, true) => {
                count.set(count.get() + 1);
                if log::enabled(log::DEBUG, Component::Endpoint) {
                    self.log_queueing();
                }
            }
            (true, false) => count.set(count.get() - 1),
            _ => {}
        }
    }

    /// Starts UCP's half of a flush that waited.
    fn flush_part(&self, flush: Ticket) {
        if let Some(ended) = self.start_flush(Part::Flush(flush)) {
            self.worker.flush_part_ended(flush, ended);
        }
    }

    /// Makes a pass check the queue, and notify threads that wait for room.
    pub(crate) fn tend_later(&self) {
        if self.window.listed.get() {
            return;
        }
        let Some(endpoint) = self.registered() else { return };
        self.window.listed.set(true);
        self.worker.windows.borrow_mut().push_back(endpoint);
        self.worker.attend(attention::WINDOWS);
    }

    /// Gives UCP what there is room for, and returns how much that was. Not inside UCP's progress.
    pub(crate) fn drain_queue(&self) -> u32 {
        let lost = matches!(self.life().peer, Peer::GivenUp(_) | Peer::Gone);
        if self.waits_for_peer() || self.phase() > Phase::Flushing || lost {
            return 0;
        }
        self.credit_messages();
        let mut count = 0;
        while let Some(next) = self.window.waiting.next(|_| self.window.has_room()) {
            count += 1;
            match next {
                Waiting::Send(ticket) => {
                    if let Some(slot) = ticket.current() {
                        self.worker.send_after_waiting(slot, self);
                    }
                }
                Waiting::Flush(ticket) => self.flush_part(ticket),
            }
        }
        self.count_queue();
        if !self.window.is_queueing() {
            self.flush_before_close();
        }
        self.reopen();
        count
    }

    /// Cuts the queue short, because the peer will not receive it.
    pub(crate) fn cut_queue(&self) {
        if !self.is_connecting() {
            self.end_queue(self.life().cut_short());
            self.flush_before_close();
        }
    }

    /// Completes what waits with `status`.
    pub(crate) fn end_queue(&self, status: Status) {
        let window = &self.window;
        while let Some(next) =
            window.waiting.next(|_| true).or_else(|| window.uncredited.next(|_| true))
        {
            let Some(slot) = next.slot() else { continue };
            match next {
                Waiting::Send(_) => {
                    slot.reason.set(status.0);
                    self.worker.complete(slot, status);
                }
                // The sends before it report their status to a worker's flush.
                Waiting::Flush(ticket) if slot.kind.get() == Kind::WorkerFlush => {
                    self.worker.flush_part_ended(ticket, Status::OK);
                }
                Waiting::Flush(ticket) => {
                    slot.note_reason(status);
                    self.worker.flush_part_ended(ticket, Status::OK);
                }
            }
        }
        self.count_queue();
    }
}

/// The send is ahead of a next one that needs no credit. A send that waits for its own credit is
/// overtaken.
#[inline(always)]
fn stands_before_others(slot: &Slot) -> bool {
    !slot.has_mark(mark::WAITING)
        || slot.has_mark(mark::CREDITED)
        || !slot.kind.get().needs_credit()
}

impl Worker {
    /// Handles each endpoint whose window has changed, once. After UCP's pass. Returns how much was
    /// done.
    pub(crate) fn tend_windows(&self) -> u32 {
        let mut handled = 0;
        let mut left = self.windows.borrow().len();
        while left > 0 {
            left -= 1;
            let Some(endpoint) = self.windows.borrow_mut().pop_front() else { break };
            handled += endpoint.drain_queue();
            endpoint.window.listed.set(false);
            handled += self.tell_if_writable(&endpoint);
        }
        handled
    }
}
