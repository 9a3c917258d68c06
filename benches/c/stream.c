/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Message rate and bandwidth. One process sends windows of messages. The other keeps two windows of
 * receives posted, so that every message finds its receive, and answers each full window with a
 * message of 8 bytes. */
#include <stdlib.h>

#include "link.h"

enum { TAG_DATA = 1, TAG_ACK = 2, MAX_WINDOW = 256 };

static struct operation data_operations[2 * MAX_WINDOW], ack_operations[2];
static uint64_t acks[2], ack_out;

/* Sends `windows` windows. At most two are unanswered. */
static void send_windows(struct link *link, const struct options *options, unsigned char *buffers,
                         long windows) {
  const long window = options->window;
  for (long k = 0; k < windows + 2; k++) {
    const int half = (int)(k & 1);
    if (k >= 2) link_finish(link, &ack_operations[half]);
    if (k >= windows) continue;
    link_recv(link, &acks[half], sizeof acks[half], TAG_ACK, &ack_operations[half]);
    for (long i = 0; i < window; i++)
      link_send(link, buffers + (size_t)i * options->size, options->size, TAG_DATA,
                &data_operations[i]);
    for (long i = 0; i < window; i++) link_finish(link, &data_operations[i]);
  }
}

static void post_window(struct link *link, const struct options *options, unsigned char *buffers,
                        int half) {
  const long first = half * options->window;
  for (long i = first; i < first + options->window; i++)
    link_recv(link, buffers + (size_t)i * options->size, options->size, TAG_DATA,
              &data_operations[i]);
}

/* The first two windows are posted before. The last two leave two windows posted for the next
 * batch. */
static void receive_windows(struct link *link, const struct options *options,
                            unsigned char *buffers, long windows) {
  for (long k = 0; k < windows; k++) {
    const int half = (int)(k & 1);
    const long first = half * options->window;
    for (long i = first; i < first + options->window; i++) link_finish(link, &data_operations[i]);
    post_window(link, options, buffers, half);
    link_send(link, &ack_out, sizeof ack_out, TAG_ACK, &ack_operations[half]);
    link_finish(link, &ack_operations[half]);
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  options.size = 8;
  options.iterations = 32000;
  options.batches = 50;
  options.warmup = 64000;
  options.window = 32;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  const long per_step = 2 * options.window;
  if (options.window > MAX_WINDOW) die("--window: at most %d", MAX_WINDOW);
  if (options.iterations % per_step != 0 || options.warmup % per_step != 0)
    die("--iterations and --warmup: multiples of twice the window, %ld", per_step);
  unsigned char *buffers =
      buffer_create((size_t)(options.side == 0 ? 1 : 2) * (size_t)options.window * options.size);
  double *rates = (double *)calloc((size_t)options.batches, sizeof *rates);
  if (rates == NULL) die("no memory");

  link_establish(&link, &options);
  if (options.side != 0) {
    post_window(&link, &options, buffers, 0);
    post_window(&link, &options, buffers, 1);
  }
  link_meet(&link, &options);
  for (long batch = -1; batch < options.batches; batch++) {
    const long messages = batch < 0 ? options.warmup : options.iterations;
    uint64_t start = now_ns();
    if (options.side == 0)
      send_windows(&link, &options, buffers, messages / options.window);
    else
      receive_windows(&link, &options, buffers, messages / options.window);
    if (batch >= 0) rates[batch] = (double)messages / ((double)(now_ns() - start) * 1e-9);
  }
  report_samples(&options, "messages_per_second", rates, (size_t)options.batches);
  report_number(&options, "bytes_per_second",
                rates[(options.batches - 1) / 2] * (double)options.size);

  /* Serve the receives that are still posted, so that closing has nothing to cancel. */
  if (options.side == 0) {
    for (long i = 0; i < 2 * options.window; i++) {
      link_send(&link, buffers + (size_t)(i % options.window) * options.size, options.size,
                TAG_DATA, &data_operations[0]);
      link_finish(&link, &data_operations[0]);
    }
  } else {
    for (long i = 0; i < 2 * options.window; i++) link_finish(&link, &data_operations[i]);
  }
  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(rates);
  buffer_destroy(buffers);
  return 0;
}
