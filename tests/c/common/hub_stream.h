/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Shared by the tests of connected links: one end of a stream, and chunks with their number in
 * them. */
#ifndef UCXX_RS_TEST_HUB_STREAM_H
#define UCXX_RS_TEST_HUB_STREAM_H
#include "hub.h"

#include <sched.h>

typedef struct end {
  ucxx_worker_t *worker;
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  size_t size;
} end_t;

static inline end_t end_open(ucxx_context_t *context, ucxx_worker_t *worker, size_t size,
                             size_t envelopes) {
  end_t end = {.worker = worker, .size = size};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = size;
  params.worker = worker;
  CHECK_OK(ucxx_hub_create(context, &params, &end.hub));
  CHECK_OK(ucxx_hub_add_envelopes(end.hub, on_host, envelopes));
  end.in = hub_link(end.hub, UCXX_LINK_PRODUCE, on_host);
  end.out = hub_link(end.hub, UCXX_LINK_CONSUME, on_host);
  return end;
}

static inline void end_close(end_t *end) {
  ucxx_link_destroy(end->in);
  ucxx_link_destroy(end->out);
  ucxx_hub_destroy(end->hub);
}

/* Up to `most` bytes: empty, short, and long enough for rendezvous. */
static inline size_t chunk_length(uint64_t seed, uint64_t number, size_t most) {
  uint64_t mixed = test_mix(seed + number);
  size_t limit = mixed % 4 == 0 ? 100 : most;
  return mixed % 16 == 5 ? 0 : test_mix(mixed) % (limit + 1) % (most + 1);
}

static inline void fill_chunk(ucxx_envelope_t *envelope, uint64_t seed, uint64_t number) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  size_t length = chunk_length(seed, number, attr.capacity);
  test_fill(attr.data, length, seed ^ number);
  test_fill(attr.metadata, attr.metadata_length, seed + number);
  memcpy(attr.metadata, &number, sizeof number);
  CHECK_OK(ucxx_envelope_commit(envelope, length, NULL));
}

/* Checks a chunk's contents and returns its number. `most` is the capacity of the sender's
 * envelopes. */
static inline uint64_t read_chunk(ucxx_envelope_t *envelope, uint64_t seed, size_t most) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  uint64_t number = 0;
  uint8_t metadata[64];
  memcpy(&number, attr.metadata, sizeof number);
  CHECK_EQ(attr.metadata_length, sizeof metadata);
  test_fill(metadata, sizeof metadata, seed + number);
  memcpy(metadata, &number, sizeof number);
  CHECK(memcmp(metadata, attr.metadata, sizeof metadata) == 0);
  CHECK_EQ(attr.length, chunk_length(seed, number, most));
  CHECK_CONTENT(attr.data, attr.length, seed ^ number);
  return number;
}

/* Produces the chunk if an envelope is free. */
static inline void produce_chunk(end_t *end, uint64_t seed, uint64_t number) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  while ((status = ucxx_link_lease(end->in, 0, &envelope)) == UCXX_ERR_NO_RESOURCE)
    progress(end->worker);
  CHECK_OK(status);
  fill_chunk(envelope, seed, number);
}

/* Consumes the next chunk if there is one and checks that it has this number. CLOSED after the
 * last. */
static inline ucxx_status_t consume_chunk(end_t *end, uint64_t seed, uint64_t number, size_t most) {
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  while ((status = ucxx_link_lease(end->out, 0, &envelope)) == UCXX_ERR_NO_RESOURCE)
    progress(end->worker);
  if (status != UCXX_OK) return status;
  CHECK_EQ(read_chunk(envelope, seed, most), number);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  return UCXX_OK;
}

/* Progresses until the end of the stream has arrived. */
static inline void drain(end_t *end) {
  ucxx_status_t status;
  CHECK_OK(ucxx_hub_close(end->hub));
  while ((status = ucxx_hub_drain(end->hub, 0)) == UCXX_ERR_TIMED_OUT) progress(end->worker);
  CHECK_OK(status);
}
#endif
