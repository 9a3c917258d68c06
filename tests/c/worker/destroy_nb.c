/*
 * ucxx_worker_destroy_nb waits for no callback, in every mode. Operations in flight complete with
 * CANCELED before `done`, which runs once, elsewhere.
 */
#include "test_util.h"

#include <pthread.h>
#include <sched.h>

/* Set on one thread and read on another. */
#define SET(flag) __atomic_store_n(&(flag), 1, __ATOMIC_RELEASE)
#define IS_SET(flag) __atomic_load_n(&(flag), __ATOMIC_ACQUIRE)

typedef struct ending {
  ucxx_context_t *context; /* destroyed in `done` */
  seen_t canceled;
  int in_callback, is_done;
  pthread_t caller;
} ending_t;

static void done(void *arg) {
  ending_t *ending = arg;
  CHECK(!pthread_equal(pthread_self(), ending->caller));
  CHECK_EQ(seen_count(&ending->canceled), 1);
  CHECK_STATUS(ending->canceled.status, UCXX_ERR_CANCELED);
  CHECK(!IS_SET(ending->is_done));
  ucxx_context_destroy(ending->context);
  SET(ending->is_done);
}

static void await_done(ending_t *ending) {
  while (!IS_SET(ending->is_done)) sched_yield();
}

/* A worker with a receive in flight that no message matches. */
static ucxx_worker_t *begin(ending_t *ending, const ucxx_worker_params_t *params) {
  static uint64_t word;
  ucxx_worker_t *worker = NULL;
  memset(ending, 0, sizeof *ending);
  ending->caller = pthread_self();
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = see_completion;
  op.callback_arg = &ending->canceled;
  CHECK_OK(ucxx_context_create(NULL, &ending->context));
  CHECK_OK(ucxx_worker_create(ending->context, params, &worker));
  CHECK_STATUS(ucxx_tag_recv(worker, &word, sizeof word, 1, UINT64_MAX, &op, NULL),
               UCXX_INPROGRESS);
  return worker;
}

static void plainly(const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s: destroyed, and done elsewhere", mode);
  ending_t ending;
  ucxx_worker_t *worker = begin(&ending, params);
  CHECK_OK(ucxx_worker_destroy_nb(worker, done, &ending));
  await_done(&ending);
}

/* ------------------------------------------------------------------ a callback that waits for the
 * caller */

static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;

static void takes_lock(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  ending_t *ending = arg;
  (void)request;
  CHECK_OK(status);
  SET(ending->in_callback);
  CHECK_EQ(pthread_mutex_lock(&interpreter), 0);
  CHECK_EQ(pthread_mutex_unlock(&interpreter), 0);
}

static void callback_waits_for_caller(void) {
  STEP("a callback waits for a lock that the caller holds");
  ending_t ending;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  uint64_t out = 1, in = 0;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  ucxx_worker_t *worker = begin(&ending, &params);
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  op.callback = takes_lock;
  op.callback_arg = &ending;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_EQ(pthread_mutex_lock(&interpreter), 0);
  CHECK(ucxx_tag_recv(worker, &in, sizeof in, 2, UINT64_MAX, &op, NULL) >= 0);
  CHECK(ucxx_tag_send(endpoint, &out, sizeof out, 2, NULL, NULL) >= 0);
  while (!IS_SET(ending.in_callback)) sched_yield();
  CHECK_OK(ucxx_worker_destroy_nb(worker, done, &ending));
  CHECK(!IS_SET(ending.is_done));
  CHECK_EQ(pthread_mutex_unlock(&interpreter), 0);
  await_done(&ending);
  ucxx_endpoint_destroy(endpoint);
}

/* ------------------------------------------------------------------ from a callback */

typedef struct here {
  ending_t ending;
  ucxx_worker_t *worker;
} here_t;

static void destroys(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  here_t *here = arg;
  (void)request, (void)status;
  CHECK_OK(ucxx_worker_destroy_nb(here->worker, done, &here->ending));
  CHECK(!IS_SET(here->ending.is_done));
  SET(here->ending.in_callback);
}

static void from_callback(const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s: destroyed in a callback", mode);
  here_t here;
  uint64_t out = 1, in = 0;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  ucxx_worker_t *worker = begin(&here.ending, params);
  ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
  here.worker = worker;
  op.callback = destroys;
  op.callback_arg = &here;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK(ucxx_tag_recv(worker, &in, sizeof in, 2, UINT64_MAX, &op, NULL) >= 0);
  CHECK(ucxx_tag_send(endpoint, &out, sizeof out, 2, NULL, NULL) >= 0);
  while (!IS_SET(here.ending.in_callback)) {
    if (params->progress_mode == UCXX_PROGRESS_MANUAL)
      ucxx_worker_progress(worker, NULL);
    else
      sched_yield();
  }
  await_done(&here.ending);
  ucxx_endpoint_destroy(endpoint);
}

int main(void) {
  test_begin("destroy_nb");
  CHECK_STATUS(ucxx_worker_destroy_nb(NULL, done, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("worker");
  in_every_mode(plainly);
  in_every_mode(from_callback);
  callback_waits_for_caller();
  return 0;
}
