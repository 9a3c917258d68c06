//! The parameters of an endpoint.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::SharedEndpoint;
use crate::engine::core::endpoint::send_window::WindowLimits;
use crate::engine::core::request::notifier::Notifier;
use crate::engine::core::request::notifier_events::Target;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::ucx::runtime::{self, Release};
use crate::engine::wire::address::Origin;
use std::ffi::c_void;
use std::net::SocketAddr;

/// `ucxx_endpoint_callback_t`: argument, endpoint, status.
pub type Callback = unsafe extern "C" fn(*mut c_void, *mut SharedEndpoint, i32);

/// The parameters of an endpoint, checked.
#[derive(Clone, Copy)]
pub struct EndpointParams {
    /// Detect the failure of the peer.
    pub peer_failure: bool,
    /// 0 for none.
    pub connect_timeout_ns: u64,
    /// The local address to connect from; its port may be 0.
    pub local_address: Option<SocketAddr>,
    /// Fail the peer if it is silent this long while something is in flight; 0 for never.
    pub liveness_ns: u64,
    /// Limits on sends in flight.
    pub window: WindowLimits,
    /// Called once, when the peer has answered.
    pub on_open: Option<Callback>,
    /// Argument of `on_open`.
    pub on_open_arg: *mut c_void,
    /// Called once, when the endpoint has ended for any reason.
    pub on_close: Option<Callback>,
    /// Argument of `on_close`, or of the notifier's report.
    pub on_close_arg: *mut c_void,
    /// If not null, this notifier reports the end instead. Valid during the call that makes the
    /// endpoint.
    pub notifier: *const Notifier,
}

/// How the end is reported.
pub(crate) enum OnClose {
    Callback(Callback, *mut c_void),
    Notifier(Target),
}

impl EndpointParams {
    /// For an endpoint that no user has asked for.
    pub(crate) fn quiet(peer_failure: bool) -> Self {
        EndpointParams {
            peer_failure,
            connect_timeout_ns: 0,
            local_address: None,
            liveness_ns: 0,
            window: WindowLimits::DEFAULT,
            on_open: None,
            on_open_arg: std::ptr::null_mut(),
            on_close: None,
            on_close_arg: std::ptr::null_mut(),
            notifier: std::ptr::null(),
        }
    }

    fn notifier(&self) -> Option<&Notifier> {
        // SAFETY: null, or valid during the call: see the field.
        unsafe { self.notifier.as_ref() }
    }

    /// Checks that its notifier may report for this worker.
    pub(crate) fn check_notifier(&self, worker: &SharedWorker) -> Result<()> {
        self.notifier().map_or(Ok(()), |notifier| notifier.check(&worker.context))
    }

    /// How the end is to be reported.
    pub(crate) fn told_of_end(&self) -> Option<OnClose> {
        if let Some(notifier) = self.notifier() {
            return Some(OnClose::Notifier(Target::new(notifier, self.on_close_arg)));
        }
        self.on_close.map(|callback| OnClose::Callback(callback, self.on_close_arg))
    }
}

/// Refuses pairs of UCX releases that are incompatible over TCP, and may crash the process when
/// they connect.
pub(super) fn check_releases(worker: &Worker, origin: &Origin, peer_failure: bool) -> Result<()> {
    let (mine, theirs) = (runtime::ucx_release(), origin.release);
    let (older, newer) = if mine <= theirs { (mine, theirs) } else { (theirs, mine) };
    let old = older < Release::new(1, 14);
    let bad =
        old && (newer >= Release::new(1, 22) || (newer >= Release::new(1, 21) && !peer_failure));
    if !bad || (origin.identity.shares_host_with(&worker.identity) && worker.context.shares_memory)
    {
        return Ok(());
    }
    Err(Error::new(
        Status::UNSUPPORTED,
        format!(
            "address: UCX {mine} here and UCX {theirs} at the peer do not work together over \
            TCP; use the same release on both"
        ),
    ))
}
