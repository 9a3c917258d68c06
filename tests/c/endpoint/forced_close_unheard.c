/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A close by force in the middle of a large message over TCP. The close waits for a peer that
 * reads, so that the peer is notified. If the peer does not read, UCX cuts the message, and the
 * peer does not learn of the end: the library says so.
 */
#include "test_util.h"

#include <stdbool.h>

enum { LENGTH = 64 << 20, PASSES = 200 };

static int warnings;

static void on_log(void *arg, int32_t level, const char *component, const char *message) {
  (void)arg;
  (void)level;
  (void)component;
  if (strstr(message, "may not hear of it") != NULL) warnings++;
}

static void pass(ucxx_worker_t *worker, int times) {
  for (int at = 0; at < times; at++) CHECK_OK(ucxx_worker_progress(worker, NULL));
}

/* The peer makes a pass now and then, or none, while this side closes. */
static void close_to(bool reads) {
  duo_t duo;
  seen_t ends[2] = {{0}, {0}};
  ucxx_request_t *close = NULL, *receive = NULL;
  ucxx_op_params_t from_left = UCXX_OP_PARAMS_INIT;
  char *from = calloc(1, LENGTH), *into = malloc(LENGTH);
  CHECK(from != NULL && into != NULL);
  warnings = 0;
  duo_open_seen(&duo, ends);

  from_left.source = duo.to_left;
  CHECK(ucxx_tag_recv(duo.right, into, LENGTH, 3, UINT64_MAX, &from_left, &receive) >= 0);
  CHECK(ucxx_tag_send(duo.to_right, from, LENGTH, 3, NULL, NULL) >= 0);
  /* The announcement, the answer, and as much as the socket holds. */
  pass(duo.left, PASSES);
  pass(duo.right, 1);
  pass(duo.left, PASSES);
  pass(duo.right, 1);
  pass(duo.left, PASSES);
  CHECK_STATUS(ucxx_request_status(receive), UCXX_INPROGRESS);
  CHECK(ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FORCE, NULL, &close) >= 0);
  for (uint64_t last = clock_ns(); seen_count(&ends[0]) == 0;) {
    pass(duo.left, 1);
    if (!reads || clock_ns() - last < MILLISECOND) continue;
    pass(duo.right, 1);
    last = clock_ns();
  }
  CHECK_OK(ends[0].status);
  if (!reads) CHECK_EQ(warnings, 1);
  ucxx_request_destroy(close);
  ucxx_endpoint_destroy(duo.to_right);
  /* The peer is notified, or the library has warned. */
  while (warnings == 0 && seen_count(&ends[1]) == 0) {
    pass(duo.left, 1);
    pass(duo.right, 1);
  }
  if (warnings == 0) CHECK_STATUS(ends[1].status, UCXX_ERR_CONNECTION_RESET);
  ucxx_worker_destroy(duo.left);
  ucxx_request_destroy(receive);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
  free(from);
  free(into);
}

int main(void) {
  test_begin("forced_close_unheard");
  CHECK_OK(ucxx_log_set_callback(on_log, NULL, UCXX_LOG_WARN));
  STEP("the peer reads slowly");
  close_to(true);
  STEP("the peer does not read");
  close_to(false);
  CHECK_OK(ucxx_log_set_callback(NULL, NULL, UCXX_LOG_OFF));
  return 0;
}
