//! The fast path: a plain operation on a SINGLE worker with manual progress, which is the usual
//! case for short messages.
//!
//! Every condition is checked before anything has happened. If one does not hold, the function
//! returns nothing, and the caller takes the slow path, which checks again and reports the error.
//! So each error is produced in one place only. After UCP's call only the usual result is handled
//! here. Nothing here can panic.
//!
//! Cost in addition to UCP's, counted by callgrind on x86_64: 80 instructions for a send, 115 for a
//! receive and its completion, 40 for a pass, 12 for a check of a request and 20 for its release.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::inflight::{Out, Submission};
use crate::engine::core::request::inline_buffer::INLINE;
use crate::engine::core::request::operation::{OpParams, Submitted};
use crate::engine::core::request::request::{mark, Kind, Slot, ENGINE, USER};
use crate::engine::core::trace;
use crate::engine::core::worker::deferred_end::may_have_doomed;
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::{attention, InsideFast, SharedWorker, Worker};
use crate::engine::ucx::memory_type;
use crate::engine::wire::header::HEADER;
use crate::sys;
use std::sync::atomic::Ordering;

impl OpParams {
    /// No flag, timeout, notifier or `source`, and no device memory. `unusual`: another value that
    /// must be 0.
    #[inline(always)]
    pub fn is_plain(&self, unusual: u64) -> bool {
        let unusual = unusual
            | self.flags
            | self.timeout_ns
            | u64::from(self.reserved)
            | self.notifier as u64
            | self.memory as u64
            | self.source as u64;
        unusual == 0 && self.memory_type as u32 <= memory_type::HOST as u32
    }

    /// The index in `Templates`.
    #[inline(always)]
    pub(crate) fn plain_index(&self) -> usize {
        const { assert!(memory_type::AUTO == 0 && memory_type::HOST == 1) };
        (self.memory_type & 1) as usize
    }
}

/// Inside a SINGLE worker, with a slot for a new operation.
pub struct FastPath<'a> {
    pub(crate) worker: InsideFast<'a>,
    pub(crate) slot: &'a Slot,
}

impl SharedWorker {
    /// `Worker::progress` for the thread of a SINGLE worker when only UCP has something to do.
    /// Returns the number of events, and whether the pass is complete; otherwise it must continue
    /// on the slow path.
    #[inline(always)]
    pub fn progress_fast(&self) -> (u32, bool) {
        let Some(inside) = self.enter_fast() else { return (0, false) };
        if (inside.attention.get() & !attention::TIMERS) | inside.delivering.get() != 0 {
            return (0, false);
        }
        let mut handled = inside.pass_through_ucp(true);
        let mut complete = inside.attention.get() == 0;
        if inside.attention.get() == attention::INBOX {
            inside.attention.set(0);
            handled += inside.deliver_messages_alone();
            complete = inside.attention.get() == 0 && !may_have_doomed();
        } else if inside.attention.get() == attention::TIMERS {
            complete = !inside.may_expire();
        }
        (handled, complete)
    }

    /// For plain operations that UCP itself has. None: use the slow path.
    #[inline(always)]
    pub fn fast_for(&self, feature: u64) -> Option<FastPath<'_>> {
        if self.features & feature == 0 {
            return None;
        }
        let worker = self.enter_fast()?;
        worker.first_slot().map(|slot| FastPath { worker, slot })
    }
}

impl SharedEndpoint {
    /// As `Worker::fast_for`, for an endpoint that takes operations.
    #[inline(always)]
    pub fn fast_for(&self, feature: u64) -> Option<FastPath<'_>> {
        if !self.is_open() {
            return None;
        }
        let quick = self.worker().fast_for(feature)?;
        // A send of a worker to itself completes other operations inside UCP's call, which may take
        // slots. SAFETY: inside its worker's gate.
        let is_own = unsafe { self.inside() }.peering.own.get();
        (!is_own).then_some(quick)
    }

    /// For a message of `length` bytes, header and data, that is sent as one piece without credit.
    /// None: use the slow path.
    #[inline(always)]
    pub(crate) fn fast_for_piece(&self, length: usize, params: &OpParams) -> Option<FastPath<'_>> {
        if length > INLINE - HEADER {
            return None;
        }
        self.fast_for_peer(params)
    }

    /// The same for any length.
    #[inline(always)]
    pub(crate) fn fast_for_peer(&self, params: &OpParams) -> Option<FastPath<'_>> {
        // The fast path reads and writes the buffer itself, and only UCX finds out where it is.
        let is_here =
            params.memory_type != memory_type::AUTO || self.worker().context.is_in_reach(None);
        if !self.is_open() || !is_here {
            return None;
        }
        let worker = self.worker().enter_fast()?;
        let slot = worker.first_slot()?;
        // SAFETY: inside its worker's gate.
        let is_known = unsafe { self.inside() }.peering.fast_number.get() != 0;
        // Before the peer has sent its number, UCP must identify the connection.
        is_known.then_some(FastPath { worker, slot })
    }
}

impl FastPath<'_> {
    /// Sends: `post` gives the slot to UCP or to shared memory.
    #[inline(always)]
    pub(crate) fn send(
        self,
        kind: Kind,
        (length, tag): (u64, u64),
        to: &Endpoint,
        params: &OpParams,
        out: Out,
        post: impl FnOnce(&Worker, &Slot) -> sys::ucs_status_ptr_t,
    ) -> Result<Submitted> {
        let FastPath { worker, slot } = self;
        slot.prepare(kind);
        // Kept in the slot, and not across the call, because they are needed afterwards if the send
        // is pending.
        slot.length.set(length);
        slot.tag.set(tag);
        trace::submitted_fast(slot, to);
        let posted = post(&worker, slot);
        if !posted.is_null() {
            return worker.submitted_slow(slot, posted, Some(to), params, out);
        }
        worker.count_inline(kind, slot.length.get(), Some(to));
        trace::completed_fast(slot, to);
        out.store_null();
        drop(worker);
        Ok(Submitted::Done)
    }
}

impl Worker {
    /// Anything but the usual case.
    #[inline(never)]
    pub(crate) fn submitted_slow(
        &self,
        slot: &Slot,
        posted: sys::ucs_status_ptr_t,
        endpoint: Option<&Endpoint>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        self.slab.take(slot);
        let (length, tag) = (slot.length.get(), slot.tag.get());
        self.submitted(slot, posted, Submission { endpoint, params, length, tag }, out)
    }
}

impl Slot {
    /// Starts a receive, which is in flight from here on. Fields that are not set here have the
    /// values of an operation that does not use them.
    #[inline(always)]
    pub(crate) fn begin_fast(&self, params: &OpParams, given: bool) {
        let watched = params.callback.is_some() || !params.recv_info.is_null();
        let (hold, marks) =
            if given { (ENGINE | USER, mark::LIVE | mark::GIVEN) } else { (ENGINE, mark::LIVE) };
        self.hold.set(hold);
        self.marks.set(if given && !watched { marks | mark::PLAIN } else { marks });
        if watched {
            self.recv_info.set(params.recv_info);
            self.callback.set(params.callback);
            self.callback_arg.set(params.callback_arg);
        }
        self.outcome.set(Status::INPROGRESS);
        self.done.begin();
        self.status.store(Status::INPROGRESS.0, Ordering::Relaxed);
    }

    /// In flight, and a receive whose end only its request shows.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.marks.get() == mark::LIVE | mark::GIVEN | mark::PLAIN
    }

    /// A PLAIN receive has succeeded: only its caller, who holds it, learns of it. `kind`: where it
    /// is counted.
    #[inline(always)]
    pub(crate) fn complete_fast(&self, worker: &Worker, kind: Kind) {
        worker.stats.of(kind).completed.add(1);
        worker.stats.of(kind).bytes.add(self.length.get());
        self.hold.set(USER);
        self.marks.set(mark::GIVEN | mark::PLAIN);
        self.outcome.set(Status::OK);
        trace::completed_fast_receive(self);
        self.status.store(Status::OK.0, Ordering::Release);
        // A SINGLE worker: no other thread sleeps on it.
        self.done.publish();
        worker.tell_event_loop();
    }

    /// The status, if it can be read with one or two checks. None: use the slow path.
    #[inline(always)]
    pub fn status_fast(&self) -> Option<Status> {
        let status = Status(self.status.load(Ordering::Acquire));
        let simple = status == Status::INPROGRESS || (status == Status::OK && self.done.is_set());
        (simple && !self.worker().generation.is_past()).then_some(status)
    }

    /// Releases a request that `complete_fast` has completed, on the thread of a SINGLE worker.
    /// Returns false if nothing has happened: use the slow path. No ticket refers to such a use of
    /// the slot, so none must be invalidated. In a forked child it only changes the child's own
    /// copy.
    ///
    /// # Safety
    /// The caller holds the request, and does not use it again if this is true.
    #[inline(always)]
    pub unsafe fn destroy_fast(&self) -> bool {
        // SAFETY: used only in the steps below, which enter no gate.
        let Some(worker) = (unsafe { self.worker().act_fast() }) else { return false };
        let simple = self.marks.get() == mark::GIVEN | mark::PLAIN;
        if simple {
            self.hold.set(0);
            worker.slab.push(self);
        }
        simple
    }
}
