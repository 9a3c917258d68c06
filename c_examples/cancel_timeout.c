/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * cancel_timeout.c: three ways to limit how long a program waits, and the statuses they give.
 *
 *     cc -o cancel_timeout cancel_timeout.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./cancel_timeout 0 cancel.socket & ./cancel_timeout 1 cancel.socket; wait
 *
 * - A wait with a limit returns UCXX_INPROGRESS when the limit is over. The operation continues.
 * - An operation with timeout_ns ends with UCXX_ERR_TIMED_OUT. Its buffer may be used again.
 * - A cancelled operation ends with UCXX_ERR_CANCELED, or with UCXX_OK if it completed first.
 *
 * Rank 0 prints the status of each:
 *
 *     rank 0: receive with a timeout: UCXX_ERR_TIMED_OUT
 *     rank 0:   tag receive, peer process 25315 on this host (worker 1): the time ran out
 *     rank 0: wait with a limit: UCXX_INPROGRESS
 *     rank 0: receive after a cancel: UCXX_ERR_CANCELED
 *     rank 0: cancel after the message came: UCXX_OK
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#define MILLISECOND_NS (UINT64_C(1000000))
#define TAG_NEVER_SENT UINT64_C(1)
#define TAG_GO UINT64_C(2)
#define TAG_ANSWER UINT64_C(3)

static void explain(const struct pair *pair, const char *what, ucxx_status_t status) {
  printf("rank %d: %s: %s\n", pair->rank, what, ucxx_status_name(status));
}

static void operation_timeout(struct pair *pair) {
  char buffer[16];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = 20 * MILLISECOND_NS;
  params.source = pair->endpoint;
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, buffer, sizeof buffer, TAG_NEVER_SENT,
                                       PAIR_ALL_BITS, &params, &request);
  require(status == UCXX_INPROGRESS, "a receive without a message is in progress");
  /* The wait needs no limit of its own, because the operation has one. */
  status = ucxx_request_wait(request, UINT64_MAX);
  explain(pair, "receive with a timeout", status);
  require(status == UCXX_ERR_TIMED_OUT, "the receive times out");
  printf("rank %d:   %s\n", pair->rank, ucxx_request_error_message(request));
  ucxx_request_destroy(request);
}

static void wait_limit_and_cancel(struct pair *pair) {
  char buffer[16];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = pair->endpoint;
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, buffer, sizeof buffer, TAG_NEVER_SENT,
                                       PAIR_ALL_BITS, &params, &request);
  require(status == UCXX_INPROGRESS, "a receive without a message is in progress");

  status = ucxx_request_wait(request, 0); /* a limit of 0: make progress once */
  require(status == UCXX_INPROGRESS, "polling does not end the receive");
  status = ucxx_request_wait(request, 20 * MILLISECOND_NS);
  explain(pair, "wait with a limit", status);
  require(status == UCXX_INPROGRESS, "the limit ends the wait, not the receive");

  /* The call only requests the cancellation. The buffer must stay valid until the request
   * completes. */
  check(ucxx_request_cancel(request), "cancel");
  status = ucxx_request_wait(request, PAIR_TIMEOUT_NS);
  explain(pair, "receive after a cancel", status);
  require(status == UCXX_ERR_CANCELED, "the receive is cancelled");
  ucxx_request_destroy(request);
}

/* A receive that has its message keeps its status, whatever is called later. */
static void too_late_to_cancel(struct pair *pair) {
  char answer[16] = "";
  ucxx_recv_info_t info = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.timeout_ns = PAIR_TIMEOUT_NS; /* long enough never to matter */
  params.recv_info = &info;
  params.source = pair->endpoint;
  ucxx_request_t *receiving = NULL, *sending = NULL;
  ucxx_status_t received = ucxx_tag_recv(pair->worker, answer, sizeof answer, TAG_ANSWER,
                                         PAIR_ALL_BITS, &params, &receiving);
  require(received == UCXX_INPROGRESS, "no answer before the question");
  ucxx_status_t sent = ucxx_tag_send(pair->endpoint, "go", 3, TAG_GO, NULL, &sending);
  check(outcome(sent, sending), "send");

  check(ucxx_request_wait(receiving, PAIR_TIMEOUT_NS), "answer");
  require(info.length == 4 && strcmp(answer, "yes") == 0, "the answer is the peer's");
  check(ucxx_request_cancel(receiving), "cancel of a complete request");
  ucxx_status_t status = ucxx_request_status(receiving);
  explain(pair, "cancel after the message came", status);
  require(status == UCXX_OK, "what is complete stays complete");
  ucxx_request_destroy(receiving);
}

static void answer_peer(struct pair *pair) {
  char question[16];
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = pair->endpoint;
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, question, sizeof question, TAG_GO,
                                       PAIR_ALL_BITS, &params, &request);
  check(outcome(status, request), "question");
  request = NULL;
  status = ucxx_tag_send(pair->endpoint, "yes", 4, TAG_ANSWER, NULL, &request);
  check(outcome(status, request), "answer");
}

int main(int argc, char **argv) {
  struct pair pair;
  pair_open(&pair, argc, argv);
  if (pair.rank == 0) {
    operation_timeout(&pair);
    wait_limit_and_cancel(&pair);
    too_late_to_cancel(&pair);
  } else {
    answer_peer(&pair);
  }
  pair_close(&pair);
  return EXIT_SUCCESS;
}
