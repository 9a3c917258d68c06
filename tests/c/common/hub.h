/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Shared by the tests of hubs: a hub of one-word chunks, links, and checked leases. Include
 * test_util.h first. */
#ifndef UCXX_RS_TEST_HUB_H
#define UCXX_RS_TEST_HUB_H
#include "test_util.h"

static const ucxx_memory_kind_t on_host = {UCXX_MEMORY_HOST, 0};
static const ucxx_memory_kind_t on_dummy = {UCXX_MEMORY_DUMMY, 0};
static const ucxx_memory_kind_t on_other_dummy = {UCXX_MEMORY_DUMMY, 1};

typedef struct hub {
  ucxx_context_t *context;
  ucxx_hub_t *hub;
} hub_t;

static inline hub_t hub_open_with(const ucxx_hub_params_t *params, size_t host, size_t dummy) {
  hub_t hub = {NULL, NULL};
  CHECK_OK(ucxx_context_create(NULL, &hub.context));
  CHECK_OK(ucxx_hub_create(hub.context, params, &hub.hub));
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_host, host));
  CHECK_OK(ucxx_hub_add_envelopes(hub.hub, on_dummy, dummy));
  return hub;
}

static inline hub_t hub_open(size_t size, size_t host, size_t dummy) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = size;
  return hub_open_with(&params, host, dummy);
}

static inline void hub_close(hub_t *hub) {
  ucxx_hub_destroy(hub->hub);
  ucxx_context_destroy(hub->context);
  *hub = (hub_t){NULL, NULL};
}

static inline ucxx_link_t *hub_link(ucxx_hub_t *hub, int32_t type, ucxx_memory_kind_t kind) {
  ucxx_link_t *link = NULL;
  CHECK_OK(ucxx_link_create(hub, type, kind, NULL, &link));
  return link;
}

static inline ucxx_link_t *hub_broadcast(ucxx_hub_t *hub, ucxx_memory_kind_t kind) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t *link = NULL;
  params.broadcast = 1;
  CHECK_OK(ucxx_link_create(hub, UCXX_LINK_CONSUME, kind, &params, &link));
  return link;
}

static inline ucxx_envelope_t *lease_now(ucxx_link_t *link) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(link, 0, &envelope));
  CHECK(envelope != NULL);
  return envelope;
}

/* No lease is available, and the out-parameter stays unchanged. */
static inline void lease_none(ucxx_link_t *link, ucxx_status_t expected) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_STATUS(ucxx_link_lease(link, 0, &envelope), expected);
  CHECK(envelope == NULL);
}

static inline ucxx_envelope_attr_t look_at(const ucxx_envelope_t *envelope) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  CHECK_OK(ucxx_envelope_query(envelope, &attr));
  return attr;
}

static inline uint64_t *word_of(const ucxx_envelope_t *envelope) { return look_at(envelope).data; }

/* A chunk of one word. */
static inline void put_word(ucxx_envelope_t *envelope, uint64_t word) {
  *word_of(envelope) = word;
  CHECK_OK(ucxx_envelope_commit(envelope, sizeof word, NULL));
}

static inline void produce_word(ucxx_link_t *link, uint64_t word) {
  put_word(lease_now(link), word);
}

static inline void push_word(ucxx_hub_t *hub, ucxx_memory_kind_t kind, uint64_t word) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_push(hub, kind, &envelope));
  put_word(envelope, word);
}

/* Consumes the next chunk and returns its word. */
static inline uint64_t consume_word(ucxx_link_t *link) {
  ucxx_envelope_t *envelope = lease_now(link);
  uint64_t word = *word_of(envelope);
  CHECK_EQ(look_at(envelope).length, sizeof word);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  return word;
}

/* The word of the top chunk, which stays in the hub. */
static inline uint64_t peek_word(ucxx_hub_t *hub, ucxx_memory_kind_t kind) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_hub_peek(hub, kind, 0, &envelope));
  uint64_t word = *word_of(envelope);
  CHECK_OK(ucxx_envelope_release(envelope, NULL));
  return word;
}

static inline ucxx_hub_stats_t hub_stats(const ucxx_hub_t *hub) {
  ucxx_hub_stats_t stats = UCXX_HUB_STATS_INIT;
  CHECK_OK(ucxx_hub_query_stats(hub, &stats));
  return stats;
}
/* A random number below `below`. */
static inline uint64_t hub_draw(uint64_t *random, uint64_t below) {
  return test_mix(*random += 0x51ed27) % below;
}

/* A random test of `usual` rounds, or of as many as the first argument says, with a worker that any
 * thread may progress. */
static inline int hub_rounds(const char *name, int argc, char **argv, unsigned usual,
                             void (*round_of)(ucxx_context_t *, ucxx_worker_t *, uint64_t *)) {
  test_begin(name);
  uint64_t random = test_seed();
  unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : test_rounds(usual);
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  params.thread_mode = UCXX_THREAD_MULTI;
  params.progress_mode = UCXX_PROGRESS_MANUAL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  while (rounds-- > 0) round_of(context, worker, &random);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  printf("ok\n");
  return 0;
}

#endif
