/*
 * Several threads make random calls on two workers whose progress threads start and stop meanwhile;
 * callbacks submit, cancel and destroy as well. Each completion is reported once, every waiting
 * thread returns, even when the workers are destroyed, and the counters agree at the end.
 *
 *   random_threads [EPISODES [STEPS]]; UCXX_TEST_SEED repeats the choices, but not the timing.
 */
#include "progress_thread_random.h"

enum { WORKERS = 2, THREADS = 4, HELD = 24, LARGEST = 40000, DEPTH = 16 };

typedef struct caller caller_t;

typedef struct operation {
  caller_t *caller;
  ucxx_request_t *request;
  uint8_t *buffer;
  size_t length;
  atomic_int told;
  int reported, canceled;
  struct operation *next; /* all operations of the caller */
} operation_t;

struct caller {
  uint64_t random;
  uint64_t tag;
  int number, steps;
  ucxx_endpoint_t *endpoints[WORKERS]; /* i: from worker i to the other one */
  operation_t *held[HELD];
  operation_t *all;
  atomic_int ready;
  pthread_t thread;
};

static ucxx_context_t *context;
static ucxx_worker_t *workers[WORKERS];
static ucxx_notifier_t *notifier;
static atomic_int over, from_callbacks;
static int abrupt;
/* UCX 1.13 asserts when a worker ends during a rendezvous. Over TCP it also asserts when a worker
 * ends, or an endpoint is closed by force, during a wire-up (ucp_request.c:684) or during a flush
 * that a peer has yet to answer (tcp_ep.c:939). With that release the test avoids all of these. */
static uint64_t largest;
static int careful;
static ucxx_address_t *addresses[WORKERS];

static void on_end(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  operation_t *op = arg;
  CHECK_EQ(atomic_fetch_add(&op->told, 1), 0);
  CHECK(status != UCXX_INPROGRESS);
  if (request != NULL) CHECK_STATUS(ucxx_request_status(request), status);
  static uint64_t word;
  int turn = atomic_fetch_add(&from_callbacks, 1);
  if (turn % 3 != 0 || atomic_load(&over)) return;
  /* No other operation uses this tag, and no request is kept. */
  ucxx_request_t *own = NULL;
  ucxx_worker_t *worker = workers[turn / 3 % WORKERS];
  CHECK_STATUS(ucxx_worker_wait(worker, 0), UCXX_ERR_BUSY);
  ucxx_status_t begun = ucxx_tag_recv(worker, &word, 8, UINT64_C(1) << 60, UINT64_MAX, NULL, &own);
  if (begun == UCXX_INPROGRESS) {
    CHECK_OK(ucxx_request_cancel(own));
    ucxx_request_destroy(own);
  } else {
    CHECK(begun == UCXX_ERR_NO_RESOURCE || begun == UCXX_ERR_CLOSED);
  }
}

static void *poll_completions(void *arg) {
  (void)arg;
  ucxx_completion_t found[5];
  for (;;) {
    ucxx_status_t status = ucxx_notifier_wait(notifier, FOR_EVER);
    size_t count = 0;
    if (status == UCXX_OK) status = ucxx_notifier_poll(notifier, found, sizeof *found, 5, &count);
    if (status == UCXX_ERR_CLOSED) return NULL;
    CHECK_OK(status);
    for (size_t at = 0; at < count; at++)
      CHECK_EQ(atomic_fetch_add(&((operation_t *)found[at].user_data)->told, 1), 0);
  }
}

static void drop_one(operation_t **place) {
  ucxx_request_destroy((*place)->request);
  (*place)->request = NULL;
  *place = NULL;
}

static operation_t **any_place(caller_t *caller, int filled) {
  for (int tries = 0; tries < HELD; tries++) {
    operation_t **place = &caller->held[draw(&caller->random, HELD)];
    if ((*place != NULL) == filled) return place;
  }
  if (filled) return NULL;
  if (caller->held[0] != NULL) drop_one(&caller->held[0]);
  return &caller->held[0];
}

static void submit(caller_t *caller) {
  uint64_t *random = &caller->random;
  operation_t *op = calloc(1, sizeof *op), **place = any_place(caller, 0);
  CHECK(op != NULL);
  op->caller = caller;
  op->next = caller->all;
  caller->all = op;
  op->length = draw(random, 6) == 0 ? draw(random, largest) : 1 + draw(random, 64);
  op->buffer = test_alloc(op->length);
  memset(op->buffer, caller->number, op->length);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback_arg = op;
  uint64_t how = draw(random, 4);
  if (how == 0)
    params.callback = on_end;
  else if (how == 1)
    params.notifier = notifier;
  op->reported = how < 2;
  if (draw(random, 3) == 0) params.flags |= UCXX_FLAG_ALWAYS_CALLBACK;
  if (draw(random, 16) == 0) params.flags |= UCXX_FLAG_DELAYED;
  if (draw(random, 6) == 0) params.timeout_ns = 1 + draw(random, 2000000);
  int side = (int)draw(random, WORKERS);
  ucxx_request_t **out = draw(random, 4) == 0 ? NULL : &op->request;
  ucxx_status_t status;
  switch (draw(random, 12)) {
  case 0: status = ucxx_worker_flush(workers[side], &params, out); break;
  case 1: status = ucxx_endpoint_flush(caller->endpoints[side], &params, out); break;
  case 2:
    if (careful) { /* its flush would wait for a receive */
      status =
          ucxx_tag_send(caller->endpoints[side], op->buffer, op->length, caller->tag, &params, out);
      break;
    }
    status = ucxx_tag_send_sync(caller->endpoints[side], op->buffer, op->length, caller->tag,
                                &params, out);
    break;
  case 3:
  case 4:
  case 5:
  case 6:
    status =
        ucxx_tag_send(caller->endpoints[side], op->buffer, op->length, caller->tag, &params, out);
    break;
  default:
    status =
        ucxx_tag_recv(workers[side], op->buffer, op->length, caller->tag, UINT64_MAX, &params, out);
  }
  if (status == UCXX_INPROGRESS) {
    CHECK_EQ(op->request != NULL, out != NULL);
    if (op->request != NULL) *place = op;
    return;
  }
  CHECK(op->request == NULL);
  op->reported = 0;
  CHECK_EQ(atomic_load(&op->told), 0);
  /* The queue is full; DELAYED without a thread; or another caller has closed the endpoint. */
  if (status != UCXX_OK && status != UCXX_ERR_NO_RESOURCE && status != UCXX_ERR_UNSUPPORTED &&
      status != UCXX_ERR_PEER_FAILED)
    CHECK_STATUS(status, UCXX_ERR_CONNECTION_RESET);
}

static void count_up(void *arg) { atomic_fetch_add((atomic_int *)arg, 1); }

static void run_function(caller_t *caller) {
  uint64_t *random = &caller->random;
  atomic_int runs;
  atomic_init(&runs, 0);
  ucxx_worker_t *worker = workers[draw(random, WORKERS)];
  uint64_t timeout = draw(random, 3) == 0 ? FOR_EVER : draw(random, 50000);
  ucxx_status_t status = draw(random, 2) ? ucxx_worker_run_pre(worker, count_up, &runs, timeout)
                                         : ucxx_worker_run_post(worker, count_up, &runs, timeout);
  if (status != UCXX_OK) CHECK_STATUS(status, UCXX_ERR_TIMED_OUT);
  CHECK_EQ(atomic_load(&runs), status == UCXX_OK);
}

static void wait_for_some(caller_t *caller) {
  uint64_t *random = &caller->random;
  ucxx_request_t *list[4];
  size_t index = 99;
  for (int at = 0; at < 4; at++) {
    operation_t **place = any_place(caller, 1);
    list[at] = place == NULL || draw(random, 8) == 0 ? NULL : (*place)->request;
  }
  uint64_t timeout = draw(random, 2) * draw(random, 200000);
  ucxx_status_t status;
  switch (draw(random, 3)) {
  case 0:
    if (list[0] != NULL) {
      status = ucxx_request_wait(list[0], timeout);
      CHECK(status != UCXX_ERR_BUSY && status != UCXX_ERR_INVALID_PARAM);
    }
    break;
  case 1:
    status = ucxx_request_wait_all(list, 4, timeout);
    CHECK(status != UCXX_ERR_BUSY && status != UCXX_ERR_INVALID_PARAM);
    break;
  default:
    /* INVALID_PARAM: two workers, one of which has no thread at the moment. */
    status = ucxx_request_wait_any(list, 4, timeout, &index);
    CHECK(status != UCXX_ERR_BUSY);
    if (index != 99)
      CHECK(index < 4 && list[index] != NULL && ucxx_request_status(list[index]) == status);
  }
}

static void renew_endpoint(caller_t *caller) {
  int side = (int)draw(&caller->random, WORKERS);
  if (draw(&caller->random, 2)) {
    ucxx_status_t status =
        ucxx_endpoint_close(caller->endpoints[side], UCXX_CLOSE_FLUSH, NULL, NULL);
    if (status != UCXX_INPROGRESS) CHECK_OK(status);
  }
  ucxx_endpoint_destroy(caller->endpoints[side]);
  CHECK_OK(
      ucxx_endpoint_create(workers[side], addresses[1 - side], NULL, &caller->endpoints[side]));
}

static void receive_probed(caller_t *caller) {
  ucxx_recv_info_t info;
  ucxx_tag_message_t *message = NULL;
  ucxx_worker_t *worker = workers[draw(&caller->random, WORKERS)];
  ucxx_status_t status = ucxx_tag_probe(worker, caller->tag, UINT64_MAX, &info,
                                        draw(&caller->random, 2) ? &message : NULL);
  if (status != UCXX_OK) CHECK_STATUS(status, UCXX_ERR_NO_MESSAGE);
  ucxx_tag_message_destroy(message);
}

static void see_line(void *arg, const char *text) {
  (void)arg;
  CHECK(text != NULL);
}

static void look_around(caller_t *caller) {
  ucxx_worker_t *worker = workers[draw(&caller->random, WORKERS)];
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  CHECK(stats.in_flight < 1000000);
  CHECK_OK(ucxx_worker_query(worker, &attr));
  ucxx_status_t status = ucxx_worker_progress(worker, NULL);
  if (status != UCXX_OK) CHECK_STATUS(status, UCXX_ERR_BUSY);
  if (draw(&caller->random, 8) == 0) CHECK_OK(ucxx_worker_dump(worker, see_line, NULL));
  CHECK_OK(ucxx_worker_signal(worker));
}

static void one_step(caller_t *caller) {
  operation_t **place;
  switch (draw(&caller->random, 20)) {
  case 0:
  case 1:
    if ((place = any_place(caller, 1)) != NULL) drop_one(place);
    break;
  case 2:
    if ((place = any_place(caller, 1)) != NULL) CHECK_OK(ucxx_request_cancel((*place)->request));
    break;
  case 3: run_function(caller); break;
  case 4:
  case 5: wait_for_some(caller); break;
  case 6: look_around(caller); break;
  case 7: receive_probed(caller); break;
  case 8:
    if (draw(&caller->random, 150) == 0 && !careful) renew_endpoint(caller);
    break;
  case 9: pause_randomly(&caller->random); break;
  default: submit(caller);
  }
}

static void *call(void *arg) {
  caller_t *caller = arg;
  for (int step = 0; step < caller->steps; step++) one_step(caller);
  /* Nothing matches this receive: it is cancelled, or ends with its worker. */
  ucxx_request_t *last = NULL;
  uint64_t word;
  int side = (int)draw(&caller->random, WORKERS);
  ucxx_status_t status;
  while ((status = ucxx_tag_recv(workers[side], &word, 8, UINT64_C(2) << 60, UINT64_MAX, NULL,
                                 &last)) == UCXX_ERR_NO_RESOURCE)
    sched_yield();
  CHECK_STATUS(status, UCXX_INPROGRESS);
  if (!abrupt) {
    for (int at = 0; at < HELD; at++)
      if (caller->held[at] != NULL) CHECK_OK(ucxx_request_cancel(caller->held[at]->request));
    CHECK_OK(ucxx_request_cancel(last));
  }
  atomic_store(&caller->ready, 1);
  CHECK_STATUS(ucxx_request_wait(last, FOR_EVER), UCXX_ERR_CANCELED);
  ucxx_request_destroy(last);
  return NULL;
}

static void *start_and_stop(void *arg) {
  uint64_t random = *(uint64_t *)arg;
  while (!atomic_load(&over)) {
    ucxx_worker_t *worker = workers[draw(&random, WORKERS)];
    ucxx_status_t status = ucxx_worker_start_progress_thread(worker, modes[draw(&random, 3)]);
    if (status != UCXX_OK) {
      CHECK_STATUS(status, UCXX_ERR_ALREADY_EXISTS);
      CHECK_OK(ucxx_worker_stop_progress_thread(worker));
    }
    struct timespec time = {.tv_nsec = (long)draw(&random, 3000000)};
    nanosleep(&time, NULL);
  }
  return NULL;
}

static void check_counters(ucxx_worker_t *worker) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(worker, &stats));
  CHECK_EQ(stats.submitted, stats.completed + stats.failed + stats.canceled + stats.in_flight);
}

static void have_progress(void) {
  for (int side = 0; side < WORKERS; side++) {
    ucxx_status_t status =
        ucxx_worker_start_progress_thread(workers[side], UCXX_PROGRESS_THREAD_BLOCKING);
    if (status != UCXX_OK) CHECK_STATUS(status, UCXX_ERR_ALREADY_EXISTS);
  }
}

/* Progresses until nothing is in flight between the two workers. */
static void let_answers_come(caller_t *callers) {
  ucxx_request_t *flushes[THREADS * WORKERS];
  have_progress();
  for (int at = 0; at < THREADS * WORKERS; at++) {
    flushes[at] = NULL;
    ucxx_endpoint_t *endpoint = callers[at / WORKERS].endpoints[at % WORKERS];
    ucxx_status_t status;
    while ((status = ucxx_endpoint_flush(endpoint, NULL, &flushes[at])) == UCXX_ERR_NO_RESOURCE)
      sched_yield();
    CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  }
  for (int at = 0; at < THREADS * WORKERS; at++)
    if (flushes[at] != NULL) {
      CHECK(ucxx_request_wait(flushes[at], 20 * SECOND) != UCXX_INPROGRESS);
      ucxx_request_destroy(flushes[at]);
    }
}

static void episode(int number, int steps, uint64_t *random) {
  caller_t callers[THREADS];
  memset(callers, 0, sizeof callers);
  atomic_store(&over, 0);
  abrupt = (int)draw(random, 2) && !careful;
  STEP("episode %d: %d threads, %d steps%s", number, (int)THREADS, steps,
       abrupt ? ", destruction during waits" : "");
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.submission_queue_depth = DEPTH;
  params.delayed_submission = draw(random, 3) == 0 ? -1 : 1;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_notifier_create(context, &notifier));
  for (int side = 0; side < WORKERS; side++) {
    params.progress_mode = (int32_t)draw(random, 4);
    CHECK_OK(ucxx_worker_create(context, &params, &workers[side]));
    CHECK_OK(ucxx_worker_address(workers[side], &addresses[side]));
  }
  uint64_t seed = (*random += 1000003);
  pthread_t toggler = start(start_and_stop, &seed), consumers[2];
  for (int at = 0; at < 2; at++) consumers[at] = start(poll_completions, NULL);
  for (int at = 0; at < THREADS; at++) {
    callers[at].number = at;
    callers[at].tag = (uint64_t)at;
    callers[at].steps = steps;
    callers[at].random = (*random += UINT64_C(1000000007));
    for (int side = 0; side < WORKERS; side++)
      callers[at].endpoints[side] = connect_workers(workers[side], workers[1 - side]);
    callers[at].thread = start(call, &callers[at]);
  }
  for (int at = 0; at < THREADS; at++)
    if (abrupt)
      while (!atomic_load(&callers[at].ready)) sched_yield();
    else
      join(callers[at].thread);
  atomic_store(&over, 1);
  join(toggler);
  if (careful) let_answers_come(callers);
  for (int side = 0; side < WORKERS; side++) check_counters(workers[side]);
  STEP("episode %d: the end", number);
  for (int side = 0; side < WORKERS; side++) ucxx_worker_destroy(workers[side]);
  for (int at = 0; abrupt && at < THREADS; at++) join(callers[at].thread);
  CHECK_OK(ucxx_notifier_stop(notifier));
  for (int at = 0; at < 2; at++) join(consumers[at]);
  for (int at = 0; at < THREADS; at++) {
    for (int side = 0; side < WORKERS; side++) ucxx_endpoint_destroy(callers[at].endpoints[side]);
    for (operation_t *op = callers[at].all, *next; op != NULL; op = next) {
      next = op->next;
      CHECK_EQ(atomic_load(&op->told), op->reported);
      if (op->request != NULL) CHECK(ucxx_request_status(op->request) != UCXX_INPROGRESS);
      ucxx_request_destroy(op->request);
      free(op->buffer);
      free(op);
    }
  }
  for (int side = 0; side < WORKERS; side++) ucxx_address_destroy(addresses[side]);
  ucxx_notifier_destroy(notifier);
  ucxx_context_destroy(context);
}

int main(int argc, char **argv) {
  int episodes = argc > 1 ? atoi(argv[1]) : 4, steps = argc > 2 ? atoi(argv[2]) : 800;
  test_begin("random_threads");
  ucxx_version_t version = UCXX_VERSION_INIT;
  CHECK_OK(ucxx_version_query(&version));
  int old = version.ucx_major == 1 && version.ucx_minor < 14;
  const char *transports = getenv("UCX_TLS");
  largest = old ? 1024 : LARGEST;
  careful = old && transports != NULL && strstr(transports, "tcp") != NULL;
  uint64_t random = test_seed();
  for (int number = 0; number < episodes; number++) episode(number, steps, &random);
  return 0;
}
