//! Messages that wait for this process's update lock, and messages that have to follow them.
//!
//! Another process may hold that lock for long: for an accumulate of very many elements, or because
//! it is stopped. The thread that receives messages serves all windows and groups of this process,
//! and also keeps its connections alive, so it waits for the lock only for a moment. A message that
//! cannot be handled then is put into this queue. It keeps its buffer, and so its sender's credit,
//! and the queue requests the lock in the passes of the service's worker. Later messages of the
//! same sender for the same window follow it in the queue, and so does everything else that needs
//! the lock. Everything else continues.
//!
//! The service has a slot of its own in the update lock, after those of the ranks. This process's
//! threads use the slot of its rank.
//!
//! **Ownership.** The state is behind its lock, which is held briefly. The service's slot belongs
//! to whoever `standing` says. One thread at a time works through the queue: there is one
//! `LockWait` for it, which is removed from its worker's list meanwhile. `running` counts the
//! message in progress, so that nothing of the same sender passes it.
//!
//! **Costs.** One uncontended lock for each message to a window. While something waits, five
//! thousand polls a second.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::log::Component;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::channel::dispatch;
use crate::engine::group::service::Held;
use crate::engine::window::lock::rw_lock::Patience;
use crate::engine::window::store_fence;
use crate::engine::window::window::Window;
use crate::engine::wire::sync_constants::LockType;
use crate::engine::wire::window::WindowHeader;
use std::collections::VecDeque;

/// How long the service waits for a lock that is not free: longer than it is usually held.
const MOMENT_NS: u64 = 200_000;

/// Most messages handled in one go under the lock.
const AT_A_TIME: usize = 16;

/// The owner of the service's slot.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Standing {
    #[default]
    Nobody,
    /// A thread in a call: it holds the lock, or waits for a moment.
    Call,
    /// The queue, which waits for the lock.
    InLine,
    /// The queue, which holds the lock.
    Granted,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct BlockedQueue(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<(u32, Held)>,
    /// Sender of the queued message that is being executed.
    running: Option<u32>,
    standing: Standing,
    /// Some thread polls for the queue.
    is_attended: bool,
    /// The window is leaving: nothing is queued any more.
    has_left: bool,
}

/// Whether a message was handled.
#[derive(PartialEq, Eq)]
pub(crate) enum Taken {
    Done,
    /// It needs the update lock, which is not available. Nothing was done.
    Waits,
}

/// Result of a poll in a pass.
pub(crate) enum Look {
    Nothing,
    /// The queue can be worked through.
    Go,
    /// Polling has ended.
    Over,
}

impl Window {
    /// The service's slot in an update lock.
    fn service_slot(&self) -> u32 {
        self.targets.len() as u32
    }

    /// Handles a message of this member, now or later.
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

    /// Calls `work` under this process's update lock, for another process. BUSY, without doing
    /// anything, if the lock does not become free soon. `granted`: the caller works through the
    /// queue, and has the lock if the queue was granted it.
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

    /// Polls for the queue, in passes of the service's worker. If `asks`, also checks whether the
    /// processes that hold up the lock live.
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
            // Poisoned: each message reports that when it is handled.
            Err(_) => state.standing = Standing::Nobody,
        }
        Look::Go
    }

    /// Works through the queue. Returns whether it still has to be polled.
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
                    dispatch::complain(Component::Window, self, why);
                }
            }
        }
        let mut state = self.aside.0.lock();
        if state.standing == Standing::Granted {
            // An error is ignored: a process that treats this process as dead has the lock already.
            let _ = self.own().control().updates().unlock(self.service_slot(), LockType::Exclusive);
            state.standing = Standing::Nobody;
        }
        state.is_attended = !state.waiting.is_empty() && !state.has_left;
        state.is_attended
    }

    /// Replies to all queued messages that the window is gone. Nobody is using the window any more.
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

    /// Is the queue being polled?
    pub(crate) fn has_aside(&self) -> bool {
        self.aside.0.lock().is_attended
    }
}
