/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Chunks through hubs, on one thread and in the same order each time, for counting like pairloop.c.
 * `--only` selects the way: through one hub without its lock (plain), through one with an on_ready
 * callback, which needs the lock (locked), or from a hub of one worker to a hub of the other, by a
 * stream or as a message. */
#include <stdlib.h>

#define LINK_AM 1
#include "link.h"
#include "loop_pair.h"

enum { ENVELOPES = 4, STREAM = 1, TAG = 1 };

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};

/* One hub, or two with a link between them at each end. */
struct way {
  struct link *ends;
  ucxx_hub_t *hubs[2];
  ucxx_link_t *in, *out, *leaves, *enters;
  size_t length;
  long ready; /* calls of on_ready */
};

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  (void)link;
  link_check(status, "on_ready");
  ((struct way *)arg)->ready++;
}

static ucxx_hub_t *open_hub(ucxx_context_t *context, ucxx_worker_t *worker, size_t size) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub;
  params.envelope_size = size;
  params.worker = worker;
  link_check(ucxx_hub_create(context, &params, &hub), "ucxx_hub_create");
  link_check(ucxx_hub_add_envelopes(hub, host, ENVELOPES), "ucxx_hub_add_envelopes");
  return hub;
}

static ucxx_link_t *open_link(ucxx_hub_t *hub, int32_t type, const ucxx_link_params_t *params) {
  ucxx_link_t *link;
  link_check(ucxx_link_create(hub, type, host, params, &link), "ucxx_link_create");
  return link;
}

/* Leases an envelope that is available now, or after some progress. */
static ucxx_envelope_t *lease(const struct way *way, ucxx_link_t *link) {
  ucxx_envelope_t *envelope;
  ucxx_status_t status;
  while ((status = ucxx_link_lease(link, 0, &envelope)) == UCXX_ERR_NO_RESOURCE) {
    if (way->ends == NULL)
      die("a hub of %d envelopes has none, or its chunk is missing", ENVELOPES);
    link_progress(&way->ends[1]);
    link_progress(&way->ends[0]);
  }
  link_check(status, "ucxx_link_lease");
  return envelope;
}

static void produce(const struct way *way) {
  link_check(ucxx_envelope_commit(lease(way, way->in), way->length, NULL), "ucxx_envelope_commit");
}

static void consume(const struct way *way) {
  link_check(ucxx_envelope_release(lease(way, way->out), NULL), "ucxx_envelope_release");
}

static void pass_on(struct way *way) {
  produce(way);
  consume(way);
}

/* Waits until the chunk is acknowledged, so that each chunk ends before the next begins. */
static void pass_by_stream(struct way *way) {
  pass_on(way);
  while (ucxx_hub_length(way->hubs[0]) > 0) {
    link_progress(&way->ends[0]);
    link_progress(&way->ends[1]);
  }
}

static void pass_as_message(struct way *way) {
  struct operation sent = {NULL}, received = {NULL};
  link_check(ucxx_link_recv(way->enters, TAG, UINT64_MAX, NULL, &received.request),
             "ucxx_link_recv");
  produce(way);
  link_check(ucxx_link_send(way->leaves, way->ends[0].endpoint, TAG, NULL, &sent.request),
             "ucxx_link_send");
  consume(way);
  while (!link_done(&sent)) link_progress(&way->ends[0]);
  if (!link_done(&received)) die("a chunk is there whose receive has not ended");
}

/* Not inlined, as in pairloop.c. */
__attribute__((noinline)) void measured_loop(struct way *way, void (*pass)(struct way *),
                                             long count);

void measured_loop(struct way *way, void (*pass)(struct way *), long count) {
  for (long i = 0; i < count; i++) pass(way);
}

static const void *next_empty(const struct way *way) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  ucxx_envelope_t *envelope = lease(way, way->in);
  link_check(ucxx_envelope_query(envelope, &attr), "ucxx_envelope_query");
  link_check(ucxx_envelope_commit(envelope, way->length, NULL), "ucxx_envelope_commit");
  consume(way);
  return attr.data;
}

/* With its lock a hub gives the envelope that was used last. Without it, the one that has been free
 * longest. So this check shows which form was counted. */
static void check_form(const struct way *way, int locked) {
  const void *before = next_empty(way), *after = next_empty(way);
  if ((before == after) != locked) die("the hub goes %s its lock", locked ? "without" : "by");
}

static void count_passes(const struct options *options, struct way *way,
                         void (*pass)(struct way *)) {
  for (long i = 0; i < options->warmup; i++) pass(way);
  if (options->markers) mark_begin();
  measured_loop(way, pass, options->iterations);
  if (options->markers) mark_end();
}

static void one_hub(const struct options *options, struct way *way, int locked) {
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  ucxx_context_t *context;
  params.autocommit = 1;
  params.on_ready = locked ? on_ready : NULL;
  params.on_ready_arg = way;
  context_params.features = UCXX_FEATURE_TAG;
  link_check(ucxx_context_create(&context_params, &context), "ucxx_context_create");
  way->hubs[0] = open_hub(context, NULL, options->size);
  way->in = open_link(way->hubs[0], UCXX_LINK_PRODUCE, NULL);
  way->out = open_link(way->hubs[0], UCXX_LINK_CONSUME, &params);
  count_passes(options, way, pass_on);
  check_form(way, locked);
  if (locked && way->ready < options->iterations) die("on_ready has run %ld times", way->ready);
  link_report_version(options);
  ucxx_link_destroy(way->in);
  ucxx_link_destroy(way->out);
  ucxx_hub_destroy(way->hubs[0]);
  ucxx_context_destroy(context);
}

static void two_hubs(const struct options *options, struct way *way, int by_stream) {
  static struct link ends[2];
  ucxx_link_params_t commits = UCXX_LINK_PARAMS_INIT;
  commits.autocommit = 1;
  way->ends = ends;
  link_open(&ends[0], options);
  link_open(&ends[1], options);
  pair_connect(ends);
  for (int side = 0; side < 2; side++)
    way->hubs[side] = open_hub(ends[side].context, ends[side].worker, options->size);
  way->in = open_link(way->hubs[0], UCXX_LINK_PRODUCE, NULL);
  way->leaves = open_link(way->hubs[0], UCXX_LINK_CONSUME, NULL);
  way->enters = open_link(way->hubs[1], UCXX_LINK_PRODUCE, NULL);
  way->out = open_link(way->hubs[1], UCXX_LINK_CONSUME, &commits);
  if (by_stream) {
    link_check(ucxx_link_connect(way->leaves, ends[0].endpoint, STREAM, ENVELOPES),
               "ucxx_link_connect");
    link_check(ucxx_link_connect(way->enters, ends[1].endpoint, STREAM, ENVELOPES),
               "ucxx_link_connect");
  }
  count_passes(options, way, by_stream ? pass_by_stream : pass_as_message);
  link_report(&ends[0], options);
  ucxx_link_destroy(way->in);
  ucxx_link_destroy(way->leaves);
  ucxx_link_destroy(way->enters);
  ucxx_link_destroy(way->out);
  ucxx_hub_destroy(way->hubs[0]);
  ucxx_hub_destroy(way->hubs[1]);
  pair_close(ends);
}

int main(int argc, char **argv) {
  static struct options options;
  static struct way way;
  pair_start(argc, argv, &options);
  way.length = options.size;
  const char *how = options.only != NULL ? options.only : "plain";
  if (strcmp(how, "plain") == 0)
    one_hub(&options, &way, 0);
  else if (strcmp(how, "locked") == 0)
    one_hub(&options, &way, 1);
  else if (strcmp(how, "stream") == 0)
    two_hubs(&options, &way, 1);
  else if (strcmp(how, "message") == 0)
    two_hubs(&options, &way, 0);
  else
    die("--only: plain, locked, stream or message");
  return 0;
}
