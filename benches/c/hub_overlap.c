/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* How well the stages of a pipeline overlap. One thread produces, one moves chunks from the first
 * hub to the second, and one consumes. Each hub has three envelopes. In each stage the thread
 * sleeps, like a thread that waits for a device, because three computing threads do not overlap on
 * two cores. The efficiency is the real length of the longest stage, divided by the time from chunk
 * to chunk.
 *
 * The thread in the middle exchanges the memory of the two envelopes, so nothing is copied. A copy
 * would be additional work. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <ucxx_rs.h>

#include "harness.h"

enum { ENVELOPES = 3, STAGE_NS = 200000 };

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};

struct pipeline {
  ucxx_hub_t *hub[2];
  ucxx_link_t *in[2], *out[2];
  long warmup, iterations;
  uint64_t stage_ns[3]; /* the time of each stage, in total */
  /* When the consumer had the last chunk of the warm-up, and the last chunk of all. */
  uint64_t began, ended;
};

static void check(ucxx_status_t status, const char *what) {
  if (status != UCXX_OK) die("%s: %s", what, ucxx_last_error_message());
}

static uint64_t stage(void) {
  const struct timespec time = {.tv_sec = 0, .tv_nsec = STAGE_NS};
  const uint64_t start = now_ns();
  nanosleep(&time, NULL);
  return now_ns() - start;
}

/* Otherwise the system may wake a sleeping thread 50 us late, and all of them at once. */
static void sleep_precisely(void) {
  if (prctl(PR_SET_TIMERSLACK, 1) != 0) die("the timer slack cannot be set");
}

static void work(struct pipeline *pipeline, int which, long number) {
  const uint64_t took = stage();
  if (number >= pipeline->warmup) pipeline->stage_ns[which] += took;
}

static void *produce(void *arg) {
  struct pipeline *pipeline = (struct pipeline *)arg;
  sleep_precisely();
  for (long number = 0; number < pipeline->warmup + pipeline->iterations; number++) {
    ucxx_envelope_t *envelope;
    check(ucxx_link_lease(pipeline->in[0], UINT64_MAX, &envelope), "a lease to produce");
    work(pipeline, 0, number);
    check(ucxx_envelope_commit(envelope, 8, NULL), "a chunk");
  }
  return NULL;
}

static void *pass_on(void *arg) {
  struct pipeline *pipeline = (struct pipeline *)arg;
  ucxx_link_t *links[] = {pipeline->out[0], pipeline->in[1]};
  sleep_precisely();
  for (long number = 0; number < pipeline->warmup + pipeline->iterations; number++) {
    ucxx_envelope_t *envelopes[2];
    check(ucxx_link_lease_many(links, 2, UINT64_MAX, envelopes), "a lease in the middle");
    work(pipeline, 1, number);
    check(ucxx_envelope_swap(envelopes[0], envelopes[1]), "an exchange");
    check(ucxx_envelope_commit(envelopes[0], 0, NULL), "a chunk that has been taken over");
    check(ucxx_envelope_commit(envelopes[1], 8, NULL), "a chunk that is passed on");
  }
  return NULL;
}

static void *consume(void *arg) {
  struct pipeline *pipeline = (struct pipeline *)arg;
  sleep_precisely();
  for (long number = 0; number < pipeline->warmup + pipeline->iterations; number++) {
    ucxx_envelope_t *envelope;
    check(ucxx_link_lease(pipeline->out[1], UINT64_MAX, &envelope), "a lease to consume");
    work(pipeline, 2, number);
    check(ucxx_envelope_commit(envelope, 0, NULL), "a chunk that is consumed");
    if (number == pipeline->warmup - 1) pipeline->began = now_ns();
  }
  pipeline->ended = now_ns();
  return NULL;
}

static double run(struct pipeline *pipeline) {
  void *(*const stages[])(void *) = {produce, pass_on, consume};
  pthread_t threads[3];
  for (int which = 0; which < 3; which++) pipeline->stage_ns[which] = 0;
  for (int which = 0; which < 3; which++)
    if (pthread_create(&threads[which], NULL, stages[which], pipeline) != 0) die("no thread");
  for (int which = 0; which < 3; which++) pthread_join(threads[which], NULL);
  uint64_t longest = 0;
  for (int which = 0; which < 3; which++)
    if (pipeline->stage_ns[which] > longest) longest = pipeline->stage_ns[which];
  return (double)longest / (double)(pipeline->ended - pipeline->began);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct pipeline pipeline;
  ucxx_context_t *context;
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_version_t version = UCXX_VERSION_INIT;
  char text[64];
  options.iterations = 1000;
  options.batches = 3;
  options.warmup = 100;
  harness_read(argc, argv, &options);
  if (options.warmup < 1) die("--warmup: at least 1");
  double *efficiencies = (double *)calloc((size_t)options.batches, sizeof *efficiencies);
  if (efficiencies == NULL) die("no memory");
  context_params.features = UCXX_FEATURE_TAG;
  check(ucxx_context_create(&context_params, &context), "a context");
  params.envelope_size = 4096;
  for (int which = 0; which < 2; which++) {
    check(ucxx_hub_create(context, &params, &pipeline.hub[which]), "a hub");
    check(ucxx_hub_add_envelopes(pipeline.hub[which], host, ENVELOPES), "envelopes");
    check(ucxx_link_create(pipeline.hub[which], UCXX_LINK_PRODUCE, host, NULL, &pipeline.in[which]),
          "a link");
    check(
        ucxx_link_create(pipeline.hub[which], UCXX_LINK_CONSUME, host, NULL, &pipeline.out[which]),
        "a link");
  }
  pipeline.warmup = options.warmup;
  pipeline.iterations = options.iterations;
  for (long batch = 0; batch < options.batches; batch++) efficiencies[batch] = run(&pipeline);
  check(ucxx_version_query(&version), "the version");
  snprintf(text, sizeof text, "%u.%u.%u", version.ucx_major, version.ucx_minor, version.ucx_patch);
  report_text(&options, "implementation", "ucxx_rs");
  report_text(&options, "ucx", text);
  report_samples(&options, "efficiency", efficiencies, (size_t)options.batches);
  report_number(&options, "stage_us",
                (double)pipeline.stage_ns[0] / (double)options.iterations * 1e-3);
  for (int which = 0; which < 2; which++) {
    ucxx_link_destroy(pipeline.in[which]);
    ucxx_link_destroy(pipeline.out[which]);
    ucxx_hub_destroy(pipeline.hub[which]);
  }
  ucxx_context_destroy(context);
  free(efficiencies);
  return 0;
}
