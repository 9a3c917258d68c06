//! Which protocol receives which messages of the channel: one entry for each kind, from the
//! protocols' tables.

use crate::engine::core::channel::dispatch::{on_message_slow, Handler};
use crate::engine::core::channel::message::Sort;
use crate::engine::core::channel::receive::{Arrived, MESSAGES};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::header::Header;
use crate::sys;

/// Receives messages of one sort.
#[derive(Clone, Copy)]
pub(crate) struct Receiver {
    pub(crate) sort: Sort,
    /// There is a receiver for this id. Asked for data that waits at its sender, inside UCP's
    /// handler.
    pub(crate) wants: fn(&Worker, u16) -> bool,
    /// Delivers a message that is due and whose sender's connection is open. `alone`: as for
    /// `outside_as`. After UCP's pass.
    pub(crate) dispatch: fn(&Worker, &Slot, bool),
    /// Its user has released it without a reply: see `message::LEFT`.
    pub(crate) left: fn(&Worker, &Slot),
}

impl Receiver {
    /// For a sort without a receiver.
    pub(crate) const NOBODY: Receiver = Receiver {
        sort: Sort::Message,
        wants: |_, _| false,
        dispatch: |worker, slot, _| worker.message_gone(slot),
        left: |_, _| {},
    };
}

/// Receives replies, which have no sequence number. Inside UCP's handler.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    /// UCP's handler for short replies, the usual case: see `on_short`.
    pub(crate) short: Handler,
    /// A reply with its header beside its data, which is here. Returns false if nothing has
    /// happened: use `otherwise`.
    pub(crate) beside: fn(&Worker, &Header, &Arrived) -> bool,
    pub(crate) otherwise: fn(&Worker, &Header, &[u8], &Arrived) -> sys::ucs_status_t,
}

/// The receivers of a worker.
#[derive(Clone, Copy)]
pub(crate) struct Receivers {
    by_sort: [Receiver; Sort::COUNT],
    pub(crate) answers: Answers,
}

impl Receivers {
    pub(crate) fn new(receivers: impl Iterator<Item = Receiver>, answers: Option<Answers>) -> Self {
        let nobody = Answers {
            short: on_message_slow,
            beside: |_, _, _| false,
            otherwise: |_, _, _, _| sys::UCS_OK,
        };
        let mut by_sort = [Receiver::NOBODY; Sort::COUNT];
        by_sort[Sort::Message as usize] = MESSAGES;
        for receiver in receivers {
            by_sort[receiver.sort as usize] = receiver;
        }
        Receivers { by_sort, answers: answers.unwrap_or(nobody) }
    }

    #[inline(always)]
    pub(crate) fn of(&self, sort: Sort) -> &Receiver {
        &self.by_sort[sort as usize]
    }
}
