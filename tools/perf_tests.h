/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_tests.h: a test is a way to move data (perf_ways.h) and a pattern in which it is used.
 */
#ifndef TOOLS_PERF_TESTS_H
#define TOOLS_PERF_TESTS_H

#include <stdio.h>

#include "perf_histogram.h"
#include "perf_slot.h"

#define ACKS 4u

struct way;

/* One size of one test. */
struct round {
  uint64_t size, iterations, warmup;
  uint32_t window;
};

struct pattern {
  const char *name, *summary;
  unsigned bit;
  uint64_t default_size;
  uint32_t default_window;
};

struct test {
  char name[24];
  const struct way *way;
  const struct pattern *pattern;
  /* True if a latency is half of a round trip, false if it is the time of a whole operation. */
  bool halves;
};

/* What one thread of one side needs for a round. */
struct bench {
  struct session *session;
  const struct plan *plan;
  const struct test *test;
  struct round round;
  struct slot *slots;
  struct slot acks[ACKS]; /* short messages in the opposite direction */
  uint64_t ack_words[ACKS][8]; /* a cache line each */
  size_t slot_count;
  char *memory; /* of the slots */
  ucxx_memory_t *device_memory; /* the same, if it is not host memory */
  size_t stride; /* from the buffer of a slot to the next one; 0: all have the same */
  int memory_type;
  uint64_t rounds; /* so far, the same number on both sides */
  void *state; /* of the way */
  struct histogram *times; /* client only */
  uint64_t start_ns, end_ns; /* client only: of all counted iterations */
};

bool find_test(const char *name, struct test *test);
void list_tests(FILE *stream);
const char *pattern_summary(const struct test *test);

uint64_t default_size(const struct test *test);
/* Chooses everything that the command line does not give. */
struct round plan_round(const struct test *test, const struct plan *plan, uint64_t size);
/* Fails if the test has no such size, memory, or number of endpoints. */
int check_plan(const struct test *test, const struct plan *plan, uint64_t size,
               struct failure *failure);
size_t round_memory(const struct test *test, const struct plan *plan, const struct round *round);

/* Allocates the buffers. The server does it when it has been told the round. */
int bench_prepare(struct bench *bench, const struct test *test, const struct round *round);
/* Then both sides call this: what the way needs, and agree on. */
int bench_open(struct bench *bench);
/* Both sides call it after a round, with nothing in flight. */
int bench_leave(struct bench *bench);
/* Call it only if nothing is in flight, or after the session is closed. */
void bench_release(struct bench *bench);

/* Do `messages` operations. The client records times if `record` is set. Both return with nothing
 * in flight. */
int bench_client(struct bench *bench, uint64_t messages, bool record);
int bench_server(struct bench *bench, uint64_t messages);

/* Contents of buffers, with --verify. `check` fails if there is anything else. */
void fill(struct bench *bench, void *buffer, uint64_t message);
int check(struct bench *bench, void *buffer, uint64_t message);

#endif
