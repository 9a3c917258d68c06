/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Several buffers back and forth. Reports half of the time of an exchange, which includes
 * allocating and freeing the buffers that they arrive in. */
#include <stdlib.h>

#include "link_multi.h"

static void exchanges(struct multi *multi, int side, long count) {
  for (long at = 0; at < count; at++) {
    if (side == 0) {
      multi_send(multi);
      multi_await(multi);
      multi_expect(multi);
    } else {
      multi_await(multi);
      multi_expect(multi);
      multi_send(multi);
    }
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  static struct multi multi;
  options.size = 4096;
  options.window = 100;
  options.iterations = 200;
  options.batches = 30;
  options.warmup = 200;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  double *times = (double *)calloc((size_t)options.batches, sizeof *times);
  if (times == NULL) die("no memory");
  link_establish(&link, &options);
  multi_open(&link, &multi, &options);
  multi_expect(&multi);
  link_meet(&link, &options);
  for (long batch = -1; batch < options.batches; batch++) {
    const long count = batch < 0 ? options.warmup : options.iterations;
    uint64_t start = now_ns();
    exchanges(&multi, options.side, count);
    if (batch >= 0) times[batch] = (double)(now_ns() - start) / (double)count / 2;
  }
  report_samples(&options, "half_round_trip_ns", times, (size_t)options.batches);
  /* Serve what is still expected, so that closing has nothing to cancel. */
  multi_send(&multi);
  multi_await(&multi);
  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(times);
  return 0;
}
