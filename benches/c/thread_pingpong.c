/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Latency through progress threads. One message goes back and forth between two processes, and the
 * progress thread of a worker wakes the thread that waits for it. Reports half of each round trip:
 * the median, and the value that 99 of 100 do not exceed. */
#include <stdlib.h>

#include "link_threaded.h"

enum { TAG_THERE = 1, TAG_BACK = 2 };

static struct operation operations[2];
static struct batch batch;
static uint64_t out, in;

/* Sends, and waits for that send and the next message. */
static void turn(struct link *link, const struct options *options) {
  const uint64_t there = options->side == 0 ? TAG_THERE : TAG_BACK,
                 back = options->side == 0 ? TAG_BACK : TAG_THERE;
  batch_begin(&batch, 2);
  threaded_recv(link, &in, sizeof in, back, &operations[0], &batch, options->completion);
  threaded_send(link, &out, sizeof out, there, &operations[1], &batch, options->completion);
  threaded_collect(link, operations, 2, &batch, options->completion);
}

/* A word that is not 0 is the last one. */
static void answer(struct link *link, const struct options *options) {
  batch_begin(&batch, 1);
  threaded_recv(link, &in, sizeof in, TAG_THERE, &operations[0], &batch, options->completion);
  threaded_collect(link, operations, 1, &batch, options->completion);
  while (in == 0) turn(link, options);
  batch_begin(&batch, 1);
  threaded_send(link, &out, sizeof out, TAG_BACK, &operations[0], &batch, options->completion);
  threaded_collect(link, operations, 1, &batch, options->completion);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  options.iterations = 20000;
  options.warmup = 500;
  options.seconds = 2;
  options.peer_errors = 1;
  options.progress = PROGRESS_ADAPTIVE;
  options.cpu[1] = 1;
  options.socket = -1;
  options.producers = 1;
  harness_start(argc, argv, 1, &options);
  if (options.progress == PROGRESS_MANUAL) die("--progress: a thread is needed");
  double *samples = (double *)calloc((size_t)options.iterations, sizeof *samples);
  if (samples == NULL) die("no memory");
  batch_create(&batch);
  link_establish(&link, &options);
  threaded_begin(&link, &options);

  if (options.side != 0) {
    answer(&link, &options);
  } else {
    long count = 0;
    const uint64_t begin = now_ns(), limit = (uint64_t)options.seconds * 1000000000u;
    for (long i = 0; i < options.warmup && now_ns() - begin < limit; i++) turn(&link, &options);
    const uint64_t deadline = now_ns() + limit;
    for (uint64_t before = now_ns(); count < options.iterations && before < deadline;) {
      turn(&link, &options);
      const uint64_t after = now_ns();
      samples[count++] = (double)(after - before) / 2.0;
      before = after;
    }
    out = 1;
    turn(&link, &options);
    report_samples(&options, "half_round_trip_ns", samples, (size_t)count);
    report_number(&options, "half_round_trip_ns_p99", percentile_99(samples, (size_t)count));
    report_number(&options, "round_trips", (double)count);
  }
  threaded_end(&link);
  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(samples);
  return 0;
}
