/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright the ucxx_rs developers */
/*
 * Leases through links of several hubs, named in every order by several threads at once. Each gets
 * all or nothing, so no two threads deadlock, and none sees another's transaction half done.
 */
#include <pthread.h>

#include "hub.h"

enum { SIZE = 64, HUBS = 5, MOST = 4, WORKERS = 4, ROUNDS = 10000, LOOKS = 10000 };

/* An account is a hub with one chunk, its balance. A transaction replaces the chunks of several
 * accounts. */
typedef struct clerk {
  uint64_t seed;
  ucxx_link_t *out[HUBS], *in[HUBS]; /* this thread's links to each account */
} clerk_t;

static uint64_t draw(clerk_t *clerk, uint64_t below) { return test_mix(clerk->seed++) % below; }

static void shuffle(clerk_t *clerk, int *order, int count) {
  for (int at = count - 1; at > 0; at--) {
    int other = (int)draw(clerk, (uint64_t)at + 1), kept = order[at];
    order[at] = order[other];
    order[other] = kept;
  }
}

/* Waits, or polls: both must have the same result. */
static void lease_all(clerk_t *clerk, ucxx_link_t *const *links, int count,
                      ucxx_envelope_t **envelopes) {
  ucxx_status_t status = UCXX_ERR_NO_RESOURCE;
  if (draw(clerk, 2) == 0) {
    for (int tries = 0; status == UCXX_ERR_NO_RESOURCE && tries < 4; tries++)
      status = ucxx_link_lease_many(links, (size_t)count, 0, envelopes);
    if (status == UCXX_ERR_NO_RESOURCE)
      for (int at = 0; at < count; at++) CHECK(envelopes[at] == NULL);
  }
  if (status == UCXX_ERR_NO_RESOURCE)
    status = ucxx_link_lease_many(links, (size_t)count, FOR_EVER, envelopes);
  CHECK_OK(status);
}

/* Takes an amount from one account and divides it among two or three others. */
static void *work(void *arg) {
  clerk_t *clerk = arg;
  for (uint64_t round = 0; round < ROUNDS; round++) {
    int accounts[HUBS] = {0, 1, 2, 3, 4}, slots[2 * MOST];
    int count = 3 + (int)draw(clerk, 2);
    shuffle(clerk, accounts, HUBS);
    for (int at = 0; at < 2 * count; at++) slots[at] = at;
    shuffle(clerk, slots, 2 * count);
    /* Slots 0 to count - 1 are the old chunks, the others their replacements. */
    ucxx_link_t *links[2 * MOST];
    ucxx_envelope_t *envelopes[2 * MOST] = {NULL}, *from[MOST], *to[MOST];
    for (int at = 0; at < 2 * count; at++) {
      int account = accounts[slots[at] % count];
      links[at] = slots[at] < count ? clerk->out[account] : clerk->in[account];
    }
    lease_all(clerk, links, 2 * count, envelopes);
    for (int at = 0; at < 2 * count; at++)
      *(slots[at] < count ? &from[slots[at]] : &to[slots[at] - count]) = envelopes[at];
    int gives_up = draw(clerk, 8) == 0;
    int64_t amount = 1 + (int64_t)draw(clerk, 100);
    for (int at = 0; at < count; at++) {
      int64_t balance = *(const int64_t *)look_at(from[at]).data,
              change = at == 0 ? -amount * (count - 1) : amount;
      CHECK_EQ(look_at(from[at]).length, 16);
      CHECK_EQ(word_of(from[at])[1], (uint64_t)accounts[at]);
      word_of(to[at])[0] = (uint64_t)(balance + change);
      word_of(to[at])[1] = (uint64_t)accounts[at];
    }
    if (gives_up) {
      for (int at = 0; at < 2 * count; at++) CHECK_OK(ucxx_envelope_abort(envelopes[at], NULL));
      continue;
    }
    for (int at = 0; at < count; at++) CHECK_OK(ucxx_envelope_commit(to[at], 16, NULL));
    for (int at = 0; at < count; at++) CHECK_OK(ucxx_envelope_commit(from[at], 0, NULL));
  }
  return NULL;
}

/* A thread that holds the chunks of all accounts sees no transaction in progress. */
static void *audit(void *arg) {
  clerk_t *clerk = arg;
  for (uint64_t look = 0; look < LOOKS; look++) {
    int order[HUBS] = {0, 1, 2, 3, 4};
    ucxx_link_t *links[HUBS];
    ucxx_envelope_t *envelopes[HUBS] = {NULL};
    int64_t sum = 0;
    shuffle(clerk, order, HUBS);
    for (int at = 0; at < HUBS; at++) links[at] = clerk->out[order[at]];
    lease_all(clerk, links, HUBS, envelopes);
    for (int at = 0; at < HUBS; at++) {
      CHECK_EQ(word_of(envelopes[at])[1], (uint64_t)order[at]);
      sum += *(const int64_t *)look_at(envelopes[at]).data;
    }
    CHECK_EQ(sum, 0);
    for (int at = 0; at < HUBS; at++) CHECK_OK(ucxx_envelope_abort(envelopes[at], NULL));
  }
  return NULL;
}

int main(void) {
  test_begin("hub_multi_lease");
  uint64_t seed = test_seed();
  hub_t accounts[HUBS];
  clerk_t clerks[WORKERS + 1];
  pthread_t threads[WORKERS + 1];
  STEP("%d threads with 6 or 8 links in any order, and one with %d, on %d hubs", WORKERS, HUBS,
       HUBS);
  for (int at = 0; at < HUBS; at++) {
    ucxx_envelope_t *envelope = NULL;
    accounts[at] = hub_open(SIZE, 2, 0);
    CHECK_OK(ucxx_hub_push(accounts[at].hub, on_host, &envelope));
    word_of(envelope)[0] = 0;
    word_of(envelope)[1] = (uint64_t)at;
    CHECK_OK(ucxx_envelope_commit(envelope, 16, NULL));
  }
  for (int number = 0; number <= WORKERS; number++) {
    clerk_t *clerk = &clerks[number];
    clerk->seed = seed + ((uint64_t)number << 32);
    for (int at = 0; at < HUBS; at++) {
      clerk->out[at] = hub_link(accounts[at].hub, UCXX_LINK_CONSUME, on_host);
      clerk->in[at] = hub_link(accounts[at].hub, UCXX_LINK_PRODUCE, on_host);
    }
  }
  for (int number = 0; number <= WORKERS; number++)
    CHECK_EQ(
        pthread_create(&threads[number], NULL, number < WORKERS ? work : audit, &clerks[number]),
        0);
  for (int number = 0; number <= WORKERS; number++)
    CHECK_EQ(pthread_join(threads[number], NULL), 0);
  STEP("at the end: one chunk each, and no leases");
  int64_t sum = 0;
  for (int at = 0; at < HUBS; at++) {
    ucxx_hub_stats_t stats = hub_stats(accounts[at].hub);
    CHECK_EQ(stats.queued_chunks, 1);
    CHECK_EQ(stats.leased_envelopes, 0);
    CHECK_EQ(stats.free_envelopes, 1);
    ucxx_envelope_t *envelope = lease_now(clerks[0].out[at]);
    sum += *(const int64_t *)look_at(envelope).data;
    CHECK_OK(ucxx_envelope_abort(envelope, NULL));
  }
  CHECK_EQ(sum, 0);
  for (int number = 0; number <= WORKERS; number++)
    for (int at = 0; at < HUBS; at++) {
      ucxx_link_destroy(clerks[number].out[at]);
      ucxx_link_destroy(clerks[number].in[at]);
    }
  for (int at = 0; at < HUBS; at++) hub_close(&accounts[at]);
  return 0;
}
