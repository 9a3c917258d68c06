/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Shared by programs of two workers in one process: options, the two connections, and the report.
 * Include it after the link. */
#ifndef BENCH_LOOP_PAIR_H
#define BENCH_LOOP_PAIR_H

static inline void pair_start(int argc, char **argv, struct options *options) {
  options->size = 8;
  options->iterations = 1000;
  options->warmup = 2000;
  options->peer_errors = 1;
  options->cpu[0] = -1;
  options->socket = -1;
  harness_start(argc, argv, 0, options);
}

/* Connects each to the other. */
static inline void pair_connect(struct link *links) {
  for (int side = 0; side < 2; side++) {
    size_t length;
    const void *address = link_address(&links[side], &length);
    link_connect(&links[side ^ 1], address, length);
  }
}

static inline void pair_close(struct link *links) {
  link_close(&links[0]);
  link_close(&links[1]);
}
#endif
