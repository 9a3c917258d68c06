/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * One or two envelopes where chunks are produced, a single one where they are read, and a consumer
 * that stops again and again. Copying ahead stops and resumes with it, each chunk is copied once
 * and correctly, and no thread waits without end.
 */
#include <pthread.h>
#include <sched.h>

#include "hub.h"

enum { SIZE = 4096, CHUNKS = 1000 };

typedef struct stall {
  hub_t hub;
  ucxx_memory_kind_t from, to;
  ucxx_link_t *in, *second, *out;
  /* The most chunks that can exist while the consumer holds the oldest or has not leased it. */
  uint64_t most;
} stall_t;

static size_t length_of(uint64_t number) { return 16 + test_mix(number) % (SIZE - 15); }

static void *produce(void *arg) {
  stall_t *stall = arg;
  for (uint64_t number = 1; number <= CHUNKS; number++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(stall->in, FOR_EVER, &envelope));
    test_fill(word_of(envelope), length_of(number), number);
    word_of(envelope)[0] = number;
    CHECK_OK(ucxx_envelope_commit(envelope, length_of(number), NULL));
  }
  CHECK_OK(ucxx_hub_close(stall->hub.hub));
  return NULL;
}

static void check_chunk(const ucxx_envelope_t *envelope, uint64_t number) {
  unsigned char expected[SIZE];
  ucxx_envelope_attr_t attr = look_at(envelope);
  CHECK_EQ(*(const uint64_t *)attr.data, number);
  CHECK_EQ(attr.length, length_of(number));
  test_fill(expected, attr.length, number);
  CHECK(memcmp((char *)attr.data + 8, expected + 8, attr.length - 8) == 0);
}

/* Waits until the producer can produce no more. By then `copied` chunks have been copied; the only
 * envelope there holds the last. */
static void stand_still(const stall_t *stall, uint64_t copied) {
  /* A chunk is queued before it has been copied. */
  while (ucxx_hub_length(stall->hub.hub) < stall->most ||
         hub_stats(stall->hub.hub).transfers < copied)
    sched_yield();
  ucxx_hub_stats_t stats = hub_stats(stall->hub.hub);
  CHECK_EQ(stats.queued_chunks, stall->most);
  CHECK_EQ(stats.free_envelopes, 0);
  CHECK_EQ(stats.transfers, copied);
  lease_none(stall->second, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_validate(stall->hub.hub));
}

static void run(size_t envelopes, ucxx_memory_kind_t from, ucxx_memory_kind_t to, int32_t retain,
                uint64_t *seed) {
  STEP("from %zu of memory type %d to one of %d, retain %d", envelopes, from.memory_type,
       to.memory_type, retain);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.retain = retain;
  stall_t stall = {.from = from, .to = to};
  int to_device = to.memory_type == UCXX_MEMORY_DUMMY;
  stall.hub = hub_open_with(&params, to_device ? envelopes : 1, to_device ? 1 : envelopes);
  stall.in = hub_link(stall.hub.hub, UCXX_LINK_PRODUCE, from);
  stall.second = hub_link(stall.hub.hub, UCXX_LINK_PRODUCE, from);
  stall.out = hub_link(stall.hub.hub, UCXX_LINK_CONSUME, to);
  /* With ALWAYS the source of a copy is kept; otherwise a producer gets it. */
  stall.most = retain == UCXX_HUB_RETAIN_ALWAYS ? envelopes : envelopes + 1;
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, produce, &stall), 0);
  uint64_t stalls = 0, aborted = 0;
  for (uint64_t number = 1; number <= CHUNKS; number++) {
    ucxx_envelope_t *envelope = NULL;
    uint64_t turn = test_mix((*seed)++) % 16;
    int is_last = number + stall.most > CHUNKS;
    if (number == 1) stand_still(&stall, 1);
    CHECK_OK(ucxx_link_lease(stall.out, FOR_EVER, &envelope));
    check_chunk(envelope, number);
    if (turn == 0 && !is_last) {
      stand_still(&stall, number);
      lease_none(stall.out, UCXX_ERR_NO_RESOURCE);
      check_chunk(envelope, number);
      stalls++;
    }
    if (turn < 2) {
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
      aborted++;
      envelope = lease_now(stall.out);
      check_chunk(envelope, number);
    }
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(stalls > 0 && aborted > stalls);
  lease_none(stall.out, UCXX_ERR_CLOSED);
  ucxx_hub_stats_t stats = hub_stats(stall.hub.hub);
  CHECK_EQ(stats.transfers, CHUNKS);
  CHECK_EQ(stats.chunks_consumed, CHUNKS);
  CHECK_EQ(stats.free_envelopes, envelopes + 1);
  CHECK_EQ(stats.stale_transfers + stats.trashed_envelopes + stats.leased_envelopes, 0);
  ucxx_link_destroy(stall.in);
  ucxx_link_destroy(stall.second);
  ucxx_link_destroy(stall.out);
  hub_close(&stall.hub);
}

/* All steps on one thread, so that the place of each chunk is known after each. */
static void step_by_step(void) {
  STEP("step by step, with a peek on the device as well");
  hub_t hub = hub_open(SIZE, 2, 1);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  ucxx_link_t *peek = hub_link(hub.hub, UCXX_LINK_PEEK, on_dummy);
  produce_word(in, 1);
  produce_word(in, 2);
  produce_word(in, 3);
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  ucxx_envelope_t *looking = lease_now(peek), *held = lease_now(out);
  CHECK(word_of(looking) == word_of(held));
  CHECK_OK(ucxx_envelope_commit(held, 0, NULL));
  STEP("a consumed chunk that is still peeked at keeps the only envelope: nothing is copied, "
       "and no link is starved");
  CHECK_EQ(hub_stats(hub.hub).transfers, 1);
  CHECK_EQ(hub_stats(hub.hub).trashed_envelopes, 1);
  CHECK_EQ(*word_of(looking), 1);
  lease_none(out, UCXX_ERR_NO_RESOURCE);
  lease_none(peek, UCXX_ERR_NO_RESOURCE);
  lease_none(in, UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_hub_validate(hub.hub));
  CHECK_OK(ucxx_envelope_release(looking, NULL));
  CHECK_EQ(hub_stats(hub.hub).transfers, 2);
  produce_word(in, 4);
  for (uint64_t word = 2; word <= 4; word++) CHECK_EQ(consume_word(out), word);
  CHECK_EQ(hub_stats(hub.hub).transfers, 4);
  CHECK_EQ(hub_stats(hub.hub).free_envelopes, 3);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  ucxx_link_destroy(peek);
  hub_close(&hub);
}

int main(void) {
  test_begin("hub_copy_ahead");
  uint64_t seed = test_seed();
  for (int32_t retain = UCXX_HUB_RETAIN_AUTO; retain <= UCXX_HUB_RETAIN_UNTIL_COPIED; retain++) {
    run(2, on_host, on_dummy, retain, &seed);
    run(2, on_dummy, on_host, retain, &seed);
    run(1, on_host, on_dummy, retain, &seed);
  }
  step_by_step();
  return 0;
}
