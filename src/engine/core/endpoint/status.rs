//! What any thread reads of an endpoint's life: the phase, and whether it takes operations, or why
//! not, which is one word that every operation looks at.
//!
//! Both are written inside the worker's gate, by `core::endpoint::life`, but for a close that
//! another thread hands over, which writes CLOSED at once. So what is no end is only ever written
//! in exchange for what it follows.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use std::sync::atomic::{AtomicU8, Ordering};

/// What other threads see of the stage; only ever moves down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Takes operations.
    Open,
    /// Being closed: what was submitted before is let finish.
    Flushing,
    /// UCP has been told to close, or gave up by itself: requests come back.
    Ending,
    /// UCP knows nothing of it any more; `on_close` is due.
    Closed,
    /// `on_close` has returned.
    Reported,
}

/// The phase of one endpoint.
pub(crate) struct SharedPhase(AtomicU8);

impl Default for SharedPhase {
    fn default() -> Self {
        SharedPhase(AtomicU8::new(Phase::Open as u8))
    }
}

impl SharedPhase {
    pub(super) fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Release);
    }
}

impl SharedEndpoint {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.0.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Flushing,
            2 => Phase::Ending,
            3 => Phase::Closed,
            _ => Phase::Reported,
        }
    }

    /// OK while operations are taken, else why not. Any thread.
    pub fn status(&self) -> Status {
        if self.worker().closed.load(Ordering::Acquire) {
            return Status::CLOSED;
        }
        match Status(self.status.load(Ordering::Acquire)) {
            status if status.is_error() => status,
            _ => Status::OK,
        }
    }

    /// The status, inside, while operations are taken but none goes straight to UCP: see `is_held`.
    pub(crate) const HELD: Status = Status::INPROGRESS;
    /// The same before the first operation, which makes the endpoint say Hello, and goes straight
    /// to UCP then.
    pub(crate) const SILENT: Status = Status(2);

    /// From one of the above; a close from outside the gate may have come first.
    pub(crate) fn open_status(&self, from: Status) {
        self.change_status(from, Status::OK);
    }

    /// What comes next has to wait.
    pub(crate) fn hold(&self) {
        self.change_status(Status::OK, Self::HELD);
    }

    fn change_status(&self, from: Status, to: Status) {
        let _ = self.status.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn has_status(&self, status: Status) -> bool {
        self.status.load(Ordering::Relaxed) == status.0
    }

    pub(crate) fn set_status(&self, status: Status) {
        self.status.store(status.0, Ordering::Release);
    }

    /// Takes operations, and hands them to UCP at once.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.has_status(Status::OK)
    }

    /// Takes operations.
    pub(crate) fn takes_operations(&self) -> bool {
        !Status(self.status.load(Ordering::Relaxed)).is_error()
    }

    /// Refuses an operation on an endpoint that takes none.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        let status = Status(self.status.load(Ordering::Relaxed));
        if !status.is_error() {
            return Ok(());
        }
        // Once it is one it stays one.
        Err(self.not_open(status))
    }

    /// The same for a thread that is not inside the gate.
    pub(crate) fn check_open_outside(&self) -> Result<()> {
        self.worker().check_usable()?;
        self.check_open()
    }

    /// Why it takes nothing, as an error.
    #[cold]
    pub fn not_open(&self, status: Status) -> Error {
        let why = match status {
            Status::CLOSED => "has been closed",
            Status::PEER_FAILED => "lost its peer",
            Status::TIMED_OUT => "was closed when a time ran out",
            Status::REJECTED => "was refused by its peer",
            Status::UNREACHABLE => "found no peer",
            Status::CONNECTION_RESET => "was closed by its peer",
            Status::UNSUPPORTED => {
                return Error::new(
                    status,
                    format!(
                        "endpoint: to {}, which {}",
                        self.peer_text(),
                        self.refusal().unwrap_or_default()
                    ),
                )
            }
            _ => "is not usable",
        };
        Error::new(status, format!("endpoint: to {} {why}", self.peer_text()))
    }
}

impl Endpoint {
    /// What an error of UCX's means on this endpoint.
    pub(crate) fn status_for(&self, ucx: Status) -> Status {
        match Status(self.status.load(Ordering::Relaxed)) {
            // Nobody here has cancelled it: that would be its reason. Nor has the peer said Bye:
            // UCX has found it gone, and will say so.
            status if !status.is_error() => match ucx.or_peer_failed() {
                Status::PEER_FAILED | Status::CANCELED => self.loss(),
                other => other,
            },
            // Closed here: the operation did not fail, it was cut short.
            Status::CLOSED => self.life().cut_short(),
            failed => failed,
        }
    }
}
