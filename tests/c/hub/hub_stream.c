/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* A link here and one in another process form a stream: every chunk arrives whole and in order, and
 * then the end. */
#include "hub_stream.h"

enum { SIZE = 200000, ENVELOPES = 6, STREAM = 7 };

static pair_t *both;

/* From side 0 to side 1, which has `there` envelopes. The side `late` connects after the other
 * one. */
static void transfer(const char *what, uint64_t chunks, uint32_t window, size_t there, int late) {
  STEP("%s: %llu chunks, window %u, %zu envelopes there", what, (unsigned long long)chunks, window,
       there);
  end_t end = end_open(both->context, both->worker, SIZE, both->side == 0 ? ENVELOPES : there);
  ucxx_link_t *link = both->side == 0 ? end.out : end.in;
  if (late == both->side) pair_await(both);
  CHECK_OK(ucxx_link_connect(link, both->endpoint, STREAM, window));
  /* A late receiver may have received everything by now, including the end. */
  if (late != 1 || both->side == 0) {
    CHECK_STATUS(ucxx_link_connect(link, both->endpoint, STREAM, window), UCXX_ERR_BUSY);
    lease_none(link, UCXX_ERR_BUSY);
  }
  if (late == !both->side) pair_tell(both);
  if (both->side == 0) {
    for (uint64_t number = 0; number < chunks; number++) produce_chunk(&end, both->seed, number);
    drain(&end);
    CHECK_EQ(hub_stats(end.hub).chunks_consumed, chunks);
    CHECK_EQ(hub_stats(end.hub).leased_envelopes, 0);
    CHECK_EQ(hub_stats(end.hub).free_envelopes, ENVELOPES);
    lease_none(link, UCXX_ERR_CLOSED);
  } else {
    for (uint64_t number = 0; number < chunks; number++)
      CHECK_OK(consume_chunk(&end, both->seed, number, SIZE));
    CHECK_STATUS(consume_chunk(&end, both->seed, chunks, SIZE), UCXX_ERR_CLOSED);
    CHECK_EQ(hub_stats(end.hub).chunks_produced, chunks);
    CHECK_EQ(hub_stats(end.hub).free_envelopes, there);
  }
  end_close(&end);
  pair_sync(both);
}

static void round_of(const ucxx_worker_params_t *params, const char *mode) {
  pair_connect(both, NULL, params, NULL);
  transfer(mode, 3000, 4, ENVELOPES, -1);
  transfer(mode, 300, 1, 1, 0);
  transfer(mode, 300, 16, 2, 1);
  transfer(mode, 0, 3, 3, 0);
  transfer(mode, 1, 3, 3, 1);
  pair_disconnect(both);
}

static void body(pair_t *pair) {
  both = pair;
  in_every_mode(round_of);
}

int main(int argc, char **argv) { return pair_main(argc, argv, "hub_stream", body); }
