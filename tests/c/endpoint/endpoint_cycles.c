/*
 * Thousands of create and close cycles leave memory, mappings, descriptors and threads as they
 * were. The first cycles warm up pools and arenas; the test checks the growth after them, on both
 * sides. An arena may also grow later, once, when the other side is slow. What leaks grows in both
 * halves of the cycles, so the smaller growth counts, twice.
 *
 *   endpoint_cycles [COUNT]     this many endpoint cycles
 */
#include "test_util.h"

#include <malloc.h>

enum { WARM_UP = 200, WORKER_WARM_UP = 20 };

static long cycles;
static int worker_cycles;
static uint16_t port; /* of the second process's listener */
static struct {
  ucxx_endpoint_t *endpoint;
  seen_t open, close;
} accepted;

static void compare(const char *what, footprint_t before, footprint_t after, long resident_kib) {
  long resident = after.resident_kib - before.resident_kib,
       mappings = after.mappings - before.mappings;
  long descriptors = after.descriptors - before.descriptors;
  long threads = after.threads - before.threads;
  printf("%s: %+ld KiB resident, %+ld mappings, %+ld descriptors, %+ld threads\n", what, resident,
         mappings, descriptors, threads);
  fflush(stdout);
  if (resident > resident_kib)
    FAIL("%s: %ld KiB more, at most %ld allowed", what, resident, resident_kib);
  if (mappings > 16) FAIL("%s: %ld mappings more", what, mappings);
  if (descriptors > 8) FAIL("%s: %ld descriptors more", what, descriptors);
  if (threads > 0) FAIL("%s: %ld threads more", what, threads);
}

static footprint_t settled(void) {
  malloc_trim(0);
  return footprint_now();
}

/* One message each way establishes the connection. */
static void greet(const pair_t *pair, ucxx_endpoint_t *endpoint) {
  uint64_t out = pair->seed, in = 0;
  ucxx_request_t *receive = NULL, *send = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(pair->worker, &in, sizeof in, 1, UINT64_MAX, NULL, &receive);
  CHECK_OK(finish(ucxx_tag_send(endpoint, &out, sizeof out, 1, NULL, &send), &send));
  CHECK_OK(finish(received, &receive));
  CHECK_EQ(in, out);
}

/* One endpoint each way, one message each way, then both close. */
static void both_sides_cycle(const pair_t *pair, const ucxx_address_t *address) {
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *close = NULL;
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, NULL, &endpoint));
  greet(pair, endpoint);
  CHECK_OK(finish(close_patiently(endpoint, &close), &close));
  ucxx_endpoint_destroy(endpoint);
  pair_sync(pair);
}

/* The sides take turns to close by force, with a receive posted on both; the other side is
 * notified. */
static void forced_cycle(const pair_t *pair, const ucxx_address_t *address) {
  static int turn;
  uint64_t never = 0;
  seen_t closed = {0};
  ucxx_endpoint_t *endpoint = NULL;
  ucxx_request_t *receive = NULL, *close = NULL;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_op_params_t from = UCXX_OP_PARAMS_INIT;
  params.on_close = see_endpoint;
  params.on_close_arg = &closed;
  CHECK_OK(ucxx_endpoint_create(pair->worker, address, &params, &endpoint));
  greet(pair, endpoint);
  from.source = endpoint;
  CHECK_STATUS(ucxx_tag_recv(pair->worker, &never, sizeof never, 2, UINT64_MAX, &from, &receive),
               UCXX_INPROGRESS);
  pair_sync(pair);
  int mine = turn++ % 2 == pair->side;
  if (mine) CHECK_OK(finish(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close), &close));
  CHECK_STATUS(finish(UCXX_INPROGRESS, &receive),
               mine ? UCXX_ERR_CLOSED : UCXX_ERR_CONNECTION_RESET);
  while (seen_count(&closed) == 0) progress(pair->worker);
  CHECK_STATUS(closed.status, mine ? UCXX_OK : UCXX_ERR_CONNECTION_RESET);
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  pair_sync(pair);
}

static void on_connect(void *arg, ucxx_conn_request_t *request) {
  (void)arg;
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.on_open = params.on_close = see_endpoint;
  params.on_open_arg = &accepted.open;
  params.on_close_arg = &accepted.close;
  CHECK_OK(ucxx_endpoint_accept(request, &params, &accepted.endpoint));
  ucxx_conn_request_destroy(request);
}

/* The first process connects to the second one's listener and closes. */
static void by_port_cycle(const pair_t *pair, const ucxx_address_t *address) {
  (void)address;
  if (pair->side == 0) {
    ucxx_endpoint_t *endpoint = NULL;
    ucxx_request_t *close = NULL;
    CHECK_OK(ucxx_endpoint_connect(pair->worker, "127.0.0.1", port, NULL, &endpoint));
    greet(pair, endpoint);
    CHECK_OK(finish(close_patiently(endpoint, &close), &close));
    ucxx_endpoint_destroy(endpoint);
  } else {
    while (seen_count(&accepted.open) == 0) progress(pair->worker);
    greet(pair, accepted.endpoint);
    while (seen_count(&accepted.close) == 0) progress(pair->worker);
    CHECK_STATUS(accepted.close.status, UCXX_ERR_CONNECTION_RESET);
    ucxx_endpoint_destroy(accepted.endpoint);
    CHECK_EQ(seen_count(&accepted.close), 1);
    memset(&accepted, 0, sizeof accepted);
  }
  pair_sync(pair);
}

/* Only the first process connects; the second only receives. */
static void one_side_cycle(const pair_t *pair, const ucxx_address_t *address) {
  uint64_t word = 0;
  ucxx_request_t *request = NULL;
  if (pair->side == 0) {
    ucxx_endpoint_t *endpoint = NULL;
    CHECK_OK(ucxx_endpoint_create(pair->worker, address, NULL, &endpoint));
    ucxx_status_t sent = ucxx_tag_send(endpoint, &word, sizeof word, 1, NULL, &request);
    CHECK_OK(finish(sent, &request));
    CHECK_OK(finish(close_patiently(endpoint, &request), &request));
    ucxx_endpoint_destroy(endpoint);
  } else {
    ucxx_status_t received =
        ucxx_tag_recv(pair->worker, &word, sizeof word, 1, UINT64_MAX, NULL, &request);
    CHECK_OK(finish(received, &request));
  }
  pair_sync(pair);
}

static void endpoints(pair_t *pair, const char *what,
                      void (*cycle)(const pair_t *pair, const ucxx_address_t *address)) {
  CHECK_OK(ucxx_context_create(NULL, &pair->context));
  CHECK_OK(ucxx_worker_create(pair->context, NULL, &pair->worker));
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  ucxx_listener_t *listener = NULL;
  if (cycle == by_port_cycle && pair->side == 1) {
    ucxx_listener_params_t params = UCXX_LISTENER_PARAMS_INIT;
    params.on_connect = on_connect;
    CHECK_OK(ucxx_listener_create(pair->worker, &params, &listener));
    port = ucxx_listener_port(listener);
    channel_put(pair, &port, sizeof port);
  } else if (cycle == by_port_cycle) {
    channel_get(pair, &port, sizeof port);
  }
  pair_sync(pair);
  footprint_t before = {0}, middle = {0};
  for (long at = 0; at < WARM_UP + cycles; at++) {
    STEP("%s, cycle %ld", what, at);
    if (at == WARM_UP) before = settled();
    if (at == WARM_UP + cycles / 2) middle = settled();
    cycle(pair, address);
  }
  footprint_t after = settled();
  long first = middle.resident_kib - before.resident_kib,
       second = after.resident_kib - middle.resident_kib;
  after.resident_kib = before.resident_kib + 2 * (first < second ? first : second);
  char text[100];
  snprintf(text, sizeof text, "side %d, %ld endpoint cycles, %s", pair->side, cycles, what);
  compare(text, before, after, cycles < 1024 ? cycles : 1024);
  ucxx_listener_destroy(listener);
  ucxx_address_destroy(address);
  pair_sync(pair);
  ucxx_worker_destroy(pair->worker);
  pair->worker = NULL;
  ucxx_context_destroy(pair->context);
}

static void workers(const pair_t *pair) {
  footprint_t before = {0};
  ucxx_context_t *context = NULL;
  CHECK_OK(ucxx_context_create(NULL, &context));
  for (int at = 0; at < WORKER_WARM_UP + worker_cycles; at++) {
    STEP("worker cycle %d", at);
    if (at == WORKER_WARM_UP) before = settled();
    ucxx_worker_t *worker = NULL;
    CHECK_OK(ucxx_worker_create(context, NULL, &worker));
    ucxx_endpoint_t *endpoint = connect_workers(worker, worker);
    duo_t solo = {context, worker, worker, endpoint, NULL};
    duo_transfer(&solo, 100, (uint64_t)at);
    ucxx_endpoint_destroy(endpoint);
    ucxx_worker_destroy(worker);
  }
  char text[100];
  snprintf(text, sizeof text, "side %d, %d worker cycles", pair->side, worker_cycles);
  compare(text, before, settled(), 2048);
  ucxx_context_destroy(context);
}

static void contexts(const pair_t *pair) {
  footprint_t before = {0};
  for (int at = 0; at < WORKER_WARM_UP + worker_cycles; at++) {
    STEP("context cycle %d", at);
    if (at == WORKER_WARM_UP) before = settled();
    duo_t duo;
    duo_open(&duo, NULL);
    duo_close(&duo);
  }
  char text[100];
  snprintf(text, sizeof text, "side %d, %d context cycles", pair->side, worker_cycles);
  compare(text, before, settled(), 2048);
}

/* Requests come from a pool, which must not grow when requests are returned. */
static void requests(const pair_t *pair) {
  duo_t duo;
  duo_open(&duo, NULL);
  footprint_t before = {0};
  for (int round = 0; round < 60; round++) {
    STEP("request cycle %d", round);
    if (round == 10) before = settled();
    enum { COUNT = 1000 };
    ucxx_request_t *handles[COUNT];
    static uint64_t words[COUNT];
    for (int at = 0; at < COUNT; at++)
      CHECK_STATUS(ucxx_tag_recv(duo.right, &words[at], 8, 1, UINT64_MAX, NULL, &handles[at]),
                   UCXX_INPROGRESS);
    for (int at = 1; at < COUNT; at += 2) CHECK_OK(ucxx_request_cancel(handles[at]));
    for (int at = 0; at < COUNT; at += 2)
      CHECK(ucxx_tag_send(duo.to_right, "message", 8, 1, NULL, NULL) >= 0);
    for (int at = 0; at < COUNT; at++)
      CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &handles[at]),
                   at % 2 == 0 ? UCXX_OK : UCXX_ERR_CANCELED);
  }
  char text[100];
  snprintf(text, sizeof text, "side %d, 50000 requests", pair->side);
  compare(text, before, settled(), 512);
  duo_close(&duo);
}

static void body(pair_t *pair) {
  if (pair->side == 0)
    channel_put(pair, &cycles, sizeof cycles);
  else
    channel_get(pair, &cycles, sizeof cycles);
  endpoints(pair, "both sides connect", both_sides_cycle);
  endpoints(pair, "one side connects", one_side_cycle);
  endpoints(pair, "closed by force", forced_cycle);
  if (has_tcp()) endpoints(pair, "by host and port", by_port_cycle);
  if (pair->side == 1) return;
  workers(pair);
  contexts(pair);
  requests(pair);
}

int main(int argc, char **argv) {
  cycles = argc == 2 ? atol(argv[1]) : test_rounds(1500);
  worker_cycles = (int)test_rounds(200);
  return pair_main(argc, argv, "endpoint_cycles", body);
}
