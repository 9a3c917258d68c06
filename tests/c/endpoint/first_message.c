/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A message of every kind arrives even if it is the first one from a new peer: right behind the
 * Hello, before an endpoint to its sender exists, and with the sender's close behind it. */
#include "multi.h"

enum { OWNER_ID = 7, ID = 3, TAG = 0x77, ROUNDS = 5 };

typedef enum kind {
  TAG_SEND,
  TAG_MULTI,
  STREAM,
  QUEUE,
  MESSAGE,
  MULTI,
  NAMED,
  FETCH,
  KINDS
} kind_t;
static const char *const names[KINDS] = {"tag",
                                         "tag with frames",
                                         "stream",
                                         "queue",
                                         "message",
                                         "message with frames",
                                         "message to a named handler",
                                         "fetch"};

static uint64_t turn, seed;

static uint64_t chance(uint64_t of) { return test_mix(seed + turn++) % of; }

static size_t came, came_length;

static void on_message(void *arg, ucxx_am_message_t *message) {
  (void)arg;
  came++;
  came_length = ucxx_am_message_length(message);
  ucxx_am_message_destroy(message);
}

static void on_frames(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                      ucxx_buffers_t *buffers, ucxx_status_t status) {
  (void)arg;
  (void)reply;
  CHECK_OK(status);
  CHECK_EQ(header_length, 2);
  CHECK(memcmp(header, "hi", 2) == 0);
  came++;
  ucxx_buffer_t buffer;
  CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
  came_length = buffer.length;
  CHECK_CONTENT(buffer.data, buffer.length, 1);
  ucxx_buffers_destroy(buffers);
}

static void on_fetch(void *arg, ucxx_fetch_t *fetch) {
  (void)arg;
  came++;
  CHECK_OK(ucxx_fetch_reply(fetch, "answer", 6, NULL, NULL));
  ucxx_fetch_destroy(fetch);
}

typedef struct sides {
  ucxx_worker_t *left, *right;
} sides_t;

static void some_passes(const sides_t *sides) {
  for (uint64_t left = chance(4); left > 0; left--) ucxx_worker_progress(sides->left, NULL);
  for (uint64_t right = chance(4); right > 0; right--) ucxx_worker_progress(sides->right, NULL);
}

static void sent(const sides_t *sides, ucxx_status_t status, ucxx_request_t *request) {
  if (status == UCXX_INPROGRESS) {
    while ((status = ucxx_request_status(request)) == UCXX_INPROGRESS) some_passes(sides);
    ucxx_request_destroy(request);
  }
  CHECK_OK(status);
}

/* Both sides must progress: over TCP a flush needs the peer's answer. */
static void drop(const sides_t *sides, ucxx_endpoint_t *endpoint) {
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_endpoint_close(endpoint, UCXX_CLOSE_FLUSH, NULL, &request);
  while (request != NULL && ucxx_request_status(request) == UCXX_INPROGRESS) some_passes(sides);
  CHECK(status >= 0 || status == UCXX_ERR_CLOSED);
  ucxx_request_destroy(request);
  ucxx_endpoint_destroy(endpoint);
}

static ucxx_status_t send(kind_t kind, ucxx_endpoint_t *to, const void *data, size_t length,
                          char *answer, ucxx_request_t **request) {
  ucxx_buffer_t frame;
  memset(&frame, 0, sizeof frame);
  frame.data = (void *)(uintptr_t)data;
  frame.length = length;
  ucxx_am_queue_cover_t cover = UCXX_AM_QUEUE_COVER_INIT;
  cover.owner = "own";
  cover.id = OWNER_ID;
  cover.header = "hi";
  cover.header_length = 2;
  switch (kind) {
  case TAG_SEND: return ucxx_tag_send(to, data, length, TAG, NULL, request);
  case TAG_MULTI: return ucxx_tag_send_multi(to, &frame, 1, TAG, NULL, request);
  case STREAM: return ucxx_stream_send(to, data, length, NULL, request);
  case QUEUE: return ucxx_am_queue_send(to, data, length, NULL, request);
  case MESSAGE: return ucxx_am_send(to, ID, "hi", 2, data, length, NULL, request);
  case MULTI: return ucxx_am_send_multi(to, ID, "hi", 2, &frame, 1, NULL, request);
  case NAMED: return ucxx_am_queue_send_to(to, &cover, data, length, NULL, request);
  default: return ucxx_am_fetch(to, ID, "hi", 2, answer, 6, NULL, request);
  }
}

/* Receives a message on an endpoint created some passes later, for kinds that need a receive. */
static void receive(const sides_t *sides, kind_t kind, const ucxx_address_t *left_address,
                    size_t length) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_endpoint_t *from = NULL;
  ucxx_request_t *request = NULL;
  ucxx_buffers_t *buffers = NULL;
  uint8_t *into = test_alloc(length);
  ucxx_status_t status;
  for (uint64_t passes = chance(30); passes > 0; passes--) some_passes(sides);
  CHECK_OK(ucxx_endpoint_create(sides->right, left_address, NULL, &from));
  params.source = from;
  switch (kind) {
  case TAG_SEND:
    status = ucxx_tag_recv(sides->right, into, length, TAG, UINT64_MAX, &params, &request);
    break;
  case TAG_MULTI:
    status = ucxx_tag_recv_multi(sides->right, TAG, UINT64_MAX, NULL, &params, &request);
    break;
  case STREAM: status = ucxx_stream_recv(from, into, length, NULL, &request); break;
  default: status = ucxx_am_queue_recv(from, NULL, NULL, &request); break;
  }
  while (status == UCXX_INPROGRESS) {
    some_passes(sides);
    status = ucxx_request_status(request);
  }
  CHECK_OK(status);
  if (kind == TAG_MULTI || kind == QUEUE) {
    ucxx_buffer_t buffer;
    CHECK_OK(ucxx_request_take_buffers(request, &buffers));
    CHECK_OK(ucxx_buffers_get(buffers, 0, &buffer));
    CHECK_EQ(buffer.length, length);
    CHECK_CONTENT(buffer.data, length, 1);
    ucxx_buffers_destroy(buffers);
  } else {
    CHECK_CONTENT(into, length, 1);
  }
  ucxx_request_destroy(request);
  free(into);
  drop(sides, from);
}

static void round_of(kind_t kind, size_t length, int closes) {
  STEP("%s of %zu bytes%s", names[kind], length, closes ? ", and its sender closes" : "");
  ucxx_context_t *context = NULL;
  sides_t sides;
  ucxx_address_t *left_address = NULL, *right_address = NULL;
  ucxx_endpoint_t *to = NULL;
  ucxx_request_t *request = NULL, *closing = NULL;
  char answer[6] = "";
  uint8_t *data = test_alloc(length);
  test_fill(data, length, 1);
  came = came_length = 0;
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &sides.left));
  CHECK_OK(ucxx_worker_create(context, NULL, &sides.right));
  CHECK_OK(ucxx_worker_set_am_handler(sides.right, ID, on_message, NULL, NULL));
  CHECK_OK(ucxx_worker_set_multi_handler(sides.right, ID, on_frames, NULL, NULL, NULL));
  CHECK_OK(
      ucxx_worker_set_am_queue_handler(sides.right, "own", OWNER_ID, on_frames, NULL, NULL, NULL));
  CHECK_OK(ucxx_worker_set_fetch_handler(sides.right, ID, on_fetch, NULL, NULL));
  CHECK_OK(ucxx_worker_address(sides.left, &left_address));
  CHECK_OK(ucxx_worker_address(sides.right, &right_address));
  CHECK_OK(ucxx_endpoint_create(sides.left, right_address, NULL, &to));
  ucxx_status_t status = send(kind, to, data, length, answer, &request);
  if (closes) {
    ucxx_status_t closed = close_patiently(to, &closing);
    sent(&sides, closed, closing);
  }
  if (kind >= MESSAGE) {
    /* A server that only has a handler. */
    while (came == 0) some_passes(&sides);
    if (kind != FETCH) CHECK_EQ(came_length, length);
  } else {
    receive(&sides, kind, left_address, length);
  }
  sent(&sides, status, request);
  if (kind == FETCH) CHECK(memcmp(answer, "answer", 6) == 0);
  some_passes(&sides);
  CHECK_EQ(came, kind >= MESSAGE);
  if (closes)
    ucxx_endpoint_destroy(to);
  else
    drop(&sides, to);
  ucxx_address_destroy(left_address);
  ucxx_address_destroy(right_address);
  ucxx_worker_destroy(sides.left);
  ucxx_worker_destroy(sides.right);
  ucxx_context_destroy(context);
  free(data);
}

int main(void) {
  static const size_t lengths[] = {8, 1000, 1500000};
  test_begin("first_message");
  seed = test_seed();
  for (int rounds = 0; rounds < ROUNDS; rounds++)
    for (int kind = 0; kind < KINDS; kind++)
      for (size_t length = 0; length < sizeof lengths / sizeof *lengths; length++) {
        if (kind == FETCH && length > 0) break;
        round_of((kind_t)kind, lengths[length], 0);
        if (kind >= MESSAGE && kind < FETCH) round_of((kind_t)kind, lengths[length], 1);
      }
  return 0;
}
