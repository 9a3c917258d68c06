//! What all operations have in common: their parameters, and where the request goes.

use super::guard;
use super::handle::{ucxx_endpoint_t, ucxx_memory_t, ucxx_notifier_t, ucxx_request_t};
use super::params::{self, sized};
use super::request::ucxx_recv_info_t;
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, RecvInfo, Submitted};
use std::ffi::c_void;

/// Runs once when an operation has completed after its call returned INPROGRESS: outside every
/// lock, on the thread that drives progress. `request` is valid during the call even when the
/// caller kept none, and NULL after an early destroy. It may call every function; those that wait
/// return BUSY. It must not throw.
pub type ucxx_request_callback_t = Option<
    unsafe extern "C" fn(arg: *mut c_void, request: *mut ucxx_request_t, status: ucxx_status_t),
>;

/// What every operation takes beside its own arguments; NULL means all defaults.
///
/// `flags`, `timeout_ns`, and `callback` or `notifier` are for all operations. The others are
/// checked by all, and used by those that have a use for them:
/// - `memory_type`, `memory`: operations on one buffer; an entry of a list has its own memory type;
/// - `recv_info`: receives and fetches. Others may write to it: leave it NULL;
/// - `source`: tag receives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_op_params {
    /// Set by UCXX_OP_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_FLAG_*. WAIT excludes a callback, a notifier and ALWAYS_CALLBACK, EAGER excludes RNDV.
    /// A flag that is not for the operation is INVALID_PARAM. DELAYED, through the queue even from
    /// where it could go directly, needs a progress thread: UNSUPPORTED without one.
    pub flags: u64,
    /// UCXX_MEMORY_* of the caller's buffer; saying HOST saves the detection.
    pub memory_type: i32,
    /// Zero.
    pub reserved: u32,
    /// Nanoseconds; 0 for none. At the end of it the operation is cancelled as by
    /// ucxx_request_cancel, with TIMED_OUT, also under UCXX_FLAG_WAIT: so what UCX has taken, as a
    /// large send that nobody receives, goes on beyond it. With UCXX_FLAG_TIMEOUT_CLOSES its
    /// endpoint is closed by force if that is what it takes.
    pub timeout_ns: u64,
    /// Runs when the operation completes, unless it did so inside the call (but see
    /// UCXX_FLAG_ALWAYS_CALLBACK).
    pub callback: ucxx_request_callback_t,
    /// Passed to the callback, or with the notifier's report. Has to live until that.
    pub callback_arg: *mut c_void,
    /// Instead of a callback: reports when the operation completes, unless it did so inside the
    /// call (but see UCXX_FLAG_ALWAYS_CALLBACK). Of the same context, and not stopped. Optional.
    pub notifier: *mut ucxx_notifier_t,
    /// Registered memory of the same context that covers the buffer. A hint: UCX finds what it has
    /// registered by itself. Optional.
    pub memory: *mut ucxx_memory_t,
    /// Filled when a receive or a fetch completes, also inside the call, and for a stream receive
    /// also when it fails; kept valid by the caller until then. Optional.
    pub recv_info: *mut ucxx_recv_info_t,
    /// Tag receives: end with this endpoint's failure or close, too, and at once if it has ended
    /// already, also where the message has arrived; has no effect on matching. Optional.
    pub source: *mut ucxx_endpoint_t,
}
/// What every operation takes beside its own arguments; NULL means all defaults.
pub type ucxx_op_params_t = ucxx_op_params;

sized! { ucxx_op_params, 80; }

const _: () = assert!(size_of::<RecvInfo>() == size_of::<super::request::ucxx_recv_info>());

/// Sets every field to its default, and `struct_size` to the given size, which is the caller's
/// sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_op_params_init(value: *mut ucxx_op_params_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

// The engine reads a caller's struct where it lies.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<OpParams>() == size_of::<ucxx_op_params>());
    macro_rules! same {
        ($($field:ident)*) => {$(
            assert!(offset_of!(OpParams, $field) == offset_of!(ucxx_op_params, $field));
        )*};
    }
    same!(struct_size flags memory_type reserved timeout_ns callback callback_arg);
    same!(notifier memory recv_info source);
};

/// More bits than these in a length make it one that is looked at.
const PLAIN_BITS: u32 = 47;

/// The caller's parameters where they are plain and of this library's size, or the defaults for
/// NULL; and the length is one.
///
/// # Safety
/// As for `submit`.
#[inline(always)]
pub(crate) unsafe fn plain<'a>(
    params: *const ucxx_op_params_t,
    length: usize,
) -> Option<&'a OpParams> {
    const DEFAULT: &OpParams = &OpParams::DEFAULT;
    let params = if params.is_null() { std::ptr::from_ref(DEFAULT) } else { params.cast() };
    // SAFETY: the size comes first, and says what else is readable; the layouts are the same.
    let params = unsafe { ((*params).struct_size == size_of::<OpParams>()).then(|| &*params) };
    params.filter(|params| params.is_plain(length as u64 >> PLAIN_BITS))
}

/// How a plain operation left its call, as the caller gets it.
#[inline(always)]
pub(crate) fn plainly(result: Result<Submitted>) -> ucxx_status_t {
    match result {
        Ok(submitted) => status_of(submitted).0,
        Err(error) => guard::failed(error),
    }
}

#[inline(always)]
fn status_of(submitted: Submitted) -> Status {
    match submitted {
        Submitted::Done => Status::OK,
        Submitted::Pending => Status::INPROGRESS,
    }
}

/// Runs an operation with the caller's parameters.
///
/// # Safety
/// `params` is NULL or a struct whose `struct_size` is set, and what it points to is as its fields
/// say; `request` is NULL or valid for a write.
#[inline(always)]
pub(crate) unsafe fn submit(
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
    operation: impl FnOnce(&OpParams, Out) -> Result<Submitted>,
) -> ucxx_status_t {
    // A blocking operation runs callbacks.
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            params::with(params, "params", |params| {
                // SAFETY: a request is a slot; the caller's place takes either pointer.
                let out = Out::new(request.cast());
                operation(convert(params)?, out).map(status_of)
            })
        }
    })
}

/// # Safety
/// What the struct points to is as its fields say.
#[inline(always)]
unsafe fn convert(params: &ucxx_op_params) -> Result<&OpParams> {
    if params.reserved != 0 {
        return Err(Error::invalid("reserved: is not zero"));
    }
    // SAFETY: the layouts are the same, and so is what a handle and a request are behind their
    // opaque types.
    Ok(unsafe { &*std::ptr::from_ref(params).cast() })
}
