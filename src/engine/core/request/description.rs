//! What UCX says of an operation that it has begun: length, protocol, transports. Kept only by
//! workers that are created with `describe_requests`.
//!
//! - UCX 1.14 and later find the worker of a request by the memory pool that it is from, so they
//!   can only describe requests that they have allocated. Such a worker lets UCX allocate them
//!   (`Param::let_ucx_describe`). The slot is the callback's argument, and the request goes back to
//!   UCX when it has completed.
//! - UCX can describe a request only while it is in flight, so the text is taken when UCX's call
//!   has returned (`Returned::of`).
//! - Such a worker has no fast path, whose parameters are made before there is a slot.

use crate::engine::base::lockdep::Mutex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::request::{mark, Kind, Slot};
use crate::engine::ucx::runtime::{ucx_release, Release};
use crate::sys;
use std::cell::Cell;
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;

/// Longest text of UCX, with its terminator.
const LONGEST: usize = 1024;
const AT_ONCE: &str = "completed at once";
const NOTHING: &str = "UCX does not describe this operation";
/// In older releases, puts and gets that end early follow what an earlier use of their request has
/// left there. This library clears its own request memory, but cannot clear UCX's.
const CLEARS_REQUESTS: Release = Release::new(1, 16);

/// In each slot of a worker that describes requests.
pub(crate) struct Description {
    /// The request that UCX has allocated, from the return of UCX's call to its completion;
    /// otherwise null.
    request: Cell<*mut c_void>,
    /// The use of the slot that it describes, and the text. Read by any thread.
    text: Mutex<Option<(u32, String)>>,
}

impl Description {
    pub(crate) fn new() -> Self {
        Description { request: Cell::new(null_mut()), text: Mutex::new(None) }
    }

    /// UCX's call has returned a request. `ended`: UCX has called back inside its call.
    #[cold]
    #[inline(never)]
    fn returned(&self, slot: &Slot, request: *mut c_void, ended: bool) {
        let is_allocated = request != slot.own_request();
        if ended {
            if is_allocated {
                // SAFETY: allocated by UCX for the call that has returned it, and completed.
                unsafe { sys::ucp_request_free(request) };
            }
            return self.keep(slot, AT_ONCE.to_owned());
        }
        let text = is_allocated.then(|| {
            self.request.set(request);
            // SAFETY: allocated by UCX for the call that has returned it, and in flight.
            unsafe { ask_ucx(request) }
        });
        self.keep(slot, text.flatten().unwrap_or_else(|| NOTHING.to_owned()));
    }

    #[cold]
    #[inline(never)]
    fn done(&self, slot: &Slot) {
        self.keep(slot, AT_ONCE.to_owned());
    }

    fn keep(&self, slot: &Slot, text: String) {
        *self.text.lock() = Some((slot.use_number(), text));
    }
}

/// UCX may allocate the request of such an operation.
pub(crate) fn may_allocate(kind: Kind) -> bool {
    !kind.is_one_sided() || ucx_release() >= CLEARS_REQUESTS
}

/// # Safety
/// A request that UCX has allocated, and that has not completed. Inside its worker's gate.
unsafe fn ask_ucx(request: *mut c_void) -> Option<String> {
    let mut bytes = [0u8; LONGEST];
    let mut attr = sys::ucp_request_attr_t {
        field_mask: u64::from(
            sys::UCP_REQUEST_ATTR_FIELD_INFO_STRING | sys::UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE,
        ),
        debug_string: bytes.as_mut_ptr().cast(),
        debug_string_size: LONGEST,
        status: sys::UCS_OK,
        mem_type: sys::UCS_MEMORY_TYPE_HOST,
    };
    // SAFETY: the caller guarantees the request; the text has room.
    let status = unsafe { sys::ucp_request_query(request, &mut attr) };
    let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_string_lossy();
    let is_known = status == sys::UCS_OK && !text.is_empty() && !text.contains("<no debug info>");
    is_known.then(|| text.trim().to_owned())
}

/// UCX describes such operations. Others consist of messages of this library, or of UCX's flushes.
fn is_describable(kind: Kind) -> bool {
    kind.is_send() || matches!(kind, Kind::TagRecv | Kind::TagMessageRecv)
}

impl Slot {
    /// UCX's call has returned a request: see `Description::returned`.
    #[inline(always)]
    pub(crate) fn note_request(&self, request: *mut c_void, ended: bool) {
        if let Some(description) = &self.description {
            description.returned(self, request, ended);
        }
    }

    /// UCX has completed the operation inside its call, and its caller has a request.
    #[inline(always)]
    pub(crate) fn note_done(&self) {
        if let Some(description) = &self.description {
            description.done(self);
        }
    }

    /// The operation in flight, as UCX knows it.
    pub(crate) fn ucx_request(&self) -> *mut c_void {
        let allocated = self.description.as_deref().map(|description| description.request.get());
        match allocated.filter(|request| !request.is_null()) {
            Some(request) => request,
            None => self.own_request(),
        }
    }

    /// The request memory before the slot, as UCX knows it.
    fn own_request(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// What UCX said of the operation when it had begun it, or why there is nothing.
    pub fn description(&self) -> Result<String> {
        self.check_fork()?;
        let Some(description) = &self.description else {
            let text = "request: its worker was created without describe_requests";
            return Err(Error::new(Status::UNSUPPORTED, text));
        };
        if let Some((number, text)) = &*description.text.lock() {
            if *number == self.use_number() {
                return Ok(text.clone());
            }
        }
        if !is_describable(self.kind.get()) {
            return Ok(NOTHING.to_owned());
        }
        let text = if self.has_ended() {
            "ended before UCX had begun it"
        } else {
            "waits in the library: UCX does not have it yet"
        };
        Ok(text.to_owned())
    }
}

/// UCX's callback for a request that UCX has allocated: `next` gets the slot in its place, and UCX
/// gets the request back.
///
/// # Safety
/// Called by UCX, inside the gate. `slot` is the slot that was given to UCX with the operation.
unsafe fn with_slot(request: *mut c_void, slot: *mut c_void, next: impl FnOnce(*mut c_void)) {
    // SAFETY: the caller guarantees it.
    let described = unsafe { &*slot.cast::<Slot>() };
    // Otherwise UCX's call, which has not returned yet, returns the request.
    let is_over = !described.has_mark(mark::SUBMITTING);
    if let Some(description) = &described.description {
        description.request.set(null_mut());
    }
    next(slot);
    if is_over {
        // SAFETY: allocated by UCX, completed, and given back once.
        unsafe { sys::ucp_request_free(request) };
    }
}

/// `completion::on_sent` for a request that UCX has allocated.
pub(crate) unsafe extern "C" fn on_sent(
    request: *mut c_void,
    status: sys::ucs_status_t,
    slot: *mut c_void,
) {
    use crate::engine::core::request::completion::on_sent;
    // SAFETY: UCX calls back inside the gate, with the slot that it was given.
    unsafe { with_slot(request, slot, |slot| on_sent(slot, status, slot)) };
}

/// `completion::on_received` for a request that UCX has allocated.
pub(crate) unsafe extern "C" fn on_received(
    request: *mut c_void,
    status: sys::ucs_status_t,
    info: *const sys::ucp_tag_recv_info_t,
    slot: *mut c_void,
) {
    use crate::engine::core::request::completion::on_received;
    // SAFETY: UCX calls back inside the gate, with the slot that it was given.
    unsafe { with_slot(request, slot, |slot| on_received(slot, status, info, slot)) };
}
