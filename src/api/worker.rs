//! Workers.

use crate::api::context::{text, Context};
use crate::api::endpoint::Endpoint;
use crate::api::mailbox::Once;
use crate::api::opaque;
use crate::api::request::{Keep, Operation, WAITS};
use crate::api::{calling, nanoseconds};
use crate::engine::assembly::PROTOCOLS;
use crate::engine::base::status::{Result, Status};
use crate::engine::core::endpoint::endpoint::EndpointParams;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::deferred;
use crate::engine::core::worker::deferred_end::{self, Then};
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::wire::address;
use parking_lot::Mutex;
use std::any::Any;
use std::ffi::c_void;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// A place where messages are sent and received. Endpoints and listeners belong to a worker.
///
/// Clones are the same worker, and any thread may use it. A thread of the library makes its
/// progress, so that futures work with any executor: see [`Progress`].
///
/// **The end.** The worker ends when the last of its handles is dropped: clones, endpoints,
/// listeners, requests, messages. That drop waits, usually for some milliseconds, and at most for
/// about a second. [`close`](Self::close) waits in async code instead. What is in flight ends with
/// `CANCELED`.
///
/// A worker whose handler owns it never ends: use [`downgrade`](Self::downgrade).
#[derive(Clone)]
pub struct Worker(Arc<Inner>);

/// A reference to a [`Worker`] that does not keep it alive.
#[derive(Clone)]
pub struct WeakWorker(std::sync::Weak<Inner>);

/// Who makes a worker's progress: moves data, completes operations and calls handlers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Progress {
    /// A thread of the library, which polls while there is work and sleeps otherwise.
    #[default]
    Adaptive,
    /// A thread of the library that always polls: lowest latency, one busy core.
    Polling,
    /// A thread of the library that sleeps whenever there is nothing to do.
    Blocking,
    /// You do, by [`Worker::progress`], or by any call that waits. Futures of this worker only end
    /// while somebody does.
    Manual,
}

/// Makes a [`Worker`].
#[derive(Debug)]
pub struct WorkerBuilder {
    context: Context,
    progress: Progress,
    name: Option<String>,
    cpu: Option<usize>,
    endpoints: EndpointDefaults,
}

/// What all endpoints of a worker have in common.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EndpointDefaults {
    connect_timeout: Option<Duration>,
    liveness: Option<Duration>,
}

/// The address of a worker, to be sent to another process, which connects to it.
#[derive(Clone)]
pub struct Address(pub(crate) address::Address);

struct Inner {
    worker: Arc<SharedWorker>,
    endpoints: EndpointDefaults,
    leftovers: Mutex<Leftovers>,
}

/// What callbacks may use until the worker has ended, and who waits for that.
#[derive(Default)]
struct Leftovers {
    kept: Vec<Box<dyn Any + Send + Sync>>,
    closing: Option<Arc<Once>>,
}

impl Worker {
    /// A worker with a progress thread.
    ///
    /// # Errors
    ///
    /// `NO_RESOURCE` or `NO_MEMORY` if the system has no room for it; what UCX reports.
    pub fn new(context: &Context) -> Result<Self> {
        Self::builder(context).build()
    }

    /// A worker with other properties.
    pub fn builder(context: &Context) -> WorkerBuilder {
        WorkerBuilder {
            context: context.clone(),
            progress: Progress::default(),
            name: None,
            cpu: None,
            endpoints: EndpointDefaults::default(),
        }
    }

    /// The worker's address.
    ///
    /// # Errors
    ///
    /// `FORKED` in a forked child.
    pub fn address(&self) -> Result<Address> {
        Ok(Address(self.shared().address()?))
    }

    /// Connects to a listener. Resolving a name may block; the connection itself is made in the
    /// background. Operations may be submitted at once, and fail if it cannot be made.
    ///
    /// # Errors
    ///
    /// `INVALID_PARAM` or `UNREACHABLE` for the host or the port.
    pub fn connect(&self, host: &str, port: u16) -> Result<Endpoint> {
        Endpoint::make(self, |worker, params| {
            crate::engine::core::endpoint::endpoint::SharedEndpoint::connect(
                worker, host, port, params,
            )
        })
    }

    /// Connects to the worker with this address, which needs no listener. As
    /// [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// `UNREACHABLE` if the two have no network in common.
    pub fn connect_to(&self, address: &Address) -> Result<Endpoint> {
        Endpoint::make(self, |worker, params| {
            crate::engine::core::endpoint::endpoint::SharedEndpoint::new(worker, &address.0, params)
        })
    }

    /// Ends when everything that was sent before, on all endpoints, has arrived.
    pub fn flush(&self) -> Operation {
        Operation::submit(Keep::Worker(self.clone()), |params, out, _| {
            self.shared().flush(params, out)
        })
    }

    /// As [`flush`](Self::flush), on this thread.
    ///
    /// # Errors
    ///
    /// The first error of a send that nothing else has reported.
    pub fn flush_wait(&self) -> Result<()> {
        calling(|| self.shared().flush(&WAITS, Out::NOWHERE)).map(drop)
    }

    /// Makes progress once, without waiting. Returns how much was handled. For workers with
    /// [`Progress::Manual`].
    ///
    /// # Errors
    ///
    /// `BUSY` if the worker has a progress thread, or from a handler.
    pub fn progress(&self) -> Result<u32> {
        calling(|| self.shared().progress_and_tell())
    }

    /// Waits until there is something to handle, and handles it. False if nothing came in time. For
    /// workers with [`Progress::Manual`].
    ///
    /// # Errors
    ///
    /// As [`progress`](Self::progress).
    pub fn progress_wait(&self, timeout: Duration) -> Result<bool> {
        calling(|| self.shared().wait(nanoseconds(timeout)))
    }

    /// A reference that does not keep the worker alive, for handlers.
    pub fn downgrade(&self) -> WeakWorker {
        WeakWorker(Arc::downgrade(&self.0))
    }

    /// Drops this handle, and waits until the worker has ended, which it does with the last of its
    /// handles. So drop its endpoints before, or this never returns. No executor thread waits
    /// meanwhile.
    pub async fn close(self) {
        let closing = {
            let mut leftovers = self.0.leftovers.lock();
            leftovers.closing.get_or_insert_with(|| Arc::new(Once::new())).clone()
        };
        drop(self);
        poll_fn(|context| closing.poll(context)).await;
    }

    pub(crate) fn shared(&self) -> &Arc<SharedWorker> {
        &self.0.worker
    }

    /// Keeps what callbacks use until the worker has ended.
    pub(crate) fn keep(&self, kept: impl Any + Send + Sync) {
        self.0.leftovers.lock().kept.push(Box::new(kept));
    }

    pub(crate) fn endpoint_params(&self) -> EndpointParams {
        // 0 is none.
        let limit = |time: Option<Duration>| {
            time.map_or(0, |time| time.as_nanos().clamp(1, 1 << 62) as u64)
        };
        let EndpointDefaults { connect_timeout, liveness } = self.0.endpoints;
        EndpointParams {
            connect_timeout_ns: limit(connect_timeout),
            liveness_ns: limit(liveness),
            ..EndpointParams::quiet(true)
        }
    }
}

impl WeakWorker {
    /// The worker, if it has not ended.
    pub fn upgrade(&self) -> Option<Worker> {
        self.0.upgrade().map(Worker)
    }
}

impl WorkerBuilder {
    /// Who makes progress.
    pub fn progress(mut self, progress: Progress) -> Self {
        self.progress = progress;
        self
    }

    /// A name, for the progress thread and for logs.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// The CPU that the progress thread runs on, from 0.
    pub fn cpu(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// For all endpoints: they fail with `TIMED_OUT` if the peer has not answered after this long.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.endpoints.connect_timeout = Some(timeout);
        self
    }

    /// For all endpoints: they fail with `PEER_FAILED` if the peer is silent for this long while
    /// something is in flight. Without it the end of a process is noticed, but not that of a host
    /// or a network.
    pub fn liveness(mut self, limit: Duration) -> Self {
        self.endpoints.liveness = Some(limit);
        self
    }

    /// Makes the worker.
    ///
    /// # Errors
    ///
    /// As [`Worker::new`].
    pub fn build(self) -> Result<Worker> {
        let params = WorkerParams {
            // The only mode in which any thread may call at any time.
            thread_mode: ThreadMode::Multi,
            spin_ns: 0,
            name: self.name.map(|name| text(name, "name")).transpose()?,
            describe_requests: false,
            progress_mode: match self.progress {
                Progress::Adaptive => ProgressMode::Adaptive,
                Progress::Polling => ProgressMode::Polling,
                Progress::Blocking => ProgressMode::Blocking,
                Progress::Manual => ProgressMode::Manual,
            },
            thread: ThreadParams { delayed: None, depth: 0, cpu: self.cpu, start: None },
        };
        let worker = SharedWorker::new(&self.context.0, params, PROTOCOLS)?;
        let (endpoints, leftovers) = (self.endpoints, Mutex::default());
        Ok(Worker(Arc::new(Inner { worker, endpoints, leftovers })))
    }
}

impl Address {
    /// The address in the form that can be sent.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The address that was sent as these bytes.
    ///
    /// # Errors
    ///
    /// `INVALID_ADDR` for anything else.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Address(address::Address::from_bytes(bytes)?))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let leftovers = std::mem::take(self.leftovers.get_mut());
        if leftovers.closing.is_none() && !deferred::in_callback() {
            calling(|| self.worker.clone().destroy());
            drop(leftovers);
            return;
        }
        // Its callbacks use `kept` until it has ended, on the thread that ends it.
        let arg = Box::into_raw(Box::new(leftovers));
        if deferred_end::end_elsewhere(self.worker.clone(), Some(Then(ended, arg.cast()))).is_err()
        {
            self.worker.clone().destroy();
            // Not freed: if this is a callback, the worker has not ended yet.
            // SAFETY: just made, and nobody else has it.
            if let Some(closing) = unsafe { &*arg }.closing.as_ref() {
                closing.happen(Status::OK);
            }
        }
    }
}

/// Runs once the worker has ended.
unsafe extern "C" fn ended(arg: *mut c_void) {
    // SAFETY: made for this call.
    let leftovers = unsafe { Box::from_raw(arg.cast::<Leftovers>()) };
    if let Some(closing) = leftovers.closing {
        closing.happen(Status::OK);
    }
}

opaque! { Worker WeakWorker Address }
