/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * pthread_cancel of a thread inside a call that waits, creates or destroys takes effect after that
 * call: the process keeps running, and the objects stay usable.
 */
#include "test_util.h"
#include "waiting_thread.h"

typedef struct call {
  const char *name;
  ucxx_status_t (*wait)(void);
  void (*begin)(void), (*end)(void);
} call_t;

static void nothing(void) {}
static void signal_it(void) { CHECK_OK(ucxx_worker_signal(site.worker)); }
static void stop_notifier(void) { CHECK_OK(ucxx_notifier_stop(site.notifier)); }

static const call_t calls[] = {
    {"ucxx_worker_wait", in_worker_wait, nothing, signal_it},
    {"ucxx_notifier_wait", in_notifier_wait, nothing, stop_notifier},
    {"ucxx_request_wait", in_request_wait, site_receive, site_send_both},
    {"ucxx_request_wait_all", in_wait_all, site_receive, site_send_both},
    {"ucxx_request_wait_any", in_wait_any, site_receive, site_send_both},
    {"UCXX_FLAG_WAIT", in_operation, nothing, site_send_third},
    {"ucxx_link_lease", in_lease, nothing, site_make_chunk},
    {"ucxx_link_lease_many", in_lease_many, nothing, site_make_chunk},
    {"ucxx_hub_peek", in_peek, nothing, site_make_chunk},
    {"ucxx_hub_drain", in_drain, site_make_chunk, site_take_chunk},
};
enum { CALLS = sizeof calls / sizeof *calls };

static void one_call(const call_t *call, const ucxx_worker_params_t *params, const char *mode) {
  STEP("%s, %s", call->name, mode);
  waiter_t waiter;
  site_open(params);
  call->begin();
  waiter_start(&waiter, call->wait);
  waiter_await_sleep(&waiter);
  CHECK_EQ(pthread_cancel(waiter.thread), 0);
  call->end();
  CHECK_EQ(waiter_end(&waiter), 1);
  CHECK_EQ(atomic_load(&waiter.returned), 1);
  site_clear();
  /* The worker is still usable. */
  if (params->progress_mode == UCXX_PROGRESS_MANUAL)
    CHECK_OK(ucxx_worker_progress(site.worker, NULL));
  site_close();
}

/* Cancelled before the call. */
static ucxx_status_t make_and_end(void) {
  ucxx_context_t *context = NULL;
  ucxx_worker_t *worker = NULL;
  int state;
  CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state), 0);
  CHECK_EQ(pthread_cancel(pthread_self()), 0);
  CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state), 0);
  ucxx_status_t status = ucxx_context_create(NULL, &context);
  if (status == UCXX_OK) status = ucxx_worker_create(context, NULL, &worker);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return status;
}

int main(void) {
  test_begin("thread_cancelled");
  ucxx_worker_params_t manual = UCXX_WORKER_PARAMS_INIT, thread = UCXX_WORKER_PARAMS_INIT;
  manual.thread_mode = UCXX_THREAD_SERIALIZED;
  thread.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  for (int call = 0; call < CALLS; call++) {
    one_call(&calls[call], &manual, "SERIALIZED");
    if (call > 0) one_call(&calls[call], &thread, "progress thread");
  }
  STEP("a context and a worker");
  waiter_t waiter;
  waiter_start(&waiter, make_and_end);
  CHECK_EQ(waiter_end(&waiter), 1);
  CHECK_EQ(atomic_load(&waiter.returned), 1);
  CHECK_OK(waiter.status);
  return 0;
}
