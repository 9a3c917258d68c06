/* A worker's sends wait for room at a peer that receives nothing: UCX does not let the worker
 * sleep, and no event reports room. Waits and progress threads poll rarely nevertheless. */
#include "test_util.h"

enum { TAG = 1, SENDS = 2000, LENGTH = 4096 };

/* Polling for 500 ms without pauses is several hundred thousand passes; with pauses of 200 us it is
 * 2,500. */
#define WAITED (500 * MILLISECOND)
#define MOST_PASSES 25000

static uint64_t passes(ucxx_worker_t *worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  return stats.progress_calls;
}

static void fill(int32_t mode, const char *name) {
  STEP("a full queue, %s", name);
  static uint8_t data[LENGTH];
  static ucxx_request_t *requests[SENDS];
  duo_t duo = {0};
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  CHECK_OK(ucxx_context_create(NULL, &duo.context));
  CHECK_OK(ucxx_worker_create(duo.context, &params, &duo.left));
  CHECK_OK(ucxx_worker_create(duo.context, NULL, &duo.right));
  duo.to_right = connect_workers(duo.left, duo.right);

  /* Connected by a first message. */
  uint64_t word = 0;
  ucxx_request_t *sent = NULL, *received = NULL;
  ucxx_status_t receiving =
      ucxx_tag_recv(duo.right, &word, sizeof word, TAG, UINT64_MAX, NULL, &received);
  ucxx_status_t sending = ucxx_tag_send(duo.to_right, "message", 8, TAG, NULL, &sent);
  while (ucxx_request_status(received) == UCXX_INPROGRESS) {
    progress(duo.left);
    progress(duo.right);
  }
  CHECK_OK(finish(receiving, &received));
  CHECK_OK(finish(sending, &sent));

  for (int at = 0; at < SENDS; at++) {
    requests[at] = NULL;
    CHECK(ucxx_tag_send(duo.to_right, data, sizeof data, TAG, NULL, &requests[at]) >= 0);
  }
  ucxx_request_t *last = requests[SENDS - 1];
  CHECK(last != NULL);
  uint64_t before = passes(duo.left);
  CHECK_STATUS(ucxx_request_wait(last, WAITED), UCXX_INPROGRESS);
  uint64_t made = passes(duo.left) - before;
  if (made > MOST_PASSES) FAIL("%llu passes with nothing to do", (unsigned long long)made);

  STEP("room again, %s", name);
  for (int at = 0; at < SENDS; at++) {
    static uint8_t taken[LENGTH];
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        ucxx_tag_recv(duo.right, taken, sizeof taken, TAG, UINT64_MAX, NULL, &request);
    while (request != NULL && ucxx_request_status(request) == UCXX_INPROGRESS) {
      progress(duo.left);
      progress(duo.right);
    }
    CHECK_OK(finish(status, &request));
  }
  for (int at = 0; at < SENDS; at++) {
    if (requests[at] != NULL) CHECK_OK(finish(UCXX_INPROGRESS, &requests[at]));
  }
  ucxx_request_t *closing = NULL;
  ucxx_status_t status = close_patiently(duo.to_right, &closing);
  while (closing != NULL && ucxx_request_status(closing) == UCXX_INPROGRESS) {
    progress(duo.left);
    progress(duo.right);
  }
  CHECK_OK(finish(status, &closing));
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_worker_destroy(duo.left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

int main(void) {
  test_begin("peer_queue_full");
  fill(UCXX_PROGRESS_THREAD_BLOCKING, "a thread that sleeps at once");
  fill(UCXX_PROGRESS_THREAD_ADAPTIVE, "a thread that polls first");
  fill(UCXX_PROGRESS_MANUAL, "a call that waits");
  return 0;
}
