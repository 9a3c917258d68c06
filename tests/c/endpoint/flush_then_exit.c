/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * After a close with flush, and over shared memory after a flush, has returned OK, the process may
 * exit at once and everything it sent arrives. Each round draws at random what is sent, and how.
 * Over TCP a flush promises less: the kernel drops unread data when a process exits that has not
 * read all of its own.
 */
#include "test_util.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 96, MOST = 300, ID = 3 };

typedef enum kind { TAG, MESSAGE, QUEUE, STREAM, KINDS } kind_t;
typedef enum ending { FLUSH, FLUSH_WORKER, CLOSE, DESTROY, ENDINGS } ending_t;
static const char *const kinds[KINDS] = {"tag", "message", "queue", "stream"};
static const char *const endings[ENDINGS] = {"flush", "worker's flush", "close", "destroy"};

typedef struct plan {
  kind_t kind;
  ending_t ending;
  int by_port, manual, slow;
  unsigned count;
  size_t length;
} plan_t;

static plan_t plan;
static ucxx_context_t *context;
static ucxx_worker_t *worker;
static ucxx_endpoint_t *endpoint;
static seen_t closed;
static unsigned came;
static char *room[MOST];

static void on_message(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  CHECK_EQ(ucxx_am_message_length(message), plan.length);
  if (ucxx_am_message_data(message) == NULL) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    static seen_t pulled;
    params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = see_completion;
    params.callback_arg = &pulled;
    ucxx_status_t status = ucxx_am_message_recv(message, room[came], plan.length, &params, NULL);
    CHECK(status >= 0);
  }
  came++;
  ucxx_am_message_destroy(message);
}

static void on_connect(void *arg, ucxx_conn_request_t *request) {
  CHECK_OK(ucxx_endpoint_accept(request, arg, &endpoint));
  ucxx_conn_request_destroy(request);
}

static ucxx_status_t receive_one(unsigned at, ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  switch (plan.kind) {
  case TAG:
    params.source = endpoint;
    return ucxx_tag_recv(worker, room[at], plan.length, at, UINT64_MAX, &params, request);
  case STREAM: return ucxx_stream_recv(endpoint, room[at], plan.length, NULL, request);
  default: return ucxx_am_queue_recv(endpoint, NULL, NULL, request);
  }
}

/* All messages are here, although their sender has exited. */
static void take(const pair_t *pair) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_listener_t *listener = NULL;
  ucxx_request_t *requests[MOST] = {NULL};
  ucxx_status_t status[MOST];
  params.on_close = see_endpoint;
  params.on_close_arg = &closed;
  for (unsigned at = 0; at < plan.count; at++) room[at] = test_alloc(plan.length);
  CHECK_OK(ucxx_worker_set_am_handler(worker, ID, on_message, NULL, NULL));
  if (plan.by_port) {
    ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
    listening.on_connect = on_connect;
    listening.on_connect_arg = &params;
    CHECK_OK(ucxx_listener_create(worker, &listening, &listener));
    uint16_t port = ucxx_listener_port(listener);
    channel_put(pair, &port, sizeof port);
    while (endpoint == NULL) progress(worker);
  } else {
    ucxx_address_t *theirs = pair_exchange_address(pair, worker);
    CHECK_OK(ucxx_endpoint_create(worker, theirs, &params, &endpoint));
    ucxx_address_destroy(theirs);
  }
  for (unsigned at = 0; at < plan.count && plan.kind != MESSAGE; at++)
    status[at] = receive_one(at, &requests[at]);
  channel_put(pair, "g", 1);
  while (seen_count(&closed) == 0) {
    progress(worker);
    if (plan.slow) usleep(1000);
  }
  ucxx_status_t told = UCXX_OK;
  channel_get(pair, &told, sizeof told);
  CHECK_OK(told);
  unsigned arrived = plan.kind == MESSAGE ? came : 0;
  for (unsigned at = 0; at < plan.count && plan.kind != MESSAGE; at++)
    arrived += finish(status[at], &requests[at]) == UCXX_OK;
  if (arrived < plan.count)
    FAIL("%u messages sent, %u lost; on_close %s", plan.count, plan.count - arrived,
         ucxx_status_string(closed.status));
  ucxx_endpoint_destroy(endpoint);
  ucxx_listener_destroy(listener);
}

static ucxx_status_t send_one(unsigned at, const void *data, ucxx_request_t **request) {
  switch (plan.kind) {
  case TAG: return ucxx_tag_send(endpoint, data, plan.length, at, NULL, request);
  case STREAM: return ucxx_stream_send(endpoint, data, plan.length, NULL, request);
  case QUEUE: return ucxx_am_queue_send(endpoint, data, plan.length, NULL, request);
  default: return ucxx_am_send(endpoint, ID, NULL, 0, data, plan.length, NULL, request);
  }
}

static void give(const pair_t *pair) {
  ucxx_request_t *requests[MOST] = {NULL}, *request = NULL;
  ucxx_status_t status[MOST], told = UCXX_OK;
  char *data = test_alloc(plan.length), go = 0;
  memset(data, 7, plan.length);
  if (plan.by_port) {
    uint16_t port = 0;
    channel_get(pair, &port, sizeof port);
    CHECK_OK(ucxx_endpoint_connect(worker, "127.0.0.1", port, NULL, &endpoint));
  } else {
    ucxx_address_t *theirs = pair_exchange_address(pair, worker);
    CHECK_OK(ucxx_endpoint_create(worker, theirs, NULL, &endpoint));
    ucxx_address_destroy(theirs);
  }
  while (recv(pair->channel, &go, 1, MSG_DONTWAIT) != 1) progress(worker);
  for (unsigned at = 0; at < plan.count; at++) status[at] = send_one(at, data, &requests[at]);
  switch (plan.ending) {
  case FLUSH: told = finish(ucxx_endpoint_flush(endpoint, NULL, &request), &request); break;
  case FLUSH_WORKER: told = finish(ucxx_worker_flush(worker, NULL, &request), &request); break;
  case CLOSE: told = finish(close_patiently(endpoint, &request), &request); break;
  default: ucxx_endpoint_destroy(endpoint); break;
  }
  for (unsigned at = 0; at < plan.count; at++) CHECK_OK(finish(status[at], &requests[at]));
  channel_put(pair, &told, sizeof told);
  _exit(0);
}

static pid_t start(int channel, void (*side)(const pair_t *pair)) {
  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = plan.manual ? UCXX_PROGRESS_MANUAL : UCXX_PROGRESS_THREAD_ADAPTIVE;
    CHECK_OK(ucxx_context_create(NULL, &context));
    CHECK_OK(ucxx_worker_create(context, &params, &worker));
    side(&(pair_t){.channel = channel, .worker = worker});
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
    exit(0);
  }
  return pid;
}

static void wait_for(pid_t pid) {
  int status = 0;
  CHECK_EQ(waitpid(pid, &status, 0), pid);
  CHECK_EQ(status, 0);
}

int main(void) {
  test_begin("flush_then_exit");
  static const size_t lengths[] = {8, 8000, 70000, 262144};
  uint64_t seed = test_seed();
  for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
    uint64_t chance = test_mix(seed + round);
    int channels[2];
    plan = (plan_t){.kind = (kind_t)(round % KINDS),
                    .ending = (ending_t)(round / KINDS % ENDINGS),
                    .by_port = chance % 3 == 0 && has_tcp(),
                    .manual = chance / 3 % 2 == 0};
    plan.length = lengths[chance / 6 % 4];
    if (has_tcp() && plan.ending < CLOSE) plan.ending = (ending_t)(plan.ending + CLOSE);
    plan.count = 1 + (unsigned)(chance / 24 % MOST);
    /* The largest amount is in flight at the start, and its receiver is slow. */
    if (round % 8 == 0)
      plan = (plan_t){.kind = TAG,
                      .ending = plan.ending,
                      .manual = 1,
                      .slow = 1,
                      .count = MOST,
                      .length = 262144};
    STEP("round %u: %s, %u of %zu bytes, %s, by %s", round, kinds[plan.kind], plan.count,
         plan.length, endings[plan.ending], plan.by_port ? "port" : "address");
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, channels), 0);
    pid_t taker = start(channels[0], take), giver = start(channels[1], give);
    wait_for(giver);
    wait_for(taker);
    close(channels[0]);
    close(channels[1]);
  }
  return 0;
}
