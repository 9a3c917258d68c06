/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Message rate and bandwidth of active messages. One process sends windows of messages, and the
 * other answers each full window with a message of 8 bytes. */
#include <stdlib.h>

#include "link_am.h"

enum { MAX_WINDOW = 256 };

static struct operation operations[MAX_WINDOW];

/* Sends `windows` windows. At most two are unanswered. */
static void send_windows(struct link *link, const struct options *options, struct inbox *inbox,
                         unsigned char *buffers, long windows) {
  const long window = options->window;
  for (long k = 0; k < windows + 2; k++) {
    if (k >= 2) inbox_await(link, inbox, 1);
    if (k >= windows) continue;
    for (long i = 0; i < window; i++)
      am_send(link, buffers + (size_t)i * options->size, options->size, &operations[i]);
    for (long i = 0; i < window; i++) link_finish(link, &operations[i]);
  }
}

static void receive_windows(struct link *link, const struct options *options, struct inbox *inbox,
                            long windows) {
  static uint64_t ack;
  static struct operation operation;
  for (long k = 0; k < windows; k++) {
    inbox_await(link, inbox, options->window);
    am_send(link, &ack, sizeof ack, &operation);
    link_finish(link, &operation);
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  static struct inbox inbox;
  options.size = 8;
  options.iterations = 32000;
  options.batches = 50;
  options.warmup = 64000;
  options.window = 32;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  if (options.window > MAX_WINDOW) die("--window: at most %d", MAX_WINDOW);
  if (options.iterations % options.window != 0 || options.warmup % options.window != 0)
    die("--iterations and --warmup: multiples of the window, %ld", options.window);
  /* Two windows may be in flight. */
  const long buffers = 2 * options.window;
  unsigned char *memory = buffer_create((size_t)buffers * options.size);
  inbox = (struct inbox){.buffers = memory, .size = options.size, .count = buffers};
  double *rates = (double *)calloc((size_t)options.batches, sizeof *rates);
  if (rates == NULL) die("no memory");

  link_establish(&link, &options);
  am_open(&link, &inbox);
  link_meet(&link, &options);
  for (long batch = -1; batch < options.batches; batch++) {
    const long messages = batch < 0 ? options.warmup : options.iterations;
    uint64_t start = now_ns();
    if (options.side == 0)
      send_windows(&link, &options, &inbox, memory, messages / options.window);
    else
      receive_windows(&link, &options, &inbox, messages / options.window);
    if (batch >= 0) rates[batch] = (double)messages / ((double)(now_ns() - start) * 1e-9);
  }
  report_samples(&options, "messages_per_second", rates, (size_t)options.batches);
  report_number(&options, "bytes_per_second",
                rates[(options.batches - 1) / 2] * (double)options.size);

  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(rates);
  buffer_destroy(memory);
  return 0;
}
