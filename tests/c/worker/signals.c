/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A signal handler runs while a thread waits in the library. Waits that may return without an event
 * do, so that the program can react; waits for something specific continue. A handler may call
 * ucxx_worker_signal. A wait that does not end when it should shows as a hang.
 */
#include "group.h"
#include "waiting_thread.h"

enum { TIMES = 5 };

static atomic_int handled;
static ucxx_worker_t *signalled;

static void count(int number) {
  (void)number;
  atomic_fetch_add(&handled, 1);
}

static void call_signal(int number) {
  (void)number;
  CHECK_OK(ucxx_worker_signal(signalled));
  atomic_fetch_add(&handled, 1);
}

static void handle(void (*handler)(int), int flags) {
  struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
  CHECK_EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Runs the handler on the thread while it sleeps. */
static void disturb(waiter_t *waiter) {
  int before = atomic_load(&handled);
  waiter_await_sleep(waiter);
  CHECK_EQ(pthread_kill(waiter->thread, SIGUSR1), 0);
  while (atomic_load(&handled) == before) sched_yield();
}

/* ------------------------------------------------------------------ waits that return, and waits
 * that continue */

typedef struct call {
  const char *name;
  ucxx_status_t (*wait)(void);
  void (*begin)(void), (*end)(void); /* make it wait; end the wait */
  int returns;
} call_t;

static void nothing(void) {}

static const call_t worker_wait = {"ucxx_worker_wait", in_worker_wait, nothing, nothing, 1};
static const call_t notifier_wait = {"ucxx_notifier_wait", in_notifier_wait, nothing, nothing, 1};
static const call_t others[] = {
    {"ucxx_request_wait", in_request_wait, site_receive, site_send_both, 0},
    {"ucxx_request_wait_all", in_wait_all, site_receive, site_send_both, 0},
    {"ucxx_request_wait_any", in_wait_any, site_receive, site_send_both, 0},
    {"UCXX_FLAG_WAIT", in_operation, nothing, site_send_third, 0},
    {"ucxx_link_lease", in_lease, nothing, site_make_chunk, 0},
    {"ucxx_link_lease_many", in_lease_many, nothing, site_make_chunk, 0},
    {"ucxx_hub_peek", in_peek, nothing, site_make_chunk, 0},
    {"ucxx_hub_drain", in_drain, site_make_chunk, site_take_chunk, 0},
};
enum { OTHERS = sizeof others / sizeof *others };

static void one_call(const call_t *call, const char *mode) {
  STEP("%s, %s", call->name, mode);
  waiter_t waiter;
  call->begin();
  waiter_start(&waiter, call->wait);
  if (call->returns) {
    /* If the handler ran just before the thread slept, the thread sleeps until the next signal. */
    while (!atomic_load(&waiter.returned)) disturb(&waiter);
  } else {
    for (int time = 0; time < TIMES; time++) disturb(&waiter);
    CHECK_EQ(atomic_load(&waiter.returned), 0);
    call->end();
  }
  while (!atomic_load(&waiter.returned)) sched_yield();
  waiter_end(&waiter);
  CHECK_OK(waiter.status);
  site_clear();
}

static atomic_int over;
static ucxx_status_t in_waits(void) {
  while (!atomic_load(&over)) CHECK_OK(ucxx_worker_wait(site.worker, FOR_EVER));
  return UCXX_OK;
}

/* Two threads wait on a worker: one sleeps on its descriptor, the other behind it. */
static void behind_another(void) {
  STEP("ucxx_worker_wait behind another thread");
  waiter_t first, second;
  atomic_store(&over, 0);
  waiter_start(&first, in_waits);
  waiter_await_sleep(&first);
  waiter_start(&second, in_worker_wait);
  while (!atomic_load(&second.returned)) disturb(&second);
  CHECK_OK(second.status);
  waiter_end(&second);
  atomic_store(&over, 1);
  CHECK_OK(ucxx_worker_signal(site.worker));
  while (!atomic_load(&first.returned)) sched_yield();
  waiter_end(&first);
}

/* ------------------------------------------------------------------ ucxx_worker_signal in a
 * handler */

/* The handler runs before the wait begins: the signal is not lost. */
static void before_the_wait(const char *mode) {
  STEP("a handler that signals before the wait, %s", mode);
  for (int time = 0; time < TIMES; time++) {
    CHECK_EQ(raise(SIGUSR1), 0);
    CHECK_OK(ucxx_worker_wait(site.worker, FOR_EVER));
  }
}

static void meanwhile(const char *mode) {
  STEP("a handler that signals during a wait for a request, %s", mode);
  waiter_t waiter;
  site_receive();
  waiter_start(&waiter, in_request_wait);
  for (int time = 0; time < TIMES; time++) disturb(&waiter);
  CHECK_EQ(atomic_load(&waiter.returned), 0);
  site_send_both();
  waiter_end(&waiter);
  CHECK_OK(waiter.status);
  site_clear();
}

/* ------------------------------------------------------------------ groups and windows */

static member_t *self;
static ucxx_window_t *window;
static ucxx_status_t in_barrier(void) { return ucxx_group_barrier(self->group); }
static ucxx_status_t in_lock(void) { return ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0); }
static ucxx_status_t in_fence(void) { return ucxx_window_fence(window, 0); }

/* Rank 1 waits for rank 0, and is interrupted. */
static void of_group(ucxx_status_t (*wait)(void)) {
  uint64_t *disturbed = &self->board->count[0];
  if (self->rank == 1) {
    waiter_t waiter;
    waiter_start(&waiter, wait);
    for (int time = 0; time < TIMES; time++) disturb(&waiter);
    CHECK_EQ(atomic_load(&waiter.returned), 0);
    __atomic_store_n(disturbed, 1, __ATOMIC_RELEASE);
    waiter_end(&waiter);
    CHECK_OK(waiter.status);
  } else {
    while (__atomic_load_n(disturbed, __ATOMIC_ACQUIRE) == 0) progress(self->worker);
    __atomic_store_n(disturbed, 0, __ATOMIC_RELEASE);
    if (wait != in_lock) CHECK_OK(wait());
  }
}

static void in_group(member_t *member) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  void *base = NULL;
  self = member;
  params.thread_mode = UCXX_THREAD_MULTI;
  handle(count, SA_RESTART);
  member_open(member, &params);
  member_join(member, 0);
  STEP("a barrier");
  of_group(in_barrier);
  CHECK_OK(ucxx_window_allocate(member->group, 64, 1, NULL, &base, &window));
  STEP("a fence");
  of_group(in_fence);
  CHECK_OK(ucxx_window_fence(window, UCXX_ASSERT_NOSUCCEED));
  STEP("a lock");
  if (member->rank == 0) CHECK_OK(ucxx_window_lock(window, UCXX_LOCK_EXCLUSIVE, 0, 0));
  CHECK_OK(ucxx_group_barrier(member->group));
  of_group(in_lock);
  CHECK_OK(ucxx_window_unlock(window, 0));
  CHECK_OK(ucxx_group_barrier(member->group));
  CHECK_OK(ucxx_window_close(window));
  ucxx_window_destroy(window);
  member_close(member);
}

/* ------------------------------------------------------------------ all tests */

static void in_mode(const ucxx_worker_params_t *params, const char *mode) {
  static const int flags[] = {SA_RESTART, 0};
  const int is_manual = params->progress_mode == UCXX_PROGRESS_MANUAL;
  site_open_alone(params);
  for (int at = 0; is_manual && at < 2; at++) {
    handle(count, flags[at]);
    one_call(&worker_wait, mode);
    if (params->thread_mode == UCXX_THREAD_MULTI) behind_another();
  }
  signalled = site.worker;
  handle(call_signal, 0);
  if (is_manual) before_the_wait(mode);
  site_close();

  site_open(params);
  for (int at = 0; at < 2; at++) {
    handle(count, flags[at]);
    one_call(&notifier_wait, mode);
  }
  for (int call = 0; call < OTHERS; call++) one_call(&others[call], mode);
  signalled = site.worker;
  handle(call_signal, 0);
  meanwhile(mode);
  site_close();
}

int main(void) {
  test_begin("signals");
  run_members(2, 0, in_group);
  ucxx_worker_params_t serialized = UCXX_WORKER_PARAMS_INIT, multi = UCXX_WORKER_PARAMS_INIT,
                       thread = UCXX_WORKER_PARAMS_INIT;
  serialized.thread_mode = UCXX_THREAD_SERIALIZED;
  multi.thread_mode = thread.thread_mode = UCXX_THREAD_MULTI;
  thread.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  in_mode(&serialized, "SERIALIZED");
  in_mode(&multi, "MULTI");
  in_mode(&thread, "progress thread");
  return 0;
}
