/*
 * ucxx_rs.h: communication over UCX for C and C++.
 *
 * This file is generated from the library's sources. Do not edit it.
 *
 * CONTENTS, in the order in which a program meets the groups
 *
 *   Set up           ucxx_context_create, ucxx_worker_create
 *   Connect          by host and port: ucxx_listener_create, ucxx_endpoint_accept,
 *                      ucxx_endpoint_connect
 *                    by address: ucxx_worker_address, ucxx_address_from_bytes,
 *                      ucxx_endpoint_create
 *   Tag messages     ucxx_tag_send, ucxx_tag_recv, ucxx_tag_probe
 *   Active messages  ucxx_worker_set_am_handler, ucxx_am_send, ucxx_am_message_recv
 *                    in queues: ucxx_am_queue_send, ucxx_am_queue_recv
 *   Fetch and reply  ucxx_worker_set_fetch_handler, ucxx_am_fetch, ucxx_fetch_reply
 *   Streams          ucxx_stream_send, ucxx_stream_recv
 *   Many buffers     ucxx_tag_send_multi, ucxx_tag_recv_multi, ucxx_am_send_multi
 *   Progress         ucxx_worker_progress, ucxx_worker_wait, ucxx_worker_start_progress_thread
 *   Completion       UCXX_FLAG_WAIT, ucxx_request_wait, ucxx_request_callback_t,
 *                      ucxx_notifier_poll
 *   Event loops      ucxx_worker_event_fd, ucxx_worker_arm, ucxx_notifier_event_fd
 *   Flow control     UCXX_FLAG_NO_WAIT, ucxx_endpoint_on_writable, ucxx_endpoint_query_load
 *   Shut down        ucxx_endpoint_flush, ucxx_endpoint_close, ucxx_endpoint_destroy,
 *                      ucxx_worker_destroy
 *   Errors           enum ucxx_status, ucxx_error_text, ucxx_request_error_message
 *   Diagnosis        ucxx_log_set_callback, ucxx_worker_dump, ucxx_worker_query_stats,
 *                      ucxx_context_dump, ucxx_version_query
 *   UCP itself       ucxx_context_native, ucxx_worker_native, ucxx_endpoint_native
 *   Remote memory    ucxx_memory_register, ucxx_rkey_unpack, ucxx_rma_put, ucxx_rma_get,
 *                      ucxx_rma_atomic
 *   Groups           ucxx_group_create, ucxx_group_endpoint, ucxx_group_barrier
 *   Windows          ucxx_window_create, ucxx_window_lock, ucxx_window_put, ucxx_window_flush
 *   Hubs             ucxx_hub_create, ucxx_link_create, ucxx_link_lease, ucxx_envelope_commit
 *
 * RULES FOR EVERY FUNCTION
 *
 * Handles
 *  - Handles are opaque. A function sets an out-pointer only on success.
 *  - Every *_destroy accepts NULL.
 *  - A child keeps the memory of its parent alive. So no order of destroys corrupts memory.
 *  - If the parent was shut down, a call on its child returns UCXX_ERR_CLOSED.
 *  - Destroy endpoints before their worker: it cancels what they have in flight.
 *
 * Errors
 *  - A function that can fail returns ucxx_status_t: 0 done, 1 in progress, negative an error.
 *    `enum ucxx_status` has the meaning of each value, and what to do.
 *  - ucxx_error_text(status) is the text for a program to print. It explains the negative status
 *    that this thread's last call returned. This includes answers such as TIMED_OUT, BUSY and
 *    NO_MESSAGE. It also includes the status of an operation or endpoint that the thread
 *    queried or waited for.
 *  - Every function may return these. The lists under "Returns" do not repeat them:
 *     - UCXX_ERR_INVALID_PARAM: an argument is invalid. The message names it. Nothing was
 *       submitted, and no callback will run. Also: the wrong thread, under UCXX_THREAD_SINGLE.
 *     - UCXX_ERR_CLOSED: the parent was shut down.
 *     - UCXX_ERR_BUSY: calls overlap that must not (see `enum ucxx_thread_mode`), or the call is in
 *       a log callback.
 *     - UCXX_ERR_FORKED: the handle was created before fork().
 *     - UCXX_ERR_PANIC: a bug of this library.
 *  - A pointer may be NULL if its length or count is 0, or if it is called optional.
 *    ucxx_address_from_bytes is an exception: no bytes are not an address.
 *
 * Parameter structs
 *  - They start with `struct_size`. All other fields zero means: all defaults.
 *  - Initialise them with UCXX_<NAME>_INIT, or with ucxx_<name>_init(&value, sizeof value).
 *  - NULL for the struct means: all defaults.
 *  - A struct that is larger than this library knows is accepted, if the unknown part is zero.
 *
 * Operations
 *  - An operation is a function with (params, request) as its last arguments.
 *  - It never blocks without UCXX_FLAG_WAIT. Calls of windows that use messages are an exception:
 *    see ucxx_window_rput.
 *  - The call returns one of these:
 *     - UCXX_OK: it completed inside the call. *request is NULL, and no callback runs.
 *     - UCXX_INPROGRESS: it completes later. *request is set, and the caller has to destroy it. If
 *       `request` is NULL, the library frees the request itself.
 *     - An error: nothing was submitted. With UCXX_FLAG_WAIT it is the final status.
 *  - Every operation may return these, or complete with them:
 *     - UCXX_ERR_CANCELED: cancelled by ucxx_request_cancel, by a close with FORCE, or by the end
 *       of the worker.
 *     - UCXX_ERR_TIMED_OUT: its `timeout_ns` expired.
 *     - UCXX_ERR_UNSUPPORTED: the context has no such feature, the loaded UCX does not support
 *       `memory_type` here, or UCXX_FLAG_DELAYED has no progress thread.
 *     - UCXX_ERR_NO_RESOURCE: the submission queue is full (see `submission_queue_depth`). Sends:
 *       the send queue is full, or UCXX_FLAG_NO_WAIT is set and the send would have to wait. See
 *       ucxx_endpoint_on_writable.
 *     - UCXX_ERR_BUSY: UCXX_FLAG_WAIT is set, and the call is in a callback.
 *     - UCXX_ERR_CLOSED: the notifier was stopped, or the endpoint is closed.
 *     - Any error of ucxx_endpoint_status: the endpoint has ended.
 *     - Another status of UCX, such as UCXX_ERR_NO_MEMORY. The message has the reason.
 *  - Messages that one thread sends on one endpoint match in the order of their submission.
 *
 * Time
 *  - Times are in nanoseconds.
 *  - As an argument, `timeout_ns` 0 checks once without waiting. UINT64_MAX waits without a limit.
 *  - In a parameter struct, 0 means no limit, or the default of the field.
 *  - When the time expires:
 *     - ucxx_request_wait, _wait_all and _wait_any return UCXX_INPROGRESS. It is positive: nothing
 *       failed, and the operation continues.
 *     - An operation's own `timeout_ns` ends it with UCXX_ERR_TIMED_OUT, also with UCXX_FLAG_WAIT.
 *     - Leases of hubs with 0 return UCXX_ERR_NO_RESOURCE.
 *     - Every other wait returns UCXX_ERR_TIMED_OUT.
 *  - Under manual progress, every call that waits makes progress. Exceptions: ucxx_notifier_wait,
 *    ucxx_group_create, and, in part, waits for a hub (see ucxx_link_lease).
 *
 * Buffers
 *  - The caller keeps until the operation completes: payload buffers and `recv_info`.
 *  - The caller keeps until the last buffer of an allocator is freed: the allocator's `arg`.
 *  - The call copies: strings, lists of buffers, headers of messages and fetches, and `params`.
 *  - ucxx_request_destroy does not return a buffer. The buffer is in use until the operation has
 *    completed, or ucxx_worker_destroy has returned.
 *  - To get the buffer back early: ucxx_request_cancel, then ucxx_request_wait without a limit,
 *    then ucxx_request_destroy.
 *
 * Callbacks
 *  - A callback runs exactly once, with no lock held, on the thread that makes progress. That is
 *    the progress thread, or the thread inside a call that makes progress.
 *  - Order: status and `recv_info` are stored, the callback runs, then waiting threads are
 *    released.
 *  - With a progress thread, the callback may run before the submitting call returns. *request is
 *    set before.
 *  - A callback may call every function. Calls that wait return UCXX_ERR_BUSY. If it destroys its
 *    own worker or endpoint, that takes effect at the end of the pass.
 *  - A callback "on another thread" gets UCXX_ERR_BUSY from some more functions. This means: the
 *    worker that it calls has a progress thread that takes operations by its queue (see
 *    `delayed_submission`), and the callback does not run on that thread. A callback of another
 *    worker is an example. The functions are:
 *     - ucxx_endpoint_create, _connect, _accept and _query
 *     - ucxx_group_endpoint, if it creates one
 *     - ucxx_listener_create, ucxx_tag_probe, ucxx_rkey_unpack, ucxx_link_connect
 *     - ucxx_worker_set_*_handler, ucxx_worker_set_*_notifier, ucxx_worker_dump
 *     - ucxx_worker_cancel_all and ucxx_endpoint_cancel_all, if they return a count
 *     - calls of windows that create a request
 *  - `arg` has to live as long as the callback may run:
 *     - of an operation: until it has run, also if the request was destroyed before
 *     - of an endpoint: until on_close, its last callback, has run. ucxx_endpoint_destroy waits for
 *       it.
 *     - of a listener: until ucxx_listener_destroy has returned. If that was called in a callback:
 *       until the end of the pass.
 *     - of a handler: until its destroy_arg runs
 *     - of thread_start: as long as the worker
 *  - No callback runs after ucxx_worker_destroy has returned.
 *  - A callback has to return. If an exception leaves it, or it calls pthread_exit, the process
 *    ends at once: by std::terminate in the throw, or by SIGABRT with the callback on the stack.
 *    The log gets a line before. longjmp out of a callback is not allowed, and is not detected.
 *
 * Without callbacks
 *  - A notifier (ucxx_notifier_create) can replace the callbacks of operations, on_connect,
 *    on_close, and the handlers of active messages and fetches.
 *  - It reports each event once. The polling caller owns what the event contains.
 *  - On a thread that makes progress: call ucxx_notifier_poll until it returns nothing, then
 *    ucxx_worker_wait, in a loop.
 *  - With a progress thread: call ucxx_notifier_wait, then ucxx_notifier_poll.
 *
 * Threads
 *  - "Threads: any" in this reference depends on the worker's mode: see `enum ucxx_thread_mode`.
 *  - Avoid this deadlock: a thread waits for a callback that waits for the same thread. Examples:
 *    the thread holds an interpreter's lock that the callback needs, or it runs the event loop
 *    that the callback calls.
 *  - These calls wait for running callbacks:
 *     - the destroys of workers, endpoints, listeners, groups, windows, hubs and links
 *     - ucxx_worker_stop_progress_thread, ucxx_worker_run_pre and _run_post
 *     - with a progress thread that takes operations by its queue: the list under "Callbacks"
 *  - Release the lock for these calls, or use a call that does not wait:
 *     - ucxx_worker_destroy_nb
 *     - ucxx_endpoint_close, with the destroy in `on_close` or after it
 *     - any destroy in a callback
 *     - a notifier in place of callbacks (ucxx_notifier_poll): no call waits for it
 *  - pthread_cancel: calls that wait, create or end something are not cancellation points. The
 *    thread is cancelled at the first one after them. To end a wait without a timeout, call
 *    ucxx_worker_signal, ucxx_notifier_stop or ucxx_hub_close.
 *  - Calls that post an operation, or make one pass, are not protected, for speed. A thread that
 *    may be cancelled disables cancellation around them (pthread_setcancelstate). Otherwise a
 *    cancellation during a system call of UCX ends the process.
 *  - The library's threads block the signals that the kernel may deliver to any thread, such as
 *    SIGINT, SIGTERM, SIGCHLD and SIGUSR1. They accept those with which garbage collectors stop a
 *    thread (real-time signals, SIGPWR, SIGXCPU, SIGURG), and those of faults.
 *
 * UCP's handles
 *  - The functions ucxx_*_native return UCP's own handles (ucp_worker_h and so on), for calls of
 *    UCP that this library does not have. They need UCX's headers, and a libucp that is the one in
 *    the process: see `ucx_copies` in ucxx_version_t. They return NULL where there is no handle.
 *  - UCP takes no lock for a worker of this library. A call of UCP on it, on its endpoints or keys
 *    must not overlap with any other call on that worker. So it is allowed here:
 *     - with a progress thread that takes operations by its queue (see `delayed_submission`): on
 *       that thread, in a function of ucxx_worker_run_pre or _run_post, or in a callback
 *     - UCXX_THREAD_SINGLE: on the worker's thread
 *     - otherwise (SERIALIZED, MULTI, `delayed_submission` -1): only while the program keeps every
 *       other thread out of calls on the worker and on what belongs to it. With a progress thread:
 *       in the functions and callbacks named above.
 *  - It is not allowed in a log callback, nor after ucxx_worker_destroy was called.
 *  - Do not call what progresses the worker, such as ucp_worker_progress, ucp_worker_fence and
 *    ucp_worker_flush. The library makes progress, and UCP's callbacks run there. They must not
 *    call this library: it is inside its own progress pass then.
 *  - Do not send to the worker itself by UCP. This may complete an operation of the library at a
 *    moment at which it does not expect that.
 *  - Do not destroy, close or unmap what the library has created. Do not set handlers of active
 *    messages (ucp_worker_set_am_recv_handler) or of errors. Do not arm the worker.
 *  - UCP's operations are the program's own: let UCP allocate their requests, free these by
 *    ucp_request_free, and complete all of them before the endpoint and the worker are destroyed.
 *    The end of the worker does not wait for them, and counts none of them.
 *  - The context has the features that it was created with, and UCP_FEATURE_AM.
 *
 * Signals
 *  - If a signal handler runs on a thread that sleeps in ucxx_worker_wait or ucxx_notifier_wait,
 *    that call returns UCXX_OK. This does not depend on the handler's flags (SA_RESTART).
 *  - A handler that runs just before the sleep does not end it. If that matters, call
 *    ucxx_worker_signal in the handler. It is the only function that a handler may call.
 *  - Every other wait continues until its condition holds or its time expires, UCXX_FLAG_WAIT and
 *    ucxx_request_wait included.
 *  - Interpreters such as Python run their handlers after the C call has returned, too late for
 *    ucxx_worker_signal. Check ucxx_request_status and call ucxx_worker_wait with a limit, in a
 *    loop. Or sleep in the interpreter's own poll, on ucxx_worker_event_fd and on the socket given
 *    to signal.set_wakeup_fd. ucxx_worker_event_fd itself cannot be that socket.
 *  - The library installs no signal handler. It removes those that loading UCX installs.
 *
 * Process
 *  - In a forked child, calls return UCXX_ERR_FORKED, and destroys do nothing. The child may create
 *    a new context, but that hangs if another thread mapped memory during the fork (UCX's lock). If
 *    the parent has threads, fork before the first context, or call exec.
 *  - The library changes no environment variable. It writes nothing to stdout, and to stderr only
 *    if the environment asks for it (UCXX_RS_LOG, and the program has no log callback).
 *
 * C++
 *  - A handle fits std::unique_ptr, with a deleter that calls its *_destroy.
 *  - A lambda without captures can be a callback. Mark it noexcept, and pass the object as `arg`.
 *  - Members are destroyed in reverse order. Declare the context first, then buffers, recv_info and
 *    the objects that callbacks use, then the worker, then its endpoints and requests.
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
/* Makes compilers warn about an ignored status. Define it before this header to change that. */
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
 * Major version of this header.
 */
#define UCXX_RS_VERSION_MAJOR 0

/**
 * Minor version of this header. While the major version is 0, each minor version has its own ABI
 * and its own SONAME.
 */
#define UCXX_RS_VERSION_MINOR 1

/**
 * Patch level of this header.
 */
#define UCXX_RS_VERSION_PATCH 0

/**
 * Values of `ucxx_status_t`: 0 done, 1 in progress, negative an error.
 *
 * - -1 to -99: the numbers of UCS, with their meaning. UCX may return one that is not listed here.
 * - -201 to -999: this library's own numbers. They are never renumbered.
 * - -1000 and below: reserved for the application.
 *
 * The text of ucxx_error_text names the argument, the peer or the limit. Here each value has its
 * general meaning, and what to do.
 */
enum ucxx_status {
  /**
   * Done.
   */
  UCXX_OK = 0,
  /**
   * The operation is in progress. This is not an error. Wait for the completion.
   *
   * ucxx_request_wait, _wait_all and _wait_any also return it when their timeout expires.
   */
  UCXX_INPROGRESS = 1,
  /**
   * No matching message has arrived. Probe again later, or post a receive.
   */
  UCXX_ERR_NO_MESSAGE = -1,
  /**
   * There is no room now: a queue, a window or the credit is used up. Nothing was submitted.
   * Retry from ucxx_endpoint_on_writable (sends), or after some completions (submission queue).
   *
   * Also: the system cannot create a thread or descriptor. Raise the limit that the message
   * names.
   */
  UCXX_ERR_NO_RESOURCE = -2,
  /**
   * Input or output failed, or the peer violated this library's protocol. Read the message and
   * the log. Close the endpoint if it has ended.
   */
  UCXX_ERR_IO_ERROR = -3,
  /**
   * There is not enough memory, on the host or on the device. Free some, or ask for less.
   */
  UCXX_ERR_NO_MEMORY = -4,
  /**
   * An argument is invalid. The message names it. Nothing was submitted. Correct the call.
   */
  UCXX_ERR_INVALID_PARAM = -5,
  /**
   * No peer listens there, the name is unknown, or no transport connects the two. Check the
   * address and UCX_TLS, and start the peer. Then connect again.
   */
  UCXX_ERR_UNREACHABLE = -6,
  /**
   * The address is damaged, or another program made it. Transfer the bytes again, unchanged.
   */
  UCXX_ERR_INVALID_ADDR = -7,
  /**
   * The UCX transport does not implement the call. Choose another transport (UCX_TLS).
   */
  UCXX_ERR_NOT_IMPLEMENTED = -8,
  /**
   * The message, or the reply, is longer than the buffer. The length is in `recv_info`. The
   * message is consumed: provide a larger buffer next time.
   */
  UCXX_ERR_MESSAGE_TRUNCATED = -9,
  /**
   * The output buffer is too small. ucxx_memory_pack writes the needed length. In all other
   * cases the message has it. Call again with that much room.
   */
  UCXX_ERR_BUFFER_TOO_SMALL = -11,
  /**
   * There is no such element: no request in the list, no progress thread, no buffers, no handler
   * for the id, or no memory for the key any more. Correct the order of the calls.
   */
  UCXX_ERR_NO_ELEM = -12,
  /**
   * The device or its driver does not exist. Check the device number and the driver.
   */
  UCXX_ERR_NO_DEVICE = -14,
  /**
   * The call is not possible now: it would wait in a callback, it overlaps another call, or the
   * port is in use. Return from the callback, or retry later.
   *
   * ucxx_worker_arm and ucxx_notifier_arm: there is something to do first. Progress, or poll,
   * and arm again.
   */
  UCXX_ERR_BUSY = -15,
  /**
   * The operation was cancelled: by ucxx_request_cancel, by a close with FORCE, or by the end of
   * its worker. The buffer is the caller's again. The peer may have received the message all the
   * same.
   */
  UCXX_ERR_CANCELED = -16,
  /**
   * It exists already: a progress thread, an armed callback, or a reply. Nothing has changed.
   */
  UCXX_ERR_ALREADY_EXISTS = -18,
  /**
   * The index or offset is outside the object. Correct the call.
   */
  UCXX_ERR_OUT_OF_RANGE = -19,
  /**
   * The time of a wait, an operation, or an endpoint expired. Retry, or give the peer up.
   *
   * ucxx_request_wait does not return it when its own time expires: it returns UCXX_INPROGRESS.
   */
  UCXX_ERR_TIMED_OUT = -20,
  /**
   * Something is larger than a limit of yours or of the library. Raise the limit that the
   * message names, or send less.
   */
  UCXX_ERR_EXCEEDS_LIMIT = -21,
  /**
   * The context has no such feature, or the loaded UCX, the memory type or the peer does not
   * support the call. Read the message. Request the feature in ucxx_context_params_t, or use
   * another call.
   */
  UCXX_ERR_UNSUPPORTED = -22,
  /**
   * The peer refused the connection, the fetch, or the secret of the group. Retrying helps only
   * if the peer changes its mind.
   */
  UCXX_ERR_REJECTED = -23,
  /**
   * The endpoint is not connected. Wait for its on_open, or create a new endpoint.
   */
  UCXX_ERR_NOT_CONNECTED = -24,
  /**
   * The peer closed its endpoint. For the side that closes second, this is the normal end of a
   * connection. Destroy the endpoint.
   */
  UCXX_ERR_CONNECTION_RESET = -25,
  /**
   * UCX received no answer from the peer in time. Operations and endpoints report
   * UCXX_ERR_PEER_FAILED instead. Handle it in the same way.
   */
  UCXX_ERR_ENDPOINT_TIMEOUT = -80,
  /**
   * The window's present epoch does not allow the call. Begin or end an epoch first: see
   * ucxx_window_sync_type.
   */
  UCXX_ERR_RMA_SYNC = -201,
  /**
   * The target range is outside the window. Correct the offset, count or layout.
   */
  UCXX_ERR_RMA_RANGE = -202,
  /**
   * The target range is not attached, or the range to attach overlaps an attached one. Call
   * ucxx_window_attach or ucxx_window_detach first.
   */
  UCXX_ERR_RMA_ATTACH = -203,
  /**
   * This flavour of window does not offer the call. See `enum ucxx_window_flavor`.
   */
  UCXX_ERR_RMA_FLAVOR = -204,
  /**
   * The operation does not work on this element type. Choose another one: see `enum
   * ucxx_reduce`.
   */
  UCXX_ERR_RMA_OP = -205,
  /**
   * A peer died while it held an exclusive lock, so the contents of the target are unknown.
   * Destroy the window, and create a new one among the members that live.
   */
  UCXX_ERR_RMA_POISONED = -206,
  /**
   * The group has no such rank. Correct the call.
   */
  UCXX_ERR_RMA_RANK = -207,
  /**
   * There is no such element type. Use a UCXX_TYPE_* value.
   */
  UCXX_ERR_RMA_TYPE = -208,
  /**
   * There is no such lock type. Use a UCXX_LOCK_* value.
   */
  UCXX_ERR_RMA_LOCK_TYPE = -209,
  /**
   * The peer's process ended, or the peer is no longer reachable. Other endpoints are not
   * affected. Destroy this endpoint, and connect again if the peer restarts.
   */
  UCXX_ERR_PEER_FAILED = -210,
  /**
   * The call does not accept this UCXX_ASSERT_* value. Correct the call.
   */
  UCXX_ERR_RMA_ASSERT = -211,
  /**
   * The object, or its parent, was closed, stopped or destroyed. Stop using it. For a hub this
   * is the end of the stream.
   */
  UCXX_ERR_CLOSED = -220,
  /**
   * The hub link can never succeed: it has too few envelopes. The message has the number that is
   * missing. Add envelopes on the link's device.
   */
  UCXX_ERR_STARVED = -221,
  /**
   * The handle was created before fork(), and this is the child. Create a new context in the
   * child.
   */
  UCXX_ERR_FORKED = -230,
  /**
   * The library caught a bug of its own. Please report it, with the message.
   */
  UCXX_ERR_PANIC = -299,
  /**
   * This number and all numbers below it belong to the application. The library never originates
   * them. It passes on those that a callback or ucxx_fetch_reject gives.
   */
  UCXX_ERR_APPLICATION = -1000,
};

/**
 * What a notifier reports: the `kind` of `ucxx_completion_t`, and the type of its `handle`.
 */
enum ucxx_event {
  /**
   * An operation completed. `handle` is NULL.
   */
  UCXX_EVENT_COMPLETION = 0,
  /**
   * A client requests a connection from a listener. `handle` is a `ucxx_conn_request_t *`:
   * accept or reject it, and destroy it.
   */
  UCXX_EVENT_CONN_REQUEST = 1,
  /**
   * An endpoint has ended, as reported to `on_close`. `user_data` names the endpoint, and
   * `status` has the reason. `handle` is NULL.
   */
  UCXX_EVENT_ENDPOINT_CLOSED = 2,
  /**
   * An active message arrived. `handle` is a `ucxx_am_message_t *`, with the same rules as in a
   * handler.
   */
  UCXX_EVENT_AM_MESSAGE = 3,
  /**
   * A fetch arrived: a peer expects a reply. `handle` is a `ucxx_fetch_t *`, with the same rules
   * as in a handler.
   */
  UCXX_EVENT_FETCH = 4,
};

/**
 * How much is logged. Each level includes those above it in this list.
 */
enum ucxx_log_level {
  /**
   * Nothing.
   */
  UCXX_LOG_OFF = 0,
  /**
   * Errors.
   */
  UCXX_LOG_ERROR = 1,
  /**
   * Warnings.
   */
  UCXX_LOG_WARN = 2,
  /**
   * Events of interest, such as a failed attempt to connect.
   */
  UCXX_LOG_INFO = 3,
  /**
   * Details for debugging.
   */
  UCXX_LOG_DEBUG = 4,
  /**
   * All details.
   */
  UCXX_LOG_TRACE = 5,
};

/**
 * What a context is used for: bits of ucxx_context_params_t.features.
 *
 * RMA and ATOMIC open memory of this process to its peers. Request them only if you need them.
 */
enum ucxx_feature {
  /**
   * Tag messages.
   */
  UCXX_FEATURE_TAG = 1,
  /**
   * Streams.
   */
  UCXX_FEATURE_STREAM = 2,
  /**
   * Active messages, fetches, groups, and hubs between processes.
   */
  UCXX_FEATURE_AM = 4,
  /**
   * Put and get. Peers can read and write *any* memory of this process, because UCX checks
   * nothing over TCP.
   */
  UCXX_FEATURE_RMA = 8,
  /**
   * Atomic operations. Peers can perform them on memory for which ucxx_memory_pack made a key.
   */
  UCXX_FEATURE_ATOMIC = 16,
  /**
   * Descriptors, and waits that sleep. Progress threads need it.
   */
  UCXX_FEATURE_WAKEUP = 32,
};

/**
 * Which networks a context uses.
 */
enum ucxx_network {
  /**
   * All that UCX finds.
   */
  UCXX_NETWORK_ALL = 0,
  /**
   * Loopback and shared memory only. UCX opens no listening socket on another interface.
   * Listeners and ucxx_endpoint_connect work between processes of this host, on 127.0.0.1.
   */
  UCXX_NETWORK_LOCAL = 1,
};

/**
 * Which threads may call a worker while its progress is manual.
 *
 * With a progress thread, any thread may call at any time, whatever the mode. This stays so after
 * the thread was stopped. SINGLE does not allow a progress thread. Calls that overlap under SINGLE
 * or SERIALIZED return UCXX_ERR_BUSY where the library notices it.
 *
 * "Threads: any" at a function of a worker means any thread that this mode allows. Under SINGLE
 * that is the worker's own thread. Exceptions:
 *
 * - Any thread may destroy requests, in every mode.
 * - Any thread may destroy messages and fetches. Under SERIALIZED this counts as a call on the
 *   worker.
 */
enum ucxx_thread_mode {
  /**
   * Any thread, several at a time. The library locks.
   */
  UCXX_THREAD_MULTI = 0,
  /**
   * Any thread, one at a time. The program ensures this.
   */
  UCXX_THREAD_SERIALIZED = 1,
  /**
   * Only the thread that created the worker. Other threads get UCXX_ERR_INVALID_PARAM.
   */
  UCXX_THREAD_SINGLE = 2,
};

/**
 * What makes progress on a worker.
 */
enum ucxx_progress_mode {
  /**
   * The application: it calls ucxx_worker_progress, or a function that waits.
   */
  UCXX_PROGRESS_MANUAL = 0,
  /**
   * A thread that polls, and sleeps after `spin_ns` without work. A later event, such as a reply
   * after a longer round trip, has to wake the thread first.
   */
  UCXX_PROGRESS_THREAD_ADAPTIVE = 1,
  /**
   * A thread that polls all the time. It needs no wake-up, and occupies a CPU.
   */
  UCXX_PROGRESS_THREAD_POLLING = 2,
  /**
   * A thread that sleeps whenever it has nothing to do. It uses the least CPU time, and each
   * event costs a wake-up.
   */
  UCXX_PROGRESS_THREAD_BLOCKING = 3,
};

/**
 * Where a buffer is located. These are not UCX's numbers.
 */
enum ucxx_memory_type {
  /**
   * UCX detects the type from the pointer. Buffers of this type are announced to peers as HOST.
   */
  UCXX_MEMORY_AUTO = 0,
  /**
   * Ordinary host memory.
   */
  UCXX_MEMORY_HOST = 1,
  /**
   * Memory of a CUDA device.
   */
  UCXX_MEMORY_CUDA = 2,
  /**
   * CUDA managed memory.
   */
  UCXX_MEMORY_CUDA_MANAGED = 3,
  /**
   * Memory of a ROCm device.
   */
  UCXX_MEMORY_ROCM = 4,
  /**
   * Host memory that is pinned for CUDA.
   */
  UCXX_MEMORY_CUDA_PINNED = 16,
  /**
   * Host memory that plays the part of a device, for tests without a GPU.
   */
  UCXX_MEMORY_DUMMY = 127,
};

/**
 * Flags of `ucxx_op_params_t`.
 */
enum ucxx_flag {
  /**
   * Never complete inside the call. The call returns UCXX_INPROGRESS or an error. The callback
   * runs, or the notifier reports, in every case. If the operation has neither, it always has a
   * request.
   */
  UCXX_FLAG_ALWAYS_CALLBACK = 1,
  /**
   * Sends, fetches and replies: return UCXX_ERR_NO_RESOURCE instead of waiting. Reasons to wait
   * are the send window, the credit, the peer's first answer, and a full submission queue. Sends
   * that other threads have handed to a progress thread count too.
   */
  UCXX_FLAG_NO_WAIT = 2,
  /**
   * ucxx_am_send*, ucxx_am_queue_send*, ucxx_fetch_reply*: the data travels with the message,
   * whatever its length. The data is copied. It occupies memory at the receiver, and credit
   * here, until the receiver destroys the message. Excludes RNDV.
   */
  UCXX_FLAG_EAGER = 4,
  /**
   * The same functions: the data waits at the sender until the receiver pulls it directly into
   * its buffer. This holds for short data too.
   */
  UCXX_FLAG_RNDV = 8,
  /**
   * Submit through the queue of the progress thread, also where the call could submit directly.
   * Without a progress thread: UCXX_ERR_UNSUPPORTED.
   */
  UCXX_FLAG_DELAYED = 16,
  /**
   * Stream receive: complete with the bytes that have arrived.
   */
  UCXX_FLAG_STREAM_PARTIAL = 32,
  /**
   * Blocking form: the call returns the final status of the operation, never UCXX_INPROGRESS. It
   * creates no request. When it returns, the buffer is the caller's again, whatever the status.
   *
   * - Under manual progress the call makes progress.
   * - It waits without a limit, or for `timeout_ns`. Then it cancels the operation and returns
   *   UCXX_ERR_TIMED_OUT.
   * - UCX may already own the operation, so that it cannot be cancelled. The call then waits
   *   until UCX completes it: see UCXX_FLAG_TIMEOUT_CLOSES.
   * - Signal handlers and ucxx_worker_signal do not end the wait.
   * - In a callback the call returns UCXX_ERR_BUSY.
   */
  UCXX_FLAG_WAIT = 64,
  /**
   * Active message: give the receiver an endpoint to reply on. See ucxx_am_message_reply.
   */
  UCXX_FLAG_AM_REPLY = 128,
  /**
   * When `timeout_ns` expires, close the endpoint by force if the operation cannot end
   * otherwise.
   */
  UCXX_FLAG_TIMEOUT_CLOSES = 256,
};

/**
 * Whether an endpoint notices that its peer has died.
 */
enum ucxx_error_handling {
  /**
   * The default. The endpoint detects the death of its peer, and still uses shared memory.
   */
  UCXX_ENDPOINT_ERROR_HANDLING_PEER = 0,
  /**
   * No detection. A close by force is not possible: see ucxx_endpoint_params_t.
   */
  UCXX_ENDPOINT_ERROR_HANDLING_NONE = 1,
};

/**
 * How ucxx_endpoint_close closes.
 */
enum ucxx_close {
  /**
   * Complete what was submitted before.
   */
  UCXX_CLOSE_FLUSH = 0,
  /**
   * Cancel the operations in flight.
   */
  UCXX_CLOSE_FORCE = 1,
};

/**
 * The type of memory that receives a message of ucxx_am_queue_send_to.
 *
 * - A receiver with this library makes host memory for host memory, and CUDA memory for CUDA
 *   memory, whatever the policy is. It makes host memory for all other types.
 * - A receiver with UCXX 0.52 has the types of memory of its allocators.
 */
enum ucxx_am_memory {
  /**
   * The receiver may use host memory in place of a type that it does not make.
   */
  UCXX_AM_MEMORY_ANY = 0,
  /**
   * The receiver refuses a message whose data waits here if it does not make this type. The send
   * completes with UCXX_ERR_UNSUPPORTED. With UCXX, the receive does, too.
   */
  UCXX_AM_MEMORY_EXACT = 1,
};

/**
 * Operations of ucxx_rma_atomic on a number in registered memory.
 */
enum ucxx_atomic_op {
  /**
   * Add, with wrap-around.
   */
  UCXX_ATOMIC_ADD = 0,
  /**
   * Bitwise AND.
   */
  UCXX_ATOMIC_AND = 1,
  /**
   * Bitwise OR.
   */
  UCXX_ATOMIC_OR = 2,
  /**
   * Bitwise XOR.
   */
  UCXX_ATOMIC_XOR = 3,
  /**
   * Store `operand`.
   */
  UCXX_ATOMIC_SWAP = 4,
  /**
   * Store `operand` if the number equals `compare`.
   */
  UCXX_ATOMIC_CSWAP = 5,
};

/**
 * How the members of a group find each other. See ucxx_group_create.
 */
enum ucxx_bootstrap {
  /**
   * By the caller's `allgather`, for example over MPI or a file system.
   */
  UCXX_BOOTSTRAP_CALLBACKS = 0,
  /**
   * Over TCP: rank 0 listens at `root`.
   */
  UCXX_BOOTSTRAP_TCP = 1,
  /**
   * By the PMIx server of the launcher.
   */
  UCXX_BOOTSTRAP_PMIX = 2,
  /**
   * Over TCP, with rank and size from the environment of the launcher: torchrun, mpirun, mpiexec
   * or srun.
   */
  UCXX_BOOTSTRAP_ENV = 3,
};

/**
 * Kinds of windows.
 */
enum ucxx_window_flavor {
  /**
   * Memory of the caller: ucxx_window_create.
   */
  UCXX_WINDOW_FLAVOR_CREATE = 0,
  /**
   * Memory of the library: ucxx_window_allocate.
   */
  UCXX_WINDOW_FLAVOR_ALLOCATE = 1,
  /**
   * Memory of the library that all members map: ucxx_window_allocate_shared.
   */
  UCXX_WINDOW_FLAVOR_SHARED = 2,
  /**
   * Memory that members attach and detach: ucxx_window_create_dynamic.
   */
  UCXX_WINDOW_FLAVOR_DYNAMIC = 3,
};

/**
 * Kinds of window locks.
 */
enum ucxx_lock_type {
  /**
   * Several members hold it at a time.
   */
  UCXX_LOCK_SHARED = 1,
  /**
   * One member holds it.
   */
  UCXX_LOCK_EXCLUSIVE = 2,
};

/**
 * Assertions: promises of the caller at a call that synchronises a window. The meaning is that of
 * MPI's MPI_MODE_* constants. A call returns UCXX_ERR_RMA_ASSERT for one that it does not accept.
 */
enum ucxx_assert {
  /**
   * lock, lock_all: no other member holds or requests a conflicting lock. start: all targets
   * have posted already. post: the matching start gives NOCHECK too.
   */
  UCXX_ASSERT_NOCHECK = 1,
  /**
   * post, fence: the local window was not written by local stores since the last
   * synchronisation.
   */
  UCXX_ASSERT_NOSTORE = 2,
  /**
   * post, fence: no put or accumulate will update the local window in the epoch that begins.
   */
  UCXX_ASSERT_NOPUT = 4,
  /**
   * fence: this fence completes no operations that this member issued.
   */
  UCXX_ASSERT_NOPRECEDE = 8,
  /**
   * fence: this fence begins no epoch.
   */
  UCXX_ASSERT_NOSUCCEED = 16,
};

/**
 * The kind of epoch a window is in: result of ucxx_window_sync_type.
 */
enum ucxx_sync_type {
  /**
   * No epoch.
   */
  UCXX_SYNC_NONE = 0,
  /**
   * After ucxx_window_lock.
   */
  UCXX_SYNC_LOCK = 1,
  /**
   * After ucxx_window_lock with NOCHECK.
   */
  UCXX_SYNC_LOCK_NO_CHECK = 2,
  /**
   * After ucxx_window_lock_all.
   */
  UCXX_SYNC_LOCK_ALL = 3,
  /**
   * After ucxx_window_lock_all with NOCHECK.
   */
  UCXX_SYNC_LOCK_ALL_NO_CHECK = 4,
  /**
   * After ucxx_window_start or ucxx_window_post (post, start, complete, wait).
   */
  UCXX_SYNC_PSCW = 5,
  /**
   * After ucxx_window_fence, before the first access.
   */
  UCXX_SYNC_FENCE = 6,
  /**
   * After ucxx_window_fence, with accesses.
   */
  UCXX_SYNC_FENCE_EPOCH = 7,
};

/**
 * Element types of windows: one C type each. The types with a name in _INT are pairs of a value
 * and an index. docs/windows.md names the corresponding MPI types.
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
   * `long double`, 16 bytes. Sums, products and comparisons work on x86-64 only. Elsewhere such
   * accumulates return UCXX_ERR_UNSUPPORTED.
   */
  UCXX_TYPE_LONG_DOUBLE = 19,
  UCXX_TYPE_COMPLEX_LONG_DOUBLE = 20,
  UCXX_TYPE_LONG_DOUBLE_INT = 21,
};

/**
 * Operations of accumulates.
 */
enum ucxx_reduce {
  /**
   * Sum.
   */
  UCXX_REDUCE_SUM = 0,
  /**
   * Product.
   */
  UCXX_REDUCE_PROD = 1,
  /**
   * Minimum.
   */
  UCXX_REDUCE_MIN = 2,
  /**
   * Maximum.
   */
  UCXX_REDUCE_MAX = 3,
  /**
   * Logical AND.
   */
  UCXX_REDUCE_LAND = 4,
  /**
   * Logical OR.
   */
  UCXX_REDUCE_LOR = 5,
  /**
   * Logical XOR.
   */
  UCXX_REDUCE_LXOR = 6,
  /**
   * Bitwise AND.
   */
  UCXX_REDUCE_BAND = 7,
  /**
   * Bitwise OR.
   */
  UCXX_REDUCE_BOR = 8,
  /**
   * Bitwise XOR.
   */
  UCXX_REDUCE_BXOR = 9,
  /**
   * Replace.
   */
  UCXX_REDUCE_REPLACE = 10,
  /**
   * Change nothing. With a fetch: an atomic read.
   */
  UCXX_REDUCE_NO_OP = 11,
  /**
   * Minimum, with its index. For pair types.
   */
  UCXX_REDUCE_MINLOC = 12,
  /**
   * Maximum, with its index. For pair types.
   */
  UCXX_REDUCE_MAXLOC = 13,
};

/**
 * The order among accumulates of one process at one target.
 */
enum ucxx_accumulate_order {
  /**
   * MPI's default: read after read, read after write, write after read, write after write.
   */
  UCXX_ORDER_ALL = 0,
  /**
   * No order is required.
   */
  UCXX_ORDER_NONE = 1,
};

/**
 * How a window reaches a target: result of ucxx_window_path.
 */
enum ucxx_path {
  /**
   * The target is the calling process.
   */
  UCXX_WINDOW_PATH_SELF = 0,
  /**
   * The target is on this host, and its memory is accessed directly.
   */
  UCXX_WINDOW_PATH_LOCAL = 1,
  /**
   * By messages, which a thread of the group executes at the target.
   */
  UCXX_WINDOW_PATH_MESSAGE = 2,
  /**
   * Reserved. This release does not return it.
   */
  UCXX_WINDOW_PATH_RMA = 3,
};

/**
 * Kinds of links of a hub. See ucxx_link_lease.
 */
enum ucxx_link_type {
  /**
   * Leases empty envelopes, and commits them as chunks.
   */
  UCXX_LINK_PRODUCE = 1,
  /**
   * Leases chunks, and takes them out of the queue.
   */
  UCXX_LINK_CONSUME = 2,
  /**
   * Leases the oldest chunk to read it.
   */
  UCXX_LINK_PEEK = 3,
  /**
   * Leases the oldest chunk to change it.
   */
  UCXX_LINK_MODIFY = 4,
};

/**
 * Whether a hub keeps the source envelope of a transfer between devices. See ucxx_hub_params_t.
 */
enum ucxx_hub_retain {
  /**
   * Until the hub needs the envelope for another chunk, and no link that is served has to read
   * the chunk there.
   */
  UCXX_HUB_RETAIN_AUTO = 0,
  /**
   * Until the chunk is consumed.
   */
  UCXX_HUB_RETAIN_ALWAYS = 1,
  /**
   * Only while a link that is served has to read the chunk there.
   */
  UCXX_HUB_RETAIN_UNTIL_COPIED = 2,
};

/**
 * The address of a worker. Peers need it to connect. Any thread may read it.
 */
struct ucxx_address;

/**
 * An active message that arrived. Its handler, or the thread that polled it, owns it.
 */
struct ucxx_am_message;

/**
 * Buffers that were made for received data.
 */
struct ucxx_buffers;

/**
 * A connection request of a client. Accept or reject it.
 */
struct ucxx_conn_request;

/**
 * An initialised UCX, shared by its workers. Any thread may use it.
 */
struct ucxx_context;

/**
 * A connection from a worker to one peer.
 */
struct ucxx_endpoint;

/**
 * A leased envelope of a hub. Any thread may use it, one at a time.
 */
struct ucxx_envelope;

/**
 * A fetch that arrived: a peer expects a reply. Its handler, or the thread that polled it, owns
 * it.
 */
struct ucxx_fetch;

/**
 * A set of processes that know each other by rank. Any thread may use it.
 */
struct ucxx_group;

/**
 * A queue of chunks, with the envelopes that contain them. Any thread may use it.
 */
struct ucxx_hub;

/**
 * A producer, consumer or reader of a hub. Any thread may use it, several at a time.
 */
struct ucxx_link;

/**
 * A listening address and port of a worker.
 */
struct ucxx_listener;

/**
 * Registered memory. Peers with a key can read and write it. Any thread may use it.
 */
struct ucxx_memory;

/**
 * A completion queue for operations of all workers of one context. Any thread may use it.
 */
struct ucxx_notifier;

/**
 * An operation that is in progress, or that has completed and was not destroyed.
 */
struct ucxx_request;

/**
 * A key to registered memory of a peer, for one endpoint.
 */
struct ucxx_rkey;

/**
 * A message that a probe removed from matching.
 */
struct ucxx_tag_message;

/**
 * Memory that each member of a group offers to the others. Any thread may make data calls.
 */
struct ucxx_window;

/**
 * A UCP worker: makes progress, and runs the operations of its endpoints.
 */
struct ucxx_worker;

/**
 * 0 done, 1 in progress, negative an error: a value of `enum ucxx_status`, or another number of
 * UCS.
 */
typedef int32_t ucxx_status_t;

/**
 * Result of `ucxx_version_query`. The strings are static.
 */
struct ucxx_version {
  /**
   * Set by UCXX_VERSION_INIT.
   */
  size_t struct_size;
  /**
   * Major version of the library.
   */
  uint32_t major;
  /**
   * Minor version of the library.
   */
  uint32_t minor;
  /**
   * Patch level of the library.
   */
  uint32_t patch;
  /**
   * Major version of the loaded UCX. It may differ from the UCX that the program was built with.
   */
  uint32_t ucx_major;
  /**
   * Minor version of the loaded UCX.
   */
  uint32_t ucx_minor;
  /**
   * Patch level of the loaded UCX.
   */
  uint32_t ucx_patch;
  /**
   * Version of the library, such as "0.1.0".
   */
  const char *version_string;
  /**
   * Path of the loaded libucp. Empty if the loader does not provide it.
   */
  const char *ucx_library_path;
  /**
   * Number of copies of libucp that this process has mapped. More than one causes trouble.
   */
  uint32_t ucx_copies;
};

/**
 * Result of `ucxx_version_query`. The strings are static.
 */
typedef struct ucxx_version ucxx_version_t;

/**
 * Receives one line of the log.
 *
 * - `component` is the part of the library, such as "endpoint" or "am"; "ucx" for lines of UCX.
 * - `message` begins with what it is about, in brackets: the worker, the endpoint, and the peer.
 *   It is one line, without control characters.
 * - `component` and `message` are valid during the call.
 * - It must not call this library, and must not throw.
 *
 * Threads: any thread, UCX's own included, several at once, and also in the middle of another
 * call.
 */
typedef void (*ucxx_log_callback_t)(void *arg, int32_t level, const char *component, const char *message);

/**
 * One UCX configuration variable.
 */
struct ucxx_config_entry {
  /**
   * Name without "UCX_". Variables of a transport keep their prefix (POSIX_, CMA_, TCP_),
   * whatever the loaded UCX calls them.
   */
  const char *key;
  /**
   * Value, written as in the environment.
   */
  const char *value;
};

/**
 * One UCX configuration variable.
 */
typedef struct ucxx_config_entry ucxx_config_entry_t;

/**
 * Parameters of `ucxx_context_create`.
 */
struct ucxx_context_params {
  /**
   * Set by UCXX_CONTEXT_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_FEATURE_*. 0 means TAG, STREAM, AM and WAKEUP. RMA and ATOMIC open memory to peers, so
   * they have to be requested. Descriptors and sleeping need WAKEUP.
   */
  uint64_t features;
  /**
   * Variables that override the environment and the library's own defaults. A variable that UCX
   * cannot apply is an error of ucxx_context_create or ucxx_worker_create. Numbers have a
   * decimal point, whatever the locale. May be NULL if `config_count` is 0.
   */
  const ucxx_config_entry_t *config;
  /**
   * Number of entries in `config`.
   */
  size_t config_count;
  /**
   * UCXX_NETWORK_*.
   */
  int32_t network;
  /**
   * A name that UCX shows in its own output. Optional.
   */
  const char *name;
};

/**
 * Parameters of `ucxx_context_create`.
 */
typedef struct ucxx_context_params ucxx_context_params_t;

/**
 * An initialised UCX, shared by its workers. Any thread may use it.
 */
typedef struct ucxx_context ucxx_context_t;

/**
 * Receives one variable. Both strings are valid during the call.
 */
typedef void (*ucxx_config_visitor_t)(void *arg, const char *key, const char *value);

/**
 * Parameters of `ucxx_worker_create`.
 */
struct ucxx_worker_params {
  /**
   * Set by UCXX_WORKER_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_THREAD_*: which threads may call while progress is manual. The thread of SINGLE is the
   * one that creates the worker.
   */
  int32_t thread_mode;
  /**
   * UCXX_PROGRESS_*. A progress thread needs UCXX_FEATURE_WAKEUP, and a thread mode other than
   * SINGLE.
   */
  int32_t progress_mode;
  /**
   * How other threads submit operations while there is a progress thread:
   *
   * - 1: through a queue to the progress thread.
   * - -1: they take a lock and call UCX themselves.
   * - 0: as UCXX_RS_DELAYED_SUBMISSION (0 or 1) in the environment. If it is not set: 1.
   */
  int32_t delayed_submission;
  /**
   * Capacity of that queue in operations, at most 1,048,576. 0 means 4096. When the queue is
   * full, operations return UCXX_ERR_NO_RESOURCE. Flush, close and cancel never do.
   */
  uint32_t submission_queue_depth;
  /**
   * Polling time in nanoseconds. 0 means the default, 50 microseconds. An adaptive progress
   * thread, or a call that waits under manual progress, polls for this long without work before
   * it sleeps. An event after that, such as the end of a longer round trip, also costs a
   * wake-up.
   */
  uint64_t spin_ns;
  /**
   * -1, 0 or 1: whether a thread that waits may progress in place of the progress thread. It has
   * no effect in this release.
   */
  int32_t wait_takeover;
  /**
   * CPU of the progress thread, plus 1. 0 means no pinning. A CPU that cannot be used is
   * UCXX_ERR_INVALID_PARAM.
   */
  int32_t cpu;
  /**
   * Runs first on each progress thread that is started. It counts as a callback. Optional.
   */
  void (*thread_start)(void *arg);
  /**
   * Passed to `thread_start`. It must live as long as the worker.
   */
  void *thread_start_arg;
  /**
   * Name of the progress thread, of which the system keeps 15 bytes, and of the worker in dumps.
   * Optional.
   */
  const char *name;
  /**
   * 1: the worker keeps UCX's descriptions of requests for ucxx_request_describe, to examine a
   * program. Each operation then takes longer: by about 0.1 microseconds if it completes inside
   * its call, and by 0.5 to 2 microseconds if it does not. 0, the default: it keeps none.
   */
  uint8_t describe_requests;
  /**
   * Zero.
   */
  uint8_t reserved[7];
};

/**
 * Parameters of `ucxx_worker_create`.
 */
typedef struct ucxx_worker_params ucxx_worker_params_t;

/**
 * A UCP worker: makes progress, and runs the operations of its endpoints.
 */
typedef struct ucxx_worker ucxx_worker_t;

/**
 * Result of `ucxx_worker_query`.
 */
struct ucxx_worker_attr {
  /**
   * Set by UCXX_WORKER_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_THREAD_*, as given at creation.
   */
  int32_t thread_mode;
  /**
   * UCXX_PROGRESS_*, at present.
   */
  int32_t progress_mode;
  /**
   * 1 if other threads submit operations through the queue of the progress thread.
   */
  uint8_t delayed_submission;
  /**
   * 1 if there is a progress thread.
   */
  uint8_t progress_thread_running;
  /**
   * Longest header of an active message, in bytes. 0 without UCXX_FEATURE_AM.
   */
  size_t max_am_header;
  /**
   * Kernel thread id (gettid) of the progress thread. 0 without one.
   */
  uint64_t progress_thread_id;
  /**
   * `name` of ucxx_worker_params_t, cut after 63 bytes, in UTF-8. "" without one.
   */
  char name[64];
};

/**
 * Result of `ucxx_worker_query`.
 */
typedef struct ucxx_worker_attr ucxx_worker_attr_t;

/**
 * Result of `ucxx_worker_query_stats`: counters since the creation of the worker. `in_flight` and
 * `endpoints` are present numbers.
 */
struct ucxx_worker_stats {
  /**
   * Set by UCXX_WORKER_STATS_INIT.
   */
  size_t struct_size;
  /**
   * Operations that were submitted.
   */
  uint64_t submitted;
  /**
   * Operations that completed with UCXX_OK.
   */
  uint64_t completed;
  /**
   * Operations that completed with an error other than UCXX_ERR_CANCELED.
   */
  uint64_t failed;
  /**
   * Operations that completed with UCXX_ERR_CANCELED.
   */
  uint64_t canceled;
  /**
   * Operations in flight now.
   */
  uint64_t in_flight;
  /**
   * Bytes in operations that send.
   */
  uint64_t bytes_sent;
  /**
   * Bytes in operations that receive.
   */
  uint64_t bytes_received;
  /**
   * Operations that passed through the submission queue.
   */
  uint64_t delayed;
  /**
   * Greatest length of the submission queue.
   */
  uint64_t queue_high_water;
  /**
   * Operations that were refused because the submission queue was full.
   */
  uint64_t queue_full;
  /**
   * Progress passes.
   */
  uint64_t progress_calls;
  /**
   * Ends of sleeps inside the library.
   */
  uint64_t wakeups;
  /**
   * Sleeps inside the library.
   */
  uint64_t sleeps;
  /**
   * Endpoints that exist now.
   */
  uint64_t endpoints;
  /**
   * Endpoints that failed.
   */
  uint64_t endpoint_failures;
  /**
   * Active messages that arrived with their data and found no handler.
   */
  uint64_t am_unhandled;
};

/**
 * Result of `ucxx_worker_query_stats`.
 */
typedef struct ucxx_worker_stats ucxx_worker_stats_t;

/**
 * An operation that is in progress, or that has completed and was not destroyed.
 */
typedef struct ucxx_request ucxx_request_t;

/**
 * Runs once when an operation completes after its call returned UCXX_INPROGRESS.
 *
 * - `request` is valid during the call, also if the caller kept none. It is NULL if the caller
 *   destroyed it before.
 * - `status` is UCXX_OK or an error.
 * - It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
 *
 * Threads: the thread that makes progress. No lock is held.
 * See also: "Callbacks" at the top of this file.
 */
typedef void (*ucxx_request_callback_t)(void *arg, ucxx_request_t *request, ucxx_status_t status);

/**
 * A completion queue for operations of all workers of one context. Any thread may use it.
 */
typedef struct ucxx_notifier ucxx_notifier_t;

/**
 * Registered memory. Peers with a key can read and write it. Any thread may use it.
 */
typedef struct ucxx_memory ucxx_memory_t;

/**
 * Information on a received message.
 */
struct ucxx_recv_info {
  /**
   * Bytes of the message, also when it did not fit.
   */
  uint64_t length;
  /**
   * The tag with which the message was sent.
   */
  uint64_t sender_tag;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * Information on a received message.
 */
typedef struct ucxx_recv_info ucxx_recv_info_t;

/**
 * A connection from a worker to one peer.
 */
typedef struct ucxx_endpoint ucxx_endpoint_t;

/**
 * Parameters that all operations have in common. NULL means all defaults.
 *
 * Every operation uses `flags`, `timeout_ns`, and `callback` or `notifier`. Every operation checks
 * the other fields, and some use them:
 *
 * - `memory_type`, `memory`: operations on one buffer. In a list, each entry has its own memory
 *   type.
 * - `recv_info`: receives and fetches. Other operations may write to it, so leave it NULL.
 * - `source`: tag receives.
 */
struct ucxx_op_params {
  /**
   * Set by UCXX_OP_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_FLAG_*. A flag that the operation does not have is UCXX_ERR_INVALID_PARAM. WAIT
   * excludes a callback, a notifier and ALWAYS_CALLBACK. EAGER excludes RNDV. DELAYED needs a
   * progress thread: UCXX_ERR_UNSUPPORTED without one.
   */
  uint64_t flags;
  /**
   * UCXX_MEMORY_* of the caller's buffer. HOST saves the detection.
   */
  int32_t memory_type;
  /**
   * Zero.
   */
  uint32_t reserved;
  /**
   * Time limit of the operation in nanoseconds. 0 means none. When it expires, the operation is
   * cancelled as by ucxx_request_cancel, and its status is UCXX_ERR_TIMED_OUT. This also holds
   * with UCXX_FLAG_WAIT.
   *
   * An operation that UCX already owns, such as a large send that no peer receives, continues
   * beyond the limit. With UCXX_FLAG_TIMEOUT_CLOSES the endpoint is then closed by force.
   */
  uint64_t timeout_ns;
  /**
   * Runs when the operation completes. It does not run if the operation completes inside the
   * call, unless UCXX_FLAG_ALWAYS_CALLBACK is set. Optional.
   */
  ucxx_request_callback_t callback;
  /**
   * Passed to the callback, or returned as `user_data` by the notifier. It must live until then.
   */
  void *callback_arg;
  /**
   * Reports the completion, in place of a callback and under the same condition. It must be of
   * the same context, and not stopped. Optional.
   */
  ucxx_notifier_t *notifier;
  /**
   * Registered memory of the same context that covers the buffer. This is a hint: UCX finds
   * registered memory by itself. Optional.
   */
  ucxx_memory_t *memory;
  /**
   * Filled when a receive or a fetch completes, also inside the call. A stream receive fills it
   * also when it fails. The caller keeps it valid until the completion. Optional.
   */
  ucxx_recv_info_t *recv_info;
  /**
   * Tag receives: the receive also ends when this endpoint fails or closes. If the endpoint has
   * ended before, the receive ends at once, even if its message has arrived. Matching does not
   * change. Optional.
   */
  ucxx_endpoint_t *source;
};

/**
 * Parameters that all operations have in common. NULL means all defaults.
 */
typedef struct ucxx_op_params ucxx_op_params_t;

/**
 * One completion or event, as ucxx_notifier_poll returns it.
 */
struct ucxx_completion {
  /**
   * Operations: `callback_arg` of the parameters. Events: the argument that was registered with
   * the notifier.
   */
  void *user_data;
  /**
   * The request, valid until the caller destroys it. NULL if the caller did not ask for one, or
   * has destroyed it already.
   */
  ucxx_request_t *request;
  /**
   * Bytes of the message, or of the fetch's data. For a receive this is the full length, also
   * when the message did not fit. 0 for operations without data.
   */
  uint64_t length;
  /**
   * The tag with which the message was sent.
   */
  uint64_t sender_tag;
  /**
   * UCXX_OK or an error, never UCXX_INPROGRESS.
   */
  ucxx_status_t status;
  /**
   * UCXX_EVENT_*. If only operations name the notifier, it is always UCXX_EVENT_COMPLETION (0).
   */
  int32_t kind;
  /**
   * The object that arrived: see UCXX_EVENT_*. The polling caller owns it and destroys it. NULL
   * if there is none.
   */
  void *handle;
  /**
   * Zero.
   */
  uint32_t reserved[4];
};

/**
 * One completion or event, as ucxx_notifier_poll returns it.
 */
typedef struct ucxx_completion ucxx_completion_t;

/**
 * The address of a worker. Peers need it to connect. Any thread may read it.
 */
typedef struct ucxx_address ucxx_address_t;

/**
 * Runs once for the event it is registered for.
 *
 * It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
 *
 * Threads: the thread that makes progress. No lock is held.
 */
typedef void (*ucxx_endpoint_callback_t)(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status);

/**
 * Parameters of an endpoint. All zero means all defaults.
 */
struct ucxx_endpoint_params {
  /**
   * Set by UCXX_ENDPOINT_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_ENDPOINT_ERROR_HANDLING_*. Both sides need the same value.
   *
   * - PEER, the default: detects the death of the peer, and still uses shared memory.
   * - NONE: detects nothing, and cannot be closed by force. Operations that do not end by
   *   themselves stay with UCX until the worker is destroyed.
   *
   * Endpoints of a worker to itself are always NONE.
   */
  int32_t error_handling;
  /**
   * Send window in operations. While UCX has this many uncompleted sends of the endpoint,
   * further sends wait in the send queue. 0 means 256.
   */
  uint32_t send_window_ops;
  /**
   * Send window in bytes. Sends wait while this many bytes are in flight. The send that reaches
   * the limit is still submitted, so a send never waits while nothing is in flight. 0 means
   * 256 MiB.
   */
  uint64_t send_window_bytes;
  /**
   * Capacity of the send queue in sends. Sends wait there for the send window, or for the peer's
   * first answer. When it is full, sends return UCXX_ERR_NO_RESOURCE. Sends that other threads
   * have handed to a progress thread count. 0 means 16384.
   *
   * When several threads submit at the same moment, each of them but the first may exceed these
   * limits by one send.
   */
  uint32_t send_queue_ops;
  /**
   * Capacity of the send queue in bytes. 0 means no limit.
   */
  uint64_t send_queue_bytes;
  /**
   * Time in nanoseconds for the peer's first answer. When it expires, the endpoint ends with
   * UCXX_ERR_TIMED_OUT. 0 means no limit. If a host has several addresses, each one gets an
   * equal share of the time that is left.
   */
  uint64_t connect_timeout_ns;
  /**
   * Time in nanoseconds that the peer may be silent. The endpoint then ends with
   * UCXX_ERR_TIMED_OUT. 0 means no limit. Use it for stopped processes and broken links. The end
   * of a process is detected without it.
   *
   * - The time counts only while the endpoint has something in flight. That is a send, a flush,
   *   or a receive that names the endpoint in `source`.
   * - The endpoint ends after at most one and a half times this value. While the connection is
   *   still being made, it may take five seconds longer.
   * - Peers answer when they make progress. Choose a longer time than they may spend without
   *   progress.
   * - Time in which this side makes no progress counts by half at most.
   * - It works only with workers of this library.
   * - A peer that was only stopped may continue to read the buffer of a large send after the
   *   send has ended here.
   */
  uint64_t liveness_ns;
  /**
   * ucxx_endpoint_connect: the numeric address to connect from, such as "192.0.2.1" or
   * "192.0.2.1:4711". NULL means the system's choice. Elsewhere it must be NULL:
   * ucxx_endpoint_create returns UCXX_ERR_UNSUPPORTED, and ucxx_endpoint_accept
   * UCXX_ERR_INVALID_PARAM.
   */
  const char *local_address;
  /**
   * Runs once, when the peer has answered. It does not run if the endpoint ends before.
   * Operations need not wait for it. Optional.
   */
  ucxx_endpoint_callback_t on_open;
  /**
   * Passed to `on_open`.
   */
  void *on_open_arg;
  /**
   * Runs once, when the endpoint has ended. Optional. Its status:
   *
   * - UCXX_OK: closed by this side.
   * - UCXX_ERR_CONNECTION_RESET: the peer closed its end. This is not a failure: see
   *   ucxx_endpoint_close.
   * - UCXX_ERR_PEER_FAILED: the peer died.
   * - UCXX_ERR_TIMED_OUT: a time limit expired.
   * - UCXX_ERR_REJECTED, UCXX_ERR_UNREACHABLE: ucxx_endpoint_connect made no connection.
   * - UCXX_ERR_CANCELED: the request of the close was cancelled.
   * - UCXX_ERR_IO_ERROR: the peer violated this library's protocol.
   * - UCXX_ERR_UNSUPPORTED: the peer uses another version of this library's protocol.
   */
  ucxx_endpoint_callback_t on_close;
  /**
   * Passed to `on_close`, or returned as `user_data` by the notifier.
   */
  void *on_close_arg;
  /**
   * Reports the end as UCXX_EVENT_ENDPOINT_CLOSED, with the same status. It replaces `on_close`,
   * which is then NULL. It must be of the worker's context. It may be destroyed before the
   * endpoint. Optional.
   */
  ucxx_notifier_t *notifier;
};

/**
 * Parameters of an endpoint. All zero means all defaults.
 */
typedef struct ucxx_endpoint_params ucxx_endpoint_params_t;

/**
 * A connection request of a client. Accept or reject it.
 */
typedef struct ucxx_conn_request ucxx_conn_request_t;

/**
 * Result of `ucxx_endpoint_query`.
 */
struct ucxx_endpoint_attr {
  /**
   * Set by UCXX_ENDPOINT_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * Local "ip:port" if the endpoint was connected by host and port. Otherwise "".
   */
  char local_address[64];
  /**
   * Remote "ip:port", under the same condition.
   */
  char remote_address[64];
  /**
   * Transports in use, such as "posix/memory,cma/memory" or "sysv/memory,cma/memory". It is ""
   * before the endpoint is connected.
   */
  char transports[256];
  /**
   * Number of the peer's worker, the same on every endpoint to it and in every process. 0 for a
   * peer that does not use this library.
   */
  uint64_t peer_id;
  /**
   * Operations that were sent so far.
   */
  uint64_t operations_sent;
  /**
   * Bytes in these operations.
   */
  uint64_t bytes_sent;
  /**
   * Sends and flushes in flight, including sends in the send queue.
   */
  uint64_t in_flight;
  /**
   * 1 if the peer is known to be on this host.
   */
  uint8_t same_host;
};

/**
 * Result of `ucxx_endpoint_query`.
 */
typedef struct ucxx_endpoint_attr ucxx_endpoint_attr_t;

/**
 * Result of `ucxx_endpoint_query_load`.
 *
 * Sends that other threads have handed to a progress thread count only after that thread has taken
 * them over.
 */
struct ucxx_endpoint_load {
  /**
   * Set by UCXX_ENDPOINT_LOAD_INIT.
   */
  size_t struct_size;
  /**
   * Uncompleted sends that UCX has: at most `send_window_ops`.
   */
  uint64_t window_operations;
  /**
   * Bytes in these sends.
   */
  uint64_t window_bytes;
  /**
   * Sends in the send queue.
   */
  uint64_t queued_operations;
  /**
   * Bytes in these sends.
   */
  uint64_t queued_bytes;
};

/**
 * Result of `ucxx_endpoint_query_load`.
 */
typedef struct ucxx_endpoint_load ucxx_endpoint_load_t;

/**
 * Runs for each connection request.
 *
 * - The receiver owns `conn_request`. It accepts or rejects the request, in the callback or later,
 *   on any thread. It destroys the request in every case.
 * - It may call every function. Those that wait return UCXX_ERR_BUSY. It must not throw.
 *
 * Threads: the thread that makes progress. No lock is held.
 * See also: ucxx_endpoint_accept, ucxx_conn_request_reject.
 */
typedef void (*ucxx_listener_callback_t)(void *arg, ucxx_conn_request_t *conn_request);

/**
 * Parameters of `ucxx_listener_create`.
 */
struct ucxx_listener_params {
  /**
   * Set by UCXX_LISTENER_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * Name or numeric address to listen on, IPv4 or IPv6. NULL means 127.0.0.1. Request every
   * interface explicitly with "0.0.0.0" or "::". If a name has several addresses, the first
   * usable one is taken.
   */
  const char *host;
  /**
   * Port. 0 means any free port: see ucxx_listener_port.
   */
  uint16_t port;
  /**
   * Runs for each connection request. It is required, unless there is a `notifier`.
   */
  ucxx_listener_callback_t on_connect;
  /**
   * Passed to `on_connect`, or returned as `user_data` by the notifier. It must live until
   * ucxx_listener_destroy, or ucxx_worker_destroy, has returned.
   */
  void *on_connect_arg;
  /**
   * Reports requests as UCXX_EVENT_CONN_REQUEST, in place of `on_connect`, which is then NULL.
   * While 512 requests have no answer, further ones are rejected. It must be of the worker's
   * context. It may be destroyed before the listener, which then rejects all requests.
   */
  ucxx_notifier_t *notifier;
};

/**
 * Parameters of `ucxx_listener_create`.
 */
typedef struct ucxx_listener_params ucxx_listener_params_t;

/**
 * A listening address and port of a worker.
 */
typedef struct ucxx_listener ucxx_listener_t;

/**
 * One of several buffers that form a message.
 */
struct ucxx_buffer {
  /**
   * Address. May be NULL if `length` is 0.
   */
  void *data;
  /**
   * Length in bytes.
   */
  uint64_t length;
  /**
   * UCXX_MEMORY_*. In this release all non-empty buffers of a message must have the same type,
   * or the call returns UCXX_ERR_UNSUPPORTED. ucxx_tag_send_multi has no such limit.
   * UCXX_MEMORY_AUTO and UCXX_MEMORY_HOST are two types.
   */
  int32_t memory_type;
  /**
   * Device of the buffer, for memory types with several devices.
   */
  int32_t device_id;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * One of several buffers that form a message.
 */
typedef struct ucxx_buffer ucxx_buffer_t;

/**
 * A message that a probe removed from matching.
 */
typedef struct ucxx_tag_message ucxx_tag_message_t;

/**
 * An active message that arrived. Its handler, or the thread that polled it, owns it.
 */
typedef struct ucxx_am_message ucxx_am_message_t;

/**
 * Called for each active message of its id.
 *
 * The handler owns `message`. It may:
 * - destroy the message;
 * - receive its data and then destroy it;
 * - keep it and do either later, on any thread.
 *
 * Threads: the thread that drives progress, after a progress pass, with no lock held.
 * Callbacks: the handler may call every function. Functions that wait return UCXX_ERR_BUSY. The
 * handler must not throw.
 * Ownership: the handler owns `message`; see ucxx_am_message_destroy.
 * See also: ucxx_worker_set_am_handler.
 */
typedef void (*ucxx_am_handler_t)(void *arg, ucxx_am_message_t *message);

/**
 * Frees the `arg` that a handler was registered with. Optional.
 *
 * It runs exactly once for each registration, also when the same `arg` is registered again:
 * - inside the call that replaces or removes the handler, or that destroys its worker;
 * - if the handler is running at that moment: after the handler has returned, on the handler's
 *   thread.
 *
 * See also: ucxx_worker_set_am_handler.
 */
typedef void (*ucxx_destroy_arg_t)(void *arg);

/**
 * Allocates a buffer of `length` bytes, never 0, and stores its address in `*data`.
 *
 * - `memory_type` is UCXX_MEMORY_*, and `device_id` the device.
 * - A negative status means that it cannot. The operation then fails with this status.
 * - It must not wait, and must not throw.
 *
 * Threads: the thread that makes progress. No lock is held.
 */
typedef ucxx_status_t (*ucxx_allocate_t)(void *arg, size_t length, int32_t memory_type, int32_t device_id, void **data);

/**
 * Frees a buffer of the matching `ucxx_allocate_t`.
 *
 * Threads: any.
 */
typedef void (*ucxx_deallocate_t)(void *arg, void *data, size_t length, int32_t memory_type, int32_t device_id);

/**
 * Source and limits of the buffers of an operation that learns their sizes from its peer.
 */
struct ucxx_allocator {
  /**
   * Set by UCXX_ALLOCATOR_INIT.
   */
  size_t struct_size;
  /**
   * Allocates a buffer. NULL means the library's own memory:
   *
   * - Host memory is from malloc. When buffers are destroyed, the worker keeps up to 64 MiB of
   *   it for later receives. Frames of up to 4,096 bytes of one message share one block.
   * - Frames that their sender announces as CUDA memory are from cuMemAlloc. The device is that
   *   of the CUDA context that is current on the thread that makes progress, or device 0 if
   *   there is none. The sender does not announce a device. The memory is in the device's
   *   primary context, which the library holds from then on.
   * - Such frames fail with UCXX_ERR_UNSUPPORTED if UCX cannot receive into CUDA memory (see
   *   ucxx_context_has_cuda), and with UCXX_ERR_NO_DEVICE without a driver.
   */
  ucxx_allocate_t allocate;
  /**
   * Frees a buffer. Required if `allocate` is set.
   */
  ucxx_deallocate_t deallocate;
  /**
   * Passed to both functions. The caller keeps it until the last of their buffers is freed.
   */
  void *arg;
  /**
   * Most buffers that a peer may announce. More are refused with UCXX_ERR_EXCEEDS_LIMIT. 0 means
   * 65536.
   */
  size_t max_frames;
  /**
   * Most bytes that a peer may announce, for all buffers together. More are refused with
   * UCXX_ERR_EXCEEDS_LIMIT. 0 means half of the physical memory.
   */
  size_t max_total_bytes;
};

/**
 * Source and limits of the buffers of an operation that learns their sizes from its peer.
 */
typedef struct ucxx_allocator ucxx_allocator_t;

/**
 * Buffers that were made for received data.
 */
typedef struct ucxx_buffers ucxx_buffers_t;

/**
 * Called for each multi-buffer message of its id, when all its buffers are filled.
 *
 * - `reply`: the endpoint to reply on if the sender set UCXX_FLAG_AM_REPLY, else NULL.
 * - `header`, `header_length`: the sender's header, in bytes.
 * - `buffers`: the received buffers; NULL if the message could not be received.
 * - `status`: UCXX_OK, or the reason why the message could not be received.
 *
 * `status` can be:
 * - UCXX_OK: the buffers are filled.
 * - UCXX_ERR_EXCEEDS_LIMIT: the message has more frames or bytes than the allocator's limits.
 * - the status that the allocator returned.
 * - the status of the connection, if it was lost before the data arrived.
 *
 * Order: the messages of one endpoint are delivered in the order in which they were sent.
 *
 * Threads: the thread that drives progress, with no lock held.
 * Callbacks: the handler may call every function. Functions that wait return UCXX_ERR_BUSY. The
 * handler must not throw.
 * Ownership: the handler owns `buffers`, and releases it by ucxx_buffers_destroy, now or later.
 * `reply` and `header` are valid during the call. ucxx_endpoint_retain keeps the endpoint longer.
 * See also: ucxx_worker_set_multi_handler, ucxx_worker_set_am_queue_handler.
 */
typedef void (*ucxx_multi_handler_t)(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length, ucxx_buffers_t *buffers, ucxx_status_t status);

/**
 * What ucxx_am_queue_send_to sends in addition to the data.
 */
struct ucxx_am_queue_cover {
  /**
   * Set by UCXX_AM_QUEUE_COVER_INIT.
   */
  size_t struct_size;
  /**
   * Owner name of the handler that gets the message: up to 63 bytes and a terminating zero. NULL
   * sends the message to the peer's queue.
   */
  const char *owner;
  /**
   * Number of the handler; 0 without an owner.
   */
  uint64_t id;
  /**
   * A header of the caller's. It is copied during the call.
   */
  const void *header;
  /**
   * Length of the header in bytes: at most `max_am_header`, and 62 less with an owner.
   */
  size_t header_length;
  /**
   * UCXX_AM_MEMORY_*: what a receiver does that makes no memory of the type of the buffer. It
   * has an effect on data that waits at this side.
   */
  int32_t memory_policy;
  /**
   * Zero.
   */
  uint32_t reserved;
};

/**
 * What ucxx_am_queue_send_to sends in addition to the data.
 */
typedef struct ucxx_am_queue_cover ucxx_am_queue_cover_t;

/**
 * A fetch that arrived: a peer expects a reply. Its handler, or the thread that polled it, owns
 * it.
 */
typedef struct ucxx_fetch ucxx_fetch_t;

/**
 * Called for each fetch of its id that arrives from a peer.
 *
 * The peer (the requester) has sent it by ucxx_am_fetch. The handler owns `fetch`. It replies once
 * by ucxx_fetch_reply or ucxx_fetch_reject, then or later, from any thread. Then it destroys
 * `fetch`.
 *
 * Threads and callbacks: as for ucxx_am_handler_t.
 * Ownership: the handler owns `fetch`; see ucxx_fetch_destroy.
 * See also: ucxx_worker_set_fetch_handler.
 */
typedef void (*ucxx_fetch_handler_t)(void *arg, ucxx_fetch_t *fetch);

/**
 * A key to registered memory of a peer, for one endpoint.
 */
typedef struct ucxx_rkey ucxx_rkey_t;

/**
 * Parameters of ucxx_group_create.
 */
struct ucxx_group_params {
  /**
   * Set by UCXX_GROUP_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * UCXX_BOOTSTRAP_*: how the members find each other. See ucxx_group_create.
   */
  int32_t bootstrap;
  /**
   * CALLBACKS and TCP: the rank of this process, from 0. PMIX and ENV find rank and size
   * themselves.
   */
  uint32_t rank;
  /**
   * CALLBACKS and TCP: the number of members. The maximum is 1,048,576 with every bootstrap.
   */
  uint32_t size;
  /**
   * CALLBACKS: gathers `length` bytes of each member at all members.
   *
   * - `data`: the `length` bytes of this process.
   * - `out`: gets the bytes of all members, one after the other in rank order.
   *
   * It blocks until `out` is filled. ucxx_group_create calls it a few times, on its own thread,
   * with the same `length` at all members. It returns UCXX_OK or an error. After an error
   * ucxx_group_create fails with that status. It must not throw.
   */
  ucxx_status_t (*allgather)(void *arg, const void *data, size_t length, void *out);
  /**
   * Passed to `allgather`.
   */
  void *allgather_arg;
  /**
   * TCP, and ENV instead of MASTER_ADDR and MASTER_PORT: "host:port", where rank 0 listens while
   * the group is made. A numeric IPv6 address is written "[host]:port".
   */
  const char *root;
  /**
   * TCP and ENV: a secret that only the members know.
   *
   * - Each side proves that it knows the secret before any other data is read.
   * - The secret itself is not sent. Other data on the network is readable, but protected
   *   against changes.
   * - It should be random and have at least 16 bytes. A listener on the network can try secrets
   *   that can be guessed.
   * - With ENV, NULL means UCXX_RS_GROUP_SECRET of the environment.
   * - Without a secret, every process that reaches the port can join. This is allowed only if
   *   `root` is on the loopback interface.
   */
  const char *secret;
  /**
   * In nanoseconds; 0 for 60 s, UINT64_MAX for no limit.
   *
   * TCP and ENV: ucxx_group_create waits at most this time until all members have connected.
   * Then it waits at most this time again until all have exchanged their addresses. PMIX: a hint
   * to the launcher.
   */
  uint64_t timeout_ns;
  /**
   * Time limit of each barrier, allgather and broadcast, in nanoseconds. 0 for none: then only
   * the death of a member ends a collective that waits.
   */
  uint64_t collective_timeout_ns;
};

/**
 * Parameters of ucxx_group_create.
 */
typedef struct ucxx_group_params ucxx_group_params_t;

/**
 * A set of processes that know each other by rank. Any thread may use it.
 */
typedef struct ucxx_group ucxx_group_t;

/**
 * One block of an explicit list.
 */
struct ucxx_block {
  /**
   * Distance in elements from the address that the call names. It may be negative.
   */
  int64_t offset;
  /**
   * Number of consecutive elements.
   */
  uint64_t length;
};

/**
 * One block of an explicit list.
 */
typedef struct ucxx_block ucxx_block_t;

/**
 * The elements of a buffer that a window call accesses, on either side.
 *
 * - Without `blocks`: `count` blocks of `block_length` elements, with `stride` elements from the
 *   start of one block to the start of the next.
 * - With `blocks`: an explicit list.
 *
 * The layouts of the two sides may differ. They need the same number of bytes (put, get) or of
 * elements (accumulates).
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
   * Number of blocks.
   */
  uint64_t count;
  /**
   * Elements in each block.
   */
  uint64_t block_length;
  /**
   * Elements from the start of one block to the start of the next. It may be negative, or
   * shorter than a block. An element that occurs twice is read or written twice.
   */
  int64_t stride;
  /**
   * An explicit list, in place of the three fields above. It need not be sorted. The call
   * accesses the blocks in the order of the list, and reads the list during the call.
   */
  const ucxx_block_t *blocks;
  /**
   * Number of entries in `blocks`.
   */
  size_t block_count;
  /**
   * Zero.
   */
  uint64_t reserved[2];
};

/**
 * The elements of a buffer that a window call accesses, on either side.
 */
typedef struct ucxx_layout ucxx_layout_t;

/**
 * Parameters of a window; NULL means all defaults.
 *
 * All members give the same values, except `lock_timeout_ns` and `memory`.
 */
struct ucxx_window_params {
  /**
   * Set by UCXX_WINDOW_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * 1: the window does not use lock and lock_all. They return UCXX_ERR_RMA_SYNC.
   */
  uint8_t no_locks;
  /**
   * 1: all members give the same disp_unit. This is checked.
   */
  uint8_t same_disp_unit;
  /**
   * 1: all members give the same size. This is checked.
   */
  uint8_t same_size;
  /**
   * 1: in ucxx_window_allocate_shared each member's memory begins at a page of its own. 0: the
   * memory of the members is contiguous, in rank order.
   */
  uint8_t shared_noncontiguous;
  /**
   * UCXX_ORDER_*: the order of accumulates of one process at one target. The library keeps them
   * in order in any case.
   */
  int32_t accumulate_ordering;
  /**
   * Number of bytes, from the target address of the operation, that are updated as one unit
   * against other accumulates.
   *
   * 0: each element. UINT64_MAX: the whole operation. With any value but 0, all accumulates of
   * the window take a lock of their target.
   */
  uint64_t accumulate_granularity;
  /**
   * Time limit of waiting for a lock, in nanoseconds. 0: no limit, unless the holder dies.
   */
  uint64_t lock_timeout_ns;
  /**
   * ucxx_window_create: memory of this library that holds the range. Optional. It must live
   * until the window has ended.
   *
   * If ucxx_memory_allocate has made it, members of this host access the range directly, as with
   * ucxx_window_allocate. This needs UCX's shared memory, UCXX_FEATURE_RMA and
   * UCXX_FEATURE_ATOMIC. Without these the range is accessed as if `memory` were NULL.
   * Accumulates are only as fast if all members give such memory.
   */
  ucxx_memory_t *memory;
};

/**
 * Parameters of a window; NULL means all defaults.
 */
typedef struct ucxx_window_params ucxx_window_params_t;

/**
 * Memory that each member of a group offers to the others. Any thread may make data calls.
 */
typedef struct ucxx_window ucxx_window_t;

/**
 * Result of ucxx_window_query.
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
   * Memory of this process; NULL for a dynamic window.
   */
  void *data;
  /**
   * Its size in bytes.
   */
  size_t size;
  /**
   * Bytes of one unit of displacement at this process.
   */
  uint32_t disp_unit;
  /**
   * UCXX_SYNC_*: the epoch of the window as a whole. With several locked targets: that of locks.
   */
  int32_t sync_type;
};

/**
 * Result of ucxx_window_query.
 */
typedef struct ucxx_window_attr ucxx_window_attr_t;

/**
 * Parameters of ucxx_hub_create.
 */
struct ucxx_hub_params {
  /**
   * Set by UCXX_HUB_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * Size of each envelope in bytes.
   */
  size_t envelope_size;
  /**
   * Limit of the number of chunks that are in the queue or in production. 0: only the envelopes
   * limit it.
   */
  size_t max_queue_chunks;
  /**
   * Limit of the bytes of the chunks in the queue, plus `envelope_size` for each chunk in
   * production. 0: no limit. Otherwise at least `envelope_size`. Producers wait for it. A chunk
   * that is modified may grow beyond it.
   */
  size_t max_queue_bytes;
  /**
   * UCXX_HUB_RETAIN_*: how long a chunk keeps the envelope that a transfer has copied.
   * - AUTO: until the envelope is needed, and no link that is served is to read the chunk there.
   * - ALWAYS: until the chunk is consumed.
   * - UNTIL_COPIED: as long as a link that is served is to read the chunk there.
   */
  int32_t retain;
  /**
   * Limit of transfers in progress from one kind of memory to another; 0 for 2.
   */
  uint32_t transfers_in_flight;
  /**
   * A worker of the same context. Optional. With it, envelopes are registered with UCX when they
   * are made. ucxx_link_recv, ucxx_link_send and ucxx_link_connect need it.
   */
  ucxx_worker_t *worker;
};

/**
 * Parameters of ucxx_hub_create.
 */
typedef struct ucxx_hub_params ucxx_hub_params_t;

/**
 * Result of ucxx_hub_query_stats.
 */
struct ucxx_hub_stats {
  /**
   * Set by UCXX_HUB_STATS_INIT.
   */
  size_t struct_size;
  /**
   * Chunks that were committed.
   */
  uint64_t chunks_produced;
  /**
   * Chunks that have left the queue.
   */
  uint64_t chunks_consumed;
  /**
   * Copies that became replicas.
   */
  uint64_t transfers;
  /**
   * Their bytes.
   */
  uint64_t transfer_bytes;
  /**
   * Copies that were dropped, because their chunk was changed or consumed before they finished.
   */
  uint64_t stale_transfers;
  /**
   * Envelopes that hold nothing, now.
   */
  uint64_t free_envelopes;
  /**
   * Envelopes on lease, now.
   */
  uint64_t leased_envelopes;
  /**
   * Chunks in the queue, now.
   */
  uint64_t queued_chunks;
  /**
   * Envelopes that are still on lease although their chunk was removed or changed, now.
   */
  uint64_t trashed_envelopes;
  /**
   * The highest number of chunks that were in the queue.
   */
  uint64_t queue_high_water;
  /**
   * How often a connected link had a chunk to send, but no credit.
   */
  uint64_t credit_stalls;
};

/**
 * Result of ucxx_hub_query_stats.
 */
typedef struct ucxx_hub_stats ucxx_hub_stats_t;

/**
 * A queue of chunks, with the envelopes that contain them. Any thread may use it.
 */
typedef struct ucxx_hub ucxx_hub_t;

/**
 * The memory in which envelopes are.
 */
struct ucxx_memory_kind {
  /**
   * UCXX_MEMORY_HOST, UCXX_MEMORY_CUDA, UCXX_MEMORY_CUDA_PINNED or UCXX_MEMORY_DUMMY. DUMMY is
   * host memory that simulates a device.
   */
  int32_t memory_type;
  /**
   * Number of the device; 0 for the host.
   */
  int32_t device_id;
};

/**
 * The memory in which envelopes are.
 */
typedef struct ucxx_memory_kind ucxx_memory_kind_t;

/**
 * A producer, consumer or reader of a hub. Any thread may use it, several at a time.
 */
typedef struct ucxx_link ucxx_link_t;

/**
 * A leased envelope of a hub. Any thread may use it, one at a time.
 */
typedef struct ucxx_envelope ucxx_envelope_t;

/**
 * Called when a link becomes ready, or can never become ready any more.
 *
 * `status` is one of:
 * - UCXX_OK: a lease is available.
 * - UCXX_ERR_CLOSED: no lease will be available any more. Reported once. A consumer gets it after
 *   its own leases have ended, because it may return those chunks to the queue.
 * - UCXX_ERR_IO_ERROR: copying a chunk to the link's device has failed. The next lease returns the
 *   error, and the copy is tried again.
 *
 * The callback is level-triggered: it is called again after each lease attempt through the link,
 * if the condition still holds or holds again.
 *
 * Exception: a link that has returned or changed a chunk is not notified of that chunk again,
 * whichever link has held it since. This lasts until it tries a lease, or something else changes
 * in the hub: a chunk is added or removed, or another link commits a change of one.
 *
 * Which call runs the callback:
 * - The call that makes the lease possible runs it. The callbacks run one after the other, with no
 *   lock held.
 * - The links of a hub are notified in turn. The same call may also run the callbacks for what
 *   other threads make possible in the meantime.
 * - While no chunk is added or removed, one call runs at most 64 callbacks for each link of the
 *   hub. The next call on the hub continues. So links that change the same chunk in turn do not
 *   block a call without end.
 *
 * Threads: any thread that uses the hub; in hubs with CUDA memory also the hub's own thread. One
 * call at a time for each link.
 * Callbacks: it may call every function. Functions that wait return UCXX_ERR_BUSY. It must not
 * throw.
 * See also: ucxx_link_create, ucxx_link_lease.
 */
typedef void (*ucxx_link_callback_t)(void *arg, ucxx_link_t *link, ucxx_status_t status);

/**
 * Parameters of ucxx_link_create; NULL means all defaults.
 */
struct ucxx_link_params {
  /**
   * Set by UCXX_LINK_PARAMS_INIT.
   */
  size_t struct_size;
  /**
   * 1, for a consumer only: a broadcast consumer gets every chunk that is in the queue or is
   * added while the link exists. A chunk stays until all broadcast consumers have consumed it. A
   * hub can have up to 63 of them at a time.
   *
   * 0: the consumers compete. Each chunk is consumed by one of them.
   */
  uint8_t broadcast;
  /**
   * 1: ucxx_envelope_release commits. It has no effect for a peek link.
   */
  uint8_t autocommit;
  /**
   * Called when the link becomes ready. Optional.
   */
  ucxx_link_callback_t on_ready;
  /**
   * Passed to `on_ready`.
   */
  void *on_ready_arg;
};

/**
 * Parameters of ucxx_link_create; NULL means all defaults.
 */
typedef struct ucxx_link_params ucxx_link_params_t;

/**
 * Result of ucxx_envelope_query.
 */
struct ucxx_envelope_attr {
  /**
   * Set by UCXX_ENVELOPE_ATTR_INIT.
   */
  size_t struct_size;
  /**
   * Memory of the envelope. With a lease of a peek link or a consumer it is read-only.
   */
  void *data;
  /**
   * Length of the chunk in bytes; 0 for one in production.
   */
  size_t length;
  /**
   * Size of the envelope in bytes: the hub's `envelope_size`.
   */
  size_t capacity;
  /**
   * The memory in which it is.
   */
  ucxx_memory_kind_t kind;
  /**
   * 64 bytes of host memory that travel with the chunk; all zero for one in production.
   */
  uint8_t *metadata;
  /**
   * 64.
   */
  size_t metadata_length;
  /**
   * A CUevent, valid as long as the lease. Do not read or write the memory before the event has
   * completed. NULL: no wait is necessary. It is always NULL except on CUDA devices.
   */
  void *ready_event;
};

/**
 * Result of ucxx_envelope_query.
 */
typedef struct ucxx_envelope_attr ucxx_envelope_attr_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the name of a status, such as "UCXX_ERR_CANCELED".
 *
 * All of the application's own statuses, -1000 and below, have the name "UCXX_ERR_APPLICATION".
 * Unknown numbers have the name "UCXX_ERR_UNKNOWN".
 *
 * Returns: a static string, never NULL.
 *
 * Threads: any.
 * See also: ucxx_status_string, ucxx_error_text.
 */
const char *ucxx_status_name(ucxx_status_t status);

/**
 * Returns a sentence that explains a status in general.
 *
 * Returns: a static string, never NULL.
 *
 * Threads: any.
 * See also: ucxx_error_text.
 */
const char *ucxx_status_string(ucxx_status_t status);

/**
 * Returns the text that a program prints for a status: its name and an explanation.
 *
 * Example: "UCXX_ERR_INVALID_PARAM: port: is 0". The explanation comes from
 * ucxx_last_error_message if the calling thread's last negative status was this one. Otherwise it
 * comes from ucxx_status_string. So the text is right for the status that a call has just
 * returned, and for a status that a callback received.
 *
 * Returns: a string, never NULL. It is valid until the thread's next call of this function.
 *
 * Threads: any.
 * See also: ucxx_request_error_message.
 */
const char *ucxx_error_text(ucxx_status_t status);

/**
 * Returns the explanation of the calling thread's last negative status: which argument, peer or
 * limit, and what to do.
 *
 * - If that call reported the failure of an operation, this is the text of
 *   ucxx_request_error_message.
 * - Before the first negative status the text is empty.
 * - A call that returns 0 or more does not change it.
 *
 * The text belongs to the thread. Some languages may change the thread between two calls. They
 * have to stay on one thread until the text is copied: see docs/errors.md.
 *
 * Returns: a string of at most 1023 bytes, never NULL. Longer texts are cut. It is valid until the
 * next call on this thread that returns a negative status.
 *
 * Threads: any.
 * See also: ucxx_error_text.
 */
const char *ucxx_last_error_message(void);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_version_init(ucxx_version_t *value, size_t struct_size);

/**
 * Queries the versions of this library and of the loaded UCX.
 *
 * Returns:
 * - UCXX_OK: `*version` is filled.
 *
 * Threads: any.
 * See also: UCXX_VERSION_INIT.
 */
ucxx_status_t ucxx_version_query(ucxx_version_t *version);

/**
 * Sends the log, UCX's lines included, to `callback`.
 *
 * - `level` (UCXX_LOG_*) is the highest level to log. The environment variable UCXX_RS_LOG
 *   overrides it: a level (off, error, warn, info, debug or trace), and levels of components, as
 *   in "warn,am=debug". UCXX_RS_LOG_LEVEL is its older name.
 * - UCX's own variable UCX_LOG_LEVEL determines how much UCX logs.
 * - NULL for `callback` removes it, which is the default. Then nothing is logged, unless
 *   UCXX_RS_LOG is set: in that case lines go to stderr.
 * - Of more than 20 lines a second from one place in the code the others are counted, and a line
 *   "repeated N times" follows.
 *
 * When this function returns, a call of the previous callback may still be running on another
 * thread.
 *
 * Returns:
 * - UCXX_OK: the callback is set.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_log_set_callback(ucxx_log_callback_t callback, void *arg, int32_t level);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_context_params_init(ucxx_context_params_t *value, size_t struct_size);

/**
 * Initialises UCX and creates a context.
 *
 * `params` may be NULL.
 *
 * Returns:
 * - UCXX_OK: `*context` is set.
 * - UCXX_ERR_INVALID_PARAM: an argument is invalid, or UCX does not accept a variable of `config`.
 * - UCXX_ERR_UNSUPPORTED: this UCX cannot keep to UCXX_NETWORK_LOCAL. Also: a library that was
 *   built with its own UCX finds another libucp in the process.
 * - UCXX_ERR_NO_RESOURCE: the system cannot create a thread, and UCX needs one.
 * - Any status of UCX: the message and the log have its reason.
 *
 * Threads: any. If another thread allocates or frees during the call, UCX can, rarely, damage the
 * heap: create contexts before you start threads. See docs/known-issues.md.
 * Ownership: the caller owns the context.
 * See also: ucxx_worker_create, ucxx_context_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_context_create(const ucxx_context_params_t *params, ucxx_context_t **context);

/**
 * Releases the context.
 *
 * Workers of the context keep working until they are destroyed. UCX is shut down with the last of
 * them. NULL is ignored.
 *
 * A process may end while workers still exist, but exit() is then not always safe. It runs UCX's
 * destructors while a thread of UCX is still working. UCX has aborted such a process (SIGABRT)
 * when a peer failed at that moment. Destroy the workers before exit(), or leave with _exit().
 *
 * Threads: any.
 * See also: ucxx_worker_destroy.
 */
void ucxx_context_destroy(ucxx_context_t *context);

/**
 * Calls `visit` for each configuration variable, with the value in force for this context.
 *
 * The names have no "UCX_". Variables of transports are not included, because UCX stores them
 * elsewhere. `visit` may call any function.
 *
 * Returns:
 * - UCXX_OK: all variables were visited.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_context_visit_config(const ucxx_context_t *context, ucxx_config_visitor_t visit, void *arg);

/**
 * Calls `visit` for each configuration variable, with the value that a context would have that is
 * created now with default parameters.
 *
 * The values come from the environment, and from the library's own defaults. The names have no
 * "UCX_". Variables of transports are not included. `visit` may call any function.
 *
 * Returns:
 * - UCXX_OK: all variables were visited.
 * - Any status of UCX: a variable in the environment is malformed. `visit` was not called.
 *
 * Threads: any. No other thread may change the environment during the call.
 * See also: ucxx_context_visit_config.
 */
ucxx_status_t ucxx_config_visit(ucxx_config_visitor_t visit, void *arg);

/**
 * Describes the context in readable lines, for example for a report of a fault.
 *
 * Calls `line(arg, text)` once for each line. The lines show the versions of this library and of
 * UCX, features, network and memory types. Further lines show the components, memory domains,
 * transports and devices that UCX has here, and the variables that the environment, this library
 * or the program has set. `line` may call any function. `text` is valid during the call.
 *
 * The text is for people, and differs between releases.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any.
 * See also: ucxx_worker_dump, ucxx_context_visit_config.
 */
ucxx_status_t ucxx_context_dump(const ucxx_context_t *context, void (*line)(void *arg, const char *text), void *arg);

/**
 * Checks whether the loaded UCX can send from CUDA memory and receive into it here.
 *
 * Returns: 1 or 0. 0 for NULL.
 *
 * Threads: any.
 */
int32_t ucxx_context_has_cuda(const ucxx_context_t *context);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_worker_params_init(ucxx_worker_params_t *value, size_t struct_size);

/**
 * Creates a worker.
 *
 * `params` may be NULL.
 *
 * Returns:
 * - UCXX_OK: `*worker` is set.
 * - UCXX_ERR_INVALID_PARAM: an argument is invalid, or no transport takes a configuration variable
 *   of the context. Also: a progress thread with UCXX_THREAD_SINGLE, or on a CPU that cannot be
 *   used.
 * - UCXX_ERR_UNSUPPORTED: a progress thread needs UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
 * - UCXX_ERR_IO_ERROR: the system cannot create the descriptors of a progress thread.
 * - Any status of UCX: the message and the log have its reason.
 *
 * Threads: any.
 * Ownership: the caller owns the worker. It keeps the context's memory alive.
 * See also: ucxx_worker_destroy, ucxx_worker_wait, ucxx_worker_address.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_create(ucxx_context_t *context, const ucxx_worker_params_t *params, ucxx_worker_t **worker);

/**
 * Shuts the worker down now, and waits until this is done.
 *
 * - The progress thread ends.
 * - Operations in flight complete with UCXX_ERR_CANCELED. Their callbacks run in this call.
 * - Endpoints are closed by force, and UCX's worker is destroyed.
 * - Endpoints and requests of the worker stay valid handles. Calls on them return UCXX_ERR_CLOSED.
 *
 * The call takes about a second at most, plus the time of the callback that is running. Afterwards
 * no callback of the worker runs, and its buffers are the caller's again. NULL is ignored.
 *
 * Flush or destroy the endpoints first. This call gives messages in flight only 0.2 s. A large
 * message that is interrupted may still reach a peer that has its announcement. That peer then
 * receives what the buffer contains at that time.
 *
 * With UCX 1.13 over TCP alone, a worker that is still connecting may leave UCX's part behind.
 * This happens where its peers make no progress, because UCX would abort the process. UCX's part
 * then exists until the process ends: see docs/known-issues.md.
 *
 * Threads: any, but no other thread may be in a call on the worker. If there is a progress thread,
 * calls on its endpoints and requests may be in progress: these handles must outlive the calls.
 * Callbacks: in a callback, the worker is destroyed when the call that runs the callback returns.
 * With a progress thread, a thread of the library destroys it. The call waits for a callback that
 * runs on another thread. If that callback waits for the calling thread, the call never returns.
 * Examples: the callback needs the interpreter lock that the caller holds, or the event loop that
 * the caller runs. Release the lock first, or call ucxx_worker_destroy_nb.
 * See also: ucxx_endpoint_flush, ucxx_worker_destroy_nb.
 */
void ucxx_worker_destroy(ucxx_worker_t *worker);

/**
 * Destroys the worker on a thread that the library creates, without waiting.
 *
 * Callbacks of cancelled operations run on that thread too. `done(arg)` runs on it once, as the
 * last one. When `done` runs, the worker no longer exists, no callback of it runs, and its context
 * may be destroyed. `done` may call every function, also functions that wait. It is optional.
 *
 * - While the library's thread shuts the worker down, it is in a call on the worker. Without a
 *   progress thread, calls on the worker's endpoints, listeners and requests wait until `done`
 *   runs.
 * - In a callback under manual progress, the shutdown begins when the call that runs the callback
 *   returns.
 * - exit() waits for the shutdown, not for `done`, and for three seconds at most.
 *
 * Returns:
 * - UCXX_OK: the handle is no longer the caller's.
 * - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
 *
 * After an error nothing has happened, and the worker is still the caller's. A NULL worker is
 * UCXX_ERR_INVALID_PARAM.
 *
 * Threads: as ucxx_worker_destroy.
 * See also: ucxx_worker_destroy.
 */
ucxx_status_t ucxx_worker_destroy_nb(ucxx_worker_t *worker, void (*done)(void *arg), void *arg);

/**
 * Makes one progress pass: UCX's progress, then the callbacks that are due. It never sleeps.
 *
 * `*events` is the number of events that the pass handled. 0 means that there was nothing to do.
 * `events` is optional.
 *
 * Returns:
 * - UCXX_OK: the pass is done.
 * - UCXX_ERR_BUSY: called in a callback, or the worker has a progress thread.
 *
 * Threads: any.
 * Callbacks: they run inside this call.
 * See also: ucxx_worker_wait, ucxx_worker_start_progress_thread.
 */
ucxx_status_t ucxx_worker_progress(ucxx_worker_t *worker, uint32_t *events);

/**
 * Waits until there is an event, and handles it.
 *
 * The call polls for `spin_ns` of ucxx_worker_params_t, and then sleeps. `timeout_ns` is in
 * nanoseconds: 0 polls once, and UINT64_MAX waits without a limit.
 *
 * It may return UCXX_OK without an event that the caller notices. This happens after
 * ucxx_worker_signal, and when a signal handler has run on this thread during the sleep. So call
 * it in a loop, with a flag that a callback sets:
 *
 * ```c
 * while (!done) if (ucxx_worker_wait(worker, UINT64_MAX) < 0) break;
 * ```
 *
 * Use a limit if other threads also progress the worker and set the flag. What they do between the
 * check of the flag and the sleep does not end the sleep.
 *
 * Returns:
 * - UCXX_OK: an event was handled, or the wait was interrupted.
 * - UCXX_ERR_TIMED_OUT: `timeout_ns` expired first.
 * - UCXX_ERR_BUSY: called in a callback, or the worker has a progress thread.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 *
 * Threads: any.
 * Callbacks: they run inside this call, and so do handlers.
 * See also: ucxx_request_wait, ucxx_worker_signal, ucxx_worker_arm.
 */
ucxx_status_t ucxx_worker_wait(ucxx_worker_t *worker, uint64_t timeout_ns);

/**
 * Returns a descriptor for the caller's own event loop: epoll, poll, libuv, asyncio or glib.
 *
 * Arm it with ucxx_worker_arm before each sleep. It then becomes readable when the worker has
 * something to progress, deadlines included.
 *
 * - One thread at a time sleeps on it: the thread that armed it. Meanwhile other threads may use
 *   the worker, as its thread mode allows.
 * - Calls of other threads (a pass, a wait, a cancel, a close) may complete operations. This makes
 *   the descriptor readable too.
 * - Completions in a pass of the thread that armed it do not make it readable. That thread checks
 *   for them itself. After a pass or a wait of its own it arms again before it sleeps: otherwise
 *   what other threads complete does not wake it.
 * - UCX's own descriptor may stay readable without work, for example over TCP while a peer has not
 *   answered. This one does not. It becomes readable for new events, and about ten times a second.
 * - With a progress thread the descriptor is of no use: ucxx_worker_arm returns UCXX_ERR_BUSY. Use
 *   callbacks or a notifier.
 *
 * Returns:
 * - UCXX_OK: `*fd` is set.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 *
 * Threads: any.
 * Ownership: the library owns the descriptor and closes it.
 * See also: ucxx_worker_arm, ucxx_notifier_event_fd.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_event_fd(ucxx_worker_t *worker, int *fd);

/**
 * Arms the worker's descriptor before a sleep on it.
 *
 * Every sleep needs its own arm. The event loop:
 *
 * 1. Call ucxx_worker_progress until there are no events.
 * 2. Check the conditions that the program waits for.
 * 3. Call ucxx_worker_arm. On UCXX_OK, sleep. On UCXX_ERR_BUSY, begin again at 1.
 *
 * Returns:
 * - UCXX_OK: the next event makes the descriptor readable.
 * - UCXX_ERR_BUSY: there is something to progress first, or a call of another thread has completed
 *   an operation since this thread armed last. Also: the worker has a progress thread.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 *
 * Threads: any.
 * See also: ucxx_worker_event_fd.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_arm(ucxx_worker_t *worker);

/**
 * Makes the worker's descriptor readable, and ends the present ucxx_worker_wait. If no thread
 * waits, the next ucxx_worker_wait ends at once.
 *
 * It does not end a call that waits for a particular completion, such as ucxx_request_wait or an
 * operation with UCXX_FLAG_WAIT. Such a call checks for the completion, and continues to wait.
 *
 * Returns:
 * - UCXX_OK: the signal is set.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 *
 * Threads: any, in every thread mode, and in signal handlers (async-signal-safe). The worker must
 * exist for as long as the handler is installed. The call writes to two descriptors. Only a call
 * that fails does more.
 * See also: ucxx_worker_wait, ucxx_worker_event_fd.
 */
ucxx_status_t ucxx_worker_signal(ucxx_worker_t *worker);

/**
 * Starts a progress thread on a worker that has none.
 *
 * `progress_mode` is one of UCXX_PROGRESS_THREAD_*. From then on only this thread makes progress,
 * and other threads that wait depend on it. Other threads may submit operations during this call.
 *
 * Returns:
 * - UCXX_OK: the thread runs.
 * - UCXX_ERR_ALREADY_EXISTS: there is one already.
 * - UCXX_ERR_INVALID_PARAM: the mode is UCXX_PROGRESS_MANUAL, the worker is UCXX_THREAD_SINGLE, or
 *   its `cpu` cannot be used.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_NO_RESOURCE: the system cannot create a thread.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 * - UCXX_ERR_BUSY: called in a callback.
 *
 * Threads: any. Under SERIALIZED this counts as a call on the worker. Afterwards any thread may
 * call at any time, also after the thread was stopped.
 * See also: ucxx_worker_stop_progress_thread.
 */
ucxx_status_t ucxx_worker_start_progress_thread(ucxx_worker_t *worker, int32_t progress_mode);

/**
 * Stops the progress thread after a last pass, and waits for its end.
 *
 * Progress is manual afterwards. No submitted operation is lost: it continues when a thread makes
 * progress. Threads that wait now make progress themselves.
 *
 * Returns:
 * - UCXX_OK: the thread has ended.
 * - UCXX_ERR_NO_ELEM: there is no progress thread.
 * - UCXX_ERR_BUSY: called in a callback.
 *
 * Threads: any.
 * Callbacks: the call waits for a callback that the thread is running. That callback must not wait
 * for the calling thread: see ucxx_worker_destroy.
 */
ucxx_status_t ucxx_worker_stop_progress_thread(ucxx_worker_t *worker);

/**
 * Runs `function(arg)` where progress happens, before the next pass.
 *
 * - With a progress thread: it runs on that thread, after the operations that were submitted
 *   before this call. The call waits until it has returned.
 * - Under manual progress: it runs in the call, on the calling thread.
 *
 * `function` counts as a callback: calls that wait return UCXX_ERR_BUSY in it. `timeout_ns` is in
 * nanoseconds, and limits the time until `function` starts.
 *
 * Returns:
 * - UCXX_OK: `function` has returned.
 * - UCXX_ERR_TIMED_OUT: `timeout_ns` expired before it started. It will not run.
 * - UCXX_ERR_BUSY: called in a callback, and the worker has a progress thread.
 *
 * Threads: any.
 * See also: ucxx_worker_run_post.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_run_pre(ucxx_worker_t *worker, void (*function)(void *arg), void *arg, uint64_t timeout_ns);

/**
 * Runs `function(arg)` where progress happens, after the next pass. In all other respects it is
 * ucxx_worker_run_pre.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_run_post(ucxx_worker_t *worker, void (*function)(void *arg), void *arg, uint64_t timeout_ns);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_worker_attr_init(ucxx_worker_attr_t *value, size_t struct_size);

/**
 * Queries the properties of the worker.
 *
 * Returns:
 * - UCXX_OK: `*attr` is filled.
 *
 * Threads: any.
 * See also: ucxx_worker_query_stats.
 */
ucxx_status_t ucxx_worker_query(const ucxx_worker_t *worker, ucxx_worker_attr_t *attr);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_worker_stats_init(ucxx_worker_stats_t *value, size_t struct_size);

/**
 * Reads the counters of the worker, without a lock.
 *
 * Two counters may differ by the operations of the moment. But `submitted` is always the sum of
 * `completed`, `failed`, `canceled` and `in_flight`. Operations in the submission queue are in
 * flight.
 *
 * Returns:
 * - UCXX_OK: `*stats` is filled.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_worker_query_stats(const ucxx_worker_t *worker, ucxx_worker_stats_t *stats);

/**
 * Describes the worker in readable lines, for example when it seems to hang.
 *
 * Calls `line(arg, text)` once for each line. `line` may call any function. `text` is valid during
 * the call. The lines show, and are meant for people, not for programs:
 * - the worker, and its endpoints with their transports;
 * - what each endpoint waits for: credit, the peer's process, a connection, shared memory;
 * - the operations in flight with their age;
 * - hubs and windows on the worker, and who holds what there.
 *
 * `ucxx_rs_info --attach PID` prints the same of another process: see docs/hangs.md.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file.
 *
 * Threads: any.
 * See also: ucxx_worker_query_stats.
 */
ucxx_status_t ucxx_worker_dump(ucxx_worker_t *worker, void (*line)(void *arg, const char *text), void *arg);

/**
 * Flushes the worker: completes after every send that was submitted to the worker before it. This
 * is an operation.
 *
 * - Rendezvous sends are included. Posted receives are not.
 * - For the end of the process it promises as little as ucxx_endpoint_flush.
 * - Its status is the first error of those sends that have neither request nor callback.
 *
 * Returns:
 * - Any status of an operation: see "Operations" at the top of this file.
 * - The first error of such sends.
 *
 * Threads: any.
 * See also: ucxx_endpoint_flush, ucxx_worker_fence.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_flush(ucxx_worker_t *worker, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Orders puts, gets and atomic operations: those before the fence complete before those after it
 * start.
 *
 * They also complete before messages that are sent after the fence. Messages of one endpoint are
 * in order without a fence.
 *
 * - If such operations are in flight, the call waits like a flush of the worker. So it waits for
 *   sends too, and returns the status of the flush.
 * - If they completed inside their calls, or if there are none, it does not wait.
 *
 * Returns:
 * - UCXX_OK: the order is established.
 * - UCXX_ERR_BUSY: called in a callback, and it would have to wait.
 * - Any status of ucxx_worker_flush.
 *
 * Threads: any.
 * See also: ucxx_worker_flush.
 */
ucxx_status_t ucxx_worker_fence(ucxx_worker_t *worker);

/**
 * Creates a notifier: a completion queue for operations of all workers of the context.
 *
 * An operation that names the notifier in `ucxx_op_params_t.notifier` is reported there once, when
 * it completes, instead of by a callback. It is not reported if it completes inside its call,
 * unless UCXX_FLAG_ALWAYS_CALLBACK is set.
 *
 * - The queue never overflows, and a report allocates nothing.
 * - Order: the status and recv_info are stored, the operation is reported, and then waiting
 *   threads are released.
 *
 * The notifier can replace all other callbacks too, so that a program needs none:
 *
 * - `on_connect` of a listener and `on_close` of an endpoint: `notifier` in their parameters.
 * - Handlers: ucxx_worker_set_am_notifier, ucxx_worker_set_fetch_notifier.
 *
 * The polling caller owns what the notifier returns. Events that are not polled are bounded: peers
 * wait, or their connections are rejected. docs/connections.md has the loop.
 *
 * Returns:
 * - UCXX_OK: `*notifier` is set.
 *
 * Threads: any.
 * Ownership: the caller owns the notifier.
 * See also: ucxx_notifier_poll, ucxx_notifier_wait, ucxx_notifier_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_create(ucxx_context_t *context, ucxx_notifier_t **notifier);

/**
 * Sleeps until there is something to poll.
 *
 * `timeout_ns` is in nanoseconds. It may return UCXX_OK with nothing to poll: a signal handler has
 * run on this thread during the sleep, or another thread was faster.
 *
 * The call makes no progress. A progress thread, or another thread, has to drive the workers. A
 * thread that drives its own worker does not call it. It uses this loop:
 *
 * ```c
 * while (ucxx_notifier_poll(notifier, &got, sizeof got, 1, &count) == UCXX_OK) {
 *   if (count > 0) take(&got);
 *   else ucxx_worker_wait(worker, UINT64_MAX);
 * }
 * ```
 *
 * Returns:
 * - UCXX_OK: poll now.
 * - UCXX_ERR_TIMED_OUT: `timeout_ns` expired first. With 0: at once.
 * - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
 * - UCXX_ERR_BUSY: called in a callback.
 *
 * Threads: any, several at once.
 * See also: ucxx_notifier_poll, ucxx_notifier_event_fd.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_wait(ucxx_notifier_t *notifier, uint64_t timeout_ns);

/**
 * Takes up to `max` completions, in the order in which they were reported.
 *
 * - `completions` is an array of `max` structs. It may be NULL if `max` is 0.
 * - `completion_size` is the caller's `sizeof(ucxx_completion_t)`, in bytes.
 * - `*count` is the number of structs that were filled.
 *
 * It never blocks and makes no progress.
 *
 * Returns:
 * - UCXX_OK: `*count` is set. It is 0 if there is nothing to poll.
 * - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
 *
 * Threads: any, several at once. Each completion is returned once.
 * Ownership: the caller owns each `handle`.
 * See also: ucxx_notifier_wait.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_poll(ucxx_notifier_t *notifier, ucxx_completion_t *completions, size_t completion_size, size_t max, size_t *count);

/**
 * Returns a descriptor for poll(2), epoll and event loops. It is readable when there is something
 * to poll.
 *
 * Call ucxx_notifier_arm before each sleep on it. The descriptor need not be read.
 *
 * Returns:
 * - UCXX_OK: `*fd` is set.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 *
 * Threads: any.
 * Ownership: the library owns the descriptor and closes it.
 * See also: ucxx_notifier_arm.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_event_fd(ucxx_notifier_t *notifier, int *fd);

/**
 * Arms the notifier's descriptor before a sleep on it.
 *
 * With the next completion the descriptor becomes readable, and stays so until it is armed again.
 * After UCXX_ERR_BUSY and UCXX_ERR_CLOSED it is readable as well.
 *
 * Returns:
 * - UCXX_OK: there is nothing to poll. Sleep on the descriptor.
 * - UCXX_ERR_BUSY: poll first.
 * - UCXX_ERR_CLOSED: the notifier was stopped, and there is nothing left to poll.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system cannot create a descriptor.
 *
 * Threads: any.
 * See also: ucxx_notifier_event_fd.
 */
UCXX_NODISCARD ucxx_status_t ucxx_notifier_arm(ucxx_notifier_t *notifier);

/**
 * Stops the notifier: new operations that name it are refused with UCXX_ERR_CLOSED.
 *
 * Completions that were reported can still be polled, and so can those of operations in flight.
 * Whenever there is nothing left to poll, ucxx_notifier_wait and ucxx_notifier_poll return
 * UCXX_ERR_CLOSED, and sleeping threads wake up.
 *
 * UCXX_ERR_CLOSED does not mean that nothing is in flight. Later completions can be polled after
 * it. A program that needs to know counts its submissions.
 *
 * Returns:
 * - UCXX_OK: the notifier is stopped, also if it was before.
 *
 * Threads: any.
 * See also: ucxx_notifier_destroy.
 */
ucxx_status_t ucxx_notifier_stop(ucxx_notifier_t *notifier);

/**
 * Stops the notifier and releases it. Its descriptor must not be used any more.
 *
 * - Completions that were not polled are dropped. Operations in flight continue, and are not
 *   reported. Requests that the caller kept stay the caller's.
 * - Events that were not polled, and later ones, are disposed of. Connection requests and fetches
 *   are rejected. Messages are destroyed.
 * - Threads in ucxx_notifier_wait get UCXX_ERR_CLOSED.
 *
 * It may be called before or after the workers and the context are destroyed. NULL is ignored.
 *
 * Threads: any.
 * See also: ucxx_notifier_stop.
 */
void ucxx_notifier_destroy(ucxx_notifier_t *notifier);

/**
 * Returns the address of the worker.
 *
 * Send its bytes (ucxx_address_data) to the peers that shall connect, by any means.
 *
 * Returns:
 * - UCXX_OK: `*address` is set.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * Ownership: the caller owns the address.
 * See also: ucxx_address_from_bytes, ucxx_endpoint_create.
 */
UCXX_NODISCARD ucxx_status_t ucxx_worker_address(ucxx_worker_t *worker, ucxx_address_t **address);

/**
 * Creates an address from the bytes of `ucxx_address_data`.
 *
 * The bytes end with a checked trailer: versions, host, process and checksum. Damaged or foreign
 * bytes are refused, because UCX does not survive them. The bytes are copied. `length` is in
 * bytes. NULL for `data` is invalid, also with length 0.
 *
 * Returns:
 * - UCXX_OK: `*address` is set.
 * - UCXX_ERR_INVALID_ADDR: the bytes are damaged, incomplete, or not from this library.
 *
 * Threads: any.
 * Ownership: the caller owns the address.
 * See also: ucxx_worker_address, ucxx_endpoint_create.
 */
UCXX_NODISCARD ucxx_status_t ucxx_address_from_bytes(const void *data, size_t length, ucxx_address_t **address);

/**
 * Creates an address from the bytes of another UCX program (`ucp_worker_get_address`).
 *
 * Such bytes cannot be checked. UCX aborts the process on bytes that are not an address, so accept
 * them only from a source that you trust. The bytes are copied. `length` is in bytes.
 *
 * Returns:
 * - UCXX_OK: `*address` is set.
 *
 * Threads: any.
 * Ownership: the caller owns the address.
 * See also: ucxx_address_from_bytes.
 */
UCXX_NODISCARD ucxx_status_t ucxx_address_from_ucp_bytes(const void *data, size_t length, ucxx_address_t **address);

/**
 * Returns the bytes of the address, to be sent to peers.
 *
 * Returns: a pointer that is valid until the address is destroyed. NULL for NULL.
 *
 * Threads: any.
 * See also: ucxx_address_length.
 */
const void *ucxx_address_data(const ucxx_address_t *address);

/**
 * Returns the number of bytes of the address.
 *
 * Returns: bytes. 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_address_length(const ucxx_address_t *address);

/**
 * Frees the address.
 *
 * Endpoints that were created with it do not need it any more. NULL is ignored.
 *
 * Threads: any.
 */
void ucxx_address_destroy(ucxx_address_t *address);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_op_params_init(ucxx_op_params_t *value, size_t struct_size);

/**
 * Returns the status of the operation, without waiting and without progress.
 *
 * Returns:
 * - UCXX_INPROGRESS: the operation is in progress, or its callback has not returned.
 * - Any other value: the final status. The request's own callback already gets this one.
 *
 * Threads: any.
 * See also: ucxx_request_wait, ucxx_request_error_message.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_status(const ucxx_request_t *request);

/**
 * Waits until the operation has completed and its callback has returned.
 *
 * `timeout_ns` is in nanoseconds: 0 polls once, and UINT64_MAX waits without a limit. Under manual
 * progress the call makes progress. Signal handlers and ucxx_worker_signal do not end the wait. A
 * program that has to react to signals waits with a timeout, in a loop.
 *
 * Returns:
 * - UCXX_INPROGRESS: `timeout_ns` expired first. The operation continues, and its buffer is in
 *   use. This value is positive, so `status < 0` does not detect it.
 * - UCXX_ERR_BUSY: called in a callback, and the operation has not completed.
 * - Any other value: the final status of the operation.
 *
 * Threads: any.
 * Ownership: the request stays the caller's.
 * See also: ucxx_request_wait_all, ucxx_request_wait_any, ucxx_request_cancel.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait(ucxx_request_t *request, uint64_t timeout_ns);

/**
 * Waits until all requests of the list have completed.
 *
 * NULL entries are skipped. `timeout_ns` is as for ucxx_request_wait.
 *
 * Returns:
 * - UCXX_OK: all have completed with UCXX_OK.
 * - UCXX_INPROGRESS: `timeout_ns` expired first.
 * - UCXX_ERR_NO_ELEM: `count` is 0, or all entries are NULL.
 * - UCXX_ERR_BUSY: called in a callback, and one has not completed.
 * - Any other value: all have completed, and this is the first error in the order of the list.
 *
 * Threads: any.
 * Ownership: the requests stay the caller's.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait_all(ucxx_request_t *const *requests, size_t count, uint64_t timeout_ns);

/**
 * Waits until one request of the list has completed, and stores its position in `*index`.
 *
 * NULL entries are skipped. `timeout_ns` is as for ucxx_request_wait. Requests of workers with
 * manual progress must be of one worker.
 *
 * Returns:
 * - UCXX_INPROGRESS: `timeout_ns` expired first. `*index` is not set.
 * - UCXX_ERR_NO_ELEM: `count` is 0, or all entries are NULL.
 * - UCXX_ERR_INVALID_PARAM: the requests are of several workers, and one of them has manual
 *   progress.
 * - UCXX_ERR_BUSY: called in a callback, and none has completed.
 * - Any other value: the status of the request at `*index`.
 *
 * Threads: any.
 * Ownership: the requests stay the caller's.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_wait_any(ucxx_request_t *const *requests, size_t count, uint64_t timeout_ns, size_t *index);

/**
 * Requests the end of the operation. Its completion reports the result, and that the buffer is
 * free.
 *
 * - These end at once with UCXX_ERR_CANCELED: operations in the submission queue or send queue,
 *   tag receives without a matching message, stream receives, flushes, and fetches whose reply has
 *   not begun to arrive.
 * - A close continues by force.
 * - An operation that UCX already owns ends in its own time, and so does the pull of an active
 *   message. A large send, for example, ends when the peer has received it, or when the endpoint
 *   is closed by force.
 *
 * Returns:
 * - UCXX_OK: the end is requested, or the operation has completed already.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * See also: ucxx_request_wait, ucxx_request_destroy.
 */
ucxx_status_t ucxx_request_cancel(ucxx_request_t *request);

/**
 * Returns the information on the message of a completed receive.
 *
 * Returns:
 * - UCXX_OK: `*info` is filled.
 * - UCXX_INPROGRESS: the operation has not completed.
 * - UCXX_ERR_INVALID_PARAM: the request is not a receive.
 *
 * Threads: any.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_recv_info(const ucxx_request_t *request, ucxx_recv_info_t *info);

/**
 * Returns the explanation of a failed operation: operation, peer and cause.
 *
 * Returns: a string, never NULL, valid until the request is destroyed. It is empty if the
 * operation has not failed.
 *
 * Threads: any.
 * See also: ucxx_error_text.
 */
const char *ucxx_request_error_message(const ucxx_request_t *request);

/**
 * Writes what UCX says of the operation into `text`: length, protocol, transports.
 *
 * The worker has to be created with `describe_requests`. The text is UCX's own, from the moment at
 * which UCX had begun the operation, so it differs between releases of UCX. It is terminated.
 * `capacity` is in bytes, and 1024 are always sufficient. UCX describes tag messages, and what is
 * sent by streams, active messages, puts and gets. Otherwise the text is one of these:
 *
 * - "completed at once": UCX kept no request that it could have described.
 * - "waits in the library: UCX does not have it yet".
 * - "ended before UCX had begun it".
 * - "UCX does not describe this operation": it consists of other operations, such as a fetch or a
 *   flush, or this release of UCX has no text. Releases before 1.16 have none of streams, puts and
 *   gets.
 *
 * Returns:
 * - UCXX_OK: `text` is written.
 * - UCXX_ERR_UNSUPPORTED: the worker was created without `describe_requests`.
 * - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
 *
 * Threads: any.
 * See also: ucxx_worker_dump, ucxx_request_error_message.
 */
ucxx_status_t ucxx_request_describe(const ucxx_request_t *request, char *text, size_t capacity);

/**
 * Releases the request.
 *
 * If the operation is in progress, it is detached, not cancelled: its buffer stays in use, and its
 * callback runs later, with a NULL request. To get the buffer back, call ucxx_request_cancel, then
 * ucxx_request_wait, and then this function. NULL is ignored.
 *
 * Threads: any.
 * Callbacks: allowed in the request's own callback.
 * See also: ucxx_request_cancel.
 */
void ucxx_request_destroy(ucxx_request_t *request);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_endpoint_params_init(ucxx_endpoint_params_t *value, size_t struct_size);

/**
 * Creates an endpoint to the worker with this address.
 *
 * The connection is made in the background. Operations may be submitted at once. `params` may be
 * NULL.
 *
 * Returns:
 * - UCXX_OK: `*endpoint` is set.
 * - UCXX_ERR_UNREACHABLE: the peer has ended, or no transport connects the two.
 * - UCXX_ERR_UNSUPPORTED: the two releases of UCX are known not to work together. Also:
 *   `local_address` is set.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file.
 * - UCXX_ERR_CLOSED: the notifier was stopped.
 * - Any status of UCX: the message has its reason.
 *
 * Threads: any.
 * Ownership: the caller owns the endpoint. It keeps the worker's memory alive.
 * See also: ucxx_worker_address, ucxx_address_from_bytes, ucxx_endpoint_close.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_create(ucxx_worker_t *worker, const ucxx_address_t *address, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * Creates an endpoint to a listener of this library, of UCXX or of UCP, by host and port.
 *
 * - `host` is a name, which the call resolves, or a numeric IPv4 or IPv6 address.
 * - If a name has several addresses, they are tried in the resolver's order until one answers.
 * - Operations may be submitted at once. They wait until the listener's side answers, when
 *   `on_open` runs.
 * - `params` may be NULL.
 *
 * If no connection is made, the endpoint and its operations end with one of these. If there are
 * several addresses, the last one decides.
 *
 * - UCXX_ERR_UNREACHABLE: no listener is there, or it was destroyed.
 * - UCXX_ERR_REJECTED: the listener's side rejected the connection.
 * - UCXX_ERR_TIMED_OUT: `connect_timeout_ns` expired. Without it, the system's own limit applies
 *   to an address that does not answer. That may be minutes.
 *
 * A context connects over one address family, because UCX needs addresses of the family of its TCP
 * devices. The default is IPv4. TCP_AF_PRIO=inet6 in the context's `config` selects IPv6.
 * Addresses of the other family are skipped.
 *
 * UCX makes such connections over TCP or RDMA, and then changes to the fastest transport. Between
 * processes of one host that is shared memory. TCP has to be in UCX_TLS for this: without it,
 * there is no connection. Both sides need the same `error_handling`.
 *
 * Returns:
 * - UCXX_OK: `*endpoint` is set.
 * - UCXX_ERR_INVALID_PARAM: an argument is invalid, or the host is on another interface under
 *   UCXX_NETWORK_LOCAL.
 * - UCXX_ERR_UNREACHABLE: no attempt could be started, for example for an unknown name. Also:
 *   `local_address` is of another family than the host.
 * - UCXX_ERR_UNSUPPORTED: no address is of the context's family.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file.
 * - UCXX_ERR_CLOSED: the notifier was stopped.
 * - Any status of UCX: the message has its reason.
 *
 * Threads: any.
 * Ownership: the caller owns the endpoint.
 * See also: ucxx_listener_create, ucxx_endpoint_create, ucxx_endpoint_close.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_connect(ucxx_worker_t *worker, const char *host, uint16_t port, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * Accepts a connection: creates an endpoint to the requesting peer, on the listener's worker.
 *
 * Call it once for a request, in `on_connect` or later. The endpoint may be used at once: sends
 * before `on_open` wait until the connection is made. `params` may be NULL.
 *
 * Returns:
 * - UCXX_OK: `*endpoint` is set.
 * - UCXX_ERR_INVALID_PARAM: the request was answered before, or `local_address` is set.
 * - UCXX_ERR_CLOSED: the listener was destroyed before, or the notifier was stopped.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file. The request can still be answered elsewhere.
 * - Any status of UCX, for example if the peer has another `error_handling`. The message has its
 *   reason.
 *
 * Threads: any.
 * Ownership: the caller owns the endpoint, and still destroys the request.
 * See also: ucxx_conn_request_reject, ucxx_conn_request_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_accept(ucxx_conn_request_t *conn_request, const ucxx_endpoint_params_t *params, ucxx_endpoint_t **endpoint);

/**
 * Returns whether the endpoint accepts operations, or why not.
 *
 * Returns:
 * - UCXX_OK: it accepts operations.
 * - UCXX_ERR_CLOSED: this side closed it, or destroyed its worker.
 * - UCXX_ERR_CONNECTION_RESET: the peer closed its end.
 * - UCXX_ERR_PEER_FAILED: the peer died, or is no longer reachable.
 * - UCXX_ERR_TIMED_OUT: `connect_timeout_ns` or `liveness_ns` expired, or an operation with
 *   UCXX_FLAG_TIMEOUT_CLOSES.
 * - UCXX_ERR_REJECTED: the listener's side rejected the connection.
 * - UCXX_ERR_UNREACHABLE: no listener is there, or no transport connects the two.
 * - UCXX_ERR_UNSUPPORTED: the peer uses another version of this library's protocol.
 * - UCXX_ERR_IO_ERROR: the peer violated this library's protocol.
 *
 * Threads: any.
 * See also: ucxx_endpoint_params_t (on_close).
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_status(const ucxx_endpoint_t *endpoint);

/**
 * Flushes the endpoint: completes after every operation that was submitted to it before. This is
 * an operation.
 *
 * - Rendezvous sends are included.
 * - Over TCP it does not make it safe to end the process: the kernel may still drop data. Close
 *   with UCXX_CLOSE_FLUSH before.
 * - Its status is the first error of those sends that have neither request nor callback.
 *
 * Returns:
 * - UCXX_ERR_CONNECTION_RESET: the peer closed its end before. This does not show whether earlier
 *   sends arrived: see ucxx_endpoint_close.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * See also: ucxx_worker_flush, ucxx_endpoint_close.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_flush(ucxx_endpoint_t *endpoint, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Closes the endpoint: it accepts no more operations. This is an operation.
 *
 * It completes when all requests of the endpoint have completed. `on_close` follows. `how` is one
 * of:
 *
 * - UCXX_CLOSE_FLUSH completes what was submitted before: sends, and receives with this endpoint
 *   in `source` that have matched a message. Other receives with `source` end with
 *   UCXX_ERR_CLOSED. It waits as long as something completes every three seconds, or for one
 *   second if nothing is in transfer. Then it continues by force, with UCXX_ERR_TIMED_OUT.
 *   `timeout_ns` replaces both limits: set it if the peer may compute for longer.
 * - UCXX_CLOSE_FORCE cancels: requests complete with UCXX_ERR_CANCELED. The peer may still receive
 *   data. If it has the announcement of a large message, it may read the buffer later, and receive
 *   what the buffer contains then. Flush before, or agree on the end with the peer. The close
 *   waits for its peer to read: for a second, or for up to four while UCX transfers something.
 *   Over TCP a peer that does not read may not learn of the close: see docs/known-issues.md.
 *
 * How two peers part: one side closes. The other side continues to make progress until its
 * `on_close`, or UCXX_EVENT_ENDPOINT_CLOSED, reports UCXX_ERR_CONNECTION_RESET. Then it destroys
 * its endpoint. This is the normal end. Both sides may also close at the same time.
 *
 * - If a peer closes by FLUSH with UCXX_OK, all its sends arrive here before the end is reported
 *   here. They can still be received afterwards, but not by a receive with this endpoint in
 *   `source`. Post that one before.
 * - A send that the peer received in full before it closed completes with UCXX_OK. A send that it
 *   did not receive completes with UCXX_ERR_CONNECTION_RESET, or is lost if it had completed
 *   before.
 * - After the peer has closed, a close returns UCXX_OK. Any other operation, a flush too, ends
 *   with UCXX_ERR_CONNECTION_RESET.
 * - Over TCP, and on connections by host and port, a close needs progress at the peer.
 *
 * A close by FLUSH may also wait for the peer's first answer. This happens if the endpoint sent
 * nothing, UCX's connection exists, and the peer has not answered. The close waits one second, or
 * as `timeout_ns` allows, and then completes with UCXX_OK.
 *
 * Returns:
 * - UCXX_OK: the endpoint is closed. This includes a peer that failed, or was never found.
 * - UCXX_ERR_TIMED_OUT: the time for FLUSH (see above), or `timeout_ns`, expired. The close
 *   continued by force.
 * - UCXX_ERR_CANCELED: its request was cancelled. The close continued by force.
 * - UCXX_ERR_CLOSED: this side closed it before.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * Ownership: the caller still destroys the endpoint.
 * See also: ucxx_endpoint_destroy, ucxx_endpoint_flush, docs/connections.md.
 */
ucxx_status_t ucxx_endpoint_close(ucxx_endpoint_t *endpoint, int32_t how, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Checks whether a send would be submitted at once: to UCX, or to a progress thread that takes it
 * over.
 *
 * Other threads may send in between, so the next send may still have to wait.
 *
 * Returns:
 * - 1: a send would not wait.
 * - 0: sends have to wait in the send queue, or active messages for credit, or the endpoint
 *   accepts none. Missing credit delays active messages only. Also 0 for NULL.
 *
 * Threads: any.
 * See also: ucxx_endpoint_on_writable, UCXX_FLAG_NO_WAIT.
 */
int32_t ucxx_endpoint_writable(const ucxx_endpoint_t *endpoint);

/**
 * Registers a callback for the time when the endpoint is writable (see ucxx_endpoint_writable).
 * Use it after UCXX_ERR_NO_RESOURCE, whatever the reason was.
 *
 * - The callback runs once, with UCXX_OK. If the endpoint is writable already, it runs in the next
 *   pass.
 * - If the endpoint ends first, the callback runs with the endpoint's error, before `on_close`.
 *   After a close that is UCXX_ERR_CLOSED.
 * - In the callback, send until UCXX_ERR_NO_RESOURCE, and register again. A pass runs each
 *   endpoint's callback at most once, so no endpoint delays the others.
 * - NULL for `callback` removes the registration. A callback that is running on another thread may
 *   still be running.
 *
 * Returns:
 * - UCXX_OK: the callback is registered, or removed.
 * - UCXX_ERR_ALREADY_EXISTS: one is registered.
 * - The status of ucxx_endpoint_status: the endpoint accepts no operations any more.
 *
 * Threads: any.
 * Callbacks: on the thread that makes progress, as all callbacks.
 */
ucxx_status_t ucxx_endpoint_on_writable(ucxx_endpoint_t *endpoint, ucxx_endpoint_callback_t callback, void *arg);

/**
 * Creates another handle for the same endpoint.
 *
 * A callback gets an endpoint that is valid only during the call. With this function it can keep
 * the endpoint. The endpoint ends when its last handle is destroyed.
 *
 * Returns:
 * - UCXX_OK: `*own` is set.
 *
 * Threads: any.
 * Ownership: the caller owns `*own`, and destroys it with ucxx_endpoint_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_endpoint_retain(ucxx_endpoint_t *endpoint, ucxx_endpoint_t **own);

/**
 * Releases the handle. With the last handle, it closes the endpoint and waits for its end.
 *
 * - An open endpoint is closed as by UCXX_CLOSE_FLUSH.
 * - The call waits until the endpoint has ended and `on_close` has returned. It waits as long as
 *   sends complete. It continues by force after three seconds without a completion, or after one
 *   second if no send is in flight. What is left then completes with UCXX_ERR_CANCELED.
 * - It does not report the outcome: flush first to learn it.
 *
 * NULL is ignored. For the order in which two peers close, see ucxx_endpoint_close.
 *
 * Threads: any.
 * Callbacks: in a callback it does not wait, and the endpoint ends after the pass. Otherwise, a
 * callback of the worker must not wait for the calling thread, or the call never returns. To avoid
 * the wait: call ucxx_endpoint_close, and destroy the endpoint in `on_close`, or after `on_close`
 * or the notifier has reported the end.
 * See also: ucxx_endpoint_close, ucxx_endpoint_retain.
 */
void ucxx_endpoint_destroy(ucxx_endpoint_t *endpoint);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_endpoint_attr_init(ucxx_endpoint_attr_t *value, size_t struct_size);

/**
 * Queries the properties of the endpoint.
 *
 * Returns:
 * - UCXX_OK: `*attr` is filled.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * See also: ucxx_endpoint_query_load.
 */
ucxx_status_t ucxx_endpoint_query(const ucxx_endpoint_t *endpoint, ucxx_endpoint_attr_t *attr);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_endpoint_load_init(ucxx_endpoint_load_t *value, size_t struct_size);

/**
 * Queries how much of its send window and send queue the endpoint uses.
 *
 * Returns:
 * - UCXX_OK: `*load` is filled.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * See also: ucxx_endpoint_params_t, docs/flow-control.md.
 */
ucxx_status_t ucxx_endpoint_query_load(const ucxx_endpoint_t *endpoint, ucxx_endpoint_load_t *load);

/**
 * Cancels every operation of the worker that is in flight, each as by ucxx_request_cancel.
 *
 * This includes receives, operations of all endpoints, those whose request was destroyed, and
 * closes, which continue by force. Operations in the submission queue and in send queues are
 * included, too. The completions follow as usual: callbacks run while the worker makes progress.
 *
 * - `count`: optional. The number of operations that were asked to end. Some of them may still
 *   complete with UCXX_OK. Transfers of hub links are not cancelled, but those that UCX has are
 *   counted. The call then waits for the progress thread, if there is one. With NULL it does not.
 *
 * Returns:
 * - UCXX_OK: the end is requested, and `*count` is set.
 * - UCXX_ERR_BUSY: `count` is not NULL, and the call is in a callback on another thread: see
 *   "Callbacks" at the top of this file.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * Callbacks: allowed.
 * See also: ucxx_request_cancel, ucxx_endpoint_cancel_all, ucxx_worker_query_stats.
 */
ucxx_status_t ucxx_worker_cancel_all(ucxx_worker_t *worker, size_t *count);

/**
 * Cancels every operation of the endpoint that is in flight, each as by ucxx_request_cancel.
 *
 * These are its sends, flushes, fetches, puts, gets and atomic operations, its close, and receives
 * that name it in `source`. In all other respects it is ucxx_worker_cancel_all. An endpoint that
 * has ended has no operations.
 *
 * Returns:
 * - UCXX_OK: the end is requested, and `*count` is set.
 * - UCXX_ERR_BUSY: as for ucxx_worker_cancel_all.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 * Callbacks: allowed.
 * See also: ucxx_worker_cancel_all, ucxx_endpoint_close.
 */
ucxx_status_t ucxx_endpoint_cancel_all(ucxx_endpoint_t *endpoint, size_t *count);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_listener_params_init(ucxx_listener_params_t *value, size_t struct_size);

/**
 * Listens on an address and port for connections of ucxx_endpoint_connect, UCXX or UCP.
 *
 * The call resolves a name, and may block for that.
 *
 * After the connections of a listener have ended, its port may stay in use for a minute. This
 * happens only if that listener or the new one has TCP_CM_REUSEADDR=n. The default is y.
 *
 * Returns:
 * - UCXX_OK: `*listener` is set.
 * - UCXX_ERR_INVALID_PARAM: an argument is invalid, or the host is on another interface under
 *   UCXX_NETWORK_LOCAL.
 * - UCXX_ERR_UNREACHABLE: the name is unknown.
 * - UCXX_ERR_UNSUPPORTED: the address is of a family over which the context does not connect: see
 *   ucxx_endpoint_connect.
 * - UCXX_ERR_BUSY: the port is in use. Also: called in a callback on another thread, see
 *   "Callbacks" at the top of this file.
 * - UCXX_ERR_CLOSED: the notifier was stopped.
 * - Any status of UCX: the message has its reason.
 *
 * Threads: any.
 * Ownership: the caller owns the listener. It keeps the worker's memory alive, and ends with the
 * worker.
 * See also: ucxx_endpoint_accept, ucxx_listener_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_listener_create(ucxx_worker_t *worker, const ucxx_listener_params_t *params, ucxx_listener_t **listener);

/**
 * Returns the port of the listener.
 *
 * Returns: the port. 0 for NULL.
 *
 * Threads: any.
 */
uint16_t ucxx_listener_port(const ucxx_listener_t *listener);

/**
 * Writes the address that the listener is bound to into `text`: "ip:port", with an IPv6 address in
 * brackets.
 *
 * The text is terminated. A listener on every interface has the address "0.0.0.0" or "[::]".
 * `capacity` is in bytes, and 64 are always sufficient.
 *
 * Returns:
 * - UCXX_OK: `text` is written.
 * - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
 *
 * Threads: any.
 * See also: ucxx_listener_port, ucxx_conn_request_address.
 */
ucxx_status_t ucxx_listener_address(const ucxx_listener_t *listener, char *text, size_t capacity);

/**
 * Stops listening, and releases the listener.
 *
 * - Requests without an answer are rejected. Accepted endpoints continue.
 * - The call waits until `on_connect` no longer runs. NULL is ignored.
 * - It takes about 0.11 s, because UCX would otherwise call a destroyed listener for a connection
 *   that is just arriving. If UCX holds such a connection, the call takes 0.5 s more, or 5 s if
 *   the connection has data that UCX has not read.
 * - Under manual progress it makes progress.
 *
 * Threads: any.
 * Callbacks: in a callback it does not wait. Otherwise it waits for a running `on_connect`, or
 * another running callback of a progress thread. That callback must not wait for the calling
 * thread: see ucxx_worker_destroy.
 */
void ucxx_listener_destroy(ucxx_listener_t *listener);

/**
 * Writes the address of the requesting peer into `text`: "ip:port", with an IPv6 address in
 * brackets.
 *
 * The text is terminated. It is empty if UCX does not know the address. `capacity` is in bytes,
 * and 64 are always sufficient.
 *
 * Returns:
 * - UCXX_OK: `text` is written.
 * - UCXX_ERR_BUFFER_TOO_SMALL: nothing is written. The message has the needed capacity.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_conn_request_address(const ucxx_conn_request_t *conn_request, char *text, size_t capacity);

/**
 * Rejects the connection: the peer's endpoint ends with UCXX_ERR_REJECTED.
 *
 * Returns:
 * - UCXX_OK: the request is answered.
 * - UCXX_ERR_INVALID_PARAM: it was answered before.
 * - UCXX_ERR_CLOSED: its listener was destroyed before.
 *
 * Threads: any.
 * Ownership: the caller still destroys the request.
 * See also: ucxx_endpoint_accept, ucxx_conn_request_destroy.
 */
ucxx_status_t ucxx_conn_request_reject(ucxx_conn_request_t *conn_request);

/**
 * Releases the request, and rejects it if it was not answered. NULL is ignored.
 *
 * Threads: any.
 * See also: ucxx_conn_request_reject.
 */
void ucxx_conn_request_destroy(ucxx_conn_request_t *conn_request);

/**
 * Sends a message with a tag. This is an operation.
 *
 * It completes locally: when the buffer may be reused.
 *
 * - A short or buffered send completes inside the call: UCXX_OK, no request, no callback. This
 *   holds if the call submits to UCX itself. With a progress thread the send passes through its
 *   queue (see `delayed_submission`), and completes later.
 * - A zero-copy or rendezvous send completes when UCX no longer needs the buffer.
 * - A send with neither request nor callback reports its error only to a later flush.
 * - Messages that one thread sends on one endpoint match in the order of the sends.
 *
 * `length` is in bytes.
 *
 * Returns:
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_TAG.
 *
 * Threads: any.
 * See also: ucxx_tag_send_sync, ucxx_tag_send_iov, ucxx_tag_recv, ucxx_endpoint_flush.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_tag_send, but completes only after a receive has matched the message.
 *
 * See also: ucxx_tag_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_sync(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_tag_send, from several buffers that form one message. Every tag receive can receive it.
 *
 * The call copies the list, not the buffers. This and every other list of buffers has at most
 * 1,048,576 entries. A longer one is UCXX_ERR_INVALID_PARAM.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types differ: see ucxx_buffer_t.
 * - Any status of ucxx_tag_send.
 *
 * Threads: any.
 * See also: ucxx_tag_recv_iov, ucxx_tag_send_multi.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_iov(ucxx_endpoint_t *endpoint, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives one message from any endpoint of the worker. This is an operation.
 *
 * It matches a message whose tag equals `tag` in the bits of `tag_mask`. `length` is in bytes. The
 * length and tag of the message are stored in `recv_info`.
 *
 * - A receive belongs to no endpoint. Name an endpoint in `source`, or set a timeout, if the death
 *   of the sender shall end it.
 * - Messages that no receive matches wait at the receiver, without a limit.
 *
 * Returns:
 * - UCXX_ERR_MESSAGE_TRUNCATED: the message is longer than `length`. `recv_info` has its full
 *   length. The contents of the buffer are undefined.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_TAG.
 *
 * Threads: any.
 * See also: ucxx_tag_probe, ucxx_tag_recv_iov, ucxx_request_cancel.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv(ucxx_worker_t *worker, void *buffer, size_t length, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * As ucxx_tag_recv, into several buffers, which are filled one after the other.
 *
 * The call copies the list, not the buffers.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types differ: see ucxx_buffer_t.
 * - Any status of ucxx_tag_recv.
 *
 * Threads: any.
 * See also: ucxx_tag_send_iov.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv_iov(ucxx_worker_t *worker, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Checks for a message that has arrived and was not received. It makes no progress.
 *
 * The tag matches as in ucxx_tag_recv. If `message` is not NULL, the message is removed from
 * matching. Receive it with ucxx_tag_message_recv. `message` is optional.
 *
 * Returns:
 * - UCXX_OK: `*info` is filled, and `*message` is set.
 * - UCXX_ERR_NO_MESSAGE: there is no matching message.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_TAG.
 * - UCXX_ERR_BUSY: called in a callback on another thread: see "Callbacks" at the top of this
 *   file.
 *
 * Threads: any.
 * Ownership: the caller owns `*message`.
 * See also: ucxx_tag_message_recv, ucxx_tag_message_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_probe(ucxx_worker_t *worker, uint64_t tag, uint64_t tag_mask, ucxx_recv_info_t *info, ucxx_tag_message_t **message);

/**
 * Receives a message that a probe removed from matching. This is an operation.
 *
 * Call it once for a message. In all other respects it is ucxx_tag_recv.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: it was received before.
 * - Any status of ucxx_tag_recv.
 *
 * Threads: any.
 * Ownership: the caller still destroys the message.
 * See also: ucxx_tag_probe.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_message_recv(ucxx_tag_message_t *message, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Releases the message.
 *
 * If it was not received, it is dropped, and its sender completes as if it had been received. NULL
 * is ignored.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE, the worker's own thread.
 */
void ucxx_tag_message_destroy(ucxx_tag_message_t *message);

/**
 * Sends bytes after those that this endpoint has sent before. This is an operation.
 *
 * The peer receives them from its endpoint, in pieces of any size. `length` is in bytes.
 *
 * - It completes locally, as ucxx_tag_send does.
 * - A send that fails may have sent a part of its bytes. Later bytes would be out of place, so
 *   close the endpoint.
 * - With length 0 nothing is sent. The operation completes inside the call, unless it passes
 *   through the queue of a progress thread.
 * - Bytes that the peer has not received wait there, without a limit.
 *
 * Returns:
 * - Any status of an operation: see "Operations" at the top of this file. Both sides need
 *   UCXX_FEATURE_STREAM.
 *
 * Threads: any.
 * See also: ucxx_stream_recv.
 */
UCXX_NODISCARD ucxx_status_t ucxx_stream_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives the next `length` bytes that the peer sends on its endpoint. This is an operation.
 *
 * With UCXX_FLAG_STREAM_PARTIAL it receives the bytes that have arrived: at least one, unless
 * `length` is 0. `recv_info.length` has the number of bytes, also after an error.
 *
 * - Receives of one endpoint are filled in the order in which they were posted. They end with the
 *   endpoint.
 * - A receive that is cancelled or times out ends at once. The bytes that it has taken are no
 *   longer in the stream: they are the first `recv_info.length` bytes of its buffer.
 * - Bytes that were sent before the peer closed can be received after the close. Then receives
 *   return UCXX_ERR_CONNECTION_RESET.
 * - If the peer fails, bytes that were not received are lost.
 * - The library copies, so the CPU must be able to write to `buffer`: HOST, CUDA_PINNED or
 *   CUDA_MANAGED. With UCXX_MEMORY_AUTO, memory of a CUDA device is detected and refused. All
 *   other memory is taken as host memory.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the CPU cannot write to `buffer`.
 * - Any status of an operation: see "Operations" at the top of this file. Both sides need
 *   UCXX_FEATURE_STREAM.
 *
 * Threads: any.
 * See also: ucxx_stream_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_stream_recv(ucxx_endpoint_t *endpoint, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Registers `handler` for the active messages that arrive with this `id` from now on.
 *
 * - `id`: active messages, multi-buffer messages and fetches have separate id spaces of 65,536 ids
 *   each.
 * - `handler`: NULL removes the handler.
 * - `destroy_arg`: optional. It is not called if this function returns an error.
 *
 * Messages that arrive without a handler:
 * - Data that waits at the sender: the send completes with UCXX_ERR_NO_ELEM.
 * - Data that arrived with its message: the message is dropped. It is counted in `am_unhandled` of
 *   ucxx_worker_query_stats.
 *
 * When this function returns, the previous handler may still be running on another thread.
 * `destroy_arg` reports when its `arg` is free.
 *
 * Returns:
 * - UCXX_OK: the handler is registered or removed.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_AM.
 * - UCXX_ERR_BUSY: called from a callback "on another thread": see "Callbacks" at the top of this
 *   file.
 *
 * Threads: any.
 * Ownership: `arg` must stay valid until `destroy_arg` has run.
 * See also: ucxx_am_handler_t, ucxx_worker_set_am_notifier, ucxx_am_send.
 */
ucxx_status_t ucxx_worker_set_am_handler(ucxx_worker_t *worker, uint16_t id, ucxx_am_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg);

/**
 * Has `notifier` report the active messages that arrive with this `id` from now on.
 *
 * The notifier takes the place of a handler. Each message is reported as UCXX_EVENT_AM_MESSAGE.
 *
 * - `notifier`: NULL removes what is registered for the id.
 * - `user_data`: the `user_data` of each report.
 *
 * Messages that are already in the queue of a notifier stay there when the registration changes.
 * The notifier may be destroyed before the worker: messages that arrive later are dropped.
 *
 * Returns:
 * - UCXX_OK: the notifier is registered or removed.
 * - UCXX_ERR_INVALID_PARAM: the notifier belongs to another context.
 * - UCXX_ERR_CLOSED: the notifier was stopped.
 * - UCXX_ERR_UNSUPPORTED, UCXX_ERR_BUSY: as for ucxx_worker_set_am_handler.
 *
 * Threads: any.
 * Ownership: the thread that polls a message owns it, as a handler would.
 * See also: ucxx_worker_set_am_handler, ucxx_notifier_poll.
 */
ucxx_status_t ucxx_worker_set_am_notifier(ucxx_worker_t *worker, uint16_t id, ucxx_notifier_t *notifier, void *user_data);

/**
 * Sends an active message, that is a header and data, to the peer's handler or notifier for `id`.
 * This is an operation.
 *
 * - `header`: copied during the call. At most `max_am_header` bytes (see ucxx_worker_query). May
 *   be empty.
 * - `buffer`, `length`: the data, in bytes. May be empty. The buffer is not copied.
 * - `params->memory_type`: where the buffer is. The receiver gets this value, too.
 *
 * A short message is easiest as a header alone: it needs no buffer that is kept, and it arrives at
 * once.
 *
 * The data of a short message travels with it (eager). The data of a longer message stays at the
 * sender until the receiver pulls it (rendezvous). Receivers must expect both.
 * - UCX chooses the limit. In the UCX releases that were tried it is 5 to 8 KiB over shared memory
 *   and 0.1 to 0.3 MiB over TCP. UCX_RNDV_THRESH sets it. Between processes of one host that
 *   exchange many messages it may be 16 KiB.
 * - Data of more than 1 MiB always stays at the sender.
 * - UCXX_FLAG_EAGER sends the data along at any length. This copies it and takes memory at the
 *   receiver.
 * - UCXX_FLAG_RNDV keeps the data here at any length.
 *
 * UCXX_FLAG_AM_REPLY gives the receiver an endpoint to reply on.
 *
 * Order: messages of one thread on one endpoint reach their handlers in the order in which they
 * were sent, whatever their sizes.
 *
 * Completion is local, as for ucxx_tag_send. Rendezvous data completes when the receiver has
 * pulled it, or has destroyed the message without receiving it.
 *
 * Credit: an endpoint has at most 256 messages and 8 MiB of eager data that are in transit or that
 * the receiver has not destroyed. Further messages wait in the endpoint's send queue. So a
 * receiver that does not destroy its messages stops its senders.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the peer does not use this library.
 * - UCXX_ERR_NO_ELEM: the data waited here, and the peer has no handler for `id`.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_AM.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid and unchanged until the operation has completed.
 * See also: ucxx_worker_set_am_handler, ucxx_am_send_iov, ucxx_am_send_multi,
 * ucxx_endpoint_on_writable.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends an active message whose data is in scattered buffers.
 *
 * The list is copied during the call; the buffers are not. At most 1,048,576 buffers, all of one
 * memory type.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
 * - Any status of ucxx_am_send.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid and unchanged until the operation has completed.
 * See also: ucxx_am_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send_iov(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Returns the header that the sender gave, and its length in bytes.
 *
 * Returns NULL and length 0 if there is no header. `length` is optional.
 *
 * Threads: any.
 * Ownership: the header is valid until the message is destroyed.
 */
const void *ucxx_am_message_header(const ucxx_am_message_t *message, size_t *length);

/**
 * Returns the length of the message's data in bytes; 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_am_message_length(const ucxx_am_message_t *message);

/**
 * Returns the data that arrived with the message.
 *
 * It returns NULL in two cases:
 * - The data waits at the sender. ucxx_am_message_length is not 0. Receive it by
 *   ucxx_am_message_recv.
 * - The message has no data. ucxx_am_message_length is 0, and there is nothing to receive.
 *
 * The data is aligned to 8 bytes if UCX delivered it so.
 *
 * Threads: any.
 * Ownership: valid until the message or its worker is destroyed. Until then a send may use it as
 * its buffer: destroy the message after that send has completed.
 * See also: ucxx_am_message_recv.
 */
const void *ucxx_am_message_data(const ucxx_am_message_t *message);

/**
 * Returns the UCXX_MEMORY_* value that the sender gave, or UCXX_MEMORY_HOST if it gave none.
 *
 * Data that arrived with the message is in host memory in any case.
 *
 * Threads: any.
 */
int32_t ucxx_am_message_memory_type(const ucxx_am_message_t *message);

/**
 * Returns the endpoint to the sender, to reply on.
 *
 * Returns NULL unless the sender set UCXX_FLAG_AM_REPLY. If the user has an endpoint to that peer,
 * it is that one.
 *
 * Threads: any.
 * Ownership: borrowed, and valid until the message is destroyed. ucxx_endpoint_retain makes a
 * handle of the caller's own. A reply that was sent continues when the message is destroyed.
 * See also: ucxx_endpoint_retain.
 */
ucxx_endpoint_t *ucxx_am_message_reply(const ucxx_am_message_t *message);

/**
 * Receives the data of a message into `buffer`, once. This is an operation.
 *
 * Data that arrived with the message is copied. Data that waits at the sender is pulled directly
 * into `buffer`. The call is allowed in the handler or later, also for a message that a notifier
 * reported.
 *
 * - `length`: the size of `buffer` in bytes; at least ucxx_am_message_length.
 * - Data that arrived with the message is copied into CUDA memory by the driver, and the call
 *   waits for that copy.
 *
 * A pull that UCX has started cannot be cancelled. Its timeout does not end it either, except with
 * UCXX_FLAG_TIMEOUT_CLOSES.
 *
 * Returns:
 * - UCXX_ERR_MESSAGE_TRUNCATED: `buffer` is too short. The message is unchanged and can be
 *   received again.
 * - UCXX_ERR_INVALID_PARAM: the message was received before, even if that receive failed later.
 * - UCXX_ERR_CONNECTION_RESET: the data waits at the sender, and the sender's connection has
 *   ended.
 * - UCXX_ERR_UNSUPPORTED: the data arrived with the message, and `memory_type` is ROCm.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * Ownership: the caller destroys the message afterwards, or while the receive is in progress.
 * `buffer` must stay valid until the operation has completed.
 * See also: ucxx_am_message_data, ucxx_am_message_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_message_recv(ucxx_am_message_t *message, void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives the data of a message into scattered buffers, which are filled one after the other.
 *
 * The list is copied during the call. At most 1,048,576 buffers, all of one memory type.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the data is pulled, and the memory types of the buffers differ.
 * - Any status of ucxx_am_message_recv.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid until the operation has completed.
 * See also: ucxx_am_message_recv.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_message_recv_iov(ucxx_am_message_t *message, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Releases a message. NULL is ignored.
 *
 * Data that was not received is dropped, and its send completes as if it had been received. A
 * receive that was started continues, and so does a reply on ucxx_am_message_reply.
 *
 * Threads: any.
 */
void ucxx_am_message_destroy(ucxx_am_message_t *message);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_allocator_init(ucxx_allocator_t *value, size_t struct_size);

/**
 * Takes the buffers out of a request that has completed with UCXX_OK.
 *
 * Call it once. Buffers that are not taken are freed with the request.
 *
 * Returns:
 * - UCXX_OK: `*buffers` is set.
 * - UCXX_INPROGRESS: the operation has not completed.
 * - UCXX_ERR_NO_ELEM: the request has no buffers, or they were taken.
 * - Any other value: the error of the operation.
 *
 * Threads: any.
 * Ownership: the caller owns the buffers.
 * See also: ucxx_buffers_get, ucxx_buffers_take, ucxx_buffers_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_take_buffers(ucxx_request_t *request, ucxx_buffers_t **buffers);

/**
 * Returns the number of buffers.
 *
 * Returns: the number. 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_buffers_count(const ucxx_buffers_t *buffers);

/**
 * Returns one of the buffers.
 *
 * `data` is NULL if the length is 0, or if the buffer was taken.
 *
 * Returns:
 * - UCXX_OK: `*buffer` is filled.
 * - UCXX_ERR_OUT_OF_RANGE: `index` is not below ucxx_buffers_count.
 *
 * Threads: any.
 * Ownership: the buffer stays with the others.
 */
UCXX_NODISCARD ucxx_status_t ucxx_buffers_get(const ucxx_buffers_t *buffers, size_t index, ucxx_buffer_t *buffer);

/**
 * Takes one of the buffers out of the others. A frame that shares a block (see
 * ucxx_allocator_t) is copied, so its address is another one than that of ucxx_buffers_get.
 *
 * Returns:
 * - UCXX_OK: `*buffer` is filled.
 * - UCXX_ERR_OUT_OF_RANGE: `index` is not below ucxx_buffers_count.
 * - UCXX_ERR_NO_MEMORY: there is no memory for the copy. The buffer stays with the others.
 *
 * Threads: any, while no other thread uses the buffers.
 * Ownership: the caller frees the buffer: with its own `deallocate` if it gave one, otherwise with
 * free(). UCXX_MEMORY_CUDA is freed with cuMemFree, in the primary context of the device
 * `device_id`.
 */
UCXX_NODISCARD ucxx_status_t ucxx_buffers_take(ucxx_buffers_t *buffers, size_t index, ucxx_buffer_t *buffer);

/**
 * Frees the buffers that were not taken, with their allocator. NULL is ignored.
 *
 * Threads: any.
 */
void ucxx_buffers_destroy(ucxx_buffers_t *buffers);

/**
 * Sends several buffers (frames) as one transfer under one tag. This is an operation.
 *
 * ucxx_tag_recv_multi receives them as one, and so does tagMultiRecv of UCXX 0.52: the bytes on
 * the wire are UCXX's. Headers announce the frames, which follow one by one. The call copies the
 * list, not the buffers.
 *
 * - It completes locally: when all buffers may be reused. If a frame fails, the operation fails
 *   when all others have ended.
 * - With `count` 0 it sends one header. UCXX does not complete the receive of it.
 * - Device memory needs its `memory_type`: UCXX_MEMORY_AUTO is announced as host memory.
 * - The endpoint sends nothing else in between. But a receiver cannot distinguish the frames from
 *   messages of other endpoints under the same tag: see ucxx_tag_recv_multi.
 * - A send that is cancelled or times out continues if its first header has left.
 *
 * Returns:
 * - UCXX_ERR_NO_RESOURCE: the send queue has no room for the first message and the bytes of all.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_TAG.
 *
 * Threads: any.
 * See also: ucxx_tag_recv_multi, ucxx_am_send_multi.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_send_multi(ucxx_endpoint_t *endpoint, const ucxx_buffer_t *buffers, size_t count, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Receives what ucxx_tag_send_multi, or tagMultiSend of UCXX 0.52, sends. This is an operation.
 *
 * It receives as many buffers as were sent, and never completes inside the call. When the header
 * arrives, `allocator` makes the buffers. A NULL `allocator` means the library's own memory and
 * the default limits. Take the buffers with ucxx_request_take_buffers. `recv_info` has the bytes
 * of all buffers and the tag.
 *
 * The wire format does not connect a frame with its header. Consequences:
 *
 * - If two receives of a worker could match the same messages, the later one waits until the
 *   earlier one has posted its frames.
 * - After its header, a receive accepts only messages with exactly the tag of that header.
 * - Senders on different endpoints that use the same tag at the same time mix up their frames. So
 *   do other messages under the tag. Give each sender its own tag, and receive with a mask.
 *
 * ucxx_am_send_multi has no such limits.
 *
 * If the receive is refused (EXCEEDS_LIMIT, or the status of the allocator), the frames are
 * received and dropped. So the sender completes, and the tag stays usable. If a receive is
 * cancelled or times out after its header arrived, its frames stay as separate messages.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither request nor callback. No
 *   handle would exist to take the buffers from.
 * - UCXX_ERR_IO_ERROR: a length does not fit its announcement, or a message is not a header.
 * - UCXX_ERR_EXCEEDS_LIMIT: more frames or bytes than the allocator allows.
 * - The status of `allocate`: a buffer could not be made. If the library makes the buffers:
 *   UCXX_ERR_NO_MEMORY, or for CUDA memory see ucxx_allocator_t.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_TAG.
 *
 * Threads: any.
 * Ownership: the caller keeps `arg` of the allocator until the last buffer is freed.
 * See also: ucxx_request_take_buffers, ucxx_tag_send_multi.
 */
UCXX_NODISCARD ucxx_status_t ucxx_tag_recv_multi(ucxx_worker_t *worker, uint64_t tag, uint64_t tag_mask, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Registers `handler` for the multi-buffer messages that arrive with this `id` from now on.
 *
 * - `id`: multi-buffer messages have an id space of their own.
 * - `handler`: NULL removes the handler.
 * - `destroy_arg`: as for ucxx_worker_set_am_handler.
 * - `allocator`: makes the buffers of the messages. NULL means malloc, with its limits.
 *
 * Returns:
 * - Any status of ucxx_worker_set_am_handler.
 *
 * Threads: any.
 * Ownership: the allocator's functions may be called as long as the handler runs or one of its
 * buffers exists.
 * See also: ucxx_worker_set_am_handler, ucxx_am_send_multi.
 */
ucxx_status_t ucxx_worker_set_multi_handler(ucxx_worker_t *worker, uint16_t id, ucxx_multi_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg, const ucxx_allocator_t *allocator);

/**
 * Sends several buffers and a header as one active message. The handler gets each buffer
 * separately. This is an operation.
 *
 * The number of buffers is free, and any number of senders and receivers may be active at once.
 * Both lists are copied during the call; the buffers are not. All buffers of one message must have
 * the same memory type.
 *
 * Local completion, order, credit, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV, UCXX_FLAG_AM_REPLY and
 * UCXX_FLAG_NO_WAIT are as for ucxx_am_send.
 *
 * The message carries a table with 8 bytes a buffer. The table precedes the header if the
 * transports have room for both, which is the case for some hundred buffers. A larger table
 * travels with the data. Then large buffers pass through an intermediate copy at the receiver, and
 * they cannot be device memory.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: too many buffers of device memory, or the memory types of the buffers
 *   differ.
 * - Any status of ucxx_am_send.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid and unchanged until the operation has completed.
 * See also: ucxx_worker_set_multi_handler, ucxx_am_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_send_multi(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends a message into a queue of the peer's endpoint, where it waits until the peer receives it.
 * This is an operation.
 *
 * The peer receives it by ucxx_am_queue_recv, or by amRecv of UCXX 0.52, whose wire format it has.
 *
 * - Completion is local, as for ucxx_am_send. UCXX_FLAG_EAGER and UCXX_FLAG_RNDV work as there.
 * - There is no credit, as with UCXX: messages that are not received accumulate at the receiver
 *   without bound.
 * - Order: messages of one thread on one endpoint stay in order if all are eager or all are
 *   rendezvous.
 *
 * Returns:
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_AM.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid and unchanged until the operation has completed.
 * See also: ucxx_am_queue_send_to, ucxx_am_queue_recv, ucxx_am_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_send(ucxx_endpoint_t *endpoint, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_am_queue_cover_init(ucxx_am_queue_cover_t *value, size_t struct_size);

/**
 * Sends a message with a header to the peer's queue, or to the peer's handler that `cover` names.
 * This is an operation.
 *
 * Such a handler is one of ucxx_worker_set_am_queue_handler, or a receiver callback of UCXX 0.52.
 * NULL for `cover` is ucxx_am_queue_send.
 *
 * A peer without that handler drops the message. If the data waits at this side, the send then
 * completes with UCXX_ERR_NO_ELEM. There is no credit, as for the queue: such messages take memory
 * at the receiver without bound.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: an owner of more than 63 bytes, an id without an owner, or a header
 *   that is too long.
 * - UCXX_ERR_NO_ELEM: the data waited here, and the peer has no such handler.
 * - UCXX_ERR_UNSUPPORTED: the data waited here with UCXX_AM_MEMORY_EXACT, and the peer makes no
 *   such memory.
 * - Any status of ucxx_am_queue_send.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid and unchanged until the operation has completed. Owner name
 * and header are copied.
 * See also: ucxx_am_queue_send, ucxx_worker_set_am_queue_handler.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_send_to(ucxx_endpoint_t *endpoint, const ucxx_am_queue_cover_t *cover, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends a message whose data is in scattered buffers. In all other respects it is
 * ucxx_am_queue_send_to.
 *
 * - `cover`: as for ucxx_am_queue_send_to. NULL sends to the peer's queue, without a header.
 * - `buffers`, `count`: at most 1,048,576 buffers, all of one memory type. The list is copied
 *   during the call; the buffers are not.
 *
 * The peer receives one buffer, with the data of all of them in the order of the list.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
 * - Any status of ucxx_am_queue_send_to.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid and unchanged until the operation has completed. Owner
 * name and header are copied.
 * See also: ucxx_am_queue_send_to, ucxx_am_send_iov.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_send_iov(ucxx_endpoint_t *endpoint, const ucxx_am_queue_cover_t *cover, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Registers `handler` for messages that name this `owner` and `id`.
 *
 * They are sent by ucxx_am_queue_send_to, or by UCXX 0.52 (`AmReceiverCallbackInfo`). The handler
 * has the same type as for ucxx_worker_set_multi_handler. It gets one buffer a message, and always
 * an endpoint to reply on.
 *
 * - `owner`: at most 63 bytes and a terminating zero.
 * - `handler`: NULL removes the handler.
 * - `destroy_arg`: as for ucxx_worker_set_am_handler.
 * - `allocator`: makes the buffers. NULL means malloc, with its limits.
 *
 * Order: the messages of one endpoint for such handlers are delivered in the order in which they
 * arrived.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: an owner of more than 63 bytes, or "ucxx", which UCXX reserves.
 * - Any status of ucxx_worker_set_am_handler.
 *
 * Threads: any.
 * Ownership: the allocator's functions may be called as long as the handler runs or one of its
 * buffers exists.
 * See also: ucxx_am_queue_send_to, ucxx_worker_set_multi_handler.
 */
ucxx_status_t ucxx_worker_set_am_queue_handler(ucxx_worker_t *worker, const char *owner, uint64_t id, ucxx_multi_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg, const ucxx_allocator_t *allocator);

/**
 * Receives the oldest message of the endpoint's queue, or the next one that arrives, into a new
 * buffer. This is an operation.
 *
 * - `allocator`: makes the buffer. NULL means malloc, with its limits. Take the buffer by
 *   ucxx_request_take_buffers.
 * - The peer uses ucxx_am_queue_send, ucxx_am_queue_send_to, or UCXX. ucxx_request_am_header
 *   returns its header.
 * - `recv_info.length` is the length of the message in bytes.
 * - Order: receives get messages in the order in which they were posted.
 *
 * Cancel and timeout:
 * - A receive that is cancelled or times out takes no message.
 * - A receive whose data is already being pulled continues.
 * - The receive ends with its endpoint. Messages that wait in the queue are dropped then.
 *
 * Returns:
 * - UCXX_INPROGRESS: it never completes inside the call.
 * - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither a request nor a callback to
 *   take the buffer from.
 * - UCXX_ERR_EXCEEDS_LIMIT: the message is longer than `max_total_bytes`. It is dropped.
 * - The status that the allocator returned. The message is dropped.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_AM.
 *
 * Threads: any.
 * Ownership: the caller owns the buffer that ucxx_request_take_buffers returns.
 * See also: ucxx_request_take_buffers, ucxx_request_am_header, ucxx_am_queue_probe.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_recv(ucxx_endpoint_t *endpoint, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Returns the header of the message that ucxx_am_queue_recv has received.
 *
 * `*header` is NULL if `*length` is 0. The sender is ucxx_am_queue_send_to or UCXX.
 *
 * Returns:
 * - UCXX_OK: `*header` and `*length` are set.
 * - UCXX_INPROGRESS: the receive has not completed.
 * - UCXX_ERR_NO_ELEM: the request is of another operation.
 * - The status of the request, if the receive has failed.
 *
 * Threads: any.
 * Ownership: the header is valid until the request is destroyed.
 */
UCXX_NODISCARD ucxx_status_t ucxx_request_am_header(const ucxx_request_t *request, const void **header, size_t *length);

/**
 * Checks whether a message that has not been received waits in the endpoint's queue.
 *
 * It does not progress the worker. `length` is optional, and gets the length of the oldest message
 * in bytes.
 *
 * Returns:
 * - UCXX_OK: a message waits, and `*length` is set.
 * - UCXX_ERR_NO_MESSAGE: no message waits.
 *
 * Threads: any.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_queue_probe(const ucxx_endpoint_t *endpoint, size_t *length);

/**
 * Registers `handler` for the fetches that arrive with this `id` from now on.
 *
 * - `handler`: NULL removes the handler. A fetch that arrives without a handler completes with
 *   UCXX_ERR_NO_ELEM at its requester.
 * - `destroy_arg`: as for ucxx_worker_set_am_handler.
 *
 * Returns:
 * - Any status of ucxx_worker_set_am_handler.
 *
 * Threads: any.
 * Ownership: `arg` must stay valid until `destroy_arg` has run.
 * See also: ucxx_worker_set_am_handler, ucxx_worker_set_fetch_notifier, ucxx_am_fetch.
 */
ucxx_status_t ucxx_worker_set_fetch_handler(ucxx_worker_t *worker, uint16_t id, ucxx_fetch_handler_t handler, void *arg, ucxx_destroy_arg_t destroy_arg);

/**
 * Has `notifier` report the fetches that arrive with this `id` from now on.
 *
 * The notifier takes the place of a handler. Each fetch is reported as UCXX_EVENT_FETCH. NULL,
 * `user_data` and a change of the registration work as for ucxx_worker_set_am_notifier.
 *
 * Credit: a fetch that a notifier reports holds its credit until it is destroyed, as a message
 * does. A requester waits while 256 of its fetches have not been destroyed.
 *
 * If the notifier is destroyed:
 * - Fetches that it had not reported complete with UCXX_ERR_CANCELED at their requester.
 * - Fetches that arrive later complete with UCXX_ERR_NO_ELEM.
 *
 * Returns:
 * - Any status of ucxx_worker_set_am_notifier.
 *
 * Threads: any.
 * Ownership: the thread that polls a fetch owns it, as a handler would.
 * See also: ucxx_worker_set_fetch_handler, ucxx_notifier_poll.
 */
ucxx_status_t ucxx_worker_set_fetch_notifier(ucxx_worker_t *worker, uint16_t id, ucxx_notifier_t *notifier, void *user_data);

/**
 * Asks the peer's handler or notifier for data, and receives the reply into `reply_buffer`. This
 * is an operation.
 *
 * - `header`: the request for the handler. It is copied, and limited in length as for
 *   ucxx_am_send.
 * - `reply_capacity`: the size of `reply_buffer` in bytes. The handler can read it. A shorter
 *   reply leaves the rest of the buffer unchanged.
 * - `params->memory_type`: where `reply_buffer` is.
 * - `recv_info.length`: the length of the reply in bytes, also if it did not fit.
 *
 * A small reply takes one round trip. A large reply is pulled directly into the buffer.
 *
 * Order: fetches and active messages of one thread on one endpoint are delivered in the order in
 * which they were sent. Replies arrive in any order.
 *
 * Credit: fetches use credit as active messages do. A fetch returns its credit when it is
 * delivered to its handler, so a fetch without a reply holds none.
 *
 * Cancel and timeout complete the fetch at once if its reply has not begun to arrive. The buffer
 * then belongs to the caller again, whatever the peer sends later.
 *
 * Returns:
 * - UCXX_INPROGRESS: it never completes inside the call.
 * - UCXX_ERR_MESSAGE_TRUNCATED: the reply is longer than `reply_capacity`. The buffer is
 *   unchanged.
 * - UCXX_ERR_NO_ELEM: the peer has no handler for `id`, or has rejected the fetch with this
 *   status.
 * - UCXX_ERR_CANCELED: the peer has destroyed the fetch without a reply, or the fetch was
 *   cancelled.
 * - The status that the peer gave to ucxx_fetch_reject.
 * - UCXX_ERR_UNSUPPORTED: the peer does not use this library.
 * - UCXX_ERR_NO_RESOURCE: 1,048,575 fetches of the worker wait for replies.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_AM.
 *
 * Threads: any.
 * Ownership: `reply_buffer` must stay valid until the operation has completed.
 * See also: ucxx_worker_set_fetch_handler, ucxx_fetch_reply, ucxx_am_fetch_iov,
 * ucxx_am_fetch_alloc.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, void *reply_buffer, size_t reply_capacity, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Fetches into scattered buffers, which are filled one after the other.
 *
 * The list is copied during the call. At most 1,048,576 buffers, all of one memory type.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
 * - Any status of ucxx_am_fetch.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid until the operation has completed.
 * See also: ucxx_am_fetch.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch_iov(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const ucxx_buffer_t *reply_buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Fetches with data in the request, and receives the reply into one new buffer of the reply's
 * length. This is an operation.
 *
 * - `data`, `data_length`: sent along with the request; up to 8 MiB (8388608 bytes).
 * - `params->memory_type`: where `data` is.
 * - `allocator`: makes the buffer for the reply. NULL means malloc, with its limits. Take the
 *   buffer by ucxx_request_take_buffers.
 *
 * The memory type that the allocator is asked for:
 * - for a reply that is pulled: the memory type that the peer gave;
 * - for a reply that arrives with its data: host memory.
 *
 * Returns:
 * - UCXX_ERR_EXCEEDS_LIMIT: `data_length` is more than 8 MiB, or the reply is longer than
 *   `max_total_bytes`.
 * - UCXX_ERR_INVALID_PARAM: UCXX_FLAG_WAIT is set, or there is neither a request nor a callback to
 *   take the buffer from.
 * - The status that the allocator returned.
 * - Any status of ucxx_am_fetch.
 *
 * Threads: any.
 * Ownership: `data` must stay valid and unchanged until the operation has completed. The caller
 * owns the buffer that ucxx_request_take_buffers returns.
 * See also: ucxx_am_fetch, ucxx_fetch_data, ucxx_request_take_buffers.
 */
UCXX_NODISCARD ucxx_status_t ucxx_am_fetch_alloc(ucxx_endpoint_t *endpoint, uint16_t id, const void *header, size_t header_length, const void *data, size_t data_length, const ucxx_allocator_t *allocator, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Returns the header of a received fetch, and its length in bytes.
 *
 * Returns NULL and length 0 if there is no header. `length` is optional.
 *
 * Threads: any.
 * Ownership: the header is valid until the fetch is destroyed.
 */
const void *ucxx_fetch_header(const ucxx_fetch_t *fetch, size_t *length);

/**
 * Returns the data that arrived with a fetch, and its length in bytes.
 *
 * Returns NULL and length 0 if there is no data. `length` is optional.
 *
 * Threads: any.
 * Ownership: the data is valid until the fetch or its worker is destroyed.
 * See also: ucxx_am_fetch_alloc.
 */
const void *ucxx_fetch_data(const ucxx_fetch_t *fetch, size_t *length);

/**
 * Returns how many bytes of reply the requester has room for.
 *
 * SIZE_MAX means that the requester allocates a buffer for the reply (ucxx_am_fetch_alloc).
 *
 * Threads: any.
 */
size_t ucxx_fetch_capacity(const ucxx_fetch_t *fetch);

/**
 * Returns the endpoint to the requester.
 *
 * If the user has an endpoint of that connection, it is that one. Otherwise the library has made
 * one.
 *
 * Threads: any.
 * Ownership: borrowed, and valid until the fetch is destroyed. ucxx_endpoint_retain makes a handle
 * of the caller's own.
 * See also: ucxx_endpoint_retain.
 */
ucxx_endpoint_t *ucxx_fetch_endpoint(const ucxx_fetch_t *fetch);

/**
 * Sends the reply to a fetch, once. This is an operation.
 *
 * The request is that of a send: it completes when `buffer` may be reused.
 *
 * - A reply longer than ucxx_fetch_capacity is not sent. The requester gets its length and
 *   UCXX_ERR_MESSAGE_TRUNCATED. The reply completes with UCXX_OK here.
 * - UCXX_FLAG_EAGER and UCXX_FLAG_RNDV work as for ucxx_am_send.
 * - Replies need no credit. They may wait whatever the limit of the send queue, except with
 *   UCXX_FLAG_NO_WAIT.
 * - If this call returns an error, the fetch has no reply yet, and the caller may reply again.
 * - A waiting reply that is cancelled or times out completes the fetch with UCXX_ERR_CANCELED at
 *   the requester.
 *
 * Returns:
 * - UCXX_ERR_ALREADY_EXISTS: the fetch already has a reply or was rejected.
 * - UCXX_ERR_NO_RESOURCE: the reply would have to wait, with UCXX_FLAG_NO_WAIT. With a progress
 *   thread that takes operations by its queue: that queue is full, with or without the flag.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid and unchanged until the operation has completed. The caller
 * still destroys `fetch`.
 * See also: ucxx_fetch_reject, ucxx_fetch_destroy, ucxx_am_fetch.
 */
ucxx_status_t ucxx_fetch_reply(ucxx_fetch_t *fetch, const void *buffer, size_t length, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends the reply to a fetch from scattered buffers.
 *
 * The list is copied during the call; the buffers are not. At most 1,048,576 buffers, all of one
 * memory type.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the memory types of the buffers differ.
 * - Any status of ucxx_fetch_reply.
 *
 * Threads: any.
 * Ownership: the buffers must stay valid and unchanged until the operation has completed.
 * See also: ucxx_fetch_reply.
 */
ucxx_status_t ucxx_fetch_reply_iov(ucxx_fetch_t *fetch, const ucxx_buffer_t *buffers, size_t count, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Replies to a fetch with a status instead of data, once.
 *
 * The call does not wait, and never fails for lack of queue space.
 *
 * `status` is one of:
 * - UCXX_ERR_NO_ELEM, UCXX_ERR_REJECTED, UCXX_ERR_BUSY, UCXX_ERR_CANCELED;
 * - UCXX_ERR_APPLICATION and any lower number.
 *
 * Returns:
 * - UCXX_OK: the status is sent to the requester.
 * - UCXX_ERR_ALREADY_EXISTS: the fetch already has a reply or was rejected.
 * - UCXX_ERR_INVALID_PARAM: `status` is none of these.
 * - The status of the endpoint, if it has ended.
 *
 * Threads: any.
 * See also: ucxx_fetch_reply.
 */
ucxx_status_t ucxx_fetch_reject(ucxx_fetch_t *fetch, ucxx_status_t status);

/**
 * Releases a fetch. NULL is ignored.
 *
 * A fetch without a reply is rejected with UCXX_ERR_CANCELED. A reply that was started continues.
 *
 * Threads: any.
 */
void ucxx_fetch_destroy(ucxx_fetch_t *fetch);

/**
 * Registers memory of the caller's with UCX.
 *
 * - `length`: in bytes, not 0.
 * - `memory_type`: UCXX_MEMORY_*. UCXX_MEMORY_AUTO detects it.
 *
 * The call needs no feature of the context. A key for peers does: see ucxx_memory_pack.
 *
 * Returns:
 * - UCXX_OK: `*memory` is set.
 * - UCXX_ERR_UNSUPPORTED: the loaded UCX has no support for this memory type.
 * - UCXX_ERR_NO_MEMORY or another status of UCX: UCX could not register the memory.
 *
 * Threads: any.
 * Ownership: the memory stays the caller's. It may be freed or unmapped after ucxx_memory_destroy.
 * See also: ucxx_memory_allocate, ucxx_memory_pack, ucxx_memory_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_register(ucxx_context_t *context, void *base, size_t length, int32_t memory_type, ucxx_memory_t **memory);

/**
 * Allocates memory that is registered with UCX.
 *
 * - `length`: in bytes, not 0.
 * - `memory_type`: UCXX_MEMORY_*. UCXX_MEMORY_AUTO means HOST.
 *
 * The memory is zeroed, except device memory.
 *
 * If UCX uses shared memory, other processes of this host can map it for loads and stores
 * (ucxx_rkey_pointer). Put, get and atomic operations on it then need no progress of the owner.
 *
 * Returns:
 * - UCXX_OK: `*memory` is set.
 * - UCXX_ERR_NO_MEMORY: `length` is more than the physical memory of this machine, or UCX has no
 *   memory.
 * - UCXX_ERR_UNSUPPORTED: the loaded UCX has no support for this memory type.
 * - another status of UCX: UCX could not allocate the memory.
 *
 * Threads: any.
 * Ownership: ucxx_memory_destroy frees the memory.
 * See also: ucxx_memory_register, ucxx_memory_base.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_allocate(ucxx_context_t *context, size_t length, int32_t memory_type, ucxx_memory_t **memory);

/**
 * Returns the address of the first byte; NULL for NULL.
 *
 * Threads: any.
 */
void *ucxx_memory_base(const ucxx_memory_t *memory);

/**
 * Returns the length in bytes that was asked for; 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_memory_length(const ucxx_memory_t *memory);

/**
 * Writes a key to the memory, which peers use to access it. Send the key to them by any means.
 *
 * - `bytes`: where the key is written. With NULL only the length is returned.
 * - `length`: in: the size of `bytes`. Out: the length of the key in bytes, about a hundred.
 *
 * The key is the same each time. It names the process and the memory, and ends with a checksum.
 *
 * Security: a peer with the key and a connection to a worker of this context can read and write
 * the memory until ucxx_memory_destroy. UCX does not check puts and gets over a network against
 * the existing keys. A context with UCXX_FEATURE_RMA trusts its peers.
 *
 * Read-only memory:
 * - If a part is read-only when this is first called, peers can only read by the key.
 * - If a part becomes read-only later, a put ends this process by SIGSEGV.
 *
 * Returns:
 * - UCXX_OK: the key and its length are written, or the length alone.
 * - UCXX_ERR_UNSUPPORTED: the context has neither UCXX_FEATURE_RMA nor UCXX_FEATURE_ATOMIC.
 * - UCXX_ERR_BUFFER_TOO_SMALL: `bytes` is too small. `*length` is the length that is needed.
 * - another status of UCX: UCX could not make a key.
 *
 * Threads: any.
 * See also: ucxx_rkey_unpack.
 */
UCXX_NODISCARD ucxx_status_t ucxx_memory_pack(const ucxx_memory_t *memory, void *bytes, size_t *length);

/**
 * Ends the registration. Memory of ucxx_memory_allocate is freed. NULL is ignored.
 *
 * Before this call, all operations by keys to this memory must have completed, and no more may
 * start. UCX cannot check it: agree with the peers first. Only an atomic operation that arrives as
 * a message is checked, and completes with UCXX_ERR_NO_ELEM.
 *
 * Threads: any.
 */
void ucxx_memory_destroy(ucxx_memory_t *memory);

/**
 * Makes a key of received bytes, to be used on this endpoint.
 *
 * - `endpoint`: leads to the process that made the key.
 * - `bytes`, `length`: what ucxx_memory_pack wrote. The bytes are copied.
 *
 * Returns:
 * - UCXX_OK: `*rkey` is set.
 * - UCXX_ERR_INVALID_PARAM: the bytes are damaged, cut off or no key, or the key is of another
 *   process.
 * - UCXX_ERR_UNSUPPORTED: the context has neither UCXX_FEATURE_RMA nor UCXX_FEATURE_ATOMIC, or the
 *   peer does not use this library.
 * - UCXX_ERR_NO_ELEM: the memory is this worker's own and was destroyed.
 * - UCXX_ERR_NOT_CONNECTED: the endpoint was made by host and port, and is not open yet.
 * - UCXX_ERR_UNREACHABLE: UCX has no transport to such memory.
 * - UCXX_ERR_PEER_FAILED: the process that made the key has ended. This is checked even if the
 *   endpoint has not failed yet.
 * - UCXX_ERR_BUSY: called from a callback "on another thread": see "Callbacks" at the top of this
 *   file.
 * - The status of the endpoint, if it has ended.
 *
 * Threads: any.
 * Ownership: the caller destroys the key. The key may outlive the endpoint, its worker and the
 * peer; operations then return their status.
 * See also: ucxx_rkey_destroy, ucxx_rma_put, ucxx_rma_get, ucxx_rma_atomic.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rkey_unpack(ucxx_endpoint_t *endpoint, const void *bytes, size_t length, ucxx_rkey_t **rkey);

/**
 * Returns the address of the first byte of the memory at the peer; 0 for NULL.
 *
 * Threads: any.
 */
uint64_t ucxx_rkey_base(const ucxx_rkey_t *rkey);

/**
 * Returns the length of the memory in bytes; 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_rkey_length(const ucxx_rkey_t *rkey);

/**
 * Returns the address at which this process can load and store the peer's memory directly.
 *
 * Loads and stores are ordered as the processor orders those of threads.
 *
 * Returns:
 * - UCXX_OK: `*local` is set.
 * - UCXX_ERR_UNREACHABLE: the memory is not mapped here. It was registered instead of allocated,
 *   it is on another host, or the transports have no shared memory.
 *
 * Threads: any.
 * Ownership: the address is valid until the key or the endpoint's worker is destroyed.
 * See also: ucxx_memory_allocate.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rkey_pointer(const ucxx_rkey_t *rkey, void **local);

/**
 * Releases a key. NULL is ignored.
 *
 * Operations in progress continue. Calls that use the key, and accesses through its pointer, must
 * have ended before the endpoint's worker is destroyed.
 *
 * Threads: any. Under UCXX_THREAD_SINGLE the same threads as for ucxx_endpoint_destroy.
 */
void ucxx_rkey_destroy(ucxx_rkey_t *rkey);

/**
 * Writes `length` bytes from `buffer` to the peer's memory. This is an operation.
 *
 * - `offset`: in bytes from the beginning of the memory.
 * - The peer is not notified.
 *
 * If this process maps the memory (see ucxx_rkey_pointer), the put is done inside the call,
 * without progress. An aligned value of 1, 2, 4 or 8 bytes is then written at once, so that no
 * reader sees half of it.
 *
 * Otherwise completion is local: the buffer may be reused. A later flush of the endpoint completes
 * when the bytes are in the peer's memory. The peer has to progress for that over TCP, and if the
 * memory was registered instead of allocated.
 *
 * Order: puts, gets and atomic operations are not ordered, neither among each other nor with
 * messages. A flush or ucxx_worker_fence orders them.
 *
 * Returns:
 * - UCXX_ERR_OUT_OF_RANGE: the range ends beyond the memory.
 * - UCXX_ERR_INVALID_ADDR: the peer may not write all of the memory; see ucxx_memory_pack.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_RMA.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid and unchanged until the operation has completed.
 * See also: ucxx_rma_get, ucxx_endpoint_flush, ucxx_worker_fence.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_put(ucxx_rkey_t *rkey, const void *buffer, size_t length, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Reads `length` bytes from the peer's memory into `buffer`. This is an operation.
 *
 * `offset` is in bytes from the beginning of the memory. The operation completes when the bytes
 * are in `buffer`. Mapped memory and order are as for ucxx_rma_put.
 *
 * Returns:
 * - Any status of ucxx_rma_put, except UCXX_ERR_INVALID_ADDR.
 *
 * Threads: any.
 * Ownership: `buffer` must stay valid until the operation has completed.
 * See also: ucxx_rma_put.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_get(ucxx_rkey_t *rkey, void *buffer, size_t length, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Performs an atomic operation on an integer of the peer's memory. This is an operation.
 *
 * - `op`: UCXX_ATOMIC_*.
 * - `size`: of the integer in bytes, 4 or 8. Integers wrap around.
 * - `operand`: copied during the call.
 * - `compare`: only for UCXX_ATOMIC_CSWAP, which stores `operand` if the integer equals `compare`.
 *   It is copied.
 * - `result`: gets the previous value. NULL if it is not needed.
 * - `offset`: in bytes from the beginning of the memory. ucxx_rkey_base plus `offset` must be a
 *   multiple of `size`.
 *
 * The operation is atomic with respect to all operations of this function on the same integer,
 * from any process. It is also atomic with respect to the atomic instructions of the process that
 * owns the memory.
 *
 * If this process maps the memory (see ucxx_rkey_pointer), the operation is done inside the call.
 * Otherwise the peer's library performs it when it progresses, and then the operation completes.
 * Such an operation uses credit as a fetch does. If it was cancelled or timed out, it may have
 * been performed.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: `op` or `size` is unknown, or the address is not aligned.
 * - UCXX_ERR_OUT_OF_RANGE: the integer ends beyond the memory.
 * - UCXX_ERR_INVALID_ADDR: the peer may not write all of the memory; see ucxx_memory_pack.
 * - UCXX_ERR_UNSUPPORTED: `result` or the peer's memory is device memory.
 * - UCXX_ERR_NO_ELEM: the peer has destroyed the memory.
 * - Any status of an operation: see "Operations" at the top of this file. It needs
 *   UCXX_FEATURE_ATOMIC.
 *
 * Threads: any.
 * Ownership: `result` must stay valid until the operation has completed.
 * See also: ucxx_rma_put, ucxx_am_fetch.
 */
UCXX_NODISCARD ucxx_status_t ucxx_rma_atomic(ucxx_rkey_t *rkey, int32_t op, size_t size, const void *operand, const void *compare, void *result, uint64_t offset, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Returns UCP's handle of the context, a ucp_context_h.
 *
 * "UCP's handles" at the top of this file says what may be done with it. It is valid until the
 * context and all its workers are destroyed. Examples are ucp_context_query, ucp_mem_map and
 * ucp_context_print_info.
 *
 * Returns: the handle. NULL for NULL, and in a forked child.
 *
 * Threads: any. UCP's calls on the context itself may be made on any thread, too.
 * Ownership: the library's. Do not call ucp_cleanup.
 * See also: ucxx_worker_native.
 */
void *ucxx_context_native(const ucxx_context_t *context);

/**
 * Returns UCP's handle of the worker, a ucp_worker_h.
 *
 * "UCP's handles" at the top of this file says where UCP may be called with it, and what may not
 * be done. It is valid until ucxx_worker_destroy or ucxx_worker_destroy_nb is called.
 *
 * Returns: the handle. NULL for NULL, in a forked child, and from the worker's end on.
 *
 * Threads: any. ucp_worker_signal may be called on any thread, too. All other calls of UCP may
 * not.
 * Ownership: the library's. Do not call ucp_worker_destroy.
 * See also: ucxx_worker_run_pre, ucxx_endpoint_native.
 */
void *ucxx_worker_native(const ucxx_worker_t *worker);

/**
 * Returns UCP's handle of the endpoint, a ucp_ep_h, as it is now.
 *
 * - Use it before the function that got it returns, and do not keep it. The library destroys it
 *   when the endpoint closes or fails.
 * - The call counts as a send: the endpoint sends its greeting to the peer, if it has not done so.
 * - An endpoint has one UCP endpoint at a time. An endpoint by host and port, and an accepted one,
 *   have it once the peer has answered: see `on_open`.
 * - The library does not count what is sent by UCP. ucxx_endpoint_flush and the closes do not
 *   wait for it, and send windows do not limit it.
 * - Do not send active messages: UCP's handlers belong to the library, at both ends.
 *
 * Returns: the handle. NULL for NULL, before the peer has answered, once the endpoint is closed or
 * has failed, in a forked child, after the worker's end, and where UCP must not be called: see
 * "UCP's handles" at the top of this file.
 *
 * Threads: any, but it is NULL on every thread other than the progress thread if that thread takes
 * operations by its queue (see `delayed_submission`).
 * Ownership: the library's. Do not close it, and do not set its error handler.
 * See also: ucxx_worker_run_pre, ucxx_rkey_native.
 */
void *ucxx_endpoint_native(const ucxx_endpoint_t *endpoint);

/**
 * Returns UCP's handle of a connection request, a ucp_conn_request_h, for ucp_conn_request_query.
 *
 * Answer the request by ucxx_endpoint_accept or ucxx_conn_request_reject, never by UCP. The handle
 * is valid until then, and until the listener is destroyed.
 *
 * Returns: the handle. NULL for NULL, once the request was answered, in a forked child, after the
 * worker's end, and where UCP must not be called: see "UCP's handles" at the top of this file.
 *
 * Threads: as ucxx_endpoint_native.
 * Ownership: the library's.
 * See also: ucxx_conn_request_address.
 */
void *ucxx_conn_request_native(const ucxx_conn_request_t *conn_request);

/**
 * Takes UCP's handle, a ucp_tag_message_h, out of a probed message. The caller then receives the
 * message by ucp_tag_msg_recv_nbx.
 *
 * The caller has to receive it, because UCP cannot drop a message. Without the receive, the sender
 * of a long message waits until the worker is destroyed. Afterwards `message` counts as received:
 * ucxx_tag_message_recv returns UCXX_ERR_INVALID_PARAM. It still has to be destroyed.
 *
 * Returns: the handle. NULL for NULL, if the message was received or taken before, in a forked
 * child, and after the worker's end.
 *
 * Threads: any. "UCP's handles" at the top of this file says where UCP may be called with it.
 * Ownership: the caller's, until it receives the message.
 * See also: ucxx_tag_probe.
 */
void *ucxx_tag_message_native(ucxx_tag_message_t *message);

/**
 * Returns UCP's handle of registered memory, a ucp_mem_h, valid until ucxx_memory_destroy.
 *
 * Examples are ucp_mem_query, and UCP_OP_ATTR_FIELD_MEMH of an operation. Such an operation has to
 * complete before ucxx_memory_destroy.
 *
 * Returns: the handle. NULL for NULL, and in a forked child.
 *
 * Threads: any. UCP's calls on the memory itself may be made on any thread, too.
 * Ownership: the library's. Do not call ucp_mem_unmap.
 * See also: ucxx_memory_base.
 */
void *ucxx_memory_native(const ucxx_memory_t *memory);

/**
 * Returns UCP's handle of a key, a ucp_rkey_h. An example is ucp_put_nbx on the key's endpoint.
 *
 * It is valid until ucxx_rkey_destroy is called and until the worker's end. UCP's operations that
 * use it have to complete before. The remote address is ucxx_rkey_base plus an offset. UCP does
 * not check it, so check it against ucxx_rkey_length.
 *
 * Returns: the handle. NULL for NULL, in a forked child, and after the worker's end.
 *
 * Threads: any. "UCP's handles" at the top of this file says where UCP may be called with it.
 * Ownership: the library's. Do not call ucp_rkey_destroy.
 * See also: ucxx_endpoint_native.
 */
void *ucxx_rkey_native(const ucxx_rkey_t *rkey);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_group_params_init(ucxx_group_params_t *value, size_t struct_size);

/**
 * Makes a group. All members call it at about the same time, and it blocks until all have arrived.
 *
 * `params->timeout_ns` limits the wait. `worker` is the worker on which this process starts
 * operations. ucxx_group_endpoint connects it. The group also has a worker of its own with an
 * adaptive progress thread. That worker serves the other members whatever this process does.
 *
 * The context of `worker` needs UCXX_FEATURE_AM and UCXX_FEATURE_WAKEUP, and the same transports
 * at all members.
 *
 * `params->bootstrap` selects how the members find each other:
 * - UCXX_BOOTSTRAP_CALLBACKS: by `params->allgather`, for example over MPI or a file system.
 * - UCXX_BOOTSTRAP_TCP: rank 0 listens at `params->root`, and the other members send it their
 *   addresses.
 * - UCXX_BOOTSTRAP_ENV: as TCP, with rank and size of the environment. It uses RANK and
 *   WORLD_SIZE, which torchrun sets. Without them it uses the variables that mpirun, mpiexec or
 *   srun set. MASTER_ADDR and MASTER_PORT are the default of `root`. Under torchrun its own store
 *   uses MASTER_PORT: set `root` to another port.
 * - UCXX_BOOTSTRAP_PMIX: by the launcher's PMIx. The library libpmix.so.2 is loaded for it. A
 *   process can make one such group at a time, in the same order everywhere.
 *
 * The connections of TCP and ENV are closed when the group is made.
 *
 * Under manual progress the other calls that wait on a group progress `worker`, and callbacks may
 * run in them. They obey its thread mode. From a callback they return UCXX_ERR_BUSY.
 *
 * Returns:
 * - UCXX_OK: `*group` is set.
 * - UCXX_ERR_TIMED_OUT: not all members have arrived in time. At every member that reached rank 0
 *   the message names the missing ranks.
 * - UCXX_ERR_REJECTED: the other side has another secret, or is no member of such a group.
 * - UCXX_ERR_INVALID_PARAM: the rank is taken, the sizes differ, or the environment lacks a
 *   variable, which the message names. The other members continue to wait for the right one.
 * - UCXX_ERR_BUSY: the port of `root` is in use, or the call is made from a callback.
 * - UCXX_ERR_INVALID_ADDR: `root` is no address of the machine of rank 0.
 * - UCXX_ERR_NO_RESOURCE: the limit of open files is too low for this number of members.
 * - UCXX_ERR_UNSUPPORTED: the context lacks a feature, PMIx is not installed, or a member has
 *   another version of this library.
 * - UCXX_ERR_UNREACHABLE: no launcher offers PMIx to this process.
 * - UCXX_ERR_PEER_FAILED: a member ended while the group was made.
 * - UCXX_ERR_IO_ERROR: rank 0 cannot listen, PMIx failed, or a member sent an address that cannot
 *   be used.
 * - UCXX_ERR_NO_MEMORY, UCXX_ERR_EXCEEDS_LIMIT: what the members exchange is too long.
 * - the status that `allgather` returned.
 *
 * Threads: any that may use `worker`.
 * Ownership: the group keeps the memory of `worker` alive. The caller destroys the group.
 * See also: ucxx_group_subset, ucxx_group_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_create(ucxx_worker_t *worker, const ucxx_group_params_t *params, ucxx_group_t **group);

/**
 * Makes a group of some members of `group`. It blocks until all of them have called it.
 *
 * - `ranks`: ranks in `group`; the same list at all of them. The position in the list is the rank
 *   in the new group.
 * - `count`: number of ranks.
 *
 * The new group shares the service of `group`, which may be destroyed first. Other members of
 * `group` do not take part. Different threads may make subsets at the same time, and so may
 * disjoint sets of members.
 *
 * Returns:
 * - UCXX_OK: `*subset` is set.
 * - UCXX_ERR_INVALID_PARAM: the list has an unknown rank, has a rank twice, or lacks this process.
 * - UCXX_ERR_TIMED_OUT: not all members have called it with this list equally often. The limit is
 *   `collective_timeout_ns`, or 60 s if that is 0. Failed calls count, too.
 * - Any status of ucxx_group_barrier.
 *
 * Threads: any that may use the group's worker.
 * Ownership: the caller destroys the subset.
 * See also: ucxx_group_create.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_subset(ucxx_group_t *group, const uint32_t *ranks, size_t count, ucxx_group_t **subset);

/**
 * Checks whether a member runs on this host, that is under the same kernel.
 *
 * Processes of one kernel count as processes of different hosts if UCXX_RS_HOST_ID differs in
 * their environments.
 *
 * Returns:
 * - 1: the same host.
 * - 0: another host.
 * - a negative status: error.
 *
 * Threads: any.
 */
int32_t ucxx_group_same_host(const ucxx_group_t *group, uint32_t rank);

/**
 * Returns the rank of this process; 0 for NULL.
 *
 * Threads: any.
 */
uint32_t ucxx_group_rank(const ucxx_group_t *group);

/**
 * Returns the number of members; 0 for NULL.
 *
 * Threads: any.
 */
uint32_t ucxx_group_size(const ucxx_group_t *group);

/**
 * Returns the endpoint from this process's worker to the worker of a member, itself included.
 *
 * The first call makes the endpoint, with peer failure detection. Groups that share a service
 * share their endpoints. The call does not wait for the member.
 *
 * Returns:
 * - UCXX_OK: `*endpoint` is set.
 * - UCXX_ERR_INVALID_PARAM: the group has no such rank.
 * - UCXX_ERR_BUSY: the endpoint is not made yet, and the call is made from a callback "on another
 *   thread": see "Callbacks" at the top of this file.
 * - Any status of ucxx_endpoint_create.
 *
 * Threads: any that may use the group's worker.
 * Ownership: the groups own the endpoint: the caller must not close or destroy it. It is closed
 * with the last group that shares the service.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_endpoint(ucxx_group_t *group, uint32_t rank, ucxx_endpoint_t **endpoint);

/**
 * Sets how long a member on another host may be silent before it counts as failed.
 *
 * Without this a lost host or network is noticed only when TCP gives up, after minutes.
 *
 * - `liveness_ns`: in nanoseconds. 0, the default, means no limit. It is effective from now on.
 * - It applies to the collectives and windows of all groups that share the service of this group,
 *   in this process only. Each member sets its own value.
 * - The service threads contact each other four times in this time, whatever the processes do. A
 *   stopped process is silent, too.
 * - A silent member is noticed within 1.5 times `liveness_ns`. While a connection is being made it
 *   can take five seconds, if that is longer.
 * - It has no effect on members of this host, whose death the kernel reports. It has no effect on
 *   endpoints of ucxx_group_endpoint.
 *
 * Returns:
 * - UCXX_OK: the limit is set.
 * - UCXX_ERR_BUSY: called from a callback.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_group_set_liveness(ucxx_group_t *group, uint64_t liveness_ns);

/**
 * Waits until all members have called it.
 *
 * When it returns UCXX_OK, all members have entered it. Afterwards a member may destroy the group
 * at once.
 *
 * Rules for collectives (ucxx_group_barrier, ucxx_group_allgather, ucxx_group_broadcast):
 * - All members of a group call them in the same order.
 * - One collective at a time is allowed on a group. Those of different groups may run at the same
 *   time.
 * - They do not use the tags, handlers and endpoints of the caller.
 * - Under manual progress they progress the group's worker.
 *
 * Returns:
 * - UCXX_OK: all members have called it.
 * - UCXX_ERR_PEER_FAILED: a member that is needed has died, or has destroyed the group too early.
 * - UCXX_ERR_TIMED_OUT: `collective_timeout_ns` has passed.
 * - UCXX_ERR_INVALID_PARAM: members have called different collectives, in this one or the next
 *   one.
 * - UCXX_ERR_NO_MEMORY: a member had no memory for it.
 * - UCXX_ERR_BUSY: another thread is in a collective of this group, or the call is made from a
 *   callback.
 *
 * After a failure:
 * - The message names the rank. Waiting members notify each other, within 2 s of a death.
 * - Every later collective of this group returns the same status. Subsets of this group, and the
 *   group that it is a subset of, continue to work.
 * - The buffers belong to the caller again.
 * - A living member may not release data in transfer within a second, because it is stopped or
 *   pulls much data. Then the connection between the two is closed. Subsets and the parent group
 *   fail then, too, as if that member had left.
 *
 * Threads: any that may use the group's worker.
 * See also: ucxx_group_allgather, ucxx_group_broadcast.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_barrier(ucxx_group_t *group);

/**
 * Gathers `length` bytes of each member at all members.
 *
 * - `mine`: the bytes of this process, in host memory. NULL: they are already at their place in
 *   `all`.
 * - `all`: gets the bytes of all members, one after the other in rank order. Its size is `length`
 *   times the number of members.
 *
 * A member returns when it has all bytes, so all members have entered the call then.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: the total length is too large.
 * - Any status of ucxx_group_barrier.
 *
 * Threads: any that may use the group's worker.
 * See also: ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_allgather(ucxx_group_t *group, const void *mine, size_t length, void *all);

/**
 * Sends `length` bytes of the member `root` to all other members.
 *
 * All members give the same `length`. `data` is in host memory.
 *
 * The root may return before other members have entered the call. Do not rely on it: after 64
 * broadcasts in a row, or 2 MiB, all members wait for each other.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: the group has no rank `root`, or `length` is too large.
 * - Any status of ucxx_group_barrier.
 *
 * Threads: any that may use the group's worker.
 * See also: ucxx_group_barrier.
 */
UCXX_NODISCARD ucxx_status_t ucxx_group_broadcast(ucxx_group_t *group, void *data, size_t length, uint32_t root);

/**
 * Releases the group and notifies the other members. NULL is ignored.
 *
 * - Collectives of other members that still need this process complete with UCXX_ERR_PEER_FAILED.
 * - The last group that shares a service closes the service's endpoints. Data that was sent before
 *   is delivered first.
 * - If members do not respond it takes some seconds, also in a callback, which is delayed by that.
 * - No collective of this group may be in progress.
 * - It waits for a running callback of the group's worker on its progress thread. Such a callback
 *   must not wait for the caller.
 *
 * Threads: any that may use the group's worker.
 */
void ucxx_group_destroy(ucxx_group_t *group);

/**
 * Returns the size of an element type (UCXX_TYPE_*) in bytes.
 *
 * A pair is a C struct { value; int32_t index; }. Its padding may be overwritten.
 *
 * Returns: the size. 0 if there is no such type.
 *
 * Threads: any.
 */
size_t ucxx_type_size(int32_t element_type);

/**
 * Initialises a layout of `count` consecutive elements.
 *
 * Nothing is checked before a call uses the layout. NULL is ignored.
 *
 * Threads: any.
 * See also: ucxx_layout_init_vector, ucxx_layout_init_blocks.
 */
void ucxx_layout_init_contiguous(ucxx_layout_t *layout, int32_t element_type, uint64_t count);

/**
 * Initialises a layout of `count` blocks of `block_length` elements, with `stride` elements from
 * start to start.
 *
 * Nothing is checked before a call uses the layout. NULL is ignored.
 *
 * Threads: any.
 */
void ucxx_layout_init_vector(ucxx_layout_t *layout, int32_t element_type, uint64_t count, uint64_t block_length, int64_t stride);

/**
 * Initialises a layout from a list of blocks.
 *
 * Nothing is checked before a call uses the layout. NULL is ignored.
 *
 * Threads: any.
 * Ownership: the caller keeps the list. Every call that uses the layout reads it.
 */
void ucxx_layout_init_blocks(ucxx_layout_t *layout, int32_t element_type, const ucxx_block_t *blocks, size_t block_count);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_window_params_init(ucxx_window_params_t *value, size_t struct_size);

/**
 * Makes a window of the caller's memory (MPI 4.1, 12.2.1). All members of the group call it.
 *
 * - `base`, `size`: memory of this process, in bytes. Each member gives its own; a size of 0 is
 *   allowed. Host memory only.
 * - `disp_unit`: bytes of one unit of displacement at this process.
 *
 * How other members access the memory:
 * - On this host without this process: the kernel copies it (process_vm_readv). Those members need
 *   the permission to trace this process: the same user, and no security module that forbids it.
 * - On other hosts, or without that permission: by messages, which a thread of the group executes
 *   here.
 * - ucxx_window_path returns which way is used. Memory of ucxx_window_allocate is faster, and
 *   needs no permission.
 *
 * Memory protection: a part of the range may be read-only or not accessible. An operation of
 * another member that it does not allow completes with UCXX_ERR_INVALID_ADDR. The protection is
 * checked in this call:
 * - If all memory is readable and writable, it must stay so until the window is closed. Messages
 *   are executed there directly.
 * - Otherwise the kernel checks each operation, so later mprotect calls are followed. This costs
 *   one or two system calls for each operation.
 *
 * Rules for all functions that make windows:
 * - They are collective. All members call them in the same order, one at a time on one group.
 * - If the call fails at one member, it fails at all members.
 *
 * Returns:
 * - UCXX_OK: `*window` is set.
 * - UCXX_ERR_INVALID_PARAM: the arguments of the members do not match. The message names the rank.
 * - UCXX_ERR_UNREACHABLE: a member may not open the shared memory of another one, which belongs to
 *   another user.
 * - UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_RESOURCE: the memory or the descriptors are not sufficient.
 * - UCXX_ERR_EXCEEDS_LIMIT: the group has too many members.
 * - UCXX_ERR_UNSUPPORTED: a member has another version of this library.
 * - UCXX_ERR_BUSY: called from a callback.
 * - Any status of ucxx_group_barrier.
 *
 * Threads: any that may use the group's worker.
 * Ownership: the memory stays the caller's, and must stay valid until the window is closed or
 * destroyed.
 * See also: ucxx_window_allocate, ucxx_window_close, ucxx_window_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_create(ucxx_group_t *group, void *base, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, ucxx_window_t **window);

/**
 * Makes a window of memory that the library allocates (MPI 4.1, 12.2.2).
 *
 * - `size`: bytes at this process.
 * - `disp_unit`: bytes of one unit of displacement at this process.
 * - `base`: gets the address of this process's memory, which is zeroed and aligned to a page.
 *
 * Members of this host access the memory directly, without a system call and without a call of
 * this process.
 *
 * Returns:
 * - Any status of ucxx_window_create.
 *
 * Threads: any that may use the group's worker.
 * Ownership: ucxx_window_destroy frees the memory.
 * See also: ucxx_window_create, ucxx_window_allocate_shared.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_allocate(ucxx_group_t *group, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, void **base, ucxx_window_t **window);

/**
 * Makes a window whose members can also load and store each other's memory (MPI 4.1, 12.2.3).
 *
 * ucxx_window_shared_query returns the addresses. Unless `shared_noncontiguous` is set, the memory
 * of all members is contiguous, in rank order. Arguments and ownership are as for
 * ucxx_window_allocate.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: the members are not all on one host and in one pid namespace.
 *   ucxx_group_subset makes a group of such members.
 * - Any status of ucxx_window_create.
 *
 * Threads: any that may use the group's worker.
 * See also: ucxx_window_shared_query, ucxx_group_same_host.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_allocate_shared(ucxx_group_t *group, size_t size, uint32_t disp_unit, const ucxx_window_params_t *params, void **base, ucxx_window_t **window);

/**
 * Makes a window without memory (MPI 4.1, 12.2.4). Each member attaches memory when it wants to.
 *
 * Displacements are addresses of the target, which the target has to send to the caller. The
 * memory is accessed as that of ucxx_window_create.
 *
 * Returns:
 * - Any status of ucxx_window_create.
 *
 * Threads: any that may use the group's worker.
 * See also: ucxx_window_attach, ucxx_window_detach.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_create_dynamic(ucxx_group_t *group, const ucxx_window_params_t *params, ucxx_window_t **window);

/**
 * Attaches `size` bytes of this process's memory to a dynamic window.
 *
 * The call is local, legal in every epoch, and effective when it returns. Up to 1,024 regions can
 * be attached at a time. A range of one data call may span adjacent regions.
 *
 * Returns:
 * - UCXX_OK: the region is attached.
 * - UCXX_ERR_RMA_ATTACH: a part of it is already attached.
 * - UCXX_ERR_RMA_FLAVOR: the window is not dynamic.
 * - UCXX_ERR_NO_RESOURCE: 1,024 regions are attached.
 *
 * Threads: any.
 * Ownership: the memory stays the caller's, and must stay valid until it is detached or the window
 * has ended.
 * See also: ucxx_window_detach.
 */
ucxx_status_t ucxx_window_attach(ucxx_window_t *window, void *base, size_t size);

/**
 * Detaches the region that was attached at `base`.
 *
 * The call is local. The caller has to make sure that no member accesses the region any more.
 *
 * Returns:
 * - UCXX_OK: the region is detached.
 * - UCXX_ERR_RMA_ATTACH: no attached region begins at `base`.
 * - UCXX_ERR_RMA_FLAVOR: the window is not dynamic.
 *
 * Threads: any.
 * See also: ucxx_window_attach.
 */
ucxx_status_t ucxx_window_detach(ucxx_window_t *window, void *base);

/**
 * Changes the hints of a window. All members call it at the same time, outside epochs.
 *
 * From then on these values of `params` apply: `no_locks`, `same_disp_unit`, `same_size`,
 * `accumulate_ordering`, `accumulate_granularity` and `lock_timeout_ns`. `shared_noncontiguous`
 * and `memory` are ignored. The call waits for the other members.
 *
 * If the members are on several hosts, it is also a collective of the group. All members then call
 * it on one window after the other, not on two at a time.
 *
 * Returns:
 * - UCXX_OK: the hints are changed.
 * - UCXX_ERR_INVALID_PARAM: the hints of the members differ, or a promise does not hold. All
 *   members get it.
 * - UCXX_ERR_RMA_SYNC: the window is in an epoch, or `no_locks` is set while a lock is held.
 * - UCXX_ERR_BUSY: the members are on several hosts, and another collective of the group is in
 *   progress.
 * - Any status of ucxx_window_fence.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_params_t.
 */
ucxx_status_t ucxx_window_set_hints(ucxx_window_t *window, const ucxx_window_params_t *params);

/**
 * Ends a window together with the other members. Afterwards no member accesses another one's
 * memory through it.
 *
 * - The window must be outside epochs and exposures. Dynamic windows may have regions attached.
 * - Call ucxx_window_destroy afterwards, also after an error. Memory of the library stays mapped
 *   until then.
 * - ucxx_window_query, ucxx_window_path, ucxx_window_sync_type and ucxx_window_group still work.
 *   All other calls on the window return UCXX_ERR_CLOSED.
 *
 * Returns:
 * - UCXX_OK: all members have called it.
 * - UCXX_ERR_RMA_SYNC: the window is in an epoch. Nothing was done.
 * - UCXX_ERR_BUSY: called from a callback, or another synchronisation call is in progress. Nothing
 *   was done.
 * - UCXX_ERR_PEER_FAILED: a member has died or has left the window.
 * - UCXX_ERR_TIMED_OUT: the group's `collective_timeout_ns` has passed.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_destroy.
 */
ucxx_status_t ucxx_window_close(ucxx_window_t *window);

/**
 * Frees the handle, and the memory that the library has allocated for this process. NULL is
 * ignored.
 *
 * The call is local. Members that have not closed the window keep their mappings of that memory as
 * long as they live.
 *
 * For a window that was not closed:
 * - It releases all locks of this process.
 * - Members that wait for this process in a fence, an exposure or a close get
 *   UCXX_ERR_PEER_FAILED.
 * - The caller has to make sure that no member accesses memory of the caller any more.
 *
 * No call on the window may be in progress. The function waits for a running callback of the
 * group's worker on its progress thread. Such a callback must not wait for the caller.
 *
 * Threads: any.
 * See also: ucxx_window_close.
 */
void ucxx_window_destroy(ucxx_window_t *window);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_window_attr_init(ucxx_window_attr_t *value, size_t struct_size);

/**
 * Returns the size and disp_unit of a member, and the address of its memory in this process (MPI
 * 4.1, 12.2.3).
 *
 * The address is NULL in these cases:
 * - the size is 0, as in dynamic windows;
 * - the memory is not mapped here, as the caller's memory of other members.
 *
 * Each of `size` (in bytes), `disp_unit` and `base` is optional.
 *
 * Returns:
 * - UCXX_OK: the values are set.
 * - UCXX_ERR_RMA_RANK: the window has no such rank.
 *
 * Threads: any.
 * Ownership: the address is valid until the window is destroyed.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_shared_query(ucxx_window_t *window, uint32_t rank, size_t *size, uint32_t *disp_unit, void **base);

/**
 * Returns how a target is accessed: UCXX_WINDOW_PATH_*, or a negative status.
 *
 * Returns:
 * - UCXX_WINDOW_PATH_*: the path.
 * - UCXX_ERR_RMA_RANK: the window has no such rank.
 *
 * Threads: any.
 */
int32_t ucxx_window_path(const ucxx_window_t *window, uint32_t target);

/**
 * Returns the group that the window was made with; NULL for NULL.
 *
 * Threads: any.
 * Ownership: the window keeps the group. The caller must not destroy the returned handle.
 */
ucxx_group_t *ucxx_window_group(const ucxx_window_t *window);

/**
 * Returns the attributes of a window.
 *
 * Returns:
 * - UCXX_OK: `*attr` is set.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_window_query(const ucxx_window_t *window, ucxx_window_attr_t *attr);

/**
 * Returns the epoch of the window towards a target: UCXX_SYNC_*, or a negative status.
 *
 * Returns:
 * - UCXX_SYNC_*: the kind of epoch.
 * - UCXX_ERR_RMA_RANK: the window has no such rank.
 *
 * Threads: any.
 */
int32_t ucxx_window_sync_type(const ucxx_window_t *window, uint32_t target);

/**
 * Begins a passive target access epoch at one target (MPI 4.1, 12.5.3). It returns when the lock
 * is held.
 *
 * - `lock_type`: UCXX_LOCK_SHARED or UCXX_LOCK_EXCLUSIVE.
 * - `target`: a rank of the window's group. Several targets may be locked; all processes must lock
 *   them in the same order.
 * - `assertions`: 0 or UCXX_ASSERT_NOCHECK. With NOCHECK nothing is locked: the caller guarantees
 *   that no other process holds a conflicting lock.
 *
 * Locks are granted in the order of the requests. Consecutive shared requests are granted
 * together. A holder of a shared lock that dies is removed.
 *
 * Rules for all synchronisation calls:
 * - The caller serialises the calls on one window. Those on different windows may run at the same
 *   time.
 * - Under manual progress a call that waits progresses the group's worker, and callbacks may run
 *   in it.
 * - From a callback they return UCXX_ERR_BUSY if they would have to wait.
 *
 * Returns:
 * - UCXX_OK: the epoch has begun.
 * - UCXX_ERR_RMA_LOCK_TYPE: `lock_type` is unknown.
 * - UCXX_ERR_RMA_RANK: the window has no rank `target`.
 * - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
 * - UCXX_ERR_RMA_SYNC: the present epoch does not allow it, or the window has `no_locks`.
 * - UCXX_ERR_TIMED_OUT: `lock_timeout_ns` has passed.
 * - UCXX_ERR_RMA_POISONED: a process has died that held an exclusive lock of the target. This is
 *   noticed within 2 s. The contents of the memory are unknown. The target stays locked until the
 *   window is made anew.
 * - UCXX_ERR_PEER_FAILED: the target is on another host, and has died or left the window.
 * - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
 *
 * After an error the epoch is unchanged.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_lock_nb, ucxx_window_unlock, ucxx_window_lock_all.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock(ucxx_window_t *window, int32_t lock_type, uint32_t target, uint32_t assertions);

/**
 * Begins a passive target access epoch without waiting. The operation completes when the lock is
 * held. This is an operation.
 *
 * The arguments are those of ucxx_window_lock. While the operation is in progress:
 * - The target cannot be accessed or locked again, and the window must not be destroyed.
 * - The lock is requested again in each pass of the group's worker. A progress thread makes these
 *   passes by itself. A caller that does not progress delays the other processes in the queue.
 *
 * If it is cancelled or times out (`timeout_ns`, `lock_timeout_ns`), the epoch is unchanged.
 *
 * Returns:
 * - UCXX_ERR_RMA_LOCK_TYPE, UCXX_ERR_RMA_RANK, UCXX_ERR_RMA_ASSERT, UCXX_ERR_RMA_SYNC: as for
 *   ucxx_window_lock.
 * - UCXX_ERR_TIMED_OUT: `timeout_ns` or `lock_timeout_ns` has passed.
 * - UCXX_ERR_RMA_POISONED, UCXX_ERR_PEER_FAILED: as for ucxx_window_lock.
 * - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_lock.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock_nb(ucxx_window_t *window, int32_t lock_type, uint32_t target, uint32_t assertions, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Ends the access epoch at a target that ucxx_window_lock has begun (MPI 4.1, 12.5.3).
 *
 * All operations at the target are complete there. The next process that locks the target sees
 * them.
 *
 * Returns:
 * - UCXX_OK: the epoch has ended.
 * - UCXX_ERR_RMA_RANK: the window has no rank `target`.
 * - UCXX_ERR_RMA_SYNC: the target is not locked by ucxx_window_lock.
 * - UCXX_ERR_RMA_POISONED: other processes have treated this process as dead in the meantime.
 * - UCXX_ERR_PEER_FAILED: the target has died or left the window.
 * - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
 * - The status of an operation of this epoch that the target has reported as failed.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_lock, ucxx_window_flush.
 */
ucxx_status_t ucxx_window_unlock(ucxx_window_t *window, uint32_t target);

/**
 * Begins a passive target access epoch at all targets, this process included (MPI 4.1, 12.5.3).
 *
 * The locks are shared. It returns when all are held. After an error at one target none is held.
 * `assertions` are as for ucxx_window_lock.
 *
 * Returns:
 * - Any status of ucxx_window_lock, except UCXX_ERR_RMA_LOCK_TYPE and UCXX_ERR_RMA_RANK.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_unlock_all.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_lock_all(ucxx_window_t *window, uint32_t assertions);

/**
 * Ends the epoch that ucxx_window_lock_all has begun (MPI 4.1, 12.5.3).
 *
 * Returns:
 * - UCXX_ERR_RMA_SYNC: there is no such epoch.
 * - Any status of ucxx_window_unlock, except UCXX_ERR_RMA_RANK.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_lock_all.
 */
ucxx_status_t ucxx_window_unlock_all(ucxx_window_t *window);

/**
 * Completes the operations of this process at a target in the present passive epoch (MPI 4.1,
 * 12.5.4).
 *
 * When it returns, they are complete at the origin and at the target, and visible to all
 * processes.
 *
 * Returns:
 * - UCXX_OK: all operations are complete.
 * - UCXX_ERR_RMA_RANK: the window has no rank `target`.
 * - UCXX_ERR_RMA_SYNC: the target is not locked.
 * - UCXX_ERR_PEER_FAILED: the target has died or left the window.
 * - UCXX_ERR_BUSY: called from a callback, and it would have to wait.
 * - The status of an operation that the target has reported as failed.
 *
 * Threads: any.
 * See also: ucxx_window_flush_local, ucxx_window_flush_nb, ucxx_window_flush_all.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush(ucxx_window_t *window, uint32_t target);

/**
 * Flushes a target without waiting. This is an operation.
 *
 * The operation completes when all operations that were posted before it are complete. On this
 * host it completes inside the call.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
 * - Any status of ucxx_window_flush.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * See also: ucxx_window_flush.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush_nb(ucxx_window_t *window, uint32_t target, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Completes the operations of this process at all targets (MPI 4.1, 12.5.4). Legal in any passive
 * epoch.
 *
 * Returns:
 * - Any status of ucxx_window_flush, except UCXX_ERR_RMA_RANK.
 *
 * Threads: any.
 * See also: ucxx_window_flush.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_flush_all(ucxx_window_t *window);

/**
 * Completes the operations of this process at a target locally (MPI 4.1, 12.5.4).
 *
 * When it returns, the caller may reuse its buffers, and data that was read has arrived. It does
 * not wait for completion at the target.
 *
 * Returns:
 * - Any status of ucxx_window_flush.
 *
 * Threads: any.
 * See also: ucxx_window_flush.
 */
ucxx_status_t ucxx_window_flush_local(ucxx_window_t *window, uint32_t target);

/**
 * Completes the operations of this process at all targets locally (MPI 4.1, 12.5.4). Legal in any
 * passive epoch.
 *
 * Returns:
 * - Any status of ucxx_window_flush_all.
 *
 * Threads: any.
 * See also: ucxx_window_flush_local.
 */
ucxx_status_t ucxx_window_flush_local_all(ucxx_window_t *window);

/**
 * Orders the loads and stores of this process in the window, by a full memory fence (MPI 4.1,
 * 12.5.4).
 *
 * All processes see those before the call before those after it. It is legal in every epoch.
 *
 * Returns:
 * - UCXX_OK: always, on a window that is not closed.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_window_sync(ucxx_window_t *window);

/**
 * Begins an exposure epoch for some origins (MPI 4.1, 12.5.2). It does not wait.
 *
 * - `ranks`, `count`: the origins. They may access the memory of this process from their
 *   ucxx_window_start until their ucxx_window_complete. This process may be one of them.
 * - `assertions`: UCXX_ASSERT_NOCHECK (the origins must give it, too), and the hints
 *   UCXX_ASSERT_NOSTORE and UCXX_ASSERT_NOPUT.
 *
 * Returns:
 * - UCXX_OK: the epoch has begun.
 * - UCXX_ERR_RMA_RANK: the window has no such rank.
 * - UCXX_ERR_INVALID_PARAM: a rank is in the list twice.
 * - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
 * - UCXX_ERR_RMA_SYNC: the window is in an exposure epoch already, or it was accessed after a
 *   fence.
 * - UCXX_ERR_PEER_FAILED: an origin on another host has died or left the window.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_wait, ucxx_window_test, ucxx_window_start.
 */
ucxx_status_t ucxx_window_post(ucxx_window_t *window, const uint32_t *ranks, size_t count, uint32_t assertions);

/**
 * Begins an access epoch at some targets (MPI 4.1, 12.5.2). It returns when each target has posted
 * to this process.
 *
 * - `ranks`, `count`: the targets.
 * - `assertions`: 0 or UCXX_ASSERT_NOCHECK. With NOCHECK it does not wait: the caller guarantees
 *   that the targets have posted.
 *
 * Returns:
 * - UCXX_OK: the epoch has begun.
 * - UCXX_ERR_RMA_RANK, UCXX_ERR_INVALID_PARAM, UCXX_ERR_RMA_ASSERT: as for ucxx_window_post.
 * - UCXX_ERR_RMA_SYNC: the window is in another access epoch.
 * - UCXX_ERR_PEER_FAILED: a target has died or left the window. The message names its rank, and no
 *   epoch has begun.
 * - UCXX_ERR_BUSY: another thread is in a synchronisation call. Or it is called from a callback,
 *   and would have to wait.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_complete, ucxx_window_post.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_start(ucxx_window_t *window, const uint32_t *ranks, size_t count, uint32_t assertions);

/**
 * Ends the access epoch that ucxx_window_start has begun (MPI 4.1, 12.5.2).
 *
 * The operations are complete at the targets, which are notified. It does not wait for the targets
 * to end their exposure.
 *
 * Returns:
 * - UCXX_OK: the epoch has ended.
 * - UCXX_ERR_RMA_SYNC: there is no such epoch.
 * - UCXX_ERR_PEER_FAILED: a target has died or left the window.
 * - UCXX_ERR_BUSY: called from a callback, and operations at another host are not complete.
 * - The status of an operation that a target has reported as failed.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_start.
 */
ucxx_status_t ucxx_window_complete(ucxx_window_t *window);

/**
 * Ends the exposure epoch (MPI 4.1, 12.5.2). It returns when all origins of ucxx_window_post have
 * called ucxx_window_complete.
 *
 * Returns:
 * - UCXX_OK: the epoch has ended.
 * - UCXX_ERR_RMA_SYNC: there is no exposure epoch.
 * - UCXX_ERR_PEER_FAILED: an origin that has not completed has died or left the window. The
 *   message names its rank, and the epoch has ended.
 * - UCXX_ERR_BUSY: another thread is in a synchronisation call. Or it is called from a callback,
 *   and would have to wait.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_post, ucxx_window_test.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_wait(ucxx_window_t *window);

/**
 * Checks whether the exposure epoch can end, without waiting (MPI 4.1, 12.5.2).
 *
 * `*done` is 1 if the epoch has ended with this call, 0 if not.
 *
 * Returns:
 * - UCXX_OK: `*done` is set.
 * - UCXX_ERR_RMA_SYNC, UCXX_ERR_PEER_FAILED: as for ucxx_window_wait.
 * - UCXX_ERR_BUSY: another thread is in a synchronisation call.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_wait.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_test(ucxx_window_t *window, int32_t *done);

/**
 * Ends the epoch of the last fence at all members, and begins the next one (MPI 4.1, 12.5.1).
 *
 * All members call it, and it returns when all have called it. All operations before it are then
 * complete at all members.
 *
 * `assertions`:
 * - UCXX_ASSERT_NOPRECEDE: this process has made no operation since the last fence. Given by all
 *   members or none.
 * - UCXX_ASSERT_NOSUCCEED: no epoch follows. Given by all members or none.
 * - UCXX_ASSERT_NOSTORE, UCXX_ASSERT_NOPUT: hints.
 * - With NOPRECEDE and NOSUCCEED together it does not wait.
 *
 * Returns:
 * - UCXX_OK: the fence is complete.
 * - UCXX_ERR_RMA_ASSERT: `assertions` are not allowed here.
 * - UCXX_ERR_RMA_SYNC: the window is in an epoch of another kind.
 * - UCXX_ERR_PEER_FAILED: a member has died or left the window. The message names its rank. All
 *   other members get it within 2 s, and from then on in each fence.
 * - UCXX_ERR_TIMED_OUT: the group's `collective_timeout_ns` has passed.
 * - UCXX_ERR_BUSY: called from a callback, or another thread is in a synchronisation call.
 * - The status of an operation that a target has reported as failed.
 *
 * Threads: any, one synchronisation call at a time on a window.
 * See also: ucxx_window_lock for the rules of all synchronisation calls.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_fence(ucxx_window_t *window, uint32_t assertions);

/**
 * Writes to the memory of a target (MPI 4.1, 12.3.1).
 *
 * - `origin`, `origin_layout`: what is read here.
 * - `disp`: where the target range begins, in units of the target's disp_unit. For dynamic windows
 *   it is an address of the target.
 * - `target_layout`: what is written there. Both layouts have the same number of bytes; their
 *   types may differ.
 *
 * When it returns, `origin` may be reused. On this host the put is complete. By messages
 * (UCXX_WINDOW_PATH_MESSAGE) it completes with the next flush or other synchronisation call. That
 * call also returns the errors that the target has found.
 *
 * - An aligned value of 1, 2, 4 or 8 bytes is written at once at the target, so that no reader
 *   sees half of it.
 * - Between synchronisation calls, puts and gets are not ordered among each other.
 * - If puts overlap, each byte is that of one of them.
 *
 * Returns:
 * - UCXX_OK: the put is complete or posted.
 * - UCXX_ERR_RMA_TYPE: a type is unknown.
 * - UCXX_ERR_RMA_RANK: the window has no rank `target`.
 * - UCXX_ERR_INVALID_PARAM: the layouts do not match, or `origin` is NULL. A layout that is NULL
 *   or wrong by itself is checked before the rank.
 * - UCXX_ERR_RMA_RANGE: the range ends beyond the target's memory.
 * - UCXX_ERR_RMA_ATTACH: the range is not attached (dynamic windows).
 * - UCXX_ERR_RMA_SYNC: there is no access epoch to the target.
 * - UCXX_ERR_PEER_FAILED: the target has died, and its memory is not mapped here.
 * - UCXX_ERR_INVALID_ADDR: the target's memory is unmapped or may not be written. If this is true
 *   of a part, the rest may be written.
 *
 * The errors are checked in this order. Nothing is done after one of the first six.
 *
 * Threads: any, as for all data calls.
 * See also: ucxx_window_get, ucxx_window_rput, ucxx_window_flush, ucxx_window_path.
 */
ucxx_status_t ucxx_window_put(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout);

/**
 * Reads from the memory of a target into `origin` (MPI 4.1, 12.3.2).
 *
 * The arguments are those of ucxx_window_put. On this host the data is in `origin` when the call
 * returns.
 *
 * By messages (UCXX_WINDOW_PATH_MESSAGE) the data arrives with the next flush, flush_local,
 * unlock, complete or fence. That call also returns the errors that the target has found.
 *
 * Returns:
 * - Any status of ucxx_window_put.
 *
 * Threads: any.
 * Ownership: by messages, `origin` must stay valid and must not be accessed until that
 * synchronisation call.
 * See also: ucxx_window_put, ucxx_window_rget.
 */
ucxx_status_t ucxx_window_get(ucxx_window_t *window, void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout);

/**
 * Combines elements of the origin with those of the target by `op` (MPI 4.1, 12.3.4).
 *
 * - `op`: UCXX_REDUCE_*, except NO_OP. REPLACE is an atomic put.
 * - The layouts have the same type and the same number of elements.
 * - The elements of the target are aligned as C aligns the type.
 *
 * Atomicity:
 * - It is atomic for each element, or for more with `accumulate_granularity`.
 * - It is atomic with respect to all accumulates of the same type, by any process and with any
 *   operation. These are accumulate, get_accumulate, fetch_and_op and compare_and_swap.
 * - It is not atomic with respect to put, get, loads and stores.
 *
 * Order: accumulates of one thread at one target are performed in order.
 *
 * Values: integers wrap around. MIN and MAX of a NaN and a number are the number. MINLOC and
 * MAXLOC take the lower index of equal values.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: the target is not aligned.
 * - UCXX_ERR_RMA_OP: `op` is unknown, or not defined for the type.
 * - UCXX_ERR_RMA_TYPE: the types of the layouts differ.
 * - UCXX_ERR_UNSUPPORTED: this architecture cannot calculate with the type (long double).
 * - UCXX_ERR_EXCEEDS_LIMIT: `accumulate_granularity` makes one message of the operation
 *   (UCXX_WINDOW_PATH_MESSAGE), and it is longer than 2 GiB and than the target's memory.
 * - UCXX_ERR_RMA_POISONED: a process has died during an accumulate under the lock of the target.
 *   This lock is used for elements over 8 bytes, and for memory that is not mapped.
 * - Any status of ucxx_window_put.
 *
 * Nothing is done after one of the first six errors.
 *
 * Threads: any.
 * See also: ucxx_window_get_accumulate, ucxx_window_fetch_and_op, ucxx_window_raccumulate.
 */
ucxx_status_t ucxx_window_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op);

/**
 * Combines as ucxx_window_accumulate, and returns the previous elements in `result` (MPI 4.1,
 * 12.3.4).
 *
 * - `result`, `result_layout`: get the previous elements. They arrive when the data of
 *   ucxx_window_get would arrive.
 * - `op`: UCXX_REDUCE_*. NO_OP reads atomically; `origin` and its layout are ignored then.
 *
 * Returns:
 * - Any status of ucxx_window_accumulate.
 *
 * Threads: any.
 * Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
 * See also: ucxx_window_fetch_and_op, ucxx_window_rget_accumulate.
 */
ucxx_status_t ucxx_window_get_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, void *result, const ucxx_layout_t *result_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op);

/**
 * Combines one element, and returns its previous value in `result` (MPI 4.1, 12.3.4).
 *
 * It is ucxx_window_get_accumulate for one element of `element_type` (UCXX_TYPE_*), without
 * layouts, and faster. `origin` may be NULL for NO_OP.
 *
 * Returns:
 * - Any status of ucxx_window_accumulate.
 *
 * Threads: any.
 * Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
 * See also: ucxx_window_get_accumulate, ucxx_window_compare_and_swap.
 */
ucxx_status_t ucxx_window_fetch_and_op(ucxx_window_t *window, const void *origin, void *result, int32_t element_type, uint32_t target, int64_t disp, int32_t op);

/**
 * Stores `origin` in one element of the target if that element equals `compare` (MPI 4.1, 12.3.4).
 *
 * The comparison is byte for byte. `result` gets the previous value in either case. `element_type`
 * is an integer type, UCXX_TYPE_BYTE or UCXX_TYPE_BOOL.
 *
 * Returns:
 * - UCXX_ERR_RMA_TYPE: another `element_type`.
 * - Any status of ucxx_window_accumulate.
 *
 * Threads: any.
 * Ownership: by messages, `result` must stay valid as `origin` of ucxx_window_get.
 * See also: ucxx_window_fetch_and_op.
 */
ucxx_status_t ucxx_window_compare_and_swap(ucxx_window_t *window, const void *origin, const void *compare, void *result, int32_t element_type, uint32_t target, int64_t disp);

/**
 * Writes to the memory of a target, with a request (MPI 4.1, 12.3.5). Legal in passive epochs
 * only. This is an operation.
 *
 * The arguments are those of ucxx_window_put. Host memory only. The operation completes when
 * `origin` may be reused; on this host inside the call. The request may be waited for after the
 * epoch or the window has ended.
 *
 * If the data is long or strided, the call waits until most of it is sent.
 *
 * Cancel and timeout:
 * - A request that waits for a reply completes at once. The data of the reply is dropped, but the
 *   target still performs the operation.
 * - A request whose buffer UCX still reads completes when UCX has finished.
 *
 * Returns:
 * - UCXX_ERR_UNSUPPORTED: `memory_type` is a device.
 * - UCXX_ERR_RMA_SYNC: there is no passive epoch to the target.
 * - UCXX_ERR_PEER_FAILED: the target has died or left the window.
 * - UCXX_ERR_CANCELED: the window was destroyed in the epoch.
 * - Any status of ucxx_window_put.
 * - Any status of an operation: see "Operations" at the top of this file.
 *
 * Threads: any.
 * Ownership: `origin` must stay valid and unchanged until the operation has completed.
 * See also: ucxx_window_put, ucxx_window_flush_nb.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rput(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Reads from the memory of a target, with a request (MPI 4.1, 12.3.5). This is an operation.
 *
 * The operation completes when the data is in `origin`. Its status includes the errors that the
 * target has found. Everything else is as for ucxx_window_rput.
 *
 * Returns:
 * - Any status of ucxx_window_rput.
 *
 * Threads: any.
 * Ownership: `origin` must stay valid until the operation has completed.
 * See also: ucxx_window_get, ucxx_window_rput.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rget(ucxx_window_t *window, void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Combines elements of the origin with those of the target, with a request (MPI 4.1, 12.3.5). This
 * is an operation.
 *
 * It is ucxx_window_accumulate with the request of ucxx_window_rput.
 *
 * Returns:
 * - Any status of ucxx_window_rput or ucxx_window_accumulate.
 *
 * Threads: any.
 * Ownership: `origin` must stay valid and unchanged until the operation has completed.
 * See also: ucxx_window_accumulate, ucxx_window_rput.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_raccumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Combines and returns the previous elements in `result`, with a request (MPI 4.1, 12.3.5). This
 * is an operation.
 *
 * It is ucxx_window_get_accumulate with the request of ucxx_window_rget. It completes when
 * `result` is filled.
 *
 * Returns:
 * - Any status of ucxx_window_rget or ucxx_window_accumulate.
 *
 * Threads: any.
 * Ownership: `origin` and `result` must stay valid until the operation has completed.
 * See also: ucxx_window_get_accumulate, ucxx_window_rget.
 */
UCXX_NODISCARD ucxx_status_t ucxx_window_rget_accumulate(ucxx_window_t *window, const void *origin, const ucxx_layout_t *origin_layout, void *result, const ucxx_layout_t *result_layout, uint32_t target, int64_t disp, const ucxx_layout_t *target_layout, int32_t op, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_hub_params_init(ucxx_hub_params_t *value, size_t struct_size);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_hub_stats_init(ucxx_hub_stats_t *value, size_t struct_size);

/**
 * Makes a hub: a queue of chunks. A chunk is in one envelope, or in several on different devices.
 *
 * The hub has no envelopes at first.
 *
 * - Without CUDA memory a hub has no thread. Copies between host envelopes, and on_ready
 *   callbacks, run inside the call that made them possible, with no lock held.
 * - With CUDA memory a hub has a thread. It starts and completes the copies of GPUs, and calls
 *   on_ready for what they make possible.
 *
 * Returns:
 * - UCXX_OK: `*hub` is set.
 * - UCXX_ERR_INVALID_PARAM: `envelope_size` is 0 or too large, `max_queue_bytes` is below it,
 *   `retain` is unknown, or `worker` belongs to another context.
 *
 * Threads: any.
 * Ownership: the hub keeps the context, and the memory of the worker, alive. The caller destroys
 * the hub.
 * See also: ucxx_hub_add_envelopes, ucxx_link_create, ucxx_hub_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_create(ucxx_context_t *context, const ucxx_hub_params_t *params, ucxx_hub_t **hub);

/**
 * Allocates `count` more envelopes in this kind of memory. Allowed at any time.
 *
 * - The memory of the envelopes is one piece. Each envelope begins at a multiple of 64 bytes, or
 *   of 4096 if it has that size or more.
 * - Host memory of 4 MiB and more uses large pages if the system has them.
 * - GPU memory comes from cuMemAlloc, pinned memory from cuMemHostAlloc, in the primary context of
 *   the device. The current context is not changed.
 *
 * Returns:
 * - UCXX_OK: the envelopes are added.
 * - UCXX_ERR_NO_DEVICE: the device or the CUDA driver is missing.
 * - UCXX_ERR_UNSUPPORTED: another memory type than ucxx_memory_kind_t lists.
 * - UCXX_ERR_NO_MEMORY: there is no memory.
 * - UCXX_ERR_NO_RESOURCE: the thread for CUDA memory cannot be started.
 * - UCXX_ERR_EXCEEDS_LIMIT: the hub would have more than 16 Mi envelopes or 32 kinds of memory.
 *
 * Threads: any.
 * See also: ucxx_hub_add_buffer.
 */
ucxx_status_t ucxx_hub_add_envelopes(ucxx_hub_t *hub, ucxx_memory_kind_t kind, size_t count);

/**
 * Adds memory of the caller's as one envelope: `envelope_size` bytes of this kind at `data`.
 *
 * - `deallocate`: optional. It is called once as `deallocate(arg, data)`, when the hub was
 *   destroyed and its last lease has ended. It runs on the thread that ends it. It is not called
 *   if this function fails.
 *
 * Returns:
 * - UCXX_ERR_INVALID_PARAM: the CUDA driver knows the memory as another kind or of another device.
 * - Any status of ucxx_hub_add_envelopes.
 *
 * Threads: any.
 * Ownership: only the hub uses the memory until `deallocate` is called.
 * See also: ucxx_hub_add_envelopes.
 */
ucxx_status_t ucxx_hub_add_buffer(ucxx_hub_t *hub, ucxx_memory_kind_t kind, void *data, void (*deallocate)(void *arg, void *data), void *arg);

/**
 * Sets the dataflow strategy: only the listed reading links are served.
 *
 * Only these links get chunks, and chunks are copied ahead of time to their devices. A count of 0
 * removes the strategy: then all links are served. Leases continue.
 *
 * - The strategy does not change for which consumers a chunk waits. With broadcast consumers it
 *   stays until all of them have consumed it, served or not.
 * - When the last of these links is destroyed, no link is served until the strategy is changed.
 *
 * Returns:
 * - UCXX_OK: the strategy is set.
 * - UCXX_ERR_INVALID_PARAM: a link is of another hub, or a producer; or there are more than 4096
 *   links.
 *
 * Threads: any.
 * See also: ucxx_hub_add_flow, ucxx_hub_validate.
 */
ucxx_status_t ucxx_hub_set_flow(ucxx_hub_t *hub, ucxx_link_t *const *links, size_t count);

/**
 * Adds a link to the dataflow strategy. After the first one, only this link is served.
 *
 * Returns:
 * - Any status of ucxx_hub_set_flow.
 *
 * Threads: any.
 * See also: ucxx_hub_set_flow.
 */
ucxx_status_t ucxx_hub_add_flow(ucxx_hub_t *hub, ucxx_link_t *link);

/**
 * Checks that every link that is served can be served with the existing envelopes.
 *
 * Returns:
 * - UCXX_OK: each can be served.
 * - UCXX_ERR_STARVED, in one of these cases:
 *   - A link's device has too few envelopes. The message names the link, the device and the number
 *     of missing envelopes.
 *   - A link waits in vain for the oldest chunk, because newer chunks hold all envelopes on its
 *     device.
 *   - All links of the dataflow strategy are destroyed.
 *
 * Threads: any.
 * See also: ucxx_link_lease.
 */
ucxx_status_t ucxx_hub_validate(const ucxx_hub_t *hub);

/**
 * Leases an empty envelope without a link. It never waits.
 *
 * The envelope becomes a chunk at ucxx_envelope_commit. ucxx_envelope_release aborts the lease.
 * Everything else is as for ucxx_link_lease of a producer link.
 *
 * Returns:
 * - UCXX_OK: `*envelope` is set.
 * - UCXX_ERR_NO_RESOURCE: no envelope is free at the moment, or the queue is full.
 * - UCXX_ERR_STARVED: the hub has no envelopes of this kind.
 * - Any status of ucxx_link_lease.
 *
 * Threads: any.
 * Ownership: the caller ends the lease.
 * See also: ucxx_link_lease, ucxx_hub_peek.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_push(ucxx_hub_t *hub, ucxx_memory_kind_t kind, ucxx_envelope_t **envelope);

/**
 * Leases the top chunk for reading, without a link and whatever the dataflow strategy.
 *
 * If necessary the chunk is copied to this kind of memory. It waits at most `timeout_ns`
 * (nanoseconds) for the chunk, a free envelope and the copy. Everything else is as for
 * ucxx_link_lease of a peek link.
 *
 * Returns:
 * - UCXX_OK: `*envelope` is set.
 * - UCXX_ERR_NO_RESOURCE: not available, with a `timeout_ns` of 0.
 * - UCXX_ERR_TIMED_OUT: not available within `timeout_ns`.
 * - Any status of ucxx_link_lease.
 *
 * Threads: any.
 * Ownership: the caller ends the lease.
 * See also: ucxx_link_lease, ucxx_hub_pop.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_peek(ucxx_hub_t *hub, ucxx_memory_kind_t kind, uint64_t timeout_ns, ucxx_envelope_t **envelope);

/**
 * Removes the top chunk from the queue, also for consumers that have not consumed it.
 *
 * Returns:
 * - UCXX_OK: the chunk is removed.
 * - UCXX_ERR_NO_ELEM: the queue is empty.
 * - UCXX_ERR_BUSY: the chunk is on lease.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_hub_pop(ucxx_hub_t *hub);

/**
 * Returns the number of chunks in the queue, including those that consumers hold; 0 for NULL.
 *
 * Threads: any.
 */
size_t ucxx_hub_length(const ucxx_hub_t *hub);

/**
 * Marks the end of the stream of chunks. A second call has no effect.
 *
 * - Producers get UCXX_ERR_CLOSED. Leases for production may still be committed.
 * - Consumers get the remaining chunks, including those that other consumers abort, and then
 *   UCXX_ERR_CLOSED.
 * - Peek and modify links get UCXX_ERR_CLOSED when the queue is empty.
 *
 * Returns:
 * - UCXX_OK: the hub is closed.
 *
 * Threads: any.
 * See also: ucxx_hub_drain, ucxx_hub_destroy.
 */
ucxx_status_t ucxx_hub_close(ucxx_hub_t *hub);

/**
 * Waits until the queue is empty and no chunk is in production.
 *
 * - It does not stop producers: call ucxx_hub_close first.
 * - Envelopes that a connected link has leased in advance do not count.
 * - If the hub is closed, it also waits for the streams that begin here, until the peers have
 *   received the end.
 * - It progresses as ucxx_link_lease does.
 *
 * Returns:
 * - UCXX_OK: the queue is empty.
 * - UCXX_ERR_TIMED_OUT: it is not empty within `timeout_ns` (nanoseconds), also if that is 0.
 * - UCXX_ERR_BUSY: called from a callback with a `timeout_ns` other than 0.
 *
 * Threads: any.
 * See also: ucxx_hub_close.
 */
UCXX_NODISCARD ucxx_status_t ucxx_hub_drain(ucxx_hub_t *hub, uint64_t timeout_ns);

/**
 * Returns counters of the hub, and its present state.
 *
 * Returns:
 * - UCXX_OK: `*stats` is set.
 *
 * Threads: any.
 */
ucxx_status_t ucxx_hub_query_stats(const ucxx_hub_t *hub, ucxx_hub_stats_t *stats);

/**
 * Destroys the hub. NULL is ignored.
 *
 * - Its chunks are dropped. Its links return UCXX_ERR_CLOSED from then on, also to callers that
 *   wait in them.
 * - Leases continue: their memory stays until each has ended, by ucxx_envelope_abort or
 *   ucxx_envelope_release. ucxx_envelope_commit returns UCXX_ERR_CLOSED then, and does not end the
 *   lease.
 * - When it returns, no on_ready runs or will run, except one that has called it.
 * - It waits for a running on_ready. That on_ready must not wait for the caller.
 *
 * No call on the hub handle may be in progress.
 *
 * Threads: any.
 * See also: ucxx_hub_close.
 */
void ucxx_hub_destroy(ucxx_hub_t *hub);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_link_params_init(ucxx_link_params_t *value, size_t struct_size);

/**
 * Makes a link of a hub.
 *
 * - `link_type`: UCXX_LINK_PRODUCE (leases empty envelopes), _CONSUME (takes chunks from the
 *   queue), _PEEK (reads the top chunk) or _MODIFY (changes the top chunk).
 * - `kind`: the memory of the envelopes that it leases. The hub need not have such envelopes yet.
 * - `params`: optional. `on_ready` may run before this function returns, after `*link` was
 *   written.
 *
 * The link is served, unless the hub has a dataflow strategy (ucxx_hub_set_flow).
 *
 * Returns:
 * - UCXX_OK: `*link` is set.
 * - UCXX_ERR_NO_DEVICE: the device or the CUDA driver is missing.
 * - UCXX_ERR_UNSUPPORTED: another memory type than ucxx_memory_kind_t lists.
 * - UCXX_ERR_EXCEEDS_LIMIT: the hub would have more than 32 kinds of memory or 63 broadcast
 *   consumers.
 * - UCXX_ERR_INVALID_PARAM: `broadcast` is set for a link that is no consumer.
 *
 * Threads: any.
 * Ownership: the link keeps the memory of the hub alive. The caller destroys the link.
 * See also: ucxx_link_lease, ucxx_link_destroy.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_create(ucxx_hub_t *hub, int32_t link_type, ucxx_memory_kind_t kind, const ucxx_link_params_t *params, ucxx_link_t **link);

/**
 * Destroys a link. NULL is ignored.
 *
 * - Its leases continue.
 * - Chunks that wait only for this consumer are removed if another consumer has consumed them.
 *   Otherwise they stay in the queue.
 * - When it returns, its on_ready does not run and will not run, except one that has called it.
 * - It waits for a running on_ready. That on_ready must not wait for the caller.
 *
 * No other call on the link may be in progress.
 *
 * Threads: any.
 */
void ucxx_link_destroy(ucxx_link_t *link);

/**
 * Leases an envelope. A link may have several leases at a time.
 *
 * What is leased depends on the link:
 * - Producer: an empty envelope.
 * - Consumer: the oldest chunk that no consumer holds, of those that this consumer has not
 *   consumed. Competing consumers count as one.
 * - Peek and modify links: the top chunk, that is the oldest in the queue.
 *
 * It waits at most `timeout_ns` (nanoseconds). If the progress of the hub's worker is manual, it
 * progresses the worker in the meantime, and callbacks may run in it. It does so only in threads
 * that may progress the worker at any time:
 * - UCXX_THREAD_MULTI: any thread.
 * - UCXX_THREAD_SINGLE: the worker's thread.
 * - Other threads, and all threads under UCXX_THREAD_SERIALIZED, only sleep. If chunks arrive
 *   through the worker, another thread has to progress it.
 *
 * Exclusion:
 * - A chunk is not consumed while it is modified.
 * - A chunk is not modified while a link consumes it, or reads the same envelope.
 * - Modify links on the same device share the chunk.
 * - Links that read on other devices during a modification see the previous contents.
 *
 * Returns:
 * - UCXX_OK: `*envelope` is set.
 * - UCXX_ERR_NO_RESOURCE: nothing is available, with a `timeout_ns` of 0.
 * - UCXX_ERR_TIMED_OUT: nothing became available within `timeout_ns`.
 * - UCXX_ERR_CLOSED: the hub is closed, and nothing will be available for this link.
 * - UCXX_ERR_STARVED: the lease can never succeed, for one of two reasons:
 *   - The hub has too few envelopes on the link's device. The message says how many are missing.
 *   - No envelope is on lease, and newer chunks, which have no other copy, hold all envelopes on
 *     the link's device. So the oldest chunk cannot be copied there.
 * - UCXX_ERR_IO_ERROR, UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_DEVICE: copying the chunk has failed, or
 *   the CUDA stream that was to write it. The message has the driver's error.
 * - UCXX_ERR_BUSY: the link is connected (ucxx_link_connect), or the call is made from a callback
 *   with a `timeout_ns` other than 0.
 *
 * Threads: any.
 * Ownership: the caller ends the lease by ucxx_envelope_commit, ucxx_envelope_abort or
 * ucxx_envelope_release.
 * See also: ucxx_link_lease_many, ucxx_envelope_query, ucxx_hub_validate.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_lease(ucxx_link_t *link, uint64_t timeout_ns, ucxx_envelope_t **envelope);

/**
 * Leases through several links at once, or through none of them. The links may be of several hubs.
 *
 * - `count`: up to 64 links.
 * - `envelopes`: gets one envelope for each link, in the same order.
 * - If the hubs have several workers, it progresses each in turn, for a millisecond.
 *
 * Returns:
 * - UCXX_ERR_EXCEEDS_LIMIT: more than 64 links.
 * - UCXX_ERR_INVALID_PARAM: more than 4096 links. Or the links exclude each other in any hub: two
 *   that modify on different devices, or one that peeks and one that modifies.
 * - UCXX_ERR_STARVED: all links together can never be served. The message says why and what to do:
 *   - The hub has too few envelopes.
 *   - `max_queue_chunks` is too small for the chunks that are produced and those that are read.
 *   - `max_queue_bytes` is too small, and no other link can consume or change the chunks that the
 *     call waits for.
 *   - One link modifies the chunk that another link of the list consumes, and the chunk waits for
 *     no other consumer.
 * - Any status of ucxx_link_lease.
 *
 * Threads: any.
 * Ownership: the caller ends each lease.
 * See also: ucxx_link_lease.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_lease_many(ucxx_link_t *const *links, size_t count, uint64_t timeout_ns, ucxx_envelope_t **envelopes);

/**
 * Sets every field to its default, and `struct_size` to the given size.
 *
 * `struct_size` is the caller's sizeof. NULL is ignored.
 */
void ucxx_envelope_attr_init(ucxx_envelope_attr_t *value, size_t struct_size);

/**
 * Ends a lease, and makes its result valid.
 *
 * - Producer: the envelope becomes a new chunk of `length` bytes at the end of the queue.
 * - Consumer: the chunk is consumed. Its envelopes are free when all consumers that it waits for
 *   have consumed it.
 * - Modify link: the chunk has `length` bytes from now on. Its copies on other devices are
 *   dropped.
 * - Consumer and peek link: `length` is ignored.
 *
 * `stream` is a CUstream of a primary context whose work so far has to finish first, or NULL. In a
 * hub without CUDA memory it must be NULL. The call does not wait for the stream:
 * - An envelope on a GPU is passed on at once, with this work as its `ready_event`.
 * - Any other envelope is passed on when the stream has finished this work.
 *
 * Returns:
 * - UCXX_OK: the lease has ended.
 * - UCXX_ERR_INVALID_PARAM: `length` is more than the envelope's size, or `stream` is of a context
 *   that is not primary.
 * - UCXX_ERR_NO_DEVICE: `stream` is not NULL in a hub without CUDA memory.
 * - UCXX_ERR_CLOSED: the hub was destroyed. End the lease by ucxx_envelope_abort or
 *   ucxx_envelope_release.
 *
 * After an error the lease continues.
 *
 * Threads: any.
 * Ownership: after UCXX_OK the handle is invalid.
 * See also: ucxx_envelope_abort, ucxx_envelope_release.
 */
UCXX_NODISCARD ucxx_status_t ucxx_envelope_commit(ucxx_envelope_t *envelope, size_t length, void *stream);

/**
 * Ends a lease without a result.
 *
 * - Producer: the envelope is free again.
 * - Consumer: the chunk stays at its place in the queue, so it is leased first the next time.
 * - Modify link: if the chunk has a copy on another device, it has its previous contents.
 *   Otherwise it keeps what was written.
 *
 * `stream` is as for ucxx_envelope_commit.
 *
 * Returns:
 * - UCXX_OK: the lease has ended.
 * - UCXX_ERR_NO_DEVICE, UCXX_ERR_INVALID_PARAM: `stream` as for ucxx_envelope_commit.
 *
 * After an error the lease continues.
 *
 * Threads: any.
 * Ownership: after UCXX_OK the handle is invalid.
 * See also: ucxx_envelope_commit.
 */
ucxx_status_t ucxx_envelope_abort(ucxx_envelope_t *envelope, void *stream);

/**
 * Ends a lease: commits it if the link has `autocommit`, otherwise aborts it.
 *
 * With autocommit:
 * - A produced chunk has the length of the envelope, or the length that ucxx_envelope_swap has
 *   brought.
 * - A modified chunk keeps its length.
 * - If the hub was destroyed, the lease is aborted.
 *
 * Returns:
 * - Any status of ucxx_envelope_commit, except UCXX_ERR_CLOSED.
 *
 * Threads: any.
 * Ownership: after UCXX_OK the handle is invalid.
 * See also: ucxx_envelope_commit, ucxx_envelope_abort.
 */
ucxx_status_t ucxx_envelope_release(ucxx_envelope_t *envelope, void *stream);

/**
 * Exchanges the memory, length and metadata of two envelopes on lease, without a copy.
 *
 * - They may be of one hub or of two. Both must have the same kind of memory and the same
 *   `envelope_size`.
 * - Call ucxx_envelope_query for both afterwards.
 * - An envelope in production has a length only if one was set. Otherwise the other side gets the
 *   envelope's size as the length.
 * - If a consumer aborts after a swap, the chunk keeps the swapped contents, unless it has a copy
 *   on another device.
 *
 * Returns:
 * - UCXX_OK: they are exchanged.
 * - UCXX_ERR_INVALID_PARAM: kind or size differ, or a lease is of a peek link or a broadcast
 *   consumer, which only read.
 * - UCXX_ERR_BUSY: other leases or copies use the envelope, or broadcast consumers are still to
 *   read the chunk of a competing consumer there.
 * - UCXX_ERR_UNSUPPORTED: an envelope is a buffer of ucxx_hub_add_buffer.
 *
 * Threads: any. No other call may use either envelope at the same time.
 * See also: ucxx_envelope_query.
 */
ucxx_status_t ucxx_envelope_swap(ucxx_envelope_t *a, ucxx_envelope_t *b);

/**
 * Returns where an envelope on lease is, and what is in it.
 *
 * Returns:
 * - UCXX_OK: `*attr` is set.
 *
 * Threads: any.
 * Ownership: the pointers in `*attr` are valid until the lease ends or the envelope is swapped.
 */
ucxx_status_t ucxx_envelope_query(const ucxx_envelope_t *envelope, ucxx_envelope_attr_t *attr);

/**
 * Receives a tag message directly into an envelope of a producer link, and commits it as a chunk.
 * This is an operation.
 *
 * - The hub needs a worker, on which the message is received. Tag matching is as for
 *   ucxx_tag_recv.
 * - The envelope is leased before the call returns.
 * - The chunk has the length of the message. It is committed before the callback runs, the
 *   notifier reports, or a thread that waits for the request returns.
 * - If the receive fails, the lease is aborted. A message longer than the envelope is such a
 *   failure.
 * - Chunks are queued in the order in which their messages complete. A short message may overtake
 *   an earlier long one.
 * - `params->memory_type` is ignored. Everything else is as for ucxx_tag_recv.
 *
 * Returns:
 * - UCXX_INPROGRESS: without UCXX_FLAG_WAIT it never completes inside the call.
 * - UCXX_ERR_NO_RESOURCE: no envelope is free, or the queue is full.
 * - UCXX_ERR_INVALID_PARAM: the link is no producer, or the hub has no worker.
 * - UCXX_ERR_CLOSED: the hub is closed.
 * - UCXX_ERR_STARVED: as for ucxx_link_lease.
 * - UCXX_ERR_BUSY: the link is connected.
 * - UCXX_ERR_UNSUPPORTED: UCX has no support for the link's memory.
 * - Any status of ucxx_tag_recv.
 *
 * Threads: any.
 * See also: ucxx_link_send, ucxx_link_connect, ucxx_tag_recv.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_recv(ucxx_link_t *produce_link, uint64_t tag, uint64_t tag_mask, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Sends the oldest chunk of a consumer link as a tag message, directly from its envelope, and
 * consumes it. This is an operation.
 *
 * - The endpoint must be of the hub's worker.
 * - The chunk is consumed when the buffer is free again. This is before the callback runs, the
 *   notifier reports, or a thread that waits for the request returns.
 * - If the send fails, the lease is aborted, and the chunk is available again.
 * - The metadata is not sent.
 * - `params->memory_type` is ignored. Everything else is as for ucxx_tag_send.
 *
 * Returns:
 * - UCXX_ERR_NO_RESOURCE: there is no chunk at the moment.
 * - UCXX_ERR_CLOSED: the hub is closed, and there will be no chunk; or the endpoint is closed.
 * - UCXX_ERR_INVALID_PARAM: the link is no consumer, the hub has no worker, or the endpoint is of
 *   another worker.
 * - UCXX_ERR_STARVED, UCXX_ERR_IO_ERROR, UCXX_ERR_NO_MEMORY, UCXX_ERR_NO_DEVICE: as for
 *   ucxx_link_lease.
 * - UCXX_ERR_BUSY: the link is connected.
 * - UCXX_ERR_UNSUPPORTED: UCX has no support for the link's memory.
 * - Any status of ucxx_tag_send.
 *
 * Threads: any.
 * See also: ucxx_link_recv, ucxx_link_connect, ucxx_tag_send.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_send(ucxx_link_t *consume_link, ucxx_endpoint_t *endpoint, uint64_t tag, const ucxx_op_params_t *params, ucxx_request_t **request);

/**
 * Connects a consumer link with a producer link of the peer, as one stream.
 *
 * Every chunk here becomes a chunk there, in the same order and with its metadata. Both sides call
 * it, in any order. It returns at once. Until both have called it, the connected side leases
 * nothing.
 *
 * - `endpoint`: leads to the worker of the other side's hub, and is of this hub's worker. Both
 *   hubs need a worker.
 * - `stream_id`: the same at both sides. Two workers can have one stream of a number in each
 *   direction at a time.
 * - `window`: how many chunks may be in transit; 1 to 65536. The smaller value of both sides
 *   applies.
 *
 * Progress: chunks move while both workers are progressed. The stream does its work in their
 * passes, including the callbacks of the hub.
 *
 * Flow:
 * - The receiving side leases up to `window` envelopes in advance. Nothing is sent without one, so
 *   a full hub makes the sender wait (`credit_stalls`).
 * - A chunk is consumed at the sender when it has become a chunk at the receiver.
 * - The envelopes of both sides may differ in size. A chunk that is too long for the receiver ends
 *   the stream. Only the log reports this; the links at both ends then wait for another one.
 *
 * End of the stream:
 * - When the sending hub is closed and empty, the receiving hub is closed. Its readers get
 *   UCXX_ERR_CLOSED after the last chunk.
 * - A hub with several incoming streams is closed when all of them have ended so. A destroyed link
 *   is not waited for. A link whose stream was interrupted is waited for until it is connected
 *   again.
 * - ucxx_hub_drain of the closed sending hub waits until the peer has received the end. Then the
 *   endpoint may be closed.
 *
 * While a link is connected, leases through it return UCXX_ERR_BUSY, and its on_ready is not
 * called. The connection ends in these cases:
 * - The endpoint ends. Before on_close runs, chunks without acknowledgement are offered again to
 *   the consumers of the sending hub, oldest first. The receiving hub then has a first part of
 *   what was sent, and perhaps the first of these chunks. Connect again on another endpoint to
 *   continue.
 * - The link or its hub is destroyed, or a receiving hub is closed. Then the stream ends in order:
 *   no chunk is lost or doubled. The link at the other end waits for another one to be connected.
 * - The stream has ended.
 *
 * Returns:
 * - UCXX_OK: the link is connected on this side.
 * - UCXX_ERR_INVALID_PARAM: the link peeks or modifies, the hub has no worker, the endpoint is of
 *   another worker, or `window` is 0.
 * - UCXX_ERR_EXCEEDS_LIMIT: `window` is more than 65536.
 * - UCXX_ERR_BUSY: the link is connected already. Or it is called from a callback "on another
 *   thread": see "Callbacks" at the top of this file.
 * - UCXX_ERR_ALREADY_EXISTS: a stream of this number and direction to this peer exists. After
 *   ucxx_link_destroy it exists until the peer has received its end: progress, and try again.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_AM, or UCX has no support for the link's
 *   memory.
 * - UCXX_ERR_CLOSED: the hub was destroyed.
 * - The status of the endpoint, if it has ended.
 *
 * Threads: as for ucxx_am_send.
 * See also: ucxx_link_destroy, ucxx_hub_close, ucxx_hub_drain.
 */
ucxx_status_t ucxx_link_connect(ucxx_link_t *link, ucxx_endpoint_t *endpoint, uint64_t stream_id, uint32_t window);

/**
 * Returns a descriptor of the link for the caller's event loop.
 *
 * After ucxx_link_arm it becomes readable when a lease is available, or when none will be
 * available any more.
 *
 * Returns:
 * - UCXX_OK: `*fd` is set.
 * - UCXX_ERR_UNSUPPORTED: the context has no UCXX_FEATURE_WAKEUP.
 * - UCXX_ERR_IO_ERROR: the system has no descriptor left.
 *
 * Threads: any.
 * Ownership: the library owns the descriptor; do not close it.
 * See also: ucxx_link_arm.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_event_fd(ucxx_link_t *link, int32_t *fd);

/**
 * Arms the link's descriptor: it becomes readable, once, when a lease is available.
 *
 * Returns:
 * - UCXX_OK: armed; the caller may sleep.
 * - UCXX_ERR_BUSY: a lease is available now. Lease first, and do not sleep.
 * - UCXX_ERR_CLOSED: no lease will be available any more.
 * - UCXX_ERR_UNSUPPORTED, UCXX_ERR_IO_ERROR: as for ucxx_link_event_fd.
 *
 * Threads: any, one at a time for a link.
 * See also: ucxx_link_event_fd, ucxx_link_lease.
 */
UCXX_NODISCARD ucxx_status_t ucxx_link_arm(ucxx_link_t *link);

/**
 * Writes the metrics of the context as OpenMetrics text, which Prometheus reads.
 *
 * Calls `line(arg, text)` once for each line, in order, without line feeds; the last line is "#
 * EOF". To have the text in a buffer, append each line and a line feed. `line` may call any
 * function. Nothing has to be switched on: the counters are always there. docs/metrics.md has a
 * list of all metrics. The environment variable UCXX_RS_METRICS serves the same text over HTTP, or
 * writes it to a file, without a call.
 *
 * The text covers everything that was made with the context and exists: its workers, hubs, groups
 * and windows. Endpoints are summed in their workers.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread of the program, and takes no part in progress.
 * See also: ucxx_context_dump.
 */
ucxx_status_t ucxx_context_metrics(const ucxx_context_t *context, void (*line)(void *arg, const char *text), void *arg);

/**
 * Writes the metrics of a worker as OpenMetrics text.
 *
 * The text covers the worker. Its endpoints are summed. The lines come as from
 * ucxx_context_metrics.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread, and takes no part in progress.
 * See also: ucxx_worker_query_stats, ucxx_worker_dump, ucxx_context_metrics.
 */
ucxx_status_t ucxx_worker_metrics(const ucxx_worker_t *worker, void (*line)(void *arg, const char *text), void *arg);

/**
 * Writes the metrics of an endpoint as OpenMetrics text.
 *
 * The text covers one endpoint: what it has sent, its send window and queue, and the credit of its
 * peer. The lines come as from ucxx_context_metrics.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread, and takes no part in progress.
 * See also: ucxx_endpoint_query_load, ucxx_context_metrics.
 */
ucxx_status_t ucxx_endpoint_metrics(const ucxx_endpoint_t *endpoint, void (*line)(void *arg, const char *text), void *arg);

/**
 * Writes the metrics of a hub as OpenMetrics text.
 *
 * The text covers the hub: its envelopes, chunks, copies and links. The lines come as from
 * ucxx_context_metrics.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread, and takes no part in progress.
 * See also: ucxx_hub_query_stats, ucxx_context_metrics.
 */
ucxx_status_t ucxx_hub_metrics(const ucxx_hub_t *hub, void (*line)(void *arg, const char *text), void *arg);

/**
 * Writes the metrics of a window as OpenMetrics text.
 *
 * The text covers the window: data calls of this process, and how they reached their targets;
 * locks and flushes. The lines come as from ucxx_context_metrics.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread, and takes no part in progress.
 * See also: ucxx_window_query, ucxx_context_metrics.
 */
ucxx_status_t ucxx_window_metrics(const ucxx_window_t *window, void (*line)(void *arg, const char *text), void *arg);

/**
 * Writes the metrics of a group as OpenMetrics text.
 *
 * The text covers the group: its collectives, and the worker that carries its messages. The lines
 * come as from ucxx_context_metrics.
 *
 * Returns:
 * - UCXX_OK: all lines were passed on.
 *
 * Threads: any. It waits for no other thread, and takes no part in progress.
 * See also: ucxx_group_create, ucxx_context_metrics.
 */
ucxx_status_t ucxx_group_metrics(const ucxx_group_t *group, void (*line)(void *arg, const char *text), void *arg);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* UCXX_RS_H */
