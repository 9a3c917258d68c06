/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Questions and answers. One process asks, with a window of unanswered questions, and the other
 * answers. With a window of one, the time of a question is a round trip. */
#include <stdlib.h>

#include "link_fetch.h"

/* Numbers are used in turn: wait for the oldest question, then use its number again. */
static void ask(struct fetches *fetches, long count) {
  const long window = fetches->count;
  for (long i = 0; i < count + window; i++) {
    const uint64_t number = (uint64_t)(i % window);
    if (i >= window)
      while (!fetch_done(fetches, number)) fetch_advance(fetches);
    if (i < count) fetch_begin(fetches, number);
  }
}

static void answer(struct fetches *fetches, long all) {
  while (fetches->answered < all) fetch_advance(fetches);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  static struct fetches fetches;
  options.size = 8;
  options.iterations = 1000;
  options.batches = 200;
  options.warmup = 10000;
  options.window = 1;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  if (options.window > MAX_FETCHES) die("--window: at most %d", MAX_FETCHES);
  if (options.iterations < options.window || options.warmup < options.window)
    die("--iterations and --warmup: at least the window");
  unsigned char *out = buffer_create(options.size),
                *in = buffer_create((size_t)options.window * options.size);
  fetches.buffers = in;
  fetches.answer = out;
  fetches.size = options.size;
  fetches.count = options.window;
  fetches.protocol = options.protocol;
  double *samples = (double *)calloc((size_t)options.batches, sizeof *samples);
  if (samples == NULL) die("no memory");
  buffer_fill(out, 0xa5, options.size);

  link_establish(&link, &options);
  fetch_open(&link, &fetches);
  link_meet(&link, &options);
  long all = 0;
  for (long batch = -1; batch < options.batches; batch++) {
    const long count = batch < 0 ? options.warmup : options.iterations;
    uint64_t start = now_ns();
    all += count;
    if (options.side == 0)
      ask(&fetches, count);
    else
      answer(&fetches, all);
    if (batch >= 0) samples[batch] = (double)(now_ns() - start) / (double)count;
  }
  if (options.side == 0)
    buffer_check(in, 0xa5, (size_t)options.window * options.size, "the answers");
  report_samples(&options, "question_ns", samples, (size_t)options.batches);
  const double rate = 1e9 / samples[(options.batches - 1) / 2];
  report_number(&options, "messages_per_second", rate);
  report_number(&options, "bytes_per_second", rate * (double)options.size);

  fetch_close(&fetches);
  link_meet(&link, &options);
  link_close(&link);
  harness_finish(&options);
  free(samples);
  buffer_destroy(out);
  buffer_destroy(in);
  return 0;
}
