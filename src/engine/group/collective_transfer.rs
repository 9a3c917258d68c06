//! Data of a collective on its way between two members. It has ended when the call returns, whose
//! buffer it uses; also where the collective has failed.
//!
//! Everything under way between members that live then ends soon, by the work of their services,
//! whatever the members do themselves: each drops what has come of a group that has failed, and
//! what still comes (see `group::mailbox`), which ends the send of it; a pull that has begun goes
//! on, as its sender waits for that. So it is let end. The connection is other groups' as well: it
//! is cut where the other side is said to be dead, or has not let go in time.

use crate::engine::base::clock;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::request::request::{self, Slot};
use crate::engine::group::collective::Collective;
use crate::engine::group::service::Held;

/// How long after the failure of a collective what is under way is let end.
const LINGER_NS: u64 = 1_000_000_000;

/// See the module.
pub(crate) struct Transfer<'a> {
    collective: &'a Collective<'a>,
    /// Rank in the group.
    peer: u32,
    /// A request of the service's worker that is ours; null where it ended at once.
    slot: *mut Slot,
    /// The message that is pulled; none where it is a send.
    pulled: Option<Held>,
}

impl<'a> Transfer<'a> {
    /// # Safety
    /// A request of the service's worker that is the caller's, or null.
    pub(crate) unsafe fn new(
        collective: &'a Collective<'a>,
        peer: u32,
        slot: *mut Slot,
        pulled: Option<Held>,
    ) -> Self {
        Transfer { collective, peer, slot, pulled }
    }

    fn request(&self) -> Option<&Slot> {
        // SAFETY: ours until this is dropped.
        unsafe { self.slot.as_ref() }
    }

    fn is_under_way(&self) -> bool {
        self.request().is_some_and(|request| !request.has_ended())
    }

    /// Waits until it has ended, or the collective has.
    pub(crate) fn wait(&self) -> Result<()> {
        let Some(request) = self.request() else { return Ok(()) };
        let (collective, service) = (self.collective, &self.collective.group.service);
        while !request.has_ended() {
            let news = service.news();
            collective.check_failure()?;
            if clock::now_ns() >= collective.deadline {
                return Err(collective.blame(self.peer, Status::TIMED_OUT));
            }
            collective
                .drive(&|| request.has_ended() || service.news() != news, collective.deadline)?;
        }
        // That it has ended is news a moment before it counts as done. The service's own thread
        // completes it.
        let _ = request.wait(u64::MAX);
        let status = request.status();
        if status.is_error() {
            return Err(collective.blame(self.peer, status));
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<()> {
        self.wait()
    }

    fn cut(&self) {
        let Some(held) = &self.pulled else {
            return self.collective.group.service.cut(self.collective.job_rank(self.peer));
        };
        if let Some(link) = held.link() {
            // One that has ended already needs none.
            let _ = link.close(true, &OpParams::DEFAULT, Out::NOWHERE);
        }
    }

    /// The collective has failed: these end, all at once, as each may take its time.
    pub(crate) fn settle(transfers: &[Transfer<'_>]) {
        let under_way = || transfers.iter().filter(|transfer| transfer.is_under_way());
        let Some(collective) = under_way().next().map(|transfer| transfer.collective) else {
            return;
        };
        for transfer in under_way() {
            // What waits for credit has not left yet, and need not.
            let _ = transfer.request().map(Slot::cancel);
            if collective.is_said_dead(transfer.peer) {
                transfer.cut();
            }
        }
        let deadline = collective.lingers_until(LINGER_NS);
        collective.drive_on(&|| under_way().next().is_none(), deadline);
        for transfer in under_way() {
            // Where the user's worker cannot be waited with.
            let left = deadline.saturating_sub(clock::now_ns());
            let _ = transfer.request().map(|request| request.wait(left));
        }
        under_way().for_each(Transfer::cut);
    }
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        Transfer::settle(std::slice::from_ref(self));
        if let Some(request) = self.request() {
            let _ = request.wait(u64::MAX);
            // SAFETY: ours, and not used afterwards.
            unsafe { request::destroy(self.slot) };
        }
    }
}
