//! The protocol table of put, get and atomic operations.

use crate::engine::base::counters::Counter;
use crate::engine::base::open_metrics::Metric;
use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receivers::Receiver;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::operations::Operation;
use crate::engine::core::request::request::Kind;
use crate::engine::core::request::request::Slot;
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::inward::Gated;
use crate::engine::core::worker::protocol::{OfWorker, Protocol};
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::messaging::fetch::protocol::FETCH;
use crate::engine::rma::remote_key::{Rkey, Rkeys};
use crate::sys;

const OPERATIONS: &[Operation] = &[
    Operation { post: post_by_key, ended: Worker::release_rkey, ..Operation::of(Kind::Put) },
    Operation { post: post_by_key, ended: Worker::release_rkey, ..Operation::of(Kind::Get) },
    // It is sent like a fetch request.
    Operation { kind: Kind::Atomic, describe: |_, _| None, cause: |_, _| None, ..FETCH },
];

fn post_by_key(
    worker: &Worker,
    slot: &Slot,
    queued: &Queued,
    _: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    let mut param = Param::of_buffer(slot, queued.memory_type, queued.scattered);
    param.let_ucx_describe(slot);
    // SAFETY: the operation's own reference.
    let key = unsafe { &*queued.rkey.cast::<Rkey>() };
    key.post(
        key.endpoint.of(worker),
        slot,
        slot.kind.get(),
        queued.buffer,
        queued.count,
        queued.tag,
        &param,
    )
}

static METRICS: &[Metric<SharedWorker>] = &[
    Metric::counter(
        "ucxx_worker_mapped_operations",
        "Put, get and atomic operations on a peer's memory that is mapped here: the calling thread \
        did them. Calls of several threads at the same moment may be missed.",
        |worker, samples| {
            let Mapped { puts, gets, atomics, .. } = worker.mapped();
            for (name, count) in [("put", puts), ("get", gets), ("atomic", atomics)] {
                samples.labelled(&[("operation", name)], count.get());
            }
        },
    ),
    Metric::counter("ucxx_worker_mapped_bytes", "Bytes in them.", |worker, samples| {
        let Mapped { put_bytes, get_bytes, .. } = worker.mapped();
        for (name, bytes) in [("put", put_bytes), ("get", get_bytes)] {
            samples.labelled(&[("operation", name)], bytes.get());
        }
    }),
];

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 4,
    operations: OPERATIONS,
    of_worker: || Box::new(State::default()),
    metrics: METRICS,
    receives: &[Receiver {
        sort: Sort::Atomic,
        dispatch: |worker, slot, _| {
            if let Some(endpoint) = worker.endpoint_by_id(slot.inbound().connection) {
                worker.answer_atomic(slot, &endpoint);
            }
            worker.message_gone(slot);
        },
        ..Receiver::NOBODY
    }],
    at_end: |worker, step| {
        if step == OfWorker::BeforeUcpEnds {
            worker.drop_rkeys();
        }
    },
    ..Protocol::NOTHING
};

#[derive(Default)]
struct State {
    mapped: Mapped,
    keys: Gated<Rkeys>,
}

/// Operations on memory that is mapped here, which the calling thread does, whichever it is. Plain
/// stores count them: of calls at the same moment on one worker some may be missed. In a cache line
/// of its own.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Mapped {
    pub(crate) puts: Counter,
    pub(crate) gets: Counter,
    pub(crate) atomics: Counter,
    pub(crate) put_bytes: Counter,
    pub(crate) get_bytes: Counter,
}

impl Worker {
    pub(crate) fn rkeys(&self) -> &Rkeys {
        self.state::<State>(&PROTOCOL).keys.get(self)
    }
}

impl SharedWorker {
    #[inline(always)]
    pub(crate) fn mapped(&self) -> &Mapped {
        &self.state_for_all::<State>(&PROTOCOL).mapped
    }
}
