/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* In steady state neither end of a stream allocates, whatever the length of its chunks. The test
 * counts allocations. */
#include "allocations.h"
#include "hub_stream.h"

enum { SIZE = 100000, ENVELOPES = 6, WINDOW = 3, WARM = 1000, COUNTED = 4000 };

/* Transfers so many chunks of this length from left to right. */
static void transfer(end_t *left, end_t *right, size_t length, uint64_t chunks) {
  uint64_t sent = 0, came = 0;
  while (came < chunks) {
    ucxx_envelope_t *envelope = NULL;
    if (sent < chunks && ucxx_link_lease(left->in, 0, &envelope) == UCXX_OK) {
      CHECK_OK(ucxx_envelope_commit(envelope, length, NULL));
      sent++;
    }
    if (ucxx_link_lease(right->out, 0, &envelope) == UCXX_OK) {
      CHECK_EQ(look_at(envelope).length, length);
      CHECK_OK(ucxx_envelope_commit(envelope, 0, NULL));
      came++;
    }
    progress(left->worker);
    progress(right->worker);
  }
}

int main(void) {
  static const size_t lengths[] = {0, 8, 3000, 15000, SIZE};
  duo_t duo;
  test_begin("hub_stream_alloc");
  duo_open(&duo, NULL);
  end_t left = end_open(duo.context, duo.left, SIZE, ENVELOPES),
        right = end_open(duo.context, duo.right, SIZE, ENVELOPES);
  CHECK_OK(ucxx_link_connect(left.out, duo.to_right, 1, WINDOW));
  CHECK_OK(ucxx_link_connect(right.in, duo.to_left, 1, WINDOW));
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
    STEP("chunks of %zu bytes", lengths[at]);
    transfer(&left, &right, lengths[at], WARM);
    own_allocations = 0;
    counting = 1;
    transfer(&left, &right, lengths[at], COUNTED);
    counting = 0;
    CHECK_EQ(own_allocations, 0);
  }
  /* Shows that the counter works: an error text is allocated. */
  counting = 1;
  lease_none(left.out, UCXX_ERR_BUSY);
  counting = 0;
  CHECK(own_allocations > 0);
  end_close(&left);
  end_close(&right);
  duo_close(&duo);
  return 0;
}
