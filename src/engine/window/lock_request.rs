//! Requests of windows that complete in the call, and lock requests. A lock that is not available
//! at once is polled in each pass of the worker, and from time to time while the worker sleeps.
//! Other pending requests are in `window::pending_requests`.
//!
//! A waiting lock has a place in its target's queue. It belongs to the thread inside the worker's
//! gate, like everything in flight.

use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot, Ticket};
use crate::engine::core::trace;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::worker::{Inside, Worker};
use crate::engine::group::service::Service;
use crate::engine::ucx::memory_type;
use crate::engine::window::protocol::PROTOCOL;
use crate::engine::window::remote::blocked_queue::Look;
use crate::engine::window::remote::remote::Question;
use crate::engine::window::remote::target::Visitor;
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::{Assertions, LockType};
use crate::engine::wire::window::WindowHeader;
use std::sync::{Arc, Weak};

/// Pause between two polls while the worker sleeps.
const LOOK_NS: u64 = 200_000;
/// Pause between two checks whether the processes that hold up a lock live.
const DEATH_NS: u64 = 50_000_000;

/// A lock that waits.
pub(crate) struct LockWait {
    /// The window cancels this wait before it is freed.
    window: Weak<Window>,
    target: u32,
    how: LockType,
    asker: Asker,
    deadline: u64,
    next_question: u64,
}

/// For whom the lock is requested.
enum Asker {
    /// This process, from a process of this host.
    Here(Ticket),
    /// This process, from a process of another host, which has received the request.
    Far(Ticket, Arc<Question>),
    /// A member of another host, from this process.
    Member(u32, WindowHeader),
    /// The blocked messages: the update lock.
    BlockedQueue,
}

impl Asker {
    fn ticket(&self) -> Option<Ticket> {
        match self {
            Asker::Here(ticket) | Asker::Far(ticket, _) => Some(*ticket),
            Asker::Member(..) | Asker::BlockedQueue => None,
        }
    }
}

/// How a wait has ended.
enum Outcome {
    Request(Ticket, Status),
    Member(Visitor, WindowHeader, Status),
    BlockedQueue(Visitor),
    /// The window is gone, or was never complete.
    Nobody,
}

impl Window {
    /// Checks the parameters of a call with a request.
    pub fn check_request(&self, params: &OpParams) -> Result<()> {
        params.check(&self.group.service.user.context, "window operation", 0)?;
        if memory_type::is_device(params.memory_type) {
            return Err(Error::new(
                Status::UNSUPPORTED,
                "memory_type: windows are for memory of the host alone",
            ));
        }
        Ok(())
    }

    /// Ends a call that is complete. Makes a request only if a callback is wanted in any case.
    pub fn done_in_call(&self, length: u64, params: &OpParams, out: Out) -> Result<Submitted> {
        if params.flags & flag::ALWAYS_CALLBACK == 0 {
            out.store_null();
            return Ok(Submitted::Done);
        }
        self.group.service.user.on_owner(|inside| {
            let slot = inside.take_slot();
            slot.begin(Kind::Window, params, length, 0, out.is_wanted());
            trace::submitted(slot, None);
            inside.start(slot, None, params, out);
            inside.complete(slot, Status::OK);
            Ok(Submitted::Pending)
        })
    }

    /// Like `lock`, without waiting for the lock.
    pub fn lock_nb(
        self: &Arc<Self>,
        how: LockType,
        target: u32,
        assertions: Assertions,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.check_request(params)?;
        self.check_usable()?;
        self.epoch.check_rank(target)?;
        request_wait::submit(params, out, |params, out| {
            // First, as this may fail and nothing has been requested yet.
            let pending = self.group.service.user.on_owner(|inside| {
                if self
                    .epoch
                    .begin_lock(target, assertions, || self.try_lock(target, how).then_some(how))?
                {
                    return Ok(false);
                }
                let question = match &self.targets[target as usize].control {
                    Some(control) => {
                        control.lock().begin_waiting(self.rank, how);
                        None
                    }
                    None => {
                        let asked = self
                            .ask_for_lock(target, how)
                            .inspect_err(|_| self.epoch.abandon_lock(target))?;
                        Some(asked.keep())
                    }
                };
                self.wait_in_passes(inside, how, target, (params, out), question);
                Ok(true)
            })?;
            if pending {
                return Ok(Submitted::Pending);
            }
            self.done_in_call(0, params, out)
        })
    }

    fn wait_in_passes(
        self: &Arc<Self>,
        inside: &Inside<'_>,
        how: LockType,
        target: u32,
        (params, out): (&OpParams, Out),
        question: Option<Arc<Question>>,
    ) {
        let slot = inside.take_slot();
        slot.begin(Kind::WindowLock, params, 0, 0, out.is_wanted());
        trace::submitted(slot, None);
        inside.start(slot, None, params, out);
        let deadline = self.lock_deadline();
        let ticket = slot.ticket();
        let asker = question.map_or(Asker::Here(ticket), |question| Asker::Far(ticket, question));
        let wait = LockWait {
            window: Arc::downgrade(self),
            target,
            how,
            asker,
            deadline,
            next_question: 0,
        };
        inside.lock_waits().borrow_mut().push(wait);
        inside.attend(PROTOCOL.bit());
    }

    /// Cancels everything that waits for locks of this window.
    pub(crate) fn drop_lock_requests(&self) {
        // If this is not allowed on the worker, the epoch stays as it is, and the place in the
        // queue until the process ends.
        let service = &self.group.service;
        let of_others = Some(&service.worker).filter(|_| self.has_far || self.has_aside());
        for worker in [Some(&service.user), of_others].into_iter().flatten() {
            let _ = worker.on_owner(|inside| {
                inside.cancel_locks(|wait| std::ptr::eq(wait.window.as_ptr(), self));
                Ok(())
            });
        }
    }
}

impl Service {
    /// From now on polls a member's place in the lock queue of this process's window.
    pub(crate) fn await_lock_for(&self, window: &Window, from: u32, header: &WindowHeader) {
        let (asker, how) = (Asker::Member(from, *header), header.how);
        let (window, target) = (window.me.clone(), window.rank);
        let wait = LockWait { window, target, how, asker, deadline: u64::MAX, next_question: 0 };
        // A handler calls this, inside the gate.
        let _ = self.worker.on_owner(|inside| {
            inside.lock_waits().borrow_mut().push(wait);
            inside.attend(PROTOCOL.bit());
            Ok(())
        });
    }

    /// From now on polls the update lock for the blocked messages. Any thread of the service.
    pub(crate) fn attend_to_aside(&self, window: &Window) {
        let (asker, how) = (Asker::BlockedQueue, LockType::Exclusive);
        let (window, target) = (window.me.clone(), window.rank);
        let wait = LockWait { window, target, how, asker, deadline: u64::MAX, next_question: 0 };
        let _ = self.worker.on_owner(|inside| {
            inside.lock_waits().borrow_mut().push(wait);
            inside.attend(PROTOCOL.bit());
            Ok(())
        });
    }

    /// Is a lock being polled for this member?
    pub(crate) fn awaits_lock_for(&self, window: &Window, from: u32) -> bool {
        let found = self.worker.on_owner(|inside| {
            let is_it = |wait: &LockWait| {
                matches!(&wait.asker, Asker::Member(rank, _) if *rank == from)
                    && std::ptr::eq(wait.window.as_ptr(), window)
            };
            Ok(inside.lock_waits().borrow().iter().any(is_it))
        });
        found.unwrap_or(true)
    }

    /// Cancels it. Returns false if there was none, or it has been granted.
    pub(crate) fn cancel_lock_for(&self, window: &Window, from: u32, token: u64) -> bool {
        let found = self.worker.on_owner(|inside| {
            let mut waits = inside.lock_waits().borrow_mut();
            let is_it = |wait: &LockWait| {
                let same = matches!(
                    &wait.asker,
                    Asker::Member(rank, header) if (*rank, header.token) == (from, token)
                );
                same && std::ptr::eq(wait.window.as_ptr(), window)
            };
            let at = waits.iter().position(is_it);
            if let Some(at) = at {
                waits.swap_remove(at);
                window.own().control().lock().give_up(from);
            }
            Ok(at.is_some())
        });
        found.unwrap_or(false)
    }
}

impl LockWait {
    /// Polls once. Returns the outcome if the wait has ended.
    fn look(&mut self, now: u64) -> Option<Outcome> {
        let Some(window) = self.window.upgrade() else {
            let ticket = self.asker.ticket();
            return Some(
                ticket.map_or(Outcome::Nobody, |ticket| Outcome::Request(ticket, Status::CANCELED)),
            );
        };
        let found = match &self.asker {
            Asker::BlockedQueue => match window.look_aside(now >= self.next_question) {
                Look::Nothing => None,
                Look::Go => return Some(Outcome::BlockedQueue(Visitor::of(&window))),
                Look::Over => return Some(Outcome::Nobody),
            },
            Asker::Far(_, question) => {
                let known = question.outcome().is_some() || window.what_left(self.target).is_some();
                known.then(|| {
                    window
                        .locked_far(self.target, question)
                        .map_or_else(|error| error.status(), |()| Status::OK)
                })
            }
            Asker::Here(_) => self.look_in_line(&window, window.rank, now),
            Asker::Member(from, header) => match self.look_in_line(&window, *from, now) {
                Some(Status::OK) => {
                    window.grant_to(*from, header, header.how == LockType::Shared);
                    Some(Status::OK)
                }
                None if !window.lives(*from) => {
                    window.own().control().lock().give_up(*from);
                    Some(Status::PEER_FAILED)
                }
                found => found,
            },
        };
        let status = match found {
            None if now < self.deadline => {
                self.next_question =
                    if now >= self.next_question { now + DEATH_NS } else { self.next_question };
                return None;
            }
            None => {
                self.leave_line(&window);
                Status::TIMED_OUT
            }
            Some(status) => status,
        };
        Some(match &self.asker {
            Asker::Member(_, header) => Outcome::Member(Visitor::of(&window), *header, status),
            Asker::BlockedQueue => Outcome::Nobody,
            Asker::Here(ticket) | Asker::Far(ticket, _) => {
                match status {
                    Status::OK => window.epoch.grant_lock(self.target, self.how),
                    _ => window.epoch.abandon_lock(self.target),
                }
                self.forget(&window);
                Outcome::Request(*ticket, status)
            }
        })
    }

    /// Polls a lock of this host for that rank.
    fn look_in_line(&self, window: &Window, rank: u32, now: u64) -> Option<Status> {
        let lock = window.targets[self.target as usize].control().lock();
        match lock.poll(rank, self.how) {
            Ok(true) => return Some(Status::OK),
            Err(error) => return Some(error.status()),
            Ok(false) => {}
        }
        if now >= self.next_question {
            lock.undo_the_dead(rank, &|other| window.can_let_go(other, self.target));
        }
        None
    }

    fn leave_line(&self, window: &Window) {
        match &self.asker {
            Asker::Here(_) => {
                window.targets[self.target as usize].control().lock().give_up(window.rank)
            }
            Asker::Far(_, question) => window.give_up_far(self.target, question),
            Asker::Member(from, _) => window.own().control().lock().give_up(*from),
            // The code that drops the blocked messages leaves the queue.
            Asker::BlockedQueue => {}
        }
    }

    fn forget(&self, window: &Window) {
        if let Asker::Far(_, question) = &self.asker {
            window.group.service.windows().forget(question.token());
        }
    }

    /// Ends the wait without the lock.
    fn end(&self) {
        if let Some(window) = self.window.upgrade() {
            self.leave_line(&window);
            self.forget(&window);
            if self.asker.ticket().is_some() {
                window.epoch.abandon_lock(self.target);
            }
        }
    }
}

impl Worker {
    /// Polls the waiting locks. In each pass.
    pub(crate) fn look_for_locks(&self, now: u64) -> u32 {
        let mut ended = Vec::new();
        self.lock_waits().borrow_mut().retain_mut(|wait| match wait.look(now) {
            None => true,
            Some(outcome) => {
                ended.push(outcome);
                false
            }
        });
        let count = ended.len() as u32;
        for outcome in ended {
            match outcome {
                Outcome::Request(ticket, status) => {
                    if let Some(slot) = ticket.current() {
                        slot.reason.set(if status.is_error() { status.0 } else { 0 });
                        self.complete(slot, status);
                    }
                }
                Outcome::Nobody => {}
                Outcome::BlockedQueue(window) => self.outside(|| {
                    if window.go_through_aside() {
                        window.group.service.attend_to_aside(&window);
                    }
                }),
                Outcome::Member(window, header, status) => self.outside(|| {
                    // The member has to confirm an exclusive lock.
                    let number = (status == Status::OK && header.how == LockType::Exclusive).into();
                    window.group.service.answer(
                        &WindowHeader { number, ..header },
                        status,
                        Vec::new(),
                    );
                }),
            }
        }
        if self.lock_waits().borrow().is_empty() && self.window_ends().is_empty(self) {
            self.attention.set(self.attention.get() & !PROTOCOL.bit());
        }
        count
    }

    /// When a sleeping worker has to poll again.
    pub(crate) fn next_look_for_locks(&self) -> Option<u64> {
        (!self.lock_waits().borrow().is_empty()).then(|| clock::now_ns() + LOOK_NS)
    }

    /// Cancels a wait, by the user or a timeout.
    pub(crate) fn cancel_lock(&self, slot: &Slot, reason: Status) {
        let wait = {
            let mut waits = self.lock_waits().borrow_mut();
            let is_it = |wait: &LockWait| {
                wait.asker.ticket().is_some_and(|ticket| std::ptr::eq(ticket.slot, slot))
            };
            let at = waits.iter().position(is_it);
            at.map(|at| waits.swap_remove(at))
        };
        if let Some(wait) = wait {
            wait.end();
            slot.reason.set(reason.0);
            self.complete(slot, reason);
        }
    }

    /// Cancels the waits for which `which` is true.
    pub(crate) fn cancel_locks(&self, which: impl Fn(&LockWait) -> bool) {
        let mut tickets: Vec<Ticket> = Vec::new();
        self.lock_waits().borrow_mut().retain(|wait| {
            let ticket = wait.asker.ticket();
            let goes = which(wait);
            if goes && ticket.is_none() {
                wait.end();
            }
            tickets.extend(ticket.filter(|_| goes));
            !(goes && ticket.is_none())
        });
        tickets
            .iter()
            .filter_map(Ticket::current)
            .for_each(|slot| self.cancel_slot(slot, Status::CANCELED));
    }
}
