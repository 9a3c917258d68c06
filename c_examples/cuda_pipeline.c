/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * cuda_pipeline.c: chunks go from the host to a GPU, are changed there, and come back. No thread
 * waits for the GPU in between.
 *
 *     cc -o cuda_pipeline cuda_pipeline.c $(pkg-config --cflags --libs ucxx_rs) -ldl
 *     ./cuda_pipeline [CHUNKS]
 *
 * It checks every byte, and prints one line:
 *
 *     cuda_pipeline: 64 chunks of 1048576 bytes were on the GPU and back
 *
 * Without a GPU it prints "there is no GPU with a CUDA driver here" and succeeds. It loads the
 * driver at run time, so that it builds without CUDA.
 *
 * One thread does the three stages in turn. The first fills pinned host memory. The second changes
 * the data on the GPU, in a CUDA stream. The third checks the result on the host. docs/hub.md
 * explains hubs, envelopes and links.
 *
 * The second stage gives its stream to ucxx_envelope_commit. The library records an event there,
 * and everything that uses the chunk later waits for that event on the GPU: the copy back, and the
 * next user of the envelope. There are two hubs, `in` and `out`. A chunk moves from one to the
 * other by ucxx_envelope_swap, which exchanges the memory of two envelopes.
 *
 * cuMemsetD8Async is in place of a kernel.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucxx_rs.h>

#define SIZE (1 << 20) /* bytes in an envelope */
#define MARKED 4096 /* bytes that the GPU changes */
#define ENVELOPES 3

static const ucxx_memory_kind_t host = {UCXX_MEMORY_CUDA_PINNED, 0};
static const ucxx_memory_kind_t gpu = {UCXX_MEMORY_CUDA, 0};

/* Declared as in cuda.h. */
static int (*cuInit)(unsigned flags);
static int (*cuDevicePrimaryCtxRetain)(void **context, int device);
static int (*cuDevicePrimaryCtxRelease)(int device);
static int (*cuCtxPushCurrent)(void *context);
static int (*cuStreamCreate)(void **stream, unsigned flags);
static int (*cuStreamDestroy)(void *stream);
static int (*cuStreamWaitEvent)(void *stream, void *event, unsigned flags);
static int (*cuMemsetD8Async)(uint64_t address, unsigned char byte, size_t count, void *stream);

static void check(ucxx_status_t status, const char *what) {
  if (status == UCXX_OK) return;
  fprintf(stderr, "cuda_pipeline: %s: %s\n", what, ucxx_error_text(status));
  exit(1);
}

static void check_cuda(int code, const char *what) {
  if (code == 0) return;
  fprintf(stderr, "cuda_pipeline: %s has returned %d\n", what, code);
  exit(1);
}

static void find(void *library, const char *name, void *place) {
  void *found = library == NULL ? NULL : dlsym(library, name);
  memcpy(place, &found, sizeof found);
}

static int find_gpu(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW);
  find(library, "cuInit", &cuInit);
  find(library, "cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain);
  find(library, "cuDevicePrimaryCtxRelease_v2", &cuDevicePrimaryCtxRelease);
  find(library, "cuCtxPushCurrent_v2", &cuCtxPushCurrent);
  find(library, "cuStreamCreate", &cuStreamCreate);
  find(library, "cuStreamDestroy_v2", &cuStreamDestroy);
  find(library, "cuStreamWaitEvent", &cuStreamWaitEvent);
  find(library, "cuMemsetD8Async", &cuMemsetD8Async);
  return cuInit != NULL && cuMemsetD8Async != NULL && cuInit(0) == 0;
}

static ucxx_hub_t *make_hub(ucxx_context_t *context) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub = NULL;
  params.envelope_size = SIZE;
  check(ucxx_hub_create(context, &params, &hub), "hub");
  check(ucxx_hub_add_envelopes(hub, host, ENVELOPES), "pinned envelopes");
  check(ucxx_hub_add_envelopes(hub, gpu, ENVELOPES), "envelopes on the GPU");
  return hub;
}

static ucxx_link_t *make_link(ucxx_hub_t *hub, int32_t type, ucxx_memory_kind_t kind) {
  ucxx_link_t *link = NULL;
  check(ucxx_link_create(hub, type, kind, NULL, &link), "link");
  return link;
}

/* NULL if no envelope is available now. */
static ucxx_envelope_t *lease(ucxx_link_t *link, uint64_t timeout_ns, ucxx_envelope_attr_t *attr) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status = ucxx_link_lease(link, timeout_ns, &envelope);
  if (status == UCXX_ERR_NO_RESOURCE) return NULL;
  check(status, "lease");
  check(ucxx_envelope_query(envelope, attr), "query");
  return envelope;
}

int main(int argc, char **argv) {
  const unsigned chunks = argc > 1 ? (unsigned)atoi(argv[1]) : 64;
  if (!find_gpu()) {
    printf("cuda_pipeline: there is no GPU with a CUDA driver here\n");
    return 0;
  }
  void *cuda = NULL, *stream = NULL;
  check_cuda(cuDevicePrimaryCtxRetain(&cuda, 0), "cuDevicePrimaryCtxRetain");
  check_cuda(cuCtxPushCurrent(cuda), "cuCtxPushCurrent");
  check_cuda(cuStreamCreate(&stream, 1), "cuStreamCreate");

  ucxx_context_t *context = NULL;
  check(ucxx_context_create(NULL, &context), "context");
  ucxx_hub_t *in = make_hub(context), *out = make_hub(context);
  ucxx_link_t *fill = make_link(in, UCXX_LINK_PRODUCE, host),
              *take = make_link(in, UCXX_LINK_CONSUME, gpu);
  ucxx_link_t *give = make_link(out, UCXX_LINK_PRODUCE, gpu),
              *verify = make_link(out, UCXX_LINK_CONSUME, host);
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  unsigned filled = 0, changed = 0, verified = 0;
  while (verified < chunks) {
    ucxx_envelope_t *envelope;
    while (filled < chunks && (envelope = lease(fill, 0, &attr)) != NULL) {
      memset(attr.data, (int)(filled % 251), SIZE);
      check(ucxx_envelope_commit(envelope, SIZE, NULL), "commit");
      filled++;
    }
    /* This thread waits only if there is nothing to check: then it waits for the hub's copy to the
     * GPU. */
    if (changed < chunks) {
      envelope = lease(take, changed == verified ? UINT64_MAX : 0, &attr);
      ucxx_envelope_t *target = envelope == NULL ? NULL : lease(give, UINT64_MAX, &attr);
      if (envelope != NULL) {
        check(ucxx_envelope_swap(envelope, target), "swap");
        check(ucxx_envelope_query(target, &attr), "query");
        /* The stream must not write before earlier users of this memory have finished. */
        if (attr.ready_event != NULL)
          check_cuda(cuStreamWaitEvent(stream, attr.ready_event, 0), "cuStreamWaitEvent");
        check_cuda(cuMemsetD8Async((uint64_t)(uintptr_t)attr.data, 0xff, MARKED, stream),
                   "cuMemsetD8Async");
        check(ucxx_envelope_commit(target, SIZE, stream), "commit on the GPU");
        check(ucxx_envelope_commit(envelope, 0, NULL), "consume");
        changed++;
      }
    }
    if (verified < changed &&
        (envelope = lease(verify, changed == chunks ? UINT64_MAX : 0, &attr)) != NULL) {
      const unsigned char *bytes = attr.data;
      for (size_t at = 0; at < SIZE; at++)
        if (bytes[at] != (at < MARKED ? 0xff : verified % 251)) {
          fprintf(stderr, "cuda_pipeline: chunk %u is wrong at %zu\n", verified, at);
          return 1;
        }
      check(ucxx_envelope_commit(envelope, 0, NULL), "consume");
      verified++;
    }
  }
  printf("cuda_pipeline: %u chunks of %d bytes were on the GPU and back\n", verified, SIZE);
  ucxx_link_destroy(fill);
  ucxx_link_destroy(take);
  ucxx_link_destroy(give);
  ucxx_link_destroy(verify);
  ucxx_hub_destroy(in);
  ucxx_hub_destroy(out);
  ucxx_context_destroy(context);
  check_cuda(cuStreamDestroy(stream), "cuStreamDestroy");
  check_cuda(cuDevicePrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
  return 0;
}
