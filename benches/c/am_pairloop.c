/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Two workers in one process and on one thread. An active message is sent and progressed
 * repeatedly, in the same order each time. For counting, like pairloop.c: its time has no
 * meaning. */
#include <stdlib.h>

#include "link_am.h"
#include "loop_pair.h"

/* Not inlined: callgrind starts and stops collecting at this function. */
__attribute__((noinline)) void measured_loop(struct link *links, struct inbox *inboxes,
                                             const struct options *options, unsigned char *out,
                                             long count);

/* In both directions, because credit is returned with messages of the other direction, and
 * sometimes alone. */
void measured_loop(struct link *links, struct inbox *inboxes, const struct options *options,
                   unsigned char *out, long count) {
  static struct operation operation;
  for (long i = 0; i < count; i++) {
    const long side = i / 100 & 1;
    struct link *sender = &links[side], *receiver = &links[side ^ 1];
    const long expected = inboxes[side ^ 1].arrived + 1;
    am_send(sender, out, options->size, &operation);
    int sent = link_done(&operation);
    while (inboxes[side ^ 1].arrived < expected || !sent) {
      link_progress(receiver);
      /* A send that completes in its call needs no progress of the sender. */
      if (!sent) {
        link_progress(sender);
        sent = link_done(&operation);
      }
    }
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link links[2];
  static struct inbox inboxes[2];
  pair_start(argc, argv, &options);
  unsigned char *out = buffer_create(options.size), *in = buffer_create(options.size);
  for (int side = 0; side < 2; side++) {
    inboxes[side] = (struct inbox){.buffers = in, .size = options.size, .count = 1};
    link_open(&links[side], &options);
    am_open(&links[side], &inboxes[side]);
  }
  pair_connect(links);

  /* Connects both endpoints before anything is counted. */
  measured_loop(links, inboxes, &options, out, options.warmup);
  if (options.markers) mark_begin();
  measured_loop(links, inboxes, &options, out, options.iterations);
  if (options.markers) mark_end();

  link_report(&links[0], &options);
  pair_close(links);
  buffer_destroy(out);
  buffer_destroy(in);
  return 0;
}
