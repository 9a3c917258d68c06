/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/* In steady state hubs allocate nothing, whatever is done with a chunk. The test counts
 * allocations. */
#include "allocations.h"
#include "hub_stream.h"

enum { SIZE = 64, MESSAGE = 100000, WARM = 100, ROUNDS = 20000, LONG_RUN = 1000000 };

typedef struct ways {
  ucxx_hub_t *hub;
  ucxx_link_t *in, *out, *modify, *all;
  int called;
} ways_t;

static void on_ready(void *arg, ucxx_link_t *link, ucxx_status_t status) {
  ways_t *ways = arg;
  (void)link;
  CHECK_OK(status);
  ways->called++;
}

/* A chunk is produced, copied, modified, consumed through several links at once, refused; pushed,
 * peeked at and popped. */
static void go_all_ways(ways_t *ways, uint64_t word) {
  ucxx_envelope_t *envelope = NULL, *envelopes[3];
  ucxx_link_t *several[] = {ways->out, ways->all, ways->in};
  produce_word(ways->in, word);
  CHECK_OK(ucxx_hub_set_flow(ways->hub, &ways->modify, 1));
  envelope = lease_now(ways->modify);
  (*word_of(envelope))++;
  CHECK_OK(ucxx_envelope_commit(envelope, 8, NULL));
  CHECK_OK(ucxx_hub_set_flow(ways->hub, NULL, 0));
  CHECK_OK(ucxx_link_lease_many(several, 3, 0, envelopes));
  CHECK_EQ(*word_of(envelopes[0]), word + 1);
  CHECK_EQ(*word_of(envelopes[1]), word + 1);
  CHECK_OK(ucxx_envelope_abort(envelopes[2], NULL));
  CHECK_OK(ucxx_envelope_commit(envelopes[0], 0, NULL));
  CHECK_OK(ucxx_envelope_commit(envelopes[1], 0, NULL));
  lease_none(ways->out, UCXX_ERR_NO_RESOURCE);
  push_word(ways->hub, on_host, word);
  CHECK_EQ(peek_word(ways->hub, on_dummy), word);
  CHECK_OK(ucxx_hub_pop(ways->hub));
  CHECK_OK(ucxx_link_arm(ways->out));
}

/* One kind of host memory and competing consumers: such a hub needs no lock, except when a call now
 * and then asks for more. */
static void plain(void) {
  STEP("no allocation in a plain hub");
  hub_t hub = hub_open(SIZE, 4, 0);
  ucxx_link_t *in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host),
              *out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_host);
  for (int asks = 0; asks < 2; asks++) {
    for (uint64_t word = 0; word < LONG_RUN; word++) {
      /* Long enough for the hub to enter and leave each state. */
      counting = word >= LONG_RUN / 2;
      produce_word(in, word);
      if (asks && word % 300 < 3) CHECK_EQ(ucxx_hub_length(hub.hub), 1);
      if (word % 5 == 0) CHECK_OK(ucxx_envelope_abort(lease_now(out), NULL));
      CHECK_EQ(consume_word(out), word);
      if (word % 7 == 0) CHECK_OK(ucxx_envelope_abort(lease_now(in), NULL));
    }
    counting = 0;
    CHECK_EQ(allocations, 0);
  }
  CHECK_EQ(hub_stats(hub.hub).chunks_consumed, 2 * LONG_RUN);
  ucxx_link_destroy(in);
  ucxx_link_destroy(out);
  hub_close(&hub);
}

static void one_message(const duo_t *duo, end_t *left, end_t *right, size_t length) {
  ucxx_request_t *send = NULL, *receive = NULL;
  ucxx_status_t received = ucxx_link_recv(right->in, 1, UINT64_MAX, NULL, &receive);
  CHECK_OK(ucxx_envelope_commit(lease_now(left->in), length, NULL));
  ucxx_status_t sent = ucxx_link_send(left->out, duo->to_right, 1, NULL, &send);
  CHECK_OK(duo_finish(duo, sent, &send));
  CHECK_OK(duo_finish(duo, received, &receive));
  CHECK_OK(ucxx_envelope_commit(lease_now(right->out), 0, NULL));
}

/* How many allocations UCX makes depends on its release. */
static void messages(void) {
  static const size_t lengths[] = {0, 8, 3000, MESSAGE};
  duo_t duo;
  duo_open(&duo, NULL);
  end_t left = end_open(duo.context, duo.left, MESSAGE, 4),
        right = end_open(duo.context, duo.right, MESSAGE, 4);
  for (size_t at = 0; at < sizeof lengths / sizeof *lengths; at++) {
    STEP("no allocation for messages of %zu bytes from and into envelopes", lengths[at]);
    for (int round = 0; round < 10 * WARM; round++) one_message(&duo, &left, &right, lengths[at]);
    own_allocations = 0;
    counting = 1;
    for (int round = 0; round < 20 * WARM; round++) one_message(&duo, &left, &right, lengths[at]);
    counting = 0;
    CHECK_EQ(own_allocations, 0);
  }
  /* Shows that the counter works: an error text is allocated. */
  ucxx_request_t *request = NULL;
  counting = 1;
  CHECK_STATUS(ucxx_link_send(left.in, duo.to_right, 1, NULL, &request), UCXX_ERR_INVALID_PARAM);
  counting = 0;
  CHECK(own_allocations > 0);
  end_close(&left);
  end_close(&right);
  duo_close(&duo);
}

int main(void) {
  test_begin("hub_alloc");
  STEP("the counter works: a new hub allocates");
  counting = 1;
  hub_t hub = hub_open(SIZE, 4, 4);
  CHECK(allocations > 0);
  counting = 0;
  allocations = 0;
  ways_t ways = {.hub = hub.hub};
  ucxx_link_params_t params = UCXX_LINK_PARAMS_INIT;
  params.broadcast = 1;
  params.on_ready = on_ready;
  params.on_ready_arg = &ways;
  ways.in = hub_link(hub.hub, UCXX_LINK_PRODUCE, on_host);
  ways.out = hub_link(hub.hub, UCXX_LINK_CONSUME, on_dummy);
  ways.modify = hub_link(hub.hub, UCXX_LINK_MODIFY, on_dummy);
  CHECK_OK(ucxx_link_create(hub.hub, UCXX_LINK_CONSUME, on_host, &params, &ways.all));
  for (uint64_t round = 0; round < WARM; round++) go_all_ways(&ways, round);
  STEP("no allocation in steady state");
  counting = 1;
  for (uint64_t round = 0; round < ROUNDS; round++) go_all_ways(&ways, round);
  counting = 0;
  CHECK_EQ(allocations, 0);
  CHECK(ways.called >= ROUNDS);
  STEP("no allocation in a million chunks with a copy each");
  ucxx_link_destroy(ways.all);
  counting = 1;
  for (uint64_t word = 0; word < LONG_RUN; word++) {
    produce_word(ways.in, word);
    CHECK_EQ(consume_word(ways.out), word);
  }
  counting = 0;
  CHECK_EQ(allocations, 0);
  ucxx_link_destroy(ways.in);
  ucxx_link_destroy(ways.out);
  ucxx_link_destroy(ways.modify);
  hub_close(&hub);
  plain();
  messages();
  return 0;
}
