/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A peer closes by force while the socket to it is full. When the peer has read the rest, UCX gets
 * the room in the socket and the peer's close as one event. This side must not close before it has
 * written everything.
 */
#include "test_util.h"

enum { ROUNDS = 6, LENGTH = 7000, MOST = 20000, ENOUGH = 30, PASSES = 2000 };

static char data[LENGTH];

static void pass(ucxx_worker_t *worker, const seen_t *closed) {
  for (int at = 0; at < PASSES && (closed == NULL || seen_count(closed) == 0); at++)
    CHECK_OK(ucxx_worker_progress(worker, NULL));
}

/* The side with the full socket closes too, or is notified of the close. */
static void round_of(int closes_too) {
  duo_t duo;
  seen_t ends[2] = {{0}, {0}};
  ucxx_request_t *close[2] = {NULL, NULL};
  int waiting = 0;
  duo_open_seen(&duo, ends);

  for (int at = 0; at < MOST && waiting < ENOUGH; at++) {
    ucxx_status_t status = ucxx_tag_send(duo.to_right, data, LENGTH, 3, NULL, NULL);
    CHECK(status >= 0);
    waiting += status == UCXX_INPROGRESS;
  }
  CHECK_EQ(waiting, ENOUGH);
  CHECK(ucxx_endpoint_close(duo.to_left, UCXX_CLOSE_FORCE, NULL, &close[1]) >= 0);
  if (closes_too) CHECK(ucxx_endpoint_close(duo.to_right, UCXX_CLOSE_FORCE, NULL, &close[0]) >= 0);
  /* Each side progresses alone long enough to do all it can. */
  while (seen_count(&ends[0]) == 0 || seen_count(&ends[1]) == 0) {
    pass(duo.left, &ends[0]);
    pass(duo.right, NULL);
  }
  for (int at = 0; at < 3; at++) {
    pass(duo.left, NULL);
    pass(duo.right, NULL);
  }
  /* A side that closes may still learn first that its sends are lost. */
  if (!closes_too || ends[0].status != UCXX_OK)
    CHECK_STATUS(ends[0].status, UCXX_ERR_CONNECTION_RESET);
  CHECK_OK(ends[1].status);
  ucxx_request_destroy(close[0]);
  ucxx_request_destroy(close[1]);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

int main(void) {
  test_begin("forced_close_full");
  for (unsigned at = 0; at < test_rounds(ROUNDS); at++) {
    STEP("round %u", at);
    round_of(at % 2 == 1);
  }
  return 0;
}
