/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer that does not progress is given up, once or several times, before it has read anything of
 * the connection. Everything sent on the next endpoint to it arrives, from the first message on.
 * Also: endpoints first used in another order than created, some of them never.
 */
#include "test_util.h"

enum {
  ROUNDS = 2,
  MOST_TRIES = 3,
  MESSAGES = 4,
  AT_ONCE = 6,
  ID = 5,
  ANSWER = 6,
  LOST = UINT16_MAX
};

typedef struct numbers {
  uint64_t came[ROUNDS * AT_ONCE * MESSAGES], answers;
} numbers_t;

static void on_message(void *arg, ucxx_am_message_t *message) {
  numbers_t *numbers = arg;
  uint16_t number = 0;
  ucxx_request_t *request = NULL;
  CHECK_EQ(ucxx_am_message_length(message), sizeof number);
  memcpy(&number, ucxx_am_message_data(message), sizeof number);
  if (number != LOST) {
    numbers->came[number]++;
    CHECK(ucxx_am_send(ucxx_am_message_reply(message), ANSWER, &number, sizeof number, NULL, 0,
                       NULL, &request) >= 0);
    ucxx_request_destroy(request);
  }
  ucxx_am_message_destroy(message);
}

static void on_answer(void *arg, ucxx_am_message_t *message) {
  numbers_t *numbers = arg;
  numbers->answers++;
  ucxx_am_message_destroy(message);
}

static void say(ucxx_endpoint_t *endpoint, const uint16_t *number) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  params.flags = UCXX_FLAG_AM_REPLY;
  CHECK(ucxx_am_send(endpoint, ID, NULL, 0, number, sizeof *number, &params, &request) >= 0);
  ucxx_request_destroy(request);
}

static void open_workers(duo_t *duo, numbers_t *numbers, ucxx_address_t **address) {
  memset(numbers, 0, sizeof *numbers);
  CHECK_OK(ucxx_context_create(NULL, &duo->context));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->left));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->right));
  CHECK_OK(ucxx_worker_address(duo->right, address));
  CHECK_OK(ucxx_worker_set_am_handler(duo->right, ID, on_message, numbers, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo->left, ANSWER, on_answer, numbers, NULL));
}

static void close_workers(duo_t *duo, ucxx_address_t *address) {
  ucxx_address_destroy(address);
  ucxx_worker_destroy(duo->left);
  ucxx_worker_destroy(duo->right);
  ucxx_context_destroy(duo->context);
}

static ucxx_endpoint_t *endpoint_to(ucxx_worker_t *worker, const ucxx_address_t *address,
                                    int32_t error_handling) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_endpoint_t *endpoint = NULL;
  params.error_handling = error_handling;
  CHECK_OK(ucxx_endpoint_create(worker, address, &params, &endpoint));
  return endpoint;
}

/* The peer makes no progress meanwhile. Without error handling UCX keeps its own endpoint until the
 * worker ends. */
static void give_up(const duo_t *duo, const ucxx_address_t *address, int32_t error_handling,
                    uint64_t passes) {
  static const uint16_t lost = LOST;
  ucxx_request_t *close = NULL;
  ucxx_endpoint_t *endpoint = endpoint_to(duo->left, address, error_handling);
  say(endpoint, &lost);
  while (passes-- > 0) progress(duo->left);
  CHECK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close) >= 0);
  while (close != NULL && ucxx_request_status(close) == UCXX_INPROGRESS) progress(duo->left);
  ucxx_request_destroy(close);
  ucxx_endpoint_destroy(endpoint);
}

static void after_others(int32_t error_handling, uint64_t seed) {
  static numbers_t numbers;
  static uint16_t number[ROUNDS * MESSAGES];
  duo_t duo = {0};
  ucxx_address_t *address = NULL;
  open_workers(&duo, &numbers, &address);
  uint64_t sent = 0;
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t random = test_mix(seed + (uint64_t)round);
    for (uint64_t tries = 1 + random % MOST_TRIES; tries > 0; tries--)
      give_up(&duo, address, error_handling, (random >> tries & 1) * 100);
    STEP("error handling %d, round %d", error_handling, round);
    ucxx_endpoint_t *endpoint = endpoint_to(duo.left, address, error_handling);
    for (int at = 0; at < MESSAGES; at++, sent++) {
      number[sent] = (uint16_t)sent;
      say(endpoint, &number[sent]);
    }
    while (numbers.answers < sent) duo_progress(&duo);
    duo_drop(&duo, endpoint);
  }
  for (uint64_t at = 0; at < sent; at++) CHECK_EQ(numbers.came[at], 1);
  close_workers(&duo, address);
}

/* The peer that was given up connects to this side, where UCX has already used the slot that would
 * be paired with it. UCX needs time to tell both sides. Before that it pairs the next endpoint with
 * the abandoned one (docs/connections.md): then the endpoint ends, and the one after it works. */
static void the_other_way(uint64_t seed) {
  static numbers_t numbers, back;
  static uint16_t number[(MOST_TRIES + 1) * MESSAGES];
  const uint64_t given_up = 1 + seed % MOST_TRIES;
  uint16_t sent = 0;
  duo_t duo = {0};
  ucxx_address_t *address = NULL, *to_left = NULL;
  memset(&back, 0, sizeof back);
  open_workers(&duo, &numbers, &address);
  CHECK_OK(ucxx_worker_address(duo.left, &to_left));
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ID, on_message, &back, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, ANSWER, on_answer, &back, NULL));
  for (uint64_t at = 0; at < given_up; at++)
    give_up(&duo, address, UCXX_ENDPOINT_ERROR_HANDLING_PEER, 0);
  for (int pass = 0; pass < 5000; pass++) duo_progress(&duo);
  for (uint64_t pairs = 0, arrived = 0; !arrived; pairs++) {
    STEP("the other way, after %d endpoints", (int)pairs);
    CHECK(pairs <= given_up);
    ucxx_endpoint_t *endpoint = endpoint_to(duo.right, to_left, UCXX_ENDPOINT_ERROR_HANDLING_PEER);
    const uint64_t answers = back.answers;
    for (const int end = sent + MESSAGES; sent < end; sent++) {
      number[sent] = sent;
      say(endpoint, &number[sent]);
    }
    while (back.answers < answers + MESSAGES && ucxx_endpoint_status(endpoint) >= 0)
      duo_progress(&duo);
    arrived = back.answers == answers + MESSAGES;
    duo_drop(&duo, endpoint);
  }
  for (int at = 0; at < sent; at++) CHECK(back.came[at] <= 1);
  for (int at = sent - MESSAGES; at < sent; at++) CHECK_EQ(back.came[at], 1);
  ucxx_address_destroy(to_left);
  close_workers(&duo, address);
}

static void in_any_order(uint64_t seed) {
  static numbers_t numbers;
  static uint16_t number[ROUNDS * AT_ONCE * MESSAGES];
  duo_t duo = {0};
  ucxx_address_t *address = NULL;
  open_workers(&duo, &numbers, &address);
  uint64_t sent = 0;
  for (int round = 0; round < ROUNDS; round++) {
    ucxx_endpoint_t *endpoints[AT_ONCE] = {NULL};
    int order[AT_ONCE], used = AT_ONCE - round;
    STEP("in any order, round %d", round);
    for (int at = 0; at < AT_ONCE; at++) {
      CHECK_OK(ucxx_endpoint_create(duo.left, address, NULL, &endpoints[at]));
      int other = (int)(test_mix(seed + (uint64_t)(round * AT_ONCE + at)) % (uint64_t)(at + 1));
      order[at] = order[other];
      order[other] = at;
    }
    for (int at = 0; at < used; at++) {
      for (int n = 0; n < MESSAGES; n++, sent++) {
        number[sent] = (uint16_t)sent;
        say(endpoints[order[at]], &number[sent]);
      }
      /* Some of them are sent together. */
      while (at % 2 == 1 && numbers.answers < sent) duo_progress(&duo);
    }
    while (numbers.answers < sent) duo_progress(&duo);
    for (int at = 0; at < AT_ONCE; at++) duo_drop(&duo, endpoints[at]);
  }
  for (uint64_t at = 0; at < sent; at++) CHECK_EQ(numbers.came[at], 1);
  close_workers(&duo, address);
}

int main(void) {
  test_begin("connect_abandoned");
  uint64_t seed = test_seed();
  in_any_order(seed);
  the_other_way(seed);
  after_others(UCXX_ENDPOINT_ERROR_HANDLING_PEER, seed);
  after_others(UCXX_ENDPOINT_ERROR_HANDLING_NONE, seed);
  return 0;
}
