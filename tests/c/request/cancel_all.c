/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Cancelling all operations of a worker or an endpoint: each is asked once, is counted, and
 * completes; others continue. */
#include "progress_thread.h"

enum { RECEIVES = 5, NAMED = 2, SENDS = 4, LARGE = 1 << 20, TAG = 0x91, NEVER = 0x92 };

static ucxx_status_t receive(ucxx_worker_t *worker, ucxx_endpoint_t *source, uint64_t *word,
                             ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.source = source;
  return ucxx_tag_recv(worker, word, sizeof *word, NEVER, UINT64_MAX, &params, request);
}

static size_t cancel_worker(ucxx_worker_t *worker) {
  size_t count = SIZE_MAX;
  CHECK_OK(ucxx_worker_cancel_all(worker, &count));
  return count;
}

static size_t cancel_endpoint(ucxx_endpoint_t *endpoint) {
  size_t count = SIZE_MAX;
  CHECK_OK(ucxx_endpoint_cancel_all(endpoint, &count));
  return count;
}

static void receives(const duo_t *duo) {
  STEP("receives, of the endpoint that they name and of the worker");
  uint64_t words[RECEIVES];
  ucxx_request_t *requests[RECEIVES] = {NULL}, *other = NULL;
  seen_t seen = {0};
  for (int at = 0; at < RECEIVES; at++)
    CHECK_STATUS(receive(duo->left, at < NAMED ? duo->to_right : NULL, &words[at], &requests[at]),
                 UCXX_INPROGRESS);
  CHECK_STATUS(receive(duo->right, NULL, &words[0], &other), UCXX_INPROGRESS);
  CHECK_EQ(cancel_endpoint(duo->to_right), NAMED);
  for (int at = 0; at < NAMED; at++)
    CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &requests[at]), UCXX_ERR_CANCELED);
  for (int at = NAMED; at < RECEIVES; at++)
    CHECK_STATUS(ucxx_request_status(requests[at]), UCXX_INPROGRESS);
  CHECK_EQ(cancel_endpoint(duo->to_right), 0);
  CHECK_EQ(cancel_worker(duo->left), RECEIVES - NAMED);
  for (int at = NAMED; at < RECEIVES; at++)
    CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &requests[at]), UCXX_ERR_CANCELED);
  CHECK_EQ(cancel_worker(duo->left), 0);

  STEP("without a count, and one whose request was destroyed");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &seen;
  CHECK_STATUS(ucxx_tag_recv(duo->left, words, 8, NEVER, UINT64_MAX, &params, NULL),
               UCXX_INPROGRESS);
  CHECK_OK(ucxx_worker_cancel_all(duo->left, NULL));
  while (seen_count(&seen) == 0) duo_progress(duo);
  CHECK_STATUS(seen.status, UCXX_ERR_CANCELED);
  CHECK_OK(ucxx_endpoint_cancel_all(duo->to_right, NULL));
  CHECK_STATUS(ucxx_request_status(other), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(other));
  CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &other), UCXX_ERR_CANCELED);
}

/* The first send is UCX's and waits for its receive. The others are in the send queue. */
static void queued(void) {
  STEP("sends that wait");
  duo_t duo;
  ucxx_endpoint_params_t endpoint = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint.send_window_ops = 1;
  duo_open_as(&duo, NULL, &endpoint);
  duo_transfer(&duo, 8, 1);
  uint8_t *data = test_alloc(LARGE), *in = test_alloc(LARGE);
  test_fill(data, LARGE, 3);
  ucxx_request_t *sends[SENDS] = {NULL}, *received = NULL;
  for (int at = 0; at < SENDS; at++)
    CHECK_STATUS(ucxx_tag_send(duo.to_right, data, LARGE, TAG, NULL, &sends[at]), UCXX_INPROGRESS);
  CHECK_EQ(cancel_endpoint(duo.to_right), SENDS);
  for (int at = 1; at < SENDS; at++)
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &sends[at]), UCXX_ERR_CANCELED);
  CHECK_STATUS(ucxx_request_status(sends[0]), UCXX_INPROGRESS);
  CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, in, LARGE, TAG, UINT64_MAX, NULL, &received),
                      &received));
  CHECK_CONTENT(in, LARGE, 3);
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &sends[0]));
  duo_transfer(&duo, 100, 2);
  free(in);
  free(data);
  duo_close(&duo);
}

typedef struct inside {
  ucxx_worker_t *worker;
  atomic_int ran;
  size_t count;
  int on_another_thread;
} inside_t;

static void cancel_in_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  inside_t *inside = arg;
  (void)request;
  CHECK_OK(status);
  if (inside->on_another_thread) {
    CHECK_STATUS(ucxx_worker_cancel_all(inside->worker, &inside->count), UCXX_ERR_BUSY);
    CHECK_EQ(inside->count, SIZE_MAX);
    CHECK_OK(ucxx_worker_cancel_all(inside->worker, NULL));
  } else {
    inside->count = cancel_worker(inside->worker);
  }
  atomic_store(&inside->ran, 1);
}

static void run_cancel(void *arg) {
  inside_t *inside = arg;
  inside->count = cancel_worker(inside->worker);
}

/* `worker` receives a message, and the callback cancels what `cancelled` has. */
static void from_callback(ucxx_worker_t *worker, ucxx_endpoint_t *to_worker, inside_t *inside) {
  uint64_t words[2];
  ucxx_request_t *request = NULL, *send = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = cancel_in_callback;
  params.callback_arg = inside;
  inside->count = SIZE_MAX;
  CHECK_STATUS(receive(inside->worker, NULL, &words[0], &request), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_recv(worker, &words[1], 8, TAG, UINT64_MAX, &params, NULL),
               UCXX_INPROGRESS);
  CHECK_OK(finish(ucxx_tag_send(to_worker, "message", 8, TAG, NULL, &send), &send));
  while (!atomic_load(&inside->ran)) progress(worker);
  CHECK_EQ(inside->count, inside->on_another_thread ? SIZE_MAX : 1);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
}

static void in_callbacks(const duo_t *duo) {
  STEP("in a callback, under manual progress");
  inside_t inside = {.worker = duo->left};
  uint64_t words[2];
  ucxx_request_t *request = NULL, *send = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = cancel_in_callback;
  params.callback_arg = &inside;
  CHECK_STATUS(receive(duo->left, NULL, &words[0], &request), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_recv(duo->left, &words[1], 8, TAG, UINT64_MAX, &params, NULL),
               UCXX_INPROGRESS);
  CHECK_OK(duo_finish(duo, ucxx_tag_send(duo->to_left, "message", 8, TAG, NULL, &send), &send));
  while (!atomic_load(&inside.ran)) duo_progress(duo);
  CHECK_EQ(inside.count, 1);
  CHECK_STATUS(duo_finish(duo, UCXX_INPROGRESS, &request), UCXX_ERR_CANCELED);
}

static void with_threads(void) {
  STEP("with progress threads");
  threaded_t pair;
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  open_workers(&pair, &params);
  transfer(&pair, 8, TAG);
  uint64_t words[RECEIVES];
  ucxx_request_t *requests[RECEIVES] = {NULL};
  for (int round = 0; round < 3; round++) {
    for (int at = 0; at < RECEIVES; at++)
      CHECK_STATUS(receive(pair.left, at < NAMED ? pair.to_right : NULL, &words[at], &requests[at]),
                   UCXX_INPROGRESS);
    if (round == 0) {
      CHECK_EQ(cancel_endpoint(pair.to_right), NAMED);
      CHECK_EQ(cancel_worker(pair.left), RECEIVES - NAMED);
    } else if (round == 1) {
      CHECK_OK(ucxx_worker_cancel_all(pair.left, NULL));
    } else {
      inside_t inside = {.worker = pair.left};
      CHECK_OK(ucxx_worker_run_pre(pair.left, run_cancel, &inside, FOR_EVER));
      CHECK_EQ(inside.count, RECEIVES);
    }
    for (int at = 0; at < RECEIVES; at++)
      CHECK_STATUS(finish(UCXX_INPROGRESS, &requests[at]), UCXX_ERR_CANCELED);
  }
  inside_t inside = {.worker = pair.right};
  STEP("in a callback on the same thread");
  from_callback(pair.right, pair.to_right, &inside);
  STEP("in a callback on another thread");
  inside = (inside_t){.worker = pair.left, .on_another_thread = 1};
  from_callback(pair.right, pair.to_right, &inside);
  close_workers(&pair);
}

int main(void) {
  duo_t duo;
  test_begin("cancel_all");
  duo_open(&duo, NULL);
  receives(&duo);
  in_callbacks(&duo);
  duo_close(&duo);
  queued();
  with_threads();
  return 0;
}
