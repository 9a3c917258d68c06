//! Where an operation goes when it is submitted: through the ring to the progress thread, into its
//! endpoint's queue, or to UCP at once. Its protocol describes it once for all three.

use crate::engine::base::log;
use crate::engine::base::status::Result;
use crate::engine::core::endpoint::admission::Need;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::inflight::{Out, Submission};
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::trace;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::sys;

/// A send, as far as it is known before it has a slot.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) kind: Kind,
    pub(crate) need: Need,
    pub(crate) tag: u64,
}

impl SharedEndpoint {
    /// Submits a send that needs this feature. `plan` checks its arguments, inside the gate or not,
    /// and returns a function that describes it for UCP in its slot. `post`: from the table of its
    /// kind.
    #[inline(always)]
    pub(crate) fn submit_send<Describe: FnOnce(&Slot) -> Queued>(
        &self,
        sending: Sending,
        feature: u64,
        params: &OpParams,
        out: Out,
        plan: impl FnOnce(Option<&Endpoint>) -> Result<Describe>,
        post: impl FnOnce(&Worker, &Slot, &Queued, Option<&Endpoint>) -> sys::ucs_status_ptr_t,
    ) -> Result<Submitted> {
        let worker = self.worker();
        if worker.must_submit_remotely(params) {
            self.check_open_outside()?;
            worker.need(feature)?;
            return self.send_later(sending, params, out, plan(None)?);
        }
        let inside = self.enter()?;
        self.check_open()?;
        worker.need(feature)?;
        inside.send_inside(sending, params, out, plan(Some(&inside))?, post)
    }

    /// Puts a checked send into the ring.
    #[inline(never)]
    pub(crate) fn send_later(
        &self,
        Sending { kind, need, .. }: Sending,
        params: &OpParams,
        out: Out,
        describe: impl FnOnce(&Slot) -> Queued,
    ) -> Result<Submitted> {
        let reservation = self.reserve(params, need)?;
        self.worker().delay(kind, need.length(), params, out, |slot| Queued {
            permit: reservation.keep(),
            ..describe(slot)
        })
    }
}

impl Endpoint {
    /// Submits a checked send inside the gate.
    #[inline(always)]
    pub(crate) fn send_inside(
        &self,
        sending: Sending,
        params: &OpParams,
        out: Out,
        describe: impl FnOnce(&Slot) -> Queued,
        post: impl FnOnce(&Worker, &Slot, &Queued, Option<&Endpoint>) -> sys::ucs_status_ptr_t,
    ) -> Result<Submitted> {
        let Sending { kind, need, tag } = sending;
        if self.must_wait() || !self.pays(need) {
            return self.send_in_turn(sending, params, out, describe);
        }
        let worker = &*self.worker;
        let slot = worker.take_slot();
        slot.prepare(kind);
        let queued = describe(slot);
        slot.length.set(need.length());
        slot.tag.set(tag);
        trace::submitted_and_posts(slot, Some(self));
        let posted = post(worker, slot, &queued, Some(self));
        trace::posted(slot, Some(self));
        let submission = Submission { endpoint: Some(self), params, length: need.length(), tag };
        worker.submitted(slot, posted, submission, out)
    }

    #[inline(always)]
    fn pays(&self, need: Need) -> bool {
        need.charge == 0 || self.pay(need.charge)
    }

    /// Queues a checked send that cannot go to UCP yet.
    #[cold]
    pub(crate) fn send_in_turn(
        &self,
        Sending { kind, need, .. }: Sending,
        params: &OpParams,
        out: Out,
        describe: impl FnOnce(&Slot) -> Queued,
    ) -> Result<Submitted> {
        if !need.unbounded || params.flags & flag::NO_WAIT != 0 {
            self.check_queue(params, need.length() as usize)?;
        } else if !(self.worker.operations.of(kind).may_wait)(self) {
            self.check_open()?;
        }
        log::write(
            log::TRACE,
            kind.component(),
            self,
            format_args!("{} of {} bytes waits", kind.describe(), need.length()),
        );
        Ok(self.queue_described(kind, need.length(), params, out, describe))
    }
}
