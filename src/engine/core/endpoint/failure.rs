//! How an endpoint fails: what UCX, the process watch, the silence watch or a deadline reports, and
//! what follows from it.
//!
//! UCP's error callback runs inside `ucp_worker_progress` and only records the event. The worker
//! handles it after the pass.

use crate::engine::base::log;
use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::{Endpoint, Phase};
use crate::engine::core::endpoint::life::{LifeEvent, Peer};
use crate::engine::core::trace::{self, Happens};
use crate::engine::core::worker::deferred::Event;
use crate::engine::core::worker::worker::attention;
use crate::engine::os::process_identity;
use crate::sys;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::rc::Rc;

/// The endpoint to which UCP's end of a connection reports its failure. None while no endpoint owns
/// that end: see `core::endpoint::parked_endpoints`.
#[derive(Default)]
pub(crate) struct Reports {
    endpoint: Cell<Option<NonNull<Endpoint>>>,
    failed: Cell<bool>,
}

impl Reports {
    pub(crate) fn to(&self, endpoint: &Endpoint) {
        self.endpoint.set(Some(NonNull::from(endpoint)));
    }

    pub(crate) fn to_nobody(&self) {
        self.endpoint.set(None);
    }

    /// It failed while no endpoint owned it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.get()
    }
}

/// Runs inside `ucp_worker_progress`: only records the event, which is handled after the pass.
pub(crate) unsafe extern "C" fn on_ucp_error(
    arg: *mut c_void,
    _ucp: sys::ucp_ep_h,
    status: sys::ucs_status_t,
) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the owner of UCP's end keeps it until UCP has released that end, after which this
        // callback cannot run.
        let reports = unsafe { &*arg.cast::<Reports>() };
        let Some(endpoint) = reports.endpoint.get() else { return reports.failed.set(true) };
        // SAFETY: the endpoint stays registered while it owns UCP's end.
        let endpoint = unsafe { endpoint.as_ref() };
        if endpoint.is_connecting() {
            return endpoint.unanswered(endpoint.attempt(), Status(status.into()));
        }
        endpoint.lost(Status(status.into()));
    });
}

impl Endpoint {
    /// The argument that UCP passes to `on_ucp_error`.
    pub(crate) fn reports_pointer(&self) -> *mut c_void {
        let reports = self.reports.borrow();
        reports.to(self);
        Rc::as_ptr(&reports).cast_mut().cast()
    }

    /// UCX has lost the peer.
    fn lost(&self, ucx: Status) {
        let status = self.loss();
        if !self.has_taken_leave() {
            self.on(LifeEvent::GivesUp);
        }
        self.gone(status, &ucx.to_string());
    }

    /// The status for a peer that UCX has lost. If the peer's process is alive, it has closed its
    /// end: UCX was told to close, and the Bye did not arrive in time. UCX's own status depends on
    /// the transport and the moment. Determined once, because it looks at the process.
    pub(crate) fn loss(&self) -> Status {
        match self.life().peer {
            Peer::Present | Peer::Silent => {}
            Peer::Lost(status) | Peer::GivenUp(status) => return status,
            Peer::Gone => return Status::PEER_FAILED,
        }
        // Whether watched or not: an endpoint that was just made may not be watched yet.
        let process = self.origin().map(|origin| &origin.identity);
        let lives = process.is_some_and(|process| {
            process.shares_host_with(&self.worker.identity) && process_identity::goes_on(process)
        });
        let status = if lives { Status::CONNECTION_RESET } else { Status::PEER_FAILED };
        self.on(LifeEvent::LosesPeer(status));
        status
    }

    /// The peer has failed. What follows waits for the end of the pass.
    pub(crate) fn gone(&self, status: Status, how: &str) {
        let Some(endpoint) = self.registered() else { return };
        if self.has_taken_leave() {
            return;
        }
        log::at!(INFO, Endpoint, self, "lost the peer: {how}");
        self.empty_fast_box();
        // Visible at once: requests that complete in this same pass report the reason.
        self.on(LifeEvent::Fails(status));
        self.worker.push_event(Event::Failed(endpoint, status));
    }

    /// The peer failed, or a deadline has passed: refuses new operations, and closes in UCP by
    /// force.
    pub(crate) fn fail(&self, status: Status) {
        if self.phase() >= Phase::Ending {
            return;
        }
        self.on(LifeEvent::Fails(status));
        if status == Status::TIMED_OUT {
            self.on(LifeEvent::FallsSilent);
        }
        if status != Status::PEER_FAILED && self.fails_later(status) {
            return;
        }
        if !self.peering.unclaimed.get() {
            self.worker.stats.endpoint_failures.add(1);
            trace::happens(self, Happens::Failed(status));
        }
        self.connect_deadline.set(0);
        if status == Status::TIMED_OUT {
            if self.phase() == Phase::Open && self.is_amid_wire_up() {
                // The forced close follows as soon as it is safe.
                self.cancel_watchers(status);
                self.end_queue(self.life().cut_short());
                self.begin_close(true);
                return self.on(LifeEvent::Refuses(status));
            }
            // Sent whether the peer receives it or not: its process may only be stopped.
            self.has_parted(0);
        }
        self.end_by_force();
        self.watch();
    }

    /// A forced close is not safe in UCX at the moment, and will be soon.
    fn is_amid_wire_up(&self) -> bool {
        let settled = self.life().connected && self.ucp_flushes.get() == 0;
        !settled && !self.is_connecting()
    }

    /// The next passes check this endpoint until it is closed.
    pub(crate) fn watch(&self) {
        let Some(endpoint) = self.registered() else { return };
        self.worker.look_later(endpoint);
        self.worker.attend(attention::CHANGING);
    }
}
