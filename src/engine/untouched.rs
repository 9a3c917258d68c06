//! UCP's ends of connections on which nothing has been said, and that no endpoint has.
//!
//! UCP counts the ends that two workers make for each other, and joins the n-th of one side to the n-th of the other. That has to be kept up with: what comes on
//! a connection whose end here is another one than UCP knows has no sender, and messages before the first answer would be lost.
//! - An endpoint that is closed before anything was said on it has its place in the count, of which the peer does not know. It is not closed in UCP, but kept for the
//!   next one to the same peer.
//! - A peer that has given up before it was heard of has left a place in the count here. When the next one's Hello comes, UCP gives out the end of the one
//!   before, or an end of its own; these are put aside until there is the one on which the Hello came. One that was put aside may still be asked for: endpoints need not
//!   say Hello in the order in which they were made.

use super::address::{Address, Origin};
use super::endpoint::{Endpoint, EndpointParams};
use super::failure::Reports;
use super::flush::posted;
use super::identity;
use super::inflight::Out;
use super::log;
use super::operation::OpParams;
use super::param::Param;
use super::room;
use super::status::{Error, Result, Status};
use super::worker::Worker;
use crate::sys::{self, Posted};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Where there are more, the oldest is closed after all. So many peers in a row may give up without being heard of.
pub(super) const MOST: usize = 256;

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

    /// UCP's worker has gone, and they with it.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

impl Worker {
    fn keep_untouched(&self, kept: Untouched) {
        let past = {
            let mut ends = self.untouched.0.borrow_mut();
            ends.push(kept);
            let is_full = ends.len() > MOST;
            let lives =
                |peer: &Origin| !peer.identity.shares_host_with(&self.identity) || identity::lives(&peer.identity);
            let of_use = |one: &Untouched| !one.end.reports.has_failed() && (!is_full || lives(&one.peer));
            let (mut left, mut past): (Vec<_>, Vec<_>) = ends.drain(..).partition(of_use);
            if left.len() > MOST {
                past.push(left.remove(0));
            }
            *ends = left;
            past
        };
        past.iter().for_each(|one| self.close_untouched(one));
    }

    fn close_untouched(&self, one: &Untouched) {
        let slot = self.take_internal_slot();
        let mut param = Param::new(slot);
        if one.peer_failure {
            param.flags(sys::UCP_EP_CLOSE_FLAG_FORCE);
        }
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

    /// Has UCP make an end to the peer: where there are some to choose from, until it is one of these.
    pub(super) fn create_from_address(&self, address: &Address, back: &[sys::ucp_ep_h]) -> Result<()> {
        let text = || format!("address: no endpoint to {}: is it still running?", self.peer_text());
        for _ in 0..=MOST {
            let mut params = self.ucp_params();
            params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
            params.address = address.bytes().as_ptr().cast();
            self.create_in_ucp(&params).map_err(|(status, logged)| {
                self.unwatch_process();
                Error::new(status, room::with_shared_memory(log::with_reason(text(), &logged)))
            })?;
            if back.is_empty() || back.contains(&self.ucp.get()) || !self.give_up_end(true) {
                return Ok(());
            }
        }
        self.unwatch_process();
        Err(Error::new(Status::UNREACHABLE, text()))
    }

    /// Neither side has said anything on it, and no flush of UCP's is under way.
    pub(super) fn is_untouched(&self) -> bool {
        self.peering.silent.get()
            && !self.closing.outcome.get().is_error()
            && !self.closing.process_ended.get()
            && self.flushes.borrow().is_empty()
    }

    /// UCP's end comes from an endpoint that has not used it.
    pub(super) fn take_over(&self, end: End) {
        self.ucp.set(end.ucp);
        end.reports.to(self);
        self.reports.set(Some(end.reports));
    }

    /// Gives UCP's end up, if nothing has gone through it. False: it is to be closed.
    pub(super) fn leave_untouched(&self) -> bool {
        self.is_untouched() && self.give_up_end(false)
    }

    /// Keeps UCP's end for others; `aside`: it is not the one that was wanted. False where nobody could ask for it.
    fn give_up_end(&self, aside: bool) -> bool {
        let (Some(peer), Some(reports)) = (self.origin(), self.reports.take()) else { return false };
        reports.to_nobody();
        self.reports.set(Some(Rc::default()));
        let end = End { ucp: self.ucp.replace(std::ptr::null_mut()), reports };
        self.worker.keep_untouched(Untouched { peer: *peer, peer_failure: self.peer_failure, aside, end });
        true
    }
}
