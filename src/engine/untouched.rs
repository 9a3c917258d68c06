//! UCP's ends of endpoints that were closed before anything had been said on them: kept for the next endpoint to the same peer.
//!
//! UCP counts the ends that two workers make for each other, and joins the n-th of one side to the n-th of the other. One that goes before
//! the other side has heard of it shifts all that follow: what came on these was from an end that their receiver had none for, and messages
//! that were sent before its first answer were lost. So such an end is not closed: it stays where it is in the count.

use super::address::Origin;
use super::endpoint::Endpoint;
use super::failure::Reports;
use super::identity;
use super::request::Part;
use crate::sys;
use std::cell::RefCell;
use std::rc::Rc;

/// Where there are more, the oldest is closed after all.
const MOST: usize = 256;

/// UCP's end of a connection, and who is told when it fails.
pub(super) struct End {
    pub(super) ucp: sys::ucp_ep_h,
    pub(super) reports: Rc<Reports>,
}

struct Untouched {
    peer: Origin,
    peer_failure: bool,
    end: End,
}

/// Those of a worker. Belongs to whoever is inside its gate.
#[derive(Default)]
pub(crate) struct UntouchedEnds(RefCell<Vec<Untouched>>);

impl UntouchedEnds {
    /// The oldest to this peer.
    pub(super) fn take(&self, peer: &Origin, peer_failure: bool) -> Option<End> {
        let mut ends = self.0.borrow_mut();
        let fits =
            |one: &Untouched| one.peer == *peer && one.peer_failure == peer_failure && !one.end.reports.has_failed();
        let place = ends.iter().position(fits)?;
        Some(ends.remove(place).end)
    }

    /// Adds one; those that nobody will ask for any more, to be closed.
    fn keep(&self, kept: Untouched, lives: impl Fn(&Origin) -> bool) -> Vec<Untouched> {
        let mut ends = self.0.borrow_mut();
        let of_use = |one: &Untouched| !one.end.reports.has_failed() && lives(&one.peer);
        let (mut left, mut past): (Vec<_>, Vec<_>) = ends.drain(..).partition(of_use);
        left.push(kept);
        if left.len() > MOST {
            past.push(left.remove(0));
        }
        *ends = left;
        past
    }

    /// UCP's worker has gone, and they with it.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

impl Endpoint {
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

    /// UCP's end stays, and whatever it reports is not for this endpoint any more.
    fn give_reports(&self) -> Option<Rc<Reports>> {
        let reports = self.reports.take()?;
        reports.to_nobody();
        Some(reports)
    }

    /// Keeps UCP's end, if nothing has gone through it. False: it is the caller's to close.
    pub(super) fn keep_untouched(&self, ucp: sys::ucp_ep_h) -> bool {
        let (true, Some(peer)) = (self.is_untouched(), self.origin()) else { return false };
        let Some(reports) = self.give_reports() else { return false };
        let kept = Untouched { peer: *peer, peer_failure: self.peer_failure, end: End { ucp, reports } };
        let here = &self.worker.identity;
        let lives = |peer: &Origin| !peer.identity.shares_host_with(here) || identity::lives(&peer.identity);
        for past in self.worker.untouched.keep(kept, lives) {
            let flags = if past.peer_failure { sys::UCP_EP_CLOSE_FLAG_FORCE } else { 0 };
            self.close_end(Part::Nothing, past.end.ucp, flags);
        }
        true
    }
}
