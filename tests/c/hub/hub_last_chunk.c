/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Whoever has a hub's last chunk ends everything at once, links and hub, while its producer may
 * still be on the way out of its commit. */
#include <pthread.h>

#include "hub.h"

enum { SIZE = 64, ROUNDS = 900 };

static uint64_t next(uint64_t *random, uint64_t below) {
  return test_mix(*random += 0x51ed27) % below;
}

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
  two_t two = {.chunks = 1 + (int)next(random, 4)};
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  pthread_t thread;
  params.envelope_size = SIZE;
  params.worker = next(random, 3) == 0 ? worker : NULL;
  CHECK_OK(ucxx_hub_create(context, &params, &two.hub));
  CHECK_OK(ucxx_hub_add_envelopes(two.hub, on_host, 1 + next(random, 2)));
  two.in = hub_link(two.hub, UCXX_LINK_PRODUCE, on_host);
  two.out = hub_link(two.hub, UCXX_LINK_CONSUME, on_host);
  CHECK_EQ(pthread_create(&thread, NULL, feed, &two), 0);
  int order = (int)next(random, 3);
  for (int left = two.chunks; left > 0; left--) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status;
    uint64_t how = next(random, 2) * FOR_EVER;
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
  test_begin("hub_last_chunk", 60);
  uint64_t random = test_seed();
  unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : test_rounds(ROUNDS);
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  params.thread_mode = UCXX_THREAD_MULTI;
  params.progress_mode = UCXX_PROGRESS_MANUAL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &worker));
  while (rounds-- > 0) round_of(context, worker, &random);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  printf("ok\n");
  return 0;
}
