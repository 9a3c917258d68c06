/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Hubs on a GPU that fails: they report an error, lose no chunk, and let no thread wait without
 * end. Needs the stand-in for the driver. */
#include "driver.h"

#include <sched.h>

enum { SIZE = 1024, ILLEGAL_ADDRESS = 700 };

static void produce_words(ucxx_link_t *link, uint32_t word) {
  ucxx_envelope_t *envelope = lease_soon(link);
  for (size_t at = 0; at < SIZE / 4; at++) ((uint32_t *)look_at(envelope).data)[at] = word;
  CHECK_OK(ucxx_envelope_commit(envelope, SIZE, NULL));
}

static void consume_words(ucxx_link_t *link, uint32_t word, void *stream) {
  uint32_t words[SIZE / 4];
  ucxx_envelope_t *envelope = lease_soon(link);
  ucxx_envelope_attr_t attr = look_at(envelope);
  CHECK_EQ(attr.length, SIZE);
  if (attr.kind.memory_type == UCXX_MEMORY_CUDA)
    cuda_read(envelope, words, stream);
  else
    memcpy(words, attr.data, SIZE);
  check_words(words, SIZE, word);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
}

/* Waits until an earlier hub's work has finished; it would otherwise take the fault injected for
 * the next one. */
static void calm(hub_t *hub) {
  hub_close(hub);
  while (cuda.count(DOUBLE_CONTEXTS) > 1) sched_yield();
  CHECK_EQ(cuda.count(DOUBLE_MISUSES), 0);
}

static void allocations(void) {
  STEP("envelopes that cannot be allocated");
  hub_t hub = cuda_hub(SIZE, on_pinned, 1, 1);
  cuda.fail("cuMemAlloc", 0, 1, 2);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, on_cuda, 1), UCXX_ERR_NO_MEMORY);
  CHECK_MESSAGE("cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY");
  cuda.fail("cuMemHostAlloc", 0, 1, 2);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, on_pinned, 1), UCXX_ERR_NO_MEMORY);
  CHECK_MESSAGE("cuMemHostAlloc");
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_pinned, 1));
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
  calm(&hub);
}

static void copies(void) {
  static const char *const calls[] = {"cuStreamCreate", "cuMemcpyHtoDAsync", "cuEventCreate",
                                      "cuEventRecord"};
  void *stream = cuda_stream();
  for (size_t at = 0; at < sizeof calls / sizeof *calls; at++) {
    STEP("a copy that cannot start: %s", calls[at]);
    hub_t hub = cuda_hub(SIZE, on_pinned, 2, 1);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
                *on = hub_link(hub.hub, UCXX_LINK_CONSUME, on_cuda);
    cuda.fail(calls[at], 0, 2, ILLEGAL_ADDRESS);
    produce_words(in, 5);
    for (int times = 0; times < 2; times++) {
      CHECK_STATUS(lease_fails(on), UCXX_ERR_IO_ERROR);
      CHECK_MESSAGE(calls[at]);
      CHECK_MESSAGE("CUDA device 0");
      CHECK_MESSAGE("CUDA_ERROR_ILLEGAL_ADDRESS");
      CHECK_EQ(ucxx_hub_length(hub.hub), 1);
    }
    consume_words(on, 5, stream);
    CHECK_EQ(hub_stats(hub.hub).transfers, 1);
    CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
    ucxx_link_destroy(in);
    ucxx_link_destroy(on);
    calm(&hub);
  }
  STEP("a copy fails while running, and all behind it; other links still get the chunk");
  hub_t hub = cuda_hub(SIZE, on_host, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *on = hub_link(hub.hub, UCXX_LINK_CONSUME, on_cuda);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  cuda.fail("copy", 0, 1, ILLEGAL_ADDRESS);
  produce_words(in, 6);
  for (int times = 0; times < 3; times++) {
    CHECK_STATUS(lease_fails(on), UCXX_ERR_IO_ERROR);
    CHECK_MESSAGE("a copy from the host to CUDA device 0 has failed");
  }
  ucxx_link_destroy(on);
  consume_words(out, 6, NULL);
  CHECK_OK(ucxx_hub_drain(hub.hub, FOR_EVER));
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  calm(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

typedef struct told {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  ucxx_status_t status;
  int count;
} told_t;

static void tell(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  told_t *told = arg;
  (void)link;
  pthread_mutex_lock(&told->lock);
  told->status = status;
  told->count++;
  pthread_cond_broadcast(&told->changed);
  pthread_mutex_unlock(&told->lock);
}

static ucxx_status_t await_told(told_t *told, int count) {
  pthread_mutex_lock(&told->lock);
  while (told->count < count) pthread_cond_wait(&told->changed, &told->lock);
  ucxx_status_t status = told->status;
  pthread_mutex_unlock(&told->lock);
  return status;
}

static void callbacks(void) {
  STEP("on_ready reports a failed copy, and a successful one");
  told_t told = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, UCXX_OK, 0};
  hub_t hub = cuda_hub(SIZE, on_pinned, 2, 1);
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned), *on = NULL;
  params.on_ready = tell;
  params.on_ready_arg = &told;
  CHECK_OK(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_cuda, &params, &on));
  cuda.fail("cuMemcpyHtoDAsync", 0, 1, ILLEGAL_ADDRESS);
  produce_words(in, 8);
  CHECK_STATUS(await_told(&told, 1), UCXX_ERR_IO_ERROR);
  lease_none(on, UCXX_ERR_IO_ERROR);
  CHECK_STATUS(await_told(&told, 2), UCXX_OK);
  CHECK_OK(ucxx_envelope_commit(lease_now(on), 0, NULL));
  ucxx_link_destroy(in);
  ucxx_link_destroy(on);
  calm(&hub);
}

static void streams(void) {
  STEP("a stream that refuses an event: the lease continues");
  hub_t hub = cuda_hub(SIZE, on_pinned, 2, 2);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_pinned);
  void *stream = cuda_stream(), *bad = cuda_stream();
  ucxx_envelope_t *envelope = lease_soon(in);
  cuda_fill(envelope, 1, stream);
  cuda.fail("cuEventRecord", 0, 1, ILLEGAL_ADDRESS);
  CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE, stream), UCXX_ERR_IO_ERROR);
  CHECK_MESSAGE("stream");
  CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE + 1, stream), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("length");
  CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE, &hub), UCXX_ERR_IO_ERROR);
  CHECK_OK(ucxx_envelope_commit(envelope, SIZE, stream));
  consume_words(out, 1, NULL);
  STEP("a stream fails before it has written: its chunk is offered to nobody, and can be taken "
       "away");
  envelope = lease_soon(in);
  cuda.fail("fill", 0, 1, ILLEGAL_ADDRESS);
  cuda_fill(envelope, 2, bad);
  CHECK_OK(ucxx_envelope_commit(envelope, SIZE, bad));
  for (int times = 0; times < 2; times++) {
    /* The error is the stream's, or that of the copy that waited for it. */
    CHECK_STATUS(lease_fails(out), UCXX_ERR_IO_ERROR);
    CHECK_MESSAGE("has failed");
  }
  CHECK_OK(ucxx_hub_pop(hub.hub));
  CHECK_EQ(ucxx_hub_length(hub.hub), 0);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  calm(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
  CHECK_CUDA(cuda.stream_destroy(bad));
}

static void lost(void) {
  STEP("a device is lost during copies: waiting threads get an error, and the chunks are "
       "still on the host");
  hub_t hub = cuda_hub(SIZE, on_pinned, 4, 2);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
              *on = hub_link(hub.hub, UCXX_LINK_CONSUME, on_cuda);
  ucxx_link_t *made = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_pinned);
  void *stream = cuda_stream();
  ucxx_envelope_t *envelope = lease_soon(made);
  cuda.hold(1);
  for (uint32_t word = 0; word < 3; word++) produce_words(in, word);
  cuda.lose(0, ILLEGAL_ADDRESS);
  cuda.hold(0);
  CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE, stream), UCXX_ERR_IO_ERROR);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  for (int times = 0; times < 3; times++) CHECK_STATUS(lease_fails(on), UCXX_ERR_IO_ERROR);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, on_cuda, 1), UCXX_ERR_IO_ERROR);
  for (uint32_t word = 0; word < 3; word++) consume_words(out, word, NULL);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_OK(ucxx_hub_drain(hub.hub, FOR_EVER));
  CHECK_STATUS(lease_fails(on), UCXX_ERR_CLOSED);
  ucxx_link_destroy(in);
  ucxx_link_destroy(on);
  ucxx_link_destroy(made);
  ucxx_link_destroy(out);
  calm(&hub);
  cuda.lose(0, 0);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

static void no_waits(void) {
  STEP("no thread of the library waits for a GPU");
  long before = cuda.count(DOUBLE_WAITS);
  hub_t hub = cuda_hub(SIZE, on_pinned, 3, 3);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
              *change = hub_link(hub.hub, UCXX_LINK_MODIFY, on_cuda);
  ucxx_link_t *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_pinned);
  void *stream = cuda_stream();
  for (uint32_t word = 0; word < 50; word++) {
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &change, 1));
    produce_words(in, word);
    ucxx_envelope_t *envelope = lease_soon(change);
    cuda_fill(envelope, word + 1, stream);
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE, stream));
    CHECK_OK(ucxx_hub_set_flow(hub.hub, &out, 1));
    consume_words(out, word + 1, NULL);
  }
  CHECK_EQ(cuda.count(DOUBLE_WAITS), before);
  CHECK_EQ(hub_stats(hub.hub).transfers, 100);
  ucxx_link_destroy(in);
  ucxx_link_destroy(change);
  ucxx_link_destroy(out);
  calm(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

int main(void) {
  test_begin("cuda_faults");
  cuda_open(1);
  cuda.delay(100000, test_seed());
  allocations();
  copies();
  callbacks();
  streams();
  lost();
  no_waits();
  cuda_close();
  return 0;
}
