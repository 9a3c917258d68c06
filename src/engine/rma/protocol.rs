//! The protocol table of put, get and atomic operations.

use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receivers::Receiver;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::operations::Operation;
use crate::engine::core::request::request::Kind;
use crate::engine::core::request::request::Slot;
use crate::engine::core::request::request_param::Param;
use crate::engine::core::worker::protocol::{OfWorker, Protocol};
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::fetch::protocol::FETCH;
use crate::engine::rma::remote_key::{Rkey, Rkeys};
use crate::sys;

const OPERATIONS: &[Operation] = &[
    Operation { post: post_by_key, ended: Worker::release_rkey, ..Operation::of(Kind::Put) },
    Operation { post: post_by_key, ended: Worker::release_rkey, ..Operation::of(Kind::Get) },
    // It is sent like a fetch request.
    Operation {
        kind: Kind::Atomic,
        describe: |slot, _| slot.kind.get().describe().to_owned(),
        cause: |_, _| None,
        ..FETCH
    },
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

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 4,
    operations: OPERATIONS,
    of_worker: || Box::new(Rkeys::default()),
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

impl Worker {
    pub(crate) fn rkeys(&self) -> &Rkeys {
        self.state(&PROTOCOL)
    }
}
