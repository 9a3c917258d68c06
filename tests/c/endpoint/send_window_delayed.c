/*
 * The limits of an endpoint when other threads submit to a progress thread. Sends in the submission
 * queue count like those already taken over: for the window, the send queue, credit and
 * UCXX_FLAG_NO_WAIT. A thread that was refused is notified when there is room. The receiver is
 * another process, which receives only on request; it gets each message exactly once.
 */
#include "test_util.h"

#include "progress_thread.h"
#include "rma.h"

enum { TAG = 7, ID = 5, MOST = 20000, CREDIT = 256, THREADS = 4, LONG = 64 << 10 };
enum what { TAGS, MESSAGES, QUIT };

typedef struct order {
  uint64_t what, count;
} order_t;

static pair_t *pair;
static uint64_t numbers[MOST];
static uint8_t content[LONG];

/* ------------------------------------------------------------------ the receiver */

static unsigned char seen[MOST];
static unsigned taken;

static void take(uint64_t number) {
  CHECK(number < MOST && !seen[number]);
  seen[number] = 1;
  taken++;
}

static void take_message(void *arg, ucxx_am_message_t *message) {
  uint64_t number = MOST;
  size_t length = 0;
  (void)arg;
  const void *header = ucxx_am_message_header(message, &length);
  CHECK_EQ(length, sizeof number);
  memcpy(&number, header, sizeof number);
  take(number);
  ucxx_am_message_destroy(message);
}

static void take_tag(void) {
  uint64_t in[128] = {MOST};
  ucxx_request_t *receive = NULL;
  ucxx_status_t status =
      ucxx_tag_recv(pair->worker, in, sizeof in, TAG, UINT64_MAX, NULL, &receive);
  while (status == UCXX_INPROGRESS && (status = ucxx_request_status(receive)) == UCXX_INPROGRESS)
    progress(pair->worker);
  CHECK_OK(status);
  ucxx_request_destroy(receive);
  take(in[0]);
}

static void receive_on_demand(void) {
  order_t order = {0};
  memset(seen, 0, sizeof seen);
  taken = 0;
  CHECK_OK(ucxx_worker_set_am_handler(pair->worker, ID, take_message, NULL, NULL));
  for (;;) {
    channel_get(pair, &order, sizeof order);
    if (order.what == QUIT) break;
    unsigned wanted = taken + (unsigned)order.count;
    while (taken < wanted) {
      if (order.what == TAGS)
        take_tag();
      else
        progress(pair->worker);
    }
    pair_tell(pair);
  }
  pair_sync(pair);
  CHECK_EQ(taken, order.count);
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_tag_probe(pair->worker, TAG, UINT64_MAX, &info, NULL), UCXX_ERR_NO_MESSAGE);
  pair_disconnect(pair);
}

/* ------------------------------------------------------------------ the sender */

static unsigned accepted;

static void have_taken(enum what what, unsigned count) {
  order_t order = {what, count};
  channel_put(pair, &order, sizeof order);
  pair_await(pair);
}

static ucxx_endpoint_load_t load(void) {
  ucxx_endpoint_load_t load = UCXX_ENDPOINT_LOAD_INIT;
  CHECK_OK(ucxx_endpoint_query_load(pair->endpoint, &load));
  return load;
}

static uint64_t in_flight(void) {
  ucxx_endpoint_attr_t attr = UCXX_ENDPOINT_ATTR_INIT;
  CHECK_OK(ucxx_endpoint_query(pair->endpoint, &attr));
  return attr.in_flight;
}

static void await_in_flight(uint64_t count) {
  while (in_flight() != count) sched_yield();
}

/* How one thread of a burst sends until it is refused. */
typedef struct burst {
  enum what what;
  uint64_t flags;
  size_t length;
  /* Completes when it has been received. */
  int synchronous;
  /* By number; kept. */
  ucxx_request_t **requests;
  atomic_uint next;
} burst_t;

static ucxx_status_t send_number(burst_t *burst, unsigned number) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t **request = burst->requests == NULL ? NULL : &burst->requests[number];
  params.flags = burst->flags;
  numbers[number] = number;
  const void *data = burst->length > sizeof(uint64_t) ? (const void *)content : &numbers[number];
  if (burst->what == MESSAGES)
    return ucxx_am_send(pair->endpoint, ID, &numbers[number], sizeof(uint64_t), data, burst->length,
                        &params, request);
  return burst->synchronous ? ucxx_tag_send_sync(pair->endpoint, &numbers[number], burst->length,
                                                 TAG, &params, request)
                            : ucxx_tag_send(pair->endpoint, &numbers[number], burst->length, TAG,
                                            &params, request);
}

/* No other thread uses a number that was refused. */
static void *send_until_refused(void *arg) {
  burst_t *burst = arg;
  for (;;) {
    unsigned number = atomic_fetch_add(&burst->next, 1);
    CHECK(number < MOST);
    ucxx_status_t status = send_number(burst, number);
    if (status < 0) {
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
      return NULL;
    }
  }
}

/* Each of so many threads sends until it is refused. Returns the number of accepted sends. */
static unsigned run_burst(burst_t *burst, unsigned threads) {
  pthread_t running[THREADS];
  unsigned before = atomic_load(&burst->next);
  for (unsigned i = 0; i < threads; i++) running[i] = start(send_until_refused, burst);
  for (unsigned i = 0; i < threads; i++) join(running[i]);
  unsigned sent = atomic_load(&burst->next) - before - threads;
  accepted += sent;
  return sent;
}

typedef struct told {
  atomic_uint count;
  ucxx_status_t status;
} told_t;

static void tell(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  told_t *told = arg;
  CHECK(endpoint == pair->endpoint);
  told->status = status;
  atomic_fetch_add(&told->count, 1);
}

static void await_told(const told_t *told, unsigned count) {
  while (atomic_load(&told->count) < count) sched_yield();
  CHECK_EQ(atomic_load(&told->count), count);
  CHECK_OK(told->status);
}

static ucxx_endpoint_params_t limits(uint32_t window_ops, uint64_t window_bytes, uint32_t queue_ops,
                                     uint64_t queue_bytes) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.send_window_ops = window_ops;
  params.send_window_bytes = window_bytes;
  params.send_queue_ops = queue_ops;
  params.send_queue_bytes = queue_bytes;
  return params;
}

static void open_line(const ucxx_endpoint_params_t *limits, uint32_t depth) {
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  context.features = RMA_FEATURES | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM;
  accepted = 0;
  if (pair->side == 1) {
    pair_connect(pair, &context, NULL, NULL);
    receive_on_demand();
    return;
  }
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  params.delayed_submission = 1;
  params.submission_queue_depth = depth;
  pair_connect(pair, &context, &params, limits);
  await_in_flight(0);
}

static void close_line(void) {
  order_t order = {QUIT, accepted};
  channel_put(pair, &order, sizeof order);
  pair_sync(pair);
  await_in_flight(0);
  CHECK_EQ(load().window_operations + load().queued_operations, 0);
  CHECK(ucxx_endpoint_writable(pair->endpoint));
  pair_disconnect(pair);
}

static const char *place(int held) {
  return held ? "in the submission queue" : "taken over meanwhile";
}

/* ------------------------------------------------------------------ refusals and notifications */

static void window_of_operations(unsigned threads, int held) {
  enum { WINDOW = 6 };
  STEP("%u threads: NO_WAIT, %s: as many as fit the window", threads, place(held));
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 0, 0);
  hold_t hold = {0};
  told_t told = {0};
  burst_t burst = {.what = TAGS, .flags = UCXX_FLAG_NO_WAIT, .length = 8, .synchronous = 1};
  open_line(&params, 0);
  if (pair->side == 1) return;
  for (unsigned round = 1; round <= 10; round++) {
    CHECK(ucxx_endpoint_writable(pair->endpoint));
    if (held) hold_thread(&hold, pair->worker);
    CHECK_EQ(run_burst(&burst, threads), WINDOW);
    CHECK(!ucxx_endpoint_writable(pair->endpoint));
    CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
    if (held) let_go(&hold);
    await_in_flight(WINDOW);
    CHECK_EQ(load().window_operations, WINDOW);
    CHECK_EQ(load().queued_operations, 0);
    CHECK_EQ(run_burst(&burst, threads), 0);
    CHECK_EQ(atomic_load(&told.count), round - 1);
    have_taken(TAGS, WINDOW);
    await_told(&told, round);
    await_in_flight(0);
  }
  close_line();
}

/* Short sends complete when they are taken over: nothing else makes room. */
static void room_by_taking_over(unsigned threads) {
  enum { WINDOW = 3 };
  STEP("%u threads: notified when the submission queue has been emptied", threads);
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 0, 0);
  burst_t burst = {.what = TAGS, .flags = UCXX_FLAG_NO_WAIT, .length = 8};
  told_t told = {0};
  open_line(&params, 0);
  if (pair->side == 1) return;
  for (unsigned round = 1; round <= 10; round++) {
    hold_t hold = {0};
    hold_thread(&hold, pair->worker);
    CHECK_EQ(run_burst(&burst, threads), WINDOW);
    CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
    CHECK_EQ(atomic_load(&told.count), round - 1);
    let_go(&hold);
    await_told(&told, round);
  }
  have_taken(TAGS, accepted);
  close_line();
}

static void window_of_bytes(int held) {
  enum { LENGTH = 400, FIT = 3 };
  STEP("NO_WAIT, %s: as many bytes as fit the window", place(held));
  static uint64_t messages[FIT + 1][LENGTH / 8];
  ucxx_endpoint_params_t params = limits(0, 1000, 0, 0);
  hold_t hold = {0};
  ucxx_op_params_t no_wait = UCXX_OP_PARAMS_INIT;
  open_line(&params, 0);
  if (pair->side == 1) return;
  no_wait.flags = UCXX_FLAG_NO_WAIT;
  if (held) hold_thread(&hold, pair->worker);
  for (unsigned i = 0; i < FIT; i++) {
    messages[i][0] = i;
    CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, messages[i], LENGTH, TAG, &no_wait, NULL),
                 UCXX_INPROGRESS);
  }
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, messages[FIT], LENGTH, TAG, &no_wait, NULL),
               UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, messages[FIT], 0, TAG, &no_wait, NULL),
               UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("send window");
  if (held) let_go(&hold);
  await_in_flight(FIT);
  CHECK_EQ(load().window_bytes, FIT * LENGTH);
  accepted = FIT;
  have_taken(TAGS, FIT);
  close_line();
}

static void queue_of_operations(unsigned threads, int held) {
  enum { WINDOW = 4, QUEUE = 5 };
  STEP("%u threads, %s: as many as fit window and queue", threads, place(held));
  ucxx_endpoint_params_t params = limits(WINDOW, 0, QUEUE, 0);
  burst_t burst = {.what = TAGS, .length = 8, .synchronous = 1};
  open_line(&params, 0);
  if (pair->side == 1) return;
  for (unsigned round = 1; round <= 10; round++) {
    hold_t hold = {0};
    told_t told = {0};
    if (held) hold_thread(&hold, pair->worker);
    const unsigned sent = run_burst(&burst, threads);
    /* A send that is submitted later but reaches the queue earlier takes the other's place in the
     * window, and leaves its own place in the queue to a third. */
    const unsigned overtaking = held ? 0 : threads - 1;
    CHECK(sent >= WINDOW + QUEUE && sent <= WINDOW + QUEUE + overtaking);
    CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
    if (held) let_go(&hold);
    await_in_flight(sent);
    CHECK_EQ(load().window_operations, WINDOW);
    CHECK_EQ(load().queued_operations, sent - WINDOW);
    CHECK_EQ(run_burst(&burst, threads), 0);
    CHECK_EQ(atomic_load(&told.count), 0);
    have_taken(TAGS, sent);
    await_told(&told, 1);
    await_in_flight(0);
  }
  close_line();
}

static void queue_of_bytes(int held) {
  STEP("%s: as many bytes as fit the queue", place(held));
  ucxx_endpoint_params_t params = limits(1, 0, 0, 20);
  hold_t hold = {0};
  burst_t burst = {.what = TAGS, .length = 8, .synchronous = 1};
  uint32_t half = 3;
  open_line(&params, 0);
  if (pair->side == 1) return;
  if (held) hold_thread(&hold, pair->worker);
  CHECK_EQ(run_burst(&burst, 1), 3);
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, &half, 5, TAG, NULL, NULL), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("send queue");
  numbers[3] = 3;
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, &numbers[3], 4, TAG, NULL, NULL),
               UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, &half, 1, TAG, NULL, NULL), UCXX_ERR_NO_RESOURCE);
  if (held) let_go(&hold);
  await_in_flight(4);
  CHECK_EQ(load().queued_bytes, 20);
  have_taken(TAGS, 3);
  await_in_flight(1);
  numbers[4] = 4;
  CHECK_STATUS(ucxx_tag_send_sync(pair->endpoint, &numbers[4], 8, TAG, NULL, NULL),
               UCXX_INPROGRESS);
  accepted += 2;
  have_taken(TAGS, 2);
  close_line();
}

static void credit(unsigned threads, int held) {
  enum { QUEUE = 5 };
  STEP("%u threads: active messages, %s: as many as the credit allows", threads, place(held));
  ucxx_endpoint_params_t params = limits(2 * CREDIT, 0, QUEUE, 0);
  hold_t hold = {0};
  told_t told = {0};
  burst_t burst = {.what = MESSAGES, .flags = UCXX_FLAG_NO_WAIT, .length = 8};
  burst_t patient = {.what = MESSAGES, .length = 8, .next = MOST / 2};
  open_line(&params, 0);
  if (pair->side == 1) return;
  if (held) hold_thread(&hold, pair->worker);
  CHECK_EQ(run_burst(&burst, threads), CREDIT);
  CHECK_STATUS(send_number(&burst, MOST - 1), UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("active messages");
  CHECK(!ucxx_endpoint_writable(pair->endpoint));
  CHECK_EQ(run_burst(&patient, threads), QUEUE);
  CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
  if (held) let_go(&hold);
  while (load().queued_operations != QUEUE) sched_yield();
  CHECK_EQ(run_burst(&burst, threads), 0);
  CHECK_EQ(run_burst(&patient, threads), 0);
  CHECK_EQ(atomic_load(&told.count), 0);
  have_taken(MESSAGES, CREDIT + QUEUE);
  await_told(&told, 1);
  await_in_flight(0);
  close_line();
}

/* A long message costs more credit and leaves some for short ones. If one waits for credit in the
 * submission queue, nothing overtakes it. */
static void credit_of_long_messages(int held) {
  enum {
    UNITS = 8192 + CREDIT,
    PRICE = LONG / 1024 + 1,
    FIT = UNITS / PRICE,
    REST = CREDIT - FIT < UNITS % PRICE ? CREDIT - FIT : UNITS % PRICE
  };
  STEP("long active messages, %s: as many as the credit allows", place(held));
  ucxx_endpoint_params_t params = limits(2 * CREDIT, 0, 0, 0);
  hold_t hold = {0};
  told_t told = {0};
  burst_t large = {.what = MESSAGES, .flags = UCXX_FLAG_NO_WAIT | UCXX_FLAG_EAGER, .length = LONG};
  burst_t small = {.what = MESSAGES, .flags = UCXX_FLAG_NO_WAIT, .length = 8, .next = 1000};
  burst_t waiting = {.what = MESSAGES, .flags = UCXX_FLAG_EAGER, .length = LONG};
  open_line(&params, 0);
  if (pair->side == 1) return;
  if (held) hold_thread(&hold, pair->worker);
  CHECK_EQ(run_burst(&large, 1), FIT);
  CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
  for (unsigned i = 0; i + 1 < REST; i++, accepted++) CHECK(send_number(&small, 1000 + i) >= 0);
  CHECK(send_number(&waiting, 2000) >= 0);
  accepted++;
  CHECK_STATUS(send_number(&small, 3000), UCXX_ERR_NO_RESOURCE);
  if (held) let_go(&hold);
  while (load().queued_operations != 1) sched_yield();
  CHECK_STATUS(send_number(&small, 3001), UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(atomic_load(&told.count), 0);
  have_taken(MESSAGES, accepted);
  await_told(&told, 1);
  await_in_flight(0);
  close_line();
}

/* Sends cancelled in the submission queue count until the progress thread has seen the cancel. */
static void cancelled(void) {
  enum { WINDOW = 6 };
  STEP("cancelled in the submission queue");
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 2, 0);
  ucxx_request_t *requests[64] = {NULL};
  burst_t burst = {.what = TAGS, .length = 8, .synchronous = 1, .requests = requests};
  hold_t hold = {0};
  told_t told = {0};
  open_line(&params, 0);
  if (pair->side == 1) return;
  hold_thread(&hold, pair->worker);
  CHECK_EQ(run_burst(&burst, 1), WINDOW + 2);
  /* Three with a place in the window, and one in the queue. */
  const unsigned gone[] = {0, 2, 5, 7};
  for (unsigned i = 0; i < 4; i++) CHECK_OK(ucxx_request_cancel(requests[gone[i]]));
  CHECK_EQ(run_burst(&burst, 1), 0);
  CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
  let_go(&hold);
  await_told(&told, 1);
  for (unsigned i = 0; i < 4; i++) {
    CHECK_STATUS(ucxx_request_status(requests[gone[i]]), UCXX_ERR_CANCELED);
    ucxx_request_destroy(requests[gone[i]]);
    requests[gone[i]] = NULL;
  }
  CHECK_EQ(load().window_operations, 4);
  CHECK_EQ(load().queued_operations, 0);
  accepted = 4;
  CHECK_EQ(run_burst(&burst, 1), 4);
  have_taken(TAGS, accepted);
  for (unsigned i = 0; i < 64; i++) {
    if (requests[i] != NULL) CHECK_OK(finish(UCXX_INPROGRESS, &requests[i]));
  }
  close_line();
}

/* A send refused by the submission queue does not count. */
static void full_ring(unsigned threads) {
  enum { DEPTH = 4, WINDOW = 6 };
  STEP("%u threads: refused by the submission queue", threads);
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 0, 0);
  burst_t burst = {.what = TAGS, .flags = UCXX_FLAG_NO_WAIT, .length = 8, .synchronous = 1};
  open_line(&params, DEPTH);
  if (pair->side == 1) return;
  for (unsigned round = 1; round <= 10; round++) {
    hold_t hold = {0};
    told_t told = {0};
    hold_thread(&hold, pair->worker);
    CHECK_EQ(run_burst(&burst, threads), DEPTH);
    for (unsigned i = 0; i < 20; i++) CHECK_EQ(run_burst(&burst, threads), 0);
    CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, tell, &told));
    for (unsigned i = 0; i < 20; i++) CHECK_EQ(run_burst(&burst, threads), 0);
    let_go(&hold);
    await_told(&told, 1);
    CHECK_EQ(run_burst(&burst, 1), WINDOW - DEPTH);
    await_in_flight(WINDOW);
    have_taken(TAGS, WINDOW);
    await_in_flight(0);
  }
  close_line();
}

static void *close_by_force(void *arg) {
  ucxx_request_t *close = NULL;
  (void)arg;
  CHECK_OK(finish(ucxx_endpoint_close(pair->endpoint, UCXX_CLOSE_FORCE, NULL, &close), &close));
  return NULL;
}

/* An endpoint is closed with sends in the submission queue; another endpoint of its worker is not
 * affected. */
static void closed_meanwhile(void) {
  enum { WINDOW = 6, COUNT = WINDOW + 3 };
  STEP("closed by force with sends in the submission queue");
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 3, 0);
  ucxx_request_t *requests[64] = {NULL};
  burst_t burst = {.what = TAGS, .length = 8, .synchronous = 1, .requests = requests};
  ucxx_endpoint_t *first = NULL, *second = NULL;
  hold_t hold = {0};
  open_line(NULL, 0);
  if (pair->side == 1) return;
  duo_t duo;
  duo_open(&duo, NULL);
  ucxx_address_t *address = NULL;
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &second));
  ucxx_address_destroy(address);
  first = pair->endpoint;
  pair->endpoint = second;
  hold_thread(&hold, pair->worker);
  CHECK_EQ(run_burst(&burst, 1), COUNT);
  pthread_t closer = start(close_by_force, NULL);
  let_go(&hold);
  join(closer);
  for (unsigned i = 0; i < COUNT; i++) {
    ucxx_status_t status;
    while ((status = ucxx_request_status(requests[i])) == UCXX_INPROGRESS) progress(duo.right);
    CHECK(status == UCXX_ERR_CANCELED || status == UCXX_ERR_CLOSED);
    ucxx_request_destroy(requests[i]);
  }
  numbers[0] = 0;
  CHECK_STATUS(ucxx_tag_send(pair->endpoint, &numbers[0], 8, TAG, NULL, NULL), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(second);
  pair->endpoint = first;
  duo_close(&duo);
  accepted = 0;
  close_line();
}

/* ------------------------------------------------------------------ every kind of send */

enum kind { IOV, STREAM, MULTI, QUEUED_MESSAGE, FETCH, PUT, GET, KINDS };
static const char *const kind_names[] = {
    "scattered tags", "streams", "buffers one by one", "messages to a queue", "fetches",
    "puts",           "gets"};

static ucxx_status_t send_kind(enum kind kind, ucxx_rkey_t *rkey, const ucxx_op_params_t *params,
                               ucxx_request_t **request) {
  static uint64_t words[2];
  const ucxx_buffer_t parts[2] = {{.data = &words[0], .length = 8},
                                  {.data = &words[1], .length = 8}};
  switch (kind) {
  case IOV: return ucxx_tag_send_iov(pair->endpoint, parts, 2, TAG, params, request);
  case STREAM: return ucxx_stream_send(pair->endpoint, words, 8, params, request);
  case MULTI: return ucxx_tag_send_multi(pair->endpoint, parts, 2, TAG, params, request);
  case QUEUED_MESSAGE: return ucxx_am_queue_send(pair->endpoint, words, 8, params, request);
  case FETCH: return ucxx_am_fetch(pair->endpoint, ID, NULL, 0, words, 8, params, request);
  case PUT: return ucxx_rma_put(rkey, words, 8, 0, params, request);
  default: return ucxx_rma_get(rkey, words, 8, 0, params, request);
  }
}

/* Each kind takes the last place in the window while in the submission queue, and a second one is
 * refused. Closing the endpoint by force makes room. */
static void every_kind(enum kind kind) {
  enum { WINDOW = 3 };
  STEP("%s in the submission queue", kind_names[kind]);
  ucxx_endpoint_params_t params = limits(WINDOW, 0, 1, 0);
  ucxx_context_params_t context = UCXX_CONTEXT_PARAMS_INIT;
  ucxx_op_params_t op = UCXX_OP_PARAMS_INIT;
  burst_t burst = {.what = TAGS, .flags = UCXX_FLAG_NO_WAIT, .length = 8, .synchronous = 1};
  open_line(NULL, 0);
  if (pair->side == 1) return;
  static uint64_t there[2];
  uint8_t key[LONGEST_KEY];
  ucxx_endpoint_t *first = pair->endpoint;
  ucxx_address_t *address = NULL;
  ucxx_memory_t *memory = NULL;
  ucxx_rkey_t *rkey = NULL;
  ucxx_request_t *request = NULL, *waiting = NULL;
  hold_t hold = {0};
  duo_t duo;
  context.features = RMA_FEATURES | UCXX_FEATURE_STREAM | UCXX_FEATURE_AM;
  duo_open(&duo, &context);
  CHECK_OK(ucxx_worker_address(duo.right, &address));
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &pair->endpoint));
  ucxx_address_destroy(address);
  CHECK_OK(ucxx_memory_register(duo.context, there, sizeof there, UCXX_MEMORY_HOST, &memory));
  CHECK_OK(ucxx_rkey_unpack(pair->endpoint, key, pack(memory, key), &rkey));
  /* Must not complete in the call, though the memory belongs to this process. */
  op.flags = UCXX_FLAG_NO_WAIT | UCXX_FLAG_ALWAYS_CALLBACK;
  hold_thread(&hold, pair->worker);
  for (unsigned i = 0; i + 1 < WINDOW; i++) CHECK_STATUS(send_number(&burst, i), UCXX_INPROGRESS);
  CHECK(ucxx_endpoint_writable(pair->endpoint));
  CHECK_STATUS(send_kind(kind, rkey, &op, &request), UCXX_INPROGRESS);
  CHECK(!ucxx_endpoint_writable(pair->endpoint));
  ucxx_request_t *none = NULL;
  CHECK_STATUS(send_kind(kind, rkey, &op, &none), UCXX_ERR_NO_RESOURCE);
  CHECK_STATUS(send_number(&burst, 5), UCXX_ERR_NO_RESOURCE);
  /* This one may wait. */
  op.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(send_kind(kind, rkey, &op, &waiting), UCXX_INPROGRESS);
  CHECK_STATUS(send_kind(kind, rkey, &op, &none), UCXX_ERR_NO_RESOURCE);
  CHECK(none == NULL);
  let_go(&hold);
  close_by_force(NULL);
  while (ucxx_request_status(request) == UCXX_INPROGRESS ||
         ucxx_request_status(waiting) == UCXX_INPROGRESS)
    progress(duo.right);
  ucxx_request_destroy(request);
  ucxx_request_destroy(waiting);
  ucxx_rkey_destroy(rkey);
  ucxx_memory_destroy(memory);
  ucxx_endpoint_destroy(pair->endpoint);
  pair->endpoint = first;
  duo_close(&duo);
  close_line();
}

/* ------------------------------------------------------------------ threads refused and notified,
 * again and again */

static struct {
  atomic_uint next, sent;
  told_t told;
} crowd;

static void *send_some(void *arg) {
  burst_t *burst = arg;
  for (;;) {
    unsigned number = atomic_fetch_add(&burst->next, 1);
    if (number >= 4000) return NULL;
    for (;;) {
      unsigned before = atomic_load(&crowd.told.count);
      ucxx_status_t status = send_number(burst, number);
      if (status >= 0) break;
      CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
      /* One of the refused threads registers the callback, and all continue when it runs. */
      status = ucxx_endpoint_on_writable(pair->endpoint, tell, &crowd.told);
      if (status != UCXX_ERR_ALREADY_EXISTS) CHECK_OK(status);
      while (atomic_load(&crowd.told.count) == before) sched_yield();
    }
    atomic_fetch_add(&crowd.sent, 1);
  }
}

static void crowded(enum what what, uint32_t window, int synchronous) {
  STEP("%u threads, refused and notified: a window of %u, %s", THREADS, window,
       what == MESSAGES ? "active messages"
       : synchronous    ? "synchronous"
                        : "tags");
  ucxx_endpoint_params_t params = limits(window, 0, 0, 0);
  burst_t burst = {
      .what = what, .flags = UCXX_FLAG_NO_WAIT, .length = 8, .synchronous = synchronous};
  pthread_t threads[THREADS];
  open_line(&params, 0);
  if (pair->side == 1) return;
  memset(&crowd, 0, sizeof crowd);
  for (unsigned i = 0; i < THREADS; i++) threads[i] = start(send_some, &burst);
  order_t order = {what, 4000};
  channel_put(pair, &order, sizeof order);
  while (atomic_load(&crowd.sent) < 4000) {
    ucxx_endpoint_load_t now = load();
    CHECK(now.window_operations <= window);
    /* No send is queued. */
    CHECK_EQ(now.queued_operations, 0);
    sched_yield();
  }
  for (unsigned i = 0; i < THREADS; i++) join(threads[i]);
  pair_await(pair);
  accepted = 4000;
  /* A thread may have registered without need. */
  CHECK_OK(ucxx_endpoint_on_writable(pair->endpoint, NULL, NULL));
  close_line();
}

static void both(pair_t *sides) {
  pair = sides;
  memset(content, 'c', sizeof content);
  for (int held = 1; held >= 0; held--) {
    for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
      window_of_operations(threads, held);
      queue_of_operations(threads, held);
      credit(threads, held);
    }
    window_of_bytes(held);
    queue_of_bytes(held);
    credit_of_long_messages(held);
  }
  for (unsigned threads = 1; threads <= THREADS; threads += THREADS - 1) {
    room_by_taking_over(threads);
    full_ring(threads);
  }
  cancelled();
  closed_meanwhile();
  for (enum kind kind = IOV; kind < KINDS; kind++) every_kind(kind);
  crowded(TAGS, 1, 1);
  crowded(TAGS, 5, 1);
  crowded(TAGS, 2, 0);
  crowded(MESSAGES, 7, 0);
  crowded(MESSAGES, 1000, 0);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "send_window_delayed", both); }
