/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The queue form of active messages, between two workers of one process: every size arrives whole
 * and in order; receives can be cancelled, time out and fail; nothing leaks at the end. */
#include "multi.h"

static ucxx_request_t *receive(ucxx_endpoint_t *from, const ucxx_allocator_t *allocator,
                               ucxx_op_params_t *params) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_am_queue_recv(from, allocator, params, &request), UCXX_INPROGRESS);
  CHECK(request != NULL);
  return request;
}

static ucxx_status_t await(const duo_t *duo, ucxx_request_t *request) {
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  return ucxx_request_status(request);
}

static void take(ucxx_request_t *request, size_t length, uint64_t seed) {
  ucxx_buffers_t *buffers = NULL;
  CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  frames_check(buffers, 1, &length, seed);
  ucxx_buffers_destroy(buffers);
  ucxx_request_destroy(request);
}

static void *message(size_t length, uint64_t seed) {
  uint8_t *data = test_alloc(length);
  test_fill(data, length, frame_seed(seed, 0));
  return data;
}

static void send(const duo_t *duo, const void *data, size_t length, uint64_t flags,
                 ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  ucxx_status_t status = ucxx_am_queue_send(duo->to_right, data, length, &params, request);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  if (status == UCXX_OK) *request = NULL;
}

static void sent(const duo_t *duo, ucxx_request_t **request) {
  if (*request != NULL) CHECK_OK(duo_finish(duo, UCXX_INPROGRESS, request));
}

static void sizes(const duo_t *duo) {
  static const size_t lengths[] = {0, 1, 8, 300, 5000, 70000, 2 << 20};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (size_t protocol = 0; protocol < 3; protocol++)
      for (int posted = 0; posted < 2; posted++) {
        STEP("%zu bytes, flags %#zx, %s", lengths[at], (size_t)protocols[protocol],
             posted ? "awaited" : "unexpected");
        maker_t maker = {0};
        ucxx_allocator_t allocator = maker_allocator(&maker);
        ucxx_recv_info_t info = {0};
        ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
        ucxx_request_t *request = NULL, *out = NULL;
        params.recv_info = &info;
        void *data = message(lengths[at], at);
        if (posted) request = receive(duo->to_left, &allocator, &params);
        send(duo, data, lengths[at], protocols[protocol], &out);
        if (!posted) {
          size_t waiting = 77;
          while (ucxx_am_queue_probe(duo->to_left, &waiting) == UCXX_ERR_NO_MESSAGE)
            duo_progress(duo);
          CHECK_EQ(waiting, lengths[at]);
          request = receive(duo->to_left, &allocator, &params);
        }
        CHECK_OK(await(duo, request));
        sent(duo, &out);
        CHECK_EQ(info.length, lengths[at]);
        CHECK_EQ(maker.made, lengths[at] > 0);
        take(request, lengths[at], at);
        CHECK_EQ(maker.freed, maker.made);
        CHECK_STATUS(ucxx_am_queue_probe(duo->to_left, NULL), UCXX_ERR_NO_MESSAGE);
        free(data);
      }
}

static void many(const duo_t *duo) {
  enum { MANY = 300 };
  STEP("%d, in order", MANY);
  void *data[MANY];
  size_t lengths[MANY];
  ucxx_request_t *out[MANY], *in[MANY];
  for (uint64_t at = 0; at < MANY / 2; at++) in[at] = receive(duo->to_left, NULL, NULL);
  for (uint64_t at = 0; at < MANY; at++) {
    lengths[at] = test_mix(at) % 3000;
    data[at] = message(lengths[at], at);
    send(duo, data[at], lengths[at], UCXX_FLAG_EAGER, &out[at]);
  }
  for (uint64_t at = MANY / 2; at < MANY; at++) in[at] = receive(duo->to_left, NULL, NULL);
  for (uint64_t at = 0; at < MANY; at++) {
    CHECK_OK(await(duo, in[at]));
    take(in[at], lengths[at], at);
    sent(duo, &out[at]);
    free(data[at]);
  }
}

static ucxx_request_t *to_cancel;

/* The request is cancelled while its buffer is allocated. */
static ucxx_status_t allocate_and_cancel(void *arg, size_t length, int32_t memory_type,
                                         int32_t device_id, void **data) {
  CHECK_OK(ucxx_request_cancel(to_cancel));
  return maker_allocate(arg, length, memory_type, device_id, data);
}

static void cancels(const duo_t *duo) {
  ucxx_request_t *out = NULL;
  void *data = message(5000, 3);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  STEP("a receive is cancelled, or times out: the next one gets the message");
  ucxx_request_t *first = receive(duo->to_left, NULL, NULL);
  params.timeout_ns = 10 * MILLISECOND;
  ucxx_request_t *second = receive(duo->to_left, NULL, &params),
                 *third = receive(duo->to_left, NULL, NULL);
  CHECK_OK(ucxx_request_cancel(first));
  CHECK_STATUS(await(duo, first), UCXX_ERR_CANCELED);
  CHECK_STATUS(await(duo, second), UCXX_ERR_TIMED_OUT);
  ucxx_request_destroy(first);
  ucxx_request_destroy(second);
  send(duo, data, 5000, 0, &out);
  CHECK_OK(await(duo, third));
  take(third, 5000, 3);
  sent(duo, &out);
  STEP("cancelled while its buffer is allocated");
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  allocator.allocate = allocate_and_cancel;
  to_cancel = receive(duo->to_left, &allocator, NULL);
  send(duo, data, 5000, 0, &out);
  ucxx_status_t status = await(duo, to_cancel);
  CHECK(status == UCXX_ERR_CANCELED || status == UCXX_OK);
  ucxx_request_destroy(to_cancel);
  if (status == UCXX_ERR_CANCELED) {
    first = receive(duo->to_left, NULL, NULL);
    CHECK_OK(await(duo, first));
    take(first, 5000, 3);
  }
  CHECK_EQ(maker.freed, maker.made);
  sent(duo, &out);
  STEP("a message over the allocator's limit, and no memory");
  allocator = maker_allocator(&maker);
  allocator.max_total_bytes = 4999;
  first = receive(duo->to_left, &allocator, NULL);
  send(duo, data, 5000, 0, &out);
  CHECK_STATUS(await(duo, first), UCXX_ERR_EXCEEDS_LIMIT);
  ucxx_request_destroy(first);
  sent(duo, &out);
  memset(&maker, 0, sizeof maker);
  maker.fails_at = 1;
  allocator.max_total_bytes = 0;
  first = receive(duo->to_left, &allocator, NULL);
  send(duo, data, 5000, UCXX_FLAG_RNDV, &out);
  CHECK_STATUS(await(duo, first), UCXX_ERR_NO_MEMORY);
  ucxx_request_destroy(first);
  sent(duo, &out);
  free(data);
}

static void bad_calls(const duo_t *duo) {
  STEP("bad calls");
  ucxx_request_t *request = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  CHECK_STATUS(ucxx_am_queue_send(NULL, NULL, 0, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_queue_send(duo->to_right, NULL, 1, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_queue_recv(NULL, NULL, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_queue_recv(duo->to_left, NULL, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  params.flags = UCXX_FLAG_AM_REPLY;
  CHECK_STATUS(ucxx_am_queue_send(duo->to_right, NULL, 0, &params, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_queue_probe(NULL, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK(request == NULL);
}

/* Messages and receives are pending when an endpoint and when the worker is destroyed. */
static void left_over(duo_t *duo) {
  STEP("pending at the end");
  void *data = message(70000, 1);
  ucxx_request_t *out[4], *in = NULL;
  for (int at = 0; at < 4; at++)
    send(duo, data, 70000, at % 2 ? UCXX_FLAG_RNDV : UCXX_FLAG_EAGER, &out[at]);
  while (ucxx_am_queue_probe(duo->to_left, NULL) == UCXX_ERR_NO_MESSAGE) duo_progress(duo);
  CHECK_STATUS(ucxx_am_queue_recv(duo->to_right, NULL, NULL, &in), UCXX_INPROGRESS);
  ucxx_worker_destroy(duo->right);
  for (int at = 0; at < 4; at++) {
    while (out[at] != NULL && ucxx_request_status(out[at]) == UCXX_INPROGRESS) progress(duo->left);
    ucxx_request_destroy(out[at]);
  }
  while (ucxx_request_status(in) == UCXX_INPROGRESS) progress(duo->left);
  CHECK_STATUS(ucxx_request_status(in), UCXX_ERR_CONNECTION_RESET);
  ucxx_request_destroy(in);
  ucxx_endpoint_destroy(duo->to_right);
  ucxx_endpoint_destroy(duo->to_left);
  ucxx_worker_destroy(duo->left);
  ucxx_context_destroy(duo->context);
  free(data);
}

int main(void) {
  duo_t duo;
  test_begin("am_queue");
  duo_open(&duo, NULL);
  sizes(&duo);
  many(&duo);
  cancels(&duo);
  bad_calls(&duo);
  left_over(&duo);
  return 0;
}
