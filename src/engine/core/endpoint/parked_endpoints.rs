//! Parked endpoints: UCP endpoints ("ends") without traffic that belong to no `Endpoint`.
//!
//! UCP counts the ends that two workers make to each other, and joins the n-th end of one side to
//! the n-th end of the other. Closing an unused end would shift all later pairs. This library keeps
//! the same count (`Worker::places`, `Peering::place`), and a Hello contains the place of its end.
//!
//! 1. An endpoint that is closed before any traffic has a place that the peer does not know of. Its
//!    end stays open in UCP, parked for the next endpoint to the same peer, or for the Hello that
//!    arrives for its place.
//! 2. An endpoint that is closed before its peer has sent anything, and before its Bye was sent,
//!    may have a place of which the peer never learns and which it considers free. The Hello that
//!    arrives for that place gets the next end here. It is also known by the end that UCP has
//!    joined it to (`Peering::heard_on`), because messages before the first answer have no other
//!    sender. Only streams are lost on it.
//! 3. A peer that gave up an end before this side knew of it has left a gap in the count here. When
//!    its next Hello arrives, the ends for the earlier places are made and parked. One of them may
//!    still be claimed, because endpoints need not send Hello in the order in which they were made.
//!
//! Parked ends are not closed before their worker: UCX 1.13 asserts at the end of the worker if an
//! end without error handling is being closed. So the number of each kind is bounded.

use crate::engine::base::log;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams, SharedEndpoint};
use crate::engine::core::endpoint::failure::Reports;
use crate::engine::core::endpoint::life::{Heard, Outcome, Peer};
use crate::engine::core::request::request::Part;
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::inward::Inward;
use crate::engine::core::worker::worker::Worker;
use crate::engine::os::resource_limits;
use crate::engine::wire::address::{Address, Origin};
use crate::engine::wire::header::Hello;
use crate::sys;
use std::cell::RefCell;
use std::rc::Rc;

/// Limit for each kind, for each worker.
const MOST: usize = 64;
/// Most ends that are parked for one Hello.
const TRIES: u32 = 16;

/// The count of UCP's ends to one peer.
#[derive(Default)]
pub(crate) struct Places {
    /// Ends made so far.
    made: u32,
    /// The latest places whose ends have ended, or serve another place, without the peer
    /// necessarily knowing.
    untold: Vec<u32>,
}

impl Places {
    fn add_untold(&mut self, place: u32) {
        if self.untold.len() >= MOST {
            self.untold.remove(0);
        }
        self.untold.push(place);
    }

    fn take_untold(&mut self, place: u32) -> bool {
        let found = self.untold.iter().position(|untold| *untold == place);
        found.map(|at| self.untold.remove(at)).is_some()
    }
}

/// UCP's end of a connection, and where it reports its failure.
pub(crate) struct End {
    ucp: sys::ucp_ep_h,
    place: u32,
    reports: Rc<Reports>,
}

struct Untouched {
    peer: Origin,
    peer_failure: bool,
    /// Reserved for the Hello that arrives on it.
    aside: bool,
    end: End,
}

/// The parked ends of a worker.
#[derive(Default)]
pub(crate) struct ParkedEndpoints(RefCell<Vec<Untouched>>);

impl ParkedEndpoints {
    fn take_first(&self, fits: impl Fn(&Untouched) -> bool) -> Option<End> {
        let mut ends = self.0.borrow_mut();
        let place = ends.iter().position(|one| !one.end.reports.has_failed() && fits(one))?;
        Some(ends.remove(place).end)
    }

    /// The oldest one to this peer that was made here.
    pub(crate) fn take(&self, peer: &Origin, peer_failure: bool) -> Option<End> {
        self.take_first(|one| !one.aside && one.peer == *peer && one.peer_failure == peer_failure)
    }

    /// The one with this place.
    pub(crate) fn take_this(&self, peer: &Origin, place: u32) -> Option<End> {
        self.take_first(|one| one.end.place == place && one.peer == *peer)
    }

    /// Whether it reports failures, if it is parked here.
    fn peer_failure_of(&self, peer: &Origin, place: u32) -> Option<bool> {
        let ends = self.0.borrow();
        ends.iter()
            .find(|one| one.end.place == place && one.peer == *peer)
            .map(|one| one.peer_failure)
    }

    pub(crate) fn are_some(&self) -> bool {
        !self.0.borrow().is_empty()
    }

    /// UCP's worker was destroyed, and the ends with it.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

impl Worker {
    /// Parks an end. Closes parked ends that have failed first. Returns `kept` if there are too
    /// many.
    fn keep_untouched(&self, kept: Untouched) -> std::result::Result<(), Untouched> {
        let failed: Vec<_> = {
            let mut ends = self.parked.0.borrow_mut();
            let (failed, left) = ends.drain(..).partition(|one| one.end.reports.has_failed());
            *ends = left;
            failed
        };
        failed.into_iter().for_each(|one| self.close_failed(one));
        let mut ends = self.parked.0.borrow_mut();
        if ends.iter().filter(|one| one.aside == kept.aside).count() >= MOST {
            return Err(kept);
        }
        ends.push(kept);
        Ok(())
    }

    fn close_failed(&self, one: Untouched) {
        self.resting.begin();
        self.start_part(None, Part::Nothing, |slot| {
            let mut param = Param::new(slot);
            param.flags(sys::UCP_EP_CLOSE_FLAG_FORCE);
            // SAFETY: an end that nothing uses any more, inside its worker's gate; `start_part`
            // keeps the slot until UCP calls back.
            unsafe { sys::ucp_ep_close_nbx(one.end.ucp, param.as_ptr()) }
        });
    }
}

impl Endpoint {
    /// Makes an endpoint to a peer whose Hello arrived on an end that this side has not made. None
    /// if this side had made it and it has ended.
    pub(crate) fn create_back(
        worker: &Worker,
        peer: &Origin,
        hello: &Hello,
    ) -> Result<Option<Inward<SharedEndpoint>>> {
        let kept = worker.parked.peer_failure_of(peer, hello.place);
        let (made, untold) = {
            // Bounded: a sender of made-up identities must not fill this table.
            let mut places = worker.places.borrow_mut();
            places
                .get_mut(peer)
                .map_or((0, false), |places| (places.made, places.take_untold(hello.place)))
        };
        if kept.is_none() && hello.place <= made && !untold {
            return Ok(None);
        }
        if hello.place.saturating_sub(made) > TRIES {
            let text =
                format!("it made endpoint number {}, and this worker only {made}", hello.place);
            return Err(Error::new(Status::EXCEEDS_LIMIT, text));
        }
        let params = EndpointParams::quiet(kept.unwrap_or(hello.peer_failure));
        let end = Self::create_for(worker, &hello.address, &params, Some(hello.place))?;
        let joined = end.peering.place.replace(hello.place);
        if joined != hello.place {
            worker.places.borrow_mut().entry(*peer).or_default().add_untold(joined);
        }
        Ok(Some(end))
    }

    /// The end has ended in UCP.
    pub(crate) fn leave_place(&self) {
        let (place, Some(peer)) = (self.peering.place.get(), self.origin()) else { return };
        let heard = self.peering.theirs.get() != 0 || self.life().heard != Heard::Nothing;
        if place != 0 && !heard && !self.has_told_end() {
            self.worker.places.borrow_mut().entry(*peer).or_default().add_untold(place);
        }
    }

    /// Makes UCP's end to the peer: the next one, or as many as are needed to reach `place`.
    pub(crate) fn create_from_address(&self, address: &Address, place: Option<u32>) -> Result<()> {
        let text = || format!("address: no endpoint to {}: is it still running?", self.peer_text());
        loop {
            let mut params = self.ucp_params();
            params.field_mask |= u64::from(sys::UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
            params.address = address.bytes().as_ptr().cast();
            if let Some(peer) = self.origin() {
                // Counted even on failure: UCP counts an end before it can fail.
                let mut places = self.worker.places.borrow_mut();
                let Places { made, .. } = places.entry(*peer).or_default();
                *made = made.saturating_add(1);
                self.peering.place.set(*made);
            }
            self.create_in_ucp(&params).map_err(|(status, logged)| {
                self.unwatch_process();
                Error::new(
                    status,
                    resource_limits::with_shared_memory(log::with_reason(text(), &logged)),
                )
            })?;
            if place.is_none_or(|place| place <= self.peering.place.get())
                || !self.give_up_end(true)
            {
                return Ok(());
            }
        }
    }

    /// Neither side has sent anything on it, and no flush of UCP is in flight.
    pub(crate) fn is_untouched(&self) -> bool {
        self.life().is_unspoken()
            && self.life().heard == Heard::Nothing
            && self.life().outcome == Outcome::Good
            && self.life().peer != Peer::Gone
            && self.flushes.borrow().is_empty()
    }

    /// Takes over UCP's end from an endpoint that has not used it.
    pub(crate) fn take_over(&self, end: End) {
        self.ucp.set(end.ucp);
        self.peering.place.set(end.place);
        end.reports.to(self);
        self.reports.replace(end.reports);
    }

    /// Parks UCP's end if nothing was sent through it. Returns false if it must be closed.
    pub(crate) fn leave_untouched(&self) -> bool {
        self.is_untouched() && self.give_up_end(false)
    }

    /// Parks UCP's end. `aside`: it is not the one that was wanted. Returns false if it could never
    /// be claimed.
    fn give_up_end(&self, aside: bool) -> bool {
        let Some(peer) = self.origin() else { return false };
        let reports = self.reports.take();
        reports.to_nobody();
        let end = End { ucp: self.ucp.get(), place: self.peering.place.get(), reports };
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
