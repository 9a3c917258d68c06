//! The protocol table of fetches.

use crate::engine::base::status::Status;
use crate::engine::core::channel::handler_table::Handlers;
use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receivers::{Answers, Receiver};
use crate::engine::core::channel::send::post_message;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::error_text::cause_of_making;
use crate::engine::core::request::operations::{Operation, PartOf};
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::worker::protocol::{OfEndpoint, OfWorker, Protocol};
use crate::engine::core::worker::worker::Worker;
use crate::engine::messaging::fetch::fast_path::on_short_answer;
use crate::engine::messaging::fetch::pending_table::Fetches;
use crate::engine::messaging::fetch::reply::FetchTo;
use std::cell::Cell;

/// A fetch, and what an atomic operation shares with it.
pub(crate) const FETCH: Operation = Operation {
    take_over: Some(|_, slot, queued, endpoint, left| {
        if let Some(endpoint) = endpoint {
            endpoint.fetch_from_ring(slot, queued, left);
        }
    }),
    cancel: |worker, slot, reason| {
        // Otherwise its reply has started to arrive.
        if slot.number.get() != 0 {
            worker.end_fetch(slot, reason);
        }
    },
    describe: |slot, _| Some(format!("fetch, id {}", slot.queued.get().outgoing.id)),
    cause: cause_of_fetch,
    ..Operation::of(Kind::Fetch)
};

const OPERATIONS: &[Operation] = &[
    FETCH,
    Operation {
        post: post_message,
        part: Some(PartOf {
            is_unwatched: |_| false,
            ended: |worker, ask, _, status| worker.asked(ask, status),
        }),
        ..Operation::of(Kind::FetchAsk)
    },
    Operation {
        post: post_message,
        may_wait: |endpoint| !endpoint.takes_no_answers(),
        dropped: |_, _, queued, endpoint| {
            if let Some(endpoint) = endpoint {
                endpoint.answer_now(queued.outgoing.answers(), Status::CANCELED);
            }
        },
        ..Operation::of(Kind::FetchReply)
    },
];

fn cause_of_fetch(slot: &Slot, status: Status) -> Option<String> {
    if let Some(trouble) = cause_of_making(slot, status) {
        return Some(trouble);
    }
    let text = match status {
        Status::NO_ELEM => {
            "the peer has no handler for this id (ucxx_worker_set_fetch_handler), or its handler \
            has rejected it with UCXX_ERR_NO_ELEM"
                .to_owned()
        }
        Status::MESSAGE_TRUNCATED => {
            format!(
                "the reply has {} bytes, and there is room for {}",
                slot.length.get(),
                room_for_answer(slot)
            )
        }
        Status::BUSY | Status::REJECTED => format!(
            "the peer's handler has rejected it with \
            {status}"
        ),
        status if status.0 <= Status::APPLICATION.0 => {
            format!(
                "the peer's handler has rejected it with a status of the application's, {}",
                status.0
            )
        }
        _ => return None,
    };
    Some(text)
}

fn room_for_answer(slot: &Slot) -> u64 {
    let queued = slot.queued.get();
    if !queued.scattered {
        return queued.count as u64;
    }
    // SAFETY: the slot's own list, which does not change while it is in flight, and it still is.
    unsafe { &*slot.iov.get() }.iter().map(|part| part.length as u64).sum()
}

pub(crate) static PROTOCOL: Protocol = Protocol {
    place: 3,
    operations: OPERATIONS,
    of_worker: || Box::new(OfFetch { handlers: Handlers::default(), pending: Fetches::new() }),
    of_endpoint: || Box::new(Cell::new(false)),
    receives: &[Receiver {
        sort: Sort::Question,
        dispatch: |worker, slot, alone| {
            if alone {
                worker.dispatch_question::<true>(slot);
            } else {
                worker.dispatch_question::<false>(slot);
            }
        },
        left: Worker::answer_what_was_left,
        ..Receiver::NOBODY
    }],
    answers: Some(Answers {
        short: on_short_answer,
        beside: Worker::answer_came_beside,
        otherwise: Worker::answer_came,
    }),
    at_endpoint: |endpoint, what| {
        if matches!(what, OfEndpoint::Forgotten | OfEndpoint::WorkerEnded) {
            endpoint.drop_spare();
        }
    },
    at_end: |worker, step| {
        if step == OfWorker::DropsHandlers {
            worker.drop_all(worker.fetch_handlers().clear());
        }
    },
    ..Protocol::NOTHING
};

struct OfFetch {
    handlers: Handlers<FetchTo>,
    pending: Fetches,
}

impl Worker {
    #[inline(always)]
    pub(crate) fn fetch_handlers(&self) -> &Handlers<FetchTo> {
        &self.state::<OfFetch>(&PROTOCOL).handlers
    }

    #[inline(always)]
    pub(crate) fn fetches(&self) -> &Fetches {
        &self.state::<OfFetch>(&PROTOCOL).pending
    }
}

impl Endpoint {
    /// It has a reference that no request uses: see `Endpoint::lend`.
    #[inline(always)]
    pub(crate) fn spare(&self) -> &Cell<bool> {
        self.state(&PROTOCOL)
    }
}
