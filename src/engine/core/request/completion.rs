//! UCP's result of an operation: how the operation leaves UCP's call, and UCP's callback if it
//! completes later. Both lead to `Worker::complete`.
//!
//! UCP may call back before the call that started the operation has returned. The callback then
//! only sets `mark::INLINE`, and the call completes the operation: `Returned` shows it.

use crate::engine::base::status::Status;
use crate::engine::core::request::request::{mark, Kind, Slot, UCP};
use crate::engine::core::worker::inward::Guarded;
use crate::engine::core::worker::worker::Worker;
use crate::sys::{self, Posted};
use std::ffi::c_void;

/// How an operation left UCP's call.
pub(crate) enum Returned {
    /// UCP has completed it, and does not call back.
    Done,
    /// UCP has refused it.
    Refused(Status),
    /// UCP has already called back.
    Ended(Status),
    /// It is in flight.
    Pending,
}

impl Returned {
    /// For a slot that was SUBMITTING during the call, which has returned `pointer`.
    #[inline(always)]
    pub(crate) fn of(slot: &Slot, pointer: sys::ucs_status_ptr_t) -> Self {
        match Posted::from_pointer(pointer) {
            Posted::Done => Returned::Done,
            Posted::Failed(status) => Returned::Refused(Status(status.into())),
            Posted::Pending if slot.has_mark(mark::INLINE) => {
                slot.note_request(pointer, true);
                Returned::Ended(Status(slot.reason.replace(0)))
            }
            Posted::Pending => {
                slot.note_request(pointer, false);
                Returned::Pending
            }
        }
    }

    /// It is in flight. Two comparisons.
    #[inline(always)]
    pub(crate) fn is_pending(slot: &Slot, pointer: sys::ucs_status_ptr_t) -> bool {
        sys::is_pending(pointer) && !slot.has_mark(mark::INLINE)
    }

    /// UCP has already called back, and told a success. For one that is not in flight.
    #[inline(always)]
    pub(crate) fn is_early(slot: &Slot) -> bool {
        slot.has_mark(mark::INLINE) && slot.reason.get() == 0
    }

    /// Its status, if it has completed in any way.
    pub(crate) fn ended(self) -> Option<Status> {
        match self {
            Returned::Done => Some(Status::OK),
            Returned::Refused(status) | Returned::Ended(status) => Some(status),
            Returned::Pending => None,
        }
    }
}

/// UCP has completed an operation, possibly before the call that started it has returned. That call
/// then completes it.
pub(crate) fn ended(worker: &Worker, slot: &Slot, status: Status) {
    if worker.is_over.get() {
        // UCP's worker is destroyed late (see `ucx::deferred_destroy`): all callers already have
        // their results.
    } else if slot.hold.get() & UCP != 0 {
        worker.abandoned_is_back(slot);
    } else if slot.has_mark(mark::SUBMITTING) {
        slot.add_mark(mark::INLINE);
        slot.reason.set(status.0);
    } else {
        worker.complete(slot, status);
    }
}

/// The slot that UCP calls back for, and its worker.
///
/// # Safety
/// Called by UCP's callback, which runs inside the gate; the request memory that UCP was given is a
/// slot.
#[inline(always)]
pub(crate) unsafe fn inside<'a>(request: *mut c_void) -> (&'a Worker, &'a Slot) {
    // SAFETY: the caller guarantees that the request is a slot, and that this is inside the gate.
    unsafe {
        let slot = &*request.cast::<Slot>();
        (slot.worker().inside(), slot)
    }
}

/// UCP has completed a send, a flush or a close.
pub(crate) unsafe extern "C" fn on_sent(
    request: *mut c_void,
    status: sys::ucs_status_t,
    _user_data: *mut c_void,
) {
    let _ = std::panic::catch_unwind(|| {
        // SAFETY: the request memory that UCP was given is a slot, and stays one until it
        // completes, here. UCP calls back inside progress or another call of the library, hence
        // inside the gate.
        let (worker, slot) = unsafe { inside(request) };
        ended(worker, slot, Status(status.into()));
    });
}

/// UCP has completed a receive, possibly before the call that posted it has returned.
pub(crate) unsafe extern "C" fn on_received(
    request: *mut c_void,
    status: sys::ucs_status_t,
    info: *const sys::ucp_tag_recv_info_t,
    _user_data: *mut c_void,
) {
    // SAFETY: the request memory that UCP was given is a slot, and stays one until it completes,
    // here. UCP calls back inside progress or another call of the library, hence inside the gate.
    let (worker, slot) = unsafe { inside(request) };
    // SAFETY: UCP passes a valid info, or none.
    let info = unsafe { info.as_ref() };
    if let (sys::UCS_OK, Some(info), true) = (status, info, slot.is_plain()) {
        slot.length.set(info.length as u64);
        slot.tag.set(info.sender_tag);
        return slot.complete_fast(worker, Kind::TagRecv);
    }
    received(worker, slot, status, info);
}

/// A receive that has more than its request, that is being posted, or that failed.
#[inline(never)]
extern "C" fn received(
    worker: &Worker,
    slot: &Slot,
    status: sys::ucs_status_t,
    info: Option<&sys::ucp_tag_recv_info_t>,
) {
    if let (sys::UCS_OK, Some(info), mark::SUBMITTING) = (status, info, slot.marks.get()) {
        slot.length.set(info.length as u64);
        slot.tag.set(info.sender_tag);
        return slot.add_mark(mark::INLINE);
    }
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let status = Status(status.into());
        let info = info.filter(|_| matches!(status, Status::OK | Status::MESSAGE_TRUNCATED));
        // Its caller may already have a status.
        if slot.hold.get() & UCP == 0 {
            slot.length.set(info.map_or(0, |info| info.length as u64));
            slot.tag.set(info.map_or(0, |info| info.sender_tag));
        }
        ended(worker, slot, status);
    }));
}
