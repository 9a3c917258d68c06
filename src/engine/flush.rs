//! Flush: an operation that completes after everything submitted before it.
//!
//! UCP's own flush does not wait for a rendezvous send that nobody has received yet, so a flush here waits for two things:
//! UCP's flush, and the sends that were in flight when it was submitted, with their callbacks. It also reports what nobody else can: the first
//! error of a send that kept neither request nor callback.

use super::endpoint::{Endpoint, EndpointPointer, Phase};
use super::inflight::Out;
use super::operation::{flag, OpParams, Submitted};
use super::param::Param;
use super::request::{mark, Kind, Part, Slot, Ticket, UCP};
use super::status::{Result, Status};
use super::wait;
use super::worker::{Inside, Worker};
use crate::sys::{self, Posted};
use std::cell::Cell;
use std::ffi::c_void;

impl Endpoint {
    /// Flushes this endpoint.
    pub fn flush(&self, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.worker.context, "flush", 0)?;
        wait::submit(params, out, |params, out| {
            if self.worker.thread.is_foreign() {
                self.check_open_outside()?;
            }
            let endpoint = EndpointPointer(self);
            let timeout_ns = params.timeout_ns;
            let later = self.worker.post_operation(Kind::EndpointFlush, params, out, move |inside, slot| {
                let endpoint = endpoint;
                // SAFETY: the end of an endpoint comes after what was handed over before it.
                let endpoint = unsafe { &*endpoint.0 };
                if endpoint.phase() != Phase::Open {
                    return inside.never_started(slot, Some(endpoint), endpoint.status());
                }
                let params = OpParams { timeout_ns, ..OpParams::default() };
                let _ = endpoint.flush_inside(inside, Some(slot), &params, Out::NOWHERE);
            })?;
            if let Some(submitted) = later {
                return Ok(submitted);
            }
            let inside = self.worker.enter()?;
            self.check_open()?;
            self.flush_inside(&inside, None, params, out)
        })
    }

    /// Nothing was sent since a flush that found everything done: what was put in the call asks for no more.
    fn has_nothing_to_flush(&self) -> bool {
        self.sends.get() + self.due.sends.get() == 0
            && self.flushed_at.get() == self.operations_sent()
            && self.unreported.get().is_none()
            && !self.holds_flushes()
    }

    fn note_flushed(&self) {
        self.flushed_at.set(self.operations_sent());
    }

    fn flush_inside(&self, inside: &Inside<'_>, slot: Option<&Slot>, params: &OpParams, out: Out) -> Result<Submitted> {
        let ucp = self.ucp.get();
        // SAFETY: a live endpoint inside its worker's gate; `flush_with` keeps the param's slot until UCP calls back.
        inside.flush_with(Some(self), slot, params, out, |param| unsafe { sys::ucp_ep_flush_nbx(ucp, param) })
    }
}

impl Worker {
    /// Flushes every endpoint of this worker.
    pub fn flush(&self, params: &OpParams, out: Out) -> Result<Submitted> {
        params.check(&self.context, "flush", 0)?;
        wait::submit(params, out, |params, out| {
            let timeout_ns = params.timeout_ns;
            let later = self.post_operation(Kind::WorkerFlush, params, out, move |inside, slot| {
                let params = OpParams { timeout_ns, ..OpParams::default() };
                let _ = inside.flush_inside(Some(slot), &params, Out::NOWHERE);
            })?;
            if let Some(submitted) = later {
                return Ok(submitted);
            }
            self.enter()?.flush_inside(None, params, out)
        })
    }

    fn flush_inside(&self, slot: Option<&Slot>, params: &OpParams, out: Out) -> Result<Submitted> {
        let ucp = self.ucp();
        // SAFETY: a live worker inside its gate; as above.
        self.flush_with(None, slot, params, out, |param| unsafe { sys::ucp_worker_flush_nbx(ucp, param) })
    }

    /// Starts a flush. `begun` is the request where the caller has got one already.
    pub(crate) fn flush_with(
        &self,
        endpoint: Option<&Endpoint>,
        begun: Option<&Slot>,
        params: &OpParams,
        out: Out,
        call: impl FnOnce(*const sys::ucp_request_param_t) -> sys::ucs_status_ptr_t,
    ) -> Result<Submitted> {
        let may_end = begun.is_none() && params.flags & flag::ALWAYS_CALLBACK == 0;
        if may_end && endpoint.is_some_and(Endpoint::has_nothing_to_flush) {
            self.stats.submitted.add(1);
            self.stats.completed.add(1);
            out.store_null();
            return Ok(Submitted::Done);
        }
        let held = endpoint.filter(|endpoint| endpoint.holds_flushes());
        // UCP's own would wait for ends that nobody has, of peers that may not look.
        let apart = endpoint.is_none() && self.untouched.are_some();
        let part = self.take_internal_slot();
        let posted = match held {
            // UCP's half comes when there is a connection to flush, and it has what was sent before.
            Some(_) => Posted::Pending,
            // Nothing has been given to UCP, which would connect for it.
            None if apart || endpoint.is_some_and(Endpoint::is_untouched) => Posted::Done,
            None => posted(part, call(Param::new(part).as_ptr())),
        };
        let pending = matches!(posted, Posted::Pending);
        if !pending || held.is_some() {
            self.return_slot(part);
        }
        let sends =
            endpoint.map_or_else(|| self.unflushed(), |endpoint| endpoint.sends.get() + endpoint.due.sends.get());
        let unreported = self.has_unreported(endpoint);
        if let (Posted::Done, 0, false, true) = (&posted, sends, unreported, may_end && !apart) {
            if let Some(endpoint) = endpoint {
                endpoint.note_flushed();
            }
            self.stats.submitted.add(1);
            self.stats.completed.add(1);
            out.store_null();
            return Ok(Submitted::Done);
        }
        let slot = begun.unwrap_or_else(|| {
            let slot = self.take_slot();
            let kind = if endpoint.is_some() { Kind::EndpointFlush } else { Kind::WorkerFlush };
            slot.begin(kind, params, 0, 0, out.is_wanted());
            slot
        });
        self.start(slot, endpoint, params, out);
        let mut queued = if endpoint.is_none() { self.queue_worker_flush(slot) } else { 0 };
        if apart {
            queued += self.flush_each(slot);
        }
        slot.remaining.set(sends + u32::from(pending) + queued);
        self.flush_list(endpoint, |list| list.push(slot));
        self.flushes_active.set(self.flushes_active.get() + 1);
        if let Posted::Failed(status) = posted {
            slot.reason.set(self.status_from_ucx(Status(status.into()), endpoint).0);
        }
        if let Some(endpoint) = held {
            endpoint.queue_flush(slot);
        } else if pending {
            part.part.set(Part::Flush(slot.ticket()));
            self.start(part, endpoint, &OpParams::default(), Out::NOWHERE);
        }
        self.complete_flushes();
        Ok(Submitted::Pending)
    }

    /// UCP's halves of a worker's flush, of those endpoints that have something to flush and are not to tell later; how many are under way.
    fn flush_each(&self, flush: &Slot) -> u32 {
        let mut parts = 0;
        for endpoint in self.all_endpoints() {
            let flushes = endpoint.phase() <= Phase::Flushing && !endpoint.ucp.get().is_null();
            if !flushes || endpoint.holds_flushes() || endpoint.is_untouched() {
                continue;
            }
            match endpoint.start_flush(Part::Flush(flush.ticket())) {
                None => parts += 1,
                Some(status) if status.is_error() && flush.reason.get() == 0 => {
                    flush.reason.set(self.status_from_ucx(status, None).0);
                }
                Some(_) => {}
            }
        }
        parts
    }

    /// A slot for an operation that nobody but the engine sees.
    pub(crate) fn take_internal_slot(&self) -> &Slot {
        let slot = self.take_slot();
        slot.begin(Kind::Internal, &OpParams::default(), 0, 0, false);
        slot.add_mark(mark::SUBMITTING);
        slot
    }

    fn flush_list<T>(&self, endpoint: Option<&Endpoint>, change: impl FnOnce(&mut Vec<*const Slot>) -> T) -> T {
        change(&mut endpoint.map_or(&self.flushes, |endpoint| &endpoint.flushes).borrow_mut())
    }

    /// UCP's half of a flush has ended.
    pub(crate) fn flush_part_ended(&self, flush: Ticket, status: Status) {
        let Some(slot) = flush.current() else { return };
        if status.is_error() && slot.reason.get() == 0 {
            // SAFETY: the worker keeps the endpoint alive while something in flight names it.
            let endpoint = unsafe { slot.endpoint.get().as_ref() };
            slot.reason.set(self.status_from_ucx(status, endpoint).0);
        }
        slot.remaining.set(slot.remaining.get() - 1);
        self.complete_flushes();
    }

    /// A send with this position has ended: the flushes after it wait for one less.
    pub(crate) fn flushes_move_on(&self, endpoint: Option<&Endpoint>, sequence: u64) {
        let move_on = |list: &mut Vec<*const Slot>| {
            for flush in list {
                // SAFETY: a flush is in the list exactly as long as it is in flight.
                let flush = unsafe { &**flush };
                if flush.sequence.get() > sequence {
                    flush.remaining.set(flush.remaining.get() - 1);
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
        while let Some(slot) = self.next_complete_flush() {
            self.forget_flush(slot);
            let status = self.take_unreported(slot).unwrap_or(Status(slot.reason.get()));
            slot.reason.set(status.0);
            self.complete(slot, status);
        }
    }

    fn next_complete_flush(&self) -> Option<&Slot> {
        let complete_one = |list: &mut Vec<*const Slot>| {
            // SAFETY: as in flushes_move_on.
            list.iter().find(|slot| unsafe { &***slot }.remaining.get() == 0).copied()
        };
        let found = self.flush_list(None, complete_one).or_else(|| {
            let endpoints = self.endpoints.borrow();
            let found = endpoints.iter().flatten().find_map(|endpoint| self.flush_list(Some(endpoint), complete_one));
            found
        })?;
        // SAFETY: as above.
        Some(unsafe { &*found })
    }

    /// Takes a flush off the list of those under way.
    pub(crate) fn forget_flush(&self, slot: &Slot) {
        // SAFETY: the worker keeps the endpoint alive while something in flight names it.
        let endpoint = unsafe { slot.endpoint.get().as_ref() };
        self.flush_list(endpoint, |list| list.retain(|known| !std::ptr::eq(*known, slot)));
        self.flushes_active.set(self.flushes_active.get() - 1);
    }

    fn has_unreported(&self, endpoint: Option<&Endpoint>) -> bool {
        match endpoint {
            Some(endpoint) => endpoint.unreported.get().is_some(),
            None => {
                let endpoints = self.endpoints.borrow();
                self.unreported.get().is_some()
                    || endpoints.iter().flatten().any(|known| known.unreported.get().is_some())
            }
        }
    }

    /// The first error before this flush that nobody was told of. It is told once.
    fn take_unreported(&self, flush: &Slot) -> Option<Status> {
        let take = |cell: &Cell<Option<(u64, Status)>>| {
            let told = cell.get().filter(|(sequence, _)| *sequence < flush.sequence.get())?;
            cell.set(None);
            Some(told)
        };
        // SAFETY: as above.
        if let Some(endpoint) = unsafe { flush.endpoint.get().as_ref() } {
            return take(&endpoint.unreported).map(|(_, status)| status);
        }
        let endpoints = self.endpoints.borrow();
        let told =
            endpoints.iter().flatten().filter_map(|endpoint| take(&endpoint.unreported)).chain(take(&self.unreported));
        told.min_by_key(|(sequence, _)| *sequence).map(|(_, status)| status)
    }
}

/// How an internal operation left its call. UCP may have called back before it returned.
pub(crate) fn posted(slot: &Slot, pointer: sys::ucs_status_ptr_t) -> Posted {
    match Posted::from_pointer(pointer) {
        Posted::Pending if slot.has_mark(mark::INLINE) => match slot.reason.get() {
            0 => Posted::Done,
            status => Posted::Failed(status as sys::ucs_status_t),
        },
        other => other,
    }
}

impl Worker {
    /// How a part of an operation that nobody sees, which `prepare` readied, left its call: what it ended with, its slot free again. None while it is under way, and the caller's to
    /// begin.
    pub(super) fn part_posted(&self, slot: &Slot, pointer: sys::ucs_status_ptr_t) -> Option<Status> {
        let status = match posted(slot, pointer) {
            Posted::Pending => return None,
            Posted::Done => Status::OK,
            Posted::Failed(status) => Status(status.into()),
        };
        slot.reason.set(0);
        slot.kind.set(Kind::Free);
        self.slab.push(slot);
        Some(status)
    }
}

/// UCP is done with an operation; perhaps before the call that started it has returned, which is left to that call.
pub(crate) fn ended(slot: &Slot, status: Status) {
    if slot.worker().is_over.get() {
        // A late worker of UCP's (see `late_workers`): everybody has been told.
    } else if slot.hold.get() & UCP != 0 {
        slot.worker().abandoned_is_back(slot);
    } else if slot.has_mark(mark::SUBMITTING) {
        slot.add_mark(mark::INLINE);
        slot.reason.set(status.0);
    } else {
        slot.worker().complete(slot, status);
    }
}

/// UCP is done with a send, a flush or a close.
pub(crate) unsafe extern "C" fn on_sent(request: *mut c_void, status: sys::ucs_status_t, _user_data: *mut c_void) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the request memory that UCP was given is a slot, and stays one until it completes, here. UCP calls back
        // inside progress or another call of ours, hence inside the gate.
        ended(unsafe { &*request.cast::<Slot>() }, Status(status.into()));
    });
}
