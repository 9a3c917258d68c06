//! End of a group's service: waits for the members' confirmations, then closes its connections.

use crate::engine::base::clock;
use crate::engine::core::endpoint::endpoint::{Phase, SharedEndpoint};
use crate::engine::core::monitor::registry;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::group::service::{Service, ASSIST_NS};
use crate::engine::group::service_connection::Link;
use crate::engine::wire::group::{GroupHeader, What};

/// How long this waits for the members.
const PARTING_NS: u64 = 2_000_000_000;

/// How long a service keeps answering after a group has failed, when members may still be
/// connecting to it: UCX 1.13 over TCP fails an assertion if the peer closes meanwhile
/// (`ucp_request_send_state_ff`).
const DISORDER_NS: u64 = 100_000_000;

impl Service {
    /// Waits until all living members have received everything. Closing alone is not enough: TCP
    /// drops unread data when a connection is reset.
    fn take_leave(&self) {
        let linked: Vec<u32> = {
            let state = self.state.lock();
            let open = |link: &Link| link.endpoint.is_some() && link.gone.is_none();
            (0_u32..)
                .zip(&state.links)
                .filter(|(_, link)| open(link))
                .map(|(rank, _)| rank)
                .collect()
        };
        let header = GroupHeader::aside(What::Leave, self.rank);
        for rank in &linked {
            // If the send fails, the member counts as gone.
            let _ = self.send(*rank, &header, &[], Out::NOWHERE);
        }
        let answered = || {
            let state = self.state.lock();
            linked
                .iter()
                .map(|rank| &state.links[*rank as usize])
                .all(|link| link.has_all || link.gone.is_some())
        };
        if !self.worker.assist(&answered, ASSIST_NS, &|| ()) {
            let _ = self.worker.drive(&answered, clock::deadline_after(PARTING_NS));
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.worker.check_fork().is_err() {
            return;
        }
        if let Some(waits) = self.waits.get() {
            registry::forget(&**waits);
        }
        self.take_leave();
        let endpoints = std::mem::take(&mut *self.endpoints.lock());
        endpoints.into_iter().flatten().for_each(SharedEndpoint::destroy);
        let (links, arrived, in_disorder): (Vec<_>, _, _) = {
            let mut state = self.state.lock();
            let links = state.links.iter_mut().filter_map(|link| link.endpoint.take());
            (links.collect(), state.mail.take_all(), state.in_disorder)
        };
        drop(arrived);
        // All at once, as each may wait for its member. Messages that were sent still arrive.
        for link in &links {
            let _ = link.close(false, &OpParams::DEFAULT, Out::NOWHERE);
        }
        let closed = || links.iter().all(|link| link.phase() >= Phase::Closed);
        let _ = self.worker.drive(&closed, clock::deadline_after(PARTING_NS));
        if in_disorder {
            let _ = self.worker.drive(&|| false, clock::deadline_after(DISORDER_NS));
        }
        // After this there are no callbacks. Works also inside a callback, which then is one of
        // another worker.
        self.worker.shut_down();
    }
}
