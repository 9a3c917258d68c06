/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * backpressure.c: a producer that is faster than its consumer, and waits instead of filling memory.
 *
 *     cc -o backpressure backpressure.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./backpressure 0 bp.socket & ./backpressure 1 bp.socket; wait
 *
 * It prints how often the producer waited, and how little the memory of both processes grew:
 *
 *     producer: 2000 blocks from 9 buffers, waited for room 1710 times
 *     rank 0: memory grew by 0.9 MiB while 125.0 MiB went through
 *
 * Rank 0 makes blocks, and rank 1 takes its time over each. The endpoint's send window is WINDOW
 * blocks, and the producer has one buffer more. It sends with UCXX_FLAG_NO_WAIT. If the window is
 * full, the send returns UCXX_ERR_NO_RESOURCE, and the producer asks for a callback when there is
 * room (ucxx_endpoint_on_writable). So memory stays bounded for any number of blocks.
 *
 * The sends are synchronous: they stay in the window until the consumer has received them. Other
 * sends leave the window when the transport has a copy. Then unread messages would fill the memory
 * of the consumer.
 */
#define _XOPEN_SOURCE 700
#include "pair.h"

#include <sys/resource.h>

#define BLOCKS 2000
#define WORDS 8192 /* 64 KiB a block, 125 MiB in all */
#define WINDOW 8
#define BUFFERS (WINDOW + 1)
#define TAG UINT64_C(7)
#define EFFORT 5 /* how much slower the consumer is */

struct block {
  struct producer *producer;
  struct block *next;
  uint64_t words[WORDS];
};

struct producer {
  struct pair pair;
  struct block *free;
  struct block *filled; /* the next block to send: it was made when there was no room */
  uint32_t made, sent, done, stalls;
  struct block blocks[BUFFERS];
};

static uint64_t word_of(uint32_t block, uint32_t at) {
  return ((uint64_t)block << 32 | at) * UINT64_C(0x9e3779b97f4a7c15);
}

/* The largest amount of memory that the process has used, in bytes. */
static uint64_t peak_memory(void) {
  struct rusage usage;
  require(getrusage(RUSAGE_SELF, &usage) == 0, "getrusage works");
  return (uint64_t)usage.ru_maxrss * 1024;
}

static void on_sent(void *arg, ucxx_request_t *request, ucxx_status_t status) {
  struct block *block = arg;
  struct producer *producer = block->producer;
  check_completion(request, status, "a send completed");
  block->next = producer->free;
  producer->free = block;
  producer->done++;
}

static struct block *make_block(struct producer *producer) {
  struct block *block = producer->free;
  /* At most WINDOW sends are in progress, and there is one buffer more. */
  require(block != NULL, "there is a buffer for the block");
  producer->free = block->next;
  for (uint32_t at = 0; at < WORDS; at++) block->words[at] = word_of(producer->made, at);
  producer->made++;
  return block;
}

static void produce(struct producer *producer);

static void on_room(void *arg, ucxx_endpoint_t *endpoint, ucxx_status_t status) {
  (void)endpoint;
  check(status, "the endpoint is writable");
  produce(arg);
}

/* Sends as many blocks as there is room for. */
static void produce(struct producer *producer) {
  while (producer->sent < BLOCKS) {
    if (producer->filled == NULL) producer->filled = make_block(producer);
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    params.flags = UCXX_FLAG_NO_WAIT | UCXX_FLAG_ALWAYS_CALLBACK;
    params.callback = on_sent;
    params.callback_arg = producer->filled;
    ucxx_endpoint_t *endpoint = producer->pair.endpoint;
    ucxx_status_t status = ucxx_tag_send_sync(endpoint, producer->filled->words,
                                              sizeof producer->filled->words, TAG, &params, NULL);
    if (status == UCXX_ERR_NO_RESOURCE) {
      /* Nothing was submitted, so the block stays ours. Each call of ucxx_endpoint_on_writable
       * gives one call of on_room. */
      producer->stalls++;
      check(ucxx_endpoint_on_writable(endpoint, on_room, producer), "asking to be told");
      return;
    }
    if (status != UCXX_INPROGRESS) check(status, "send");
    producer->filled = NULL;
    producer->sent++;
  }
}

static void run_producer(struct producer *producer) {
  for (int i = 0; i < BUFFERS; i++) {
    producer->blocks[i].producer = producer;
    producer->blocks[i].next = producer->free;
    producer->free = &producer->blocks[i];
  }
  produce(producer);
  while (producer->done < BLOCKS)
    check(ucxx_worker_wait(producer->pair.worker, PAIR_TIMEOUT_NS), "waiting for room");
  require(producer->stalls > 0, "the producer is faster");
  printf("producer: %u blocks from %d buffers, waited for room %u times\n", producer->done, BUFFERS,
         producer->stalls);
}

static void run_consumer(struct pair *pair) {
  static uint64_t words[WORDS];
  for (uint32_t block = 0; block < BLOCKS; block++) {
    ucxx_request_t *request = NULL;
    ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
    /* The receive fails if the producer does. */
    params.source = pair->endpoint;
    ucxx_status_t status =
        ucxx_tag_recv(pair->worker, words, sizeof words, TAG, PAIR_ALL_BITS, &params, &request);
    check(outcome(status, request), "receive");
    for (int round = 0; round < EFFORT; round++) {
      uint64_t differences = 0;
      for (uint32_t at = 0; at < WORDS; at++) differences |= words[at] ^ word_of(block, at);
      require(differences == 0, "each block arrives intact and in its turn");
    }
  }
  printf("consumer: %d blocks checked\n", BLOCKS);
}

int main(int argc, char **argv) {
  struct producer *producer = calloc(1, sizeof *producer);
  require(producer != NULL, "memory");
  ucxx_endpoint_params_t params = UCXX_ENDPOINT_PARAMS_INIT;
  params.send_window_ops = WINDOW;
  pair_open_with(&producer->pair, argc, argv, NULL, &params);
  uint64_t before = peak_memory();
  if (producer->pair.rank == 0) {
    run_producer(producer);
  } else {
    run_consumer(&producer->pair);
  }
  uint64_t grown = peak_memory() - before;
  printf("rank %d: memory grew by %.1f MiB while %.1f MiB went through\n", producer->pair.rank,
         (double)grown / (1 << 20), (double)sizeof(uint64_t) * WORDS * BLOCKS / (1 << 20));
  require(grown < sizeof(uint64_t) * WORDS * BLOCKS / 4, "memory stays bounded");
  pair_close(&producer->pair);
  free(producer);
  return 0;
}
