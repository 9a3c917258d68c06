//! The connections of a group's service to its members: made on first use, watched, and not made
//! again once they have ended.

use crate::engine::base::clock;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, EndpointParams};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::OpParams;
use crate::engine::group::service::Service;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// The connection to a member.
#[derive(Default)]
pub(crate) struct Link {
    pub(crate) endpoint: Option<Arc<Endpoint>>,
    /// When it was found gone, and how.
    pub(crate) gone: Option<(u64, Status)>,
    /// It has all that this one has sent.
    pub(crate) has_all: bool,
}

/// Tells a link's callback whose it is.
pub(crate) struct Watch {
    pub(crate) service: *const Service,
    pub(crate) rank: u32,
}

impl Service {
    /// The connection to this member, made on first use. Where there is none to be had the member
    /// is gone.
    pub(crate) fn link(&self, rank: u32) -> Result<Arc<Endpoint>> {
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
        let made = self.worker.on_owner(|_inside| {
            // One at a time, as the user's endpoints are made (`Service::endpoint`).
            if let Some(endpoint) = kept() {
                return Ok(endpoint);
            }
            let member = &self.members()[rank as usize].service;
            let made = Endpoint::new_inside(&self.worker, member, &params)?;
            self.watch_for_silence(&made);
            self.state.lock().links[rank as usize].endpoint = Some(made.clone());
            Ok(made)
        });
        made.inspect_err(|error| {
            if is_of_peer(error.status()) {
                self.has_gone(rank, error.status());
            }
        })
    }

    /// Has a member of another host given up when nothing comes from it: no kernel tells that the
    /// host has gone, or the way to it. Of one of this host the kernel tells, and what is shared
    /// with it would not notice that it has been given up. Inside the worker's gate.
    fn watch_for_silence(&self, link: &Endpoint) {
        let is_local =
            link.origin().is_some_and(|origin| origin.identity.same_host(&self.worker.identity));
        if !is_local {
            link.watch_for_silence_always(self.liveness_ns.load(Ordering::Relaxed));
            self.worker.wake_sleeper();
        }
    }

    /// From now on, 0 for never.
    pub(crate) fn set_liveness(&self, liveness_ns: u64) -> Result<()> {
        self.worker.on_owner(|_inside| {
            self.liveness_ns.store(liveness_ns, Ordering::Relaxed);
            let links: Vec<_> =
                self.state.lock().links.iter().filter_map(|link| link.endpoint.clone()).collect();
            links.iter().for_each(|link| self.watch_for_silence(link));
            Ok(())
        })
    }

    /// Sees to it that the end of this member is noticed.
    pub(crate) fn watch(&self, rank: u32) {
        // A failure is noted as the member's.
        let _ = self.link(rank);
    }

    /// Since when the member is gone, and how.
    pub(crate) fn gone(&self, rank: u32) -> Option<(u64, Status)> {
        self.state.lock().links[rank as usize].gone
    }

    fn has_gone(&self, rank: u32, status: Status) {
        self.state.lock().links[rank as usize].gone.get_or_insert((clock::now_ns(), status));
        // After that: who asks for something now looks whether it is gone.
        self.tell_extension_gone(rank);
        self.tell();
    }

    /// Cuts the connections to this member, of which there is one unless it has made more, so that
    /// what is under way on them ends.
    pub(crate) fn cut(&self, rank: u32) {
        let member = self.members()[rank as usize].service.origin();
        let all = self.worker.on_owner(|inside| {
            let endpoints = inside.endpoints.borrow();
            let theirs = endpoints
                .iter()
                .flatten()
                .filter(|endpoint| member.is_some() && endpoint.origin() == member.as_ref());
            Ok(theirs.cloned().collect::<Vec<_>>())
        });
        for endpoint in all.unwrap_or_default() {
            // One that has ended already needs none.
            let _ = endpoint.close(true, &OpParams::DEFAULT, Out::NOWHERE);
        }
    }
}

/// Has such a failure to do with the other side?
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

unsafe extern "C" fn on_close(arg: *mut c_void, _endpoint: *mut Endpoint, status: i32) {
    // SAFETY: of the service, which outlives its endpoints.
    let watch = unsafe { &*arg.cast::<Watch>() };
    // SAFETY: as above.
    unsafe { &*watch.service }.has_gone(watch.rank, Status(status));
}
