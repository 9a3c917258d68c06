/*
 * on_writable callbacks run when there is room again: once for each registration, whatever refused
 * the send, fairly among endpoints, and with the error if the endpoint closes.
 */
#include "test_util.h"

#include "progress_thread.h"
#include "send_window.h"

/* The callbacks of an endpoint, and their order. */
typedef struct told {
  atomic_int count;
  ucxx_status_t status;
  ucxx_endpoint_t *endpoint;
  int writable;
  atomic_int closed;
  int told_before_close;
} told_t;

static void tell(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  told_t *told = arg;
  told->status = status;
  told->endpoint = endpoint;
  told->writable = ucxx_endpoint_writable(endpoint);
  atomic_fetch_add(&told->count, 1);
}

static void tell_close(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint, (void)status;
  told_t *told = arg;
  told->told_before_close = atomic_load(&told->count);
  atomic_fetch_add(&told->closed, 1);
}

static void await_told(const line_t *line, const told_t *told, int count) {
  while (atomic_load(&told->count) < count) drive_sender(line);
  CHECK_EQ(atomic_load(&told->count), count);
}

/* Enough passes for everything that is due. The checks that follow expect that nothing happens;
 * fewer passes would only weaken them. */
static void let_pass(const line_t *line) {
  for (int i = 0; i < 50; i++) drive(line);
}

static ucxx_request_t *occupy(const line_t *line, uint64_t *number) {
  ucxx_request_t *request = NULL;
  uint64_t before = attr_of(line->endpoint).in_flight;
  CHECK_EQ(ucxx_tag_send_sync(line->endpoint, number, 8, TAG, NULL, &request), UCXX_INPROGRESS);
  await_in_flight(line, before + 1);
  return request;
}

static void one_shot(const way_t *way) {
  line_t line;
  told_t told = {0};
  line_open(&line, way, limits(1, 0, 0, 0));
  STEP("%s: with room: in the next pass, once", way->name);
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
  if (!is_threaded(&line)) CHECK_EQ(atomic_load(&told.count), 0);
  await_told(&line, &told, 1);
  CHECK_OK(told.status);
  CHECK(told.endpoint == line.endpoint && told.writable);
  let_pass(&line);
  CHECK_EQ(atomic_load(&told.count), 1);

  STEP("%s: without room: when there is some", way->name);
  uint64_t numbers[3] = {0, 1, 2};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT;
  ucxx_request_t *first = occupy(&line, &numbers[0]);
  CHECK_STATUS(ucxx_tag_send(line.endpoint, &numbers[1], 8, TAG, &params, NULL),
               UCXX_ERR_NO_RESOURCE);
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
  let_pass(&line);
  CHECK_EQ(atomic_load(&told.count), 1);
  receive_number(&line, 0);
  while (atomic_load(&told.count) < 2) drive(&line);
  CHECK(told.writable);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &first));
  let_pass(&line);
  CHECK_EQ(atomic_load(&told.count), 2);

  STEP("%s: one registration at a time, and removal", way->name);
  first = occupy(&line, &numbers[0]);
  ucxx_request_t *second = occupy(&line, &numbers[1]);
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
  CHECK_STATUS(ucxx_endpoint_on_writable(line.endpoint, tell, &told), UCXX_ERR_ALREADY_EXISTS);
  CHECK_MESSAGE("writable");
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, NULL, NULL));
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, NULL, NULL));
  told_t other = {0};
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &other));
  receive_number(&line, 0);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &first));
  let_pass(&line);
  /* The free slot went to the send that waited. */
  CHECK_EQ(atomic_load(&other.count), 0);
  receive_number(&line, 1);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &second));
  await_told(&line, &other, 1);
  CHECK_EQ(atomic_load(&told.count), 2);
  line_close(&line);
}

enum end { BY_CLOSE, BY_FORCE, BY_DESTROY, BY_WORKER, BY_PEER, ENDS };
static const char *const end_names[] = {"a close", "a close by force", "destroying the endpoint",
                                        "destroying the worker", "the peer's close"};

static void ends(const way_t *way, enum end end) {
  STEP("%s: %s runs the callback, before on_close", way->name, end_names[end]);
  line_t line;
  told_t told = {0};
  ucxx_endpoint_params_t params = limits(1, 0, 0, 0);
  params.on_close = tell_close;
  params.on_close_arg = &told;
  line_open(&line, way, params);
  ucxx_endpoint_t *back = NULL;
  if (end == BY_PEER) {
    ucxx_address_t *address = NULL;
    CHECK_OK(ucxx_worker_address(line.from, &address));
    CHECK_OK(ucxx_endpoint_create(line.to, address, NULL, &back));
    ucxx_address_destroy(address);
    line_t other = {.way = &ways[1], .from = line.to, .to = line.from};
    touch(&other, back);
  }
  uint64_t number = 0;
  ucxx_request_t *send = occupy(&line, &number), *close = NULL;
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
  /* So that the close triggers the callback, and not the registration. */
  let_pass(&line);
  switch (end) {
  case BY_CLOSE:
    CHECK_EQ(close_patiently(line.endpoint, &close), UCXX_INPROGRESS);
    /* Before the close: after it there is no room. */
    await_told(&line, &told, 1);
    CHECK_EQ(atomic_load(&told.closed), 0);
    receive_number(&line, 0);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &close));
    break;
  case BY_FORCE:
    CHECK_OK(line_finish(&line, ucxx_endpoint_close(line.endpoint, UCXX_CLOSE_FORCE, NULL, &close),
                         &close));
    break;
  case BY_DESTROY:
    receive_number(&line, 0);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &send));
    await_told(&line, &told, 1);
    CHECK_OK(told.status);
    send = occupy(&line, &number);
    atomic_store(&told.count, 0);
    CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
    ucxx_endpoint_destroy(line.endpoint);
    line.endpoint = NULL;
    break;
  case BY_WORKER: ucxx_worker_destroy(line.from); break;
  default:
    CHECK_OK(line_finish(&line, ucxx_endpoint_close(back, UCXX_CLOSE_FORCE, NULL, &close), &close));
    break;
  }
  while (end != BY_WORKER && end != BY_DESTROY && atomic_load(&told.closed) == 0) drive(&line);
  CHECK_EQ(atomic_load(&told.closed), 1);
  CHECK_EQ(told.told_before_close, 1);
  CHECK_EQ(atomic_load(&told.count), 1);
  CHECK_STATUS(told.status, end == BY_PEER ? UCXX_ERR_CONNECTION_RESET : UCXX_ERR_CLOSED);
  CHECK(!told.writable);
  if (line.endpoint != NULL)
    CHECK_STATUS(ucxx_endpoint_on_writable(line.endpoint, tell, &told), told.status);
  ucxx_request_destroy(send);
  ucxx_endpoint_destroy(back);
  if (end == BY_WORKER) {
    ucxx_endpoint_destroy(line.endpoint);
    ucxx_worker_destroy(line.to);
    ucxx_context_destroy(line.context);
    return;
  }
  line_close(&line);
}

/* Sends numbers until refused, registers the callback, and repeats. */
typedef struct producer {
  uint64_t numbers[2000];
  unsigned next, count;
  atomic_int calls, done;
} producer_t;

static void produce(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  producer_t *producer = arg;
  CHECK_OK(status);
  atomic_fetch_add(&producer->calls, 1);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT;
  while (producer->next < producer->count) {
    uint64_t *number = &producer->numbers[producer->next];
    *number = producer->next;
    ucxx_status_t sent = ucxx_tag_send_sync(endpoint, number, 8, TAG, &params, NULL);
    if (sent == UCXX_ERR_NO_RESOURCE) {
      CHECK_OK(ucxx_endpoint_on_writable(endpoint, produce, producer));
      return;
    }
    CHECK(sent == UCXX_OK || sent == UCXX_INPROGRESS);
    producer->next++;
  }
  atomic_store(&producer->done, 1);
}

static void *start_producing(void *arg) {
  void **both = arg;
  CHECK_OK(ucxx_endpoint_on_writable(both[0], produce, both[1]));
  return NULL;
}

static void producing(const way_t *way, int from_thread) {
  STEP("%s: a producer in the callback%s", way->name,
       from_thread ? ", armed on another thread" : "");
  line_t line;
  line_open(&line, way, limits(5, 0, 0, 0));
  producer_t *producer = calloc(1, sizeof *producer);
  producer->count = 2000;
  void *both[2] = {line.endpoint, producer};
  if (from_thread)
    join(start(start_producing, both));
  else
    start_producing(both);
  for (unsigned i = 0; i < producer->count; i++) {
    receive_number(&line, i);
    CHECK(attr_of(line.endpoint).window_operations <= 5);
    CHECK_EQ(attr_of(line.endpoint).queued_operations, 0);
  }
  while (!atomic_load(&producer->done)) drive(&line);
  CHECK(atomic_load(&producer->calls) > 1);
  line_close(&line);
  free(producer);
}

typedef struct again {
  int calls;
} again_t;

static void ask_again(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  again_t *again = arg;
  if (status < 0) return;
  again->calls++;
  CHECK_OK(ucxx_endpoint_on_writable(endpoint, ask_again, again));
}

static void fair(const way_t *way) {
  enum { ENDPOINTS = 4, PASSES = 200 };
  STEP("%s: each pass calls each endpoint's callback once", way->name);
  line_t line;
  line_open(&line, way, limits(2, 0, 0, 0));
  ucxx_endpoint_t *endpoints[ENDPOINTS] = {line.endpoint};
  again_t again[ENDPOINTS] = {{0}};
  for (int i = 1; i < ENDPOINTS; i++) {
    endpoints[i] = add_endpoint(&line, NULL);
    touch(&line, endpoints[i]);
  }
  for (int i = 0; i < ENDPOINTS; i++)
    CHECK_OK(ucxx_endpoint_on_writable(endpoints[i], ask_again, &again[i]));
  for (int pass = 1; pass <= PASSES; pass++) {
    uint32_t events = 0;
    CHECK_OK(ucxx_worker_progress(line.from, &events));
    CHECK(events >= ENDPOINTS);
    for (int i = 0; i < ENDPOINTS; i++) CHECK_EQ(again[i].calls, pass);
  }
  ucxx_status_t armed = ucxx_worker_arm(line.from);
  CHECK_STATUS(armed, UCXX_ERR_BUSY);
  for (int i = 1; i < ENDPOINTS; i++) {
    ucxx_request_t *close = NULL;
    CHECK_OK(line_finish(&line, close_patiently(endpoints[i], &close), &close));
    ucxx_endpoint_destroy(endpoints[i]);
  }
  line_close(&line);
}

static void wakes(const way_t *way) {
  STEP("%s: registration wakes a sleeping thread", way->name);
  line_t line;
  told_t told = {0};
  line_open(&line, way, limits(0, 0, 0, 0));
  if (is_threaded(&line)) {
    for (int i = 0; i < 200; i++) {
      /* Between two registrations the progress thread sometimes falls asleep. */
      CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
      while (atomic_load(&told.count) <= i) sched_yield();
    }
  } else {
    ucxx_status_t armed;
    while ((armed = ucxx_worker_arm(line.from)) == UCXX_ERR_BUSY) drive_sender(&line);
    CHECK_OK(armed);
    CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
    CHECK_OK(ucxx_worker_wait(line.from, FOR_EVER));
    while (atomic_load(&told.count) == 0) CHECK_OK(ucxx_worker_wait(line.from, FOR_EVER));
  }
  line_close(&line);
}

static void full_ring(void) {
  enum { DEPTH = 8 };
  STEP("after a full submission queue");
  ucxx_context_t *context = NULL;
  line_t line = {.way = &ways[2]};
  CHECK_OK(ucxx_context_create(NULL, &context));
  line.context = context;
  ucxx_worker_params_t params = thread_params(UCXX_PROGRESS_THREAD_BLOCKING);
  params.submission_queue_depth = DEPTH;
  params.delayed_submission = 1;
  CHECK_OK(ucxx_worker_create(context, &params, &line.from));
  CHECK_OK(ucxx_worker_create(context, NULL, &line.to));
  line.endpoint = add_endpoint(&line, NULL);
  touch(&line, line.endpoint);
  for (int round = 0; round < 20; round++) {
    hold_t hold = {0};
    told_t told = {0};
    uint64_t numbers[DEPTH + 1];
    hold_thread(&hold, line.from);
    CHECK(ucxx_endpoint_writable(line.endpoint));
    for (unsigned i = 0; i < DEPTH; i++) {
      numbers[i] = i;
      CHECK_EQ(ucxx_tag_send(line.endpoint, &numbers[i], 8, TAG, NULL, NULL), UCXX_INPROGRESS);
    }
    CHECK(!ucxx_endpoint_writable(line.endpoint));
    ucxx_op_params_t impatient = UCXX_OP_PARAMS_INIT;
    impatient.flags = UCXX_FLAG_NO_WAIT;
    numbers[DEPTH] = DEPTH;
    CHECK_STATUS(
        ucxx_tag_send(line.endpoint, &numbers[DEPTH], 8, TAG, round % 2 ? &impatient : NULL, NULL),
        UCXX_ERR_NO_RESOURCE);
    CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, tell, &told));
    CHECK_EQ(atomic_load(&told.count), 0);
    let_go(&hold);
    await_told(&line, &told, 1);
    CHECK_OK(told.status);
    CHECK_EQ(ucxx_tag_send(line.endpoint, &numbers[DEPTH], 8, TAG, NULL, NULL), UCXX_INPROGRESS);
    for (unsigned i = 0; i <= DEPTH; i++) receive_number(&line, i);
    await_in_flight(&line, 0);
  }
  line_close(&line);
}

static void destroy_it(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  told_t *told = arg;
  CHECK_OK(status);
  ucxx_endpoint_destroy(endpoint);
  atomic_fetch_add(&told->count, 1);
}

static void arm_from_callback(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  void **both = arg;
  (void)request;
  CHECK_OK(status);
  CHECK_OK(ucxx_endpoint_on_writable(both[0], tell, both[1]));
}

static void from_callbacks(const way_t *way) {
  STEP("%s: armed in a request's callback", way->name);
  line_t line;
  told_t told = {0};
  ucxx_endpoint_params_t params = limits(1, 0, 0, 0);
  params.on_close = tell_close;
  params.on_close_arg = &told;
  line_open(&line, way, params);
  void *both[2] = {line.endpoint, &told};
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  op.callback = arm_from_callback;
  op.callback_arg = both;
  uint64_t number = 0;
  ucxx_status_t sent = ucxx_tag_send_sync(line.endpoint, &number, 8, TAG, &op, NULL);
  CHECK_EQ(sent, UCXX_INPROGRESS);
  receive_number(&line, 0);
  while (atomic_load(&told.count) == 0) drive(&line);
  CHECK_OK(told.status);
  STEP("%s: destroying the endpoint in its callback", way->name);
  CHECK_OK(ucxx_endpoint_on_writable(line.endpoint, destroy_it, &told));
  line.endpoint = NULL;
  while (atomic_load(&told.closed) == 0) drive(&line);
  CHECK_EQ(atomic_load(&told.count), 2);
  line_close(&line);
}

static void accept_it(void *arg, ucxx_conn_request_t *request) {
  CHECK_OK(ucxx_endpoint_accept(request, NULL, arg));
  ucxx_conn_request_destroy(request);
}

static void while_connecting(const way_t *way) {
  STEP("%s: armed before the peer has answered", way->name);
  line_t line;
  told_t told = {0};
  line_open(&line, way, limits(0, 0, 0, 0));
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL, *accepted = NULL;
  ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
  listening.on_connect = accept_it;
  listening.on_connect_arg = &accepted;
  CHECK_OK(ucxx_listener_create(line.to, &listening, &listener));
  CHECK_OK(
      ucxx_endpoint_connect(line.from, "127.0.0.1", ucxx_listener_port(listener), NULL, &endpoint));
  CHECK_OK(ucxx_endpoint_on_writable(endpoint, tell, &told));
  CHECK(!ucxx_endpoint_writable(endpoint));
  for (int i = 0; i < 50; i++) drive_sender(&line);
  CHECK_EQ(atomic_load(&told.count), 0);
  while (atomic_load(&told.count) == 0) drive(&line);
  CHECK_OK(told.status);
  CHECK(told.writable);
  ucxx_request_t *close = NULL;
  CHECK_OK(line_finish(&line, close_patiently(endpoint, &close), &close));
  ucxx_endpoint_destroy(endpoint);
  ucxx_endpoint_destroy(accepted);
  ucxx_listener_destroy(listener);
  line_close(&line);
}

int main(void) {
  test_begin("on_writable");
  for (unsigned i = 0; i < WAYS; i++) {
    one_shot(&ways[i]);
    for (enum end end = BY_CLOSE; end < ENDS; end++) ends(&ways[i], end);
    producing(&ways[i], 0);
    if (ways[i].thread_mode != UCXX_THREAD_SINGLE) producing(&ways[i], 1);
    if (ways[i].progress_mode == UCXX_PROGRESS_MANUAL) fair(&ways[i]);
    wakes(&ways[i]);
    from_callbacks(&ways[i]);
    if (has_tcp()) while_connecting(&ways[i]);
  }
  full_ring();
  return 0;
}
