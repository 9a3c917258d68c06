/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Two workers in one process and on one thread. A message is received, sent and progressed
 * repeatedly, in the same order each time. For counting instructions, allocations and system calls,
 * which are then the same in every run. Its time has no meaning, because no message goes from one
 * core to another. */
#include <stdlib.h>

#include "link.h"
#include "loop_pair.h"

/* Not inlined: callgrind starts and stops collecting at this function. */
__attribute__((noinline)) void measured_loop(struct link *sender, struct link *receiver,
                                             const struct options *options, unsigned char *out,
                                             unsigned char *in, long count);

void measured_loop(struct link *sender, struct link *receiver, const struct options *options,
                   unsigned char *out, unsigned char *in, long count) {
  static struct operation send_operation, recv_operation;
  for (long i = 0; i < count; i++) {
    link_recv(receiver, in, options->size, 1, &recv_operation);
    link_send(sender, out, options->size, 1, &send_operation);
    int sent = link_done(&send_operation);
    while (!link_done(&recv_operation)) {
      link_progress(receiver);
      /* A send that completes in its call needs no progress of the sender. */
      if (!sent) {
        link_progress(sender);
        sent = link_done(&send_operation);
      }
    }
    while (!sent) {
      link_progress(sender);
      link_progress(receiver);
      sent = link_done(&send_operation);
    }
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link links[2];
  pair_start(argc, argv, &options);
  unsigned char *out = buffer_create(options.size), *in = buffer_create(options.size);
  link_open(&links[0], &options);
  link_open(&links[1], &options);
  pair_connect(links);

  /* In both directions, so that both endpoints are connected before anything is counted. */
  for (long done = 0; done < options.warmup;) {
    const long step = options.warmup - done < 64 ? options.warmup - done : 64;
    for (long i = 0; i < step; i++) {
      static struct operation send_operation, recv_operation;
      struct link *from = &links[i & 1], *to = &links[(i & 1) ^ 1];
      link_recv(to, in, options.size, 2, &recv_operation);
      link_send(from, out, options.size, 2, &send_operation);
      for (int sent = 0, received = 0; !(sent && received);) {
        link_progress(to);
        link_progress(from);
        if (!sent) sent = link_done(&send_operation);
        if (!received) received = link_done(&recv_operation);
      }
    }
    done += step;
  }
  if (options.markers) mark_begin();
  measured_loop(&links[0], &links[1], &options, out, in, options.iterations);
  if (options.markers) mark_end();

  link_report(&links[0], &options);
  pair_close(links);
  buffer_destroy(out);
  buffer_destroy(in);
  return 0;
}
