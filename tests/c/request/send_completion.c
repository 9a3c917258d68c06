/*
 * After a send has completed its buffer may be reused. Side 0 sends and overwrites its buffer at
 * the first permitted moment; side 1 receives late and must get the original data.
 */
#include "test_util.h"

enum { LARGE = 8 << 20, TAG = 0x5e };

static void receive(const pair_t *pair, size_t length, uint64_t seed) {
  uint8_t *data = test_alloc(length);
  memset(data, 0, length);
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_recv(pair->worker, data, length, TAG, UINT64_MAX, NULL, &request);
  CHECK_OK(finish(status, &request));
  CHECK_CONTENT(data, length, seed);
  free(data);
}

static void await_message(const pair_t *pair) {
  ucxx_recv_info_t info;
  while (ucxx_tag_probe(pair->worker, TAG, UINT64_MAX, &info, NULL) != UCXX_OK)
    progress(pair->worker);
}

static void inside_the_call(const pair_t *pair, size_t length) {
  STEP("a send of %zu bytes completes inside the call", length);
  uint64_t seed = test_mix(pair->seed + length);
  if (pair->side == 0) {
    uint8_t *data = test_alloc(length);
    for (int way = 0; way < 4; way++) {
      seen_t seen = {0, 0, UCXX_OK};
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      ucxx_request_t *request = NULL;
      test_fill(data, length, seed);
      if (way == 1) params.callback = see_completion;
      if (way == 2) params.flags = UCXX_FLAG_WAIT;
      params.callback_arg = &seen;
      CHECK_OK(
          ucxx_tag_send(pair->endpoint, data, length, TAG, &params, way == 3 ? NULL : &request));
      memset(data, 0xee, length);
      CHECK(request == NULL);
      for (int pass = 0; pass < 10; pass++) progress(pair->worker);
      CHECK_EQ(seen_count(&seen), 0);
      pair_sync(pair);
    }
    free(data);
  } else {
    for (int way = 0; way < 4; way++) {
      receive(pair, length, seed);
      pair_sync(pair);
    }
  }
}

static void overwrite(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  uint8_t **data = arg;
  CHECK_OK(status);
  CHECK(request != NULL);
  memset(*data, 0xee, LARGE);
  *data = NULL;
}

/* The receive is posted only on request, so the send cannot have completed before. */
static void large(const pair_t *pair, int by_callback, int sync) {
  STEP("a large send completes when the buffer is free, %s%s", by_callback ? "callback" : "polled",
       sync ? ", synchronous" : "");
  uint64_t seed = test_mix(pair->seed + LARGE);
  if (pair->side == 0) {
    uint8_t *data = test_alloc(LARGE), *armed = data;
    test_fill(data, LARGE, seed);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.callback = by_callback ? overwrite : NULL;
    params.callback_arg = &armed;
    ucxx_request_t *request = NULL;
    ucxx_status_t status = sync ? ucxx_tag_send_sync(pair->endpoint, data, LARGE, TAG, &params,
                                                     by_callback ? NULL : &request)
                                : ucxx_tag_send(pair->endpoint, data, LARGE, TAG, &params,
                                                by_callback ? NULL : &request);
    CHECK_STATUS(status, UCXX_INPROGRESS);
    pair_await(pair);
    for (int pass = 0; pass < 1000; pass++) progress(pair->worker);
    if (by_callback)
      CHECK(armed != NULL);
    else
      CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
    pair_tell(pair);
    if (by_callback) {
      while (armed != NULL) progress(pair->worker);
    } else {
      while ((status = ucxx_request_status(request)) == UCXX_INPROGRESS) progress(pair->worker);
      CHECK_OK(status);
      memset(data, 0xee, LARGE);
      ucxx_request_destroy(request);
    }
    pair_sync(pair);
    free(data);
  } else {
    await_message(pair);
    pair_sync(pair);
    receive(pair, LARGE, seed);
    pair_sync(pair);
  }
}

/* Middle sizes, where the protocol depends on the transport: once a send has completed its buffer
 * may be overwritten. */
static void middle(const pair_t *pair, size_t length) {
  STEP("overwriting the buffer after sends of %zu bytes", length);
  enum { ROUNDS = 200 };
  if (pair->side == 0) {
    uint8_t *data = test_alloc(length);
    for (uint64_t round = 0; round < ROUNDS; round++) {
      test_fill(data, length, pair->seed + round);
      ucxx_request_t *request = NULL;
      ucxx_status_t status = ucxx_tag_send(pair->endpoint, data, length, TAG, NULL, &request);
      CHECK_OK(finish(status, &request));
      memset(data, 0xee, length);
    }
    free(data);
  } else {
    for (uint64_t round = 0; round < ROUNDS; round++) receive(pair, length, pair->seed + round);
  }
  pair_sync(pair);
}

static void blocking(const pair_t *pair) {
  STEP("WAIT on a large send");
  uint64_t seed = test_mix(pair->seed + 1);
  if (pair->side == 0) {
    uint8_t *data = test_alloc(LARGE);
    test_fill(data, LARGE, seed);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_WAIT;
    ucxx_request_t *request = NULL;
    CHECK_OK(ucxx_tag_send(pair->endpoint, data, LARGE, TAG, &params, &request));
    memset(data, 0xee, LARGE);
    CHECK(request == NULL);
    pair_sync(pair);
    free(data);
  } else {
    await_message(pair);
    receive(pair, LARGE, seed);
    pair_sync(pair);
  }
}

/* Without request or callback only a flush reports completion, and it must wait for rendezvous that
 * nobody has received. */
static void flush_tells(const pair_t *pair, int of_worker, size_t length) {
  STEP("flush of %s behind a send of %zu bytes without a request",
       of_worker ? "worker" : "endpoint", length);
  uint64_t seed = test_mix(pair->seed + 2);
  if (pair->side == 0) {
    uint8_t *data = test_alloc(length);
    test_fill(data, length, seed);
    CHECK_STATUS(ucxx_tag_send(pair->endpoint, data, length, TAG, NULL, NULL), UCXX_INPROGRESS);
    ucxx_request_t *flush = NULL;
    CHECK_STATUS(of_worker ? ucxx_worker_flush(pair->worker, NULL, &flush)
                           : ucxx_endpoint_flush(pair->endpoint, NULL, &flush),
                 UCXX_INPROGRESS);
    pair_await(pair);
    for (int pass = 0; pass < 1000; pass++) progress(pair->worker);
    CHECK_STATUS(ucxx_request_status(flush), UCXX_INPROGRESS);
    pair_tell(pair);
    CHECK_OK(finish(UCXX_INPROGRESS, &flush));
    memset(data, 0xee, length);
    pair_sync(pair);
    free(data);
  } else {
    await_message(pair);
    pair_sync(pair);
    receive(pair, length, seed);
    pair_sync(pair);
  }
}

/* A flush covers earlier sends; not later ones, and not receives. */
static void flush_reaches_back_only(const pair_t *pair) {
  STEP("a flush waits for earlier sends only");
  uint64_t seed = test_mix(pair->seed + 3);
  if (pair->side == 0) {
    uint64_t word = 0;
    uint8_t *data = test_alloc(LARGE);
    test_fill(data, LARGE, seed);
    ucxx_request_t *nothing = NULL, *flush = NULL, *later = NULL;
    CHECK_STATUS(ucxx_tag_recv(pair->worker, &word, sizeof word, 0x99, UINT64_MAX, NULL, &nothing),
                 UCXX_INPROGRESS);
    ucxx_status_t flushed = ucxx_worker_flush(pair->worker, NULL, &flush);
    ucxx_status_t sent = ucxx_tag_send(pair->endpoint, data, LARGE, TAG, NULL, &later);
    CHECK_STATUS(sent, UCXX_INPROGRESS);
    CHECK_OK(finish(flushed, &flush));
    CHECK_STATUS(ucxx_request_status(later), UCXX_INPROGRESS);
    CHECK_STATUS(ucxx_request_status(nothing), UCXX_INPROGRESS);
    pair_tell(pair);
    CHECK_OK(finish(sent, &later));
    CHECK_OK(ucxx_request_cancel(nothing));
    CHECK_STATUS(finish(UCXX_INPROGRESS, &nothing), UCXX_ERR_CANCELED);
    free(data);
  } else {
    pair_await(pair);
    receive(pair, LARGE, seed);
  }
  pair_sync(pair);
}

static void many_then_flush(const pair_t *pair) {
  STEP("many sends without requests, then one flush");
  enum { COUNT = 500 };
  static const size_t lengths[] = {8, 3000, 20000, 100000};
  if (pair->side == 0) {
    uint8_t *data[COUNT];
    for (uint64_t at = 0; at < COUNT; at++) {
      size_t length = lengths[at % 4];
      data[at] = test_alloc(length);
      test_fill(data[at], length, pair->seed + at);
      ucxx_status_t status = ucxx_tag_send(pair->endpoint, data[at], length, TAG, NULL, NULL);
      CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
    }
    ucxx_request_t *flush = NULL;
    CHECK_OK(finish(ucxx_worker_flush(pair->worker, NULL, &flush), &flush));
    for (uint64_t at = 0; at < COUNT; at++) {
      memset(data[at], 0xee, lengths[at % 4]);
      free(data[at]);
    }
  } else {
    for (uint64_t at = 0; at < COUNT; at++) receive(pair, lengths[at % 4], pair->seed + at);
  }
  pair_sync(pair);
}

/* The next flush reports the error of a send without a request, once. */
static void error_reported_once(const pair_t *pair) {
  STEP("an error without a request is reported by the next flush, once");
  ucxx_address_t *address = pair_exchange_address(pair, pair->worker);
  if (pair->side == 0) {
    ucxx_endpoint_t *endpoint = NULL;
    ucxx_request_t *request = NULL;
    CHECK_OK(ucxx_endpoint_create(pair->worker, address, NULL, &endpoint));
    uint8_t *data = test_alloc(LARGE);
    test_fill(data, LARGE, pair->seed);
    CHECK_STATUS(ucxx_tag_send(endpoint, data, LARGE, 0x98, NULL, NULL), UCXX_INPROGRESS);
    CHECK_OK(finish(ucxx_endpoint_close(endpoint, UCXX_CLOSE_FORCE, NULL, &request), &request));
    request = NULL;
    ucxx_status_t first = ucxx_worker_flush(pair->worker, NULL, &request);
    first = first == UCXX_INPROGRESS ? finish(first, &request) : first;
    if (first >= 0) FAIL("the flush after a broken-off send gave %s", ucxx_status_name(first));
    request = NULL;
    CHECK_OK(finish(ucxx_worker_flush(pair->worker, NULL, &request), &request));
    ucxx_endpoint_destroy(endpoint);
    free(data);
  }
  ucxx_address_destroy(address);
  pair_sync(pair);
}

static void body(pair_t *pair) {
  pair_connect(pair, NULL, NULL, NULL);
  inside_the_call(pair, 1);
  inside_the_call(pair, 8);
  inside_the_call(pair, 64);
  inside_the_call(pair, 512);
  inside_the_call(pair, 1024);
  middle(pair, 2000);
  middle(pair, 8000);
  middle(pair, 9000);
  middle(pair, 30000);
  middle(pair, 300000);
  for (int by_callback = 0; by_callback < 2; by_callback++)
    for (int sync = 0; sync < 2; sync++) large(pair, by_callback, sync);
  blocking(pair);
  for (int of_worker = 0; of_worker < 2; of_worker++) {
    flush_tells(pair, of_worker, 1 << 20);
    flush_tells(pair, of_worker, LARGE);
  }
  flush_reaches_back_only(pair);
  many_then_flush(pair);
  error_reported_once(pair);
  pair_disconnect(pair);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "send_completion", body); }
