//! The context and its configuration.

use super::constants::ucxx_network;
use super::guard;
use super::handle::{self, null, place, ucxx_context_t};
use super::params::{self, sized};
use super::status::ucxx_status_t;
use super::text_out;
use crate::engine::base::callback_frame::CallOut;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::ucx::context::{Context, ContextParams};
use std::ffi::{c_char, c_void, CStr, CString};

/// One UCX configuration variable.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_config_entry {
    /// Name without "UCX_". Variables of a transport keep their prefix (POSIX_, CMA_, TCP_),
    /// whatever the loaded UCX calls them.
    pub key: *const c_char,
    /// Value, written as in the environment.
    pub value: *const c_char,
}
/// One UCX configuration variable.
pub type ucxx_config_entry_t = ucxx_config_entry;

/// Parameters of `ucxx_context_create`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_context_params {
    /// Set by UCXX_CONTEXT_PARAMS_INIT.
    pub struct_size: usize,
    /// UCXX_FEATURE_*. 0 means TAG, STREAM, AM and WAKEUP. RMA and ATOMIC open memory to peers, so
    /// they have to be requested. Descriptors and sleeping need WAKEUP.
    pub features: u64,
    /// Variables that override the environment and the library's own defaults. A variable that UCX
    /// cannot apply is an error of ucxx_context_create or ucxx_worker_create. Numbers have a
    /// decimal point, whatever the locale. May be NULL if `config_count` is 0.
    pub config: *const ucxx_config_entry_t,
    /// Number of entries in `config`.
    pub config_count: usize,
    /// UCXX_NETWORK_*.
    pub network: i32,
    /// A name that UCX shows in its own output. Optional.
    pub name: *const c_char,
}
/// Parameters of `ucxx_context_create`.
pub type ucxx_context_params_t = ucxx_context_params;

sized! { ucxx_context_params, 48; }

/// Receives one variable. Both strings are valid during the call.
pub type ucxx_config_visitor_t =
    Option<unsafe extern "C" fn(arg: *mut c_void, key: *const c_char, value: *const c_char)>;

/// UCX has fewer variables than this. A larger count is refused.
const MOST_ENTRIES: usize = 10_000;

/// Sets every field to its default, and `struct_size` to the given size.
///
/// `struct_size` is the caller's sizeof. NULL is ignored.
///
/// # Safety
/// NULL or writable for that many bytes.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_params_init(
    value: *mut ucxx_context_params_t,
    struct_size: usize,
) {
    // SAFETY: as for this function.
    unsafe { params::init(value, struct_size) };
}

/// Initialises UCX and creates a context.
///
/// `params` may be NULL.
///
/// Returns:
/// - UCXX_OK: `*context` is set.
/// - UCXX_ERR_INVALID_PARAM: an argument is invalid, or UCX does not accept a variable of `config`.
/// - UCXX_ERR_UNSUPPORTED: this UCX cannot keep to UCXX_NETWORK_LOCAL. Also: a library that was
///   built with its own UCX finds another libucp in the process.
/// - UCXX_ERR_NO_RESOURCE: the system cannot create a thread, and UCX needs one.
/// - Any status of UCX: the message and the log have its reason.
///
/// Threads: any. If another thread allocates or frees during the call, UCX can, rarely, damage the
/// heap: create contexts before you start threads. See docs/known-issues.md.
/// Ownership: the caller owns the context.
/// See also: ucxx_worker_create, ucxx_context_destroy.
///
/// # Safety
/// `params` is NULL or a struct whose `struct_size` is set; `context` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_context_create(
    params: *const ucxx_context_params_t,
    context: *mut *mut ucxx_context_t,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let place = unsafe { place(context, "context") }?;
        // SAFETY: as above.
        let params = unsafe { params::with(params, "params", |params| convert(params)) }?;
        place.write(handle::give_arc(Context::new(&params)?));
        Ok(Status::OK)
    })
}

/// # Safety
/// Strings and the list of entries are readable.
unsafe fn convert(params: &ucxx_context_params) -> Result<ContextParams> {
    if params.config_count > MOST_ENTRIES {
        return Err(Error::invalid(format!(
            "config_count: {} is more than UCX has variables",
            params.config_count
        )));
    }
    if params.config.is_null() && params.config_count > 0 {
        return Err(null("config"));
    }
    let mut config = Vec::new();
    for index in 0..params.config_count {
        // SAFETY: as for this function.
        let entry = unsafe { *params.config.add(index) };
        // SAFETY: as above.
        config.push(unsafe {
            (text(entry.key, "config: key")?, text(entry.value, "config: value")?)
        });
    }
    let networks = [ucxx_network::UCXX_NETWORK_ALL as i32, ucxx_network::UCXX_NETWORK_LOCAL as i32];
    if !networks.contains(&params.network) {
        return Err(Error::invalid(format!(
            "network: {} is no UCXX_NETWORK_* value",
            params.network
        )));
    }
    Ok(ContextParams {
        features: params.features,
        config,
        local_network: params.network == ucxx_network::UCXX_NETWORK_LOCAL as i32,
        // SAFETY: as above.
        name: (!params.name.is_null()).then(|| unsafe { CStr::from_ptr(params.name) }.to_owned()),
    })
}

/// # Safety
/// NULL or a terminated string.
unsafe fn text(string: *const c_char, argument: &str) -> Result<String> {
    if string.is_null() {
        return Err(null(argument));
    }
    // SAFETY: as for this function.
    let text = unsafe { CStr::from_ptr(string) };
    text.to_str()
        .map(str::to_owned)
        .map_err(|_| Error::invalid(format!("{argument}: is not UTF-8")))
}

/// Releases the context.
///
/// Workers of the context keep working until they are destroyed. UCX is shut down with the last of
/// them. NULL is ignored.
///
/// A process may end while workers still exist, but exit() is then not always safe. It runs UCX's
/// destructors while a thread of UCX is still working. UCX has aborted such a process (SIGABRT)
/// when a peer failed at that moment. Destroy the workers before exit(), or leave with _exit().
///
/// Threads: any.
/// See also: ucxx_worker_destroy.
///
/// # Safety
/// NULL or a context of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_destroy(context: *mut ucxx_context_t) {
    // SAFETY: as for this function.
    guard::ending(|| drop(unsafe { handle::take_arc(context) }));
}

/// Calls `visit` for each configuration variable, with the value in force for this context.
///
/// The names have no "UCX_". Variables of transports are not included, because UCX stores them
/// elsewhere. `visit` may call any function.
///
/// Returns:
/// - UCXX_OK: all variables were visited.
///
/// Threads: any.
///
/// # Safety
/// A context of this library; `visit` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_visit_config(
    context: *const ucxx_context_t,
    visit: ucxx_config_visitor_t,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let context = unsafe { handle::get(context) }?;
        // SAFETY: as above.
        unsafe { show(visit, arg, || context.config_entries()) }
    })
}

/// Calls `visit` for each configuration variable, with the value that a context would have that is
/// created now with default parameters.
///
/// The values come from the environment, and from the library's own defaults. The names have no
/// "UCX_". Variables of transports are not included. `visit` may call any function.
///
/// Returns:
/// - UCXX_OK: all variables were visited.
/// - Any status of UCX: a variable in the environment is malformed. `visit` was not called.
///
/// Threads: any. No other thread may change the environment during the call.
/// See also: ucxx_context_visit_config.
///
/// # Safety
/// `visit` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_config_visit(
    visit: ucxx_config_visitor_t,
    arg: *mut c_void,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { show(visit, arg, Context::default_config_entries) })
}

/// # Safety
/// `visit` may be called with `arg`.
unsafe fn show(
    visit: ucxx_config_visitor_t,
    arg: *mut c_void,
    entries: impl FnOnce() -> Result<Vec<(CString, CString)>>,
) -> Result<Status> {
    let visit = visit.ok_or_else(|| null("visit"))?;
    for (key, value) in entries()? {
        // SAFETY: as for this function; both strings outlive the call.
        unsafe { visit.call_out((arg, key.as_ptr(), value.as_ptr())) };
    }
    Ok(Status::OK)
}

/// Describes the context in readable lines, for example for a report of a fault.
///
/// Calls `line(arg, text)` once for each line. The lines show the versions of this library and of
/// UCX, features, network and memory types. Further lines show the components, memory domains,
/// transports and devices that UCX has here, and the variables that the environment, this library
/// or the program has set. `line` may call any function. `text` is valid during the call.
///
/// The text is for people, and differs between releases.
///
/// Returns:
/// - UCXX_OK: all lines were passed on.
///
/// Threads: any.
/// See also: ucxx_worker_dump, ucxx_context_visit_config.
///
/// # Safety
/// A context of this library; `line` may be called with `arg`.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_dump(
    context: *const ucxx_context_t,
    line: Option<unsafe extern "C" fn(arg: *mut c_void, text: *const c_char)>,
    arg: *mut c_void,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let context = unsafe { handle::get(context) }?;
        // SAFETY: as above.
        unsafe { text_out::pass_on(line, arg, || context.dump()) }
    })
}

/// Checks whether the loaded UCX can send from CUDA memory and receive into it here.
///
/// Returns: 1 or 0. 0 for NULL.
///
/// Threads: any.
///
/// # Safety
/// NULL or a context of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_context_has_cuda(context: *const ucxx_context_t) -> i32 {
    guard::quietly(false, || {
        // SAFETY: as for this function.
        unsafe { handle::get(context) }.is_ok_and(|context| context.has_cuda())
    })
    .into()
}
