/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * What one of something costs while there are many of it: endpoints, receives, messages that no
 * receive waits for, workers. `--window` is how many, `--only` which of them. Two workers in one
 * process and on one thread, so that nothing but the number differs from run to run.
 */
#include <stdlib.h>

#include "link.h"
#include "loop_pair.h"

enum { TAG = 1000, SAMPLES = 401, PASSES = 64 };

static struct link ends[2];
static double samples[SAMPLES];
static uint64_t payload[2];

/* Anonymous memory of the process, in bytes. */
static double anonymous(void) {
  char line[256];
  long kib = -1;
  FILE *file = fopen("/proc/self/smaps_rollup", "r");
  if (file == NULL) die("/proc/self/smaps_rollup is not there");
  while (fgets(line, sizeof line, file) != NULL)
    if (sscanf(line, "Anonymous: %ld kB", &kib) == 1) break;
  fclose(file);
  return (double)kib * 1024;
}

static void both_pass(void) {
  link_progress(&ends[0]);
  link_progress(&ends[1]);
}

static void until_done(struct operation *operation) {
  while (!link_done(operation)) both_pass();
}

static void report_each(const struct options *options, const char *key, uint64_t start, long n) {
  report_number(options, key, (double)(now_ns() - start) / (double)n);
}

/* A pass of this worker, which finds nothing to do. */
static void report_idle_pass(const struct options *options, const char *key, struct link *link) {
  for (int i = 0; i < SAMPLES; i++) {
    const uint64_t start = now_ns();
    for (int k = 0; k < PASSES; k++) link_progress(link);
    samples[i] = (double)(now_ns() - start) / PASSES;
  }
  report_samples(options, key, samples, SAMPLES);
}

/* One pass of this worker; how long it took, if that is longer than the slowest one before. */
static double slowest_pass(struct link *link, double slowest) {
  const uint64_t start = now_ns();
  link_progress(link);
  const double took = (double)(now_ns() - start);
  return took > slowest ? took : slowest;
}

#include "many.h"

/* One message on this endpoint of that side into a receive that waits for it. */
static void message_from(int side, peer_t peer) {
  static struct operation sent, received;
  link_recv(&ends[side ^ 1], &payload[1], 8, TAG, &received);
  many_use(&ends[side], peer);
  link_send(&ends[side], &payload[0], 8, TAG, &sent);
  until_done(&received);
  until_done(&sent);
}

static void message_on(peer_t peer) { message_from(0, peer); }

/* Cancels receives of the second worker, the last one first. */
static void cancel_all(struct operation *posted, long n) {
  for (long i = n; i-- > 0;) {
    many_cancel(&ends[1], &posted[i]);
    while (!many_ended(&posted[i])) link_progress(&ends[1]);
  }
}

static void endpoints(const struct options *options) {
  const long n = options->window;
  peer_t *peers = calloc((size_t)n, sizeof *peers);
  struct operation *closes = calloc((size_t)n, sizeof *closes);
  peer_t own = ends[0].endpoint;
  message_on(own);
  const double memory = anonymous();
  const uint64_t begun = now_ns();
  uint64_t start = begun;
  for (long i = 0; i < n; i++) peers[i] = many_connect(&ends[0], &ends[1]);
  report_each(options, "endpoint_create_ns", start, n);
  for (long i = 0; i < n; i++) message_on(peers[i]);
  /* Raw UCP has no way back unless the program makes one; ours has had it since the first answer.
   */
  peer_t own_back = ends[1].endpoint;
  for (long i = 0; MANY_BACK && i < n; i++) message_from(1, many_connect(&ends[1], &ends[0]));
  many_use(&ends[1], own_back);
  report_each(options, "open_ns", begun, n);
  for (int i = 0; i < 1000; i++) both_pass();
  report_number(options, "endpoint_bytes", (anonymous() - memory) / (double)n);
  report_idle_pass(options, "idle_pass_ns", &ends[0]);
  start = now_ns();
  for (long i = 0; i < n; i++) message_on(peers[i]);
  report_each(options, "turn_ns", start, n);
  for (int i = 0; i < SAMPLES; i++) {
    static struct operation flushed;
    start = now_ns();
    many_flush(&ends[0], &flushed);
    until_done(&flushed);
    samples[i] = (double)(now_ns() - start);
  }
  report_samples(options, "worker_flush_ns", samples, SAMPLES);
  start = now_ns();
  for (long i = 0; i < n; i++) many_close(&ends[0], peers[i], &closes[i]);
  double slowest = 0;
  for (long left = n; left > 0;) {
    slowest = slowest_pass(&ends[0], slowest);
    link_progress(&ends[1]);
    for (; left > 0 && many_ended(&closes[left - 1]); left--) many_gone(peers[left - 1]);
  }
  report_each(options, "endpoint_close_ns", start, n);
  report_number(options, "slowest_closing_pass_ns", slowest);
  many_use(&ends[0], own);
  free(closes);
  free(peers);
}

static void receives(const struct options *options) {
  const long n = options->window;
  struct operation *posted = calloc((size_t)n, sizeof *posted);
  uint64_t *into = calloc((size_t)n, sizeof *into);
  static struct operation sent;
  message_on(ends[0].endpoint);
  uint64_t start = now_ns();
  for (long i = 0; i < n; i++) link_recv(&ends[1], &into[i], 8, TAG + 1 + (uint64_t)i, &posted[i]);
  report_each(options, "post_cold_ns", start, n);
  for (int i = 0; i < SAMPLES; i++) {
    const uint64_t tag = TAG + 1 + (uint64_t)(i % n);
    start = now_ns();
    link_send(&ends[0], &payload[0], 8, tag, &sent);
    while (!many_ended(&posted[i % n])) link_progress(&ends[1]);
    samples[i] = (double)(now_ns() - start);
    until_done(&sent);
    link_recv(&ends[1], &into[i % n], 8, tag, &posted[i % n]);
  }
  report_samples(options, "match_ns", samples, SAMPLES);
  start = now_ns();
  cancel_all(posted, n);
  report_each(options, "cancel_ns", start, n);
  start = now_ns();
  for (long i = 0; i < n; i++) link_recv(&ends[1], &into[i], 8, TAG + 1 + (uint64_t)i, &posted[i]);
  report_each(options, "post_warm_ns", start, n);
  cancel_all(posted, n);
  free(into);
  free(posted);
}

static void unexpected(const struct options *options) {
  const long n = options->window;
  static struct operation received;
  struct operation *sent = calloc((size_t)n, sizeof *sent);
  message_on(ends[0].endpoint);
  uint64_t start = now_ns();
  for (long i = 0; i < n; i++) {
    link_send(&ends[0], &payload[0], 8, TAG + 1 + (uint64_t)i, &sent[i]);
    if (i % PASSES == 0) both_pass();
  }
  for (long i = 0; i < n; i++) until_done(&sent[i]);
  while (!many_probe(&ends[1], TAG + (uint64_t)n)) both_pass();
  report_each(options, "arrive_ns", start, n);
  for (int i = 0; i < SAMPLES; i++) {
    start = now_ns();
    if (!many_probe(&ends[1], TAG + (uint64_t)n)) die("a message has gone");
    samples[i] = (double)(now_ns() - start);
  }
  report_samples(options, "probe_ns", samples, SAMPLES);
  start = now_ns();
  for (long i = 0; i < n; i++) {
    link_recv(&ends[1], &payload[1], 8, TAG + 1 + (uint64_t)i, &received);
    until_done(&received);
  }
  report_each(options, "receive_unexpected_ns", start, n);
  free(sent);
}

#ifdef LINK_UCXX_RS
#include "many_own.h"
#endif

static void workers(const struct options *options) {
  const long n = options->window;
  struct link *links = calloc((size_t)n, sizeof *links);
  const double memory = anonymous();
  uint64_t start = now_ns();
  for (long i = 0; i < n; i++) {
    links[i] = ends[0];
    many_open(&links[i]);
  }
  report_each(options, "worker_create_ns", start, n);
  report_number(options, "worker_bytes", (anonymous() - memory) / (double)n);
  for (int i = 0; i < 101; i++) {
    start = now_ns();
    for (long k = 0; k < n; k++) link_progress(&links[k]);
    samples[i] = (double)(now_ns() - start) / (double)n;
  }
  report_samples(options, "pass_in_turn_ns", samples, 101);
  start = now_ns();
  for (long i = 0; i < n; i++) many_shut(&links[i]);
  report_each(options, "worker_destroy_ns", start, n);
  free(links);
}

int main(int argc, char **argv) {
  static struct options options;
  static const struct {
    const char *name;
    void (*run)(const struct options *);
  } all[] = {{"endpoints", endpoints},
             {"receives", receives},
             {"unexpected", unexpected},
             {"workers", workers},
             MANY_OWN};
  options.window = 16;
  pair_start(argc, argv, &options);
  link_open(&ends[0], &options);
  link_open(&ends[1], &options);
  pair_connect(ends);
  message_on(ends[0].endpoint);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].run != NULL && harness_wants(&options, all[i].name)) all[i].run(&options);
  link_report(&ends[0], &options);
  pair_close(ends);
  return 0;
}
