//! Every number of the C interface. Declared as enums for the header alone: what a caller passes in
//! is an integer, checked in the function that takes it.
//!
//! Numbers of groups that are not offered yet stand here already, so that they cannot be given out
//! twice.
#![allow(missing_docs, dead_code)]

/// Values of `ucxx_status_t`. -1 to -99 are UCS's own numbers with their meaning; the library's own
/// lie below -200 and are never renumbered; -1000 and below belong to the application.
#[repr(C)]
pub enum ucxx_status {
    UCXX_OK = 0,
    /// Positive, so no error: also what ucxx_request_wait returns when its time has run out.
    UCXX_INPROGRESS = 1,
    UCXX_ERR_NO_MESSAGE = -1,
    /// Would block: send window or queue full; try again when writable.
    UCXX_ERR_NO_RESOURCE = -2,
    UCXX_ERR_IO_ERROR = -3,
    UCXX_ERR_NO_MEMORY = -4,
    UCXX_ERR_INVALID_PARAM = -5,
    UCXX_ERR_UNREACHABLE = -6,
    UCXX_ERR_INVALID_ADDR = -7,
    UCXX_ERR_NOT_IMPLEMENTED = -8,
    UCXX_ERR_MESSAGE_TRUNCATED = -9,
    /// ucxx_memory_pack writes the length that is needed; otherwise the message has it.
    UCXX_ERR_BUFFER_TOO_SMALL = -11,
    UCXX_ERR_NO_ELEM = -12,
    UCXX_ERR_NO_DEVICE = -14,
    UCXX_ERR_BUSY = -15,
    UCXX_ERR_CANCELED = -16,
    UCXX_ERR_ALREADY_EXISTS = -18,
    UCXX_ERR_OUT_OF_RANGE = -19,
    /// A wait's or an operation's time has run out; ucxx_request_wait tells that by INPROGRESS.
    UCXX_ERR_TIMED_OUT = -20,
    UCXX_ERR_EXCEEDS_LIMIT = -21,
    UCXX_ERR_UNSUPPORTED = -22,
    UCXX_ERR_REJECTED = -23,
    UCXX_ERR_NOT_CONNECTED = -24,
    /// The peer has closed its end: the normal end of a connection, for the side that closes
    /// second.
    UCXX_ERR_CONNECTION_RESET = -25,
    UCXX_ERR_ENDPOINT_TIMEOUT = -80,
    /// Call not legal in the window's present epoch.
    UCXX_ERR_RMA_SYNC = -201,
    /// Target range outside the window.
    UCXX_ERR_RMA_RANGE = -202,
    /// Target range not attached, or attach overlaps.
    UCXX_ERR_RMA_ATTACH = -203,
    /// Call not offered by this window flavour.
    UCXX_ERR_RMA_FLAVOR = -204,
    /// Operation and type do not go together.
    UCXX_ERR_RMA_OP = -205,
    /// A peer died holding an exclusive lock: contents unknown.
    UCXX_ERR_RMA_POISONED = -206,
    UCXX_ERR_RMA_RANK = -207,
    UCXX_ERR_RMA_TYPE = -208,
    UCXX_ERR_RMA_LOCK_TYPE = -209,
    UCXX_ERR_PEER_FAILED = -210,
    UCXX_ERR_RMA_ASSERT = -211,
    /// Object closed: end of stream for hubs.
    UCXX_ERR_CLOSED = -220,
    /// A hub link can never be served with the envelopes it has.
    UCXX_ERR_STARVED = -221,
    /// Handle used in a forked child.
    UCXX_ERR_FORKED = -230,
    /// A bug in the library was caught at the boundary.
    UCXX_ERR_PANIC = -299,
    /// This and below: never used by the library, free for the application.
    UCXX_ERR_APPLICATION = -1000,
}

/// What a notifier hands out: `kind` and `handle` of `ucxx_completion_t`.
#[repr(C)]
pub enum ucxx_event {
    /// An operation has completed. `handle` is NULL.
    UCXX_EVENT_COMPLETION = 0,
    /// Somebody asks a listener for a connection. `handle` is a `ucxx_conn_request_t *`, to be
    /// accepted or rejected, and destroyed.
    UCXX_EVENT_CONN_REQUEST = 1,
    /// An endpoint has ended, as for `on_close`; `status` says how, `user_data` which. `handle` is
    /// NULL.
    UCXX_EVENT_ENDPOINT_CLOSED = 2,
    /// An active message has come in. `handle` is a `ucxx_am_message_t *`, as for its handler.
    UCXX_EVENT_AM_MESSAGE = 3,
    /// A question has come in. `handle` is a `ucxx_fetch_t *`, as for its handler.
    UCXX_EVENT_FETCH = 4,
}

/// How much is logged.
#[repr(C)]
pub enum ucxx_log_level {
    UCXX_LOG_OFF = 0,
    UCXX_LOG_ERROR = 1,
    UCXX_LOG_WARN = 2,
    UCXX_LOG_INFO = 3,
    UCXX_LOG_DEBUG = 4,
    UCXX_LOG_TRACE = 5,
}

/// What a context is for. RMA lets peers read and write any memory of this process, as UCX checks
/// nothing over TCP; ATOMIC lets them do atomic operations on memory of which a key has been made.
/// Ask for them only if you mean it.
#[repr(C)]
pub enum ucxx_feature {
    UCXX_FEATURE_TAG = 1,
    UCXX_FEATURE_STREAM = 2,
    UCXX_FEATURE_AM = 4,
    UCXX_FEATURE_RMA = 8,
    UCXX_FEATURE_ATOMIC = 16,
    UCXX_FEATURE_WAKEUP = 32,
}

/// Which networks a context uses.
#[repr(C)]
pub enum ucxx_network {
    UCXX_NETWORK_ALL = 0,
    /// Loopback and shared memory only: no listening socket on any other interface. Listeners and
    /// ucxx_endpoint_connect work as ever, on 127.0.0.1, between processes of this host.
    UCXX_NETWORK_LOCAL = 1,
}

/// Who may call a worker while its progress is manual. With a progress thread, and once there has
/// been one, any thread may call at any time, whatever the mode (SINGLE excludes one). Calls that
/// overlap under SINGLE or SERIALIZED are BUSY where that is noticed.
///
/// "Any thread", of calls that act on a worker, means any that this lets in: under SINGLE the
/// worker's own. Requests may be destroyed by any thread in every mode; so may messages and
/// questions, except that under SERIALIZED it counts as a call on the worker.
#[repr(C)]
pub enum ucxx_thread_mode {
    /// Any thread, several at a time.
    UCXX_THREAD_MULTI = 0,
    /// Any thread, one at a time: the program sees to that.
    UCXX_THREAD_SERIALIZED = 1,
    /// The thread that has made it. INVALID_PARAM on another one.
    UCXX_THREAD_SINGLE = 2,
}

/// What drives a worker.
#[repr(C)]
pub enum ucxx_progress_mode {
    /// The application calls ucxx_worker_progress, or something that waits.
    UCXX_PROGRESS_MANUAL = 0,
    /// A thread polls, and sleeps after `spin_ns` without work. What comes later than that, as an
    /// answer whose round trip takes longer, has to wake it first.
    UCXX_PROGRESS_THREAD_ADAPTIVE = 1,
    /// A thread polls without end: it never has to be woken, and takes a CPU.
    UCXX_PROGRESS_THREAD_POLLING = 2,
    /// A thread sleeps whenever there is nothing to do: the least CPU time, and a wake-up each
    /// time.
    UCXX_PROGRESS_THREAD_BLOCKING = 3,
}

/// Where a buffer lives. Not UCX's numbers.
#[repr(C)]
pub enum ucxx_memory_type {
    /// Found out from the pointer. What peers are told of a buffer is HOST then.
    UCXX_MEMORY_AUTO = 0,
    UCXX_MEMORY_HOST = 1,
    UCXX_MEMORY_CUDA = 2,
    UCXX_MEMORY_CUDA_MANAGED = 3,
    UCXX_MEMORY_ROCM = 4,
    /// Host memory pinned for CUDA.
    UCXX_MEMORY_CUDA_PINNED = 16,
    /// Host memory posing as a device, for tests without a GPU.
    UCXX_MEMORY_DUMMY = 127,
}

/// Flags of `ucxx_op_params_t`.
#[repr(C)]
pub enum ucxx_flag {
    /// Never complete inside the call: it returns INPROGRESS, or an error, and the callback runs,
    /// or the notifier reports, in any case. With neither of them the request is there in any case.
    UCXX_FLAG_ALWAYS_CALLBACK = 1,
    /// Sends, fetches and answers: UCXX_ERR_NO_RESOURCE instead of waiting, whatever for: the send
    /// window, credit, the peer's first answer, a full submission queue. What other threads have
    /// handed to a progress thread counts.
    UCXX_FLAG_NO_WAIT = 2,
    /// ucxx_am_send*, ucxx_am_queue_send*, ucxx_fetch_reply*: the data travels with the message at
    /// any length. It is copied on the way, and takes memory at the receiver, and credit here,
    /// until the message is destroyed. Not with RNDV.
    UCXX_FLAG_EAGER = 4,
    /// Of the same functions: the data waits at the sender until the receiver pulls it, straight
    /// into its buffer, also where it is short.
    UCXX_FLAG_RNDV = 8,
    /// Submit through the queue even when it could go directly.
    UCXX_FLAG_DELAYED = 16,
    /// Stream receive: complete with what has arrived.
    UCXX_FLAG_STREAM_PARTIAL = 32,
    /// Blocking form: the call returns the operation's final status, never INPROGRESS, and makes no
    /// request. Where progress is manual it progresses meanwhile. The buffer is the caller's again,
    /// whatever the status. It waits without a limit, or with `timeout_ns`, after which the
    /// operation is cancelled: TIMED_OUT. What UCX has taken it cannot cancel, and the call waits
    /// for that, see UCXX_FLAG_TIMEOUT_CLOSES. Neither a signal handler nor ucxx_worker_signal ends
    /// it. BUSY from a callback.
    UCXX_FLAG_WAIT = 64,
    /// Active message: give the handler, or who polls the notifier, an endpoint to answer on.
    UCXX_FLAG_AM_REPLY = 128,
    /// At the deadline the endpoint is force-closed if that is what it takes to end the operation.
    UCXX_FLAG_TIMEOUT_CLOSES = 256,
}

/// Whether an endpoint notices that its peer has died.
#[repr(C)]
pub enum ucxx_error_handling {
    /// Default: peer death is detected, shared memory stays in use.
    UCXX_ENDPOINT_ERROR_HANDLING_PEER = 0,
    UCXX_ENDPOINT_ERROR_HANDLING_NONE = 1,
}

/// How an endpoint is closed.
#[repr(C)]
pub enum ucxx_close {
    /// What was sent before goes out first.
    UCXX_CLOSE_FLUSH = 0,
    /// What is under way is cut short.
    UCXX_CLOSE_FORCE = 1,
}

/// Atomic operations on registered memory.
#[repr(C)]
pub enum ucxx_atomic_op {
    UCXX_ATOMIC_ADD = 0,
    UCXX_ATOMIC_AND = 1,
    UCXX_ATOMIC_OR = 2,
    UCXX_ATOMIC_XOR = 3,
    UCXX_ATOMIC_SWAP = 4,
    UCXX_ATOMIC_CSWAP = 5,
}

/// How the members of a group find each other.
#[repr(C)]
pub enum ucxx_bootstrap {
    UCXX_BOOTSTRAP_CALLBACKS = 0,
    UCXX_BOOTSTRAP_TCP = 1,
    UCXX_BOOTSTRAP_PMIX = 2,
    UCXX_BOOTSTRAP_ENV = 3,
}

/// Kinds of windows.
#[repr(C)]
pub enum ucxx_window_flavor {
    UCXX_WINDOW_FLAVOR_CREATE = 0,
    UCXX_WINDOW_FLAVOR_ALLOCATE = 1,
    UCXX_WINDOW_FLAVOR_SHARED = 2,
    UCXX_WINDOW_FLAVOR_DYNAMIC = 3,
}

/// Kinds of window locks.
#[repr(C)]
pub enum ucxx_lock_type {
    UCXX_LOCK_SHARED = 1,
    UCXX_LOCK_EXCLUSIVE = 2,
}

/// Assertions of window synchronisation calls.
#[repr(C)]
pub enum ucxx_assert {
    UCXX_ASSERT_NOCHECK = 1,
    UCXX_ASSERT_NOSTORE = 2,
    UCXX_ASSERT_NOPUT = 4,
    UCXX_ASSERT_NOPRECEDE = 8,
    UCXX_ASSERT_NOSUCCEED = 16,
}

/// A window's synchronisation state.
#[repr(C)]
pub enum ucxx_sync_type {
    UCXX_SYNC_NONE = 0,
    UCXX_SYNC_LOCK = 1,
    UCXX_SYNC_LOCK_NO_CHECK = 2,
    UCXX_SYNC_LOCK_ALL = 3,
    UCXX_SYNC_LOCK_ALL_NO_CHECK = 4,
    UCXX_SYNC_PSCW = 5,
    UCXX_SYNC_FENCE = 6,
    UCXX_SYNC_FENCE_EPOCH = 7,
}

/// Element types of windows: a C type each. Those whose names end in _INT are pairs of a value and
/// an index. docs/windows.md names MPI's types for them.
#[repr(C)]
pub enum ucxx_type {
    UCXX_TYPE_BYTE = 0,
    UCXX_TYPE_INT8 = 1,
    UCXX_TYPE_UINT8 = 2,
    UCXX_TYPE_INT16 = 3,
    UCXX_TYPE_UINT16 = 4,
    UCXX_TYPE_INT32 = 5,
    UCXX_TYPE_UINT32 = 6,
    UCXX_TYPE_INT64 = 7,
    UCXX_TYPE_UINT64 = 8,
    UCXX_TYPE_FLOAT = 9,
    UCXX_TYPE_DOUBLE = 10,
    UCXX_TYPE_COMPLEX_FLOAT = 11,
    UCXX_TYPE_COMPLEX_DOUBLE = 12,
    UCXX_TYPE_BOOL = 13,
    UCXX_TYPE_FLOAT_INT = 14,
    UCXX_TYPE_DOUBLE_INT = 15,
    UCXX_TYPE_INT16_INT = 16,
    UCXX_TYPE_INT32_INT = 17,
    UCXX_TYPE_INT64_INT = 18,
    /// `long double`, 16 bytes. It is added, multiplied and compared on x86-64 alone: elsewhere
    /// such accumulates are UNSUPPORTED.
    UCXX_TYPE_LONG_DOUBLE = 19,
    UCXX_TYPE_COMPLEX_LONG_DOUBLE = 20,
    UCXX_TYPE_LONG_DOUBLE_INT = 21,
}

/// Operations of accumulates.
#[repr(C)]
pub enum ucxx_reduce {
    UCXX_REDUCE_SUM = 0,
    UCXX_REDUCE_PROD = 1,
    UCXX_REDUCE_MIN = 2,
    UCXX_REDUCE_MAX = 3,
    UCXX_REDUCE_LAND = 4,
    UCXX_REDUCE_LOR = 5,
    UCXX_REDUCE_LXOR = 6,
    UCXX_REDUCE_BAND = 7,
    UCXX_REDUCE_BOR = 8,
    UCXX_REDUCE_BXOR = 9,
    UCXX_REDUCE_REPLACE = 10,
    UCXX_REDUCE_NO_OP = 11,
    UCXX_REDUCE_MINLOC = 12,
    UCXX_REDUCE_MAXLOC = 13,
}

/// The order among accumulates.
#[repr(C)]
pub enum ucxx_accumulate_order {
    /// Rar, raw, war, waw.
    UCXX_ORDER_ALL = 0,
    UCXX_ORDER_NONE = 1,
}

/// How a window reaches a target.
#[repr(C)]
pub enum ucxx_path {
    UCXX_WINDOW_PATH_SELF = 0,
    UCXX_WINDOW_PATH_LOCAL = 1,
    UCXX_WINDOW_PATH_MESSAGE = 2,
    UCXX_WINDOW_PATH_RMA = 3,
}

/// Kinds of links of a hub.
#[repr(C)]
pub enum ucxx_link_type {
    UCXX_LINK_PRODUCE = 1,
    UCXX_LINK_CONSUME = 2,
    UCXX_LINK_PEEK = 3,
    UCXX_LINK_MODIFY = 4,
}

/// Whether a hub keeps the source of a transfer.
#[repr(C)]
pub enum ucxx_hub_retain {
    UCXX_HUB_RETAIN_AUTO = 0,
    UCXX_HUB_RETAIN_ALWAYS = 1,
    UCXX_HUB_RETAIN_UNTIL_COPIED = 2,
}

#[cfg(test)]
mod tests {
    use crate::engine::base::status::Status;

    #[test]
    fn every_status_of_the_header_is_the_engines() {
        let source = include_str!("constants.rs");
        let list = source
            .split("pub enum ucxx_status {")
            .nth(1)
            .and_then(|rest| rest.split('}').next())
            .unwrap();
        let mut seen = 0;
        for line in list.lines().filter(|line| line.trim().starts_with("UCXX_")) {
            let (name, number) = line.trim().trim_end_matches(',').split_once(" = ").unwrap();
            let status = Status(number.parse().unwrap());
            assert_eq!(status.name().and_then(|name| name.to_str().ok()), Some(name));
            seen += 1;
        }
        assert!(seen > 40, "the list was not found");
    }
}
