//! Notifiers: completions and events in batches, in place of callbacks.

use super::constants::ucxx_event;
use super::guard::{self, Answer};
use super::handle::{
    self, null, place, ucxx_context_t, ucxx_notifier_t, ucxx_request_t, ucxx_worker_t,
};
use super::params::LARGEST;
use super::status::ucxx_status_t;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::core::request::notifier::{Completion, Notifier, Waited};
use crate::engine::core::request::notifier_events::Happened;
use crate::engine::core::worker::worker::SharedWorker;
use std::ffi::{c_int, c_void};

/// Registers a notifier with a worker by `set`. NULL removes the registration.
///
/// # Safety
/// A worker of this library; `notifier` is NULL or one of this library.
pub(super) unsafe fn hand_out(
    worker: *mut ucxx_worker_t,
    notifier: *mut ucxx_notifier_t,
    set: impl FnOnce(&SharedWorker, Option<&Notifier>) -> Result<()>,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (worker, notifier) =
            unsafe { (handle::get(worker)?, notifier.cast::<Notifier>().as_ref()) };
        set(worker, notifier).map(|()| Status::OK)
    })
}

/// One completion or event, as ucxx_notifier_poll returns it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_completion {
    /// Operations: `callback_arg` of the parameters. Events: the argument that was registered with
    /// the notifier.
    pub user_data: *mut c_void,
    /// The request, valid until the caller destroys it. NULL if the caller did not ask for one, or
    /// has destroyed it already.
    pub request: *mut ucxx_request_t,
    /// Bytes of the message, or of the fetch's data. For a receive this is the full length, also
    /// when the message did not fit. 0 for operations without data.
    pub length: u64,
    /// The tag with which the message was sent.
    pub sender_tag: u64,
    /// UCXX_OK or an error, never UCXX_INPROGRESS.
    pub status: ucxx_status_t,
    /// UCXX_EVENT_*. If only operations name the notifier, it is always UCXX_EVENT_COMPLETION (0).
    pub kind: i32,
    /// The object that arrived: see UCXX_EVENT_*. The polling caller owns it and destroys it. NULL
    /// if there is none.
    pub handle: *mut c_void,
    /// Zero.
    pub reserved: [u32; 4],
}
/// One completion or event, as ucxx_notifier_poll returns it.
pub type ucxx_completion_t = ucxx_completion;

/// Its size in the first release: no caller has a smaller one.
const FIRST_SIZE: usize = 64;
const _: () = assert!(size_of::<ucxx_completion>() >= FIRST_SIZE);

/// Creates a notifier: a completion queue for operations of all workers of the context.
///
/// An operation that names the notifier in `ucxx_op_params_t.notifier` is reported there once, when
/// it completes, instead of by a callback. It is not reported if it completes inside its call,
/// unless UCXX_FLAG_ALWAYS_CALLBACK is set.
///
/// - The queue never overflows, and a report allocates nothing.
/// - Order: the status and recv_info are stored, the operation is reported, and then waiting
///   threads are released.
///
/// The notifier can replace all other callbacks too, so that a program needs none:
///
/// - `on_connect` of a listener and `on_close` of an endpoint: `notifier` in their parameters.
/// - Handlers: ucxx_worker_set_am_notifier, ucxx_worker_set_fetch_notifier.
///
/// The polling caller owns what the notifier returns. Events that are not polled are bounded: peers
/// wait, or their connections are rejected. docs/connections.md has the loop.
///
/// Returns:
/// - UCXX_OK: `*notifier` is set.
///
/// Threads: any.
/// Ownership: the caller owns the notifier.
/// See also: ucxx_notifier_poll, ucxx_notifier_wait, ucxx_notifier_destroy.
///
/// # Safety
/// A context of this library; `notifier` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_notifier_create(
    context: *mut ucxx_context_t,
    notifier: *mut *mut ucxx_notifier_t,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (context, place) = unsafe { (handle::share(context)?, place(notifier, "notifier")?) };
        place.write(handle::give_box(Notifier::new(&context)?));
        Ok(Status::OK)
    })
}

/// Sleeps until there is something to poll.
///
/// `timeout_ns` is in nanoseconds. It may return UCXX_OK with nothing to poll: a signal handler has
/// run on this thread during the sleep, or another thread was faster.
///
/// The call makes no progress. A progress thread, or another thread, has to drive the workers. A
/// thread that drives its own worker does not call it. It uses this loop:
///
/// ```c
/// while (ucxx_notifier_poll(notifier, &got, sizeof got, 1, &count) == UCXX_OK) {
///   if (count > 0) take(&got);
///   else ucxx_worker_wait(worker, UINT64_MAX);
/// }
/// ```
///
/// Returns:
/// - UCXX_OK: poll now.
/// - UCXX_ERR_TIMED_OUT: `timeout_ns` expired first. With 0: at once.
/// - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
/// - UCXX_ERR_BUSY: called in a callback.
///
/// Threads: any, several at once.
/// See also: ucxx_notifier_poll, ucxx_notifier_event_fd.
///
/// # Safety
/// NULL (refused) or a notifier of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_notifier_wait(
    notifier: *mut ucxx_notifier_t,
    timeout_ns: u64,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| match unsafe { handle::get(notifier) }?.wait(timeout_ns)? {
        Waited::Ready => Ok(Answer::OK),
        Waited::TimedOut => {
            Ok(Answer(Status::TIMED_OUT, c"notifier: no completion in the given time"))
        }
    })
}

/// Takes up to `max` completions, in the order in which they were reported.
///
/// - `completions` is an array of `max` structs. It may be NULL if `max` is 0.
/// - `completion_size` is the caller's `sizeof(ucxx_completion_t)`, in bytes.
/// - `*count` is the number of structs that were filled.
///
/// It never blocks and makes no progress.
///
/// Returns:
/// - UCXX_OK: `*count` is set. It is 0 if there is nothing to poll.
/// - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
///
/// Threads: any, several at once. Each completion is returned once.
/// Ownership: the caller owns each `handle`.
/// See also: ucxx_notifier_wait.
///
/// # Safety
/// A notifier of this library; `completions` is writable for `max` times `completion_size` bytes,
/// and may be NULL when `max` is 0; `count` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_notifier_poll(
    notifier: *mut ucxx_notifier_t,
    completions: *mut ucxx_completion_t,
    completion_size: usize,
    max: usize,
    count: *mut usize,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (notifier, place) = unsafe { (handle::get(notifier)?, place(count, "count")?) };
        check_array(completions, completion_size, max)?;
        let mut next = completions.cast::<u8>();
        let taken = notifier.poll(max, |completion| {
            // SAFETY: one of at most `max` entries of that size.
            unsafe {
                store(next, completion_size, &completion);
                next = next.add(completion_size);
            }
        })?;
        place.write(taken);
        Ok(Status::OK)
    })
}

/// Checks the array before any completion is taken: one that is taken cannot be put back.
fn check_array(completions: *const ucxx_completion_t, size: usize, max: usize) -> Result<()> {
    if completions.is_null() && max > 0 {
        return Err(null("completions"));
    }
    if !(FIRST_SIZE..=LARGEST).contains(&size) {
        let text = format!(
            "completion_size: is {size}, not sizeof(ucxx_completion_t), {}",
            size_of::<ucxx_completion>()
        );
        return Err(Error::invalid(text));
    }
    if max > isize::MAX as usize / size {
        return Err(Error::invalid(format!(
            "max: {max} completions of {size} bytes do not fit into any memory"
        )));
    }
    Ok(())
}

/// Fills the caller's entry as far as it fits. Fields that this library does not have become zero.
///
/// # Safety
/// `entry` is writable for `size` bytes.
unsafe fn store(entry: *mut u8, size: usize, completion: &Completion) {
    use ucxx_event::{
        UCXX_EVENT_AM_MESSAGE, UCXX_EVENT_COMPLETION, UCXX_EVENT_CONN_REQUEST,
        UCXX_EVENT_ENDPOINT_CLOSED, UCXX_EVENT_FETCH,
    };
    let (kind, handle) = match completion.happened {
        Happened::Operation => (UCXX_EVENT_COMPLETION, std::ptr::null_mut()),
        Happened::ConnRequest(request) => (UCXX_EVENT_CONN_REQUEST, request.cast_mut().cast()),
        Happened::EndpointClosed => (UCXX_EVENT_ENDPOINT_CLOSED, std::ptr::null_mut()),
        Happened::Message(message) => (UCXX_EVENT_AM_MESSAGE, message.cast()),
        Happened::Question(question, _) => (UCXX_EVENT_FETCH, question),
    };
    let value = ucxx_completion {
        user_data: completion.user_data,
        request: completion.request.cast(),
        length: completion.length,
        sender_tag: completion.sender_tag,
        status: completion.status.0,
        kind: kind as i32,
        handle,
        reserved: [0; 4],
    };
    let known = size.min(size_of::<ucxx_completion>());
    // SAFETY: as for this function.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), entry, known);
        entry.add(known).write_bytes(0, size - known);
    }
}

/// Returns a descriptor for poll(2), epoll and event loops. It is readable when there is something
/// to poll.
///
/// Call ucxx_notifier_arm before each sleep on it. The descriptor need not be read.
///
/// Returns:
/// - UCXX_OK: `*fd` is set.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
///
/// Threads: any.
/// Ownership: the library owns the descriptor and closes it.
/// See also: ucxx_notifier_arm.
///
/// # Safety
/// A notifier of this library; `fd` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_notifier_event_fd(
    notifier: *mut ucxx_notifier_t,
    fd: *mut c_int,
) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let (notifier, place) = unsafe { (handle::get(notifier)?, place(fd, "fd")?) };
        place.write(notifier.event_fd()?);
        Ok(Status::OK)
    })
}

/// Arms the notifier's descriptor before a sleep on it.
///
/// With the next completion the descriptor becomes readable, and stays so until it is armed again.
/// After UCXX_ERR_BUSY and UCXX_ERR_CLOSED it is readable as well.
///
/// Returns:
/// - UCXX_OK: there is nothing to poll. Sleep on the descriptor.
/// - UCXX_ERR_BUSY: poll first.
/// - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
/// - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
/// - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
///
/// Threads: any.
/// See also: ucxx_notifier_event_fd.
///
/// # Safety
/// NULL (refused) or a notifier of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_notifier_arm(notifier: *mut ucxx_notifier_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let armed = unsafe { handle::get(notifier) }?.arm()?;
        Ok(if armed {
            Answer::OK
        } else {
            Answer(Status::BUSY, c"notifier: completions are ready; poll first, and do not sleep")
        })
    })
}

/// Stops the notifier: new operations that name it are refused with UCXX_ERR_CLOSED.
///
/// Completions that were reported can still be polled, and so can those of operations in flight.
/// Whenever there is nothing left to poll, ucxx_notifier_wait and ucxx_notifier_poll return
/// UCXX_ERR_CLOSED, and sleeping threads wake up.
///
/// UCXX_ERR_CLOSED does not mean that nothing is in flight. Later completions can be polled after
/// it. A program that needs to know counts its submissions.
///
/// Returns:
/// - UCXX_OK: the notifier is stopped, also if it was before.
///
/// Threads: any.
/// See also: ucxx_notifier_destroy.
///
/// # Safety
/// NULL (refused) or a notifier of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_notifier_stop(notifier: *mut ucxx_notifier_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(notifier) }?.stop().map(|()| Status::OK))
}

/// Stops the notifier and releases it. Its descriptor must not be used any more.
///
/// - Completions that were not polled are dropped. Operations in flight continue, and are not
///   reported. Requests that the caller kept stay the caller's.
/// - Events that were not polled, and later ones, are disposed of. Connection requests and fetches
///   are rejected. Messages are destroyed.
/// - Threads in ucxx_notifier_wait get UCXX_ERR_CLOSED.
///
/// It may be called before or after the workers and the context are destroyed. NULL is ignored.
///
/// Threads: any.
/// See also: ucxx_notifier_stop.
///
/// # Safety
/// NULL or a notifier of this library, not used afterwards.
#[no_mangle]
pub unsafe extern "C" fn ucxx_notifier_destroy(notifier: *mut ucxx_notifier_t) {
    guard::quietly((), || {
        // SAFETY: as for this function.
        if let Some(notifier) = unsafe { handle::take_box(notifier) } {
            notifier.destroy();
        }
    });
}
