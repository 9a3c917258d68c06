//! What all operations have in common: parameters, and the place for the request.

use super::guard;
use super::handle::{ucxx_endpoint_t, ucxx_memory_t, ucxx_notifier_t, ucxx_request_t};
use super::params::{self, sized};
use super::request::ucxx_recv_info_t;
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{OpParams, RecvInfo, Submitted};
use std::ffi::c_void;

/// Runs once when an operation completes after its call returned UCXX_INPROGRESS.
///
/// - `request` is valid during the call, also if the caller kept none. It is NULL if the caller
///   destroyed it before.
/// - `status` is UCXX_OK or an error.
/// - It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
///
/// Threads: the thread that makes progress. No lock is held.
/// See also: "Callbacks" at the top of this file.
pub type ucxx_request_callback_t = Option<
    unsafe extern "C" fn(arg: *mut c_void, request: *mut ucxx_request_t, status: ucxx_status_t),
>;

/// Parameters that all operations have in common. NULL means all defaults.
///
/// Every operation uses `flags`, `timeout_ns`, and `callback` or `notifier`. Every operation checks
/// the other fields, and some use them:
///
/// - `memory_type`, `memory`: operations on one buffer. In a list, each entry has its own memory
///   type.
/// - `recv_info`: receives and fetches. Other operations may write to it, so leave it NULL.
/// - `source`: tag receives.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_op_params {
    /// Set by UCXX_OP_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_FLAG_*. A flag that the operation does not have is UCXX_ERR_INVALID_PARAM. WAIT
    /// excludes a callback, a notifier and ALWAYS_CALLBACK. EAGER excludes RNDV. DELAYED needs a
    /// progress thread: UCXX_ERR_UNSUPPORTED without one.
    pub flags: u64,
    /// UCXX_MEMORY_* of the caller's buffer. HOST saves the detection.
    pub memory_type: i32,
    /// Zero.
    pub reserved: u32,
    /// Time limit of the operation in nanoseconds. 0 means none. When it expires, the operation is
    /// cancelled as by ucxx_request_cancel, and its status is UCXX_ERR_TIMED_OUT. This also holds
    /// with UCXX_FLAG_WAIT.
    ///
    /// An operation that UCX already owns, such as a large send that no peer receives, continues
    /// beyond the limit. With UCXX_FLAG_TIMEOUT_CLOSES the endpoint is then closed by force.
    pub timeout_ns: u64,
    /// Runs when the operation completes. It does not run if the operation completes inside the
    /// call, unless UCXX_FLAG_ALWAYS_CALLBACK is set. Optional.
    pub callback: ucxx_request_callback_t,
    /// Passed to the callback, or returned as `user_data` by the notifier. It must live until then.
    pub callback_arg: *mut c_void,
    /// Reports the completion, in place of a callback and under the same condition. It must be of
    /// the same context, and not stopped. Optional.
    pub notifier: *mut ucxx_notifier_t,
    /// Registered memory of the same context that covers the buffer. This is a hint: UCX finds
    /// registered memory by itself. Optional.
    pub memory: *mut ucxx_memory_t,
    /// Filled when a receive or a fetch completes, also inside the call. A stream receive fills it
    /// also when it fails. The caller keeps it valid until the completion. Optional.
    pub recv_info: *mut ucxx_recv_info_t,
    /// Tag receives: the receive also ends when this endpoint fails or closes. If the endpoint has
    /// ended before, the receive ends at once, even if its message has arrived. Matching does not
    /// change. Optional.
    pub source: *mut ucxx_endpoint_t,
}
/// Parameters that all operations have in common. NULL means all defaults.
pub type ucxx_op_params_t = ucxx_op_params;

sized! { ucxx_op_params, 80; }

const _: () = assert!(size_of::<RecvInfo>() == size_of::<super::request::ucxx_recv_info>());

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_op_params_init(value: *mut ucxx_op_params_t, struct_size: usize) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

// The engine reads the caller's struct in place, so the layouts must agree.
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

/// A length with more bits than these takes the slow path, which checks it.
const PLAIN_BITS: u32 = 47;

/// The caller's parameters if the fast path can take them: plain, of this library's size, with a
/// valid length. NULL means the defaults.
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
    // SAFETY: the first field is the size of the readable part; the layouts are the same.
    let params = unsafe { ((*params).struct_size == size_of::<OpParams>()).then(|| &*params) };
    params.filter(|params| params.is_plain(length as u64 >> PLAIN_BITS))
}

/// The status that the caller of a plain operation gets.
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
/// `params` is NULL or a struct whose `struct_size` is set, with pointers as its fields require;
/// `request` is NULL or valid for a write.
#[inline(always)]
pub(crate) unsafe fn submit(
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
    operation: impl FnOnce(&OpParams, Out) -> Result<Submitted>,
) -> ucxx_status_t {
    // With UCXX_FLAG_WAIT the call may run callbacks.
    guard::progressing(|| {
        // SAFETY: as for this function.
        unsafe {
            params::with(params, "params", |params| {
                // SAFETY: a request is a slot, so the caller's place can hold the pointer.
                let out = Out::new(request.cast());
                operation(convert(params)?, out).map(status_of)
            })
        }
    })
}

/// # Safety
/// The pointers of the struct are as its fields require.
#[inline(always)]
unsafe fn convert(params: &ucxx_op_params) -> Result<&OpParams> {
    if params.reserved != 0 {
        return Err(Error::invalid("reserved: is not zero"));
    }
    // SAFETY: the layouts are the same. Opaque handles and requests are pointers to the engine's
    // objects.
    Ok(unsafe { &*std::ptr::from_ref(params).cast() })
}
