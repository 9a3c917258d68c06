/* Callbacks on a progress thread, waits for such a thread, and the destruction of its worker. */
#include "progress_thread.h"

enum { SUBMITTERS = 4 };

/* ------------------------------------------------------------------ callbacks on the thread */

typedef struct chain {
  threaded_t *pair;
  ucxx_request_t *receive;
  atomic_int left, done;
  uint64_t word;
} chain_t;

static void send_next(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  chain_t *chain = arg;
  CHECK_OK(status);
  /* Calls that wait are refused; everything else works. */
  CHECK_STATUS(ucxx_request_wait(chain->receive, 0), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_progress(chain->pair->left, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_start_progress_thread(chain->pair->left, 1), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_stop_progress_thread(chain->pair->left), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_worker_run_pre(chain->pair->left, count_run, &chain->done, FOR_EVER),
               UCXX_ERR_BUSY);
  ucxx_recv_info_t info;
  /* Another worker's call, which would wait for that worker's thread. */
  CHECK_STATUS(ucxx_tag_probe(chain->pair->right, 1, 0, &info, NULL), UCXX_ERR_BUSY);
  CHECK_STATUS(ucxx_tag_probe(chain->pair->left, 1, 0, &info, NULL), UCXX_ERR_NO_MESSAGE);
  ucxx_request_destroy(request);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  op.callback = send_next;
  op.callback_arg = chain;
  if (atomic_fetch_sub(&chain->left, 1) > 1) {
    ucxx_request_t *next = NULL;
    CHECK_STATUS(ucxx_tag_send(chain->pair->to_right, &chain->word, 8, 8, &op, &next),
                 UCXX_INPROGRESS);
    return;
  }
  CHECK_OK(ucxx_request_cancel(chain->receive));
  CHECK_STATUS(ucxx_endpoint_close(chain->pair->to_right, UCXX_CLOSE_FLUSH, NULL, NULL),
               UCXX_INPROGRESS);
  ucxx_endpoint_destroy(chain->pair->to_right);
  chain->pair->to_right = NULL;
  atomic_store(&chain->done, 1);
}

static void callbacks_do_everything(int which) {
  STEP("callbacks submit, cancel, close and destroy: %s", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  chain_t chain = {.pair = &pair};
  atomic_store(&chain.left, 1000);
  CHECK_STATUS(ucxx_tag_recv(pair.left, &chain.word, 8, 9, UINT64_MAX, NULL, &chain.receive),
               UCXX_INPROGRESS);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  op.callback = send_next;
  op.callback_arg = &chain;
  ucxx_request_t *first = NULL;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &chain.word, 8, 8, &op, &first), UCXX_INPROGRESS);
  CHECK_STATUS(finish(UCXX_INPROGRESS, &chain.receive), UCXX_ERR_CANCELED);
  while (!atomic_load(&chain.done)) sched_yield();
  for (int at = 0; at < 1000; at++) {
    uint64_t word;
    ucxx_request_t *receive = NULL;
    CHECK_OK(finish(ucxx_tag_recv(pair.right, &word, 8, 8, UINT64_MAX, NULL, &receive), &receive));
  }
  close_workers(&pair);
}

typedef struct end {
  ucxx_worker_t *worker;
  atomic_int destroyed, closed;
} end_t;

static void destroy_worker(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  end_t *end = arg;
  (void)request;
  (void)status;
  ucxx_worker_destroy(end->worker);
  atomic_store(&end->destroyed, 1);
}

static void see_end(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  (void)status;
  atomic_store(&((end_t *)arg)->closed, 1);
}

static void destroyed_from_a_callback(int which) {
  STEP("a worker destroyed from its own callback: %s", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  memset(&pair, 0, sizeof pair);
  CHECK_OK(ucxx_context_create(NULL, &pair.context));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.left));
  CHECK_OK(ucxx_worker_create(pair.context, &params, &pair.right));
  end_t end = {.worker = pair.left};
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(pair.right, &address));
  ucxx_endpoint_params_t endpoint_params = UCXX_ENDPOINT_PARAMS_INIT;
  endpoint_params.on_close = see_end;
  endpoint_params.on_close_arg = &end;
  CHECK_OK(ucxx_endpoint_create(pair.left, address, &endpoint_params, &pair.to_right));
  ucxx_address_destroy(address);
  uint64_t word = 0;
  ucxx_request_t *receive = NULL;
  CHECK_STATUS(ucxx_tag_recv(pair.left, &word, 8, 1, UINT64_MAX, NULL, &receive), UCXX_INPROGRESS);
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = destroy_worker;
  op.callback_arg = &end;
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &word, 8, 1, &op, NULL), UCXX_INPROGRESS);
  /* Operations in flight complete, on_close runs, and calls on the remaining handles return
   * CLOSED. */
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive), UCXX_ERR_CANCELED);
  while (!atomic_load(&end.closed)) sched_yield();
  CHECK_EQ(atomic_load(&end.destroyed), 1);
  CHECK_STATUS(ucxx_endpoint_status(pair.to_right), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_tag_send(pair.to_right, &word, 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(pair.to_right);
  ucxx_worker_destroy(pair.right);
  ucxx_context_destroy(pair.context);
}

/* ------------------------------------------------------------------ destruction under traffic */

typedef struct hammer {
  ucxx_endpoint_t *endpoint;
  atomic_int sent;
} hammer_t;

static void *hammer(void *arg) {
  hammer_t *hammer = arg;
  static const uint64_t word = 7;
  for (;;) {
    ucxx_request_t *request = NULL;
    ucxx_status_t status = ucxx_tag_send(hammer->endpoint, &word, 8, 1, NULL, &request);
    if (status == UCXX_ERR_CLOSED) return NULL;
    if (status == UCXX_ERR_NO_RESOURCE) {
      sched_yield();
      continue;
    }
    CHECK(status == UCXX_INPROGRESS || status == UCXX_OK);
    atomic_fetch_add(&hammer->sent, 1);
    status = finish(status, &request);
    CHECK(status == UCXX_OK || status == UCXX_ERR_CANCELED || status == UCXX_ERR_CLOSED);
  }
}

static void destroyed_under_traffic(int which, int32_t delayed) {
  STEP("a worker destroyed under traffic: %s, delayed %d", mode_names[which], delayed);
  for (int time = 0; time < 10; time++) {
    ucxx_worker_params_t params = thread_params(modes[which]);
    params.delayed_submission = delayed;
    params.submission_queue_depth = 16;
    threaded_t pair;
    open_workers(&pair, &params);
    hammer_t hammers[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    for (int at = 0; at < SUBMITTERS; at++) {
      hammers[at].endpoint = pair.to_right;
      atomic_store(&hammers[at].sent, 0);
      threads[at] = start(hammer, &hammers[at]);
    }
    for (int at = 0; at < SUBMITTERS; at++)
      while (atomic_load(&hammers[at].sent) < 20 * time) sched_yield();
    ucxx_worker_destroy(pair.left);
    for (int at = 0; at < SUBMITTERS; at++) join(threads[at]);
    ucxx_endpoint_destroy(pair.to_right);
    ucxx_worker_destroy(pair.right);
    ucxx_context_destroy(pair.context);
  }
}

/* ------------------------------------------------------------------ waiting for several requests
 * of several workers */

typedef struct group {
  ucxx_request_t **requests;
  size_t count;
  atomic_int any, all;
} group_t;

static void *wait_any(void *arg) {
  group_t *group = arg;
  size_t index = 99;
  CHECK_OK(ucxx_request_wait_any(group->requests, group->count, FOR_EVER, &index));
  CHECK(index < group->count);
  CHECK_OK(ucxx_request_status(group->requests[index]));
  atomic_fetch_add(&group->any, 1);
  return NULL;
}

static void *wait_all(void *arg) {
  group_t *group = arg;
  CHECK_OK(ucxx_request_wait_all(group->requests, group->count, FOR_EVER));
  atomic_fetch_add(&group->all, 1);
  return NULL;
}

static void several_wait(int which) {
  STEP("several threads wait for any and for all: %s", mode_names[which]);
  enum { REQUESTS = 6, TIMES = 30 };
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  ucxx_endpoint_t *to_left = connect_workers(pair.right, pair.left);
  for (int time = 0; time < TIMES; time++) {
    uint64_t words[REQUESTS];
    ucxx_request_t *requests[REQUESTS] = {NULL};
    for (uint64_t at = 0; at < REQUESTS; at++)
      CHECK_STATUS(ucxx_tag_recv(at % 2 ? pair.left : pair.right, &words[at], 8, 0x70 + at,
                                 UINT64_MAX, NULL, &requests[at]),
                   UCXX_INPROGRESS);
    group_t group = {.requests = requests, .count = REQUESTS};
    pthread_t threads[4];
    for (int at = 0; at < 4; at++) threads[at] = start(at % 2 ? wait_any : wait_all, &group);
    size_t index = 99;
    CHECK_STATUS(ucxx_request_wait_any(requests, REQUESTS, MILLISECOND, &index), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait_any(requests, REQUESTS, 0, &index), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait(requests[0], MILLISECOND), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_wait_all(requests, REQUESTS, 0), UCXX_INPROGRESS);
    CHECK_EQ(atomic_load(&group.any) + atomic_load(&group.all), 0);
    for (uint64_t at = REQUESTS; at-- > 0;) {
      ucxx_status_t sent =
          ucxx_tag_send(at % 2 ? to_left : pair.to_right, &words[at], 8, 0x70 + at, NULL, NULL);
      CHECK_STATUS(sent, UCXX_INPROGRESS);
      if (at == REQUESTS - 1) {
        join(threads[1]);
        join(threads[3]);
        CHECK_EQ(atomic_load(&group.all), 0);
      }
    }
    join(threads[0]);
    join(threads[2]);
    for (int at = 0; at < REQUESTS; at++) ucxx_request_destroy(requests[at]);
  }
  ucxx_endpoint_destroy(to_left);
  close_workers(&pair);
}

/* A slow callback does not delay a thread that waits for a request without a callback. */
static void stay_in_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  stay(arg);
}

static void slow_callback(void) {
  STEP("a slow callback delays nobody");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  transfer(&pair, 8, 1);
  for (int time = 0; time < 50; time++) {
    hold_t hold, slow = {0};
    hold_thread(&hold, pair.left);
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.callback = stay_in_callback;
    op.callback_arg = &slow;
    ucxx_request_t *first = NULL, *second = NULL;
    /* Both are dispatched in one pass, and complete there. */
    CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 2, &op, &first), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_send(pair.to_right, "message", 8, 2, NULL, &second), UCXX_INPROGRESS);
    let_go(&hold);
    CHECK_OK(finish(UCXX_INPROGRESS, &second));
    CHECK_STATUS(ucxx_request_status(first), UCXX_INPROGRESS);
    atomic_store(&slow.let_go, 1);
    CHECK_OK(finish(UCXX_INPROGRESS, &first));
    /* Received, so that there is room for the next two: a send that waits for room needs
     * progress. */
    for (int at = 0; at < 2; at++) {
      uint64_t word = 0;
      ucxx_request_t *receive = NULL;
      CHECK_OK(
          finish(ucxx_tag_recv(pair.right, &word, 8, 2, UINT64_MAX, NULL, &receive), &receive));
    }
  }
  close_workers(&pair);
}

/* ------------------------------------------------------------------ cancelled before it is
 * started */

typedef struct held {
  ucxx_worker_t *worker;
  atomic_int inside;
  _Atomic(ucxx_request_t *) request;
  seen_t seen;
} held_t;

/* Runs before operations submitted while it runs. */
static void cancel_what_comes(void *arg) {
  held_t *held = arg;
  ucxx_request_t *request;
  atomic_store(&held->inside, 1);
  while ((request = atomic_load(&held->request)) == NULL) sched_yield();
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_EQ(seen_count(&held->seen), 0);
}

static void *run_on_thread(void *arg) {
  held_t *held = arg;
  CHECK_OK(ucxx_worker_run_post(held->worker, cancel_what_comes, held, FOR_EVER));
  return NULL;
}

static void canceled_before_it_began(int which) {
  enum { WORKER_FLUSH, ENDPOINT_FLUSH, CLOSE, OPERATIONS };
  static const char *const names[] = {"flush of the worker", "flush of an endpoint", "close"};
  ucxx_worker_params_t params = thread_params(modes[which]);
  for (int operation = 0; operation < OPERATIONS; operation++) {
    STEP("a %s cancelled by a callback before the thread has begun it: %s", names[operation],
         mode_names[which]);
    threaded_t pair;
    open_workers(&pair, &params);
    transfer(&pair, 8, 1);
    held_t held = {.worker = pair.left};
    pthread_t thread = start(run_on_thread, &held);
    while (!atomic_load(&held.inside)) sched_yield();
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.callback = see_completion;
    op.callback_arg = &held.seen;
    op.timeout_ns = PATIENTLY;
    ucxx_request_t *request = NULL;
    ucxx_status_t status =
        operation == WORKER_FLUSH ? ucxx_worker_flush(pair.left, &op, &request)
        : operation == ENDPOINT_FLUSH
            ? ucxx_endpoint_flush(pair.to_right, &op, &request)
            : ucxx_endpoint_close(pair.to_right, UCXX_CLOSE_FLUSH, &op, &request);
    CHECK_STATUS(status, UCXX_INPROGRESS);
    atomic_store(&held.request, request);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    ucxx_status_t ended = finish(status, &request);
    if (ended != UCXX_OK) CHECK_STATUS(ended, UCXX_ERR_CANCELED);
    CHECK_EQ(seen_count(&held.seen), 1);
    /* Its count has been taken back once. */
    if (operation != CLOSE)
      CHECK_OK(finish(ucxx_endpoint_flush(pair.to_right, NULL, &request), &request));
    CHECK_OK(finish(ucxx_worker_flush(pair.left, NULL, &request), &request));
    ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
    CHECK_OK(ucxx_worker_query_stats(pair.left, &stats));
    CHECK_EQ(stats.submitted, stats.completed + stats.failed + stats.canceled);
    CHECK_EQ(stats.in_flight, 0);
    close_workers(&pair);
  }
}

int main(void) {
  test_begin("progress_thread_calls");
  for (int which = 0; which < 3; which++) {
    callbacks_do_everything(which);
    destroyed_from_a_callback(which);
    canceled_before_it_began(which);
    several_wait(which);
    destroyed_under_traffic(which, 1);
    destroyed_under_traffic(which, -1);
  }
  slow_callback();
  return 0;
}
