/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Closing an endpoint whose peer does not progress. The close does not wait for a peer that has
 * already acknowledged the connection. If the caller's timeout expires during the wait, the close
 * still succeeds.
 */
#include "test_util.h"

#include <poll.h>

/* The close would wait a second for the peer: millions of passes. */
enum { FEW_PASSES = 20000 };

static void open_pair(duo_t *duo, seen_t *closed, const ucxx_context_params_t *context) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  memset(duo, 0, sizeof *duo);
  memset(closed, 0, sizeof *closed);
  params.on_close = see_endpoint;
  params.on_close_arg = closed;
  CHECK_OK(ucxx_context_create(context, &duo->context));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->left));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->right));
  duo->to_right = connect_workers_as(duo->left, duo->right, &params);
}

static void close_pair(duo_t *duo, const seen_t *closed) {
  CHECK_EQ(seen_count(closed), 1);
  CHECK_EQ(closed->status, UCXX_OK);
  ucxx_endpoint_destroy(duo->to_right);
  ucxx_worker_destroy(duo->left);
  ucxx_worker_destroy(duo->right);
  ucxx_context_destroy(duo->context);
}

static void look_for_end(void *arg, const char *line) {
  if (strstr(line, "unclaimed") != NULL) *(int *)arg = 1;
}

/* The peer has answered, and this side has not read the answer yet. */
static void answered_already(void) {
  duo_t duo;
  seen_t closed;
  ucxx_request_t *close = NULL;
  int is_met = 0, passes = 0;
  STEP("a peer that has answered and no longer progresses");
  open_pair(&duo, &closed, NULL);
  while (!is_met) {
    CHECK_OK(ucxx_worker_progress(duo.left, NULL));
    CHECK_OK(ucxx_worker_progress(duo.right, NULL));
    CHECK_OK(ucxx_worker_dump(duo.right, look_for_end, &is_met));
  }
  ucxx_status_t status = ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, NULL, &close);
  while (status == UCXX_INPROGRESS) {
    CHECK(passes++ < FEW_PASSES);
    CHECK_OK(ucxx_worker_progress(duo.left, NULL));
    status = ucxx_request_status(close);
  }
  CHECK_OK(status);
  ucxx_request_destroy(close);
  close_pair(&duo, &closed);
}

/* UCX has connected, and the peer has not read the library's Hello. */
static void open_unheard(duo_t *duo, seen_t *closed, const ucxx_context_params_t *context) {
  ucxx_request_t *flush = NULL;
  open_pair(duo, closed, context);
  CHECK_OK(ucxx_worker_progress(duo->left, NULL));
  ucxx_status_t status = ucxx_endpoint_flush(duo->to_right, NULL, &flush);
  while (status == UCXX_INPROGRESS) {
    CHECK_OK(ucxx_worker_progress(duo->right, NULL));
    CHECK_OK(ucxx_worker_progress(duo->left, NULL));
    status = ucxx_request_status(flush);
  }
  CHECK_OK(status);
  ucxx_request_destroy(flush);
}

enum way { TIME, TIME_CLOSES, CANCEL, CANCEL_TWICE, WAYS };

/* The close is cancelled, or its timeout expires. */
static void never_answers(enum way way) {
  duo_t duo;
  seen_t closed;
  ucxx_request_t *close = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  STEP("a peer that never answers, way %d", way);
  open_unheard(&duo, &closed, NULL);
  /* Its last message must leave in this time. */
  if (way == TIME || way == TIME_CLOSES) params.timeout_ns = 500 * MILLISECOND;
  if (way == TIME_CLOSES) params.flags = UCXX_FLAG_TIMEOUT_CLOSES;
  ucxx_status_t status = ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, &params, &close);
  for (int passes = 0; passes < 10; passes++) CHECK_OK(ucxx_worker_progress(duo.left, NULL));
  for (int times = way - CANCEL + 1; times > 0 && close != NULL; times--)
    CHECK_OK(ucxx_request_cancel(close));
  CHECK_OK(finish(status, &close));
  close_pair(&duo, &closed);
}

typedef struct pull {
  unsigned char *buffer;
  size_t length;
  ucxx_request_t *request;
  int count;
} pull_t;

static void pull_message(void *arg, ucxx_am_message_t *message) {
  pull_t *pull = arg;
  CHECK(ucxx_am_message_recv(message, pull->buffer, pull->length, NULL, &pull->request) >= 0);
  ucxx_am_message_destroy(message);
  pull->count++;
}

/* A rendezvous message arrives behind the close, and is pulled from a peer that does not progress.
 * The close's timeout ends the pull. */
static void pulls_meanwhile(void) {
  enum { LENGTH = 4 << 20, ID = 5 };
  duo_t duo;
  seen_t closed, closed_there = {0};
  /* Without CMA the data arrives only when the peer progresses. */
  ucxx_config_entry_t entry = {"TLS", "posix,self"};
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t sends = UCXX_OP_PARAMS_INIT, closes = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *send = NULL, *close = NULL;
  unsigned char *out = test_alloc(LENGTH);
  pull_t pull = {.buffer = test_alloc(LENGTH), .length = LENGTH};
  STEP("a pull that never completes, during a close with a timeout");
  context.config = &entry;
  context.config_count = 1;
  memset(out, 1, LENGTH);
  open_unheard(&duo, &closed, &context);
  CHECK_OK(ucxx_worker_set_am_handler(duo.left, ID, pull_message, &pull, NULL));
  params.on_close = see_endpoint;
  params.on_close_arg = &closed_there;
  duo.to_left = connect_workers_as(duo.right, duo.left, &params);
  sends.flags = UCXX_FLAG_RNDV;
  CHECK(ucxx_am_send(duo.to_left, ID, NULL, 0, out, LENGTH, &sends, &send) >= 0);
  closes.timeout_ns = 50 * MILLISECOND;
  ucxx_status_t status =
      finish(ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, &closes, &close), &close);
  CHECK_STATUS(status, pull.count == 0 ? UCXX_OK : UCXX_ERR_TIMED_OUT);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_request_destroy(send);
  ucxx_request_destroy(pull.request);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
  free(out);
  free(pull.buffer);
}

/* An event loop that cancels a close while armed is woken. The peer does not receive a send, so the
 * close would otherwise take all its time. */
static void cancels_while_armed(void) {
  enum { LENGTH = 4 << 20 };
  duo_t duo;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_request_t *send = NULL, *close = NULL;
  ucxx_op_params_t closes = UCXX_OP_PARAMS_INIT;
  unsigned char *out = test_alloc(LENGTH);
  int descriptor = -1, is_cancelled = 0;
  STEP("a close cancelled while the loop is armed");
  memset(out, 1, LENGTH);
  /* Without error handling there is no keepalive, which would also wake the loop. */
  params.error_handling = UCXX_ENDPOINT_ERROR_HANDLING_NONE;
  duo_open_as(&duo, NULL, &params);
  CHECK_STATUS(ucxx_tag_send(duo.to_right, out, LENGTH, 3, NULL, &send), UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_event_fd(duo.left, &descriptor));
  closes.timeout_ns = PATIENTLY;
  CHECK_STATUS(ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, &closes, &close),
               UCXX_INPROGRESS);
  while (ucxx_request_status(close) == UCXX_INPROGRESS) {
    struct pollfd look = {.fd = descriptor, .events = POLLIN};
    uint32_t events;
    do { CHECK_OK(ucxx_worker_progress(duo.left, &events)); } while (events > 0);
    if (ucxx_request_status(close) != UCXX_INPROGRESS || ucxx_worker_arm(duo.left) == UCXX_ERR_BUSY)
      continue;
    if (!is_cancelled) CHECK_OK(ucxx_request_cancel(close));
    is_cancelled = 1;
    poll(&look, 1, -1);
  }
  CHECK_STATUS(ucxx_request_status(close), UCXX_ERR_CANCELED);
  ucxx_request_destroy(close);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_request_destroy(send);
  ucxx_context_destroy(duo.context);
  free(out);
}

int main(void) {
  test_begin("close_unheard");
  answered_already();
  for (int way = TIME; way < WAYS; way++) never_answers((enum way)way);
  pulls_meanwhile();
  cancels_while_armed();
  return 0;
}
