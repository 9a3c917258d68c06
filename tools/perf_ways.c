/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_ways.c: the tables of ways and patterns. The name of a test is WAY_PATTERN.
 */
#define _XOPEN_SOURCE 700
#include "perf_ways.h"

#include <inttypes.h>
#include <string.h>

#include "perf_names.h"

static const struct way *const ways[] = {
    &tag_way,        &am_way,         &stream_way,     &multi_way,      &hub_way,  &fetch_way,
    &put_way,        &get_way,        &add_way,        &fadd_way,       &swap_way, &cswap_way,
    &window_put_way, &window_get_way, &window_acc_way, &window_lock_way};
#define WAYS (sizeof ways / sizeof ways[0])

static const struct pattern patterns[] = {
    {"lat", "one after the other", LATENCY, 8, 1},
    {"bw", "large ones, a number of them in flight", BANDWIDTH, UINT64_C(1) << 20, 32},
    {"rate", "small ones, many of them in flight", RATE, 8, 256}};
#define PATTERNS (sizeof patterns / sizeof patterns[0])

static bool make_test(const struct way *way, const struct pattern *pattern, struct test *test) {
  if ((way->patterns & pattern->bit) == 0) return false;
  *test = (struct test){.way = way, .pattern = pattern};
  test->halves = pattern->bit == LATENCY && way->send != NULL;
  snprintf(test->name, sizeof test->name, "%s_%s", way->name, pattern->name);
  return true;
}

bool find_test(const char *name, struct test *test) {
  for (size_t i = 0; i < WAYS; i++)
    for (size_t j = 0; j < PATTERNS; j++)
      if (make_test(ways[i], &patterns[j], test) && strcmp(test->name, name) == 0) return true;
  return false;
}

const char *pattern_summary(const struct test *test) {
  if (test->halves) return "half of each round trip";
  if (test->pattern->bit == LATENCY && test->way->flush != NULL)
    return "one after the other, each with a flush";
  return test->pattern->summary;
}

void list_tests(FILE *stream) {
  struct test test;
  for (size_t i = 0; i < WAYS; i++)
    for (size_t j = 0; j < PATTERNS; j++)
      if (make_test(ways[i], &patterns[j], &test))
        fprintf(stream, "%-16s %s: %s\n", test.name, ways[i]->summary, pattern_summary(&test));
}

uint64_t default_size(const struct test *test) {
  uint64_t size = test->pattern->default_size;
  return test->way->most != 0 && size > test->way->most ? test->way->most : size;
}

int check_plan(const struct test *test, const struct plan *plan, uint64_t size,
               struct failure *failure) {
  const struct way *way = test->way;
  const char *name = test->name;
  if (size < way->least || (way->most != 0 && size > way->most))
    return fail(failure,
                "%s takes sizes from %" PRIu64 "%s, and not %" PRIu64 ": choose another -s", name,
                way->least, way->most == 8 ? " to 8" : "", size);
  if (way->multiple != 0 && size % way->multiple != 0)
    return fail(failure,
                "%s takes multiples of %" PRIu64 " bytes, and not %" PRIu64 ": choose another -s",
                name, way->multiple, size);
  if (plan->endpoints > 1 && !way->several_endpoints)
    return fail(failure, "%s has one endpoint: leave --endpoints out", name);
  bool cuda = plan->memory[0] != UCXX_MEMORY_HOST || plan->memory[1] != UCXX_MEMORY_HOST;
  if (cuda && !way->cuda)
    return fail(failure, "%s needs memory that the CPU reads: leave -m %s,%s out", name,
                memory_name(plan->memory[0]), memory_name(plan->memory[1]));
  if (cuda && plan->verify)
    return fail(failure, "--verify reads the buffers by the CPU: leave it out with -m cuda");
  return 0;
}
