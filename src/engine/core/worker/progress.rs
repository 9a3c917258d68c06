//! A progress pass: UCP's progress, then callbacks, deadlines, and other queued work.
//!
//! User callbacks run after `ucp_worker_progress` has returned, because UCP reorders messages that
//! are sent from inside its own callbacks. They run outside the gate, so that they may call any
//! function.

use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::clock;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::ticks::{ticks, MOMENT};
use crate::engine::core::request::request::{mark, USER};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::protocol::Turn;
use crate::engine::core::worker::worker::{attention, SharedWorker, Worker};
use crate::sys;

/// Passes between two reads of the clock, for ages in a dump and for checks of peers: often enough
/// for those, and too rare to cost anything.
const PASSES_PER_LOOK: u64 = 128;

/// Most deadlines that one pass handles, so that it stays short.
const MOST_EXPIRED: u32 = 256;

/// While fast boxes deliver messages, UCP's progress runs in one of this many passes.
const PASSES_PER_TURN: u64 = 4;

impl SharedWorker {
    /// One pass. Returns how many events it handled; 0 if there was nothing to do.
    #[inline(always)]
    pub fn progress(&self) -> Result<u32> {
        let inside = self.enter_for(true)?;
        if inside.delivering.get() != 0 && (!self.gate().is_lock() || deferred::in_callback()) {
            return Err(from_callback());
        }
        Ok(inside.pass())
    }
}

#[cold]
pub(crate) fn from_callback() -> Error {
    Error::new(
        Status::BUSY,
        "worker: a callback may not progress or wait; it returns, and progress goes on",
    )
}

impl Worker {
    #[inline(always)]
    pub(crate) fn pass(&self) -> u32 {
        let alone = !self.gate.is_shared();
        let mut handled = self.pass_through_ucp(alone);
        if self.attention.get() != 0 {
            handled += self.attend_to(handled);
        }
        if handled > 0 {
            self.back_off.end();
            if !alone {
                self.tell_event_loop();
            }
        }
        handled
    }

    /// UCP's part of a pass. `alone`: no other thread uses the worker.
    #[inline(always)]
    pub(crate) fn pass_through_ucp(&self, alone: bool) -> u32 {
        if self.armed.get() {
            self.event_loop.pass_begins();
            if alone {
                // If the worker is shared, another thread may have armed and be asleep.
                self.armed.set(false);
            }
        }
        let mut handled = self.look_into_fast_boxes();
        if handled == 0 || self.stats.progress_calls.get() % PASSES_PER_TURN == 0 {
            // SAFETY: a live worker, inside its gate.
            handled += unsafe { sys::ucp_worker_progress(self.ucp()) };
        }
        if self.stats.progress_calls.count() % PASSES_PER_LOOK == 0 {
            self.look_at_clock();
        }
        handled
    }

    #[cold]
    fn look_at_clock(&self) {
        let now = clock::now_ns();
        self.coarse_now.set(now);
        self.drain_foreign();
        self.answer_inquiry();
        self.tend_fast_boxes(now);
        if self.peers.is_due(now) {
            self.attend(attention::PEERS);
        }
        if self.liveness.is_due(now) {
            self.attend(attention::SILENCE);
        }
    }

    #[cold]
    #[inline(never)]
    fn attend_to(&self, by_ucp: u32) -> u32 {
        let mut handled = 0;
        handled += self.take_turn(Turn::First);
        if self.attention.get() & attention::CHANGING != 0 || self.may_expire() {
            let now = clock::now_ns();
            self.coarse_now.set(now);
            handled += self.expire_timers(now);
            if self.attention.get() & attention::CHANGING != 0 {
                self.ucp_was_busy.set(by_ucp > 0);
                handled += self.advance_changing(now);
            }
        }
        handled += self.take_turn(Turn::Middle);
        if self.attention.get() & attention::PEERS != 0 {
            self.look_at_peers(self.coarse_now.get());
        }
        if self.attention.get() & attention::SILENCE != 0 {
            self.attention.set(self.attention.get() & !attention::SILENCE);
            self.look_for_silence(self.coarse_now.get());
        }
        if self.attention.get() & attention::INBOX != 0 {
            self.attention.set(self.attention.get() & !attention::INBOX);
            handled += self.deliver_messages();
        }
        if self.attention.get() & attention::READY != 0 {
            self.attention.set(self.attention.get() & !attention::READY);
            handled += self.deliver();
        }
        handled += self.take_turn(Turn::Last);
        if self.attention.get() & attention::WINDOWS != 0 {
            self.attention.set(self.attention.get() & !attention::WINDOWS);
            handled += self.tend_windows();
        }
        if self.attention.get() & attention::EVENTS != 0 {
            self.attention.set(self.attention.get() & !attention::EVENTS);
            handled += self.handle_events();
            if !self.events.borrow().is_empty() {
                self.attend(attention::EVENTS);
            }
        }
        handled
    }

    /// There are timers, and it is not just a moment since they were checked.
    #[inline(always)]
    pub(crate) fn may_expire(&self) -> bool {
        self.attention.get() & attention::TIMERS != 0
            && ticks().wrapping_sub(self.timers_checked.get()) >= MOMENT
    }

    fn expire_timers(&self, now: u64) -> u32 {
        let mut expired = 0;
        self.timers_checked.set(ticks());
        for _ in 0..MOST_EXPIRED {
            let Some(ticket) = self.timers.borrow_mut().pop_expired(now) else { break };
            if let Some(slot) = ticket.current() {
                self.cancel_slot(slot, Status::TIMED_OUT);
                expired += 1;
            }
        }
        if self.timers.borrow().is_empty() {
            self.attention.set(self.attention.get() & !attention::TIMERS);
        }
        expired
    }

    /// Runs the callbacks that are due now. Callbacks that become due meanwhile run in the next
    /// pass.
    fn deliver(&self) -> u32 {
        let delivered = self.ready.drain_present(|slot| self.call_back(slot));
        if !self.ready.is_empty() {
            self.attend(attention::READY);
        }
        delivered
    }

    /// Runs the callback of a request that has its result, then releases its waiters.
    pub(crate) fn call_back(&self, slot: &crate::engine::core::request::request::Slot) {
        self.drain_foreign();
        let Some(callback) = slot.callback.take() else { return self.finish(slot) };
        let (endpoint, kind, sequence) =
            (slot.endpoint.get(), slot.kind.get(), slot.sequence.get());
        let given = slot.has_mark(mark::GIVEN);
        let release_slot = given && slot.hold.get() & USER == 0;
        // A request that a notifier reports as well is kept for that: its callback belongs to the
        // library.
        let reported = !slot.notifier.get().is_null();
        if !given && !reported {
            // Held during the call, so that the callback may destroy it.
            slot.hold.set(slot.hold.get() | USER);
        }
        slot.publish_status();
        let (arg, status) = (slot.callback_arg.get(), slot.outcome.get());
        let request =
            if release_slot { std::ptr::null_mut() } else { std::ptr::from_ref(slot).cast_mut() };
        trace::calls::<false>(slot);
        // SAFETY: a callback and its argument as the caller gave them; the request is valid during
        // the call.
        self.outside(|| unsafe { callback.call_out((arg, request, status.0)) });
        trace::called::<false>(self, kind);
        if reported {
            let _ = self.report(slot);
        } else {
            if !given {
                self.drain_foreign();
                slot.hold.set(slot.hold.get() & !USER);
            }
            self.finish(slot);
        }
        // SAFETY: kept while a callback is due, which this one was until now.
        if let Some(endpoint) = unsafe { endpoint.as_ref() } {
            self.callback_has_returned(endpoint, kind, sequence);
        }
    }
}
