//! Multi-buffer transfer in its tag form: what both directions share.
//!
//! One operation of the caller consists of many of UCP's: headers, which announce frames, and the
//! frames (`wire::ucxx_multi`). Each of these has its own slot, which refers to the caller's
//! operation. That operation completes when the last of them has, with the first failure among
//! them. Its state besides the slot is reused for later operations, so nothing is allocated in a
//! steady state.

use crate::engine::base::status::Status;
use crate::engine::core::request::buffer::Part;
use crate::engine::core::request::request::{mark, Kind, Part as Of, Slot, Ticket, USER};
use crate::engine::core::worker::inward::Gated;
use crate::engine::core::worker::worker::Worker;
use crate::engine::wire::ucxx_multi::Announced;
use crossbeam_queue::ArrayQueue;
use std::cell::RefCell;

/// Number of states that are kept.
const KEPT: usize = 64;
/// A state that has had more frames than this is not kept.
const MOST_FRAMES_KEPT: usize = 4096;

/// The state of one operation besides its slot. Belongs to the owner of the slot.
#[derive(Default)]
pub(crate) struct Multi {
    /// The parts to send.
    pub(crate) parts: Vec<Part>,
    /// The headers to send, or the one to receive.
    pub(crate) headers: Vec<u8>,
    /// The frames to receive.
    pub(crate) announced: Vec<Announced>,
    pub(crate) incoming: Incoming,
    /// What is wrong with what arrived, for the error message.
    pub(crate) trouble: Option<String>,
}

// SAFETY: it refers to the caller's memory, which goes from thread to thread with its slot.
unsafe impl Send for Multi {}

/// How far a receive is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Stage {
    /// An earlier receive must first have all its frames posted.
    #[default]
    Waiting,
    /// It waits for a header.
    Heading,
    /// A header has arrived, and is handled after the pass.
    Announced,
    /// It waits for frames.
    Framing,
}

/// What a receive knows of its messages.
#[derive(Clone, Copy, Default)]
pub(crate) struct Incoming {
    pub(crate) stage: Stage,
    /// Bytes of the header that has arrived.
    pub(crate) header_length: usize,
    pub(crate) headers: usize,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    /// Its frames are dropped when they arrive, for this reason.
    pub(crate) refusal: Option<Status>,
    /// Of those, so many were not posted yet.
    pub(crate) to_drop: u64,
    /// A part of it was left to UCP: see `Worker::keep_for_ucp`.
    pub(crate) left_to_ucp: bool,
}

/// The multi-buffer transfers of a worker.
pub(crate) struct Multis {
    /// Any thread.
    unused: ArrayQueue<Box<Multi>>,
    /// Receives that have not posted all their frames, in the order of their submission.
    pub(crate) receives: Gated<RefCell<Vec<Ticket>>>,
}

impl Default for Multis {
    fn default() -> Self {
        Multis { unused: ArrayQueue::new(KEPT), receives: Gated::default() }
    }
}

impl Multis {
    /// A state for a new operation. Any thread.
    pub(crate) fn take(&self) -> Box<Multi> {
        self.unused.pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, mut multi: Box<Multi>) {
        multi.parts.clear();
        multi.headers.clear();
        multi.announced.clear();
        multi.incoming = Incoming::default();
        multi.trouble = None;
        if multi.parts.capacity().max(multi.announced.capacity()) <= MOST_FRAMES_KEPT {
            // Beyond `KEPT` it is freed.
            drop(self.unused.push(multi));
        }
    }
}

impl Slot {
    /// Reads or changes the operation's state. None if it has none.
    pub(crate) fn with_multi<T>(&self, look: impl FnOnce(&mut Multi) -> T) -> Option<T> {
        let mut multi = self.take_multi()?;
        let result = look(&mut multi);
        self.state.set(Some(multi));
        Some(result)
    }

    /// Takes the state out of the slot.
    pub(crate) fn take_multi(&self) -> Option<Box<Multi>> {
        self.state.take()?.downcast().ok()
    }

    /// It is a part of this operation.
    pub(crate) fn is_part_of(&self, operation: &Slot) -> bool {
        let (Of::Frame(of, _) | Of::Heading(of)) = self.part.get() else { return false };
        std::ptr::eq(of.slot, operation) && of.current().is_some()
    }
}

impl Worker {
    /// A part of an operation has completed.
    pub(crate) fn multi_part_ended(&self, part: &Slot, status: Status) {
        match part.part.get() {
            Of::Heading(of) => {
                if let Some(operation) = of.current() {
                    self.header_came(operation, status, part.length.get(), part.tag.get());
                }
            }
            Of::Frame(of, index) => {
                let Some(operation) = of.current() else { return };
                if operation.kind.get() == Kind::TagRecvMulti {
                    return self.frame_came(operation, index, status, part.length.get());
                }
                if status.is_error() {
                    operation.note_reason(status);
                }
                self.one_part_less(operation);
            }
            _ => {}
        }
    }

    fn one_part_less(&self, operation: &Slot) {
        operation.remaining.set(operation.remaining.get() - 1);
        if operation.remaining.get() == 0 {
            self.complete(operation, Status(operation.reason.get()));
        }
    }

    /// UCP may still write where this part receives: memory of the library there stays until the
    /// end of the worker.
    pub(crate) fn keep_for_ucp(&self, part: &Slot) {
        if let Of::Heading(of) | Of::Frame(of, _) = part.part.get() {
            if let Some(operation) = of.current() {
                // The other parts still need it.
                operation.with_multi(|multi| multi.incoming.left_to_ucp = true);
            }
        }
    }

    /// Only a flush can report this part's failure.
    pub(crate) fn is_unwatched_part(part: &Slot) -> bool {
        let Of::Frame(of, _) = part.part.get() else { return false };
        of.current().is_none_or(|operation| {
            operation.callback.get().is_none() && operation.hold.get() & USER == 0
        })
    }

    /// The operation has its result.
    pub(crate) fn multi_ended(&self, operation: &Slot) {
        if operation.kind.get() == Kind::TagRecvMulti {
            self.forget_receive(operation);
        }
        let Some(multi) = operation.take_multi() else { return };
        if !multi.incoming.left_to_ucp {
            return self.multis().give_back(multi);
        }
        self.leave_to_ucp(multi);
        if let Some(making) = operation.making.take() {
            self.leave_to_ucp(making);
        }
    }

    /// Ends an operation early, as far as that is possible.
    pub(crate) fn cancel_multi(&self, operation: &Slot, reason: Status) {
        let parts = |slot: &Slot| slot.is_part_of(operation);
        if operation.kind.get() == Kind::TagRecvMulti {
            operation.reason.set(reason.0);
            operation.with_multi(|multi| multi.incoming.to_drop = 0);
            if operation.remaining.get() == 0 {
                return self.complete(operation, reason);
            }
            return self.for_each_picked(parts, |part| self.cancel_slot(part, reason));
        }
        // Once a header was sent, the receiver relies on what it announces.
        let (mut waiting, mut under_way) = (0, 0);
        self.for_each_live(|slot| {
            if slot.is_part_of(operation) {
                waiting += usize::from(slot.has_mark(mark::WAITING));
                under_way += 1;
            }
        });
        let all = operation.with_multi(|multi| multi.count_parts());
        if waiting == under_way && Some(waiting) == all {
            operation.reason.set(reason.0);
            self.for_each_picked(parts, |part| self.cancel_slot(part, reason));
        }
    }
}
