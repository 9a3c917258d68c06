/* The submission queue of a progress thread: when full it refuses and loses nothing; operations in
 * it can be cancelled and time out; functions run on the thread. */
#include "progress_thread.h"

/* ------------------------------------------------------------------ a full queue, and cancelling
 * in it */

static void full_queue(void) {
  STEP("a full queue loses nothing, and operations in it can be cancelled");
  enum { DEPTH = 8 };
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
  params.submission_queue_depth = DEPTH;
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  hold_t hold;
  hold_thread(&hold, pair.left);
  ucxx_request_t *requests[DEPTH] = {NULL}, *more = (ucxx_request_t *)&hold, *flush = NULL,
                 *close = NULL;
  uint64_t words[DEPTH];
  seen_t seen[DEPTH] = {{0}};
  for (uint64_t at = 0; at < DEPTH; at++) {
    words[at] = at;
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.callback = see_completion;
    op.callback_arg = &seen[at];
    CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[at], 8, 6, &op, &requests[at]),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_status(requests[at]), UCXX_INPROGRESS);
  }
  for (int time = 0; time < 3; time++)
    CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[0], 8, 6, NULL, &more), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("submission_queue_depth");
  CHECK(more == (ucxx_request_t *)&hold);
  /* These calls need no room in the queue. */
  CHECK_STATUS(ucxx_endpoint_flush(pair.to_right, NULL, &flush), UCXX_INPROGRESS);
  for (int at = 1; at < DEPTH; at += 2) {
    CHECK_OK(ucxx_request_cancel(requests[at]));
    CHECK_OK(ucxx_request_cancel(requests[at]));
  }
  CHECK_STATUS(close_patiently(pair.to_right, &close), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &words[0], 8, 6, NULL, NULL), UCXX_ERR_CLOSED);
  let_go(&hold);
  for (int at = 0; at < DEPTH; at++) {
    CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[at]), at % 2 ? UCXX_ERR_CANCELED : UCXX_OK);
    CHECK_EQ(seen_count(&seen[at]), 1);
  }
  CHECK_OK(finish(UCXX_INPROGRESS, &flush));
  CHECK_OK(finish(UCXX_INPROGRESS, &close));
  for (uint64_t at = 0; at < DEPTH; at += 2) {
    uint64_t word = 99;
    ucxx_request_t *receive = NULL;
    CHECK_OK(finish(ucxx_tag_recv(pair.right, &word, 8, 6, UINT64_MAX, NULL, &receive), &receive));
    CHECK_EQ(word, at);
  }
  /* A cancelled send was never sent. */
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_tag_probe(pair.right, 6, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
  CHECK_EQ(stats.queue_full, 3);
  CHECK_EQ(stats.queue_high_water, DEPTH);
  CHECK_EQ(stats.canceled, DEPTH / 2);
  close_workers(&pair);
}

static void timeouts_in_the_queue(void) {
  STEP("a deadline that passes in the queue");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  hold_t hold;
  hold_thread(&hold, pair.left);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.timeout_ns = 1;
  ucxx_request_t *send = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 7, &op, &send), UCXX_INPROGRESS);
  let_go(&hold);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &send), UCXX_ERR_TIMED_OUT);
  ucxx_recv_info_t info;
  transfer(&pair, 8, 1);
  CHECK_STATUS(ucxx_tag_probe(pair.right, 7, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  close_workers(&pair);
}

/* ------------------------------------------------------------------ functions on the thread */

static void look_at_request(void *arg) {
  /* Everything submitted earlier has been dispatched by now: an unmatched receive is pending, a
   * short send is complete. */
  CHECK_OK(ucxx_request_status(arg));
}

static void functions_on_the_thread(void) {
  STEP("run_pre and run_post");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  atomic_int runs = 0;
  for (int time = 0; time < 100; time++) {
    CHECK_OK(ucxx_worker_run_pre(pair.left, count_run, &runs, FOR_EVER));
    CHECK_OK(ucxx_worker_run_post(pair.left, count_run, &runs, FOR_EVER));
    CHECK_EQ(atomic_load(&runs), 2 * time + 2);
  }
  ucxx_request_t *send = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 1, NULL, &send), UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_run_pre(pair.left, look_at_request, send, FOR_EVER));
  CHECK_OK(finish(UCXX_INPROGRESS, &send));

  /* Timed out before it could start: it will never run. */
  hold_t hold;
  hold_thread(&hold, pair.left);
  atomic_int late = 0;
  CHECK_STATUS(ucxx_worker_run_pre(pair.left, count_run, &late, 0), UCXX_ERR_TIMED_OUT);
  CHECK_STATUS(ucxx_worker_run_post(pair.left, count_run, &late, MILLISECOND), UCXX_ERR_TIMED_OUT);
  let_go(&hold);
  CHECK_OK(ucxx_worker_run_post(pair.left, count_run, &runs, FOR_EVER));
  CHECK_EQ(atomic_load(&late), 0);
  close_workers(&pair);
}

int main(void) {
  test_begin("progress_thread_queue");
  full_queue();
  timeouts_in_the_queue();
  functions_on_the_thread();
  return 0;
}
