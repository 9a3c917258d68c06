//! Window operations with a request that are not complete when the call returns: they complete when
//! replies have arrived or messages have been sent.
//!
//! The thread that receives the group's messages detects that (see `window::remote::outstanding`).
//! It pushes the request to a list of the user's worker and wakes the thread that sleeps there. The
//! request is then completed in a pass, like all others.
//!
//! **Ownership.** `ended` is behind its lock. `pending` belongs to the thread inside the worker's
//! gate. `Slot::number` is a request's index there plus one, and 0 for a request that is not there.

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot, Ticket};
use crate::engine::core::trace;
use crate::engine::core::worker::inward::Gated;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::window::data::data::Access;
use crate::engine::window::protocol::PROTOCOL;
use crate::engine::window::remote::outstanding::{Awaited, Call};
use crate::engine::window::window::Window;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// At the end of a worker: how long messages may take to be sent.
const LEAVING_NS: u64 = 1_000_000_000;

/// A worker's window requests that complete elsewhere.
#[derive(Default)]
pub(crate) struct WindowEnds {
    ended: Mutex<Vec<(Ticket, Status)>>,
    any: AtomicBool,
    pending: Gated<RefCell<Vec<Pending>>>,
    /// Reused buffer for the next pass.
    spare: Gated<RefCell<Vec<(Ticket, Status)>>>,
}

struct Pending {
    ticket: Ticket,
    call: Call,
    /// Not the service itself: a worker must not hold the last reference to the service.
    awaited: Arc<Awaited>,
}

impl WindowEnds {
    /// Reports a completed request. Any thread.
    pub(crate) fn push(&self, user: &SharedWorker, ticket: Ticket, status: Status) {
        let mut ended = self.ended.lock();
        ended.push((ticket, status));
        // Under the lock, as it is also reset under the lock.
        self.any.store(true, Ordering::SeqCst);
        drop(ended);
        user.wake_hint().give(user);
    }

    /// Is a pass needed?
    pub(crate) fn is_due(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self, inside: &Worker) -> bool {
        self.pending.get(inside).borrow().is_empty()
    }

    fn remove(&self, inside: &Worker, slot: &Slot) -> Option<Pending> {
        let mut pending = self.pending.get(inside).borrow_mut();
        let place = (slot.number.replace(0) as usize).checked_sub(1)?;
        let found = pending.swap_remove(place);
        if let Some(moved) = pending.get(place) {
            // SAFETY: a slot of this worker, which is in flight.
            unsafe { &*moved.ticket.slot }.number.set(place as u64 + 1);
        }
        Some(found)
    }
}

impl Window {
    /// Runs an operation with a request. `call` returns its length. What is not complete on return
    /// is awaited by the request.
    pub fn with_request(
        &self,
        params: &OpParams,
        out: Out,
        call: impl FnOnce(Access) -> Result<u64>,
    ) -> Result<Submitted> {
        // First, as a forked child must not take other locks.
        self.check_usable()?;
        self.check_request(params)?;
        request_wait::submit(params, out, |params, out| {
            if !self.has_remotes {
                let length = call(Access::Request(Call::NONE))?;
                return self.done_in_call(length, params, out);
            }
            let number = self.group.service.windows().awaited.call_with_request(None);
            self.settle(number, call(Access::Request(number)), params, out)
        })
    }

    /// Like `flush`, without waiting.
    pub fn flush_nb(&self, target: u32, params: &OpParams, out: Out) -> Result<Submitted> {
        self.check_request(params)?;
        request_wait::submit(params, out, |params, out| {
            self.check_flush(target)?;
            let Some(remote) = self.targets[target as usize].remote() else {
                return self.done_in_call(0, params, out);
            };
            let number =
                self.group.service.windows().awaited.call_with_request(Some(&remote.tally));
            self.settle(number, self.begin_completion(target, number).map(|()| 0), params, out)
        })
    }

    /// Completes the call, or starts its request.
    fn settle(
        &self,
        call: Call,
        length: Result<u64>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let user = &self.group.service.user;
        let awaited = &self.group.service.windows().awaited;
        let length = length.inspect_err(|_| awaited.is_lost(call))?;
        let over = awaited.is_over(call, None);
        if over == Some(Status::OK) {
            return self.done_in_call(length, params, out);
        }
        let submitted = user.on_owner(|inside| {
            let slot = inside.take_slot();
            slot.begin(Kind::Window, params, length, 0, out.is_wanted());
            trace::submitted(slot, None);
            inside.start(slot, None, params, out);
            let ticket = slot.ticket();
            let mut pending = inside.window_ends().pending.get(inside).borrow_mut();
            pending.push(Pending { ticket, call, awaited: awaited.clone() });
            slot.number.set(pending.len() as u64);
            drop(pending);
            inside.attend(PROTOCOL.bit());
            if let Some(status) = over.or_else(|| awaited.is_over(call, Some(ticket))) {
                inside.end_window_request(slot, status);
            }
            Ok(Submitted::Pending)
        });
        if submitted.is_err() && over.is_none() {
            // The user's worker is gone and cannot report the completion, so wait here.
            let _ = self.group.service.await_news(&|| awaited.left(call) == 0, u64::MAX);
            awaited.is_lost(call);
        }
        submitted
    }
}

impl Worker {
    fn end_window_request(&self, slot: &Slot, status: Status) {
        self.window_ends().remove(self, slot);
        slot.reason.set(if status.is_error() { status.0 } else { 0 });
        self.complete(slot, status);
    }

    /// Completes the requests that have ended. In each pass.
    pub(crate) fn look_for_window_ends(&self) -> u32 {
        if !self.window_ends().is_due() {
            return 0;
        }
        let mut ended = self.window_ends().spare.get(self).take();
        {
            let mut list = self.window_ends().ended.lock();
            std::mem::swap(&mut *list, &mut ended);
            self.window_ends().any.store(false, Ordering::Release);
        }
        let count = ended.len() as u32;
        for (ticket, status) in ended.drain(..) {
            if let Some(slot) = ticket.current() {
                self.end_window_request(slot, status);
            }
        }
        self.window_ends().spare.get(self).replace(ended);
        count
    }

    /// Cancels a request, by the user or a timeout, unless UCX is still using its memory.
    pub(crate) fn cancel_window_request(&self, slot: &Slot, reason: Status) {
        self.look_for_window_ends();
        if !slot.is_pending() || slot.number.get() == 0 {
            return;
        }
        let place = slot.number.get() as usize - 1;
        let (call, awaited) = {
            let pending = &self.window_ends().pending.get(self).borrow()[place];
            (pending.call, pending.awaited.clone())
        };
        if awaited.cancel(call, slot.ticket()) {
            self.end_window_request(slot, reason);
        }
    }

    /// Cancels all requests, at the end of the worker.
    pub(crate) fn cancel_window_requests(&self) {
        let deadline = clock::deadline_after(LEAVING_NS);
        loop {
            self.look_for_window_ends();
            let tickets: Vec<Ticket> = self
                .window_ends()
                .pending
                .get(self)
                .borrow()
                .iter()
                .map(|pending| pending.ticket)
                .collect();
            tickets
                .iter()
                .filter_map(Ticket::current)
                .for_each(|slot| self.cancel_slot(slot, Status::CANCELED));
            if self.window_ends().is_empty(self) || clock::now_ns() >= deadline {
                return;
            }
            // The service's own thread makes progress.
            std::thread::yield_now();
        }
    }
}
