/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A forced close reaches the peer as a close (CONNECTION_RESET), even behind many messages that the
 * peer has not read yet. */
#include "test_util.h"

enum { MESSAGES = 3000, LENGTH = 1000, ROUNDS = 6 };

static void body(pair_t *pair) {
  ucxx_context_t *context;
  CHECK_OK(ucxx_context_create(NULL, &context));
  for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
    ucxx_worker_t *worker;
    ucxx_endpoint_t *endpoint;
    seen_t closed = {0};
    char word = 1;
    STEP("round %u", round);
    CHECK_OK(ucxx_worker_create(context, NULL, &worker));
    ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
    params.on_close = see_endpoint;
    params.on_close_arg = &closed;
    ucxx_address_t *theirs = pair_exchange_address(pair, worker);
    CHECK_OK(ucxx_endpoint_create(worker, theirs, &params, &endpoint));
    ucxx_address_destroy(theirs);
    pair->worker = worker;
    /* One message each way establishes the connection. */
    ucxx_request_t *request = NULL, *close = NULL;
    CHECK_OK(finish(ucxx_tag_send(endpoint, &word, 1, 1, NULL, &request), &request));
    CHECK_OK(finish(ucxx_tag_recv(worker, &word, 1, 1, UINT64_MAX, NULL, &request), &request));
    pair_sync(pair);
    if (pair->side == 0) {
      char data[LENGTH] = {0};
      for (int at = 0; at < MESSAGES; at++)
        CHECK(ucxx_tag_send(endpoint, data, LENGTH, 2, NULL, NULL) >= 0);
      finish(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close), &close);
    }
    while (seen_count(&closed) == 0) progress(worker);
    if (pair->side == 1) CHECK_STATUS(closed.status, UCXX_ERR_CONNECTION_RESET);
    pair_sync(pair);
    ucxx_endpoint_destroy(endpoint);
    ucxx_worker_destroy(worker);
  }
  pair->worker = NULL;
  ucxx_context_destroy(context);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "forced_close_heard", body); }
