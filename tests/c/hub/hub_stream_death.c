/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * The process at the other end of a stream is killed. A killed receiver's unacknowledged chunks are
 * offered again, and another process gets them: none is missing. From a killed sender a prefix of
 * the stream has arrived, whole and in order.
 */
#include "hub_stream.h"
#include "killed_peer.h"

enum { SIZE = 100000, ENVELOPES = 4, WINDOW = 3, STREAM = 5, CHUNKS = 200, BEFORE = 60 };
static const uint64_t SEED = 11;

static ucxx_context_t *context;
static ucxx_worker_t *worker;
static const way_t *mode;

/* The victim's role, from its second argument: it sends or receives. */
static void other_side(pair_t pair, char role) {
  CHECK_OK(ucxx_context_create(NULL, &context));
  CHECK_OK(ucxx_worker_create(context, NULL, &worker));
  ucxx_endpoint_t *back = victim_answer(&pair, worker);
  end_t end = end_open(context, worker, SIZE, ENVELOPES);
  CHECK_OK(ucxx_link_connect(role == 's' ? end.out : end.in, back, STREAM, WINDOW));
  for (uint64_t number = 0; role == 's'; number++) produce_chunk(&end, SEED, number);
  uint64_t expected = UINT64_MAX;
  for (;;) {
    ucxx_envelope_t *envelope = NULL;
    ucxx_status_t status;
    while ((status = ucxx_link_lease(end.out, 0, &envelope)) == UCXX_ERR_NO_RESOURCE)
      progress(worker);
    if (status == UCXX_ERR_CLOSED) break;
    CHECK_OK(status);
    uint64_t number = read_chunk(envelope, SEED, SIZE);
    CHECK(expected == UINT64_MAX || number == expected);
    expected = number + 1;
    channel_put(&pair, &number, sizeof number);
    CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
  }
  /* Everything has arrived: the survivor reports it and waits to be killed. */
  expected = UINT64_MAX;
  channel_put(&pair, &expected, sizeof expected);
  for (;;) progress(worker);
}

static uint64_t told(const victim_t *victim) {
  uint64_t number = 0;
  channel_get(&victim->pair, &number, sizeof number);
  return number;
}

static int has_told(const victim_t *victim) {
  uint8_t byte;
  return recv(victim->pair.channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static void end_victim(victim_t *victim) {
  victim_kill(victim);
  victim_await_end(victim, worker, mode);
}

/* Fills the hub as far as possible. */
static uint64_t produce_more(end_t *end, uint64_t number, uint64_t most) {
  ucxx_envelope_t *envelope = NULL;
  while (number < most && ucxx_link_lease(end->in, 0, &envelope) == UCXX_OK)
    fill_chunk(envelope, SEED, number++);
  return number;
}

static void receiver_dies(void) {
  STEP("%s: the receiver is killed", mode->name);
  victim_t first, second;
  uint64_t produced = 0, seen = 0;
  end_t end = end_open(context, worker, SIZE, ENVELOPES);
  victim_connect(&first, worker, "r");
  CHECK_OK(ucxx_link_connect(end.out, first.endpoint, STREAM, WINDOW));
  while (seen < BEFORE) {
    produced = produce_more(&end, produced, CHUNKS);
    if (has_told(&first)) CHECK_EQ(told(&first), seen++);
    progress(worker);
  }
  end_victim(&first);
  /* The chunks are back before on_close has run; the oldest is the first that was not
   * acknowledged. */
  ucxx_envelope_t *envelope = NULL;
  uint64_t acknowledged = hub_stats(end.hub).chunks_consumed;
  CHECK_EQ(ucxx_hub_length(end.hub) + acknowledged, produced);
  CHECK_EQ(hub_stats(end.hub).leased_envelopes, 0);
  if (acknowledged < produced) {
    CHECK_OK(ucxx_link_lease(end.out, 0, &envelope));
    CHECK_EQ(read_chunk(envelope, SEED, SIZE), acknowledged);
    CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  }
  victim_connect(&second, worker, "r");
  CHECK_OK(ucxx_link_connect(end.out, second.endpoint, STREAM, WINDOW));
  /* From the first unacknowledged chunk to the last, each once and in order. */
  seen = acknowledged;
  while (produced < CHUNKS) {
    produced = produce_more(&end, produced, CHUNKS);
    progress(worker);
  }
  drain(&end);
  for (; seen < CHUNKS; seen++) CHECK_EQ(told(&second), seen);
  CHECK_EQ(told(&second), UINT64_MAX);
  CHECK_EQ(hub_stats(end.hub).chunks_consumed, CHUNKS);
  end_victim(&second);
  end_close(&end);
  victim_bury(&first);
  victim_bury(&second);
}

static void sender_dies(void) {
  STEP("%s: the sender is killed", mode->name);
  victim_t first, second;
  uint64_t seen = 0;
  end_t end = end_open(context, worker, SIZE, ENVELOPES);
  victim_connect(&first, worker, "s");
  CHECK_OK(ucxx_link_connect(end.in, first.endpoint, STREAM, WINDOW));
  while (seen < BEFORE) CHECK_OK(consume_chunk(&end, SEED, seen++, SIZE));
  end_victim(&first);
  CHECK_EQ(hub_stats(end.hub).leased_envelopes, 0);
  /* A prefix has arrived. The hub stays open: another sender may bring the rest. */
  uint64_t came = hub_stats(end.hub).chunks_produced;
  while (seen < came) CHECK_OK(consume_chunk(&end, SEED, seen++, SIZE));
  lease_none(end.out, UCXX_ERR_NO_RESOURCE);
  CHECK_EQ(hub_stats(end.hub).free_envelopes, ENVELOPES);
  victim_connect(&second, worker, "s");
  CHECK_OK(ucxx_link_connect(end.in, second.endpoint, STREAM, WINDOW));
  for (seen = 0; seen < BEFORE; seen++) CHECK_OK(consume_chunk(&end, SEED, seen, SIZE));
  end_victim(&second);
  end_close(&end);
  victim_bury(&first);
  victim_bury(&second);
}

int main(int argc, char **argv) {
  if (argc == 3 || argc == 2) other_side(victim_channel(argv[1]), argc == 3 ? argv[2][0] : 'r');
  test_begin("hub_stream_death");
  for (size_t way = 0; way < WAYS; way++) {
    mode = &ways[way];
    ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
    params.progress_mode = mode->progress;
    params.thread_mode =
        mode->progress == UCXX_PROGRESS_MANUAL ? UCXX_THREAD_SINGLE : UCXX_THREAD_MULTI;
    CHECK_OK(ucxx_context_create(NULL, &context));
    CHECK_OK(ucxx_worker_create(context, &params, &worker));
    for (int round = 0; round < 3; round++) {
      receiver_dies();
      sender_dies();
    }
    ucxx_worker_destroy(worker);
    ucxx_context_destroy(context);
  }
  return 0;
}
