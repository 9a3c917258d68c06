//! Flush: an operation that completes after everything that was submitted before it.
//!
//! UCP's own flush does not wait for a rendezvous send that the peer has not received yet, and when
//! such a send completes UCX may still hold its last bytes. So a flush has two halves, one after
//! the other:
//! 1. It waits for the sends that were in flight when it was submitted, and for their callbacks.
//! 2. It runs UCP's flush. This starts after a pass (see `Event::SendsEnded`), because UCP does not
//!    allow it from its own callbacks.
//!
//! A flush also reports the first error of a send that had neither request nor callback.

use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase, SharedEndpoint};
use crate::engine::core::request::completion::Returned;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Part, Slot, Ticket};
use crate::engine::core::request::request_param::Param;
use crate::engine::core::trace;
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::request_wait;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::sys;
use std::cell::Cell;

/// Takes an unreported error with its position out of `cell`, if `of` wants that position.
fn take_if(cell: &Cell<Option<(u64, Status)>>, of: impl Fn(u64) -> bool) -> Option<(u64, Status)> {
    let told = cell.get().filter(|(sequence, _)| of(*sequence))?;
    cell.set(None);
    Some(told)
}

impl SharedEndpoint {
    /// Flushes this endpoint.
    pub fn flush(&self, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.worker().context, "flush", 0)?;
        request_wait::submit(params, out, |params, out| {
            if self.worker().thread.is_remote() {
                self.check_open_outside()?;
            }
            let timeout_ns = params.timeout_ns;
            let later =
                self.post_operation(Kind::EndpointFlush, params, out, move |endpoint, slot| {
                    let worker = &endpoint.worker;
                    if endpoint.phase() != Phase::Open {
                        return worker.never_started(slot, Some(endpoint), endpoint.status());
                    }
                    let params = OpParams { timeout_ns, ..OpParams::default() };
                    let _ = worker.begin_flush(Some(endpoint), Some(slot), &params, Out::NOWHERE);
                })?;
            if let Some(submitted) = later {
                return Ok(submitted);
            }
            let inside = self.enter()?;
            self.check_open()?;
            inside.worker.begin_flush(Some(&inside), None, params, out)
        })
    }
}

impl Endpoint {
    /// Sends that a flush of this endpoint waits for.
    fn unflushed(&self) -> u32 {
        self.sends.get() + self.due.sends.get()
    }

    /// Nothing was sent since a flush that found everything done. Sends that completed inside their
    /// call need no flush.
    fn has_nothing_to_flush(&self) -> bool {
        self.unflushed() == 0
            && self.flushed_at.get() == self.operations_sent()
            && self.unreported.get().is_none()
            && !self.holds_flushes()
    }

    /// The unreported error, if `of` accepts its position. It is reported once.
    pub(crate) fn take_unreported(&self, of: impl Fn(u64) -> bool) -> Option<(u64, Status)> {
        let told = take_if(&self.unreported, of)?;
        let count = &self.worker.unreported_on;
        count.set(count.get() - 1);
        Some(told)
    }

    /// Starts UCP's half of this flush. Returns how many parts complete later.
    fn begin_half(&self, flush: &Slot) -> u32 {
        if self.holds_flushes() {
            // It starts once there is a connection to flush and UCP has the earlier sends.
            self.queue_flush(flush);
            return 1;
        }
        if self.is_untouched() {
            // UCP has been given nothing, and would connect only for the flush.
            return 0;
        }
        match self.start_flush(Part::Flush(flush.ticket())) {
            None => return 1,
            Some(status) if status.is_error() => {
                flush.note_reason(self.worker.status_from_ucx(status, Some(self)))
            }
            Some(_) if self.unflushed() == 0 => self.flushed_at.set(self.operations_sent()),
            Some(_) => {}
        }
        0
    }
}

impl SharedWorker {
    /// Flushes every endpoint of this worker.
    pub fn flush(&self, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.context, "flush", 0)?;
        request_wait::submit(params, out, |params, out| {
            let timeout_ns = params.timeout_ns;
            let later =
                self.post_operation(Kind::WorkerFlush, params, out, move |inside, slot| {
                    let params = OpParams { timeout_ns, ..OpParams::default() };
                    let _ = inside.begin_flush(None, Some(slot), &params, Out::NOWHERE);
                })?;
            if let Some(submitted) = later {
                return Ok(submitted);
            }
            self.enter()?.begin_flush(None, None, params, out)
        })
    }
}

impl Worker {
    /// Starts a flush. `begun`: the request, if the caller already has one.
    fn begin_flush(
        &self,
        endpoint: Option<&Endpoint>,
        begun: Option<&Slot>,
        params: &OpParams,
        out: Out,
    ) -> Result<Submitted> {
        let done = || {
            self.stats.of(Kind::WorkerFlush).inline.add(1);
            out.store_null();
            Ok(Submitted::Done)
        };
        let may_end = begun.is_none() && params.flags & flag::ALWAYS_CALLBACK == 0;
        if may_end && endpoint.is_some_and(Endpoint::has_nothing_to_flush) {
            return done();
        }
        let kind = if endpoint.is_some() { Kind::EndpointFlush } else { Kind::WorkerFlush };
        let slot = begun.unwrap_or_else(|| self.take_flush(kind, params, out.is_wanted()));
        let sends = endpoint.map_or_else(|| self.unflushed(), Endpoint::unflushed);
        let halves = if sends == 0 { self.begin_halves(endpoint, slot) } else { 0 };
        if may_end
            && sends + halves == 0
            && slot.reason.get() == 0
            && !self.has_unreported(endpoint)
        {
            self.return_slot(slot);
            return done();
        }
        if begun.is_none() {
            trace::submitted(slot, endpoint);
        }
        self.start(slot, endpoint, params, out);
        if sends > 0 {
            slot.part.set(Part::SendsFirst);
        }
        self.flush_waits(endpoint, slot, sends + halves);
        Ok(Submitted::Pending)
    }

    /// A flush of what UCP has now. It does not wait for sends in flight, because a rendezvous send
    /// that the peer never receives would delay it. The caller releases the slot.
    pub(crate) fn begin_brief_flush(&self) -> &Slot {
        let slot = self.take_flush(Kind::WorkerFlush, &OpParams::default(), true);
        let halves = self.begin_halves(None, slot);
        trace::submitted(slot, None);
        self.start(slot, None, &OpParams::default(), Out::NOWHERE);
        self.flush_waits(None, slot, halves);
        slot
    }

    fn take_flush(&self, kind: Kind, params: &OpParams, given: bool) -> &Slot {
        let slot = self.take_slot();
        slot.begin(kind, params, 0, 0, given);
        slot
    }

    fn flush_waits(&self, endpoint: Option<&Endpoint>, flush: &Slot, for_how_many: u32) {
        self.wait_for(flush, for_how_many);
        self.flush_list(endpoint, |list| list.push(flush));
        self.flushes_active.set(self.flushes_active.get() + 1);
        self.complete_flushes();
    }

    /// Starts UCP's half of a flush that waits for no sends. Returns how many parts complete later.
    fn begin_halves(&self, endpoint: Option<&Endpoint>, flush: &Slot) -> u32 {
        match endpoint {
            Some(endpoint) => endpoint.begin_half(flush),
            // UCP's flush of the worker would wait for parked ends, whose peers may not make
            // progress.
            None if self.parked.are_some() => self.flush_each(flush),
            None => self.flush_all(flush),
        }
    }

    /// With UCP's flush of the worker: it needs no progress of peers to which UCX has nothing left
    /// to send.
    fn flush_all(&self, flush: &Slot) -> u32 {
        let mut queued = 0;
        if self.queueing.get() > 0 {
            let queue = |endpoint: &&Inward<SharedEndpoint>| endpoint.window.is_queueing();
            let endpoints = self.endpoints.borrow();
            queued =
                endpoints.iter().flatten().filter(queue).map(|known| known.begin_half(flush)).sum();
        }
        match self.flush_in_ucp(Part::Flush(flush.ticket())) {
            Ok(_) => return queued + 1,
            Err(status) if status.is_error() => {
                flush.note_reason(self.status_from_ucx(status, None))
            }
            Err(_) => {}
        }
        queued
    }

    /// UCP's flush of the worker, as a part. Returns its ticket, or its status if it completed
    /// inside the call.
    pub(crate) fn flush_in_ucp(&self, part: Part) -> std::result::Result<Ticket, Status> {
        let (ucp, mut flush) = (self.ucp(), None);
        let ended = self.start_part(None, part, |slot| {
            flush = Some(slot.ticket());
            // SAFETY: a live worker inside its gate; `start_part` keeps the slot until UCP calls
            // back.
            unsafe { sys::ucp_worker_flush_nbx(ucp, Param::new(slot).as_ptr()) }
        });
        ended.map_or(flush.ok_or(Status::OK), Err)
    }

    /// With one flush for each endpoint that has something to flush.
    fn flush_each(&self, flush: &Slot) -> u32 {
        let stands =
            |endpoint: &Endpoint| endpoint.phase() <= Phase::Flushing && !endpoint.is_connecting();
        let (mut halves, mut place) = (0, 0);
        // Not borrowed while UCP is called.
        loop {
            let known = self.endpoints.borrow().get(place).cloned();
            let Some(known) = known else { return halves };
            place += 1;
            if let Some(endpoint) =
                known.filter(|known| stands(known) && !known.has_nothing_to_flush())
            {
                halves += endpoint.begin_half(flush);
            }
        }
    }

    /// The sends that this flush waited for have completed.
    pub(crate) fn flush_after_sends(&self, flush: Ticket) {
        let Some(slot) = flush.current() else { return };
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        let halves = match endpoint {
            Some(endpoint) if endpoint.phase() > Phase::Flushing => {
                slot.note_reason(endpoint.life().cut_short());
                0
            }
            Some(endpoint) => endpoint.begin_half(slot),
            None => self.flush_each(slot),
        };
        self.wait_for(slot, halves);
        self.complete_flushes();
    }

    fn flush_list<T>(
        &self,
        endpoint: Option<&Endpoint>,
        change: impl FnOnce(&mut Vec<*const Slot>) -> T,
    ) -> T {
        change(&mut endpoint.map_or(&self.flushes, |endpoint| &endpoint.flushes).borrow_mut())
    }

    /// A part of UCP's half of a flush has completed.
    pub(crate) fn flush_part_ended(&self, flush: Ticket, status: Status) {
        let Some(slot) = flush.current() else { return };
        if status.is_error() {
            // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
            let endpoint = unsafe { slot.endpoint.get().as_ref() };
            slot.note_reason(self.status_from_ucx(status, endpoint));
        }
        self.wait_for(slot, slot.remaining.get() - 1);
        self.complete_flushes();
    }

    /// Sets how many completions the flush waits for.
    fn wait_for(&self, flush: &Slot, how_many: u32) {
        flush.remaining.set(how_many);
        if how_many == 0 {
            self.flushed.borrow_mut().push_back(flush.ticket());
        }
    }

    /// The send with this position has completed: flushes after it wait for one less.
    pub(crate) fn flushes_move_on(&self, endpoint: Option<&Endpoint>, sequence: u64) {
        let move_on = |list: &mut Vec<*const Slot>| {
            for flush in list {
                // SAFETY: a flush is in the list exactly as long as it is in flight.
                let flush = unsafe { &**flush };
                if flush.sequence.get() > sequence {
                    self.wait_for(flush, flush.remaining.get() - 1);
                }
            }
        };
        self.flush_list(None, move_on);
        if endpoint.is_some() {
            self.flush_list(endpoint, move_on);
        }
        self.complete_flushes();
    }

    /// Completes the flushes that wait for nothing any more.
    fn complete_flushes(&self) {
        loop {
            let Some(next) = self.flushed.borrow_mut().pop_front() else { break };
            let Some(slot) = next.current() else { continue };
            if matches!(slot.part.get(), Part::SendsFirst) {
                slot.part.set(Part::Nothing);
                // For UCP's half, which is still to come.
                slot.remaining.set(1);
                self.push_event(Event::SendsEnded(slot.ticket()));
                continue;
            }
            self.forget_flush(slot);
            let status = self.take_unreported(slot).unwrap_or(Status(slot.reason.get()));
            slot.reason.set(status.0);
            self.complete(slot, status);
        }
    }

    /// Removes a flush from the list of those in flight.
    pub(crate) fn forget_flush(&self, slot: &Slot) {
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        self.flush_list(endpoint, |list| list.retain(|known| !std::ptr::eq(*known, slot)));
        self.flushes_active.set(self.flushes_active.get() - 1);
    }

    fn has_unreported(&self, endpoint: Option<&Endpoint>) -> bool {
        match endpoint {
            Some(endpoint) => endpoint.unreported.get().is_some(),
            None => self.unreported.get().is_some() || self.unreported_on.get() > 0,
        }
    }

    /// The first unreported error before this flush. It is reported once.
    fn take_unreported(&self, flush: &Slot) -> Option<Status> {
        let before = |sequence: u64| sequence < flush.sequence.get();
        // SAFETY: the worker keeps the endpoint alive while something in flight refers to it.
        if let Some(endpoint) = unsafe { flush.endpoint.get().as_ref() } {
            return endpoint.take_unreported(before).map(|(_, status)| status);
        }
        let gone = take_if(&self.unreported, before);
        if self.unreported_on.get() == 0 {
            return gone.map(|(_, status)| status);
        }
        let endpoints = self.endpoints.borrow();
        let told = endpoints
            .iter()
            .flatten()
            .filter_map(|endpoint| endpoint.take_unreported(before))
            .chain(gone);
        told.min_by_key(|(sequence, _)| *sequence).map(|(_, status)| status)
    }
}

impl Worker {
    /// Gives UCP an internal operation, with its own slot. Returns its status if it completed
    /// inside the call.
    pub(crate) fn start_part(
        &self,
        endpoint: Option<&Endpoint>,
        part: Part,
        call: impl FnOnce(&Slot) -> sys::ucs_status_ptr_t,
    ) -> Option<Status> {
        let slot = self.take_slot();
        slot.prepare(Kind::Internal);
        let ended = self.part_posted(slot, call(slot));
        if ended.is_none() {
            self.start_as_part(slot, endpoint, part, 0, 0);
        }
        ended
    }

    /// After the UCP call for an internal operation that `prepare` set up: returns the status it
    /// completed with, and frees the slot. None while it is in flight: see `start_as_part`.
    pub(crate) fn part_posted(
        &self,
        slot: &Slot,
        pointer: sys::ucs_status_ptr_t,
    ) -> Option<Status> {
        let status = Returned::of(slot, pointer).ended()?;
        slot.kind.set(Kind::Free);
        self.slab.push(slot);
        Some(status)
    }

    /// The internal operation is in flight from now on.
    pub(crate) fn start_as_part(
        &self,
        slot: &Slot,
        endpoint: Option<&Endpoint>,
        part: Part,
        length: u64,
        tag: u64,
    ) {
        slot.begin(slot.kind.get(), &OpParams::DEFAULT, length, tag, false);
        slot.part.set(part);
        self.start(slot, endpoint, &OpParams::DEFAULT, Out::NOWHERE);
    }
}
