/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ping_pong.c: two processes that send each other messages of each kind, for test_trace.py.
 *
 *     ping_pong 0|1 SOCKET_PATH
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#define ROUNDS 40
#define TAG 7
#define MESSAGE 3
#define QUESTION 4

static int arrived, asked;

static void on_message(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  arrived++;
  ucxx_am_message_destroy(message);
}

static void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  static const uint64_t reply = 42;
  ucxx_status_t status = ucxx_fetch_reply(fetch, &reply, sizeof reply, NULL, NULL);
  (void)arg;
  asked++;
  require(status == UCXX_OK || status == UCXX_INPROGRESS, "a reply");
  ucxx_fetch_destroy(fetch);
}

static void await(struct pair *pair, const int *count, int wanted) {
  while (*count < wanted) check(ucxx_worker_wait(pair->worker, PAIR_TIMEOUT_NS), "a message");
}

static void send_message(struct pair *pair) {
  char data[100] = "data";
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_am_send(pair->endpoint, MESSAGE, "h", 1, data, sizeof data, NULL, &request);
  check(outcome(status, request), "a message");
}

static void send_tag(struct pair *pair) {
  char data[200] = "data";
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_send(pair->endpoint, data, sizeof data, TAG, NULL, &request);
  check(outcome(status, request), "a tag message");
}

static void receive_tag(struct pair *pair) {
  char data[200];
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_tag_recv(pair->worker, data, sizeof data, TAG, PAIR_ALL_BITS, NULL, &request);
  check(outcome(status, request), "a tag message arrives");
}

static void fetch(struct pair *pair) {
  uint64_t reply = 0;
  ucxx_request_t *request = NULL;
  ucxx_status_t status =
      ucxx_am_fetch(pair->endpoint, QUESTION, NULL, 0, &reply, sizeof reply, NULL, &request);
  check(outcome(status, request), "a fetch");
  require(reply == 42, "the reply's contents");
}

int main(int argc, char **argv) {
  struct pair pair;
  pair_open(&pair, argc, argv);
  check(ucxx_worker_set_am_handler(pair.worker, MESSAGE, on_message, NULL, NULL), "a handler");
  check(ucxx_worker_set_fetch_handler(pair.worker, QUESTION, on_fetch, NULL, NULL), "a handler");
  if (exchange_barrier(&pair.exchange, pair.worker, PAIR_TIMEOUT_NS) != 0) give_up();
  for (int round = 1; round <= ROUNDS; round++) {
    if (pair.rank == 0) {
      send_message(&pair);
      await(&pair, &arrived, round);
      send_tag(&pair);
      receive_tag(&pair);
      fetch(&pair);
    } else {
      await(&pair, &arrived, round);
      send_message(&pair);
      receive_tag(&pair);
      send_tag(&pair);
      await(&pair, &asked, round);
    }
  }
  pair_close(&pair);
  return 0;
}
