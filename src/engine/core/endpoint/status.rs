//! What any thread may read of an endpoint's life: its phase, and its status word, which every
//! operation checks: OK, or why the endpoint takes no operations.
//!
//! `core::endpoint::life` writes both, on the worker's thread. One exception: a close that another
//! thread submits writes CLOSED at once. So once other threads know the endpoint, a status that is
//! not final is written only by compare-exchange with the status that it follows, and never
//! overwrites CLOSED.

use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::endpoint::endpoint::{Endpoint, SharedEndpoint};
use std::sync::atomic::{AtomicU8, Ordering};

/// The public part of the stage. It only moves down this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Takes operations.
    Open,
    /// Being closed: earlier operations may complete.
    Flushing,
    /// UCP was told to close, or has failed by itself: requests complete.
    Ending,
    /// Released by UCP; `on_close` is due.
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

    /// OK while operations are taken, otherwise why not. Any thread.
    pub fn status(&self) -> Status {
        if self.worker().closed.load(Ordering::Acquire) {
            return Status::CLOSED;
        }
        match Status(self.status.load(Ordering::Acquire)) {
            status if status.is_error() => status,
            _ => Status::OK,
        }
    }

    /// Internal status: operations are taken, but none goes straight to UCP; see `is_held`.
    pub(crate) const HELD: Status = Status::INPROGRESS;
    /// The same before the first operation, which sends Hello and then goes straight to UCP.
    pub(crate) const SILENT: Status = Status(2);

    /// Replaces one of the two statuses above by OK. A close from another thread may have come
    /// first.
    pub(crate) fn open_status(&self, from: Status) {
        self.change_status(from, Status::OK);
    }

    /// The next operation must wait.
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

    /// Takes operations, and gives them to UCP at once.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.has_status(Status::OK)
    }

    /// Takes operations.
    pub(crate) fn takes_operations(&self) -> bool {
        !Status(self.status.load(Ordering::Relaxed)).is_error()
    }

    /// Refuses an operation if the endpoint takes none.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        let status = Status(self.status.load(Ordering::Relaxed));
        if !status.is_error() {
            return Ok(());
        }
        // An error status never changes back.
        Err(self.not_open(status))
    }

    /// The same for a thread that is outside the gate.
    pub(crate) fn check_open_outside(&self) -> Result<()> {
        self.worker().check_usable()?;
        self.check_open()
    }

    /// The error for an operation on an endpoint with this status.
    #[cold]
    pub fn not_open(&self, status: Status) -> Error {
        let why = match status {
            Status::CLOSED => "has been closed",
            Status::PEER_FAILED => "lost its peer",
            Status::TIMED_OUT => {
                "was closed by a timeout (connect_timeout_ns, liveness_ns, or an operation with \
                UCXX_FLAG_TIMEOUT_CLOSES)"
            }
            Status::REJECTED => "was refused by its peer",
            Status::UNREACHABLE => "could not be connected",
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
            _ => "has failed",
        };
        Error::new(status, format!("endpoint: to {} {why}", self.peer_text()))
    }
}

impl Endpoint {
    /// Translates an error of UCX on this endpoint.
    pub(crate) fn status_for(&self, ucx: Status) -> Status {
        match Status(self.status.load(Ordering::Relaxed)) {
            // No cancel from here, which would be the reason, and no Bye from the peer: UCX has
            // lost the peer, and will report it.
            status if !status.is_error() => match ucx.or_peer_failed() {
                Status::PEER_FAILED | Status::CANCELED => self.loss(),
                other => other,
            },
            // Closed on this side: the operation did not fail, it was cut short.
            Status::CLOSED => self.life().cut_short(),
            failed => failed,
        }
    }
}
