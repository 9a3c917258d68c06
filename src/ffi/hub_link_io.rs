//! Links and the world outside: messages and streams, and the descriptor for event loops.

use super::guard::{self, Answer};
use super::handle::{self, place, ucxx_endpoint_t, ucxx_link_t, ucxx_request_t};
use super::operation::{submit, ucxx_op_params_t};
use super::status::ucxx_status_t;
use crate::engine::base::status::Status;

/// Receives a message whose tag matches into an envelope of a link that produces, straight, and
/// commits it as a chunk of its length: before the callback runs, or the notifier reports, or
/// anyone who waits for the request is released. What ends otherwise, a message that is longer than
/// the envelope too, is aborted. Chunks come in the order in which their messages are complete, so
/// a short one may be before a long one that was sent earlier. For that it does not end inside the
/// call: INPROGRESS where ucxx_tag_recv may return OK. The envelope is leased before the call
/// returns: NO_RESOURCE when there is none. Needs a hub with a worker, on which it is received. In
/// all else as ucxx_tag_recv; memory_type is not looked at.
///
/// # Safety
/// A link of this library; the rest as for `ucxx_tag_recv`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_recv(
    produce_link: *mut ucxx_link_t,
    tag: u64,
    tag_mask: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            handle::get(produce_link.cast_const())?.recv(tag, tag_mask, params, out)
        })
    }
}

/// Sends the oldest chunk of a link that consumes, straight from its envelope, and consumes it when
/// the buffer is free again: before the callback runs, or the notifier reports, or anyone who waits
/// for the request is released. A send that fails aborts: the chunk is offered again. NO_RESOURCE
/// when there is no chunk, CLOSED when there will be none. The endpoint is of the hub's worker.
/// Metadata does not go along. In all else as ucxx_tag_send; memory_type is not looked at.
///
/// # Safety
/// A link and an endpoint of this library; the rest as for `ucxx_tag_send`.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_send(
    consume_link: *mut ucxx_link_t,
    endpoint: *mut ucxx_endpoint_t,
    tag: u64,
    params: *const ucxx_op_params_t,
    request: *mut *mut ucxx_request_t,
) -> ucxx_status_t {
    // SAFETY: as for this function.
    unsafe {
        submit(params, request, |params, out| {
            let link = handle::get(consume_link.cast_const())?;
            link.send(handle::get(endpoint.cast_const())?, tag, params, out)
        })
    }
}

/// Connects a link that consumes with one that produces, at the other end of the endpoint, as one
/// stream: every chunk here becomes a chunk there, in its order, with its metadata. Both sides call
/// it, in any order, each with its endpoint to the other one's worker and the same `stream_id`; a
/// stream of that number in each direction may be under way between two workers. `window` is how
/// many chunks may be on their way at a time; the smaller one of both sides holds. Needs a hub with
/// a worker on each side; chunks move while both workers are progressed, and what the stream does,
/// callbacks of its hub included, is done in their passes. Returns at once; the end that is alone
/// waits, and leases nothing.
///
/// The receiving side leases up to `window` envelopes before anything comes, and nothing is sent
/// without one: a hub that is full makes the sender wait (credit_stalls). A chunk is consumed at
/// its sender when it has become a chunk at the receiver. The envelopes may be of different sizes;
/// a chunk that is too long for those of the receiver ends the stream, of which only the log tells:
/// the links at both ends wait for another one. When the sending hub is closed and empty, the
/// receiving one is closed, so that its readers get CLOSED after the last chunk; one that several
/// streams feed, when all of them have ended so. A link that is destroyed is not waited for; one
/// whose stream was cut off is, until it is connected anew. ucxx_hub_drain of a closed hub waits
/// until that has been told: then the endpoint may be closed.
///
/// As long as a link is connected leases through it return BUSY, and its on_ready is not called.
/// That ends with the endpoint, with the stream, and with ucxx_link_destroy. With the endpoint,
/// chunks that have not been acknowledged are offered again to the consumers of the sending hub,
/// oldest first, before on_close runs; the receiving hub has a beginning of what was sent, and
/// perhaps the first of those. Connect anew, on another endpoint, to go on. A link that is
/// destroyed, or whose hub is, or a receiving hub that is closed, leaves the stream in peace:
/// nothing is lost or doubled, and the link at the other end waits for another one to be connected
/// there.
///
/// Errors: INVALID_PARAM for a link that peeks or modifies, a hub without a worker, an endpoint of
/// another worker, window 0; EXCEEDS_LIMIT for one above 65536; BUSY for a link that is connected;
/// ALREADY_EXISTS for a stream of this number and direction to this peer, which one whose link has
/// been destroyed remains until the other side has heard of it (progress, and try again);
/// UNSUPPORTED without UCXX_FEATURE_AM; CLOSED and the others of an endpoint that has ended.
/// Threads as ucxx_am_send.
///
/// # Safety
/// A link and an endpoint of this library.
#[no_mangle]
pub unsafe extern "C" fn ucxx_link_connect(
    link: *mut ucxx_link_t,
    endpoint: *mut ucxx_endpoint_t,
    stream_id: u64,
    window: u32,
) -> ucxx_status_t {
    guard::whole(|| {
        // SAFETY: as for this function.
        let (link, endpoint) =
            unsafe { (handle::get(link.cast_const())?, handle::share(endpoint)?) };
        link.connect(&endpoint, stream_id, window)?;
        Ok(Status::OK)
    })
}

/// The link's descriptor for the caller's own event loop: readable when a lease can be had, or none
/// ever will, after ucxx_link_arm. It stays the library's. UNSUPPORTED where the context was made
/// without UCXX_FEATURE_WAKEUP. Any thread.
///
/// # Safety
/// A link of this library; `fd` is valid for a write.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_event_fd(link: *mut ucxx_link_t, fd: *mut i32) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        unsafe {
            let link = handle::get(link)?;
            let place = place(fd, "fd")?;
            place.write(link.event_fd()?);
        }
        Ok(Status::OK)
    })
}

/// Has the link's descriptor become readable, once, when a lease can be had. BUSY: one can be had
/// now, so lease first, and do not sleep. CLOSED: none ever will be. It is written to only when it
/// is armed. Any thread, one at a time for a link.
///
/// # Safety
/// A link of this library.
#[no_mangle]
#[must_use]
pub unsafe extern "C" fn ucxx_link_arm(link: *mut ucxx_link_t) -> ucxx_status_t {
    guard::status(|| {
        // SAFETY: as for this function.
        let armed = unsafe { handle::get(link) }?.arm()?;
        Ok(if armed {
            Answer::OK
        } else {
            Answer(Status::BUSY, c"link: a lease can be had now; lease first, and do not sleep")
        })
    })
}
