/*
 * If the user may have no more threads, calls that need one return NO_RESOURCE, where UCX would end
 * the process. A worker that a callback destroys on its progress thread has no thread to finish on:
 * the next call that can finishes it. One that is destroyed without waiting stays.
 */
#include "test_util.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static void limit_threads(int limited) {
  struct rlimit limit;
  CHECK_EQ(getrlimit(RLIMIT_NPROC, &limit), 0);
  limit.rlim_cur = limited ? 1 : limit.rlim_max;
  CHECK_EQ(setrlimit(RLIMIT_NPROC, &limit), 0);
}

static void *nothing(void *arg) { return arg; }

/* Gives up root, which has no limit on threads. */
static void become_somebody(void) {
  pthread_t thread;
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
    test_skip("cannot give up root, which has no limit on threads");
  limit_threads(1);
  const int error = pthread_create(&thread, NULL, nothing, NULL);
  if (!error) pthread_join(thread, NULL);
  limit_threads(0);
  if (error != EAGAIN) test_skip("RLIMIT_NPROC has no effect here");
}

static void destroys(void *worker, ucxx_request_t *request, ucxx_status_t status) {
  (void)request, (void)status;
  ucxx_worker_destroy(worker);
}

int main(void) {
  ucxx_context_t *context = NULL, *other = NULL;
  ucxx_worker_t *manual = NULL, *threaded = NULL;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  uint64_t word = 1;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  test_begin("no_threads");
  become_somebody();

  STEP("UCX has no thread yet");
  limit_threads(1);
  CHECK_STATUS(ucxx_context_create(NULL, &context), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("thread");
  limit_threads(0);
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &manual));

  STEP("UCX has its thread, and no other can be created");
  limit_threads(1);
  CHECK_STATUS(ucxx_worker_create(context, &params, &threaded), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_worker_start_progress_thread(manual, UCXX_PROGRESS_THREAD_ADAPTIVE),
               UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("thread");
  CHECK_OK(ucxx_context_create(NULL, &other));
  ucxx_context_destroy(other);
  CHECK_STATUS(ucxx_worker_destroy_nb(manual, NULL, NULL), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("thread");
  CHECK_STATUS(ucxx_worker_progress(manual, NULL), UCXX_OK);
  limit_threads(0);

  STEP("a worker is destroyed on its progress thread, and no thread is left to finish it");
  CHECK_OK(ucxx_worker_create(context, &params, &threaded));
  CHECK_OK(ucxx_worker_address(threaded, &address));
  CHECK_OK(ucxx_endpoint_create(threaded, address, NULL, &endpoint));
  ucxx_address_destroy(address);
  op.callback = destroys;
  op.callback_arg = threaded;
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  limit_threads(1);
  CHECK(ucxx_tag_send(endpoint, &word, sizeof word, 1, &op, NULL) >= 0);
  while (ucxx_endpoint_status(endpoint) == UCXX_OK) {
    ucxx_worker_progress(manual, NULL);
    sched_yield();
  }
  CHECK_STATUS(ucxx_endpoint_status(endpoint), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(endpoint);
  ucxx_worker_destroy(manual);
  ucxx_context_destroy(context);
  return 0;
}
