/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Endpoints closed without traffic leave nothing behind that could be mistaken for a later endpoint
 * to the same peer: every later message arrives on the right one. */
#include "test_util.h"

enum { ROUNDS = 30, MOST_UNUSED = 3, MESSAGES = 4, ID = 5, ANSWER = 6 };

typedef struct side {
  int came, answers;
  uint64_t next;
} side_t;

static void on_message(void *arg, ucxx_am_message_t *message) {
  side_t *side = arg;
  uint64_t number = 0;
  CHECK_EQ(ucxx_am_message_length(message), sizeof number);
  memcpy(&number, ucxx_am_message_data(message), sizeof number);
  CHECK_EQ(number, side->next);
  side->next++;
  __atomic_fetch_add(&side->came, 1, __ATOMIC_RELEASE);
  ucxx_request_t *request = NULL;
  CHECK(ucxx_am_send(ucxx_am_message_reply(message), ANSWER, &number, sizeof number, NULL, 0, NULL,
                     &request) >= 0);
  ucxx_request_destroy(request);
  ucxx_am_message_destroy(message);
}

static void on_answer(void *arg, ucxx_am_message_t *message) {
  side_t *side = arg;
  ucxx_am_message_destroy(message);
  __atomic_fetch_add(&side->answers, 1, __ATOMIC_RELEASE);
}

static void until_done(const duo_t *duo, ucxx_request_t **request) {
  while (*request != NULL && ucxx_request_status(*request) == UCXX_INPROGRESS) {
    progress(duo->left);
    progress(duo->right);
  }
  ucxx_request_destroy(*request);
  *request = NULL;
}

/* Creates and closes an endpoint in one of the ways in which nothing is sent on it. */
static void make_unused(ucxx_worker_t *worker, const ucxx_address_t *address, uint64_t way,
                        seen_t *closed) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_endpoint_t *endpoint = NULL;
  if (way & 1) {
    params.on_close = see_endpoint;
    params.on_close_arg = closed;
  }
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &endpoint));
  if (way & 2) {
    ucxx_op_params_t waits = UCXX_OP_PARAMS_INIT;
    waits.flags = UCXX_FLAG_WAIT;
    if (way & 8) CHECK_OK(ucxx_endpoint_flush(endpoint, &waits, NULL));
    CHECK_OK(
        ucxx_endpoint_close(endpoint, way & 4 ? UCXX_CLOSE_FORCE : UCXX_CLOSE_FLUSH, &waits, NULL));
  }
  ucxx_endpoint_destroy(endpoint);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  duo_t duo = {0};
  side_t left = {0}, right = {0};
  uint64_t seed = test_seed();
  ucxx_address_t *address = NULL;
  STEP("%s", mode);
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, params, &duo.right));
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ID, on_message, &right, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ANSWER, on_answer, &left, NULL));
  int expected = 0, unused = 0;
  seen_t closed = {0};
  for (int at = 0; at < ROUNDS; at++) {
    uint64_t random = test_mix(seed + (uint64_t)at);
    for (uint64_t n = random % (MOST_UNUSED + 1); n > 0; n--) {
      random = test_mix(random);
      make_unused(duo.left, address, random, &closed);
      unused += random & 1;
    }
    ucxx_endpoint_t *endpoint = NULL;
    CHECK_OK(ucxx_endpoint_create(duo.left, address, NULL, &endpoint));
    for (int n = 0; n < MESSAGES; n++) {
      uint64_t number = (uint64_t)expected++;
      ucxx_op_params_t send = UCXX_OP_PARAMS_INIT;
      ucxx_request_t *request = NULL;
      send.flags = UCXX_FLAG_AM_REPLY;
      CHECK(ucxx_am_send(endpoint, ID, NULL, 0, &number, sizeof number, &send, &request) >= 0);
      until_done(&duo, &request);
    }
    STEP("%s: round %d", mode, at);
    while (__atomic_load_n(&left.answers, __ATOMIC_ACQUIRE) < expected) {
      progress(duo.left);
      progress(duo.right);
    }
    CHECK_EQ(right.came, expected);
    ucxx_request_t *close = NULL;
    CHECK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, NULL, &close) >= 0);
    until_done(&duo, &close);
    ucxx_endpoint_destroy(endpoint);
  }
  while (seen_count(&closed) < unused) {
    progress(duo.left);
    progress(duo.right);
  }
  ucxx_address_destroy(address);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

/* A worker flush does not wait for a peer that does not progress and to which nothing was sent. */
static void flush_of_all(int32_t error_handling) {
  duo_t duo = {0};
  ucxx_address_t *address = NULL;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t waits = UCXX_OP_PARAMS_INIT;
  STEP("a flush of the worker, error handling %d", error_handling);
  params.error_handling = error_handling;
  waits.flags = UCXX_FLAG_WAIT;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  for (int at = 0; at < 3; at++) {
    ucxx_endpoint_t *endpoint = NULL;
    CHECK_OK(ucxx_endpoint_create(duo.left, address, &params, &endpoint));
    ucxx_endpoint_destroy(endpoint);
    CHECK_OK(ucxx_worker_flush(duo.left, &waits, NULL));
  }
  ucxx_address_destroy(address);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

int main(void) {
  test_begin("endpoint_unused");
  flush_of_all(UCXX_ENDPOINT_ERROR_HANDLING_PEER);
  flush_of_all(UCXX_ENDPOINT_ERROR_HANDLING_NONE);
  in_every_mode(round_of);
  return 0;
}
