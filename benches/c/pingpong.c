/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Latency of messages between two processes. Reports half a round trip. */
#include <stdlib.h>

#include "link.h"

enum { TAG_THERE = 1, TAG_BACK = 2 };

static void bounce(struct link *link, const struct options *options, unsigned char *out,
                   unsigned char *in, long count) {
  static struct operation send_operation, recv_operation;
  const size_t size = options->size;
  if (options->side == 0) {
    for (long i = 0; i < count; i++) {
      link_recv(link, in, size, TAG_BACK, &recv_operation);
      link_send(link, out, size, TAG_THERE, &send_operation);
      link_finish(link, &send_operation);
      link_finish(link, &recv_operation);
    }
  } else {
    for (long i = 0; i < count; i++) {
      link_recv(link, in, size, TAG_THERE, &recv_operation);
      link_finish(link, &recv_operation);
      link_send(link, out, size, TAG_BACK, &send_operation);
      link_finish(link, &send_operation);
    }
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  options.size = 8;
  options.iterations = 1000;
  options.batches = 200;
  options.warmup = 10000;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  unsigned char *out = buffer_create(options.size), *in = buffer_create(options.size);
  double *samples = (double *)calloc((size_t)options.batches, sizeof *samples);
  if (samples == NULL) die("no memory");

  link_establish(&link, &options);
  bounce(&link, &options, out, in, options.warmup);
  for (long batch = 0; batch < options.batches; batch++) {
    uint64_t start = now_ns();
    bounce(&link, &options, out, in, options.iterations);
    samples[batch] = (double)(now_ns() - start) / (double)options.iterations / 2.0;
  }
  report_samples(&options, "half_round_trip_ns", samples, (size_t)options.batches);

  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(samples);
  buffer_destroy(out);
  buffer_destroy(in);
  return 0;
}
