//! Notifiers: completions, and what else comes, in batches instead of through callbacks.

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
use crate::engine::core::worker::worker::Worker;
use std::ffi::{c_int, c_void};

/// Has a notifier hand out what comes to a worker, or, where it is NULL, nobody: as `set` registers
/// it.
///
/// # Safety
/// A worker of this library; `notifier` is NULL or one of this library.
pub(super) unsafe fn hand_out(
    worker: *mut ucxx_worker_t,
    notifier: *mut ucxx_notifier_t,
    set: impl FnOnce(&Worker, Option<&Notifier>) -> Result<()>,
) -> ucxx_status_t {
    guard::progressing(|| {
        // SAFETY: as for this function.
        let (worker, notifier) =
            unsafe { (handle::get(worker)?, notifier.cast::<Notifier>().as_ref()) };
        set(worker, notifier).map(|()| Status::OK)
    })
}

/// One operation that has completed, or one event, as its notifier hands it out.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ucxx_completion {
    /// `callback_arg` of the operation's parameters; what the notifier was given with for events.
    pub user_data: *mut c_void,
    /// The request, until it is destroyed; NULL if none was asked for, or if it has been destroyed
    /// already.
    pub request: *mut ucxx_request_t,
    /// Bytes of the message, for a receive also when it did not fit, or of the question's data; 0
    /// for what carries none.
    pub length: u64,
    /// The tag the message was sent with.
    pub sender_tag: u64,
    /// UCXX_OK or an error, never INPROGRESS.
    pub status: ucxx_status_t,
    /// UCXX_EVENT_*: what it tells of. UCXX_EVENT_COMPLETION, 0, where only operations name the
    /// notifier.
    pub kind: i32,
    /// What came in, see UCXX_EVENT_*. It belongs to whoever polls, and is to be destroyed; NULL
    /// where nothing did.
    pub handle: *mut c_void,
    /// Zero.
    pub reserved: [u32; 4],
}
/// One operation that has completed, or one event, as its notifier hands it out.
pub type ucxx_completion_t = ucxx_completion;

/// Its size in the first release: no caller has a smaller one.
const FIRST_SIZE: usize = 64;
const _: () = assert!(size_of::<ucxx_completion>() >= FIRST_SIZE);

/// Creates a completion queue for operations of any worker of the context. An operation that names
/// it in `ucxx_op_params_t.notifier` is reported there once, when it completes, instead of through
/// a callback; not when it completed inside its call, unless UCXX_FLAG_ALWAYS_CALLBACK is set. The
/// queue never overflows, and reporting allocates nothing. Status and recv_info are stored, then
/// the operation is reported, then waiters are released. The caller owns the notifier and destroys
/// it. Any thread.
///
/// It takes the place of other callbacks as well, so that a program needs none: of a listener's
/// `on_connect` and an endpoint's `on_close` (`notifier` of their parameters), and of the handlers
/// of active messages and questions (ucxx_worker_set_am_notifier, ucxx_worker_set_fetch_notifier).
/// What it hands out so belongs to whoever polls. What nobody polls is bounded: peers wait, or are
/// rejected. docs/connections.md has the loop, see ucxx_notifier_wait.
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

/// Sleeps until there is something to poll: OK. OK also when a signal handler has run on this
/// thread while it slept. With several threads waiting, another one may have polled what this one
/// was woken for.
///
/// It progresses nothing: that is left to a progress thread, or to whoever drives the workers. A
/// thread that drives its worker itself does not call it, but loops:
///
/// ```c
/// while (ucxx_notifier_poll(notifier, &got, sizeof got, 1, &count) == UCXX_OK) {
///   if (count > 0) take(&got);
///   else ucxx_worker_wait(worker, UINT64_MAX);
/// }
/// ```
///
/// Errors: TIMED_OUT when the time ran out first (at once for 0); CLOSED when the notifier has been
/// stopped and nothing is left to poll; BUSY from a callback. Any thread.
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

/// Takes up to `max` completions, in the order in which they were reported, into an array of
/// structs of `completion_size` bytes, which is the caller's `sizeof(ucxx_completion_t)`; `*count`
/// says how many. OK with count 0 when there are none, CLOSED when there are none and the notifier
/// has been stopped. Never blocks. Any thread, also several at once: each completion goes to one of
/// them.
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

/// Before anything is taken: what is taken is gone.
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
        return Err(Error::invalid(format!("max: {max} completions of {size} bytes cannot be")));
    }
    Ok(())
}

/// Fills what the caller has room for, and zeroes what it has beyond.
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

/// A descriptor that is readable when there is something to poll, for poll(2), epoll and event
/// loops; `ucxx_notifier_arm` first. It stays the library's, and needs no reading. UNSUPPORTED
/// without UCXX_FEATURE_WAKEUP. Any thread.
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

/// Asks that the descriptor become readable with the next completion, and stay so until it is armed
/// again. BUSY when there is something to poll first, CLOSED when the notifier has been stopped and
/// nothing is left; the descriptor is readable then as well. UNSUPPORTED without
/// UCXX_FEATURE_WAKEUP. Any thread.
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

/// Operations that name the notifier are refused with CLOSED from now on. What has been reported
/// and what is in flight can still be polled; whenever nothing has been reported that is left to
/// poll, waiting and polling give CLOSED, and whoever sleeps is woken. So CLOSED does not say that
/// nothing is in flight: what is comes after it. A program that has to know counts what it has
/// submitted. Any thread, also twice.
///
/// # Safety
/// NULL (refused) or a notifier of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_notifier_stop(notifier: *mut ucxx_notifier_t) -> ucxx_status_t {
    // SAFETY: as for this function.
    guard::status(|| unsafe { handle::get(notifier) }?.stop().map(|()| Status::OK))
}

/// Stops the notifier and lets go of it; its descriptor is not the caller's to use any more.
/// Completions that were not polled are dropped, and so are those of operations in flight, which go
/// on; requests that the caller kept stay the caller's. Of events that were not polled, and that
/// still come, connection requests are rejected, messages destroyed, and questions rejected. A
/// thread that sleeps in `ucxx_notifier_wait` gets CLOSED. Before or after the workers and the
/// context. NULL is ignored. Any thread.
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
