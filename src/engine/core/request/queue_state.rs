//! Where a request that was handed to the progress thread is: whoever moves it on first decides
//! between submitting and cancelling it.
#![deny(unsafe_code)]

use crate::engine::base::sync::{AtomicU32, Ordering};

/// Never was in the ring or on the control list, or was taken out of it.
const STARTED: u32 = 0;
const QUEUED: u32 = 1;
/// Cancelled where it is.
const CANCELED: u32 = 2;

/// See the top of this file.
pub(crate) struct Stage(AtomicU32);

impl Stage {
    pub(crate) fn new() -> Self {
        Stage(AtomicU32::new(STARTED))
    }

    /// It is about to be handed over.
    #[inline]
    pub(crate) fn enqueue(&self) {
        self.0.store(QUEUED, Ordering::Relaxed);
    }

    /// Taken over, to be submitted now. False when it was cancelled before.
    #[inline]
    pub(crate) fn dequeue(&self) -> bool {
        self.0.swap(STARTED, Ordering::AcqRel) == QUEUED
    }

    /// Cancels it if it has not been taken over: it will not be submitted, or be cancelled as soon
    /// as it is.
    pub(crate) fn cancel(&self) -> bool {
        let moved = self.0.compare_exchange(QUEUED, CANCELED, Ordering::AcqRel, Ordering::Relaxed);
        !matches!(moved, Err(STARTED))
    }
}
