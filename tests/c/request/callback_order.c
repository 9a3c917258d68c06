/*
 * Events that follow the callbacks of an endpoint's requests, even slow ones: flushes, the close,
 * on_close, and the return of ucxx_endpoint_destroy. With a progress thread, and with two threads
 * that progress.
 */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { LENGTH = 1 << 20, TAG = 3, SENDS = 3, TURNS = 200 };

static ucxx_context_t *context;
static ucxx_worker_t *from, *to;
static ucxx_address_t *address;
static uint8_t *out, *in;
static atomic_int running, returned, closes, early;

/* Gives the other threads time to run. */
static void take_time(void) {
  for (int i = 0; i < TURNS; i++) sched_yield();
}

static void take_turn(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)arg, (void)request, (void)status;
  atomic_fetch_add(&running, 1);
  early += atomic_load(&closes);
  take_time();
  early += atomic_load(&closes);
  atomic_fetch_add(&returned, 1);
}

static void on_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)arg, (void)endpoint, (void)status;
  atomic_fetch_add(&closes, 1);
  take_time();
  atomic_fetch_add(&returned, 1);
}

static void open_workers(int32_t progress_mode, int delayed) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_MULTI;
  params.progress_mode = progress_mode;
  params.delayed_submission = delayed;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &from));
  CHECK_OK(ucxx_worker_create(context, &params, &to));
  CHECK_OK(ucxx_worker_address(to, &address));
}

static void close_workers(void) {
  ucxx_address_destroy(address);
  ucxx_worker_destroy(from);
  ucxx_worker_destroy(to);
  ucxx_context_destroy(context);
}

static ucxx_endpoint_t *open_endpoint(void) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_close = on_close;
  ucxx_endpoint_t *endpoint = NULL;
  CHECK_OK(ucxx_endpoint_create(from, address, &params, &endpoint));
  running = returned = closes = early = 0;
  return endpoint;
}

static ucxx_request_t *send_with_callback(ucxx_endpoint_t *endpoint, size_t length) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = take_turn;
  ucxx_request_t *send = NULL;
  CHECK(ucxx_tag_send(endpoint, out, length, TAG, &params, &send) >= 0);
  return send;
}

enum { ENDPOINT, WORKER, CLOSE, FLUSHES };

/* The callback of each send has returned before the flush completes and before its status can be
 * read. */
static void flush_after(int what) {
  static const size_t lengths[] = {8, LENGTH};
  ucxx_endpoint_t *endpoint = NULL;
  for (int i = 0; i < 40; i++) {
    if (endpoint == NULL) endpoint = open_endpoint();
    int before = atomic_load(&returned);
    size_t length = lengths[i % 2];
    ucxx_request_t *receive = NULL, *send = NULL;
    CHECK(ucxx_tag_recv(to, in, length, TAG, UINT64_MAX, NULL, &receive) >= 0);
    send = send_with_callback(endpoint, length);
    ucxx_op_params_t waits = UCXX_OP_PARAMS_INIT;
    waits.flags = UCXX_FLAG_WAIT;
    waits.timeout_ns = PATIENTLY;
    if (what == ENDPOINT)
      CHECK_OK(ucxx_endpoint_flush(endpoint, &waits, NULL));
    else if (what == WORKER)
      CHECK_OK(ucxx_worker_flush(from, &waits, NULL));
    else
      CHECK_OK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &waits, NULL));
    if (send != NULL) {
      CHECK_OK(ucxx_request_status(send));
      CHECK(atomic_load(&returned) > before);
      ucxx_request_destroy(send);
    }
    if (receive != NULL) CHECK_OK(ucxx_request_wait(receive, FOR_EVER));
    ucxx_request_destroy(receive);
    if (what == CLOSE) {
      ucxx_endpoint_destroy(endpoint);
      endpoint = NULL;
    }
  }
  CHECK_EQ(early, 0);
  if (endpoint != NULL) ucxx_endpoint_destroy(endpoint);
}

/* No callback of an endpoint starts or runs after ucxx_endpoint_destroy has returned. */
static void destroy_after(void) {
  for (int i = 0; i < 10; i++) {
    ucxx_endpoint_t *endpoint = open_endpoint();
    for (int n = 0; n < SENDS; n++) ucxx_request_destroy(send_with_callback(endpoint, LENGTH));
    ucxx_request_t *close = NULL;
    CHECK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close) >= 0);
    ucxx_endpoint_destroy(endpoint);
    CHECK_EQ(closes, 1);
    CHECK_EQ(running, SENDS);
    CHECK_EQ(returned, SENDS + 1);
    CHECK_EQ(early, 0);
    CHECK_OK(ucxx_request_wait(close, FOR_EVER));
    ucxx_request_destroy(close);
  }
}

static atomic_int over;

static void *progress_on(void *arg) {
  ucxx_worker_t *worker = arg;
  while (!atomic_load(&over)) {
    CHECK(ucxx_worker_progress(worker, NULL) >= 0);
    sched_yield();
  }
  return NULL;
}

/* Two threads progress: while one is in a request's callback, the other one detects the endpoint's
 * close. */
static void two_threads(void) {
  open_workers(UCXX_PROGRESS_MANUAL, 0);
  for (int i = 0; i < 10; i++) {
    ucxx_endpoint_t *endpoint = open_endpoint();
    ucxx_request_t *close = NULL;
    for (int n = 0; n < SENDS; n++) ucxx_request_destroy(send_with_callback(endpoint, LENGTH));
    for (int n = 0; n < 100; n++) {
      progress(from);
      progress(to);
    }
    CHECK(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close) >= 0);
    over = 0;
    pthread_t threads[3];
    for (int n = 0; n < 3; n++)
      CHECK_EQ(pthread_create(&threads[n], NULL, progress_on, n < 2 ? from : to), 0);
    while (atomic_load(&closes) == 0) sched_yield();
    over = 1;
    for (int n = 0; n < 3; n++) CHECK_EQ(pthread_join(threads[n], NULL), 0);
    CHECK_EQ(running, SENDS);
    CHECK_EQ(early, 0);
    CHECK_OK(ucxx_request_wait(close, FOR_EVER));
    ucxx_request_destroy(close);
    ucxx_endpoint_destroy(endpoint);
  }
  close_workers();
}

typedef struct closer {
  ucxx_endpoint_t *endpoint;
  atomic_int *begin;
  int accepted;
} closer_t;

static void *close_once(void *arg) {
  closer_t *closer = arg;
  atomic_fetch_sub(closer->begin, 1);
  while (atomic_load(closer->begin) > 0);
  ucxx_request_t *request = NULL;
  ucxx_status_t status = close_patiently(closer->endpoint, &request);
  if (status < 0) {
    CHECK_STATUS(status, UCXX_ERR_CLOSED);
    return NULL;
  }
  closer->accepted = 1;
  status = ucxx_request_wait(request, FOR_EVER);
  CHECK(status == UCXX_OK || status == UCXX_ERR_CLOSED);
  ucxx_request_destroy(request);
  return NULL;
}

/* Two concurrent closes that were both accepted both complete. */
static void close_twice(void) {
  unsigned both = 0;
  for (int i = 0; i < 200; i++) {
    atomic_int begin = 2;
    ucxx_endpoint_t *endpoint = open_endpoint();
    closer_t closers[2] = {{endpoint, &begin, 0}, {endpoint, &begin, 0}};
    pthread_t threads[2];
    for (int n = 0; n < 2; n++)
      CHECK_EQ(pthread_create(&threads[n], NULL, close_once, &closers[n]), 0);
    for (int n = 0; n < 2; n++) CHECK_EQ(pthread_join(threads[n], NULL), 0);
    CHECK(closers[0].accepted || closers[1].accepted);
    both += closers[0].accepted && closers[1].accepted;
    ucxx_endpoint_destroy(endpoint);
  }
  printf("both accepted in %u of 200\n", both);
}

int main(void) {
  test_begin("callback_order");
  out = test_alloc(LENGTH);
  in = test_alloc(LENGTH);
  static const char *flushes[FLUSHES] = {"a flush of the endpoint", "a flush of the worker",
                                         "a close"};
  for (int delayed = -1; delayed <= 1; delayed += 2) {
    open_workers(UCXX_PROGRESS_THREAD_ADAPTIVE, delayed);
    for (int what = ENDPOINT; what < FLUSHES; what++) {
      STEP("delayed submission %d: %s", delayed, flushes[what]);
      flush_after(what);
    }
    STEP("delayed submission %d: destroy", delayed);
    destroy_after();
    STEP("delayed submission %d: two closes at once", delayed);
    close_twice();
    close_workers();
  }
  STEP("two threads progress");
  two_threads();
  free(out);
  free(in);
  return 0;
}
