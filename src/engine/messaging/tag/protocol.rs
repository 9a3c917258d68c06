//! The protocol table of tag messages.

use crate::engine::base::status::Status;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operations::{Operation, PartOf};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::worker::protocol::Protocol;
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::engine::messaging::tag::multi_common::Multis;
use crate::engine::messaging::tag::tag::{self, Mode};
use crate::sys;

/// Includes the parts of multi-buffer transfers.
const OPERATIONS: &[Operation] = &[
    Operation { post: post_local, describe: describe_tagged, ..Operation::of(Kind::TagSend) },
    Operation {
        post: |_, slot, queued, to| tag::post_send(Mode::Synchronous, slot, queued, to),
        describe: describe_tagged,
        ..Operation::of(Kind::TagSendSync)
    },
    Operation {
        post: tag::post_receive,
        cancel: tag::cancel_receive,
        describe: describe_truncated,
        ..Operation::of(Kind::TagRecv)
    },
    Operation {
        post: tag::post_receive,
        cancel: tag::cancel_receive,
        dropped: |worker, _, queued, _| worker.drop_message(queued.message),
        describe: describe_truncated,
        ..Operation::of(Kind::TagMessageRecv)
    },
    Operation {
        take_over: Some(|_, slot, _, endpoint, left| {
            if let Some(endpoint) = endpoint {
                endpoint.send_multi_from_ring(slot, left);
            }
        }),
        cancel: Worker::cancel_multi,
        ended: Worker::multi_ended,
        describe: describe_multi,
        ..Operation::of(Kind::TagSendMulti)
    },
    Operation {
        take_over: Some(|worker, slot, _, endpoint, left| {
            worker.start(slot, endpoint, left, Out::NOWHERE);
            worker.recv_multi_from_ring(slot);
        }),
        cancel: Worker::cancel_multi,
        ended: Worker::multi_ended,
        describe: describe_multi,
        ..Operation::of(Kind::TagRecvMulti)
    },
    Operation {
        post: post_local,
        abandoned: Worker::keep_for_ucp,
        part: Some(PART),
        ..Operation::of(Kind::TagSendPart)
    },
    Operation {
        cancel: tag::cancel_receive,
        abandoned: Worker::keep_for_ucp,
        part: Some(PART),
        ..Operation::of(Kind::TagRecvPart)
    },
];

fn post_local(
    _: &Worker,
    slot: &Slot,
    queued: &Queued,
    to: Option<&Endpoint>,
) -> sys::ucs_status_ptr_t {
    tag::post_send(Mode::Local, slot, queued, to)
}

const PART: PartOf = PartOf {
    is_unwatched: Worker::is_unwatched_part,
    ended: |worker, part, _, status| worker.multi_part_ended(part, status),
};

fn describe_tagged(slot: &Slot, _status: Status) -> Option<String> {
    let (what, length, tag) = (slot.kind.get().describe(), slot.length.get(), slot.tag.get());
    Some(format!("{what} of {length} bytes, tag 0x{tag:x}"))
}

fn describe_truncated(slot: &Slot, status: Status) -> Option<String> {
    let (what, length) = (slot.kind.get().describe(), slot.length.get());
    (status == Status::MESSAGE_TRUNCATED).then(|| format!("{what}: the message has {length} bytes"))
}

fn describe_multi(slot: &Slot, _status: Status) -> Option<String> {
    let trouble = slot.with_multi(|multi| multi.trouble.take()).flatten();
    let trouble = trouble.map_or(String::new(), |trouble| format!(": {trouble}"));
    Some(format!("{}, tag 0x{:x}{trouble}", slot.kind.get().describe(), slot.tag.get()))
}

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 0,
    of_worker: || Box::new(Multis::default()),
    operations: OPERATIONS,
    describe: Worker::describe_unexpected,
    ..Protocol::NOTHING
};

impl SharedWorker {
    pub(crate) fn multis(&self) -> &Multis {
        self.state_for_all(&PROTOCOL)
    }
}
