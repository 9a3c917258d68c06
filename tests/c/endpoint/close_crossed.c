/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Large messages cross the Bye of their receiver, which closes by flush. Their sender drops the
 * rest of them when it hears that, and the close does not wait for it. */
#include "test_util.h"

enum { ROUNDS = 300, MOST = 64, LENGTH = 150000 };

static char data[LENGTH];

static void on_message(void *arg, ucxx_am_message_t *message) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  (void)arg;
  CHECK(ucxx_am_message_recv(message, data, LENGTH, &params, NULL) >= 0);
  ucxx_am_message_destroy(message);
}

/* Makes some passes, or sends some messages in between. */
static void live(pair_t *pair, uint64_t passes) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT;
  for (uint64_t at = 0; at < passes; at++) {
    /* There may be no credit, or the other side may have closed. */
    if (pair->side == 0 && at < MOST)
      (void)!ucxx_am_send(pair->endpoint, 1, "h", 1, data, LENGTH - at * 1000, &params, NULL);
    progress(pair->worker);
  }
}

static void body(pair_t *pair) {
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, NULL, &pair->worker));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, 1, on_message, NULL, NULL));
  ucxx_address_t *theirs = pair_exchange_address(pair, pair->worker);
  for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
    ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
    seen_t closed = {0};
    STEP("round %u", round);
    params.on_close = see_endpoint;
    params.on_close_arg = &closed;
    CHECK_OK(ucxx_endpoint_create(pair->worker, theirs, &params, &pair->endpoint));
    live(pair, test_mix(pair->seed + round) % 400);
    if (pair->side == 1) {
      ucxx_request_t *close = NULL;
      CHECK_OK(finish(close_patiently(pair->endpoint, &close), &close));
      pair_tell(pair);
    } else {
      pair_await(pair);
    }
    ucxx_endpoint_destroy(pair->endpoint);
    pair_sync(pair);
  }
  ucxx_address_destroy(theirs);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
  pair->worker = NULL;
}

int main(int argc, char **argv) { return pair_main(argc, argv, "close_crossed", body); }
