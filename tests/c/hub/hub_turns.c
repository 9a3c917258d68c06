/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Lock-free hubs that are forced at a random moment, with chunks and envelopes leased by many
 * threads, into the mode with the lock. No chunk is lost, duplicated or out of order, no thread
 * sleeps without end, and the statistics add up. */
#include <pthread.h>
#include <sched.h>

#include "hub.h"

enum { SIZE = 64, MOST_PRODUCERS = 3, MOST_CONSUMERS = 3, EACH = 400, HELD = 3, ROUNDS = 60 };

/* The call that forces the hub into the mode with the lock. */
typedef enum turn { NOTHING, CLOSE, TOLD, BROADCAST, PEEK, MANY, MORE, TURNS } turn_t;

typedef struct world {
  ucxx_hub_t *hub;
  uint64_t producers, consumers, envelopes, seed;
  turn_t turn;
  uint64_t turn_at;
  /* All wait without timeout; some return chunks; links are created and destroyed. */
  int patient, aborts, changes;
  /* Commits begun, and commits completed. */
  uint64_t producing, produced, consuming, consumed;
  uint64_t done[MOST_PRODUCERS];
  unsigned char seen[MOST_PRODUCERS][EACH + 1];
  int over;
} world_t;

typedef struct stage {
  world_t *world;
  ucxx_link_t *link;
  uint64_t number, random;
  uint64_t last[MOST_PRODUCERS];
} stage_t;

typedef struct held {
  ucxx_envelope_t *envelope;
  uint64_t word, turn;
} held_t;

static void count(uint64_t *counter) { __atomic_add_fetch(counter, 1, __ATOMIC_SEQ_CST); }
static uint64_t now(const uint64_t *counter) { return __atomic_load_n(counter, __ATOMIC_SEQ_CST); }

static uint64_t patience(stage_t *stage) {
  static const uint64_t times[] = {0, 1000, 50000, 300000, 5 * MILLISECOND};
  return stage->world->patient ? FOR_EVER : times[hub_draw(&stage->random, 5)];
}

static ucxx_link_t *new_link(const world_t *world, int32_t type, int commits) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t *link = NULL;
  params.autocommit = commits != 0;
  CHECK_OK(ucxx_link_create(world->hub, type, on_host, &params, &link));
  return link;
}

/* Links with even numbers commit on release. */
static void change(stage_t *stage, int32_t type) {
  if (!stage->world->changes || hub_draw(&stage->random, 16) != 0) return;
  ucxx_link_destroy(stage->link);
  stage->link = new_link(stage->world, type, stage->number % 2 == 0);
}

static int is_none(ucxx_status_t status) {
  return status == UCXX_ERR_NO_RESOURCE || status == UCXX_ERR_TIMED_OUT;
}

static void fill(world_t *world, ucxx_envelope_t *envelope, uint64_t number, uint64_t at) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  uint64_t *words = attr.data, word = number << 32 | at;
  CHECK(attr.length == 0 && attr.capacity == SIZE);
  for (int byte = 0; byte < 64; byte++) CHECK_EQ(attr.metadata[byte], 0);
  words[0] = word;
  words[1] = test_mix(word);
  memcpy(attr.metadata, &word, sizeof word);
  count(&world->producing);
}

static uint64_t read_word(const world_t *world, const ucxx_envelope_t *envelope) {
  ucxx_envelope_attr_t attr = look_at(envelope);
  uint64_t *words = attr.data, word = words[0];
  CHECK_EQ(words[1], test_mix(word));
  CHECK(memcmp(attr.metadata, &word, sizeof word) == 0);
  CHECK(word >> 32 < world->producers && attr.length >= 16 && attr.length <= SIZE);
  return word;
}

static void *produce(void *arg) {
  stage_t *stage = arg;
  world_t *world = stage->world;
  for (uint64_t at = 1; at <= EACH;) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status = ucxx_link_lease(stage->link, patience(stage), &envelope);
    if (is_none(status) && !world->patient) {
      sched_yield();
      continue;
    }
    if (status == UCXX_ERR_CLOSED && world->turn == CLOSE) break;
    CHECK_OK(status);
    change(stage, UCXX_LINK_PRODUCE);
    if (hub_draw(&stage->random, 8) == 0) {
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
      continue;
    }
    int releases = !world->changes && stage->number % 2 == 0 && hub_draw(&stage->random, 4) == 0;
    fill(world, envelope, stage->number, at);
    CHECK_OK(releases ? ucxx_envelope_release(envelope, NULL)
                      : ucxx_envelope_commit(envelope, 16 + at % 40, NULL));
    count(&world->produced);
    world->done[stage->number] = at++;
  }
  return NULL;
}

static void consume_one(world_t *world, ucxx_envelope_t *envelope, uint64_t word) {
  unsigned char *seen = &world->seen[word >> 32][word & UINT32_MAX];
  CHECK_EQ(__atomic_add_fetch(seen, 1, __ATOMIC_SEQ_CST), 1);
  count(&world->consuming);
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  count(&world->consumed);
}

/* Leases up to HELD at a time. `turn` is the order of the first leases: returned chunks are offered
 * again in that order, before all others. */
static void *consume(void *arg) {
  stage_t *stage = arg;
  world_t *world = stage->world;
  held_t held[HELD], back[HELD];
  uint64_t holds = 0, waits = 0, turn = 0;
  int alone = world->consumers == 1 && world->turn != TOLD && world->turn != MANY;
  for (;;) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status =
        holds == HELD ? UCXX_ERR_NO_RESOURCE
                      : ucxx_link_lease(stage->link, holds > 0 ? 0 : patience(stage), &envelope);
    if (status == UCXX_OK) {
      uint64_t word = read_word(world, envelope), *last = &stage->last[word >> 32];
      CHECK((word & UINT32_MAX) > *last || world->aborts);
      *last = word & UINT32_MAX;
      held[holds] = (held_t){envelope, word, turn++};
      if (alone && waits > 0) {
        CHECK_EQ(word, back[0].word);
        held[holds].turn = back[0].turn;
        memmove(back, back + 1, --waits * sizeof *back);
      }
      holds++;
      change(stage, UCXX_LINK_CONSUME);
    } else if (status == UCXX_ERR_CLOSED && holds == 0) {
      CHECK(!alone || waits == 0);
      return NULL;
    } else {
      CHECK((is_none(status) && (holds > 0 || !world->patient)) || status == UCXX_ERR_CLOSED);
      CHECK(holds == HELD || !alone || waits == 0);
    }
    if (holds > 0 && (status != UCXX_OK || hub_draw(&stage->random, 2) == 0)) {
      uint64_t which = world->aborts ? hub_draw(&stage->random, holds) : 0;
      held_t one = held[which];
      memmove(held + which, held + which + 1, (--holds - which) * sizeof *held);
      if (world->aborts && waits + holds < HELD - 1 && hub_draw(&stage->random, 3) == 0) {
        CHECK_OK(ucxx_envelope_abort(one.envelope, NULL));
        uint64_t place = waits++;
        for (; place > 0 && back[place - 1].turn > one.turn; place--) back[place] = back[place - 1];
        back[place] = one;
      } else {
        consume_one(world, one.envelope, one.word);
      }
    } else if (status != UCXX_OK) {
      sched_yield();
    }
    waits = alone ? waits : 0;
  }
}

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  world_t *world = arg;
  ucxx_envelope_t *envelope = NULL;
  if (status != UCXX_OK || ucxx_link_lease(link, 0, &envelope) != UCXX_OK) return;
  CHECK_STATUS(ucxx_link_lease(link, 1, &envelope), UCXX_ERR_BUSY);
  consume_one(world, envelope, read_word(world, envelope));
}

/* Runs in the middle of the other threads' work. */
static ucxx_link_t *turn(world_t *world) {
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_link_t *link = NULL, *pair[2] = {NULL, NULL};
  ucxx_envelope_t *envelope = NULL, *both[2] = {NULL, NULL};
  switch (world->turn) {
  case CLOSE: CHECK_OK(ucxx_hub_close(world->hub)); break;
  case TOLD:
    params.on_ready = on_ready;
    params.on_ready_arg = world;
    CHECK_OK(ucxx_link_create(world->hub, UCXX_LINK_CONSUME, on_host, &params, &link));
    break;
  case BROADCAST: ucxx_link_destroy(hub_broadcast(world->hub, on_host)); break;
  case PEEK:
    if (ucxx_hub_peek(world->hub, on_host, hub_draw(&world->seed, 2) * 100000, &envelope) ==
        UCXX_OK) {
      read_word(world, envelope);
      CHECK_OK(ucxx_envelope_release(envelope, NULL));
    }
    break;
  case MANY:
    pair[0] = new_link(world, UCXX_LINK_PRODUCE, 0);
    pair[1] = new_link(world, UCXX_LINK_CONSUME, 0);
    if (ucxx_link_lease_many(pair, 2, hub_draw(&world->seed, 2) * 300000, both) == UCXX_OK) {
      CHECK_OK(ucxx_envelope_abort(both[0], NULL));
      consume_one(world, both[1], read_word(world, both[1]));
    }
    ucxx_link_destroy(pair[0]);
    ucxx_link_destroy(pair[1]);
    break;
  case MORE:
    CHECK_OK(ucxx_hub_add_envelopes(world->hub, on_host, 1));
    world->envelopes++;
    break;
  default: break;
  }
  return link;
}

static void check_numbers(const world_t *world, ucxx_hub_stats_t *before) {
  uint64_t produced = now(&world->produced), consumed = now(&world->consumed);
  ucxx_hub_stats_t stats = hub_stats(world->hub);
  CHECK(stats.chunks_produced >= produced && stats.chunks_produced <= now(&world->producing));
  CHECK(stats.chunks_consumed >= consumed && stats.chunks_consumed <= now(&world->consuming));
  CHECK_EQ(stats.queued_chunks, stats.chunks_produced - stats.chunks_consumed);
  CHECK(stats.queue_high_water >= before->queue_high_water &&
        stats.queue_high_water >= stats.queued_chunks);
  CHECK(stats.queue_high_water <= world->envelopes);
  CHECK(stats.free_envelopes + stats.queued_chunks <= world->envelopes);
  CHECK(stats.free_envelopes + stats.leased_envelopes <= world->envelopes);
  CHECK(stats.free_envelopes + stats.leased_envelopes + stats.queued_chunks >= world->envelopes);
  CHECK(ucxx_hub_length(world->hub) <= world->envelopes);
  *before = stats;
}

static void *look(void *arg) {
  stage_t *stage = arg;
  world_t *world = stage->world;
  ucxx_hub_stats_t before = UCXX_HUB_STATS_INIT;
  ucxx_link_t *told = NULL;
  int turned = 0;
  while (!__atomic_load_n(&world->over, __ATOMIC_ACQUIRE)) {
    if (!turned && now(&world->produced) >= world->turn_at) {
      told = turn(world);
      turned = 1;
    }
    uint64_t produced = now(&world->produced);
    switch (hub_draw(&stage->random, 8)) {
    case 0: CHECK_OK(ucxx_hub_validate(world->hub)); break;
    case 1:
      if (ucxx_hub_drain(world->hub, hub_draw(&stage->random, 3) * 50000) == UCXX_OK)
        CHECK(now(&world->consuming) >= produced);
      break;
    default: check_numbers(world, &before);
    }
    for (uint64_t pause = hub_draw(&stage->random, 200); pause > 0; pause--) sched_yield();
  }
  /* All its chunks have been seen. */
  ucxx_link_destroy(told);
  return NULL;
}

static void crowd(ucxx_context_t *context, ucxx_worker_t *worker, uint64_t *random) {
  world_t *world = calloc(1, sizeof *world);
  CHECK(world != NULL);
  world->producers = 1 + hub_draw(random, MOST_PRODUCERS);
  world->consumers = 1 + hub_draw(random, MOST_CONSUMERS);
  world->envelopes = 1 + hub_draw(random, 8);
  world->turn = (turn_t)hub_draw(random, TURNS);
  world->turn_at = hub_draw(random, world->producers * EACH);
  world->patient = hub_draw(random, 2) == 0;
  world->aborts = hub_draw(random, 2) == 0;
  world->changes = hub_draw(random, 4) == 0;
  world->seed = *random;
  int drives = hub_draw(random, 3) == 0;
  STEP("turn %d, %d producers, %d consumers, %d envelopes%s%s", (int)world->turn,
       (int)world->producers, (int)world->consumers, (int)world->envelopes,
       world->patient ? ", patient" : "", drives ? ", driven" : "");
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.worker = drives ? worker : NULL;
  CHECK_OK(ucxx_hub_create(context, &params, &world->hub));
  CHECK_OK(ucxx_hub_add_envelopes(world->hub, on_host, world->envelopes));
  uint64_t all = world->producers + world->consumers;
  stage_t stages[MOST_PRODUCERS + MOST_CONSUMERS + 1];
  pthread_t threads[MOST_PRODUCERS + MOST_CONSUMERS + 1];
  memset(stages, 0, sizeof stages);
  for (uint64_t at = 0; at <= all; at++) {
    int produces = at < world->producers;
    stages[at].world = world;
    stages[at].number = produces ? at : at - world->producers;
    stages[at].random = test_mix(*random + at);
    if (at < all)
      stages[at].link = new_link(world, produces ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME,
                                 stages[at].number % 2 == 0);
    CHECK_EQ(pthread_create(&threads[at], NULL,
                            produces   ? produce
                            : at < all ? consume
                                       : look,
                            &stages[at]),
             0);
  }
  for (uint64_t at = 0; at < world->producers; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  CHECK_OK(ucxx_hub_drain(world->hub, FOR_EVER));
  __atomic_store_n(&world->over, 1, __ATOMIC_RELEASE);
  CHECK_EQ(pthread_join(threads[all], NULL), 0);
  ucxx_hub_stats_t stats = hub_stats(world->hub);
  CHECK_EQ(stats.chunks_produced, world->produced);
  CHECK_EQ(stats.chunks_consumed, world->produced);
  CHECK_EQ(stats.free_envelopes, world->envelopes);
  CHECK_EQ(stats.leased_envelopes + stats.queued_chunks + stats.trashed_envelopes, 0);
  CHECK_OK(ucxx_hub_close(world->hub));
  for (uint64_t at = world->producers; at < all; at++) CHECK_EQ(pthread_join(threads[at], NULL), 0);
  CHECK_EQ(world->consumed, world->produced);
  for (uint64_t producer = 0; producer < world->producers; producer++)
    for (uint64_t at = 1; at <= EACH; at++)
      CHECK_EQ(world->seen[producer][at], at <= world->done[producer]);
  for (uint64_t at = 0; at < all; at++) ucxx_link_destroy(stages[at].link);
  ucxx_hub_destroy(world->hub);
  free(world);
}

int main(int argc, char **argv) { return hub_rounds("hub_turns", argc, argv, ROUNDS, crowd); }
