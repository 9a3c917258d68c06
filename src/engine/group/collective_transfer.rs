//! A transfer of a collective's data between two members. It always ends before the call returns,
//! as it uses the caller's buffer, also after a failure.
//!
//! After a failure, the services of living members end all transfers soon, whatever the members'
//! own threads do. Each service drops the messages of the failed group that it has and that still
//! arrive (see `group::mailbox`), which ends their sends. A pull that has begun continues, because
//! the sender waits for it. So a transfer is given time. Other groups use the same connection, so
//! it is aborted only if the peer is known to be dead, or has not ended the transfer in time.

use crate::engine::base::clock;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::request::request::{self, Slot};
use crate::engine::group::collective::Collective;
use crate::engine::group::service::Held;

/// How long transfers may take to end after their collective has failed.
const LINGER_NS: u64 = 1_000_000_000;

/// See the head of this file.
pub(crate) struct Transfer<'a> {
    collective: &'a Collective<'a>,
    /// Rank in the group.
    peer: u32,
    /// The transfer's request, on the service's worker; null if the operation completed at once.
    slot: *mut Slot,
    /// The message that is pulled; `None` for a send.
    pulled: Option<Held>,
}

impl<'a> Transfer<'a> {
    /// # Safety
    /// `slot` is null or a request of the service's worker that belongs to the caller.
    pub(crate) unsafe fn new(
        collective: &'a Collective<'a>,
        peer: u32,
        slot: *mut Slot,
        pulled: Option<Held>,
    ) -> Self {
        Transfer { collective, peer, slot, pulled }
    }

    fn request(&self) -> Option<&Slot> {
        // SAFETY: null, or our request, which only drop destroys.
        unsafe { self.slot.as_ref() }
    }

    fn is_under_way(&self) -> bool {
        self.request().is_some_and(|request| !request.has_ended())
    }

    /// Waits until the transfer ends or the collective fails.
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
        // `has_ended` becomes true a moment before the request is complete. The service's thread
        // completes it, so this waits briefly.
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
            // A connection that has ended already returns an error, which does not matter.
            let _ = link.close(true, &OpParams::DEFAULT, Out::NOWHERE);
        }
    }

    /// Ends transfers after the collective has failed: all at once, as each may take its time.
    pub(crate) fn settle(transfers: &[Transfer<'_>]) {
        let under_way = || transfers.iter().filter(|transfer| transfer.is_under_way());
        let Some(collective) = under_way().next().map(|transfer| transfer.collective) else {
            return;
        };
        for transfer in under_way() {
            // A send that waits for credit has not left yet, so it can be cancelled.
            let _ = transfer.request().map(Slot::cancel);
            if collective.is_said_dead(transfer.peer) {
                transfer.cut();
            }
        }
        let deadline = collective.lingers_until(LINGER_NS);
        collective.drive_on(&|| under_way().next().is_none(), deadline);
        for transfer in under_way() {
            // For the case that `drive_on` could not wait with the user's worker.
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
            // SAFETY: our request, which has ended and is not used again.
            unsafe { request::destroy(self.slot) };
        }
    }
}
