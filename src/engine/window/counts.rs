//! Counters of a window.
//!
//! Data calls may come from any thread, and many take no longer than an atomic operation would. So
//! their counters are plain stores: exact as long as threads take turns; of calls at the same
//! moment on the same window some may be missed.
#![deny(unsafe_code)]

use crate::engine::base::counters::{Counter, Failures};
use crate::engine::base::status::Result;
use crate::engine::window::access::Reach;
use crate::engine::window::window::Target;

/// Data calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DataCall {
    Put,
    Get,
    Accumulate,
    CompareAndSwap,
}

impl DataCall {
    pub(crate) const NAMES: [&str; 4] = ["put", "get", "accumulate", "compare_and_swap"];
}

/// How a call reached the target's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    /// Mapped here.
    Mapped,
    /// By the kernel, or by the target itself while it waits (see `window::delegation`).
    Process,
    Message,
}

impl Way {
    pub(crate) const NAMES: [&str; 3] = ["mapped", "process", "message"];

    fn to(target: &Target) -> Self {
        match target.reach {
            Reach::Mapped(_) | Reach::AttachedHere => Way::Mapped,
            Reach::Process(..) | Reach::Attached(_) => Way::Process,
            Reach::Messages(_) => Way::Message,
        }
    }
}

/// In cache lines of its own, because data calls write it and read what is beside it.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counts {
    pub(crate) calls: [[Counter; 3]; 4],
    pub(crate) bytes: [Counter; 4],
    /// Operations on memory of processes of this host that the target did, and not the kernel.
    pub(crate) delegated: Counter,
    pub(crate) failed: Failures,
    /// Locks of this process, and those that it had to wait for.
    pub(crate) locks: Counter,
    pub(crate) lock_waits: Counter,
    pub(crate) flushes: Counter,
}

impl Counts {
    /// A call is done.
    #[inline(always)]
    pub(crate) fn done(&self, call: DataCall, way: Way, bytes: u64) {
        self.calls[call as usize][way as usize].add(1);
        self.bytes[call as usize].add(bytes);
    }

    /// A call has returned this.
    #[inline(always)]
    pub(crate) fn returned(
        &self,
        result: Result<()>,
        call: DataCall,
        target: Option<&Target>,
        bytes: u64,
    ) -> Result<()> {
        match (&result, target) {
            (Ok(()), Some(target)) => self.done(call, Way::to(target), bytes),
            (Ok(()), None) => {}
            (Err(error), _) => self.failed.count(error.status()),
        }
        result
    }
}
