/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * A server that sleeps, in every possible way, while clients connect, fetch and disconnect: each
 * client wakes it, even when it had no endpoint left. UCX's own timer, which could wake it by
 * chance, is off.
 */
#include "test_util.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

enum { ID = 1, CLIENTS = 12 };

typedef enum way { BY_THREAD, BY_SPINNING_THREAD, BY_WAIT, BY_EVENTS, WAYS } way_t;
static const char *const names[WAYS] = {"a blocking thread", "an adaptive thread",
                                        "ucxx_worker_wait", "an event loop"};

typedef struct server {
  ucxx_worker_t *worker;
  way_t way;
  int stops;
} server_t;

static void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  CHECK(ucxx_fetch_reply(fetch, "x", 1, NULL, NULL) <= UCXX_INPROGRESS);
  ucxx_fetch_destroy(fetch);
}

static int goes_on(const server_t *server) {
  return !__atomic_load_n(&server->stops, __ATOMIC_SEQ_CST);
}

static void *serve(void *arg) {
  server_t *server = arg;
  int fd = -1;
  if (server->way == BY_EVENTS) CHECK_OK(ucxx_worker_event_fd(server->worker, &fd));
  while (goes_on(server)) {
    if (server->way == BY_WAIT) {
      CHECK_OK(ucxx_worker_wait(server->worker, FOR_EVER));
      continue;
    }
    uint32_t events = 1;
    while (events > 0) CHECK_OK(ucxx_worker_progress(server->worker, &events));
    ucxx_status_t status = ucxx_worker_arm(server->worker);
    if (status == UCXX_ERR_BUSY) continue;
    CHECK_OK(status);
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    CHECK(poll(&entry, 1, -1) == 1);
  }
  return NULL;
}

static void ask(ucxx_context_t *context, const ucxx_address_t *address) {
  ucxx_worker_t *client = NULL;
  ucxx_endpoint_t *to = NULL;
  ucxx_request_t *request = NULL;
  char answer = 0;
  CHECK_OK(ucxx_worker_create(context, NULL, &client));
  CHECK_OK(ucxx_endpoint_create(client, address, NULL, &to));
  CHECK_OK(finish(ucxx_am_fetch(to, ID, NULL, 0, &answer, 1, NULL, &request), &request));
  CHECK_EQ(answer, 'x');
  ucxx_endpoint_destroy(to);
  ucxx_worker_destroy(client);
}

static void round_of(way_t way) {
  ucxx_config_entry_t entry = {.key = "KEEPALIVE_INTERVAL", .value = "inf"};
  ucxx_context_params_t context_params = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_context_t *context = NULL;
  ucxx_address_t *address = NULL;
  server_t server = {.way = way};
  pthread_t thread;
  context_params.config = &entry;
  context_params.config_count = 1;
  params.progress_mode = way == BY_THREAD            ? UCXX_PROGRESS_THREAD_BLOCKING
                         : way == BY_SPINNING_THREAD ? UCXX_PROGRESS_THREAD_ADAPTIVE
                                                     : UCXX_PROGRESS_MANUAL;
  params.thread_mode = way < BY_WAIT ? params.thread_mode : UCXX_THREAD_MULTI;
  params.spin_ns = 1;
  CHECK_OK(ucxx_context_create(&context_params, &context));
  CHECK_OK(ucxx_worker_create(context, &params, &server.worker));
  CHECK_OK(ucxx_worker_set_fetch_handler(server.worker, ID, on_fetch, NULL, NULL));
  CHECK_OK(ucxx_worker_address(server.worker, &address));
  if (way >= BY_WAIT) CHECK_EQ(pthread_create(&thread, NULL, serve, &server), 0);
  for (int client = 0; client < CLIENTS; client++) {
    STEP("%s, client %d", names[way], client);
    ask(context, address);
    /* Shows that it sleeps after the last client, where it counts sleeps. */
    ucxx_worker_stats_t before = UCXX_WORKER_STATS_INIT, after = UCXX_WORKER_STATS_INIT;
    CHECK_OK(ucxx_worker_query_stats(server.worker, &before));
    for (int looks = 0; looks < 1000 && after.sleeps <= before.sleeps; looks++) {
      sched_yield();
      CHECK_OK(ucxx_worker_query_stats(server.worker, &after));
    }
  }
  if (way >= BY_WAIT) {
    __atomic_store_n(&server.stops, 1, __ATOMIC_SEQ_CST);
    CHECK_OK(ucxx_worker_signal(server.worker));
    CHECK_EQ(pthread_join(thread, NULL), 0);
  }
  ucxx_address_destroy(address);
  ucxx_worker_destroy(server.worker);
  ucxx_context_destroy(context);
}

int main(void) {
  test_begin("reconnect_asleep");
  for (int way = 0; way < WAYS; way++) round_of((way_t)way);
  return 0;
}
