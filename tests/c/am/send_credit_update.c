/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer that waits for credit receives its credit updates in these cases:
 * - many flushes or multi-buffer sends to it are in flight
 * - an update was sent before the peer knew this side
 * - the credit belongs to a fetch
 * - another peer's message is next in the receive queue
 *
 * Such flushes do not block the reply to its liveness check either.
 */
#include "test_util.h"

enum {
  KEPT = 1,
  DROPPED,
  GREETING,
  EARLY,
  FOREIGN,
  TAG = 9,
  CREDIT = 256,
  MANY = 70,
  CROWD = 30,
  LONG = 4 << 20
};
/* A long message needs most of the 8 MiB and 256 KiB of credit. The messages destroyed without an
 * update take 2110 KiB, and so do those sent early: more than a quarter. */
enum { SENT_EARLY = 5, LONGEST = 8 << 20 };
static const size_t without_a_word[] = {1 << 20, 1 << 20, 59 << 10};

static duo_t duo;
static uint8_t data[LONGEST], room[LONG];
static ucxx_am_message_t *messages[CREDIT];
static ucxx_fetch_t *question;
static int kept, dropped, early, foreign;

static void keep(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK(kept < CREDIT);
  messages[kept++] = message;
}

static void drop(void *arg, ucxx_am_message_t *message) {
  ucxx_am_message_destroy(message);
  ++*(int *)arg;
}

static void ask(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  question = fetch;
}

static void send_as(ucxx_endpoint_t *endpoint, uint16_t id, size_t length, uint64_t flags) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  CHECK(ucxx_am_send(endpoint, id, NULL, 0, data, length, &params, NULL) >= 0);
}

static void send_short(ucxx_endpoint_t *endpoint, uint16_t id) { send_as(endpoint, id, 8, 0); }

static void await(const int *number, int least) {
  while (*number < least) duo_progress(&duo);
  CHECK_EQ(*number, least);
}

static void start(const ucxx_endpoint_params_t *params) {
  kept = dropped = early = foreign = 0;
  question = NULL;
  duo_open_as(&duo, NULL, params);
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, KEPT, keep, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, DROPPED, drop, &dropped, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, FOREIGN, drop, &foreign, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(duo.right, KEPT, ask, NULL, NULL));
}

/* Another worker that sends to this one. */
static duo_t connect_another(ucxx_worker_t *to) {
  duo_t others = {.context = duo.context, .right = to};
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &others.left));
  others.to_right = connect_workers(others.left, to);
  duo_transfer(&others, 8, 3);
  return others;
}

static void drop_another(const duo_t *others) {
  duo_drop(others, others->to_right);
  ucxx_worker_destroy(others->left);
}

static void end(void) {
  while (kept > 0) ucxx_am_message_destroy(messages[--kept]);
  duo_close(&duo);
}

/* ------------------------------------------------------------------ sends in flight from right to
 * left, until left receives */

static ucxx_request_t *under_way[MANY], *in_front;

static void begin_flushes(void) {
  CHECK_STATUS(ucxx_tag_send(duo.to_left, data, LONG, TAG, NULL, &in_front), UCXX_INPROGRESS);
  for (int at = 0; at < MANY; at++)
    CHECK_STATUS(ucxx_endpoint_flush(duo.to_left, NULL, &under_way[at]), UCXX_INPROGRESS);
}

static void end_flushes(void) {
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.left, room, LONG, TAG, UINT64_MAX, NULL, &request),
                      &request));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &in_front));
}

static void begin_multi(void) {
  ucxx_buffer_t buffer = {.data = data, .length = 1 << 20};
  for (int at = 0; at < MANY; at++)
    CHECK_STATUS(ucxx_tag_send_multi(duo.to_left, &buffer, 1, TAG, NULL, &under_way[at]),
                 UCXX_INPROGRESS);
}

static void end_multi(void) {
  for (int at = 0; at < MANY; at++) {
    ucxx_request_t *request = NULL;
    CHECK_OK(duo_finish(&duo, ucxx_tag_recv_multi(duo.left, TAG, UINT64_MAX, NULL, NULL, &request),
                        &request));
  }
}

static void end_under_way(void (*receive)(void)) {
  for (int at = 0; at < MANY; at++)
    CHECK_STATUS(ucxx_request_status(under_way[at]), UCXX_INPROGRESS);
  receive();
  for (int at = 0; at < MANY; at++) CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &under_way[at]));
}

static void amid(const char *what, void (*begin)(void), void (*receive)(void)) {
  STEP("credit amid %s", what);
  start(NULL);
  begin();
  for (int sent = 1; sent <= 3 * CREDIT; sent++) {
    send_short(duo.to_right, DROPPED);
    await(&dropped, sent);
  }
  end_under_way(receive);
  end();
}

static void sign_of_life_amid_flushes(void) {
  STEP("a liveness check amid flushes");
  ucxx_endpoint_params_t watchful = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t while_it_asks = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL, *send = NULL;
  watchful.liveness_ns = 200 * MILLISECOND;
  while_it_asks.timeout_ns = 5 * watchful.liveness_ns;
  start(&watchful);
  begin_flushes();
  /* A side checks liveness while an operation of its own is in flight. */
  CHECK_STATUS(ucxx_tag_send(duo.to_right, data, LONG, TAG, NULL, &send), UCXX_INPROGRESS);
  ucxx_status_t status =
      ucxx_tag_recv(duo.left, room, 8, TAG + 1, UINT64_MAX, &while_it_asks, &request);
  CHECK_STATUS(duo_finish(&duo, status, &request), UCXX_ERR_TIMED_OUT);
  CHECK_OK(ucxx_endpoint_status(duo.to_right));
  end_under_way(end_flushes);
  CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, room, LONG, TAG, UINT64_MAX, NULL, &request),
                      &request));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &send));
  end();
}

/* ------------------------------------------------------------------ before left knows right */

/* Sent together with right's own Welcome. */
static void greet(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK_OK(ucxx_endpoint_retain(ucxx_am_message_reply(message), &duo.to_left));
  for (int at = 0; at < SENT_EARLY; at++) send_short(duo.to_left, EARLY);
  ucxx_am_message_destroy(message);
}

/* Left answers once, which shows that all of them were destroyed. */
static void answer(void *arg, ucxx_am_message_t *message) {
  drop(arg, message);
  if (early == SENT_EARLY) send_short(duo.to_right, DROPPED);
}

static void told_too_early(void) {
  STEP("credit returned before the handshake has finished");
  kept = dropped = early = 0;
  memset(&duo, 0, sizeof duo);
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, GREETING, greet, NULL, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.right, DROPPED, drop, &dropped, NULL));
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, EARLY, answer, &early, NULL));
  duo.to_right = connect_workers(duo.left, duo.right);
  send_as(duo.to_right, GREETING, 8, UCXX_FLAG_AM_REPLY);
  /* Left has so much to read that one pass takes the Welcome and the messages behind it. */
  duo_t others = connect_another(duo.left);
  while (duo.to_left == NULL) {
    for (int pass = 0; pass < 200; pass++) duo_progress(&others);
    for (int sent = 0; sent < CROWD; sent++)
      CHECK(ucxx_tag_send(others.to_right, data, 8, TAG, NULL, NULL) >= 0);
    progress(duo.right);
  }
  await(&dropped, 1);
  for (size_t at = 0; at < sizeof without_a_word / sizeof *without_a_word; at++) {
    send_as(duo.to_left, EARLY, without_a_word[at], UCXX_FLAG_EAGER);
    await(&early, SENT_EARLY + (int)at + 1);
  }
  send_as(duo.to_left, EARLY, LONGEST, UCXX_FLAG_EAGER);
  await(&early, SENT_EARLY + 4);
  drop_another(&others);
  end();
}

/* ------------------------------------------------------------------ one slot is left */

static void keep_all_but_one(void) {
  for (int sent = 1; sent < CREDIT; sent++) {
    send_short(duo.to_right, KEPT);
    await(&kept, sent);
  }
}

static void credit_of_a_question(void) {
  STEP("credit of a fetch that stays unanswered");
  ucxx_request_t *fetch = NULL;
  uint64_t word = 0;
  start(NULL);
  keep_all_but_one();
  CHECK_STATUS(ucxx_am_fetch(duo.to_right, KEPT, NULL, 0, &word, sizeof word, NULL, &fetch),
               UCXX_INPROGRESS);
  while (question == NULL) duo_progress(&duo);
  send_short(duo.to_right, KEPT);
  await(&kept, CREDIT);
  ucxx_fetch_destroy(question);
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &fetch), UCXX_ERR_CANCELED);
  end();
}

static void another_peer_is_next(void) {
  STEP("credit where another peer's message is next");
  start(NULL);
  duo_t others = connect_another(duo.right);
  keep_all_but_one();
  /* Right does not progress meanwhile. */
  for (int sent = 0; sent < CROWD; sent++) {
    if (sent == CROWD - CROWD / 4) send_short(duo.to_right, DROPPED);
    send_short(others.to_right, FOREIGN);
  }
  while (foreign < CROWD) duo_progress(&others);
  await(&dropped, 1);
  send_short(duo.to_right, KEPT);
  await(&kept, CREDIT);
  drop_another(&others);
  end();
}

int main(void) {
  test_begin("send_credit_update");
  amid("flushes", begin_flushes, end_flushes);
  amid("sends of several buffers", begin_multi, end_multi);
  sign_of_life_amid_flushes();
  told_too_early();
  credit_of_a_question();
  another_peer_is_next();
  return 0;
}
