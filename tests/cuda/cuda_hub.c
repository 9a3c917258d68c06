/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Hubs with envelopes on a GPU pass chunks on correctly, with and without CUDA streams. Runs on a
 * real GPU, or on the stand-in for the driver. */
#include "driver.h"

#include <sched.h>

enum { SIZE = 4096 };

static void there_and_back(ucxx_memory_kind_t host, const char *name) {
  STEP("chunks from %s to the GPU and back", name);
  hub_t there = cuda_hub(SIZE, host, 3, 2), back = cuda_hub(SIZE, host, 2, 2);
  ucxx_link_t *in = hub_link(there.hub, UCXX_LINK_PRODUCE, host),
              *on = hub_link(there.hub, UCXX_LINK_CONSUME, on_cuda);
  ucxx_link_t *off = hub_link(back.hub, UCXX_LINK_PRODUCE, on_cuda),
              *out = hub_link(back.hub, UCXX_LINK_CONSUME, host);
  void *stream = cuda_stream();
  unsigned char bytes[SIZE];
  for (uint64_t round = 0; round < 50; round++) {
    ucxx_envelope_t *envelope = lease_soon(in);
    ucxx_envelope_attr_t attr = look_at(envelope);
    CHECK_EQ(attr.kind.memory_type, host.memory_type);
    CHECK_EQ((uintptr_t)attr.data % SIZE, 0);
    test_fill(attr.data, SIZE - round, round);
    test_fill(attr.metadata, 64, round + 1);
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE - round, NULL));
    envelope = lease_soon(on);
    attr = look_at(envelope);
    CHECK_EQ(attr.kind.memory_type, UCXX_MEMORY_CUDA);
    CHECK_EQ(attr.kind.device_id, 0);
    CHECK_EQ(attr.length, SIZE - round);
    CHECK_EQ((uintptr_t)attr.data % SIZE, 0);
    CHECK_CONTENT(attr.metadata, 64, round + 1);
    cuda_read(envelope, bytes, stream);
    CHECK_CONTENT(bytes, SIZE - round, round);
    /* A swap moves the buffer to the other hub without a copy. */
    ucxx_envelope_t *empty = lease_soon(off);
    CHECK_OK(ucxx_envelope_swap(envelope, empty));
    CHECK_OK(ucxx_envelope_commit(envelope, 0, stream));
    CHECK_OK(ucxx_envelope_commit(empty, SIZE - round, stream));
    envelope = lease_soon(out);
    attr = look_at(envelope);
    CHECK_CONTENT(attr.data, SIZE - round, round);
    CHECK_CONTENT(attr.metadata, 64, round + 1);
    CHECK(attr.ready_event == NULL);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_EQ(hub_stats(there.hub).transfers, 50);
  CHECK_EQ(hub_stats(back.hub).transfers, 50);
  CHECK_CUDA(cuda.stream_synchronize(stream));
  ucxx_link_destroy(in);
  ucxx_link_destroy(on);
  ucxx_link_destroy(off);
  ucxx_link_destroy(out);
  hub_close(&there);
  hub_close(&back);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

static void ready_events(void) {
  STEP(
      "a chunk is available on the GPU before the stream has written it, and elsewhere afterwards");
  hub_t hub = cuda_hub(SIZE, on_pinned, 2, 2);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda);
  ucxx_link_t *on = hub_broadcast(hub.hub, on_cuda), *out = hub_broadcast(hub.hub, on_pinned);
  void *writer = cuda_stream(), *reader = cuda_stream();
  gate_t gate = GATE_CLOSED;
  uint32_t words[SIZE / 4];
  ucxx_envelope_t *envelope = lease_soon(in);
  CHECK(look_at(envelope).ready_event == NULL);
  CHECK_CUDA(cuda.call(writer, gate_pass, &gate));
  cuda_fill(envelope, 7, writer);
  CHECK_OK(ucxx_envelope_commit(envelope, SIZE, writer));
  envelope = lease_now(on);
  ucxx_envelope_attr_t attr = look_at(envelope);
  CHECK(attr.ready_event != NULL);
  CHECK_EQ(cuda.event_query(attr.ready_event), 600);
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(hub_stats(hub.hub).transfers, 0);
  CHECK_CUDA(cuda.stream_wait(reader, attr.ready_event, 0));
  CHECK_CUDA(cuda.to_host(words, (uint64_t)(uintptr_t)attr.data, SIZE, reader));
  CHECK_OK(ucxx_envelope_commit(envelope, 0, reader));
  gate_open(&gate);
  envelope = lease_soon(out);
  check_words(look_at(envelope).data, SIZE, 7);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  CHECK_CUDA(cuda.stream_synchronize(reader));
  check_words(words, SIZE, 7);
  ucxx_link_destroy(in);
  ucxx_link_destroy(on);
  ucxx_link_destroy(out);
  hub_close(&hub);
  CHECK_CUDA(cuda.stream_destroy(writer));
  CHECK_CUDA(cuda.stream_destroy(reader));
}

static void reuse(void) {
  STEP("neither producer nor transfer overwrites what a stream still reads");
  hub_t hub = cuda_hub(SIZE, on_pinned, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
              *on = hub_link(hub.hub, UCXX_LINK_CONSUME, on_cuda);
  ucxx_link_t *direct = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda);
  void *reader = cuda_stream(), *writer = cuda_stream();
  for (uint32_t round = 0; round < 20; round++) {
    gate_t gate = GATE_CLOSED;
    uint32_t words[SIZE / 4];
    ucxx_envelope_t *envelope = lease_soon(in);
    for (size_t at = 0; at < SIZE / 4; at++) ((uint32_t *)look_at(envelope).data)[at] = round;
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE, NULL));
    envelope = lease_soon(on);
    ucxx_envelope_attr_t attr = look_at(envelope);
    CHECK_CUDA(cuda.call(reader, gate_pass, &gate));
    CHECK_CUDA(cuda.to_host(words, (uint64_t)(uintptr_t)attr.data, SIZE, reader));
    CHECK_OK(ucxx_envelope_commit(envelope, 0, reader));
    if (round % 2 == 0) {
      envelope = lease_now(direct);
      CHECK(look_at(envelope).ready_event != NULL);
      cuda_fill(envelope, round + 100, writer);
      CHECK_OK(ucxx_envelope_commit(envelope, SIZE, writer));
    } else {
      envelope = lease_soon(in);
      for (size_t at = 0; at < SIZE / 4; at++)
        ((uint32_t *)look_at(envelope).data)[at] = round + 100;
      CHECK_OK(ucxx_envelope_commit(envelope, SIZE, NULL));
      lease_none(on, UCXX_ERR_NO_RESOURCE);
    }
    gate_open(&gate);
    envelope = lease_soon(on);
    uint32_t next[SIZE / 4];
    cuda_read(envelope, next, writer);
    check_words(next, SIZE, round + 100);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    CHECK_CUDA(cuda.stream_synchronize(reader));
    check_words(words, SIZE, round);
  }
  ucxx_link_destroy(in);
  ucxx_link_destroy(on);
  ucxx_link_destroy(direct);
  hub_close(&hub);
  CHECK_CUDA(cuda.stream_destroy(writer));
  CHECK_CUDA(cuda.stream_destroy(reader));
}

static void host_with_streams(void) {
  STEP("a stream that writes host memory: readers get it when it is written, and nobody "
       "writes there before");
  hub_t hub = cuda_hub(SIZE, on_pinned, 1, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_pinned);
  void *stream = cuda_stream();
  uint64_t device = 0;
  CHECK_CUDA(cuda.allocate(&device, SIZE));
  for (uint32_t round = 0; round < 20; round++) {
    gate_t gate = GATE_CLOSED;
    ucxx_envelope_t *envelope = lease_soon(in);
    CHECK_CUDA(cuda.call(stream, gate_pass, &gate));
    CHECK_CUDA(cuda.fill(device, round, SIZE / 4, stream));
    CHECK_CUDA(cuda.to_host(look_at(envelope).data, device, SIZE, stream));
    if (round % 3 == 0) {
      CHECK_OK(ucxx_envelope_abort(envelope, stream));
      lease_none(in, UCXX_ERR_NO_RESOURCE);
      gate_open(&gate);
      CHECK_OK(ucxx_envelope_abort(lease_soon(in), NULL));
      continue;
    }
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE, stream));
    lease_none(out, UCXX_ERR_NO_RESOURCE);
    gate_open(&gate);
    envelope = lease_soon(out);
    check_words(look_at(envelope).data, SIZE, round);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_CUDA(cuda.stream_synchronize(stream));
  CHECK_CUDA(cuda.free(device));
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

static void arguments(void) {
  STEP("missing devices, memory on another device, streams without CUDA "
       "memory");
  hub_t hub = cuda_hub(SIZE, on_host, 1, 1);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, (ucxx_memory_kind_t){UCXX_MEMORY_CUDA, 1000}, 1),
               UCXX_ERR_NO_DEVICE);
  CHECK_MESSAGE("CUDA device 1000");
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, (ucxx_memory_kind_t){UCXX_MEMORY_CUDA, -1}, 1),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_hub_add_envelopes(hub.hub, on_cuda, SIZE_MAX / SIZE), UCXX_ERR_EXCEEDS_LIMIT);
  unsigned char bytes[SIZE];
  CHECK_STATUS(ucxx_hub_add_buffer(hub.hub, on_cuda, bytes, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("data");
  CHECK_STATUS(ucxx_hub_add_buffer(hub.hub, on_pinned, bytes, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  uint64_t device = 0;
  CHECK_CUDA(cuda.allocate(&device, SIZE));
  CHECK_OK(ucxx_hub_add_buffer(hub.hub, on_cuda, (void *)(uintptr_t)device, NULL, NULL));
  hub_close(&hub);
  CHECK_CUDA(cuda.free(device));
  hub = hub_open(SIZE, 1, 0);
  void *stream = cuda_stream();
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub.hub, on_host, &envelope));
  CHECK_STATUS(ucxx_envelope_commit(envelope, 1, stream), UCXX_ERR_NO_DEVICE);
  CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  hub_close(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

static void ends(void) {
  STEP("a hub destroyed while streams and copies are running: its memory stays until they "
       "are done");
  for (int round = 0; round < 20; round++) {
    hub_t hub = cuda_hub(SIZE, on_pinned, 2, 2);
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda),
                *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_pinned);
    void *stream = cuda_stream();
    gate_t *gate = test_alloc(sizeof *gate);
    *gate = (gate_t)GATE_CLOSED;
    ucxx_envelope_t *envelope = lease_soon(in);
    CHECK_CUDA(cuda.call(stream, gate_pass, gate));
    cuda_fill(envelope, 3, stream);
    switch (round % 3) {
    case 0: CHECK_OK(ucxx_envelope_commit(envelope, SIZE, stream)); break;
    case 1: CHECK_OK(ucxx_envelope_abort(envelope, stream)); break;
    default: break;
    }
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    ucxx_hub_destroy(hub.hub);
    if (round % 3 == 2) {
      CHECK_STATUS(ucxx_envelope_commit(envelope, SIZE, stream), UCXX_ERR_CLOSED);
      CHECK_OK(ucxx_envelope_release(envelope, stream));
    }
    ucxx_context_destroy(hub.context);
    gate_open(gate);
    CHECK_CUDA(cuda.stream_synchronize(stream));
    CHECK_CUDA(cuda.stream_destroy(stream));
    free(gate);
  }
}

/* Runs inside the call that ends another lease with a stream. */
typedef struct reader {
  ucxx_hub_t *hub;
  void *stream;
  uint32_t had, keeps, destroys;
} reader_t;

/* What the library has of the driver now: objects of the stand-in, or memory of a GPU. */
static size_t in_use(void) {
  size_t room = 0, all = 0;
  if (cuda.count != NULL)
    return (size_t)(cuda.count(DOUBLE_STREAMS) + cuda.count(DOUBLE_EVENTS) +
                    cuda.count(DOUBLE_BLOCKS));
  CHECK_CUDA(cuda.room(&room, &all));
  return all - room;
}

static void many_leases(void) {
  enum { ALL = 10000, FIRST = 1000 };
  STEP("%d chunks, on streams, take no more than the first %d", ALL, FIRST);
  hub_t hub = cuda_hub(SIZE, on_pinned, 3, 3);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_pinned),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_cuda);
  void *stream = cuda_stream();
  size_t after_first = 0;
  for (uint64_t number = 0; number < ALL; number++) {
    ucxx_envelope_t *envelope = lease_soon(in);
    memset(look_at(envelope).data, (int)number, SIZE);
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE, NULL));
    envelope = lease_soon(out);
    if (look_at(envelope).ready_event != NULL)
      CHECK_CUDA(cuda.stream_wait(stream, look_at(envelope).ready_event, 0));
    CHECK_OK(ucxx_envelope_commit(envelope, 0, stream));
    if (number + 1 == FIRST) {
      CHECK_CUDA(cuda.stream_synchronize(stream));
      after_first = in_use();
    }
  }
  CHECK_CUDA(cuda.stream_synchronize(stream));
  /* Some events are kept to be used again. Other programs may use the same GPU. */
  const size_t now = in_use(), more = cuda.count != NULL ? 8 : 32 << 20;
  if (now > after_first + more) FAIL("%zu were in use, and now %zu", after_first, now);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
  CHECK_CUDA(cuda.stream_destroy(stream));
}

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  reader_t *reader = arg;
  ucxx_envelope_t *envelope = NULL;
  if (status != UCXX_OK || ucxx_link_lease(link, 0, &envelope) != UCXX_OK) return;
  CHECK_CUDA(cuda.stream_wait(reader->stream, look_at(envelope).ready_event, 0));
  reader->had++;
  if (reader->destroys) ucxx_hub_destroy(reader->hub);
  if (reader->keeps || reader->destroys)
    CHECK_OK(ucxx_envelope_release(envelope, reader->stream));
  else
    CHECK_OK(ucxx_envelope_commit(envelope, 0, reader->stream));
}

static void callbacks(void) {
  STEP("on_ready, inside a commit with a stream, ends a lease with a stream, and the hub with its "
       "last one");
  for (uint32_t round = 0; round < 12; round++) {
    hub_t hub = cuda_hub(SIZE, on_pinned, 1, 2);
    reader_t reader = {hub.hub, cuda_stream(), 0, round % 2, 0};
    ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
    params.on_ready = on_ready;
    params.on_ready_arg = &reader;
    ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_cuda), *out = NULL;
    CHECK_OK(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_cuda, &params, &out));
    void *writer = cuda_stream();
    gate_t gate = GATE_CLOSED;
    /* Neither stream has reached this point when the leases end; one has its mark before the
     * other. */
    CHECK_CUDA(cuda.call(writer, gate_pass, &gate));
    ucxx_envelope_t *envelope = lease_now(in);
    reader.destroys = round % 4 >= 2;
    cuda_fill(envelope, round, writer);
    CHECK_OK(ucxx_envelope_commit(envelope, SIZE, writer));
    CHECK_EQ(reader.had, 1);
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
    if (!reader.destroys) {
      CHECK_EQ(ucxx_hub_length(hub.hub), reader.keeps);
      ucxx_hub_destroy(hub.hub);
    }
    ucxx_context_destroy(hub.context);
    gate_open(&gate);
    CHECK_CUDA(cuda.stream_synchronize(writer));
    CHECK_CUDA(cuda.stream_synchronize(reader.stream));
    CHECK_CUDA(cuda.stream_destroy(writer));
    CHECK_CUDA(cuda.stream_destroy(reader.stream));
  }
}

int main(void) {
  test_begin("cuda_hub");
  cuda_open(0);
  void *context = NULL, *now = NULL;
  CHECK_CUDA(cuda.current(&context));
  if (cuda.delay) cuda.delay(200000, test_seed());
  there_and_back(on_host, "the host");
  there_and_back(on_pinned, "pinned memory");
  there_and_back(on_dummy, "a dummy device");
  ready_events();
  reuse();
  host_with_streams();
  arguments();
  ends();
  callbacks();
  if (cuda.delay) cuda.delay(0, 0);
  many_leases();
  STEP("the context that was current is");
  CHECK_CUDA(cuda.current(&now));
  CHECK(now == context);
  cuda_close();
  return 0;
}
