/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The CUDA driver, or its stand-in, loaded with dlopen: needs no CUDA header. */
#ifndef UCXX_RS_TEST_CUDA_DRIVER_H
#define UCXX_RS_TEST_CUDA_DRIVER_H
#include "../c/common/test_util.h"

#include "../c/common/hub.h"
#include "double.h"

#include <dlfcn.h>
#include <pthread.h>

static const ucxx_memory_kind_t on_cuda = {UCXX_MEMORY_CUDA, 0};
static const ucxx_memory_kind_t on_pinned = {UCXX_MEMORY_CUDA_PINNED, 0};

static struct {
  int (*init)(unsigned);
  int (*retain)(void **, int);
  int (*release)(int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*current)(void **);
  int (*stream_create)(void **, unsigned);
  int (*stream_destroy)(void *);
  int (*stream_wait)(void *, void *, unsigned);
  int (*stream_synchronize)(void *);
  int (*event_query)(void *);
  int (*fill)(uint64_t, unsigned, size_t, void *);
  int (*to_host)(void *, uint64_t, size_t, void *);
  int (*to_device)(uint64_t, const void *, size_t, void *);
  int (*call)(void *, void (*)(void *), void *);
  int (*allocate)(uint64_t *, size_t);
  int (*free)(uint64_t);
  int (*room)(size_t *, size_t *); /* free, all; not in the stand-in */
  long (*count)(int);
  void (*fail)(const char *, int, int, int);
  void (*lose)(int, int);
  void (*delay)(unsigned, uint64_t);
  void (*hold)(int);
} cuda;

#define CHECK_CUDA(expression) CHECK_EQ((expression), 0)

/* Makes the primary context current. Skips the test if there is no driver. */
static inline void cuda_open(int needs_double) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) test_skip("SKIPPED: there is no CUDA driver here");
  const struct {
    void *place;
    const char *name;
  } symbols[] = {
      {&cuda.init, "cuInit"},
      {&cuda.retain, "cuDevicePrimaryCtxRetain"},
      {&cuda.release, "cuDevicePrimaryCtxRelease_v2"},
      {&cuda.push, "cuCtxPushCurrent_v2"},
      {&cuda.pop, "cuCtxPopCurrent_v2"},
      {&cuda.current, "cuCtxGetCurrent"},
      {&cuda.stream_create, "cuStreamCreate"},
      {&cuda.stream_destroy, "cuStreamDestroy_v2"},
      {&cuda.stream_wait, "cuStreamWaitEvent"},
      {&cuda.stream_synchronize, "cuStreamSynchronize"},
      {&cuda.event_query, "cuEventQuery"},
      {&cuda.fill, "cuMemsetD32Async"},
      {&cuda.to_host, "cuMemcpyDtoHAsync_v2"},
      {&cuda.to_device, "cuMemcpyHtoDAsync_v2"},
      {&cuda.call, "cuLaunchHostFunc"},
      {&cuda.allocate, "cuMemAlloc_v2"},
      {&cuda.free, "cuMemFree_v2"},
      {&cuda.room, "cuMemGetInfo_v2"},
      {&cuda.count, "double_count"},
      {&cuda.fail, "double_fail"},
      {&cuda.lose, "double_lose"},
      {&cuda.delay, "double_delay"},
      {&cuda.hold, "double_hold"},
  };
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *found = dlsym(library, symbols[at].name);
    memcpy(symbols[at].place, &found, sizeof found);
  }
  if (cuda.init == NULL || cuda.init(0) != 0)
    test_skip("SKIPPED: the CUDA driver finds no GPU here");
  if (needs_double && cuda.count == NULL)
    test_skip("SKIPPED: needs the stand-in for the driver, and there is a real one");
  void *context = NULL;
  CHECK_CUDA(cuda.retain(&context, 0));
  CHECK_CUDA(cuda.push(context));
}

/* Checks that the library has left nothing behind; only the stand-in can tell. */
static inline void cuda_close(void) {
  void *context = NULL;
  CHECK_CUDA(cuda.pop(&context));
  CHECK_CUDA(cuda.release(0));
  if (cuda.count == NULL) return;
  static const char *const names[] = {"contexts", "streams", "events", "blocks"};
  for (int what = DOUBLE_CONTEXTS; what <= DOUBLE_BLOCKS; what++) {
    /* A hub's thread that waited for a stream ends by itself. */
    while (cuda.count(what) != 0) sched_yield();
    printf("  no %s are left\n", names[what]);
  }
  CHECK_EQ(cuda.count(DOUBLE_MISUSES), 0);
}

static inline void *cuda_stream(void) {
  void *stream = NULL;
  CHECK_CUDA(cuda.stream_create(&stream, 1));
  return stream;
}

/* Blocks a stream until it is opened. */
typedef struct gate {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int open;
} gate_t;
#define GATE_CLOSED {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}

static inline void gate_pass(void *arg) {
  gate_t *gate = arg;
  pthread_mutex_lock(&gate->lock);
  while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
  pthread_mutex_unlock(&gate->lock);
}

static inline void gate_open(gate_t *gate) {
  pthread_mutex_lock(&gate->lock);
  gate->open = 1;
  pthread_cond_broadcast(&gate->changed);
  pthread_mutex_unlock(&gate->lock);
}

static inline ucxx_envelope_t *lease_soon(ucxx_link_t *link) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(link, FOR_EVER, &envelope));
  return envelope;
}

/* Waits until a lease on the link returns something other than "nothing available". */
static inline ucxx_status_t lease_fails(ucxx_link_t *link) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status = ucxx_link_lease(link, FOR_EVER, &envelope);
  CHECK(envelope == NULL);
  return status;
}

/* Fills an envelope on the device with a word, in the stream's order. */
static inline void cuda_fill(const ucxx_envelope_t *envelope, uint32_t word, void *stream) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  if (attr.ready_event != NULL) CHECK_CUDA(cuda.stream_wait(stream, attr.ready_event, 0));
  CHECK_CUDA(cuda.fill((uint64_t)(uintptr_t)attr.data, word, attr.capacity / 4, stream));
}

/* Reads an envelope on the device, in the stream's order, and waits for that. */
static inline void cuda_read(const ucxx_envelope_t *envelope, void *into, void *stream) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  if (attr.ready_event != NULL) CHECK_CUDA(cuda.stream_wait(stream, attr.ready_event, 0));
  CHECK_CUDA(cuda.to_host(into, (uint64_t)(uintptr_t)attr.data, attr.length, stream));
  CHECK_CUDA(cuda.stream_synchronize(stream));
}

static inline void check_words(const void *data, size_t length, uint32_t word) {
  const uint32_t *words = data;
  for (size_t at = 0; at < length / 4; at++) CHECK_EQ(words[at], word);
}

static inline hub_t cuda_hub(size_t size, ucxx_memory_kind_t host, size_t host_count,
                             size_t cuda_count) {
  hub_t hub = {NULL, NULL};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = size;
  CHECK_OK(ucxx_context_create(NULL, &hub.context));
  CHECK_OK(ucxx_hub_create(hub.context, &params, &hub.hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, host, host_count));
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_cuda, cuda_count));
  return hub;
}
#endif
