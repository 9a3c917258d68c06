//! The functions of each kind of operation, in tables from the protocols: the core does not know
//! them by name.

use crate::engine::base::status::Status;
use crate::engine::core::channel::message::on_pulled;
use crate::engine::core::endpoint::endpoint::Endpoint;
use crate::engine::core::request::operation::OpParams;
use crate::engine::core::request::request::{Kind, Slot};
use crate::engine::core::worker::submission_ring::Queued;
use crate::engine::core::worker::worker::{SharedWorker, Worker};
use crate::sys;

/// Gives an operation to UCP; the slot is UCP's request.
pub(crate) type Post = fn(&Worker, &Slot, &Queued, Option<&Endpoint>) -> sys::ucs_status_ptr_t;
/// Takes an operation over from the ring, with the rest of its time limit.
pub(crate) type TakeOver = fn(&Worker, &Slot, &Queued, Option<&Endpoint>, &OpParams);

/// An operation, as the core sees it.
#[derive(Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) post: Post,
    /// Used instead of `post` if it takes more than one call of UCP.
    pub(crate) take_over: Option<TakeOver>,
    /// It may start although its endpoint is no longer open.
    pub(crate) outlasts: fn(&Endpoint) -> bool,
    /// It may wait in its endpoint's queue. Otherwise the endpoint has ended.
    pub(crate) may_wait: fn(&Endpoint) -> bool,
    /// Ends it early, as far as that is possible.
    pub(crate) cancel: fn(&Worker, &Slot, Status),
    /// UCP was never given it.
    pub(crate) dropped: fn(&Worker, &Slot, &Queued, Option<&Endpoint>),
    /// UCP still has it, and its caller has a status: memory of the library must stay.
    pub(crate) abandoned: fn(&Worker, &Slot),
    /// It has its result: releases what it holds.
    pub(crate) ended: fn(&Worker, &Slot),
    /// For an internal operation: what its completion means for the operation that it is part of.
    pub(crate) part: Option<PartOf>,
    /// Identifies it in an error message, if more is known than its kind.
    pub(crate) describe: fn(&Slot, Status) -> Option<String>,
    /// Why it failed, if more is known than the status.
    pub(crate) cause: fn(&Slot, Status) -> Option<String>,
}

/// For an operation that is part of another one.
#[derive(Clone, Copy)]
pub(crate) struct PartOf {
    /// Only a flush can report its failure.
    pub(crate) is_unwatched: fn(&Slot) -> bool,
    pub(crate) ended: fn(&Worker, &Slot, Option<&Endpoint>, Status),
}

impl Operation {
    /// The default table of a kind.
    pub(crate) const fn of(kind: Kind) -> Self {
        Operation {
            kind,
            post: |_, _, _, _| sys::status_pointer(sys::UCS_ERR_UNSUPPORTED),
            take_over: None,
            outlasts: |_| false,
            may_wait: |_| true,
            cancel: |_, _, _| {},
            dropped: |_, _, _, _| {},
            abandoned: |_, _| {},
            ended: |_, _| {},
            part: None,
            describe: |_, _| None,
            cause: |_, _| None,
        }
    }
}

/// The table of every kind, by its number.
pub(crate) struct Operations([Operation; Kind::COUNT]);

impl Operations {
    pub(crate) fn new(of_protocols: impl Iterator<Item = Operation>) -> Self {
        let mut all = [Operation::of(Kind::Free); Kind::COUNT];
        for operation in OWN.iter().copied().chain(of_protocols) {
            all[operation.kind as usize] = operation;
        }
        Operations(all)
    }

    #[inline]
    pub(crate) fn of(&self, kind: Kind) -> &Operation {
        &self.0[kind as usize]
    }
}

/// The core's own operations.
const OWN: &[Operation] = &[
    Operation { cancel: end_flush, ..Operation::of(Kind::EndpointFlush) },
    Operation { cancel: end_flush, ..Operation::of(Kind::WorkerFlush) },
    Operation {
        post: |worker, slot, queued, _| {
            worker.post_pull(slot, queued.pulled.data, queued, on_pulled)
        },
        outlasts: |_| true,
        ..Operation::of(Kind::AmRecv)
    },
];

fn end_flush(worker: &Worker, slot: &Slot, reason: Status) {
    worker.forget_flush(slot);
    slot.reason.set(reason.0);
    worker.complete(slot, reason);
}

impl SharedWorker {
    #[inline]
    pub(crate) fn operation(&self, slot: &Slot) -> &Operation {
        self.operations.of(slot.kind.get())
    }
}
