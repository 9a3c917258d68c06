/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* Multi-buffer transfer by tag, between two workers of one process: every transfer ends correctly,
 * its messages have UCXX's format, and malformed input is refused. */
#include "multi.h"

enum { TAG = 0x7a };

static ucxx_request_t *receive(const duo_t *duo, uint64_t tag, uint64_t mask,
                               const ucxx_allocator_t *allocator, ucxx_op_params_t *params) {
  ucxx_request_t *request = NULL;
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, tag, mask, allocator, params, &request),
               UCXX_INPROGRESS);
  CHECK(request != NULL);
  return request;
}

static void send_ok(const duo_t *duo, const frames_t *frames, uint64_t tag) {
  ucxx_request_t *request = NULL;
  CHECK_OK(duo_finish(
      duo, ucxx_tag_send_multi(duo->to_right, frames->list, frames->count, tag, NULL, &request),
      &request));
}

static void send_plain(const duo_t *duo, const void *data, size_t length, uint64_t tag) {
  ucxx_request_t *request = NULL;
  CHECK_OK(
      duo_finish(duo, ucxx_tag_send(duo->to_right, data, length, tag, NULL, &request), &request));
}

static void take_and_check(ucxx_request_t *request, size_t count, const size_t *lengths,
                           uint64_t seed) {
  ucxx_buffers_t *buffers = NULL;
  CHECK_OK(ucxx_request_take_buffers(request, &buffers));
  frames_check(buffers, count, lengths, seed);
  ucxx_buffers_destroy(buffers);
  CHECK_STATUS(ucxx_request_take_buffers(request, &buffers), UCXX_ERR_NO_ELEM);
}

static ucxx_status_t await(const duo_t *duo, ucxx_request_t *request) {
  while (ucxx_request_status(request) == UCXX_INPROGRESS) duo_progress(duo);
  return ucxx_request_status(request);
}

/* The tag still works: nothing is left that would receive or damage the next transfer. */
static void still_works(const duo_t *duo) {
  static const size_t lengths[] = {3, 0, 70000};
  frames_t frames;
  frames_make(&frames, 3, lengths, 99);
  ucxx_request_t *request = receive(duo, TAG, UINT64_MAX, NULL, NULL);
  ucxx_request_t *sent = NULL;
  ucxx_status_t status = ucxx_tag_send_multi(duo->to_right, frames.list, 3, TAG, NULL, &sent);
  CHECK_OK(await(duo, request));
  CHECK_OK(duo_finish(duo, status, &sent));
  take_and_check(request, 3, lengths, 99);
  ucxx_request_destroy(request);
  frames_free(&frames);
  ucxx_recv_info_t info;
  CHECK_STATUS(ucxx_tag_probe(duo->right, 0, 0, &info, NULL), UCXX_ERR_NO_MESSAGE);
}

static void counts(const duo_t *duo) {
  static const size_t numbers[] = {0, 1, 2, 8, 99, 100, 101, 200, 250, 300};
  static const size_t sizes[] = {0, 1, 8, 1209, 4096, 70000, 1 << 20};
  size_t lengths[MOST_FRAMES];
  for (size_t at = 0; at < sizeof numbers / sizeof *numbers; at++)
    for (int posted = 0; posted < 2; posted++) {
      size_t count = numbers[at];
      uint64_t total = 0;
      STEP("%zu frames, %s", count, posted ? "awaited" : "unexpected");
      for (size_t index = 0; index < count; index++)
        total += lengths[index] = sizes[(index * 5 + at) % (count > 20 ? 6 : 7)];
      frames_t frames;
      frames_make(&frames, count, lengths, at);
      maker_t maker = {0};
      ucxx_allocator_t allocator = maker_allocator(&maker);
      ucxx_recv_info_t info = {0};
      seen_t seen = {0};
      ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
      params.recv_info = &info;
      params.callback = see_completion;
      params.callback_arg = &seen;
      ucxx_request_t *request = NULL, *sent = NULL;
      if (posted) request = receive(duo, TAG, UINT64_MAX, &allocator, &params);
      ucxx_status_t status =
          ucxx_tag_send_multi(duo->to_right, frames.list, count, TAG, NULL, &sent);
      CHECK(status == UCXX_OK || status == UCXX_INPROGRESS);
      if (!posted) {
        duo_progress(duo);
        request = receive(duo, TAG, UINT64_MAX, &allocator, &params);
      }
      CHECK_OK(await(duo, request));
      CHECK_OK(duo_finish(duo, status, &sent));
      CHECK_EQ(seen_count(&seen), 1);
      CHECK_EQ(info.length, total);
      CHECK_EQ(info.sender_tag, TAG);
      take_and_check(request, count, lengths, at);
      CHECK_EQ(maker.made, maker.freed);
      ucxx_request_destroy(request);
      frames_free(&frames);
    }
}

/* Received as separate messages: what a UCXX peer would see. And a send made of separate
 * messages. */
static void bytes(const duo_t *duo) {
  static const size_t lengths[] = {5, 0, 100};
  uint8_t header[HEADER_BYTES], came[HEADER_BYTES + 1];
  ucxx_recv_info_t info;
  frames_t frames;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  STEP("a send's messages");
  frames_make(&frames, 3, lengths, 4);
  send_ok(duo, &frames, TAG);
  params.recv_info = &info;
  CHECK_OK(duo_finish(
      duo, ucxx_tag_recv(duo->right, came, sizeof came, TAG, UINT64_MAX, &params, &request),
      &request));
  CHECK_EQ(info.length, HEADER_BYTES);
  uint64_t wanted[] = {5, 0, 100};
  header_make(header, 0, 3, wanted);
  CHECK(memcmp(came, header, HEADER_BYTES) == 0);
  for (size_t at = 0; at < 3; at++) {
    CHECK_OK(duo_finish(
        duo, ucxx_tag_recv(duo->right, came, sizeof came, TAG, UINT64_MAX, &params, &request),
        &request));
    CHECK_EQ(info.length, lengths[at]);
    CHECK_CONTENT(came, lengths[at], frame_seed(4, at));
  }
  STEP("a receive's");
  request = receive(duo, TAG, UINT64_MAX, NULL, NULL);
  send_plain(duo, header, HEADER_BYTES, TAG);
  for (size_t at = 0; at < 3; at++) send_plain(duo, frames.list[at].data, lengths[at], TAG);
  CHECK_OK(await(duo, request));
  take_and_check(request, 3, lengths, 4);
  ucxx_request_destroy(request);
  frames_free(&frames);
}

static ucxx_status_t against(const duo_t *duo, const void *message, size_t length,
                             const char *word) {
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  ucxx_request_t *request = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  send_plain(duo, message, length, TAG);
  ucxx_status_t status = await(duo, request);
  CHECK_EQ(maker.calls, 0);
  ucxx_buffers_t *buffers = NULL;
  CHECK_STATUS(ucxx_request_take_buffers(request, &buffers), status);
  if (strstr(ucxx_request_error_message(request), word) == NULL)
    FAIL("'%s' does not contain '%s'", ucxx_request_error_message(request), word);
  ucxx_request_destroy(request);
  return status;
}

static void hostile(const duo_t *duo) {
  uint8_t header[HEADER_BYTES + 1];
  uint64_t lengths[HEADER_FRAMES] = {0};
  STEP("messages that are no header");
  memset(header, 0, sizeof header);
  CHECK_STATUS(against(duo, header, 0, "1209"), UCXX_ERR_IO_ERROR);
  CHECK_STATUS(against(duo, header, 8, "1209"), UCXX_ERR_IO_ERROR);
  CHECK_STATUS(against(duo, header, HEADER_BYTES - 1, "1209"), UCXX_ERR_IO_ERROR);
  CHECK_STATUS(against(duo, header, HEADER_BYTES + 1, "1209"), UCXX_ERR_IO_ERROR);
  header_make(header, 0, 101, NULL);
  CHECK_STATUS(against(duo, header, HEADER_BYTES, "100"), UCXX_ERR_IO_ERROR);
  header_make(header, 0, UINT64_MAX, NULL);
  CHECK_STATUS(against(duo, header, HEADER_BYTES, "100"), UCXX_ERR_IO_ERROR);
  header_make(header, 1, 1, lengths);
  CHECK_STATUS(against(duo, header, HEADER_BYTES, "fewer than 100 frames"), UCXX_ERR_IO_ERROR);
  header_make(header, 7, 1, lengths);
  CHECK_STATUS(against(duo, header, HEADER_BYTES, "further header"), UCXX_ERR_IO_ERROR);
  still_works(duo);
  STEP("headers without end");
  header_make(header, 1, HEADER_FRAMES, lengths);
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  allocator.max_frames = 1000;
  ucxx_request_t *request = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  int sent = 0;
  while (ucxx_request_status(request) == UCXX_INPROGRESS && sent < 5000) {
    send_plain(duo, header, HEADER_BYTES, TAG);
    duo_progress(duo);
    sent++;
  }
  CHECK(sent < 5000);
  CHECK_STATUS(await(duo, request), UCXX_ERR_IO_ERROR);
  CHECK_EQ(maker.calls, 0);
  ucxx_request_destroy(request);
  ucxx_recv_info_t info;
  ucxx_tag_message_t *message = NULL;
  /* Those that it has not taken have arrived when a later message has. */
  send_plain(duo, header, 1, TAG + 1);
  do duo_progress(duo);
  while (ucxx_tag_probe(duo->right, TAG + 1, UINT64_MAX, &info, &message) != UCXX_OK);
  do ucxx_tag_message_destroy(message);
  while (ucxx_tag_probe(duo->right, TAG, UINT64_MAX, &info, &message) == UCXX_OK);
  STEP("a frame that is shorter, or longer, than announced");
  for (int longer = 0; longer < 2; longer++) {
    lengths[0] = lengths[1] = lengths[2] = 10;
    header_make(header, 0, 3, lengths);
    request = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
    send_plain(duo, header, HEADER_BYTES, TAG);
    send_plain(duo, header, 10, TAG);
    send_plain(duo, header, longer ? 11 : 9, TAG);
    for (int at = 0; at < 100; at++) {
      duo_progress(duo);
      /* until all frames have arrived */
      CHECK_STATUS(ucxx_request_status(request), UCXX_INPROGRESS);
    }
    send_plain(duo, header, 10, TAG);
    CHECK_STATUS(await(duo, request), UCXX_ERR_IO_ERROR);
    CHECK(strstr(ucxx_request_error_message(request), "frame 1") != NULL);
    ucxx_request_destroy(request);
    CHECK_EQ(maker.made, maker.freed);
  }
  still_works(duo);
}

static void refused(const duo_t *duo, const char *why, size_t count, size_t length, maker_t *maker,
                    const ucxx_allocator_t *allocator, ucxx_status_t expected) {
  STEP("refused: %s", why);
  size_t lengths[MOST_FRAMES];
  frames_t frames;
  ucxx_request_t *sent = NULL;
  for (size_t at = 0; at < count; at++) lengths[at] = length;
  frames_make(&frames, count, lengths, 5);
  ucxx_request_t *request = receive(duo, TAG, UINT64_MAX, allocator, NULL),
                 *behind = receive(duo, TAG, UINT64_MAX, NULL, NULL);
  ucxx_status_t status = ucxx_tag_send_multi(duo->to_right, frames.list, count, TAG, NULL, &sent);
  CHECK_STATUS(await(duo, request), expected);
  CHECK_OK(duo_finish(duo, status, &sent));
  ucxx_request_destroy(request);
  CHECK_EQ(maker->made, maker->freed);
  /* The receive that waited behind it gets the next transfer. */
  status = ucxx_tag_send_multi(duo->to_right, frames.list, count, TAG, NULL, &sent);
  CHECK_OK(await(duo, behind));
  CHECK_OK(duo_finish(duo, status, &sent));
  take_and_check(behind, count, lengths, 5);
  ucxx_request_destroy(behind);
  frames_free(&frames);
  still_works(duo);
}

static void limits(const duo_t *duo) {
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  allocator.max_frames = 20;
  refused(duo, "too many frames", 21, 10, &maker, &allocator, UCXX_ERR_EXCEEDS_LIMIT);
  refused(duo, "far too many frames", 300, 10, &maker, &allocator, UCXX_ERR_EXCEEDS_LIMIT);
  allocator.max_frames = 0;
  allocator.max_total_bytes = 100000;
  refused(duo, "too many bytes", 2, 50001, &maker, &allocator, UCXX_ERR_EXCEEDS_LIMIT);
  refused(duo, "far too many bytes", 200, 1 << 20, &maker, &allocator, UCXX_ERR_EXCEEDS_LIMIT);
  CHECK_EQ(maker.calls, 0);
  allocator.max_total_bytes = 0;
  maker.fails_at = 3;
  refused(duo, "no memory for the third", 5, 300000, &maker, &allocator, UCXX_ERR_NO_MEMORY);
  CHECK_EQ(maker.made, 2);
}

static void cancels(const duo_t *duo) {
  uint8_t header[HEADER_BYTES];
  uint64_t lengths[] = {10, 20};
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  STEP("cancelled before the header, and behind another");
  ucxx_request_t *first = receive(duo, TAG, UINT64_MAX, NULL, NULL),
                 *second = receive(duo, 0, 0, NULL, NULL);
  CHECK_OK(ucxx_request_cancel(second));
  CHECK_STATUS(await(duo, second), UCXX_ERR_CANCELED);
  CHECK_OK(ucxx_request_cancel(first));
  CHECK_STATUS(await(duo, first), UCXX_ERR_CANCELED);
  ucxx_request_destroy(first);
  ucxx_request_destroy(second);
  still_works(duo);
  STEP("cancelled between two frames");
  header_make(header, 0, 2, lengths);
  first = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  send_plain(duo, header, HEADER_BYTES, TAG);
  send_plain(duo, header, 10, TAG);
  while (maker.made < 2) duo_progress(duo);
  for (int at = 0; at < 100; at++) duo_progress(duo);
  CHECK_OK(ucxx_request_cancel(first));
  CHECK_STATUS(await(duo, first), UCXX_ERR_CANCELED);
  ucxx_request_destroy(first);
  CHECK_EQ(maker.freed, 2);
  still_works(duo);
  STEP("a timeout between two headers");
  uint64_t many[HEADER_FRAMES] = {0};
  header_make(header, 1, HEADER_FRAMES, many);
  params.timeout_ns = 20 * MILLISECOND;
  send_plain(duo, header, HEADER_BYTES, TAG);
  ucxx_recv_info_t info = {0};
  do duo_progress(duo);
  while (ucxx_tag_probe(duo->right, TAG, UINT64_MAX, &info, NULL) != UCXX_OK);
  first = receive(duo, TAG, UINT64_MAX, &allocator, &params);
  CHECK_STATUS(await(duo, first), UCXX_ERR_TIMED_OUT);
  ucxx_request_destroy(first);
  CHECK_EQ(maker.calls, 2);
  still_works(duo);
  STEP("with the endpoint that it names");
  ucxx_endpoint_t *back = connect_workers(duo->right, duo->left);
  params.timeout_ns = 0;
  params.source = back;
  header_make(header, 0, 2, lengths);
  first = receive(duo, TAG, UINT64_MAX, &allocator, &params);
  second = receive(duo, TAG, UINT64_MAX, &allocator, &params);
  send_plain(duo, header, HEADER_BYTES, TAG);
  while (maker.made < 4) duo_progress(duo);
  duo_drop(duo, back);
  CHECK_STATUS(await(duo, first), UCXX_ERR_CLOSED);
  CHECK_STATUS(await(duo, second), UCXX_ERR_CLOSED);
  ucxx_request_destroy(first);
  ucxx_request_destroy(second);
  CHECK_EQ(maker.freed, 4);
  still_works(duo);
}

/* Several at a time: with one tag in turn, with other tags in parallel. */
static void concurrent(const duo_t *duo) {
  enum { MANY = 40 };
  ucxx_request_t *received[MANY], *sent[MANY];
  ucxx_status_t statuses[MANY];
  frames_t *frames = test_alloc(MANY * sizeof *frames);
  size_t lengths[MANY][MOST_FRAMES];
  for (int exact = 0; exact < 2; exact++) {
    STEP("%d at a time, %s", MANY, exact ? "tags of their own" : "any tag");
    for (uint64_t at = 0; at < MANY; at++)
      received[at] = receive(duo, 0x500 + at % 4, exact ? UINT64_MAX : 0, NULL, NULL);
    for (uint64_t at = 0; at < MANY; at++) {
      size_t count = at * 7 % 130;
      for (size_t index = 0; index < count; index++)
        lengths[at][index] = test_mix(at * 1000 + index) % 20000;
      frames_make(&frames[at], count, lengths[at], 50 + at);
      sent[at] = NULL;
      statuses[at] = ucxx_tag_send_multi(duo->to_right, frames[at].list, count, 0x500 + at % 4,
                                         NULL, &sent[at]);
    }
    for (int at = 0; at < MANY; at++) {
      CHECK_OK(await(duo, received[at]));
      take_and_check(received[at], frames[at].count, lengths[at], 50 + at);
      ucxx_request_destroy(received[at]);
    }
    for (int at = 0; at < MANY; at++) {
      CHECK_OK(duo_finish(duo, statuses[at], &sent[at]));
      frames_free(&frames[at]);
    }
  }
  free(frames);
}

enum { ALIVE = 24 };

/* Buffers of the library from several messages at once. Contents are checked when a buffer is
 * destroyed, since freed memory is reused. */
typedef struct alive {
  ucxx_buffers_t *buffers;
  uint64_t seed;
  size_t count, lengths[MOST_FRAMES];
} alive_t;

static void let_go(alive_t *alive) {
  ucxx_buffer_t buffer;
  frames_check(alive->buffers, alive->count, alive->lengths, alive->seed);
  for (size_t at = alive->seed % 3; at < alive->count; at += 3) {
    CHECK_OK(ucxx_buffers_take(alive->buffers, at, &buffer));
    CHECK_CONTENT(buffer.data, alive->lengths[at], frame_seed(alive->seed, at));
    free(buffer.data);
  }
  ucxx_buffers_destroy(alive->buffers);
}

static void used_again(const duo_t *duo, alive_t *alive) {
  STEP("memory that is reused");
  for (uint64_t round = 0; round < 300; round++) {
    alive_t *one = &alive[test_mix(round) % ALIVE];
    ucxx_request_t *request = receive(duo, TAG, UINT64_MAX, NULL, NULL), *sent = NULL;
    frames_t frames;
    if (one->buffers != NULL) let_go(one);
    one->seed = 5000 + round;
    one->count = test_mix(round * 7) % 30;
    for (size_t at = 0; at < one->count; at++)
      one->lengths[at] = test_mix(round * 100 + at) % (round % 10 == 0 ? 300000 : 5000);
    frames_make(&frames, one->count, one->lengths, one->seed);
    ucxx_status_t status =
        ucxx_tag_send_multi(duo->to_right, frames.list, one->count, TAG, NULL, &sent);
    CHECK_OK(await(duo, request));
    CHECK_OK(duo_finish(duo, status, &sent));
    CHECK_OK(ucxx_request_take_buffers(request, &one->buffers));
    ucxx_request_destroy(request);
    frames_free(&frames);
  }
}

static void bad_calls(const duo_t *duo) {
  STEP("bad calls");
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  ucxx_request_t *request = NULL;
  ucxx_buffer_t buffer = {.length = 1};
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, 0, 0, NULL, NULL, NULL), UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("request");
  params.flags = UCXX_FLAG_WAIT;
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, 0, 0, NULL, &params, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_recv_multi(NULL, 0, 0, NULL, NULL, &request), UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_send_multi(duo->to_right, &buffer, 1, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_send_multi(duo->to_right, NULL, 1, 0, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_STATUS(ucxx_tag_send_multi(NULL, NULL, 0, 0, NULL, &request), UCXX_ERR_INVALID_PARAM);
  ucxx_allocator_t allocator = UCXX_ALLOCATOR_INIT;
  allocator.allocate = maker_allocate;
  CHECK_STATUS(ucxx_tag_recv_multi(duo->right, 0, 0, &allocator, NULL, &request),
               UCXX_ERR_INVALID_PARAM);
  CHECK_MESSAGE("allocator");
  CHECK(request == NULL);
}

/* The worker is destroyed with receives in every stage. */
static void left_over(duo_t *duo) {
  STEP("pending at the end");
  uint8_t header[HEADER_BYTES];
  uint64_t lengths[] = {10, 20};
  maker_t maker = {0};
  ucxx_allocator_t allocator = maker_allocator(&maker);
  ucxx_request_t *requests[3];
  requests[0] = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  requests[1] = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  requests[2] = receive(duo, TAG, UINT64_MAX, &allocator, NULL);
  header_make(header, 0, 2, lengths);
  send_plain(duo, header, HEADER_BYTES, TAG);
  while (maker.made < 2) duo_progress(duo);
  duo_close(duo);
  for (int at = 0; at < 3; at++) {
    CHECK_STATUS(ucxx_request_status(requests[at]), UCXX_ERR_CANCELED);
    ucxx_request_destroy(requests[at]);
  }
  CHECK_EQ(maker.freed, 2);
}

int main(void) {
  duo_t duo;
  test_begin("multi");
  duo_open(&duo, NULL);
  counts(&duo);
  bytes(&duo);
  hostile(&duo);
  limits(&duo);
  cancels(&duo);
  concurrent(&duo);
  bad_calls(&duo);
  alive_t *alive = test_alloc(ALIVE * sizeof *alive);
  memset(alive, 0, ALIVE * sizeof *alive);
  used_again(&duo, alive);
  left_over(&duo);
  STEP("buffers outlive their worker");
  for (int at = 0; at < ALIVE; at++)
    if (alive[at].buffers != NULL) let_go(&alive[at]);
  free(alive);
  return 0;
}
