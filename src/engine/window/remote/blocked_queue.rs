//! Messages about this process's memory that wait for its update lock, and what has come behind
//! them.
//!
//! Another process may hold that lock for long: for an accumulate of very many elements, or as it
//! is stopped. Whoever takes messages in serves all windows and groups of this process, and gives
//! all its members a sign of life. So it waits for the lock for a moment only. What cannot be done
//! by then is put aside: it keeps its message, and with that its sender's credit, and stands in
//! line for the lock in the passes of the service's worker. Behind it stands what its sender says
//! of the same window, which is to come after it, and what else takes that lock; everything else
//! goes on.
//!
//! The service has a slot of its own in the update lock, behind those of the ranks: the threads of
//! this process wait for the lock by that of its rank.
//!
//! Who owns what. The list is behind its lock, which is held for moments. The slot belongs to
//! whoever `standing` says. One thread at a time goes through the list, as there is one `LockWait`
//! for it, which is taken out of its worker's list meanwhile; what it is in the midst of stays
//! counted, so that nothing of the same sender goes past it.
//!
//! Cost: a lock that is mostly free, for each message to a window; where something waits, five
//! thousand looks a second.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch;
use crate::engine::group::service::Held;
use crate::engine::window::lock::rw_lock::Patience;
use crate::engine::window::store_fence;
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::LockType;
use crate::engine::wire::window::WindowHeader;
use std::collections::VecDeque;

/// How long the service waits for the lock, where it is not to be had at once: longer than most
/// hold it.
const MOMENT_NS: u64 = 200_000;

/// So many are done under the lock at a time.
const AT_A_TIME: usize = 16;

/// Whose the service's slot is.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    #[default]
    Nobody,
    /// A thread's that is in a call: it holds the lock, or waits for a moment.
    Call,
    /// The list's, which stands in line.
    InLine,
    /// The list's, which has the lock.
    Granted,
}

/// See the module.
#[derive(Default)]
pub(crate) struct BlockedQueue(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<(u32, Held)>,
    /// Whose message is being executed that was put aside.
    running: Option<u32>,
    standing: Standing,
    /// Somebody looks after the list.
    is_attended: bool,
    /// The window leaves: nothing is put aside any more.
    has_left: bool,
}

/// Whether a message has been taken in.
#[derive(PartialEq, Eq)]
pub(crate) enum Taken {
    Done,
    /// It takes the update lock, which is not to be had. Nothing is done.
    Waits,
}

/// What the look of a pass finds.
pub(crate) enum Look {
    Nothing,
    /// It is time to go through the list.
    Go,
    /// There is nothing to look after.
    Over,
}

impl Window {
    /// The service's slot in an update lock.
    fn service_slot(&self) -> u32 {
        self.targets.len() as u32
    }

    /// Takes in a message of this member, now or later.
    pub(crate) fn receive_or_block(
        &self,
        from: u32,
        header: &WindowHeader,
        held: Held,
    ) -> std::result::Result<(), &'static str> {
        let is_behind = {
            let state = self.aside.0.lock();
            state.running == Some(from) || state.waiting.iter().any(|(other, _)| *other == from)
        };
        if !is_behind
            && self.receive(from, header, held.data().unwrap_or_default(), false)? == Taken::Done
        {
            return Ok(());
        }
        let mut state = self.aside.0.lock();
        if state.has_left {
            drop(state);
            self.group.service.answer(header, Status::CLOSED, Vec::new());
            return Ok(());
        }
        state.waiting.push_back((from, held));
        let is_attended = std::mem::replace(&mut state.is_attended, true);
        drop(state);
        if !is_attended {
            self.group.service.attend_to_aside(self);
        }
        Ok(())
    }

    /// Does something under the update lock of this process, on behalf of another one. BUSY, with
    /// nothing done, where it is not to be had soon. `granted`: by who goes through the list, and
    /// has it where that has been granted.
    pub(crate) fn under_lock_as_service(
        &self,
        granted: bool,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let busy = || Error::new(Status::BUSY, "window: others hold the update lock");
        store_fence::stored();
        {
            let mut state = self.aside.0.lock();
            match state.standing {
                Standing::Granted if granted => {
                    drop(state);
                    return work();
                }
                Standing::Nobody => state.standing = Standing::Call,
                _ => return Err(busy()),
            }
        }
        let (own, slot) = (self.own(), self.service_slot());
        let lock = own.control().updates();
        let is_alive = |rank| self.may_update(own, rank);
        let locked = lock.lock(slot, LockType::Exclusive, &Patience::new(MOMENT_NS, &is_alive));
        let done = locked.and_then(|()| {
            let result = work();
            lock.unlock(slot, LockType::Exclusive)?;
            result
        });
        self.aside.0.lock().standing = Standing::Nobody;
        done.map_err(|error| if error.status() == Status::TIMED_OUT { busy() } else { error })
    }

    /// By the passes of the service's worker; now and then with the question whether those live who
    /// keep the lock from being had.
    pub(crate) fn look_aside(&self, asks: bool) -> Look {
        let (own, slot) = (self.own(), self.service_slot());
        let lock = own.control().updates();
        let mut state = self.aside.0.lock();
        if state.waiting.is_empty() || state.has_left {
            state.is_attended = false;
            return Look::Over;
        }
        match state.standing {
            Standing::Nobody => {
                lock.begin_waiting(slot, LockType::Exclusive);
                state.standing = Standing::InLine;
            }
            Standing::InLine => {}
            Standing::Call | Standing::Granted => return Look::Nothing,
        }
        match lock.poll(slot, LockType::Exclusive) {
            Ok(true) => state.standing = Standing::Granted,
            Ok(false) => {
                drop(state);
                if asks {
                    lock.undo_the_dead(slot, &|rank| self.may_update(own, rank));
                }
                return Look::Nothing;
            }
            // Each of them is told when it is its turn.
            Err(_) => state.standing = Standing::Nobody,
        }
        Look::Go
    }

    /// Goes through the list, and tells whether it is still to be looked after.
    pub(crate) fn go_through_aside(&self) -> bool {
        for _ in 0..AT_A_TIME {
            let (from, held) = {
                let mut state = self.aside.0.lock();
                let Some(next) = state.waiting.pop_front() else { break };
                state.running = Some(next.0);
                next
            };
            let header = WindowHeader::decode(held.message().header());
            let data = held.data().ok_or("a window's message whose worker has gone");
            let taken = header.and_then(|header| self.receive(from, &header, data?, true));
            let mut state = self.aside.0.lock();
            state.running = None;
            match taken {
                Ok(Taken::Done) => {}
                Ok(Taken::Waits) => {
                    state.waiting.push_front((from, held));
                    break;
                }
                Err(why) => {
                    drop(state);
                    dispatch::complain(why);
                }
            }
        }
        let mut state = self.aside.0.lock();
        if state.standing == Standing::Granted {
            // Whoever takes this process for dead has it already.
            let _ = self.own().control().updates().unlock(self.service_slot(), LockType::Exclusive);
            state.standing = Standing::Nobody;
        }
        state.is_attended = !state.waiting.is_empty() && !state.has_left;
        state.is_attended
    }

    /// Whoever waits is told that there is no window any more, which nobody visits by now.
    pub(crate) fn drop_what_is_aside(&self) {
        let waiting = {
            let mut state = self.aside.0.lock();
            state.has_left = true;
            if state.standing == Standing::InLine {
                self.own().control().updates().give_up(self.service_slot());
                state.standing = Standing::Nobody;
            }
            std::mem::take(&mut state.waiting)
        };
        for (_, held) in waiting {
            if let Ok(header) = WindowHeader::decode(held.message().header()) {
                self.group.service.answer(&header, Status::CLOSED, Vec::new());
            }
        }
    }

    /// Is anybody looking after messages that wait?
    pub(crate) fn has_aside(&self) -> bool {
        self.aside.0.lock().is_attended
    }
}
