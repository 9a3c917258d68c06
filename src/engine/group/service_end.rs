//! The end of a group's service: it takes leave of the members, then closes its connections.

use crate::engine::base::clock;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::group::service::{Service, ASSIST_NS};
use crate::engine::group::service_connection::Link;
use crate::engine::wire::group::{GroupHeader, What};

/// How long the members are waited for at the end.
const PARTING_NS: u64 = 2_000_000_000;

/// How long this end goes on answering those that are about to connect, where a group has failed,
/// and its members go when they like: UCX 1.13 over TCP asserts in the midst of that
/// (`ucp_request_send_state_ff`).
const DISORDER_NS: u64 = 100_000_000;

impl Service {
    /// Waits until the members have all that was sent to them, where they are still there. A
    /// connection that is closed may take along what stands in it: TCP drops what was not read when
    /// it is reset.
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
            // Who cannot be asked is gone.
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
        self.take_leave();
        let endpoints = std::mem::take(&mut *self.endpoints.lock());
        endpoints.into_iter().flatten().for_each(Endpoint::destroy);
        let (links, arrived, in_disorder): (Vec<_>, _, _) = {
            let mut state = self.state.lock();
            let links = state.links.iter_mut().filter_map(|link| link.endpoint.take());
            (links.collect(), state.mail.take_all(), state.in_disorder)
        };
        drop(arrived);
        // All at once, as each may wait for its member. What was sent is let arrive.
        for link in &links {
            let _ = link.close(false, &OpParams::DEFAULT, Out::NOWHERE);
        }
        let closed = || links.iter().all(|link| link.phase() >= Phase::Closed);
        let _ = self.worker.drive(&closed, clock::deadline_after(PARTING_NS));
        if in_disorder {
            let _ = self.worker.drive(&|| false, clock::deadline_after(DISORDER_NS));
        }
        // From then on there are no callbacks. Also where this is a callback: it is of another
        // worker.
        self.worker.shut_down();
    }
}
