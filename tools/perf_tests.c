/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * perf_tests.c: the patterns in which a way is used: ping-pong, a stream of windows, and operations
 * of the client alone.
 */
#define _XOPEN_SOURCE 700
#include <inttypes.h>
#include <string.h>

#include "perf_ways.h"

#define TAG_ACK UINT64_C(0x7065726661636b00)
#define EVERY_BIT UINT64_MAX
#define PS_PER_NS UINT64_C(1000)
/* The least --timeout is a second. */
#define ALIVE_NS (100 * NS_PER_MS)

/* ------------------------------------------------------------------ contents */

/* Different bytes for each message and each place in it, so that a late, early or damaged message
 * is detected. */
static uint64_t word_of(uint64_t message, uint64_t place) {
  uint64_t x = (message << 32 ^ place) * UINT64_C(0x9e3779b97f4a7c15);
  return x ^ x >> 29;
}

void fill(struct bench *bench, void *buffer, uint64_t message) {
  if (!bench->plan->verify) return;
  char *bytes = buffer;
  for (uint64_t at = 0; at < bench->round.size; at += 8) {
    uint64_t word = word_of(message, at), left = bench->round.size - at;
    memcpy(bytes + at, &word, left < 8 ? left : 8);
  }
}

int check(struct bench *bench, void *buffer, uint64_t message) {
  if (!bench->plan->verify) return 0;
  char *bytes = buffer;
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

static ucxx_status_t ack_send(struct slot *slot, ucxx_request_t **request) {
  return ucxx_tag_send(slot->session->endpoints[0], slot->buffer, slot->length, TAG_ACK,
                       &slot->params, request);
}

static ucxx_status_t ack_receive(struct slot *slot, ucxx_request_t **request) {
  return ucxx_tag_recv(slot->session->worker, slot->buffer, slot->length, TAG_ACK, EVERY_BIT,
                       &slot->params, request);
}

static int post_ack(struct slot *ack) {
  return slot_submit(ack, ack_receive, 8, 0, "receiving an acknowledgement");
}

static int give_ack(struct slot *ack) {
  return slot_submit(ack, ack_send, 8, 0, "sending an acknowledgement");
}

static int send(struct bench *bench, struct slot *slot, uint64_t message) {
  fill(bench, slot->buffer, message);
  return slot_submit(slot, bench->test->way->send, bench->round.size, message, "sending");
}

static int receive(struct bench *bench, struct slot *slot, uint64_t message) {
  return slot_submit(slot, bench->test->way->receive, bench->round.size, message, "receiving");
}

/* ------------------------------------------------------------------ ping-pong */

/* Answers have other contents than messages, but the same numbers. */
static int ping(struct bench *bench, uint64_t messages, bool record) {
  struct slot *out = &bench->slots[0], *in = &bench->slots[1];
  if (wait_for_go(bench) != 0) return -1;
  uint64_t last_ns = bench->start_ns = clock_ns();
  for (uint64_t i = 0; i < messages; i++) {
    if (receive(bench, in, i) != 0 || send(bench, out, i) != 0) return -1;
    if (slot_wait(in) != 0 || slot_wait(out) != 0) return -1;
    uint64_t now_ns = clock_ns();
    if (record) histogram_add(bench->times, (now_ns - last_ns) * PS_PER_NS / 2, 1);
    last_ns = now_ns;
    if (check(bench, in->buffer, ~i) != 0 || interrupted(bench) != 0) return -1;
  }
  bench->end_ns = last_ns;
  return 0;
}

static int pong(struct bench *bench, uint64_t messages) {
  /* Two receives, so that the next one is posted before the answer is sent. */
  struct slot *out = &bench->slots[2], *in = bench->slots;
  if (messages > 0 && receive(bench, &in[0], 0) != 0) return -1;
  if (give_go(bench) != 0) return -1;
  for (uint64_t i = 0; i < messages; i++) {
    struct slot *now = &in[i % 2];
    if (i + 1 < messages && receive(bench, &in[(i + 1) % 2], i + 1) != 0) return -1;
    if (slot_wait(now) != 0 || check(bench, now->buffer, i) != 0 || slot_wait(out) != 0) return -1;
    fill(bench, out->buffer, ~i);
    if (slot_submit(out, bench->test->way->send, bench->round.size, i, "answering") != 0 ||
        interrupted(bench) != 0)
      return -1;
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
  uint64_t last_ns = bench->start_ns = clock_ns();
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
    if (count > 0 && post_ack(&bench->acks[number % 2]) != 0) return -1;
    for (uint64_t i = 0; i < count; i++, sent++)
      if (send(bench, &slots[i], sent) != 0) return -1;
    if (interrupted(bench) != 0) return -1;
  }
  bench->end_ns = last_ns;
  return 0;
}

static int post_window(struct bench *bench, uint64_t number, uint64_t messages) {
  struct slot *slots = window_slots(bench, number);
  for (uint64_t i = 0; i < in_window(bench, number, messages); i++)
    if (receive(bench, &slots[i], number * bench->round.window + i) != 0) return -1;
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
      if (slot_wait(&slots[i]) != 0 || check(bench, slots[i].buffer, received) != 0) return -1;
    if (post_window(bench, number + 2, messages) != 0 || slot_wait(ack) != 0) return -1;
    if (give_ack(ack) != 0 || interrupted(bench) != 0) return -1;
  }
  return slot_wait(&bench->acks[2]) != 0 || slot_wait(&bench->acks[3]) != 0 ? -1 : 0;
}

/* ------------------------------------------------------------------ the client alone */

/* The client uses its slots in turn. The server makes progress until the client tells it that it
 * has finished. In the meantime the client tells it that it is alive, within the server's limit. */
enum { ALIVE, FINISHED };

static int tell(struct bench *bench, uint64_t word) {
  if (slot_wait(&bench->acks[0]) != 0) return -1;
  bench->ack_words[0][0] = word;
  return give_ack(&bench->acks[0]);
}

static int tell_alive(struct bench *bench, uint64_t now_ns, uint64_t *told_ns) {
  if (now_ns - *told_ns < ALIVE_NS) return 0;
  *told_ns = now_ns;
  return tell(bench, ALIVE);
}

static int begin(struct bench *bench, struct slot *slot, uint64_t operation) {
  const struct way *way = bench->test->way;
  if (way->writes) fill(bench, slot->buffer, operation);
  return slot_submit(slot, way->start, bench->round.size, operation, "an operation");
}

static int end(struct bench *bench, struct slot *slot) {
  if (slot_wait(slot) != 0) return -1;
  return bench->test->way->reads ? check(bench, slot->buffer, slot->index) : 0;
}

/* Completes what this endpoint has started. */
static int flush(struct bench *bench, uint64_t operation) {
  struct slot *slot = &bench->acks[1];
  if (bench->test->way->flush == NULL) return 0;
  if (slot_submit(slot, bench->test->way->flush, 0, operation, "flushing") != 0) return -1;
  return slot_wait(slot);
}

static int flush_all(struct bench *bench) {
  for (uint64_t i = 0; i < bench->session->endpoint_count; i++)
    if (flush(bench, i) != 0) return -1;
  return 0;
}

static int act_one_by_one(struct bench *bench, uint64_t operations, bool record) {
  uint64_t last_ns = bench->start_ns = clock_ns(), told_ns = last_ns;
  for (uint64_t i = 0; i < operations; i++) {
    struct slot *slot = &bench->slots[0];
    if (begin(bench, slot, i) != 0 || slot_wait(slot) != 0 || flush(bench, i) != 0) return -1;
    uint64_t now_ns = clock_ns();
    if (record) histogram_add(bench->times, (now_ns - last_ns) * PS_PER_NS, 1);
    last_ns = now_ns;
    if (end(bench, slot) != 0 || interrupted(bench) != 0) return -1;
    if (tell_alive(bench, now_ns, &told_ns) != 0) return -1;
  }
  bench->end_ns = last_ns;
  return 0;
}

static int act_in_windows(struct bench *bench, uint64_t operations, bool record) {
  uint64_t window = bench->round.window, windows = (operations + window - 1) / window;
  uint64_t last_ns = bench->start_ns = clock_ns(), told_ns = last_ns;
  for (uint64_t number = 0; number <= windows; number++) {
    /* Each operation waits for that of its slot in the window before. */
    uint64_t count = in_window(bench, number, operations),
             before = number > 0 ? in_window(bench, number - 1, operations) : 0;
    /* Puts are not ordered: those of a window must not be followed by others to the same places. */
    if (bench->plan->verify && bench->test->way->writes && before > 0 &&
        (wait_for_window(bench, 0, before) != 0 || flush_all(bench) != 0))
      return -1;
    for (uint64_t i = 0; i < window && (i < count || i < before); i++) {
      if (i < before && end(bench, &bench->slots[i]) != 0) return -1;
      if (i < count && begin(bench, &bench->slots[i], number * window + i) != 0) return -1;
    }
    if (count == 0 && flush_all(bench) != 0) return -1;
    uint64_t now_ns = clock_ns();
    if (record && before > 0)
      histogram_add(bench->times, (now_ns - last_ns) * PS_PER_NS / before, before);
    if (number > 0) last_ns = now_ns;
    if (interrupted(bench) != 0) return -1;
    if (tell_alive(bench, now_ns, &told_ns) != 0) return -1;
  }
  bench->end_ns = last_ns;
  return 0;
}

static int act(struct bench *bench, uint64_t operations, bool record) {
  bool one_by_one = bench->test->pattern->bit == LATENCY;
  if (wait_for_go(bench) != 0) return -1;
  if ((one_by_one ? act_one_by_one : act_in_windows)(bench, operations, record) != 0) return -1;
  return tell(bench, FINISHED) != 0 ? -1 : slot_wait(&bench->acks[0]);
}

static int attend(struct bench *bench, uint64_t operations) {
  const struct way *way = bench->test->way;
  if (way->expect != NULL) way->expect(bench);
  bench->ack_words[2][0] = ALIVE;
  if (post_ack(&bench->acks[2]) != 0 || give_go(bench) != 0) return -1;
  for (;;) {
    if (slot_wait(&bench->acks[2]) != 0 || interrupted(bench) != 0) return -1;
    if (bench->ack_words[2][0] == FINISHED) break;
    if (post_ack(&bench->acks[2]) != 0) return -1;
  }
  return way->audit != NULL ? way->audit(bench, operations) : 0;
}

/* ------------------------------------------------------------------ choice */

int bench_client(struct bench *bench, uint64_t messages, bool record) {
  if (bench->test->way->start != NULL) return act(bench, messages, record);
  return (bench->test->pattern->bit == LATENCY ? ping : pour)(bench, messages, record);
}

int bench_server(struct bench *bench, uint64_t messages) {
  if (bench->test->way->start != NULL) return attend(bench, messages);
  return (bench->test->pattern->bit == LATENCY ? pong : drain)(bench, messages);
}
