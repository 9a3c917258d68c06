// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.

/** Values of `ucxx_status_t`: 0 done, 1 in progress, negative an error. */
export const Status = Object.freeze({
  /** Done. */
  UCXX_OK: 0,
  /** The operation is in progress. */
  UCXX_INPROGRESS: 1,
  /** No matching message has arrived. */
  UCXX_ERR_NO_MESSAGE: -1,
  /** There is no room now: a queue, a window or the credit is used up. */
  UCXX_ERR_NO_RESOURCE: -2,
  /** Input or output failed, or the peer violated this library's protocol. */
  UCXX_ERR_IO_ERROR: -3,
  /** There is not enough memory, on the host or on the device. */
  UCXX_ERR_NO_MEMORY: -4,
  /** An argument is invalid. */
  UCXX_ERR_INVALID_PARAM: -5,
  /** No peer listens there, the name is unknown, or no transport connects the two. */
  UCXX_ERR_UNREACHABLE: -6,
  /** The address is damaged, or another program made it. */
  UCXX_ERR_INVALID_ADDR: -7,
  /** The UCX transport does not implement the call. */
  UCXX_ERR_NOT_IMPLEMENTED: -8,
  /** The message, or the reply, is longer than the buffer. */
  UCXX_ERR_MESSAGE_TRUNCATED: -9,
  /** The output buffer is too small. */
  UCXX_ERR_BUFFER_TOO_SMALL: -11,
  /** There is no such element: no request in the list, no progress thread, no buffers, no handler
   * for the id, or no memory for the key any more. */
  UCXX_ERR_NO_ELEM: -12,
  /** The device or its driver does not exist. */
  UCXX_ERR_NO_DEVICE: -14,
  /** The call is not possible now: it would wait in a callback, it overlaps another call, or the
   * port is in use. */
  UCXX_ERR_BUSY: -15,
  /** The operation was cancelled: by ucxx_request_cancel, by a close with FORCE, or by the end of
   * its worker. */
  UCXX_ERR_CANCELED: -16,
  /** It exists already: a progress thread, an armed callback, or a reply. */
  UCXX_ERR_ALREADY_EXISTS: -18,
  /** The index or offset is outside the object. */
  UCXX_ERR_OUT_OF_RANGE: -19,
  /** The time of a wait, an operation, or an endpoint expired. */
  UCXX_ERR_TIMED_OUT: -20,
  /** Something is larger than a limit of yours or of the library. */
  UCXX_ERR_EXCEEDS_LIMIT: -21,
  /** The context has no such feature, or the loaded UCX, the memory type or the peer does not
   * support the call. */
  UCXX_ERR_UNSUPPORTED: -22,
  /** The peer refused the connection, the fetch, or the secret of the group. */
  UCXX_ERR_REJECTED: -23,
  /** The endpoint is not connected. */
  UCXX_ERR_NOT_CONNECTED: -24,
  /** The peer closed its endpoint. */
  UCXX_ERR_CONNECTION_RESET: -25,
  /** UCX received no answer from the peer in time. */
  UCXX_ERR_ENDPOINT_TIMEOUT: -80,
  /** The window's present epoch does not allow the call. */
  UCXX_ERR_RMA_SYNC: -201,
  /** The target range is outside the window. */
  UCXX_ERR_RMA_RANGE: -202,
  /** The target range is not attached, or the range to attach overlaps an attached one. */
  UCXX_ERR_RMA_ATTACH: -203,
  /** This flavour of window does not offer the call. */
  UCXX_ERR_RMA_FLAVOR: -204,
  /** The operation does not work on this element type. */
  UCXX_ERR_RMA_OP: -205,
  /** A peer died while it held an exclusive lock, so the contents of the target are unknown. */
  UCXX_ERR_RMA_POISONED: -206,
  /** The group has no such rank. */
  UCXX_ERR_RMA_RANK: -207,
  /** There is no such element type. */
  UCXX_ERR_RMA_TYPE: -208,
  /** There is no such lock type. */
  UCXX_ERR_RMA_LOCK_TYPE: -209,
  /** The peer's process ended, or the peer is no longer reachable. */
  UCXX_ERR_PEER_FAILED: -210,
  /** The call does not accept this UCXX_ASSERT_* value. */
  UCXX_ERR_RMA_ASSERT: -211,
  /** The object, or its parent, was closed, stopped or destroyed. */
  UCXX_ERR_CLOSED: -220,
  /** The hub link can never succeed: it has too few envelopes. */
  UCXX_ERR_STARVED: -221,
  /** The handle was created before fork(), and this is the child. */
  UCXX_ERR_FORKED: -230,
  /** The library caught a bug of its own. */
  UCXX_ERR_PANIC: -299,
  /** This number and all numbers below it belong to the application. */
  UCXX_ERR_APPLICATION: -1000,
});

/** What a notifier reports: the `kind` of `ucxx_completion_t`, and the type of its `handle`. */
export const Event = Object.freeze({
  /** An operation completed. */
  UCXX_EVENT_COMPLETION: 0,
  /** A client requests a connection from a listener. */
  UCXX_EVENT_CONN_REQUEST: 1,
  /** An endpoint has ended, as reported to `on_close`. */
  UCXX_EVENT_ENDPOINT_CLOSED: 2,
  /** An active message arrived. */
  UCXX_EVENT_AM_MESSAGE: 3,
  /** A fetch arrived: a peer expects a reply. */
  UCXX_EVENT_FETCH: 4,
});

/** How much is logged. */
export const LogLevel = Object.freeze({
  /** Nothing. */
  UCXX_LOG_OFF: 0,
  /** Errors. */
  UCXX_LOG_ERROR: 1,
  /** Warnings. */
  UCXX_LOG_WARN: 2,
  /** Events of interest, such as a failed attempt to connect. */
  UCXX_LOG_INFO: 3,
  /** Details for debugging. */
  UCXX_LOG_DEBUG: 4,
  /** All details. */
  UCXX_LOG_TRACE: 5,
});

/** What a context is used for: bits of ucxx_context_params_t.features. */
export const Feature = Object.freeze({
  /** Tag messages. */
  UCXX_FEATURE_TAG: 1,
  /** Streams. */
  UCXX_FEATURE_STREAM: 2,
  /** Active messages, fetches, groups, and hubs between processes. */
  UCXX_FEATURE_AM: 4,
  /** Put and get. */
  UCXX_FEATURE_RMA: 8,
  /** Atomic operations. */
  UCXX_FEATURE_ATOMIC: 16,
  /** Descriptors, and waits that sleep. */
  UCXX_FEATURE_WAKEUP: 32,
});

/** Which networks a context uses. */
export const Network = Object.freeze({
  /** All that UCX finds. */
  UCXX_NETWORK_ALL: 0,
  /** Loopback and shared memory only. */
  UCXX_NETWORK_LOCAL: 1,
});

/** Which threads may call a worker while its progress is manual. */
export const ThreadMode = Object.freeze({
  /** Any thread, several at a time. */
  UCXX_THREAD_MULTI: 0,
  /** Any thread, one at a time. */
  UCXX_THREAD_SERIALIZED: 1,
  /** Only the thread that created the worker. */
  UCXX_THREAD_SINGLE: 2,
});

/** What makes progress on a worker. */
export const ProgressMode = Object.freeze({
  /** The application: it calls ucxx_worker_progress, or a function that waits. */
  UCXX_PROGRESS_MANUAL: 0,
  /** A thread that polls, and sleeps after `spin_ns` without work. */
  UCXX_PROGRESS_THREAD_ADAPTIVE: 1,
  /** A thread that polls all the time. */
  UCXX_PROGRESS_THREAD_POLLING: 2,
  /** A thread that sleeps whenever it has nothing to do. */
  UCXX_PROGRESS_THREAD_BLOCKING: 3,
});

/** Where a buffer is located. */
export const MemoryType = Object.freeze({
  /** UCX detects the type from the pointer. */
  UCXX_MEMORY_AUTO: 0,
  /** Ordinary host memory. */
  UCXX_MEMORY_HOST: 1,
  /** Memory of a CUDA device. */
  UCXX_MEMORY_CUDA: 2,
  /** CUDA managed memory. */
  UCXX_MEMORY_CUDA_MANAGED: 3,
  /** Memory of a ROCm device. */
  UCXX_MEMORY_ROCM: 4,
  /** Host memory that is pinned for CUDA. */
  UCXX_MEMORY_CUDA_PINNED: 16,
  /** Host memory that plays the part of a device, for tests without a GPU. */
  UCXX_MEMORY_DUMMY: 127,
});

/** Flags of `ucxx_op_params_t`. */
export const Flag = Object.freeze({
  /** Never complete inside the call. */
  UCXX_FLAG_ALWAYS_CALLBACK: 1,
  /** Sends, fetches and replies: return UCXX_ERR_NO_RESOURCE instead of waiting. */
  UCXX_FLAG_NO_WAIT: 2,
  /** ucxx_am_send*, ucxx_am_queue_send*, ucxx_fetch_reply*: the data travels with the message,
   * whatever its length. */
  UCXX_FLAG_EAGER: 4,
  /** The same functions: the data waits at the sender until the receiver pulls it directly into its
   * buffer. */
  UCXX_FLAG_RNDV: 8,
  /** Submit through the queue of the progress thread, also where the call could submit directly. */
  UCXX_FLAG_DELAYED: 16,
  /** Stream receive: complete with the bytes that have arrived. */
  UCXX_FLAG_STREAM_PARTIAL: 32,
  /** Blocking form: the call returns the final status of the operation, never UCXX_INPROGRESS. */
  UCXX_FLAG_WAIT: 64,
  /** Active message: give the receiver an endpoint to reply on. */
  UCXX_FLAG_AM_REPLY: 128,
  /** When `timeout_ns` expires, close the endpoint by force if the operation cannot end otherwise.
   * */
  UCXX_FLAG_TIMEOUT_CLOSES: 256,
});

/** Whether an endpoint notices that its peer has died. */
export const ErrorHandling = Object.freeze({
  /** The default. */
  UCXX_ENDPOINT_ERROR_HANDLING_PEER: 0,
  /** No detection. */
  UCXX_ENDPOINT_ERROR_HANDLING_NONE: 1,
});

/** How ucxx_endpoint_close closes. */
export const Close = Object.freeze({
  /** Complete what was submitted before. */
  UCXX_CLOSE_FLUSH: 0,
  /** Cancel the operations in flight. */
  UCXX_CLOSE_FORCE: 1,
});

/** The type of memory that receives a message of ucxx_am_queue_send_to. */
export const AmMemory = Object.freeze({
  /** The receiver may use host memory in place of a type that it does not make. */
  UCXX_AM_MEMORY_ANY: 0,
  /** The receiver refuses a message whose data waits here if it does not make this type. */
  UCXX_AM_MEMORY_EXACT: 1,
});

/** Operations of ucxx_rma_atomic on a number in registered memory. */
export const AtomicOp = Object.freeze({
  /** Add, with wrap-around. */
  UCXX_ATOMIC_ADD: 0,
  /** Bitwise AND. */
  UCXX_ATOMIC_AND: 1,
  /** Bitwise OR. */
  UCXX_ATOMIC_OR: 2,
  /** Bitwise XOR. */
  UCXX_ATOMIC_XOR: 3,
  /** Store `operand`. */
  UCXX_ATOMIC_SWAP: 4,
  /** Store `operand` if the number equals `compare`. */
  UCXX_ATOMIC_CSWAP: 5,
});

/** How the members of a group find each other. */
export const Bootstrap = Object.freeze({
  /** By the caller's `allgather`, for example over MPI or a file system. */
  UCXX_BOOTSTRAP_CALLBACKS: 0,
  /** Over TCP: rank 0 listens at `root`. */
  UCXX_BOOTSTRAP_TCP: 1,
  /** By the PMIx server of the launcher. */
  UCXX_BOOTSTRAP_PMIX: 2,
  /** Over TCP, with rank and size from the environment of the launcher: torchrun, mpirun, mpiexec
   * or srun. */
  UCXX_BOOTSTRAP_ENV: 3,
});

/** Kinds of windows. */
export const WindowFlavor = Object.freeze({
  /** Memory of the caller: ucxx_window_create. */
  UCXX_WINDOW_FLAVOR_CREATE: 0,
  /** Memory of the library: ucxx_window_allocate. */
  UCXX_WINDOW_FLAVOR_ALLOCATE: 1,
  /** Memory of the library that all members map: ucxx_window_allocate_shared. */
  UCXX_WINDOW_FLAVOR_SHARED: 2,
  /** Memory that members attach and detach: ucxx_window_create_dynamic. */
  UCXX_WINDOW_FLAVOR_DYNAMIC: 3,
});

/** Kinds of window locks. */
export const LockType = Object.freeze({
  /** Several members hold it at a time. */
  UCXX_LOCK_SHARED: 1,
  /** One member holds it. */
  UCXX_LOCK_EXCLUSIVE: 2,
});

/** Assertions: promises of the caller at a call that synchronises a window. */
export const Assert = Object.freeze({
  /** lock, lock_all: no other member holds or requests a conflicting lock. */
  UCXX_ASSERT_NOCHECK: 1,
  /** post, fence: the local window was not written by local stores since the last synchronisation.
   * */
  UCXX_ASSERT_NOSTORE: 2,
  /** post, fence: no put or accumulate will update the local window in the epoch that begins. */
  UCXX_ASSERT_NOPUT: 4,
  /** fence: this fence completes no operations that this member issued. */
  UCXX_ASSERT_NOPRECEDE: 8,
  /** fence: this fence begins no epoch. */
  UCXX_ASSERT_NOSUCCEED: 16,
});

/** The kind of epoch a window is in: result of ucxx_window_sync_type. */
export const SyncType = Object.freeze({
  /** No epoch. */
  UCXX_SYNC_NONE: 0,
  /** After ucxx_window_lock. */
  UCXX_SYNC_LOCK: 1,
  /** After ucxx_window_lock with NOCHECK. */
  UCXX_SYNC_LOCK_NO_CHECK: 2,
  /** After ucxx_window_lock_all. */
  UCXX_SYNC_LOCK_ALL: 3,
  /** After ucxx_window_lock_all with NOCHECK. */
  UCXX_SYNC_LOCK_ALL_NO_CHECK: 4,
  /** After ucxx_window_start or ucxx_window_post (post, start, complete, wait). */
  UCXX_SYNC_PSCW: 5,
  /** After ucxx_window_fence, before the first access. */
  UCXX_SYNC_FENCE: 6,
  /** After ucxx_window_fence, with accesses. */
  UCXX_SYNC_FENCE_EPOCH: 7,
});

/** Element types of windows: one C type each. */
export const Type = Object.freeze({
  /**  */
  UCXX_TYPE_BYTE: 0,
  /**  */
  UCXX_TYPE_INT8: 1,
  /**  */
  UCXX_TYPE_UINT8: 2,
  /**  */
  UCXX_TYPE_INT16: 3,
  /**  */
  UCXX_TYPE_UINT16: 4,
  /**  */
  UCXX_TYPE_INT32: 5,
  /**  */
  UCXX_TYPE_UINT32: 6,
  /**  */
  UCXX_TYPE_INT64: 7,
  /**  */
  UCXX_TYPE_UINT64: 8,
  /**  */
  UCXX_TYPE_FLOAT: 9,
  /**  */
  UCXX_TYPE_DOUBLE: 10,
  /**  */
  UCXX_TYPE_COMPLEX_FLOAT: 11,
  /**  */
  UCXX_TYPE_COMPLEX_DOUBLE: 12,
  /**  */
  UCXX_TYPE_BOOL: 13,
  /**  */
  UCXX_TYPE_FLOAT_INT: 14,
  /**  */
  UCXX_TYPE_DOUBLE_INT: 15,
  /**  */
  UCXX_TYPE_INT16_INT: 16,
  /**  */
  UCXX_TYPE_INT32_INT: 17,
  /**  */
  UCXX_TYPE_INT64_INT: 18,
  /** `long double`, 16 bytes. */
  UCXX_TYPE_LONG_DOUBLE: 19,
  /**  */
  UCXX_TYPE_COMPLEX_LONG_DOUBLE: 20,
  /**  */
  UCXX_TYPE_LONG_DOUBLE_INT: 21,
});

/** Operations of accumulates. */
export const Reduce = Object.freeze({
  /** Sum. */
  UCXX_REDUCE_SUM: 0,
  /** Product. */
  UCXX_REDUCE_PROD: 1,
  /** Minimum. */
  UCXX_REDUCE_MIN: 2,
  /** Maximum. */
  UCXX_REDUCE_MAX: 3,
  /** Logical AND. */
  UCXX_REDUCE_LAND: 4,
  /** Logical OR. */
  UCXX_REDUCE_LOR: 5,
  /** Logical XOR. */
  UCXX_REDUCE_LXOR: 6,
  /** Bitwise AND. */
  UCXX_REDUCE_BAND: 7,
  /** Bitwise OR. */
  UCXX_REDUCE_BOR: 8,
  /** Bitwise XOR. */
  UCXX_REDUCE_BXOR: 9,
  /** Replace. */
  UCXX_REDUCE_REPLACE: 10,
  /** Change nothing. */
  UCXX_REDUCE_NO_OP: 11,
  /** Minimum, with its index. */
  UCXX_REDUCE_MINLOC: 12,
  /** Maximum, with its index. */
  UCXX_REDUCE_MAXLOC: 13,
});

/** The order among accumulates of one process at one target. */
export const AccumulateOrder = Object.freeze({
  /** MPI's default: read after read, read after write, write after read, write after write. */
  UCXX_ORDER_ALL: 0,
  /** No order is required. */
  UCXX_ORDER_NONE: 1,
});

/** How a window reaches a target: result of ucxx_window_path. */
export const Path = Object.freeze({
  /** The target is the calling process. */
  UCXX_WINDOW_PATH_SELF: 0,
  /** The target is on this host, and its memory is accessed directly. */
  UCXX_WINDOW_PATH_LOCAL: 1,
  /** By messages, which a thread of the group executes at the target. */
  UCXX_WINDOW_PATH_MESSAGE: 2,
  /** Reserved. */
  UCXX_WINDOW_PATH_RMA: 3,
});

/** Kinds of links of a hub. */
export const LinkType = Object.freeze({
  /** Leases empty envelopes, and commits them as chunks. */
  UCXX_LINK_PRODUCE: 1,
  /** Leases chunks, and takes them out of the queue. */
  UCXX_LINK_CONSUME: 2,
  /** Leases the oldest chunk to read it. */
  UCXX_LINK_PEEK: 3,
  /** Leases the oldest chunk to change it. */
  UCXX_LINK_MODIFY: 4,
});

/** Whether a hub keeps the source envelope of a transfer between devices. */
export const HubRetain = Object.freeze({
  /** Until the hub needs the envelope for another chunk, and no link that is served has to read the
   * chunk there. */
  UCXX_HUB_RETAIN_AUTO: 0,
  /** Until the chunk is consumed. */
  UCXX_HUB_RETAIN_ALWAYS: 1,
  /** Only while a link that is served has to read the chunk there. */
  UCXX_HUB_RETAIN_UNTIL_COPIED: 2,
});

export const soname = 'libucxx_rs.so.0.1';
