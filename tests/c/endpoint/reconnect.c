/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Two workers create endpoints to each other at the same moment, again and again. One sends a large
 * message, one of them closes, by force or with a flush, and the other is notified. Every
 * connection opens, whatever happened to the previous one.
 */
#include "test_util.h"

enum { ROUNDS = 3000, ID = 1, MOST = 200000 };

static struct {
  seen_t opened, closed;
  int greeted;
} now;
static char big[MOST], sink[MOST];

static void on_message(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  if (ucxx_am_message_length(message) == 5) now.greeted = 1;
  if (ucxx_am_message_data(message) == NULL)
    CHECK(ucxx_am_message_recv(message, sink, sizeof sink, NULL, NULL) >= 0);
  ucxx_am_message_destroy(message);
}

static void round_of(const pair_t *pair, const ucxx_address_t *address, uint64_t chance) {
  int closer = (int)(chance % 2), force = (int)(chance / 2 % 2);
  uint64_t messages = chance / 4 % 200;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *request = NULL;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t unpatient = UCXX_OP_PARAMS_INIT;
  memset(&now, 0, sizeof now);
  params.on_open = params.on_close = see_endpoint;
  params.on_open_arg = &now.opened;
  params.on_close_arg = &now.closed;
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &endpoint));
  CHECK(ucxx_am_send(endpoint, ID, NULL, 0, "hello", 5, NULL, NULL) >= 0);
  while (seen_count(&now.opened) == 0 || !now.greeted) progress(pair->worker);
  pair_sync(pair);
  unpatient.flags = UCXX_FLAG_NO_WAIT;
  while (messages-- > 0 && seen_count(&now.closed) == 0) {
    if (pair->side == 0)
      CHECK(ucxx_am_send(endpoint, ID, NULL, 0, big, 30000 + test_mix(chance + messages) % 160000,
                         &unpatient, NULL) <= UCXX_INPROGRESS);
    progress(pair->worker);
  }
  if (pair->side == closer)
    CHECK_OK(finish(force ? ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &request)
                          : close_patiently(endpoint, &request),
                    &request));
  while (seen_count(&now.closed) == 0) progress(pair->worker);
  if (pair->side != closer) CHECK_STATUS(now.closed.status, UCXX_ERR_CONNECTION_RESET);
  ucxx_endpoint_destroy(endpoint);
  pair_sync(pair);
}

static void body(pair_t *pair) {
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, NULL, &pair->worker));
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, on_message, NULL, NULL));
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  for (unsigned at = 0; at < test_rounds(ROUNDS); at++) {
    uint64_t chance = test_mix(pair->seed + at);
    STEP("round %u, %s closes by %s", at, chance % 2 == 0 ? "the sender" : "the receiver",
         chance / 2 % 2 ? "force" : "flush");
    round_of(pair, address, chance);
  }
  ucxx_address_destroy(address);
  ucxx_worker_destroy(pair->worker);
  ucxx_context_destroy(pair->context);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "reconnect", body); }
