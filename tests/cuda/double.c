/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A stand-in for the CUDA driver, libcuda.so.1, for machines without a GPU: the functions that
 * ucxx_rs and its tests call, with two devices in host memory.
 *
 * A stream is a thread that executes its work in order. Device memory has addresses that no
 * instruction can access, so any access outside the driver's functions faults. Violations of the
 * driver's rules are refused (no current context, an event and a stream of different contexts) or
 * counted as misuse (memory freed while work on it is pending). double_fail and double_lose inject
 * faults; double_count returns the live objects.
 */
#define _GNU_SOURCE
#include "double.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))
enum {
  DEVICES = 2,
  DEPTH = 64,
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400
};
enum { NOT_READY = 600 };
/* Address bits that the processor refuses. */
#define FAR (1ull << 62)

typedef struct context {
  int device;
  int retained;
  int lost; /* the error that every call returns from now on */
} context_t;

typedef struct event {
  context_t *context;
  unsigned long recorded, reached;
  int failed; /* earlier work has failed with this error */
  int users; /* the handle, and pending work that names it */
} event_t;

typedef enum { COPY, FILL, WAIT, RECORD, CALL } kind_t;

typedef struct work {
  struct work *next;
  kind_t kind;
  void *to;
  const void *from;
  size_t bytes;
  uint32_t word;
  event_t *event;
  unsigned long number;
  void (*function)(void *);
  int code; /* injected error */
  int moving;
} work_t;

typedef struct stream {
  struct stream *next;
  context_t *context;
  work_t *first, **last;
  int destroyed, failed;
} stream_t;

typedef struct block {
  struct block *next;
  char *base;
  size_t bytes;
  int device; /* -1: the host */
  int managed;
} block_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static context_t contexts[DEVICES];
static stream_t *streams;
static block_t *blocks;
static long counts[DOUBLE_COUNTS];
static __thread context_t *stack[DEPTH];
static __thread int depth;

static struct {
  char call[64];
  int after, times, code;
} fault;
static unsigned delay_ns, held;
static uint64_t seed = 1;

static int fault_of(const char *call) {
  if (fault.times == 0 || strcmp(fault.call, call) != 0) return OK;
  if (fault.after > 0) {
    fault.after--;
    return OK;
  }
  fault.times--;
  return fault.code;
}

static int check_context(const char *call) {
  counts[DOUBLE_CALLS]++;
  if (depth == 0) return INVALID_CONTEXT;
  if (stack[depth - 1]->lost) return stack[depth - 1]->lost;
  return fault_of(call);
}

#define ENTER(call)               \
  pthread_mutex_lock(&lock);      \
  int code = check_context(call); \
  if (code != OK) {               \
    pthread_mutex_unlock(&lock);  \
    return code;                  \
  }
#define LEAVE(answer)                 \
  do {                                \
    int left = (answer);              \
    pthread_cond_broadcast(&changed); \
    pthread_mutex_unlock(&lock);      \
    return left;                      \
  } while (0)

/* ---------------------------------------------------------------- streams */

static void drop(event_t *event) {
  if (--event->users == 0) free(event);
}

static void doze(void) {
  if (delay_ns == 0) return;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  struct timespec time = {0, (long)((seed >> 33) % delay_ns)};
  pthread_mutex_unlock(&lock);
  nanosleep(&time, NULL);
  pthread_mutex_lock(&lock);
}

static void execute(stream_t *stream, work_t *work) {
  int failed = stream->failed ? stream->failed : stream->context->lost;
  switch (work->kind) {
  case WAIT:
    while (work->event->reached < work->number) pthread_cond_wait(&changed, &lock);
    if (work->event->failed) stream->failed = work->event->failed;
    break;
  case RECORD:
    if (work->event->reached < work->number) {
      work->event->reached = work->number;
      work->event->failed = failed;
    }
    break;
  case CALL:
    if (failed) break;
    pthread_mutex_unlock(&lock);
    work->function(work->to);
    pthread_mutex_lock(&lock);
    break;
  default:
    while (held && (work->kind == COPY)) pthread_cond_wait(&changed, &lock);
    doze();
    if (work->code) stream->failed = work->code;
    /* Failed or lost meanwhile: its memory may have been freed since, and the device may be
     * back. */
    if (stream->failed || stream->context->lost) break;
    work->moving = 1;
    pthread_mutex_unlock(&lock);
    if (work->kind == COPY)
      memcpy(work->to, work->from, work->bytes);
    else
      for (size_t at = 0; at < work->bytes / 4; at++) ((uint32_t *)work->to)[at] = work->word;
    pthread_mutex_lock(&lock);
    if (work->kind == COPY) counts[DOUBLE_COPIES]++;
  }
  if (work->event) drop(work->event);
}

static void *run(void *arg) {
  stream_t *stream = arg;
  pthread_mutex_lock(&lock);
  while (stream->first != NULL || !stream->destroyed) {
    work_t *work = stream->first;
    if (work == NULL) {
      pthread_cond_wait(&changed, &lock);
      continue;
    }
    execute(stream, work);
    stream->first = work->next;
    if (stream->first == NULL) stream->last = &stream->first;
    free(work);
    pthread_cond_broadcast(&changed);
  }
  for (stream_t **at = &streams; *at != NULL; at = &(*at)->next)
    if (*at == stream) {
      *at = stream->next;
      break;
    }
  free(stream);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  return NULL;
}

static stream_t *known(void *handle) {
  for (stream_t *at = streams; at != NULL; at = at->next)
    if (at == handle && !at->destroyed) return at;
  return NULL;
}

static int push(void *handle, work_t work) {
  stream_t *stream = known(handle);
  if (stream == NULL) return INVALID_HANDLE;
  if (stream->context->lost) return stream->context->lost;
  work_t *made = malloc(sizeof *made);
  *made = work;
  made->next = NULL;
  *stream->last = made;
  stream->last = &made->next;
  if (made->event) made->event->users++;
  return OK;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags) {
  (void)flags;
  ENTER("cuStreamCreate");
  stream_t *made = calloc(1, sizeof *made);
  made->context = stack[depth - 1];
  made->last = &made->first;
  made->next = streams;
  streams = made;
  pthread_t thread;
  pthread_create(&thread, NULL, run, made);
  pthread_detach(thread);
  counts[DOUBLE_STREAMS]++;
  *stream = made;
  LEAVE(OK);
}

EXPORT int cuStreamDestroy_v2(void *handle) {
  pthread_mutex_lock(&lock);
  stream_t *stream = known(handle);
  if (stream == NULL) LEAVE(INVALID_HANDLE);
  stream->destroyed = 1;
  counts[DOUBLE_STREAMS]--;
  LEAVE(OK);
}

EXPORT int cuStreamGetCtx(void *handle, void **context) {
  pthread_mutex_lock(&lock);
  stream_t *stream = known(handle);
  if (stream == NULL) LEAVE(INVALID_HANDLE);
  *context = stream->context;
  LEAVE(stream->context->lost);
}

EXPORT int cuStreamWaitEvent(void *stream, void *handle, unsigned flags) {
  (void)flags;
  event_t *event = handle;
  ENTER("cuStreamWaitEvent");
  LEAVE(push(stream, (work_t){.kind = WAIT, .event = event, .number = event->recorded}));
}

EXPORT int cuStreamSynchronize(void *handle) {
  ENTER("cuStreamSynchronize");
  stream_t *stream = known(handle);
  if (stream == NULL) LEAVE(INVALID_HANDLE);
  counts[DOUBLE_WAITS]++;
  while (stream->first != NULL) pthread_cond_wait(&changed, &lock);
  LEAVE(stream->failed ? stream->failed : stream->context->lost);
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *arg) {
  ENTER("cuLaunchHostFunc");
  LEAVE(push(stream, (work_t){.kind = CALL, .function = function, .to = arg}));
}

/* ---------------------------------------------------------------- events */

EXPORT int cuEventCreate(void **event, unsigned flags) {
  (void)flags;
  ENTER("cuEventCreate");
  event_t *made = calloc(1, sizeof *made);
  made->context = stack[depth - 1];
  made->users = 1;
  counts[DOUBLE_EVENTS]++;
  *event = made;
  LEAVE(OK);
}

EXPORT int cuEventDestroy_v2(void *event) {
  pthread_mutex_lock(&lock);
  counts[DOUBLE_EVENTS]--;
  drop(event);
  LEAVE(OK);
}

EXPORT int cuEventRecord(void *handle, void *stream) {
  event_t *event = handle;
  ENTER("cuEventRecord");
  stream_t *of = known(stream);
  if (of == NULL || of->context != event->context) LEAVE(INVALID_HANDLE);
  LEAVE(push(stream, (work_t){.kind = RECORD, .event = event, .number = ++event->recorded}));
}

EXPORT int cuEventQuery(void *handle) {
  event_t *event = handle;
  ENTER("cuEventQuery");
  LEAVE(event->reached < event->recorded ? NOT_READY : event->failed);
}

EXPORT int cuEventSynchronize(void *handle) {
  event_t *event = handle;
  ENTER("cuEventSynchronize");
  counts[DOUBLE_WAITS]++;
  unsigned long number = event->recorded;
  while (event->reached < number) pthread_cond_wait(&changed, &lock);
  LEAVE(event->failed);
}

/* ---------------------------------------------------------------- memory */

static block_t *block_of(uint64_t address) {
  for (block_t *at = blocks; at != NULL; at = at->next) {
    uint64_t base = (uint64_t)at->base | (at->device < 0 ? 0 : FAR);
    if (address >= base && address - base < at->bytes) return at;
  }
  return NULL;
}

static int overlaps(const void *from, size_t bytes, const block_t *block) {
  return (const char *)from < block->base + block->bytes &&
         (const char *)from + bytes > block->base;
}

/* A stream that failed, or whose device is lost, only finishes its current piece of work. */
static int is_used(const block_t *block) {
  for (stream_t *stream = streams; stream != NULL; stream = stream->next)
    for (work_t *work = stream->first; work != NULL; work = work->next)
      if (!work->moving && (stream->failed || stream->context->lost))
        continue;
      else if ((work->kind == COPY && (overlaps(work->from, work->bytes, block) ||
                                       overlaps(work->to, work->bytes, block))) ||
               (work->kind == FILL && overlaps(work->to, work->bytes, block)))
        return 1;
  return 0;
}

static int make(size_t bytes, int device, void **base) {
  if (bytes == 0) return INVALID_VALUE;
  if (bytes > (1ull << 36)) return OUT_OF_MEMORY;
  void *data = NULL;
  if (posix_memalign(&data, 256, bytes) != 0) return OUT_OF_MEMORY;
  memset(data, 0xa5, bytes);
  block_t *block = malloc(sizeof *block);
  *block = (block_t){blocks, data, bytes, device, 0};
  blocks = block;
  counts[DOUBLE_BLOCKS]++;
  *base = data;
  return OK;
}

static int unmake(uint64_t address, int of_device) {
  block_t *block = block_of(address);
  if (block == NULL || (block->device >= 0) != of_device) return INVALID_VALUE;
  if (is_used(block) && !contexts[block->device < 0 ? 0 : block->device].lost)
    counts[DOUBLE_MISUSES]++;
  while (is_used(block)) pthread_cond_wait(&changed, &lock);
  for (block_t **at = &blocks; *at != NULL; at = &(*at)->next)
    if (*at == block) {
      *at = block->next;
      break;
    }
  counts[DOUBLE_BLOCKS]--;
  free(block->base);
  free(block);
  return OK;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  ENTER("cuMemAlloc");
  void *base = NULL;
  code = make(bytes, stack[depth - 1]->device, &base);
  if (code == OK) *address = (uint64_t)base | FAR;
  LEAVE(code);
}

/* Memory of a lost device can be freed too. */
EXPORT int cuMemFree_v2(uint64_t address) {
  pthread_mutex_lock(&lock);
  LEAVE(depth == 0 ? INVALID_CONTEXT : unmake(address, 1));
}

EXPORT int cuMemHostAlloc(void **data, size_t bytes, unsigned flags) {
  (void)flags;
  ENTER("cuMemHostAlloc");
  LEAVE(make(bytes, -1, data));
}

EXPORT int cuMemFreeHost(void *data) {
  pthread_mutex_lock(&lock);
  LEAVE(depth == 0 ? INVALID_CONTEXT : unmake((uint64_t)data, 0));
}

static void *reach(uint64_t address) { return (void *)(address & ~FAR); }

static int is_device(uint64_t address, size_t bytes) {
  block_t *block = block_of(address);
  return block != NULL && block->device >= 0 &&
         (address & ~FAR) + bytes <= (uint64_t)block->base + block->bytes;
}

/* A copy whose injected fault is named "...": it fails while running, not in the call. */
static int copy(void *stream, void *to, const void *from, size_t bytes) {
  return push(
      stream,
      (work_t){.kind = COPY, .to = to, .from = from, .bytes = bytes, .code = fault_of("copy")});
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
  ENTER("cuMemcpyHtoDAsync");
  if (!is_device(to, bytes)) LEAVE(INVALID_VALUE);
  LEAVE(copy(stream, reach(to), from, bytes));
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
  ENTER("cuMemcpyDtoHAsync");
  if (!is_device(from, bytes)) LEAVE(INVALID_VALUE);
  LEAVE(copy(stream, to, reach(from), bytes));
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream) {
  ENTER("cuMemcpyDtoDAsync");
  if (!is_device(from, bytes) || !is_device(to, bytes)) LEAVE(INVALID_VALUE);
  LEAVE(copy(stream, reach(to), reach(from), bytes));
}

EXPORT int cuMemcpyPeerAsync(uint64_t to, void *to_context, uint64_t from, void *from_context,
                             size_t bytes, void *stream) {
  ENTER("cuMemcpyPeerAsync");
  block_t *source = block_of(from), *target = block_of(to);
  if (!is_device(from, bytes) || !is_device(to, bytes)) LEAVE(INVALID_VALUE);
  if (&contexts[source->device] != from_context || &contexts[target->device] != to_context)
    LEAVE(INVALID_CONTEXT);
  LEAVE(copy(stream, reach(to), reach(from), bytes));
}

EXPORT int cuMemsetD32Async(uint64_t to, unsigned word, size_t words, void *stream) {
  ENTER("cuMemsetD32Async");
  if (!is_device(to, words * 4)) LEAVE(INVALID_VALUE);
  LEAVE(push(stream, (work_t){.kind = FILL,
                              .to = reach(to),
                              .word = word,
                              .bytes = words * 4,
                              .code = fault_of("fill")}));
}

EXPORT int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t bytes, void *stream) {
  return bytes % 4 ? INVALID_VALUE : cuMemsetD32Async(to, byte * 0x01010101u, bytes / 4, stream);
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t address) {
  pthread_mutex_lock(&lock);
  block_t *block = block_of(address);
  int code = fault_of("cuPointerGetAttribute");
  if (code != OK || block == NULL) LEAVE(code != OK ? code : INVALID_VALUE);
  switch (attribute) {
  case 2: *(unsigned *)value = block->device < 0 ? 1 : 2; LEAVE(OK);
  case 8: *(unsigned *)value = (unsigned)block->managed; LEAVE(OK);
  case 9: *(int *)value = block->device < 0 ? 0 : block->device; LEAVE(OK);
  default: LEAVE(INVALID_VALUE);
  }
}

/* ---------------------------------------------------------------- devices and contexts */

EXPORT int cuInit(unsigned flags) {
  pthread_mutex_lock(&lock);
  LEAVE(flags == 0 ? fault_of("cuInit") : INVALID_VALUE);
}

EXPORT int cuGetErrorName(int code, const char **name) {
  switch (code) {
  case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
  case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return OK;
  case INVALID_HANDLE: *name = "CUDA_ERROR_INVALID_HANDLE"; return OK;
  default: *name = NULL; return INVALID_VALUE;
  }
}

EXPORT int cuDeviceGetCount(int *count) {
  *count = DEVICES;
  return OK;
}

EXPORT int cuDeviceGet(int *device, int number) {
  if (number < 0 || number >= DEVICES) return INVALID_DEVICE;
  *device = number;
  return OK;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  pthread_mutex_lock(&lock);
  if (device < 0 || device >= DEVICES) LEAVE(INVALID_DEVICE);
  int code = fault_of("cuDevicePrimaryCtxRetain");
  if (code != OK) LEAVE(code);
  contexts[device].device = device;
  contexts[device].retained++;
  counts[DOUBLE_CONTEXTS]++;
  *context = &contexts[device];
  LEAVE(OK);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  pthread_mutex_lock(&lock);
  if (contexts[device].retained == 0) LEAVE(INVALID_CONTEXT);
  counts[DOUBLE_CONTEXTS]--;
  /* A primary context that nobody retains is created anew next time, and a lost device works
   * again. */
  if (--contexts[device].retained == 0) contexts[device].lost = 0;
  LEAVE(OK);
}

EXPORT int cuCtxPushCurrent_v2(void *context) {
  if (context == NULL || depth == DEPTH) return INVALID_CONTEXT;
  stack[depth++] = context;
  return OK;
}

EXPORT int cuCtxPopCurrent_v2(void **context) {
  if (depth == 0) return INVALID_CONTEXT;
  *context = stack[--depth];
  return OK;
}

EXPORT int cuCtxGetCurrent(void **context) {
  *context = depth == 0 ? NULL : stack[depth - 1];
  return OK;
}

EXPORT int cuCtxGetDevice(int *device) {
  if (depth == 0) return INVALID_CONTEXT;
  *device = stack[depth - 1]->device;
  pthread_mutex_lock(&lock);
  LEAVE(fault_of("cuCtxGetDevice"));
}

/* ---------------------------------------------------------------- for the tests */

EXPORT long double_count(int what) {
  pthread_mutex_lock(&lock);
  long count = counts[what];
  pthread_mutex_unlock(&lock);
  return count;
}

EXPORT void double_fail(const char *call, int after, int times, int code) {
  pthread_mutex_lock(&lock);
  snprintf(fault.call, sizeof fault.call, "%s", call);
  fault.after = after;
  fault.times = times;
  fault.code = code;
  pthread_mutex_unlock(&lock);
}

EXPORT void double_lose(int device, int code) {
  pthread_mutex_lock(&lock);
  contexts[device].lost = code;
  for (stream_t *stream = streams; stream != NULL; stream = stream->next)
    if (stream->context == &contexts[device] && code) stream->failed = code;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

EXPORT void double_delay(unsigned up_to_ns, uint64_t with_seed) {
  pthread_mutex_lock(&lock);
  delay_ns = up_to_ns;
  seed = with_seed;
  pthread_mutex_unlock(&lock);
}

EXPORT void double_manage(uint64_t address, int managed) {
  pthread_mutex_lock(&lock);
  block_t *block = block_of(address);
  if (block != NULL) block->managed = managed;
  pthread_mutex_unlock(&lock);
}

EXPORT void double_hold(int hold) {
  pthread_mutex_lock(&lock);
  held = hold != 0;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}
