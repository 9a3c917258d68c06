/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The functions of the CUDA driver that the GPU benchmarks call. They are looked up at the start,
 * so no CUDA header is needed. Every failure ends the program. */
#ifndef BENCH_CUDA_H
#define BENCH_CUDA_H

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

static struct {
  int (*init)(unsigned);
  int (*count)(int *);
  int (*retain)(void **, int);
  int (*release)(int);
  int (*push)(void *);
  int (*pop)(void **);
  int (*stream_create)(void **, unsigned);
  int (*stream_destroy)(void *);
  int (*stream_wait)(void *, void *, unsigned);
  int (*synchronize)(void *);
  int (*allocate)(uint64_t *, size_t);
  int (*free)(uint64_t);
  int (*allocate_managed)(uint64_t *, size_t, unsigned);
  int (*allocate_pinned)(void **, size_t, unsigned);
  int (*free_pinned)(void *);
  int (*to_device)(uint64_t, const void *, size_t, void *);
  int (*to_host)(void *, uint64_t, size_t, void *);
  int (*fill)(uint64_t, unsigned, size_t, void *);
} cuda;

#define CUDA_MUST(call)                                      \
  do {                                                       \
    int code_ = (call);                                      \
    if (code_ != 0) die("%s has returned %d", #call, code_); \
  } while (0)

/* Returns the number of devices, or 0 without a driver. */
static inline int cuda_open(void) {
  const struct {
    void *place;
    const char *name;
  } symbols[] = {{&cuda.init, "cuInit"},
                 {&cuda.count, "cuDeviceGetCount"},
                 {&cuda.retain, "cuDevicePrimaryCtxRetain"},
                 {&cuda.release, "cuDevicePrimaryCtxRelease_v2"},
                 {&cuda.push, "cuCtxPushCurrent_v2"},
                 {&cuda.pop, "cuCtxPopCurrent_v2"},
                 {&cuda.stream_create, "cuStreamCreate"},
                 {&cuda.stream_destroy, "cuStreamDestroy_v2"},
                 {&cuda.stream_wait, "cuStreamWaitEvent"},
                 {&cuda.synchronize, "cuStreamSynchronize"},
                 {&cuda.allocate, "cuMemAlloc_v2"},
                 {&cuda.free, "cuMemFree_v2"},
                 {&cuda.allocate_pinned, "cuMemHostAlloc"},
                 {&cuda.free_pinned, "cuMemFreeHost"},
                 {&cuda.to_device, "cuMemcpyHtoDAsync_v2"},
                 {&cuda.to_host, "cuMemcpyDtoHAsync_v2"},
                 {&cuda.fill, "cuMemsetD32Async"}};
  int devices = 0;
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == NULL) return 0;
  for (size_t at = 0; at < sizeof symbols / sizeof *symbols; at++) {
    void *found = dlsym(library, symbols[at].name);
    if (found == NULL) die("the CUDA driver has no %s", symbols[at].name);
    memcpy(symbols[at].place, &found, sizeof found);
  }
  /* The tests' stand-in for the driver has none. */
  void *managed = dlsym(library, "cuMemAllocManaged");
  memcpy(&cuda.allocate_managed, &managed, sizeof managed);
  return cuda.init(0) == 0 && cuda.count(&devices) == 0 ? devices : 0;
}

/* Makes the primary context of the device the current one. */
static inline void cuda_enter(int device) {
  void *context = NULL;
  CUDA_MUST(cuda.retain(&context, device));
  CUDA_MUST(cuda.push(context));
}

static inline void cuda_leave(int device) {
  void *context = NULL;
  CUDA_MUST(cuda.pop(&context));
  CUDA_MUST(cuda.release(device));
}

static inline void *cuda_stream(void) {
  void *stream = NULL;
  CUDA_MUST(cuda.stream_create(&stream, 1));
  return stream;
}

/* Memory on a GPU or on the host, which is filled with one word and checked. */
struct place {
  int on_device;
  void *data;
  size_t size;
  void *stream;
};

static inline struct place place_make(int on_device, size_t size, void *stream) {
  struct place place = {on_device, NULL, size, stream};
  uint64_t address = 0;
  if (on_device) {
    CUDA_MUST(cuda.allocate(&address, size));
    place.data = (void *)(uintptr_t)address;
  } else {
    place.data = buffer_create(size);
  }
  return place;
}

static inline void place_free(const struct place *place) {
  if (place->on_device)
    CUDA_MUST(cuda.free((uint64_t)(uintptr_t)place->data));
  else
    free(place->data);
}

static inline void place_fill(const struct place *place, uint32_t word) {
  if (place->on_device) {
    CUDA_MUST(cuda.fill((uint64_t)(uintptr_t)place->data, word, place->size / 4, place->stream));
    CUDA_MUST(cuda.synchronize(place->stream));
    return;
  }
  for (size_t at = 0; at < place->size / 4; at++) ((uint32_t *)place->data)[at] = word;
}

static inline void place_check(const struct place *place, uint32_t word, const char *what) {
  uint32_t *words = place->data;
  if (place->on_device) {
    words = (uint32_t *)buffer_create(place->size);
    CUDA_MUST(cuda.to_host(words, (uint64_t)(uintptr_t)place->data, place->size, place->stream));
    CUDA_MUST(cuda.synchronize(place->stream));
  }
  for (size_t at = 0; at < place->size / 4; at++)
    if (words[at] != word)
      die("%s: word %zu is %#x in place of %#x", what, at, (unsigned)words[at], (unsigned)word);
  if (place->on_device) free(words);
}

#endif
