//! Endpoints.

use crate::api::calling;
use crate::api::mailbox::Once;
use crate::api::opaque;
use crate::api::request::{Keep, Operation, WAITS};
use crate::api::worker::Worker;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{EndpointParams, SharedEndpoint};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::worker::worker::SharedWorker;
use std::ffi::c_void;
use std::future::poll_fn;
use std::sync::Arc;

/// A connection to one peer.
///
/// Clones are the same endpoint, and any thread may use it.
///
/// **The end.** When its last handle is dropped the endpoint closes in the background: what was
/// sent before still arrives, within some seconds. Requests are handles as well.
/// [`close`](Self::close) tells when that is done. If the peer closes, or dies, operations fail
/// with `CONNECTION_RESET` or `PEER_FAILED`: see [`closed`](Self::closed).
#[derive(Clone)]
pub struct Endpoint(Arc<Inner>);

struct Inner {
    endpoint: Arc<SharedEndpoint>,
    end: Arc<Once>,
    worker: Worker,
}

impl Endpoint {
    /// Makes one by `make`, and watches for its end.
    pub(crate) fn make(
        worker: &Worker,
        make: impl FnOnce(&Arc<SharedWorker>, &EndpointParams) -> Result<Arc<SharedEndpoint>>,
    ) -> Result<Self> {
        let end = Arc::new(Once::new());
        let arg = Arc::into_raw(end.clone());
        let params = EndpointParams {
            on_close: Some(closed),
            on_close_arg: arg.cast_mut().cast(),
            ..worker.endpoint_params()
        };
        let endpoint = calling(|| make(worker.shared(), &params)).inspect_err(|_| {
            // SAFETY: the callback's reference: there is no endpoint to call it.
            drop(unsafe { Arc::from_raw(arg) });
        })?;
        Ok(Endpoint(Arc::new(Inner { endpoint, end, worker: worker.clone() })))
    }

    pub(crate) fn shared(&self) -> &Arc<SharedEndpoint> {
        &self.0.endpoint
    }

    pub(crate) fn keep(&self) -> Keep {
        Keep::Endpoint(self.clone())
    }

    /// The worker that it belongs to.
    pub fn worker(&self) -> &Worker {
        &self.0.worker
    }

    /// Does the endpoint take operations?
    ///
    /// # Errors
    ///
    /// Why not: `CLOSED` if it was closed here, `CONNECTION_RESET` if the peer has closed it,
    /// `PEER_FAILED` if the peer has died.
    pub fn check(&self) -> Result<()> {
        self.shared().check_fork()?;
        match self.shared().status() {
            status if status.is_error() => Err(self.shared().not_open(status)),
            _ => Ok(()),
        }
    }

    /// Waits until the endpoint has ended, for any reason, and returns it: `OK` if it was closed
    /// here, `CONNECTION_RESET` if the peer closed it, `PEER_FAILED` if the peer died.
    ///
    /// A worker of a living process that had ended before the connection was made is not noticed,
    /// except by [`connect_timeout`](crate::WorkerBuilder::connect_timeout).
    pub async fn closed(&self) -> Status {
        poll_fn(|context| self.0.end.poll(context)).await
    }

    /// Ends when everything that was sent before on this endpoint has arrived at the peer.
    pub fn flush(&self) -> Operation {
        Operation::submit(self.keep(), |params, out, _| self.shared().flush(params, out))
    }

    /// As [`flush`](Self::flush), on this thread.
    ///
    /// # Errors
    ///
    /// The first error of a send that nothing else has reported.
    pub fn flush_wait(&self) -> Result<()> {
        calling(|| self.shared().flush(&WAITS, Out::NOWHERE)).map(drop)
    }

    /// Closes the endpoint for all its handles. What was sent before arrives first; new operations
    /// fail with `CLOSED`.
    ///
    /// A receive is no part of the endpoint, and goes on.
    pub fn close(&self) -> Operation {
        self.close_by(false)
    }

    /// Closes the endpoint without waiting for what is in flight, which fails with `CANCELED`.
    pub fn abort(&self) -> Operation {
        self.close_by(true)
    }

    fn close_by(&self, force: bool) -> Operation {
        Operation::submit(self.keep(), |params, out, _| self.shared().close(force, params, out))
    }

    /// As [`close`](Self::close), on this thread.
    ///
    /// # Errors
    ///
    /// `CLOSED` if it was closed before.
    pub fn close_wait(&self) -> Result<()> {
        calling(|| self.shared().close(false, &WAITS, Out::NOWHERE)).map(drop)
    }

    /// The error for a message of another worker's.
    pub(crate) fn check_worker(&self, worker: &Worker) -> Result<()> {
        if !Arc::ptr_eq(self.0.worker.shared(), worker.shared()) {
            return Err(Error::invalid("source: is an endpoint of another worker"));
        }
        Ok(())
    }
}

/// `on_close`: runs once for each endpoint.
unsafe extern "C" fn closed(arg: *mut c_void, _endpoint: *mut SharedEndpoint, status: i32) {
    // SAFETY: the reference that `make` gave to the endpoint.
    let end = unsafe { Arc::from_raw(arg.cast::<Once>()) };
    end.happen(Status(status));
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The callback owns what it uses, so nothing needs to wait for it.
        self.endpoint.clone().destroy_later();
    }
}

opaque! { Endpoint }
