/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Multi-buffer transfer in one active message, between two workers of one process: any number and
 * size of frames arrives whole and in order; limits and errors are reported; nothing leaks at the
 * end. */
#include "multi.h"

enum { ID = 40, MOST_CAME = 600 };

typedef struct came {
  ucxx_buffers_t *buffers;
  ucxx_status_t status;
  size_t header_length;
  uint8_t header[64];
  ucxx_endpoint_t *reply; /* an endpoint of this side's own */
} came_t;

typedef struct inbox {
  came_t list[MOST_CAME];
  int count, destroyed;
} inbox_t;

static void on_multi(void *arg, ucxx_endpoint_t *reply, const void *header, size_t header_length,
                     ucxx_buffers_t *buffers, ucxx_status_t status) {
  inbox_t *inbox = arg;
  CHECK(inbox->count < MOST_CAME && header_length <= sizeof inbox->list[0].header);
  CHECK((buffers == NULL) == (status != UCXX_OK));
  came_t *came = &inbox->list[inbox->count++];
  memset(came, 0, sizeof *came);
  came->buffers = buffers;
  came->status = status;
  came->header_length = header_length;
  memcpy(came->header, header, header_length);
  if (reply != NULL) CHECK_OK(ucxx_endpoint_retain(reply, &came->reply));
}

static void on_destroy(void *arg) { ((inbox_t *)arg)->destroyed++; }

static ucxx_status_t send(const duo_t *duo, uint16_t id, const char *header, const frames_t *frames,
                          uint64_t flags, ucxx_request_t **request) {
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  params.flags = flags;
  ucxx_status_t status = ucxx_am_send_multi(duo->to_right, id, header, strlen(header), frames->list,
                                            frames->count, &params, request);
  CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
  return status;
}

static came_t *next(const duo_t *duo, inbox_t *inbox, int number) {
  while (inbox->count <= number) duo_progress(duo);
  return &inbox->list[number];
}

static void sizes(const duo_t *duo, inbox_t *inbox) {
  static const size_t numbers[] = {0, 1, 2, 8, 100, 101, 250, 300},
                      lengths_of[] = {0, 1, 8, 1000, 4096, 70000, 1 << 20};
  static const uint64_t protocols[] = {0, UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  size_t lengths[MOST_FRAMES];
  for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
    for (size_t protocol = 0; protocol < 3; protocol++)
      for (size_t mix = 0; mix < 3; mix++) {
        size_t count = numbers[at];
        STEP("%zu frames, flags %#zx, mix %zu", count, (size_t)protocols[protocol], mix);
        for (size_t index = 0; index < count; index++)
          lengths[index] = mix == 0 ? 3 : lengths_of[(index * 5 + at + mix) % (count > 20 ? 5 : 7)];
        frames_t frames;
        frames_make(&frames, count, lengths, at + mix);
        ucxx_request_t *sent = NULL;
        inbox->count = 0;
        uint64_t reply = mix == 1 ? UCXX_FLAG_AM_REPLY : 0;
        ucxx_status_t status =
            send(duo, ID, "a header", &frames, protocols[protocol] | reply, &sent);
        came_t *came = next(duo, inbox, 0);
        CHECK_OK(duo_finish(duo, status, &sent));
        CHECK_OK(came->status);
        CHECK(came->header_length == 8 && memcmp(came->header, "a header", 8) == 0);
        CHECK((came->reply != NULL) == (reply != 0));
        frames_check(came->buffers, count, lengths, at + mix);
        ucxx_buffers_destroy(came->buffers);
        ucxx_endpoint_destroy(came->reply);
        frames_free(&frames);
      }
}

/* More frames than fit in a header. */
static void thousands(const duo_t *duo, inbox_t *inbox) {
  enum { MANY = 20000 };
  ucxx_buffer_t *list = test_alloc(MANY * sizeof *list);
  memset(list, 0, MANY * sizeof *list);
  for (int rendezvous = 0; rendezvous < 2; rendezvous++) {
    STEP("%d frames, %s", MANY, rendezvous ? "waiting" : "along");
    for (size_t at = 0; at < MANY; at++) {
      list[at].length = at % 60;
      list[at].data = test_alloc(at % 60);
      test_fill(list[at].data, at % 60, at);
    }
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = rendezvous ? UCXX_FLAG_RNDV : UCXX_FLAG_EAGER;
    ucxx_request_t *sent = NULL;
    inbox->count = 0;
    ucxx_status_t status =
        ucxx_am_send_multi(duo->to_right, ID, "x", 1, list, MANY, &params, &sent);
    came_t *came = next(duo, inbox, 0);
    CHECK_OK(duo_finish(duo, status, &sent));
    CHECK_OK(came->status);
    CHECK_EQ(came->header_length, 1);
    CHECK_EQ(ucxx_buffers_count(came->buffers), MANY);
    for (size_t at = 0; at < MANY; at++) {
      ucxx_buffer_t buffer;
      CHECK_OK(ucxx_buffers_get(came->buffers, at, &buffer));
      CHECK_EQ(buffer.length, at % 60);
      CHECK_CONTENT(buffer.data, at % 60, at);
      free(list[at].data);
    }
    ucxx_buffers_destroy(came->buffers);
  }
  free(list);
}

/* Large and small messages in turn: handlers run in the order sent. */
static void in_order(const duo_t *duo, inbox_t *inbox) {
  STEP("in order");
  enum { MANY = 200 };
  size_t lengths[MANY][3];
  frames_t *frames = test_alloc(MANY * sizeof *frames);
  ucxx_request_t *sent[MANY] = {0};
  ucxx_status_t statuses[MANY];
  inbox->count = 0;
  for (uint64_t at = 0; at < MANY; at++) {
    char header[20];
    uint64_t flags = at % 3 == 0 ? UCXX_FLAG_RNDV : at % 3 == 1 ? UCXX_FLAG_EAGER : 0;
    for (size_t index = 0; index < 3; index++)
      lengths[at][index] = test_mix(at * 3 + index) % (at % 7 == 0 ? 300000 : 100);
    frames_make(&frames[at], 3, lengths[at], at);
    snprintf(header, sizeof header, "%d", (int)at);
    statuses[at] = send(duo, ID, header, &frames[at], flags, &sent[at]);
  }
  for (int at = 0; at < MANY; at++) {
    came_t *came = next(duo, inbox, at);
    CHECK_OK(came->status);
    came->header[came->header_length] = 0;
    CHECK_EQ(atoi((const char *)came->header), at);
    frames_check(came->buffers, 3, lengths[at], (uint64_t)at);
    ucxx_buffers_destroy(came->buffers);
  }
  for (int at = 0; at < MANY; at++) {
    CHECK_OK(duo_finish(duo, statuses[at], &sent[at]));
    frames_free(&frames[at]);
  }
  free(frames);
}

static void limits(const duo_t *duo) {
  static inbox_t inbox;
  static const uint64_t protocols[] = {UCXX_FLAG_EAGER, UCXX_FLAG_RNDV};
  size_t lengths[MOST_FRAMES];
  frames_t frames;
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  for (size_t at = 0; at < MOST_FRAMES; at++) lengths[at] = 1000;
  frames_make(&frames, MOST_FRAMES, lengths, 1);
  for (int protocol = 0; protocol < 2; protocol++)
    for (int what = 0; what < 4; what++) {
      STEP("limit %d, %s", what, protocol ? "waiting" : "along");
      ucxx_request_t *sent = NULL;
      memset(&inbox, 0, sizeof inbox);
      memset(&maker, 0, sizeof maker);
      allocator.max_frames = what == 0 ? 299 : 300;
      allocator.max_total_bytes = what == 1 ? 299999 : 300000;
      maker.fails_at = what == 2 ? 10 : 0;
      CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID + 1, on_multi, &inbox, on_destroy,
                                             &allocator));
      ucxx_status_t status = send(duo, ID + 1, "head", &frames, protocols[protocol], &sent);
      came_t *came = next(duo, &inbox, 0);
      CHECK_OK(duo_finish(duo, status, &sent));
      CHECK_EQ(came->header_length, 4);
      CHECK_STATUS(came->status, what < 2    ? UCXX_ERR_EXCEEDS_LIMIT
                                 : what == 2 ? UCXX_ERR_NO_MEMORY
                                             : UCXX_OK);
      if (what < 2) CHECK_EQ(maker.calls, 0);
      if (what == 3) frames_check(came->buffers, MOST_FRAMES, lengths, 1);
      ucxx_buffers_destroy(came->buffers);
      CHECK_EQ(maker.made, maker.freed);
      CHECK_OK(ucxx_worker_set_multi_handler(duo->right, ID + 1, NULL, NULL, NULL, NULL));
      CHECK_EQ(inbox.destroyed, 1);
    }
  STEP("no handler");
  ucxx_request_t *sent = NULL;
  ucxx_worker_stats_t before = UCXX_WORKER_STATS_INIT, after = UCXX_WORKER_STATS_INIT;
  CHECK_OK(ucxx_worker_query_stats(duo->right, &before));
  ucxx_status_t status =
      send(duo, ID + 1, "", &frames, UCXX_FLAG_EAGER | UCXX_FLAG_AM_REPLY, &sent);
  CHECK_OK(duo_finish(duo, status, &sent));
  do {
    duo_progress(duo);
    CHECK_OK(ucxx_worker_query_stats(duo->right, &after));
  } while (after.am_unhandled == before.am_unhandled);
  status = send(duo, ID + 1, "", &frames, UCXX_FLAG_RNDV, &sent);
  CHECK_STATUS(duo_finish(duo, status, &sent), UCXX_ERR_NO_ELEM);
  frames_free(&frames);
}

/* A plain message does not reach a multi-buffer handler, nor the other way round. */
static void bad_calls(const duo_t *duo) {
  STEP("bad calls");
  ucxx_request_t *request = NULL;
  ucxx_buffer_t buffer = {.length = 1};
  CHECK_STATUS(ucxx_am_send_multi(NULL, 0, NULL, 0, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, 0, NULL, 1, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, 0, NULL, 0, NULL, 1, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, 0, NULL, 0, &buffer, 1, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_worker_set_multi_handler(NULL, 0, on_multi, NULL, NULL, NULL),
               UCXX_ERR_INVALID_PARAM);
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.allocate = maker_allocate;
  CHECK_STATUS(ucxx_worker_set_multi_handler(duo->right, 0, on_multi, NULL, NULL, &allocator),
               UCXX_ERR_INVALID_PARAM);
  static uint8_t header[100000];
  CHECK_STATUS(ucxx_am_send_multi(duo->to_right, 0, header, sizeof header, NULL, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("header_length");
  CHECK(request == NULL);
}

/* The worker is destroyed with undelivered messages and with a handler. */
static void left_over(duo_t *duo, inbox_t *inbox) {
  STEP("pending at the end");
  static const size_t lengths[] = {1 << 20, 5};
  frames_t frames;
  ucxx_request_t *sent = NULL;
  frames_make(&frames, 2, lengths, 3);
  inbox->count = 0;
  for (int at = 0; at < 10; at++) {
    send(duo, ID, "", &frames, UCXX_FLAG_RNDV, &sent);
    ucxx_request_destroy(sent);
  }
  for (int at = 0; at < 3; at++) progress(duo->right);
  duo_close(duo);
  CHECK_EQ(inbox->destroyed, 1);
  for (int at = 0; at < inbox->count; at++) ucxx_buffers_destroy(inbox->list[at].buffers);
  frames_free(&frames);
}

int main(void) {
  static inbox_t inbox;
  duo_t duo;
  test_begin("am_multi");
  duo_open(&duo, NULL);
  CHECK_OK(ucxx_worker_set_multi_handler(duo.right, ID, on_multi, &inbox, on_destroy, NULL));
  sizes(&duo, &inbox);
  thousands(&duo, &inbox);
  in_order(&duo, &inbox);
  limits(&duo);
  bad_calls(&duo);
  left_over(&duo, &inbox);
  return 0;
}
