//! Workers of tests that look inside, and endpoints between them.

use super::context::Context;
use super::endpoint::{Endpoint, EndpointParams};
use super::gate::ThreadMode;
use super::thread::{ProgressMode, ThreadParams};
use super::worker::{Worker, WorkerParams};
use std::sync::Arc;

/// Of this thread, which progresses it.
pub(super) fn new_worker(context: &Arc<Context>) -> Arc<Worker> {
    let thread = ThreadParams { delayed: None, depth: 0, cpu: None, start: None };
    let (thread_mode, progress_mode) = (ThreadMode::Single, ProgressMode::Manual);
    Worker::new(context, WorkerParams { thread_mode, spin_ns: 0, name: None, progress_mode, thread }).unwrap()
}

/// Without failure detection.
pub(super) fn connect(from: &Arc<Worker>, to: &Worker) -> Arc<Endpoint> {
    Endpoint::new(from, &to.address().unwrap(), &EndpointParams::quiet(false)).unwrap()
}
