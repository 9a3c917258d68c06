/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Two workers in one process and on one thread: a question is asked and answered, again and again, in the same order each time.
 * Made for counting, as pairloop is; its time means nothing.
 */
#include <stdlib.h>

#include "link_fetch.h"

/* Never inlined: callgrind starts and stops collecting at this function. */
__attribute__((noinline)) void measured_loop(struct fetches *asking, struct fetches *answering, long count);

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
  char text[512];
  size_t length;
  options.size = 8;
  options.iterations = 1000;
  options.warmup = 2000;
  options.peer_errors = 1;
  options.cpu[0] = -1;
  options.socket = -1;
  harness_start(argc, argv, 0, &options);
  unsigned char *out = buffer_create(options.size), *in = buffer_create(options.size);
  for (int side = 0; side < 2; side++) {
    fetches[side].buffers = in;
    fetches[side].answer = out;
    fetches[side].size = options.size;
    fetches[side].count = 1;
    link_open(&links[side], &options);
    fetch_open(&links[side], &fetches[side]);
  }
  for (int side = 0; side < 2; side++) {
    const void *address = link_address(&links[side], &length);
    link_connect(&links[side ^ 1], address, length);
  }

  /* Wires both endpoints up before anything is counted. */
  measured_loop(&fetches[0], &fetches[1], options.warmup);
  if (options.markers) mark_begin();
  measured_loop(&fetches[0], &fetches[1], options.iterations);
  if (options.markers) mark_end();

  report_text(&options, "implementation", LINK_NAME);
  link_version(text, sizeof text);
  report_text(&options, "ucx", text);
  link_transports(&links[0], text, sizeof text);
  report_text(&options, "transports", text);
  fetch_close(&fetches[1]);
  link_close(&links[0]);
  link_close(&links[1]);
  free(out);
  free(in);
  return 0;
}
