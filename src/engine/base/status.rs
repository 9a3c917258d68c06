//! Status numbers, and the error that carries one together with its explanation.
//!
//! Numbers from -1 to -99 are UCS's own, so a status from UCX needs no translation. The library's
//! own begin below -200.
#![deny(unsafe_code)]

use std::borrow::Cow;
use std::ffi::CStr;
use std::fmt;

/// A status at the C boundary: 0 done, 1 in progress, negative an error. Any number is allowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(transparent)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($constant:ident = $value:literal, $name:literal, $sentence:literal;)*) => {
        #[allow(missing_docs)]
        impl Status {
            $(pub const $constant: Status = Status($value);)*

            /// Name of the constant in the C header. All statuses of applications share one name.
            pub fn name(self) -> Option<&'static CStr> {
                match self.0 {
                    $($value => Some($name),)*
                    i32::MIN..=-1000 => Some(c"UCXX_ERR_APPLICATION"),
                    _ => None,
                }
            }

            /// One sentence on what the status means.
            pub fn sentence(self) -> &'static CStr {
                match self.0 {
                    $($value => $sentence,)*
                    i32::MIN..=-1000 => c"refused by the application with a status of its own",
                    -99..=-1 => c"an error of the UCX library",
                    _ => c"not a status of this library",
                }
            }
        }
    };
}

statuses! {
    OK = 0, c"UCXX_OK", c"done";
    INPROGRESS = 1, c"UCXX_INPROGRESS", c"the operation is under way";
    NO_MESSAGE = -1, c"UCXX_ERR_NO_MESSAGE", c"no message is waiting";
    NO_RESOURCE = -2, c"UCXX_ERR_NO_RESOURCE", c"no room at the moment: try again when there is";
    IO_ERROR = -3, c"UCXX_ERR_IO_ERROR", c"input or output failed";
    NO_MEMORY = -4, c"UCXX_ERR_NO_MEMORY", c"out of memory";
    INVALID_PARAM = -5, c"UCXX_ERR_INVALID_PARAM", c"an argument is not valid";
    UNREACHABLE = -6, c"UCXX_ERR_UNREACHABLE", c"the peer cannot be reached";
    INVALID_ADDR = -7, c"UCXX_ERR_INVALID_ADDR", c"the address is damaged or foreign";
    NOT_IMPLEMENTED = -8, c"UCXX_ERR_NOT_IMPLEMENTED", c"not implemented by the transport";
    MESSAGE_TRUNCATED = -9, c"UCXX_ERR_MESSAGE_TRUNCATED", c"the message is longer than the buffer";
    NO_PROGRESS = -10, c"UCS_ERR_NO_PROGRESS", c"no progress was made";
    BUFFER_TOO_SMALL = -11, c"UCXX_ERR_BUFFER_TOO_SMALL", c"the buffer is too small";
    NO_ELEM = -12, c"UCXX_ERR_NO_ELEM", c"there is no such element";
    SOME_CONNECTS_FAILED = -13, c"UCS_ERR_SOME_CONNECTS_FAILED", c"some of the connections failed";
    NO_DEVICE = -14, c"UCXX_ERR_NO_DEVICE", c"there is no such device";
    BUSY = -15, c"UCXX_ERR_BUSY", c"not possible at the moment: something else is under way";
    CANCELED = -16, c"UCXX_ERR_CANCELED", c"the operation was cancelled";
    SHMEM_SEGMENT = -17, c"UCS_ERR_SHMEM_SEGMENT", c"a shared memory segment could not be used";
    ALREADY_EXISTS = -18, c"UCXX_ERR_ALREADY_EXISTS", c"it exists already";
    OUT_OF_RANGE = -19, c"UCXX_ERR_OUT_OF_RANGE", c"outside the permitted range";
    TIMED_OUT = -20, c"UCXX_ERR_TIMED_OUT", c"the time ran out";
    EXCEEDS_LIMIT = -21, c"UCXX_ERR_EXCEEDS_LIMIT", c"over a limit";
    UNSUPPORTED = -22, c"UCXX_ERR_UNSUPPORTED", c"not supported";
    REJECTED = -23, c"UCXX_ERR_REJECTED", c"the peer refused";
    NOT_CONNECTED = -24, c"UCXX_ERR_NOT_CONNECTED", c"not connected";
    CONNECTION_RESET = -25, c"UCXX_ERR_CONNECTION_RESET", c"the peer closed the connection";
    ENDPOINT_TIMEOUT = -80, c"UCXX_ERR_ENDPOINT_TIMEOUT", c"the endpoint got no answer in time";
    RMA_SYNC = -201, c"UCXX_ERR_RMA_SYNC", c"the call is not legal in the window's present epoch";
    RMA_RANGE = -202, c"UCXX_ERR_RMA_RANGE", c"the target range lies outside the window";
    RMA_ATTACH = -203, c"UCXX_ERR_RMA_ATTACH",
        c"the target range is not attached, or attached ranges would overlap";
    RMA_FLAVOR = -204, c"UCXX_ERR_RMA_FLAVOR", c"the call is not offered by this kind of window";
    RMA_OP = -205, c"UCXX_ERR_RMA_OP", c"operation and type do not go together";
    RMA_POISONED = -206, c"UCXX_ERR_RMA_POISONED",
        c"a peer died while it held an exclusive lock: the contents are unknown";
    RMA_RANK = -207, c"UCXX_ERR_RMA_RANK", c"there is no such rank";
    RMA_TYPE = -208, c"UCXX_ERR_RMA_TYPE", c"there is no such element type";
    RMA_LOCK_TYPE = -209, c"UCXX_ERR_RMA_LOCK_TYPE", c"there is no such lock type";
    PEER_FAILED = -210, c"UCXX_ERR_PEER_FAILED", c"the peer died or can no longer be reached";
    RMA_ASSERT = -211, c"UCXX_ERR_RMA_ASSERT", c"the assertion is not valid for this call";
    CLOSED = -220, c"UCXX_ERR_CLOSED", c"the object is closed";
    STARVED = -221, c"UCXX_ERR_STARVED", c"the hub has no envelope that could ever serve this link";
    FORKED = -230, c"UCXX_ERR_FORKED",
        c"the handle was made before fork and cannot be used in the child";
    PANIC = -299, c"UCXX_ERR_PANIC", c"a bug in this library was caught at the boundary";
    APPLICATION = -1000, c"UCXX_ERR_APPLICATION",
        c"refused by the application with a status of its own";
}

impl Status {
    /// The name, or UCXX_ERR_UNKNOWN for a number without one.
    pub fn known_name(self) -> &'static CStr {
        self.name().unwrap_or(c"UCXX_ERR_UNKNOWN")
    }

    /// Is this an error, as opposed to done or in progress?
    pub fn is_error(self) -> bool {
        self.0 < 0
    }

    /// Maps the statuses by which UCX reports a lost peer to the one that callers see.
    pub(crate) fn or_peer_failed(self) -> Status {
        match self {
            Status::ENDPOINT_TIMEOUT
            | Status::CONNECTION_RESET
            | Status::NOT_CONNECTED
            | Status::UNREACHABLE
            | Status::IO_ERROR
            // The peer freed its memory before we had attached it.
            | Status::SHMEM_SEGMENT
            | Status::REJECTED => Status::PEER_FAILED,
            other if other.is_of_ucx_alone() => Status::IO_ERROR,
            other => other,
        }
    }

    /// UCX defines this status, and our header does not.
    fn is_of_ucx_alone(self) -> bool {
        (-99..0).contains(&self.0)
            && self.name().is_none_or(|name| !name.to_bytes().starts_with(b"UCXX_"))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            // Applications' statuses share one name, so those print their number.
            Some(name) if self.0 >= Status::APPLICATION.0 => f.write_str(&name.to_string_lossy()),
            _ => write!(f, "status {}", self.0),
        }
    }
}

/// A status with a sentence that names the cause. Boxed, so that a `Result` stays two words on the
/// hot path.
#[derive(Clone, Debug)]
pub struct Error(Box<(Status, Cow<'static, str>)>);

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The message says which argument, peer or limit it is about, and what to do.
    #[cold]
    pub fn new(status: Status, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new((status, message.into())))
    }

    /// An error with the status INVALID_PARAM.
    #[cold]
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(Status::INVALID_PARAM, message)
    }

    /// The status that the C caller gets.
    pub fn status(&self) -> Status {
        self.0 .0
    }

    /// The text for `ucxx_last_error_message`.
    pub fn message(&self) -> &str {
        &self.0 .1
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.status(), self.message())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_losing_a_peer_is_one_status() {
        for lost in [
            Status::ENDPOINT_TIMEOUT,
            Status::CONNECTION_RESET,
            Status::NOT_CONNECTED,
            Status::IO_ERROR,
        ] {
            assert_eq!(lost.or_peer_failed(), Status::PEER_FAILED);
        }
        assert_eq!(Status::CANCELED.or_peer_failed(), Status::CANCELED);
    }

    #[test]
    fn what_the_header_does_not_list_is_never_told() {
        for number in -99..0 {
            let told = Status(number).or_peer_failed();
            assert!(
                told.name().is_some_and(|name| name.to_bytes().starts_with(b"UCXX_ERR_")),
                "{number}"
            );
        }
    }

    #[test]
    fn unknown_numbers_have_a_sentence_but_no_name() {
        assert!(Status(-98).name().is_none());
        assert_eq!(Status(-98).sentence(), c"an error of the UCX library");
        assert_eq!(Status(i32::MIN).sentence(), Status::APPLICATION.sentence());
        assert_eq!(Status(-5000).sentence(), Status::APPLICATION.sentence());
        assert_eq!(Status(-5000).name(), Some(c"UCXX_ERR_APPLICATION"));
        assert_eq!(Status(77).sentence(), c"not a status of this library");
    }
}
