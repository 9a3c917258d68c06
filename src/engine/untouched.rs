//! UCP's ends of connections on which nothing has been said, and that no endpoint has.
//!
//! UCP counts the ends that two workers make for each other, and joins the n-th of one side to the n-th of the other. That is kept up with, as far as it can be:
//! - An endpoint that is closed before anything was said on it has its place in the count, of which the peer does not know. It is not closed in UCP, but kept for the
//!   next one to the same peer.
//! - A peer that has given up before it was heard of has left a place in the count here. When the next one's Hello comes, UCP gives out the end of the one
//!   before; such ends are put aside until there is the one on which the Hello came. One that was put aside may still be asked for: endpoints need not
//!   say Hello in the order in which they were made.
//!
//! Where that leads to nothing, as this side has used up the place, the endpoint gets the end that UCP gave out last, and is known by the other one as well
//! (`Peering::heard_on`), as messages before the first answer have no other sender. Only streams are lost on it.
//!
//! Neither kind is closed before its worker: UCX 1.13 asserts at the end of the worker for ends without error handling that are being closed. So both are bounded.

use super::address::{Address, Origin};
use super::endpoint::{Endpoint, EndpointParams};
use super::failure::Reports;
use super::flush::posted;
use super::inflight::Out;
use super::log;
use super::operation::OpParams;
use super::param::Param;
use super::room;
use super::status::{Error, Result};
use super::worker::Worker;
use crate::sys::{self, Posted};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Of each kind, for each worker.
const MOST: usize = 64;
/// So many may be put aside for one Hello.
const TRIES: usize = 16;

/// UCP's end of a connection, and who is told when it fails.
pub(super) struct End {
    ucp: sys::ucp_ep_h,
    reports: Rc<Reports>,
}

struct Untouched {
    peer: Origin,
    peer_failure: bool,
    /// For the Hello that comes on it, and for nobody else.
    aside: bool,
    end: End,
}

/// Those of a worker. Belongs to whoever is inside its gate.
#[derive(Default)]
pub(crate) struct UntouchedEnds(RefCell<Vec<Untouched>>);

impl UntouchedEnds {
    fn take_first(&self, fits: impl Fn(&Untouched) -> bool) -> Option<End> {
        let mut ends = self.0.borrow_mut();
        let place = ends.iter().position(|one| !one.end.reports.has_failed() && fits(one))?;
        Some(ends.remove(place).end)
    }

    /// The oldest to this peer that was made here.
    pub(super) fn take(&self, peer: &Origin, peer_failure: bool) -> Option<End> {
        self.take_first(|one| !one.aside && one.peer == *peer && one.peer_failure == peer_failure)
    }

    /// The one that UCP calls so.
    pub(super) fn take_this(&self, ucp: sys::ucp_ep_h) -> Option<End> {
        self.take_first(|one| one.end.ucp == ucp)
    }

    /// Whether it reports failures, if it is here.
    fn peer_failure_of(&self, ucp: sys::ucp_ep_h) -> Option<bool> {
        self.0.borrow().iter().find(|one| one.end.ucp == ucp).map(|one| one.peer_failure)
    }

    pub(super) fn are_some(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// UCP's worker has gone, and they with it.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

impl Worker {
    /// Those that have failed are closed first. It comes back where there are too many.
    fn keep_untouched(&self, kept: Untouched) -> std::result::Result<(), Untouched> {
        let failed: Vec<_> = {
            let mut ends = self.untouched.0.borrow_mut();
            let (failed, left) = ends.drain(..).partition(|one| one.end.reports.has_failed());
            *ends = left;
            failed
        };
        failed.into_iter().for_each(|one| self.close_failed(one));
        let mut ends = self.untouched.0.borrow_mut();
        if ends.iter().filter(|one| one.aside == kept.aside).count() >= MOST {
            return Err(kept);
        }
        ends.push(kept);
        Ok(())
    }

    fn close_failed(&self, one: Untouched) {
        let slot = self.take_internal_slot();
        let mut param = Param::new(slot);
        param.flags(sys::UCP_EP_CLOSE_FLAG_FORCE);
        self.resting.begin();
        // SAFETY: an end that nobody has any more, inside its worker's gate; the slot stays until UCP calls back.
        let closed = unsafe { sys::ucp_ep_close_nbx(one.end.ucp, param.as_ptr()) };
        match posted(slot, closed) {
            Posted::Pending => self.start(slot, None, &OpParams::default(), Out::NOWHERE),
            Posted::Done | Posted::Failed(_) => self.return_slot(slot),
        }
    }
}

impl Endpoint {
    /// To a peer that has made an endpoint to here, with one of these ends of UCP's, on the first of which it has said Hello.
    pub(super) fn create_back(
        worker: &Arc<Worker>,
        address: &Address,
        peer_failure: bool,
        ends: &[sys::ucp_ep_h],
    ) -> Result<Arc<Self>> {
        let kept = ends.first().and_then(|end| worker.untouched.peer_failure_of(*end));
        Self::create_for(worker, address, &EndpointParams::quiet(kept.unwrap_or(peer_failure)), ends)
    }

    /// Has UCP make an end to the peer: where there are some to choose from, one of these if possible.
    pub(super) fn create_from_address(&self, address: &Address, back: &[sys::ucp_ep_h]) -> Result<()> {
        let text = || format!("address: no endpoint to {}: is it still running?", self.peer_text());
        for tries in 0.. {
            let mut params = self.ucp_params();
            params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
            params.address = address.bytes().as_ptr().cast();
            self.create_in_ucp(&params).map_err(|(status, logged)| {
                self.unwatch_process();
                Error::new(status, room::with_shared_memory(log::with_reason(text(), &logged)))
            })?;
            if back.is_empty() || back.contains(&self.ucp.get()) || tries == TRIES || !self.give_up_end(true) {
                break;
            }
        }
        Ok(())
    }

    /// Neither side has said anything on it, and no flush of UCP's is under way.
    pub(super) fn is_untouched(&self) -> bool {
        self.peering.silent.get()
            && !self.peering.greeted_by_peer.get()
            && !self.closing.outcome.get().is_error()
            && !self.closing.process_ended.get()
            && self.flushes.borrow().is_empty()
    }

    /// UCP's end comes from an endpoint that has not used it.
    pub(super) fn take_over(&self, end: End) {
        self.ucp.set(end.ucp);
        end.reports.to(self);
        self.reports.replace(end.reports);
    }

    /// Gives UCP's end up, if nothing has gone through it. False: it is to be closed.
    pub(super) fn leave_untouched(&self) -> bool {
        self.is_untouched() && self.give_up_end(false)
    }

    /// Keeps UCP's end for others; `aside`: it is not the one that was wanted. False where nobody could ask for it.
    fn give_up_end(&self, aside: bool) -> bool {
        let Some(peer) = self.origin() else { return false };
        let reports = self.reports.take();
        reports.to_nobody();
        let end = End { ucp: self.ucp.get(), reports };
        let kept = Untouched { peer: *peer, peer_failure: self.peer_failure, aside, end };
        match self.worker.keep_untouched(kept) {
            Ok(()) => {
                self.ucp.set(std::ptr::null_mut());
                true
            }
            Err(Untouched { end, .. }) => {
                self.take_over(end);
                false
            }
        }
    }
}
