/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The consumer of a hub's last chunk destroys links and hub at once, while the producer may still
 * be inside its commit: nothing touches freed memory. */
#include <pthread.h>

#include "hub.h"

enum { SIZE = 64, ROUNDS = 900 };

typedef struct two {
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  int chunks;
} two_t;

static void *feed(void *arg) {
  two_t *two = arg;
  for (int left = two->chunks; left > 0; left--) {
    ucxx_envelope_t *envelope = NULL;
    CHECK_OK(ucxx_link_lease(two->in, FOR_EVER, &envelope));
    put_word(envelope, (uint64_t)left);
  }
  return NULL;
}

static void round_of(ucxx_context_t *context, ucxx_worker_t *worker, uint64_t *random) {
  two_t two = {.chunks = 1 + (int)hub_draw(random, 4)};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  pthread_t thread;
  params.envelope_size = SIZE;
  params.worker = hub_draw(random, 3) == 0 ? worker : NULL;
  CHECK_OK(ucxx_hub_create(context, &params, &two.hub));
  CHECK_OK(ucxx_hub_add_envelopes(two.hub, on_host, 1 + hub_draw(random, 2)));
  two.in = hub_link(two.hub, UCXX_LINK_PRODUCE, on_host);
  two.out = hub_link(two.hub, UCXX_LINK_CONSUME, on_host);
  CHECK_EQ(pthread_create(&thread, NULL, feed, &two), 0);
  int order = (int)hub_draw(random, 3);
  for (int left = two.chunks; left > 0; left--) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status;
    uint64_t how = hub_draw(random, 2) * FOR_EVER;
    while ((status = ucxx_link_lease(two.out, how, &envelope)) != UCXX_OK)
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
    CHECK_EQ(*word_of(envelope), left);
    if (left == 1 && order == 0) {
      ucxx_link_destroy(two.out);
      ucxx_hub_destroy(two.hub);
      ucxx_link_destroy(two.in);
      CHECK_STATUS(ucxx_envelope_commit(envelope, 0, NULL), UCXX_ERR_CLOSED);
      CHECK_OK(ucxx_envelope_abort(envelope, NULL));
    } else {
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
    }
  }
  if (order == 1) CHECK_OK(ucxx_hub_drain(two.hub, FOR_EVER));
  if (order > 0) {
    ucxx_link_destroy(two.in);
    ucxx_link_destroy(two.out);
    ucxx_hub_destroy(two.hub);
  }
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(int argc, char **argv) {
  return hub_rounds("hub_last_chunk", argc, argv, ROUNDS, round_of);
}
