//! The protocol table of active messages.

use crate::engine::base::status::Status;
use crate::engine::core::channel::handler_table::Handlers;
use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receivers::Receiver;
use crate::engine::core::channel::send::post_message;
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use crate::engine::core::request::error_text::cause_of_making;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operations::{Operation, PartOf};
use crate::engine::core::request::request::{Kind, Part as Of};
use crate::engine::core::worker::inward::Gated;
use crate::engine::core::worker::protocol::{OfEndpoint, OfWorker, Protocol};
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::am::multi::{Arrivals, MultiHandler};
use crate::engine::messaging::am::queue::{on_foreign, post_to_queue, Front, MessageQueue};
use crate::engine::messaging::am::queue_callbacks::QueueHandlers;
use crate::engine::wire::ucxx_am::UCXX_ID;

const OPERATIONS: &[Operation] = &[
    Operation {
        post: post_message,
        describe: |slot, status| {
            (status == Status::NO_ELEM).then(|| {
                let (length, id) = (slot.length.get(), slot.queued.get().outgoing.id);
                format!("active message of {length} bytes, id {id}")
            })
        },
        cause: |_, status| {
            (status == Status::NO_ELEM).then(|| {
                "the peer has no handler for this id (ucxx_worker_set_am_handler, or \
                ucxx_worker_set_multi_handler for several buffers)"
                    .to_owned()
            })
        },
        ..Operation::of(Kind::AmSend)
    },
    Operation {
        post: post_to_queue,
        cause: |_, status| {
            let text =
                "the peer has no handler for this owner and id (ucxx_worker_set_am_queue_handler)";
            (status == Status::NO_ELEM).then(|| text.to_owned())
        },
        ..Operation::of(Kind::AmQueueSend)
    },
    Operation {
        take_over: Some(|worker, slot, _, endpoint, left| {
            worker.start(slot, endpoint, left, Out::NOWHERE);
            if let Some(endpoint) = endpoint {
                endpoint.await_message(slot);
            }
        }),
        cancel: Worker::cancel_queue_receive,
        cause: cause_of_making,
        ..Operation::of(Kind::AmQueueRecv)
    },
    Operation {
        abandoned: |worker, slot| {
            if let (Of::Pull(number), Some(endpoint)) =
                // SAFETY: the worker keeps the endpoint alive while something in flight refers to
                // it.
                (slot.part.get(), unsafe { slot.endpoint.get().as_ref() })
            {
                if let Some(memory) = endpoint.memory_of_multi(number) {
                    worker.leave_to_ucp(Box::new(memory));
                }
            }
        },
        part: Some(PartOf {
            is_unwatched: |_| false,
            ended: |worker, slot, endpoint, status| {
                if let (Of::Pull(number), Some(endpoint)) = (slot.part.get(), endpoint) {
                    worker.frames_pulled(endpoint, number, status);
                }
            },
        }),
        ..Operation::of(Kind::MultiPull)
    },
];

/// Active messages: by id, with frames, and for queues.
pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 2,
    operations: OPERATIONS,
    of_worker: || Box::new(Named::default()),
    of_endpoint: || Box::new(Received::default()),
    receives: &[Receiver {
        sort: Sort::Multi,
        wants: |worker, id| worker.multi_handlers().has(id),
        dispatch: |worker, slot, _| match worker.endpoint_by_id(slot.inbound().connection) {
            Some(endpoint) => worker.dispatch_multi(slot, &endpoint),
            None => worker.message_gone(slot),
        },
        ..Receiver::NOBODY
    }],
    foreign: Some((UCXX_ID, on_foreign)),
    at_endpoint: |endpoint, what| match what {
        OfEndpoint::Closed => endpoint.drop_queue(),
        OfEndpoint::WorkerEnded => endpoint.drop_multis(),
        _ => {}
    },
    describe_endpoint: Endpoint::describe_queue,
    at_end: |worker, step| {
        if step == OfWorker::DropsHandlers {
            worker.drop_all(worker.multi_handlers().clear());
            worker.drop_all(worker.queue_handlers().clear());
        }
    },
    ..Protocol::NOTHING
};

/// Handlers of a worker, by id and by name.
#[derive(Default)]
struct Named {
    multi: Handlers<MultiHandler>,
    queue: QueueHandlers,
}

/// What an endpoint has received.
#[derive(Default)]
struct Received {
    arrivals: Gated<Arrivals>,
    queue: Gated<MessageQueue>,
    front: Front,
}

impl Worker {
    pub(crate) fn multi_handlers(&self) -> &Handlers<MultiHandler> {
        &self.state::<Named>(&PROTOCOL).multi
    }

    pub(crate) fn queue_handlers(&self) -> &QueueHandlers {
        &self.state::<Named>(&PROTOCOL).queue
    }
}

impl Endpoint {
    pub(crate) fn arrivals(&self) -> &Arrivals {
        self.state_for_all::<Received>(&PROTOCOL).arrivals.get(&self.worker)
    }

    pub(crate) fn message_queue(&self) -> &MessageQueue {
        self.state_for_all::<Received>(&PROTOCOL).queue.get(&self.worker)
    }
}

impl SharedEndpoint {
    pub(crate) fn queue_front(&self) -> &Front {
        &self.state_for_all::<Received>(&PROTOCOL).front
    }
}
