/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_tests.h: the table of tests, and their arguments.
 */
#ifndef TOOLS_PERF_TESTS_H
#define TOOLS_PERF_TESTS_H

#include <stdio.h>

#include "perf_histogram.h"
#include "perf_slot.h"

/* One size of one test. */
struct round {
  uint64_t size, iterations, warmup;
  uint32_t window;
};

struct bench {
  struct session *session;
  const struct plan *plan;
  struct round round;
  struct slot *slots, *acks; /* acks: short messages in the opposite direction */
  size_t slot_count, ack_count;
  char *memory;
  size_t stride;
  struct histogram *times; /* client only */
  /* Client only: the time of all counted iterations. For latency tests it is one-way time. */
  uint64_t elapsed_ns;
};

struct test {
  const char *name, *summary;
  uint64_t features;
  uint64_t default_size;
  uint32_t default_window;
  /* True if times are halves of round trips, false if they are times for each message. */
  bool one_way;
  uint32_t slots_for_each_window_entry;
  /* Send or receive `messages` messages. The client records times if `record` is set. Both return
   * with nothing in flight. */
  int (*client)(struct bench *bench, uint64_t messages, bool record);
  int (*server)(struct bench *bench, uint64_t messages);
};

const struct test *find_test(const char *name);
void list_tests(FILE *stream);

/* Chooses everything that the command line does not give. */
struct round plan_round(const struct test *test, const struct plan *plan, uint64_t size);
size_t round_memory(const struct test *test, const struct plan *plan, const struct round *round);

int bench_prepare(struct bench *bench, const struct test *test, const struct round *round);
/* Call it only if nothing is in flight, or after the session is closed. */
void bench_release(struct bench *bench);

#endif
