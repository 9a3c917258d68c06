//! Waiting. With manual progress the waiting thread makes progress itself; with a progress thread
//! it sleeps until that thread has completed what it waits for.
//!
//! With SINGLE and SERIALIZED the waiting thread is alone. With MULTI one of the waiting threads
//! drives: it makes progress and sleeps on the descriptor. The others sleep on a condition variable
//! until something has completed or the driver has left. A thread that makes progress outside of a
//! wait wakes them when it has completed something.
//!
//! A progress thread may start and stop while threads wait: they then change from one way to the
//! other.

use crate::engine::base::clock;
use crate::engine::base::condition::Condition;
use crate::engine::base::futex::Slept;
use crate::engine::base::lockdep::{Mutex, MutexGuard};
use crate::engine::base::status::{Result, Status};
use crate::engine::base::uncancelled::Uncancelled;
use crate::engine::core::trace;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::deferred_end;
use crate::engine::core::worker::progress::from_callback;
use crate::engine::core::worker::wakeup::Armed;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::context::feature;
use std::sync::atomic::{fence, AtomicU32, Ordering};
use std::time::Duration;

/// Interval of checks while another thread that ends the worker completes requests.
const NAP: Duration = Duration::from_millis(1);

/// Polls between two reads of the clock.
const POLLS_PER_LOOK: u32 = 32;

/// Where the threads of a MULTI worker meet.
#[derive(Default)]
pub(crate) struct WaitRoom {
    /// A thread drives.
    driven: Mutex<bool>,
    changed: Condition,
    /// Threads on the condition variable. Incremented before they check their request for the last
    /// time.
    waiting: AtomicU32,
    /// Threads that sleep on the descriptor, or are about to.
    asleep: AtomicU32,
}

impl WaitRoom {
    pub(crate) fn anyone_asleep(&self) -> bool {
        self.asleep.load(Ordering::SeqCst) > 0
    }
}

enum Idle {
    Woken,
    Nothing,
    /// It may not sleep: there may be something to do.
    Refused,
}

impl SharedWorker {
    /// Another thread makes progress or, at the worker's end, completes everything.
    pub(super) fn others_progress(&self) -> bool {
        self.thread.is_running() || (self.thread.is_used() && self.closed.load(Ordering::SeqCst))
    }

    /// The calling thread, which is in no callback, must make progress while it waits for what a
    /// pass may bring. False if it cannot know that it may: only the thread of a SINGLE worker is
    /// known, and with SERIALIZED another thread may be inside.
    pub(crate) fn is_to_be_driven(&self) -> bool {
        let may = self.gate().is_lock() || self.gate().is_free_owner();
        may && !self.closed.load(Ordering::Acquire) && !self.others_progress()
    }

    /// Waits until `done`, at most until `deadline`. Makes progress itself, or leaves it to the
    /// progress thread, which must then notify its room when it makes `done` true. False if the
    /// time ran out.
    pub(crate) fn drive(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<bool> {
        let _whole = Uncancelled::new();
        loop {
            if self.others_progress() {
                let room = &self.thread.room;
                let in_time = room.wait_until(&|| done() || !self.others_progress(), deadline);
                if done() || !in_time {
                    return Ok(done());
                }
            }
            if let Some(finished) = self.drive_manually(done, deadline)? {
                return Ok(finished);
            }
        }
    }

    /// Makes progress until `done`. None if a progress thread has taken over.
    fn drive_manually(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<Option<bool>> {
        let threads = self.thread.count();
        let result = if self.gate().is_lock() {
            self.drive_among_others(done, deadline)
        } else {
            self.drive_by_itself(done, deadline).map(Some)
        };
        // Progress calls are refused while there is a progress thread, which may have ended again.
        let refused = self.others_progress() || self.thread.count() != threads;
        if refused && !matches!(result, Ok(Some(true))) {
            return Ok(None);
        }
        result
    }

    /// The same for requests. If another thread ends the worker, that thread completes them soon,
    /// without help.
    pub(super) fn drive_requests(
        &self,
        done: &dyn Fn() -> bool,
        deadline: u64,
    ) -> Result<Option<bool>> {
        let result = self.drive_manually(done, deadline);
        let ends = result.as_ref().is_err_and(|error| error.status() == Status::CLOSED);
        if !ends || !self.closed.load(Ordering::Acquire) || self.generation.is_past() {
            return result;
        }
        while !done() && clock::now_ns() < deadline {
            std::thread::sleep(NAP);
        }
        Ok(Some(done()))
    }

    fn drive_by_itself(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<bool> {
        let mut patience = Patience::new(self.spin_ns, deadline);
        while !done() {
            let handled = self.progress()?;
            deferred_end::end_doomed();
            match patience.after_pass(handled) {
                Next::Poll => {}
                Next::Yield => std::thread::yield_now(),
                Next::Sleep => patience.note(self.sleep_until_event(done, deadline)?),
                Next::GiveUp => return Ok(done()),
            }
        }
        Ok(true)
    }

    fn drive_among_others(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<Option<bool>> {
        let room = self.waiting();
        let mut patience = Patience::new(self.spin_ns, deadline);
        loop {
            if done() {
                return Ok(Some(true));
            }
            if self.others_progress() {
                return Ok(None);
            }
            let mut driven = room.driven.lock();
            if *driven {
                room.waiting.fetch_add(1, Ordering::SeqCst);
                // Pairs with the fence in `tell_waiters`: either this thread sees the completion
                // here, or the other thread sees it waiting.
                fence(Ordering::SeqCst);
                let mut timed_out = false;
                while *driven && !done() && !timed_out {
                    let slept;
                    (driven, slept) =
                        room.changed.sleep(&room.driven, driven, clock::remaining(deadline));
                    timed_out = slept == Slept::Long;
                }
                room.waiting.fetch_sub(1, Ordering::SeqCst);
                if timed_out {
                    return Ok(Some(done()));
                }
                continue;
            }
            *driven = true;
            drop(driven);
            let result = self.drive_alone(done, &mut patience);
            *room.driven.lock() = false;
            room.changed.notify_all();
            if let Some(finished) = result? {
                return Ok(Some(finished));
            }
        }
    }

    /// The driver's turn, which ends with every sleep. None: it continues.
    fn drive_alone(
        &self,
        done: &dyn Fn() -> bool,
        patience: &mut Patience,
    ) -> Result<Option<bool>> {
        while !done() {
            let handled = self.progress_and_tell()?;
            deferred_end::end_doomed();
            match patience.after_pass(handled) {
                Next::Poll => {}
                Next::Yield => std::thread::yield_now(),
                Next::Sleep => {
                    patience.note(self.sleep_until_event(done, patience.deadline)?);
                    return Ok(None);
                }
                Next::GiveUp => return Ok(Some(done())),
            }
        }
        Ok(Some(true))
    }

    /// A pass. Wakes threads that wait for what it completed.
    #[inline(always)]
    pub fn progress_and_tell(&self) -> Result<u32> {
        let handled = self.progress()?;
        if handled > 0 && self.gate().is_lock() {
            self.tell_waiters();
        }
        Ok(handled)
    }

    #[inline(never)]
    fn tell_waiters(&self) {
        let room = self.waiting();
        fence(Ordering::SeqCst);
        if room.waiting.load(Ordering::SeqCst) > 0 {
            drop(room.driven.lock());
            room.changed.notify_all();
        }
        if room.asleep.load(Ordering::SeqCst) > 0 {
            self.kick();
        }
    }

    /// Wakes the threads that wait on a MULTI worker.
    pub(crate) fn tell_others(&self) {
        if self.gate().is_lock() {
            self.tell_waiters();
        }
    }

    /// Makes a thread that drives this worker until a condition holds check again. Any thread.
    pub(crate) fn disturb(&self) {
        self.thread.room.notify();
        self.tell_waiters();
    }

    fn sleep_until_event(&self, done: &dyn Fn() -> bool, deadline: u64) -> Result<Idle> {
        if !self.context.has(feature::WAKEUP) {
            std::thread::yield_now();
            return Ok(Idle::Nothing);
        }
        if self.wakeup.get().is_none() {
            // Created before another thread may use it to wake this one.
            self.enter()?.wakeup()?;
        }
        self.waiting().asleep.fetch_add(1, Ordering::SeqCst);
        // Pairs with the fence in `tell_waiters`: either this thread sees the completion, or the
        // other thread sees it asleep and signals.
        fence(Ordering::SeqCst);
        let result = if done() || self.others_progress() {
            Ok(Idle::Woken)
        } else {
            self.arm_and_sleep(deadline)
        };
        self.waiting().asleep.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn arm_and_sleep(&self, deadline: u64) -> Result<Idle> {
        let inside = self.enter()?;
        inside.wakeup()?;
        let Some(wakeup) = self.wakeup.get() else { return Ok(Idle::Nothing) };
        if inside.arm_inside()? == Armed::Busy {
            let pause = inside.back_off.pause();
            drop(inside);
            wakeup.pause(pause);
            return Ok(Idle::Refused);
        }
        drop(inside);
        self.stats().sleeps.add(1);
        let woken = trace::sleeps(self, || wakeup.sleep(clock::remaining(deadline)));
        self.stats().wakeups.add(1);
        Ok(if woken { Idle::Woken } else { Idle::Nothing })
    }

    /// Polls for a while, then sleeps until there is an event, and handles it, or until a signal
    /// handler has run on this thread. False if the time ran out first.
    pub fn wait(&self, timeout_ns: u64) -> Result<bool> {
        may_wait()?;
        self.check_usable()?;
        self.need(feature::WAKEUP)?;
        let _whole = Uncancelled::new();
        let deadline = until(timeout_ns);
        if self.gate().is_lock() {
            let room = self.waiting();
            let mut driven = room.driven.lock();
            if *driven {
                return Ok(self.wait_for_driver(driven, deadline));
            }
            *driven = true;
            drop(driven);
            let woken = self.wait_alone(deadline);
            *room.driven.lock() = false;
            room.changed.notify_all();
            return woken;
        }
        self.wait_alone(deadline)
    }

    /// Another thread drives. Waits until it handles something or leaves, or until a signal handler
    /// has run.
    fn wait_for_driver<'a>(&'a self, driven: MutexGuard<'a, bool>, deadline: u64) -> bool {
        let room = self.waiting();
        room.waiting.fetch_add(1, Ordering::SeqCst);
        let (driven, slept) = room.changed.sleep(&room.driven, driven, clock::remaining(deadline));
        drop(driven);
        room.waiting.fetch_sub(1, Ordering::SeqCst);
        slept != Slept::Long
    }

    fn wait_alone(&self, deadline: u64) -> Result<bool> {
        let mut patience = Patience::new(self.spin_ns, deadline);
        loop {
            if self.progress_and_tell()? > 0 {
                return Ok(true);
            }
            match patience.after_pass(0) {
                Next::Poll => {}
                Next::Yield => std::thread::yield_now(),
                Next::GiveUp => return Ok(false),
                Next::Sleep => {
                    // A signal is one of the reasons to refuse a sleep.
                    if let Idle::Woken | Idle::Refused =
                        self.sleep_until_event(&|| false, deadline)?
                    {
                        self.progress_and_tell()?;
                        return Ok(true);
                    }
                }
            }
        }
    }
}

/// How long a thread polls before it sleeps, and how long it waits in all.
struct Patience {
    spin_ns: u64,
    deadline: u64,
    polls: u32,
    /// When the worker was first found idle; 0 while it is not.
    idle_since: u64,
    /// What it does between two reads of the clock that find it idle. After a refused sleep it
    /// yields, because a peer may need this core to send something.
    while_idle: Next,
}

#[derive(Clone, Copy)]
enum Next {
    Poll,
    Yield,
    Sleep,
    GiveUp,
}

impl Patience {
    fn new(spin_ns: u64, deadline: u64) -> Self {
        Patience { spin_ns, deadline, polls: 0, idle_since: 0, while_idle: Next::Poll }
    }

    /// What to do after a pass that handled `handled` events. Reads the clock only from time to
    /// time, but also while events keep arriving, so that a busy worker does not miss the deadline.
    fn after_pass(&mut self, handled: u32) -> Next {
        if self.deadline == 0 {
            return Next::GiveUp;
        }
        self.polls = self.polls.wrapping_add(1);
        if handled > 0 {
            self.idle_since = 0;
        }
        if self.polls % POLLS_PER_LOOK != 0 {
            return Next::Poll;
        }
        let now = clock::now_ns();
        if now >= self.deadline {
            return Next::GiveUp;
        }
        if handled == 0 && self.idle_since == 0 {
            self.idle_since = now;
        }
        if self.idle_since != 0 && now - self.idle_since >= self.spin_ns {
            return Next::Sleep;
        }
        if handled > 0 {
            Next::Poll
        } else {
            self.while_idle
        }
    }

    /// Records how a sleep ended.
    fn note(&mut self, idle: Idle) {
        if let Idle::Refused = idle {
            // One pass, and then it tries again.
            self.polls = POLLS_PER_LOOK - 1;
            self.while_idle = Next::Yield;
        }
    }
}

/// 0 polls: one pass.
pub(super) fn until(timeout_ns: u64) -> u64 {
    if timeout_ns == 0 {
        0
    } else {
        clock::deadline_after(timeout_ns)
    }
}

/// Refuses to wait from a callback.
#[cold]
#[inline(never)]
pub(super) fn may_wait() -> Result<()> {
    if deferred::in_callback() {
        return Err(from_callback());
    }
    Ok(())
}
