/* The send window and the queue behind it: what UCX is given is bounded, waiting sends keep their
 * order, and a refused send has no effect. */
#include "test_util.h"

#include "send_window.h"

#include <malloc.h>

static ucxx_op_params_t no_wait(void) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_NO_WAIT;
  return params;
}

static void window_is_kept(const way_t *way) {
  enum { WINDOW = 4, COUNT = 40 };
  STEP("%s: no more than the window is in flight", way->name);
  line_t line;
  line_open(&line, way, limits(WINDOW, 0, 0, 0));
  uint64_t numbers[COUNT];
  ucxx_request_t *requests[COUNT] = {NULL};
  CHECK(ucxx_endpoint_writable(line.endpoint));
  fill(&line, numbers, requests, COUNT);
  check_window(&line, WINDOW, COUNT - WINDOW);
  CHECK(!ucxx_endpoint_writable(line.endpoint));
  for (unsigned i = 0; i < COUNT; i++) {
    receive_number(&line, i);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
    standing_t attr = attr_of(line.endpoint);
    CHECK(attr.window_operations <= WINDOW);
  }
  await_in_flight(&line, 0);
  check_window(&line, 0, 0);
  CHECK(ucxx_endpoint_writable(line.endpoint));
  line_close(&line);
}

static void window_of_bytes(const way_t *way) {
  enum { COUNT = 6, LENGTH = 400, WINDOW = 1000 };
  STEP("%s: the window counts bytes", way->name);
  line_t line;
  line_open(&line, way, limits(0, WINDOW, 0, 0));
  static uint64_t numbers[COUNT][LENGTH / 8];
  ucxx_request_t *requests[COUNT] = {NULL};
  for (unsigned i = 0; i < COUNT; i++) {
    numbers[i][0] = i;
    CHECK_EQ(send_sync(&line, numbers[i], LENGTH, &requests[i]), UCXX_INPROGRESS);
  }
  await_in_flight(&line, COUNT);
  standing_t attr = attr_of(line.endpoint);
  CHECK_EQ(attr.window_operations, 3);
  CHECK_EQ(attr.window_bytes, 3 * LENGTH);
  CHECK_EQ(attr.queued_bytes, (COUNT - 3) * LENGTH);
  for (unsigned i = 0; i < COUNT; i++) {
    receive_number(&line, i);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
    CHECK(attr_of(line.endpoint).window_bytes < WINDOW + LENGTH);
  }
  STEP("%s: a send larger than the window is sent alone", way->name);
  size_t length = 4 << 20;
  uint8_t *out = test_alloc(length), *in = test_alloc(length);
  test_fill(out, length, 5);
  ucxx_request_t *large = NULL, *receive = NULL;
  CHECK(send_sync(&line, (const uint64_t *)out, length, &large) == UCXX_INPROGRESS);
  CHECK_EQ(send_sync(&line, numbers[0], LENGTH, &requests[0]), UCXX_INPROGRESS);
  await_in_flight(&line, 2);
  CHECK_EQ(attr_of(line.endpoint).window_bytes, length);
  CHECK_EQ(attr_of(line.endpoint).queued_bytes, LENGTH);
  CHECK_OK(line_finish(&line, ucxx_tag_recv(line.to, in, length, TAG, UINT64_MAX, NULL, &receive),
                       &receive));
  CHECK_CONTENT(in, length, 5);
  receive_number(&line, 0);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &large));
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[0]));
  free(out);
  free(in);
  line_close(&line);
}

static void queue_is_bounded(const way_t *way) {
  enum { WINDOW = 2, QUEUE = 3, COUNT = WINDOW + QUEUE };
  STEP("%s: a full queue refuses, and nothing is submitted", way->name);
  line_t line;
  line_open(&line, way, limits(WINDOW, 0, QUEUE, 0));
  uint64_t numbers[COUNT + 1] = {0};
  ucxx_request_t *requests[COUNT + 1] = {NULL};
  fill(&line, numbers, requests, COUNT);
  numbers[COUNT] = 99;
  seen_t seen = {0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = &seen;
  for (int i = 0; i < 100; i++) {
    CHECK_STATUS(ucxx_tag_send(line.endpoint, &numbers[COUNT], 8, TAG, &params, &requests[COUNT]),
                 UCXX_ERR_NO_RESOURCE);
    CHECK_MESSAGE("send queue");
  }
  CHECK(requests[COUNT] == NULL);
  ucxx_buffer_t parts[2] = {{.data = numbers, .length = 8}, {.data = numbers, .length = 8}};
  CHECK_STATUS(ucxx_tag_send_iov(line.endpoint, parts, 2, TAG, NULL, NULL), UCXX_ERR_NO_RESOURCE);
  check_window(&line, WINDOW, QUEUE);
  STEP("%s: the queue accepts again when a send has left it", way->name);
  receive_number(&line, 0);
  await_in_flight(&line, COUNT - 1);
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[0]));
  CHECK_EQ(send_sync(&line, &numbers[COUNT], 8, &requests[COUNT]), UCXX_INPROGRESS);
  for (unsigned i = 1; i <= COUNT; i++) {
    receive_number(&line, numbers[i]);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
  }
  CHECK_EQ(seen_count(&seen), 0);
  CHECK(nothing_arrived(&line));
  line_close(&line);

  STEP("%s: the queue counts bytes", way->name);
  line_open(&line, way, limits(1, 0, 0, 20));
  memset(requests, 0, sizeof requests);
  fill(&line, numbers, requests, 3);
  CHECK_STATUS(send_sync(&line, &numbers[3], 8, &requests[3]), UCXX_ERR_NO_RESOURCE);
  numbers[3] = 3;
  CHECK_EQ(send_sync(&line, &numbers[3], 4, &requests[3]), UCXX_INPROGRESS);
  await_in_flight(&line, 4);
  CHECK_EQ(attr_of(line.endpoint).queued_bytes, 20);
  for (unsigned i = 0; i < 3; i++) {
    receive_number(&line, i);
    CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
  }
  uint32_t half = 0;
  ucxx_request_t *receive = NULL;
  CHECK_OK(line_finish(&line, ucxx_tag_recv(line.to, &half, 4, TAG, UINT64_MAX, NULL, &receive),
                       &receive));
  CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[3]));
  line_close(&line);
}

static void never_waits(const way_t *way) {
  enum { WINDOW = 2 };
  STEP("%s: NO_WAIT is refused if the window is full", way->name);
  line_t line;
  line_open(&line, way, limits(WINDOW, 0, 0, 0));
  ucxx_op_params_t params = no_wait();
  uint64_t numbers[4] = {0, 1, 2, 3};
  ucxx_request_t *requests[4] = {NULL};
  for (unsigned i = 0; i < WINDOW; i++) {
    CHECK_EQ(ucxx_tag_send_sync(line.endpoint, &numbers[i], 8, TAG, &params, &requests[i]),
             UCXX_INPROGRESS);
    await_in_flight(&line, i + 1);
  }
  CHECK_STATUS(ucxx_tag_send(line.endpoint, &numbers[2], 8, TAG, &params, &requests[2]),
               UCXX_ERR_NO_RESOURCE);
  CHECK_MESSAGE("send window");
  CHECK_STATUS(ucxx_tag_send_sync(line.endpoint, &numbers[2], 8, TAG, &params, &requests[2]),
               UCXX_ERR_NO_RESOURCE);
  ucxx_buffer_t parts[2] = {{.data = numbers, .length = 8}, {.data = numbers, .length = 8}};
  CHECK_STATUS(ucxx_tag_send_iov(line.endpoint, parts, 2, TAG, &params, &requests[2]),
               UCXX_ERR_NO_RESOURCE);
  params.flags |= UCXX_FLAG_WAIT;
  CHECK_STATUS(ucxx_tag_send(line.endpoint, &numbers[2], 8, TAG, &params, &requests[2]),
               UCXX_ERR_NO_RESOURCE);
  params.flags = UCXX_FLAG_NO_WAIT;
  CHECK(requests[2] == NULL);
  check_window(&line, WINDOW, 0);
  receive_number(&line, 0);
  while (!ucxx_endpoint_writable(line.endpoint)) drive(&line);
  STEP("%s: NO_WAIT is accepted if there is room", way->name);
  CHECK_EQ(ucxx_tag_send_sync(line.endpoint, &numbers[2], 8, TAG, &params, &requests[2]),
           UCXX_INPROGRESS);
  receive_number(&line, 1);
  receive_number(&line, 2);
  for (unsigned i = 0; i < 3; i++) CHECK_OK(line_finish(&line, UCXX_INPROGRESS, &requests[i]));
  CHECK(nothing_arrived(&line));
  line_close(&line);
}

/* A send posted in the callback of the previous one. The numbers of one thread come from one
 * counter. */
typedef struct chain {
  line_t *line;
  uint64_t *numbers;
  unsigned *next, count;
} chain_t;

static void send_next(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  (void)request;
  chain_t *chain = arg;
  CHECK_OK(status);
  if (*chain->next >= chain->count) return;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = send_next;
  params.callback_arg = chain;
  unsigned at = (*chain->next)++;
  chain->numbers[at] = at;
  ucxx_status_t sent =
      ucxx_tag_send_sync(chain->line->endpoint, &chain->numbers[at], 8, TAG, &params, NULL);
  CHECK(sent == UCXX_INPROGRESS || sent == UCXX_OK);
}

static void order_is_kept(const way_t *way, uint64_t seed) {
  enum { COUNT = 3000 };
  STEP("%s: order, whether direct, queued or from callbacks", way->name);
  line_t line;
  line_open(&line, way, limits(3, 200, 0, 0));
  uint64_t *numbers = calloc(COUNT, sizeof *numbers);
  ucxx_request_t *receive = NULL;
  uint64_t in[8] = {0};
  unsigned next = 0, received = 0, queued = 0;
  chain_t chain = {&line, numbers, &next, COUNT};
  while (received < COUNT) {
    seed = test_mix(seed);
    unsigned burst = seed % 8;
    for (unsigned i = 0; i < burst && next < COUNT; i++) {
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      /* With a progress thread callbacks run on another thread, and two threads have no common
       * order. */
      if (!is_threaded(&line) && (seed >> (8 + i)) % 4 == 0) {
        params.callback = send_next;
        params.callback_arg = &chain;
      }
      unsigned at = next++;
      numbers[at] = at;
      int sync = (seed >> (16 + i)) % 2 == 0;
      ucxx_status_t sent =
          sync ? ucxx_tag_send_sync(line.endpoint, &numbers[at], 8, TAG, &params, NULL)
               : ucxx_tag_send(line.endpoint, &numbers[at], 8, TAG, &params, NULL);
      CHECK(sent == UCXX_INPROGRESS || sent == UCXX_OK);
    }
    queued += attr_of(line.endpoint).queued_operations > 0;
    for (unsigned i = 0; i < (seed >> 32) % 6 && received < COUNT; i++) {
      if (receive == NULL) {
        ucxx_status_t status =
            ucxx_tag_recv(line.to, in, sizeof in, TAG, UINT64_MAX, NULL, &receive);
        if (status == UCXX_OK) {
          CHECK_EQ(in[0], received);
          received++;
          continue;
        }
        CHECK_EQ(status, UCXX_INPROGRESS);
      }
      drive(&line);
      if (ucxx_request_status(receive) == UCXX_INPROGRESS) continue;
      CHECK_OK(ucxx_request_status(receive));
      ucxx_request_destroy(receive);
      receive = NULL;
      CHECK_EQ(in[0], received);
      received++;
    }
  }
  CHECK(queued > COUNT / 100);
  if (receive != NULL) {
    CHECK_OK(ucxx_request_cancel(receive));
    CHECK_STATUS(line_finish(&line, UCXX_INPROGRESS, &receive), UCXX_ERR_CANCELED);
  }
  line_close(&line);
  free(numbers);
}

static void million_offers(const way_t *way) {
  enum { LENGTH = 1024, QUEUE = 2000 };
  /* If a peer's shared-memory queue stays full, UCX looks up its process in every pass once its
   * keepalive is due (after a second). That takes some 100 us for each offer made beside a progress
   * thread. */
  const unsigned offers = way->delayed == -1 ? 100000 : 1000000, warm_up = offers / 10;
  STEP("%s: %u offers to a receiver that takes none", way->name, offers);
  line_t line;
  line_open(&line, way, limits(0, 0, QUEUE, 0));
  static uint64_t message[LENGTH / 8];
  message[0] = 42;
  footprint_t before = {0};
  unsigned accepted = 0, refused = 0;
  for (unsigned i = 0; i < offers; i++) {
    ucxx_status_t status = ucxx_tag_send(line.endpoint, message, LENGTH, TAG, NULL, NULL);
    if (status < 0) CHECK_STATUS(status, UCXX_ERR_NO_RESOURCE);
    accepted += status >= 0;
    refused += status < 0;
    if (i % 64 == 0) drive_sender(&line);
    if (i == warm_up) {
      malloc_trim(0);
      before = footprint_now();
    }
    if (i % 1000 == 0) {
      standing_t attr = attr_of(line.endpoint);
      CHECK(attr.window_operations <= 256);
      CHECK(attr.queued_operations <= QUEUE);
    }
  }
  footprint_t after = footprint_now();
  printf("%u accepted, %u refused, %+ld KiB\n", accepted, refused,
         after.resident_kib - before.resident_kib);
  CHECK(refused > offers / 2);
  CHECK(after.resident_kib - before.resident_kib < 4096);
  STEP("%s: each accepted send arrives", way->name);
  for (unsigned i = 0; i < accepted; i++) {
    uint64_t in[LENGTH / 8];
    ucxx_request_t *receive = NULL;
    CHECK_OK(line_finish(
        &line, ucxx_tag_recv(line.to, in, sizeof in, TAG, UINT64_MAX, NULL, &receive), &receive));
    CHECK_EQ(in[0], 42);
  }
  ucxx_request_t *flush = NULL;
  CHECK_OK(line_finish(&line, ucxx_endpoint_flush(line.endpoint, NULL, &flush), &flush));
  CHECK(nothing_arrived(&line));
  CHECK_EQ(attr_of(line.endpoint).in_flight, 0);
  line_close(&line);
}

static void reject(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  CHECK_OK(ucxx_conn_request_reject(request));
  ucxx_conn_request_destroy(request);
}

static void while_connecting(void) {
  STEP("before the peer has answered");
  line_t line;
  line_open(&line, &ways[1], limits(0, 0, 0, 0));
  ucxx_listener_t *listener = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_listener_params_t listening = UCXX_LISTENER_PARAMS_INIT;
  listening.on_connect = reject;
  CHECK_OK(ucxx_listener_create(line.to, &listening, &listener));
  ucxx_endpoint_params_t params = limits(0, 0, 2, 0);
  CHECK_OK(ucxx_endpoint_connect(line.from, "127.0.0.1", ucxx_listener_port(listener), &params,
                                 &endpoint));
  uint64_t number = 0;
  ucxx_op_params_t impatient = no_wait();
  seen_t seen[2] = {{0}};
  CHECK(!ucxx_endpoint_writable(endpoint));
  CHECK_STATUS(ucxx_tag_send(endpoint, &number, 8, TAG, &impatient, NULL), UCXX_ERR_NO_RESOURCE);
  for (int i = 0; i < 2; i++) {
    ucxx_op_params_t waits = UCXX_OP_PARAMS_INIT;
    waits.callback = see_completion;
    waits.callback_arg = &seen[i];
    CHECK_EQ(ucxx_tag_send(endpoint, &number, 8, TAG, &waits, NULL), UCXX_INPROGRESS);
  }
  CHECK_STATUS(ucxx_tag_send(endpoint, &number, 8, TAG, NULL, NULL), UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(attr_of(endpoint).queued_operations, 2);
  ucxx_request_t *close = NULL;
  CHECK_OK(
      line_finish(&line, ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close), &close));
  for (int i = 0; i < 2; i++) {
    CHECK_EQ(seen_count(&seen[i]), 1);
    CHECK_STATUS(seen[i].status, UCXX_ERR_CANCELED);
  }
  ucxx_endpoint_destroy(endpoint);
  ucxx_listener_destroy(listener);
  line_close(&line);
}

int main(void) {
  test_begin("send_window");
  uint64_t seed = test_seed();
  for (unsigned i = 0; i < WAYS; i++) {
    window_is_kept(&ways[i]);
    window_of_bytes(&ways[i]);
    queue_is_bounded(&ways[i]);
    never_waits(&ways[i]);
    order_is_kept(&ways[i], seed + i);
    million_offers(&ways[i]);
  }
  if (has_tcp()) while_connecting();
  return 0;
}
