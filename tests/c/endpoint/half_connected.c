/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Workers are destroyed while a connection between them is half established. UCX 1.13 over TCP
 * ended the process by an assertion. */
#include "test_util.h"

typedef enum order { ASKS_FIRST, ANSWERS_FIRST, ANSWERS_LATER } order_t;

/* One worker sends to another, both make so many passes, and both are destroyed. */
static void half_connected(order_t order, int passes) {
  ucxx_context_t *context = NULL;
  ucxx_worker_t *asks = NULL, *answers = NULL;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *send = NULL;
  uint64_t word = 7;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &asks));
  CHECK_OK(ucxx_worker_create(context, NULL, &answers));
  CHECK_OK(ucxx_worker_address(answers, &address));
  CHECK_OK(ucxx_endpoint_create(asks, address, NULL, &endpoint));
  CHECK(ucxx_tag_send(endpoint, &word, sizeof word, 1, NULL, &send) >= 0);
  for (int pass = 0; pass < passes; pass++) {
    progress(asks);
    progress(answers);
  }
  ucxx_request_destroy(send);
  ucxx_worker_destroy(order == ANSWERS_FIRST ? answers : asks);
  for (int pass = 0; order == ANSWERS_LATER && pass < 20; pass++) progress(answers);
  ucxx_worker_destroy(order == ANSWERS_FIRST ? asks : answers);
  ucxx_endpoint_destroy(endpoint);
  ucxx_address_destroy(address);
  ucxx_context_destroy(context);
}

int main(void) {
  test_begin("half_connected");
  /* After so many passes the answer to the connecting worker waits to be sent. */
  STEP("the connecting worker is destroyed first");
  half_connected(ASKS_FIRST, 3);
  STEP("the answering worker is destroyed first");
  half_connected(ANSWERS_FIRST, 3);
  STEP("the answering worker keeps working");
  half_connected(ANSWERS_LATER, 2);
  return 0;
}
