/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) the ucxx_rs developers
 *
 * ring_allreduce.c: every member of a group has a vector, and gets the sum of all vectors.
 *
 *     cc -o ring_allreduce ring_allreduce.c $(pkg-config --cflags --libs ucxx_rs)
 *     ./ring_allreduce [--pmix | --torchrun] [--dies RANK] [FLOATS [ROUNDS]]
 *
 * The environment says who the members are: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
 * UCXX_RS_GROUP_SECRET, or the variables that mpirun, mpiexec and srun set. With --pmix it is the
 * PMIx server of the launcher. With --torchrun rank 0 listens at the port after MASTER_PORT, which
 * torchrun itself uses. On one machine:
 *
 *     export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711
 *     for rank in 0 1 2 3; do RANK=$rank ./ring_allreduce & done; wait
 *
 * Rank 0 prints the time and the rate:
 *
 *     4 members, 1048576 floats each: 10 rounds, every sum is right; 57.786 ms each,
 *     0.109 GB/s sent by each member
 *
 * The vector is cut into as many blocks as there are members. First the blocks go around the ring,
 * and each member adds its own to the one that it passes on (reduce-scatter). After size - 1 steps
 * each member has the sum of one block. Then the sums go around (allgather). Each member sends 2 *
 * (size - 1) / size times its vector, for any size, and only exchanges messages with its two
 * neighbours.
 *
 * If a member dies, the messages of its neighbours fail. They end, then their neighbours, and so
 * on. Each prints which message failed, and exits with an error. --dies shows it.
 */
#define _XOPEN_SOURCE 700
#include <signal.h>
#include <time.h>

#include "conversation.h"

#define DEFAULT_FLOATS (1u << 20)
#define DEFAULT_ROUNDS 10
#define PERIOD 17 /* of the values */

struct ring {
  uint32_t rank, size;
  ucxx_worker_t *worker;
  ucxx_group_t *group;
  ucxx_endpoint_t *next, *previous; /* they belong to the group */
  size_t length;
  float *vector, *arriving;
  /* Counts the messages to the next member. The count is the tag. */
  uint64_t messages;
};

/* Small whole numbers. Their sums are exact in a float, in any order, below 2^24. So the result can
 * be compared with ==. Sums of other numbers depend on the order. */
static float value(uint32_t rank, uint32_t round, size_t at) {
  return (float)((at * 7 + rank * 13 + round * 5) % PERIOD) - 8;
}

/* If the length cannot be divided evenly, blocks differ by one element. Blocks may be empty. */
static size_t block_begin(const struct ring *ring, uint32_t block) {
  return ring->length * block / ring->size;
}

static size_t block_bytes(const struct ring *ring, uint32_t block) {
  return (block_begin(ring, block + 1) - block_begin(ring, block)) * sizeof(float);
}

/* The block `distance` places behind this member's. */
static uint32_t behind(const struct ring *ring, uint32_t distance) {
  return (ring->rank + 2 * ring->size - distance) % ring->size;
}

/* Sends one block to the next member, and receives another one from the previous member. */
static void pass_on(struct ring *ring, uint32_t leaving, uint32_t coming, float *place) {
  ucxx_request_t *receiving = NULL, *sending = NULL;
  ucxx_op_params_t params = UCXX_OP_PARAMS_INIT;
  uint64_t tag = ring->messages++;
  /* Ends the receive if the sender fails. A tag receive belongs to no endpoint otherwise. */
  params.source = ring->previous;
  ucxx_status_t received = ucxx_tag_recv(ring->worker, place, block_bytes(ring, coming), tag,
                                         ALL_BITS, &params, &receiving);
  ucxx_status_t sent = ucxx_tag_send(ring->next, ring->vector + block_begin(ring, leaving),
                                     block_bytes(ring, leaving), tag, NULL, &sending);
  if (outcome(received, receiving) != UCXX_OK || outcome(sent, sending) != UCXX_OK) give_up();
}

static void reduce_scatter(struct ring *ring) {
  for (uint32_t step = 0; step + 1 < ring->size; step++) {
    uint32_t coming = behind(ring, step + 1);
    float *sum = ring->vector + block_begin(ring, coming);
    pass_on(ring, behind(ring, step), coming, ring->arriving);
    for (size_t at = 0; at < block_bytes(ring, coming) / sizeof(float); at++)
      sum[at] += ring->arriving[at];
  }
}

/* Each member begins with the block that it added last. */
static void allgather(struct ring *ring) {
  for (uint32_t step = 0; step + 1 < ring->size; step++) {
    uint32_t coming = behind(ring, step);
    pass_on(ring, behind(ring, step + ring->size - 1), coming,
            ring->vector + block_begin(ring, coming));
  }
}

static bool sums_are_right(const struct ring *ring, uint32_t round) {
  float expected[PERIOD] = {0};
  for (uint32_t rank = 0; rank < ring->size; rank++)
    for (size_t at = 0; at < PERIOD; at++) expected[at] += value(rank, round, at);
  for (size_t at = 0; at < ring->length; at++) {
    if (ring->vector[at] == expected[at % PERIOD]) continue;
    fprintf(stderr, "error: rank %u, round %u, place %zu: %g, and not %g\n", ring->rank, round, at,
            ring->vector[at], expected[at % PERIOD]);
    return false;
  }
  return true;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Returns the seconds that one allreduce took. */
static double run_round(struct ring *ring, uint32_t round, bool dies) {
  for (size_t at = 0; at < ring->length; at++) ring->vector[at] = value(ring->rank, round, at);
  /* All members begin at the same time, so that nobody's time includes the wait for a late
   * member. */
  check(ucxx_group_barrier(ring->group), "barrier");
  double began = now();
  reduce_scatter(ring);
  if (dies) raise(SIGKILL);
  allgather(ring);
  double took = now() - began;
  if (!sums_are_right(ring, round)) give_up();
  return took;
}

/* Checks that all members were started with the same length. */
static void compare_lengths(const struct ring *ring) {
  uint64_t mine = ring->length, *all = calloc(ring->size, sizeof *all);
  if (all == NULL) give_up();
  check(ucxx_group_allgather(ring->group, &mine, sizeof mine, all), "lengths");
  for (uint32_t rank = 0; rank < ring->size; rank++) {
    if (all[rank] == mine) continue;
    fprintf(stderr, "error: rank %u has %" PRIu64 " floats, and rank %u has %" PRIu64 "\n",
            ring->rank, mine, rank, all[rank]);
    give_up();
  }
  free(all);
}

/* `dies` is a rank, or no member's. */
static void run(struct ring *ring, uint32_t rounds, uint32_t dies) {
  double took = 0;
  compare_lengths(ring);
  run_round(ring, 0, false); /* the first one includes connecting */
  for (uint32_t round = 1; round <= rounds; round++)
    took += run_round(ring, round, round == 1 && ring->rank == dies);
  /* A completed send means only that its buffer is free. After the barrier all members have
   * received everything, and none leaves too early. */
  check(ucxx_group_barrier(ring->group), "barrier");
  if (ring->rank != 0) return;
  double sent = 2.0 * (ring->size - 1) / ring->size * (double)ring->length * sizeof(float);
  printf("%u members, %zu floats each: %u rounds, every sum is right; %.3f ms each, %.3f GB/s sent "
         "by each member\n",
         ring->size, ring->length, rounds, took / rounds * 1e3, sent * rounds / took / 1e9);
}

static int usage(const char *program) {
  fprintf(stderr, "usage: %s [--pmix | --torchrun] [--dies RANK] [FLOATS [ROUNDS]]\n", program);
  return 2;
}

/* Returns false if the text is not a number. */
static bool read_number(const char *text, unsigned long long most, unsigned long long *number) {
  char *end = NULL;
  *number = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == '\0' && *number <= most;
}

/* Writes MASTER_ADDR, and the port after MASTER_PORT. Returns false without these variables. */
static bool next_port(char *root, size_t size) {
  const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
  return address != NULL && port != NULL &&
         (size_t)snprintf(root, size, "%s:%d", address, atoi(port) + 1) < size;
}

int main(int argc, char **argv) {
  ucxx_group_params_t params = UCXX_GROUP_PARAMS_INIT;
  char root[300];
  unsigned long long dies = UINT32_MAX, floats = DEFAULT_FLOATS, rounds = DEFAULT_ROUNDS;
  params.bootstrap = UCXX_BOOTSTRAP_ENV;
  int at = 1;
  for (; at < argc && argv[at][0] == '-'; at++) {
    if (strcmp(argv[at], "--pmix") == 0)
      params.bootstrap = UCXX_BOOTSTRAP_PMIX;
    else if (strcmp(argv[at], "--torchrun") == 0 && next_port(root, sizeof root))
      params.root = root;
    else if (strcmp(argv[at], "--dies") != 0 || ++at == argc ||
             !read_number(argv[at], UINT32_MAX, &dies))
      return usage(argv[0]);
  }
  if (at < argc && !read_number(argv[at++], SIZE_MAX / sizeof(float) >> 20, &floats))
    return usage(argv[0]);
  if (at < argc && (!read_number(argv[at++], UINT32_MAX - 1, &rounds) || rounds == 0))
    return usage(argv[0]);
  if (at < argc) return usage(argv[0]);

  struct ring ring = {0};
  ucxx_context_t *context = NULL;
  check(ucxx_context_create(NULL, &context), "context");
  check(ucxx_worker_create(context, NULL, &ring.worker), "worker");
  check(ucxx_group_create(ring.worker, &params, &ring.group), "group");
  ring.rank = ucxx_group_rank(ring.group);
  ring.size = ucxx_group_size(ring.group);
  ring.length = (size_t)floats;
  /* In a ring of one or two members both are the same. */
  check(ucxx_group_endpoint(ring.group, (ring.rank + 1) % ring.size, &ring.next), "endpoint");
  check(ucxx_group_endpoint(ring.group, (ring.rank + ring.size - 1) % ring.size, &ring.previous),
        "endpoint");
  ring.vector = malloc(ring.length * sizeof(float) + 1);
  ring.arriving = malloc((ring.length / ring.size + 1) * sizeof(float));
  if (ring.vector == NULL || ring.arriving == NULL) {
    fprintf(stderr, "error: no memory\n");
    return EXIT_FAILURE;
  }

  run(&ring, (uint32_t)rounds, (uint32_t)dies);

  ucxx_group_destroy(ring.group);
  ucxx_worker_destroy(ring.worker);
  ucxx_context_destroy(context);
  free(ring.vector);
  free(ring.arriving);
  return EXIT_SUCCESS;
}
