// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) the ucxx_rs developers
//
// Made by generate.py. Do not edit.
package ucxxrs;

/** The constants of the library, by their names in C. */
final class Constants {
  static final String SONAME = "libucxx_rs.so.0.1";

  static final int UCXX_EVENT_COMPLETION = 0;
  static final int UCXX_EVENT_CONN_REQUEST = 1;
  static final int UCXX_EVENT_ENDPOINT_CLOSED = 2;
  static final int UCXX_EVENT_AM_MESSAGE = 3;
  static final int UCXX_EVENT_FETCH = 4;

  static final int UCXX_LOG_OFF = 0;
  static final int UCXX_LOG_ERROR = 1;
  static final int UCXX_LOG_WARN = 2;
  static final int UCXX_LOG_INFO = 3;
  static final int UCXX_LOG_DEBUG = 4;
  static final int UCXX_LOG_TRACE = 5;

  static final long UCXX_FEATURE_TAG = 1;
  static final long UCXX_FEATURE_STREAM = 2;
  static final long UCXX_FEATURE_AM = 4;
  static final long UCXX_FEATURE_RMA = 8;
  static final long UCXX_FEATURE_ATOMIC = 16;
  static final long UCXX_FEATURE_WAKEUP = 32;

  static final int UCXX_NETWORK_ALL = 0;
  static final int UCXX_NETWORK_LOCAL = 1;

  static final int UCXX_THREAD_MULTI = 0;
  static final int UCXX_THREAD_SERIALIZED = 1;
  static final int UCXX_THREAD_SINGLE = 2;

  static final int UCXX_PROGRESS_MANUAL = 0;
  static final int UCXX_PROGRESS_THREAD_ADAPTIVE = 1;
  static final int UCXX_PROGRESS_THREAD_POLLING = 2;
  static final int UCXX_PROGRESS_THREAD_BLOCKING = 3;

  static final int UCXX_MEMORY_AUTO = 0;
  static final int UCXX_MEMORY_HOST = 1;
  static final int UCXX_MEMORY_CUDA = 2;
  static final int UCXX_MEMORY_CUDA_MANAGED = 3;
  static final int UCXX_MEMORY_ROCM = 4;
  static final int UCXX_MEMORY_CUDA_PINNED = 16;
  static final int UCXX_MEMORY_DUMMY = 127;

  static final long UCXX_FLAG_ALWAYS_CALLBACK = 1;
  static final long UCXX_FLAG_NO_WAIT = 2;
  static final long UCXX_FLAG_EAGER = 4;
  static final long UCXX_FLAG_RNDV = 8;
  static final long UCXX_FLAG_DELAYED = 16;
  static final long UCXX_FLAG_STREAM_PARTIAL = 32;
  static final long UCXX_FLAG_WAIT = 64;
  static final long UCXX_FLAG_AM_REPLY = 128;
  static final long UCXX_FLAG_TIMEOUT_CLOSES = 256;

  static final int UCXX_ENDPOINT_ERROR_HANDLING_PEER = 0;
  static final int UCXX_ENDPOINT_ERROR_HANDLING_NONE = 1;

  static final int UCXX_CLOSE_FLUSH = 0;
  static final int UCXX_CLOSE_FORCE = 1;

  static final int UCXX_AM_MEMORY_ANY = 0;
  static final int UCXX_AM_MEMORY_EXACT = 1;

  static final int UCXX_ATOMIC_ADD = 0;
  static final int UCXX_ATOMIC_AND = 1;
  static final int UCXX_ATOMIC_OR = 2;
  static final int UCXX_ATOMIC_XOR = 3;
  static final int UCXX_ATOMIC_SWAP = 4;
  static final int UCXX_ATOMIC_CSWAP = 5;

  static final int UCXX_BOOTSTRAP_CALLBACKS = 0;
  static final int UCXX_BOOTSTRAP_TCP = 1;
  static final int UCXX_BOOTSTRAP_PMIX = 2;
  static final int UCXX_BOOTSTRAP_ENV = 3;

  static final int UCXX_WINDOW_FLAVOR_CREATE = 0;
  static final int UCXX_WINDOW_FLAVOR_ALLOCATE = 1;
  static final int UCXX_WINDOW_FLAVOR_SHARED = 2;
  static final int UCXX_WINDOW_FLAVOR_DYNAMIC = 3;

  static final int UCXX_LOCK_SHARED = 1;
  static final int UCXX_LOCK_EXCLUSIVE = 2;

  static final int UCXX_ASSERT_NOCHECK = 1;
  static final int UCXX_ASSERT_NOSTORE = 2;
  static final int UCXX_ASSERT_NOPUT = 4;
  static final int UCXX_ASSERT_NOPRECEDE = 8;
  static final int UCXX_ASSERT_NOSUCCEED = 16;

  static final int UCXX_SYNC_NONE = 0;
  static final int UCXX_SYNC_LOCK = 1;
  static final int UCXX_SYNC_LOCK_NO_CHECK = 2;
  static final int UCXX_SYNC_LOCK_ALL = 3;
  static final int UCXX_SYNC_LOCK_ALL_NO_CHECK = 4;
  static final int UCXX_SYNC_PSCW = 5;
  static final int UCXX_SYNC_FENCE = 6;
  static final int UCXX_SYNC_FENCE_EPOCH = 7;

  static final int UCXX_TYPE_BYTE = 0;
  static final int UCXX_TYPE_INT8 = 1;
  static final int UCXX_TYPE_UINT8 = 2;
  static final int UCXX_TYPE_INT16 = 3;
  static final int UCXX_TYPE_UINT16 = 4;
  static final int UCXX_TYPE_INT32 = 5;
  static final int UCXX_TYPE_UINT32 = 6;
  static final int UCXX_TYPE_INT64 = 7;
  static final int UCXX_TYPE_UINT64 = 8;
  static final int UCXX_TYPE_FLOAT = 9;
  static final int UCXX_TYPE_DOUBLE = 10;
  static final int UCXX_TYPE_COMPLEX_FLOAT = 11;
  static final int UCXX_TYPE_COMPLEX_DOUBLE = 12;
  static final int UCXX_TYPE_BOOL = 13;
  static final int UCXX_TYPE_FLOAT_INT = 14;
  static final int UCXX_TYPE_DOUBLE_INT = 15;
  static final int UCXX_TYPE_INT16_INT = 16;
  static final int UCXX_TYPE_INT32_INT = 17;
  static final int UCXX_TYPE_INT64_INT = 18;
  static final int UCXX_TYPE_LONG_DOUBLE = 19;
  static final int UCXX_TYPE_COMPLEX_LONG_DOUBLE = 20;
  static final int UCXX_TYPE_LONG_DOUBLE_INT = 21;

  static final int UCXX_REDUCE_SUM = 0;
  static final int UCXX_REDUCE_PROD = 1;
  static final int UCXX_REDUCE_MIN = 2;
  static final int UCXX_REDUCE_MAX = 3;
  static final int UCXX_REDUCE_LAND = 4;
  static final int UCXX_REDUCE_LOR = 5;
  static final int UCXX_REDUCE_LXOR = 6;
  static final int UCXX_REDUCE_BAND = 7;
  static final int UCXX_REDUCE_BOR = 8;
  static final int UCXX_REDUCE_BXOR = 9;
  static final int UCXX_REDUCE_REPLACE = 10;
  static final int UCXX_REDUCE_NO_OP = 11;
  static final int UCXX_REDUCE_MINLOC = 12;
  static final int UCXX_REDUCE_MAXLOC = 13;

  static final int UCXX_ORDER_ALL = 0;
  static final int UCXX_ORDER_NONE = 1;

  static final int UCXX_WINDOW_PATH_SELF = 0;
  static final int UCXX_WINDOW_PATH_LOCAL = 1;
  static final int UCXX_WINDOW_PATH_MESSAGE = 2;
  static final int UCXX_WINDOW_PATH_RMA = 3;

  static final int UCXX_LINK_PRODUCE = 1;
  static final int UCXX_LINK_CONSUME = 2;
  static final int UCXX_LINK_PEEK = 3;
  static final int UCXX_LINK_MODIFY = 4;

  static final int UCXX_HUB_RETAIN_AUTO = 0;
  static final int UCXX_HUB_RETAIN_ALWAYS = 1;
  static final int UCXX_HUB_RETAIN_UNTIL_COPIED = 2;

  private Constants() {}
}
