/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Hubs between threads: no chunk is lost or duplicated, each producer's chunks arrive in order, and
 * memory does not grow. */
#include <pthread.h>
#include <sched.h>

#include "hub.h"

enum { SIZE = 64, PRODUCERS = 3, CONSUMERS = 3, LONG_RUN = 1000000 };

static uint64_t each; /* chunks of a producer, an even number */

/* What some consumers do: return chunks, so that others see an older chunk after a newer one. */
enum { IN_ORDER = 1, ABORTS = 2 };

typedef struct stage {
  ucxx_hub_t *hub, *next;
  ucxx_link_t *link, *link_next;
  uint64_t number, count, sum;
  uint64_t last[PRODUCERS];
} stage_t;

/* Words are producer << 32 | number. */
static void *produce(void *arg) {
  stage_t *stage = arg;
  for (uint64_t at = 1; at <= stage->count; at++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(stage->link, FOR_EVER, &envelope));
    if (at % 7 == 0) {
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
      CHECK_OK(ucxx_link_lease(stage->link, FOR_EVER, &envelope));
    }
    uint64_t *words = word_of(envelope);
    words[0] = stage->number << 32 | at;
    words[1] = test_mix(words[0]);
    CHECK_OK(ucxx_envelope_commit(envelope, 16, NULL));
  }
  return NULL;
}

static void *consume(void *arg) {
  stage_t *stage = arg;
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  uint64_t turn = 0;
  while ((status = ucxx_link_lease(stage->link, FOR_EVER, &envelope)) == UCXX_OK) {
    uint64_t *words = word_of(envelope), word = words[0], producer = word >> 32,
             number = word & UINT32_MAX;
    CHECK_EQ(words[1], test_mix(word));
    CHECK_EQ(look_at(envelope).length, 16);
    CHECK(producer < PRODUCERS);
    if (stage->number & ABORTS && ++turn % 11 == 0) {
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
      continue;
    }
    if (stage->number & IN_ORDER) CHECK(number > stage->last[producer]);
    stage->last[producer] = number;
    stage->count++;
    stage->sum += word;
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  return NULL;
}

static uint64_t expected_sum(void) {
  uint64_t sum = 0;
  for (uint64_t producer = 0; producer < PRODUCERS; producer++)
    for (uint64_t at = 1; at <= each; at++) sum += producer << 32 | at;
  return sum;
}

/* Consumers of one kind: broadcast or competing, on the host or on the device. */
static void crowd(int broadcast, uint64_t how, ucxx_memory_kind_t kind, int32_t retain) {
  STEP("%d producers, %d consumers%s, on memory type %d, retain %d", PRODUCERS, CONSUMERS,
       broadcast ? " of everything" : "", kind.memory_type, retain);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.max_queue_chunks = 6;
  params.retain = retain;
  hub_t hub = hub_open_with(&params, 4, 4);
  stage_t producers[PRODUCERS], consumers[CONSUMERS];
  pthread_t threads[PRODUCERS + CONSUMERS];
  memset(producers, 0, sizeof producers);
  memset(consumers, 0, sizeof consumers);
  for (int at = 0; at < CONSUMERS; at++) {
    consumers[at].number = how;
    consumers[at].link =
        broadcast ? hub_broadcast(hub.hub, kind) : hub_link(hub.hub, UCXX_LINK_CONSUME, kind);
    CHECK_EQ(pthread_create(&threads[PRODUCERS + at], NULL, consume, &consumers[at]), 0);
  }
  for (int at = 0; at < PRODUCERS; at++) {
    producers[at].link = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
    producers[at].number = (uint64_t)at;
    producers[at].count = each;
    CHECK_EQ(pthread_create(&threads[at], NULL, produce, &producers[at]), 0);
  }
  for (int at = 0; at < PRODUCERS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_OK(ucxx_hub_drain(hub.hub, FOR_EVER));
  uint64_t count = 0, sum = 0;
  for (int at = 0; at < CONSUMERS; at++) {
    CHECK_EQ(pthread_join(threads[PRODUCERS + at], NULL), 0);
    count += consumers[at].count;
    sum += consumers[at].sum;
    if (broadcast) CHECK_EQ(consumers[at].sum, expected_sum());
    ucxx_link_destroy(consumers[at].link);
  }
  CHECK_EQ(count, (broadcast ? CONSUMERS : 1) * PRODUCERS * each);
  CHECK_EQ(sum, (broadcast ? CONSUMERS : 1) * expected_sum());
  ucxx_hub_stats_t stats = hub_stats(hub.hub);
  CHECK_EQ(stats.free_envelopes, 8);
  CHECK_EQ(stats.chunks_consumed, PRODUCERS * each);
  CHECK(stats.queue_high_water <= 6);
  CHECK_EQ(stats.leased_envelopes + stats.trashed_envelopes + stats.queued_chunks, 0);
  for (int at = 0; at < PRODUCERS; at++) ucxx_link_destroy(producers[at].link);
  hub_close(&hub);
}

/*
 * One kind of host memory and competing consumers: such a hub needs no lock until a thread sleeps
 * in a blocking lease or makes another kind of call. All of that happens at once. Envelopes are few
 * in some rounds, so that producers sleep, and many in others, so that consumers do.
 */
static void *ask(void *arg) {
  stage_t *stage = arg;
  for (uint64_t at = 0; !__atomic_load_n(&stage->number, __ATOMIC_ACQUIRE); at++) {
    ucxx_hub_stats_t stats = hub_stats(stage->hub);
    CHECK(stats.queued_chunks + stats.free_envelopes + stats.leased_envelopes <= 2 * stage->count);
    CHECK(ucxx_hub_length(stage->hub) <= stage->count);
    /* So that other threads run between two checks. */
    for (int turn = 0; turn < 500; turn++) sched_yield();
  }
  return NULL;
}

static void plain(size_t envelopes, uint64_t how, int asked) {
  STEP("%d producers and %d consumers of a plain hub of %zu envelopes%s%s", PRODUCERS, CONSUMERS,
       envelopes, how & ABORTS ? ", some return chunks" : "",
       asked ? ", and one that makes other calls" : "");
  hub_t hub = hub_open(SIZE, envelopes, 0);
  stage_t producers[PRODUCERS], consumers[CONSUMERS], asks = {.hub = hub.hub, .count = envelopes};
  pthread_t threads[PRODUCERS + CONSUMERS + 1];
  memset(producers, 0, sizeof producers);
  memset(consumers, 0, sizeof consumers);
  for (int at = 0; at < CONSUMERS; at++) {
    consumers[at].number = how;
    consumers[at].link = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
    CHECK_EQ(pthread_create(&threads[PRODUCERS + at], NULL, consume, &consumers[at]), 0);
  }
  for (int at = 0; at < PRODUCERS; at++) {
    producers[at].link = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
    producers[at].number = (uint64_t)at;
    producers[at].count = each;
    CHECK_EQ(pthread_create(&threads[at], NULL, produce, &producers[at]), 0);
  }
  if (asked) CHECK_EQ(pthread_create(&threads[PRODUCERS + CONSUMERS], NULL, ask, &asks), 0);
  for (int at = 0; at < PRODUCERS; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  __atomic_store_n(&asks.number, 1, __ATOMIC_RELEASE);
  if (asked) CHECK_EQ(pthread_join(threads[PRODUCERS + CONSUMERS], NULL), 0);
  CHECK_OK(ucxx_hub_close(hub.hub));
  CHECK_OK(ucxx_hub_drain(hub.hub, FOR_EVER));
  uint64_t count = 0, sum = 0;
  for (int at = 0; at < CONSUMERS; at++) {
    CHECK_EQ(pthread_join(threads[PRODUCERS + at], NULL), 0);
    count += consumers[at].count;
    sum += consumers[at].sum;
    ucxx_link_destroy(consumers[at].link);
  }
  CHECK_EQ(count, PRODUCERS * each);
  CHECK_EQ(sum, expected_sum());
  ucxx_hub_stats_t stats = hub_stats(hub.hub);
  CHECK_EQ(stats.free_envelopes, envelopes);
  CHECK_EQ(stats.chunks_consumed, PRODUCERS * each);
  CHECK_EQ(stats.leased_envelopes + stats.queued_chunks, 0);
  for (int at = 0; at < PRODUCERS; at++) ucxx_link_destroy(producers[at].link);
  hub_close(&hub);
}

static void *filter(void *arg) {
  stage_t *stage = arg;
  ucxx_link_t *links[] = {stage->link, stage->link_next};
  ucxx_envelope_t *envelopes[2] = {NULL, NULL};
  ucxx_status_t status;
  while ((status = ucxx_link_lease_many(links, 2, FOR_EVER, envelopes)) == UCXX_OK) {
    uint64_t *from = word_of(envelopes[0]), *to = word_of(envelopes[1]);
    if (from[0] % 2 == 0) {
      CHECK_OK(ucxx_envelope_abort(envelopes[1], NULL));
    } else if (from[0] % 3 == 0) {
      CHECK_OK(ucxx_envelope_swap(envelopes[0], envelopes[1]));
      CHECK_OK(ucxx_envelope_commit(envelopes[1], 16, NULL));
    } else {
      memcpy(to, from, 16);
      CHECK_OK(ucxx_envelope_commit(envelopes[1], 16, NULL));
    }
    CHECK_OK(ucxx_envelope_commit(envelopes[0], 0, NULL));
    stage->count++;
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  return NULL;
}

static void filters(void) {
  STEP("filters between two hubs lease on both at once, each side full or empty in turn");
  hub_t first = hub_open(SIZE, 2, 0), second = hub_open(SIZE, 2, 0);
  stage_t source = {.hub = first.hub, .count = each}, sink = {.hub = second.hub};
  stage_t between[2];
  pthread_t threads[4];
  memset(between, 0, sizeof between);
  source.link = hub_link(first.hub, UCXX_LINK_PRODUCE, on_host);
  sink.link = hub_link(second.hub, UCXX_LINK_CONSUME, on_host);
  for (int at = 0; at < 2; at++) {
    between[at].link = hub_link(first.hub, UCXX_LINK_CONSUME, on_host);
    between[at].link_next = hub_link(second.hub, UCXX_LINK_PRODUCE, on_host);
    CHECK_EQ(pthread_create(&threads[1 + at], NULL, filter, &between[at]), 0);
  }
  CHECK_EQ(pthread_create(&threads[0], NULL, produce, &source), 0);
  /* Two filters may overtake each other, so the order is not checked here. */
  uint64_t count = 0, sum = 0, expected = 0;
  for (uint64_t at = 1; at <= each; at += 2) expected += at;
  while (count < each / 2) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(sink.link, FOR_EVER, &envelope));
    CHECK_EQ(word_of(envelope)[1], test_mix(word_of(envelope)[0]));
    sum += word_of(envelope)[0];
    count++;
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_EQ(pthread_join(threads[0], NULL), 0);
  CHECK_OK(ucxx_hub_close(first.hub));
  CHECK_EQ(pthread_join(threads[1], NULL), 0);
  CHECK_EQ(pthread_join(threads[2], NULL), 0);
  CHECK_EQ(between[0].count + between[1].count, each);
  CHECK_EQ(sum, expected);
  CHECK_OK(ucxx_hub_close(second.hub));
  lease_none(sink.link, UCXX_ERR_CLOSED);
  ucxx_link_destroy(source.link);
  ucxx_link_destroy(sink.link);
  for (int at = 0; at < 2; at++) {
    ucxx_link_destroy(between[at].link);
    ucxx_link_destroy(between[at].link_next);
  }
  hub_close(&first);
  hub_close(&second);
}

static void *wait_for_the_end(void *arg) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_STATUS(ucxx_link_lease(arg, FOR_EVER, &envelope), UCXX_ERR_CLOSED);
  return NULL;
}

static void destroyed_while_waiting(void) {
  STEP("a thread that waits in a destroyed hub gets CLOSED");
  for (int round = 0; round < 50; round++) {
    hub_t hub = hub_open(SIZE, 1, 1);
    ucxx_link_t *links[] = {hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy),
                            hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
                            hub_link(hub.hub, UCXX_LINK_PEEK, on_host)};
    pthread_t threads[3];
    ucxx_envelope_t *held = NULL;
    CHECK_OK(ucxx_hub_push(hub.hub, on_host, &held));
    for (int at = 0; at < 3; at++)
      CHECK_EQ(pthread_create(&threads[at], NULL, wait_for_the_end, links[at]), 0);
    ucxx_hub_destroy(hub.hub);
    for (int at = 0; at < 3; at++) {
      CHECK_EQ(pthread_join(threads[at], NULL), 0);
      ucxx_link_destroy(links[at]);
    }
    *word_of(held) = 1;
    CHECK_OK(ucxx_envelope_release(held, NULL));
    ucxx_context_destroy(hub.context);
  }
}

static void *produce_one(void *arg) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(arg, FOR_EVER, &envelope));
  CHECK_OK(ucxx_envelope_commit(envelope, look_at(envelope).capacity, NULL));
  return NULL;
}

static void stale_copies(void) {
  STEP("a chunk consumed while its producer copies it to another link's device: the "
       "copy is dropped, and counted");
  hub_t hub = hub_open(16 << 20, 1, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  uint64_t rounds = 0;
  ucxx_hub_stats_t stats;
  do {
    pthread_t thread;
    ucxx_envelope_t *envelope = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, produce_one, in), 0);
    CHECK_OK(ucxx_link_lease(out, FOR_EVER, &envelope));
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    rounds++;
    lease_none(peek, UCXX_ERR_NO_RESOURCE);
    stats = hub_stats(hub.hub);
    CHECK_EQ(stats.free_envelopes, 2);
    CHECK_EQ(stats.chunks_consumed, rounds);
    CHECK_EQ(stats.transfers + stats.stale_transfers, rounds);
    CHECK_EQ(stats.transfer_bytes, stats.transfers * (16 << 20));
  } while (stats.stale_transfers == 0);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(peek);
  hub_close(&hub);
}

static void a_million_chunks(void) {
  STEP("a million chunks with a transfer each: memory does not grow");
  hub_t hub = hub_open(SIZE, 3, 3);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  footprint_t before = footprint_now();
  for (uint64_t word = 0; word < LONG_RUN; word++) {
    if (word == 1000) before = footprint_now();
    produce_word(in, word);
    CHECK_EQ(consume_word(out), word);
  }
  footprint_t after = footprint_now();
  CHECK_EQ(hub_stats(hub.hub).transfers, LONG_RUN);
  CHECK(after.resident_kib - before.resident_kib < 256);
  CHECK(after.mappings <= before.mappings);
  CHECK_EQ(after.descriptors, before.descriptors);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_threads");
  each = 2 * test_rounds(10000);
  crowd(0, IN_ORDER, on_host, UCXX_HUB_RETAIN_AUTO);
  crowd(0, IN_ORDER, on_dummy, UCXX_HUB_RETAIN_AUTO);
  crowd(1, IN_ORDER | ABORTS, on_host, UCXX_HUB_RETAIN_AUTO);
  crowd(1, IN_ORDER | ABORTS, on_dummy, UCXX_HUB_RETAIN_UNTIL_COPIED);
  crowd(0, ABORTS, on_host, UCXX_HUB_RETAIN_AUTO);
  crowd(0, ABORTS, on_dummy, UCXX_HUB_RETAIN_ALWAYS);
  plain(2, IN_ORDER, 0);
  plain(16, IN_ORDER, 0);
  plain(64, IN_ORDER, 1);
  plain(3, ABORTS, 1);
  plain(64, ABORTS, 0);
  filters();
  destroyed_while_waiting();
  stale_copies();
  a_million_chunks();
  return 0;
}
