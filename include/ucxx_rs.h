/*
 * ucxx_rs.h: communication over UCX for C and C++.
 *
 * Generated from the library's sources; not edited by hand.
 *
 * Where to begin
 *   set up       ucxx_context_create, ucxx_worker_create
 *   connect      ucxx_listener_create, ucxx_endpoint_accept; ucxx_endpoint_connect
 *                or by address: ucxx_worker_address, ucxx_address_from_bytes, ucxx_endpoint_create
 *   tags         ucxx_tag_send, ucxx_tag_recv, ucxx_tag_probe
 *   messages     ucxx_worker_set_am_handler, ucxx_am_send, ucxx_am_message_recv
 *   questions    ucxx_worker_set_fetch_handler, ucxx_am_fetch, ucxx_fetch_reply
 *   streams      ucxx_stream_send, ucxx_stream_recv
 *   progress     ucxx_worker_progress, ucxx_worker_wait; ucxx_worker_start_progress_thread
 *   event loops  ucxx_worker_event_fd, ucxx_worker_arm; ucxx_notifier_event_fd
 *   completion   UCXX_FLAG_WAIT, ucxx_request_wait, ucxx_request_callback_t, ucxx_notifier_poll
 *   to the end   ucxx_endpoint_flush, ucxx_endpoint_close, ucxx_endpoint_destroy
 *   errors       ucxx_error_text, ucxx_request_error_message
 *   and          ucxx_memory_*, ucxx_group_*, ucxx_window_*, ucxx_hub_*, ucxx_link_*
 *
 * Rules for every function
 *  - Handles are opaque. An out-pointer is written only on success. Every *_destroy takes NULL.
 *    A child keeps the memory of its parent alive, so handles may be destroyed in any order without
 *    harm to memory. A call on a child of something that was shut down returns UCXX_ERR_CLOSED, and
 *    a worker that goes before its endpoints cuts short what they had under way.
 *  - A function that can fail returns ucxx_status_t: 0 done, 1 in progress, negative an error. A
 *    negative status is explained to the thread that got it: ucxx_error_text(status) is what a
 *    program prints. That holds for an answer such as TIMED_OUT, BUSY or NO_MESSAGE, too, and for
 *    the status of an operation or an endpoint that a thread asks for, or waits for.
 *  - Parameter structs start with struct_size. All zero apart from that means default, NULL means
 *    all defaults. Set them up with UCXX_<NAME>_INIT or ucxx_<name>_init(&value, sizeof value). A
 *    larger struct than this library knows is taken when what it does not know is zero.
 *  - A bad argument returns UCXX_ERR_INVALID_PARAM with a message that names it; then nothing was
 *    submitted and no callback will run. A pointer may be NULL where its length or count is 0 (but
 *    no bytes are no address for ucxx_address_from_bytes), or where it is called optional.
 *  - An operation, a function that ends in (params, request), never blocks, unless UCXX_FLAG_WAIT
 *    is given; but calls of windows may wait where they go by messages: see ucxx_window_rput. It
 *    returns
 *      UCXX_OK          complete inside the call: *request = NULL, no callback runs;
 *      UCXX_INPROGRESS  it completes later: *request is set if a place for it was given, and must
 *                       be destroyed; without a place the library frees it;
 *      negative         nothing was submitted. With UCXX_FLAG_WAIT: how it has ended.
 *  - Time is in nanoseconds. Where timeout_ns is an argument 0 looks once and does not wait, and
 *    UINT64_MAX waits without end. In a parameter struct 0 is no limit, or the field's default.
 *  - When the time has run out
 *      ucxx_request_wait, _wait_all and _wait_any return UCXX_INPROGRESS, which is positive:
 *      nothing has failed, and the operation goes on;
 *      an operation's own timeout_ns ends it with UCXX_ERR_TIMED_OUT, also with UCXX_FLAG_WAIT;
 *      every other wait returns UCXX_ERR_TIMED_OUT. Leases of hubs with 0 give NO_RESOURCE.
 *  - Where progress is manual, everything that waits also progresses, but for ucxx_notifier_wait
 *    and ucxx_group_create; what waits for a hub, where it may: see ucxx_link_lease.
 *  - Kept by the caller until the operation completes: payload buffers and recv_info; an
 *    allocator's arg until its last buffer is gone. Copied: strings, lists of buffers, headers of
 *    messages and questions, params. ucxx_request_destroy does not give a buffer back: it is in use
 *    until the operation has completed, or ucxx_worker_destroy has returned. To give up an
 *    operation whose buffer has to go: ucxx_request_cancel, ucxx_request_wait without a limit, then
 *    ucxx_request_destroy.
 *  - What a callback gets as `arg` has to live as long as the callback may run:
 *      an operation's       until it has run, also where the request was destroyed before;
 *      an endpoint's        until on_close, its last, has run: ucxx_endpoint_destroy waits for it;
 *      a listener's         until ucxx_listener_destroy has returned (from a callback: until the
 *                           pass is over);
 *      a handler's          until its destroy_arg runs;
 *      thread_start's       as long as the worker.
 *    After ucxx_worker_destroy has returned none of them runs.
 *  - A callback runs exactly once, outside every lock, on the thread that drives progress: the
 *    progress thread, or the thread inside a call that progresses. Status and recv_info are stored,
 *    then the callback runs, then waiters are released. With a progress thread it may run before
 *    the call that submitted returns; *request is written before. From a callback every function
 *    may be called; those that wait return UCXX_ERR_BUSY, and destroying the worker or endpoint at
 *    hand takes effect at the end of the pass. These are BUSY as well where the worker has a
 *    progress thread that takes operations by its queue (see delayed_submission) and the callback
 *    runs on another thread, as one of another worker does: ucxx_endpoint_create, _connect, _accept
 *    and _query, ucxx_group_endpoint where it makes one, ucxx_listener_create, ucxx_tag_probe,
 *    ucxx_rkey_unpack, ucxx_link_connect, ucxx_worker_set_*_handler and _set_*_notifier,
 *    ucxx_worker_dump, and calls of windows that make a request.
 *  - Without callbacks: a notifier (ucxx_notifier_create) takes the place of those of operations,
 *    of on_connect and on_close, and of the handlers of active messages and questions. Each event
 *    is reported once, and what it hands out belongs to whoever polled it. On a thread that
 *    progresses: ucxx_notifier_poll until it gives none, then ucxx_worker_wait, and again. Beside a
 *    progress thread: ucxx_notifier_wait, then ucxx_notifier_poll.
 *  - A callback that waits for a thread must not be waited for by that thread: for one that holds
 *    an interpreter's lock which the callback takes, or runs the event loop which it asks. These
 *    wait for a callback that runs: the destroys of workers, endpoints, listeners, groups, windows,
 *    hubs and links, ucxx_worker_stop_progress_thread, ucxx_worker_run_pre and _run_post, and,
 *    where a progress thread takes operations by its queue, the calls of the list above. Give up
 *    the lock for them, or use what waits for nobody: ucxx_worker_destroy_nb; ucxx_endpoint_close,
 *    and the destroy in `on_close` or after it; any destroy in a callback; and a notifier instead
 *    of callbacks (ucxx_notifier_poll), which nothing waits for.
 *  - Messages of one thread on one endpoint match in the order they were submitted.
 *  - In a forked child calls return UCXX_ERR_FORKED, destroys do nothing, and a new context may be
 *    made.
 *  - A callback returns. One that an exception leaves, or that calls pthread_exit, ends the process
 *    there and then: std::terminate in the throw, or SIGABRT, with the callback on the stack, after
 *    a line in the log. longjmp out of one is not noticed, and not allowed.
 *  - C++: a handle fits std::unique_ptr with a deleter that calls its *_destroy. A lambda without
 *    captures is a callback: mark it noexcept, and hand over the object as `arg`. Members are
 *    destroyed in reverse order: declare the context first, then buffers, recv_info and what
 *    callbacks use, then the worker, then its endpoints and requests.
 *  - pthread_cancel: calls that wait, make or end something are no cancellation points; the thread
 *    is cancelled at the first one after them, so a wait without a timeout has to be ended first
 *    (ucxx_worker_signal, ucxx_notifier_stop, ucxx_hub_close). Calls that post an operation or make
 *    one pass are not guarded, for speed: a thread that may be cancelled disables that around them
 *    (pthread_setcancelstate). Otherwise a cancellation that meets UCX in a system call ends the
 *    process.
 *  - Signals: a handler that runs on a thread while it sleeps in ucxx_worker_wait or
 *    ucxx_notifier_wait makes that return OK, whatever the handler's flags (SA_RESTART). One that
 *    runs just before the sleep does not: where that matters the handler calls ucxx_worker_signal,
 *    the one function that a handler may call. Every other wait goes on, UCXX_FLAG_WAIT and
 *    ucxx_request_wait among them, until it has what it is for or its time is up.
 *  - Interpreters such as Python run their handlers when the C call has returned: those cannot call
 *    ucxx_worker_signal in time. So look at ucxx_request_status and call ucxx_worker_wait with a
 *    limit, in a loop. Or sleep in the interpreter's own poll, on ucxx_worker_event_fd and on the
 *    socket given to signal.set_wakeup_fd, which ucxx_worker_event_fd itself cannot be.
 *  - The library's threads block the signals that the kernel gives to any thread which takes them,
 *    such as SIGINT, SIGTERM, SIGCHLD and SIGUSR1. They take those that are sent to a thread, by
 *    which garbage collectors stop it (real-time ones, SIGPWR, SIGXCPU, SIGURG), and those of
 *    faults.
 *  - The library installs no signal handler (and takes back those that loading UCX installs),
 *    writes nothing to stdout or stderr, and changes no environment variable.
 */

#ifndef UCXX_RS_H
#define UCXX_RS_H

#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
#define UCXX_INIT_(type) ([]() { type value_ = type(); value_.struct_size = sizeof(type); return value_; }())
#else
#define UCXX_INIT_(type) { .struct_size = sizeof(type) }
#endif
/* A status that has to be looked at. Define it, as nothing or otherwise, to choose for yourself. */
#ifndef UCXX_NODISCARD
#if (defined __cplusplus && __cplusplus >= 201703L) || (defined __STDC_VERSION__ && __STDC_VERSION__ >= 202311L)
#define UCXX_NODISCARD [[nodiscard]]
#elif defined __GNUC__
#define UCXX_NODISCARD __attribute__((warn_unused_result))
#else
#define UCXX_NODISCARD
#endif
#endif
#define UCXX_VERSION_INIT UCXX_INIT_(ucxx_version_t)
#define UCXX_CONTEXT_PARAMS_INIT UCXX_INIT_(ucxx_context_params_t)
#define UCXX_WORKER_PARAMS_INIT UCXX_INIT_(ucxx_worker_params_t)
#define UCXX_WORKER_ATTR_INIT UCXX_INIT_(ucxx_worker_attr_t)
#define UCXX_WORKER_STATS_INIT UCXX_INIT_(ucxx_worker_stats_t)
#define UCXX_OP_PARAMS_INIT UCXX_INIT_(ucxx_op_params_t)
#define UCXX_ENDPOINT_PARAMS_INIT UCXX_INIT_(ucxx_endpoint_params_t)
#define UCXX_ENDPOINT_ATTR_INIT UCXX_INIT_(ucxx_endpoint_attr_t)
#define UCXX_ENDPOINT_LOAD_INIT UCXX_INIT_(ucxx_endpoint_load_t)
#define UCXX_LISTENER_PARAMS_INIT UCXX_INIT_(ucxx_listener_params_t)
#define UCXX_ALLOCATOR_INIT UCXX_INIT_(ucxx_allocator_t)
#define UCXX_GROUP_PARAMS_INIT UCXX_INIT_(ucxx_group_params_t)
#define UCXX_WINDOW_PARAMS_INIT UCXX_INIT_(ucxx_window_params_t)
#define UCXX_WINDOW_ATTR_INIT UCXX_INIT_(ucxx_window_attr_t)
#define UCXX_HUB_PARAMS_INIT UCXX_INIT_(ucxx_hub_params_t)
#define UCXX_AM_QUEUE_COVER_INIT UCXX_INIT_(ucxx_am_queue_cover_t)
#define UCXX_LINK_PARAMS_INIT UCXX_INIT_(ucxx_link_params_t)
#define UCXX_ENVELOPE_ATTR_INIT UCXX_INIT_(ucxx_envelope_attr_t)
#define UCXX_HUB_STATS_INIT UCXX_INIT_(ucxx_hub_stats_t)


/**
 * Major version that this header belongs to.
 */
#define UCXX_RS_VERSION_MAJOR 0

/**
 * Minor version. While the major version is 0, each is a different ABI, and a different SONAME.
 */
#define UCXX_RS_VERSION_MINOR 1

/**
 * Patch level.
 */
#define UCXX_RS_VERSION_PATCH 0

/**
 * Values of `ucxx_status_t`. -1 to -99 are UCS's own numbers with their meaning; the library's own
 * lie below -200 and are never renumbered; -1000 and below belong to the application.
 */
enum ucxx_status {
  UCXX_OK = 0,
  /**
   * Positive, so no error: also what ucxx_request_wait returns when its time has run out.
   */
  UCXX_INPROGRESS = 1,
  UCXX_ERR_NO_MESSAGE = -1,
  /**
   * Would block: send window or queue full; try again when writable.
   */
  UCXX_ERR_NO_RESOURCE = -2,
  UCXX_ERR_IO_ERROR = -3,
  UCXX_ERR_NO_MEMORY = -4,
  UCXX_ERR_INVALID_PARAM = -5,
  UCXX_ERR_UNREACHABLE = -6,
  UCXX_ERR_INVALID_ADDR = -7,
  UCXX_ERR_NOT_IMPLEMENTED = -8,
  UCXX_ERR_MESSAGE_TRUNCATED = -9,
  /**
   * ucxx_memory_pack writes the length that is needed; otherwise the message has it.
   */
  UCXX_ERR_BUFFER_TOO_SMALL = -11,
  UCXX_ERR_NO_ELEM = -12,
  UCXX_ERR_NO_DEVICE = -14,
  UCXX_ERR_BUSY = -15,
  UCXX_ERR_CANCELED = -16,
  UCXX_ERR_ALREADY_EXISTS = -18,
  UCXX_ERR_OUT_OF_RANGE = -19,
  /**
   * A wait's or an operation's time has run out; ucxx_request_wait tells that by INPROGRESS.
   */
  UCXX_ERR_TIMED_OUT = -20,
  UCXX_ERR_EXCEEDS_LIMIT = -21,
  UCXX_ERR_UNSUPPORTED = -22,
  UCXX_ERR_REJECTED = -23,
  UCXX_ERR_NOT_CONNECTED = -24,
  /**
   * The peer has closed its end: the normal end of a connection, for the side that closes
   * second.
   */
  UCXX_ERR_CONNECTION_RESET = -25,
  UCXX_ERR_ENDPOINT_TIMEOUT = -80,
  /**
   * Call not legal in the window's present epoch.
   */
  UCXX_ERR_RMA_SYNC = -201,
  /**
   * Target range outside the window.
   */
  UCXX_ERR_RMA_RANGE = -202,
  /**
   * Target range not attached, or attach overlaps.
   */
  UCXX_ERR_RMA_ATTACH = -203,
  /**
   * Call not offered by this window flavour.
   */
  UCXX_ERR_RMA_FLAVOR = -204,
  /**
   * Operation and type do not go together.
   */
  UCXX_ERR_RMA_OP = -205,
  /**
   * A peer died holding an exclusive lock: contents unknown.
   */
  UCXX_ERR_RMA_POISONED = -206,
  UCXX_ERR_RMA_RANK = -207,
  UCXX_ERR_RMA_TYPE = -208,
  UCXX_ERR_RMA_LOCK_TYPE = -209,
  UCXX_ERR_PEER_FAILED = -210,
  UCXX_ERR_RMA_ASSERT = -211,
  /**
   * Object closed: end of stream for hubs.
   */
  UCXX_ERR_CLOSED = -220,
  /**
   * A hub link can never be served with the envelopes it has.
   */
  UCXX_ERR_STARVED = -221,
  /**
   * Handle used in a forked child.
   */
  UCXX_ERR_FORKED = -230,
  /**
   * A bug in the library was caught at the boundary.
   */
  UCXX_ERR_PANIC = -299,
  /**
   * This and below: never used by the library, free for the application.
   */
  UCXX_ERR_APPLICATION = -1000,
};

/**
 * What a notifier hands out: `kind` and `handle` of `ucxx_completion_t`.
 */
enum ucxx_event {
  /**
   * An operation has completed. `handle` is NULL.
   */
  UCXX_EVENT_COMPLETION = 0,
  /**
   * Somebody asks a listener for a connection. `handle` is a `ucxx_conn_request_t *`, to be
   * accepted or rejected, and destroyed.
   */
  UCXX_EVENT_CONN_REQUEST = 1,
  /**
   * An endpoint has ended, as for `on_close`; `status` says how, `user_data` which. `handle` is
   * NULL.
   */
  UCXX_EVENT_ENDPOINT_CLOSED = 2,
  /**
   * An active message has come in. `handle` is a `ucxx_am_message_t *`, as for its handler.
   */
  UCXX_EVENT_AM_MESSAGE = 3,
  /**
   * A question has come in. `handle` is a `ucxx_fetch_t *`, as for its handler.
   */
  UCXX_EVENT_FETCH = 4,
};

/**
 * How much is logged.
 */
enum ucxx_log_level {
  UCXX_LOG_OFF = 0,
  UCXX_LOG_ERROR = 1,
  UCXX_LOG_WARN = 2,
  UCXX_LOG_INFO = 3,
  UCXX_LOG_DEBUG = 4,
  UCXX_LOG_TRACE = 5,
};

/**
 * What a context is for. RMA lets peers read and write any memory of this process, as UCX checks
 * nothing over TCP; ATOMIC lets them do atomic operations on memory of which a key has been made.
 * Ask for them only if you mean it.
 */
enum ucxx_feature {
  UCXX_FEATURE_TAG = 1,
  UCXX_FEATURE_STREAM = 2,
  UCXX_FEATURE_AM = 4,
  UCXX_FEATURE_RMA = 8,
  UCXX_FEATURE_ATOMIC = 16,
  UCXX_FEATURE_WAKEUP = 32,
};

/**
 * Which networks a context uses.
 */
enum ucxx_network {
  UCXX_NETWORK_ALL = 0,
  /**
   * Loopback and shared memory only: no listening socket on any other interface. Listeners and
   * ucxx_endpoint_connect work as ever, on 127.0.0.1, between processes of this host.
   */
  UCXX_NETWORK_LOCAL = 1,
};

/**
 * Who may call a worker while its progress is manual. With a progress thread, and once there has
 * been one, any thread may call at any time, whatever the mode (SINGLE excludes one). Calls that
 * overlap under SINGLE or SERIALIZED are BUSY where that is noticed.
 *
 * "Any thread", of calls that act on a worker, means any that this lets in: under SINGLE the
 * worker's own. Requests may be destroyed by any thread in every mode; so may messages and
 * questions, except that under SERIALIZED it counts as a call on the worker.
 */
enum ucxx_thread_mode {
  /**
   * Any thread, several at a time.
   */
  UCXX_THREAD_MULTI = 0,
  /**
   * Any thread, one at a time: the program sees to that.
   */
  UCXX_THREAD_SERIALIZED = 1,
  /**
   * The thread that has made it. INVALID_PARAM on another one.
   */
  UCXX_THREAD_SINGLE = 2,
};

/**
 * What drives a worker.
 */
enum ucxx_progress_mode {
  /**
   * The application calls ucxx_worker_progress, or something that waits.
   */
  UCXX_PROGRESS_MANUAL = 0,
  /**
   * A thread polls, and sleeps after `spin_ns` without work. What comes later than that, as an
   * answer whose round trip takes longer, has to wake it first.
   */
  UCXX_PROGRESS_THREAD_ADAPTIVE = 1,
  /**
   * A thread polls without end: it never has to be woken, and takes a CPU.
   */
  UCXX_PROGRESS_THREAD_POLLING = 2,
  /**
   * A thread sleeps whenever there is nothing to do: the least CPU time, and a wake-up each
   * time.
   */
  UCXX_PROGRESS_THREAD_BLOCKING = 3,
};

/**
 * Where a buffer lives. Not UCX's numbers.
 */
enum ucxx_memory_type {
  /**
   * Found out from the pointer. What peers are told of a buffer is HOST then.
   */
  UCXX_MEMORY_AUTO = 0,
  UCXX_MEMORY_HOST = 1,
  UCXX_MEMORY_CUDA = 2,
  UCXX_MEMORY_CUDA_MANAGED = 3,
  UCXX_MEMORY_ROCM = 4,
  /**
   * Host memory pinned for CUDA.
   */
  UCXX_MEMORY_CUDA_PINNED = 16,
  /**
   * Host memory posing as a device, for tests without a GPU.
   */
  UCXX_MEMORY_DUMMY = 127,
};

/**
 * Flags of `ucxx_op_params_t`.
 */
enum ucxx_flag {
  /**
   * Never complete inside the call: it returns INPROGRESS, or an error, and the callback runs,
   * or the notifier reports, in any case. With neither of them the request is there in any case.
   */
  UCXX_FLAG_ALWAYS_CALLBACK = 1,
  /**
   * Sends, fetches and answers: UCXX_ERR_NO_RESOURCE instead of waiting, whatever for: the send
   * window, credit, the peer's first answer, a full submission queue. What other threads have
   * handed to a progress thread counts.
   */
  UCXX_FLAG_NO_WAIT = 2,
  /**
   * ucxx_am_send*, ucxx_am_queue_send*, ucxx_fetch_reply*: the data travels with the message at
   * any length. It is copied on the way, and takes memory at the receiver, and credit here,
   * until the message is destroyed. Not with RNDV.
   */
  UCXX_FLAG_EAGER = 4,
  /**
   * Of the same functions: the data waits at the sender until the receiver pulls it, straight
   * into its buffer, also where it is short.
   */
  UCXX_FLAG_RNDV = 8,
  /**
   * Submit through the queue even when it could go directly.
   */
  UCXX_FLAG_DELAYED = 16,
  /**
   * Stream receive: complete with what has arrived.
   */
  UCXX_FLAG_STREAM_PARTIAL = 32,
  /**
   * Blocking form: the call returns the operation's final status, never INPROGRESS, and makes no
   * request. Where progress is manual it progresses meanwhile. The buffer is the caller's again,
   * whatever the status. It waits without a limit, or with `timeout_ns`, after which the
   * operation is cancelled: TIMED_OUT. What UCX has taken it cannot cancel, and the call waits
   * for that, see UCXX_FLAG_TIMEOUT_CLOSES. Neither a signal handler nor ucxx_worker_signal ends
   * it. BUSY from a callback.
   */
  UCXX_FLAG_WAIT = 64,
  /**
   * Active message: give the handler, or who polls the notifier, an endpoint to answer on.
   */
  UCXX_FLAG_AM_REPLY = 128,
  /**
   * At the deadline the endpoint is force-closed if that is what it takes to end the operation.
   */
  UCXX_FLAG_TIMEOUT_CLOSES = 256,
};

/**
 * Whether an endpoint notices that its peer has died.
 */
enum ucxx_error_handling {
  /**
   * Default: peer death is detected, shared memory stays in use.
   */
  UCXX_ENDPOINT_ERROR_HANDLING_PEER = 0,
  UCXX_ENDPOINT_ERROR_HANDLING_NONE = 1,
};

/**
 * How an endpoint is closed.
 */
enum ucxx_close {
  /**
   * What was sent before goes out first.
   */
  UCXX_CLOSE_FLUSH = 0,
  /**
   * What is under way is cut short.
   */
  UCXX_CLOSE_FORCE = 1,
};

/**
 * Atomic operations on registered memory.
 */
enum ucxx_atomic_op {
  UCXX_ATOMIC_ADD = 0,
  UCXX_ATOMIC_AND = 1,
  UCXX_ATOMIC_OR = 2,
  UCXX_ATOMIC_XOR = 3,
  UCXX_ATOMIC_SWAP = 4,
  UCXX_ATOMIC_CSWAP = 5,
};

/**
 * How the members of a group find each other.
 */
enum ucxx_bootstrap {
  UCXX_BOOTSTRAP_CALLBACKS = 0,
  UCXX_BOOTSTRAP_TCP = 1,
  UCXX_BOOTSTRAP_PMIX = 2,
  UCXX_BOOTSTRAP_ENV = 3,
};

/**
 * Kinds of windows.
 */
enum ucxx_window_flavor {
  UCXX_WINDOW_FLAVOR_CREATE = 0,
  UCXX_WINDOW_FLAVOR_ALLOCATE = 1,
  UCXX_WINDOW_FLAVOR_SHARED = 2,
  UCXX_WINDOW_FLAVOR_DYNAMIC = 3,
};

/**
 * Kinds of window locks.
 */
enum ucxx_lock_type {
  UCXX_LOCK_SHARED = 1,
  UCXX_LOCK_EXCLUSIVE = 2,
};

/**
 * Assertions of window synchronisation calls.
 */
enum ucxx_assert {
  UCXX_ASSERT_NOCHECK = 1,
  UCXX_ASSERT_NOSTORE = 2,
  UCXX_ASSERT_NOPUT = 4,
  UCXX_ASSERT_NOPRECEDE = 8,
  UCXX_ASSERT_NOSUCCEED = 16,
};

/**
 * A window's synchronisation state.
 */
enum ucxx_sync_type {
  UCXX_SYNC_NONE = 0,
  UCXX_SYNC_LOCK = 1,
  UCXX_SYNC_LOCK_NO_CHECK = 2,
  UCXX_SYNC_LOCK_ALL = 3,
  UCXX_SYNC_LOCK_ALL_NO_CHECK = 4,
  UCXX_SYNC_PSCW = 5,
  UCXX_SYNC_FENCE = 6,
  UCXX_SYNC_FENCE_EPOCH = 7,
};

/**
 * Element types of windows: a C type each. Those whose names end in _INT are pairs of a value and
 * an index. docs/windows.md names MPI's types for them.
 */
enum ucxx_type {
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
  /**
   * `long double`, 16 bytes. It is added, multiplied and compared on x86-64 alone: elsewhere
   * such accumulates are UNSUPPORTED.
   */
  UCXX_TYPE_LONG_DOUBLE = 19,
  UCXX_TYPE_COMPLEX_LONG_DOUBLE = 20,
  UCXX_TYPE_LONG_DOUBLE_INT = 21,
};

/**
 * Operations of accumulates.
 */
enum ucxx_reduce {
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
};

/**
 * The order among accumulates.
 */
enum ucxx_accumulate_order {
  /**
   * Rar, raw, war, waw.
   */
  UCXX_ORDER_ALL = 0,
  UCXX_ORDER_NONE = 1,
};

/**
 * How a window reaches a target.
 */
enum ucxx_path {
  UCXX_WINDOW_PATH_SELF = 0,
  UCXX_WINDOW_PATH_LOCAL = 1,
  UCXX_WINDOW_PATH_MESSAGE = 2,
  UCXX_WINDOW_PATH_RMA = 3,
};

/**
 * Kinds of links of a hub.
 */
enum ucxx_link_type {
  UCXX_LINK_PRODUCE = 1,
  UCXX_LINK_CONSUME = 2,
  UCXX_LINK_PEEK = 3,
  UCXX_LINK_MODIFY = 4,
};

/**
 * Whether a hub keeps the source of a transfer.
 */
enum ucxx_hub_retain {
  UCXX_HUB_RETAIN_AUTO = 0,
  UCXX_HUB_RETAIN_ALWAYS = 1,
  UCXX_HUB_RETAIN_UNTIL_COPIED = 2,
};

/**
 * A worker's address, to be sent to whoever wants to connect to it. Any thread may read it.
 */
struct ucxx_address;

/**
 * An active message that has come in: its handler's, or that of who polled its notifier.
 */
struct ucxx_am_message;

/**
 * Buffers that were made for what has come.
 */
struct ucxx_buffers;

/**
 * Somebody who wants a connection, to be accepted or rejected.
 */
struct ucxx_conn_request;

/**
 * UCX set up once; what its workers share. Any thread may use it.
 */
struct ucxx_context;

/**
 * A connection from a worker to one peer.
 */
struct ucxx_endpoint;

/**
 * An envelope on lease. Any thread may use it, one at a time.
 */
struct ucxx_envelope;

/**
 * A question that has come in: its handler's, or that of who polled its notifier.
 */
struct ucxx_fetch;

/**
 * Processes that know each other by rank. Any thread may use it.
 */
struct ucxx_group;

/**
 * A queue of chunks, and the envelopes that they lie in. Any thread may use it.
 */
struct ucxx_hub;

/**
 * A way into a hub, or out of it. Any thread may use it, several at a time too.
 */
struct ucxx_link;

/**
 * An address and port on which a worker takes connections.
 */
struct ucxx_listener;

/**
 * Registered memory, which peers that are given a key can read and write. Any thread may use it.
 */
struct ucxx_memory;

/**
 * A completion queue for operations of any worker of one context. Any thread may use it.
 */
struct ucxx_notifier;

/**
 * One operation under way, or complete and not destroyed yet.
 */
struct ucxx_request;

/**
 * A key to a peer's registered memory, for one endpoint.
 */
struct ucxx_rkey;

/**
 * A message that a probe took out of matching.
 */
struct ucxx_tag_message;

/**
 * Memory that each member of a group offers to the others. Data calls may come from any thread.
 */
struct ucxx_window;

/**
 * Progress, and everything that happens on one UCP worker.
 */
struct ucxx_worker;

/**
 * 0 done, 1 in progress, negative an error: one of `enum ucxx_status`, or another of UCS's
 * numbers.
 */
typedef int32_t ucxx_status_t;

/**
 * What `ucxx_version_query` tells. The strings are static.
 */
struct ucxx_version {
  /**
   * Set by UCXX_VERSION_INIT.
   */
  size_t struct_size;
  /**
   * Of this library.
   */
  uint32_t major;
  /**
   * Of this library.
   */
  uint32_t minor;
  /**
   * Of this library.
   */
  uint32_t patch;
  /**
   * Of the UCX that is loaded, which need not be the one that the program was built with.
   */
  uint32_t ucx_major;
  /**
   * Of the UCX that is loaded.
   */
  uint32_t ucx_minor;
  /**
   * Of the UCX that is loaded.
   */
  uint32_t ucx_patch;
  /**
   * Of this library, such as "0.1.0".
   */
  const char *version_string;
  /**
   * The file that the loaded libucp came from; empty where the loader does not tell.
   */
  const char *ucx_library_path;
  /**
   * Images of libucp mapped into this process: more than one is trouble.
   */
  uint32_t ucx_copies;
};

/**
 * What `ucxx_version_query` tells. The strings are static.
 */
typedef struct ucxx_version ucxx_version_t;

/**
 * Receives one line of the log: `component` is "ucx" for what UCX logged. Both strings are valid
 * during the call. It may run on any thread, UCX's own among them, several at once, and in the
 * middle of another call: it must not call back into the library, nor throw.
 */
typedef void (*ucxx_log_callback_t)(void *arg, int32_t level, const char *component, const char *message);

/**
 * One UCX variable.
 */
struct ucxx_config_entry {
  /**
   * Without "UCX_"; transport variables with their prefix (POSIX_, CMA_, TCP_), whatever the
   * loaded UCX calls them.
   */
  const char *key;
  /**
   * As it would stand in the environment.
   */
  const char *value;
};

/**
 * One UCX variable.
 */
typedef struct ucxx_config_entry ucxx_config_entry_t;

/**
 * What a context is made from.
 */
struct ucxx_context_params {
  /**
   * Set by UCXX_CONTEXT_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_FEATURE_*; 0 means TAG, STREAM, AM and WAKEUP. RMA and ATOMIC let peers touch memory:
   * ask for them. WAKEUP is what descriptors and sleeping need.
   */
  uint64_t features;
  /**
   * Overrides the environment and the library's own defaults; one that cannot be applied is an
   * error, here or in ucxx_worker_create. Numbers have a decimal point, whatever the locale. May
   * be NULL when `config_count` is 0.
   */
  const ucxx_config_entry_t *config;
  /**
   * Number of entries.
   */
  size_t config_count;
  /**
   * UCXX_NETWORK_*.
   */
  int32_t network;
  /**
   * Shown in UCX's own output; optional.
   */
  const char *name;
};

/**
 * What a context is made from.
 */
typedef struct ucxx_context_params ucxx_context_params_t;

/**
 * UCX set up once; what its workers share. Any thread may use it.
 */
typedef struct ucxx_context ucxx_context_t;

/**
 * Receives one variable; both strings are valid during the call.
 */
typedef void (*ucxx_config_visitor_t)(void *arg, const char *key, const char *value);

/**
 * What a worker is made with.
 */
struct ucxx_worker_params {
  /**
   * Set by UCXX_WORKER_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_THREAD_*: who may call while progress is manual. SINGLE is the creating thread.
   */
  int32_t thread_mode;
  /**
   * UCXX_PROGRESS_*. A progress thread needs UCXX_FEATURE_WAKEUP and a thread mode other than
   * SINGLE.
   */
  int32_t progress_mode;
  /**
   * While there is a progress thread: 1 others hand operations to it by a queue, -1 they take a
   * lock and call UCX themselves, 0 as UCXX_RS_DELAYED_SUBMISSION (0 or 1) in the environment
   * says, on if that is not set.
   */
  int32_t delayed_submission;
  /**
   * Operations that the queue holds, at most 1,048,576; 0 for 4096. When it is full they get
   * NO_RESOURCE; flush, close and cancel never do.
   */
  uint32_t submission_queue_depth;
  /**
   * Nanoseconds without work that an adaptive progress thread, or a call which waits under
   * manual progress, polls before it sleeps; 0 for the default, 50 microseconds. What takes
   * longer than that, such as a round trip, has a wake-up added to it.
   */
  uint64_t spin_ns;
  /**
   * -1, 0 or 1: may a thread that waits progress in a progress thread's place? Without effect in
   * this release.
   */
  int32_t wait_takeover;
  /**
   * Pin the progress thread to this CPU + 1; 0 = do not. One that cannot be used is
   * INVALID_PARAM.
   */
  int32_t cpu;
  /**
   * Runs first on the progress thread, on each that is started. It counts as a callback.
   */
  void (*thread_start)(void *arg);
  /**
   * Passed to `thread_start`. Has to live as long as the worker.
   */
  void *thread_start_arg;
  /**
   * Name of the thread (of which the system keeps 15 bytes), and of the worker in dumps;
   * optional.
   */
  const char *name;
};

/**
 * What a worker is made with.
 */
typedef struct ucxx_worker_params ucxx_worker_params_t;

/**
 * Progress, and everything that happens on one UCP worker.
 */
typedef struct ucxx_worker ucxx_worker_t;

/**
 * What `ucxx_worker_query` tells.
 */
struct ucxx_worker_attr {
  /**
   * Set by UCXX_WORKER_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_THREAD_*.
   */
  int32_t thread_mode;
  /**
   * UCXX_PROGRESS_*.
   */
  int32_t progress_mode;
  /**
   * Are operations submitted by a queue?
   */
  uint8_t delayed_submission;
  /**
   * Is there a progress thread?
   */
  uint8_t progress_thread_running;
  /**
   * Bytes; 0 without UCXX_FEATURE_AM.
   */
  size_t max_am_header;
  /**
   * The kernel's number for it (gettid); 0 without one.
   */
  uint64_t progress_thread_id;
};

/**
 * What `ucxx_worker_query` tells.
 */
typedef struct ucxx_worker_attr ucxx_worker_attr_t;

/**
 * Monotonic counters of a worker, but for `in_flight` and `endpoints`, which are what is there
 * now.
 */
struct ucxx_worker_stats {
  /**
   * Set by UCXX_WORKER_STATS_INIT.
   */
  size_t struct_size;
  /**
   * Operations taken; those that completed well; badly; cancelled; under way.
   */
  uint64_t submitted;
  uint64_t completed;
  uint64_t failed;
  uint64_t canceled;
  uint64_t in_flight;
  /**
   * Bytes in operations taken.
   */
  uint64_t bytes_sent;
  uint64_t bytes_received;
  /**
   * The submission queue: operations that went through it, its greatest length seen, refusals
   * because it was full.
   */
  uint64_t delayed;
  uint64_t queue_high_water;
  uint64_t queue_full;
  uint64_t progress_calls;
  uint64_t wakeups;
  uint64_t sleeps;
  uint64_t endpoints;
  uint64_t endpoint_failures;
  /**
   * Active messages that came with their data and found no handler.
   */
  uint64_t am_unhandled;
};

/**
 * Monotonic counters of a worker, but for `in_flight` and `endpoints`, which are what is there
 * now.
 */
typedef struct ucxx_worker_stats ucxx_worker_stats_t;

/**
 * One operation under way, or complete and not destroyed yet.
 */
typedef struct ucxx_request ucxx_request_t;

/**
 * Runs once when an operation has completed after its call returned INPROGRESS: outside every
 * lock, on the thread that drives progress. `request` is valid during the call even when the
 * caller kept none, and NULL after an early destroy. It may call every function; those that wait
 * return BUSY. It must not throw.
 */
typedef void (*ucxx_request_callback_t)(void *arg, ucxx_request_t *request, ucxx_status_t status);

/**
 * A completion queue for operations of any worker of one context. Any thread may use it.
 */
typedef struct ucxx_notifier ucxx_notifier_t;

/**
 * Registered memory, which peers that are given a key can read and write. Any thread may use it.
 */
typedef struct ucxx_memory ucxx_memory_t;

/**
 * What a receive tells of its message.
 */
struct ucxx_recv_info {
  /**
   * Bytes of the message, also when it did not fit.
   */
  uint64_t length;
  /**
   * The tag it was sent with.
   */
  uint64_t sender_tag;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * What a receive tells of its message.
 */
typedef struct ucxx_recv_info ucxx_recv_info_t;

/**
 * A connection from a worker to one peer.
 */
typedef struct ucxx_endpoint ucxx_endpoint_t;

/**
 * What every operation takes beside its own arguments; NULL means all defaults.
 *
 * `flags`, `timeout_ns`, and `callback` or `notifier` are for all operations. The others are
 * checked by all, and used by those that have a use for them:
 * - `memory_type`, `memory`: operations on one buffer; an entry of a list has its own memory type;
 * - `recv_info`: receives and fetches. Others may write to it: leave it NULL;
 * - `source`: tag receives.
 */
struct ucxx_op_params {
  /**
   * Set by UCXX_OP_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_FLAG_*. WAIT excludes a callback, a notifier and ALWAYS_CALLBACK, EAGER excludes RNDV.
   * A flag that is not for the operation is INVALID_PARAM. DELAYED, through the queue even from
   * where it could go directly, needs a progress thread: UNSUPPORTED without one.
   */
  uint64_t flags;
  /**
   * UCXX_MEMORY_* of the caller's buffer; saying HOST saves the detection.
   */
  int32_t memory_type;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * Nanoseconds; 0 for none. At the end of it the operation is cancelled as by
   * ucxx_request_cancel, with TIMED_OUT, also under UCXX_FLAG_WAIT: so what UCX has taken, as a
   * large send that nobody receives, goes on beyond it. With UCXX_FLAG_TIMEOUT_CLOSES its
   * endpoint is closed by force if that is what it takes.
   */
  uint64_t timeout_ns;
  /**
   * Runs when the operation completes, unless it did so inside the call (but see
   * UCXX_FLAG_ALWAYS_CALLBACK).
   */
  ucxx_request_callback_t callback;
  /**
   * Passed to the callback, or with the notifier's report. Has to live until that.
   */
  void *callback_arg;
  /**
   * Instead of a callback: reports when the operation completes, unless it did so inside the
   * call (but see UCXX_FLAG_ALWAYS_CALLBACK). Of the same context, and not stopped. Optional.
   */
  ucxx_notifier_t *notifier;
  /**
   * Registered memory of the same context that covers the buffer. A hint: UCX finds what it has
   * registered by itself. Optional.
   */
  ucxx_memory_t *memory;
  /**
   * Filled when a receive or a fetch completes, also inside the call, and for a stream receive
   * also when it fails; kept valid by the caller until then. Optional.
   */
  ucxx_recv_info_t *recv_info;
  /**
   * Tag receives: end with this endpoint's failure or close, too, and at once if it has ended
   * already, also where the message has arrived; has no effect on matching. Optional.
   */
  ucxx_endpoint_t *source;
};

/**
 * What every operation takes beside its own arguments; NULL means all defaults.
 */
typedef struct ucxx_op_params ucxx_op_params_t;

/**
 * One operation that has completed, or one event, as its notifier hands it out.
 */
struct ucxx_completion {
  /**
   * `callback_arg` of the operation's parameters; what the notifier was given with for events.
   */
  void *user_data;
  /**
   * The request, until it is destroyed; NULL if none was asked for, or if it has been destroyed
   * already.
   */
  ucxx_request_t *request;
  /**
   * Bytes of the message, for a receive also when it did not fit, or of the question's data; 0
   * for what carries none.
   */
  uint64_t length;
  /**
   * The tag the message was sent with.
   */
  uint64_t sender_tag;
  /**
   * UCXX_OK or an error, never INPROGRESS.
   */
  ucxx_status_t status;
  /**
   * UCXX_EVENT_*: what it tells of. UCXX_EVENT_COMPLETION, 0, where only operations name the
   * notifier.
   */
  int32_t kind;
  /**
   * What came in, see UCXX_EVENT_*. It belongs to whoever polls, and is to be destroyed; NULL
   * where nothing did.
   */
  void *handle;
  /**
   * Zero.
   */
  uint32_t reserved[4];
};

/**
 * One operation that has completed, or one event, as its notifier hands it out.
 */
typedef struct ucxx_completion ucxx_completion_t;

/**
 * A worker's address, to be sent to whoever wants to connect to it. Any thread may read it.
 */
typedef struct ucxx_address ucxx_address_t;

/**
 * Runs once for the event it was registered for, on the thread that drives progress, outside every
 * lock. It may call every function; those that wait return BUSY. It must not throw.
 */
typedef void (*ucxx_endpoint_callback_t)(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);

/**
 * What an endpoint is made with.
 */
struct ucxx_endpoint_params {
  /**
   * Set by UCXX_ENDPOINT_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_ENDPOINT_ERROR_HANDLING_*. PEER, the default, notices a dead peer and keeps shared
   * memory in use; NONE does not notice, and cannot be closed by force: what does not end by
   * itself stays with UCX until the worker goes. Endpoints of a worker to itself are always
   * NONE.
   */
  int32_t error_handling;
  /**
   * The send window: while UCX has so many sends of the endpoint that it has not completed,
   * further ones wait in the endpoint's send queue. 0 for 256.
   */
  uint32_t send_window_ops;
  /**
   * The same in bytes: sends wait from when so many are under way. The send that reaches the
   * limit goes out, too, so one always does that finds nothing under way. 0 for 256 MiB.
   */
  uint64_t send_window_bytes;
  /**
   * The send queue: how many sends may wait behind the window, or for the peer's first answer,
   * before further ones are refused with NO_RESOURCE. What other threads have handed to a
   * progress thread counts. Threads that submit to it at the same moment may get in one more
   * each than these, but for the first. 0 for 16384.
   */
  uint32_t send_queue_ops;
  /**
   * The same in bytes; 0 for no limit.
   */
  uint64_t send_queue_bytes;
  /**
   * Give the endpoint up, with TIMED_OUT, if the peer has not answered by then; 0 for no limit.
   * Nanoseconds. Where a host has several addresses, each that is left gets an equal share of
   * the time that is left.
   */
  uint64_t connect_timeout_ns;
  /**
   * Give the peer up, with TIMED_OUT, when it stays silent this long while something of the
   * endpoint's is under way: a send, a flush, or a receive that names it in `source`; 0 for
   * never. For stopped processes and cut links; a process that has ended is noticed without it.
   * Noticed within one and a half times it, and up to five seconds later while the connection is
   * still being made. Peers answer when they make progress: choose it longer than they may go
   * without. Time in which this side makes no progress is not counted, but for half of it. Only
   * workers of this library can be asked. A peer that was only stopped may go on reading the
   * buffer of a large send after the send has ended here.
   */
  uint64_t liveness_ns;
  /**
   * ucxx_endpoint_connect: the numeric address to connect from, such as "192.0.2.1" or
   * "192.0.2.1:4711", or NULL for the system's choice. NULL elsewhere: UNSUPPORTED from
   * ucxx_endpoint_create, INVALID_PARAM from ucxx_endpoint_accept.
   */
  const char *local_address;
  /**
   * Once, when the peer has answered; not if the endpoint ended before. Operations need not wait
   * for it.
   */
  ucxx_endpoint_callback_t on_open;
  /**
   * Passed to `on_open`.
   */
  void *on_open_arg;
  /**
   * Once, when the endpoint has ended: OK after a close; CONNECTION_RESET when the peer closed
   * its end, which is no failure (see ucxx_endpoint_close); PEER_FAILED when it died; TIMED_OUT
   * when a time ran out; REJECTED or UNREACHABLE when ucxx_endpoint_connect led to nothing;
   * CANCELED when the request of a close was cancelled; IO_ERROR when the peer broke the rules
   * of the library's messages; UNSUPPORTED when it speaks another version of them.
   */
  ucxx_endpoint_callback_t on_close;
  /**
   * Passed to `on_close`, or the `user_data` of the notifier's report.
   */
  void *on_close_arg;
  /**
   * Reports the end instead of `on_close`, which is NULL then: UCXX_EVENT_ENDPOINT_CLOSED, with
   * the same status. Of the worker's context; it may be destroyed before the endpoint.
   */
  ucxx_notifier_t *notifier;
};

/**
 * What an endpoint is made with.
 */
typedef struct ucxx_endpoint_params ucxx_endpoint_params_t;

/**
 * Somebody who wants a connection, to be accepted or rejected.
 */
typedef struct ucxx_conn_request ucxx_conn_request_t;

/**
 * What `ucxx_endpoint_query` tells.
 */
struct ucxx_endpoint_attr {
  /**
   * Set by UCXX_ENDPOINT_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * "ip:port" of an endpoint that was connected by address, else "".
   */
  char local_address[64];
  /**
   * Likewise.
   */
  char remote_address[64];
  /**
   * Transports in use, such as "posix/memory,cma/memory" or "sysv/memory,cma/memory"; "" before
   * the endpoint is connected.
   */
  char transports[256];
  /**
   * A number for the peer's worker, the same wherever it is asked; 0 for a foreign one.
   */
  uint64_t peer_id;
  /**
   * Operations sent so far.
   */
  uint64_t operations_sent;
  /**
   * Bytes in them.
   */
  uint64_t bytes_sent;
  /**
   * Sends and flushes under way, sends in the queue included.
   */
  uint64_t in_flight;
  /**
   * Is the peer known to be on this host?
   */
  uint8_t same_host;
};

/**
 * What `ucxx_endpoint_query` tells.
 */
typedef struct ucxx_endpoint_attr ucxx_endpoint_attr_t;

/**
 * What `ucxx_endpoint_query_load` tells.
 */
struct ucxx_endpoint_load {
  /**
   * Set by UCXX_ENDPOINT_LOAD_INIT.
   */
  size_t struct_size;
  /**
   * Sends that UCX has and has not completed: at most send_window_ops. What other threads have
   * handed to a progress thread is here and below when it has been taken over.
   */
  uint64_t window_operations;
  /**
   * Bytes in them.
   */
  uint64_t window_bytes;
  /**
   * Sends in the send queue.
   */
  uint64_t queued_operations;
  /**
   * Bytes in them.
   */
  uint64_t queued_bytes;
};

/**
 * What `ucxx_endpoint_query_load` tells.
 */
typedef struct ucxx_endpoint_load ucxx_endpoint_load_t;

/**
 * Runs for each request for a connection, on the thread that drives progress, outside every lock.
 * The request belongs to the caller from then on: to be accepted or rejected, in the callback or
 * later, from any thread, and destroyed in any case. It may call every function; those that wait
 * return BUSY. It must not throw.
 */
typedef void (*ucxx_listener_callback_t)(void *arg, ucxx_conn_request_t *conn_request);

/**
 * What a listener is made with.
 */
struct ucxx_listener_params {
  /**
   * Set by UCXX_LISTENER_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * Name or numeric address to listen on, IPv4 or IPv6; NULL for 127.0.0.1. "0.0.0.0" or "::"
   * for every interface has to be asked for. Of several addresses the first that can be had.
   */
  const char *host;
  /**
   * 0 for any free port: see ucxx_listener_port.
   */
  uint16_t port;
  /**
   * For each request for a connection. Not NULL, unless there is a `notifier`.
   */
  ucxx_listener_callback_t on_connect;
  /**
   * Passed to `on_connect`, or the `user_data` of the notifier's reports. Has to live until
   * ucxx_listener_destroy, or ucxx_worker_destroy, has returned.
   */
  void *on_connect_arg;
  /**
   * Hands requests out instead of `on_connect`, which is NULL then: UCXX_EVENT_CONN_REQUEST.
   * When 512 requests have not been answered further ones are rejected. Of the worker's context;
   * it may be destroyed before the listener, which rejects from then on.
   */
  ucxx_notifier_t *notifier;
};

/**
 * What a listener is made with.
 */
typedef struct ucxx_listener_params ucxx_listener_params_t;

/**
 * An address and port on which a worker takes connections.
 */
typedef struct ucxx_listener ucxx_listener_t;

/**
 * One of several buffers that make up a message.
 */
struct ucxx_buffer {
  /**
   * May be NULL when `length` is 0.
   */
  void *data;
  /**
   * Bytes.
   */
  uint64_t length;
  /**
   * UCXX_MEMORY_*. Buffers of one message that are not empty must be of one type in this
   * release, but for ucxx_tag_send_multi: else UNSUPPORTED. UCXX_MEMORY_AUTO and _HOST count as
   * two types.
   */
  int32_t memory_type;
  /**
   * Device of the buffer, for memory types that have several.
   */
  int32_t device_id;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * One of several buffers that make up a message.
 */
typedef struct ucxx_buffer ucxx_buffer_t;

/**
 * A message that a probe took out of matching.
 */
typedef struct ucxx_tag_message ucxx_tag_message_t;

/**
 * An active message that has come in: its handler's, or that of who polled its notifier.
 */
typedef struct ucxx_am_message ucxx_am_message_t;

/**
 * Runs for each message of its id, after a progress pass, outside every lock, on the thread that
 * drives progress. The handler owns `message`: it destroys it, receives it and destroys it, or
 * keeps it for either, now or later, on any thread. It may call every function; those that wait
 * return BUSY. It must not throw.
 */
typedef void (*ucxx_am_handler_t)(void *arg, ucxx_am_message_t *message);

/**
 * Frees what a handler was registered with; optional. Once: inside the call that replaces or
 * removes the handler or ends its worker, or, if the handler is running then, when it has
 * returned, on its thread. Also when the same `arg` is given again.
 */
typedef void (*ucxx_destroy_arg_t)(void *arg);

/**
 * Makes a buffer of `length` bytes, never 0, in `*data`; a negative status, which the operation
 * then ends with, if it cannot. Outside every lock, on the thread that drives progress. It must
 * not throw, and may not wait.
 */
typedef ucxx_status_t (*ucxx_allocate_t)(void *arg, size_t length, int32_t memory_type, int32_t device_id, void **data);

/**
 * Frees what the other one made, on any thread.
 */
typedef void (*ucxx_deallocate_t)(void *arg, void *data, size_t length, int32_t memory_type, int32_t device_id);

/**
 * Who makes the buffers of an operation that learns their sizes from its peer, and how many and
 * how large they may be.
 */
struct ucxx_allocator {
  /**
   * Set by UCXX_ALLOCATOR_INIT.
   */
  size_t struct_size;
  /**
   * NULL for malloc, whose memory the worker keeps when buffers are destroyed, up to 64 MiB of
   * it, for what it receives next; and for frames that their sender has announced as CUDA memory
   * cuMemAlloc, on the device whose context is current on the thread that drives progress, or
   * device 0 where none is (the sender does not say which), in its primary context, which is
   * held from then on. Such frames are UNSUPPORTED where UCX cannot receive into CUDA memory
   * (ucxx_context_has_cuda), NO_DEVICE without a driver.
   */
  ucxx_allocate_t allocate;
  /**
   * Has to be there if `allocate` is.
   */
  ucxx_deallocate_t deallocate;
  /**
   * Passed to both; kept by the caller until the last of their buffers is gone.
   */
  void *arg;
  /**
   * A peer that announces more buffers is refused; 0 = 65536.
   */
  size_t max_frames;
  /**
   * A peer that announces more bytes is refused: EXCEEDS_LIMIT; 0 = half of physical memory.
   */
  size_t max_total_bytes;
};

/**
 * Who makes the buffers of an operation that learns their sizes from its peer, and how many and
 * how large they may be.
 */
typedef struct ucxx_allocator ucxx_allocator_t;

/**
 * Buffers that were made for what has come.
 */
typedef struct ucxx_buffers ucxx_buffers_t;

/**
 * Runs for each multi-buffer message of its id, when its buffers are full; for the messages of one
 * endpoint in the order they were sent. Outside every lock, on the thread that drives progress; it
 * must not throw, and what waits returns BUSY in it.
 *
 * `reply` is the endpoint to answer on if the sender set UCXX_FLAG_AM_REPLY, else NULL; it and
 * `header` are valid during the call (ucxx_endpoint_retain makes an endpoint one's own). `buffers`
 * belongs to the handler, now or later: ucxx_buffers_destroy. It is NULL, and `status` says why,
 * for a message that could not be received: EXCEEDS_LIMIT for more frames or bytes than the
 * allocator's limits, the allocator's own status, or that of the connection where it was lost
 * meanwhile.
 */
typedef void (*ucxx_multi_handler_t)(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length, ucxx_buffers_t *buffers, ucxx_status_t status);

/**
 * What ucxx_am_queue_send_to sends besides the data.
 */
struct ucxx_am_queue_cover {
  /**
   * Set by UCXX_AM_QUEUE_COVER_INIT.
   */
  size_t struct_size;
  /**
   * Owner of the handler that the message is for, up to 63 bytes and a terminating zero; NULL
   * for the peer's queue.
   */
  const char *owner;
  /**
   * The handler's number; 0 without an owner.
   */
  uint64_t id;
  /**
   * A header of the caller's, of which a copy is made during the call.
   */
  const void *header;
  /**
   * Its bytes: up to `max_am_header`, 62 less with an owner.
   */
  size_t header_length;
};

/**
 * What ucxx_am_queue_send_to sends besides the data.
 */
typedef struct ucxx_am_queue_cover ucxx_am_queue_cover_t;

/**
 * A question that has come in: its handler's, or that of who polled its notifier.
 */
typedef struct ucxx_fetch ucxx_fetch_t;

/**
 * Runs for each question of its id, as ucxx_am_handler_t does for messages. The handler owns
 * `fetch`: it is answered once, now or later, from any thread, and then destroyed.
 */
typedef void (*ucxx_fetch_handler_t)(void *arg, ucxx_fetch_t *fetch);

/**
 * A key to a peer's registered memory, for one endpoint.
 */
typedef struct ucxx_rkey ucxx_rkey_t;

/**
 * What a group is made with.
 */
struct ucxx_group_params {
  /**
   * Set by UCXX_GROUP_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_BOOTSTRAP_*: how the members find each other.
   */
  int32_t bootstrap;
  /**
   * CALLBACKS and TCP: this process, from 0. PMIX and ENV find rank and size themselves.
   */
  uint32_t rank;
  /**
   * CALLBACKS and TCP: how many members there are. At most 1,048,576, whatever the bootstrap.
   */
  uint32_t size;
  /**
   * CALLBACKS: gives each member's `length` bytes at `in` to all, one after the other in rank
   * order to `out`; blocks until it has. Called in ucxx_group_create alone, on its thread, a few
   * times, with the same `length` by all. It returns UCXX_OK or an error, with which
   * ucxx_group_create then fails. It must not throw.
   */
  ucxx_status_t (*allgather)(void *arg, const void *data, size_t length, void *out);
  /**
   * Passed to `allgather`.
   */
  void *allgather_arg;
  /**
   * TCP, and ENV in the place of MASTER_ADDR and MASTER_PORT: "host:port" where rank 0 listens
   * while the group is made, "[host]:port" for a numeric IPv6 address.
   */
  const char *root;
  /**
   * TCP and ENV: what the members know and others do not. Each side proves to the other that it
   * does before anything else is read; it does not cross the network, on which the rest is
   * readable, but not to be changed. ENV takes UCXX_RS_GROUP_SECRET of the environment where
   * this is NULL. Random, and 16 bytes or more: what can be guessed can be tried by whoever
   * listens in. Without one, everybody who reaches the port can join: allowed where `root` is of
   * the loopback interface only.
   */
  const char *secret;
  /**
   * TCP and ENV: how long ucxx_group_create waits until all have come, and then once more until
   * all have told where they are; in nanoseconds, 0 for 60 s, UINT64_MAX for ever. PMIX: a hint
   * to the launcher.
   */
  uint64_t timeout_ns;
  /**
   * For each barrier, allgather and broadcast, in nanoseconds; 0 for none: then only the death
   * of a member ends one.
   */
  uint64_t collective_timeout_ns;
};

/**
 * What a group is made with.
 */
typedef struct ucxx_group_params ucxx_group_params_t;

/**
 * Processes that know each other by rank. Any thread may use it.
 */
typedef struct ucxx_group ucxx_group_t;

/**
 * A block of an explicit list.
 */
struct ucxx_block {
  /**
   * Elements from the address that the call names; may be negative.
   */
  int64_t offset;
  /**
   * Elements that follow each other.
   */
  uint64_t length;
};

/**
 * A block of an explicit list.
 */
typedef struct ucxx_block ucxx_block_t;

/**
 * Which elements of a buffer a call is about, on either side: `count` blocks of `block_length`
 * elements, whose beginnings are `stride` elements apart; or, with `blocks`, an explicit list. The
 * two sides may differ as long as they have the same number of bytes (put, get) or elements
 * (accumulates).
 */
struct ucxx_layout {
  /**
   * Set by the ucxx_layout_init_* functions.
   */
  size_t struct_size;
  /**
   * UCXX_TYPE_*.
   */
  int32_t element_type;
  /**
   * Blocks.
   */
  uint64_t count;
  /**
   * Elements of each.
   */
  uint64_t block_length;
  /**
   * From beginning to beginning, in elements; may be negative, or shorter than a block: an
   * element that is named twice is read or written twice.
   */
  int64_t stride;
  /**
   * In place of the three above: blocks in the order of the list, which need not be sorted. Read
   * during the call.
   */
  const ucxx_block_t *blocks;
  /**
   * How many of them.
   */
  size_t block_count;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * Which elements of a buffer a call is about.
 */
typedef struct ucxx_layout ucxx_layout_t;

/**
 * What a window is made with; NULL means all defaults. All members give the same, but for
 * `lock_timeout_ns` and `memory`.
 */
struct ucxx_window_params {
  /**
   * Set by UCXX_WINDOW_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * 1: lock and lock_all are not used; they return RMA_SYNC.
   */
  uint8_t no_locks;
  /**
   * 1: all members give the same disp_unit. Checked.
   */
  uint8_t same_disp_unit;
  /**
   * 1: all members give the same size. Checked.
   */
  uint8_t same_size;
  /**
   * 1: in ucxx_window_allocate_shared each member's memory begins at a page of its own; else
   * they follow each other in rank order, byte after byte.
   */
  uint8_t shared_noncontiguous;
  /**
   * UCXX_ORDER_*: of accumulates of one process at one target. They are in order in any case.
   */
  int32_t accumulate_ordering;
  /**
   * Bytes, counted from the operation's target address, that are updated as one unit against
   * other accumulates; 0 for each element, UINT64_MAX for the whole operation. Anything but 0
   * puts all accumulates of the window under a lock of their target.
   */
  uint64_t accumulate_granularity;
  /**
   * How long a lock is waited for; 0 for ever, unless its holder dies.
   */
  uint64_t lock_timeout_ns;
  /**
   * ucxx_window_create: library memory that holds the range, which stays until the window has
   * ended. Optional. Where ucxx_memory_allocate has made it, members of this host read and write
   * the range directly, as that of ucxx_window_allocate, where UCX's shared memory is in use and
   * the context has UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC; otherwise it is reached as without
   * this. Accumulates are as fast where all members give such memory.
   */
  ucxx_memory_t *memory;
};

/**
 * What a window is made with.
 */
typedef struct ucxx_window_params ucxx_window_params_t;

/**
 * What ucxx_window_query tells.
 */
struct ucxx_window_attr {
  /**
   * Set by UCXX_WINDOW_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_WINDOW_FLAVOR_*.
   */
  int32_t flavor;
  /**
   * This process's memory; NULL for a dynamic window.
   */
  void *data;
  /**
   * Its bytes.
   */
  size_t size;
  /**
   * Bytes of a displacement in it.
   */
  uint32_t disp_unit;
  /**
   * UCXX_SYNC_*: of the window as a whole. With several targets locked, that of locks.
   */
  int32_t sync_type;
};

/**
 * What ucxx_window_query tells.
 */
typedef struct ucxx_window_attr ucxx_window_attr_t;

/**
 * Memory that each member of a group offers to the others. Data calls may come from any thread.
 */
typedef struct ucxx_window ucxx_window_t;

/**
 * What a hub is made with.
 */
struct ucxx_hub_params {
  /**
   * Set by UCXX_HUB_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * Bytes of every envelope.
   */
  size_t envelope_size;
  /**
   * Chunks in the queue and in production, together; 0 for no limit but the envelopes.
   */
  size_t max_queue_chunks;
  /**
   * Bytes of the chunks in the queue, and envelope_size for each in production; 0 for no limit,
   * else at least envelope_size. Producers wait for it; a chunk that is modified may grow beyond
   * it.
   */
  size_t max_queue_bytes;
  /**
   * UCXX_HUB_RETAIN_*: whether a chunk keeps the envelope that a transfer has copied. AUTO:
   * until it is needed for something else, and no link that is served is to read the chunk
   * there. ALWAYS: until the chunk is consumed. UNTIL_COPIED: as long as a link that is served
   * is to read it there.
   */
  int32_t retain;
  /**
   * Transfers under way at a time from one kind of memory to another; 0 for 2.
   */
  uint32_t transfers_in_flight;
  /**
   * Of the same context. Optional: envelopes are then registered with UCX when they are made.
   */
  ucxx_worker_t *worker;
};

/**
 * What a hub is made with.
 */
typedef struct ucxx_hub_params ucxx_hub_params_t;

/**
 * What ucxx_hub_query_stats tells.
 */
struct ucxx_hub_stats {
  /**
   * Set by UCXX_HUB_STATS_INIT.
   */
  size_t struct_size;
  /**
   * Chunks that have been committed.
   */
  uint64_t chunks_produced;
  /**
   * Chunks that have left the queue.
   */
  uint64_t chunks_consumed;
  /**
   * Copies that have become replicas.
   */
  uint64_t transfers;
  /**
   * Their bytes.
   */
  uint64_t transfer_bytes;
  /**
   * Copies that were dropped, as their chunk had been changed or consumed meanwhile.
   */
  uint64_t stale_transfers;
  /**
   * Envelopes that hold nothing, now.
   */
  uint64_t free_envelopes;
  /**
   * Envelopes with a lease on them, now.
   */
  uint64_t leased_envelopes;
  /**
   * Chunks in the queue, now.
   */
  uint64_t queued_chunks;
  /**
   * Envelopes of chunks that are gone or have changed, which somebody still looks at, now.
   */
  uint64_t trashed_envelopes;
  /**
   * The most chunks that were in the queue.
   */
  uint64_t queue_high_water;
  /**
   * Times that a connected link had a chunk to send, and no credit.
   */
  uint64_t credit_stalls;
};

/**
 * What ucxx_hub_query_stats tells.
 */
typedef struct ucxx_hub_stats ucxx_hub_stats_t;

/**
 * A queue of chunks, and the envelopes that they lie in. Any thread may use it.
 */
typedef struct ucxx_hub ucxx_hub_t;

/**
 * Where envelopes are.
 */
struct ucxx_memory_kind {
  /**
   * UCXX_MEMORY_HOST, _CUDA, _CUDA_PINNED or _DUMMY, which is host memory that poses as a
   * device.
   */
  int32_t memory_type;
  /**
   * Which of the devices; 0 for the host.
   */
  int32_t device_id;
};

/**
 * Where envelopes are.
 */
typedef struct ucxx_memory_kind ucxx_memory_kind_t;

/**
 * A way into a hub, or out of it. Any thread may use it, several at a time too.
 */
typedef struct ucxx_link ucxx_link_t;

/**
 * An envelope on lease. Any thread may use it, one at a time.
 */
typedef struct ucxx_envelope ucxx_envelope_t;

/**
 * Called when a link has news:
 * - OK: a lease can be had.
 * - CLOSED: none ever will be. Once. A link that consumes is told after it has ended the leases
 *   that it holds itself, as it may give those back.
 * - IO_ERROR: a copy to where the link is has failed. The next lease says how, and has it tried
 *   again.
 *
 * Level-triggered: called again if that is still so, or so again, after a lease has been tried
 * through the link. A link that has given a chunk back, or has changed it, is not told of that
 * chunk again, whoever has had it since, until it tries again or something else changes in the
 * hub: a chunk comes or goes, or another link commits a change of one.
 *
 * The call that makes a lease possible calls back, whichever that is, one callback after the other
 * and outside every lock. The links of a hub take turns. What others make possible meanwhile may
 * be told by the same call. While no chunk comes or goes, one call makes at most 64 callbacks for
 * each link of the hub, so links that change the same chunk in turn do not hold it for ever; the
 * next call on the hub goes on.
 *
 * One call at a time for a link. It may call every function; those that wait return BUSY. It must
 * not throw.
 */
typedef void (*ucxx_link_callback_t)(void *arg, ucxx_link_t *link, ucxx_status_t status);

/**
 * What a link is made with; NULL means all defaults.
 */
struct ucxx_link_params {
  /**
   * Set by UCXX_LINK_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * 1, for a link that consumes: it sees every chunk that is in the queue, or comes, while it is
   * there, and a chunk stays until all such links have consumed it. Consumers without it compete
   * for chunks: each is consumed by one of them. Up to 63 at a time.
   */
  uint8_t broadcast;
  /**
   * 1: ucxx_envelope_release commits. Without effect for a link that peeks.
   */
  uint8_t autocommit;
  /**
   * Optional.
   */
  ucxx_link_callback_t on_ready;
  /**
   * Passed to it.
   */
  void *on_ready_arg;
};

/**
 * What a link is made with; NULL means all defaults.
 */
typedef struct ucxx_link_params ucxx_link_params_t;

/**
 * What ucxx_envelope_query tells.
 */
struct ucxx_envelope_attr {
  /**
   * Set by UCXX_ENVELOPE_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * Its memory. Of a link that peeks or consumes only to be read.
   */
  void *data;
  /**
   * Bytes of the chunk in it; 0 for one that is being produced.
   */
  size_t length;
  /**
   * Bytes that there is room for: the hub's envelope_size.
   */
  size_t capacity;
  /**
   * Where it is.
   */
  ucxx_memory_kind_t kind;
  /**
   * 64 bytes of host memory that travel with the chunk; all zero for one that is being produced.
   */
  uint8_t *metadata;
  /**
   * 64.
   */
  size_t metadata_length;
  /**
   * A CUevent, as long as the lease lasts: before it is reached nothing is to be read, and
   * nothing written. NULL where nothing is to be waited for: everywhere but on CUDA devices.
   */
  void *ready_event;
};

/**
 * What ucxx_envelope_query tells.
 */
typedef struct ucxx_envelope_attr ucxx_envelope_attr_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The name of a status, such as "UCXX_ERR_CANCELED". The application's own statuses, -1000 and
 * below, are all called "UCXX_ERR_APPLICATION", and numbers without a meaning "UCXX_ERR_UNKNOWN".
 * Never NULL; static. Any thread.
 */
const char *ucxx_status_name(ucxx_status_t status);

/**
 * A sentence on what a status means. Never NULL; static. Any thread.
 */
const char *ucxx_status_string(ucxx_status_t status);

/**
 * What a program prints for a status: its name and an explanation, such as
 * "UCXX_ERR_INVALID_PARAM: port: is 0". The explanation is ucxx_last_error_message where the
 * calling thread's last negative status was this one, and ucxx_status_string otherwise. So it is
 * right for the status that a call has just returned, and for one that a callback was given.
 *
 * Never NULL; valid until the thread's next call of this function.
 */
const char *ucxx_error_text(ucxx_status_t status);

/**
 * The explanation of the calling thread's last call that returned a negative status: which
 * argument, which peer, which limit, what to do. For an operation whose failure a call has
 * reported, what ucxx_request_error_message says. Empty before the first such call. A call that
 * returns a status of 0 or above leaves it as it is.
 *
 * It belongs to the thread. Languages that may go on with another thread between two calls keep to
 * one thread from the call until they have copied the text: docs/errors.md has what that is in
 * each.
 *
 * Never NULL; at most 1023 bytes, what is longer is cut; valid until the next call on this thread
 * that returns a negative status.
 */
const char *ucxx_last_error_message(void);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_version_init(ucxx_version_t *value, size_t struct_size);

/**
 * Versions of this library and of the UCX that is loaded. Any thread.
 */
ucxx_status_t ucxx_version_query(ucxx_version_t *version);

/**
 * Sends the log, UCX's own included, to `callback`, up to `level` (UCXX_LOG_*); NULL silences it,
 * which is how it begins. The environment variable UCXX_RS_LOG_LEVEL (off, error, warn, info,
 * debug, trace) overrules `level`; how much UCX logs is decided by its own UCX_LOG_LEVEL. A call
 * on another thread that has begun may still be running when this returns. Any thread.
 */
ucxx_status_t ucxx_log_set_callback(ucxx_log_callback_t callback, void *arg, int32_t level);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_context_params_init(ucxx_context_params_t *value, size_t struct_size);

/**
 * Sets UCX up. `params` may be NULL. The caller owns the context and destroys it. Any thread.
 *
 * Errors: INVALID_PARAM (an argument, or a variable that UCX does not take); NO_RESOURCE where the
 * system gives no thread, of which UCX needs one; and what UCX answers, with its log telling why.
 */
UCXX_NODISCARD ucxx_status_t ucxx_context_create(const ucxx_context_params_t *params, ucxx_context_t **context);

/**
 * Lets go of the context. Workers made from it go on until they are destroyed themselves; UCX is
 * shut down with the last of them. NULL is ignored. Any thread.
 *
 * A process may end with workers that live. But exit() runs UCX's destructors while a thread of
 * UCX's still works for them, and UCX has been seen to abort such a process when a peer failed at
 * that very moment, so that it ended with SIGABRT and not with its status: destroy workers before
 * exit(), or leave by _exit().
 */
void ucxx_context_destroy(ucxx_context_t *context);

/**
 * Calls `visit` with each configuration variable (without its "UCX_") and the value in force for
 * this context; transport variables, which UCX keeps elsewhere, are not among them. It may call
 * any function. Any thread.
 */
ucxx_status_t ucxx_context_visit_config(const ucxx_context_t *context, ucxx_config_visitor_t visit, void *arg);

/**
 * Can the UCX that is loaded send from and receive into CUDA memory here? 1 or 0; 0 for NULL. Any
 * thread.
 */
int32_t ucxx_context_has_cuda(const ucxx_context_t *context);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_worker_params_init(ucxx_worker_params_t *value, size_t struct_size);

/**
 * Creates a worker. `params` may be NULL. The caller owns it; it keeps the context's memory alive.
 * Any thread.
 *
 * Errors: INVALID_PARAM, also when a configuration variable of the context found no taker, or for
 * a progress thread with UCXX_THREAD_SINGLE or on a CPU that cannot be used; UNSUPPORTED for one
 * without UCXX_FEATURE_WAKEUP; NO_RESOURCE where the system gives no thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_create(ucxx_context_t *context, const ucxx_worker_params_t *params, ucxx_worker_t **worker);

/**
 * Shuts the worker down now: its progress thread ends, what is in flight completes with CANCELED
 * (with its callbacks, in this call), endpoints are closed by force, UCX's worker goes. Bounded:
 * about a second, and the callback that runs. Endpoints and requests of it stay valid, and answer
 * CLOSED. From a callback it takes effect when the call that made the callback returns, with a
 * progress thread on a thread of the library's own. No other thread may be in a call on the
 * worker; calls on its endpoints and requests may be under way where there is a progress thread.
 * Afterwards no callback of it runs, and its buffers are the caller's. NULL is ignored. Destroy
 * (or flush) endpoints before it: messages on their way are given a fifth of a second here, and a
 * large one that is cut short may still reach a peer that had its announcement, with what the
 * buffer holds by then. With UCX 1.13 over TCP alone, UCX's half of a worker that still connects
 * stays until the process ends where its peers do not progress, as UCX would abort the process
 * (docs/connections.md).
 *
 * It waits for a callback of the worker's that runs on another thread. A callback that waits for
 * the caller (for an interpreter's lock that the caller holds, for the event loop that the caller
 * is) makes that wait without end: give up the lock for the call, or call ucxx_worker_destroy_nb.
 */
void ucxx_worker_destroy(ucxx_worker_t *worker);

/**
 * ucxx_worker_destroy without waiting: the worker ends on a thread that the library makes for it,
 * where the callbacks of what is cut short run, too. `done(arg)` runs last, once, on that thread,
 * when the worker has ended, no callback of it runs, and its context may be destroyed. It may call
 * every function, also those that wait. `done` is optional.
 *
 * The handle is the library's as soon as this returns UCXX_OK. Until `done` runs the library's
 * thread is in a call on the worker: where there is no progress thread, calls on its endpoints,
 * listeners and requests wait until then. From a callback where progress is manual it begins when
 * the call that made the callback returns. A process that leaves by exit() waits for `done` first
 * (see ucxx_context_destroy).
 *
 * Errors: INVALID_PARAM for NULL; NO_RESOURCE where the system gives no thread, and FORKED. Then
 * nothing has happened, and the worker stays the caller's.
 */
ucxx_status_t ucxx_worker_destroy_nb(ucxx_worker_t *worker, void (*done)(void *arg), void *arg);

/**
 * One progress pass: UCX's progress, then the callbacks that are due. `*events` is the number of
 * events handled, 0 when there was nothing to do; optional. BUSY from a callback, and with a
 * progress thread. Never sleeps.
 */
ucxx_status_t ucxx_worker_progress(ucxx_worker_t *worker, uint32_t *events);

/**
 * Waits until there is an event, and handles it: OK. Callbacks and handlers run inside it. Polls
 * for `spin_ns` of ucxx_worker_params_t, and sleeps then. It may return OK without anything that
 * the caller would notice: after ucxx_worker_signal, and when a signal handler has run on this
 * thread while it slept. So it stands in a loop, with a flag that a callback sets:
 * `while (!done) if (ucxx_worker_wait(worker, UINT64_MAX) < 0) break;`
 *
 * Where other threads progress the worker, too, and set the flag, give it a limit: what they do
 * between the look at the flag and the sleep does not end it.
 *
 * Errors: TIMED_OUT when `timeout_ns` ran out first (0 looks once, UINT64_MAX waits without end);
 * BUSY from a callback, and with a progress thread; UNSUPPORTED without UCXX_FEATURE_WAKEUP.
 */
ucxx_status_t ucxx_worker_wait(ucxx_worker_t *worker, uint64_t timeout_ns);

/**
 * A descriptor for the caller's own event loop (epoll, poll, libuv, asyncio, glib): readable when
 * the worker, armed before, has something to progress, deadlines included. The library keeps and
 * closes it. Needs UCXX_FEATURE_WAKEUP. With a progress thread it is of no use to others:
 * ucxx_worker_arm is BUSY, and completions come by callbacks or a notifier.
 *
 * One thread at a time sleeps on it: the one that has armed it. Other threads may use the worker
 * meanwhile, as its thread mode allows. What completes by their calls (a pass, a wait, a cancel, a
 * close) makes the descriptor readable as well. What completes in a pass of the thread that has
 * armed does not: that thread looks by itself.
 *
 * Where UCX's own descriptor stays readable without anything to do, as over TCP while a peer has
 * not answered, this one does not: it becomes readable by what is new, and some ten times a
 * second.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_event_fd(ucxx_worker_t *worker, int *fd);

/**
 * Before going to sleep on the descriptor: OK when the next event will make it readable, BUSY when
 * there is something to progress first, or when something has completed by a call of another
 * thread since this one has armed last. So: progress until there are no events, look at what is
 * awaited, arm, and only when that is OK sleep; on BUSY look at what is awaited, and begin again.
 * Every sleep needs its own arm. BUSY with a progress thread. Needs UCXX_FEATURE_WAKEUP (else
 * UNSUPPORTED).
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker);

/**
 * Makes the descriptor readable, and ends the present ucxx_worker_wait, or the next one if there
 * is none: OK. Waits for something in particular, such as ucxx_request_wait and UCXX_FLAG_WAIT,
 * look around and go on. Any thread, in every thread mode. Needs UCXX_FEATURE_WAKEUP.
 *
 * Async-signal-safe: a signal handler may call it, on any thread, for a worker that lives as long
 * as the handler is installed. It writes to two descriptors; only a call that fails does more.
 */
ucxx_status_t ucxx_worker_signal(ucxx_worker_t *worker);

/**
 * Starts a progress thread (UCXX_PROGRESS_THREAD_*), on a worker made without one or after it was
 * stopped. From then on it is the one that progresses; other threads that wait, wait for it.
 * Operations may be submitted meanwhile.
 *
 * Errors: ALREADY_EXISTS when there is one; INVALID_PARAM for UCXX_PROGRESS_MANUAL, with
 * UCXX_THREAD_SINGLE, and for a `cpu` that cannot be used; UNSUPPORTED without
 * UCXX_FEATURE_WAKEUP; BUSY from a callback. Under SERIALIZED it counts as a call on the worker;
 * afterwards any thread may call at any time, also once the thread has been stopped.
 */
ucxx_status_t ucxx_worker_start_progress_thread(ucxx_worker_t *worker, int32_t progress_mode);

/**
 * Stops the progress thread after a last pass, and waits for its end; progress is manual then.
 * Nothing that was submitted is lost: it goes on with whoever progresses, and threads that wait do
 * so themselves. NO_ELEM when there is none; BUSY from a callback. It waits for the callback that
 * the thread is in: not for a caller whom that waits for, see ucxx_worker_destroy.
 */
ucxx_status_t ucxx_worker_stop_progress_thread(ucxx_worker_t *worker);

/**
 * Runs `function` where progress happens: on the progress thread, after what had been submitted
 * and before its next pass, and waits for it; at once on the calling thread where progress is
 * manual. It counts as a callback: what waits returns BUSY in it. TIMED_OUT when `timeout_ns` ran
 * out before it could start: it has not run and never will. BUSY from a callback with a progress
 * thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_run_pre(ucxx_worker_t *worker, void (*function)(void *arg), void *arg, uint64_t timeout_ns);

/**
 * As `ucxx_worker_run_pre`, after the next pass instead of before it.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_run_post(ucxx_worker_t *worker, void (*function)(void *arg), void *arg, uint64_t timeout_ns);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_worker_attr_init(ucxx_worker_attr_t *value, size_t struct_size);

/**
 * What the worker is like.
 */
ucxx_status_t ucxx_worker_query(const ucxx_worker_t *worker, ucxx_worker_attr_t *attr);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_worker_stats_init(ucxx_worker_stats_t *value, size_t struct_size);

/**
 * The worker's counters, without a lock: two of them may be off by what is going on at the moment,
 * but what was submitted is what has ended and what is in flight, in the queue or out of it. Any
 * thread.
 */
ucxx_status_t ucxx_worker_query_stats(const ucxx_worker_t *worker, ucxx_worker_stats_t *stats);

/**
 * A readable account of a worker that seems to hang, one call of `line` for each line: the worker,
 * its endpoints with their transports, and what is in flight with its age. `line` may call any
 * function.
 */
ucxx_status_t ucxx_worker_dump(ucxx_worker_t *worker, void (*line)(void *arg, const char *text), void *arg);

/**
 * An operation that completes after every send submitted to the worker before it, rendezvous sends
 * included, with the first error of those that kept neither request nor callback. Posted receives
 * are not waited for.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_flush(ucxx_worker_t *worker, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Orders the puts, gets and atomic operations that come after behind those that came before, and
 * before messages that come after. Messages of one endpoint are in order by themselves. Where such
 * operations are under way it waits as a flush of the worker does, which waits for sends as well,
 * and reports what that would: so BUSY in a callback; where they are done in the call, or there
 * are none, it waits for nothing.
 */
ucxx_status_t ucxx_worker_fence(ucxx_worker_t *worker);

/**
 * Creates a completion queue for operations of any worker of the context. An operation that names
 * it in `ucxx_op_params_t.notifier` is reported there once, when it completes, instead of through
 * a callback; not when it completed inside its call, unless UCXX_FLAG_ALWAYS_CALLBACK is set. The
 * queue never overflows, and reporting allocates nothing. Status and recv_info are stored, then
 * the operation is reported, then waiters are released. The caller owns the notifier and destroys
 * it. Any thread.
 *
 * It takes the place of other callbacks as well, so that a program needs none: of a listener's
 * `on_connect` and an endpoint's `on_close` (`notifier` of their parameters), and of the handlers
 * of active messages and questions (ucxx_worker_set_am_notifier, ucxx_worker_set_fetch_notifier).
 * What it hands out so belongs to whoever polls. What nobody polls is bounded: peers wait, or are
 * rejected. docs/connections.md has the loop, see ucxx_notifier_wait.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_create(ucxx_context_t *context, ucxx_notifier_t **notifier);

/**
 * Sleeps until there is something to poll: OK. OK also when a signal handler has run on this
 * thread while it slept. With several threads waiting, another one may have polled what this one
 * was woken for.
 *
 * It progresses nothing: that is left to a progress thread, or to whoever drives the workers. A
 * thread that drives its worker itself does not call it, but loops:
 *
 * ```c
 * while (ucxx_notifier_poll(notifier, &got, sizeof got, 1, &count) == UCXX_OK) {
 *   if (count > 0) take(&got);
 *   else ucxx_worker_wait(worker, UINT64_MAX);
 * }
 * ```
 *
 * Errors: TIMED_OUT when the time ran out first (at once for 0); CLOSED when the notifier has been
 * stopped and nothing is left to poll; BUSY from a callback. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_wait(ucxx_notifier_t *notifier, uint64_t timeout_ns);

/**
 * Takes up to `max` completions, in the order in which they were reported, into an array of
 * structs of `completion_size` bytes, which is the caller's `sizeof(ucxx_completion_t)`; `*count`
 * says how many. OK with count 0 when there are none, CLOSED when there are none and the notifier
 * has been stopped. Never blocks. Any thread, also several at once: each completion goes to one of
 * them.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_poll(ucxx_notifier_t *notifier, ucxx_completion_t *completions, size_t completion_size, size_t max, size_t *count);

/**
 * A descriptor that is readable when there is something to poll, for poll(2), epoll and event
 * loops; `ucxx_notifier_arm` first. It stays the library's, and needs no reading. UNSUPPORTED
 * without UCXX_FEATURE_WAKEUP. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_event_fd(ucxx_notifier_t *notifier, int *fd);

/**
 * Asks that the descriptor become readable with the next completion, and stay so until it is armed
 * again. BUSY when there is something to poll first, CLOSED when the notifier has been stopped and
 * nothing is left; the descriptor is readable then as well. UNSUPPORTED without
 * UCXX_FEATURE_WAKEUP. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_arm(ucxx_notifier_t *notifier);

/**
 * Operations that name the notifier are refused with CLOSED from now on. What has been reported
 * and what is in flight can still be polled; whenever nothing has been reported that is left to
 * poll, waiting and polling give CLOSED, and whoever sleeps is woken. So CLOSED does not say that
 * nothing is in flight: what is comes after it. A program that has to know counts what it has
 * submitted. Any thread, also twice.
 */
ucxx_status_t ucxx_notifier_stop(ucxx_notifier_t *notifier);

/**
 * Stops the notifier and lets go of it; its descriptor is not the caller's to use any more.
 * Completions that were not polled are dropped, and so are those of operations in flight, which go
 * on; requests that the caller kept stay the caller's. Of events that were not polled, and that
 * still come, connection requests are rejected, messages destroyed, and questions rejected. A
 * thread that sleeps in `ucxx_notifier_wait` gets CLOSED. Before or after the workers and the
 * context. NULL is ignored. Any thread.
 */
void ucxx_notifier_destroy(ucxx_notifier_t *notifier);

/**
 * The worker's address, to be sent to whoever wants to connect to it by any means. The caller owns
 * it. Under SINGLE, on the worker's own thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_address(ucxx_worker_t *worker, ucxx_address_t **address);

/**
 * An address from the bytes of `ucxx_address_data` as they arrived. They end in a checked trailer
 * (versions, host, process, checksum): damaged or foreign ones give UCXX_ERR_INVALID_ADDR and are
 * never shown to UCX, which would not survive them. The bytes are copied; the caller owns the
 * address. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_address_from_bytes(const void *data, size_t length, ucxx_address_t **address);

/**
 * As `ucxx_address_from_bytes`, for the bytes of another UCX program's worker
 * (`ucp_worker_get_address`). They cannot be checked: UCX aborts the process on bytes that are not
 * an address, so take them only from where you trust.
 */
UCXX_NODISCARD ucxx_status_t ucxx_address_from_ucp_bytes(const void *data, size_t length, ucxx_address_t **address);

/**
 * The address's bytes, valid until it is destroyed; NULL for NULL. Any thread.
 */
const void *ucxx_address_data(const ucxx_address_t *address);

/**
 * The number of the address's bytes; 0 for NULL. Any thread.
 */
size_t ucxx_address_length(const ucxx_address_t *address);

/**
 * Frees the address. Endpoints made with it do not need it any more. NULL is ignored. Any thread.
 */
void ucxx_address_destroy(ucxx_address_t *address);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_op_params_init(ucxx_op_params_t *value, size_t struct_size);

/**
 * INPROGRESS until the operation has completed, then its status. Any thread. In a callback of the
 * request it is the final one already.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_status(const ucxx_request_t *request);

/**
 * Waits until the operation has completed and its callback has returned: its status. Progresses
 * the worker meanwhile. The request stays the caller's.
 *
 * INPROGRESS when `timeout_ns` ran out first (0 polls once, UINT64_MAX waits without end): the
 * operation goes on, and its buffer is in use. INPROGRESS is positive, so `status < 0` does not
 * notice it. Neither a signal handler nor ucxx_worker_signal ends a wait: a program that looks at
 * its signals waits with a timeout, again and again. BUSY from a callback, unless the operation is
 * over already.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait(ucxx_request_t *request, uint64_t timeout_ns);

/**
 * Waits for all of them: the first error in the order of the list, after all have completed, or
 * OK; INPROGRESS when the time ran out first. NULL entries are skipped; NO_ELEM when there are no
 * others, as for a `count` of 0. The requests stay the caller's.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait_all(ucxx_request_t *const *requests, size_t count, uint64_t timeout_ns);

/**
 * Waits for one of them: its status, with its position in `*index`; INPROGRESS when the time ran
 * out first. NULL entries are skipped; NO_ELEM when there are no others. Requests of workers in
 * manual progress must be of one worker.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait_any(ucxx_request_t *const *requests, size_t count, uint64_t timeout_ns, size_t *index);

/**
 * Asks for the operation to end. At once that does so for what is still in the library's hands:
 * operations in the submission or send queue, tag receives that nothing has matched, stream
 * receives, fetches whose answer has not begun to arrive, flushes. A close goes on by force. What
 * UCX has taken, the pull of an active message included, ends as it will: a large send when the
 * peer has received it, or its endpoint is closed by force. The completion tells what became of
 * it, and that the buffer is free: CANCELED if this did it. OK also when it has completed already.
 * Under SINGLE, on the worker's own thread.
 */
ucxx_status_t ucxx_request_cancel(ucxx_request_t *request);

/**
 * What a receive that has completed tells of its message; INPROGRESS before. INVALID_PARAM for a
 * request that receives nothing. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_recv_info(const ucxx_request_t *request, ucxx_recv_info_t *info);

/**
 * Operation, peer and cause of a failure; empty for anything but a failure. Never NULL; valid
 * until the request is destroyed. Any thread.
 */
const char *ucxx_request_error_message(const ucxx_request_t *request);

/**
 * Lets go of the request. One that is in progress is detached, not cancelled: its buffer stays in
 * use, and its callback still runs, with request NULL. To have the buffer back:
 * ucxx_request_cancel, ucxx_request_wait, and then this. In the request's own callback it is
 * allowed. NULL is ignored. Any thread.
 */
void ucxx_request_destroy(ucxx_request_t *request);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_endpoint_params_init(ucxx_endpoint_params_t *value, size_t struct_size);

/**
 * An endpoint to the worker that `address` names. The connection is made in the background;
 * operations may be submitted at once. `params` may be NULL. The caller owns the endpoint; it
 * keeps the worker's memory alive.
 *
 * Errors: UNREACHABLE when the peer is gone or no transport leads to it; UNSUPPORTED when the
 * releases of UCX here and there are known not to work together.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_create(ucxx_worker_t *worker, const ucxx_address_t *address, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * An endpoint to whoever listens on that host and port: a listener of this library, of UCXX or of
 * UCP. The host is a name, which is looked up in the call, or a numeric address, IPv4 or IPv6. A
 * name may stand for several addresses: they are tried in the resolver's order until one answers.
 * Operations may be submitted at once; they wait until then, when `on_open` runs. `params` may be
 * NULL. The caller owns the endpoint.
 *
 * When nobody answers, the endpoint and what was submitted to it end with UNREACHABLE (nobody
 * listens, or the listener has gone), REJECTED, or TIMED_OUT (connect_timeout_ns; without it the
 * system's own limit for an address that keeps silent, which may be minutes). Of several addresses
 * the last one decides. Where nothing could even be begun, such as for an unknown name, the call
 * returns UNREACHABLE. Under UCXX_NETWORK_LOCAL a host of another interface is an INVALID_PARAM.
 *
 * A context connects over IPv4, or, with TCP_AF_PRIO=inet6 in its config, over IPv6: UCX needs
 * addresses of the family of its TCP devices. Those of the other family are passed over;
 * UNSUPPORTED where none is left.
 *
 * UCX makes such connections over TCP or RDMA and goes on over what is fastest: shared memory
 * between processes of one host, if TCP is among its transports (UCX_TLS), without which there is
 * no connection. Both sides need the same error_handling.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_connect(ucxx_worker_t *worker, const char *host, uint16_t port, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * Accepts a connection: an endpoint to whoever asked for it, on the listener's worker. Once, from
 * any thread, in `on_connect` or later; the request is used up and stays to be destroyed. `params`
 * may be NULL. The caller owns the endpoint, and may use it at once: what is sent before `on_open`
 * goes out when the connection stands.
 *
 * Errors: INVALID_PARAM when the request has been answered already; CLOSED when its listener has
 * been destroyed meanwhile; else what UCX says, such as for a peer that has the other
 * error_handling.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_accept(ucxx_conn_request_t *conn_request, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * OK while the endpoint takes operations, else why not: CLOSED, CONNECTION_RESET, PEER_FAILED,
 * TIMED_OUT, REJECTED, UNREACHABLE, UNSUPPORTED (the peer speaks another version), IO_ERROR (it
 * broke the rules of the library's messages). Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_status(const ucxx_endpoint_t *endpoint);

/**
 * An operation that completes after every operation submitted to the endpoint before it,
 * rendezvous sends included, with the first error of those that kept neither request nor callback.
 *
 * CONNECTION_RESET, also as the call's own status, when the peer has closed its end before. That
 * tells nothing of what was sent before: see ucxx_endpoint_close.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_flush(ucxx_endpoint_t *endpoint, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Closes the endpoint: it takes nothing more. Complete when all of the endpoint's requests are;
 * `on_close` follows. The handle stays to be destroyed.
 *
 * UCXX_CLOSE_FLUSH lets finish what came before: sends, and those receives with this endpoint in
 * `source` that have matched a message (the others end with CLOSED). It waits for as long as
 * something does finish every three seconds, or as the timeout allows, and then goes on by force,
 * with TIMED_OUT. UCXX_CLOSE_FORCE cuts short: requests complete with CANCELED. That does not say
 * that the peer got nothing: one that had the announcement of a large message may still read the
 * buffer, and receive what it holds by then. Flush, or agree on the end with the peer, before.
 *
 * How two peers part: one closes, and the other goes on progressing until its `on_close`, or
 * UCXX_EVENT_ENDPOINT_CLOSED, tells CONNECTION_RESET. Then that one destroys its endpoint. This is
 * the normal end. Both may close at the same time, too.
 * - What a peer has sent before a close by FLUSH that is OK there arrives before the end is told
 *   here, and can be received after it, but not by a receive that names this endpoint in `source`:
 *   that has to be posted before.
 * - A send that the peer has received in full before it closed ends with OK. One that it has not
 *   received ends with CONNECTION_RESET, or, where it was complete before, is lost.
 * - A close, also of an endpoint that the peer has closed, is OK; any other operation, a flush
 *   too, is CONNECTION_RESET from then on.
 * - Over TCP, and on a connection by host and port, a close needs the peer to progress.
 *
 * Errors: CLOSED when it was closed here before. Where nothing was sent, UCX's connection stands,
 * and the peer has not answered yet, a close by FLUSH waits until that has heard of it, for a
 * second or as the timeout allows, and is OK either way.
 */
ucxx_status_t ucxx_endpoint_close(ucxx_endpoint_t *endpoint, int32_t how, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Would a send go straight out now: to UCX, or from a thread that hands its operations to a
 * progress thread, as soon as that one takes it over? 1 or 0: 0 while sends have to wait in the
 * send queue, or active messages for credit (tags and streams may go out all the same), and when
 * the endpoint takes none. The answer may have changed before the next call where other threads
 * send, too. Any thread.
 */
int32_t ucxx_endpoint_writable(const ucxx_endpoint_t *endpoint);

/**
 * Has `callback` called when the endpoint is writable (see ucxx_endpoint_writable), once: what to
 * do after NO_RESOURCE, whatever it was refused for. It runs where progress happens, as every
 * callback; in the next pass when the endpoint is writable already. It may send until it gets
 * NO_RESOURCE again and arm anew: each pass calls each endpoint's once at most, so no endpoint
 * keeps others waiting. With the endpoint's error when it ends first, before `on_close`; CLOSED
 * after a close.
 *
 * NULL for `callback` takes back what was armed; one that is running on another thread may still
 * be. Any thread.
 *
 * Errors: ALREADY_EXISTS while one is armed; the endpoint's error when it takes no operations any
 * more.
 */
ucxx_status_t ucxx_endpoint_on_writable(ucxx_endpoint_t *endpoint, ucxx_endpoint_callback_t callback, void *arg);

/**
 * Another handle for the same endpoint, to be destroyed by itself: what turns an endpoint that a
 * callback was given, which is valid during the call, into one to keep. The endpoint ends with the
 * last of its handles. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_retain(ucxx_endpoint_t *endpoint, ucxx_endpoint_t **own);

/**
 * Frees the handle. With the last handle of the endpoint (see ucxx_endpoint_retain) it closes the
 * endpoint as by UCXX_CLOSE_FLUSH if it is open, and waits until it has ended and `on_close` has
 * returned. It waits as long as sends go on completing, at most three seconds without any (one
 * when none is under way); what is left then is CANCELED: flush first to learn the outcome. From a
 * callback it does not wait: the end comes after the pass. For how two peers part see
 * ucxx_endpoint_close. NULL is ignored.
 *
 * A callback of the worker's that waits for the caller makes that wait without end. To wait for
 * nobody: ucxx_endpoint_close, and the destroy in `on_close`, or when that, or a notifier's report
 * of the close, has told of the end.
 */
void ucxx_endpoint_destroy(ucxx_endpoint_t *endpoint);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_endpoint_attr_init(ucxx_endpoint_attr_t *value, size_t struct_size);

/**
 * What the endpoint is like. Under SINGLE, on the worker's own thread.
 */
ucxx_status_t ucxx_endpoint_query(const ucxx_endpoint_t *endpoint, ucxx_endpoint_attr_t *attr);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_endpoint_load_init(ucxx_endpoint_load_t *value, size_t struct_size);

/**
 * How much of its send window and queue the endpoint uses. Under SINGLE, on the worker's own
 * thread.
 */
ucxx_status_t ucxx_endpoint_query_load(const ucxx_endpoint_t *endpoint, ucxx_endpoint_load_t *load);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_listener_params_init(ucxx_listener_params_t *value, size_t struct_size);

/**
 * Takes connections on an address and port, from ucxx_endpoint_connect, UCXX or UCP. A name is
 * looked up in the call. The caller owns the listener; it keeps the worker's memory alive, and
 * ends with the worker.
 *
 * Errors: UNREACHABLE for an unknown name; UNSUPPORTED for an address of the family that the
 * context does not connect over, see ucxx_endpoint_connect; BUSY where the port is taken, by
 * another listener, or for a minute by the connections of one that had been made with
 * TCP_CM_REUSEADDR=n (the library's default is y); what else UCX says; INVALID_PARAM for a host of
 * another interface under UCXX_NETWORK_LOCAL.
 */
UCXX_NODISCARD ucxx_status_t ucxx_listener_create(ucxx_worker_t *worker, const ucxx_listener_params_t *params, ucxx_listener_t **listener);

/**
 * The port that the listener listens on; 0 for NULL. Any thread.
 */
uint16_t ucxx_listener_port(const ucxx_listener_t *listener);

/**
 * Stops listening, rejects the requests that nobody has answered, waits until `on_connect` does
 * not run any more, and frees the handle. Endpoints that were accepted stay. NULL is ignored.
 *
 * It progresses where progress is manual, and takes about 0.11 s: UCX calls back through a
 * listener that has gone when a connection is still coming in. Where UCX keeps such a connection
 * it takes half a second more, and five where something has come on it that UCX has not read. From
 * a callback it does not wait. An `on_connect`, or another callback of a progress thread, that
 * waits for the caller makes that wait without end.
 */
void ucxx_listener_destroy(ucxx_listener_t *listener);

/**
 * Who asks: "ip:port", an IPv6 address in brackets, as a terminated string; "" where UCX cannot
 * tell. BUFFER_TOO_SMALL, with nothing written and the needed capacity in the message, where it
 * does not fit; 64 are always enough. Any thread.
 */
ucxx_status_t ucxx_conn_request_address(const ucxx_conn_request_t *conn_request, char *text, size_t capacity);

/**
 * Refuses the connection: the peer's endpoint ends with REJECTED. Once, from any thread; the
 * request stays to be destroyed.
 *
 * Errors: INVALID_PARAM when the request has been answered already; CLOSED when its listener has
 * been destroyed meanwhile.
 */
ucxx_status_t ucxx_conn_request_reject(ucxx_conn_request_t *conn_request);

/**
 * Frees the handle, and rejects the request if it was not answered. NULL is ignored.
 */
void ucxx_conn_request_destroy(ucxx_conn_request_t *conn_request);

/**
 * Sends a message with this tag.
 *
 * Completion is local: the buffer may be reused. A short or buffered send completes inside the
 * call (OK, no request, no callback) where that gives it to UCX itself: beside a progress thread
 * it goes through its queue (see delayed_submission), and completes later. A zero-copy or
 * rendezvous send completes when UCX is done with the buffer. With neither request nor callback
 * only a later flush tells. Messages of one thread on one endpoint match in the order they were
 * sent.
 *
 * Errors: UNSUPPORTED without UCXX_FEATURE_TAG; CLOSED, PEER_FAILED and the like on an endpoint
 * that has ended.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_tag_send`, but complete only when a receive has matched the message, too.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_sync(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends scattered buffers as one message, which any kind of tag receive takes. The list is copied,
 * the buffers are not. This and every other list of buffers has at most 1,048,576 (else
 * INVALID_PARAM).
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_iov(ucxx_endpoint_t *endpoint, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives one message whose tag equals `tag` in the bits of `tag_mask`, from any endpoint of the
 * worker.
 *
 * It belongs to no endpoint: name one in `source`, or give a timeout, if the sender's death shall
 * end it.
 *
 * A longer message gives MESSAGE_TRUNCATED, with its full length in recv_info and the buffer
 * undefined. Messages that nobody receives wait at the receiver without bound.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv(ucxx_worker_t *worker, void *buffer, size_t length, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_tag_recv`, into scattered buffers, which are filled one after the other. The list is
 * copied.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv_iov(ucxx_worker_t *worker, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Looks for a message that has arrived, was not received, and whose tag matches: OK and `*info`,
 * or NO_MESSAGE. With `message` it is taken out of matching, and stays with the handle, which the
 * caller owns. `message` is optional. Progresses nothing.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_probe(ucxx_worker_t *worker, uint64_t tag, uint64_t tag_mask, ucxx_recv_info_t *info, ucxx_tag_message_t **message);

/**
 * Receives a message that a probe took out of matching; once. The handle stays to be destroyed.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_message_recv(ucxx_tag_message_t *message, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Frees the handle. A message that was not received is dropped: its sender completes as if it had
 * been. NULL is ignored. Under SINGLE, on the worker's own thread.
 */
void ucxx_tag_message_destroy(ucxx_tag_message_t *message);

/**
 * Sends bytes behind those that this endpoint has sent before. The peer receives them from its end
 * of the connection, in whatever pieces it likes.
 *
 * Completion is local, as of `ucxx_tag_send`. One that fails may have sent a part: what follows it
 * would not be in its place, and there is nothing left to do with the endpoint but to close it. No
 * bytes: nothing is sent; complete inside the call, but where it goes through the queue of a
 * progress thread.
 *
 * What the peer has not received waits there without bound.
 *
 * Errors: UNSUPPORTED without UCXX_FEATURE_STREAM, which both sides need; CLOSED, PEER_FAILED and
 * the like on an endpoint that has ended.
 */
UCXX_NODISCARD ucxx_status_t ucxx_stream_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives the next `length` bytes of what the peer sends on its end; with
 * UCXX_FLAG_STREAM_PARTIAL as many of them as have arrived, at least one, but for a `length` of 0.
 * `recv_info.length` tells how many, also where it did not end well.
 *
 * Receives of one endpoint are filled in the order in which they were posted, and end with it.
 * Cancelled or timed out, one ends at once, and what it has taken already is gone from the stream:
 * `recv_info.length` bytes, in its buffer. What was sent before the peer closed can be received
 * after that; then it is CONNECTION_RESET. What was not received when the peer failed is lost.
 *
 * The library copies: `buffer` is memory of the host (AUTO is taken for that), else UNSUPPORTED.
 */
UCXX_NODISCARD ucxx_status_t ucxx_stream_recv(ucxx_endpoint_t *endpoint, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Has `handler` called for active messages with this id from now on. NULL removes it. Ids of
 * active messages, multi-buffer messages and fetches are separate spaces of 65,536 each.
 *
 * Without a handler a message whose data waits at its sender ends there with NO_ELEM; one that
 * came with its data is dropped, and counted in `am_unhandled` of ucxx_worker_query_stats.
 *
 * When this returns, the handler that was there before may still be running on another thread:
 * `destroy_arg` tells when its `arg` is free. On an error `destroy_arg` is not called. Errors:
 * UNSUPPORTED without UCXX_FEATURE_AM; BUSY from a callback of another worker where this one has a
 * progress thread that takes operations by its queue.
 */
ucxx_status_t ucxx_worker_set_am_handler(ucxx_worker_t *worker, uint16_t id, ucxx_am_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg);

/**
 * Has `notifier` hand out active messages with this id from now on (UCXX_EVENT_AM_MESSAGE), in the
 * place of a handler; NULL removes what is there. `user_data` is that of its reports. What is
 * handed out belongs to whoever polls, as it would to a handler, and what was in the notifier's
 * queue before stays there. The notifier may be destroyed first: messages that come later are
 * dropped.
 *
 * Errors: as ucxx_worker_set_am_handler; INVALID_PARAM for a notifier of another context; CLOSED
 * for one that was stopped.
 */
ucxx_status_t ucxx_worker_set_am_notifier(ucxx_worker_t *worker, uint16_t id, ucxx_notifier_t *notifier, void *user_data);

/**
 * Sends an active message: a header, which is copied, and data, for the handler or notifier that
 * the peer has under this id.
 *
 * Either may be empty. A short message is easiest as the header alone: it needs no buffer that is
 * kept, and arrives at once. The header is at most `max_am_header` of ucxx_worker_query bytes.
 * Messages of one thread on one endpoint reach their handlers in the order they were sent,
 * whatever their sizes.
 *
 * A short message travels with its data; a longer one leaves it here until the receiver pulls it.
 * UCX draws the line: at 5 to 8 KiB over shared memory and 0.1 to 0.3 MiB over TCP in the releases
 * that this was tried with, or at UCX_RNDV_THRESH; one of more than 1 MiB always waits. So
 * receivers expect both. UCXX_FLAG_EAGER sends the data along at any length, which copies it and
 * takes memory there; UCXX_FLAG_RNDV leaves it here. UCXX_FLAG_AM_REPLY gives the receiver an
 * endpoint to answer on. `memory_type` is told to the receiver, too.
 *
 * Completion is local, as of ucxx_tag_send: of data that waits here, when the receiver has pulled
 * it, or has destroyed the message without. A receiver that does not destroy its messages makes
 * senders wait: not more than 256 messages of an endpoint, and 8 MiB of data that came along, are
 * on their way or unreceived. What is sent beyond that waits in the endpoint's queue, or with
 * UCXX_FLAG_NO_WAIT is NO_RESOURCE.
 *
 * Errors: UNSUPPORTED without UCXX_FEATURE_AM, or to a peer that is not of this library; NO_ELEM
 * if the peer has no handler for a message whose data waited here; CLOSED, PEER_FAILED and the
 * like on an endpoint that has ended.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_am_send`, of scattered buffers. The list is copied, the buffers are not.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send_iov(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * The sender's header and its length; NULL and 0 if there is none. Valid until the message is
 * destroyed. `length` is optional.
 */
const void *ucxx_am_message_header(const ucxx_am_message_t *message, size_t *length);

/**
 * Bytes of data.
 */
size_t ucxx_am_message_length(const ucxx_am_message_t *message);

/**
 * The data of a message that came with it, aligned to 8 bytes where UCX has it so; to be read
 * until the message is destroyed, or its worker. Until then it may be the buffer of a send, too:
 * destroy the message when that is complete.
 *
 * NULL while the data waits at its sender: ucxx_am_message_length is not 0 then, and
 * ucxx_am_message_recv fetches it. NULL also where there is no data: the length is 0, and there is
 * nothing to receive.
 */
const void *ucxx_am_message_data(const ucxx_am_message_t *message);

/**
 * UCXX_MEMORY_*: the `memory_type` that the sender gave, HOST if it gave none. Data that came with
 * its message is in the host's memory in any case.
 */
int32_t ucxx_am_message_memory_type(const ucxx_am_message_t *message);

/**
 * The endpoint to the sender, to answer on; NULL unless the sender set UCXX_FLAG_AM_REPLY.
 * Borrowed: valid until the message is destroyed, or for as long as one's own that
 * ucxx_endpoint_retain makes of it. An answer that is under way goes on when the message is
 * destroyed. It is the user's own endpoint to that peer where there is one.
 */
ucxx_endpoint_t *ucxx_am_message_reply(const ucxx_am_message_t *message);

/**
 * Puts the data of a message into `buffer`: copies it if it came along, else pulls it from its
 * sender, straight into the buffer; once. In the handler or later, also of a message that a
 * notifier handed out, on any thread. The message is destroyed by the caller afterwards, or
 * meanwhile.
 *
 * A buffer that is too short is MESSAGE_TRUNCATED at once, and the message stays as it was. A
 * second receive is INVALID_PARAM, also after one that failed on its way; CONNECTION_RESET where
 * the sender's connection has ended. A pull that UCX has begun is neither cancelled nor ended by
 * its timeout, but for UCXX_FLAG_TIMEOUT_CLOSES. Data that came along is copied into CUDA memory
 * by the driver, and waited for; into ROCm memory it is not: UNSUPPORTED.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_message_recv(ucxx_am_message_t *message, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_am_message_recv`, into scattered buffers, which are filled one after the other. The
 * list is copied.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_message_recv_iov(ucxx_am_message_t *message, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Ends a message. Data that was not received is dropped, and its sender completes as if it had
 * been; what a receive, or an answer on ucxx_am_message_reply, has begun goes on. Any thread. NULL
 * is ignored.
 */
void ucxx_am_message_destroy(ucxx_am_message_t *message);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_allocator_init(ucxx_allocator_t *value, size_t struct_size);

/**
 * Takes the buffers out of a request that has completed with OK: they belong to the caller from
 * here on. Once; what is not taken goes with the request. NO_ELEM if it has none or they were
 * taken, INPROGRESS before its end, its own error if it failed.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_take_buffers(ucxx_request_t *request, ucxx_buffers_t **buffers);

/**
 * How many buffers there are; 0 for NULL.
 */
size_t ucxx_buffers_count(const ucxx_buffers_t *buffers);

/**
 * One of the buffers, which stays with the others. Data is NULL where the length is 0, and where
 * it was taken. OUT_OF_RANGE for an index that is not below ucxx_buffers_count.
 */
UCXX_NODISCARD ucxx_status_t ucxx_buffers_get(const ucxx_buffers_t *buffers, size_t index, ucxx_buffer_t *buffer);

/**
 * As `ucxx_buffers_get`, and from here on the caller frees this one: by its own `deallocate`, or
 * without one by free(), UCXX_MEMORY_CUDA by cuMemFree in the primary context of the device that
 * `device_id` tells.
 */
UCXX_NODISCARD ucxx_status_t ucxx_buffers_take(ucxx_buffers_t *buffers, size_t index, ucxx_buffer_t *buffer);

/**
 * Frees the buffers that were not taken, with their allocator. NULL is ignored. Any thread.
 */
void ucxx_buffers_destroy(ucxx_buffers_t *buffers);

/**
 * Sends buffers one by one under one tag, behind headers that announce them: what
 * `ucxx_tag_recv_multi` receives as one, and so does UCXX 0.52's tagMultiRecv, as the bytes on the
 * wire are UCXX's. The list is copied, the buffers are not. No buffers at all are sent, too: one
 * header (UCXX does not complete such a receive). Device memory has to say so in `memory_type`:
 * AUTO is announced as the host's.
 *
 * Completion is local: all buffers may be reused. A failing frame fails the whole, when all others
 * have ended. Nothing else of this endpoint comes in between; but messages of other endpoints
 * under the same tag can not be told from frames by their receiver: see ucxx_tag_recv_multi. A
 * cancelled send, or one out of time, goes on once its first header has left.
 *
 * Errors: UNSUPPORTED without UCXX_FEATURE_TAG, NO_RESOURCE where the send queue has no room (for
 * its first message, and the bytes of all).
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_multi(ucxx_endpoint_t *endpoint, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives what `ucxx_tag_send_multi`, or UCXX 0.52's tagMultiSend, sends: as many buffers as were
 * sent, made by `allocator` (NULL: malloc, and its limits) when their header has come, and taken
 * by ucxx_request_take_buffers. `recv_info` tells the bytes of all, and the tag. Never OK inside
 * the call.
 *
 * The wire format does not say which frame belongs to which header. So of receives of one worker
 * that could match the same messages the later one waits until the earlier one has posted its
 * frames; after its header a receive takes only messages with exactly that header's tag. Senders
 * that use the same tag at the same time on different endpoints, and other messages under it, get
 * mixed up: give each sender a tag, and receive with a mask. Lengths that do not fit fail the
 * receive with IO_ERROR, and so does a message that is no header; ucxx_am_send_multi has no such
 * limits.
 *
 * More frames or bytes than the allocator's limits, and buffers that cannot be made:
 * EXCEEDS_LIMIT, or the allocator's status. The frames are received and dropped, so that the
 * sender completes and the tag stays usable. A cancelled receive, or one out of time, whose header
 * has come leaves its frames unreceived: they are messages of their own then.
 *
 * Errors: INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor callback, as there would
 * be no handle to take the buffers from; UNSUPPORTED without UCXX_FEATURE_TAG.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv_multi(ucxx_worker_t *worker, uint64_t tag, uint64_t tag_mask, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Has `handler` called for multi-buffer messages with this id from now on, and `allocator` (NULL:
 * malloc, and its limits) make their buffers; a NULL handler removes it. As
 * ucxx_worker_set_am_handler; ids of multi-buffer messages are a space of their own. The
 * allocator's functions may be called for as long as the handler runs, or buffers of its are left.
 */
ucxx_status_t ucxx_worker_set_multi_handler(ucxx_worker_t *worker, uint16_t id, ucxx_multi_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg, const ucxx_allocator_t *allocator);

/**
 * Sends buffers, and a header, as one active message, whose handler gets each in a buffer of its
 * own: whatever their number, with any number of senders and receivers at once. Both lists are
 * copied, the buffers are not.
 *
 * As ucxx_am_send in everything else: local completion, order, credit, UCXX_FLAG_EAGER, RNDV,
 * AM_REPLY and NO_WAIT. A table of the buffers, of 8 bytes each, travels in front of the header as
 * far as there is room in what the transports carry (some hundred buffers), and else with the
 * data: then large ones take a detour through the receiver's memory, and cannot be device memory.
 * Buffers of one message must be of one memory type in this release.
 *
 * Errors: as ucxx_am_send; UNSUPPORTED for too many buffers of device memory.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send_multi(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends a message that waits in a queue of the peer's endpoint until it is received there: by
 * ucxx_am_queue_recv, or by UCXX 0.52's amRecv, whose format it has. Completion is local, as of
 * ucxx_am_send; UCXX_FLAG_EAGER and UCXX_FLAG_RNDV as there. There is no credit: as with UCXX,
 * what nobody receives waits at the receiver without bound. Messages of one thread on one endpoint
 * stay in order as long as all go eagerly or all by rendezvous.
 *
 * Errors: UNSUPPORTED without UCXX_FEATURE_AM.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_am_queue_cover_init(ucxx_am_queue_cover_t *value, size_t struct_size);

/**
 * As ucxx_am_queue_send, with a header, and to the peer's handler of that owner and number instead
 * of its queue, if the cover names one: one set by ucxx_worker_set_am_queue_handler, or a receiver
 * callback of UCXX 0.52's. A peer that has none drops the message; where the data waits at this
 * side, the send ends with NO_ELEM. Nothing bounds what such messages take at the receiver, as
 * with the queue. NULL for `cover` is ucxx_am_queue_send.
 *
 * Errors: INVALID_PARAM for an owner of over 63 bytes, an id without an owner, a header that is
 * too long; UNSUPPORTED without UCXX_FEATURE_AM.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_send_to(ucxx_endpoint_t *endpoint, const ucxx_am_queue_cover_t *cover, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Has `handler` called for messages that name this owner and id, sent by ucxx_am_queue_send_to or
 * by UCXX 0.52 (`AmReceiverCallbackInfo`), and `allocator` (NULL: malloc, and its limits) make
 * their buffer; a NULL handler removes it. As ucxx_worker_set_multi_handler: the handler is the
 * same, gets one buffer a message, and always the endpoint to answer on. The messages for such
 * handlers of one endpoint come in the order in which they arrived.
 *
 * Errors: INVALID_PARAM for an owner of over 63 bytes, or "ucxx", which is UCXX's own.
 */
ucxx_status_t ucxx_worker_set_am_queue_handler(ucxx_worker_t *worker, const char *owner, uint64_t id, ucxx_multi_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg, const ucxx_allocator_t *allocator);

/**
 * Receives the oldest message in the endpoint's queue, or the next one that comes, into one buffer
 * that `allocator` makes (NULL: malloc, and its limits): taken by ucxx_request_take_buffers.
 * Receives get messages in the order in which they were posted. Never OK inside the call.
 * `recv_info.length` is the message's length.
 *
 * The peer is one that uses ucxx_am_queue_send, or UCXX; its header, if it sent one, is had by
 * ucxx_request_am_header. A cancelled receive, or one out of time, takes no message; one whose
 * data has begun to be pulled goes on. It ends with its endpoint, and so does what waits in the
 * queue. Errors: INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor callback. As its
 * status: EXCEEDS_LIMIT for a message beyond `max_total_bytes`, or the allocator's; the message is
 * dropped then.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_recv(ucxx_endpoint_t *endpoint, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * The header that came with what ucxx_am_queue_recv has received, of ucxx_am_queue_send_to or
 * UCXX's: `*header` is NULL where `*length` is 0, and else valid until the request is destroyed.
 *
 * Errors: INPROGRESS before the end; the request's own, if it has failed; NO_ELEM for a request of
 * anything else.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_am_header(const ucxx_request_t *request, const void **header, size_t *length);

/**
 * Is a message waiting in the endpoint's queue that nobody has received? OK and its length, or
 * NO_MESSAGE. It makes no progress. Any thread; `length` is optional.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_probe(const ucxx_endpoint_t *endpoint, size_t *length);

/**
 * Has `handler` called for questions with this id from now on; NULL removes it. As
 * ucxx_worker_set_am_handler. Without a handler the fetch ends with NO_ELEM.
 */
ucxx_status_t ucxx_worker_set_fetch_handler(ucxx_worker_t *worker, uint16_t id, ucxx_fetch_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg);

/**
 * Has `notifier` hand out questions with this id from now on (UCXX_EVENT_FETCH), as
 * ucxx_worker_set_am_notifier does messages. Such a question holds its credit until it is
 * destroyed, as a message does: whoever asks waits when 256 have not been. Questions that come
 * when the notifier has been destroyed end with NO_ELEM, those that it had not handed out with
 * CANCELED.
 */
ucxx_status_t ucxx_worker_set_fetch_notifier(ucxx_worker_t *worker, uint16_t id, ucxx_notifier_t *notifier, void *user_data);

/**
 * Asks the peer's handler, or who polls its notifier, for data, and has it delivered into
 * `reply_buffer`.
 *
 * The header, which is copied, is the question; it is limited as an active message's. The answer
 * may be as long as `reply_capacity`, which the handler is told; a shorter one leaves the rest of
 * the buffer as it was. A small answer takes one round trip; a large one is pulled straight into
 * the buffer. `memory_type` is that of the buffer.
 *
 * Never complete inside the call. The request ends with OK, and the answer's length in recv_info;
 * with the status that the handler rejected it with, CANCELED if the question was destroyed
 * unanswered; NO_ELEM without a handler; MESSAGE_TRUNCATED for an answer that is longer than there
 * is room for, recv_info.length its full length, the buffer as it was. Cancel and timeout end it
 * at once as long as its answer has not begun to arrive: the buffer is the caller's again,
 * whatever the peer sends later.
 *
 * Questions use credit as active messages do, and give it back when they are handed to their
 * handler: one that is not answered holds none. Questions and active messages of one thread on one
 * endpoint are handed over in the order they were sent; answers come in any.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, void *reply_buffer, size_t reply_capacity, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_am_fetch`, into scattered buffers, which are filled one after the other. The list is
 * copied.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch_iov(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *reply_buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_am_fetch`, with data that goes along with the question, of up to 8 MiB (8388608 bytes),
 * and a buffer that is made when the answer has come: one buffer, to be had by
 * ucxx_request_take_buffers. `params.memory_type` is that of `data`; of an answer that is pulled
 * the buffer is asked for in the memory type that the other side gave, of one that came along in
 * the host's. `allocator` may be NULL: malloc, and its limits.
 *
 * Errors: EXCEEDS_LIMIT for more data than goes along, and as the request's status for an answer
 * beyond `max_total_bytes`; INVALID_PARAM with UCXX_FLAG_WAIT, or with neither request nor
 * callback, as there would be no handle to take the buffer from.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch_alloc(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const void *data, size_t data_length, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * The question's header and its length; NULL and 0 if there is none. Valid until the question is
 * destroyed. `length` is optional.
 */
const void *ucxx_fetch_header(const ucxx_fetch_t *fetch, size_t *length);

/**
 * The data that came with the question and its length; NULL and 0 if there is none. Valid until
 * the question is destroyed, or its worker. `length` is optional.
 */
const void *ucxx_fetch_data(const ucxx_fetch_t *fetch, size_t *length);

/**
 * Bytes that there is room for at the side that asks; SIZE_MAX if room is made for what comes.
 */
size_t ucxx_fetch_capacity(const ucxx_fetch_t *fetch);

/**
 * The endpoint to the side that asks: the user's own of that connection where there is one, else
 * one that the library has made for it. Borrowed: valid until the question is destroyed, or for as
 * long as one's own that ucxx_endpoint_retain makes of it.
 */
ucxx_endpoint_t *ucxx_fetch_endpoint(const ucxx_fetch_t *fetch);

/**
 * Answers a question: once; a second answer is ALREADY_EXISTS. The request is a send's: complete
 * when the buffer may be reused. An answer that is longer than ucxx_fetch_capacity is not sent:
 * the other side is told its length, and the request here ends with OK. UCXX_FLAG_EAGER and
 * UCXX_FLAG_RNDV as for ucxx_am_send. Answers need no credit, and wait, but for UCXX_FLAG_NO_WAIT,
 * whatever the send queue's bound; but with a progress thread that takes operations by its queue
 * they are NO_RESOURCE, with or without that flag, while the queue is full. An answer that this
 * call did not take leaves the question unanswered, so that it may be answered again. An answer
 * that waits and is cancelled, or out of time, tells the other side CANCELED.
 */
ucxx_status_t ucxx_fetch_reply(ucxx_fetch_t *fetch, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As `ucxx_fetch_reply`, of scattered buffers. The list is copied, the buffers are not.
 */
ucxx_status_t ucxx_fetch_reply_iov(ucxx_fetch_t *fetch, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Answers a question with a status: NO_ELEM, REJECTED, BUSY, CANCELED, or UCXX_ERR_APPLICATION and
 * below. Once, instead of a reply. Waits for nothing, and never fails for want of room.
 */
ucxx_status_t ucxx_fetch_reject(ucxx_fetch_t *fetch, ucxx_status_t status);

/**
 * Ends a question; one that was not answered is rejected with CANCELED. What a reply has begun
 * goes on. Any thread. NULL is ignored.
 */
void ucxx_fetch_destroy(ucxx_fetch_t *fetch);

/**
 * Registers memory of the caller's, which stays the caller's: it may be freed, or unmapped, after
 * ucxx_memory_destroy. `length` in bytes, not 0. `memory_type` is UCXX_MEMORY_*, AUTO to find it
 * out. Needs no feature; keys for peers do (see ucxx_memory_pack).
 *
 * Errors: UNSUPPORTED for memory that the UCX that is loaded does not know; NO_MEMORY and the like
 * as UCX says. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_register(ucxx_context_t *context, void *base, size_t length, int32_t memory_type, ucxx_memory_t **memory);

/**
 * Allocates memory that is registered; `memory_type` AUTO is HOST. Other processes of this host
 * can be given it for loads and stores (ucxx_rkey_pointer), where UCX's shared memory is in use,
 * and put, get and atomic operations on it then need nothing of the process that has it. Zeroed,
 * but that of a device. Freed by ucxx_memory_destroy. The rest as ucxx_memory_register.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_allocate(ucxx_context_t *context, size_t length, int32_t memory_type, ucxx_memory_t **memory);

/**
 * Its first byte; NULL for NULL. Any thread.
 */
void *ucxx_memory_base(const ucxx_memory_t *memory);

/**
 * Its bytes, as many as were asked for; 0 for NULL. Any thread.
 */
size_t ucxx_memory_length(const ucxx_memory_t *memory);

/**
 * Writes a key to the memory to `bytes`, to be sent to peers by any means, and its length to
 * `length`, which holds the room there is before. With NULL for `bytes` the length alone. The key
 * says what memory of which process it is to, and ends in a checksum. A hundred bytes or so; the
 * same each time.
 *
 * Who has the key, and a connection to a worker of this context, can read and write the memory
 * from then on, until ucxx_memory_destroy. UCX does not check what peers put and get over a
 * network against the keys that there are: a context with UCXX_FEATURE_RMA trusts its peers.
 * Memory of which a part may only be read, when this is first called, can only be read by its key.
 * Made so afterwards, a put ends this process by SIGSEGV.
 *
 * Errors: UNSUPPORTED without either of UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC;
 * BUFFER_TOO_SMALL, with the length that is needed. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_pack(const ucxx_memory_t *memory, void *bytes, size_t *length);

/**
 * Ends the registration; what was allocated is freed. Nothing may be done by a key to it from then
 * on, and what is under way must have ended: agree with the peers first, as UCX has no way to
 * know. (An atomic operation that comes as a message is refused with NO_ELEM; where a peer sees
 * the memory, or UCX writes it for one, nobody looks.) NULL is ignored. Any thread.
 */
void ucxx_memory_destroy(ucxx_memory_t *memory);

/**
 * A key of the bytes of ucxx_memory_pack as they arrived, to be used on this endpoint, which leads
 * to the process that made it. The bytes are copied. The handle stays to be destroyed, and may
 * outlive the endpoint, its worker and the peer: it answers their status then.
 *
 * Errors: INVALID_PARAM for bytes that are damaged, cut off, or foreign, and for the key of
 * another process; UNSUPPORTED without either of UCXX_FEATURE_RMA and UCXX_FEATURE_ATOMIC, and for
 * a peer that is not of this library; NO_ELEM for the worker's own memory that has gone;
 * NOT_CONNECTED before an endpoint that was made by host and port is open; UNREACHABLE where UCX
 * has no way to such memory; PEER_FAILED where the process that made it has ended, whether the
 * endpoint knows of that or not. It may wait for the progress thread, so in a callback on another
 * thread: BUSY.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rkey_unpack(ucxx_endpoint_t *endpoint, const void *bytes, size_t length, ucxx_rkey_t **rkey);

/**
 * The address of the first byte of the memory at the peer; 0 for NULL. Any thread.
 */
uint64_t ucxx_rkey_base(const ucxx_rkey_t *rkey);

/**
 * The bytes of the memory; 0 for NULL. Any thread.
 */
size_t ucxx_rkey_length(const ucxx_rkey_t *rkey);

/**
 * Where this process sees the memory: loads and stores from there go straight to it, and are
 * ordered as the processor orders those of threads. Valid until the key is destroyed or the
 * endpoint's worker is.
 *
 * Errors: UNREACHABLE where it cannot be seen: memory that was registered rather than allocated,
 * of another host, or without shared memory among the transports. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rkey_pointer(const ucxx_rkey_t *rkey, void **local);

/**
 * Lets go of the key. Operations under way go on. What is done by a key in the call, and through
 * its pointer, must have returned before the endpoint's worker is destroyed. NULL is ignored. Any
 * thread, but as destroying an endpoint under SINGLE.
 */
void ucxx_rkey_destroy(ucxx_rkey_t *rkey);

/**
 * Writes `length` bytes from `buffer` to the peer's memory, `offset` bytes from its beginning. The
 * peer is told nothing.
 *
 * Where this process sees the memory (see ucxx_rkey_pointer) it is done inside the call, whoever
 * progresses; an aligned value of 1, 2, 4 or 8 bytes is written at once, so that nobody sees half
 * of it. Elsewhere completion is local, the buffer may be reused: that the bytes are there tells a
 * later flush of the endpoint. Over TCP, and to memory that was registered rather than allocated,
 * the peer has to progress for that. Puts, gets and atomic operations are not ordered among each
 * other, nor with messages, but by a flush or ucxx_worker_fence.
 *
 * Errors, with nothing sent: OUT_OF_RANGE beyond the memory; INVALID_ADDR where the peer may not
 * write all of it, see ucxx_memory_pack; UNSUPPORTED without UCXX_FEATURE_RMA; NO_RESOURCE with
 * UCXX_FLAG_NO_WAIT, as a send; the endpoint's status when it has ended.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_put(ucxx_rkey_t *rkey, const void *buffer, size_t length, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Reads `length` bytes into `buffer` from the peer's memory, `offset` bytes from its beginning.
 * Complete when they are there. The rest as ucxx_rma_put.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_get(ucxx_rkey_t *rkey, void *buffer, size_t length, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * An atomic operation (UCXX_ATOMIC_*) on a number of `size` bytes, 4 or 8, of the peer's memory:
 * the address at the peer, ucxx_rkey_base plus `offset`, is a multiple of that. `operand` is
 * copied, and so is `compare`, which CSWAP alone reads: it puts `operand` there if `compare` is
 * there. What was there before goes to `result`, unless that is NULL. Numbers wrap around.
 *
 * Atomic to every other operation of this kind on the same number, from wherever, and to the
 * processor's own of the process that has the memory. Where this process sees the memory it is
 * done inside the call; elsewhere the peer's library does it when it progresses, and the operation
 * completes when it has been done: a failure there is its status, NO_ELEM for memory that has
 * gone. One that was cancelled, or ran out of time, may have been done.
 *
 * Errors, with nothing sent: INVALID_PARAM for another operation or size, or what is not aligned;
 * OUT_OF_RANGE; UNSUPPORTED without UCXX_FEATURE_ATOMIC and for memory of a device; else as
 * ucxx_rma_put. It uses credit as a fetch does.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_atomic(ucxx_rkey_t *rkey, int32_t op, size_t size, const void *operand, const void *compare, void *result, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_group_params_init(ucxx_group_params_t *value, size_t struct_size);

/**
 * Makes a group: all its members call it, at about the same time. Blocks until all have come;
 * `timeout_ns` says how long. `worker` is what this process initiates on, and what
 * ucxx_group_endpoint connects; the group keeps its memory alive. Beside it the group has a worker
 * of its own with an adaptive progress thread, which serves the other members, whatever this
 * process does meanwhile. Its context needs UCXX_FEATURE_AM and UCXX_FEATURE_WAKEUP, and the same
 * transports at all members.
 *
 * How the members find each other is `bootstrap`. CALLBACKS: by a function of the caller's, of MPI
 * or a file system. TCP: rank 0 listens at `root`, and the others tell it where they are. ENV: the
 * same, with rank and size as RANK and WORLD_SIZE say (torchrun sets them; its own store has
 * MASTER_PORT, so give `root` with another port), or else as mpirun, mpiexec or srun have set
 * them, and MASTER_ADDR and MASTER_PORT for `root`. PMIX: by the launcher's PMIx, whose library,
 * libpmix.so.2, is loaded for it; one such group at a time in a process, in the same order
 * everywhere. The connections of TCP and ENV end when the group is made.
 *
 * Under manual progress the calls that wait on a group (this one does not) progress `worker`, and
 * come under its thread mode; callbacks may run in them. From a callback they return BUSY.
 *
 * Errors: TIMED_OUT, with the ranks that have not come in the message, at every member that
 * reached rank 0; REJECTED for another secret; INVALID_PARAM for a rank that is taken, sizes that
 * differ, an environment that lacks something, which the message names (the other members go on
 * waiting for the right one); BUSY where the port of `root` is taken, and from a callback;
 * INVALID_ADDR where `root` is not of rank 0's machine; NO_RESOURCE where the limit of descriptors
 * is too low for as many members; UNSUPPORTED without a feature or without PMIx, UNREACHABLE
 * without a launcher that offers it; PEER_FAILED when a member went in the midst; what `allgather`
 * returned.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_create(ucxx_worker_t *worker, const ucxx_group_params_t *params, ucxx_group_t **group);

/**
 * A group of some of the members, each of which calls this with the same list, of ranks in
 * `group`; in the new group they have the ranks of their places in the list. Blocks until all have
 * called it. It shares the service of `group`, which may be destroyed before it. Disjoint subsets,
 * and others from other threads, may be made at the same time, without the rest of the members.
 *
 * Errors: INVALID_PARAM for a list without this process, or with a rank twice; TIMED_OUT after
 * collective_timeout_ns, or 60 s where that is 0, when not all have called it with this list as
 * often (a call that failed counts, too); else as ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_subset(ucxx_group_t *group, const uint32_t *ranks, size_t count, ucxx_group_t **subset);

/**
 * 1 for a member on this host, that is under the same kernel, as this process is; 0 for another; a
 * negative status. Processes of one kernel whose UCXX_RS_HOST_ID in the environment differs count
 * as those of several hosts. Any thread.
 */
int32_t ucxx_group_same_host(const ucxx_group_t *group, uint32_t rank);

/**
 * This process's rank; 0 for NULL. Any thread.
 */
uint32_t ucxx_group_rank(const ucxx_group_t *group);

/**
 * How many members the group has; 0 for NULL. Any thread.
 */
uint32_t ucxx_group_size(const ucxx_group_t *group);

/**
 * The endpoint from this process's worker to that of a member, itself included: made by the first
 * call, with peer failure noticed, the same in the groups that share a service, and theirs:
 * neither closed nor destroyed by the caller, and gone with the last of them. It does not wait for
 * the member.
 *
 * Errors: INVALID_PARAM for a rank that there is not; as ucxx_endpoint_create. From a callback on
 * another thread than the worker's progress thread, if it has one: BUSY, where it is not made yet.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_endpoint(ucxx_group_t *group, uint32_t rank, ucxx_endpoint_t **endpoint);

/**
 * How long, from now on, a member on another host may give no sign of life before it counts as
 * failed, as if it had died: that a host has gone, or the way to it is cut, nobody tells before
 * TCP gives up, after minutes. In nanoseconds; 0, as it is at first, for as long as it likes. It
 * is for the collectives and windows of all groups that share this one's service, here; each
 * member says for itself. The threads of the groups ask each other four times in that time,
 * whatever the processes do meanwhile; a process that is stopped is silent, too. Noticed within
 * one and a half times it; while a connection is being made, within five seconds where that is
 * more. Members of this host, of whom the kernel tells, and the endpoints of ucxx_group_endpoint
 * are as without it. Local; any thread.
 *
 * Errors: FORKED; from a callback: BUSY.
 */
ucxx_status_t ucxx_group_set_liveness(ucxx_group_t *group, uint64_t liveness_ns);

/**
 * Returns when all members have called it: whoever has come out knows that all others have come
 * in. Afterwards a member may destroy the group at once.
 *
 * Collectives (this, ucxx_group_allgather and ucxx_group_broadcast) are called by all members of a
 * group in the same order. One at a time on one group: BUSY for a second thread; those of
 * different groups may run at the same time. They use nothing of the caller's tags, handlers and
 * endpoints. See ucxx_group_create for `worker`.
 *
 * Errors: PEER_FAILED when a member that is needed has died, or destroyed the group before its
 * time; TIMED_OUT after collective_timeout_ns; INVALID_PARAM when members have called different
 * things, in that collective or the next one. The message names the rank. Members that wait learn
 * of it from each other, within 2 s of a death. From then on every collective of this group
 * returns the same; those of its subsets, and of the group it was taken from, go on. Buffers are
 * the caller's again. Only where a member that lives does not let go of data that was under way
 * within a second (it is stopped, or pulls that much) is the connection between the two cut, and
 * those fail as well, as if it had left.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_barrier(ucxx_group_t *group);

/**
 * Gives `length` bytes of each member to all: `all` has them one after the other, in rank order.
 * With NULL for `mine` the caller's are in their place in `all` already. Host memory. Who comes
 * out has everything, so all have come in. The rest as ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_allgather(ucxx_group_t *group, const void *mine, size_t length, void *all);

/**
 * Gives the `length` bytes of the member `root` to all others, which say the same `length`. Host
 * memory. The root may come out before others have come in, but does not count on it: after 64
 * broadcasts in a row, or 2 MiB, all wait for each other. The rest as ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_broadcast(ucxx_group_t *group, void *data, size_t length, uint32_t root);

/**
 * Lets go of the group, and tells the other members; collectives of theirs that still need this
 * process end with PEER_FAILED. With the last group that shares its service its endpoints are
 * closed. What was sent before is let arrive. Bounded: some seconds where members do not answer,
 * also in a callback, which it holds up. No collective of the group's may be under way. NULL is
 * ignored. Any thread that may use `worker`. A callback of the group's worker that runs on its
 * progress thread, and waits for the caller, makes it wait as long.
 */
void ucxx_group_destroy(ucxx_group_t *group);

/**
 * Bytes of an element of that type (UCXX_TYPE_*); 0 if there is none. A pair is a struct { value;
 * int32_t index; } as C lays it out, whose padding may be overwritten. Any thread.
 */
size_t ucxx_type_size(int32_t element_type);

/**
 * `count` elements that follow each other. Nothing is checked before the layout is used. NULL is
 * ignored. Any thread.
 */
void ucxx_layout_init_contiguous(ucxx_layout_t *layout, int32_t element_type, uint64_t count);

/**
 * `count` blocks of `block_length` elements, `stride` elements from beginning to beginning. The
 * rest as ucxx_layout_init_contiguous.
 */
void ucxx_layout_init_vector(ucxx_layout_t *layout, int32_t element_type, uint64_t count, uint64_t block_length, int64_t stride);

/**
 * The blocks of a list, which stays the caller's, and is read whenever the layout is used. The
 * rest as ucxx_layout_init_contiguous.
 */
void ucxx_layout_init_blocks(ucxx_layout_t *layout, int32_t element_type, const ucxx_block_t *blocks, size_t block_count);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_window_params_init(ucxx_window_params_t *value, size_t struct_size);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_window_attr_init(ucxx_window_attr_t *value, size_t struct_size);

/**
 * Makes a window of memory of the caller's, which stays that until the window is closed or
 * destroyed. All members of the group call it, each with its own memory, size (0 is one) and
 * disp_unit, the bytes that a displacement at this process counts.
 *
 * Others on this host reach the memory without this process: the kernel copies it
 * (process_vm_readv), for which they have to be permitted to trace this process, that is of the
 * same user, where no security module forbids it. Memory that the library allocates
 * (ucxx_window_allocate) is reached faster, and without that. Others, and those on other hosts,
 * send messages, which a thread of the group's executes here (ucxx_window_path tells).
 *
 * Memory that may only be read, or not even that, may be part of the window: an operation of
 * another member that may not touch it is INVALID_ADDR there. How the memory may be used is looked
 * at in this call. Memory that was readable and writable stays so until the window is closed, as
 * messages are executed there directly; where some of it was not, the kernel looks each time
 * (mprotect is followed), which costs a system call or two for each operation.
 *
 * Collective, as all functions that make windows: called by all members in the same order, one at
 * a time on one group; it fails everywhere if it fails at one of them. Not from a callback (BUSY).
 * Memory of the host alone.
 *
 * Errors: UNREACHABLE where a member may not open what another one shares, as it is of another
 * user; INVALID_PARAM for what does not go together, with the rank; NO_MEMORY, NO_RESOURCE; else
 * as ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_create(ucxx_group_t *group, void *base, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, ucxx_window_t **window);

/**
 * Makes a window of memory of the library's, all zero at first, which ends with the window's
 * handle: `size` bytes at this process, to `*base`, aligned to a page. The other members read and
 * write it directly: no call of this process's is needed, and none of theirs takes a system call.
 * The rest as ucxx_window_create.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_allocate(ucxx_group_t *group, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, void **base, ucxx_window_t **window);

/**
 * The same for members that also read and write each other's memory by plain loads and stores, at
 * the addresses that ucxx_window_shared_query tells. Unless `shared_noncontiguous` is set the
 * memory of all is in one piece, in rank order, in which a member's begins where that of the one
 * before ends. UNSUPPORTED unless all members are on one host, and in one pid namespace:
 * ucxx_group_subset makes a group of such.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_allocate_shared(ucxx_group_t *group, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, void **base, ucxx_window_t **window);

/**
 * Makes a window without memory: each member attaches what it offers, when it likes. Displacements
 * are addresses of the target's, as the caller learns them from the target. The memory is reached
 * as that of ucxx_window_create, and the rest is as there.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_create_dynamic(ucxx_group_t *group, const ucxx_window_params_t *params, ucxx_window_t **window);

/**
 * Offers `size` bytes of this process's memory in a dynamic window; they stay the caller's. Local,
 * legal in every epoch, effective when it returns. A range that a call names may span regions that
 * follow each other. Up to 1,024 regions at a time. Any thread.
 *
 * Errors: RMA_ATTACH where some of it is attached already; RMA_FLAVOR for a window of another
 * kind; NO_RESOURCE for too many.
 */
ucxx_status_t ucxx_window_attach(ucxx_window_t *window, void *base, size_t size);

/**
 * Takes back a region that was attached at `base`. The caller sees to it that nobody uses it any
 * more. Local, any thread. Errors: RMA_ATTACH where none begins there; RMA_FLAVOR.
 */
ucxx_status_t ucxx_window_detach(ucxx_window_t *window, void *base);

/**
 * Size and disp_unit of a member, and where its memory is in this process. The address is NULL in
 * these cases:
 * - the size is 0, as in dynamic windows;
 * - the memory is not mapped here, as that of other members in windows of memory of the caller's.
 *
 * Each place is optional. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_shared_query(ucxx_window_t *window, uint32_t rank, size_t *size, uint32_t *disp_unit, void **base);

/**
 * Other hints, given by all members at the same time, outside epochs (else RMA_SYNC): no_locks,
 * the promises, accumulate_granularity and lock_timeout_ns are as in `params` from then on;
 * `shared_noncontiguous` and `memory` are not looked at. Waits for the others.
 *
 * Where members are on several hosts it is a collective of the group's as well: all members call
 * it on one window after the other, and on no two at a time.
 *
 * Errors: INVALID_PARAM, everywhere, where they differ or a promise does not hold; BUSY while
 * another collective of the group is under way, between hosts; else as ucxx_window_fence.
 */
ucxx_status_t ucxx_window_set_hints(ucxx_window_t *window, const ucxx_window_params_t *params);

/**
 * Ends a window together with the others: none touches memory of another one through it
 * afterwards. Outside epochs and exposures (else RMA_SYNC, with nothing done); dynamic ones may
 * have regions attached. Whatever it returns otherwise, ucxx_window_destroy follows, until which
 * the library's memory stays where it is. ucxx_window_query, _path, _sync_type and _group still
 * work; all other calls return CLOSED.
 *
 * Errors: PEER_FAILED when a member has died, or left the window; TIMED_OUT after the group's
 * collective_timeout_ns.
 */
ucxx_status_t ucxx_window_close(ucxx_window_t *window);

/**
 * Frees the handle, and the memory that the library has made for this process; members that have
 * not closed it keep their mappings of that as long as they live. Local. Of a window that was not
 * closed it lets go of all locks, and those that wait for this process in a fence, an exposure or
 * a close get PEER_FAILED; the caller sees to it that nobody accesses memory of the caller's any
 * more. NULL is ignored. No call on the window may be under way. A callback of the group's worker
 * that runs on its progress thread, and waits for the caller, makes it wait as long.
 */
void ucxx_window_destroy(ucxx_window_t *window);

/**
 * UCXX_WINDOW_PATH_*: how a target is reached; a negative status on error. Any thread.
 */
int32_t ucxx_window_path(const ucxx_window_t *window, uint32_t target);

/**
 * The group that it was made with, which it keeps; NULL for NULL. The window's: not to be
 * destroyed. Any thread.
 */
ucxx_group_t *ucxx_window_group(const ucxx_window_t *window);

/**
 * What the window is. Any thread.
 */
ucxx_status_t ucxx_window_query(const ucxx_window_t *window, ucxx_window_attr_t *attr);

/**
 * UCXX_SYNC_*: which epoch the window is in towards a target; a negative status on error. Any
 * thread.
 */
int32_t ucxx_window_sync_type(const ucxx_window_t *window, uint32_t target);

/**
 * Begins an access epoch to one target (passive target, MPI-4.1 12.5.3): UCXX_LOCK_SHARED or
 * UCXX_LOCK_EXCLUSIVE. Returns when the lock is held. Several targets may be locked, in an order
 * that all processes keep. First come, first served; readers that follow each other enter
 * together. With UCXX_ASSERT_NOCHECK nothing is locked: the caller knows that nobody else holds a
 * lock that would exclude this one.
 *
 * The calls that synchronise one window are serialised by the caller; those of different windows
 * are not. Where they wait under manual progress they progress the group's worker, and callbacks
 * may run in them; from a callback they return BUSY where they would have to wait.
 *
 * Errors, with the epoch as it was: RMA_LOCK_TYPE, RMA_RANK, RMA_ASSERT for the arguments;
 * RMA_SYNC in an epoch that it does not go with, and with no_locks; TIMED_OUT after
 * lock_timeout_ns; RMA_POISONED, within 2 s, when a process has died that held the target's lock
 * alone: what it has left there is unknown, and stays locked until the window is made anew. A
 * holder of a shared lock that dies is taken out.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock(ucxx_window_t *window, int32_t lock_type, uint32_t target, uint32_t assertions);

/**
 * The same without waiting. While it is in progress the target can be neither accessed nor locked
 * again, and the lock is asked for whenever the group's worker makes a pass, which a progress
 * thread does by itself: a caller that does not progress keeps others waiting in line. Cancelled
 * or out of time (timeout_ns, lock_timeout_ns) it leaves the epoch as it was. The window is not
 * destroyed meanwhile.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock_nb(ucxx_window_t *window, int32_t lock_type, uint32_t target, uint32_t assertions, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Ends the access epoch to a target: what was done there is done, and seen by whoever locks it
 * next. Errors: RMA_SYNC unless it is locked by ucxx_window_lock; RMA_POISONED when the others
 * have taken this process for dead meanwhile. The rest as ucxx_window_lock.
 */
ucxx_status_t ucxx_window_unlock(ucxx_window_t *window, uint32_t target);

/**
 * Begins an access epoch to all targets, this process included, whose locks are shared; returns
 * when they are held, or, after an error at one of them, none. UCXX_ASSERT_NOCHECK as in
 * ucxx_window_lock, and so the rest.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock_all(ucxx_window_t *window, uint32_t assertions);

/**
 * Ends the epoch that ucxx_window_lock_all has begun. The rest as ucxx_window_unlock.
 */
ucxx_status_t ucxx_window_unlock_all(ucxx_window_t *window);

/**
 * What this process has done at the target in the present passive epoch is done there, for
 * everybody to see. Any thread. Errors: RMA_RANK; RMA_SYNC unless the target is locked.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush(ucxx_window_t *window, uint32_t target);

/**
 * The same as an operation: it completes when all is done that was begun before it, and tells what
 * was wrong with that, as a flush. On this host it completes inside the call.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush_nb(ucxx_window_t *window, uint32_t target, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_window_flush, for all targets: in any passive epoch.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush_all(ucxx_window_t *window);

/**
 * The buffers of this process may be used again, and what was read is there; nothing else is said
 * of the target. The rest as ucxx_window_flush.
 */
ucxx_status_t ucxx_window_flush_local(ucxx_window_t *window, uint32_t target);

/**
 * The same for all targets: in any passive epoch.
 */
ucxx_status_t ucxx_window_flush_local_all(ucxx_window_t *window);

/**
 * Orders this process's own loads and stores in the window: those before it come before those
 * after it, for everybody (a full memory fence). Always legal. Any thread.
 */
ucxx_status_t ucxx_window_sync(ucxx_window_t *window);

/**
 * Begins an exposure epoch (MPI-4.1 12.5.2): the `count` ranks, which may include the caller's,
 * may access this process's memory after their ucxx_window_start, until their
 * ucxx_window_complete. Does not wait. Assertions: NOCHECK (those say it as well), NOSTORE, NOPUT,
 * which are hints.
 *
 * Errors: RMA_RANK, INVALID_PARAM for a rank that is named twice, RMA_ASSERT; RMA_SYNC in an
 * exposure, and after the first access that follows a fence.
 */
ucxx_status_t ucxx_window_post(ucxx_window_t *window, const uint32_t *ranks, size_t count, uint32_t assertions);

/**
 * Begins an access epoch to these ranks, once each has posted to this one; with NOCHECK it is
 * known that they have. Errors: as ucxx_window_post; RMA_SYNC in another access epoch;
 * PEER_FAILED, with the rank and with no epoch begun, when one of them has died, or left the
 * window. See ucxx_window_lock for waiting.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_start(ucxx_window_t *window, const uint32_t *ranks, size_t count, uint32_t assertions);

/**
 * Ends the access epoch that ucxx_window_start has begun: what was done is done at the targets,
 * which are told. Does not wait. Errors: RMA_SYNC without one.
 */
ucxx_status_t ucxx_window_complete(ucxx_window_t *window);

/**
 * Ends the exposure epoch, once all that ucxx_window_post has named have completed. Errors:
 * RMA_SYNC without one; PEER_FAILED, with the rank and with the exposure ended, when one has died,
 * or left the window, that has not completed. See ucxx_window_lock for waiting.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_wait(ucxx_window_t *window);

/**
 * The same without waiting: 1 to `*done` if the exposure has ended with this call, 0 if not.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_test(ucxx_window_t *window, int32_t *done);

/**
 * Ends the epoch that the last fence has begun, at all members, and begins another (MPI-4.1
 * 12.5.1): called by all, returns when all have called it. What was done before is done,
 * everywhere. Assertions: NOPRECEDE (this process has done nothing since the last one), NOSUCCEED
 * (no epoch follows), given by all or none, and NOSTORE, NOPUT, which are hints. With both it
 * waits for nobody.
 *
 * Errors: RMA_ASSERT; RMA_SYNC in an epoch of another kind; PEER_FAILED when a member has died, or
 * left the window, with its rank, at all others, within 2 s, and from then on each time; TIMED_OUT
 * after the group's collective_timeout_ns. See ucxx_window_lock for waiting.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_fence(ucxx_window_t *window, uint32_t assertions);

/**
 * Writes to the target's memory, from `disp` of its displacement units on (an address for dynamic
 * windows). The origin's layout says what is read here, the target's what is written there; they
 * have the same number of bytes. The types may differ.
 *
 * Done when it returns, on this host, and with the next flush where it goes by messages
 * (UCXX_WINDOW_PATH_MESSAGE): `origin` may be used again in either case. An aligned value of 1, 2,
 * 4 or 8 bytes is written at once there, so that nobody sees half of it. Puts and gets are not
 * ordered among each other between synchronisation calls. Overlapping puts leave either's bytes.
 * Any thread, as all data calls.
 *
 * Errors, in this order, with nothing done: RMA_RANK; RMA_TYPE; INVALID_PARAM for layouts that do
 * not go together, or a NULL origin; RMA_RANGE beyond the target's memory (RMA_ATTACH where it is
 * not attached); RMA_SYNC outside an access epoch to the target. PEER_FAILED for a target whose
 * memory is not mapped here, and that has died; INVALID_ADDR where its memory may not be written,
 * or has been unmapped, with some of it written where that is true of a part.
 */
ucxx_status_t ucxx_window_put(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout);

/**
 * Reads from the target's memory into `origin`: there when it returns, on this host; by messages
 * (UCXX_WINDOW_PATH_MESSAGE) with the next flush, flush_local, unlock, complete or fence, which
 * also tells what the target found wrong. Until then `origin` is not to be touched, nor freed. The
 * rest as ucxx_window_put.
 */
ucxx_status_t ucxx_window_get(ucxx_window_t *window, void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout);

/**
 * Combines elements of the origin into those of the target by `op`, a UCXX_REDUCE_* but NO_OP;
 * REPLACE is an atomic put. Both have the same type and number of elements, those of the target
 * aligned as C aligns the type (else INVALID_PARAM).
 *
 * Atomic for each element (for more with accumulate_granularity) to all accumulates (this,
 * get_accumulate, fetch_and_op, compare_and_swap) of the same type from wherever, also with other
 * operations; not to put, get, loads and stores. Those of one thread at one target are done in
 * order. Integers wrap around. MIN and MAX of a NaN and a number are the number; MINLOC and MAXLOC
 * take the lower index of equal values.
 *
 * Errors, with nothing done: RMA_OP where the operation does not exist for the type; UNSUPPORTED
 * where this architecture cannot calculate with it (long double); RMA_TYPE where the types differ;
 * EXCEEDS_LIMIT for more than 2 GiB that accumulate_granularity makes one message
 * (ucxx_window_path), in a window that has less; RMA_POISONED where a process has died in the
 * midst of one under the lock of the target (elements over 8 bytes, memory that is not mapped);
 * else as ucxx_window_put.
 */
ucxx_status_t ucxx_window_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op);

/**
 * The same, and what was there before goes to `result`, where it is as soon as for
 * ucxx_window_get. NO_OP reads atomically; `origin` and its layout are not looked at then. The
 * rest as ucxx_window_accumulate.
 */
ucxx_status_t ucxx_window_get_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, void *result, const ucxx_layout_t *result_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op);

/**
 * One element of `type`: ucxx_window_get_accumulate without layouts, and faster. `origin` may be
 * NULL for NO_OP.
 */
ucxx_status_t ucxx_window_fetch_and_op(ucxx_window_t *window, const void *origin, void *result, int32_t element_type, uint32_t target, int64_t disp, int32_t op);

/**
 * One element: `origin` is put there if `compare` is there, byte for byte; what was there goes to
 * `result`, in either case. Types: integers, bytes, UCXX_TYPE_BOOL (else RMA_TYPE). The rest as
 * ucxx_window_accumulate.
 */
ucxx_status_t ucxx_window_compare_and_swap(ucxx_window_t *window, const void *origin, const void *compare, void *result, int32_t element_type, uint32_t target, int64_t disp);

/**
 * As ucxx_window_put, with a request: legal in passive epochs alone. It completes when `origin`
 * may be used again, which on this host is inside the call. It may be waited for after the epoch,
 * or the window, has ended. Host memory.
 *
 * Of what is long, or strided, the call waits until most has left. A request that is cancelled, or
 * out of time, ends at once if it waits for an answer, whose data is dropped (what it asks for is
 * done nevertheless); one that UCX still reads from ends with that. The other errors of a request:
 * PEER_FAILED; CANCELED when the window is destroyed in the epoch.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rput(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_window_get, with a request, which completes with the result, and tells by itself what
 * the target found wrong. The rest as ucxx_window_rput.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rget(ucxx_window_t *window, void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_window_accumulate, with a request. The rest as ucxx_window_rput.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_raccumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_window_get_accumulate, with a request, which completes with the result. The rest as
 * ucxx_window_rget.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rget_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, void *result, const ucxx_layout_t *result_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_hub_params_init(ucxx_hub_params_t *value, size_t struct_size);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_hub_stats_init(ucxx_hub_stats_t *value, size_t struct_size);

/**
 * Makes a hub: a queue of chunks, each of which lies in one envelope or in several on different
 * devices. It has no envelopes at first. Nothing of it runs on a thread of its own: copies between
 * envelopes of the host, and on_ready callbacks, are done inside the call that made them possible,
 * whichever that is, outside all locks; but with CUDA memory a hub has a thread, which begins and
 * ends the copies of GPUs, and calls on_ready for what they make possible. The context is kept.
 *
 * Errors: INVALID_PARAM without an envelope_size, with a limit below it, with a worker of another
 * context.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_create(ucxx_context_t *context, const ucxx_hub_params_t *params, ucxx_hub_t **hub);

/**
 * Makes `count` more envelopes of this kind, at any time; their memory is one piece. Each begins
 * at a multiple of 64 bytes, of 4096 where it has as many. From 4 MiB on host memory is in large
 * pages where the system gives them. A GPU's is cuMemAlloc's, pinned memory cuMemHostAlloc's, in
 * the device's primary context; the context that is current stays so. Any thread.
 *
 * Errors: NO_DEVICE for a device that is not there, as all of CUDA's without its driver;
 * UNSUPPORTED for other types of memory than ucxx_memory_kind_t names; NO_MEMORY; EXCEEDS_LIMIT
 * for over 16 Mi envelopes or 32 kinds in a hub.
 */
ucxx_status_t ucxx_hub_add_envelopes(ucxx_hub_t *hub, ucxx_memory_kind_t kind, size_t count);

/**
 * Makes memory of the caller's an envelope: envelope_size bytes of this kind at `data`, used by
 * the hub alone until `deallocate(arg, data)` is called, once, when the hub has been destroyed and
 * its last lease has ended, on the thread that ends it. `deallocate` is optional. It is not called
 * for what is refused. Any thread. Errors: as ucxx_hub_add_envelopes; INVALID_PARAM for CUDA
 * memory that the driver knows to be elsewhere.
 */
ucxx_status_t ucxx_hub_add_buffer(ucxx_hub_t *hub, ucxx_memory_kind_t kind, void *data, void (*deallocate)(void *arg, void *data), void *arg);

/**
 * Sets the dataflow strategy: of the links that read only these are given chunks, and chunks are
 * copied ahead of time to where these read. A count of 0 takes it back: all are, then. Leases go
 * on. Without effect on which consumers a chunk waits for: with broadcast consumers it stays until
 * all have had it, whether they are served at the moment or not. When the last of these links is
 * destroyed nobody is served until the strategy is another one. Any thread.
 *
 * Errors: INVALID_PARAM for a link of another hub, or one that produces, and for more than 4096
 * links.
 */
ucxx_status_t ucxx_hub_set_flow(ucxx_hub_t *hub, ucxx_link_t *const *links, size_t count);

/**
 * Adds a link to the dataflow strategy. The first one makes it the only one that is served. The
 * rest as ucxx_hub_set_flow.
 */
ucxx_status_t ucxx_hub_add_flow(ucxx_hub_t *hub, ucxx_link_t *link);

/**
 * Looks whether each link that is served can be, with the envelopes that there are: STARVED, and
 * the message names the link, the device and how many envelopes are missing there; also where it
 * waits in vain for the oldest chunk, as younger ones have all envelopes on its device
 * (ucxx_link_lease), and where all links of the dataflow strategy have been destroyed. Any thread.
 */
ucxx_status_t ucxx_hub_validate(const ucxx_hub_t *hub);

/**
 * Leases an empty envelope without a link. It becomes a chunk at commit; a release aborts. Never
 * waits: NO_RESOURCE when none is free at the moment, or the queue is full; STARVED when the hub
 * has no envelopes of this kind. The rest as ucxx_link_lease of a link that produces. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_push(ucxx_hub_t *hub, ucxx_memory_kind_t kind, ucxx_envelope_t **envelope);

/**
 * Leases the top chunk for reading, without a link, whatever the dataflow strategy. It is copied
 * to where it is asked for if need be and there is a free envelope. Waits for all of that, up to
 * `timeout_ns`: NO_RESOURCE (for 0) or TIMED_OUT where it has not come to be. The rest as
 * ucxx_link_lease of a link that peeks. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_peek(ucxx_hub_t *hub, ucxx_memory_kind_t kind, uint64_t timeout_ns, ucxx_envelope_t **envelope);

/**
 * Takes the top chunk away, also from consumers that have not had it. NO_ELEM when there is none,
 * BUSY while anyone holds it. Any thread.
 */
ucxx_status_t ucxx_hub_pop(ucxx_hub_t *hub);

/**
 * Chunks in the queue, those included that consumers hold; 0 for NULL. Any thread.
 */
size_t ucxx_hub_length(const ucxx_hub_t *hub);

/**
 * The end of the stream: nothing is produced any more (CLOSED), but what is being produced may be
 * committed. Consumers get what is left, and what others give back, and then CLOSED; so do links
 * that peek and modify, when the queue is empty. Twice is once. Any thread.
 */
ucxx_status_t ucxx_hub_close(ucxx_hub_t *hub);

/**
 * Waits until the queue is empty and nothing is being produced; TIMED_OUT otherwise, also where
 * `timeout_ns` is 0. Envelopes that a connected link has leased for what may come do not count;
 * once the hub is closed the streams that begin here do, until the other side has heard of the
 * end. While it waits it progresses as ucxx_link_lease does. It keeps nobody from producing: see
 * ucxx_hub_close. BUSY from a callback, but for 0. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_drain(ucxx_hub_t *hub, uint64_t timeout_ns);

/**
 * What has happened so far, and what is where now. Any thread.
 */
ucxx_status_t ucxx_hub_query_stats(const ucxx_hub_t *hub, ucxx_hub_stats_t *stats);

/**
 * Ends the hub: its chunks are dropped, its links return CLOSED from then on, and who waits in
 * them gets that. Leases go on: their memory stays until each has ended, by ucxx_envelope_abort or
 * _release, or a commit, which returns CLOSED and leaves that to be done. When it returns, no
 * on_ready runs or will run, but for one that it was called from. NULL is ignored. No call with
 * the hub itself may be under way. So an on_ready that waits for the caller makes it wait without
 * end.
 */
void ucxx_hub_destroy(ucxx_hub_t *hub);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_link_params_init(ucxx_link_params_t *value, size_t struct_size);

/**
 * Sets every field to its default, and `struct_size` to the given size, which is the caller's
 * sizeof. NULL is ignored.
 */
void ucxx_envelope_attr_init(ucxx_envelope_attr_t *value, size_t struct_size);

/**
 * Makes a link of this UCXX_LINK_* type to envelopes of this kind, of which there may be none yet.
 * It keeps the hub's memory, and counts as one that is served unless there is a dataflow strategy.
 * on_ready may run before it returns, after `*link` was written. Any thread.
 *
 * Errors: NO_DEVICE for a device that is not there; EXCEEDS_LIMIT for over 32 kinds of memory or
 * 63 broadcast consumers in a hub.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_create(ucxx_hub_t *hub, int32_t link_type, ucxx_memory_kind_t kind, const ucxx_link_params_t *params, ucxx_link_t **link);

/**
 * Ends a link. Leases that it has given go on. Chunks that wait for this consumer alone are done
 * if another one has had them, and stay otherwise. When it returns, its on_ready does not run and
 * will not, but for one that it was called from. NULL is ignored. No other call on the link may be
 * under way. Any thread. So an on_ready that waits for the caller makes it wait without end.
 */
void ucxx_link_destroy(ucxx_link_t *link);

/**
 * Leases an envelope: through a link that produces an empty one; through one that consumes the
 * oldest chunk that it, or for links that compete any of them, has not had and nobody of them
 * holds; through one that peeks or modifies the top chunk, the oldest in the queue. A link may
 * have several leases at a time. Waits up to `timeout_ns` for it. Where the progress of the hub's
 * worker is manual it progresses meanwhile, and callbacks may run in it, if the thread may do so
 * at any time: any thread under UCXX_THREAD_MULTI, the worker's own under _SINGLE. Other threads,
 * and all under _SERIALIZED, only sleep: what is to come through the worker then needs somebody
 * else who progresses it.
 *
 * A chunk is not consumed while it is changed, nor changed while somebody consumes it, or reads
 * the same envelope. Links that modify share it when they are on the same device. What is read on
 * other devices while it is changed is what it was.
 *
 * Errors: NO_RESOURCE, for a timeout of 0, and TIMED_OUT: there is none yet; CLOSED: there will be
 * none; STARVED: the hub has no envelope on the link's device, and the message says how many are
 * missing, or nobody has anything and younger chunks, which are nowhere else, have all of them, so
 * that the oldest cannot come there; IO_ERROR, NO_MEMORY or NO_DEVICE: the chunk could not be
 * copied there, or the stream that was to write it has failed, and the message says which, and
 * what the driver says; BUSY from a callback, but for a timeout of 0. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_lease(ucxx_link_t *link, uint64_t timeout_ns, ucxx_envelope_t **envelope);

/**
 * Leases through all of the links at once, also of several hubs, or through none of them. Of
 * several workers each has its turn, for a millisecond. Up to 64 links (EXCEEDS_LIMIT;
 * INVALID_PARAM above 4096). The rest as ucxx_link_lease.
 *
 * STARVED also where all of them together can never be served with what the hub has, and the
 * message says why, and what to do: it has too few envelopes; or too small a max_queue_chunks for
 * what is produced and, until it is consumed, what is read; or too small a max_queue_bytes, where
 * no other link is there that might consume, or change, the chunks that the call waits for; or one
 * of them modifies the chunk that another one consumes, and it waits for no other consumer.
 * INVALID_PARAM where they exclude each other whatever the hub has: two that modify on different
 * devices, or one that peeks where another one modifies.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_lease_many(ucxx_link_t *const *links, size_t count, uint64_t timeout_ns, ucxx_envelope_t **envelopes);

/**
 * Ends a lease for good. What was produced is a new chunk of `length` bytes; what was consumed has
 * been, and when it has been by all who are to, its envelopes are free; what was modified has
 * `length` bytes now, and is no longer on other devices. For links that consume and peek `length`
 * is not looked at. `stream` is the CUstream whose work so far has to finish first, of a primary
 * context, or NULL; in a hub without CUDA memory only that (NO_DEVICE). The call does not wait for
 * it: envelopes on a GPU go on with it as their ready_event, others when it has done that work.
 * The handle is gone, unless the call fails: then the lease goes on.
 *
 * Errors: INVALID_PARAM for a length beyond the envelope; CLOSED when the hub has been destroyed.
 * Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_envelope_commit(ucxx_envelope_t *envelope, size_t length, void *stream);

/**
 * Ends a lease as if it had not been. What was produced is gone; what was consumed stays where it
 * was in the queue, and so comes first; what was modified is what it was before where the chunk is
 * on another device, too, and else what has been written stays. `stream` and the rest as
 * ucxx_envelope_commit.
 */
ucxx_status_t ucxx_envelope_abort(ucxx_envelope_t *envelope, void *stream);

/**
 * Ends a lease: commits it where the link was made with autocommit, else aborts it. What is
 * produced then has the length of the envelope, or that which a swap has brought; what is modified
 * keeps its length. After the hub's end it aborts. The rest as ucxx_envelope_commit.
 */
ucxx_status_t ucxx_envelope_release(ucxx_envelope_t *envelope, void *stream);

/**
 * Exchanges memory, length and metadata of two envelopes on lease without a copy: of the same or
 * of two hubs, both of the same kind and envelope_size (INVALID_PARAM). Query them again
 * afterwards: what has come from an envelope that is being filled has its length, if none was said
 * that of the envelope. A consumer that aborts after a swap leaves the chunk with what the swap
 * has brought, unless it is on another device as well.
 *
 * Errors: INVALID_PARAM for an envelope of a link that peeks, or of a broadcast consumer, which
 * only read; BUSY for one that others look at, or that a link that competes has while broadcast
 * consumers are still to read the chunk there; UNSUPPORTED for buffers of the caller's. Any
 * thread; nobody else may use either at the time.
 */
ucxx_status_t ucxx_envelope_swap(ucxx_envelope_t *a, ucxx_envelope_t *b);

/**
 * Where an envelope on lease is, and what is in it. Any thread.
 */
ucxx_status_t ucxx_envelope_query(const ucxx_envelope_t *envelope, ucxx_envelope_attr_t *attr);

/**
 * Receives a message whose tag matches into an envelope of a link that produces, straight, and
 * commits it as a chunk of its length: before the callback runs, or the notifier reports, or
 * anyone who waits for the request is released. What ends otherwise, a message that is longer than
 * the envelope too, is aborted. Chunks come in the order in which their messages are complete, so
 * a short one may be before a long one that was sent earlier. For that it does not end inside the
 * call: INPROGRESS where ucxx_tag_recv may return OK. The envelope is leased before the call
 * returns: NO_RESOURCE when there is none. Needs a hub with a worker, on which it is received. In
 * all else as ucxx_tag_recv; memory_type is not looked at.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_recv(ucxx_link_t *produce_link, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends the oldest chunk of a link that consumes, straight from its envelope, and consumes it when
 * the buffer is free again: before the callback runs, or the notifier reports, or anyone who waits
 * for the request is released. A send that fails aborts: the chunk is offered again. NO_RESOURCE
 * when there is no chunk, CLOSED when there will be none. The endpoint is of the hub's worker.
 * Metadata does not go along. In all else as ucxx_tag_send; memory_type is not looked at.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_send(ucxx_link_t *consume_link, ucxx_endpoint_t *endpoint, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Connects a link that consumes with one that produces, at the other end of the endpoint, as one
 * stream: every chunk here becomes a chunk there, in its order, with its metadata. Both sides call
 * it, in any order, each with its endpoint to the other one's worker and the same `stream_id`; a
 * stream of that number in each direction may be under way between two workers. `window` is how
 * many chunks may be on their way at a time; the smaller one of both sides holds. Needs a hub with
 * a worker on each side; chunks move while both workers are progressed, and what the stream does,
 * callbacks of its hub included, is done in their passes. Returns at once; the end that is alone
 * waits, and leases nothing.
 *
 * The receiving side leases up to `window` envelopes before anything comes, and nothing is sent
 * without one: a hub that is full makes the sender wait (credit_stalls). A chunk is consumed at
 * its sender when it has become a chunk at the receiver. The envelopes may be of different sizes;
 * a chunk that is too long for those of the receiver ends the stream, of which only the log tells:
 * the links at both ends wait for another one. When the sending hub is closed and empty, the
 * receiving one is closed, so that its readers get CLOSED after the last chunk; one that several
 * streams feed, when all of them have ended so. A link that is destroyed is not waited for; one
 * whose stream was cut off is, until it is connected anew. ucxx_hub_drain of a closed hub waits
 * until that has been told: then the endpoint may be closed.
 *
 * As long as a link is connected leases through it return BUSY, and its on_ready is not called.
 * That ends with the endpoint, with the stream, and with ucxx_link_destroy. With the endpoint,
 * chunks that have not been acknowledged are offered again to the consumers of the sending hub,
 * oldest first, before on_close runs; the receiving hub has a beginning of what was sent, and
 * perhaps the first of those. Connect anew, on another endpoint, to go on. A link that is
 * destroyed, or whose hub is, or a receiving hub that is closed, leaves the stream in peace:
 * nothing is lost or doubled, and the link at the other end waits for another one to be connected
 * there.
 *
 * Errors: INVALID_PARAM for a link that peeks or modifies, a hub without a worker, an endpoint of
 * another worker, window 0; EXCEEDS_LIMIT for one above 65536; BUSY for a link that is connected;
 * ALREADY_EXISTS for a stream of this number and direction to this peer, which one whose link has
 * been destroyed remains until the other side has heard of it (progress, and try again);
 * UNSUPPORTED without UCXX_FEATURE_AM; CLOSED and the others of an endpoint that has ended.
 * Threads as ucxx_am_send.
 */
ucxx_status_t ucxx_link_connect(ucxx_link_t *link, ucxx_endpoint_t *endpoint, uint64_t stream_id, uint32_t window);

/**
 * The link's descriptor for the caller's own event loop: readable when a lease can be had, or none
 * ever will, after ucxx_link_arm. It stays the library's. UNSUPPORTED where the context was made
 * without UCXX_FEATURE_WAKEUP. Any thread.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_event_fd(ucxx_link_t *link, int32_t *fd);

/**
 * Has the link's descriptor become readable, once, when a lease can be had. BUSY: one can be had
 * now, so lease first, and do not sleep. CLOSED: none ever will be. It is written to only when it
 * is armed. Any thread, one at a time for a link.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_arm(ucxx_link_t *link);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UCXX_RS_H */
