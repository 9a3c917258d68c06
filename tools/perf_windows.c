/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_windows.c: operations of the client on a window of a group of the two sides.
 */
#define _XOPEN_SOURCE 700
#include <stdlib.h>
#include <string.h>

#include "perf_ways.h"

#define SERVER 1u /* rank */

struct frame {
  ucxx_window_t *window;
  char *base;
  uint64_t unlocked; /* epochs of window_lock */
  bool locked_all;
};

static struct frame *frame_of(const struct bench *bench) { return bench->state; }

static bool locks_each_time(const struct bench *bench) {
  return bench->test->way == &window_lock_way;
}

static int window_open(struct bench *bench) {
  struct session *session = bench->session;
  bool serves = session->config->serves;
  struct frame *frame = calloc(1, sizeof *frame);
  void *base = NULL;
  if (frame == NULL) return fail(session->failure, "no memory");
  bench->state = frame;
  if (session_group(session) != 0) return -1;
  size_t bytes = serves ? bench->stride * (bench->slot_count - 1) + bench->round.size : 8;
  ucxx_status_t status =
      ucxx_window_allocate(session->group, bytes, 1, NULL, &base, &frame->window);
  if (status != UCXX_OK) return session_fail(session, "creating the window", status);
  frame->base = base;
  if (serves) {
    for (size_t i = 0; i < bench->slot_count; i++) fill(bench, frame->base + i * bench->stride, i);
    return 0;
  }
  if (locks_each_time(bench)) return 0;
  status = ucxx_window_lock_all(frame->window, 0);
  if (status != UCXX_OK) return session_fail(session, "locking the window", status);
  frame->locked_all = true;
  return 0;
}

static int window_leave(struct bench *bench) {
  struct frame *frame = frame_of(bench);
  ucxx_status_t status = UCXX_OK;
  if (frame->locked_all) status = ucxx_window_unlock_all(frame->window);
  frame->locked_all = false;
  if (status == UCXX_OK) status = ucxx_window_close(frame->window);
  return status == UCXX_OK ? 0 : session_fail(bench->session, "closing the window", status);
}

static void window_close(struct bench *bench) {
  struct frame *frame = bench->state;
  if (frame == NULL) return;
  ucxx_window_destroy(frame->window);
  free(frame);
}

static int64_t place_of(const struct slot *slot) {
  return (int64_t)(slot->index * slot->bench->stride);
}

static ucxx_layout_t layout_of(const struct slot *slot, int32_t type, size_t bytes) {
  ucxx_layout_t layout;
  ucxx_layout_init_contiguous(&layout, type, slot->length / bytes);
  return layout;
}

static ucxx_status_t put_start(struct slot *slot, ucxx_request_t **request) {
  ucxx_layout_t layout = layout_of(slot, UCXX_TYPE_BYTE, 1);
  return ucxx_window_rput(frame_of(slot->bench)->window, slot->buffer, &layout, SERVER,
                          place_of(slot), &layout, &slot->params, request);
}

static ucxx_status_t get_start(struct slot *slot, ucxx_request_t **request) {
  ucxx_layout_t layout = layout_of(slot, UCXX_TYPE_BYTE, 1);
  return ucxx_window_rget(frame_of(slot->bench)->window, slot->buffer, &layout, SERVER,
                          place_of(slot), &layout, &slot->params, request);
}

static ucxx_status_t accumulate_start(struct slot *slot, ucxx_request_t **request) {
  ucxx_layout_t layout = layout_of(slot, UCXX_TYPE_UINT64, 8);
  const uint64_t one = 1;
  memcpy(slot->buffer, &one, sizeof one); /* the audit counts them */
  return ucxx_window_raccumulate(frame_of(slot->bench)->window, slot->buffer, &layout, SERVER,
                                 place_of(slot), &layout, UCXX_REDUCE_SUM, &slot->params, request);
}

static ucxx_status_t window_flush(struct slot *slot, ucxx_request_t **request) {
  return ucxx_window_flush_nb(frame_of(slot->bench)->window, SERVER, &slot->params, request);
}

static int unlock(struct slot *slot) {
  struct frame *frame = frame_of(slot->bench);
  ucxx_layout_t layout = layout_of(slot, UCXX_TYPE_BYTE, 1);
  ucxx_status_t status =
      ucxx_window_put(frame->window, slot->buffer, &layout, SERVER, place_of(slot), &layout);
  if (status == UCXX_OK) status = ucxx_window_unlock(frame->window, SERVER);
  return status == UCXX_OK ? 0 : session_fail(slot->session, "putting and unlocking", status);
}

static ucxx_status_t lock_start(struct slot *slot, ucxx_request_t **request) {
  slot->finish = unlock;
  return ucxx_window_lock_nb(frame_of(slot->bench)->window, UCXX_LOCK_EXCLUSIVE, SERVER, 0,
                             &slot->params, request);
}

static int put_audit(struct bench *bench, uint64_t operations) {
  return audit_places(bench, frame_of(bench)->base, operations);
}

static void accumulate_expect(struct bench *bench) {
  for (size_t i = 0; i < bench->slot_count; i++)
    memset(frame_of(bench)->base + i * bench->stride, 0, bench->round.size);
}

static int accumulate_audit(struct bench *bench, uint64_t operations) {
  uint64_t sum = 0, word;
  for (size_t i = 0; i < (bench->stride > 0 ? bench->slot_count : 1); i++) {
    memcpy(&word, frame_of(bench)->base + i * bench->stride, sizeof word);
    sum += word;
  }
  return audit_count(bench, "accumulates", sum, operations);
}

#define FEATURES (UCXX_FEATURE_AM | UCXX_FEATURE_RMA | UCXX_FEATURE_ATOMIC | UCXX_FEATURE_WAKEUP)
#define WINDOW \
  .features = FEATURES, .open = window_open, .leave = window_leave, .close = window_close

const struct way window_put_way = {WINDOW,
                                   .name = "window_put",
                                   .summary = "puts into a window",
                                   .patterns = ALL_PATTERNS,
                                   .least = 1,
                                   .start = put_start,
                                   .flush = window_flush,
                                   .writes = true,
                                   .audit = put_audit};

const struct way window_get_way = {
    WINDOW,     .name = "window_get", .summary = "gets from a window", .patterns = ALL_PATTERNS,
    .least = 1, .start = get_start,   .flush = window_flush,           .reads = true};

const struct way window_acc_way = {WINDOW,
                                   .name = "window_acc",
                                   .summary = "accumulates: sums of 8-byte integers in a window",
                                   .patterns = ALL_PATTERNS,
                                   .least = 8,
                                   .multiple = 8,
                                   .start = accumulate_start,
                                   .flush = window_flush,
                                   .expect = accumulate_expect,
                                   .audit = accumulate_audit};

const struct way window_lock_way = {WINDOW,
                                    .name = "window_lock",
                                    .summary = "an exclusive lock, a put, and the unlock",
                                    .patterns = LATENCY,
                                    .least = 1,
                                    .start = lock_start,
                                    .writes = true,
                                    .audit = put_audit};
