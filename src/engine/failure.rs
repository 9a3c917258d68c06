//! How an endpoint fails: what UCX, the watch on processes, a silence or a deadline report, and what that leads to.

use super::endpoint::{Endpoint, Phase};
use super::events::Event;
use super::log;
use super::status::Status;
use super::worker::attention;
use crate::sys;
use std::ffi::c_void;
use std::sync::Arc;

/// Runs inside `ucp_worker_progress`: only notes what happened. What follows waits for the end of the pass.
pub(crate) unsafe extern "C" fn on_ucp_error(arg: *mut c_void, _ucp: sys::ucp_ep_h, status: sys::ucs_status_t) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: `arg` is the endpoint, which stays registered until UCP has let go of it, after which this cannot run.
        let endpoint = unsafe { &*arg.cast::<Endpoint>() };
        if endpoint.is_connecting() {
            return endpoint.unanswered(endpoint.attempt(), Status(status.into()));
        }
        endpoint.lost(&Status(status.into()).to_string());
    });
}

impl Endpoint {
    /// The peer is gone. What that leads to waits for the end of the pass.
    pub(crate) fn lost(&self, how: &str) {
        let Some(endpoint) = self.registered() else { return };
        if self.has_taken_leave() {
            return;
        }
        log::write(log::INFO, c"endpoint", &format!("lost {}: {how}", self.peer_text()));
        // Visible at once: requests that come back in this same pass are to say what happened.
        self.note_failure(Status::PEER_FAILED);
        self.worker.push_event(Event::Failed(endpoint));
    }

    /// What operations get from here on, and how the endpoint ends: the first failure counts, and one that is being closed stays CLOSED.
    fn note_failure(&self, status: Status) {
        if self.phase() == Phase::Open {
            self.set_status(status);
        }
        self.closing.note_outcome(status);
    }

    /// The peer failed, or a deadline demands the end: no new operations, and UCP is told to let go.
    pub(crate) fn fail(&self, status: Status) {
        if self.phase() >= Phase::Ending {
            return;
        }
        self.note_failure(status);
        if !self.peering.unclaimed.get() {
            self.worker.stats.endpoint_failures.add(1);
        }
        self.connect_deadline.set(0);
        if status == Status::TIMED_OUT {
            // Whether it hears or not: it may only have been stopped.
            self.has_parted(0);
        }
        self.end_by_force();
        self.watch();
    }

    /// Has the next passes look at this endpoint until it is closed.
    pub(crate) fn watch(&self) {
        let Some(endpoint) = self.registered() else { return };
        let mut changing = self.worker.changing.borrow_mut();
        if !changing.iter().any(|known| Arc::ptr_eq(known, &endpoint)) {
            changing.push(endpoint);
        }
        self.worker.attend(attention::CHANGING);
    }
}
