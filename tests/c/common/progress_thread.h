/*
 * Shared by the tests of progress threads: two workers of one process that have them, and ways to
 * block one.
 */
#ifndef UCXX_RS_PROGRESS_THREAD_H
#define UCXX_RS_PROGRESS_THREAD_H
#include "test_util.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static const int32_t modes[] = {UCXX_PROGRESS_THREAD_ADAPTIVE, UCXX_PROGRESS_THREAD_POLLING,
                                UCXX_PROGRESS_THREAD_BLOCKING};
static const char *const mode_names[] = {"adaptive", "polling", "blocking"};

typedef struct threaded {
  ucxx_context_t *context;
  ucxx_worker_t *left, *right;
  ucxx_endpoint_t *to_right;
} threaded_t;

static inline ucxx_worker_params_t thread_params(int32_t mode) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.progress_mode = mode;
  return params;
}

static inline void open_workers(threaded_t *pair, const ucxx_worker_params_t *params) {
  memset(pair, 0, sizeof *pair);
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, params, &pair->left));
  CHECK_OK(ucxx_worker_create(pair->context, params, &pair->right));
  pair->to_right = connect_workers(pair->left, pair->right);
}

static inline void close_workers(threaded_t *pair) {
  ucxx_endpoint_destroy(pair->to_right);
  ucxx_worker_destroy(pair->left);
  ucxx_worker_destroy(pair->right);
  ucxx_context_destroy(pair->context);
}

static inline void transfer(const threaded_t *pair, size_t length, uint64_t tag) {
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, tag + length);
  memset(in, 0, length);
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t received = ucxx_tag_recv(pair->right, in, length, tag, UINT64_MAX, NULL, &receive);
  ucxx_status_t sent = ucxx_tag_send(pair->to_right, out, length, tag, NULL, &send);
  CHECK_OK(finish(sent, &send));
  CHECK_OK(finish(received, &receive));
  CHECK_CONTENT(in, length, tag + length);
  free(in);
  free(out);
}

static inline pthread_t start(void *(*run)(void *), void *arg) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, run, arg), 0);
  return thread;
}

static inline void join(pthread_t thread) { CHECK_EQ(pthread_join(thread, NULL), 0); }

/* Blocks the progress thread in a user function until released, so that it takes nothing from the
 * queue. */
typedef struct hold {
  ucxx_worker_t *worker;
  atomic_int held, let_go;
  pthread_t thread;
} hold_t;

static inline void stay(void *arg) {
  hold_t *hold = arg;
  atomic_store(&hold->held, 1);
  while (!atomic_load(&hold->let_go)) sched_yield();
}

static inline void *ask_to_stay(void *arg) {
  hold_t *hold = arg;
  CHECK_OK(ucxx_worker_run_pre(hold->worker, stay, hold, FOR_EVER));
  return NULL;
}

static inline void hold_thread(hold_t *hold, ucxx_worker_t *worker) {
  hold->worker = worker;
  atomic_store(&hold->held, 0);
  atomic_store(&hold->let_go, 0);
  hold->thread = start(ask_to_stay, hold);
  while (!atomic_load(&hold->held)) sched_yield();
}

static inline void let_go(hold_t *hold) {
  atomic_store(&hold->let_go, 1);
  join(hold->thread);
}

static inline void count_run(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }
#endif
