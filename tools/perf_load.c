/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_load.c: the sizes, counts and buffers of a round.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "perf_ways.h"

#define PAGE 4096u
/* The bytes of a round, unless the number of iterations is given. */
#define ROUND_BYTES (UINT64_C(1) << 30)
#define MOST_ITERATIONS 100000u
#define LEAST_ITERATIONS 100u
#define MOST_WARMUP 1000u
#define WINDOW_BYTES (UINT64_C(256) << 20) /* the most in flight, unless the window is given */

struct round plan_round(const struct test *test, const struct plan *plan, uint64_t size) {
  struct round round = {size, plan->iterations, plan->warmup, plan->window};
  bool one_by_one = test->pattern->bit == LATENCY;
  if (round.iterations == 0) {
    round.iterations = ROUND_BYTES / (size > 0 ? size : 1);
    uint64_t most = one_by_one ? MOST_ITERATIONS : 10u * MOST_ITERATIONS;
    if (round.iterations > most) round.iterations = most;
    if (round.iterations < LEAST_ITERATIONS) round.iterations = LEAST_ITERATIONS;
  }
  if (!plan->warmup_given) {
    round.warmup = round.iterations / 10;
    if (round.warmup > MOST_WARMUP) round.warmup = MOST_WARMUP;
  }
  if (one_by_one) {
    round.window = 1;
  } else if (round.window == 0) {
    round.window = test->pattern->default_window;
    while (round.window > 1 && round.window * size > WINDOW_BYTES) round.window /= 2;
  }
  return round;
}

static size_t stride_of(const struct round *round) {
  return ((round->size > 0 ? round->size : 1) + PAGE - 1) / PAGE * PAGE;
}

/* A ping-pong has one message out and two in; a stream of windows has two windows. */
static size_t slots_of(const struct test *test, const struct round *round) {
  if (test->way->start != NULL) return round->window;
  return test->pattern->bit == LATENCY ? 3 : 2 * (size_t)round->window;
}

static size_t buffers_of(const struct test *test, const struct plan *plan,
                         const struct round *round) {
  return plan->own_buffers || test->halves ? slots_of(test, round) : 1;
}

/* What a way has beside the buffers: the memory that the server offers, the envelopes of the hubs,
 * or buffers that the library makes. */
static size_t more_buffers(const struct test *test, const struct plan *plan,
                           const struct round *round) {
  if (test->way == &hub_way) return 4 * (size_t)round->window + 2;
  if (test->way == &multi_way) return slots_of(test, round);
  return test->way->features & UCXX_FEATURE_RMA ? buffers_of(test, plan, round) : 0;
}

size_t round_memory(const struct test *test, const struct plan *plan, const struct round *round) {
  size_t buffers = buffers_of(test, plan, round) + more_buffers(test, plan, round);
  if (round->size > SIZE_MAX / 2 || stride_of(round) > SIZE_MAX / 2 / buffers) return SIZE_MAX;
  return stride_of(round) * buffers * plan->threads;
}

static int allocate(struct bench *bench, size_t bytes) {
  struct session *session = bench->session;
  void *memory = NULL;
  if (bench->memory_type == UCXX_MEMORY_HOST) {
    if (posix_memalign(&memory, PAGE, bytes) != 0)
      return fail(session->failure, "there are no %zu bytes of memory for the buffers", bytes);
    memset(memory, 0x5a, bytes); /* touch all pages */
    bench->memory = memory;
    return 0;
  }
  ucxx_status_t status =
      ucxx_memory_allocate(session->context, bytes, bench->memory_type, &bench->device_memory);
  if (status != UCXX_OK) return session_fail(session, "allocating device memory", status);
  bench->memory = ucxx_memory_base(bench->device_memory);
  return 0;
}

int bench_prepare(struct bench *bench, const struct test *test, const struct round *round) {
  struct session *session = bench->session;
  size_t bytes = round_memory(test, bench->plan, round),
         buffers = buffers_of(test, bench->plan, round);
  if (bytes > session->config->max_memory)
    return fail(session->failure,
                "a round of %llu-byte messages needs %zu bytes of buffers: choose a smaller --size "
                "or --window, or raise --max-memory",
                (unsigned long long)round->size, bytes);
  bench_release(bench);
  bench->test = test;
  bench->round = *round;
  bench->rounds++;
  bench->memory_type = bench->plan->memory[session->config->serves ? 1 : 0];
  bench->slot_count = slots_of(test, round);
  bench->stride = buffers > 1 ? stride_of(round) : 0;
  if (allocate(bench, stride_of(round) * buffers) != 0) return -1;
  bench->slots = calloc(bench->slot_count, sizeof *bench->slots);
  if (bench->slots == NULL)
    return fail(session->failure, "there is no memory for %zu operations", bench->slot_count);
  for (size_t i = 0; i < bench->slot_count; i++)
    slot_init(&bench->slots[i], bench, bench->memory + i * bench->stride, i, bench->memory_type);
  for (size_t i = 0; i < ACKS; i++)
    slot_init(&bench->acks[i], bench, bench->ack_words[i], i, UCXX_MEMORY_HOST);
  return 0;
}

int bench_open(struct bench *bench) {
  return bench->test->way->open != NULL ? bench->test->way->open(bench) : 0;
}

int bench_leave(struct bench *bench) {
  return bench->test->way->leave != NULL ? bench->test->way->leave(bench) : 0;
}

void bench_release(struct bench *bench) {
  if (bench->test != NULL && bench->test->way->close != NULL && bench->state != NULL)
    bench->test->way->close(bench);
  for (size_t i = 0; bench->slots != NULL && i < bench->slot_count; i++)
    ucxx_request_destroy(bench->slots[i].request);
  for (size_t i = 0; bench->slots != NULL && i < ACKS; i++)
    ucxx_request_destroy(bench->acks[i].request);
  free(bench->slots);
  if (bench->device_memory != NULL)
    ucxx_memory_destroy(bench->device_memory);
  else
    free(bench->memory);
  bench->slots = NULL;
  bench->device_memory = NULL;
  bench->memory = NULL;
  bench->state = NULL;
}
