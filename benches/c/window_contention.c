/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Processes that compete for one lock. Each locks rank 0's part of a window, reads or changes what
 * is there, and unlocks, as often as it can until a common end time. It reports the locks a second
 * of all processes together, the most of one process divided by the least of one, and the longest
 * wait for a lock.
 *
 *   exclusive  every process adds one to two numbers
 *   mixed      one in four does; the others read them, under a shared lock
 *   *_aside    the same without rank 0, which waits in a collective. So it serves the others where
 *              that is needed, and has no lock of its own
 *
 * The two numbers are equal whenever nobody holds the lock, and at the end they equal the number of
 * changes. */
#include "window.h"

enum { TARGET = 0, NUMBERS = 2, MOST_PROCESSES = 64 };

static const uint64_t start_after_ns = 10000000;

struct turns {
  uint64_t locks, changes, longest_ns;
};

struct bench {
  struct world world;
  struct window window;
  struct elements elements;
  uint64_t random;
};

static int one_in_four(struct bench *bench) {
  bench->random ^= bench->random << 13;
  bench->random ^= bench->random >> 7;
  bench->random ^= bench->random << 17;
  return bench->random % 4 == 0;
}

static void read_numbers(struct bench *bench, int64_t *numbers) {
  window_get(&bench->window, numbers, &bench->elements, TARGET, 0);
  window_flush(&bench->window, TARGET);
  if (numbers[0] != numbers[1])
    die("%lld and %lld under a lock", (long long)numbers[0], (long long)numbers[1]);
}

static void change(struct bench *bench) {
  int64_t numbers[NUMBERS];
  window_lock(&bench->window, 1, TARGET);
  read_numbers(bench, numbers);
  numbers[0]++;
  numbers[1]++;
  window_put(&bench->window, numbers, &bench->elements, TARGET, 0);
  window_unlock(&bench->window, TARGET);
}

static void look(struct bench *bench) {
  int64_t numbers[NUMBERS];
  window_lock(&bench->window, 0, TARGET);
  read_numbers(bench, numbers);
  window_unlock(&bench->window, TARGET);
}

/* All processes begin and stop at the same time, because one alone would be faster. */
static struct turns contend(struct bench *bench, int mixed, uint64_t begin, uint64_t end) {
  struct turns turns = {0, 0, 0};
  uint64_t before, now;
  while ((before = now_ns()) < begin) continue;
  while (before < end) {
    if (!mixed || one_in_four(bench)) {
      change(bench);
      turns.changes++;
    } else {
      look(bench);
    }
    now = now_ns();
    if (now - before > turns.longest_ns) turns.longest_ns = now - before;
    before = now;
    turns.locks++;
  }
  return turns;
}

static void check(struct bench *bench, uint64_t changes) {
  int64_t numbers[NUMBERS];
  window_lock(&bench->window, 1, TARGET);
  read_numbers(bench, numbers);
  window_unlock(&bench->window, TARGET);
  if ((uint64_t)numbers[0] != changes)
    die("%lld after %llu changes", (long long)numbers[0], (unsigned long long)changes);
}

static void measure(struct bench *bench, const struct options *options, const char *name, int mixed,
                    int aside) {
  struct turns all[MOST_PROCESSES], mine = {0, 0, 0}, sum = {0, 0, 0};
  uint64_t least = UINT64_MAX, most = 0, begin;
  char key[64];
  memset(bench->window.base, 0, NUMBERS * sizeof(int64_t));
  world_barrier(&bench->world);
  begin = now_ns() + start_after_ns;
  world_broadcast(&bench->world, &begin, sizeof begin);
  const uint64_t length = (uint64_t)options->seconds * 1000000000u;
  if (bench->world.rank >= aside) mine = contend(bench, mixed, begin, begin + length);
  world_gather(&bench->world, &mine, sizeof mine, all);
  for (int rank = aside; rank < bench->world.size; rank++) {
    sum.locks += all[rank].locks;
    sum.changes += all[rank].changes;
    if (all[rank].longest_ns > sum.longest_ns) sum.longest_ns = all[rank].longest_ns;
    if (all[rank].locks < least) least = all[rank].locks;
    if (all[rank].locks > most) most = all[rank].locks;
  }
  if (bench->world.rank == TARGET) check(bench, sum.changes);
  world_barrier(&bench->world);
  snprintf(key, sizeof key, "%s_locks_per_second", name);
  report_number(options, key, (double)sum.locks / (double)options->seconds);
  snprintf(key, sizeof key, "%s_share", name);
  report_number(options, key, (double)most / (double)(least == 0 ? 1 : least));
  snprintf(key, sizeof key, "%s_longest_ns", name);
  report_number(options, key, (double)sum.longest_ns);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct bench bench;
  options.seconds = 1;
  options.processes = 2;
  options.cpu[1] = 1;
  options.socket = -1;
  world_start(argc, argv, &options);
  if (options.processes < 2 || options.processes > MOST_PROCESSES)
    die("--processes: 2 to %d", MOST_PROCESSES);
  world_open(&bench.world, &options);
  report_text(&options, "implementation", WINDOW_NAME);
  window_open(&bench.world, &bench.window, NUMBERS * sizeof(int64_t));
  elements_set(&bench.elements, ELEMENT_INT64, NUMBERS);
  bench.random = (uint64_t)bench.world.rank + 1;
  if (harness_wants(&options, "exclusive")) measure(&bench, &options, "exclusive", 0, 0);
  if (harness_wants(&options, "mixed")) measure(&bench, &options, "mixed", 1, 0);
  if (harness_wants(&options, "exclusive_aside"))
    measure(&bench, &options, "exclusive_aside", 0, 1);
  if (harness_wants(&options, "mixed_aside")) measure(&bench, &options, "mixed_aside", 1, 1);
  window_close(&bench.window);
  world_close(&bench.world);
  return 0;
}
