//! Synchronisation of windows: locks, flushes, post/start/complete/wait, fence (MPI-4.1, 12.5).
//!
//! Between members of one host it uses words in shared memory only. Between hosts it uses messages,
//! whose receiver's service writes the same words (see `window::remote::remote`).
//!
//! **Waiting.** A waiting process polls, then yields, and then sleeps on its own bell word, which
//! each signalling process rings. Ten times a second, or more often if it also progresses its
//! worker, it checks whether the awaited processes live.
//!
//! **Flush.** A data operation on this host is done when its call returns. So a flush is a CPU
//! fence, and sometimes not even that (see `window::store_fence`).
//!
//! **Costs.** lock and unlock: two atomic operations each, without contention. post, complete and
//! each round of a barrier: a store to the other process's words and a check of its bell. flush: at
//! most one fence. No message, no allocation, and a system call only if somebody sleeps.

use crate::engine::base::clock;
use crate::engine::base::futex::{look_in_turns, look_shortly};
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::uncancelled::Uncancelled;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::group::service::distances;
use crate::engine::window::control_words::Ended;
use crate::engine::window::delegation::delegation::Attendant;
use crate::engine::window::describe::Awaited;
use crate::engine::window::epoch::{Call, Held};
use crate::engine::window::lock::rw_lock::{Patience, PACE};
use crate::engine::window::remote::outstanding::Call as Asking;
use crate::engine::window::remote::remote::Signal;
use crate::engine::window::store_fence;
use crate::engine::window::window::{Turns, Window};
use crate::engine::wire::sync_constants::{Assertions, LockType};
use crate::engine::wire::window::What;
use std::cell::Cell;
use std::sync::atomic::{fence, Ordering};
use std::time::Duration;

/// Pause between two passes of the worker, if the waiting thread makes them.
const PROGRESS_PACE: Duration = Duration::from_millis(1);
/// Pause between two checks whether the others live.
const LOOK_NS: u64 = 20_000_000;

impl Window {
    /// Progresses the user's worker if nobody else does.
    pub(crate) fn progress_meanwhile(&self) {
        let user = &self.group.service.user;
        if !user.has_progress_thread() {
            let _whole = Uncancelled::new();
            // An error is ignored: the next call that waits reports it.
            let _ = user.progress_and_tell();
        }
    }

    pub(crate) fn pace(&self) -> Duration {
        if self.group.service.user.has_progress_thread() {
            PACE
        } else {
            PROGRESS_PACE
        }
    }

    /// Calls `wait` with what it needs to wait for a target's lock.
    fn with_patience<R>(&self, target: u32, deadline: u64, wait: impl FnOnce(&Patience) -> R) -> R {
        // The waiter may call `is_alive` very often, so limit the checks.
        let next_look = Cell::new(0);
        let is_alive = |rank: u32| {
            let now = clock::now_ns();
            if now < next_look.get() {
                return true;
            }
            let alive = self.can_let_go(rank, target);
            if alive {
                next_look.set(now + LOOK_NS);
            }
            alive
        };
        let meanwhile = || self.progress_meanwhile();
        wait(&Patience {
            deadline,
            pace: Some(self.pace()),
            is_alive: &is_alive,
            meanwhile: &meanwhile,
        })
    }

    pub(crate) fn lock_deadline(&self) -> u64 {
        clock::deadline_if_any(self.lock_timeout_ns.load(Ordering::Relaxed))
    }

    /// Waits for a target's lock, which was requested by `begin_lock` or is part of lock_all.
    fn wait_for_lock(&self, target: u32, how: LockType) -> Result<()> {
        if deferred::in_callback() {
            return Err(from_callback());
        }
        let _waits = self.note_wait(Awaited::Lock, target);
        let Some(control) = &self.targets[target as usize].control else {
            return self.lock_far(target, how, self.lock_deadline());
        };
        let lock = control.lock();
        let locked = self.with_patience(target, self.lock_deadline(), |patience| {
            lock.lock(self.rank, how, patience)
        });
        locked.map_err(|error| of_rank(target, &error))
    }

    /// Begins an access epoch to one target.
    pub fn lock(&self, how: LockType, target: u32, assertions: Assertions) -> Result<()> {
        self.check_usable()?;
        self.epoch.check_rank(target)?;
        self.counts.locks.add(1);
        if self
            .epoch
            .begin_lock(target, assertions, || self.try_lock(target, how).then_some(how))?
        {
            return Ok(());
        }
        self.counts.lock_waits.add(1);
        match self.wait_for_lock(target, how) {
            Ok(()) => {
                self.epoch.grant_lock(target, how);
                Ok(())
            }
            Err(error) => {
                self.counts.failed.count(error.status());
                self.epoch.abandon_lock(target);
                Err(error)
            }
        }
    }

    /// Takes the lock of a member of this host if that needs no waiting.
    pub(crate) fn try_lock(&self, target: u32, how: LockType) -> bool {
        let control = &self.targets[target as usize].control;
        control.as_ref().is_some_and(|control| control.lock().try_lock(self.rank, how))
    }

    /// Ends an access epoch to one target.
    pub fn unlock(&self, target: u32) -> Result<()> {
        self.check_usable()?;
        self.epoch.check_rank(target)?;
        let held = self.epoch.unlock(target)?;
        self.give_back(target, held)
    }

    fn give_back(&self, target: u32, held: Held) -> Result<()> {
        let begun = self.begin_completion(target, Asking::NONE);
        // A member of another host handles the messages of this connection in order, so the unlock
        // can follow at once.
        let behind = self.is_done_behind(target);
        let answered = if behind { Ok(()) } else { self.await_answers(target) };
        // Release the lock even after an error.
        let released = match held {
            Held::NoCheck => {
                fence(Ordering::SeqCst);
                Ok(())
            }
            // The release is ordered after all operations before it.
            Held::Locked(how) => self.release(target, how),
        };
        let answered = if behind { self.await_answers(target) } else { answered };
        begun.and(answered).and(released)
    }

    /// Does this target handle a message sent now only after all operations before it? Not if long
    /// operations are in progress, which are not handled in order.
    fn is_done_behind(&self, target: u32) -> bool {
        self.targets[target as usize].control.is_none() && !self.owes_long(target)
    }

    fn owes_long(&self, target: u32) -> bool {
        self.targets[target as usize].remote().is_some_and(|remote| remote.tally.owes_long())
    }

    pub(crate) fn release(&self, target: u32, how: LockType) -> Result<()> {
        match &self.targets[target as usize].control {
            Some(control) => {
                control.lock().unlock(self.rank, how).map_err(|error| of_rank(target, &error))
            }
            None => self.tell(target, &self.header(What::Unlock)),
        }
    }

    /// Begins an access epoch to all targets, with shared locks.
    pub fn lock_all(&self, assertions: Assertions) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::LockAll)?;
        if !assertions.no_check() {
            for target in 0..self.targets.len() as u32 {
                let locked = match self.try_lock(target, LockType::Shared) {
                    true => Ok(()),
                    false => self.wait_for_lock(target, LockType::Shared),
                };
                if let Err(error) = locked {
                    let held = Held::Locked(LockType::Shared);
                    (0..target).for_each(|target| drop(self.give_back(target, held)));
                    return Err(error);
                }
            }
        }
        self.epoch.lock_all(assertions)
    }

    /// Ends the epoch to all targets, even if one of them fails.
    pub fn unlock_all(&self) -> Result<()> {
        self.check_usable()?;
        let held = self.epoch.unlock_all()?;
        let all = 0..self.targets.len() as u32;
        // First send all requests, then wait for all replies.
        let begun = self.begin_completions(all.clone());
        all.map(|target| self.give_back(target, held)).fold(begun, Result::and)
    }

    /// Completes all operations to the target, there as well.
    #[inline]
    pub fn flush(&self, target: u32) -> Result<()> {
        self.check_flush(target)?;
        self.counts.flushes.add(1);
        self.complete_at(target)
    }

    #[inline]
    pub(crate) fn check_flush(&self, target: u32) -> Result<()> {
        self.check_usable()?;
        self.epoch.check_passive(Call::Flush(target), target)?;
        store_fence::complete();
        Ok(())
    }

    /// Completes all operations to all targets.
    pub fn flush_all(&self) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::FlushAll)?;
        store_fence::complete();
        self.counts.flushes.add(1);
        self.complete_at_all(0..self.targets.len() as u32)
    }

    /// Completes operations locally: fetched data has arrived. Other buffers are free when a data
    /// call returns.
    #[inline]
    pub fn flush_local(&self, target: u32) -> Result<()> {
        self.check_usable()?;
        self.epoch.check_passive(Call::Flush(target), target)?;
        self.await_data(target)
    }

    /// The same for all targets.
    pub fn flush_local_all(&self) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::FlushAll)?;
        let all = 0..self.targets.len() as u32;
        all.filter(|_| self.has_remotes).map(|rank| self.await_data(rank)).fold(Ok(()), Result::and)
    }

    /// Orders this process's loads and stores before it against those after it.
    pub fn sync(&self) -> Result<()> {
        self.check_usable()?;
        self.epoch.check(Call::Sync)?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Exposes this process's memory to these ranks.
    pub fn post(&self, ranks: &[u32], _assertions: Assertions) -> Result<()> {
        self.check_usable()?;
        self.epoch.post(ranks)?;
        // Also with NOCHECK, because a matching start counts the post nevertheless.
        ranks.iter().map(|rank| self.signal(*rank, Signal::Posted)).fold(Ok(()), Result::and)
    }

    /// Begins an access epoch to these ranks, which expose their memory.
    pub fn start(&self, ranks: &[u32], assertions: Assertions) -> Result<()> {
        self.check_usable()?;
        self.epoch.check_group(ranks)?;
        self.epoch.check(Call::Start)?;
        let Some(mut turns) = self.turns.try_lock() else { return Err(another_call()) };
        if !assertions.no_check() {
            for rank in ranks {
                let seen = turns.posts[*rank as usize];
                let posted = &self.own().control().from(*rank).posted;
                // Greater, not different: a start with NOCHECK counts a post that may still be in
                // flight.
                self.await_signal(
                    *rank,
                    Awaited::Post,
                    &|| posted.load(Ordering::Acquire).wrapping_sub(seen) as i64 > 0,
                    u64::MAX,
                )?;
            }
        }
        self.epoch.start(ranks)?;
        ranks.iter().for_each(|rank| {
            turns.posts[*rank as usize] = turns.posts[*rank as usize].wrapping_add(1)
        });
        Ok(())
    }

    /// Ends the access epoch of start, and notifies its targets.
    pub fn complete(&self) -> Result<()> {
        self.check_usable()?;
        let ranks = self.epoch.complete()?;
        let begun = self.begin_completions(ranks.iter().copied());
        let finish = |rank: &u32| {
            // As in `give_back`.
            let answered =
                if self.is_done_behind(*rank) { Ok(()) } else { self.await_answers(*rank) };
            answered.and(self.signal(*rank, Signal::Completed))
        };
        // Targets with long operations come last, so that the others need not wait for them.
        let later: Vec<u32> = ranks.iter().copied().filter(|rank| self.owes_long(*rank)).collect();
        let first = ranks.iter().filter(|rank| !later.contains(rank));
        let told = first.chain(&later).map(finish).fold(begun, Result::and);
        let completed = ranks.iter().map(|rank| self.await_answers(*rank)).fold(told, Result::and);
        self.epoch.keep_list(ranks);
        completed
    }

    /// Waits until all ranks named by post have completed.
    pub fn wait(&self) -> Result<()> {
        self.check_usable()?;
        while let Some(rank) = self.look_for_completions()? {
            let seen = match self.turns.try_lock() {
                Some(turns) => turns.completions[rank as usize],
                None => return Err(another_call()),
            };
            if let Err(error) = self.await_signal(
                rank,
                Awaited::Completion,
                &|| self.has_completed(rank, seen),
                u64::MAX,
            ) {
                if error.status() != Status::BUSY {
                    let Some(mut turns) = self.turns.try_lock() else { return Err(another_call()) };
                    self.abandon_exposure(&mut turns);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Like `wait`, without waiting.
    pub fn test(&self) -> Result<bool> {
        self.check_usable()?;
        let Some(rank) = self.look_for_completions()? else { return Ok(true) };
        self.progress_meanwhile();
        let (now, Some(mut turns)) = (clock::now_ns(), self.turns.try_lock()) else {
            return Err(another_call());
        };
        if now.saturating_sub(turns.looked) > LOOK_NS {
            turns.looked = now;
            let seen = turns.completions[rank as usize];
            let gone = self.what_ended(rank);
            if let Some(ended) = gone.filter(|_| !self.has_completed(rank, seen)) {
                self.abandon_exposure(&mut turns);
                return Err(self.failed(ended));
            }
        }
        Ok(false)
    }

    /// A rank that has not completed yet; `None` if the exposure has ended.
    fn look_for_completions(&self) -> Result<Option<u32>> {
        let Some(mut turns) = self.turns.try_lock() else { return Err(another_call()) };
        let mut awaited = None;
        self.epoch.test_exposure(|rank| {
            let seen = &mut turns.completions[rank as usize];
            let has = self.has_completed(rank, *seen);
            if has {
                *seen = seen.wrapping_add(1);
            } else {
                awaited = Some(rank);
            }
            has
        })?;
        Ok(awaited)
    }

    /// Has this member completed more than `seen` times? The count may be lower: see
    /// `abandon_exposure`.
    fn has_completed(&self, rank: u32, seen: u64) -> bool {
        let completed = self.own().control().from(rank).completed.load(Ordering::Acquire);
        completed.wrapping_sub(seen) as i64 > 0
    }

    /// Counts completions that have not arrived yet as consumed, so that they are not taken for
    /// completions of the next exposure.
    fn abandon_exposure(&self, turns: &mut Turns) {
        self.epoch.abandon_exposure(|rank| {
            let seen = &mut turns.completions[rank as usize];
            *seen = seen.wrapping_add(1);
        });
    }

    /// Ends an epoch and begins another, collectively.
    pub fn fence(&self, assertions: Assertions) -> Result<()> {
        self.check_usable()?;
        if deferred::in_callback() {
            return Err(from_callback());
        }
        let plan = self.epoch.begin_fence(assertions)?;
        let mut completed = Ok(());
        if plan.flush {
            fence(Ordering::SeqCst);
            completed = self.complete_at_all(0..self.targets.len() as u32);
        }
        let met = if plan.barrier { self.barrier() } else { Ok(()) };
        self.epoch.end_fence(assertions);
        completed.and(met)
    }

    /// Returns when all members have called it: dissemination barrier (Hensgen, Finkel, Manber
    /// 1988). After a failure it fails at all members, from then on.
    pub(crate) fn barrier(&self) -> Result<()> {
        if deferred::in_callback() {
            return Err(from_callback());
        }
        let Some(mut turns) = self.turns.try_lock() else { return Err(another_call()) };
        if let Some(ended) = self.own().control().ended() {
            return Err(self.failed(ended));
        }
        turns.barriers += 1;
        let deadline = clock::deadline_if_any(self.group.collective_timeout_ns);
        let (here, size) = (self.rank as usize, self.targets.len());
        for (round, distance) in distances(size).enumerate() {
            let ahead = ((here + distance) % size) as u32;
            // If the signal fails, the members that depend on this one notice it.
            let _ = self.signal(ahead, Signal::Round(round, turns.barriers));
            let behind = ((here + size - distance) % size) as u32;
            let reached = self.own().control().round(round);
            let has_come = || reached.load(Ordering::Acquire) >= turns.barriers;
            if let Err(error) = self.await_signal(behind, Awaited::Round, &has_come, deadline) {
                // Members that wait for this process read it in its words.
                let ended = self
                    .what_ended(behind)
                    .unwrap_or(Ended { status: error.status(), blamed: behind });
                self.announce(ended);
                return Err(error);
            }
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Why no signal will come from this member any more.
    pub(crate) fn what_ended(&self, rank: u32) -> Option<Ended> {
        let dead =
            || (!self.lives(rank)).then_some(Ended { status: Status::PEER_FAILED, blamed: rank });
        self.targets[rank as usize].ended().or_else(dead)
    }

    /// Waits for a signal of this member.
    fn await_signal(
        &self,
        of: u32,
        what: Awaited,
        ready: &dyn Fn() -> bool,
        deadline: u64,
    ) -> Result<()> {
        if look_shortly(ready) {
            return Ok(());
        }
        if deferred::in_callback() {
            return Err(from_callback());
        }
        self.progress_meanwhile();
        let has_come = match self.targets[of as usize].remote() {
            // The signal arrives by the service, so progress it.
            Some(_) => self.group.service.assist(ready),
            None => {
                // Serve delegated operations meanwhile.
                let attendant = self.group.service.windows().mail.attend();
                look_in_turns(&mut || {
                    attendant.iter().for_each(Attendant::look);
                    ready()
                })
            }
        };
        if has_come {
            return Ok(());
        }
        let _waits = self.note_wait(what, of);
        let bell = self.own().control().bell();
        let mut next_look = 0;
        let outcome = loop {
            bell.swap(1, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            if ready() {
                break Ok(());
            }
            let left = clock::remaining(deadline);
            if left == Some(Duration::ZERO) {
                break Err(self.failed(Ended { status: Status::TIMED_OUT, blamed: of }));
            }
            let pace = self.pace();
            bell.wait(1, Some(left.map_or(pace, |left| left.min(pace))));
            self.progress_meanwhile();
            let now = clock::now_ns();
            let ended = match self.targets[of as usize].ended() {
                None if now >= next_look => {
                    next_look = now + LOOK_NS;
                    self.what_ended(of)
                }
                ended => ended,
            };
            if let Some(ended) = ended {
                // It may have sent the signal before it ended.
                break if ready() { Ok(()) } else { Err(self.failed(ended)) };
            }
        };
        bell.store(0, Ordering::Relaxed);
        outcome
    }

    pub(crate) fn failed(&self, ended: Ended) -> Error {
        let Ended { status, blamed } = ended;
        let process = self.targets.get(blamed as usize).map_or(0, |target| target.process.pid);
        let (status, what) = match status {
            Status::TIMED_OUT => (status, "did not call in time"),
            Status::CLOSED => (Status::PEER_FAILED, "has left the window"),
            _ => (Status::PEER_FAILED, "has ended"),
        };
        Error::new(status, format!("window: rank {blamed} (process {process}) {what}"))
    }
}

fn of_rank(rank: u32, error: &Error) -> Error {
    Error::new(error.status(), format!("rank {rank}: {}", error.message()))
}

#[cold]
fn another_call() -> Error {
    Error::new(Status::BUSY, "window: another thread is in a synchronising call")
}
