/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Closing an endpoint whose peer does not look: what the close waits for so that the peer hears of the connection at all is not waited for where it has heard
 * already, and running out of the caller's time while it is waited for is no failure.
 */
#include "test_util.h"

/* A second, for which the peer would be waited for, is millions of passes. */
enum { FEW_PASSES = 20000 };

static void open_pair(duo_t *duo, seen_t *closed) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_address_t *address = NULL;
  memset(duo, 0, sizeof *duo);
  memset(closed, 0, sizeof *closed);
  params.on_close = see_endpoint;
  params.on_close_arg = closed;
  CHECK_OK(ucxx_context_create(NULL, &duo->context));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->left));
  CHECK_OK(ucxx_worker_create(duo->context, NULL, &duo->right));
  CHECK_OK(ucxx_worker_address(duo->right, &address));
  CHECK_OK(ucxx_endpoint_create(duo->left, address, &params, &duo->to_right));
  ucxx_address_destroy(address);
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

/* The peer has answered, and its answer has not been read yet. */
static void answered_already(void) {
  duo_t duo;
  seen_t closed;
  ucxx_request_t *close = NULL;
  int is_met = 0, passes = 0;
  STEP("a peer that has answered, and does not look any more");
  open_pair(&duo, &closed);
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

/* UCX's connection stands, and the peer has not read what came on it. `cancels`: the close, in place of a time that runs out. */
static void never_answers(int cancels) {
  duo_t duo;
  seen_t closed;
  ucxx_request_t *flush = NULL, *close = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  STEP("a peer that never answers, %s", cancels ? "a close that is cancelled" : "a close with a time");
  open_pair(&duo, &closed);
  CHECK_OK(ucxx_worker_progress(duo.left, NULL));
  ucxx_status_t status = ucxx_endpoint_flush(duo.to_right, NULL, &flush);
  while (status == UCXX_INPROGRESS) {
    CHECK_OK(ucxx_worker_progress(duo.right, NULL));
    CHECK_OK(ucxx_worker_progress(duo.left, NULL));
    status = ucxx_request_status(flush);
  }
  CHECK_OK(status);
  ucxx_request_destroy(flush);
  if (!cancels) params.timeout_ns = 50 * MILLISECOND;
  status = ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FLUSH, &params, &close);
  for (int passes = 0; passes < 10; passes++) CHECK_OK(ucxx_worker_progress(duo.left, NULL));
  if (cancels && close != NULL) CHECK_OK(ucxx_request_cancel(close));
  CHECK_OK(finish(status, &close));
  close_pair(&duo, &closed);
}

int main(void) {
  test_begin("close_unheard", 60);
  answered_already();
  never_answers(0);
  never_answers(1);
  return 0;
}
