/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Links of a stream are destroyed and replaced on both sides, between any two messages of the other
 * side. The final pair connects, and no chunk is lost, duplicated or out of order. One thread does
 * everything, in an order given by the seed.
 */
#include "hub_stream.h"

enum { SIZE = 100, ENVELOPES = 4, STREAM = 11, ROUNDS = 400, MOST_CHUNKS = 20, MOST_CUTS = 40 };

typedef struct half {
  end_t end;
  ucxx_endpoint_t *to;
  int sends, waits;
  uint32_t window;
} half_t;

static uint64_t state;

static uint64_t below(uint64_t limit) { return test_mix(state++) % limit; }

static void connect_if_free(half_t *half) {
  if (!half->waits) return;
  ucxx_status_t status =
      ucxx_link_connect(half->sends ? half->end.out : half->end.in, half->to, STREAM, half->window);
  if (status == UCXX_ERR_ALREADY_EXISTS) return;
  /* The end may have arrived before its link was destroyed. */
  CHECK(status == UCXX_OK || (status == UCXX_ERR_CLOSED && !half->sends));
  half->waits = 0;
}

static void cut(half_t *half) {
  ucxx_link_t **link = half->sends ? &half->end.out : &half->end.in;
  ucxx_link_destroy(*link);
  *link = hub_link(half->end.hub, half->sends ? UCXX_LINK_CONSUME : UCXX_LINK_PRODUCE, on_host);
  half->waits = 1;
}

static void round_of(const duo_t *duo, uint64_t seed) {
  uint64_t chunks = 1 + below(MOST_CHUNKS), cuts = below(MOST_CUTS), made = 0, taken = 0;
  half_t halves[2] = {
      {.end = end_open(duo->context, duo->left, SIZE, ENVELOPES),
       .to = duo->to_right,
       .sends = 1,
       .waits = 1,
       .window = 1 + (uint32_t)below(3)},
      {.end = end_open(duo->context, duo->right, SIZE, ENVELOPES),
       .to = duo->to_left,
       .sends = 0,
       .waits = 1,
       .window = 1 + (uint32_t)below(3)},
  };
  uint64_t often = 2 + below(8), seldom = below(3);
  int closed = 0;
  ucxx_status_t status = UCXX_OK;
  while (status != UCXX_ERR_CLOSED) {
    uint64_t side = below(2), what = below(often + 4);
    half_t *half = &halves[side];
    ucxx_envelope_t *envelope = NULL;
    connect_if_free(half);
    if (what >= 4) {
      /* One side may run ahead of the other. */
      CHECK_OK(ucxx_worker_progress(halves[below(3) == 0 ? seldom % 2 : side].end.worker, NULL));
    } else if (what == 0 && cuts > 0 && !(half->sends && closed)) {
      /* A sending link that is created after the end was received would wait for another
       * receiver. */
      cut(half);
      cuts--;
    } else if (what == 1 && made < chunks) {
      status = ucxx_link_lease(halves[0].end.in, 0, &envelope);
      if (status == UCXX_OK) fill_chunk(envelope, seed, made++);
    } else if (what == 1 && !closed) {
      closed = 1;
      CHECK_OK(ucxx_hub_close(halves[0].end.hub));
    } else if (what == 2) {
      status = ucxx_link_lease(halves[1].end.out, 0, &envelope);
      if (status == UCXX_OK) {
        CHECK_EQ(read_chunk(envelope, seed, SIZE), taken++);
        CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
      }
    }
    CHECK(status == UCXX_OK || status == UCXX_ERR_NO_RESOURCE || status == UCXX_ERR_CLOSED);
  }
  CHECK_EQ(made, chunks);
  CHECK_EQ(taken, chunks);
  while ((status = ucxx_hub_drain(halves[0].end.hub, 0)) == UCXX_ERR_TIMED_OUT) duo_progress(duo);
  CHECK_OK(status);
  for (int at = 0; at < 2; at++) {
    CHECK_EQ(hub_stats(halves[at].end.hub).free_envelopes, ENVELOPES);
    end_close(&halves[at].end);
  }
}

int main(void) {
  test_begin("hub_stream_reconnect");
  duo_t duo;
  duo_open(&duo, NULL);
  uint64_t seed = test_seed();
  state = seed;
  for (int round = 0; round < ROUNDS; round++) {
    STEP("round %d", round);
    round_of(&duo, seed + (uint64_t)round);
  }
  duo_close(&duo);
  return 0;
}
