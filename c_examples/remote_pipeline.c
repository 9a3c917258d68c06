/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * remote_pipeline.c: a pipeline through two processes, over connected hubs.
 *
 *     cc -o remote_pipeline remote_pipeline.c $(pkg-config --cflags --libs ucxx_rs) -pthread
 *     ./remote_pipeline 0 hubs.socket & ./remote_pipeline 1 hubs.socket; wait
 *
 *     78498 primes below 1000000, found by the other process
 *
 * Rank 0 produces chunks of numbers. Rank 1 keeps the primes and sends them back, and rank 0 counts
 * them.
 *
 *     rank 0: produce -> [numbers] ------- stream 1 ------> [numbers] -> filter
 *             count   <- [primes]  <------ stream 2 ------- [primes]  <-   (rank 1)
 *
 * Each stage sees only the hub in its own process: it leases an envelope, works on it, and commits
 * it. ucxx_link_connect connects a link that consumes in one process with a link that produces in
 * the other. Chunks then move from envelope to envelope, and never more of them than the receiver
 * has envelopes for. The end of the numbers passes through by ucxx_hub_close: each hub is closed
 * after the one before it is closed and empty.
 *
 * The progress thread moves the chunks, so a stage can simply wait.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#include <pthread.h>

#define NUMBERS 1000000
#define PRIMES 78498 /* the number of primes below NUMBERS */
#define PER_CHUNK 4096
#define ENVELOPES 4
#define WINDOW 3 /* chunks in flight at a time */

static const ucxx_memory_kind_t host = {UCXX_MEMORY_HOST, 0};

static ucxx_hub_t *make_hub(const struct pair *pair) {
  ucxx_hub_params_t params = UCXX_HUB_PARAMS_INIT;
  ucxx_hub_t *hub;
  params.envelope_size = PER_CHUNK * sizeof(uint32_t);
  /* The worker that sends and receives chunks of this hub. */
  params.worker = pair->worker;
  check(ucxx_hub_create(pair->context, &params, &hub), "a hub");
  check(ucxx_hub_add_envelopes(hub, host, ENVELOPES), "envelopes");
  return hub;
}

static ucxx_link_t *make_link(ucxx_hub_t *hub, int32_t type) {
  ucxx_link_t *link;
  check(ucxx_link_create(hub, type, host, NULL, &link), "a link");
  return link;
}

static ucxx_envelope_attr_t look(const ucxx_envelope_t *envelope) {
  ucxx_envelope_attr_t attr = UCXX_ENVELOPE_ATTR_INIT;
  check(ucxx_envelope_query(envelope, &attr), "an envelope");
  return attr;
}

/* No more chunks will come. Returns when the other side has all of them. */
static void end_of(ucxx_hub_t *hub) {
  check(ucxx_hub_close(hub), "the end of a hub");
  check(ucxx_hub_drain(hub, PAIR_TIMEOUT_NS), "everything has arrived");
}

static void *produce(void *arg) {
  ucxx_hub_t *hub = arg;
  ucxx_link_t *link = make_link(hub, UCXX_LINK_PRODUCE);
  ucxx_envelope_t *envelope;
  for (uint32_t number = 0; number < NUMBERS;) {
    check(ucxx_link_lease(link, UINT64_MAX, &envelope), "an envelope for numbers");
    ucxx_envelope_attr_t attr = look(envelope);
    /* Metadata travels with the chunk. Here it is the chunk's first number. */
    memcpy(attr.metadata, &number, sizeof number);
    size_t count = 0;
    while (count < PER_CHUNK && number < NUMBERS) ((uint32_t *)attr.data)[count++] = number++;
    check(ucxx_envelope_commit(envelope, count * sizeof number, NULL), "a chunk of numbers");
  }
  end_of(hub);
  ucxx_link_destroy(link);
  return NULL;
}

static bool is_prime(uint32_t number) {
  for (uint32_t divisor = 2; divisor * divisor <= number; divisor++) {
    if (number % divisor == 0) return false;
  }
  return number > 1;
}

/* Rank 1. Leases an envelope of each hub, both or none, so that it never holds one while it waits
 * for the other. */
static void filter(ucxx_link_t *in, ucxx_link_t *out) {
  ucxx_link_t *links[] = {in, out};
  ucxx_envelope_t *envelopes[2];
  ucxx_status_t status;
  while ((status = ucxx_link_lease_many(links, 2, UINT64_MAX, envelopes)) == UCXX_OK) {
    ucxx_envelope_attr_t numbers = look(envelopes[0]), primes = look(envelopes[1]);
    size_t count = 0;
    for (size_t at = 0; at < numbers.length / sizeof(uint32_t); at++) {
      uint32_t number = ((const uint32_t *)numbers.data)[at];
      if (is_prime(number)) ((uint32_t *)primes.data)[count++] = number;
    }
    memcpy(primes.metadata, numbers.metadata, numbers.metadata_length);
    check(ucxx_envelope_commit(envelopes[0], 0, NULL), "the numbers are done with");
    check(ucxx_envelope_commit(envelopes[1], count * sizeof(uint32_t), NULL), "primes");
  }
  require(status == UCXX_ERR_CLOSED, "the end of the numbers");
}

static size_t count(ucxx_link_t *link) {
  ucxx_envelope_t *envelope;
  ucxx_status_t status;
  size_t primes = 0;
  uint32_t expected = 0;
  while ((status = ucxx_link_lease(link, UINT64_MAX, &envelope)) == UCXX_OK) {
    ucxx_envelope_attr_t attr = look(envelope);
    require(memcmp(attr.metadata, &expected, sizeof expected) == 0, "chunks come in their order");
    expected += PER_CHUNK;
    primes += attr.length / sizeof(uint32_t);
    check(ucxx_envelope_commit(envelope, 0, NULL), "they are counted");
  }
  require(status == UCXX_ERR_CLOSED, "the end of the primes");
  return primes;
}

int main(int argc, char **argv) {
  struct pair pair;
  ucxx_worker_params_t params = UCXX_WORKER_PARAMS_INIT;
  params.thread_mode = UCXX_THREAD_MULTI;
  params.progress_mode = UCXX_PROGRESS_THREAD_ADAPTIVE;
  pair_open_with(&pair, argc, argv, &params, NULL);

  ucxx_hub_t *numbers = make_hub(&pair), *primes = make_hub(&pair);
  /* What one process consumes, the other produces. Both call ucxx_link_connect, in any order. */
  ucxx_link_t *leaves = make_link(pair.rank == 0 ? numbers : primes, UCXX_LINK_CONSUME);
  ucxx_link_t *arrives = make_link(pair.rank == 0 ? primes : numbers, UCXX_LINK_PRODUCE);
  check(ucxx_link_connect(leaves, pair.endpoint, pair.rank == 0 ? 1 : 2, WINDOW),
        "the stream to the other side");
  check(ucxx_link_connect(arrives, pair.endpoint, pair.rank == 0 ? 2 : 1, WINDOW),
        "the stream from there");

  if (pair.rank == 0) {
    pthread_t producer;
    require(pthread_create(&producer, NULL, produce, numbers) == 0, "a thread");
    ucxx_link_t *found_here = make_link(primes, UCXX_LINK_CONSUME);
    size_t found = count(found_here);
    ucxx_link_destroy(found_here);
    pthread_join(producer, NULL);
    require(found == PRIMES, "as many primes as there are");
    printf("%zu primes below %d, found by the other process\n", found, NUMBERS);
  } else {
    ucxx_link_t *in = make_link(numbers, UCXX_LINK_CONSUME),
                *out = make_link(primes, UCXX_LINK_PRODUCE);
    filter(in, out);
    end_of(primes);
    ucxx_link_destroy(in);
    ucxx_link_destroy(out);
  }

  ucxx_link_destroy(leaves);
  ucxx_link_destroy(arrives);
  ucxx_hub_destroy(numbers);
  ucxx_hub_destroy(primes);
  pair_close(&pair);
  return 0;
}
