/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Operations on the memory of another process, which only makes progress. With a window of one
 * there is one operation at a time, and each put is followed by a flush, so the time is until the
 * bytes have arrived. With a larger window that many are in flight, and puts have one flush for
 * each batch. */
#include <stdlib.h>

#include "link_rma.h"

enum { TAG_END = 1, MAX_WINDOW = 256, FILL = 0xa5 };

static const uint64_t one = 1;
static uint64_t before;

static inline void begin(struct remote *remote, const struct options *options,
                         unsigned char *buffer, uint64_t offset, struct operation *operation) {
  switch (options->operation) {
  case OPERATION_PUT: remote_put(remote, buffer, options->size, offset, operation); break;
  case OPERATION_GET: remote_get(remote, buffer, options->size, offset, operation); break;
  default: remote_add(remote, &one, &before, offset, operation);
  }
}

static void one_by_one(struct remote *remote, const struct options *options, unsigned char *buffer,
                       long count) {
  static struct operation operation, flush;
  const int flushed = options->operation == OPERATION_PUT;
  for (long i = 0; i < count; i++) {
    begin(remote, options, buffer, 0, &operation);
    if (flushed) {
      remote_flush(remote, &flush);
      link_finish(remote->link, &flush);
    }
    link_finish(remote->link, &operation);
  }
}

/* Places are used in turn: wait for the oldest operation, then use its place again. */
static void in_windows(struct remote *remote, const struct options *options, unsigned char *buffers,
                       long count) {
  static struct operation operations[MAX_WINDOW], flush;
  for (long i = 0; i < count; i++) {
    const long place = i % options->window;
    const size_t offset = (size_t)place * options->size;
    link_finish(remote->link, &operations[place]);
    begin(remote, options, buffers + offset, offset, &operations[place]);
  }
  if (options->operation == OPERATION_PUT) {
    remote_flush(remote, &flush);
    link_finish(remote->link, &flush);
  }
  for (long i = 0; i < options->window; i++) link_finish(remote->link, &operations[i]);
}

/* Side 0 accesses the memory. */
static void touch(struct link *link, const struct options *options, unsigned char *buffers,
                  size_t room) {
  static struct remote remote;
  static struct operation end_operation;
  static uint64_t end;
  size_t length;
  void *key = harness_exchange(options, "", 1, &length);
  double *samples = (double *)calloc((size_t)options->batches, sizeof *samples);
  if (samples == NULL) die("no memory");
  buffer_fill(buffers, options->operation == OPERATION_PUT ? FILL : 0, room);
  remote_open(link, &remote, key, length);
  free(key);
  for (long batch = -1; batch < options->batches; batch++) {
    const long count = batch < 0 ? options->warmup : options->iterations;
    uint64_t start = now_ns();
    if (options->window == 1)
      one_by_one(&remote, options, buffers, count);
    else
      in_windows(&remote, options, buffers, count);
    if (batch >= 0) samples[batch] = (double)(now_ns() - start) / (double)count;
  }
  if (options->operation == OPERATION_GET) buffer_check(buffers, FILL, room, "what was got");
  if (options->operation == OPERATION_ADD &&
      before + 1 != (uint64_t)(options->warmup + options->batches * options->iterations))
    die("the last number was %llu", (unsigned long long)before);
  report_samples(options, "operation_ns", samples, (size_t)options->batches);
  report_number(options, "bytes_per_second",
                (double)options->size * 1e9 / samples[(options->batches - 1) / 2]);
  free(samples);
  link_send(link, &end, sizeof end, TAG_END, &end_operation);
  link_finish(link, &end_operation);
  remote_close(&remote);
  link_meet(link, options);
}

/* Side 1 has the memory. */
static void be_touched(struct link *link, const struct options *options, size_t room) {
  static struct region region;
  static struct operation end_operation;
  static uint64_t end;
  size_t length, nothing;
  region_open(link, &region, room, options->memory);
  buffer_fill(region.base, options->operation == OPERATION_GET ? FILL : 0, room);
  /* A message ends it. To check the socket would be a system call in each pass. */
  link_recv(link, &end, sizeof end, TAG_END, &end_operation);
  const void *key = region_key(&region, &length);
  free(harness_exchange(options, key, length, &nothing));
  link_finish(link, &end_operation);
  if (options->operation == OPERATION_PUT) buffer_check(region.base, FILL, room, "the memory");
  link_meet(link, options);
  region_close(&region);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  options.size = 8;
  options.iterations = 1000;
  options.batches = 200;
  options.warmup = 10000;
  options.window = 1;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  if (options.window > MAX_WINDOW) die("--window: at most %d", MAX_WINDOW);
  if (options.iterations < options.window) die("--iterations: at least the window");
  if (options.operation == OPERATION_ADD && (options.size != sizeof one || options.window != 1))
    die("--operation add: with a size of %zu and a window of 1", sizeof one);
  const size_t room = (size_t)options.window * options.size;
  unsigned char *buffers = buffer_create(room);

  link_establish(&link, &options);
  if (options.side == 0)
    touch(&link, &options, buffers, room);
  else
    be_touched(&link, &options, room);
  link_close(&link);
  harness_finish(&options);
  buffer_destroy(buffers);
  return 0;
}
