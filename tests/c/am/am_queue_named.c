/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* The queue form of active messages with headers, and messages to handlers named by owner and
 * number, between two workers of one process: each arrives where it was addressed, with its
 * header. */
#include "multi.h"

enum { MOST_CAME = 400, MOST_HEADER = 64 };

typedef struct came {
  ucxx_buffers_t *buffers;
  ucxx_status_t status;
  size_t header_length;
  uint8_t header[MOST_HEADER];
  ucxx_endpoint_t *reply; /* an endpoint of this side's own */
} came_t;

typedef struct inbox {
  came_t list[MOST_CAME];
  int count, destroyed;
  const duo_t *removes; /* the handler removes itself from this pair */
} inbox_t;

static void on_message(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                       ucxx_buffers_t *buffers, ucxx_status_t status) {
  inbox_t *inbox = arg;
  CHECK(inbox->count < MOST_CAME && header_length <= MOST_HEADER && reply != NULL);
  CHECK((buffers == NULL) == (status != UCXX_OK));
  CHECK_EQ(inbox->destroyed, 0);
  came_t *came = &inbox->list[inbox->count++];
  *came = (came_t){.buffers = buffers, .status = status, .header_length = header_length};
  if (header_length > 0) memcpy(came->header, header, header_length);
  CHECK_OK(ucxx_endpoint_retain(reply, &came->reply));
  if (inbox->removes != NULL) {
    CHECK_OK(
        ucxx_worker_set_am_queue_handler(inbox->removes->right, "own", 3, NULL, NULL, NULL, NULL));
    CHECK_EQ(inbox->destroyed, 0);
  }
}

static void on_destroy(void *arg) { ((inbox_t *)arg)->destroyed++; }

static ucxx_am_queue_cover_t cover_of(const char *owner, uint64_t id, const void *header,
                                      size_t header_length) {
  ucxx_am_queue_cover_t cover = UCXX_AM_QUEUE_COVER_INIT;
  cover.owner = owner;
  cover.id = id;
  cover.header = header;
  cover.header_length = header_length;
  return cover;
}

static ucxx_status_t send(ucxx_endpoint_t *to, const ucxx_am_queue_cover_t *cover, const void *data,
                          size_t length, uint64_t flags, ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  ucxx_status_t status = ucxx_am_queue_send_to(to, cover, data, length, &params, request);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  return status;
}

static void *message(size_t length, uint64_t seed) {
  uint8_t *data = test_alloc(length);
  test_fill(data, length, frame_seed(seed, 0));
  return data;
}

static came_t *next(const duo_t *duo, inbox_t *inbox, int number) {
  while (inbox->count <= number) duo_progress(duo);
  return &inbox->list[number];
}

static void done_with(came_t *came) {
  ucxx_buffers_destroy(came->buffers);
  ucxx_endpoint_destroy(came->reply);
}

static ucxx_status_t await(const duo_t *duo, ucxx_request_t *request) {
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  return ucxx_request_status(request);
}

/* Receives from the queue and checks message and header. */
static void receive(const duo_t *duo, ucxx_endpoint_t *from, const void *header,
                    size_t header_length, size_t length, uint64_t seed) {
  ucxx_request_t *request = NULL;
  ucxx_buffers_t *buffers = NULL;
  const void *came = &came;
  size_t came_length = 77;
  CHECK_STATUS(ucxx_am_queue_recv(from, NULL, NULL, &request), UCXX_INPROGRESS);
  CHECK_STATUS(ucxx_request_am_header(request, &came, &came_length), UCXX_INPROGRESS);
  CHECK_OK(await(duo, request));
  CHECK_OK(ucxx_request_am_header(request, &came, &came_length));
  CHECK_EQ(came_length, header_length);
  CHECK((came == NULL) == (header_length == 0));
  CHECK(header_length == 0 || memcmp(came, header, header_length) == 0);
  CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  frames_check(buffers, 1, &length, seed);
  ucxx_buffers_destroy(buffers);
  ucxx_request_destroy(request);
}

static void headers(const duo_t *duo) {
  static const size_t lengths[] = {0, 9, 70000}, header_lengths[] = {0, 1, 50, 120, 2000};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  uint8_t header[2000];
  test_fill(header, sizeof header, 11);
  for (size_t at = 0; at < 3; at++)
    for (size_t size = 0; size < sizeof header_lengths / sizeof *header_lengths; size++)
      for (size_t protocol = 0; protocol < 3; protocol++) {
        STEP("to the queue, %zu bytes, a header of %zu, flags %#zx", lengths[at],
             header_lengths[size], (size_t)protocols[protocol]);
        ucxx_am_queue_cover_t cover = cover_of(NULL, 0, header, header_lengths[size]);
        ucxx_request_t *request = NULL;
        void *data = message(lengths[at], at);
        ucxx_status_t status =
            send(duo->to_right, &cover, data, lengths[at], protocols[protocol], &request);
        receive(duo, duo->to_left, header, header_lengths[size], lengths[at], at);
        CHECK_OK(duo_finish(duo, status, &request));
        /* The receive's slot is reused: it must keep nothing of the header. */
        status = ucxx_am_queue_send(duo->to_right, data, lengths[at], NULL, &request);
        receive(duo, duo->to_left, NULL, 0, lengths[at], at);
        CHECK_OK(duo_finish(duo, status, &request));
        free(data);
      }
}

static void handlers(const duo_t *duo, inbox_t *inbox) {
  static const size_t lengths[] = {0, 1, 300, 5000, 70000, 2 << 20};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (size_t protocol = 0; protocol < 3; protocol++) {
      STEP("to a handler, %zu bytes, flags %#zx", lengths[at], (size_t)protocols[protocol]);
      ucxx_am_queue_cover_t cover = cover_of("own", protocol, "a header", at % 2 ? 8 : 0);
      ucxx_request_t *request = NULL;
      void *data = message(lengths[at], at);
      inbox[protocol].count = 0;
      ucxx_status_t status =
          send(duo->to_right, &cover, data, lengths[at], protocols[protocol], &request);
      came_t *came = next(duo, &inbox[protocol], 0);
      CHECK_OK(duo_finish(duo, status, &request));
      CHECK_OK(came->status);
      CHECK_EQ(came->header_length, cover.header_length);
      CHECK(memcmp(came->header, "a header", came->header_length) == 0);
      frames_check(came->buffers, 1, &lengths[at], at);
      /* A message on the endpoint that the handler was given arrives in our endpoint's queue. */
      status = ucxx_am_queue_send(came->reply, data, lengths[at], NULL, &request);
      receive(duo, duo->to_right, NULL, 0, lengths[at], at);
      CHECK_OK(duo_finish(duo, status, &request));
      CHECK_STATUS(ucxx_am_queue_probe(duo->to_left, NULL), UCXX_ERR_NO_MESSAGE);
      done_with(came);
      free(data);
    }
}

/* The parts arrive as one buffer, with and without a cover. */
static void scattered(const duo_t *duo, inbox_t *inbox) {
  static const size_t lengths[] = {0, 1, 300, 70000};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++)
    for (size_t protocol = 0; protocol < 3; protocol++) {
      STEP("scattered, %zu bytes, flags %#zx", lengths[at], (size_t)protocols[protocol]);
      size_t length = lengths[at], third = length / 3;
      uint8_t *data = message(length, at);
      /* An empty part, and three others. */
      ucxx_buffer_t parts[] = {{.data = data, .length = third},
                               {.data = NULL, .length = 0},
                               {.data = data + third, .length = third},
                               {.data = data + 2 * third, .length = length - 2 * third}};
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      params.flags = protocols[protocol];
      ucxx_request_t *request = NULL;
      ucxx_status_t status =
          ucxx_am_queue_send_iov(duo->to_right, NULL, parts, 4, &params, &request);
      memset(parts, 0, sizeof parts);
      receive(duo, duo->to_left, NULL, 0, length, at);
      CHECK_OK(duo_finish(duo, status, &request));
      ucxx_am_queue_cover_t cover = cover_of("own", 0, "a header", 8);
      /* Host memory is what every receiver makes. */
      cover.memory_policy = UCXX_AM_MEMORY_EXACT;
      parts[0] = (ucxx_buffer_t){.data = data, .length = third};
      parts[1] = (ucxx_buffer_t){.data = data + third, .length = length - third};
      inbox->count = 0;
      status = ucxx_am_queue_send_iov(duo->to_right, &cover, parts, 2, &params, &request);
      came_t *came = next(duo, inbox, 0);
      CHECK_OK(duo_finish(duo, status, &request));
      CHECK_OK(came->status);
      CHECK(came->header_length == 8 && memcmp(came->header, "a header", 8) == 0);
      frames_check(came->buffers, 1, &length, at);
      done_with(came);
      free(data);
    }
  STEP("no part at all");
  ucxx_request_t *request = NULL;
  ucxx_status_t status = ucxx_am_queue_send_iov(duo->to_right, NULL, NULL, 0, NULL, &request);
  receive(duo, duo->to_left, NULL, 0, 0, 0);
  CHECK_OK(duo_finish(duo, status, &request));
}

static void in_order(const duo_t *duo, inbox_t *inbox) {
  enum { MANY = 300 };
  STEP("%d in order", MANY);
  ucxx_request_t *requests[MANY];
  ucxx_status_t statuses[MANY];
  void *data[MANY];
  size_t lengths[MANY];
  ucxx_am_queue_cover_t cover = cover_of("own", 1, NULL, 0);
  inbox->count = 0;
  for (uint64_t at = 0; at < MANY; at++) {
    lengths[at] = test_mix(at) % 6000;
    data[at] = message(lengths[at], at);
    requests[at] = NULL;
    statuses[at] =
        send(duo->to_right, &cover, data[at], lengths[at], UCXX_FLAG_EAGER, &requests[at]);
  }
  for (int at = 0; at < MANY; at++) {
    came_t *came = next(duo, inbox, at);
    CHECK_OK(came->status);
    frames_check(came->buffers, 1, &lengths[at], (uint64_t)at);
    done_with(came);
    CHECK_OK(duo_finish(duo, statuses[at], &requests[at]));
    free(data[at]);
  }
}

static uint64_t unhandled(const duo_t *duo) {
  ucxx_worker_stats_t stats = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(duo->right, &stats));
  return stats.am_unhandled;
}

static void nobody(const duo_t *duo) {
  static const char longest[] = "123456789012345678901234567890123456789012345678901234567890123";
  const struct {
    const char *owner;
    uint64_t id;
  } wrong[] = {{"own", 77}, {"other", 1}, {"OWN", 1}, {"ow", 1}, {longest, 1}};
  void *data = message(5000, 1);
  CHECK_EQ(strlen(longest), 63);
  for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++) {
    STEP("no handler: %s, %zu", wrong[at].owner, (size_t)wrong[at].id);
    ucxx_am_queue_cover_t cover = cover_of(wrong[at].owner, wrong[at].id, NULL, 0);
    uint64_t before = unhandled(duo);
    ucxx_request_t *request = NULL;
    ucxx_status_t status = send(duo->to_right, &cover, data, 5000, UCXX_FLAG_EAGER, &request);
    CHECK_OK(duo_finish(duo, status, &request));
    while (unhandled(duo) == before) duo_progress(duo);
    status = send(duo->to_right, &cover, data, 5000, UCXX_FLAG_RNDV, &request);
    CHECK_STATUS(duo_finish(duo, status, &request), UCXX_ERR_NO_ELEM);
    CHECK_EQ(unhandled(duo), before + 2);
  }
  free(data);
}

static void limits(const duo_t *duo) {
  void *data = message(5000, 1);
  static inbox_t inbox;
  for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
    STEP("more than the allocator's limit, %s", rendezvous ? "waiting" : "along");
    ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
    allocator.max_total_bytes = 4999;
    CHECK_OK(ucxx_worker_set_am_queue_handler(duo->right, "small", 1, on_message, &inbox, NULL,
                                              &allocator));
    ucxx_am_queue_cover_t cover = cover_of("small", 1, "x", 1);
    ucxx_request_t *request = NULL;
    inbox.count = 0;
    ucxx_status_t status = send(duo->to_right, &cover, data, 5000,
                                rendezvous ? UCXX_FLAG_RNDV : UCXX_FLAG_EAGER, &request);
    came_t *came = next(duo, &inbox, 0);
    CHECK_STATUS(came->status, UCXX_ERR_EXCEEDS_LIMIT);
    CHECK_EQ(came->header_length, 1);
    done_with(came);
    status = duo_finish(duo, status, &request);
    CHECK(rendezvous || status == UCXX_OK);
  }
  free(data);
}

static void replaced(const duo_t *duo, inbox_t *inbox) {
  STEP("replaced, and removed by itself");
  ucxx_am_queue_cover_t cover = cover_of("own", 3, NULL, 0);
  static inbox_t first;
  ucxx_request_t *request = NULL;
  CHECK_OK(
      ucxx_worker_set_am_queue_handler(duo->right, "own", 3, on_message, &first, on_destroy, NULL));
  CHECK_OK(
      ucxx_worker_set_am_queue_handler(duo->right, "own", 3, on_message, inbox, on_destroy, NULL));
  CHECK_EQ(first.destroyed, 1);
  inbox->count = 0;
  inbox->removes = duo;
  ucxx_status_t status = send(duo->to_right, &cover, "abc", 3, 0, &request);
  came_t *came = next(duo, inbox, 0);
  CHECK_OK(duo_finish(duo, status, &request));
  CHECK_EQ(inbox->destroyed, 1);
  done_with(came);
  CHECK_EQ(first.count, 0);
}

static void bad_calls(const duo_t *duo) {
  STEP("bad calls");
  ucxx_worker_attr_t attr = UCXX_WORKER_ATTR_INIT;
  ucxx_request_t *request = NULL;
  CHECK_OK(ucxx_worker_query(duo->left, &attr));
  uint8_t *header = test_alloc(attr.max_am_header + 100);
  test_fill(header, attr.max_am_header + 100, 5);
  ucxx_am_queue_cover_t cover = cover_of(NULL, 0, header, attr.max_am_header);
  ucxx_status_t status = send(duo->to_right, &cover, "abc", 0, 0, &request);
  receive(duo, duo->to_left, header, attr.max_am_header, 0, 0);
  CHECK_OK(duo_finish(duo, status, &request));
  cover.header_length += 11;
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  cover = cover_of("own", 1, header, attr.max_am_header - 61);
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  free(header);
  status = ucxx_tag_recv(duo->right, NULL, 0, 1, UINT64_MAX, NULL, &request);
  CHECK_STATUS(status, UCXX_INPROGRESS);
  ucxx_request_t *other = NULL;
  CHECK_OK(duo_finish(duo, ucxx_tag_send(duo->to_right, NULL, 0, 1, NULL, &other), &other));
  CHECK_OK(await(duo, request));
  const void *none = NULL;
  size_t length = 0;
  CHECK_STATUS(ucxx_request_am_header(request, NULL, &length), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_request_am_header(request, &none, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_request_am_header(NULL, &none, &length), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_request_am_header(request, &none, &length), UCXX_ERR_NO_ELEM);
  ucxx_request_destroy(request);
}

static void bad_names(const duo_t *duo) {
  static const char too_long[] = "1234567890123456789012345678901234567890123456789012345678901234";
  static inbox_t inbox;
  ucxx_request_t *request = NULL;
  STEP("bad names");
  ucxx_am_queue_cover_t cover = cover_of(NULL, 1, NULL, 0);
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("id");
  cover = cover_of(too_long, 1, NULL, 0);
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("owner");
  cover = cover_of("own", 1, NULL, 8);
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header");
  cover.header_length = 0;
  cover.struct_size = 7;
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("struct_size");
  cover.struct_size = sizeof cover;
  CHECK_STATUS(ucxx_am_queue_send_to(NULL, &cover, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_queue_send_to(duo->to_right, &cover, NULL, 8, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("buffer");
  CHECK(request == NULL);
  CHECK_STATUS(
      ucxx_worker_set_am_queue_handler(NULL, "own", 1, on_message, &inbox, on_destroy, NULL),
      UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(
      ucxx_worker_set_am_queue_handler(duo->right, NULL, 1, on_message, &inbox, on_destroy, NULL),
      UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("owner");
  CHECK_STATUS(ucxx_worker_set_am_queue_handler(duo->right, too_long, 1, on_message, &inbox,
                                                on_destroy, NULL),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(
      ucxx_worker_set_am_queue_handler(duo->right, "ucxx", 1, on_message, &inbox, on_destroy, NULL),
      UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("ucxx");
  CHECK_OK(ucxx_worker_set_am_queue_handler(duo->right, "never there", 1, NULL, NULL, NULL, NULL));
  /* If the call fails, the argument stays with the caller. The empty name is valid. */
  CHECK_EQ(inbox.destroyed, 0);
  STEP("the empty name is one");
  CHECK_OK(ucxx_worker_set_am_queue_handler(duo->right, "", 0, on_message, &inbox, NULL, NULL));
  cover = cover_of("", 0, NULL, 0);
  ucxx_status_t status = send(duo->to_right, &cover, NULL, 0, 0, &request);
  came_t *came = next(duo, &inbox, 0);
  CHECK_OK(duo_finish(duo, status, &request));
  done_with(came);
}

int main(void) {
  static inbox_t inboxes[4];
  duo_t duo;
  test_begin("am_queue_named");
  duo_open(&duo, NULL);
  for (uint64_t id = 0; id < 3; id++)
    CHECK_OK(ucxx_worker_set_am_queue_handler(duo.right, "own", id, on_message, &inboxes[id],
                                              on_destroy, NULL));
  headers(&duo);
  handlers(&duo, inboxes);
  scattered(&duo, &inboxes[0]);
  in_order(&duo, &inboxes[1]);
  nobody(&duo);
  limits(&duo);
  replaced(&duo, &inboxes[3]);
  bad_calls(&duo);
  bad_names(&duo);
  STEP("pending at the end");
  ucxx_am_queue_cover_t cover = cover_of("own", 1, "left", 4);
  ucxx_request_t *request = NULL;
  uint8_t *data = test_alloc(100000);
  memset(data, 1, 100000);
  inboxes[1].count = 0;
  ucxx_status_t status = send(duo.to_right, &cover, data, 100000, UCXX_FLAG_RNDV, &request);
  CHECK_OK(ucxx_worker_progress(duo.left, NULL));
  duo_close(&duo);
  if (status == UCXX_INPROGRESS) ucxx_request_destroy(request);
  for (int at = 0; at < inboxes[1].count; at++) done_with(&inboxes[1].list[at]);
  free(data);
  for (int id = 0; id < 4; id++) CHECK_EQ(inboxes[id].destroyed, 1);
  return 0;
}
