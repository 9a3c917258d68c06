//! The guard around every exported function: no panic leaves it, and an error stores its
//! explanation for the thread.

use super::status::ucxx_status_t;
use crate::engine::base::lasting::lasting;
use crate::engine::base::status::{Error, Result, Status};
use crate::engine::base::uncancelled::Uncancelled;
use crate::engine::core::worker::deferred_end;
use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Capacity for an explanation, with its terminator.
const LONGEST: usize = 1024;

/// Capacity for the name of a status and an explanation.
const LONGEST_TEXT: usize = LONGEST + 64;

/// The thread's last negative status and its explanation: a static sentence, or `own`.
struct Last {
    status: Cell<Status>,
    message: Cell<*const c_char>,
    own: [Cell<u8>; LONGEST],
    text: [Cell<u8>; LONGEST_TEXT],
}

lasting! {
    static LAST: Last = const {
        Last {
            status: Cell::new(Status::OK),
            message: Cell::new(c"".as_ptr()),
            own: [const { Cell::new(0) }; LONGEST],
            text: [const { Cell::new(0) }; LONGEST_TEXT],
        }
    };
}

/// The result of a call. A negative one stores its explanation for the thread. This allocates
/// nothing, because calls that poll often have such results.
pub(crate) trait Outcome {
    fn tell(self) -> ucxx_status_t;
}

/// A status that explains itself.
impl Outcome for Status {
    #[inline(always)]
    fn tell(self) -> ucxx_status_t {
        if self.is_error() {
            answered(self, self.sentence());
        }
        self.0
    }
}

/// OK, or a status with a sentence that explains it.
pub(crate) struct Answer(pub(crate) Status, pub(crate) &'static CStr);

impl Answer {
    pub(crate) const OK: Answer = Answer(Status::OK, c"");
}

impl Outcome for Answer {
    #[inline(always)]
    fn tell(self) -> ucxx_status_t {
        if self.0.is_error() {
            answered(self.0, self.1);
        }
        self.0 .0
    }
}

/// A status that is no error, or whose explanation `explain` has stored.
pub(crate) struct Explained(pub(crate) Status);

impl Outcome for Explained {
    #[inline(always)]
    fn tell(self) -> ucxx_status_t {
        self.0 .0
    }
}

/// Runs `f`. Its error becomes a status, and its explanation the thread's last error.
#[inline(always)]
pub(crate) fn status<O: Outcome>(f: impl FnOnce() -> Result<O>) -> ucxx_status_t {
    // The closure returns one plain number. A larger result would be passed in memory.
    let guarded = || match f() {
        Ok(outcome) => outcome.tell(),
        Err(error) => failed(error),
    };
    // Handles are shared references. After a panic their interior state is consistent enough to
    // return errors.
    match catch_unwind(AssertUnwindSafe(guarded)) {
        Ok(status) => status,
        Err(panic) => panicked(&*panic),
    }
}

/// The same for a call that creates or ends something, or waits. `pthread_cancel` does not end the
/// thread during the call.
pub(crate) fn whole(f: impl FnOnce() -> Result<Status>) -> ucxx_status_t {
    let _whole = Uncancelled::new();
    progressing(f)
}

/// The same for a call that may run callbacks. If one of them destroyed a worker, that ends here.
#[inline(always)]
pub(crate) fn progressing<O: Outcome>(f: impl FnOnce() -> Result<O>) -> ucxx_status_t {
    let status = status(f);
    end_doomed();
    status
}

/// The same as `whole`, for functions that return no status.
pub(crate) fn ending(f: impl FnOnce()) {
    let _whole = Uncancelled::new();
    quietly((), f);
    end_doomed();
}

#[inline(always)]
fn end_doomed() {
    if deferred_end::may_have_doomed() {
        undisturbed(|| quietly((), deferred_end::end_doomed));
    }
}

/// Runs `f`, which may run callbacks. The explanations of their calls do not replace that of the
/// status that is about to be returned.
#[cold]
fn undisturbed(f: impl FnOnce()) {
    let (status, message, own) = LAST.with(|last| {
        let own: [u8; LONGEST] = std::array::from_fn(|place| last.own[place].get());
        (last.status.get(), last.message.get(), own)
    });
    f();
    LAST.with(|last| {
        last.status.set(status);
        last.message.set(message);
        last.own.iter().zip(own).for_each(|(place, byte)| place.set(byte));
    });
}

/// Runs `f` in a function that returns no status. After a panic the result is `otherwise`.
pub(crate) fn quietly<T>(otherwise: T, f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        panicked(&*panic);
        otherwise
    })
}

#[cold]
#[inline(never)]
pub(crate) fn failed(error: Error) -> ucxx_status_t {
    explain(error.status(), error.message()).tell()
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> ucxx_status_t {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = format!("a bug in ucxx_rs, please report it: {}", text.unwrap_or("panic"));
    explain(Status::PANIC, &message).tell()
}

/// Makes an answer the thread's last error. Not `cold`: threads that poll call it often.
#[inline(never)]
fn answered(status: Status, sentence: &'static CStr) {
    LAST.with(|last| {
        last.status.set(status);
        last.message.set(sentence.as_ptr());
    });
}

/// Makes a failure the thread's last error. Without a message, the status' sentence explains it.
#[cold]
pub(crate) fn explain(status: Status, message: &str) -> Explained {
    if message.is_empty() {
        answered(status, status.sentence());
        return Explained(status);
    }
    LAST.with(|last| {
        write(&last.own, &[message]);
        last.status.set(status);
        last.message.set(last.own.as_ptr().cast());
    });
    Explained(status)
}

/// Writes the parts one after the other, cut between characters if too long, with a terminator.
fn write(place: &[Cell<u8>], parts: &[&str]) {
    let (end, room) = place.split_last().expect("not empty");
    end.set(0);
    let mut room = room.iter();
    for part in parts {
        let mut length = part.len().min(room.len());
        while !part.is_char_boundary(length) {
            length -= 1;
        }
        for (byte, place) in part.as_bytes()[..length].iter().zip(&mut room) {
            place.set(if *byte == 0 { b' ' } else { *byte });
        }
    }
    if let Some(place) = room.next() {
        place.set(0);
    }
}

/// The calling thread's last explanation. Empty if there was none.
pub(crate) fn last_error() -> *const c_char {
    LAST.with(|last| last.message.get())
}

/// The name of a status and its explanation: the thread's last one, if it belongs to this status.
pub(crate) fn text(status: Status) -> *const c_char {
    LAST.with(|last| {
        let message = if status.is_error() && status == last.status.get() {
            // SAFETY: a static sentence, or `own`, which is terminated. Nothing writes to it
            // meanwhile.
            unsafe { CStr::from_ptr(last.message.get()) }
        } else {
            status.sentence()
        };
        write(
            &last.text,
            &[&status.known_name().to_string_lossy(), ": ", &message.to_string_lossy()],
        );
        last.text.as_ptr().cast()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status_with_its_text() {
        let status = status::<Status>(|| panic!("number {}", 7));
        assert_eq!(status, Status::PANIC.0);
        // SAFETY: a terminated string of this thread's.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.contains("number 7"), "{text}");
        assert_eq!(quietly(5, || panic!("again")), 5);
    }

    #[test]
    fn an_explanation_that_is_too_long_is_cut_between_characters() {
        explain(Status::BUSY, &format!("a\0bc{}", "é".repeat(LONGEST)));
        // SAFETY: as above.
        let text = unsafe { CStr::from_ptr(last_error()) }.to_str().unwrap();
        assert!(text.starts_with("a bcé") && text.ends_with('é') && text.len() == LONGEST - 2);
        explain(Status::BUSY, "short");
        // SAFETY: as above.
        assert_eq!(unsafe { CStr::from_ptr(last_error()) }, c"short");
    }

    #[test]
    fn an_answer_has_an_explanation_of_its_own() {
        // SAFETY: as above.
        let said = || unsafe { CStr::from_ptr(last_error()) };
        explain(Status::INVALID_PARAM, "old");
        assert_eq!(status(|| Ok(Status::OK)), 0);
        assert_eq!(said(), c"old");
        assert_eq!(status(|| Ok(Status::NO_MESSAGE)), Status::NO_MESSAGE.0);
        assert_eq!(said(), Status::NO_MESSAGE.sentence());
        assert_eq!(status(|| Ok(Answer(Status::BUSY, c"poll first"))), Status::BUSY.0);
        assert_eq!(said(), c"poll first");
        assert_eq!(status(|| Ok(explain(Status::CANCELED, "recv"))), Status::CANCELED.0);
        assert_eq!(said(), c"recv");
        assert_eq!(status(|| Ok(explain(Status::CANCELED, ""))), Status::CANCELED.0);
        assert_eq!(said(), Status::CANCELED.sentence());
    }

    #[test]
    fn callbacks_after_a_call_do_not_change_its_explanation() {
        explain(Status::INVALID_PARAM, "of the call");
        undisturbed(|| {
            explain(Status::BUSY, "of a callback");
        });
        assert_eq!(
            // SAFETY: as above.
            unsafe { CStr::from_ptr(text(Status::INVALID_PARAM)) },
            c"UCXX_ERR_INVALID_PARAM: of the call"
        );
    }

    #[test]
    fn a_text_is_of_the_status_that_is_asked_for() {
        // SAFETY: as above.
        let said = |status| unsafe { CStr::from_ptr(text(status)) }.to_str().unwrap();
        explain(Status::REJECTED, "by 10.0.0.1");
        assert_eq!(said(Status::REJECTED), "UCXX_ERR_REJECTED: by 10.0.0.1");
        assert_eq!(said(Status::TIMED_OUT), "UCXX_ERR_TIMED_OUT: the time ran out");
        assert_eq!(said(Status::REJECTED), "UCXX_ERR_REJECTED: by 10.0.0.1");
        assert_eq!(said(Status::OK), "UCXX_OK: done");
        assert!(said(Status(-1007)).starts_with("UCXX_ERR_APPLICATION: "));
        explain(Status::MESSAGE_TRUNCATED, &"x".repeat(2 * LONGEST));
        assert_eq!(
            said(Status::MESSAGE_TRUNCATED).len(),
            "UCXX_ERR_MESSAGE_TRUNCATED: ".len() + LONGEST - 1
        );
    }
}
