/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_tests.c: the tests. Each is a pair of functions and a row in the table at the end.
 */
#define _XOPEN_SOURCE 700
#include "perf_tests.h"

#include <inttypes.h>
#include <string.h>

#define TAG_DATA UINT64_C(0x7065726674657374)
#define TAG_ACK (TAG_DATA + 1)
#define PS_PER_NS UINT64_C(1000)

/* ------------------------------------------------------------------ contents */

/* Different bytes for each message and each place in it, so that a late, early or damaged message
 * is detected. */
static uint64_t word_of(uint64_t message, uint64_t place) {
  uint64_t x = (message << 32 ^ place) * UINT64_C(0x9e3779b97f4a7c15);
  return x ^ x >> 29;
}

static void fill(struct bench *bench, struct slot *slot, uint64_t message) {
  if (!bench->plan->verify) return;
  char *bytes = slot->buffer;
  for (uint64_t at = 0; at < bench->round.size; at += 8) {
    uint64_t word = word_of(message, at), left = bench->round.size - at;
    memcpy(bytes + at, &word, left < 8 ? left : 8);
  }
}

static int check(struct bench *bench, struct slot *slot, uint64_t message) {
  if (!bench->plan->verify) return 0;
  char *bytes = slot->buffer;
  for (uint64_t at = 0; at < bench->round.size; at += 8) {
    uint64_t word = word_of(message, at), left = bench->round.size - at;
    if (memcmp(bytes + at, &word, left < 8 ? left : 8) != 0)
      return fail(bench->session->failure,
                  "--verify: message %" PRIu64 " of %" PRIu64
                  " bytes arrived damaged at byte %" PRIu64,
                  message, bench->round.size, at);
  }
  memset(bytes, 0, bench->round.size); /* detects what the next message does not overwrite */
  return 0;
}

/* ------------------------------------------------------------------ the start of a round */

static int wait_for_go(struct bench *bench) {
  char nothing[1];
  return oob_receive(bench->session->oob, FRAME_GO, nothing, sizeof nothing, NULL,
                     bench->session->config->timeout_ns, bench->session->failure);
}

static int give_go(struct bench *bench) {
  return oob_send(bench->session->oob, FRAME_GO, NULL, 0, bench->session->failure);
}

static int interrupted(struct bench *bench) {
  return stopped() ? fail(bench->session->failure, "interrupted") : 0;
}

/* ------------------------------------------------------------------ ping-pong */

static int ping(struct bench *bench, uint64_t messages, bool record) {
  struct slot *out = &bench->slots[0], *in = &bench->slots[1];
  uint64_t size = bench->round.size;
  if (wait_for_go(bench) != 0) return -1;
  uint64_t start_ns = clock_ns(), last_ns = start_ns;
  for (uint64_t i = 0; i < messages; i++) {
    fill(bench, out, i);
    if (slot_receive(in, size, TAG_DATA) != 0 || slot_send(out, size, TAG_DATA) != 0) return -1;
    if (slot_wait(in) != 0 || slot_wait(out) != 0) return -1;
    uint64_t now_ns = clock_ns();
    if (record) histogram_add(bench->times, (now_ns - last_ns) * PS_PER_NS / 2, 1);
    last_ns = now_ns;
    if (check(bench, in, ~i) != 0 || interrupted(bench) != 0) return -1;
  }
  bench->elapsed_ns = (last_ns - start_ns) / 2;
  return 0;
}

static int pong(struct bench *bench, uint64_t messages) {
  /* Two receives, so that the next one is posted before the answer is sent. */
  struct slot *out = &bench->slots[2], *in = bench->slots;
  uint64_t size = bench->round.size;
  if (messages > 0 && slot_receive(&in[0], size, TAG_DATA) != 0) return -1;
  if (give_go(bench) != 0) return -1;
  for (uint64_t i = 0; i < messages; i++) {
    struct slot *now = &in[i % 2];
    if (i + 1 < messages && slot_receive(&in[(i + 1) % 2], size, TAG_DATA) != 0) return -1;
    if (slot_wait(now) != 0 || check(bench, now, i) != 0 || slot_wait(out) != 0) return -1;
    fill(bench, out, ~i);
    if (slot_send(out, size, TAG_DATA) != 0 || interrupted(bench) != 0) return -1;
  }
  return slot_wait(out);
}

/* ------------------------------------------------------------------ stream of windows */

/* Two windows are used in turn. The receiver acknowledges a window when all of its messages have
 * arrived and its receives are posted again. The sender begins a window when the last but one is
 * acknowledged. So there is always something to send, each message finds its receive, and no
 * unexpected messages fill memory. */
static uint64_t in_window(const struct bench *bench, uint64_t number, uint64_t messages) {
  uint64_t first = number * bench->round.window;
  if (first >= messages) return 0;
  return messages - first < bench->round.window ? messages - first : bench->round.window;
}

static struct slot *window_slots(struct bench *bench, uint64_t number) {
  return bench->slots + number % 2 * bench->round.window;
}

static int wait_for_window(struct bench *bench, uint64_t number, uint64_t messages) {
  struct slot *slots = window_slots(bench, number);
  for (uint64_t i = 0; i < in_window(bench, number, messages); i++)
    if (slot_wait(&slots[i]) != 0) return -1;
  return 0;
}

static int pour(struct bench *bench, uint64_t messages, bool record) {
  uint64_t windows = (messages + bench->round.window - 1) / bench->round.window, sent = 0;
  if (wait_for_go(bench) != 0) return -1;
  uint64_t start_ns = clock_ns(), last_ns = start_ns;
  for (uint64_t number = 0; number < windows + 2; number++) {
    if (number >= 2) {
      uint64_t done = in_window(bench, number - 2, messages);
      if (done > 0 && (slot_wait(&bench->acks[number % 2]) != 0 ||
                       wait_for_window(bench, number - 2, messages) != 0))
        return -1;
      uint64_t now_ns = clock_ns();
      if (record && done > 0)
        histogram_add(bench->times, (now_ns - last_ns) * PS_PER_NS / done, done);
      last_ns = now_ns;
    }
    uint64_t count = in_window(bench, number, messages);
    struct slot *slots = window_slots(bench, number);
    if (count > 0 && slot_receive(&bench->acks[number % 2], 8, TAG_ACK) != 0) return -1;
    for (uint64_t i = 0; i < count; i++, sent++) {
      fill(bench, &slots[i], sent);
      if (slot_send(&slots[i], bench->round.size, TAG_DATA) != 0) return -1;
    }
    if (interrupted(bench) != 0) return -1;
  }
  bench->elapsed_ns = last_ns - start_ns;
  return 0;
}

static int post_window(struct bench *bench, uint64_t number, uint64_t messages) {
  struct slot *slots = window_slots(bench, number);
  for (uint64_t i = 0; i < in_window(bench, number, messages); i++)
    if (slot_receive(&slots[i], bench->round.size, TAG_DATA) != 0) return -1;
  return 0;
}

static int drain(struct bench *bench, uint64_t messages) {
  uint64_t windows = (messages + bench->round.window - 1) / bench->round.window, received = 0;
  if (post_window(bench, 0, messages) != 0 || post_window(bench, 1, messages) != 0 ||
      give_go(bench) != 0)
    return -1;
  for (uint64_t number = 0; number < windows; number++) {
    struct slot *slots = window_slots(bench, number), *ack = &bench->acks[2 + number % 2];
    for (uint64_t i = 0; i < in_window(bench, number, messages); i++, received++)
      if (slot_wait(&slots[i]) != 0 || check(bench, &slots[i], received) != 0) return -1;
    if (post_window(bench, number + 2, messages) != 0 || slot_wait(ack) != 0) return -1;
    if (slot_send(ack, 8, TAG_ACK) != 0 || interrupted(bench) != 0) return -1;
  }
  return slot_wait(&bench->acks[2]) != 0 || slot_wait(&bench->acks[3]) != 0 ? -1 : 0;
}

/* ------------------------------------------------------------------ table */

static const struct test tests[] = {
    {"tag_lat", "one message back and forth; half of each round trip", UCXX_FEATURE_TAG, 8, 1, true,
     3, ping, pong},
    {"tag_bw", "a window of large messages in flight; bytes per second", UCXX_FEATURE_TAG,
     UINT64_C(1) << 20, 32, false, 2, pour, drain},
    {"tag_rate", "a window of small messages in flight; messages per second", UCXX_FEATURE_TAG, 8,
     256, false, 2, pour, drain},
};

const struct test *find_test(const char *name) {
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    if (strcmp(tests[i].name, name) == 0) return &tests[i];
  return NULL;
}

void list_tests(FILE *stream) {
  for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
    fprintf(stream, "%-10s %s (default %" PRIu64 " bytes, window %u)\n", tests[i].name,
            tests[i].summary, tests[i].default_size, (unsigned)tests[i].default_window);
}
