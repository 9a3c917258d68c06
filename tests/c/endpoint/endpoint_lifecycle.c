/* Closing and destroying with operations in flight: each operation completes once, and buffers are
 * free for reuse afterwards. Also: close callbacks, endpoints to the same worker. */
#include "test_util.h"

enum { LARGE = 4 << 20, MANY = 100 };

static ucxx_endpoint_t *watched_endpoint(ucxx_worker_t *from, ucxx_worker_t *to, seen_t *closed) {
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  ucxx_address_t *address = NULL;
  ucxx_endpoint_t *endpoint = NULL;
  memset(closed, 0, sizeof *closed);
  params.on_close = see_endpoint;
  params.on_close_arg = closed;
  CHECK_OK(ucxx_worker_address(to, &address));
  CHECK_OK(ucxx_endpoint_create(from, address, &params, &endpoint));
  ucxx_address_destroy(address);
  return endpoint;
}

static ucxx_op_params_t watched(seen_t *seen) {
  memset(seen, 0, sizeof *seen);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = seen;
  return params;
}

/* Receives without a match and rendezvous sends that nobody receives, some with request handles. */
static void destroy_worker_in_flight(void) {
  STEP("destroying a worker with operations in flight");
  duo_t duo;
  duo_open(&duo, NULL);
  static uint64_t words[MANY];
  seen_t received, sent, flushed, closed;
  ucxx_op_params_t receive_params = watched(&received), send_params = watched(&sent),
                   flush_params = watched(&flushed);
  ucxx_request_t *receives[MANY] = {NULL}, *sends[MANY] = {NULL}, *flush = NULL;
  uint8_t *data = test_alloc(LARGE);
  test_fill(data, LARGE, 1);
  ucxx_endpoint_t *extra = watched_endpoint(duo.left, duo.right, &closed);
  for (int at = 0; at < MANY; at++) {
    CHECK_STATUS(ucxx_tag_recv(duo.left, &words[at], 8, 0x900, UINT64_MAX, &receive_params,
                               at % 2 ? &receives[at] : NULL),
                 UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_tag_send(at % 3 ? extra : duo.to_right, data, LARGE, 0x901, &send_params,
                               at % 2 ? &sends[at] : NULL),
                 UCXX_INPROGRESS);
  }
  CHECK_STATUS(ucxx_worker_flush(duo.left, &flush_params, &flush), UCXX_INPROGRESS);
  for (int pass = 0; pass < 100; pass++) duo_progress(&duo);
  CHECK_EQ(seen_count(&received) + seen_count(&sent) + seen_count(&flushed), 0);
  ucxx_worker_destroy(duo.left);
  CHECK_EQ(seen_count(&received), MANY);
  CHECK_STATUS(received.status, UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&sent), MANY);
  CHECK_STATUS(sent.status, UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&flushed), 1);
  CHECK_EQ(seen_count(&closed), 1);
  /* Whatever the other side does now, the buffers belong to the test again. */
  memset(data, 0xee, LARGE);
  free(data);
  CHECK_STATUS(ucxx_endpoint_status(extra), UCXX_ERR_CLOSED);
  CHECK_STATUS(ucxx_endpoint_status(duo.to_right), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(extra);
  for (int at = 0; at < MANY; at++) {
    if (receives[at] != NULL) CHECK_STATUS(ucxx_request_status(receives[at]), UCXX_ERR_CANCELED);
    if (sends[at] != NULL) CHECK_STATUS(ucxx_request_status(sends[at]), UCXX_ERR_CANCELED);
    ucxx_request_destroy(receives[at]);
    ucxx_request_destroy(sends[at]);
  }
  ucxx_request_destroy(flush);
  CHECK_EQ(received.null_requests + sent.null_requests, 0);

  STEP("the peer's worker keeps working");
  duo_t solo = {duo.context, duo.right, duo.right, connect_workers(duo.right, duo.right), NULL};
  duo_transfer(&solo, 1000, 4);
  ucxx_endpoint_destroy(solo.to_right);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_worker_destroy(duo.right);
  ucxx_context_destroy(duo.context);
}

/* The receiver's worker is destroyed while messages to it are in flight. */
static void destroy_receiver_in_flight(void) {
  STEP("destroying the receiver's worker");
  duo_t duo;
  duo_open(&duo, NULL);
  seen_t received;
  ucxx_op_params_t params = watched(&received);
  static uint8_t in[MANY][100];
  uint8_t out[100];
  test_fill(out, sizeof out, 2);
  for (int at = 0; at < MANY; at++) {
    CHECK_STATUS(ucxx_tag_recv(duo.right, in[at], 100, 0x902, UINT64_MAX, &params, NULL),
                 UCXX_INPROGRESS);
    CHECK(ucxx_tag_send(duo.to_right, out, sizeof out, 0x902, NULL, NULL) >= 0);
  }
  ucxx_worker_destroy(duo.right);
  CHECK_EQ(seen_count(&received), MANY);
  ucxx_endpoint_destroy(duo.to_left);
  ucxx_endpoint_destroy(duo.to_right);
  ucxx_worker_destroy(duo.left);
  ucxx_context_destroy(duo.context);
}

static void destroy_endpoint_in_flight(void) {
  STEP("destroying an endpoint with operations in flight");
  duo_t duo;
  duo_open(&duo, NULL);
  seen_t closed, sent;
  ucxx_endpoint_t *endpoint = watched_endpoint(duo.left, duo.right, &closed);
  ucxx_op_params_t params = watched(&sent);
  uint8_t *data = test_alloc(LARGE);
  test_fill(data, LARGE, 3);
  ucxx_request_t *requests[4] = {NULL};
  for (int at = 0; at < 4; at++)
    CHECK_STATUS(ucxx_tag_send(endpoint, data, LARGE, 0x903, &params, &requests[at]),
                 UCXX_INPROGRESS);
  for (int pass = 0; pass < 100; pass++) duo_progress(&duo);
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  CHECK_EQ(seen_count(&sent), 4);
  memset(data, 0xee, LARGE);
  for (int at = 0; at < 4; at++) {
    CHECK(ucxx_request_status(requests[at]) < 0);
    CHECK_STATUS(ucxx_request_status(requests[at]), sent.status);
    ucxx_request_destroy(requests[at]);
  }
  duo_transfer(&duo, 1000, 5);
  duo_transfer(&duo, LARGE, 6);
  free(data);
  duo_close(&duo);
}

static void close_flush(void) {
  STEP("close with flush delivers what was sent before");
  duo_t duo;
  duo_open(&duo, NULL);
  seen_t closed, finished;
  uint64_t words[MANY];
  ucxx_endpoint_t *endpoint = watched_endpoint(duo.left, duo.right, &closed);
  uint8_t *data = test_alloc(LARGE), *in = test_alloc(LARGE);
  test_fill(data, LARGE, 7);
  for (uint64_t at = 0; at < MANY; at++) {
    words[at] = at;
    CHECK(ucxx_tag_send(endpoint, &words[at], 8, 0x904, NULL, NULL) >= 0);
  }
  ucxx_request_t *send = NULL, *close = NULL, *receive = NULL;
  CHECK_STATUS(ucxx_tag_send(endpoint, data, LARGE, 0x905, NULL, &send), UCXX_INPROGRESS);
  ucxx_op_params_t params = watched(&finished);
  CHECK_STATUS(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, &params, &close), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_tag_send(endpoint, "message", 8, 1, NULL, NULL), UCXX_ERR_CLOSED);
  for (uint64_t at = 0; at < MANY; at++) {
    uint64_t word = UINT64_MAX;
    CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, &word, 8, 0x904, UINT64_MAX, NULL, &receive),
                        &receive));
    CHECK_EQ(word, at);
  }
  CHECK_STATUS(ucxx_request_status(close), UCXX_INPROGRESS);
  CHECK_OK(duo_finish(&duo, ucxx_tag_recv(duo.right, in, LARGE, 0x905, UINT64_MAX, NULL, &receive),
                      &receive));
  CHECK_CONTENT(in, LARGE, 7);
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &send));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &close));
  CHECK_EQ(seen_count(&finished), 1);
  CHECK_EQ(seen_count(&closed), 1);
  CHECK_STATUS(ucxx_endpoint_status(endpoint), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  free(data);
  free(in);
  duo_close(&duo);
}

static void close_force(void) {
  STEP("a close by force ends operations in flight");
  duo_t duo;
  duo_open(&duo, NULL);
  seen_t closed, sent;
  ucxx_endpoint_t *endpoint = watched_endpoint(duo.left, duo.right, &closed);
  uint8_t *data = test_alloc(LARGE);
  test_fill(data, LARGE, 8);
  ucxx_op_params_t params = watched(&sent);
  ucxx_request_t *send = NULL, *close = NULL;
  CHECK_STATUS(ucxx_tag_send(endpoint, data, LARGE, 0x906, &params, &send), UCXX_INPROGRESS);
  CHECK_OK(duo_finish(&duo, ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close), &close));
  while (seen_count(&sent) == 0) duo_progress(&duo);
  memset(data, 0xee, LARGE);
  CHECK(sent.status < 0);
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &send), sent.status);
  CHECK_EQ(seen_count(&sent), 1);
  CHECK_EQ(seen_count(&closed), 1);
  ucxx_endpoint_destroy(endpoint);
  CHECK_EQ(seen_count(&closed), 1);
  duo_transfer(&duo, LARGE, 9);
  free(data);
  duo_close(&duo);
}

/* Closed before the connection is established: neither side has progressed. */
static void close_at_once(void) {
  STEP("endpoints closed before they were connected");
  duo_t duo;
  duo_open(&duo, NULL);
  for (int time = 0; time < 20; time++) {
    seen_t closed;
    ucxx_request_t *close = NULL;
    ucxx_endpoint_t *endpoint = watched_endpoint(duo.left, duo.right, &closed);
    /* A plain destroy waits for a flush that the other worker does not answer; trying it once is
     * enough. */
    if (time > 0)
      CHECK_OK(duo_finish(&duo,
                          time % 2 ? close_patiently(endpoint, &close)
                                   : ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &close),
                          &close));
    ucxx_endpoint_destroy(endpoint);
    CHECK_EQ(seen_count(&closed), 1);
  }
  duo_transfer(&duo, 1000, 10);
  duo_close(&duo);
}

static void to_oneself(void) {
  STEP("an endpoint to its own worker");
  static const size_t lengths[] = {0, 1, 8, 1000, 8 << 10, 9 << 10, 64 << 10, 1 << 20, 32 << 20};
  duo_t solo = {0};
  CHECK_OK(ucxx_context_create(NULL, &solo.context));
  CHECK_OK(ucxx_worker_create(solo.context, NULL, &solo.left));
  solo.right = solo.left;
  seen_t closed;
  solo.to_right = watched_endpoint(solo.left, solo.left, &closed);
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
    STEP("%zu bytes to the same worker", lengths[at]);
    duo_transfer(&solo, lengths[at], at);
    /* Send first, receive later. */
    uint8_t *out = test_alloc(lengths[at]), *in = test_alloc(lengths[at]);
    test_fill(out, lengths[at], at);
    ucxx_request_t *send = NULL, *receive = NULL;
    ucxx_status_t sent = ucxx_tag_send(solo.to_right, out, lengths[at], 3, NULL, &send);
    ucxx_status_t received =
        ucxx_tag_recv(solo.left, in, lengths[at], 3, UINT64_MAX, NULL, &receive);
    CHECK_OK(finish(received, &receive));
    CHECK_OK(finish(sent, &send));
    CHECK_CONTENT(in, lengths[at], at);
    free(out);
    free(in);
  }
  STEP("closing an endpoint to the same worker");
  ucxx_request_t *close = NULL;
  CHECK_OK(duo_finish(&solo, close_patiently(solo.to_right, &close), &close));
  CHECK_EQ(seen_count(&closed), 1);
  ucxx_endpoint_destroy(solo.to_right);
  ucxx_endpoint_t *second = connect_workers(solo.left, solo.left),
                  *third = connect_workers(solo.left, solo.left);
  solo.to_right = second;
  duo_transfer(&solo, 100, 1);
  solo.to_right = third;
  duo_transfer(&solo, 100, 2);
  ucxx_endpoint_destroy(second);
  duo_transfer(&solo, 100, 3);
  ucxx_worker_destroy(solo.left);
  CHECK_STATUS(ucxx_endpoint_status(third), UCXX_ERR_CLOSED);
  ucxx_endpoint_destroy(third);
  ucxx_context_destroy(solo.context);
}

/* The context may be destroyed first: its workers keep working, and new ones cannot be created
 * without its handle. */
static void workers_outlive_their_context(void) {
  STEP("workers outlive their context");
  duo_t duo;
  duo_open(&duo, NULL);
  ucxx_context_destroy(duo.context);
  duo.context = NULL;
  duo_transfer(&duo, 8, 1);
  duo_transfer(&duo, LARGE, 2);
  duo_close(&duo);
}

int main(void) {
  test_begin("endpoint_lifecycle");
  destroy_worker_in_flight();
  destroy_receiver_in_flight();
  destroy_endpoint_in_flight();
  close_flush();
  close_force();
  close_at_once();
  to_oneself();
  workers_outlive_their_context();
  return 0;
}
