//! Waiting for requests: for one, for all, for any of several, and for an operation that is just
//! being submitted. How the worker is driven meanwhile is in `wait`.

use crate::engine::base::clock;
use crate::engine::base::event_count::EventCount;
use crate::engine::base::futex;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::uncancelled::Uncancelled;
use crate::engine::core::request::completion_flag::Marked;
use crate::engine::core::request::inflight::Out;
use crate::engine::core::request::operation::{flag, OpParams, Submitted};
use crate::engine::core::request::request::Slot;
use crate::engine::core::worker::wait::{may_wait, until};

/// Threads that wait for one of several requests, of any workers.
pub(crate) static ANY_REQUEST: EventCount = EventCount::new();

impl Slot {
    /// Waits for the operation. Returns its status, or `INPROGRESS` if the time ran out first.
    pub fn wait(&self, timeout_ns: u64) -> Result<Status> {
        if self.is_done() {
            self.check_fork()?;
            return Ok(self.status());
        }
        self.ready_to_wait()?;
        match self.wait_until(until(timeout_ns)) {
            _ if self.is_done() => Ok(self.status()),
            Ok(_) => Ok(Status::INPROGRESS),
            Err(error) => Err(error),
        }
    }

    /// False if `deadline` passed first.
    fn wait_until(&self, deadline: u64) -> Result<bool> {
        let _whole = Uncancelled::new();
        let worker = self.worker();
        let done = || self.is_done();
        loop {
            if worker.others_progress() {
                if let Some(done) = self.sleep_until(deadline) {
                    return Ok(done);
                }
            }
            if let Some(finished) = worker.drive_requests(&done, deadline)? {
                return Ok(finished);
            }
        }
    }

    /// Sleeps while the progress thread works. None if that thread has ended.
    fn sleep_until(&self, deadline: u64) -> Option<bool> {
        if deadline == 0 || futex::look_shortly(&|| self.is_done()) {
            return Some(self.is_done());
        }
        let finished =
            self.done.wait(|| self.worker().others_progress(), || clock::remaining(deadline));
        if finished.is_none() {
            // This thread removed a mark that other threads may have relied on.
            ANY_REQUEST.notify();
        }
        finished
    }

    /// Its completion, or the end of the thread that completes it, will wake threads that wait for
    /// any request.
    fn will_notify(&self) -> bool {
        let marked = self.done.mark(|| self.worker().others_progress());
        if marked == Marked::Alone {
            ANY_REQUEST.notify();
        }
        marked == Marked::Yes
    }

    fn ready_to_wait(&self) -> Result<()> {
        self.check_fork()?;
        may_wait()
    }
}

/// Waits for every request. Returns the first error, in the order of the list, after all have
/// completed; `INPROGRESS` if the time ran out first.
pub fn wait_all(requests: &[Option<&Slot>], timeout_ns: u64) -> Result<Status> {
    if requests.iter().flatten().next().is_none() {
        return Err(none_left());
    }
    let deadline = until(timeout_ns);
    for slot in requests.iter().flatten() {
        if slot.is_done() {
            slot.check_fork()?;
            continue;
        }
        slot.ready_to_wait()?;
        if !slot.wait_until(deadline)? {
            return Ok(Status::INPROGRESS);
        }
    }
    let failed =
        requests.iter().flatten().map(|slot| slot.status()).find(|status| status.is_error());
    Ok(failed.unwrap_or(Status::OK))
}

#[cold]
fn none_left() -> Error {
    Error::new(Status::NO_ELEM, "requests: all entries are NULL, so there is nothing to wait for")
}

/// Waits for one of the requests. Returns its index and status, or None if the time ran out first.
pub fn wait_any(requests: &[Option<&Slot>], timeout_ns: u64) -> Result<Option<(usize, Status)>> {
    let mut present = requests.iter().flatten();
    let Some(first) = present.next() else {
        return Err(none_left());
    };
    let complete = || requests.iter().position(|slot| slot.is_some_and(Slot::is_done));
    let found = |index: usize| requests[index].map(|slot| (index, slot.status()));
    first.check_fork()?;
    if let Some(index) = complete() {
        return Ok(found(index));
    }
    first.ready_to_wait()?;
    let _whole = Uncancelled::new();
    let deadline = until(timeout_ns);
    let of_one_worker = present.all(|slot| std::ptr::eq(slot.worker, first.worker));
    let all_running = || requests.iter().flatten().all(|slot| slot.worker().others_progress());
    loop {
        if all_running() {
            // Marked again at each check: a progress thread that ends removes the marks, and
            // another one may start before this check.
            let over = || !requests.iter().flatten().all(|slot| slot.will_notify());
            let complete_soon = deadline == 0 || futex::look_shortly(&|| complete().is_some());
            let in_time = complete_soon || ANY_REQUEST.sleep_until(&over, deadline);
            if complete().is_some() || !in_time || deadline == 0 {
                return Ok(complete().and_then(found));
            }
        }
        if !of_one_worker && !all_running() {
            return Err(Error::invalid(
                "requests: are of several workers, and one of them has manual progress; wait for \
                its requests separately",
            ));
        }
        if of_one_worker
            && first.worker().drive_requests(&|| complete().is_some(), deadline)?.is_some()
        {
            return Ok(complete().and_then(found));
        }
    }
}

/// Submits an operation, and waits for it if its flags say so (`UCXX_FLAG_WAIT`); then no request
/// is left behind.
#[inline(always)]
pub(crate) fn submit(
    params: &OpParams,
    out: Out,
    operation: impl FnOnce(&OpParams, Out) -> Result<Submitted>,
) -> Result<Submitted> {
    let mut place: *mut Slot = std::ptr::null_mut();
    let blocking = params.flags & flag::WAIT != 0;
    if blocking {
        may_wait()?;
    }
    // SAFETY: `place` outlives the call.
    let own = unsafe { Out::new(&raw mut place) };
    // Called in one place only, so that the whole operation becomes one function.
    let submitted = operation(params, if blocking { own } else { out })?;
    if blocking {
        // SAFETY: stored by the operation, or null.
        unsafe { wait_and_destroy(place) }?;
        out.store_null();
        return Ok(Submitted::Done);
    }
    Ok(submitted)
}

/// # Safety
/// `place` is null, or a request that the caller holds, which this destroys.
#[cold]
#[inline(never)]
unsafe fn wait_and_destroy(place: *mut Slot) -> Result<()> {
    // SAFETY: the caller guarantees that `place` is null or a live request.
    let Some(slot) = (unsafe { place.as_ref() }) else { return Ok(()) };
    let mut waited = Ok(true);
    while !slot.is_done() {
        waited = slot.wait_until(u64::MAX);
        if slot.check_fork().is_err() {
            break;
        }
        if waited.is_err() {
            // Another call was inside. The buffer is in use until the operation has completed, so
            // this keeps waiting.
            std::thread::yield_now();
        }
    }
    let result = match slot.status() {
        status if status.is_error() => {
            Err(Error::new(status, slot.error_message().to_string_lossy().into_owned()))
        }
        Status::OK => Ok(()),
        _ => waited.map(drop),
    };
    // SAFETY: the caller holds the request, and does not use it afterwards.
    unsafe { crate::engine::core::request::request::destroy(place) };
    result
}
