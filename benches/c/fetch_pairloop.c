/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Two workers in one process and on one thread. A question is asked and answered repeatedly, in the
 * same order each time. For counting, like pairloop.c: its time has no meaning. */
#include <stdlib.h>

#include "link_fetch.h"
#include "loop_pair.h"

/* Not inlined: callgrind starts and stops collecting at this function. */
__attribute__((noinline)) void measured_loop(struct fetches *asking, struct fetches *answering,
                                             long count);

void measured_loop(struct fetches *asking, struct fetches *answering, long count) {
  for (long i = 0; i < count; i++) {
    fetch_begin(asking, 0);
    while (!fetch_done(asking, 0)) {
      fetch_advance(answering);
      fetch_advance(asking);
    }
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link links[2];
  static struct fetches fetches[2];
  pair_start(argc, argv, &options);
  unsigned char *out = buffer_create(options.size), *in = buffer_create(options.size);
  for (int side = 0; side < 2; side++) {
    fetches[side].buffers = in;
    fetches[side].answer = out;
    fetches[side].size = options.size;
    fetches[side].count = 1;
    link_open(&links[side], &options);
    fetch_open(&links[side], &fetches[side]);
  }
  pair_connect(links);

  /* Connects both endpoints before anything is counted. */
  measured_loop(&fetches[0], &fetches[1], options.warmup);
  if (options.markers) mark_begin();
  measured_loop(&fetches[0], &fetches[1], options.iterations);
  if (options.markers) mark_end();

  link_report(&links[0], &options);
  fetch_close(&fetches[1]);
  pair_close(links);
  buffer_destroy(out);
  buffer_destroy(in);
  return 0;
}
