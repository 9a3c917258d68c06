/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A thread in a blocking call, and what a test does to it meanwhile. Include test_util.h first. */
#ifndef UCXX_RS_TEST_WAITER_H
#define UCXX_RS_TEST_WAITER_H
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct waiter {
  ucxx_status_t (*wait)(void);
  pthread_t thread;
  atomic_long id;
  atomic_int returned, may_end;
  ucxx_status_t status; /* once it has returned */
} waiter_t;

static void *be_waiter(void *arg) {
  waiter_t *waiter = arg;
  atomic_store(&waiter->id, syscall(SYS_gettid));
  waiter->status = waiter->wait();
  atomic_store(&waiter->returned, 1);
  do {
    pthread_testcancel();
    sched_yield();
  } while (!atomic_load(&waiter->may_end));
  pthread_testcancel();
  return NULL;
}

static inline void waiter_start(waiter_t *waiter, ucxx_status_t (*wait)(void)) {
  memset(waiter, 0, sizeof *waiter);
  waiter->wait = wait;
  CHECK_EQ(pthread_create(&waiter->thread, NULL, be_waiter, waiter), 0);
}

/* Does the thread sleep in the kernel? */
static inline int is_asleep(long id) {
  char path[64], line[256];
  snprintf(path, sizeof path, "/proc/self/task/%ld/stat", id);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  const char *end = fgets(line, sizeof line, file) == NULL ? NULL : strrchr(line, ')');
  fclose(file);
  return end != NULL && end[1] == ' ' && end[2] == 'S';
}

/* Waits until the thread sleeps or has returned. */
static inline void waiter_await_sleep(waiter_t *waiter) {
  while (!atomic_load(&waiter->returned) &&
         (atomic_load(&waiter->id) == 0 || !is_asleep(atomic_load(&waiter->id))))
    sched_yield();
}

/* True if the thread was cancelled. */
static inline int waiter_end(waiter_t *waiter) {
  void *result = NULL;
  atomic_store(&waiter->may_end, 1);
  CHECK_EQ(pthread_join(waiter->thread, &result), 0);
  return result == PTHREAD_CANCELED;
}

/* ------------------------------------------------------------------ blocking calls, and the
 * objects they wait for */

/* A worker that threads wait on, and one with a progress thread that sends to it. */
static struct site {
  ucxx_context_t *context;
  ucxx_worker_t *worker, *sender;
  ucxx_endpoint_t *endpoint;
  ucxx_request_t *request[2];
  uint64_t word[2];
  ucxx_notifier_t *notifier;
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out;
  ucxx_envelope_t *held;
} site;

static inline void site_receive(void) {
  for (int at = 0; at < 2; at++)
    CHECK_STATUS(
        ucxx_tag_recv(site.worker, &site.word[at], 8, 10 + at, UINT64_MAX, NULL, &site.request[at]),
        UCXX_INPROGRESS);
}

static inline ucxx_status_t in_worker_wait(void) { return ucxx_worker_wait(site.worker, FOR_EVER); }
static inline ucxx_status_t in_notifier_wait(void) {
  return ucxx_notifier_wait(site.notifier, FOR_EVER);
}
static inline ucxx_status_t in_request_wait(void) {
  return ucxx_request_wait(site.request[0], FOR_EVER);
}
static inline ucxx_status_t in_wait_all(void) {
  return ucxx_request_wait_all(site.request, 2, FOR_EVER);
}
static inline ucxx_status_t in_wait_any(void) {
  size_t index = 9;
  return ucxx_request_wait_any(site.request, 2, FOR_EVER, &index);
}
static inline ucxx_status_t in_operation(void) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  return ucxx_tag_recv(site.worker, &site.word[0], 8, 12, UINT64_MAX, &params, NULL);
}
static inline ucxx_status_t in_lease(void) {
  return ucxx_link_lease(site.out, FOR_EVER, &site.held);
}
static inline ucxx_status_t in_lease_many(void) {
  return ucxx_link_lease_many(&site.out, 1, FOR_EVER, &site.held);
}
static inline ucxx_status_t in_peek(void) {
  const ucxx_memory_kind_t on_host = {UCXX_MEMORY_HOST, 0};
  return ucxx_hub_peek(site.hub, on_host, FOR_EVER, &site.held);
}
static inline ucxx_status_t in_drain(void) { return ucxx_hub_drain(site.hub, FOR_EVER); }

static inline void site_send(uint64_t tag) {
  ucxx_request_t *request = NULL;
  CHECK_OK(finish(ucxx_tag_send(site.endpoint, "message", 8, tag, NULL, &request), &request));
}
static inline void site_send_both(void) {
  site_send(10);
  site_send(11);
}
static inline void site_send_third(void) { site_send(12); }

/* Produces a chunk, which ends the wait for a lease. */
static inline void site_make_chunk(void) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(site.in, 0, &envelope));
  CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
}

/* Consumes it, which ends the wait for a drain. */
static inline void site_take_chunk(void) {
  ucxx_envelope_t *envelope = NULL;
  CHECK_OK(ucxx_link_lease(site.out, 0, &envelope));
  CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
}

/* A worker to which nobody sends. */
static inline void site_open_alone(const ucxx_worker_params_t *params) {
  memset(&site, 0, sizeof site);
  CHECK_OK(ucxx_context_create(NULL, &site.context));
  CHECK_OK(ucxx_worker_create(site.context, params, &site.worker));
}

static inline void site_open(const ucxx_worker_params_t *params) {
  const ucxx_memory_kind_t on_host = {UCXX_MEMORY_HOST, 0};
  ucxx_worker_params_t with_thread = UCXX_WORKER_PARAMS_INIT;
  ucxx_hub_params_t hub = UCXX_HUB_PARAMS_INIT;
  with_thread.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  hub.envelope_size = 8;
  site_open_alone(params);
  CHECK_OK(ucxx_worker_create(site.context, &with_thread, &site.sender));
  site.endpoint = connect_workers(site.sender, site.worker);
  /* One transfer, so that the two are connected before a thread waits. */
  ucxx_request_t *sent = NULL, *received = NULL;
  ucxx_status_t status = ucxx_tag_send(site.endpoint, "message", 8, 9, NULL, &sent);
  CHECK_OK(finish(ucxx_tag_recv(site.worker, &site.word[0], 8, 9, UINT64_MAX, NULL, &received),
                  &received));
  CHECK_OK(finish(status, &sent));
  CHECK_OK(ucxx_notifier_create(site.context, &site.notifier));
  CHECK_OK(ucxx_hub_create(site.context, &hub, &site.hub));
  CHECK_OK(ucxx_hub_add_envelopes(site.hub, on_host, 2));
  CHECK_OK(ucxx_link_create(site.hub, UCXX_LINK_PRODUCE, on_host, NULL, &site.in));
  CHECK_OK(ucxx_link_create(site.hub, UCXX_LINK_CONSUME, on_host, NULL, &site.out));
}

/* Cleans up after a call, before the next one. */
static inline void site_clear(void) {
  for (int at = 0; at < 2; at++) {
    ucxx_request_destroy(site.request[at]);
    site.request[at] = NULL;
  }
  if (site.held != NULL) CHECK_OK(ucxx_envelope_release(site.held, NULL));
  site.held = NULL;
  while (site.hub != NULL && ucxx_hub_pop(site.hub) == UCXX_OK);
}

static inline void site_close(void) {
  ucxx_endpoint_destroy(site.endpoint);
  ucxx_link_destroy(site.in);
  ucxx_link_destroy(site.out);
  ucxx_hub_destroy(site.hub);
  ucxx_notifier_destroy(site.notifier);
  ucxx_worker_destroy(site.sender);
  ucxx_worker_destroy(site.worker);
  ucxx_context_destroy(site.context);
}
#endif
