/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Multi-buffer transfer, and the queue form of active messages, with a UCXX peer, both ways; see
 * tests/bindings/ucxx/run.sh.
 *
 *   foreign_multi PROGRAM [ARGUMENT...]
 */
#include "foreign_program.h"

enum { MOST = 250, TEXT = 1 << 13 };

static ucxx_context_t *context;
static ucxx_endpoint_t *endpoint;

static void plan(size_t count, unsigned seed, size_t large, size_t *lengths, char *text) {
  size_t at = 0;
  for (size_t index = 0; index < count; index++) {
    lengths[index] = test_mix(seed * 1000 + index) % (index % 4 == 0 ? 70000 : 300);
    if (index % 13 == 7) lengths[index] = 0;
    if (index == count / 2 && large != 0) lengths[index] = large;
    at += (size_t)snprintf(text + at, TEXT - at, "%s%zu", index == 0 ? "" : ",", lengths[index]);
  }
}

static void to_them(const foreigner_t *other, size_t count, unsigned seed, size_t large) {
  size_t lengths[MOST];
  char text[TEXT];
  ucxx_buffer_t list[MOST];
  ucxx_request_t *request = NULL;
  memset(list, 0, sizeof list);
  plan(count, seed, large, lengths, text);
  for (size_t index = 0; index < count; index++) {
    uint8_t *data = test_alloc(lengths[index]);
    for (size_t at = 0; at < lengths[index]; at++) data[at] = pattern(seed + (unsigned)index, at);
    list[index].data = data;
    list[index].length = lengths[index];
  }
  TELL(other, "recv_multi %u %u %s\n", 1000 + seed, seed, text);
  CHECK_OK(
      finish(ucxx_tag_send_multi(endpoint, list, count, 1000 + seed, NULL, &request), &request));
  expect(other, "ok");
  for (size_t index = 0; index < count; index++) free(list[index].data);
}

static void to_us(const foreigner_t *other, size_t count, unsigned seed, size_t large) {
  size_t lengths[MOST];
  char text[TEXT];
  ucxx_request_t *request = NULL;
  ucxx_buffers_t *buffers = NULL;
  plan(count, seed, large, lengths, text);
  TELL(other, "send_multi %u %u %s\n", 1000 + seed, seed, text);
  CHECK_STATUS(ucxx_tag_recv_multi(worker, 1000 + seed, UINT64_MAX, NULL, NULL, &request),
               UCXX_INPROGRESS);
  while (ucxx_request_status(request) == UCXX_INPROGRESS) progress(worker);
  CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  ucxx_request_destroy(request);
  CHECK_EQ(ucxx_buffers_count(buffers), count);
  for (size_t index = 0; index < count; index++) {
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_buffers_get(buffers, index, &buffer));
    CHECK_EQ(buffer.length, lengths[index]);
    CHECK_EQ(buffer.memory_type, UCXX_MEMORY_HOST);
    for (size_t at = 0; at < lengths[index]; at++)
      if (((uint8_t *)buffer.data)[at] != pattern(seed + (unsigned)index, at))
        FAIL("frame %zu of %zu: byte %zu of %zu is wrong", index, count, at, lengths[index]);
  }
  ucxx_buffers_destroy(buffers);
  expect(other, "ok");
}

static void tags(const foreigner_t *other) {
  static const size_t counts[] = {1, 8, 99, 100, 101, 250};
  for (unsigned at = 0; at < sizeof counts / sizeof *counts; at++)
    for (unsigned large = 0; large < 2; large++) {
      size_t size = large == 0 ? 0 : counts[at] == 8 ? 64 << 20 : 1 << 20;
      STEP("%zu frames, the largest of %zu bytes", counts[at], size);
      to_them(other, counts[at], 10 * at + large, size);
      to_us(other, counts[at], 500 + 10 * at + large, size);
    }
}

/* The queue form, both ways; every second receive is posted before its message. */
static void queue(const foreigner_t *other) {
  static const size_t lengths[] = {1, 8, 5000, 70000, 4 << 20};
  for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++) {
    const size_t length = lengths[at];
    STEP("a message of %zu bytes to a queue", length);
    uint8_t *data = test_alloc(length);
    ucxx_request_t *request = NULL;
    ucxx_buffers_t *buffers = NULL;
    ucxx_buffer_t buffer;
    for (size_t byte = 0; byte < length; byte++) data[byte] = pattern(at, byte);
    TELL(other, "am_recv %zu %u\n", length, at);
    CHECK_OK(finish(ucxx_am_queue_send(endpoint, data, length, NULL, &request), &request));
    expect(other, "ok");
    if (at % 2) CHECK_STATUS(ucxx_am_queue_recv(endpoint, NULL, NULL, &request), UCXX_INPROGRESS);
    TELL(other, "am_send %zu %u\n", length, at + 50);
    if (at % 2 == 0) {
      size_t waiting = 0;
      while (ucxx_am_queue_probe(endpoint, &waiting) == UCXX_ERR_NO_MESSAGE) progress(worker);
      CHECK_EQ(waiting, length);
      CHECK_STATUS(ucxx_am_queue_recv(endpoint, NULL, NULL, &request), UCXX_INPROGRESS);
    }
    while (ucxx_request_status(request) == UCXX_INPROGRESS) progress(worker);
    CHECK_OK(ucxx_request_take_buffers(request, &buffers));
    ucxx_request_destroy(request);
    CHECK_EQ(ucxx_buffers_count(buffers), 1);
    CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
    CHECK_EQ(buffer.length, length);
    for (size_t byte = 0; byte < length; byte++)
      if (((uint8_t *)buffer.data)[byte] != pattern(at + 50, byte))
        FAIL("byte %zu of %zu is wrong", byte, length);
    ucxx_buffers_destroy(buffers);
    expect(other, "ok");
    free(data);
  }
}

typedef struct handled {
  int count;
  ucxx_buffers_t *buffers;
  size_t header_length;
  uint8_t header[200];
} handled_t;

static void on_message(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                       ucxx_buffers_t *buffers, ucxx_status_t status) {
  handled_t *handled = arg;
  CHECK_OK(status);
  CHECK(reply == endpoint && header_length <= sizeof handled->header && handled->buffers == NULL);
  handled->count++;
  handled->buffers = buffers;
  handled->header_length = header_length;
  if (header_length > 0) memcpy(handled->header, header, header_length);
}

static void check_bytes(const uint8_t *data, size_t length, unsigned seed) {
  for (size_t at = 0; at < length; at++)
    if (data[at] != pattern(seed, at)) FAIL("byte %zu of %zu is wrong", at, length);
}

static void check_one(ucxx_buffers_t *buffers, size_t length, unsigned seed) {
  ucxx_buffer_t buffer;
  CHECK_EQ(ucxx_buffers_count(buffers), 1);
  CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
  CHECK_EQ(buffer.length, length);
  check_bytes(buffer.data, length, seed);
  ucxx_buffers_destroy(buffers);
}

/* Headers, and receiver callbacks by owner and number, both ways. */
static void covers(const foreigner_t *other) {
  static const size_t lengths[] = {1, 8, 5000, 70000, 4 << 20}, header_lengths[] = {0, 1, 150};
  static handled_t handled;
  CHECK_OK(ucxx_worker_set_am_queue_handler(worker, "mine", 9, on_message, &handled, NULL, NULL));
  TELL(other, "am_handle theirs 4\n");
  expect(other, "ok");
  for (unsigned at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (unsigned size = 0; size < 3; size++) {
      const size_t length = lengths[at], header_length = header_lengths[size];
      const unsigned seed = at * 3 + size;
      STEP("a message of %zu bytes with a header of %zu", length, header_length);
      uint8_t *data = test_alloc(length), header[200];
      ucxx_am_queue_cover_t cover = UCXX_AM_QUEUE_COVER_INIT;
      ucxx_request_t *request = NULL;
      ucxx_buffers_t *buffers = NULL;
      const void *came = NULL;
      size_t came_length = 0;
      for (size_t byte = 0; byte < length; byte++) data[byte] = pattern(seed, byte);
      for (size_t byte = 0; byte < header_length; byte++) header[byte] = pattern(seed + 1, byte);
      cover.header = header;
      cover.header_length = header_length;
      TELL(other, "am_recv_with %zu %zu %u\n", header_length, length, seed);
      CHECK_OK(
          finish(ucxx_am_queue_send_to(endpoint, &cover, data, length, NULL, &request), &request));
      expect(other, "ok");
      cover.owner = "theirs";
      cover.id = 4;
      TELL(other, "am_handled %zu %zu %u\n", header_length, length, seed);
      CHECK_OK(
          finish(ucxx_am_queue_send_to(endpoint, &cover, data, length, NULL, &request), &request));
      expect(other, "ok");
      free(data);

      CHECK_STATUS(ucxx_am_queue_recv(endpoint, NULL, NULL, &request), UCXX_INPROGRESS);
      TELL(other, "am_send_to - 0 %zu %zu %u\n", header_length, length, seed + 50);
      while (ucxx_request_status(request) == UCXX_INPROGRESS) progress(worker);
      CHECK_OK(ucxx_request_am_header(request, &came, &came_length));
      CHECK_EQ(came_length, header_length);
      check_bytes(came, came_length, seed + 51);
      CHECK_OK(ucxx_request_take_buffers(request, &buffers));
      ucxx_request_destroy(request);
      check_one(buffers, length, seed + 50);
      expect(other, "ok");

      handled = (handled_t){0};
      TELL(other, "am_send_to mine 9 %zu %zu %u\n", header_length, length, seed + 50);
      while (handled.count == 0) progress(worker);
      CHECK_EQ(handled.header_length, header_length);
      check_bytes(handled.header, header_length, seed + 51);
      check_one(handled.buffers, length, seed + 50);
      expect(other, "ok");
    }
}

static void see_open(void *arg, ucxx_endpoint_t *opened, ucxx_status_t status) {
  CHECK_OK(status);
  see_completion(arg, (ucxx_request_t *)opened, status);
}

int main(int argc, char **argv) {
  foreigner_t other;
  CHECK(argc > 1);
  command = argv + 1;
  test_begin("foreign_multi");
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  STEP("connecting");
  start(&other);
  TELL(&other, "listen\n");
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  uint16_t port = answer_port(&other);
  seen_t open = {0};
  params.on_open = see_open;
  params.on_open_arg = &open;
  CHECK_OK(ucxx_endpoint_connect(worker, "127.0.0.1", port, &params, &endpoint));
  while (seen_count(&open) == 0) progress(worker);
  tags(&other);
  queue(&other);
  const char *callbacks = getenv("UCXX_TEST_CALLBACKS");
  if (callbacks != NULL && *callbacks != '\0') covers(&other);
  STEP("the end");
  TELL(&other, "close\n");
  expect(&other, "ok");
  ucxx_endpoint_destroy(endpoint);
  stop(&other, 0);
  ucxx_worker_destroy(worker);
  ucxx_context_destroy(context);
  return 0;
}
