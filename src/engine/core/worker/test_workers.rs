//! Workers for tests of the inside, and endpoints between them.

use crate::engine::assembly::PROTOCOLS;
use crate::engine::core::endpoint::endpoint::{EndpointParams, SharedEndpoint};
use crate::engine::core::worker::create::WorkerParams;
use crate::engine::core::worker::gate::ThreadMode;
use crate::engine::core::worker::progress_thread::{ProgressMode, ThreadParams};
use crate::engine::core::worker::worker::SharedWorker;
use crate::engine::ucx::context::Context;
use std::sync::Arc;

/// A worker of this thread, which makes progress on it.
pub(crate) fn new_worker(context: &Arc<Context>) -> Arc<SharedWorker> {
    let thread = ThreadParams { delayed: None, depth: 0, cpu: None, start: None };
    let (thread_mode, progress_mode) = (ThreadMode::Single, ProgressMode::Manual);
    SharedWorker::new(
        context,
        WorkerParams {
            thread_mode,
            spin_ns: 0,
            name: None,
            describe_requests: false,
            progress_mode,
            thread,
        },
        PROTOCOLS,
    )
    .unwrap()
}

/// An endpoint without failure detection.
pub(crate) fn connect(from: &Arc<SharedWorker>, to: &SharedWorker) -> Arc<SharedEndpoint> {
    SharedEndpoint::new(from, &to.address().unwrap(), &EndpointParams::quiet(false)).unwrap()
}
