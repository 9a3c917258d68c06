//! The protocol table of hub streams.

use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receivers::Receiver;
use crate::engine::core::worker::protocol::{OfEndpoint, OfWorker, Protocol, Turn};
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::hub::stream::registry::HubStreams;

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 6,
    of_worker: || Box::new(HubStreams::default()),
    receives: &[Receiver {
        sort: Sort::Hub,
        wants: |_, _| true,
        dispatch: |worker, slot, _| match worker.endpoint_by_id(slot.inbound().connection) {
            Some(endpoint) => worker.dispatch_to_hub(slot, endpoint.into_outward()),
            None => worker.message_gone(slot),
        },
        ..Receiver::NOBODY
    }],
    turn: Turn::Last,
    pass: Worker::run_hub_streams,
    // After the last stream has ended, `scheduled` may stay set, which nobody clears.
    is_due: |worker| worker.attention.get() & PROTOCOL.bit() != 0 && worker.hub_streams().is_due(),
    thread_changed: SharedWorker::wake_hub_waiters,
    describe_objects: SharedWorker::describe_hubs,
    at_endpoint: |endpoint, what| {
        if what == OfEndpoint::Closed {
            endpoint.worker.end_hub_streams(|other| std::ptr::eq(other, &raw const **endpoint));
        }
    },
    at_end: |worker, step| {
        if step == OfWorker::Delivered {
            worker.end_hub_streams(|_| true);
        }
    },
    ..Protocol::NOTHING
};

impl SharedWorker {
    pub(crate) fn hub_streams(&self) -> &HubStreams {
        self.state_for_all(&PROTOCOL)
    }
}
