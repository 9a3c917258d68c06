/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Two hubs in a row, each limited to two chunks: producers, a filter between the hubs, a consumer,
 * and a thread that checks both hubs all the time. No chunk is lost or reordered, and no limit is
 * exceeded at any moment.
 */
#include <pthread.h>
#include <sched.h>

#include "hub.h"

enum { SIZE = 512, LIMIT = 2, ENVELOPES = 6, PRODUCERS = 2, EACH = 1000 };

/* How the filter passes on the chunks it keeps. */
typedef enum way { COPIES, SWAPS } way_t;

typedef struct chain {
  hub_t hubs[2];
  way_t way;
  ucxx_memory_kind_t outside,
      inside; /* memory of the hubs at the ends, and of the filter's links */
  size_t kinds;
  int over;
} chain_t;

typedef struct producer {
  const chain_t *chain;
  ucxx_link_t *link;
  uint64_t number;
} producer_t;

/* Words are producer << 32 | number; the rest of a chunk follows from its word. A chunk is longer
 * than half an envelope, so the bytes of two envelopes hold two chunks. */
static size_t length_of(uint64_t word) { return SIZE / 2 + 1 + test_mix(word) % (SIZE / 2); }

/* A chunk, finished or not, uses at most one envelope of each kind, so no more than these are ever
 * in use. */
static void look_on(const chain_t *chain) {
  for (int at = 0; at < 2; at++) {
    CHECK(ucxx_hub_length(chain->hubs[at].hub) <= LIMIT);
    ucxx_hub_stats_t stats = hub_stats(chain->hubs[at].hub);
    CHECK(stats.queued_chunks <= LIMIT);
    CHECK(stats.queue_high_water <= LIMIT);
    CHECK(stats.free_envelopes >= chain->kinds * (ENVELOPES - LIMIT));
  }
}

static void *produce(void *arg) {
  producer_t *producer = arg;
  for (uint64_t at = 1; at <= EACH; at++) {
    /* Two at once if possible, so that more productions are in progress than the queue may hold. */
    ucxx_link_t *links[] = {producer->link, producer->link};
    ucxx_envelope_t *envelopes[2] = {NULL, NULL};
    if (ucxx_link_lease_many(links, 2, 0, envelopes) != UCXX_OK)
      CHECK_OK(ucxx_link_lease(producer->link, FOR_EVER, &envelopes[0]));
    look_on(producer->chain);
    uint64_t word = producer->number << 32 | at;
    ucxx_envelope_attr_t attr = look_at(envelopes[0]);
    test_fill(attr.data, length_of(word), word);
    memcpy(attr.data, &word, 8);
    memcpy(attr.metadata, &word, 8);
    if (envelopes[1] != NULL) CHECK_OK(ucxx_envelope_abort(envelopes[1], NULL));
    CHECK_OK(ucxx_envelope_commit(envelopes[0], length_of(word), NULL));
  }
  return NULL;
}

/* Keeps odd numbers; returns an empty envelope for each dropped chunk. */
static void *filter(void *arg) {
  chain_t *chain = arg;
  ucxx_link_t *links[] = {hub_link(chain->hubs[0].hub, UCXX_LINK_CONSUME, chain->inside),
                          hub_link(chain->hubs[1].hub, UCXX_LINK_PRODUCE, chain->inside)};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  ucxx_status_t status;
  while ((status = ucxx_link_lease_many(links, 2, FOR_EVER, envelopes)) == UCXX_OK) {
    ucxx_envelope_attr_t from = look_at(envelopes[0]), to = look_at(envelopes[1]);
    uint64_t word = *(const uint64_t *)from.data;
    look_on(chain);
    CHECK_EQ(from.length, length_of(word));
    if (word % 2 == 0) {
      CHECK_OK(ucxx_envelope_release(envelopes[1], NULL));
    } else {
      if (chain->way == SWAPS) {
        CHECK_OK(ucxx_envelope_swap(envelopes[0], envelopes[1]));
        to = look_at(envelopes[1]);
      } else {
        memcpy(to.data, from.data, from.length);
        memcpy(to.metadata, from.metadata, from.metadata_length);
      }
      *(uint64_t *)to.data = ~word;
      CHECK_OK(ucxx_envelope_commit(envelopes[1], length_of(word), NULL));
    }
    CHECK_OK(ucxx_envelope_commit(envelopes[0], 0, NULL));
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  CHECK_OK(ucxx_hub_close(chain->hubs[1].hub));
  ucxx_link_destroy(links[0]);
  ucxx_link_destroy(links[1]);
  return NULL;
}

static void *consume(void *arg) {
  chain_t *chain = arg;
  ucxx_link_t *link = hub_link(chain->hubs[1].hub, UCXX_LINK_CONSUME, chain->outside);
  uint64_t next[PRODUCERS] = {1, 1};
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  void *expected = test_alloc(SIZE);
  while ((status = ucxx_link_lease(link, FOR_EVER, &envelope)) == UCXX_OK) {
    ucxx_envelope_attr_t attr = look_at(envelope);
    uint64_t word = ~*(const uint64_t *)attr.data, producer = word >> 32;
    CHECK(producer < PRODUCERS);
    CHECK_EQ(word & UINT32_MAX, next[producer]);
    next[producer] += 2;
    CHECK_EQ(attr.length, length_of(word));
    test_fill(expected, attr.length, word);
    CHECK(memcmp((char *)attr.data + 8, (char *)expected + 8, attr.length - 8) == 0);
    CHECK(memcmp(attr.metadata, &word, 8) == 0);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  for (int at = 0; at < PRODUCERS; at++) CHECK_EQ(next[at], EACH + 1);
  free(expected);
  ucxx_link_destroy(link);
  return NULL;
}

/* Checks from outside at any moment. */
static void *watch(void *arg) {
  chain_t *chain = arg;
  do {
    look_on(chain);
    sched_yield();
  } while (!__atomic_load_n(&chain->over, __ATOMIC_ACQUIRE));
  return NULL;
}

static void run(way_t way, int in_bytes, ucxx_memory_kind_t outside, ucxx_memory_kind_t inside,
                int32_t retain) {
  STEP("a filter that %s, on memory type %d, between ends on %d, retain %d, a limit in %s",
       way == SWAPS ? "swaps" : "copies", inside.memory_type, outside.memory_type, retain,
       in_bytes ? "bytes" : "chunks");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  if (in_bytes)
    params.max_queue_bytes = LIMIT * SIZE;
  else
    params.max_queue_chunks = LIMIT;
  params.retain = retain;
  chain_t chain = {.way = way, .outside = outside, .inside = inside};
  chain.kinds = inside.memory_type == outside.memory_type ? 1 : 2;
  producer_t producers[PRODUCERS];
  pthread_t making[PRODUCERS], between, end, watcher;
  for (int at = 0; at < 2; at++)
    chain.hubs[at] = hub_open_with(&params, ENVELOPES, chain.kinds == 1 ? 0 : ENVELOPES);
  CHECK_EQ(pthread_create(&watcher, NULL, watch, &chain), 0);
  CHECK_EQ(pthread_create(&between, NULL, filter, &chain), 0);
  CHECK_EQ(pthread_create(&end, NULL, consume, &chain), 0);
  for (int at = 0; at < PRODUCERS; at++) {
    producers[at] =
        (producer_t){&chain, hub_link(chain.hubs[0].hub, UCXX_LINK_PRODUCE, outside), (uint64_t)at};
    CHECK_EQ(pthread_create(&making[at], NULL, produce, &producers[at]), 0);
  }
  for (int at = 0; at < PRODUCERS; at++) CHECK_EQ(pthread_join(making[at], NULL), 0);
  CHECK_OK(ucxx_hub_close(chain.hubs[0].hub));
  CHECK_EQ(pthread_join(between, NULL), 0);
  CHECK_EQ(pthread_join(end, NULL), 0);
  __atomic_store_n(&chain.over, 1, __ATOMIC_RELEASE);
  CHECK_EQ(pthread_join(watcher, NULL), 0);
  for (int at = 0; at < PRODUCERS; at++) ucxx_link_destroy(producers[at].link);
  for (int at = 0; at < 2; at++) {
    ucxx_hub_stats_t stats = hub_stats(chain.hubs[at].hub);
    CHECK_EQ(stats.chunks_produced, PRODUCERS * EACH / (1 + at));
    CHECK_EQ(stats.chunks_consumed, stats.chunks_produced);
    CHECK_EQ(stats.transfers, chain.kinds == 1 ? 0 : stats.chunks_produced);
    CHECK(stats.queue_high_water <= LIMIT);
    CHECK_EQ(stats.free_envelopes, chain.kinds * ENVELOPES);
    CHECK_EQ(stats.leased_envelopes + stats.trashed_envelopes + stats.stale_transfers, 0);
    hub_close(&chain.hubs[at]);
  }
}

int main(void) {
  test_begin("hub_chain");
  for (int in_bytes = 0; in_bytes < 2; in_bytes++) {
    run(COPIES, in_bytes, on_host, on_host, UCXX_HUB_RETAIN_AUTO);
    run(SWAPS, in_bytes, on_host, on_dummy, UCXX_HUB_RETAIN_AUTO);
  }
  run(SWAPS, 0, on_host, on_host, UCXX_HUB_RETAIN_AUTO);
  run(COPIES, 0, on_host, on_dummy, UCXX_HUB_RETAIN_ALWAYS);
  run(COPIES, 0, on_dummy, on_host, UCXX_HUB_RETAIN_UNTIL_COPIED);
  return 0;
}
