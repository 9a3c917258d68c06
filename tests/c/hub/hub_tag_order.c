/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Chunks are queued in the order in which their messages complete, even if a receive completes in
 * its call while an earlier completion is still to be delivered. All messages are equally short, so
 * they complete in the order sent.
 */
#include "hub.h"

#include <inttypes.h>

enum { SIZE = 64, ENVELOPES = 2, TAG = 1, MESSAGES = 12 };

typedef struct sink {
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  uint64_t came;
  int in_order;
} sink_t;

static void receive_all(ucxx_link_t *in) {
  ucxx_status_t status;
  do status = ucxx_link_recv(in, TAG, UINT64_MAX, NULL, NULL);
  while (status >= 0);
  CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
}

static void on_empty(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  (void)arg;
  CHECK_OK(status);
  receive_all(link);
}

static void on_chunk(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  sink_t *sink = arg;
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(status);
  while (ucxx_link_lease(link, 0, &envelope) == UCXX_OK) {
    printf("%s%" PRIu64, sink->came == 0 ? "came: " : " ", *word_of(envelope));
    sink->in_order &= *word_of(envelope) == sink->came++;
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
}

int main(void) {
  test_begin("hub_tag_order");
  STEP("messages that have arrived, into envelopes freed in callbacks");
  ucxx_context_t *context = NULL;
  ucxx_worker_t *left = NULL, *right = NULL;
  sink_t sink = {.in_order = 1};
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &left));
  CHECK_OK(ucxx_worker_create(context, NULL, &right));
  ucxx_endpoint_t *to_right = connect_workers(left, right);
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  params.envelope_size = SIZE;
  params.worker = right;
  CHECK_OK(ucxx_hub_create(context, &params, &sink.hub));
  CHECK_OK(ucxx_hub_add_envelopes(sink.hub, on_host, ENVELOPES));
  ucxx_link_params_t empty = UCXX_LINK_PARAMS_INIT, chunk = UCXX_LINK_PARAMS_INIT;
  empty.on_ready = on_empty;
  chunk.on_ready = on_chunk;
  empty.on_ready_arg = chunk.on_ready_arg = &sink;
  CHECK_OK(ucxx_link_create(sink.hub, UCXX_LINK_CONSUME, on_host, &chunk, &sink.out));
  CHECK_OK(ucxx_link_create(sink.hub, UCXX_LINK_PRODUCE, on_host, &empty, &sink.in));
  for (uint64_t number = 0; number < MESSAGES; number++) {
    ucxx_request_t *send = NULL;
    ucxx_status_t status = ucxx_tag_send(to_right, &number, sizeof number, TAG, NULL, &send);
    while (status == UCXX_INPROGRESS && (status = ucxx_request_status(send)) == UCXX_INPROGRESS) {
      progress(left);
      /* The first one connects; the others arrive all at once. */
      if (number == 0) progress(right);
    }
    CHECK_OK(status);
    ucxx_request_destroy(send);
  }
  while (sink.came < MESSAGES) {
    progress(left);
    progress(right);
  }
  printf("\n");
  fflush(stdout);
  CHECK(sink.in_order);
  ucxx_link_destroy(sink.in);
  ucxx_link_destroy(sink.out);
  ucxx_hub_destroy(sink.hub);
  ucxx_endpoint_destroy(to_right);
  ucxx_worker_destroy(right);
  ucxx_worker_destroy(left);
  ucxx_context_destroy(context);
  return 0;
}
