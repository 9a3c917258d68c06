/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Latency of active messages between two processes. Reports half a round trip. */
#include <stdlib.h>

#include "link_am.h"

static void bounce(struct link *link, const struct options *options, struct inbox *inbox,
                   unsigned char *out, long count) {
  static struct operation operation;
  for (long i = 0; i < count; i++) {
    if (options->side != 0) inbox_await(link, inbox, 1);
    am_send(link, out, options->size, &operation);
    link_finish(link, &operation);
    if (options->side == 0) inbox_await(link, inbox, 1);
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  static struct inbox inbox;
  options.size = 8;
  options.iterations = 1000;
  options.batches = 200;
  options.warmup = 10000;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  unsigned char *out = buffer_create(options.size);
  inbox = (struct inbox){.buffers = buffer_create(options.size), .size = options.size, .count = 1};
  double *samples = (double *)calloc((size_t)options.batches, sizeof *samples);
  if (samples == NULL) die("no memory");

  link_establish(&link, &options);
  am_open(&link, &inbox);
  link_meet(&link, &options);
  bounce(&link, &options, &inbox, out, options.warmup);
  for (long batch = 0; batch < options.batches; batch++) {
    uint64_t start = now_ns();
    bounce(&link, &options, &inbox, out, options.iterations);
    samples[batch] = (double)(now_ns() - start) / (double)options.iterations / 2.0;
  }
  report_samples(&options, "half_round_trip_ns", samples, (size_t)options.batches);

  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(samples);
  buffer_destroy(out);
  buffer_destroy(inbox.buffers);
  return 0;
}
