//! The state of a request that was handed to the progress thread. One atomic exchange decides
//! between submitting and cancelling it.
#![deny(unsafe_code)]

use crate::engine::base::sync::{AtomicU32, Ordering};

/// Never in the ring or on the control list, or taken out of it.
const STARTED: u32 = 0;
const QUEUED: u32 = 1;
/// Cancelled while queued.
const CANCELED: u32 = 2;

/// See the head of this file.
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

    /// Takes it over for submission. False if it was cancelled before.
    #[inline]
    pub(crate) fn dequeue(&self) -> bool {
        self.0.swap(STARTED, Ordering::AcqRel) == QUEUED
    }

    /// Cancels it if it was not taken over: it will not be submitted, or it is cancelled right
    /// after.
    pub(crate) fn cancel(&self) -> bool {
        let moved = self.0.compare_exchange(QUEUED, CANCELED, Ordering::AcqRel, Ordering::Relaxed);
        !matches!(moved, Err(STARTED))
    }
}
