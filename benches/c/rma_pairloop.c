/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Two workers in one process and on one thread. One accesses memory of the other repeatedly, in
 * the same order each time. A put is flushed. For counting, like pairloop.c: its time has no
 * meaning. */
#include <stdlib.h>

#include "link_rma.h"
#include "loop_pair.h"

/* Not inlined: callgrind starts and stops collecting at this function. */
__attribute__((noinline)) void measured_loop(struct link *links, struct remote *remote,
                                             const struct options *options, unsigned char *buffer,
                                             long count);

static inline void finish(struct link *links, struct operation *operation) {
  while (!link_done(operation)) {
    link_progress(&links[1]);
    link_progress(&links[0]);
  }
}

void measured_loop(struct link *links, struct remote *remote, const struct options *options,
                   unsigned char *buffer, long count) {
  static const uint64_t one = 1;
  static uint64_t before;
  static struct operation operation, flush;
  for (long i = 0; i < count; i++) {
    switch (options->operation) {
    case OPERATION_PUT:
      remote_put(remote, buffer, options->size, 0, &operation);
      remote_flush(remote, &flush);
      finish(links, &flush);
      break;
    case OPERATION_GET: remote_get(remote, buffer, options->size, 0, &operation); break;
    default: remote_add(remote, &one, &before, 0, &operation);
    }
    finish(links, &operation);
  }
}

/* Sends a message in each direction, so that both endpoints are connected before a key is
 * unpacked. */
static void wire_up(struct link *links) {
  static struct operation send_operation, recv_operation;
  static uint64_t sent, received;
  for (int side = 0; side < 2; side++) {
    link_recv(&links[side ^ 1], &received, sizeof received, 1, &recv_operation);
    link_send(&links[side], &sent, sizeof sent, 1, &send_operation);
    finish(links, &send_operation);
    finish(links, &recv_operation);
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link links[2];
  static struct region region;
  static struct remote remote;
  size_t length;
  pair_start(argc, argv, &options);
  if (options.operation == OPERATION_ADD && options.size != sizeof(uint64_t))
    die("--operation add: with a size of 8");
  unsigned char *buffer = buffer_create(options.size);
  link_open(&links[0], &options);
  link_open(&links[1], &options);
  pair_connect(links);
  wire_up(links);
  region_open(&links[1], &region, options.size, options.memory);
  memset(region.base, 0, options.size);
  const void *key = region_key(&region, &length);
  remote_open(&links[0], &remote, key, length);

  measured_loop(links, &remote, &options, buffer, options.warmup);
  if (options.markers) mark_begin();
  measured_loop(links, &remote, &options, buffer, options.iterations);
  if (options.markers) mark_end();

  link_report(&links[0], &options);
  remote_close(&remote);
  region_close(&region);
  pair_close(links);
  buffer_destroy(buffer);
  return 0;
}
