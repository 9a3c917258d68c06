/* Requests complete exactly once: by callback, polling or waiting, with timeouts, cancel and early
 * destroy. */
#include "test_util.h"

static duo_t duo;
static uint64_t next_tag = 0x100;

static ucxx_op_params_t with_callback(seen_t *seen) {
  memset(seen, 0, sizeof *seen);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = see_completion;
  params.callback_arg = seen;
  return params;
}

/* Posts a receive on the right that has no match yet. */
static ucxx_request_t *post(void *data, size_t length, uint64_t tag,
                            const ucxx_op_params_t *params) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv(duo.right, data, length, tag, UINT64_MAX, params, &request),
               UCXX_INPROGRESS);
  CHECK(request != NULL);
  return request;
}

static void send_to_right(const void *data, size_t length, uint64_t tag) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_tag_send(duo.to_right, data, length, tag, NULL, &request);
  CHECK_OK(duo_finish(&duo, status, &request));
}

static void some_passes(void) {
  for (int pass = 0; pass < 100; pass++) duo_progress(&duo);
}

static void one_completion(void) {
  STEP("a callback runs once, and polling and waiting agree with it");
  uint64_t word = 0, tag = next_tag++;
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  ucxx_request_t *request = post(&word, sizeof word, tag, &params);
  some_passes();
  CHECK_EQ(seen_count(&seen), 0);
  CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
  send_to_right("message", 8, tag);
  /* The wait makes the progress. */
  CHECK_OK(ucxx_request_wait(request, FOR_EVER));
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_STATUS(seen.status, UCXX_OK);
  CHECK(memcmp(&word, "message", 8) == 0);
  for (int again = 0; again < 3; again++) {
    some_passes();
    CHECK_OK(ucxx_request_status(request));
    CHECK_OK(ucxx_request_wait(request, 0));
    CHECK_OK(ucxx_request_wait(request, FOR_EVER));
  }
  ucxx_request_destroy(request);
  some_passes();
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_EQ(seen.null_requests, 0);
}

typedef struct look {
  ucxx_recv_info_t *stored;
  uint64_t length, tag;
  int destroy;
  int count;
} look_t;

/* Status and receive info are final when the callback runs. */
static void look_inside(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  look_t *look = arg;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  look->count++;
  CHECK_OK(status);
  CHECK(request != NULL);
  CHECK_OK(ucxx_request_status(request));
  CHECK_OK(ucxx_request_recv_info(request, &info));
  CHECK(info.length == look->length && info.sender_tag == look->tag);
  CHECK(look->stored->length == look->length && look->stored->sender_tag == look->tag);
  if (look->destroy) ucxx_request_destroy(request);
}

static void final_in_callback(int keep, int destroy) {
  STEP("what a callback sees: request %s, %s", keep ? "kept" : "not kept",
       destroy ? "destroyed inside" : "left alone");
  char in[32];
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  look_t look = {&info, 16, next_tag++, destroy, 0};
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.callback = look_inside;
  params.callback_arg = &look;
  params.recv_info = &info;
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv(duo.right, in, sizeof in, look.tag, UINT64_MAX, &params,
                             keep ? &request : NULL),
               UCXX_INPROGRESS);
  send_to_right("sixteen bytes...", 16, look.tag);
  while (look.count == 0) duo_progress(&duo);
  some_passes();
  CHECK_EQ(look.count, 1);
  CHECK(memcmp(in, "sixteen bytes...", 16) == 0);
  if (keep && !destroy) ucxx_request_destroy(request);
}

static void always_callback(int keep) {
  STEP("ALWAYS_CALLBACK, request %s", keep ? "kept" : "not kept");
  uint64_t in = 0, tag = next_tag++;
  seen_t seen;
  ucxx_request_t *receive = post(&in, sizeof in, tag, NULL), *send = NULL;
  ucxx_op_params_t params = with_callback(&seen);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  CHECK_STATUS(ucxx_tag_send(duo.to_right, "message", 8, tag, &params, keep ? &send : NULL),
               UCXX_INPROGRESS);
  CHECK_EQ(seen_count(&seen), 0);
  if (keep) {
    CHECK_OK(ucxx_request_wait(send, FOR_EVER));
    CHECK_EQ(seen_count(&seen), 1);
    ucxx_request_destroy(send);
  }
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &receive));
  while (seen_count(&seen) == 0) duo_progress(&duo);
  some_passes();
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_STATUS(seen.status, UCXX_OK);

  STEP("ALWAYS_CALLBACK on a receive whose message has arrived");
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  send_to_right("message", 8, tag);
  while (ucxx_tag_probe(duo.right, tag, UINT64_MAX, &info, NULL) != UCXX_OK) duo_progress(&duo);
  params = with_callback(&seen);
  params.flags = UCXX_FLAG_ALWAYS_CALLBACK;
  params.recv_info = &info;
  memset(&info, 0, sizeof info);
  receive = NULL;
  CHECK_STATUS(
      ucxx_tag_recv(duo.right, &in, sizeof in, tag, UINT64_MAX, &params, keep ? &receive : NULL),
      UCXX_INPROGRESS);
  CHECK_EQ(seen_count(&seen), 0);
  while (seen_count(&seen) == 0) duo_progress(&duo);
  some_passes();
  CHECK_EQ(seen_count(&seen), 1);
  CHECK(info.length == 8 && info.sender_tag == tag);
  ucxx_request_destroy(receive);
}

static void completed_inside(void) {
  STEP("no callback for what completes inside the call");
  uint64_t in = 0, tag = next_tag++;
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  ucxx_request_t *send = NULL;
  CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, tag, &params, &send));
  CHECK(send == NULL);
  ucxx_request_t *receive = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(duo.right, &in, sizeof in, tag, UINT64_MAX, NULL, &receive);
  CHECK_OK(duo_finish(&duo, received, &receive));
  some_passes();
  CHECK_EQ(seen_count(&seen), 0);
}

static void blocking(void) {
  STEP("the WAIT flag");
  uint64_t in = 0, tag = next_tag++;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = UCXX_FLAG_WAIT;
  ucxx_recv_info_t info = {0, 0, {0, 0}};
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_tag_send(duo.to_right, "message", 8, tag, &params, &request));
  CHECK(request == NULL);
  params.recv_info = &info;
  CHECK_OK(ucxx_tag_recv(duo.right, &in, sizeof in, tag, UINT64_MAX, &params, NULL));
  CHECK(info.length == 8 && info.sender_tag == tag);
  CHECK(memcmp(&in, "message", 8) == 0);
  params.timeout_ns = 20 * MILLISECOND;
  CHECK_STATUS(ucxx_tag_recv(duo.right, &in, sizeof in, tag, UINT64_MAX, &params, &request),
               UCXX_ERR_TIMED_OUT);
  CHECK(request == NULL);
  send_to_right("later...", 8, tag);
  params.timeout_ns = 0;
  CHECK_OK(ucxx_tag_recv(duo.right, &in, sizeof in, tag, UINT64_MAX, &params, NULL));
  CHECK(memcmp(&in, "later...", 8) == 0);
  CHECK_OK(ucxx_worker_flush(duo.left, &params, NULL));
}

static void early_destroy(void) {
  STEP("destroy of a request in progress");
  uint64_t in = 0, tag = next_tag++;
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  ucxx_request_destroy(post(&in, sizeof in, tag, &params));
  some_passes();
  CHECK_EQ(seen_count(&seen), 0);
  send_to_right("message", 8, tag);
  while (seen_count(&seen) == 0) duo_progress(&duo);
  some_passes();
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_EQ(seen.null_requests, 1);
  CHECK_STATUS(seen.status, UCXX_OK);
  CHECK(memcmp(&in, "message", 8) == 0);

  STEP("destroy of a request in progress without a callback");
  memset(&in, 0, sizeof in);
  ucxx_request_destroy(post(&in, sizeof in, tag, NULL));
  send_to_right("message", 8, tag);
  /* A later message with the same tag is matched later: when it has arrived, the first one has been
   * delivered. */
  uint64_t second = 0;
  ucxx_request_t *request = post(&second, sizeof second, tag, NULL);
  send_to_right("another", 8, tag);
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &request));
  CHECK(memcmp(&in, "message", 8) == 0);
  CHECK(memcmp(&second, "another", 8) == 0);
}

static void waiting_for_several(void) {
  STEP("wait_all and wait_any");
  enum { COUNT = 5 };
  uint64_t in[COUNT];
  ucxx_request_t *requests[COUNT + 1] = {NULL};
  uint64_t tag = next_tag;
  next_tag += COUNT;
  size_t index = 99;
  /* Entry 2 stays NULL. */
  for (size_t at = 0; at < COUNT; at++)
    requests[at < 2 ? at : at + 1] = post(&in[at], sizeof in[at], tag + at, NULL);
  CHECK_STATUS(ucxx_request_wait_any(requests, COUNT + 1, 0, &index), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait_any(requests, COUNT + 1, MILLISECOND, &index), UCXX_INPROGRESS);
  CHECK_EQ(index, 99);
  CHECK_STATUS(ucxx_request_wait_all(requests, COUNT + 1, 0), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_wait_all(requests, COUNT + 1, MILLISECOND), UCXX_INPROGRESS);

  send_to_right("message", 8, tag + 3);
  CHECK_OK(ucxx_request_wait_any(requests, COUNT + 1, FOR_EVER, &index));
  CHECK_EQ(index, 4);
  ucxx_request_destroy(requests[index]);
  requests[index] = NULL;

  CHECK_OK(ucxx_request_cancel(requests[1]));
  send_to_right("message", 8, tag);
  send_to_right("message", 8, tag + 2);
  CHECK_STATUS(ucxx_request_wait_all(requests, COUNT + 1, 0), UCXX_INPROGRESS);
  send_to_right("message", 8, tag + 4);
  CHECK_STATUS(ucxx_request_wait_all(requests, COUNT + 1, FOR_EVER), UCXX_ERR_CANCELED);
  for (size_t at = 0; at < COUNT + 1; at++) {
    if (requests[at] != NULL)
      CHECK_STATUS(ucxx_request_status(requests[at]), at == 1 ? UCXX_ERR_CANCELED : UCXX_OK);
  }
  for (int left = 4; left > 0; left--) {
    ucxx_status_t status = ucxx_request_wait_any(requests, COUNT + 1, FOR_EVER, &index);
    CHECK(requests[index] != NULL);
    CHECK_STATUS(status, index == 1 ? UCXX_ERR_CANCELED : UCXX_OK);
    ucxx_request_destroy(requests[index]);
    requests[index] = NULL;
  }
  index = 99;
  CHECK_STATUS(ucxx_request_wait_any(requests, COUNT + 1, FOR_EVER, &index), UCXX_ERR_NO_ELEM);
  CHECK_STATUS(ucxx_request_wait_all(requests, COUNT + 1, FOR_EVER), UCXX_ERR_NO_ELEM);
  CHECK_EQ(index, 99);
}

static void cancel(void) {
  STEP("cancel");
  uint64_t in = 0x1234, tag = next_tag++;
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  ucxx_request_t *request = post(&in, sizeof in, tag, &params);
  CHECK_OK(ucxx_request_cancel(request));
  CHECK_STATUS(ucxx_request_wait(request, FOR_EVER), UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_STATUS(seen.status, UCXX_ERR_CANCELED);
  CHECK(strstr(ucxx_request_error_message(request), "tag") != NULL);
  /* A caller that polls the status finds the reason in the last error message. */
  CHECK(ucxx_request_status(request) < 0 && strstr(ucxx_last_error_message(), "tag") != NULL);
  ucxx_request_cancel(request);
  CHECK_STATUS(ucxx_request_wait(request, 0), UCXX_ERR_CANCELED);
  some_passes();
  CHECK_EQ(seen_count(&seen), 1);
  /* A cancelled receive matches nothing. */
  send_to_right("message", 8, tag);
  some_passes();
  CHECK(in == 0x1234);
  uint64_t other = 0;
  ucxx_request_t *receive = NULL;
  ucxx_status_t received =
      ucxx_tag_recv(duo.right, &other, sizeof other, tag, UINT64_MAX, NULL, &receive);
  CHECK_OK(duo_finish(&duo, received, &receive));
  CHECK(memcmp(&other, "message", 8) == 0);
  ucxx_request_destroy(request);
  CHECK_EQ(seen_count(&seen), 1);
}

static void timeouts(void) {
  STEP("a timeout of an unmatched receive");
  uint64_t in = 0x1234, tag = next_tag++;
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  params.timeout_ns = 10 * MILLISECOND;
  ucxx_request_t *request = post(&in, sizeof in, tag, &params);
  CHECK_STATUS(ucxx_request_wait(request, FOR_EVER), UCXX_ERR_TIMED_OUT);
  CHECK_EQ(seen_count(&seen), 1);
  CHECK_STATUS(seen.status, UCXX_ERR_TIMED_OUT);
  CHECK(strstr(ucxx_request_error_message(request), "tag") != NULL);
  ucxx_request_destroy(request);

  STEP("many timeouts, in progress calls alone");
  enum { COUNT = 100 };
  ucxx_request_t *requests[COUNT];
  for (uint64_t at = 0; at < COUNT; at++) {
    params = with_callback(&seen);
    params.timeout_ns = (COUNT - at) * 100000;
    requests[at] = post(&in, sizeof in, tag, &params);
  }
  while (seen_count(&seen) < COUNT) duo_progress(&duo);
  for (int at = 0; at < COUNT; at++)
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &requests[at]), UCXX_ERR_TIMED_OUT);

  STEP("a timeout that is not reached");
  params = with_callback(&seen);
  params.timeout_ns = 3600 * SECOND;
  request = post(&in, sizeof in, tag, &params);
  send_to_right("message", 8, tag);
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &request));
  CHECK_EQ(seen_count(&seen), 1);

  STEP("a timeout of a flush behind a rendezvous send that nobody receives");
  enum { LARGE = 4 << 20 };
  uint8_t *large = test_alloc(LARGE), *room = test_alloc(LARGE);
  test_fill(large, LARGE, tag);
  ucxx_request_t *send = NULL, *flush = NULL;
  CHECK_STATUS(ucxx_tag_send(duo.to_right, large, LARGE, tag, NULL, &send), UCXX_INPROGRESS);
  params = with_callback(&seen);
  params.timeout_ns = 10 * MILLISECOND;
  CHECK_STATUS(ucxx_endpoint_flush(duo.to_right, &params, &flush), UCXX_INPROGRESS);
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &flush), UCXX_ERR_TIMED_OUT);
  params = with_callback(&seen);
  flush = NULL;
  CHECK_STATUS(ucxx_worker_flush(duo.left, &params, &flush), UCXX_INPROGRESS);
  CHECK_OK(ucxx_request_cancel(flush));
  CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &flush), UCXX_ERR_CANCELED);
  CHECK_EQ(seen_count(&seen), 1);
  /* Giving up the flush does not disturb the send. */
  request = NULL;
  ucxx_status_t received = ucxx_tag_recv(duo.right, room, LARGE, tag, UINT64_MAX, NULL, &request);
  CHECK_OK(duo_finish(&duo, received, &request));
  CHECK_OK(duo_finish(&duo, UCXX_INPROGRESS, &send));
  CHECK_CONTENT(room, LARGE, tag);
  free(large);
  free(room);
}

static void very_many(void) {
  STEP("very many requests outstanding");
  enum { COUNT = 20000 };
  static ucxx_request_t *requests[COUNT];
  static uint32_t in[COUNT];
  seen_t seen;
  ucxx_op_params_t params = with_callback(&seen);
  uint64_t tag = next_tag;
  next_tag += COUNT;
  for (uint32_t at = 0; at < COUNT; at++)
    requests[at] = post(&in[at], sizeof in[at], tag + at, &params);
  /* Half are matched, in another order, and half cancelled. */
  for (uint32_t at = 0; at < COUNT; at += 2) {
    uint32_t value = (uint32_t)(at * UINT64_C(7919) % COUNT) & ~1u;
    send_to_right(&value, sizeof value, tag + value);
  }
  for (uint32_t at = 1; at < COUNT; at += 2) CHECK_OK(ucxx_request_cancel(requests[at]));
  for (uint32_t at = 0; at < COUNT; at++) {
    CHECK_STATUS(duo_finish(&duo, UCXX_INPROGRESS, &requests[at]),
                 at % 2 == 0 ? UCXX_OK : UCXX_ERR_CANCELED);
    if (at % 2 == 0) CHECK_EQ(in[at], at);
  }
  CHECK_EQ(seen_count(&seen), COUNT);
}

int main(void) {
  test_begin("requests");
  duo_open(&duo, NULL);
  one_completion();
  final_in_callback(1, 0);
  final_in_callback(1, 1);
  final_in_callback(0, 0);
  final_in_callback(0, 1);
  always_callback(1);
  always_callback(0);
  completed_inside();
  blocking();
  early_destroy();
  waiting_for_several();
  cancel();
  timeouts();
  very_many();
  duo_close(&duo);
  return 0;
}
