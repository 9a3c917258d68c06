//! Every number of the C interface.
//!
//! The enums exist for the header only. Callers pass integers, and each function checks those that
//! it takes. Numbers that no release offers yet are listed too, so that they are never reused.
#![allow(missing_docs, dead_code)]

/// Values of `ucxx_status_t`: 0 done, 1 in progress, negative an error.
///
/// - -1 to -99: the numbers of UCS, with their meaning. UCX may return one that is not listed here.
/// - -201 to -999: this library's own numbers. They are never renumbered.
/// - -1000 and below: reserved for the application.
///
/// The text of ucxx_error_text names the argument, the peer or the limit. Here each value has its
/// general meaning, and what to do.
#[repr(C)]
pub enum ucxx_status {
    /// Done.
    UCXX_OK = 0,
    /// The operation is in progress. This is not an error. Wait for the completion.
    ///
    /// ucxx_request_wait, _wait_all and _wait_any also return it when their timeout expires.
    UCXX_INPROGRESS = 1,
    /// No matching message has arrived. Probe again later, or post a receive.
    UCXX_ERR_NO_MESSAGE = -1,
    /// There is no room now: a queue, a window or the credit is used up. Nothing was submitted.
    /// Retry from ucxx_endpoint_on_writable (sends), or after some completions (submission queue).
    ///
    /// Also: the system cannot create a thread or descriptor. Raise the limit that the message
    /// names.
    UCXX_ERR_NO_RESOURCE = -2,
    /// Input or output failed, or the peer violated this library's protocol. Read the message and
    /// the log. Close the endpoint if it has ended.
    UCXX_ERR_IO_ERROR = -3,
    /// There is not enough memory, on the host or on the device. Free some, or ask for less.
    UCXX_ERR_NO_MEMORY = -4,
    /// An argument is invalid. The message names it. Nothing was submitted. Correct the call.
    UCXX_ERR_INVALID_PARAM = -5,
    /// No peer listens there, the name is unknown, or no transport connects the two. Check the
    /// address and UCX_TLS, and start the peer. Then connect again.
    UCXX_ERR_UNREACHABLE = -6,
    /// The address is damaged, or another program made it. Transfer the bytes again, unchanged.
    UCXX_ERR_INVALID_ADDR = -7,
    /// The UCX transport does not implement the call. Choose another transport (UCX_TLS).
    UCXX_ERR_NOT_IMPLEMENTED = -8,
    /// The message, or the reply, is longer than the buffer. The length is in `recv_info`. The
    /// message is consumed: provide a larger buffer next time.
    UCXX_ERR_MESSAGE_TRUNCATED = -9,
    /// The output buffer is too small. ucxx_memory_pack writes the needed length. In all other
    /// cases the message has it. Call again with that much room.
    UCXX_ERR_BUFFER_TOO_SMALL = -11,
    /// There is no such element: no request in the list, no progress thread, no buffers, no handler
    /// for the id, or no memory for the key any more. Correct the order of the calls.
    UCXX_ERR_NO_ELEM = -12,
    /// The device or its driver does not exist. Check the device number and the driver.
    UCXX_ERR_NO_DEVICE = -14,
    /// The call is not possible now: it would wait in a callback, it overlaps another call, or the
    /// port is in use. Return from the callback, or retry later.
    ///
    /// ucxx_worker_arm and ucxx_notifier_arm: there is something to do first. Progress, or poll,
    /// and arm again.
    UCXX_ERR_BUSY = -15,
    /// The operation was cancelled: by ucxx_request_cancel, by a close with FORCE, or by the end of
    /// its worker. The buffer is the caller's again. The peer may have received the message all the
    /// same.
    UCXX_ERR_CANCELED = -16,
    /// It exists already: a progress thread, an armed callback, or a reply. Nothing has changed.
    UCXX_ERR_ALREADY_EXISTS = -18,
    /// The index or offset is outside the object. Correct the call.
    UCXX_ERR_OUT_OF_RANGE = -19,
    /// The time of a wait, an operation, or an endpoint expired. Retry, or give the peer up.
    ///
    /// ucxx_request_wait does not return it when its own time expires: it returns UCXX_INPROGRESS.
    UCXX_ERR_TIMED_OUT = -20,
    /// Something is larger than a limit of yours or of the library. Raise the limit that the
    /// message names, or send less.
    UCXX_ERR_EXCEEDS_LIMIT = -21,
    /// The context has no such feature, or the loaded UCX, the memory type or the peer does not
    /// support the call. Read the message. Request the feature in ucxx_context_params_t, or use
    /// another call.
    UCXX_ERR_UNSUPPORTED = -22,
    /// The peer refused the connection, the fetch, or the secret of the group. Retrying helps only
    /// if the peer changes its mind.
    UCXX_ERR_REJECTED = -23,
    /// The endpoint is not connected. Wait for its on_open, or create a new endpoint.
    UCXX_ERR_NOT_CONNECTED = -24,
    /// The peer closed its endpoint. For the side that closes second, this is the normal end of a
    /// connection. Destroy the endpoint.
    UCXX_ERR_CONNECTION_RESET = -25,
    /// UCX received no answer from the peer in time. Operations and endpoints report
    /// UCXX_ERR_PEER_FAILED instead. Handle it in the same way.
    UCXX_ERR_ENDPOINT_TIMEOUT = -80,
    /// The window's present epoch does not allow the call. Begin or end an epoch first: see
    /// ucxx_window_sync_type.
    UCXX_ERR_RMA_SYNC = -201,
    /// The target range is outside the window. Correct the offset, count or layout.
    UCXX_ERR_RMA_RANGE = -202,
    /// The target range is not attached, or the range to attach overlaps an attached one. Call
    /// ucxx_window_attach or ucxx_window_detach first.
    UCXX_ERR_RMA_ATTACH = -203,
    /// This flavour of window does not offer the call. See `enum ucxx_window_flavor`.
    UCXX_ERR_RMA_FLAVOR = -204,
    /// The operation does not work on this element type. Choose another one: see `enum
    /// ucxx_reduce`.
    UCXX_ERR_RMA_OP = -205,
    /// A peer died while it held an exclusive lock, so the contents of the target are unknown.
    /// Destroy the window, and create a new one among the members that live.
    UCXX_ERR_RMA_POISONED = -206,
    /// The group has no such rank. Correct the call.
    UCXX_ERR_RMA_RANK = -207,
    /// There is no such element type. Use a UCXX_TYPE_* value.
    UCXX_ERR_RMA_TYPE = -208,
    /// There is no such lock type. Use a UCXX_LOCK_* value.
    UCXX_ERR_RMA_LOCK_TYPE = -209,
    /// The peer's process ended, or the peer is no longer reachable. Other endpoints are not
    /// affected. Destroy this endpoint, and connect again if the peer restarts.
    UCXX_ERR_PEER_FAILED = -210,
    /// The call does not accept this UCXX_ASSERT_* value. Correct the call.
    UCXX_ERR_RMA_ASSERT = -211,
    /// The object, or its parent, was closed, stopped or destroyed. Stop using it. For a hub this
    /// is the end of the stream.
    UCXX_ERR_CLOSED = -220,
    /// The hub link can never succeed: it has too few envelopes. The message has the number that is
    /// missing. Add envelopes on the link's device.
    UCXX_ERR_STARVED = -221,
    /// The handle was created before fork(), and this is the child. Create a new context in the
    /// child.
    UCXX_ERR_FORKED = -230,
    /// The library caught a bug of its own. Please report it, with the message.
    UCXX_ERR_PANIC = -299,
    /// This number and all numbers below it belong to the application. The library never originates
    /// them. It passes on those that a callback or ucxx_fetch_reject gives.
    UCXX_ERR_APPLICATION = -1000,
}

/// What a notifier reports: the `kind` of `ucxx_completion_t`, and the type of its `handle`.
#[repr(C)]
pub enum ucxx_event {
    /// An operation completed. `handle` is NULL.
    UCXX_EVENT_COMPLETION = 0,
    /// A client requests a connection from a listener. `handle` is a `ucxx_conn_request_t *`:
    /// accept or reject it, and destroy it.
    UCXX_EVENT_CONN_REQUEST = 1,
    /// An endpoint has ended, as reported to `on_close`. `user_data` names the endpoint, and
    /// `status` has the reason. `handle` is NULL.
    UCXX_EVENT_ENDPOINT_CLOSED = 2,
    /// An active message arrived. `handle` is a `ucxx_am_message_t *`, with the same rules as in a
    /// handler.
    UCXX_EVENT_AM_MESSAGE = 3,
    /// A fetch arrived: a peer expects a reply. `handle` is a `ucxx_fetch_t *`, with the same rules
    /// as in a handler.
    UCXX_EVENT_FETCH = 4,
}

/// How much is logged. Each level includes those above it in this list.
#[repr(C)]
pub enum ucxx_log_level {
    /// Nothing.
    UCXX_LOG_OFF = 0,
    /// Errors.
    UCXX_LOG_ERROR = 1,
    /// Warnings.
    UCXX_LOG_WARN = 2,
    /// Events of interest, such as a failed attempt to connect.
    UCXX_LOG_INFO = 3,
    /// Details for debugging.
    UCXX_LOG_DEBUG = 4,
    /// All details.
    UCXX_LOG_TRACE = 5,
}

/// What a context is used for: bits of ucxx_context_params_t.features.
///
/// RMA and ATOMIC open memory of this process to its peers. Request them only if you need them.
#[repr(C)]
pub enum ucxx_feature {
    /// Tag messages.
    UCXX_FEATURE_TAG = 1,
    /// Streams.
    UCXX_FEATURE_STREAM = 2,
    /// Active messages, fetches, groups, and hubs between processes.
    UCXX_FEATURE_AM = 4,
    /// Put and get. Peers can read and write *any* memory of this process, because UCX checks
    /// nothing over TCP.
    UCXX_FEATURE_RMA = 8,
    /// Atomic operations. Peers can perform them on memory for which ucxx_memory_pack made a key.
    UCXX_FEATURE_ATOMIC = 16,
    /// Descriptors, and waits that sleep. Progress threads need it.
    UCXX_FEATURE_WAKEUP = 32,
}

/// Which networks a context uses.
#[repr(C)]
pub enum ucxx_network {
    /// All that UCX finds.
    UCXX_NETWORK_ALL = 0,
    /// Loopback and shared memory only. UCX opens no listening socket on another interface.
    /// Listeners and ucxx_endpoint_connect work between processes of this host, on 127.0.0.1.
    UCXX_NETWORK_LOCAL = 1,
}

/// Which threads may call a worker while its progress is manual.
///
/// With a progress thread, any thread may call at any time, whatever the mode. This stays so after
/// the thread was stopped. SINGLE does not allow a progress thread. Calls that overlap under SINGLE
/// or SERIALIZED return UCXX_ERR_BUSY where the library notices it.
///
/// "Threads: any" at a function of a worker means any thread that this mode allows. Under SINGLE
/// that is the worker's own thread. Exceptions:
///
/// - Any thread may destroy requests, in every mode.
/// - Any thread may destroy messages and fetches. Under SERIALIZED this counts as a call on the
///   worker.
#[repr(C)]
pub enum ucxx_thread_mode {
    /// Any thread, several at a time. The library locks.
    UCXX_THREAD_MULTI = 0,
    /// Any thread, one at a time. The program ensures this.
    UCXX_THREAD_SERIALIZED = 1,
    /// Only the thread that created the worker. Other threads get UCXX_ERR_INVALID_PARAM.
    UCXX_THREAD_SINGLE = 2,
}

/// What makes progress on a worker.
#[repr(C)]
pub enum ucxx_progress_mode {
    /// The application: it calls ucxx_worker_progress, or a function that waits.
    UCXX_PROGRESS_MANUAL = 0,
    /// A thread that polls, and sleeps after `spin_ns` without work. A later event, such as a reply
    /// after a longer round trip, has to wake the thread first.
    UCXX_PROGRESS_THREAD_ADAPTIVE = 1,
    /// A thread that polls all the time. It needs no wake-up, and occupies a CPU.
    UCXX_PROGRESS_THREAD_POLLING = 2,
    /// A thread that sleeps whenever it has nothing to do. It uses the least CPU time, and each
    /// event costs a wake-up.
    UCXX_PROGRESS_THREAD_BLOCKING = 3,
}

/// Where a buffer is located. These are not UCX's numbers.
#[repr(C)]
pub enum ucxx_memory_type {
    /// UCX detects the type from the pointer. Buffers of this type are announced to peers as HOST.
    UCXX_MEMORY_AUTO = 0,
    /// Ordinary host memory.
    UCXX_MEMORY_HOST = 1,
    /// Memory of a CUDA device.
    UCXX_MEMORY_CUDA = 2,
    /// CUDA managed memory.
    UCXX_MEMORY_CUDA_MANAGED = 3,
    /// Memory of a ROCm device.
    UCXX_MEMORY_ROCM = 4,
    /// Host memory that is pinned for CUDA.
    UCXX_MEMORY_CUDA_PINNED = 16,
    /// Host memory that plays the part of a device, for tests without a GPU.
    UCXX_MEMORY_DUMMY = 127,
}

/// Flags of `ucxx_op_params_t`.
#[repr(C)]
pub enum ucxx_flag {
    /// Never complete inside the call. The call returns UCXX_INPROGRESS or an error. The callback
    /// runs, or the notifier reports, in every case. If the operation has neither, it always has a
    /// request.
    UCXX_FLAG_ALWAYS_CALLBACK = 1,
    /// Sends, fetches and replies: return UCXX_ERR_NO_RESOURCE instead of waiting. Reasons to wait
    /// are the send window, the credit, the peer's first answer, and a full submission queue. Sends
    /// that other threads have handed to a progress thread count too.
    UCXX_FLAG_NO_WAIT = 2,
    /// ucxx_am_send*, ucxx_am_queue_send*, ucxx_fetch_reply*: the data travels with the message,
    /// whatever its length. The data is copied. It occupies memory at the receiver, and credit
    /// here, until the receiver destroys the message. Excludes RNDV.
    UCXX_FLAG_EAGER = 4,
    /// The same functions: the data waits at the sender until the receiver pulls it directly into
    /// its buffer. This holds for short data too.
    UCXX_FLAG_RNDV = 8,
    /// Submit through the queue of the progress thread, also where the call could submit directly.
    /// Without a progress thread: UCXX_ERR_UNSUPPORTED.
    UCXX_FLAG_DELAYED = 16,
    /// Stream receive: complete with the bytes that have arrived.
    UCXX_FLAG_STREAM_PARTIAL = 32,
    /// Blocking form: the call returns the final status of the operation, never UCXX_INPROGRESS. It
    /// creates no request. When it returns, the buffer is the caller's again, whatever the status.
    ///
    /// - Under manual progress the call makes progress.
    /// - It waits without a limit, or for `timeout_ns`. Then it cancels the operation and returns
    ///   UCXX_ERR_TIMED_OUT.
    /// - UCX may already own the operation, so that it cannot be cancelled. The call then waits
    ///   until UCX completes it: see UCXX_FLAG_TIMEOUT_CLOSES.
    /// - Signal handlers and ucxx_worker_signal do not end the wait.
    /// - In a callback the call returns UCXX_ERR_BUSY.
    UCXX_FLAG_WAIT = 64,
    /// Active message: give the receiver an endpoint to reply on. See ucxx_am_message_reply.
    UCXX_FLAG_AM_REPLY = 128,
    /// When `timeout_ns` expires, close the endpoint by force if the operation cannot end
    /// otherwise.
    UCXX_FLAG_TIMEOUT_CLOSES = 256,
}

/// Whether an endpoint notices that its peer has died.
#[repr(C)]
pub enum ucxx_error_handling {
    /// The default. The endpoint detects the death of its peer, and still uses shared memory.
    UCXX_ENDPOINT_ERROR_HANDLING_PEER = 0,
    /// No detection. A close by force is not possible: see ucxx_endpoint_params_t.
    UCXX_ENDPOINT_ERROR_HANDLING_NONE = 1,
}

/// How ucxx_endpoint_close closes.
#[repr(C)]
pub enum ucxx_close {
    /// Complete what was submitted before.
    UCXX_CLOSE_FLUSH = 0,
    /// Cancel the operations in flight.
    UCXX_CLOSE_FORCE = 1,
}

/// The type of memory that receives a message of ucxx_am_queue_send_to.
///
/// - A receiver with this library makes host memory for host memory, and CUDA memory for CUDA
///   memory, whatever the policy is. It makes host memory for all other types.
/// - A receiver with UCXX 0.52 has the types of memory of its allocators.
#[repr(C)]
pub enum ucxx_am_memory {
    /// The receiver may use host memory in place of a type that it does not make.
    UCXX_AM_MEMORY_ANY = 0,
    /// The receiver refuses a message whose data waits here if it does not make this type. The send
    /// completes with UCXX_ERR_UNSUPPORTED. With UCXX, the receive does, too.
    UCXX_AM_MEMORY_EXACT = 1,
}

/// Operations of ucxx_rma_atomic on a number in registered memory.
#[repr(C)]
pub enum ucxx_atomic_op {
    /// Add, with wrap-around.
    UCXX_ATOMIC_ADD = 0,
    /// Bitwise AND.
    UCXX_ATOMIC_AND = 1,
    /// Bitwise OR.
    UCXX_ATOMIC_OR = 2,
    /// Bitwise XOR.
    UCXX_ATOMIC_XOR = 3,
    /// Store `operand`.
    UCXX_ATOMIC_SWAP = 4,
    /// Store `operand` if the number equals `compare`.
    UCXX_ATOMIC_CSWAP = 5,
}

/// How the members of a group find each other. See ucxx_group_create.
#[repr(C)]
pub enum ucxx_bootstrap {
    /// By the caller's `allgather`, for example over MPI or a file system.
    UCXX_BOOTSTRAP_CALLBACKS = 0,
    /// Over TCP: rank 0 listens at `root`.
    UCXX_BOOTSTRAP_TCP = 1,
    /// By the PMIx server of the launcher.
    UCXX_BOOTSTRAP_PMIX = 2,
    /// Over TCP, with rank and size from the environment of the launcher: torchrun, mpirun, mpiexec
    /// or srun.
    UCXX_BOOTSTRAP_ENV = 3,
}

/// Kinds of windows.
#[repr(C)]
pub enum ucxx_window_flavor {
    /// Memory of the caller: ucxx_window_create.
    UCXX_WINDOW_FLAVOR_CREATE = 0,
    /// Memory of the library: ucxx_window_allocate.
    UCXX_WINDOW_FLAVOR_ALLOCATE = 1,
    /// Memory of the library that all members map: ucxx_window_allocate_shared.
    UCXX_WINDOW_FLAVOR_SHARED = 2,
    /// Memory that members attach and detach: ucxx_window_create_dynamic.
    UCXX_WINDOW_FLAVOR_DYNAMIC = 3,
}

/// Kinds of window locks.
#[repr(C)]
pub enum ucxx_lock_type {
    /// Several members hold it at a time.
    UCXX_LOCK_SHARED = 1,
    /// One member holds it.
    UCXX_LOCK_EXCLUSIVE = 2,
}

/// Assertions: promises of the caller at a call that synchronises a window. The meaning is that of
/// MPI's MPI_MODE_* constants. A call returns UCXX_ERR_RMA_ASSERT for one that it does not accept.
#[repr(C)]
pub enum ucxx_assert {
    /// lock, lock_all: no other member holds or requests a conflicting lock. start: all targets
    /// have posted already. post: the matching start gives NOCHECK too.
    UCXX_ASSERT_NOCHECK = 1,
    /// post, fence: the local window was not written by local stores since the last
    /// synchronisation.
    UCXX_ASSERT_NOSTORE = 2,
    /// post, fence: no put or accumulate will update the local window in the epoch that begins.
    UCXX_ASSERT_NOPUT = 4,
    /// fence: this fence completes no operations that this member issued.
    UCXX_ASSERT_NOPRECEDE = 8,
    /// fence: this fence begins no epoch.
    UCXX_ASSERT_NOSUCCEED = 16,
}

/// The kind of epoch a window is in: result of ucxx_window_sync_type.
#[repr(C)]
pub enum ucxx_sync_type {
    /// No epoch.
    UCXX_SYNC_NONE = 0,
    /// After ucxx_window_lock.
    UCXX_SYNC_LOCK = 1,
    /// After ucxx_window_lock with NOCHECK.
    UCXX_SYNC_LOCK_NO_CHECK = 2,
    /// After ucxx_window_lock_all.
    UCXX_SYNC_LOCK_ALL = 3,
    /// After ucxx_window_lock_all with NOCHECK.
    UCXX_SYNC_LOCK_ALL_NO_CHECK = 4,
    /// After ucxx_window_start or ucxx_window_post (post, start, complete, wait).
    UCXX_SYNC_PSCW = 5,
    /// After ucxx_window_fence, before the first access.
    UCXX_SYNC_FENCE = 6,
    /// After ucxx_window_fence, with accesses.
    UCXX_SYNC_FENCE_EPOCH = 7,
}

/// Element types of windows: one C type each. The types with a name in _INT are pairs of a value
/// and an index. docs/windows.md names the corresponding MPI types.
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
    /// `long double`, 16 bytes. Sums, products and comparisons work on x86-64 only. Elsewhere such
    /// accumulates return UCXX_ERR_UNSUPPORTED.
    UCXX_TYPE_LONG_DOUBLE = 19,
    UCXX_TYPE_COMPLEX_LONG_DOUBLE = 20,
    UCXX_TYPE_LONG_DOUBLE_INT = 21,
}

/// Operations of accumulates.
#[repr(C)]
pub enum ucxx_reduce {
    /// Sum.
    UCXX_REDUCE_SUM = 0,
    /// Product.
    UCXX_REDUCE_PROD = 1,
    /// Minimum.
    UCXX_REDUCE_MIN = 2,
    /// Maximum.
    UCXX_REDUCE_MAX = 3,
    /// Logical AND.
    UCXX_REDUCE_LAND = 4,
    /// Logical OR.
    UCXX_REDUCE_LOR = 5,
    /// Logical XOR.
    UCXX_REDUCE_LXOR = 6,
    /// Bitwise AND.
    UCXX_REDUCE_BAND = 7,
    /// Bitwise OR.
    UCXX_REDUCE_BOR = 8,
    /// Bitwise XOR.
    UCXX_REDUCE_BXOR = 9,
    /// Replace.
    UCXX_REDUCE_REPLACE = 10,
    /// Change nothing. With a fetch: an atomic read.
    UCXX_REDUCE_NO_OP = 11,
    /// Minimum, with its index. For pair types.
    UCXX_REDUCE_MINLOC = 12,
    /// Maximum, with its index. For pair types.
    UCXX_REDUCE_MAXLOC = 13,
}

/// The order among accumulates of one process at one target.
#[repr(C)]
pub enum ucxx_accumulate_order {
    /// MPI's default: read after read, read after write, write after read, write after write.
    UCXX_ORDER_ALL = 0,
    /// No order is required.
    UCXX_ORDER_NONE = 1,
}

/// How a window reaches a target: result of ucxx_window_path.
#[repr(C)]
pub enum ucxx_path {
    /// The target is the calling process.
    UCXX_WINDOW_PATH_SELF = 0,
    /// The target is on this host, and its memory is accessed directly.
    UCXX_WINDOW_PATH_LOCAL = 1,
    /// By messages, which a thread of the group executes at the target.
    UCXX_WINDOW_PATH_MESSAGE = 2,
    /// Reserved. This release does not return it.
    UCXX_WINDOW_PATH_RMA = 3,
}

/// Kinds of links of a hub. See ucxx_link_lease.
#[repr(C)]
pub enum ucxx_link_type {
    /// Leases empty envelopes, and commits them as chunks.
    UCXX_LINK_PRODUCE = 1,
    /// Leases chunks, and takes them out of the queue.
    UCXX_LINK_CONSUME = 2,
    /// Leases the oldest chunk to read it.
    UCXX_LINK_PEEK = 3,
    /// Leases the oldest chunk to change it.
    UCXX_LINK_MODIFY = 4,
}

/// Whether a hub keeps the source envelope of a transfer between devices. See ucxx_hub_params_t.
#[repr(C)]
pub enum ucxx_hub_retain {
    /// Until the hub needs the envelope for another chunk, and no link that is served has to read
    /// the chunk there.
    UCXX_HUB_RETAIN_AUTO = 0,
    /// Until the chunk is consumed.
    UCXX_HUB_RETAIN_ALWAYS = 1,
    /// Only while a link that is served has to read the chunk there.
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
