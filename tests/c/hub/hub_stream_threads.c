/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Streams whose hubs are used, and whose workers are progressed, by many threads; links are
 * destroyed while chunks are in flight. No chunk is lost or duplicated. */
#include "hub_stream.h"

#include <pthread.h>

enum {
  SIZE = 40000,
  ENVELOPES = 8,
  WINDOW = 4,
  PRODUCERS = 3,
  CONSUMERS = 2,
  EACH = 500,
  GONE = 40
};

typedef struct world {
  end_t left, right;
  uint64_t seed;
  int over;
  uint64_t consumed;
  pthread_mutex_t lock;
  uint64_t seen[PRODUCERS];
} world_t;

typedef struct producer {
  world_t *world;
  uint64_t number;
} producer_t;

static void *produce(void *arg) {
  producer_t *self = arg;
  for (uint64_t at = 0; at < EACH; at++) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(self->world->left.in, FOR_EVER, &envelope));
    fill_chunk(envelope, self->world->seed, self->number * EACH + at);
  }
  return NULL;
}

/* Each chunk is consumed once, and one thread gets each producer's chunks in order. */
static void *consume(void *arg) {
  world_t *world = arg;
  ucxx_envelope_t *envelope = NULL;
  ucxx_status_t status;
  uint64_t next[PRODUCERS] = {0};
  while ((status = ucxx_link_lease(world->right.out, FOR_EVER, &envelope)) == UCXX_OK) {
    uint64_t number = read_chunk(envelope, world->seed, SIZE);
    CHECK(number < PRODUCERS * EACH);
    CHECK(number % EACH >= next[number / EACH]);
    next[number / EACH] = number % EACH + 1;
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    pthread_mutex_lock(&world->lock);
    world->seen[number / EACH] += number % EACH;
    world->consumed++;
    pthread_mutex_unlock(&world->lock);
  }
  CHECK_STATUS(status, UCXX_ERR_CLOSED);
  return NULL;
}

static void *drive(void *arg) {
  world_t *world = arg;
  while (!__atomic_load_n(&world->over, __ATOMIC_ACQUIRE)) {
    progress(world->left.worker);
    progress(world->right.worker);
  }
  return NULL;
}

/* Cuts and reconnects the stream again and again, on either side. */
static void cut(world_t *world, const duo_t *duo) {
  for (int at = 0; at < GONE; at++) {
    int here = at % 2;
    end_t *end = here ? &world->left : &world->right;
    ucxx_link_t *link = NULL;
    uint64_t before = hub_stats(world->right.hub).chunks_produced;
    int32_t type = here ? UCXX_LINK_CONSUME : UCXX_LINK_PRODUCE;
    while (hub_stats(world->right.hub).chunks_produced < before + 5 &&
           hub_stats(world->right.hub).chunks_produced < PRODUCERS * EACH)
      sched_yield();
    ucxx_link_destroy(here ? end->out : end->in);
    link = hub_link(end->hub, type, on_host);
    ucxx_status_t status;
    while ((status = ucxx_link_connect(link, here ? duo->to_right : duo->to_left, 3, WINDOW)) ==
           UCXX_ERR_ALREADY_EXISTS)
      sched_yield();
    CHECK_OK(status);
    if (here)
      end->out = link;
    else
      end->in = link;
  }
}

static void run(const ucxx_worker_params_t *params, const char *mode, int drivers, int cuts) {
  STEP("%s, %s", mode, cuts ? "cut" : "not cut");
  duo_t duo = {0};
  world_t world = {.seed = test_seed(), .lock = PTHREAD_MUTEX_INITIALIZER};
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, params, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);
  duo.to_left = connect_workers(duo.right, duo.left);
  world.left = end_open(duo.context, duo.left, SIZE, ENVELOPES);
  world.right = end_open(duo.context, duo.right, SIZE, ENVELOPES);
  pthread_t threads[PRODUCERS + CONSUMERS], driving[2];
  producer_t producers[PRODUCERS];
  for (int at = 0; at < drivers; at++)
    CHECK(pthread_create(&driving[at], NULL, drive, &world) == 0);
  CHECK_OK(ucxx_link_connect(world.left.out, duo.to_right, 3, WINDOW));
  CHECK_OK(ucxx_link_connect(world.right.in, duo.to_left, 3, WINDOW));
  for (int at = 0; at < PRODUCERS; at++) {
    producers[at] = (producer_t){&world, (uint64_t)at};
    CHECK(pthread_create(&threads[at], NULL, produce, &producers[at]) == 0);
  }
  for (int at = 0; at < CONSUMERS; at++)
    CHECK(pthread_create(&threads[PRODUCERS + at], NULL, consume, &world) == 0);
  if (cuts) cut(&world, &duo);
  for (int at = 0; at < PRODUCERS; at++) pthread_join(threads[at], NULL);
  CHECK_OK(ucxx_hub_close(world.left.hub));
  CHECK_OK(ucxx_hub_drain(world.left.hub, FOR_EVER));
  for (int at = 0; at < CONSUMERS; at++) pthread_join(threads[PRODUCERS + at], NULL);
  CHECK_EQ(world.consumed, PRODUCERS * EACH);
  for (int at = 0; at < PRODUCERS; at++) CHECK_EQ(world.seen[at], EACH * (EACH - 1) / 2);
  CHECK_EQ(hub_stats(world.left.hub).free_envelopes, ENVELOPES);
  CHECK_EQ(hub_stats(world.right.hub).free_envelopes, ENVELOPES);
  __atomic_store_n(&world.over, 1, __ATOMIC_RELEASE);
  for (int at = 0; at < drivers; at++) pthread_join(driving[at], NULL);
  end_close(&world.left);
  end_close(&world.right);
  if (drivers)
    duo_close(&duo);
  else {
    ucxx_endpoint_destroy(duo.to_left);
    ucxx_endpoint_destroy(duo.to_right);
    ucxx_worker_destroy(duo.left);
    ucxx_worker_destroy(duo.right);
    ucxx_context_destroy(duo.context);
  }
}

int main(void) {
  test_begin("hub_stream_threads");
  for (int cuts = 0; cuts < 2; cuts++) {
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.thread_mode = UCXX_THREAD_MULTI;
    run(&params, "two threads that progress", 2, cuts);
    params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
    run(&params, "an adaptive progress thread", 0, cuts);
    params.progress_mode = UCXX_PROGRESS_THREAD_BLOCKING;
    run(&params, "a blocking progress thread", 0, cuts);
  }
  return 0;
}
