/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Bandwidth from a hub in one process to a hub in another. Chunks are produced here and consumed
 * there, and their contents are not used. The raw column has tag messages of the same size, as in
 * stream.c. Both have a window of buffers on the sending side, and twice that on the receiving
 * side. */
#ifdef LINK_RAW
#include "stream.c"
#else
#include <stdlib.h>

#define LINK_AM 1
#include "link.h"

enum { STREAM = 1 };

struct hub {
  ucxx_hub_t *hub;
  ucxx_link_t *near, *far; /* the link that this side leases through, and the connected link */
};

/* Pages that were never written are all the same page of zeros, so write them. */
static void touch_envelopes(const struct hub *hub, size_t count) {
  ucxx_envelope_t **envelopes = (ucxx_envelope_t **)calloc(count, sizeof *envelopes);
  if (envelopes == NULL) die("no memory");
  for (size_t at = 0; at < count; at++) {
    ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
    link_check(ucxx_link_lease(hub->near, 0, &envelopes[at]), "ucxx_link_lease");
    link_check(ucxx_envelope_query(envelopes[at], &attr), "ucxx_envelope_query");
    memset(attr.data, 0xa5, attr.capacity);
  }
  for (size_t at = 0; at < count; at++)
    link_check(ucxx_envelope_abort(envelopes[at], NULL), "ucxx_envelope_abort");
  free(envelopes);
}

static void hub_open(struct hub *hub, const struct link *link, const struct options *options) {
  const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};
  const int sends = options->side == 0;
  const size_t envelopes = (size_t)options->window * (sends ? 1 : 2);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = options->size;
  params.worker = link->worker;
  link_check(ucxx_hub_create(link->context, &params, &hub->hub), "ucxx_hub_create");
  link_check(ucxx_hub_add_envelopes(hub->hub, host, envelopes), "ucxx_hub_add_envelopes");
  link_check(ucxx_link_create(hub->hub, sends ? UCXX_LINK_PRODUCE : UCXX_LINK_CONSUME, host, NULL,
                              &hub->near),
             "ucxx_link_create");
  link_check(ucxx_link_create(hub->hub, sends ? UCXX_LINK_CONSUME : UCXX_LINK_PRODUCE, host, NULL,
                              &hub->far),
             "ucxx_link_create");
  if (sends) touch_envelopes(hub, envelopes);
  link_check(ucxx_link_connect(hub->far, link->endpoint, STREAM, (uint32_t)(2 * options->window)),
             "ucxx_link_connect");
}

static void hub_close(struct hub *hub) {
  ucxx_link_destroy(hub->near);
  ucxx_link_destroy(hub->far);
  ucxx_hub_destroy(hub->hub);
}

/* Produces or consumes this many chunks through the link. */
static void pass_chunks(struct link *link, const struct hub *hub, size_t length, long chunks) {
  for (long done = 0; done < chunks; done++) {
    ucxx_envelope_t *envelope;
    ucxx_status_t status;
    while ((status = ucxx_link_lease(hub->near, 0, &envelope)) == UCXX_ERR_NO_RESOURCE)
      link_progress(link);
    link_check(status, "ucxx_link_lease");
    link_check(ucxx_envelope_commit(envelope, length, NULL), "ucxx_envelope_commit");
  }
}

int main(int argc, char **argv) {
  static struct options options;
  static struct link link;
  struct hub hub;
  options.size = 1 << 20;
  options.iterations = 160;
  options.batches = 15;
  options.warmup = 160;
  options.window = 8;
  options.peer_errors = 1;
  options.cpu[1] = 1;
  options.socket = -1;
  harness_start(argc, argv, 1, &options);
  double *rates = (double *)calloc((size_t)options.batches, sizeof *rates);
  if (rates == NULL) die("no memory");

  link_establish(&link, &options);
  hub_open(&hub, &link, &options);
  link_meet(&link, &options);
  for (long batch = -1; batch < options.batches; batch++) {
    const long chunks = batch < 0 ? options.warmup : options.iterations;
    uint64_t start = now_ns();
    pass_chunks(&link, &hub, options.size, chunks);
    /* Like the last window of messages: wait until everything is acknowledged. */
    while (options.side == 0 && ucxx_hub_length(hub.hub) > 0) link_progress(&link);
    if (batch >= 0) rates[batch] = (double)chunks / ((double)(now_ns() - start) * 1e-9);
  }
  report_samples(&options, "messages_per_second", rates, (size_t)options.batches);
  report_number(&options, "bytes_per_second",
                rates[(options.batches - 1) / 2] * (double)options.size);

  link_meet(&link, &options);
  hub_close(&hub);
  link_close(&link);
  harness_finish(&options);
  free(rates);
  return 0;
}
#endif
