/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_messages.c: messages that one side sends and the other receives: tag messages, active
 * messages, streams, and several buffers at a time.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "perf_ways.h"

#define EVERY_BIT UINT64_MAX

/* Endpoints have a tag each, so that a receive gets the message of its number. */
#define TAG_DATA UINT64_C(0x7065726674657374)
#define AM_ID 1

/* ------------------------------------------------------------------ tag messages */

static uint64_t tag_of(const struct slot *slot) {
  return TAG_DATA + ((uint64_t)slot->endpoint << 8);
}

static ucxx_status_t tag_send(struct slot *slot, ucxx_request_t **request) {
  return ucxx_tag_send(slot_endpoint(slot), slot->buffer, slot->length, tag_of(slot), &slot->params,
                       request);
}

static ucxx_status_t tag_receive(struct slot *slot, ucxx_request_t **request) {
  return ucxx_tag_recv(slot->session->worker, slot->buffer, slot->length, tag_of(slot), EVERY_BIT,
                       &slot->params, request);
}

const struct way tag_way = {.name = "tag",
                            .summary = "tag messages",
                            .features = UCXX_FEATURE_TAG,
                            .patterns = ALL_PATTERNS,
                            .cuda = true,
                            .several_endpoints = true,
                            .send = tag_send,
                            .receive = tag_receive};

/* ------------------------------------------------------------------ streams */

static ucxx_status_t stream_send(struct slot *slot, ucxx_request_t **request) {
  return ucxx_stream_send(slot_endpoint(slot), slot->buffer, slot->length, &slot->params, request);
}

static ucxx_status_t stream_receive(struct slot *slot, ucxx_request_t **request) {
  return ucxx_stream_recv(slot_endpoint(slot), slot->buffer, slot->length, &slot->params, request);
}

const struct way stream_way = {.name = "stream",
                               .summary = "the byte stream of an endpoint",
                               .features = UCXX_FEATURE_STREAM,
                               .patterns = ALL_PATTERNS,
                               .least = 1,
                               .several_endpoints = true,
                               .send = stream_send,
                               .receive = stream_receive};

/* ------------------------------------------------------------------ active messages */

/* The slots that wait for messages, by message number. The header of a message is its number. */
struct inbox {
  size_t count;
  _Atomic(struct slot *) slots[];
};

static struct slot *take_slot(struct bench *bench, const void *header, size_t length) {
  struct inbox *inbox = bench->state;
  uint64_t number;
  if (length != sizeof number) return NULL;
  memcpy(&number, header, sizeof number);
  return atomic_exchange(&inbox->slots[number % inbox->count], NULL);
}

/* A message that nobody expects is dropped: a wrong client then runs into its time limit. */
static void am_arrived(void *arg, ucxx_am_message_t *message) {
  struct bench *bench = arg;
  size_t header_length, length = ucxx_am_message_length(message);
  const void *header = ucxx_am_message_header(message, &header_length);
  struct slot *slot = take_slot(bench, header, header_length);
  const void *data = ucxx_am_message_data(message);
  ucxx_status_t status = UCXX_OK;
  if (slot == NULL) {
    ucxx_am_message_destroy(message);
    return;
  }
  if (length != slot->length) {
    status = UCXX_ERR_MESSAGE_TRUNCATED;
  } else if (length > 0 && (data == NULL || bench->memory_type != UCXX_MEMORY_HOST)) {
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.memory_type = bench->memory_type;
    params.callback = slot_callback;
    params.callback_arg = slot;
    status = ucxx_am_message_recv(message, slot->buffer, length, &params, NULL);
  } else if (length > 0 && bench->plan->verify) {
    memcpy(slot->buffer, data, length);
  }
  if (status != UCXX_INPROGRESS) slot_complete(slot, status);
  ucxx_am_message_destroy(message);
}

static int am_open(struct bench *bench) {
  struct inbox *inbox =
      calloc(1, sizeof *inbox + bench->slot_count * sizeof(_Atomic(struct slot *)));
  if (inbox == NULL) return fail(bench->session->failure, "no memory");
  inbox->count = bench->slot_count;
  bench->state = inbox;
  ucxx_status_t status =
      ucxx_worker_set_am_handler(bench->session->worker, AM_ID, am_arrived, bench, NULL);
  return status == UCXX_OK ? 0 : session_fail(bench->session, "ucxx_worker_set_am_handler", status);
}

static int am_leave(struct bench *bench) {
  ucxx_worker_set_am_handler(bench->session->worker, AM_ID, NULL, NULL, NULL);
  return 0;
}

static void am_close(struct bench *bench) { free(bench->state); }

static ucxx_status_t am_send(struct slot *slot, ucxx_request_t **request) {
  return ucxx_am_send(slot_endpoint(slot), AM_ID, &slot->message, sizeof slot->message,
                      slot->buffer, slot->length, &slot->params, request);
}

static ucxx_status_t am_receive(struct slot *slot, ucxx_request_t **request) {
  struct inbox *inbox = slot->bench->state;
  (void)request;
  slot->by_event = true;
  atomic_store(&inbox->slots[slot->message % inbox->count], slot);
  return UCXX_INPROGRESS;
}

const struct way am_way = {.name = "am",
                           .summary = "active messages with a header of 8 bytes",
                           .features = UCXX_FEATURE_AM,
                           .patterns = ALL_PATTERNS,
                           .cuda = true,
                           .several_endpoints = true,
                           .open = am_open,
                           .leave = am_leave,
                           .close = am_close,
                           .send = am_send,
                           .receive = am_receive};

/* ------------------------------------------------------------------ several buffers */

/* Equal parts of the message, and the rest in the last one. */
static size_t split(const struct slot *slot, ucxx_buffer_t *frames) {
  size_t count = slot->bench->plan->frames, each = slot->length / count;
  memset(frames, 0, count * sizeof *frames);
  for (size_t i = 0; i < count; i++) {
    frames[i].data = (char *)slot->buffer + i * each;
    frames[i].length = i + 1 < count ? each : slot->length - i * each;
    frames[i].memory_type = slot->bench->memory_type;
  }
  return count;
}

static ucxx_status_t multi_send(struct slot *slot, ucxx_request_t **request) {
  ucxx_buffer_t frames[MAX_FRAMES];
  size_t count = split(slot, frames);
  return ucxx_tag_send_multi(slot_endpoint(slot), frames, count, tag_of(slot), &slot->params,
                             request);
}

/* The library has made the buffers. */
static int multi_take(struct slot *slot) {
  struct bench *bench = slot->bench;
  ucxx_buffers_t *buffers = NULL;
  ucxx_status_t status;
  /* A callback, or a notifier, reports the end just before the request has it. */
  do status = ucxx_request_wait(slot->request, NS_PER_SECOND);
  while (status == UCXX_INPROGRESS && !stopped());
  if (status == UCXX_OK) status = ucxx_request_take_buffers(slot->request, &buffers);
  if (status != UCXX_OK) return session_fail(bench->session, "ucxx_request_take_buffers", status);
  size_t count = ucxx_buffers_count(buffers), at = 0;
  for (size_t i = 0; i < count; i++) {
    ucxx_buffer_t frame;
    if (ucxx_buffers_get(buffers, i, &frame) != UCXX_OK || frame.length > slot->length - at) break;
    if (bench->plan->verify && frame.length > 0)
      memcpy((char *)slot->buffer + at, frame.data, frame.length);
    at += frame.length;
  }
  ucxx_buffers_destroy(buffers);
  if (count == bench->plan->frames && at == slot->length) return 0;
  return fail(bench->session->failure, "a message of %u buffers arrived as %zu, with %zu bytes",
              (unsigned)bench->plan->frames, count, at);
}

static ucxx_status_t multi_receive(struct slot *slot, ucxx_request_t **request) {
  (void)request; /* the buffers are taken from the request, however its end is reported */
  slot->finish = multi_take;
  return ucxx_tag_recv_multi(slot->session->worker, tag_of(slot), EVERY_BIT, NULL, &slot->params,
                             &slot->request);
}

const struct way multi_way = {.name = "multi",
                              .summary = "tag messages of several buffers (--frames)",
                              .features = UCXX_FEATURE_TAG,
                              .patterns = ALL_PATTERNS,
                              .least = 1,
                              .cuda = true,
                              .several_endpoints = true,
                              .send = multi_send,
                              .receive = multi_receive};
