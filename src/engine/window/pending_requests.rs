//! Calls of windows that have a request, and are not done when they return: they end when answers
//! have come, or when messages have left.
//!
//! That is found out on whatever thread takes in what comes for the group's service (see
//! `window::remote::outstanding`). It puts the request onto a list of the user's worker, and wakes
//! whoever sleeps there; the request is completed in a pass, as others are.
//!
//! Who owns what. The list is behind its lock. What is pending belongs to whoever is inside the
//! worker's gate; each knows its place there by `Slot::number`, which is one more, and 0 for a
//! request that is not.

use crate::engine::base::clock;
use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot, Ticket};
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::worker::Worker;
use crate::engine::window::data::data::Access;
use crate::engine::window::protocol::PROTOCOL;
use crate::engine::window::remote::outstanding::{Awaited, Call};
use crate::engine::window::window::Window;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// At the end of a worker: messages that have not left by then do not leave.
const LEAVING_NS: u64 = 1_000_000_000;

/// Of a worker: requests of windows that end elsewhere.
#[derive(Default)]
pub(crate) struct WindowEnds {
    ended: Mutex<Vec<(Ticket, Status)>>,
    any: AtomicBool,
    pending: RefCell<Vec<Pending>>,
    /// For the next turn of the list.
    spare: RefCell<Vec<(Ticket, Status)>>,
}

struct Pending {
    ticket: Ticket,
    call: Call,
    /// Not the service: nobody in here is to be the last who has it.
    awaited: Arc<Awaited>,
}

impl WindowEnds {
    /// One has ended. Any thread.
    pub(crate) fn push(&self, user: &Worker, ticket: Ticket, status: Status) {
        let mut ended = self.ended.lock();
        ended.push((ticket, status));
        // Under the lock, as it is taken back there.
        self.any.store(true, Ordering::SeqCst);
        drop(ended);
        user.wake_hint.give(user);
    }

    /// Is a pass wanted?
    pub(crate) fn is_due(&self) -> bool {
        self.any.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.borrow().is_empty()
    }

    fn remove(&self, slot: &Slot) -> Option<Pending> {
        let mut pending = self.pending.borrow_mut();
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
    /// Runs a call that has a request. It tells its length; what is left of it when it returns is
    /// waited for by the request.
    pub fn with_request(
        &self,
        params: &OpParams,
        out: Out,
        call: impl FnOnce(Access) -> Result<u64>,
    ) -> Result<Submitted> {
        // First, as a forked child must not take the locks of the others.
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

    /// As `flush`, without waiting.
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

    /// The end of such a call.
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
            inside.start(slot, None, params, out);
            let ticket = slot.ticket();
            let mut pending = inside.window_ends().pending.borrow_mut();
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
            // There is no worker any more that could tell of its end.
            let _ = self.group.service.await_news(&|| awaited.left(call) == 0, u64::MAX);
            awaited.is_lost(call);
        }
        submitted
    }
}

/// Inside the gate.
impl Worker {
    fn end_window_request(&self, slot: &Slot, status: Status) {
        self.window_ends().remove(slot);
        slot.reason.set(if status.is_error() { status.0 } else { 0 });
        self.complete(slot, status);
    }

    /// Completes those that have ended. In each pass.
    pub(crate) fn look_for_window_ends(&self) -> u32 {
        if !self.window_ends().is_due() {
            return 0;
        }
        let mut ended = self.window_ends().spare.take();
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
        self.window_ends().spare.replace(ended);
        count
    }

    /// Ends one before its time: cancelled, or out of it. Not where UCX still has some of its
    /// memory.
    pub(crate) fn cancel_window_request(&self, slot: &Slot, reason: Status) {
        self.look_for_window_ends();
        if !slot.is_pending() || slot.number.get() == 0 {
            return;
        }
        let place = slot.number.get() as usize - 1;
        let (call, awaited) = {
            let pending = &self.window_ends().pending.borrow()[place];
            (pending.call, pending.awaited.clone())
        };
        if awaited.cancel(call, slot.ticket()) {
            self.end_window_request(slot, reason);
        }
    }

    /// At the end of the worker: all of them.
    pub(crate) fn cancel_window_requests(&self) {
        let deadline = clock::deadline_after(LEAVING_NS);
        loop {
            self.look_for_window_ends();
            let tickets: Vec<Ticket> =
                self.window_ends().pending.borrow().iter().map(|pending| pending.ticket).collect();
            tickets
                .iter()
                .filter_map(Ticket::current)
                .for_each(|slot| self.cancel_slot(slot, Status::CANCELED));
            if self.window_ends().is_empty() || clock::now_ns() >= deadline {
                return;
            }
            // The service's own thread sees to it.
            std::thread::yield_now();
        }
    }
}
