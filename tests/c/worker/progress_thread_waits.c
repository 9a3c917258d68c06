/* Waits survive progress threads that start and stop, and the destruction of their worker. */
#include "progress_thread.h"

#include <malloc.h>

static void turns(int count) {
  for (int turn = 0; turn < count; turn++) sched_yield();
}

typedef struct waiting {
  ucxx_request_t *requests[2];
  ucxx_status_t status;
  atomic_int waits;
} waiting_t;

static void *wait_any(void *arg) {
  waiting_t *waiting = arg;
  size_t index = 99;
  atomic_fetch_add(&waiting->waits, 1);
  waiting->status = ucxx_request_wait_any(waiting->requests, 2, FOR_EVER, &index);
  if (index >= 2) FAIL("%s: %s", ucxx_status_name(waiting->status), ucxx_last_error_message());
  return NULL;
}

static void post_two(ucxx_worker_t *worker, waiting_t *waiting, uint64_t words[2]) {
  memset(waiting, 0, sizeof *waiting);
  for (uint64_t at = 0; at < 2; at++)
    CHECK_STATUS(ucxx_tag_recv(worker, &words[at], 8, at, UINT64_MAX, NULL, &waiting->requests[at]),
                 UCXX_INPROGRESS);
}

/* The thread stops and takes its marks on the requests with it; the destruction of the worker still
 * completes the requests for the waiting thread. */
static void any_of_a_worker_that_ends(int which) {
  STEP("a worker is destroyed during a wait for any: %s", mode_names[which]);
  for (int time = 0; time < (int)test_rounds(20); time++) {
    ucxx_worker_params_t params = thread_params(modes[which]);
    threaded_t pair;
    open_workers(&pair, &params);
    uint64_t words[2];
    waiting_t waiting;
    post_two(pair.right, &waiting, words);
    pthread_t thread = start(wait_any, &waiting);
    while (!atomic_load(&waiting.waits)) sched_yield();
    /* So that the waiter is asleep most of the time; the result is the same if it is not. */
    turns(time * 100);
    ucxx_worker_destroy(pair.right);
    pair.right = NULL;
    join(thread);
    CHECK_STATUS(waiting.status, UCXX_ERR_CANCELED);
    for (int at = 0; at < 2; at++) ucxx_request_destroy(waiting.requests[at]);
    close_workers(&pair);
  }
}

/* The thread stops and the next one starts before the waiter has looked. */
static void any_across_restarts(int which) {
  STEP("restarts during a wait for any: %s", mode_names[which]);
  ucxx_worker_params_t params = thread_params(modes[which]);
  threaded_t pair;
  open_workers(&pair, &params);
  for (int time = 0; time < (int)test_rounds(200); time++) {
    uint64_t words[2];
    waiting_t waiting;
    post_two(pair.right, &waiting, words);
    pthread_t thread = start(wait_any, &waiting);
    while (!atomic_load(&waiting.waits)) sched_yield();
    turns(time);
    for (int restart = 0; restart <= time % 3; restart++) {
      CHECK_OK(ucxx_worker_stop_progress_thread(pair.right));
      CHECK_OK(ucxx_worker_start_progress_thread(pair.right, modes[which]));
    }
    CHECK(ucxx_tag_send(pair.to_right, "message", 8, (uint64_t)(time % 2), NULL, NULL) >= 0);
    join(thread);
    CHECK_OK(waiting.status);
    CHECK(ucxx_tag_send(pair.to_right, "message", 8, (uint64_t) !(time % 2), NULL, NULL) >= 0);
    for (int at = 0; at < 2; at++) CHECK_OK(finish(UCXX_INPROGRESS, &waiting.requests[at]));
  }
  close_workers(&pair);
}

typedef struct one {
  ucxx_request_t *request;
  uint64_t limit;
  atomic_int waits, over;
} one_t;

static void *wait_for_one(void *arg) {
  one_t *one = arg;
  atomic_fetch_add(&one->waits, 1);
  ucxx_status_t status = ucxx_request_wait(one->request, one->limit);
  CHECK(status == UCXX_OK || (one->limit != FOR_EVER && status == UCXX_INPROGRESS));
  atomic_fetch_add(&one->over, 1);
  return NULL;
}

/* The thread stops during several waits, of which some time out soon: one without a timeout must
 * take over the progress. */
static void the_last_waiter_progresses(void) {
  STEP("the last waiter progresses when the thread has stopped");
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_ADAPTIVE);
  threaded_t pair;
  open_workers(&pair, &params);
  enum { WAITERS = 4 };
  for (int time = 0; time < (int)test_rounds(200); time++) {
    uint64_t word = 0;
    ucxx_request_t *request = NULL;
    CHECK_STATUS(ucxx_tag_recv(pair.right, &word, 8, 4, UINT64_MAX, NULL, &request),
                 UCXX_INPROGRESS);
    one_t waits[WAITERS];
    pthread_t threads[WAITERS];
    for (int at = 0; at < WAITERS; at++) {
      waits[at] =
          (one_t){.request = request, .limit = at == 0 ? FOR_EVER : (uint64_t)(time + 1) * 1000};
      threads[at] = start(wait_for_one, &waits[at]);
    }
    turns(time % 50);
    CHECK_OK(ucxx_worker_stop_progress_thread(pair.right));
    for (int at = 1; at < WAITERS; at++) join(threads[at]);
    CHECK(ucxx_tag_send(pair.to_right, "message", 8, 4, NULL, NULL) >= 0);
    join(threads[0]);
    ucxx_request_destroy(request);
    CHECK_OK(ucxx_worker_start_progress_thread(pair.right, modes[time % 3]));
  }
  close_workers(&pair);
}

static void destroy_endpoint(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  CHECK_OK(status);
  ucxx_endpoint_destroy(arg);
}

/* A callback of a worker that once had a thread destroys its endpoint: the endpoint is freed, and
 * does not keep the worker's memory. */
static void endpoints_go_without_a_thread(void) {
  STEP("an endpoint destroyed in a callback after the thread has stopped");
  enum { WARM_UP = 20 };
  const int cycles = (int)test_rounds(150);
  const long allowed_kib = test_rounds(8192);
  long before = 0;
  for (int time = 0; time < WARM_UP + cycles; time++) {
    if (time == WARM_UP) {
      malloc_trim(0);
      before = footprint_now().resident_kib;
    }
    ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
    threaded_t pair;
    open_workers(&pair, &params);
    transfer(&pair, 8, 1);
    CHECK_OK(ucxx_worker_stop_progress_thread(pair.left));
    ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
    op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    op.callback = destroy_endpoint;
    op.callback_arg = pair.to_right;
    ucxx_request_t *send = NULL;
    CHECK_OK(finish(ucxx_tag_send(pair.to_right, "message", 8, 1, &op, &send), &send));
    pair.to_right = NULL;
    close_workers(&pair);
  }
  malloc_trim(0);
  long grown = footprint_now().resident_kib - before;
  printf("%+ld KiB resident after %d workers\n", grown, cycles);
  if (grown > allowed_kib) FAIL("%ld KiB more, at most %ld allowed", grown, allowed_kib);
}

int main(void) {
  test_begin("progress_thread_waits");
  for (int which = 0; which < 3; which++) {
    any_of_a_worker_that_ends(which);
    any_across_restarts(which);
  }
  the_last_waiter_progresses();
  endpoints_go_without_a_thread();
  return 0;
}
