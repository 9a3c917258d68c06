/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The cost of an operation on a window, with two processes. Rank 0 measures. With passive target
 * rank 1 waits in a barrier meanwhile. With `busy` it computes until rank 0 has put a word at the
 * end of its memory.
 *
 *   data   the operation and its flush, in one epoch of a shared lock
 *   sync   the synchronisation itself: a lock and its unlock, or a flush of nothing. With active
 *          target it is a put in each direction, and half of the time counts
 *
 * A batch is as long as needed to time it well, so that slow and fast implementations are measured
 * alike. The results of the operations are checked after each measurement. */
#include "window.h"

enum { TARGET = 1, MOST = 1 << 20, BATCH_NS = 1000000, FILL = 0xa5, OVER_AT = MOST - 8 };

struct bench {
  struct world world;
  struct window window;
  const struct options *options;
  struct elements elements;
  unsigned char *origin, *result;
  int64_t number; /* operations so far, or what the last one has put */
};

struct measurement {
  const char *name;
  void (*loop)(struct bench *bench, long count);
  void (*check)(struct bench *bench, const struct measurement *measurement);
  int kind; /* ELEMENT_* */
  size_t count; /* elements */
  int access; /* ACCESS_* */
};

/* In an open epoch; with epochs of its own; with both processes taking part. */
enum { ACCESS_OPEN, ACCESS_OWN, ACCESS_ACTIVE };

static size_t bytes_of(const struct measurement *measurement) {
  return measurement->count * (measurement->kind == ELEMENT_BYTE ? 1 : 8);
}

/* ------------------------------------------------------------------ loops */

static void loop_put(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_put(&bench->window, bench->origin, &bench->elements, TARGET, 0);
    window_flush(&bench->window, TARGET);
  }
}

static void loop_get(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_get(&bench->window, bench->result, &bench->elements, TARGET, 0);
    window_flush(&bench->window, TARGET);
  }
}

static void loop_accumulate(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_accumulate(&bench->window, bench->origin, &bench->elements, TARGET, 0);
    window_flush(&bench->window, TARGET);
  }
  bench->number += count;
}

static void loop_get_accumulate(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_get_accumulate(&bench->window, bench->origin, bench->result, &bench->elements, TARGET,
                          0);
    window_flush(&bench->window, TARGET);
  }
  bench->number += count;
}

static void loop_fetch_add(struct bench *bench, long count) {
  static const int64_t one = 1;
  int64_t *before = (int64_t *)bench->result;
  for (long i = 0; i < count; i++) {
    window_fetch_add(&bench->window, &one, before, TARGET, 0);
    window_flush(&bench->window, TARGET);
  }
  bench->number += count;
}

/* Each finds what the previous one left. */
static void loop_compare_and_swap(struct bench *bench, long count) {
  int64_t *before = (int64_t *)bench->result, compare = bench->number, value;
  for (long i = 0; i < count; i++) {
    value = compare + 1;
    window_compare_and_swap(&bench->window, &value, &compare, before, TARGET, 0);
    window_flush(&bench->window, TARGET);
    compare = value;
  }
  bench->number += count;
}

static void loop_flush(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) window_flush(&bench->window, TARGET);
}

static void loop_lock_exclusive(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_lock(&bench->window, 1, TARGET);
    window_unlock(&bench->window, TARGET);
  }
}

static void loop_lock_shared(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_lock(&bench->window, 0, TARGET);
    window_unlock(&bench->window, TARGET);
  }
}

static void loop_lock_put(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_lock(&bench->window, 1, TARGET);
    window_put(&bench->window, bench->origin, &bench->elements, TARGET, 0);
    window_unlock(&bench->window, TARGET);
  }
}

static void loop_lock_all(struct bench *bench, long count) {
  for (long i = 0; i < count; i++) {
    window_lock_all(&bench->window);
    window_unlock_all(&bench->window);
  }
}

/* Puts the number of the exchange, in both directions. */
static void put_number(struct bench *bench, int other) {
  memcpy(bench->origin, &bench->number, sizeof bench->number);
  window_put(&bench->window, bench->origin, &bench->elements, other, 0);
}

static void loop_fence(struct bench *bench, long count) {
  const int first = bench->world.rank == 0, other = !bench->world.rank;
  window_fence(&bench->window, FENCE_FIRST);
  for (long i = 0; i < count; i++) {
    bench->number++;
    if (first) put_number(bench, other);
    window_fence(&bench->window, FENCE_BETWEEN);
    if (!first) put_number(bench, other);
    window_fence(&bench->window, FENCE_BETWEEN);
  }
  window_fence(&bench->window, FENCE_LAST);
}

static void put_between_start_and_complete(struct bench *bench, int other) {
  window_start(&bench->window, other);
  put_number(bench, other);
  window_complete(&bench->window);
}

static void loop_pscw(struct bench *bench, long count) {
  const int first = bench->world.rank == 0, other = !bench->world.rank;
  for (long i = 0; i < count; i++) {
    bench->number++;
    if (first) put_between_start_and_complete(bench, other);
    window_post(&bench->window, other);
    window_wait(&bench->window);
    if (!first) put_between_start_and_complete(bench, other);
  }
}

/* ------------------------------------------------------------------ what has been done */

static void fetch_target(struct bench *bench, unsigned char *into) {
  window_lock(&bench->window, 0, TARGET);
  window_get(&bench->window, into, &bench->elements, TARGET, 0);
  window_unlock(&bench->window, TARGET);
}

static void check_filled(const unsigned char *bytes, size_t length) {
  for (size_t at = 0; at < length; at++)
    if (bytes[at] != FILL) die("byte %zu is not what was put, or to be got", at);
}

static void check_put(struct bench *bench, const struct measurement *measurement) {
  fetch_target(bench, bench->result);
  check_filled(bench->result, bytes_of(measurement));
}

static void check_got(struct bench *bench, const struct measurement *measurement) {
  check_filled(bench->result, bytes_of(measurement));
}

static void check_numbers(const struct measurement *measurement, const unsigned char *bytes,
                          int64_t wanted) {
  for (size_t at = 0; at < measurement->count; at++) {
    int64_t number;
    double real;
    memcpy(&number, bytes + 8 * at, sizeof number);
    memcpy(&real, bytes + 8 * at, sizeof real);
    if (measurement->kind == ELEMENT_DOUBLE ? real != (double)wanted : number != wanted)
      die("%s: number %zu is not %lld", measurement->name, at, (long long)wanted);
  }
}

static void check_sum(struct bench *bench, const struct measurement *measurement) {
  fetch_target(bench, bench->result);
  check_numbers(measurement, bench->result, bench->number);
}

static void check_before(struct bench *bench, const struct measurement *measurement) {
  check_numbers(measurement, bench->result, bench->number - 1);
  check_sum(bench, measurement);
}

static void check_received(struct bench *bench, const struct measurement *measurement) {
  window_lock(&bench->window, 1, bench->world.rank);
  check_numbers(measurement, bench->window.base, bench->number);
  window_unlock(&bench->window, bench->world.rank);
}

static void check_nothing(struct bench *bench, const struct measurement *measurement) {
  (void)bench;
  (void)measurement;
}

/* ------------------------------------------------------------------ measuring */

#define DATA(name, loop, check, kind, count) {name, loop, check, kind, count, ACCESS_OPEN}
static const struct measurement measurements[] = {
    DATA("put_8B", loop_put, check_put, ELEMENT_BYTE, 8),
    DATA("get_8B", loop_get, check_got, ELEMENT_BYTE, 8),
    DATA("acc_double_8B", loop_accumulate, check_sum, ELEMENT_DOUBLE, 1),
    DATA("acc_int64_8B", loop_accumulate, check_sum, ELEMENT_INT64, 1),
    DATA("get_acc_double_8B", loop_get_accumulate, check_before, ELEMENT_DOUBLE, 1),
    DATA("get_acc_int64_8B", loop_get_accumulate, check_before, ELEMENT_INT64, 1),
    DATA("fetch_add_8B", loop_fetch_add, check_before, ELEMENT_INT64, 1),
    DATA("cas_8B", loop_compare_and_swap, check_before, ELEMENT_INT64, 1),
    DATA("put_4KiB", loop_put, check_put, ELEMENT_BYTE, 4096),
    DATA("put_64KiB", loop_put, check_put, ELEMENT_BYTE, 65536),
    DATA("put_1MiB", loop_put, check_put, ELEMENT_BYTE, MOST),
    DATA("get_4KiB", loop_get, check_got, ELEMENT_BYTE, 4096),
    DATA("get_64KiB", loop_get, check_got, ELEMENT_BYTE, 65536),
    DATA("get_1MiB", loop_get, check_got, ELEMENT_BYTE, MOST),
    DATA("acc_double_4KiB", loop_accumulate, check_sum, ELEMENT_DOUBLE, 512),
    DATA("acc_double_64KiB", loop_accumulate, check_sum, ELEMENT_DOUBLE, 8192),
    DATA("acc_double_1MiB", loop_accumulate, check_sum, ELEMENT_DOUBLE, MOST / 8),
    DATA("acc_int64_4KiB", loop_accumulate, check_sum, ELEMENT_INT64, 512),
    DATA("acc_int64_64KiB", loop_accumulate, check_sum, ELEMENT_INT64, 8192),
    DATA("get_acc_double_4KiB", loop_get_accumulate, check_before, ELEMENT_DOUBLE, 512),
    DATA("get_acc_double_64KiB", loop_get_accumulate, check_before, ELEMENT_DOUBLE, 8192),
    DATA("get_acc_int64_4KiB", loop_get_accumulate, check_before, ELEMENT_INT64, 512),
    DATA("get_acc_int64_64KiB", loop_get_accumulate, check_before, ELEMENT_INT64, 8192),
    DATA("flush", loop_flush, check_nothing, ELEMENT_BYTE, 8),
    {"lock_exclusive", loop_lock_exclusive, check_nothing, ELEMENT_BYTE, 8, ACCESS_OWN},
    {"lock_shared", loop_lock_shared, check_nothing, ELEMENT_BYTE, 8, ACCESS_OWN},
    {"lock_put_8B", loop_lock_put, check_put, ELEMENT_BYTE, 8, ACCESS_OWN},
    {"lock_all", loop_lock_all, check_nothing, ELEMENT_BYTE, 8, ACCESS_OWN},
    {"fence_8B", loop_fence, check_received, ELEMENT_INT64, 1, ACCESS_ACTIVE},
    {"pscw_8B", loop_pscw, check_received, ELEMENT_INT64, 1, ACCESS_ACTIVE},
};
enum { MEASUREMENTS = sizeof measurements / sizeof *measurements };

/* Sets the initial contents of the target's memory and of this side's buffers. */
static void prepare(struct bench *bench, const struct measurement *measurement) {
  const size_t length = bytes_of(measurement);
  const int got = measurement->check == check_got;
  bench->number = 0;
  elements_set(&bench->elements, measurement->kind, measurement->count);
  if (bench->world.rank == 0) {
    memset(bench->origin, got ? FILL : 0, length);
    window_lock(&bench->window, 1, TARGET);
    window_put(&bench->window, bench->origin, &bench->elements, TARGET, 0);
    window_unlock(&bench->window, TARGET);
  }
  memset(bench->result, 0, length);
  memset(bench->origin, FILL, length);
  for (size_t at = 0; measurement->kind != ELEMENT_BYTE && at < measurement->count; at++) {
    const int64_t number = 1;
    const double real = 1;
    memcpy(bench->origin + 8 * at,
           measurement->kind == ELEMENT_DOUBLE ? (const void *)&real : (const void *)&number, 8);
  }
  world_barrier(&bench->world);
}

/* Runs one batch. With active target it first sends the other side the length. */
static uint64_t run_batch(struct bench *bench, const struct measurement *measurement, long count) {
  if (measurement->access == ACCESS_ACTIVE) {
    world_broadcast(&bench->world, &count, sizeof count);
    world_barrier(&bench->world);
  }
  if (count == 0) return 0;
  const uint64_t start = now_ns();
  measurement->loop(bench, count);
  return now_ns() - start;
}

/* Finds how many operations take as long as a batch should. The search is also the warm-up. */
static long batch_length(struct bench *bench, const struct measurement *measurement) {
  long count = 1;
  for (;;) {
    const uint64_t taken = run_batch(bench, measurement, count);
    if (taken >= BATCH_NS) return count;
    const uint64_t wanted = (uint64_t)count * (BATCH_NS + BATCH_NS / 4) / (taken + 1);
    count = wanted > (uint64_t)count * 8 ? count * 8
            : wanted > (uint64_t)count   ? (long)wanted
                                         : count + 1;
  }
}

static void measure(struct bench *bench, const struct measurement *measurement, double *samples) {
  char key[64];
  const double share = measurement->access == ACCESS_ACTIVE ? 0.5 : 1;
  if (measurement->access == ACCESS_OPEN) window_lock(&bench->window, 0, TARGET);
  const long count = batch_length(bench, measurement);
  for (long batch = 0; batch < bench->options->batches; batch++)
    samples[batch] = (double)run_batch(bench, measurement, count) / (double)count * share;
  if (measurement->access == ACCESS_OPEN) window_unlock(&bench->window, TARGET);
  if (measurement->access == ACCESS_ACTIVE) run_batch(bench, measurement, 0);
  snprintf(key, sizeof key, "%s_ns", measurement->name);
  report_samples(bench->options, key, samples, (size_t)bench->options->batches);
}

/* Rank 1, with active target: does as many as rank 0 sends, until that is none. */
static void follow(struct bench *bench, const struct measurement *measurement) {
  for (;;) {
    long count;
    world_broadcast(&bench->world, &count, sizeof count);
    world_barrier(&bench->world);
    if (count == 0) return;
    measurement->loop(bench, count);
  }
}

/* Rank 1, busy: computes until a word in its memory is set. */
static void compute(struct bench *bench) {
  volatile int64_t *over = (volatile int64_t *)(void *)(bench->window.base + OVER_AT);
  while (*over == 0) {
    const uint64_t until = now_ns() + (uint64_t)bench->options->busy_us * 1000;
    while (now_ns() < until) continue;
    world_look(&bench->world);
  }
  *over = 0;
}

static void end_computing(struct bench *bench) {
  static const int64_t over = 1;
  struct elements one;
  elements_set(&one, ELEMENT_INT64, 1);
  window_lock(&bench->window, 0, TARGET);
  window_put(&bench->window, &over, &one, TARGET, OVER_AT);
  window_unlock(&bench->window, TARGET);
}

static void run(struct bench *bench, const struct measurement *measurement, double *samples) {
  const int busy = bench->options->busy_us > 0;
  if (busy && (measurement->access == ACCESS_ACTIVE || bytes_of(measurement) > OVER_AT))
    die("--busy: not with %s", measurement->name);
  prepare(bench, measurement);
  if (bench->world.rank == 0)
    measure(bench, measurement, samples);
  else if (measurement->access == ACCESS_ACTIVE)
    follow(bench, measurement);
  if (busy && bench->world.rank == 0) end_computing(bench);
  if (busy && bench->world.rank == 1) compute(bench);
  world_barrier(&bench->world);
  if (bench->world.rank == 0) measurement->check(bench, measurement);
  world_barrier(&bench->world);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct bench bench;
  int done = 0;
  options.batches = 60;
  options.processes = 2;
  options.cpu[1] = 1;
  options.socket = -1;
  world_start(argc, argv, &options);
  if (options.processes != 2) die("--processes: 2");
  double *samples = calloc((size_t)options.batches, sizeof *samples);
  if (samples == NULL) die("no memory");
  bench.options = &options;
  bench.origin = buffer_create(MOST);
  bench.result = buffer_create(MOST);
  world_open(&bench.world, &options);
  report_text(&options, "implementation", WINDOW_NAME);
  unsigned char *own = options.own_memory ? buffer_create(MOST) : NULL;
  if (own != NULL)
    window_create(&bench.world, &bench.window, own, MOST);
  else
    window_open(&bench.world, &bench.window, MOST);
  memset(bench.window.base, 0, MOST);
  world_barrier(&bench.world);
  for (int i = 0; i < MEASUREMENTS; i++) {
    if (!harness_wants(&options, measurements[i].name)) continue;
    run(&bench, &measurements[i], samples);
    done++;
  }
  if (done == 0) die("--only: no such measurement as '%s'", options.only);
  window_close(&bench.window);
  world_close(&bench.world);
  free(samples);
  free(bench.origin);
  free(bench.result);
  free(own);
  return 0;
}
