//! Waiting for a change of a hub, and performing what a change has made possible.
//!
//! How threads sleep and are woken is in `hub::waiters`. If the hub has a worker with manual
//! progress, and the waiting thread may progress it, it does so, as in a wait for a request: it
//! polls, and then sleeps on the worker's descriptor, until its side's word changes.
//!
//! Copies (except those of GPUs) and callbacks run without the lock, one after the other, on the
//! thread whose call made them possible. That thread also performs what they make possible in turn.
//! Calls inside a callback leave further callbacks of the hub to the loop that called it.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::event_count::EventCount;
use crate::engine::base::lasting::{lasting, Frames};
use crate::engine::base::spin_lock::SpinLockGuard;
use crate::engine::base::status::Status;
use crate::engine::core::worker::deferred::CallbackScope;
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::hub::hub::Hub;
use crate::engine::hub::ready::{Callback, Calls, Effect};
use crate::engine::hub::records::Envelope;
use crate::engine::hub::state::State;
use crate::engine::hub::waiters::Seen;
pub(crate) use crate::engine::hub::waiters::{DATA, ROOM};
use std::sync::Arc;
use std::time::Duration;

/// Threads that wait for several hubs at once.
pub(crate) static EXTERNAL_WAITERS: EventCount = EventCount::new();

lasting! {
    /// Callbacks that run on this thread: hub and link.
    static RUNNING: Frames<(usize, u32)> = const { Frames::new() };
}

/// What a destroyed hub kept for its last lease. It has to be dropped where no thread is inside the
/// hub. One word, because every call that ends a lease returns it: a larger struct would be written
/// in small pieces and read back in large ones, which stalls.
#[must_use]
pub struct Retired(Option<Box<Rest>>);

#[allow(dead_code)]
#[derive(Default)]
struct Rest {
    envelopes: Vec<Envelope>,
    kept: Option<Arc<Hub>>,
    /// For a thread that is inside the hub, and has given away the reference that kept the hub.
    inside: Option<Arc<Hub>>,
}

impl Retired {
    pub(crate) const NOTHING: Retired = Retired(None);

    /// Keeps the hub at least until this is dropped.
    pub(crate) fn keep(&mut self, hub: Option<Arc<Hub>>) {
        self.0.get_or_insert_default().inside = hub;
    }
}

impl State {
    /// Takes what is left of a destroyed hub that nobody uses any more.
    fn retire(&mut self) -> Retired {
        let is_over = self.destroyed && self.leases == 0 && self.copies == 0 && self.calls == 0;
        if is_over && (self.kept.is_some() || !self.envelopes.is_empty()) {
            let envelopes = std::mem::take(&mut self.envelopes);
            return Retired(Some(Box::new(Rest {
                envelopes,
                kept: self.kept.take(),
                inside: None,
            })));
        }
        Retired(None)
    }
}

/// Wakes threads that wait for several hubs, and those that progress the worker while they wait.
#[cold]
#[inline(never)]
pub(crate) fn wake_external(worker: Option<&SharedWorker>) {
    EXTERNAL_WAITERS.notify();
    if let Some(worker) = worker {
        worker.disturb();
    }
}

impl Hub {
    /// Releases the lock after a change, and performs what the change has made possible.
    #[inline(always)]
    pub(crate) fn leave(&self, mut state: SpinLockGuard<'_, State>) -> Retired {
        let quiet = state.watched == 0 && state.pools.len() < 2 && !state.destroyed;
        if quiet {
            self.unlock(state);
            return Retired(None);
        }
        let may_call = self.may_call(&state);
        let effect = state.next_effect(may_call);
        let mut retired = state.retire();
        let calls = Calls::new(&state);
        self.unlock(state);
        self.perform_effects(effect, calls, &mut retired);
        retired
    }

    #[inline(always)]
    pub(crate) fn unlock(&self, state: SpinLockGuard<'_, State>) {
        if state.external_waiters > 0 {
            return self.unlock_and_wake_external(state);
        }
        let _ = self.unlock_one(state);
    }

    /// A woken waiter may destroy the hub at once, so the worker is kept.
    #[cold]
    #[inline(never)]
    fn unlock_and_wake_external(&self, state: SpinLockGuard<'_, State>) {
        let worker = self.worker.clone();
        if self.unlock_one(state) {
            wake_external(worker.as_deref());
        }
    }

    /// Releases the lock of one of several hubs. When all are released, the caller calls
    /// `perform_pending` for each, and before that `wake_external` if this returns true.
    #[inline(always)]
    #[must_use]
    pub(crate) fn unlock_one(&self, mut state: SpinLockGuard<'_, State>) -> bool {
        let wake_mask = std::mem::take(&mut state.wake_mask);
        let sleepers = self.waiters.move_on(wake_mask, &mut state.asleep);
        let needs_wake = wake_mask != 0 && state.external_waiters > 0;
        drop(state);
        if sleepers != 0 {
            self.waiters.wake(sleepers);
        }
        needs_wake
    }

    /// The worker, if this thread has to progress it while it waits.
    pub(crate) fn driven(&self) -> Option<&SharedWorker> {
        self.worker.as_deref().filter(|worker| worker.is_to_be_driven())
    }

    /// The worker has no progress thread any more: waiting threads have to look for work again.
    pub(crate) fn wake_all_waiters(&self) {
        let mut state = self.state.lock_either();
        state.wake_mask |= DATA | ROOM;
        self.unlock(state);
    }

    /// See `unlock_one`.
    pub(crate) fn perform_pending(&self) {
        let _ = self.leave(self.state.lock());
    }

    /// Performs actions until there are none.
    fn perform_effects(&self, mut effect: Effect, mut calls: Calls, retired: &mut Retired) {
        loop {
            let mut state = match effect {
                Effect::Nothing => return,
                Effect::Copy(transfer) if transfer.is_by_gpu() => {
                    // The transfer kept the hub. Once it is passed on, something else has to.
                    retired.keep(self.me.upgrade());
                    if let Some(gpu_thread) = self.gpu_thread.get() {
                        gpu_thread.copy(transfer);
                    }
                    self.state.lock()
                }
                Effect::Copy(transfer) => {
                    transfer.from.copy_to(transfer.to, transfer.length);
                    let mut state = self.state.lock();
                    state.end_transfer(&transfer, None);
                    state
                }
                Effect::Call(link, callback, status) => {
                    self.call(link, &callback, status);
                    calls.count();
                    let mut state = self.state.lock();
                    state.links[link as usize].watch.calling -= 1;
                    state.calls -= 1;
                    // A thread that destroys the link may wait for this.
                    state.wake_mask |= DATA;
                    state
                }
                Effect::Schedule(stream) => {
                    stream.schedule();
                    drop(stream);
                    let mut state = self.state.lock();
                    state.calls -= 1;
                    state
                }
                Effect::Ring(event) => {
                    event.ring();
                    let mut state = self.state.lock();
                    state.calls -= 1;
                    state
                }
            };
            let may_call = calls.are_due(&state) && self.may_call(&state);
            effect = state.next_effect(may_call);
            let last = state.retire();
            self.unlock(state);
            if let Some(mut last) = last.0 {
                last.inside = retired.0.take().and_then(|before| before.inside);
                retired.0 = Some(last);
            }
        }
    }

    /// May this thread call back? Not inside a callback of this hub.
    fn may_call(&self, state: &State) -> bool {
        let here = std::ptr::from_ref(self) as usize;
        state.watched > 0 && !RUNNING.with(|running| running.each().any(|(hub, _)| *hub == here))
    }

    fn call(&self, link: u32, callback: &Callback, status: Status) {
        let here = std::ptr::from_ref(self) as usize;
        RUNNING.during((here, link), || {
            let _scope = CallbackScope::new();
            // SAFETY: function and argument are the caller's. The link is valid: its destruction
            // waits for this call, or happens inside it.
            unsafe { callback.function.call_out((callback.arg, callback.link, status.0)) };
        });
    }

    /// Waits until no callback of the link, or of any link, runs on another thread.
    pub(crate) fn await_callbacks(&self, link: Option<u32>) {
        let here = std::ptr::from_ref(self) as usize;
        let own =
            |number: u32| RUNNING.with(|running| running.each().any(|one| *one == (here, number)));
        // Does not progress the worker: this needs no pass, and the caller may be in the middle of
        // something.
        let _ = self.wait_as(0, u64::MAX, false, |state| {
            let mut numbers = 0..state.links.len() as u32;
            let busy = |number: u32| state.links[number as usize].watch.calling > 0 && !own(number);
            let any = link.map_or_else(|| numbers.any(busy), busy);
            (!any).then_some(())
        });
    }

    /// Repeats `attempt` until it returns something or the time is over. `side` is the side that
    /// has to be woken.
    #[inline(always)]
    pub(crate) fn wait_for<T>(
        &self,
        side: usize,
        timeout_ns: u64,
        attempt: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        self.wait_as(side, timeout_ns, true, attempt)
    }

    /// If `drives`, progresses a worker with manual progress meanwhile.
    #[inline(always)]
    fn wait_as<T>(
        &self,
        side: usize,
        timeout_ns: u64,
        drives: bool,
        mut attempt: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.state.lock_either();
        let found = attempt(&mut state);
        let seen = self.waiters.see(side);
        let _ = self.leave(state);
        if found.is_some() || timeout_ns == 0 {
            return found;
        }
        self.sleep_for((side, seen), timeout_ns, drives, &mut attempt)
    }

    /// `seen`: the side's word, read under the lock when the last attempt found nothing. Whatever
    /// has changed since is worth another attempt, also what happened while this thread woke up.
    #[cold]
    #[inline(never)]
    fn sleep_for<T>(
        &self,
        (side, mut seen): (usize, Seen),
        timeout_ns: u64,
        drives: bool,
        attempt: &mut dyn FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let deadline = clock::deadline_after(timeout_ns);
        let driven = || if drives { self.driven() } else { None };
        let mut sleeper = None;
        loop {
            if driven().is_none() {
                self.waiters.look_for(side, self.is_brisk(timeout_ns), &|| {
                    self.waiters.has_moved(side, seen) || self.is_offered(side)
                });
            }
            let mut state = self.state.lock_either();
            state.expect(side);
            let found = attempt(&mut state);
            let left = clock::remaining(deadline);
            if found.is_some() || left == Some(Duration::ZERO) {
                let _ = self.leave(state);
                return found;
            }
            seen = self.waiters.see(side);
            // Checked under the lock: a progress thread that ends later changes the word.
            let worker = driven();
            match worker {
                Some(_) => state.external_waiters += 1,
                None => state.asleep |= 1 << side,
            }
            // Performs what this thread's own attempt made possible; that may change the word.
            let _ = self.leave(state);
            sleeper.get_or_insert_with(|| self.sleepers.enter(side));
            let Some(worker) = worker else {
                self.waiters.sleep(side, seen, left);
                continue;
            };
            let drove = worker.drive(&|| self.waiters.has_moved(side, seen), deadline);
            let mut state = self.state.lock_either();
            state.external_waiters -= 1;
            if drove.is_err() {
                // The worker cannot be progressed any more, so sleep like the others. Mark the side
                // first.
                state.asleep |= 1 << side;
                drop(state);
                self.waiters.sleep(side, seen, clock::remaining(deadline));
            }
        }
    }
}
