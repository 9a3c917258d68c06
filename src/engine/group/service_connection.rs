//! Connections of a group's service to the members: made on first use, watched, and never made
//! again after they have ended.

use crate::engine::base::clock;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams, SharedEndpoint};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::group::service::Service;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// Connection to a member.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) endpoint: Option<Arc<SharedEndpoint>>,
    /// When and why it was found to have ended.
    pub(crate) gone: Option<(u64, Status)>,
    /// The member has confirmed all messages sent to it.
    pub(crate) has_all: bool,
}

/// Argument of an endpoint's `on_close`: the service and the member's job rank.
pub(crate) struct Watch {
    pub(crate) service: *const Service,
    pub(crate) rank: u32,
}

impl Service {
    /// The connection to this member, made on first use. If none can be made, the member counts as
    /// gone.
    pub(crate) fn link(&self, rank: u32) -> Result<Arc<SharedEndpoint>> {
        let kept = || self.state.lock().links[rank as usize].endpoint.clone();
        if let Some(endpoint) = kept() {
            return Ok(endpoint);
        }
        let watch = self
            .watches
            .get()
            .map_or(std::ptr::null(), |watches| &raw const watches[rank as usize]);
        let params = EndpointParams {
            on_close: Some(on_close),
            on_close_arg: watch.cast_mut().cast(),
            ..EndpointParams::quiet(true)
        };
        let made = self.worker.on_owner(|inside| {
            // Checked inside the gate, so only one is made; as in `Service::endpoint`.
            if let Some(endpoint) = kept() {
                return Ok(endpoint);
            }
            let member = &self.members()[rank as usize].service;
            let made = Endpoint::new_inside(inside, member, &params)?;
            self.watch_for_silence(&made);
            let made = made.into_outward();
            self.state.lock().links[rank as usize].endpoint = Some(made.clone());
            Ok(made)
        });
        made.inspect_err(|error| {
            if is_of_peer(error.status()) {
                self.has_gone(rank, error.status());
            }
        })
    }

    /// Turns on liveness checks for a member of another host, as no kernel reports that the host,
    /// or the network to it, has failed. Not for a member of this host: the kernel reports its end,
    /// and the memory shared with it would not notice that the connection was given up. Inside the
    /// worker's gate.
    fn watch_for_silence(&self, link: &Endpoint) {
        let is_local =
            link.origin().is_some_and(|origin| origin.identity.same_host(&self.worker.identity));
        if !is_local {
            link.watch_for_silence_always(self.liveness_ns.load(Ordering::Relaxed));
            link.worker.wake_sleeper();
        }
    }

    /// Changes the limit for all members; 0 for none.
    pub(crate) fn set_liveness(&self, liveness_ns: u64) -> Result<()> {
        self.worker.on_owner(|inside| {
            self.liveness_ns.store(liveness_ns, Ordering::Relaxed);
            let links: Vec<_> =
                self.state.lock().links.iter().filter_map(|link| link.endpoint.clone()).collect();
            links.iter().for_each(|link| self.watch_for_silence(link.of(inside)));
            Ok(())
        })
    }

    /// Makes sure that the member's end will be noticed.
    pub(crate) fn watch(&self, rank: u32) {
        // A failure is recorded as the member's end.
        let _ = self.link(rank);
    }

    /// When and why the member ended; `None` while it lives.
    pub(crate) fn gone(&self, rank: u32) -> Option<(u64, Status)> {
        self.state.lock().links[rank as usize].gone
    }

    fn has_gone(&self, rank: u32, status: Status) {
        self.state.lock().links[rank as usize].gone.get_or_insert((clock::now_ns(), status));
        // In this order: an operation that is posted later checks `gone` itself.
        self.tell_extension_gone(rank);
        self.tell();
    }

    /// Aborts all connections to this member, so that the operations on them end. There is one,
    /// unless the member has connected as well.
    pub(crate) fn cut(&self, rank: u32) {
        let member = self.members()[rank as usize].service.origin();
        let all = self.worker.on_owner(|inside| {
            let endpoints = inside.endpoints.borrow();
            let theirs = endpoints
                .iter()
                .flatten()
                .filter(|endpoint| member.is_some() && endpoint.origin() == member.as_ref());
            Ok(theirs.map(|endpoint| endpoint.outward().clone()).collect::<Vec<_>>())
        });
        for endpoint in all.unwrap_or_default() {
            // An endpoint that has ended already returns an error, which does not matter.
            let _ = endpoint.close(true, &OpParams::DEFAULT, Out::NOWHERE);
        }
    }
}

/// Does the peer cause errors of this status?
pub(crate) fn is_of_peer(status: Status) -> bool {
    let peers = [
        Status::PEER_FAILED,
        Status::CLOSED,
        Status::TIMED_OUT,
        Status::UNSUPPORTED,
        Status::ENDPOINT_TIMEOUT,
    ];
    peers.contains(&status) || status.or_peer_failed() == Status::PEER_FAILED
}

unsafe extern "C" fn on_close(arg: *mut c_void, _endpoint: *mut SharedEndpoint, status: i32) {
    // SAFETY: an element of `service.watches`, and the service outlives its endpoints.
    let watch = unsafe { &*arg.cast::<Watch>() };
    // SAFETY: the service that `meet` stored in the watch; its drop ends all callbacks first.
    unsafe { &*watch.service }.has_gone(watch.rank, Status(status));
}
