/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_load.c: the sizes, counts and buffers of a round.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "perf_tests.h"

#define PAGE 4096u
#define ACK_BYTES 64u /* a cache line each */
/* The bytes of a round, unless the number of iterations is given. */
#define ACKS 4u
#define ROUND_BYTES (UINT64_C(1) << 30)
#define MOST_ITERATIONS 100000u
#define LEAST_ITERATIONS 100u
#define MOST_WARMUP 1000u
#define WINDOW_BYTES (UINT64_C(256) << 20) /* the most in flight, unless the window is given */

struct round plan_round(const struct test *test, const struct plan *plan, uint64_t size) {
  struct round round = {size, plan->iterations, plan->warmup, plan->window};
  if (round.iterations == 0) {
    round.iterations = ROUND_BYTES / (size > 0 ? size : 1);
    uint64_t most = test->one_way ? MOST_ITERATIONS : 10u * MOST_ITERATIONS;
    if (round.iterations > most) round.iterations = most;
    if (round.iterations < LEAST_ITERATIONS) round.iterations = LEAST_ITERATIONS;
  }
  if (!plan->warmup_given) {
    round.warmup = round.iterations / 10;
    if (round.warmup > MOST_WARMUP) round.warmup = MOST_WARMUP;
  }
  if (test->one_way) {
    round.window = 1;
  } else if (round.window == 0) {
    round.window = test->default_window;
    while (round.window > 1 && round.window * size > WINDOW_BYTES) round.window /= 2;
  }
  return round;
}

static size_t stride_of(const struct round *round) {
  return ((round->size > 0 ? round->size : 1) + PAGE - 1) / PAGE * PAGE;
}

static size_t slots_of(const struct test *test, const struct round *round) {
  return (size_t)test->slots_for_each_window_entry * round->window;
}

size_t round_memory(const struct test *test, const struct plan *plan, const struct round *round) {
  size_t buffers = plan->own_buffers || test->one_way ? slots_of(test, round) : 1;
  if (round->size > SIZE_MAX / 2 || stride_of(round) > SIZE_MAX / 2 / buffers) return SIZE_MAX;
  return stride_of(round) * buffers + ACKS * ACK_BYTES;
}

int bench_prepare(struct bench *bench, const struct test *test, const struct round *round) {
  struct session *session = bench->session;
  size_t bytes = round_memory(test, bench->plan, round);
  if (bytes > session->config->max_memory)
    return fail(session->failure,
                "a round of %llu-byte messages needs %zu bytes of buffers: choose a smaller --size "
                "or --window, or raise --max-memory",
                (unsigned long long)round->size, bytes);
  bench_release(bench);
  bench->round = *round;
  bench->slot_count = slots_of(test, round);
  bench->ack_count = ACKS;
  bench->stride = bytes > stride_of(round) + ACKS * ACK_BYTES ? stride_of(round) : 0;
  void *memory = NULL;
  if (posix_memalign(&memory, PAGE, bytes) != 0)
    return fail(session->failure, "there are no %zu bytes of memory for the buffers", bytes);
  memset(memory, 0x5a, bytes); /* touch all pages */
  bench->memory = memory;
  bench->slots = calloc(bench->slot_count + bench->ack_count, sizeof *bench->slots);
  if (bench->slots == NULL)
    return fail(session->failure, "there is no memory for %zu operations", bench->slot_count);
  bench->acks = bench->slots + bench->slot_count;
  for (size_t i = 0; i < bench->slot_count; i++)
    slot_init(&bench->slots[i], session, bench->memory + i * bench->stride);
  for (size_t i = 0; i < bench->ack_count; i++)
    slot_init(&bench->acks[i], session, bench->memory + bytes - (i + 1) * ACK_BYTES);
  return 0;
}

void bench_release(struct bench *bench) {
  for (size_t i = 0; bench->slots != NULL && i < bench->slot_count + bench->ack_count; i++)
    ucxx_request_destroy(bench->slots[i].request);
  free(bench->slots);
  free(bench->memory);
  bench->slots = bench->acks = NULL;
  bench->memory = NULL;
}
